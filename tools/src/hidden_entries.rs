//! The entries of the user's folders that commands do not see, and that need a permission: everything in the home folder that
//! begins with a dot, `snap`, and the folders of settings, data and state, wherever they are, except what tools need.
//!
//! A list of programs with keys is never complete. So this is a list of tools that need theirs. Keys in the tools' own
//! folders are hidden by name: see [`user_places`](crate::user_places).

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use crate::{UserFolders, paths, user_places};

/// Entries of the home folder that tools need, parted by spaces. Of a path with several parts, the rest of its folders stays
/// hidden. `*` at the end of a name stands for any rest.
const TOOLS: &[&str] = &[
    // folders of toolchains and their downloads
    ".anaconda3 .android .arduino15 .asdf .babashka .bazel .bloop .buck .bun .bundle .cabal .cache .cargo .ccache \
     .choosenim .clojure .cocoapods .composer .conan .conan2 .conda .coursier .cpan .cpanm .crystal .dart* .deno \
     .dotnet .dub .dvm .elan .electron .electron-gyp .elm .emsdk .espressif .flutter* .fnm .foundry .fvm .g .g8 .gem \
     .ghc .ghcup .gimme .gitlibs .gobrew .goenv .gradle .guix-profile .gvm .hex .ivy2 .jabba .java .jbang .jenv .jq \
     .jsvu .julia .juliaup .keras .kerl .kiex .konan .lein .linuxbrew .luarocks .luaver .m2 .mamba .matplotlib \
     .meteor .micromamba .mill .miniconda3 .miniforge3 .mix .mono .nimble .nix-channels .nix-defexpr .nix-profile \
     .node-gyp .node_libraries .node_modules .nodebrew .nodenv .npm .npm-global .npm-packages .npmignore .nuget .nv \
     .nvm .opam .pdbrc .phpenv .pip .pixi .platformio .plenv .pnpm .pnpm-store .poetry .proto .pub-cache \
     .pydistutils.cfg .pyenv .rakubrew .rbenv .rebar3 .ros .roswell .rustup .rvm .rye .sbt .sdkman .shadow-cljs \
     .solc-select .spago .stack .svm .swiftenv .swiftly .swiftpm .templateengine .terminfo .terraform.d/plugin-cache \
     .terraform.d/plugins .texlive* .texmf-config .texmf-var .tfenv .toprc .triton .vcpkg .venv* .virtualenvs \
     .vmodules .volta .yarn .zig .zvm",
    // git, and tools that search for files
    ".ackrc .agignore .fdignore .git .git-template* .git_template* .gitattributes* .gitconfig* .githooks .gitignore* \
     .gitmessage* .hgignore* .hgrc .ignore .rgignore .ripgreprc",
    // shells, and programs that scripts start
    ".bash_aliases .bash_completion .bash_completion.d .bash_login .bash_logout .bash_profile .bashrc \
     .ctags .ctags.d .curlrc .dircolors .direnvrc .emacs .emacs.d .exrc .gdbinit .globalrc .inputrc .latexmkrc .less \
     .lessfilter .lldbinit .oh-my-zsh .parallel .profile .screenrc .sqliterc .tmux.conf .vim .vimrc .wgetrc \
     .zcompdump* .zlogin .zlogout .zprofile .zshenv .zshrc",
    // fonts and desktops, for programs that draw
    ".fontconfig .fonts .fonts.conf .icons .local/share/fonts .local/share/icons .local/share/mime .themes",
    // settings that tools look for in each folder above a project
    ".babelrc* .bazelrc .bazelversion .browserslistrc .buckconfig .bunfig.toml .clang* .cmake* .commitlint* .condarc \
     .coveragerc .editorconfig .envrc .eslint* .flake8 .gemrc .ghci .go-version .hlint.yaml .iex.exs .irbrc \
     .isort.cfg .java-version .mambarc .markdownlint* .mise.toml .mypy.ini .node-version .npmrc .nvmrc .ocamlinit \
     .perlcriticrc .perltidyrc .postcssrc* .prettier* .proverc .pryrc .pycodestyle .pylintrc .python-version \
     .pythonrc* .R .Renviron .Rprofile .rspec .rubocop* .ruby-gemset .ruby-version .rustfmt.toml .scalafmt.conf \
     .sdkmanrc .shellcheckrc .style.yapf .stylelint* .swcrc .swift* .terraform-version .tool-versions .yamllint* \
     .yarnrc*",
    // programs and packages
    ".bin .local/bin .local/go .local/include .local/lib* .local/man .local/opt .local/pipx .local/sbin \
     .local/share/bash-completion .local/share/cabal .local/share/cargo .local/share/coursier .local/share/direnv \
     .local/share/fnm .local/share/gem .local/share/hatch .local/share/man .local/share/mise .local/share/nvm \
     .local/share/pdm .local/share/pipx .local/share/pnpm .local/share/powershell .local/share/pypoetry \
     .local/share/rustup .local/share/solana .local/share/swiftly .local/share/uv .local/share/virtualenv \
     .local/share/virtualenvs .local/share/zig .local/state/fnm_multishells .local/state/mise .local/state/nix",
];

