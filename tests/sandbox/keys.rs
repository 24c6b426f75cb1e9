//! Keys of the user: commands do not see them, whatever program made them, and tools still find what they need in the home
//! folder, without a question.

use std::path::Path;

use common::{Site, all, bash, call, only, says, script};
use serde_json::{Value, json};

use crate::confined::{has_bwrap, not_run};

/// The text of each file with a key.
const KEY: &str = "PRIVATE-0123456789";

/// Files in the home folder that no command sees. Most programs with keys are named nowhere.
const HIDDEN: &[&str] = &[
    ".age/key.txt",
    ".android/adbkey",
    ".ansible/vault",
    ".aws/credentials",
    ".azure/token.json",
    ".bash_history",
    ".boto",
    ".cache/huggingface/token",
    ".cargo/credentials.toml",
    ".claude.json",
    ".codex/auth.json",
    ".composer/auth.json",
    ".conan2/credentials.json",
    ".config/a-tool-of-tomorrow/token",
    ".config/Bitwarden/data.json",
    ".config/Code/User/globalStorage/state.vscdb",
    ".config/composer/auth.json",
    ".config/containers/auth.json",
    ".config/doctl/config.yaml",
    ".config/gcloud/credentials.db",
    ".config/gh/hosts.yml",
    ".config/git/credentials",
    ".config/github-copilot/apps.json",
    ".config/glab-cli/config.yml",
    ".config/keepassxc/keepassxc.ini",
    ".config/leftfold/auth.json",
    ".config/microsoft-edge/Cookies",
    ".config/op/config",
    ".config/pypoetry/auth.toml",
    ".config/rclone/rclone.conf",
    ".config/Signal/config.json",
    ".config/solana/id.json",
    ".config/vivaldi/Cookies",
    ".continue/config.json",
    ".copilot/config.json",
    ".cursor/mcp.json",
    ".databrickscfg",
    ".docker/config.json",
    ".electrum/wallet",
    ".env",
    ".fly/config.yml",
    ".gem/credentials",
    ".gemini/oauth_creds.json",
    ".git-credentials",
    ".gnupg/private-keys-v1.d/k.key",
    ".gradle/gradle.properties",
    ".huggingface/token",
    ".influxdbv2/configs",
    ".ivy2/.credentials",
    ".kaggle/kaggle.json",
    ".kube/config",
    ".local/share/amp/secrets.json",
    ".local/share/fish/fish_history",
    ".local/share/goose/sessions",
    ".local/share/keyrings/login.keyring",
    ".local/share/kwalletd/kdewallet.kwl",
    ".local/share/opencode/auth.json",
    ".local/share/TelegramDesktop/key",
    ".local/share/uv/credentials/c.toml",
    ".local/state/wireplumber/x",
    ".m2/settings-security.xml",
    ".mozilla/firefox/logins.json",
    ".my.cnf",
    ".mysql_history",
    ".netrc",
    ".npm/_logs/x.log",
    ".oci/config",
    ".password-store/x.gpg",
    ".pgpass",
    ".psql_history",
    ".pulumi/credentials.json",
    ".pypirc",
    ".python_history",
    ".s3cfg",
    ".snowsql/config",
    ".some-tool-that-nobody-knows/token",
    ".sometoolrc",
    ".ssh/id_ed25519",
    ".terraform.d/credentials.tfrc.json",
    ".terraformrc",
    ".thunderbird/key4.db",
    ".var/app/org.mozilla.firefox/cookies",
    ".vault-token",
    ".viminfo",
    ".zsh_history",
    "snap/firefox/common/cookies",
];

/// Settings of tools that hold a key, and their text.
const WITH_KEYS: &[(&str, &str)] = &[
    (".bashrc", "export OPENAI_API_KEY=PRIVATE-0123456789"),
    (".bundle/config", "BUNDLE_GEMS__EXAMPLE__COM: \"PRIVATE-0123456789\""),
    (".claude/settings.json", "{\"env\": {\"TOKEN\": \"PRIVATE-0123456789\"}}"),
    (".config/fish/config.fish", "set -gx GITHUB_TOKEN PRIVATE-0123456789"),
    (".config/pip/pip.conf", "index-url = https://me:PRIVATE-0123456789@example.com/simple"),
    (
        ".m2/settings.xml",
        "<settings><servers><server><password>PRIVATE-0123456789</password></server></servers></settings>",
    ),
    (".npmrc", "//registry.example.com/:_authToken=PRIVATE-0123456789"),
    (".nuget/NuGet/NuGet.Config", "<packageSourceCredentials>PRIVATE-0123456789"),
    (".yarnrc.yml", "npmAuthToken: PRIVATE-0123456789"),
    (".zshenv", "typeset -x DB_PASSWORD=\"PRIVATE-0123456789\""),
];

