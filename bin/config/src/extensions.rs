//! MCP servers, plugins, formatters, language servers and folders of skills in settings.

use std::num::{NonZeroU16, NonZeroU64};
use std::path::PathBuf;

use indexmap::IndexMap;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::auth::SignInPlugin;
use crate::error::Error;
use crate::javascript::{JavaScript, NamedModule};
use crate::provider::NEVER;
use crate::sandbox::{ProgramSandbox, ServerSandbox, Switch};
use crate::secrecy::Secret;
use crate::source::SettingPlace;
use crate::typed::{At, filled};

leftfold_events::debug_fields!(
    Formatter {} Formatters {} LanguageServer {} LanguageServers {} Mcp {} Line {} OAuth {} Client {} Plugin {}
    PluginCode {} PluginProgram {} Program {}
);

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
pub enum McpKind {
    /// A program on this machine.
    Local,
    /// A server reached over HTTP.
    Remote,
}

/// An MCP server. Several files may define parts of it, so missing parts are reported only after
/// the merge.
#[derive(Clone, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(default)]
#[schemars(inline)]
pub struct Mcp {
    #[serde(rename = "type")]
    kind: Option<McpKind>,
    /// The program and its arguments.
    command: Option<At<Line>>,
    environment: IndexMap<String, At<Secret>>,
    #[serde(deserialize_with = "filled")]
    cwd: Option<At<String>>,
    url: Option<At<String>>,
    headers: IndexMap<String, At<Secret>>,
    enabled: Option<bool>,
    /// In milliseconds.
    timeout: Option<NonZeroU64>,
    oauth: OAuth,
    sandbox: Option<ServerSandbox>,
}

/// The way to sign in to a server.
#[derive(Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(rename = "@an object")]
#[schemars(untagged, inline)]
pub enum OAuth {
    /// No sign-in.
    #[serde(rename = "false")]
    Off(#[schemars(extend("const" = false))] bool),
    #[serde(rename = "an object")]
    As(Client),
}

/// Signing in is possible by default.
impl Default for OAuth {
    fn default() -> Self {
        Self::As(Client::default())
    }
}

#[derive(Clone, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
#[schemars(inline)]
pub struct Client {
    #[serde(deserialize_with = "filled")]
    pub client_id: Option<String>,
    client_secret: Secret,
    /// Separated by spaces.
    #[serde(deserialize_with = "filled")]
    pub scope: Option<String>,
    /// The URL of this client's metadata document.
    #[serde(deserialize_with = "filled")]
    pub client_metadata: Option<String>,
    /// The port on this machine that the browser is sent back to.
    pub callback_port: Option<NonZeroU16>,
}

impl Client {
    pub fn client_secret(&self) -> Option<&Secret> {
        Some(&self.client_secret).filter(|secret| !secret.is_blank())
    }
}

impl Mcp {
    /// The kind's name in `leftfold mcp`.
    pub fn kind_name(&self) -> &'static str {
        match self.kind() {
            McpKind::Local => "local",
            McpKind::Remote => "remote",
        }
    }

    /// The kind in settings, or else the kind that follows from having a URL.
    pub fn kind(&self) -> McpKind {
        let by_url = if self.url().is_some() { McpKind::Remote } else { McpKind::Local };
        self.kind.unwrap_or(by_url)
    }

    pub fn is_enabled(&self) -> bool {
        self.enabled.unwrap_or(true)
    }

    pub fn command(&self) -> Option<Vec<String>> {
        self.command.as_ref().map(|line| line.parts().iter().map(|part| part.to_string()).collect())
    }

    pub fn environment(&self) -> Vec<(String, String)> {
        set_variables(&self.environment)
    }

    /// The folder in which a local server starts, if the settings name one.
    pub fn cwd(&self) -> Option<Cwd> {
        self.cwd.as_ref().map(Cwd::of)
    }

    pub fn url(&self) -> Option<&str> {
        self.url.as_ref().map(|url| url.as_str()).filter(|url| !url.trim().is_empty())
    }

    pub fn headers(&self) -> Vec<(String, String)> {
        let headers = self.headers.iter();
        headers.map(|(name, value)| (name.clone(), value.reveal().to_owned())).collect()
    }

    pub fn oauth(&self) -> &OAuth {
        &self.oauth
    }

    /// In milliseconds.
    pub fn timeout(&self) -> Option<u64> {
        self.timeout.map(|time| time.get().min(NEVER))
    }

    /// An error for each variable that is not set and without which the server would not be the
    /// intended one.
    pub fn unset(&self) -> impl Iterator<Item = Error> {
        let command = self.command.iter().flat_map(|line| line.parts()).flat_map(At::unset);
        let headers = self.headers.values().flat_map(At::unset);
        command.chain(self.url.iter().flat_map(At::unset)).chain(headers)
    }