/// Entries of the folder of settings that tools need.
const TOOLS_IN_SETTINGS: &[&str] = &[
    "bat black ccache clangd composer dart direnv fd fish flake8 fontconfig gdb git go guix helix hg htop jj \
     matplotlib mise mypy nano nix nixpkgs npm NuGet nvim pip pnpm pycodestyle pylintrc pypoetry ripgrep ruff rustfmt \
     shellcheckrc starship.toml tmux uv yamllint yapf yarn zls.json",
];

/// Keys of git's settings whose values are files and folders that git reads.
const FILES_OF_GIT: &[&str] = &[
    "allowedsignersfile", "attributesfile", "excludesfile", "hookspath", "path", "template",
    "templatedir",
];

/// The largest file of git's settings that is read, in bytes.
const MAX_GIT_CONFIG: u64 = 1 << 20;

/// A folder of which only listed entries are visible.
#[derive(Debug)]
struct Folder {
    path: PathBuf,
    listed: Vec<String>,
    /// Only entries that begin with a dot can be hidden, and `snap`.
    is_home: bool,
}

/// The entries of the user's folders that are hidden, as absolute paths without links.
#[derive(Debug, Default)]
pub(crate) struct HiddenEntries {
    folders: Vec<Folder>,
    /// Paths below which nothing is hidden: those that the user's settings name, and those in `needed`.
    shown: Vec<PathBuf>,
    /// Paths that may lie in a hidden entry and that commands see: those that variables of theirs name, and files that the
    /// user's settings of git name.
    pub(crate) needed: Vec<PathBuf>,
}

impl HiddenEntries {
    /// The hidden entries, except those in or below `shown`, for commands with these `variables`.
    pub(crate) fn new(
        user: &UserFolders,
        shown: impl IntoIterator<Item = PathBuf>,
        variables: &[(OsString, OsString)],
    ) -> Self {
        let mut all = Self { shown: user_places::real(shown), ..Self::default() };
        let Some(home) = &user.home else { return all };
        all.needed = user_places::real(needed(user, home, variables));
        all.shown.extend(all.needed.iter().cloned());
        let listed = |groups: &[&str], prefix: &str| -> Vec<String> {
            let names = groups.iter().flat_map(|group| group.split_whitespace());
            names.map(|name| format!("{prefix}{name}")).collect()
        };
        let in_settings = listed(TOOLS_IN_SETTINGS, ".config/");
        all.add(home, home, [listed(TOOLS, ""), in_settings].concat());
        if let Some(settings) = &user.config {
            all.add(settings, home, listed(TOOLS_IN_SETTINGS, ""));
        }
        for (variable, usual) in
            [("XDG_DATA_HOME", ".local/share/"), ("XDG_STATE_HOME", ".local/state/")]
        {
            let names = TOOLS.iter().flat_map(|group| group.split_whitespace());
            let names: Vec<&str> = names.filter_map(|name| name.strip_prefix(usual)).collect();
            if let Some(folder) = user_places::absolute(variable) {
                all.add(&folder, home, listed(&names, ""));
            }
        }
        let linked = all.linked_programs(variables);
        all.shown.extend(linked.iter().cloned());
        all.needed.extend(linked);
        all
    }

