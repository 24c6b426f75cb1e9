//! Every key and credential that settings, variables and `leftfold auth` give to providers, whether the
//! provider is in use or not: what a file or a command shows may be another one's.

use serde_json::{Map, Value};

use super::builtin::{BUILTIN, set};
use super::{Env, Settings, secrecy};

impl Settings {
    /// Names and values.
    pub(crate) fn credentials(&self, env: Env<'_>) -> Vec<(String, String)> {
        let mut found = Vec::new();
        for (name, provider) in &self.providers {
            if let Some(key) = &provider.api_key {
                found.push((format!("{name}.apiKey"), key.reveal().to_owned()));
            }
            for (header, value) in &provider.headers {
                let path = ["provider", name, "options", "headers", header].map(str::to_owned);
                if secrecy::hides(&path) {
                    // the credential alone, too, without the word before it
                    let value = value.reveal();
                    let bare = value.trim().rsplit(' ').next().unwrap_or(value);
                    found.extend(
                        [bare, value].map(|value| (format!("{name}.{header}"), value.to_owned())),
                    );
                }
            }
            let mut path = ["provider", name, "options"].map(str::to_owned).to_vec();
            options(&provider.options, &mut path, &mut found);
        }
        let own = self.providers.iter().flat_map(|(_, provider)| &provider.env);
        let builtin = BUILTIN.iter().flat_map(|builtin| builtin.keys);
        let variables = own.map(String::as_str).chain(builtin.copied());
        found.extend(variables.filter_map(|name| Some((name.to_owned(), set(env, name)?))));
        let stored = self.stored.providers();
        found.extend(stored.filter_map(|name| {
            Some((format!("auth.{name}"), self.stored.of(name)?.reveal().to_owned()))
        }));
        found
    }
}

/// Options whose names say that they are credentials.
fn options(fields: &Map<String, Value>, path: &mut Vec<String>, found: &mut Vec<(String, String)>) {
    for (name, value) in fields {
        path.push(name.clone());
        match value {
            Value::String(text) if secrecy::hides(path) => {
                found.push((format!("{}.{name}", path[1]), text.clone()));
            }
            Value::Object(fields) => options(fields, path, found),
            Value::Null
            | Value::Bool(_)
            | Value::Number(_)
            | Value::String(_)
            | Value::Array(_) => {}
        }
        path.pop();
    }
}
