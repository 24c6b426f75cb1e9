//! The keys at the top of a settings file: all that there are, and how each is read.

use super::error::Hint;
use super::provider::NEVER;
use super::view::View;
use super::{
    Agent, Command, Compaction, Error, Mcp, Place, Plugin, Provider, Relative, Retry, Secret,
    Settings, Task, ToolOutput, WebFetch, mcp, model, oauth, provider, skills,
};

/// What is asked of a key whose meaning is not for this loader.
#[derive(Clone, Copy, Debug)]
enum Outer {
    Object,
    Text,
    Boolean,
    ObjectOrBoolean,
    TextOrBoolean,
    Any,
}

/// Accepted and kept as they are.
const KEPT: [(&str, Outer); 24] = [
    ("$schema", Outer::Text),
    ("agent", Outer::Object),
    ("attachment", Outer::Object),
    ("autoshare", Outer::Boolean),
    ("autoupdate", Outer::TextOrBoolean),
    ("command", Outer::Object),
    ("enterprise", Outer::Object),
    ("experimental", Outer::Object),
    ("formatter", Outer::ObjectOrBoolean),
    ("keybinds", Outer::Object),
    ("layout", Outer::Text),
    ("logLevel", Outer::Text),
    ("lsp", Outer::ObjectOrBoolean),
    ("mcp", Outer::Object),
    ("mode", Outer::Object),
    ("reference", Outer::Any),
    ("server", Outer::Object),
    ("share", Outer::TextOrBoolean),
    ("shell", Outer::Any),
    ("theme", Outer::Text),
    ("tui", Outer::Object),
    ("username", Outer::Text),
    ("watcher", Outer::Object),
    ("web", Outer::Any),
];

/// Read into fields of [`Settings`].
const READ: [&str; 20] = [
    "model",
    "small_model",
    "default_agent",
    "provider",
    "enabled_providers",
    "disabled_providers",
    "permission",
    "tools",
    "title",
    "snapshot",
    "tool_output",
    "webfetch",
    "task",
    "environment",
    "compaction",
    "retry",
    "secrets",
    "instructions",
    "plugin",
    "skills",
];

/// Lists that grow from file to file instead of being replaced.
pub(super) const JOINED: [&str; 2] = ["plugin", "instructions"];

/// Every key at the top.
pub(super) fn top() -> Vec<&'static str> {
    READ.into_iter().chain(KEPT.iter().map(|(key, _)| *key)).collect()
}

/// Whether a key at the top is accepted and nothing here goes by it.
pub(super) fn is_idle(key: &str) -> bool {
    const OF_USE: [&str; 4] = ["$schema", "agent", "command", "mcp"];
    KEPT.iter().any(|(kept, _)| *kept == key) && !OF_USE.contains(&key)
}

/// The keys that there are at a path; `None` where any key may stand.
pub(super) fn at(path: &[&str]) -> Option<Vec<&'static str>> {
    match path {
        [] => Some(top()),
        ["tool_output"] => Some(TOOL_OUTPUT.to_vec()),
        ["task"] => Some(TASK.to_vec()),
        ["skills"] => Some(skills::KEYS.to_vec()),
        ["compaction"] => Some(COMPACTION.to_vec()),
        ["retry"] => Some(RETRY.to_vec()),
        ["mcp", _] => Some(mcp::KEYS.to_vec()),
        ["mcp", _, "oauth"] => Some(oauth::KEYS.to_vec()),
        ["provider", _] => Some(provider::KEYS.to_vec()),
        ["provider", _, "models", _] => Some(model::KEYS.to_vec()),
        ["provider", _, "models", _, "limit"] => Some(model::LIMITS.to_vec()),
        ["provider", _, "models", _, "cost"] => Some(model::COSTS.to_vec()),
        _ => None,
    }
}

const TASK: [&str; 1] = ["timeout"];
const TOOL_OUTPUT: [&str; 2] = ["max_lines", "max_bytes"];
const COMPACTION: [&str; 5] = ["auto", "prune", "reserved", "tail_turns", "preserve_recent_tokens"];
const RETRY: [&str; 1] = ["attempts"];

/// Reads one source, or what all of them came to.
pub(super) fn read(root: &View<'_>) -> Result<Settings, Error> {
    let mut settings = Settings::default();
    for (key, view) in root.known(&top())? {
        settings.read(key, &view)?;
    }
    Ok(settings)
}

impl Settings {
    fn read(&mut self, key: &str, view: &View<'_>) -> Result<(), Error> {
        match key {
            "model" => (self.model, self.model_at) = model(view)?,
            "small_model" => self.small_model = model(view)?.0,
            "default_agent" => {
                self.default_agent = view.filled()?.map(|name| (name, view.at().clone()));
            }
            "agent" => {
                self.agents = named(view, Agent::read)?;
                self.keep(key, view)?;
            }
            "command" => {
                self.commands = named(view, Command::read)?;
                self.keep(key, view)?;
            }
            "mcp" => {
                self.mcp = named(view, Mcp::read)?;
                self.keep(key, view)?;
            }
            "provider" => self.providers = named(view, Provider::read)?,
            "enabled_providers" => self.enabled_providers = Some(view.strings()?),
            "disabled_providers" => self.disabled_providers = view.strings()?,
            "title" => self.title = view.boolean()?,
            "snapshot" => self.snapshot = view.boolean()?,
            "tool_output" => self.tool_output = ToolOutput::read(view)?,
            "webfetch" => self.webfetch = WebFetch::read(view)?,
            "task" => self.task = Task::read(view)?,
            "environment" => self.environment = environment(view)?,
            "compaction" => self.compaction = Compaction::read(view)?,
            "retry" => self.retry = Retry::read(view)?,
            "secrets" => self.secrets = secrets(view)?,
            "instructions" => self.instructions = relative(view, |view| view.string())?,
            "plugin" => self.plugins = relative(view, Plugin::read)?,
            "skills" => self.skills = skills::read(view)?,
            // `permission` and `tools` are read source by source: see `load`
            _ => self.keep(key, view)?,
        }
        Ok(())
    }