    /// The sandbox of a local server.
    pub fn sandbox(&self) -> ProgramSandbox {
        self.sandbox.as_ref().map(ServerSandbox::settings).unwrap_or_default()
    }

    /// Whether a project's file says which program starts, where, or with which variables.
    pub fn is_of_project(&self) -> bool {
        let command = self.command.iter().map(At::place);
        let places = command.chain(self.cwd.iter().map(At::place));
        let mut places = places.chain(self.environment.values().map(At::place));
        places.any(|place| place.source.of_project)
    }

    pub(crate) fn check(&self) -> Result<(), Error> {
        self.command.as_ref().map_or(Ok(()), At::<Line>::check)?;
        self.sandbox.as_ref().map_or(Ok(()), ServerSandbox::check)
    }
}

/// A folder in which a program starts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cwd {
    /// The project's, [`leftfold_programs::PROJECT`].
    Project,
    /// A path, relative to the settings file.
    Folder(PathBuf),
}

impl Cwd {
    fn of(text: &At<String>) -> Self {
        match text.trim() {
            leftfold_programs::PROJECT => Self::Project,
            _ => Self::Folder(text.place().source.path(text)),
        }
    }
}

/// Leaves out variables whose values refer to variables that are not set.
fn set_variables(variables: &IndexMap<String, At<Secret>>) -> Vec<(String, String)> {
    let set = variables.iter().filter(|(_, value)| value.unset_variables().is_empty());
    set.map(|(name, value)| (name.clone(), value.reveal().to_owned())).collect()
}

/// Programs that format files after calls have written them: none, those that Leftfold knows, or these besides them.
#[derive(Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(rename = "@an object or a boolean")]
#[schemars(untagged, inline)]
pub enum Formatters {
    #[serde(rename = "an object")]
    Named(IndexMap<String, At<Formatter>>),
    #[serde(rename = "a boolean")]
    All(bool),
}

/// A formatter, or changes of one that Leftfold knows.
#[derive(Clone, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(default)]
#[schemars(inline)]
pub struct Formatter {
    pub disabled: bool,
    /// The program and its arguments; `$FILE` stands for the path of the file.
    command: Option<At<Line>>,
    environment: IndexMap<String, At<Secret>>,
    /// The ends of the names of its files, such as `.js`.
    pub extensions: Option<Vec<String>>,
}

impl Formatter {
    /// The command, if there is one. The error names a variable that is not set.
    pub fn command(&self) -> Option<Result<Vec<String>, String>> {
        Some(words(self.command.as_ref()?.parts(), String::as_str))
    }

    pub fn environment(&self) -> Vec<(String, String)> {
        set_variables(&self.environment)
    }
}

impl Formatters {
    pub(crate) fn check(&self) -> Result<(), Error> {
        let Self::Named(named) = self else { return Ok(()) };
        named.values().filter_map(|it| it.command.as_ref()).try_for_each(At::<Line>::check)
    }
}

/// Language servers, which check files after calls have written them: none, those that Leftfold knows, or these besides
/// them.
#[derive(Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(rename = "@an object or a boolean")]
#[schemars(untagged, inline)]
pub enum LanguageServers {
    #[serde(rename = "an object")]
    Named(IndexMap<String, At<LanguageServer>>),
    #[serde(rename = "a boolean")]
    All(bool),
}

/// A language server, or changes of one that Leftfold knows.
#[derive(Clone, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
#[schemars(inline)]
pub struct LanguageServer {
    pub disabled: bool,
    /// The program and its arguments.
    command: Option<At<Line>>,
    env: IndexMap<String, At<Secret>>,
    /// The ends of the names of its files, such as `.js`.
    pub extensions: Option<Vec<String>>,
    /// Options for its start, which are also its settings.
    pub initialization: Option<Value>,
    /// The language of its files in the protocol, such as `javascript`; by default it follows from their names.
    pub language_id: Option<String>,
    sandbox: Option<ServerSandbox>,
}

impl LanguageServer {
    /// The command, if there is one. The error names a variable that is not set.
    pub fn command(&self) -> Option<Result<Vec<String>, String>> {
        Some(words(self.command.as_ref()?.parts(), String::as_str))
    }

    pub fn environment(&self) -> Vec<(String, String)> {
        set_variables(&self.env)
    }

    pub fn sandbox(&self) -> ProgramSandbox {
        self.sandbox.as_ref().map(ServerSandbox::settings).unwrap_or_default()
    }
}

impl LanguageServers {
    /// Whether they have an entry of this name.
    pub fn names(&self, id: &str) -> bool {
        matches!(self, Self::Named(named) if named.contains_key(id))
    }

