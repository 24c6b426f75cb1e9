//! The formatters that Leftfold knows, with the names, files and commands that OpenCode gives them.

use std::path::{Path, PathBuf};

use serde_json::Value;

use super::FILE;

/// A formatter, and when it is used.
#[derive(Debug)]
pub(super) struct BuiltIn {
    pub(super) name: &'static str,
    pub(super) extensions: &'static [&'static str],
    /// The program and its arguments.
    command: &'static [&'static str],
    needs: Needs,
    /// Whether it executes programs or code of the project, such as plugins that a settings file names.
    pub(super) runs_project: bool,
}

/// The file or dependency that a project must have, besides the program on this machine.
#[derive(Debug)]
enum Needs {
    Nothing,
    /// One of these files, in the folder of the file or above.
    File(&'static [&'static str]),
    /// A package in one of the objects of this manifest.
    Package {
        manifest: &'static str,
        lists: [&'static str; 2],
        name: &'static str,
    },
    /// Settings of Ruff.
    Ruff,
}

/// Most bytes of a manifest that is read.
const MAX_MANIFEST: u64 = 1 << 20;

const WEB: &[&str] = &[
    ".js", ".jsx", ".mjs", ".cjs", ".ts", ".tsx", ".mts", ".cts", ".html", ".htm", ".css", ".scss",
    ".sass", ".less", ".vue", ".svelte", ".json", ".jsonc", ".yaml", ".yml", ".toml", ".xml",
    ".md", ".mdx", ".graphql", ".gql",
];

const RUBY: &[&str] = &[".rb", ".rake", ".gemspec", ".ru"];

/// Formats the file `$0` with the rustfmt `$1` and further arguments. If rustfmt were given the path of the file, it would
/// also change the files of its modules.
const RUSTFMT: &str =
    r#"text=$("$@" < "$0") && { test -z "$text" || printf '%s\n' "$text" > "$0"; }"#;

const fn simple(
    name: &'static str,
    extensions: &'static [&'static str],
    command: &'static [&'static str],
) -> BuiltIn {
    BuiltIn { name, extensions, command, needs: Needs::Nothing, runs_project: false }
}

pub(super) static ALL: &[BuiltIn] = &[
    simple("gofmt", &[".go"], &["gofmt", "-w", FILE]),
    BuiltIn {
        runs_project: true,
        ..simple(
            "mix",
            &[".ex", ".exs", ".eex", ".heex", ".leex", ".neex", ".sface"],
            &["mix", "format", FILE],
        )
    },
    BuiltIn {
        needs: Needs::Package {
            manifest: "package.json",
            lists: ["dependencies", "devDependencies"],
            name: "prettier",
        },
        runs_project: true,
        ..simple("prettier", WEB, &["prettier", "--write", FILE])
    },
    BuiltIn {
        needs: Needs::File(&["biome.json", "biome.jsonc", ".biome.json", ".biome.jsonc"]),
        runs_project: true,
        ..simple("biome", WEB, &["biome", "format", "--write", FILE])
    },
    simple("zig", &[".zig", ".zon"], &["zig", "fmt", FILE]),
    BuiltIn {
        needs: Needs::File(&[".clang-format"]),
        ..simple(
            "clang-format",
            &[
                ".c", ".cc", ".cpp", ".cxx", ".c++", ".h", ".hh", ".hpp", ".hxx", ".h++", ".ino",
                ".C", ".H",
            ],
            &["clang-format", "-i", FILE],
        )
    },
    simple("ktlint", &[".kt", ".kts"], &["ktlint", "-F", FILE]),
    BuiltIn {
        needs: Needs::Ruff,
        ..simple("ruff", &[".py", ".pyi"], &["ruff", "format", "--no-cache", FILE])
    },
    BuiltIn {
        // another program of this name has nothing to do with R
        needs: Needs::File(&["air.toml"]),
        ..simple("air", &[".R"], &["air", "format", FILE])
    },
    BuiltIn { runs_project: true, ..simple("rubocop", RUBY, &["rubocop", "--autocorrect", FILE]) },
    BuiltIn { runs_project: true, ..simple("standardrb", RUBY, &["standardrb", "--fix", FILE]) },
    simple("htmlbeautifier", &[".erb", ".html.erb"], &["htmlbeautifier", FILE]),
    simple("dart", &[".dart"], &["dart", "format", FILE]),
    BuiltIn {
        needs: Needs::File(&[".ocamlformat"]),
        ..simple("ocamlformat", &[".ml", ".mli"], &["ocamlformat", "-i", FILE])
    },
    simple("terraform", &[".tf", ".tfvars"], &["terraform", "fmt", FILE]),
    simple("latexindent", &[".tex"], &["latexindent", "-w", "-s", FILE]),
    simple("gleam", &[".gleam"], &["gleam", "format", FILE]),
    simple("shfmt", &[".sh", ".bash"], &["shfmt", "-w", FILE]),
    simple("nixfmt", &[".nix"], &["nixfmt", FILE]),
    simple("rustfmt", &[".rs"], &["rustfmt"]),
    BuiltIn {
        needs: Needs::Package {
            manifest: "composer.json",
            lists: ["require", "require-dev"],
            name: "laravel/pint",
        },
        runs_project: true,
        ..simple("pint", &[".php"], &["pint", FILE])
    },
    simple("ormolu", &[".hs"], &["ormolu", "-i", FILE]),
    BuiltIn {
        runs_project: true,
        ..simple("cljfmt", &[".clj", ".cljs", ".cljc", ".edn"], &["cljfmt", "fix", "--quiet", FILE])
    },
    simple("dfmt", &[".d"], &["dfmt", "-i", FILE]),
];