    /// The parts of hidden entries to which links in the folders of `PATH` and in `~/.local/bin` lead: a program needs its
    /// files.
    fn linked_programs(&self, variables: &[(OsString, OsString)]) -> BTreeSet<PathBuf> {
        let Some(home) = self.folders.iter().find(|folder| folder.is_home) else {
            return BTreeSet::new();
        };
        let local = home.path.join(".local");
        let paths = variables.iter().filter(|(name, _)| name == "PATH");
        let folders = paths.flat_map(|(_, path)| std::env::split_paths(path));
        let folders = folders.chain([local.join("bin")]);
        let folders = folders.filter_map(|folder| folder.canonicalize().ok());
        let folders = folders.filter(|folder| folder.starts_with(&home.path));
        let entries = folders.flat_map(|folder| std::fs::read_dir(folder).into_iter().flatten());
        let links = entries.flatten().map(|entry| entry.path()).filter(|path| path.is_symlink());
        let targets = links.filter_map(|link| link.canonicalize().ok());
        let parts = targets.filter_map(|target| {
            let hidden = self.around(&target)?;
            // other folders of programs may hold keys as well
            let next = target.strip_prefix(hidden).ok()?.iter().next();
            Some(match next.filter(|_| !hidden.starts_with(&local)) {
                Some(next) => hidden.join(next),
                None => hidden.to_owned(),
            })
        });
        parts.collect()
    }

    /// The hidden entry around a path without links.
    pub(crate) fn around<'a>(&self, path: &'a Path) -> Option<&'a Path> {
        path.ancestors().find(|above| self.contains(above))
    }

    /// Adds a folder, unless it holds the home folder or is one that the home folder's own list covers.
    fn add(&mut self, path: &Path, home: &Path, listed: Vec<String>) {
        let is_home = path == home;
        let is_usual =
            [".config", ".local/share", ".local/state"].iter().any(|it| path == home.join(it));
        if is_home || !is_usual && !home.starts_with(path) {
            let path = paths::real(path).unwrap_or_else(|_| path.to_owned());
            self.folders.push(Folder { path, listed, is_home });
        }
    }

    /// Whether exactly this path, without links, is such an entry.
    pub(crate) fn contains(&self, path: &Path) -> bool {
        !self.is_shown(path) && self.folders.iter().any(|folder| folder.hides(path))
    }

    fn is_shown(&self, path: &Path) -> bool {
        self.shown.iter().any(|shown| path.starts_with(shown))
    }

    /// Those that exist. A link counts as the place that it leads to.
    pub(crate) fn existing(&self) -> Vec<PathBuf> {
        let mut found = Vec::new();
        for folder in &self.folders {
            folder.add_existing(&folder.path, &mut found);
        }
        found.retain(|path| !self.is_shown(path));
        found
    }
}

fn needed(user: &UserFolders, home: &Path, variables: &[(OsString, OsString)]) -> Vec<PathBuf> {
    // these name whole folders of many programs
    let named = variables.iter().filter(|(name, _)| !name.to_string_lossy().starts_with("XDG_"));
    let named = named.flat_map(|(_, value)| std::env::split_paths(value));
    let mut needed: Vec<PathBuf> = named.collect();
    let settings = user_places::settings(user).map(|settings| settings.join("git/config"));
    for file in [home.join(".gitconfig")].into_iter().chain(settings) {
        let text = leftfold_files::read(&file, None, MAX_GIT_CONFIG).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        needed.extend(text.lines().filter_map(|line| named_by_git(line, home)));
    }
    needed.retain(|path| path.starts_with(home) && path != home);
    needed
}

/// The file or folder in the home folder that a line of git's settings names.
fn named_by_git(line: &str, home: &Path) -> Option<PathBuf> {
    let (key, value) = line.split_once('=')?;
    let key = key.trim().to_ascii_lowercase();
    let value = value.trim().trim_matches('"');
    let path = match value.strip_prefix("~/") {
        Some(rest) => home.join(rest),
        None => PathBuf::from(value),
    };
    FILES_OF_GIT.contains(&key.as_str()).then_some(path)
}

/// How much of an entry a list shows.
#[derive(PartialEq, Eq)]
enum Listed {
    Whole,
    InPart,
    Not,
}

impl Folder {
    fn find(&self, rest: &Path) -> Listed {
        let Some(rest) = rest.to_str() else { return Listed::Not };
        let is_first = self.is_home && !rest.contains('/');
        if is_first && !rest.starts_with('.') && rest != "snap" {
            return Listed::Whole;
        }
        let mut found = Listed::Not;
        for listed in &self.listed {
            let is_match = match listed.strip_suffix('*') {
                Some(start) => rest.starts_with(start),
                None => rest == listed,
            };
            if is_match {
                return Listed::Whole;
            }
            if listed.strip_prefix(rest).is_some_and(|more| more.starts_with('/')) {
                found = Listed::InPart;
            }
        }
        found
    }

