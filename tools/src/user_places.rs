//! Places of the user and of the machine that a call needs a permission for, wherever the worktree is: those with keys, and
//! those that later shells, logins, services and tools run by themselves. The sandbox closes them for commands, and
//! [`protected`](crate::protected) asks for them. Paths are absolute, and their links are not resolved.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use crate::{UserFolders, paths};

/// The largest `.npmrc` that is read, in bytes, and the part of a key's name in it.
const MAX_NPMRC: u64 = 1 << 20;
const TOKEN: &[u8] = b"_auth";

/// Files and folders of the home folder with keys, tokens, cookies, or the user's other agents.
const KEYS_AT_HOME: &[&str] = &[
    ".aws",
    ".azure",
    ".bash_history",
    ".cargo/credentials",
    ".cargo/credentials.toml",
    ".claude",
    ".codex",
    ".docker",
    ".gemini",
    ".git-credentials",
    ".gnupg",
    ".kube",
    ".local/share/keyrings",
    ".local/share/leftfold",
    ".local/share/opencode",
    ".mozilla",
    ".netrc",
    ".password-store",
    ".psql_history",
    ".pypirc",
    ".python_history",
    ".ssh",
    ".thunderbird",
    ".zsh_history",
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
    "BraveSoftware",
    "chromium",
    "gcloud",
    "gh",
    "git/credentials",
    "google-chrome",
    "hub",
    "leftfold",
    "op",
    "opencode",
    "rclone",
    "sops",
];

/// Files of the machine that only root reads, for a node that runs as root.
const KEYS_OF_MACHINE: &[&str] = &[
    "/etc/gshadow",
    "/etc/gshadow-",
    "/etc/shadow",
    "/etc/shadow-",
    "/etc/ssh/ssh_host_ecdsa_key",
    "/etc/ssh/ssh_host_ed25519_key",
    "/etc/ssh/ssh_host_rsa_key",
    "/etc/sudoers",
    "/etc/sudoers.d",
];

/// Texts for models in folders that hold keys.
const SHOWN_AT_HOME: &[&str] = &[".claude/skills", ".claude/CLAUDE.md"];
const SHOWN_IN_SETTINGS: &[&str] =
    &["leftfold/skill", "leftfold/skills", "opencode/skill", "opencode/skills"];

/// Files of zsh, which `ZDOTDIR` moves.
const ZSH: &[&str] = &[
    ".zlogin",
    ".zlogout",
    ".zprofile",
    ".zsh.d",
    ".zshenv",
    ".zshrc",
    ".zshrc.d",
    ".zshrc.local",
];

/// Files of cargo, which `CARGO_HOME` moves.
const CARGO: &[&str] = &["bin", "config", "config.toml", "env"];

/// Files and folders of the home folder that programs run, or read programs to run from.
const STARTUP_AT_HOME: &[&str] = &[
    // shells
    ".bash_aliases",
    ".bash_completion",
    ".bash_completion.d",
    ".bash_login",
    ".bash_logout",
    ".bash_profile",
    ".bashrc",
    ".bashrc.d",
    ".cshrc",
    ".csh_files",
    ".direnvrc",
    ".envrc",
    ".inputrc",
    ".kshrc",
    ".login",
    ".logout",
    ".mkshrc",
    ".oh-my-zsh",
    ".profile",
    ".shrc",
    ".tcshrc",
    ".zfunc",
    // logins, desktops and services
    ".Xresources",
    ".dmrc",
    ".fluxbox",
    ".forward",
    ".gnomerc",
    ".i3",
    ".mailcap",
    ".pam_environment",
    ".procmailrc",
    ".rhosts",
    ".shosts",
    ".xinitrc",
    ".xmonad",
    ".xprofile",
    ".xserverrc",
    ".xsession",
    ".Xsession",
    ".xsessionrc",
    // folders of programs
    ".asdf",
    ".bin",
    ".bun/bin",
    ".deno/bin",
    ".gem",
    ".local/bin",
    ".local/lib",
    ".local/pipx",
    ".nix-profile",
    ".npm-global",
    ".npm-packages",
    ".nvm",
    ".pyenv",
    ".rbenv",
    ".rustup",
    ".sdkman",
    ".volta",
    ".yarn/bin",
    "Applications",
    "bin",
    "go/bin",
    // editors and tools
    "_exrc",
    "_gvimrc",
    "_vimrc",
    ".bunfig.toml",
    ".curlrc",
    ".emacs",
    ".emacs.d",
    ".emacs.el",
    ".exrc",
    ".gdbinit",
    ".gemrc",
    ".ghci",
    ".gitconfig",
    ".gradle/init.d",
    ".gradle/init.gradle",
    ".gradle/init.gradle.kts",
    ".gvimrc",
    ".hgrc",
    ".ipython",
    ".irbrc",
    ".julia/config",
    ".lessfilter",
    ".lldbinit",
    ".mavenrc",
    ".muttrc",
    ".mutt",
    ".nanorc",
    ".npmrc",
    ".perldb",
    ".pip",
    ".pryrc",
    ".psqlrc",
    ".pythonrc",
    ".pythonrc.py",
    ".ripgreprc",
    ".Renviron",
    ".Rprofile",
    ".sbt",
    ".screenrc",
    ".sqliterc",
    ".tmux.conf",
    ".vim",
    ".vimrc",
    ".vscode",
    ".vscode-server",
    ".wgetrc",
    ".yarnrc",
    ".yarnrc.yml",
    // macOS
    "Library/Application Scripts",
    "Library/Application Support/Code/User",
    "Library/LaunchAgents",
    "Library/Services",
];

