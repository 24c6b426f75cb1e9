//! Everyday jobs work in the profile of an ordinary command, without a question.

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

#[test]
fn everyday_jobs_work() {
    let mut wrong = Vec::new();
    let mut done = 0;
    for user in User::all() {
        let backends = backends(*user);
        let of_root = if user.kind() == "root" { JOBS_OF_ROOT } else { &[] };
        for job in JOBS.iter().chain(of_root) {
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
            for backend in &backends {
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
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(done >= 20, "only {done} jobs could run here");
}