    /// Whether this path is hidden, and the folder around it is not.
    fn hides(&self, path: &Path) -> bool {
        let Ok(rest) = path.strip_prefix(&self.path) else { return false };
        let Some(parent) = rest.parent() else { return false };
        let around = match parent.as_os_str().is_empty() {
            true => Listed::InPart,
            false => self.find(parent),
        };
        around == Listed::InPart && self.find(rest) == Listed::Not
    }

    fn add_existing(&self, within: &Path, found: &mut Vec<PathBuf>) {
        for entry in std::fs::read_dir(within).into_iter().flatten().flatten() {
            let path = entry.path();
            let Ok(rest) = path.strip_prefix(&self.path) else { continue };
            if entry.file_type().is_ok_and(|kind| kind.is_symlink()) {
                continue;
            }
            match self.find(rest) {
                Listed::Whole => {}
                Listed::InPart => self.add_existing(&path, found),
                Listed::Not => found.push(path),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Site;

    #[test]
    fn everything_with_a_dot_is_hidden_except_what_tools_need() {
        let site = Site::new();
        let home = site.outside("home");
        for (name, content) in [
            (".cargo/registry/x", ""),
            (".config/git/config", "[include]\n\tpath = ~/.private/git\n"),
            (".config/tomorrow/token", ""),
            (".fancy/bin/x", ""),
            (".gitconfig", "[core]\n\texcludesfile = \"~/.excluded\"\n[user]\n\tname = ~/.user\n"),
            (".local/bin/tool", ""),
            (".local/share/editor/bin/editor", ""),
            (".local/share/mise/x", ""),
            (".local/share/tomorrow/key", ""),
            (".private/git", ""),
            (".private/key", ""),
            (".tomorrow/key", ""),
            ("code/.env", ""),
            ("snap/x", ""),
        ] {
            std::fs::create_dir_all(home.join(name).parent().unwrap()).unwrap();
            std::fs::write(home.join(name), content).unwrap();
        }
        for (link, target) in
            [(".linked", "code"), (".local/bin/editor", "../share/editor/bin/editor")]
        {
            std::os::unix::fs::symlink(target, home.join(link)).unwrap();
        }
        let user = UserFolders {
            home: Some(home.clone()),
            config: Some(home.join(".config")),
            skills: Vec::new(),
            data: None,
        };
        let variables = [
            ("PATH", format!("/usr/bin:{}", home.join(".fancy/bin").display())),
            ("HOME", home.display().to_string()),
            ("XDG_CONFIG_HOME", home.join(".config").display().to_string()),
        ];
        let variables = variables.map(|(name, value)| (name.into(), value.into()));
        let hidden = |shown: &[&str]| {
            let shown = shown.iter().map(|name| home.join(name)).collect::<Vec<_>>();
            let entries = HiddenEntries::new(&user, shown, &variables);
            let mut found = entries.existing();
            assert!(found.iter().all(|path| entries.contains(path)));
            found.sort();
            let below =
                |path: &PathBuf| path.strip_prefix(&home).unwrap().to_string_lossy().into_owned();
            found.iter().map(below).collect::<Vec<_>>()
        };
        let all = [
            ".config/tomorrow", ".fancy", ".local/share/tomorrow", ".private", ".tomorrow", "snap",
        ];
        assert_eq!(hidden(&[]), all);
        assert_eq!(
            hidden(&[".config", ".local", ".private/git"]),
            all[1..2].iter().chain(&all[3..]).copied().collect::<Vec<_>>()
        );
        assert_eq!(hidden(&[""]), [""; 0]);
        let entries = HiddenEntries::new(&user, [], &variables);
        for (needed, expected) in
            [(".fancy/bin", true), (".private/git", true), (".excluded", true), (".user", false)]
        {
            assert_eq!(entries.needed.contains(&home.join(needed)), expected, "{needed}");
        }
        // those that do not exist yet, and nothing below a hidden folder by itself
        for (path, expected) in [
            (".never-seen", true),
            (".config/never-seen", true),
            (".tomorrow/key", false),
            (".excluded", false),
            (".venv-3", false),
            ("code/.env", false),
            (".local/bin", false),
        ] {
            assert_eq!(entries.contains(&home.join(path)), expected, "{path}");
        }
    }
}