/// Start-up files and folders of programs in the folder of settings (`XDG_CONFIG_HOME`).
const STARTUP_IN_SETTINGS: &[&str] = &[
    "Code/User",
    "alacritty",
    "autostart",
    "autostart-scripts",
    "awesome",
    "bspwm",
    "direnv",
    "emacs",
    "environment.d",
    "fish",
    "gdb",
    "ghostty",
    "git",
    "helix",
    "hg",
    "hypr",
    "i3",
    "kitty",
    "lxsession",
    "menus",
    "mimeapps.list",
    "mise",
    "mpv",
    "mutt",
    "nano",
    "npm",
    "nushell",
    "nvim",
    "openbox",
    "pip",
    "plasma-workspace",
    "powershell",
    "starship.toml",
    "sway",
    "systemd",
    "tmux",
    "uv",
    "vim",
    "wezterm",
    "xmonad",
    "zed",
    "zsh",
];

/// Start-up files and folders of programs in the folder of data (`XDG_DATA_HOME`).
const STARTUP_IN_DATA: &[&str] = &[
    "applications",
    "autostart",
    "dbus-1",
    "fish",
    "mime",
    "mise",
    "nvim/site",
    "pnpm",
    "systemd",
    "thumbnailers",
    "zsh",
];

/// Start-up files and folders of programs of the machine, which a node can change if it runs as root.
const STARTUP_OF_MACHINE: &[&str] = &[
    "/Library/LaunchAgents",
    "/Library/LaunchDaemons",
    // settings of services decide what they run, whatever their names
    "/etc",
    "/lib/systemd",
    "/usr/lib/systemd",
    "/usr/local/bin",
    "/usr/local/sbin",
    "/var/at/tabs",
    "/var/spool/at",
    "/var/spool/cron",
];

/// The places with keys. Nothing in them is read or changed without the permission, except what is [`shown`].
pub(crate) fn keys(folders: &UserFolders) -> Vec<PathBuf> {
    let mut all = in_each(KEYS_OF_MACHINE, [Path::new("/").to_owned()]);
    all.extend(in_each(KEYS_AT_HOME, folders.home.clone()));
    all.extend(in_each(KEYS_IN_SETTINGS, settings(folders)));
    all.extend(folders.home.as_ref().and_then(|home| with_token(&home.join(".npmrc"))));
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
fn settings(folders: &UserFolders) -> impl Iterator<Item = PathBuf> {
    let usual = folders.home.as_ref().map(|home| home.join(".config"));
    let named = folders.config.clone().filter(|named| Some(named) != usual.as_ref());
    usual.into_iter().chain(named)
}

fn absolute(name: &str) -> Option<PathBuf> {
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

/// npm needs the file for its registry, so it is hidden only if it holds a key.
fn with_token(file: &Path) -> Option<PathBuf> {
    let text = leftfold_files::read(file, None, MAX_NPMRC);
    let is_plain = match text {
        Ok(text) => !text.windows(TOKEN.len()).any(|part| part == TOKEN),
        Err(why) => why.is_missing(),
    };
    (!is_plain).then(|| file.to_owned())
}
