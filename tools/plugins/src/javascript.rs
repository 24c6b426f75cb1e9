//! Plugins and tools in JavaScript that are written for OpenCode. The user's Bun or Node runs a program of Leftfold's own,
//! which loads them and speaks the plugin protocol for them. Its text is an argument, so that no file of it can be replaced.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use serde_json::{Map, Value, json};

const BRIDGE: &str = include_str!("../javascript/bridge.mjs");

/// Time limit for the start of a plugin in JavaScript and for each of its answers, unless settings say otherwise.
pub const JAVASCRIPT_TIMEOUT: Duration = Duration::from_secs(15);

/// The first version of Node with `registerHooks`, in the oldest line of versions that has it, and in the one after it.
const NODE: [(u32, u32); 2] = [(22, 15), (23, 5)];
const NEEDED: &str = "Node 22.15 or newer, or Bun";
/// Time limit for the answer to `node --version`.
const VERSION_TIMEOUT: Duration = Duration::from_secs(5);

/// A plugin in JavaScript, or files of tools.
#[derive(Clone, PartialEq, Eq)]
pub struct JavaScript {
    /// Its name among plugins.
    pub name: String,
    /// A file, or the folder of a package.
    pub module: Option<PathBuf>,
    /// Files that define tools.
    pub tools: Vec<PathBuf>,
    pub options: Map<String, Value>,
    /// The folder in which missing packages are to be installed.
    pub folder: PathBuf,
}

// Hides options: they may contain secrets.
leftfold_events::debug_fields!(JavaScript { name });

impl JavaScript {
    /// The part of the parameters of `initialize` for the bridge.
    pub(super) fn params(&self) -> Value {
        let Self { name, module, tools, options, folder } = self;
        json!({ "name": name, "module": module, "tools": tools, "options": options, "folder": folder })
    }
}

/// The command that runs the bridge.
///
/// # Errors
/// There is neither Bun nor a suitable Node outside of projects. In words for people.
pub(super) async fn command() -> Result<Vec<String>, String> {
    let found = |name: &'static str| {
        leftfold_programs::folders().filter_map(move |it| leftfold_programs::find_in([it], name))
    };
    if let Some(bun) = found("bun").next() {
        // neither files of the current folder nor downloads take part
        let options = ["--config=/dev/null", "--env-file=/dev/null", "--no-install", "-e"];
        return words(&bun, &options);
    }
    let mut older = Vec::new();
    for node in found("node") {
        let version = version(&node).await;
        if version.as_deref().is_some_and(is_suitable) {
            let options = ["--disable-warning=ExperimentalWarning", "--input-type=module", "-e"];
            return words(&node, &options);
        }
        let version = version.unwrap_or_else(|| "of an unknown version".to_owned());
        older.push(format!("{} is {version}", node.display()));
    }
    let found = match older.is_empty() {
        true => "neither is in PATH".to_owned(),
        false => older.join(", "),
    };
    Err(format!("plugins and tools in JavaScript need {NEEDED}, and {found}"))
}

fn words(program: &Path, options: &[&str]) -> Result<Vec<String>, String> {
    let program = program.to_str().ok_or_else(|| format!("{program:?} is not UTF-8"))?;
    Ok([program].iter().chain(options).chain([&BRIDGE]).map(|&word| word.to_owned()).collect())
}

async fn version(node: &Path) -> Option<String> {
    let mut command = leftfold_programs::helper(node.to_str()?).ok()?;
    command.arg("--version").current_dir("/").stdin(Stdio::null()).stderr(Stdio::null());
    let output = tokio::process::Command::from(command).kill_on_drop(true).output();
    let output = tokio::time::timeout(VERSION_TIMEOUT, output).await.ok()?.ok()?;
    let version = String::from_utf8(output.stdout).ok()?;
    version.starts_with('v').then(|| leftfold_framing::clip(version.trim().to_owned(), 40))
}

fn is_suitable(version: &str) -> bool {
    let mut parts = version.trim_start_matches('v').split('.').map(str::parse::<u32>);
    let (Some(Ok(major)), Some(Ok(minor))) = (parts.next(), parts.next()) else { return false };
    let newest = NODE.iter().map(|(major, _)| *major).max();
    newest.is_some_and(|newest| major > newest)
        || NODE.iter().any(|&(wanted, least)| major == wanted && minor >= least)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_is_new_enough_if_it_reads_typescript() {
        for (version, expected) in [
            ("v20.20.2", false),
            ("v22.14.0", false),
            ("v22.15.0", true),
            ("v23.4.0", false),
            ("v23.5.0", true),
            ("v24.0.0", true),
            ("v26.10.0", true),
            ("v", false),
            ("", false),
        ] {
            assert_eq!(is_suitable(version), expected, "{version}");
        }
    }
}