/// Files that tools need.
const VISIBLE: &[&str] = &[
    ".asdf/shims/x", ".bash_profile", ".bun/bin/x", ".cache/pip/x", ".cargo/config.toml",
    ".cargo/registry/x", ".condarc", ".config/direnv/direnv.toml", ".config/git/config",
    ".config/git/ignore", ".config/go/env", ".config/ruff/ruff.toml", ".config/uv/uv.toml",
    ".curlrc", ".deno/bin/deno", ".editorconfig", ".eslintrc.json", ".gem/ruby/x", ".gitconfig",
    ".gitignore_global", ".gradle/caches/x", ".local/bin/x",
    ".local/lib/python3.12/site-packages/x", ".local/share/mise/installs/x", ".local/share/pnpm/x",
    ".local/share/uv/python/x", ".m2/repository/x", ".npm/_cacache/x", ".nvm/nvm.sh", ".profile",
    ".pyenv/shims/x", ".rbenv/shims/x", ".rustup/settings.toml", ".sdkman/bin/x",
    ".ssh/known_hosts", ".tool-versions", ".volta/bin/x", ".yarn/berry/cache/x", "code/notes.txt",
    "go/pkg/mod/x",
];

/// Variables, the files and folders that only they name, and the file with the key.
const BY_VARIABLE: &[(&str, &str, &str)] = &[
    ("AWS_SHARED_CREDENTIALS_FILE", "elsewhere/aws", "elsewhere/aws"),
    ("DOCKER_CONFIG", "elsewhere/docker", "elsewhere/docker/config.json"),
    ("GNUPGHOME", "elsewhere/gnupg/", "elsewhere/gnupg/private-keys-v1.d/key"),
    ("GOOGLE_APPLICATION_CREDENTIALS", "elsewhere/google.json", "elsewhere/google.json"),
    ("KUBECONFIG", "elsewhere/kube", "elsewhere/kube"),
    ("MY_OWN_API_TOKEN_FILE", "elsewhere/token", "elsewhere/token"),
    ("NETRC", "elsewhere/netrc", "elsewhere/netrc"),
    ("PGPASSFILE", "elsewhere/pgpass", "elsewhere/pgpass"),
];

fn put(path: &Path, text: &str) {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap();
}

/// A site in a home folder with all of these files. The home folder is the one above the project, in which `/tmp` is none.
fn site(replies: &[Value]) -> Site {
    let replies: Vec<Value> = replies.iter().cloned().chain([says("Done.")]).collect();
    let site = Site::scripted(&script(json!(replies))).sandboxed();
    let home = site.path("user");
    for name in HIDDEN {
        put(&home.join(name), KEY);
    }
    for (name, text) in WITH_KEYS {
        put(&home.join(name), text);
    }
    for name in VISIBLE {
        put(&home.join(name), &format!("open {name}\n"));
    }
    let mut site = site.env("XDG_CONFIG_HOME", home.join(".config").display().to_string());
    for (variable, named, key) in BY_VARIABLE {
        put(&site.path("user").join(key), KEY);
        let path = site.path("user").join(named).display().to_string();
        site = site.env(variable, path);
    }
    site
}

/// A script that prints every file of the tables, and those that a search finds.
fn job() -> String {
    let named = HIDDEN.iter().chain(WITH_KEYS.iter().map(|(name, _)| name)).chain(VISIBLE);
    let mut job: String = named.map(|name| format!("cat \"$HOME/{name}\" 2>&1\n")).collect();
    job += "grep -rs PRIVATE \"$HOME\"\n";
    job
}

