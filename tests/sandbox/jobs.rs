//! Everyday jobs work in the profile of an ordinary command, without a question.
//!
//! Each job runs as some of the users with some of the backends, which `LEFTFOLD_SEED` chooses; with `LEFTFOLD_JOBS=all` as
//! all of them with all backends.

use leftfold_sandbox::Backend;

use crate::confined::{Confined, User, backends, not_run, python};

/// A job. Its line runs with `set -e` in the project.
struct Job {
    name: &'static str,
    /// Programs that some machines do not have, or only for root.
    needs: &'static str,
    line: &'static str,
    /// Whether it works without namespaces: no IP sockets are there, and foreign `/proc`.
    without_namespaces: bool,
}

const fn job(name: &'static str, needs: &'static str, line: &'static str) -> Job {
    Job { name, needs, line, without_namespaces: true }
}

const fn job_in_namespaces(name: &'static str, needs: &'static str, line: &'static str) -> Job {
    Job { name, needs, line, without_namespaces: false }
}

const JOBS: &[Job] = &[
    job(
        "git status, add, commit, diff, log, stash", "git",
        "echo a > a; git add a; git commit -qm one; echo b >> a; git diff | grep -q '^+b'
         git stash -q; git stash pop -q; git status --short | grep -q a; git log --oneline | grep one
         git switch -qc side; git gc -q",
    ),
    job(
        "git worktree and clone", "git",
        "git commit -q --allow-empty -m one; git worktree add -q tree
         cd tree; echo a > a; git add a; git commit -qm two; cd ..; git clone -q . copy",
    ),
    job(
        "cargo build and test offline", "cargo",
        "mkdir -p src; printf '[package]\\nname = \"p\"\\nedition = \"2021\"\\n' > Cargo.toml
         echo '#[test] fn t() { assert!(std::env::temp_dir().exists()); }' > src/lib.rs
         cargo build -q --offline; cargo test -q --offline | grep '1 passed'",
    ),
    job_in_namespaces(
        "cargo test with a socket", "cargo",
        "mkdir -p src; printf '[package]\\nname = \"p\"\\nedition = \"2021\"\\n' > Cargo.toml
         echo '#[test] fn t() { std::net::TcpListener::bind(\"127.0.0.1:0\").unwrap(); }' > src/lib.rs
         cargo test -q --offline | grep '1 passed'",
    ),
    job("cargo fmt", "rustfmt", "printf 'fn  main ( ) { }' > m.rs; rustfmt m.rs; grep -q 'fn main() {}' m.rs"),
    job(
        "python venv", "PYTHON",
        "PYTHON -m venv --without-pip env; env/bin/python -c 'import sys; print(sys.prefix)' | grep env",
    ),
    job(
        "python processes, locks and queues", "PYTHON",
        "cat > p.py <<'END'
import multiprocessing
def twice(x):
    return 2 * x
if __name__ == '__main__':
    context = multiprocessing.get_context('forkserver')
    with context.Pool(2) as pool:
        assert pool.map(twice, [1, 2]) == [2, 4]
    with context.Lock():
        context.Queue().put(1)
END
         PYTHON p.py",
    ),
    job_in_namespaces(
        "python server and client", "PYTHON",
        "cat > p.py <<'END'
import http.server, threading, urllib.request
server = http.server.HTTPServer(('localhost', 0), http.server.SimpleHTTPRequestHandler)
threading.Thread(target=server.serve_forever, daemon=True).start()
assert urllib.request.urlopen(f'http://127.0.0.1:{server.server_port}/p.py').status == 200
END
         PYTHON p.py",
    ),
    job_in_namespaces(
        "node server and client", "node",
        "node -e \"const s = require('http').createServer((q, r) => r.end('hi')).listen(0, '127.0.0.1',
           () => fetch('http://127.0.0.1:' + s.address().port).then(r => r.text())
           .then(t => process.exit(t === 'hi' ? 0 : 1)))\"",
    ),
    job_in_namespaces(
        "python on ::1", "PYTHON",
        "PYTHON -c \"import socket
s = socket.create_server(('::1', 0), family=socket.AF_INET6)
socket.create_connection(s.getsockname()[:2])\"",
    ),
    job(
        "npm run", "npm",
        "echo '{\"scripts\":{\"test\":\"node -e 1\"}}' > package.json
         npm_config_cache=$PWD/.npm npm test --silent",
    ),
    job(
        "make and gcc", "make gcc",
        "printf 'int main() { return 0; }' > m.c; printf 'all: m\\n\\t./m\\n' > Makefile; make -s",
    ),
    job(
        "sqlite with a write-ahead log", "PYTHON",
        "PYTHON -c \"import sqlite3
db = sqlite3.connect('d.db')
assert db.execute('pragma journal_mode=wal').fetchone() == ('wal',)
db.execute('create table t (x)'); db.commit()\"",
    ),
    job(
        "mktemp, a here document and process substitution", "",
        "f=$(mktemp); d=$(mktemp -d); cat > \"$f\" <<< text; grep -q text \"$f\"
         diff <(echo a) <(echo a); echo x > \"$d/x\"; exec 3> f; echo x > /dev/fd/3; test -s f; : > /dev/null",
    ),
    job("/tmp", "", "echo x > \"${TMPDIR:-/tmp}/x\"; test -s \"${TMPDIR:-/tmp}/x\"; rm \"${TMPDIR:-/tmp}/x\""),
    job_in_namespaces(
        "ps and kill of own processes", "ps",
        "sleep 3 & ps -e -o pid= | grep -qw $!; test \"$(ps -e -o pid= | wc -l)\" -lt 10; kill $!
         test \"$(ps -o comm= -p $$)\" = bash; test \"$(readlink /proc/self/exe)\" = \"$(which readlink)\"",
    ),
    job("locale", "locale", "test \"$(printf 'ä' | LC_ALL=C.UTF-8 wc -m)\" = 1; locale | grep -q LANG"),
    job("time zone", "", "test \"$(TZ=Europe/Berlin date -d @0 +%H%Z)\" = 01CET"),
    job("user name", "PYTHON", "test \"$(id -u)\" = USER_ID; whoami; hostname; test ~ = \"$HOME\"; PYTHON -c 'import os, pwd; pwd.getpwuid(os.getuid())'"),
    job(
        "tar, sed, patch and find", "patch tar",
        "echo a > f; tar cf t.tar f; rm f; tar xf t.tar; sed -i s/a/b/ f; grep -q b f
         cp f g; echo c > g; (diff -u f g || true) | patch -s f; cmp f g; find . -name g | grep -q g",
    ),
    job(
        "a terminal", "PYTHON",
        "PYTHON -c \"import os, pty, sys
sys.exit(os.waitstatus_to_exitcode(pty.spawn(['tty', '-s'])))\"",
    ),
    job(
        "shared memory", "PYTHON",
        "PYTHON -c \"from multiprocessing import shared_memory
m = shared_memory.SharedMemory(create=True, size=64); m.close(); m.unlink()\"",
    ),
    job("limits", "", "test \"$(ulimit -c)\" = 0; test \"$(cat /proc/self/oom_score_adj)\" -ge 500"),
    job(
        "git merge, rebase, cherry-pick and revert", "git",
        "echo a > a; git add a; git commit -qm one; git switch -qc side; echo b > b; git add b; git commit -qm two
         git switch -q -; echo c > c; git add c; git commit -qm three; git merge -q --no-edit side
         git switch -qc other HEAD~1; git cherry-pick side > /dev/null; git revert --no-edit HEAD > /dev/null
         git rebase -q side; test -e c",
    ),
    job(
        "git bisect", "git",
        "for n in 1 2 3 4; do echo $n > n; git add n; git commit -qm $n; done
         git bisect start HEAD HEAD~3 > /dev/null; git bisect run sh -c 'test $(cat n) -lt 3' > found; grep -q 'first bad commit' found",
    ),
    job(
        "git with a submodule", "git",
        "git init -q lib; git -C lib commit -q --allow-empty -m one; git add lib 2> /dev/null; git commit -qm one
         git -c protocol.file.allow=always clone -q . copy; git -C copy ls-files --stage | grep -q ^160000
         cd lib; git switch -qc side; git log --oneline | grep -q one",
    ),
    job(
        "git worktrees, listed and removed", "git",
        "git commit -q --allow-empty -m one; git worktree add -q -b side tree; git worktree list | grep -q side
         (cd tree && echo a > a && git add a && git commit -qm two); git worktree remove tree; git merge -q side; test -e a",
    ),
    job(
        "git patches", "git",
        "echo a > a; git add a; git commit -qm one; echo b >> a; git commit -qam two; git format-patch -q -1
         git reset -q --hard HEAD~1; git am -q 0001-two.patch; git diff HEAD~1 > d; git apply -R d; test \"$(cat a)\" = a",
    ),
    job(
        "git tags, archives and blame", "git tar",
        "echo a > a; git add a; git commit -qm one; git tag -a v1 -m v1; git describe | grep -q v1
         git archive HEAD | tar t | grep -q a; git blame a | grep -q a; git grep -q a HEAD",
    ),
    job(
        "git amend, restore, clean and reset", "git",
        "echo a > a; git add a; git commit -qm one; echo b > a; git commit -qa --amend -m two; echo c > a; git restore a
         touch new; git clean -qf new; test ! -e new; git reset -q --soft HEAD; test \"$(cat a)\" = b",
    ),
    job(
        "git with a partial checkout", "git",
        "mkdir -p x y; echo a > x/a; echo b > y/b; git add x y; git commit -qm one
         git clone -q --sparse . part; test ! -e part/x; git -C part log --oneline | grep -q one",
    ),
    job(
        "git with large files", "git git-lfs",
        "lfs=(-c filter.lfs.clean='git-lfs clean -- %f' -c filter.lfs.smudge='git-lfs smudge -- %f'
           -c filter.lfs.process='git-lfs filter-process' -c filter.lfs.required=true)
         echo '*.bin filter=lfs' > .gitattributes; head -c 100000 /dev/zero > a.bin; git \"${lfs[@]}\" add .gitattributes a.bin
         git show :a.bin | grep -q git-lfs",
    ),
    job(
        "a workspace of cargo", "cargo",
        "mkdir -p a/src b/src; printf '[workspace]\\nmembers = [\"a\", \"b\"]\\nresolver = \"3\"\\n' > Cargo.toml
         printf '[package]\nname = \"a\"\nedition = \"2021\"\n' > a/Cargo.toml; echo 'pub fn one() -> u8 { 1 }' > a/src/lib.rs
         printf '[package]\nname = \"b\"\nedition = \"2021\"\n[dependencies]\na = { path = \"../a\" }\n' > b/Cargo.toml
         echo 'fn main() { println!(\"{}\", a::one()); }' > b/src/main.rs; cargo run -q --offline -p b | grep -q 1",
    ),
    job(
        "cargo with a build script, and cargo metadata", "cargo",
        "mkdir -p src; printf '[package]\nname = \"p\"\nedition = \"2021\"\n' > Cargo.toml
         echo 'fn main() { println!(\"cargo::rustc-env=X=built\"); }' > build.rs
         echo 'fn main() { println!(env!(\"X\")); }' > src/main.rs; cargo run -q --offline | grep -q built
         cargo metadata -q --offline --no-deps --format-version 1 | grep -q targets",
    ),
    job(
        "cargo install into the project", "cargo",
        "mkdir -p src; printf '[package]\nname = \"p\"\nedition = \"2021\"\n' > Cargo.toml; echo 'fn main() {}' > src/main.rs
         cargo install -q --offline --debug --path . --root out; out/bin/p",
    ),
    job(
        "npm install of a folder", "npm",
        "mkdir dep; echo '{\"name\":\"dep\",\"version\":\"1.0.0\",\"main\":\"i.js\"}' > dep/package.json
         echo 'module.exports = 7' > dep/i.js; echo '{\"name\":\"p\",\"version\":\"1.0.0\"}' > package.json
         npm_config_cache=$PWD/.npm npm install --offline --silent --no-audit --no-fund ./dep
         node -e 'process.exit(require(\"dep\") === 7 ? 0 : 1)'",
    ),
    job(
        "npm workspaces, pre and post scripts", "npm",
        "mkdir -p packages/a; echo '{\"name\":\"r\",\"private\":true,\"workspaces\":[\"packages/*\"]}' > package.json
         echo '{\"name\":\"a\",\"version\":\"1.0.0\",\"scripts\":{\"pretest\":\"echo 1 > pre\",\"test\":\"node -e 1\"}}' > packages/a/package.json
         export npm_config_cache=$PWD/.npm; npm install --offline --silent --no-audit --no-fund
         npm test --silent -w a; test -e packages/a/pre",
    ),
    job(
        "npm exec of the project's own program", "npm",
        "mkdir -p node_modules/.bin; printf '#!/bin/sh\necho mine\n' > node_modules/.bin/tool; chmod +x node_modules/.bin/tool
         echo '{}' > package.json; npm_config_cache=$PWD/.npm npm exec --offline --no -- tool | grep -q mine",
    ),
    job(
        "npm pack", "npm tar",
        "echo '{\"name\":\"p\",\"version\":\"1.0.0\"}' > package.json; echo 1 > i.js
         npm_config_cache=$PWD/.npm npm pack --silent --offline; tar tf p-1.0.0.tgz package/i.js > o.txt",
    ),
    job(
        "node tests, workers and modules", "node",
        "echo 'export const x = 1' > m.mjs
         echo 'import {test} from \"node:test\"; import {x} from \"./m.mjs\"; import {Worker} from \"node:worker_threads\"
           test(\"t\", () => new Promise((done) => new Worker(\"1\", {eval: true}).on(\"exit\", () => done(x))))' > t.test.mjs
         node --test > out || { cat out; exit 1; }",
    ),
    job(
        "pnpm with a workspace", "pnpm",
        "mkdir a; echo '{\"name\":\"r\",\"private\":true}' > package.json; printf 'packages:\n  - a\n' > pnpm-workspace.yaml
         echo '{\"name\":\"a\",\"version\":\"1.0.0\",\"scripts\":{\"t\":\"node -e 1\"}}' > a/package.json
         pnpm install --offline --silent --store-dir $PWD/.store; pnpm -r --silent run t",
    ),
    job(
        "an active virtual environment in PATH", "PYTHON",
        "PYTHON -m venv --without-pip .venv; . .venv/bin/activate; test \"$(command -v python)\" = \"$PWD/.venv/bin/python\"
         python -c 'import sys; sys.exit(sys.prefix == sys.base_prefix)'; git status --short | grep -q .venv",
    ),
    job(
        "pip install of a folder", "PYTHON",
        "PYTHON -m venv .venv; mkdir pkg; echo 'x = 1' > pkg/m.py
         printf 'from setuptools import setup\nsetup(name=\"pkg\", version=\"1\", py_modules=[\"m\"])\n' > pkg/setup.py
         .venv/bin/python -c 'import setuptools' 2> /dev/null || exit 0
         .venv/bin/pip install -q --no-index --no-build-isolation --no-cache-dir ./pkg; cd /; ~-/.venv/bin/python -c 'import m'",
    ),
    job(
        "uv", "uv",
        "export UV_CACHE_DIR=$PWD/.uv UV_OFFLINE=1 UV_PYTHON_DOWNLOADS=never; uv venv -q .venv; uv pip list -q
         printf '[project]\nname = \"p\"\nversion = \"1\"\n' > pyproject.toml; uv lock -q; uv run -q python -c 'print(1)' | grep -q 1",
    ),
    job(
        "python tests, subprocesses and archives", "PYTHON",
        "mkdir tests; touch tests/__init__.py; cat > tests/test_a.py <<'END'
import asyncio, unittest
class A(unittest.TestCase):
    def test_a(self):
        async def run():
            return await (await asyncio.create_subprocess_exec('true')).wait()
        self.assertEqual(asyncio.run(run()), 0)
END
         PYTHON -m unittest -q 2> /dev/null; PYTHON -m compileall -q tests
         mkdir app; echo 'print(7)' > app/__main__.py; PYTHON -m zipapp app; PYTHON app.pyz | grep -q 7",
    ),
    job(
        "a Unix socket in the project", "PYTHON",
        "PYTHON -c \"import socket
s = socket.socket(socket.AF_UNIX); s.bind('s'); s.listen()
c = socket.socket(socket.AF_UNIX); c.connect('s'); s.accept()\"",
    ),
    job(
        "go build and test", "go",
        "export GOCACHE=$PWD/.go GOPATH=$PWD/.gopath GOFLAGS=-mod=mod GOTOOLCHAIN=local; go mod init x/p 2> /dev/null
         printf 'package main\nfunc main() { println(one()) }\nfunc one() int { return 1 }\n' > m.go
         printf 'package main\nimport \"testing\"\nfunc TestOne(t *testing.T) { if one() != 1 { t.Fail() } }\n' > m_test.go
         go build -o p .; ./p; go test ./... | grep -q ok; go vet ./...",
    ),
    job(
        "make with jobs and below another", "make",
        "mkdir sub; printf 'all: a b\n\t$(MAKE) -s -C sub\na b:\n\ttouch $@\n' > Makefile
         printf 'all:\n\ttouch c\n' > sub/Makefile; make -s -j4; test -e a -a -e b -a -e sub/c",
    ),
    job(
        "shared libraries", "gcc",
        "echo 'int one(void) { return 1; }' > l.c; gcc -shared -fPIC -o libl.so l.c
         echo 'int one(void); int main(void) { return one() - 1; }' > m.c; gcc -o m m.c -L. -ll; LD_LIBRARY_PATH=. ./m",
    ),
    job("C++", "g++", "printf '#include <vector>\\nint main() { return std::vector<int>{0}[0]; }\\n' > m.cc; g++ -O1 -o m m.cc; ./m"),
    job("java", "javac", "echo 'class M { public static void main(String[] a) { System.out.println(1); } }' > M.java; javac M.java; java -cp . M | grep -q 1"),
    job("perl tests", "perl", "echo 'use Test::More tests => 1; ok(1);' > t.t; perl t.t | grep -q '^ok 1'"),
    job(
        "a monorepo of several languages", "make PYTHON node",
        "mkdir -p web api; echo 'console.log(1)' > web/i.js; echo 'print(2)' > api/m.py
         printf 'all: web api\n.PHONY: web api\nweb:\n\tnode web/i.js > web/out\napi:\n\tPYTHON api/m.py > api/out\n' > Makefile
         make -s -j2; test \"$(cat web/out api/out | tr -d '\\n')\" = 12",
    ),
    job(
        "direnv", "direnv",
        "echo 'export X=1' > .envrc; export XDG_DATA_HOME=$PWD/.data; direnv allow .; direnv exec . sh -c 'test $X = 1'",
    ),
    job("a database on the command line", "sqlite3", "sqlite3 d.db 'create table t (x); insert into t values (1)'; sqlite3 d.db 'select x from t' | grep -q 1"),
    job("JSON on the command line", "jq", "echo '{\"a\":[1,2]}' > a.json; jq -e '.a | add == 3' a.json > /dev/null; jq '.a[0] = 5' a.json > b.json; grep -q 5 b.json"),
    job(
        "archives", "zip unzip gzip xz",
        "echo a > a; zip -q a.zip a; unzip -p a.zip | grep -q a; gzip -k a; gunzip -c a.gz | grep -q a; xz -k a; xz -dc a.xz | grep -q a",
    ),
    job(
        "keys and certificates of the project", "openssl ssh-keygen",
        "openssl req -x509 -newkey rsa:2048 -nodes -subj /CN=x -keyout k.pem -out c.pem 2> /dev/null; openssl x509 -in c.pem -noout
         ssh-keygen -q -t ed25519 -N '' -f id; ssh-keygen -lf id.pub > /dev/null",
    ),
    job_in_namespaces(
        "a server in the background", "PYTHON curl",
        "echo hi > i; PYTHON -m http.server --bind 127.0.0.1 8123 > log 2>&1 & pid=$!
         for n in $(seq 50); do curl -sf http://127.0.0.1:8123/i > got && break; sleep 0.1; done; kill $pid; grep -q hi got",
    ),
    job(
        "locks, pipes with names and time limits", "flock timeout mkfifo",
        "flock l true; mkfifo p; echo a > p & grep -q a p; wait; timeout 0.2 sleep 5 || test $? = 124
         trap 'echo ended > e' EXIT; seq 8 | xargs -P 4 -I N touch fN; ls f* | wc -l | grep -q 8",
    ),
    job(
        "scripts, links and names", "",
        "printf '#!/usr/bin/env bash\necho $0\n' > './a b ä'; chmod +x './a b ä'; './a b ä' | grep -q ä
         ln -s 'a b ä' l; ln 'a b ä' h; test \"$(stat -c %h h)\" = 2; ./l > /dev/null; truncate -s 1G big; rm big",
    ),
];

