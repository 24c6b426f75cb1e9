//! Places of the user and of the machine that a call needs a permission for, wherever the worktree is: those with keys, and
//! those that later shells, logins, services and tools run by themselves. The sandbox closes them for commands, and
//! [`protected`](crate::protected) asks for them. Paths are absolute, and their links are not resolved.
//!
//! Entries of the home folder that begin with a dot may hold keys, whatever program made them: see
//! [`HiddenEntries`](crate::hidden_entries::HiddenEntries).

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use leftfold_events::secrets::is_credential;

use crate::{UserFolders, paths};

/// Files and folders of the home folder with keys, tokens, cookies, histories, or the user's other agents. Commands do not
/// see most of them anyway; programs that settings name see other hidden entries, but not these.
const KEYS_AT_HOME: &[&str] = &[
    ".age",
    ".android/adbkey",
    ".aws",
    ".azure",
    ".bash_history",
    ".bitcoin",
    ".boto",
    ".cache/chromium",
    ".cache/google-chrome",
    ".cache/huggingface/stored_tokens",
    ".cache/huggingface/token",
    ".cache/mozilla",
    ".cache/thunderbird",
    ".cargo/credentials",
    ".cargo/credentials.toml",
    ".circleci/cli.yml",
    ".claude",
    ".claude.json",
    ".codex",
    ".composer/auth.json",
    ".conan/credentials.json",
    ".conan2/credentials.json",
    ".continue",
    ".copilot",
    ".cursor",
    ".databricks",
    ".databrickscfg",
    ".docker",
    ".electrum",
    ".erlang.cookie",
    ".ethereum",
    ".fly/config.yml",
    ".foundry/keystores",
    ".gem/credentials",
    ".gemini",
    ".git-credential-cache",
    ".git-credentials",
    ".gnupg",
    ".gradle/develocity",
    ".gradle/enterprise",
    ".gradle/gradle.properties",
    ".hex/hex.config",
    ".huggingface",
    ".influxdbv2",
    ".ivy2/.credentials",
    ".ivy2/.credentials.properties",
    ".julia/servers",
    ".kaggle",
    ".kube",
    ".lein/credentials.clj",
    ".lein/credentials.clj.gpg",
    ".local/share/amp",
    ".local/share/fish/fish_history",
    ".local/share/goose",
    ".local/share/keyrings",
    ".local/share/kwalletd",
    ".local/share/leftfold",
    ".local/share/opencode",
    ".local/share/python_keyring",
    ".local/share/uv/credentials",
    ".local/state/bash/history",
    ".local/state/zsh/history",
    ".luarocks/upload_config.lua",
    ".m2/settings-security.xml",
    ".mozilla",
    ".my.cnf",
    ".mylogin.cnf",
    ".mysql_history",
    ".netlify/config.json",
    ".netrc",
    ".nimble/github_api_token",
    ".node_repl_history",
    ".npm/_logs",
    ".oci",
    ".ollama/id_ed25519",
    ".password-store",
    ".pgpass",
    ".platformio/appstate.json",
    ".psql_history",
    ".pub-cache/credentials.json",
    ".pulumi/credentials.json",
    ".pypirc",
    ".python_history",
    ".rediscli_history",
    ".s3cfg",
    ".sbt/.credentials",
    ".sbt/1.0/credentials.sbt",
    ".sbt/credentials",
    ".snowflake",
    ".snowsql",
    ".sqlite_history",
    ".ssh",
    ".stack/upload",
    ".terraform.d/credentials.tfrc.json",
    ".terraformrc",
    ".thunderbird",
    ".vagrant.d/data",
    ".var/app",
    ".vault-token",
    ".viminfo",
    ".zsh_history",
    "snap/chromium",
    "snap/firefox",
    // macOS
    "Library/Application Support/BraveSoftware",
    "Library/Application Support/Firefox",
    "Library/Application Support/Google/Chrome",
    "Library/Cookies",
    "Library/Keychains",
    "Library/Mail",
    "Library/Messages",
    "Library/Safari",
];

