//! `leftfold --version`: with `--verbose` also this build, and how this installation is upgraded and removed.

use std::path::Path;
use std::process::ExitCode;

const VERSION: &str = env!("CARGO_PKG_VERSION");
const TARGET: &str = env!("LEFTFOLD_TARGET");
/// `packaging/build` names the commit. Other builds may come from sources without git.
const COMMIT: Option<&str> = option_env!("LEFTFOLD_COMMIT");

pub(crate) fn version(verbose: bool) -> anyhow::Result<ExitCode> {
    let mut text = format!("leftfold {VERSION}\n");
    if verbose {
        let program = std::env::current_exe()?;
        let Channel { name, upgrade, remove } = Channel::of(&program);
        let rows = [
            ("commit", COMMIT.unwrap_or("unknown")),
            ("target", TARGET),
            ("features", if cfg!(feature = "postgres") { "postgres" } else { "none" }),
            ("program", &*program.to_string_lossy()),
            ("channel", name),
            ("upgrade", upgrade.as_str()),
            ("remove", remove.as_str()),
        ];
        text.extend(rows.map(|(name, value)| format!("{name:<10}{value}\n")));
    }
    super::print(&text)
}

/// The way by which this installation came to this machine.
#[derive(Debug)]
struct Channel {
    name: &'static str,
    /// A command line of a shell, as `remove`.
    upgrade: String,
    remove: String,
}

impl Channel {
    /// Finds the channel by the place of the program and by files that each installer leaves near it. The program itself
    /// is the same file in all packages.
    fn of(program: &Path) -> Self {
        let prefix = program.ancestors().nth(2).unwrap_or(Path::new("/"));
        let installer = prefix.join("share/leftfold/install.sh");
        let path = program.to_string_lossy();
        let (name, upgrade, remove) = if path.contains("/node_modules/") {
            ("npm", "npm install -g leftfold@latest", "npm uninstall -g leftfold")
        } else if path.contains("/uv/tools/") {
            ("uv", "uv tool upgrade leftfold", "uv tool uninstall leftfold")
        } else if path.contains("/pipx/venvs/") {
            ("pipx", "pipx upgrade leftfold", "pipx uninstall leftfold")
        } else if is_python_package(prefix) {
            ("pip", "pip install --upgrade leftfold", "pip uninstall leftfold")
        } else if prefix.join("share/doc/leftfold/copyright").exists() {
            ("Debian package", "sudo apt install ./leftfold_*.deb", "sudo apt remove leftfold")
        } else if prefix.join(".crates.toml").exists() {
            ("cargo", "cargo install --path .", "cargo uninstall leftfold")
        } else if installer.exists() {
            let run = format!("sh {}", quoted(&installer));
            return Self { name: "install.sh", remove: format!("{run} --remove"), upgrade: run };
        } else {
            let remove = format!("rm {}", quoted(program));
            let upgrade = "replace the program by a newer one".to_owned();
            return Self { name: "archive or build", upgrade, remove };
        };
        Self { name, upgrade: upgrade.to_owned(), remove: remove.to_owned() }
    }
}

/// Whether pip has installed a wheel below this prefix.
fn is_python_package(prefix: &Path) -> bool {
    let names = |folder: &Path| {
        let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
        entries.map(|entry| entry.path()).collect::<Vec<_>>()
    };
    let starts = |path: &Path, start: &str| {
        path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(start))
    };
    names(&prefix.join("lib")).iter().filter(|path| starts(path, "python")).any(|python| {
        ["site-packages", "dist-packages"].iter().any(|packages| {
            names(&python.join(packages)).iter().any(|found| {
                starts(found, "leftfold-") && found.extension().is_some_and(|is| is == "dist-info")
            })
        })
    })
}

/// A path as one word of a shell.
fn quoted(path: &Path) -> String {
    format!("'{}'", path.to_string_lossy().replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn installers_are_told_apart_by_the_files_they_leave() {
        let folder = tempfile::tempdir().unwrap();
        for (root, program, left, name, remove) in [
            ("a", "lib/node_modules/l/bin/leftfold", "", "npm", "npm uninstall -g leftfold"),
            ("b", "uv/tools/leftfold/bin/leftfold", "", "uv", "uv tool uninstall leftfold"),
            ("c", "pipx/venvs/leftfold/bin/leftfold", "", "pipx", "pipx uninstall leftfold"),
            (
                "d",
                "bin/leftfold",
                "lib/python3.12/site-packages/leftfold-0.1.0.dist-info/RECORD",
                "pip",
                "pip uninstall leftfold",
            ),
            (
                "e", "usr/bin/leftfold", "usr/share/doc/leftfold/copyright", "Debian package",
                "sudo apt remove leftfold",
            ),
            ("f", "bin/leftfold", ".crates.toml", "cargo", "cargo uninstall leftfold"),
            ("g'h", "bin/leftfold", "share/leftfold/install.sh", "install.sh", " --remove"),
            ("i", "leftfold", "", "archive or build", "rm '"),
        ] {
            let root = folder.path().join(root);
            if !left.is_empty() {
                let left = root.join(left);
                std::fs::create_dir_all(left.parent().unwrap()).unwrap();
                std::fs::write(left, "").unwrap();
            }
            let channel = Channel::of(&root.join(program));
            assert_eq!(channel.name, name);
            assert!(channel.remove.contains(remove), "{channel:?}");
            assert_eq!(channel.remove.contains(r"g'\''h"), name == "install.sh", "{channel:?}");
        }
    }
}
