//! What settings say of agents and commands.

use serde_json::{Map, Value};

use super::error::Hint;
use super::view::View;
use super::{Error, Place, keys};

/// Whose prompts an agent takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// People's.
    Primary,
    /// Other agents'.
    Subagent,
    All,
}

impl Mode {
    pub const NAMES: [(&'static str, Self); 3] =
        [("primary", Self::Primary), ("subagent", Self::Subagent), ("all", Self::All)];

    pub fn name(self) -> &'static str {
        match self {
            Self::Primary => "primary",
            Self::Subagent => "subagent",
            Self::All => "all",
        }
    }

    /// Whether people can prompt it.
    pub fn is_primary(self) -> bool {
        self != Self::Subagent
    }
}

/// Of one agent. What is not said stays as it is.
#[derive(Clone, Debug, PartialEq)]
pub struct Agent {
    pub description: Option<String>,
    pub mode: Option<Mode>,
    pub prompt: Option<String>,
    /// `PROVIDER/MODEL`, and where that stands.
    pub model: Option<String>,
    pub model_at: Option<Place>,
    pub variant: Option<String>,
    pub temperature: Option<f64>,
    pub top_p: Option<f64>,
    pub steps: Option<u32>,
    pub disable: bool,
    pub hidden: Option<bool>,
    pub color: Option<String>,
    /// Those under `options`, and every key that means nothing else (SPEC A3).
    pub options: Map<String, Value>,
    /// Where the last source says something of it.
    pub place: Place,
}

impl Agent {
    pub(super) fn read(view: &View<'_>) -> Result<Self, Error> {
        let mut agent = Self {
            description: None,
            mode: None,
            prompt: None,
            model: None,
            model_at: None,
            variant: None,
            temperature: None,
            top_p: None,
            steps: None,
            disable: false,
            hidden: None,
            color: None,
            options: Map::new(),
            place: view.key_place().clone(),
        };
        for (key, view) in view.entries()? {
            agent.key(key, &view)?;
        }
        Ok(agent)
    }

    fn key(&mut self, key: &str, view: &View<'_>) -> Result<(), Error> {
        match key {
            "description" => self.description = view.filled()?,
            "mode" => self.mode = Some(view.one_of(&Mode::NAMES)?),
            "prompt" => self.prompt = view.filled()?,
            "model" => (self.model, self.model_at) = keys::model(view)?,
            "variant" => self.variant = view.filled()?,
            "temperature" => self.temperature = Some(view.amount()?),
            "top_p" | "topP" => self.top_p = Some(view.amount()?),
            "steps" | "maxSteps" => {
                self.steps = Some(u32::try_from(view.positive()?).unwrap_or(u32::MAX));
            }
            "disable" => self.disable = view.boolean()?,
            "hidden" => self.hidden = Some(view.boolean()?),
            "color" => self.color = view.filled()?,
            "options" => {
                for (key, view) in view.entries()? {
                    self.options.insert(key.to_owned(), view.value());
                }
            }
            // the name is that of the entry; rules are read source by source
            "name" | "permission" | "tools" => {}
            _ => drop(self.options.insert(key.to_owned(), view.value())),
        }
        Ok(())
    }
}

/// Of one command.
#[derive(Clone, Debug, PartialEq)]
pub struct Command {
    pub template: Option<String>,
    pub description: Option<String>,
    pub agent: Option<String>,
    /// `PROVIDER/MODEL`.
    pub model: Option<String>,
    /// Whether an agent carries it out in a session of its own.
    pub subtask: Option<bool>,
    pub place: Place,
}

impl Command {
    const KEYS: [&str; 5] = ["template", "description", "agent", "model", "subtask"];

    pub(super) fn read(view: &View<'_>) -> Result<Self, Error> {
        let mut command = Self {
            template: None,
            description: None,
            agent: None,
            model: None,
            subtask: None,
            place: view.key_place().clone(),
        };
        for (key, view) in view.entries()? {
            match key {
                "template" => command.template = view.filled()?,
                "description" => command.description = view.filled()?,
                "agent" => command.agent = view.filled()?,
                "model" => command.model = keys::model(&view)?.0,
                "subtask" => command.subtask = Some(view.boolean()?),
                _ => view.no_slip_of(key, &Self::KEYS)?,
            }
        }
        Ok(command)
    }

    /// What is wrong with a command that has no text.
    pub fn empty(&self, name: &str) -> String {
        format!("{}: the command `/{name}` has no template: write what it is to say", self.place)
    }
}

/// The end of a message about a wrong name, which says what was meant.
pub fn meant(wrong: &str, known: &[&str]) -> String {
    Hint::toward(wrong, known).to_string()
}