/// Files and folders with keys in the folder of settings.
const KEYS_IN_SETTINGS: &[&str] = &[
    "BraveSoftware", "Cursor", "Signal", "amp", "chromium", "composer/auth.json", "configstore",
    "containers/auth.json", "containers/auth", "dart/pub-credentials.json", "doctl", "gcloud",
    "gh", "git/credentials", "github-copilot", "glab-cli", "google-chrome", "goose", "heroku",
    "hub", "keepassxc", "leftfold", "microsoft-edge", "op", "opencode", "opera",
    "pypoetry/auth.toml", "rclone", "solana", "sops", "vivaldi",
];

/// Settings of tools that may hold keys: relative to the home folder, and the texts of which one shows that the file holds
/// some. They are hidden only then, because the tool needs them.
const PERHAPS_KEYS: &[(&str, &[&str])] = &[
    (".bash_aliases", ASSIGNMENTS),
    (".bash_login", ASSIGNMENTS),
    (".bash_profile", ASSIGNMENTS),
    (".bashrc", ASSIGNMENTS),
    (".bundle/config", &["__com:", "__org:", "__io:", "__net:", "__dev:"]),
    (".bunfig.toml", &["token", "password"]),
    (".cabal/config", &["password:", "token:"]),
    (".condarc", &["token", "password", "@"]),
    (".config/NuGet/NuGet.Config", &["packagesourcecredentials", "apikeys"]),
    (".config/fish/config.fish", ASSIGNMENTS),
    (".config/fish/fish_variables", ASSIGNMENTS),
    (".config/go/env", &["@"]),
    (".config/hg/hgrc", &["password"]),
    (".config/mise/config.toml", ASSIGNMENTS),
    (".config/nix/nix.conf", &["access-tokens"]),
    (".config/pip/pip.conf", &["@", "password"]),
    (".config/pnpm/rc", &["_auth", "_password"]),
    (".config/uv/uv.toml", &["@", "password"]),
    (".curlrc", &["user", "oauth", "header", "-u", "cookie"]),
    (".envrc", ASSIGNMENTS),
    (".gemrc", &["@", "api_key"]),
    (".hgrc", &["password"]),
    (".m2/settings.xml", &["<password", "<passphrase", "<privatekey", "<httpheaders"]),
    (".npmrc", &["_auth", "_password"]),
    (".nuget/NuGet/NuGet.Config", &["packagesourcecredentials", "apikeys"]),
    (".pip/pip.conf", &["@", "password"]),
    (".profile", ASSIGNMENTS),
    (".Renviron", ASSIGNMENTS),
    (".wgetrc", &["password", "header", "cookie"]),
    (".yarnrc", &["_auth", "_password"]),
    (".yarnrc.yml", &["authtoken", "authident"]),
    (".zlogin", ASSIGNMENTS),
    (".zprofile", ASSIGNMENTS),
    (".zshenv", ASSIGNMENTS),
    (".zshrc", ASSIGNMENTS),
];

/// The file assigns a value to a variable whose name is that of a key.
const ASSIGNMENTS: &[&str] = &[];

/// The largest of these files that is read, in bytes. A larger one is hidden.
const MAX_SETTINGS: u64 = 1 << 20;

/// Variables that name a file or a folder with keys, or several.
const KEYS_BY_VARIABLE: &[&str] = &[
    "ANSIBLE_VAULT_PASSWORD_FILE", "AWS_CONFIG_FILE", "AZURE_CONFIG_DIR", "BOTO_CONFIG",
    "CLAUDE_CONFIG_DIR", "CLOUDSDK_CONFIG", "CODEX_HOME", "DATABRICKS_CONFIG_FILE",
    "DOCKER_CONFIG", "GH_CONFIG_DIR", "GLAB_CONFIG_DIR", "GNUPGHOME", "HELM_REGISTRY_CONFIG",
    "HELM_REPOSITORY_CONFIG", "HISTFILE", "KRB5CCNAME", "KRB5_KTNAME", "KUBECONFIG",
    "MYSQL_HISTFILE", "MYSQL_TEST_LOGIN_FILE", "NETRC", "NODE_REPL_HISTORY",
    "NPM_CONFIG_USERCONFIG", "OCI_CLI_CONFIG_FILE", "OCI_CONFIG_FILE", "PASSWORD_STORE_DIR",
    "PGPASSFILE", "PGSERVICEFILE", "PGSSLKEY", "PSQL_HISTORY", "PULUMI_HOME", "PYTHON_HISTORY",
    "RCLONE_CONFIG", "REGISTRY_AUTH_FILE", "SNOWFLAKE_HOME", "SQLITE_HISTORY", "TALOSCONFIG",
    "TF_CLI_CONFIG_FILE", "XAUTHORITY", "npm_config_userconfig",
];

