//! What settings say of plugins.

use std::time::Duration;

use leftfold_plugins::Spec;

use super::error::Hint;
use super::provider::{NEVER, Secret};
use super::view::View;
use super::{Error, Place};

/// One entry of the list.
#[derive(Clone)]
pub struct Plugin {
    pub place: Place,
    what: What,
}

/// Values may be secrets.
impl std::fmt::Debug for Plugin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Plugin").finish_non_exhaustive()
    }
}

/// Whatever place it stands in.
impl PartialEq for Plugin {
    fn eq(&self, other: &Self) -> bool {
        self.what == other.what
    }
}

#[derive(Clone, PartialEq)]
enum What {
    Program {
        command: Vec<String>,
        environment: Vec<(String, Secret)>,
        /// Milliseconds.
        timeout: Option<u64>,
        enabled: bool,
        /// Variables that are needed and not set, as the error that they are.
        unset: Vec<String>,
    },
    /// A package of JavaScript, as other agents have them.
    Package(String),
}

pub(super) const KEYS: [&str; 5] = ["command", "env", "environment", "timeout", "enabled"];

const EXPECTED: &str =
    "a list of a program and its arguments, or an object with `command`, such a list";

impl Plugin {
    pub(super) fn read(view: &View<'_>) -> Result<Self, Error> {
        let what = match (view.text(), view.list()) {
            (Ok(_), _) => What::Package(view.string()?),
            // a package with its options
            (_, Ok(parts)) if parts.get(1).is_some_and(View::is_map) => {
                What::Package(parts[0].string()?)
            }
            (_, Ok(_)) => {
                let mut unset = Vec::new();
                let command = command(view, &mut unset)?;
                let (environment, timeout, enabled) = (Vec::new(), None, true);
                What::Program { command, environment, timeout, enabled, unset }
            }
            (Err(_), Err(_)) => program(view)?,
        };
        Ok(Self { place: view.at().clone(), what })
    }

    /// As it is to be used; why it can not be, or (`None`) it is turned off.
    pub fn spec(&self) -> Option<Result<Spec, String>> {
        match &self.what {
            What::Program { enabled: false, .. } => None,
            What::Program { unset, .. } if !unset.is_empty() => Some(Err(unset.join("; "))),
            What::Program { command, environment, timeout, .. } => {
                let bare =
                    |(name, value): &(String, Secret)| (name.clone(), value.reveal().to_owned());
                Some(Ok(Spec {
                    place: self.place.to_string(),
                    command: command.clone(),
                    environment: environment.iter().map(bare).collect(),
                    timeout: timeout.map_or(leftfold_plugins::TIMEOUT, Duration::from_millis),
                }))
            }
            What::Package(name) => Some(Err(format!(
                "{}: the plugin \"{}\" is left out: packages of JavaScript are not run here, a plugin \
                 is a program, named as a list such as [\"python3\", \"./plugin.py\"]",
                self.place,
                name.escape_debug()
            ))),
        }
    }
}

fn program(view: &View<'_>) -> Result<What, Error> {
    if !view.is_map() {
        return Err(view.wrong(EXPECTED));
    }
    let (mut line, mut environment, mut timeout) = (None, Vec::new(), None);
    let (mut enabled, mut unset) = (true, Vec::new());
    for (key, view) in view.known(&KEYS)? {
        match key {
            "command" => line = Some(command(&view, &mut unset)?),
            "timeout" => timeout = Some(view.positive()?.min(NEVER)),
            "enabled" => enabled = view.boolean()?,
            _ => {
                for (name, view) in view.entries()? {
                    // what a variable that is not set stands for is not set either
                    if view.text()?.unset().next().is_none() {
                        environment.push((name.to_owned(), Secret::new(view.string()?)));
                    }
                }
            }
        }
    }
    let Some(command) = line else { return Err(lacks(view, "no `command`")) };
    Ok(What::Program { command, environment, timeout, enabled, unset })
}

/// Parts that begin with `./` or `../` start at the file they stand in.
fn command(view: &View<'_>, unset: &mut Vec<String>) -> Result<Vec<String>, Error> {
    let parts = view.list().map_err(|_| view.wrong("a list of the program and its arguments"))?;
    let mut command = Vec::new();
    for part in &parts {
        for variable in part.text()?.unset() {
            let (place, key) = (part.at().clone(), part.path.clone());
            unset.push(Error::Unset { place, key, variable: variable.to_owned() }.to_string());
        }
        let text = part.string()?;
        let relative = text.starts_with("./") || text.starts_with("../");
        command.push(if relative { part.resolve(&text).display().to_string() } else { text });
    }
    match command.first() {
        Some(program) if !program.trim().is_empty() => Ok(command),
        Some(_) => Err(lacks(view, "no program")),
        None => Err(lacks(view, "nothing in it")),
    }
}

fn lacks(view: &View<'_>, found: &str) -> Error {
    Error::Wrong {
        place: view.at().clone(),
        key: format!("`{}`", view.path),
        expected: EXPECTED.to_owned(),
        found: found.to_owned(),
        hint: Hint::default(),
    }
}