fn check(output: &str) {
    let shown: Vec<&str> = output.lines().filter(|line| line.contains(KEY)).collect();
    assert!(shown.is_empty(), "{shown:#?}");
    let missing = VISIBLE.iter().filter(|name| !output.contains(&format!("open {name}\n")));
    let missing: Vec<_> = missing.collect();
    assert!(missing.is_empty(), "{missing:?} in\n{output}");
}

/// What a command prints without the limits of an output.
const TO_FILE: &str = "bash job.sh > out";

#[test]
fn a_command_sees_no_keys_and_everything_that_tools_need() {
    let site = site(&[bash(TO_FILE)]);
    site.file("job.sh", job());
    let events = site.prompt("go").ok().events();
    assert!(all(&events, "permission.asked").is_empty());
    only(&events, "tool.finished");
    check(&site.text("out"));
}

#[test]
fn weaker_sandboxes_hide_the_same_keys() {
    for (before, backend) in [("setpriv --bounding-set=-sys_admin", "landlock"), ("", "bwrap")] {
        if backend == "bwrap" && !(rustix::process::geteuid().is_root() && has_bwrap()) {
            continue;
        }
        let site = site(&[bash(TO_FILE)]);
        site.file("job.sh", job());
        let inner = site.command(&["run", "--format", "json", "go"]);
        let none = format!("echo 0 > /proc/sys/user/max_user_namespaces && exec {before} \"$@\"");
        let mut command = std::process::Command::new("unshare");
        command
            .args(["-r", "sh", "-c", &none, "sh"])
            .arg(inner.get_program())
            .args(inner.get_args());
        command.env_clear().current_dir(site.project());
        command.envs(inner.get_envs().filter_map(|(name, value)| Some((name, value?))));
        let output = command.output().unwrap();
        if output.stdout.is_empty() {
            not_run(backend, "this machine has no user namespaces");
            continue;
        }
        let said = String::from_utf8(output.stdout).unwrap();
        assert!(said.contains(&format!("\"backend\":\"{backend}\"")), "{said}");
        check(&site.text("out"));
    }
}

#[test]
fn the_users_settings_show_what_they_name_and_a_project_shows_nothing() {
    for (setting, name, is_shown) in [
        ("show", "~/.kube", true),
        ("show", "~/.kube/config", true),
        ("write", "~/.kube", true),
        ("show", "~/.config", false),
        ("show", "~", false),
        ("hide", "~/.kube", false),
    ] {
        let site = site(&[bash("bash job.sh")]);
        let site = site.setting(&format!("/sandbox/{setting}"), json!([name]));
        site.file("job.sh", "cat ~/.kube/config");
        let events = site.prompt("go").ok().events();
        let result = only(&events, "tool.finished");
        assert_eq!(result.to_string().contains(KEY), is_shown, "{setting} {name}: {result}");
    }
    let site = site(&[bash("bash job.sh")]);
    site.file("job.sh", "cat ~/.kube/config ~/.sometoolrc");
    site.file_of_stranger("leftfold.json", r#"{"sandbox":{"show":["~/.kube","~"]}}"#);
    let events = site.prompt("go").ok().events();
    assert!(!only(&events, "tool.finished").to_string().contains(KEY));
    // what is in no table of keys is shown with the folder around it
    for name in ["~", "~/.some-tool-that-nobody-knows"] {
        let site = self::site(&[bash("bash job.sh")]);
        let site = site.setting("/sandbox/show", json!([name]));
        site.file("job.sh", "cat ~/.some-tool-that-nobody-knows/token");
        let events = site.prompt("go").ok().events();
        assert!(only(&events, "tool.finished").to_string().contains(KEY), "{name}");
    }
}

#[test]
fn tools_for_files_ask_for_keys() {
    for (name, asks) in [
        (".some-tool-that-nobody-knows/token", true),
        (".config/a-tool-of-tomorrow/token", true),
        ("elsewhere/kube/key", true),
        (".cargo/registry/x", false),
    ] {
        for (tool, field) in [("read", "filePath"), ("grep", "path")] {
            let mut input = json!({ "pattern": "PRIVATE" });
            input[field] = json!(format!("~/{name}"));
            let site = site(&[call(tool, input)]);
            let site = site.setting("/permission", json!({ "external_directory": "allow" }));
            let events = site.prompt("go").ok().events();
            assert_eq!(all(&events, "tool.started").is_empty(), asks, "{tool} {name}: {events:?}");
        }
    }
}
