//! The first exchange with a plugin: Leftfold introduces itself, and the plugin names its hooks and
//! tools.

use leftfold_events::event::HookPoint;
use leftfold_framing::clip;
use serde_json::{Value, json};

use super::spec::LaunchContext;

/// The version of the plugin protocol.
const PROTOCOL: u64 = 1;
/// Limits, in bytes, of a plugin's name, of a tool's description, and of the label of a sign-in.
const MAX_NAME: usize = 64;
const MAX_DESCRIPTION: usize = 10_000;
const MAX_LABEL: usize = 200;
/// The most sign-ins of a plugin, and prompts of one.
const MAX_METHODS: usize = 20;
const MAX_PROMPTS: usize = 20;
/// The hook by which a plugin asks for events, as notifications without an answer.
const EVENT: &str = "event";
/// The hook that is called once after the start, outside any session.
pub(super) const CONFIG: &str = "config";

/// A plugin's answer to `initialize`.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Handshake {
    pub(super) name: String,
    pub(super) hooks: Vec<HookPoint>,
    /// Whether the plugin wants to receive events.
    pub(super) watches: bool,
    /// Whether the plugin adds to the settings.
    pub(super) configures: bool,
    pub(super) tools: Vec<Tool>,
    /// Whether models call its tools by the tools' names alone.
    pub(super) has_plain_names: bool,
    /// The provider whose requests it supplies credentials for.
    pub(super) provider: Option<String>,
    /// The ways to sign in there that it offers.
    pub(super) sign_ins: Vec<SignInMethod>,
    pub(super) warnings: Vec<String>,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Tool {
    pub(super) name: String,
    pub(super) description: String,
    pub(super) parameters: Value,
    /// The tool changes nothing.
    pub(super) read_only: bool,
}

/// How a person proves who they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SignInKind {
    /// On a page.
    OAuth,
    /// With a key, which the plugin may check.
    Key,
}

/// A way to sign in that a plugin offers.
#[derive(Clone, Debug, PartialEq)]
pub struct SignInMethod {
    pub kind: SignInKind,
    pub label: String,
    /// Questions to ask first, in OpenCode's form: objects with `type` (`text` or `select`), `key`, `message`, and perhaps
    /// `options`, `placeholder` and `when`.
    pub prompts: Vec<Value>,
}

impl SignInMethod {
    /// Reads `auth.methods` of an answer to `initialize`.
    ///
    /// # Errors
    /// The path of the field that is wrong, and the expected value.
    fn read_all(said: &Value) -> Result<Vec<Self>, String> {
        let methods = match said {
            Value::Null => return Ok(Vec::new()),
            Value::Array(methods) if methods.len() <= MAX_METHODS => methods,
            said => return Err(wrong("auth.methods", "a list of at most 20 methods", said)),
        };
        let mut read = Vec::new();
        for (at, said) in methods.iter().enumerate() {
            let path = |field: &str| format!("auth.methods[{at}].{field}");
            let kind = match said["type"].as_str() {
                Some("oauth") => SignInKind::OAuth,
                Some("api") => SignInKind::Key,
                _ => return Err(wrong(&path("type"), "oauth or api", &said["type"])),
            };
            let Some(label) = said["label"].as_str().filter(|label| !label.trim().is_empty())
            else {
                return Err(wrong(&path("label"), "a text for people", &said["label"]));
            };
            let none = Vec::new();
            let prompts = said["prompts"].as_array().unwrap_or(&none);
            let is_prompt = |prompt: &Value| {
                let has_options = prompt["options"].as_array().is_some_and(|options| {
                    let is_option = |it: &Value| it["label"].is_string() && it["value"].is_string();
                    !options.is_empty() && options.iter().all(is_option)
                });
                let is_known =
                    prompt["type"] == "text" || (prompt["type"] == "select" && has_options);
                is_known && prompt["key"].is_string() && prompt["message"].is_string()
            };
            if prompts.len() > MAX_PROMPTS || !prompts.iter().all(is_prompt) {
                let expected =
                    "a list of at most 20 prompts, each with `type`, `key` and `message`";
                return Err(wrong(&path("prompts"), expected, &said["prompts"]));
            }
            let (label, prompts) = (clip(label.to_owned(), MAX_LABEL), prompts.clone());
            read.push(Self { kind, label, prompts });
        }
        Ok(read)
    }
}