/// Variables that name a folder in which these hold keys.
const KEYS_BELOW_VARIABLE: &[(&str, &[&str])] = &[
    ("CARGO_HOME", &["credentials", "credentials.toml"]),
    ("COMPOSER_HOME", &["auth.json"]),
    ("CURL_HOME", &[".curlrc", ".netrc"]),
    ("GRADLE_USER_HOME", &["gradle.properties"]),
    ("HF_HOME", &["stored_tokens", "token"]),
];

/// Files of the machine that only root reads, for a node that runs as root.
const KEYS_OF_MACHINE: &[&str] = &[
    "/etc/gshadow", "/etc/gshadow-", "/etc/shadow", "/etc/shadow-", "/etc/ssh/ssh_host_ecdsa_key",
    "/etc/ssh/ssh_host_ed25519_key", "/etc/ssh/ssh_host_rsa_key", "/etc/sudoers", "/etc/sudoers.d",
];

/// Texts for models, and the keys of other machines, in folders that hold keys.
const SHOWN_AT_HOME: &[&str] =
    &[".agents/skills", ".claude/skills", ".claude/CLAUDE.md", ".ssh/known_hosts"];
const SHOWN_IN_SETTINGS: &[&str] =
    &["leftfold/skill", "leftfold/skills", "opencode/skill", "opencode/skills"];

/// Files of zsh, which `ZDOTDIR` moves.
const ZSH: &[&str] = &[
    ".zlogin", ".zlogout", ".zprofile", ".zsh.d", ".zshenv", ".zshrc", ".zshrc.d", ".zshrc.local",
];

/// Files of cargo, which `CARGO_HOME` moves.
const CARGO: &[&str] = &["bin", "config", "config.toml", "env"];

/// Files and folders of the home folder that programs run, or read programs to run from: those of shells, logins, desktops and
/// services, folders of programs, and those of other tools.
const STARTUP_AT_HOME: &[&str] = &[
    ".bash_aliases", ".bash_completion", ".bash_completion.d", ".bash_login", ".bash_logout",
    ".bash_profile", ".bashrc", ".bashrc.d", ".cshrc", ".csh_files", ".direnvrc", ".envrc",
    ".inputrc", ".kshrc", ".login", ".logout", ".mkshrc", ".oh-my-zsh", ".profile", ".shrc",
    ".tcshrc", ".zfunc", ".Xresources", ".dmrc", ".fluxbox", ".forward", ".gnomerc", ".i3",
    ".mailcap", ".pam_environment", ".procmailrc", ".rhosts", ".shosts", ".xinitrc", ".xmonad",
    ".xprofile", ".xserverrc", ".xsession", ".Xsession", ".xsessionrc", ".asdf", ".bin",
    ".bun/bin", ".deno/bin", ".gem", ".local/bin", ".local/lib", ".local/pipx", ".nix-profile",
    ".npm-global", ".npm-packages", ".nvm", ".pyenv", ".rbenv", ".rustup", ".sdkman", ".volta",
    ".yarn/bin", "Applications", "bin", "go/bin", "_exrc", "_gvimrc", "_vimrc", ".bunfig.toml",
    ".curlrc", ".emacs", ".emacs.d", ".emacs.el", ".exrc", ".gdbinit", ".gemrc", ".ghci",
    ".gitconfig", ".gradle/init.d", ".gradle/init.gradle", ".gradle/init.gradle.kts", ".gvimrc",
    ".hgrc", ".ipython", ".irbrc", ".julia/config", ".lessfilter", ".lldbinit", ".mavenrc",
    ".muttrc", ".mutt", ".nanorc", ".npmrc", ".perldb", ".pip", ".pryrc", ".psqlrc", ".pythonrc",
    ".pythonrc.py", ".ripgreprc", ".Renviron", ".Rprofile", ".sbt", ".screenrc", ".sqliterc",
    ".tmux.conf", ".vim", ".vimrc", ".vscode", ".vscode-server", ".wgetrc", ".yarnrc",
    ".yarnrc.yml", "Library/Application Scripts", "Library/Application Support/Code/User",
    "Library/LaunchAgents", "Library/Services",
];

