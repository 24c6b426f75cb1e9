//! The sandbox in settings: that of commands, and of single MCP servers and plugins. A project's files may hide further paths and turn it on; everything else in them
//! needs trust. This module starts nothing and looks at no path.

use std::num::NonZeroU64;
use std::path::PathBuf;

use schemars::JsonSchema;
use serde::Deserialize;

use crate::error::Error;
use crate::permission::Action;
use crate::source::without_dots;
use crate::tree::{Entry, Node, Tree};
use crate::typed::At;

/// The key of [`Sandbox`].
pub(crate) const KEY: &str = "sandbox";
pub(crate) const MODE: &str = "mode";

/// The lists whose paths are expanded.
type Paths = Vec<At<String>>;

/// Whether commands are confined.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
pub enum SandboxMode {
    /// As far as this machine can.
    #[default]
    On,
    /// By nothing.
    Off,
    /// A container around Leftfold is the sandbox.
    External,
}

/// The sandbox of commands: its mode, or an object.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(rename = "@\"on\", \"off\", \"external\" or an object")]
#[schemars(untagged, inline)]
pub(crate) enum Sandbox {
    #[serde(rename = "a string")]
    Mode(SandboxMode),
    #[serde(rename = "an object")]
    Parts(Box<SandboxParts>),
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(default)]
#[schemars(inline)]
pub(crate) struct SandboxParts {
    #[schemars(extend("x-effect" = "changes whether commands are confined"))]
    mode: Option<SandboxMode>,
    /// Whether commands that rules ask about run without a question, if they stay in the sandbox.
    #[schemars(extend("x-effect" = "lets commands run in the sandbox without asking"))]
    allow: bool,
    /// Folders outside the project that commands may change.
    #[schemars(extend("x-effect" = "lets commands change files outside the project"))]
    write: Paths,
    /// Paths that commands do not see, besides the usual ones.
    #[schemars(extend("x-free" = true))]
    hide: Paths,
    /// Paths that commands see although they are usually hidden.
    #[schemars(extend("x-effect" = "lets commands read files that are hidden"))]
    show: Paths,
    /// The maximum number of processes.
    processes: Option<NonZeroU64>,
    /// Whether commands get the network: the rule for `*` of the permission `network`.
    #[schemars(extend("x-rules" = true, "x-effect" = "changes which commands get the network"))]
    network: Option<At<Action>>,
}

/// Whether one MCP server or plugin is confined.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
pub(crate) enum Switch {
    /// If commands are.
    #[default]
    On,
    Off,
}

/// The sandbox of one MCP server: whether it has one, or an object.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(rename = "@\"on\", \"off\" or an object")]
#[schemars(untagged, inline)]
pub(crate) enum ServerSandbox {
    #[serde(rename = "a string")]
    Switch(Switch),
    #[serde(rename = "an object")]
    Parts(Box<ServerParts>),
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(default)]
#[schemars(inline)]
pub(crate) struct ServerParts {
    mode: Switch,
    /// Paths that it sees although they are usually hidden.
    show: Paths,
    /// Folders that it may change, for a server of a project. The user's own servers may change any.
    write: Paths,
}

/// The sandbox of one MCP server or plugin as the settings want it. Paths are absolute.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProgramSandbox {
    pub is_off: bool,
    pub show: Vec<PathBuf>,
    pub write: Vec<PathBuf>,
}

impl ServerSandbox {
    pub(crate) fn settings(&self) -> ProgramSandbox {
        match self {
            Self::Switch(switch) => switch.settings(),
            Self::Parts(parts) => ProgramSandbox {
                show: absolute(&parts.show),
                write: absolute(&parts.write),
                ..parts.mode.settings()
            },
        }
    }

    pub(crate) fn check(&self) -> Result<(), Error> {
        match self {
            Self::Switch(_) => Ok(()),
            Self::Parts(parts) => check_paths(&[&parts.show, &parts.write]),
        }
    }
}

impl Switch {
    pub(crate) fn settings(self) -> ProgramSandbox {
        ProgramSandbox { is_off: self == Self::Off, ..ProgramSandbox::default() }
    }
}

/// The sandbox as the settings want it. Paths are absolute.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SandboxSettings {
    /// `None`: the settings do not say.
    pub mode: Option<SandboxMode>,
    pub allow: bool,
    pub write: Vec<PathBuf>,
    pub hide: Vec<PathBuf>,
    pub show: Vec<PathBuf>,
    pub processes: Option<u64>,
}

impl Sandbox {
    pub(crate) fn settings(&self) -> SandboxSettings {
        let parts = match self {
            Self::Mode(mode) => {
                return SandboxSettings { mode: Some(*mode), ..SandboxSettings::default() };
            }
            Self::Parts(parts) => parts,
        };
        let SandboxParts { mode, allow, write, hide, show, processes, network: _ } = &**parts;
        SandboxSettings {
            mode: *mode,
            allow: *allow,
            write: absolute(write),
            hide: absolute(hide),
            show: absolute(show),
            processes: processes.map(NonZeroU64::get),
        }
    }

    /// The rule for the permission `network`.
    pub(crate) fn network(&self) -> Option<&At<Action>> {
        match self {
            Self::Mode(_) => None,
            Self::Parts(parts) => parts.network.as_ref(),
        }
    }

    /// Refuses paths that name nothing: without its path, `hide` would hide nothing.
    pub(crate) fn check(&self) -> Result<(), Error> {
        let Self::Parts(parts) = self else { return Ok(()) };
        check_paths(&[&parts.write, &parts.hide, &parts.show])
    }
}

fn check_paths(lists: &[&Paths]) -> Result<(), Error> {
    lists.iter().copied().flatten().try_for_each(|path| match path.unset().next() {
        Some(error) => Err(error),
        None if path.trim().is_empty() => Err(path.wrong("a path", "an empty text")),
        None => Ok(()),
    })
}

fn absolute(paths: &Paths) -> Vec<PathBuf> {
    let mut all: Vec<PathBuf> = Vec::new();
    for text in paths {
        let path = without_dots(&text.place().source.path(text));
        if !all.contains(&path) {
            all.push(path);
        }
    }
    all
}

/// Writes the mode as a member of the object, so that sources are merged member by member.
pub(crate) fn spread(root: &mut Node) {
    let Tree::Map(entries) = &mut root.tree else { return };
    for entry in entries.iter_mut().filter(|entry| entry.key == KEY) {
        if entry.node.text().is_none() {
            continue;
        }
        let (at, node) = (entry.at.clone(), entry.node.clone());
        let mode = Entry { key: MODE.to_owned(), at: at.clone(), node };
        entry.node = Node { at, tree: Tree::Map(vec![mode]) };
    }
}

/// The effect of a program's own sandbox in a project's file, after that of the program. Empty if it loosens nothing.
pub(crate) fn effect_of_own(program: &Node) -> &'static str {
    let Some(said) = program.get(KEY) else { return "" };
    let is_off = |node: &Node| node.text().is_some_and(|text| text != "on");
    if is_off(said) || said.get(MODE).is_some_and(is_off) {
        return ", outside the sandbox";
    }
    match said.is_map() {
        true => ", with more paths than the sandbox opens",
        false => "",
    }
}