    fn keep(&mut self, key: &str, view: &View<'_>) -> Result<(), Error> {
        let Some((_, outer)) = KEPT.iter().find(|(name, _)| *name == key) else { return Ok(()) };
        let object = || view.entries().map(drop);
        match outer {
            Outer::Object => object()?,
            Outer::Text => drop(view.text()?),
            Outer::Boolean => drop(view.boolean()?),
            Outer::ObjectOrBoolean if view.boolean().is_err() => {
                object().map_err(|_| view.wrong("an object or a boolean"))?;
            }
            Outer::TextOrBoolean if view.boolean().is_err() => {
                view.text().map_err(|_| view.wrong("a string or a boolean"))?;
            }
            Outer::ObjectOrBoolean | Outer::TextOrBoolean | Outer::Any => {}
        }
        self.kept.insert(key.to_owned(), view.value());
        Ok(())
    }
}

/// The entries of an object, each with its name.
fn named<T>(
    view: &View<'_>,
    read: impl Fn(&View<'_>) -> Result<T, Error>,
) -> Result<Vec<(String, T)>, Error> {
    let entries = view.entries()?.into_iter();
    entries.map(|(name, view)| Ok((name.to_owned(), read(&view)?))).collect()
}

/// `PROVIDER/MODEL`; the model's own name may have slashes in it.
pub(super) fn model(view: &View<'_>) -> Result<(Option<String>, Option<Place>), Error> {
    let Some(name) = view.filled()? else { return Ok((None, None)) };
    match name.split_once('/') {
        Some((provider, id)) if !provider.is_empty() && !id.is_empty() => {
            Ok((Some(name), Some(view.at().clone())))
        }
        Some(_) | None => Err(view.instead("\"PROVIDER/MODEL\"", &name, Hint::default())),
    }
}

/// Names of variables, none of which may be a credential's.
fn environment(view: &View<'_>) -> Result<Vec<String>, Error> {
    let names = view.list()?.into_iter().map(|view| {
        let name = view.string()?;
        if leftfold_process::is_credential(&name) {
            let expected =
                "a name that is no key's, token's or password's (commands never get those)";
            return Err(view.instead(expected, &name, Hint::default()));
        }
        Ok(name)
    });
    names.collect()
}

impl ToolOutput {
    fn read(view: &View<'_>) -> Result<Self, Error> {
        let mut read = Self::default();
        for (key, view) in view.known(&TOOL_OUTPUT)? {
            match key {
                "max_lines" => read.max_lines = view.positive()?,
                _ => read.max_bytes = view.positive()?,
            }
        }
        Ok(read)
    }
}

impl WebFetch {
    fn read(view: &View<'_>) -> Result<Self, Error> {
        let mut read = Self::default();
        for (_, view) in view.known(&["private"])? {
            read.private = view.boolean()?;
        }
        Ok(read)
    }
}

impl Task {
    fn read(view: &View<'_>) -> Result<Self, Error> {
        let mut read = Self::default();
        for (_, view) in view.known(&TASK)? {
            read.timeout = view.positive()?.min(NEVER);
        }
        Ok(read)
    }
}

impl Compaction {
    fn read(view: &View<'_>) -> Result<Self, Error> {
        let mut read = Self::default();
        for (key, view) in view.known(&COMPACTION)? {
            match key {
                "auto" => read.auto = view.boolean()?,
                "prune" => read.prune = view.boolean()?,
                "reserved" => read.reserved = Some(view.count()?),
                "tail_turns" => read.tail_turns = Some(view.count()?),
                _ => read.preserve_recent_tokens = Some(view.count()?),
            }
        }
        Ok(read)
    }
}

impl Retry {
    fn read(view: &View<'_>) -> Result<Self, Error> {
        let mut read = Self::default();
        for (_, view) in view.known(&RETRY)? {
            read.attempts = u32::try_from(view.count()?).unwrap_or(u32::MAX);
        }
        Ok(read)
    }
}

/// Secrets by name; those whose variable is not set are left out.
fn secrets(view: &View<'_>) -> Result<Vec<(String, Secret)>, Error> {
    let mut secrets = Vec::new();
    for (name, view) in view.entries()? {
        if let Some(value) = view.filled()? {
            secrets.push((name.to_owned(), Secret::new(value)));
        }
    }
    Ok(secrets)
}

/// The items of a list, each with the folder that its relative paths start from, each once.
fn relative<T: PartialEq>(
    view: &View<'_>,
    read: impl Fn(&View<'_>) -> Result<T, Error>,
) -> Result<Vec<Relative<T>>, Error> {
    let mut items: Vec<Relative<T>> = Vec::new();
    for view in view.list()? {
        let item = Relative { base: view.at().source.base.clone(), value: read(&view)? };
        if !items.contains(&item) {
            items.push(item);
        }
    }
    Ok(items)
}
