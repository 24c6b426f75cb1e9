//! The formatters that settings turn on.

use leftfold_config::{Formatters, Settings};
use leftfold_tools::{Formatter, Formatting};

use crate::sandbox;

/// The formatters, and the reasons why some are left out. `None`: settings turn on none.
pub fn formatting(settings: &Settings) -> Option<(Formatting, Vec<String>)> {
    let formatters = settings.formatter.as_ref()?;
    let mut all: Vec<Formatter> = Formatter::built_in().collect();
    let mut problems = Vec::new();
    match &**formatters {
        Formatters::All(false) => return None,
        Formatters::All(true) => {}
        Formatters::Named(named) => {
            for (name, said) in named {
                let known = all.iter().position(|known| known.name == *name);
                let known = known.map(|at| (at, all.remove(at)));
                if said.disabled {
                    continue;
                }
                let place = said.key_place();
                let command = match said.command().transpose() {
                    Ok(command) => command,
                    Err(why) => {
                        problems.push(why);
                        continue;
                    }
                };
                let (at, mut formatter) = match (known, command) {
                    (Some((at, mut known)), command) => {
                        if let Some(command) = command {
                            known.run_instead(command);
                        }
                        (at, known)
                    }
                    (None, Some(command)) => (all.len(), Formatter::new(name, command)),
                    (None, None) => {
                        problems.push(format!(
                            "{place}: `formatter.{name}` has no `command`, and Leftfold knows no formatter of this name"
                        ));
                        continue;
                    }
                };
                if let Some(extensions) = &said.extensions {
                    formatter.extensions.clone_from(extensions);
                }
                if formatter.extensions.is_empty() {
                    problems.push(format!("{place}: `formatter.{name}` has no `extensions`"));
                }
                formatter.environment = said.environment();
                all.insert(at, formatter);
            }
        }
    }
    let trusted = settings.trust.has_trusted("formatter");
    Some((Formatting { formatters: all, trusted, sandbox: sandbox::options(settings) }, problems))
}
