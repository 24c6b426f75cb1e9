//! Everyday jobs that need something of the home folder: they work in the sandbox of the program, without a question.

use common::{Site, all, bash, says, script};
use serde_json::{Value, json};

use crate::confined::{not_run, python};

/// A job: programs that some machines do not have; lines that prepare the home folder, outside of the sandbox; and the
/// line of the model. Both begin in the job's own folder of the project.
struct Job {
    name: &'static str,
    needs: &'static str,
    before: &'static str,
    line: &'static str,
}

const fn job(
    name: &'static str,
    needs: &'static str,
    before: &'static str,
    line: &'static str,
) -> Job {
    Job { name, needs, before, line }
}

const JOBS: &[Job] = &[
    job("an alias of git", "git", "git config --global alias.st 'status --short'; git init -q", "echo x > a; git st | grep -q a"),
    job(
        "settings that git includes", "git",
        "mkdir -p ~/.private; printf '[demo]\n\tx = included\n' > ~/.private/git; git config --global include.path '~/.private/git'",
        "test \"$(git config demo.x)\" = included",
    ),
    job(
        "settings of git for some folders", "git",
        "printf '[demo]\n\ty = here\n' > ~/.gitconfig-work; git config --global \"includeIf.gitdir:$PWD/.path\" '~/.gitconfig-work'; git init -q",
        "test \"$(git config demo.y)\" = here",
    ),
    job(
        "ignored files of all repositories", "git",
        "mkdir -p ~/.config/git; echo '*.log' > ~/.config/git/ignore; git init -q",
        "touch x.log; test -z \"$(git status --short)\"",
    ),
    job(
        "a template of repositories", "git",
        "mkdir -p ~/.git-templates/info; echo marked > ~/.git-templates/info/exclude
         git config --global init.templateDir '~/.git-templates'",
        "git init -q new; grep -q marked new/.git/info/exclude",
    ),
    job(
        "hooks of the user's", "git",
        "mkdir -p ~/.githooks; printf '#!/bin/sh\necho ran > hook-ran\n' > ~/.githooks/post-commit; chmod +x ~/.githooks/post-commit
         git init -q; git config core.hooksPath '~/.githooks'",
        "git -c user.name=a -c user.email=a@b commit -q --allow-empty -m one; test -e hook-ran",
    ),
    job(
        "attributes of the user's", "git",
        "echo '*.x diff=odd' > ~/.gitattributes_global; git config --global core.attributesFile '~/.gitattributes_global'; git init -q",
        "git check-attr diff a.x | grep -q odd",
    ),
    job(
        "the template of a message", "git",
        "echo 'Short line' > ~/.gitmessage; git config --global commit.template '~/.gitmessage'; git init -q",
        "test \"$(git config --type=path commit.template)\" != ''; git status --short",
    ),
    job("the user's name in a commit", "git", "git config --global user.name Ada; git config --global user.email a@b; git init -q", "git commit -q --allow-empty -m one; git log --format=%an | grep -q Ada"),
    job(
        "ignored files in a file of the user's", "git",
        "echo '*.tmp' > ~/.my-excludes; git config --global core.excludesFile '~/.my-excludes'; git init -q",
        "touch x.tmp; git check-ignore -q x.tmp",
    ),
    job(
        "an alias of cargo", "cargo",
        "mkdir -p ~/.cargo src; printf '[alias]\nbuild-it = \"build --offline -q\"\n' >> ~/.cargo/config.toml
         printf '[package]\nname = \"p\"\nedition = \"2021\"\n' > Cargo.toml; echo 'fn main() {}' > src/main.rs",
        "cargo build-it; test -x target/debug/p",
    ),
    job(
        "crates from the folder of cargo", "cargo",
        "mkdir -p ~/.cargo/vendor/dep/src src; printf '[package]\nname = \"dep\"\nversion = \"1.0.0\"\nedition = \"2021\"\n' > ~/.cargo/vendor/dep/Cargo.toml
         echo 'pub fn one() -> u8 { 1 }' > ~/.cargo/vendor/dep/src/lib.rs; echo '{\"files\":{}}' > ~/.cargo/vendor/dep/.cargo-checksum.json
         printf '[source.crates-io]\nreplace-with = \"mine\"\n[source.mine]\ndirectory = \"%s/.cargo/vendor\"\n' \"$HOME\" >> ~/.cargo/config.toml
         printf '[package]\nname = \"p\"\nedition = \"2021\"\n[dependencies]\ndep = \"1\"\n' > Cargo.toml
         echo 'fn main() { println!(\"{}\", dep::one()); }' > src/main.rs; echo token > ~/.cargo/credentials.toml",
        "cargo run -q --offline | grep -q 1",
    ),
    job(
        "a subcommand of cargo", "cargo",
        "mkdir -p ~/.cargo/bin; printf '#!/bin/sh\necho mine\n' > ~/.cargo/bin/cargo-mine; chmod +x ~/.cargo/bin/cargo-mine",
        "cargo mine | grep -q mine",
    ),
    job(
        "the user's style of Rust", "rustfmt",
        "mkdir -p ~/.config/rustfmt; echo 'hard_tabs = true' > ~/.config/rustfmt/rustfmt.toml; printf 'fn main() {\n    let _ = 1;\n}\n' > m.rs",
        "rustfmt m.rs; grep -q \"$(printf '\\t')let\" m.rs",
    ),
    job("settings of npm", "npm", "echo 'init-license=MINE' > ~/.npmrc", "test \"$(npm config get init-license)\" = MINE"),
    job(
        "packages from the cache of npm", "npm tar",
        "mkdir -p dep; echo '{\"name\":\"dep\",\"version\":\"1.0.0\"}' > dep/package.json; echo 'module.exports = 7' > dep/index.js
         (cd dep && npm pack --silent > ../name); npm cache add \"./dep/$(cat name)\" > /dev/null; echo '{}' > package.json",
        "npm install --offline --silent --no-audit --no-fund ./dep/dep-1.0.0.tgz; node -e 'process.exit(require(\"dep\") === 7 ? 0 : 1)'",
    ),
    job(
        "programs that npm has installed for the user", "node",
        "mkdir -p ~/.npm-global/bin ~/.npm-global/lib/node_modules/tool; echo 'console.log(42)' > ~/.npm-global/lib/node_modules/tool/i.js
         printf '#!/bin/sh\nexec node \"$(dirname \"$(readlink -f \"$0\")\")/../lib/node_modules/tool/i.js\"\n' > ~/.npm-global/bin/tool-n; chmod +x ~/.npm-global/bin/tool-n",
        "tool-n | grep -q 42",
    ),
    job(
        "a version of Node that nvm has installed", "",
        "mkdir -p ~/.nvm/versions/node/v1/bin; printf '#!/bin/sh\necho v1\n' > ~/.nvm/versions/node/v1/bin/node-one; chmod +x ~/.nvm/versions/node/v1/bin/node-one",
        "test \"$(node-one)\" = v1",
    ),
    job("modules of the user's for Node", "node", "mkdir -p ~/.node_modules/mine; echo 'module.exports = 5' > ~/.node_modules/mine/index.js", "node -e 'process.exit(require(\"mine\") === 5 ? 0 : 1)'"),
    job("modules in a folder that a variable names", "node", "mkdir -p ~/.my-modules/yours; echo 'module.exports = 6' > ~/.my-modules/yours/index.js", "node -e 'process.exit(require(\"yours\") === 6 ? 0 : 1)'"),
    job(
        "settings that a tool looks for in each folder above", "node",
        "echo '{\"root\":1}' > ~/.eslintrc.json; echo 'root = true' > ~/.editorconfig
         printf 'const fs = require(\"fs\"), path = require(\"path\");\nlet at = path.join(process.env.HOME, \"code\"), found = [];\nfor (;;) { for (const name of [\".eslintrc.json\", \".editorconfig\", \".prettierrc\", \".browserslistrc\"]) { const f = path.join(at, name); if (fs.existsSync(f)) found.push(fs.readFileSync(f, \"utf8\")); }\nif (at === path.dirname(at)) break; at = path.dirname(at); }\nprocess.exit(found.length >= 2 ? 0 : 1);\n' > search.js",
        "node search.js",
    ),
    job("settings of pip", "PYTHON", "mkdir -p ~/.config/pip; printf '[global]\ntimeout = 77\n' > ~/.config/pip/pip.conf", "PYTHON -c 'import pip' 2> /dev/null || exit 0; PYTHON -m pip config list | grep -q 77"),
    job(
        "packages of the user's for Python", "PYTHON",
        "d=$(PYTHON -c 'import site; print(site.getusersitepackages())'); mkdir -p \"$d\"; echo 'x = 3' > \"$d/of_user.py\"",
        "PYTHON -c 'import of_user, sys; sys.exit(of_user.x != 3)'",
    ),
    job(
        "a version of Python that pyenv has installed", "",
        "mkdir -p ~/.pyenv/shims ~/.pyenv/versions/3/bin; printf '#!/bin/sh\nexec \"$HOME/.pyenv/versions/3/bin/py-three\"\n' > ~/.pyenv/shims/py-three
         printf '#!/bin/sh\necho three\n' > ~/.pyenv/versions/3/bin/py-three; chmod +x ~/.pyenv/shims/py-three ~/.pyenv/versions/3/bin/py-three",
        "test \"$(py-three)\" = three",
    ),
    job("a virtual environment in the home folder", "PYTHON", "PYTHON -m venv --without-pip ~/.virtualenvs/p; mkdir -p ~/.virtualenvs/bin
         printf '#!/bin/sh\nexec ~/.virtualenvs/p/bin/python \"$@\"\n' > ~/.virtualenvs/bin/v-python; chmod +x ~/.virtualenvs/bin/v-python", "v-python -c 'import sys; sys.exit(sys.prefix == sys.base_prefix)'"),
    job(
        "settings of npm that hold a key, which it does without", "npm",
        "printf 'fund=false\n//localhost:1/:_authToken=PRIVATE\n' > ~/.npmrc; echo '{\"scripts\":{\"test\":\"node -e 1\"}}' > package.json",
        "npm test --silent",
    ),
    job(
        "a program of pipx", "",
        "mkdir -p ~/.local/pipx/venvs/t/bin ~/.local/bin; printf '#!/bin/sh\necho pipx\n' > ~/.local/pipx/venvs/t/bin/t-pipx; chmod +x ~/.local/pipx/venvs/t/bin/t-pipx
         ln -sf ../pipx/venvs/t/bin/t-pipx ~/.local/bin/t-pipx",
        "test \"$(t-pipx)\" = pipx",
    ),
    job(
        "a program of uv", "",
        "mkdir -p ~/.local/share/uv/tools/t/bin; printf '#!/bin/sh\necho uv\n' > ~/.local/share/uv/tools/t/bin/t-uv; chmod +x ~/.local/share/uv/tools/t/bin/t-uv
         ln -sf \"$HOME/.local/share/uv/tools/t/bin/t-uv\" ~/.local/bin/t-uv",
        "test \"$(t-uv)\" = uv",
    ),
    job(
        "a program that nobody knows, with its files", "",
        "mkdir -p ~/.local/share/odd/bin ~/.local/odd2/bin; echo data > ~/.local/share/odd/data
         printf '#!/bin/sh\ncat \"$(dirname \"$(readlink -f \"$0\")\")/../data\"\n' > ~/.local/share/odd/bin/t-odd; cp ~/.local/share/odd/bin/t-odd ~/.local/odd2/bin/t-odd2
         echo data > ~/.local/odd2/data; chmod +x ~/.local/share/odd/bin/t-odd ~/.local/odd2/bin/t-odd2
         ln -sf ../share/odd/bin/t-odd ~/.local/bin/t-odd; ln -sf ../odd2/bin/t-odd2 ~/.local/bin/t-odd2",
        "test \"$(t-odd) $(t-odd2)\" = 'data data'",
    ),
    job("a folder of programs that nobody knows", "", "mkdir -p ~/.odd/bin; printf '#!/bin/sh\necho odd\n' > ~/.odd/bin/in-odd; chmod +x ~/.odd/bin/in-odd", "test \"$(in-odd)\" = odd"),
    job(
        "shims of asdf, rbenv and volta", "",
        "for d in .asdf/shims .rbenv/shims .volta/bin; do mkdir -p ~/$d; printf '#!/bin/sh\necho shim\n' > ~/$d/t-shim; chmod +x ~/$d/t-shim; done",
        "test \"$(t-shim)\" = shim",
    ),
    job(
        "modules of Go", "",
        "mkdir -p ~/go/pkg/mod/x@v1 ~/.config/go; echo 'module x' > ~/go/pkg/mod/x@v1/go.mod; echo GOFLAGS=-mod=mod > ~/.config/go/env
         printf 'cat \"$HOME/go/pkg/mod/x@v1/go.mod\" \"$HOME/.config/go/env\" > out\n' > like-go.sh",
        "sh like-go.sh; grep -q GOFLAGS out",
    ),
    job(
        "the repository of Maven", "mvn",
        "mkdir -p ~/.m2/repository; echo '<settings><offline>true</offline></settings>' > ~/.m2/settings.xml
         mkdir .mvn; printf -- '-s\n%s/.m2/settings.xml\n-Dmaven.repo.local=%s/.m2/repository\n' \"$HOME\" \"$HOME\" > .mvn/maven.config
         echo '<project><modelVersion>4.0.0</modelVersion><groupId>g</groupId><artifactId>a</artifactId><version>1</version><packaging>pom</packaging></project>' > pom.xml",
        "mvn -q -o validate",
    ),
    job(
        "artifacts of Gradle", "",
        "mkdir -p ~/.gradle/caches/modules-2 ~/.gradle/init.d; echo jar > ~/.gradle/caches/modules-2/x.jar; echo x=1 > ~/.gradle/gradle.properties
         printf 'cat ~/.gradle/caches/modules-2/x.jar > out; test -d ~/.gradle/init.d; test ! -f ~/.gradle/gradle.properties\n' > like-gradle.sh",
        "sh -e like-gradle.sh; grep -q jar out",
    ),
    job("a login shell", "", "echo 'FROM_PROFILE=yes' > ~/.profile; echo '. ~/.profile' > ~/.bash_profile", "bash -lc 'test \"$FROM_PROFILE\" = yes'"),
    job("a login shell whose settings hold a key", "", "echo 'export MY_API_KEY=PRIVATE' > ~/.bash_login", "bash -lc 'exit 0'"),
    job("an interactive shell", "", "echo 'alias hi=\"echo hi\"' > ~/.bashrc", "bash -ic 'echo hi' 2> /dev/null | grep -q hi"),
    job("vim as a filter", "vim", "echo 'set nocompatible' > ~/.vimrc; echo x > ~/.viminfo; echo a > f; echo \"vim -es -u ~/.vimrc -c '%s/a/b/' -c wq f\" > v.sh", "sh v.sh; grep -q b f"),
    job("curl with the user's settings", "curl", "echo 'silent' > ~/.curlrc; echo hi > f; echo \"curl file://$PWD/f > out\" > c.sh", "sh c.sh; grep -q hi out"),
    job("SQLite with the user's settings", "sqlite3", "echo '.headers on' > ~/.sqliterc; echo x > ~/.sqlite_history", "sqlite3 d.db 'select 6 * 7' | grep -q 42"),
    job("jq with the user's functions", "jq", "echo 'def seven: 7;' > ~/.jq", "jq -n seven | grep -q 7"),
    job("java and its preferences", "javac", "mkdir -p ~/.java/.userPrefs; echo 'class M { public static void main(String[] a) { System.out.print(System.getProperty(\"user.home\")); } }' > M.java", "javac M.java; java -cp . M | grep -q ."),
    job("a terminal of the user's", "tic tput", "printf 'odd-term|x,\\n\\tcols#77,\\n' > t; tic -o ~/.terminfo t", "test \"$(tput -T odd-term cols)\" = 77"),
    job("caches that programs make anew", "", "mkdir -p ~/.cache/tool; echo old > ~/.cache/tool/x", "printf 'mkdir -p ~/.cache/new; cat ~/.cache/tool/x > ~/.cache/new/y; grep -q old ~/.cache/new/y\\n' > t.sh; sh -e t.sh"),
];

/// Folders of programs in the home folder, before those of the machine.
const PROGRAMS: &[&str] = &[
    ".asdf/shims", ".cargo/bin", ".local/bin", ".npm-global/bin", ".nvm/versions/node/v1/bin",
    ".odd/bin", ".pyenv/shims", ".virtualenvs/bin",
];

/// Runs these jobs in one session with one home folder, and returns what went wrong.
fn run(jobs: &[(usize, &Job)]) -> Vec<String> {
    let folder = |at: usize| format!("job{at}");
    let replies = jobs.iter().map(|(at, job)| {
        let line = job.line.replace("PYTHON", python());
        bash(&format!("cd {} && set -e && {line}", folder(*at)))
    });
    let replies: Vec<Value> = replies.chain([says("Done.")]).collect();
    let site = Site::scripted(&script(json!(replies))).sandboxed();
    let home = site.path("user");
    let path = PROGRAMS.iter().map(|name| home.join(name));
    let machine = std::env::var_os("PATH").unwrap();
    let path = std::env::join_paths(path.chain(std::env::split_paths(&machine))).unwrap();
    let toolchains = std::env::var("RUSTUP_HOME")
        .unwrap_or_else(|_| format!("{}/.rustup", std::env::var("HOME").unwrap_or_default()));
    let site = site
        .env("PATH", path.to_str().unwrap())
        .env("RUSTUP_HOME", toolchains)
        .env("NODE_PATH", home.join(".my-modules").display().to_string())
        .env("XDG_CONFIG_HOME", home.join(".config").display().to_string());
    let mut wrong = Vec::new();
    for (at, job) in jobs {
        let before = job.before.replace("PYTHON", python());
        let inner = site.command(&[]);
        let mut command = std::process::Command::new("bash");
        command.args(["-c", &format!("set -e; mkdir -p {0}; cd {0}; {before}", folder(*at))]);
        command.env_clear().current_dir(site.project());
        command.envs(inner.get_envs().filter_map(|(name, value)| Some((name, value?))));
        let output = command.output().unwrap();
        if !output.status.success() {
            wrong.push(format!("{}: not prepared: {output:?}", job.name));
        }
    }
    let ran = site.prompt("go").ok();
    let events = ran.events();
    for event in all(&events, "permission.ruled") {
        if event["data"]["action"] != "allow" {
            wrong.push(format!("a question: {event}"));
        }
    }
    let results = all(&events, "tool.finished");
    for result in results.iter().map(|result| &result["data"]) {
        if result["metadata"]["exit"] != 0 {
            wrong.push(result.to_string());
        }
    }
    if results.len() != jobs.len() {
        wrong.push(format!("{} of {} jobs ran: {}", results.len(), jobs.len(), ran.stderr));
    }
    wrong
}

#[test]
fn everyday_jobs_find_what_they_need_in_the_home_folder() {
    let is_there = |program: &str| {
        let found = std::process::Command::new("sh")
            .args(["-c", &format!("command -v {program}")])
            .output();
        found.unwrap().status.success()
    };
    let mut found = Vec::new();
    for (at, job) in JOBS.iter().enumerate() {
        let needs = job.needs.replace("PYTHON", python());
        match needs.split_whitespace().find(|program| !is_there(program)) {
            Some(missing) => not_run(job.name, missing),
            None => found.push((at, job)),
        }
    }
    // settings of one job must not confuse the next
    let wrong: Vec<String> = found.chunks(6).flat_map(run).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(found.len() >= 20, "only {} jobs could run here", found.len());
}