/// Jobs of root alone.
const JOBS_OF_ROOT: &[Job] = &[job(
    "tar with foreign owners",
    "tar",
    "echo a > f; chown 1234:1234 f; tar cf t.tar f; rm f; tar xf t.tar
         test \"$(stat -c %u f)\" = 1234; echo b >> f",
)];

const SETTINGS: &str = "export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b GIT_COMMITTER_NAME=a \
                        GIT_COMMITTER_EMAIL=a@b GIT_CONFIG_NOSYSTEM=1\nset -e -o pipefail\n";

/// One in so many combinations of a job, a user and a backend is tried.
const SAMPLED: usize = 8;

#[test]
fn everyday_jobs_work() {
    let mut wrong = Vec::new();
    let mut done = 0;
    let all = std::env::var("LEFTFOLD_JOBS").is_ok_and(|jobs| jobs == "all");
    let (mut first, seed) = (0, common::number("LEFTFOLD_SEED", 1));
    for user in User::all() {
        let backends = backends(*user);
        let of_root = if user.kind() == "root" { JOBS_OF_ROOT } else { &[] };
        for (at, job) in JOBS.iter().chain(of_root).enumerate() {
            let is_chosen =
                |which: &usize| all || (seed + at + first + which).is_multiple_of(SAMPLED);
            let chosen: Vec<usize> = (0..backends.len()).filter(is_chosen).collect();
            if chosen.is_empty() {
                continue;
            }
            let site = Confined::new(*user);
            let line = job.line.replace("PYTHON", python()).replace("USER_ID", &site.user_id());
            let line = format!("{SETTINGS}{line}");
            let needs = job.needs.replace("PYTHON", python());
            let missing = format!("for p in {needs}; do command -v $p >/dev/null || echo $p; done");
            let missing = site.unconfined(&missing).output().unwrap().stdout;
            if !missing.is_empty() {
                let missing = String::from_utf8(missing).unwrap();
                not_run(&format!("{} as {}", job.name, user.kind()), missing.trim());
                continue;
            }
            for backend in chosen.into_iter().map(|which| &backends[which]) {
                let site = Confined::new(*user);
                let ran = site.run(&site.profile(*backend), &line);
                let works = ran.report.code == Some(0);
                let expected = match backend {
                    Backend::Namespaces | Backend::Bwrap => true,
                    Backend::NamespacesSharedProc | Backend::Landlock | Backend::Seatbelt => {
                        job.without_namespaces
                    }
                };
                done += 1;
                if works != expected {
                    wrong.push(format!("{} {backend:?} as {}: {ran:#?}", job.name, user.kind()));
                }
            }
        }
        first += backends.len();
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(done >= 20, "only {done} jobs could run here");
}