    pub(crate) fn check(&self) -> Result<(), Error> {
        let Self::Named(named) = self else { return Ok(()) };
        named.values().try_for_each(|server| {
            server.command.as_ref().map_or(Ok(()), At::<Line>::check)?;
            server.sandbox.as_ref().map_or(Ok(()), ServerSandbox::check)
        })
    }
}

/// A program and its arguments.
#[derive(Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(rename = "@a list of the program and its arguments")]
#[schemars(untagged, inline)]
pub enum Line {
    #[serde(rename = "a list")]
    Parts(#[schemars(length(min = 1))] Vec<At<String>>),
}

impl Line {
    fn parts(&self) -> &[At<String>] {
        let Self::Parts(parts) = self;
        parts
    }
}

impl At<Line> {
    fn check(&self) -> Result<(), Error> {
        let first = self.parts().first();
        // a variable that is not set is reported where the program would start
        if first.is_some_and(|part| !part.unset_variables().is_empty()) {
            return Ok(());
        }
        let first = first.map(|part| part.trim());
        no_program(first).map_or(Ok(()), |found| {
            Err(self.wrong("a list of the program and its arguments", found))
        })
    }
}

/// Describes the missing program.
fn no_program(first: Option<&str>) -> Option<&'static str> {
    match first {
        None => Some("nothing in it"),
        Some("") => Some("no program"),
        Some(_) => None,
    }
}

/// One entry of the list.
#[derive(Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(
    rename = "@a list of a program and its arguments, a package or file of JavaScript, or an object with `command` or `module`"
)]
#[schemars(untagged, inline)]
pub enum Plugin {
    /// A package or file of JavaScript, written for OpenCode.
    #[serde(rename = "a string")]
    Module(String),
    /// A program and its arguments; or a module and its options.
    #[serde(rename = "a list")]
    Line(Vec<At<Value>>),
    #[serde(rename = "an object")]
    Program(Box<Program>),
}

#[derive(Clone, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(default)]
#[schemars(inline)]
pub struct Program {
    command: Option<At<Line>>,
    /// A package or file of JavaScript, written for OpenCode.
    #[serde(deserialize_with = "filled")]
    module: Option<At<String>>,
    /// Options that the module gets.
    options: IndexMap<String, Value>,
    /// Files of JavaScript that define tools, instead of a module.
    tools: Vec<At<String>>,
    env: IndexMap<String, At<Secret>>,
    environment: IndexMap<String, At<Secret>>,
    #[serde(deserialize_with = "filled")]
    cwd: Option<At<String>>,
    /// In milliseconds.
    timeout: Option<NonZeroU64>,
    enabled: Option<bool>,
    sandbox: Switch,
}

/// A plugin that can be started.
pub struct PluginProgram {
    pub code: PluginCode,
    pub environment: Vec<(String, String)>,
    /// The folder in which it starts, if the settings name one.
    pub cwd: Option<Cwd>,
    /// In milliseconds.
    pub timeout: Option<u64>,
    pub sandbox: ProgramSandbox,
}

/// The code of a plugin.
pub enum PluginCode {
    /// A program and its arguments.
    Command(Vec<String>),
    JavaScript(JavaScript),
}

impl At<Plugin> {
    /// The program to start; the error says why it cannot be used, and `None` means that the plugin
    /// is turned off.
    pub fn program(&self) -> Option<Result<PluginProgram, String>> {
        let usual = Program::default();
        let program = match &**self {
            Plugin::Program(program) => program,
            Plugin::Module(_) | Plugin::Line(_) => &usual,
        };
        if program.enabled == Some(false) {
            return None;
        }
        let code = match (self.module(), &**self) {
            (Some(module), _) => JavaScript::find(&module, &self.place().source)
                .map(PluginCode::JavaScript)
                .map_err(|why| {
                    let name = module.name.escape_debug();
                    format!("{}: the plugin \"{name}\" is left out: {why}", self.place())
                }),
            (None, Plugin::Line(parts)) => {
                words(parts, |part| part.as_str().unwrap_or_default()).map(PluginCode::Command)
            }
            (None, Plugin::Module(_) | Plugin::Program(_)) => {
                let parts = program.command.as_ref().map(|line| line.parts()).unwrap_or_default();
                words(parts, String::as_str).map(PluginCode::Command)
            }
        };
        Some(code.map(|code| PluginProgram {
            code,
            environment: [&program.env, &program.environment].map(set_variables).concat(),
            cwd: program.cwd.as_ref().map(Cwd::of),
            timeout: program.timeout.map(|time| time.get().min(NEVER)),
            sandbox: program.sandbox.settings(),
        }))
    }