impl BuiltIn {
    /// The command for the file at `path`. `None`: the project does not use it, or it is not installed.
    pub(super) fn command(
        &self,
        path: &Path,
        trusted: bool,
        worktree: &Path,
    ) -> Option<Vec<String>> {
        let folders: Vec<&Path> = above(path, worktree).collect();
        if !self.needs.are_met(&folders) {
            return None;
        }
        let (name, arguments) = self.command.split_first()?;
        let local = folders.iter().flat_map(|folder| {
            ["node_modules/.bin", "vendor/bin"].map(|bin| folder.join(bin).join(name))
        });
        let mut local = local.filter(|_| self.runs_project).filter(|path| is_program(path));
        let program = match local.next() {
            Some(program) => program.to_str()?.to_owned(),
            None => program(name, worktree, trusted, worktree)?,
        };
        if self.name == "rustfmt" {
            let script = ["/bin/sh", "-c", RUSTFMT, FILE, &program].map(str::to_owned);
            let configs = folders
                .iter()
                .flat_map(|folder| ["rustfmt.toml", ".rustfmt.toml"].map(|name| folder.join(name)));
            let config = configs
                .filter(|path| path.is_file())
                .find_map(|path| Some(["--config-path".to_owned(), path.to_str()?.to_owned()]));
            let edition = edition(&folders).map(|edition| ["--edition".to_owned(), edition]);
            let options = config.into_iter().chain(edition).flatten();
            return Some(script.into_iter().chain(options).collect());
        }
        Some([vec![program], arguments.iter().map(|word| (*word).to_owned()).collect()].concat())
    }
}

impl Needs {
    fn are_met(&self, folders: &[&Path]) -> bool {
        let has = |names: &[&str]| {
            folders.iter().any(|folder| names.iter().any(|name| folder.join(name).is_file()))
        };
        let mentions = |name: &str, text: &str| {
            folders
                .iter()
                .any(|folder| read(folder, name, folders).is_some_and(|it| it.contains(text)))
        };
        match self {
            Self::Nothing => true,
            Self::File(names) => has(names),
            Self::Package { manifest, lists, name } => folders.iter().any(|folder| {
                let manifest = read(folder, manifest, folders).unwrap_or_default();
                let manifest: Value = serde_json::from_str(&manifest).unwrap_or_default();
                lists.iter().any(|list| manifest[list].get(name).is_some())
            }),
            Self::Ruff => {
                has(&["ruff.toml", ".ruff.toml"])
                    || ["pyproject.toml", "requirements.txt", "Pipfile"]
                        .iter()
                        .any(|name| mentions(name, "ruff"))
            }
        }
    }
}