/// Start-up files and folders of programs in the folder of settings (`XDG_CONFIG_HOME`).
const STARTUP_IN_SETTINGS: &[&str] = &[
    "Code/User", "alacritty", "autostart", "autostart-scripts", "awesome", "bspwm", "direnv",
    "emacs", "environment.d", "fish", "gdb", "ghostty", "git", "helix", "hg", "hypr", "i3",
    "kitty", "lxsession", "menus", "mimeapps.list", "mise", "mpv", "mutt", "nano", "npm",
    "nushell", "nvim", "openbox", "pip", "plasma-workspace", "powershell", "starship.toml", "sway",
    "systemd", "tmux", "uv", "vim", "wezterm", "xmonad", "zed", "zsh",
];

/// Start-up files and folders of programs in the folder of data (`XDG_DATA_HOME`).
const STARTUP_IN_DATA: &[&str] = &[
    "applications", "autostart", "dbus-1", "fish", "mime", "mise", "nvim/site", "pnpm", "systemd",
    "thumbnailers", "zsh",
];

/// Start-up files and folders of programs of the machine, which a node can change if it runs as root.
const STARTUP_OF_MACHINE: &[&str] = &[
    "/Library/LaunchAgents", "/Library/LaunchDaemons",
    // settings of services decide what they run, whatever their names
    "/etc", "/lib/systemd", "/usr/lib/systemd", "/usr/local/bin", "/usr/local/sbin", "/var/at/tabs",
    "/var/spool/at", "/var/spool/cron",
];

/// The places with keys. Nothing in them is read or changed without the permission, except what is [`shown`].
pub(crate) fn keys(folders: &UserFolders) -> Vec<PathBuf> {
    let mut all = in_each(KEYS_OF_MACHINE, [Path::new("/").to_owned()]);
    all.extend(in_each(KEYS_AT_HOME, folders.home.clone()));
    all.extend(in_each(KEYS_IN_SETTINGS, settings(folders)));
    all.extend(with_keys(folders));
    all.extend(by_variable(folders.home.as_deref()));
    all
}

/// Skills and instructions of the user, wherever they are.
pub(crate) fn shown(folders: &UserFolders) -> Vec<PathBuf> {
    let mut all = in_each(SHOWN_AT_HOME, folders.home.clone());
    all.extend(in_each(SHOWN_IN_SETTINGS, settings(folders)));
    // those that a project names show nothing that is hidden
    all.extend(folders.skills.iter().filter(|skills| skills.own).map(|skills| skills.path.clone()));
    all
}

/// The places that later shells, logins, services and tools run by themselves. Nothing in them is changed without the
/// permission.
pub(crate) fn startup(folders: &UserFolders) -> Vec<PathBuf> {
    let home = folders.home.as_ref();
    let mut all = in_each(STARTUP_OF_MACHINE, [Path::new("/").to_owned()]);
    all.extend(in_each(STARTUP_AT_HOME, home.cloned()));
    all.extend(in_each(STARTUP_IN_SETTINGS, settings(folders)));
    let with_variable = |name: &str, usual: &str| {
        home.map(|home| home.join(usual)).into_iter().chain(absolute(name))
    };
    all.extend(in_each(STARTUP_IN_DATA, with_variable("XDG_DATA_HOME", ".local/share")));
    all.extend(in_each(ZSH, with_variable("ZDOTDIR", "")));
    all.extend(in_each(CARGO, with_variable("CARGO_HOME", ".cargo")));
    all
}

/// The folders of settings: a service that is started without the variable uses the one in the home folder.
pub(crate) fn settings(folders: &UserFolders) -> impl Iterator<Item = PathBuf> {
    let usual = folders.home.as_ref().map(|home| home.join(".config"));
    let named = folders.config.clone().filter(|named| Some(named) != usual.as_ref());
    usual.into_iter().chain(named)
}