    /// The plugin as the keeper of its credentials knows it; `None` if it may have none, because it is the project's.
    pub fn for_sign_ins(&self, code: &PluginCode) -> Option<SignInPlugin> {
        let source = &self.place().source;
        let program = match code {
            PluginCode::Command(command) => command.clone(),
            PluginCode::JavaScript(code) => vec![code.module.as_ref()?.display().to_string()],
        };
        let (name, source_name) = (String::new(), source.name.clone());
        (!source.of_project).then_some(SignInPlugin { name, source: source_name, program })
    }

    /// Whether it is written in JavaScript for OpenCode.
    pub(crate) fn is_javascript(&self) -> bool {
        self.module().is_some()
    }

    /// The module that it names, if it is written in JavaScript.
    pub(crate) fn module(&self) -> Option<NamedModule> {
        let module =
            |name: &str, options| NamedModule { name: name.to_owned(), tools: Vec::new(), options };
        match &**self {
            Plugin::Module(name) => Some(module(name, Map::new())),
            Plugin::Line(parts) if takes_options(parts) => {
                let options = parts.get(1).and_then(|options| options.as_object()).cloned();
                Some(module(parts.first()?.text(), options.unwrap_or_default()))
            }
            Plugin::Line(_) => None,
            Plugin::Program(program) => {
                let name = program.module.as_ref().map(|name| name.to_string());
                if name.is_none() && program.tools.is_empty() {
                    return None;
                }
                Some(NamedModule {
                    name: name.unwrap_or_default(),
                    tools: program.tools.iter().map(|file| file.to_string()).collect(),
                    options: program.options.clone().into_iter().collect(),
                })
            }
        }
    }

    /// The module, or the program without arguments: they may contain secrets.
    pub(crate) fn name(&self) -> &str {
        match &**self {
            Plugin::Module(name) => name,
            Plugin::Line(parts) => parts.first().map(At::text).unwrap_or_default(),
            Plugin::Program(program) => {
                let parts = program.command.as_ref().map(|line| line.parts()).unwrap_or_default();
                let named = program.module.as_ref().or(parts.first());
                named.map(|part| part.as_str()).unwrap_or_default()
            }
        }
    }

    pub(crate) fn check(&self) -> Result<(), Error> {
        const EXPECTED: &str = "a list of a program and its arguments, a package or file of JavaScript, or an object with `command` or `module`";
        let found = match &**self {
            Plugin::Line(parts) => {
                let texts = if takes_options(parts) { &parts[..1] } else { parts };
                texts.iter().try_for_each(At::is_text)?;
                no_program(parts.first().map(|part| part.text().trim()))
            }
            Plugin::Program(program) => match &program.command {
                Some(_) if self.is_javascript() => Some("both"),
                Some(line) => return line.check(),
                None if self.is_javascript() => None,
                None => Some("no `command` and no `module`"),
            },
            Plugin::Module(_) => None,
        };
        found.map_or(Ok(()), |found| Err(self.wrong(EXPECTED, found)))
    }
}

/// Whether these are a module and its options.
fn takes_options(parts: &[At<Value>]) -> bool {
    parts.get(1).is_some_and(|part| part.is_object())
}

/// The words of a command. Those that begin with `./` or `../` are relative to their file.
fn words<T>(parts: &[At<T>], text: impl Fn(&T) -> &str) -> Result<Vec<String>, String> {
    let unset: Vec<String> = parts.iter().flat_map(At::unset).map(|e| e.to_string()).collect();
    if !unset.is_empty() {
        return Err(unset.join("; "));
    }
    let word = |part: &At<T>| match text(part) {
        text if text.starts_with("./") || text.starts_with("../") => {
            part.place().source.path(text).display().to_string()
        }
        text => text.to_owned(),
    };
    Ok(parts.iter().map(word).collect())
}

/// Folders of skills besides the usual ones: a list of paths, or an object with `paths`.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(rename = "@an object")]
#[schemars(untagged, inline)]
pub(crate) enum Skills {
    #[serde(rename = "a list")]
    Paths(Vec<At<String>>),
    #[serde(rename = "an object")]
    Places(SkillPlaces),
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(default)]
#[schemars(inline)]
pub(crate) struct SkillPlaces {
    paths: Vec<At<String>>,
    urls: Option<At<Vec<String>>>,
}

impl Skills {
    /// The folders as written; empty ones, for example from a variable that is not set, are left
    /// out.
    pub(crate) fn paths(&self) -> impl Iterator<Item = &At<String>> {
        let paths = match self {
            Self::Paths(paths) | Self::Places(SkillPlaces { paths, .. }) => paths,
        };
        paths.iter().filter(|path| !path.trim().is_empty())
    }

    /// The place of `urls`, which have no effect.
    pub(crate) fn urls(&self) -> Option<&SettingPlace> {
        match self {
            Self::Places(SkillPlaces { urls: Some(urls), .. }) if !urls.is_empty() => {
                Some(urls.place())
            }
            Self::Paths(_) | Self::Places(_) => None,
        }
    }
}