/// The folder of the file and those above, up to the worktree.
fn above<'a>(path: &'a Path, worktree: &'a Path) -> impl Iterator<Item = &'a Path> {
    let is_inside = path.starts_with(worktree);
    let folders = path.ancestors().skip(1);
    folders.take_while(move |folder| is_inside && folder.starts_with(worktree))
}

/// The text of a manifest in one of the folders, the last of which is the worktree.
fn read(folder: &Path, name: &str, folders: &[&Path]) -> Option<String> {
    leftfold_files::text(&folder.join(name), folders.last().copied(), MAX_MANIFEST)
}

/// The edition of the nearest package or workspace: without it, rustfmt takes a file for one of 2015.
fn edition(folders: &[&Path]) -> Option<String> {
    folders.iter().find_map(|folder| {
        let manifest = read(folder, "Cargo.toml", folders)?;
        manifest.lines().find_map(|line| {
            let value = line.trim().strip_prefix("edition")?.trim_start().strip_prefix('=')?;
            let value = value.split('#').next()?.trim().trim_matches(['"', '\'']);
            ["2015", "2018", "2021", "2024"].contains(&value).then(|| value.to_owned())
        })
    })
}

/// The absolute path of a program: one that `PATH` finds, or a path that starts at `folder`. A program of a project that
/// is not `trusted` is none.
pub fn program(name: &str, folder: &Path, trusted: bool, worktree: &Path) -> Option<String> {
    let places = match name.contains('/') {
        true => vec![folder.join(name)],
        false if !trusted => leftfold_programs::folders().map(|folder| folder.join(name)).collect(),
        false => std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default())
            .filter(|folder| folder.is_absolute())
            .map(|folder| folder.join(name))
            .collect(),
    };
    let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let worktree = real(worktree);
    let may_run = |path: &PathBuf| {
        let is_of_project = path.starts_with(&worktree) || real(path).starts_with(&worktree);
        is_program(path) && (trusted || !is_of_project)
    };
    places.into_iter().find(may_run)?.to_str().map(str::to_owned)
}

fn is_program(path: &Path) -> bool {
    leftfold_programs::is_program(path) && !is_idle_proxy(path, rustup_home())
}

fn rustup_home() -> Option<PathBuf> {
    let own = std::env::var_os("RUSTUP_HOME").map(PathBuf::from);
    own.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".rustup")))
}

/// Whether this is rustup's stand-in for a program that no toolchain has. It starts, only to say that.
fn is_idle_proxy(path: &Path, home: Option<PathBuf>) -> bool {
    let is_of_rustup =
        path.canonicalize().is_ok_and(|real| real.file_name() == Some("rustup".as_ref()));
    let name = path.file_name().filter(|name| is_of_rustup && *name != "rustup");
    let (Some(name), Some(home)) = (name, home) else { return false };
    let Ok(toolchains) = std::fs::read_dir(home.join("toolchains")) else { return false };
    let mut toolchains = toolchains.filter_map(Result::ok);
    !toolchains.any(|toolchain| toolchain.path().join("bin").join(name).is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stand_in_of_rustup_counts_only_with_a_toolchain_that_has_the_program() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        std::fs::create_dir_all(path("home/toolchains/stable/bin")).unwrap();
        for file in ["home/toolchains/stable/bin/rustfmt", "rustup", "other"] {
            std::fs::write(path(file), "").unwrap();
        }
        for (name, of) in [("rustfmt", "rustup"), ("rust-analyzer", "rustup"), ("gofmt", "other")] {
            std::os::unix::fs::symlink(path(of), path(name)).unwrap();
        }
        for (name, home, is_idle) in [
            ("rust-analyzer", Some("home"), true),
            ("rustfmt", Some("home"), false),
            ("rustup", Some("home"), false),
            ("gofmt", Some("home"), false),
            ("rust-analyzer", Some("none"), false),
            ("rust-analyzer", None, false),
        ] {
            assert_eq!(is_idle_proxy(&path(name), home.map(path)), is_idle, "{name} {home:?}");
        }
    }
}