pub(super) fn params(root: &LaunchContext) -> Value {
    let name = root.worktree.file_name().unwrap_or_default().to_string_lossy();
    json!({
        "protocol": PROTOCOL,
        "leftfold": env!("CARGO_PKG_VERSION"),
        "project": { "name": name, "worktree": root.worktree },
        "worktree": root.worktree,
        "directory": root.directory,
        "socket": root.socket,
        "server": root.server,
        "shell": root.shell.as_deref().unwrap_or(leftfold_tools::shell()),
        "pid": std::process::id(),
    })
}

impl Handshake {
    /// Reads the answer to `initialize`. `fallback` names a plugin that gives no name.
    ///
    /// # Errors
    /// The path of the field that is wrong, and the expected value.
    pub(super) fn read(answer: &Value, fallback: &str) -> Result<Self, String> {
        if !answer.is_object() {
            return Err(wrong("result", "an object", answer));
        }
        let mut handshake = Self { name: fallback.to_owned(), ..Self::default() };
        let name = &answer["name"];
        if let Some(name) = name.as_str().filter(|name| is_name(name)) {
            name.clone_into(&mut handshake.name);
        } else if !name.is_null() {
            let expected = "a name of at most 64 of the characters A-Z a-z 0-9 _ . -";
            return Err(wrong("name", expected, name));
        }
        for (at, hook) in list(answer, "hooks")?.iter().enumerate() {
            handshake.hook(at, hook)?;
        }
        for (at, tool) in list(answer, "tools")?.iter().enumerate() {
            handshake.tools.push(Tool::read(at, tool)?);
        }
        handshake.has_plain_names = answer["toolPrefix"] == false;
        let provider = &answer["auth"]["provider"];
        handshake.provider = provider.as_str().map(str::to_owned);
        handshake.sign_ins = SignInMethod::read_all(&answer["auth"]["methods"])?;
        let needs_provider =
            handshake.hooks.contains(&HookPoint::Auth) || !handshake.sign_ins.is_empty();
        let fits = |name: &String| handshake.sign_ins.is_empty() || is_name(name);
        if needs_provider && !handshake.provider.as_ref().is_some_and(fits) {
            let expected = "the name of a provider, because it has the hook `auth` or sign-ins";
            return Err(wrong("auth.provider", expected, provider));
        }
        Ok(handshake)
    }

    fn hook(&mut self, at: usize, said: &Value) -> Result<(), String> {
        let Some(name) = said.as_str() else {
            return Err(wrong(&format!("hooks[{at}]"), "a string", said));
        };
        match HookPoint::named(name) {
            Some(hook) if !self.hooks.contains(&hook) => self.hooks.push(hook),
            Some(_) => {}
            None if name == EVENT => self.watches = true,
            None if name == CONFIG => self.configures = true,
            None => {
                let known: Vec<&str> = HookPoint::ALL.iter().map(|hook| hook.name()).collect();
                self.warnings.push(format!(
                    "there is no hook `{}`, so it is ignored; known are {EVENT}, {CONFIG}, {}",
                    clip(name.to_owned(), MAX_NAME),
                    known.join(", ")
                ));
            }
        }
        Ok(())
    }

    /// The names of all hooks, sorted.
    pub(super) fn hook_names(&self) -> Vec<String> {
        let others = [(self.watches, EVENT), (self.configures, CONFIG)].into_iter();
        let others = others.filter_map(|(wanted, name)| wanted.then_some(name));
        others.chain(self.hooks.iter().map(|hook| hook.name())).map(str::to_owned).collect()
    }
}

