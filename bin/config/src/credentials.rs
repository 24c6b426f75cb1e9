//! Every key and credential that settings, variables and `leftfold auth` give, to providers above all, and
//! whether it is in use or not: what a file or a command shows may be another one's.

use serde_json::{Map, Value};

use super::builtin::set;
use super::{Env, Provider, Secret, Settings, secrecy};

/// Names and values.
type Found = Vec<(String, String)>;

impl Settings {
    /// Names and values.
    pub fn credentials(&self, env: Env<'_>) -> Found {
        let mut found = Vec::new();
        for (name, provider) in &self.providers {
            of_provider(name, provider, &mut found);
        }
        options(&self.kept, &mut Vec::new(), &mut found);
        let own = self.providers.iter().flat_map(|(_, provider)| &provider.env);
        let builtin = self.known.builtin.iter().flat_map(|builtin| builtin.keys);
        let variables = own.map(String::as_str).chain(builtin.copied());
        found.extend(variables.filter_map(|name| Some((name.to_owned(), set(env, name)?))));
        let addresses = self.known.builtin.iter().map(|builtin| builtin.base_url);
        for name in addresses.filter(|name| !name.is_empty()) {
            address(name, set(env, name).as_deref(), &mut found);
        }
        let stored = self.stored.providers();
        found.extend(stored.filter_map(|name| {
            Some((format!("auth.{name}"), self.stored.of(name)?.reveal().to_owned()))
        }));
        found
    }
}

fn of_provider(name: &str, provider: &Provider, found: &mut Found) {
    if let Some(key) = &provider.api_key {
        found.push((format!("{name}.apiKey"), key.reveal().to_owned()));
    }
    address(&format!("{name}.baseURL"), provider.base_url.as_deref(), found);
    let mut path = ["provider", name, "options"].map(str::to_owned).to_vec();
    headers(&provider.headers, &path, found);
    options(&provider.options, &mut path, found);
    for (id, model) in &provider.models {
        let mut path = ["provider", name, "models", id, "options"].map(str::to_owned).to_vec();
        headers(&model.headers, &path[..4], found);
        options(&model.options, &mut path, found);
    }
}

fn headers(headers: &[(String, Secret)], path: &[String], found: &mut Found) {
    for (header, value) in headers {
        let place = [path, &["headers".to_owned(), header.clone()]].concat();
        if secrecy::hides(&place) {
            // the credential alone, too, without the word before it
            let value = value.reveal().trim();
            let bare = value.split_once(' ').map_or(value, |(_, bare)| bare);
            let name = format!("{}.{header}", path[1]);
            found.extend([bare, value].map(|value| (name.clone(), value.to_owned())));
        }
    }
}

/// Fields whose names say that they are credentials, and all that stands below them.
fn options(fields: &Map<String, Value>, path: &mut Vec<String>, found: &mut Found) {
    for (name, value) in fields {
        path.push(name.clone());
        option(value, path, found);
        path.pop();
    }
}

fn option(value: &Value, path: &mut Vec<String>, found: &mut Found) {
    match value {
        Value::String(text) if secrecy::hides(path) => {
            let from = path.len().saturating_sub(2);
            let from = if path[0] == "provider" { from.max(1) } else { from };
            found.push((path[from..].join("."), text.clone()));
        }
        Value::Object(fields) => options(fields, path, found),
        Value::Array(items) => items.iter().for_each(|item| option(item, path, found)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// What stands before the `@` of an address, and what its query calls a key.
fn address(name: &str, address: Option<&str>, found: &mut Found) {
    let Some((_, rest)) = address.and_then(|address| address.split_once("://")) else { return };
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
        let kept = json!({
            "mcp": { "github": { "environment": { "A": "one" }, "command": ["x"], "url": "u" } },
            "server": { "password": "two", "port": 1 },
            "lsp": { "l": { "auth": { "list": ["three", ["four"]], "n": 1 } } },
        });
        let mut found = Vec::new();
        options(kept.as_object().unwrap(), &mut Vec::new(), &mut found);
        let base = "http://me:five@host/v1?api_key=six&v=1";
        address("p.baseURL", Some(base), &mut found);
        address("q.baseURL", Some("https://seven@host"), &mut found);
        address("r.baseURL", Some("http://host/a@b"), &mut found);
        address("s.baseURL", None, &mut found);
        let of = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let mut expected = vec![
            of("environment.A", "one"),
            of("server.password", "two"),
            of("auth.list", "three"),
            of("auth.list", "four"),
            of("p.baseURL", "five"),
            of("p.baseURL.api_key", "six"),
            of("q.baseURL", "seven"),
        ];
        expected.sort();
        found.sort();
        assert_eq!(found, expected);
    }
}