pub(crate) fn absolute(name: &str) -> Option<PathBuf> {
    std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute())
}

fn in_each(names: &[&str], folders: impl IntoIterator<Item = PathBuf>) -> Vec<PathBuf> {
    let folders = folders.into_iter();
    folders.flat_map(|folder| names.iter().map(move |name| folder.join(name))).collect()
}

/// The paths with their links resolved, in their order. Most lie in few folders, which are resolved once.
pub(crate) fn real(paths: impl IntoIterator<Item = PathBuf>) -> Vec<PathBuf> {
    let mut folders = HashMap::new();
    let resolved = |path: PathBuf| {
        let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else { return path };
        let folder = folders
            .entry(folder.to_owned())
            .or_insert_with(|| paths::real(folder).unwrap_or_else(|_| folder.to_owned()));
        let path = folder.join(name);
        if path.is_symlink() { paths::real(&path).unwrap_or(path) } else { path }
    };
    paths.into_iter().map(resolved).collect()
}

/// The settings of tools that hold keys.
fn with_keys(folders: &UserFolders) -> Vec<PathBuf> {
    let places = |name: &str| match name.strip_prefix(".config/") {
        Some(rest) => in_each(&[rest], settings(folders)),
        None => in_each(&[name], folders.home.clone()),
    };
    let files = PERHAPS_KEYS
        .iter()
        .flat_map(|(name, texts)| places(name).into_iter().map(|it| (it, *texts)));
    files.filter(|(file, texts)| holds_keys(file, texts)).map(|(file, _)| file).collect()
}

fn holds_keys(file: &Path, texts: &[&str]) -> bool {
    let text = match leftfold_files::read(file, None, MAX_SETTINGS) {
        Ok(text) => String::from_utf8_lossy(&text).to_lowercase(),
        Err(why) => return !why.is_missing(),
    };
    // a file of Maven is shown only if it looks like one
    let is_strange = file.extension().is_some_and(|it| it == "xml") && !text.contains("<settings");
    let mut lines = text.lines().filter(|line| !line.trim_start().starts_with(['#', '-', ';']));
    is_strange
        || lines.any(|line| {
            texts.iter().any(|it| line.contains(it)) || texts.is_empty() && assigns_key(line)
        })
}

/// Whether a line of a shell's settings gives a value to a variable whose name is that of a key.
fn assigns_key(line: &str) -> bool {
    let words = line.split_whitespace().filter(|word| !word.starts_with('-'));
    let words: Vec<&str> = words.collect();
    let of_fish = matches!(words[..], ["set" | "setuvar", name, ..] if is_credential(name.split(':').next().unwrap_or(name)));
    let of_shell = words.iter().filter_map(|word| word.split_once('=')).any(|(name, value)| {
        // `PATH=…` and `$(pass show x)` hold no key
        is_credential(name)
            && !value.is_empty()
            && !value.starts_with(['$', '`', '/'])
            && !value.starts_with("\"$")
    });
    of_fish || of_shell
}

/// The files and folders with keys that variables of this process name: those of the table, and every variable whose name
/// is that of a key. None of them holds `home`, or is a device.
fn by_variable(home: Option<&Path>) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for (name, value) in std::env::vars_os() {
        let Some(name) = name.to_str() else { continue };
        let inner: &[&str] = match KEYS_BELOW_VARIABLE.iter().find(|(below, _)| *below == name) {
            Some((_, inner)) => inner,
            None if KEYS_BY_VARIABLE.contains(&name) || is_credential(name) => &[""],
            None => continue,
        };
        // `FILE:` stands before a path of Kerberos
        let paths = std::env::split_paths(&value).filter(|path| path.is_absolute());
        // without the slash at its end, which no file has
        let inside = |path: PathBuf, name: &str| path.join(name).components().collect();
        found.extend(
            paths.flat_map(|path| inner.iter().map(move |name| inside(path.clone(), name))),
        );
    }
    let is_needed = |path: &PathBuf| {
        let is_device = ["/dev", "/proc", "/sys"].iter().any(|it| path.starts_with(it));
        is_device || path.parent().is_none() || home.is_some_and(|home| home.starts_with(path))
    };
    found.retain(|path| !is_needed(path));
    found
}
