//! What settings say of a server of the Model Context Protocol.

use std::path::PathBuf;

use leftfold_mcp::{Reach, Spec};

use super::error::Hint;
use super::provider::{self, NEVER, Secret};
use super::view::View;
use super::{Error, Place, oauth};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Local,
    Remote,
}

impl Kind {
    const NAMES: [(&str, Self); 2] = [("local", Self::Local), ("remote", Self::Remote)];
}

/// Of one server. Files may say it in parts, so that what is missing is known only at the end.
#[derive(Clone, PartialEq)]
pub struct Mcp {
    kind: Option<Kind>,
    /// The program, and what it is given.
    command: Option<Vec<String>>,
    environment: Vec<(String, Secret)>,
    cwd: Option<PathBuf>,
    url: Option<String>,
    headers: Vec<(String, Secret)>,
    oauth: oauth::Settings,
    pub enabled: bool,
    /// Milliseconds.
    timeout: Option<u64>,
    /// Where the last source says something of it.
    pub place: Place,
    /// Variables that are needed and not set, as the error that they are.
    unset: Vec<String>,
}

/// Values may be secrets.
impl std::fmt::Debug for Mcp {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Mcp").finish_non_exhaustive()
    }
}

pub(super) const KEYS: [&str; 9] =
    ["type", "command", "environment", "cwd", "url", "headers", "enabled", "timeout", "oauth"];

impl Mcp {
    pub(super) fn read(view: &View<'_>) -> Result<Self, Error> {
        let mut mcp = Self {
            kind: None,
            command: None,
            environment: Vec::new(),
            cwd: None,
            url: None,
            headers: Vec::new(),
            oauth: oauth::Settings::default(),
            enabled: true,
            timeout: None,
            place: view.key_place().clone(),
            unset: Vec::new(),
        };
        for (key, view) in view.known(&KEYS)? {
            mcp.key(key, &view)?;
        }
        Ok(mcp)
    }

    fn key(&mut self, key: &str, view: &View<'_>) -> Result<(), Error> {
        match key {
            "type" => self.kind = Some(view.one_of(&Kind::NAMES)?),
            "command" => self.command = Some(self.read_command(view)?),
            "environment" => {
                // what a variable that is not set stands for is not set either
                let entries = view.entries()?.into_iter();
                for (name, view) in entries {
                    if view.text()?.unset().next().is_none() {
                        self.environment.push((name.to_owned(), Secret::new(view.string()?)));
                    }
                }
            }
            "cwd" => self.cwd = view.filled()?.map(|path| view.resolve(&path)),
            "url" => {
                self.need(view)?;
                self.url = view.filled()?;
            }
            "headers" => {
                for (_, header) in view.entries()? {
                    self.need(&header)?;
                }
                self.headers = provider::headers(view)?;
            }
            "enabled" => self.enabled = view.boolean()?,
            "timeout" => self.timeout = Some(view.positive()?.min(NEVER)),
            "oauth" => self.oauth = oauth::Settings::read(view)?,
            _ => {}
        }
        Ok(())
    }

    fn read_command(&mut self, view: &View<'_>) -> Result<Vec<String>, Error> {
        let expected = "a list of the program and its arguments";
        let parts = view.list().map_err(|_| view.wrong(expected))?;
        for part in &parts {
            self.need(part)?;
        }
        let command = view.strings()?;
        match command.first() {
            Some(program) if !program.trim().is_empty() => Ok(command),
            Some(_) | None => {
                let found = if command.is_empty() { "nothing in it" } else { "no program" };
                Err(Error::Wrong {
                    place: view.at().clone(),
                    key: format!("`{}`", view.path),
                    expected: expected.to_owned(),
                    found: found.to_owned(),
                    hint: Hint::default(),
                })
            }
        }
    }

    /// Remembers what is missing of a string without which the server is not what its user meant.
    fn need(&mut self, view: &View<'_>) -> Result<(), Error> {
        for variable in view.text()?.unset() {
            let (place, key) = (view.at().clone(), view.path.clone());
            let variable = variable.to_owned();
            self.unset.push(Error::Unset { place, key, variable }.to_string());
        }
        Ok(())
    }

    /// As it is to be used.
    pub fn spec(&self, name: &str) -> Spec {
        let timeout = self.timeout.map(std::time::Duration::from_millis);
        Spec { name: name.to_owned(), reach: self.reach(name), timeout }
    }

    fn reach(&self, name: &str) -> Reach {
        let bare = |pairs: &[(String, Secret)]| -> Vec<(String, String)> {
            pairs.iter().map(|(name, value)| (name.clone(), value.reveal().to_owned())).collect()
        };
        let kind = self.kind.or_else(|| self.url.as_ref().map(|_| Kind::Remote));
        match (kind.unwrap_or(Kind::Local), &self.command, &self.url) {
            _ if !self.enabled => Reach::Disabled,
            _ if !self.unset.is_empty() => Reach::Unusable(self.unset.join("; ")),
            (Kind::Local, Some(command), _) => Reach::Local {
                command: command.clone(),
                environment: bare(&self.environment),
                cwd: self.cwd.clone(),
            },
            (Kind::Remote, _, Some(url)) => {
                let (headers, oauth) = (bare(&self.headers), self.oauth.oauth());
                Reach::Remote { url: url.clone(), headers, oauth }
            }
            (Kind::Local, None, _) => self.lacks(name, "`command`"),
            (Kind::Remote, _, None) => self.lacks(name, "`url`"),
        }
    }

    fn lacks(&self, name: &str, what: &str) -> Reach {
        Reach::Unusable(format!("{}: `mcp.{name}` has no {what}", self.place))
    }

    /// What it is called in settings.
    pub fn kind(&self) -> &'static str {
        match self.reach("") {
            Reach::Remote { .. } => "remote",
            Reach::Local { .. } => "local",
            Reach::Unusable(_) | Reach::Disabled => match self.kind {
                Some(Kind::Remote) => "remote",
                None if self.url.is_some() => "remote",
                Some(Kind::Local) | None => "local",
            },
        }
    }
}
