//! Collects every key and credential in settings, variables and stored keys, used or not, so that
//! they can be masked: a file or command may print any of them.

use serde_json::{Map, Value};

use crate::models_dev::ListedProvider;
use crate::settings::Settings;
use crate::source::{Env, set};
use crate::{schema, secrecy};

/// Names and values.
pub type FoundCredentials = Vec<(String, String)>;

/// The credentials in settings that are in no file.
pub fn credentials_in(settings: &Map<String, Value>) -> FoundCredentials {
    let mut found = Vec::new();
    fields(settings, &mut Vec::new(), &mut found);
    found
}

impl Settings {
    /// Names and values.
    pub fn credentials(&self, env: Env<'_>) -> FoundCredentials {
        let mut found = match self.tree.as_ref().map(|tree| tree.value()) {
            Some(Value::Object(all)) => credentials_in(&all),
            Some(_) | None => Vec::new(),
        };
        let own = self.providers.values().flat_map(|provider| &provider.env);
        let builtin = self
            .known()
            .builtin
            .iter()
            .flat_map(|builtin| builtin.keys.iter().chain(builtin.hidden));
        // a provider of the list is chosen before its key is in use
        let listed = self.list.if_read().into_iter().flat_map(|list| list.providers.values());
        let listed = listed.flat_map(ListedProvider::keys);
        let variables = own.map(String::as_str).chain(builtin.copied()).chain(listed);
        found.extend(variables.filter_map(|name| Some((name.to_owned(), set(env, name)?))));
        let addresses = self.known().builtin.iter().map(|builtin| builtin.base_url);
        for name in addresses.filter(|name| !name.is_empty()) {
            address(name, &set(env, name).unwrap_or_default(), &mut found);
        }
        let stored = self.stored.providers();
        found.extend(stored.filter_map(|name| {
            Some((format!("auth.{name}"), self.stored.for_provider(name)?.reveal().to_owned()))
        }));
        for (name, signed_in) in self.stored.sign_ins() {
            let tokens = [("access", &signed_in.access), ("refresh", &signed_in.refresh)];
            found.extend(
                tokens.map(|(token, value)| {
                    (format!("auth.{name}.{token}"), value.reveal().to_owned())
                }),
            );
        }
        found
    }
}

/// Fields with names of credentials, and all values below them. Rules and plugins have none, and
/// `secrets` have names of their own.
fn fields(all: &Map<String, Value>, path: &mut Vec<String>, found: &mut FoundCredentials) {
    for (name, value) in all {
        path.push(name.clone());
        let steps: Vec<&str> = path.iter().map(String::as_str).collect();
        if !matches!(steps[..], ["secrets" | "plugin"]) && !schema::is(&steps, "x-rules") {
            field(value, path, found);
        }
        path.pop();
    }
}

fn field(value: &Value, path: &mut Vec<String>, found: &mut FoundCredentials) {
    match value {
        Value::String(text) => text_at(text, path, found),
        Value::Object(all) => fields(all, path, found),
        Value::Array(items) => items.iter().for_each(|item| field(item, path, found)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

fn text_at(text: &str, path: &[String], found: &mut FoundCredentials) {
    let steps: Vec<&str> = path.iter().map(String::as_str).collect();
    match steps[..] {
        ["provider", name, "options", "baseURL" | "endpoint"] | ["provider", name, "api"] => {
            address(&format!("{name}.baseURL"), text, found);
        }
        _ if text.trim().is_empty() || !schema::hides(path) => {}
        ["provider", name, "options", "apiKey"] => {
            found.push((format!("{name}.apiKey"), text.to_owned()));
        }
        ["provider", name, .., "headers", header] => {
            // The credential alone too, without the scheme before it.
            let value = text.trim();
            let bare = value.split_once(' ').map_or(value, |(_, bare)| bare);
            let name = format!("{name}.{header}");
            found.extend([bare, value].map(|value| (name.clone(), value.to_owned())));
        }
        ["provider", ref rest @ ..] | ref rest => {
            let last = rest.len().saturating_sub(2);
            found.push((rest[last..].join("."), text.to_owned()));
        }
    }
}

/// The password before the `@` of a URL, and the query parameters with names of keys.
fn address(name: &str, address: &str, found: &mut FoundCredentials) {
    let Some((_, rest)) = address.split_once("://") else { return };
    let (host, query) = rest.split_once('?').unwrap_or((rest, ""));
    let host = host.split('/').next().unwrap_or(host);
    if let Some((user, _)) = host.rsplit_once('@') {
        let password = user.split_once(':').map_or(user, |(_, password)| password);
        found.push((name.to_owned(), password.to_owned()));
    }
    let pairs = query.split(['&', '#']).filter_map(|pair| pair.split_once('='));
    let keys = pairs.filter(|(key, _)| secrecy::is_credential(key));
    found.extend(keys.map(|(key, value)| (format!("{name}.{key}"), value.to_owned())));
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn fields_and_addresses_that_name_credentials_are_found() {
        let all = json!({
            "mcp": { "github": { "environment": { "A": "one" }, "command": ["x"], "url": "u" } },
            "server": { "password": "two", "port": 1 },
            "lsp": { "l": { "auth": { "list": ["three", ["four"]], "n": 1 } } },
            "permission": { "secret": "deny" },
            "provider": { "p": { "options": {
                "apiKey": "eight", "secretKey": "nine", "headers": { "x-key": "Bearer ten" }
            } } },
        });
        let mut found = Vec::new();
        fields(all.as_object().unwrap(), &mut Vec::new(), &mut found);
        address("p.baseURL", "http://me:five@host/v1?api_key=six&v=1", &mut found);
        address("q.baseURL", "https://seven@host", &mut found);
        address("r.baseURL", "http://host/a@b", &mut found);
        let of = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let mut expected = vec![
            of("environment.A", "one"),
            of("server.password", "two"),
            of("auth.list", "three"),
            of("auth.list", "four"),
            of("p.baseURL", "five"),
            of("p.baseURL.api_key", "six"),
            of("q.baseURL", "seven"),
            of("p.apiKey", "eight"),
            of("options.secretKey", "nine"),
            of("p.x-key", "ten"),
            of("p.x-key", "Bearer ten"),
        ];
        expected.sort();
        found.sort();
        assert_eq!(found, expected);
    }
}