impl Tool {
    fn read(at: usize, said: &Value) -> Result<Self, String> {
        let path = |field: &str| format!("tools[{at}].{field}");
        let Some(name) = said["name"].as_str().filter(|name| is_name(name)) else {
            return Err(wrong(&path("name"), "a name of A-Z a-z 0-9 _ . -", &said["name"]));
        };
        let (description, parameters) = (&said["description"], &said["parameters"]);
        if !description.is_null() && !description.is_string() {
            return Err(wrong(&path("description"), "a string", description));
        }
        if !parameters.is_null() && !parameters.is_object() {
            return Err(wrong(&path("parameters"), "a JSON Schema of an object", parameters));
        }
        let description = description.as_str().map_or(name, str::trim);
        let none = || json!({ "type": "object", "properties": {} });
        let parameters = Some(parameters.clone()).filter(Value::is_object).unwrap_or_else(none);
        let description = clip(description.to_owned(), MAX_DESCRIPTION);
        let read_only = said["readOnly"].as_bool().unwrap_or(false);
        Ok(Self { name: name.to_owned(), description, parameters, read_only })
    }
}

fn list<'a>(answer: &'a Value, field: &str) -> Result<&'a [Value], String> {
    let said = &answer[field];
    match said.as_array() {
        Some(items) => Ok(items),
        None if said.is_null() => Ok(&[]),
        None => Err(wrong(field, "a list", said)),
    }
}

fn is_name(name: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_.-".contains(c);
    (1..=MAX_NAME).contains(&name.len()) && name.chars().all(plain)
}

fn wrong(field: &str, expected: &str, found: &Value) -> String {
    let found = super::answer::kind(found);
    format!("its answer to `initialize` is wrong: `{field}`: expected {expected}, found {found}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_plugin_wants_is_read_and_what_is_not_known_is_told() {
        let handshake = Handshake::read(
            &json!({ "name": "g", "hooks": ["event", "tool.execute.before", "config", "chat.massage"],
                     "tools": [{ "name": "t", "readOnly": true }] }),
            "x",
        );
        let handshake = handshake.unwrap();
        assert_eq!(
            (handshake.name.as_str(), handshake.watches, handshake.configures),
            ("g", true, true)
        );
        assert_eq!(handshake.hook_names(), ["event", "config", "tool.execute.before"]);
        assert_eq!(handshake.hooks, [HookPoint::ToolBefore]);
        assert_eq!(handshake.tools[0].parameters["type"], "object");
        assert!(handshake.tools[0].read_only && handshake.tools[0].description == "t");
        let [warning] = &handshake.warnings[..] else { panic!("{:?}", handshake.warnings) };
        assert!(warning.starts_with("there is no hook `chat.massage`"), "{warning}");
        assert_eq!(Handshake::read(&json!({}), "x").unwrap().name, "x");
    }

    #[test]
    fn what_is_wrong_is_told_by_its_field() {
        for (answer, told) in [
            (json!(null), "`result`: expected an object, found null"),
            (json!({ "name": "a b" }), "`name`: expected a name"),
            (json!({ "hooks": "event" }), "`hooks`: expected a list, found \"event\""),
            (json!({ "hooks": [1] }), "`hooks[0]`: expected a string, found a number"),
            (json!({ "tools": [{}] }), "`tools[0].name`: expected a name"),
            (json!({ "tools": [{ "name": "a", "parameters": [] }] }), "`tools[0].parameters`"),
            (json!({ "hooks": ["auth"] }), "`auth.provider`: expected the name of a provider"),
            (
                json!({ "auth": { "methods": [{ "type": "oauth", "label": "L" }] } }),
                "`auth.provider`: expected the name of a provider",
            ),
            (json!({ "auth": { "methods": {} } }), "`auth.methods`: expected a list"),
            (
                json!({ "auth": { "methods": [{ "type": "saml" }] } }),
                "`auth.methods[0].type`: expected oauth or api, found \"saml\"",
            ),
            (
                json!({ "auth": { "methods": [{ "type": "api", "label": "" }] } }),
                "`auth.methods[0].label`",
            ),
            (
                json!({ "auth": { "methods": [{ "type": "api", "label": "L", "prompts": [{}] }] } }),
                "`auth.methods[0].prompts`",
            ),
        ] {
            let error = Handshake::read(&answer, "x").unwrap_err();
            assert!(error.contains(told), "{answer}: {error}");
        }
    }
}
