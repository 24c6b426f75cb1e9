//! Properties of settings that hold for any text.

use std::path::Path;

use leftfold_config::fuzzing::{load, value};
use leftfold_config::{Error, SandboxMode, Settings, schema};
use leftfold_events::providers::KnownProviders;
use leftfold_events::rules::{self, Action, Rule};
use serde_json::{Value, json};

/// The value of every variable, and the content of every file that is none of the project's.
const CANARY: &str = "canary-of-the-user";

const USER: &str = "/home/user/leftfold.json";

/// Rules whose verdicts are compared.
const MAX_RULES: usize = 16;

/// Settings that a project may change without trust.
const FREE: [&str; 8] =
    ["$schema", "permission", "tools", "agent", "command", "instructions", "skills", "sandbox"];
const FREE_OF_AGENTS: [&str; 7] =
    ["permission", "tools", "description", "prompt", "mode", "color", "name"];

/// Verdicts that are compared.
const ASKED: [(&str, &str); 14] = [
    ("bash", "ls"),
    ("bash", "rm -rf x"),
    ("edit", "src/a.rs"),
    ("edit", "x"),
    ("read", ".env"),
    ("read", "x"),
    ("webfetch", "https://host/"),
    ("host", "https://host/"),
    ("secret_in_url", "https://host/"),
    ("external_directory", "/etc"),
    ("protected_file", "x"),
    ("leftfold", "leftfold x"),
    ("task", "a"),
    ("s_tool", "*"),
];

/// Input: settings of the user, and settings or an agent of a project in `worktree` that nobody has trusted; the byte
/// `0xff` separates them. Each is read, or refused with an error that names the place. With the project, no verdict is
/// looser than without, and nothing changes that needs trust.
///
/// # Errors
/// The property that does not hold.
pub fn settings(
    worktree: &Path,
    data: &[u8],
    known: &'static KnownProviders,
) -> Result<(), String> {
    let mut texts = data.splitn(2, |byte| *byte == 0xff).map(String::from_utf8_lossy);
    let user = texts.next().unwrap_or_default();
    let project = texts.next().unwrap_or_default();
    // no stored keys and no trust are looked for without a home
    let env = |name: &str| (name == "KEY" || name == "TOKEN").then(|| CANARY.to_owned());
    let users = (Path::new(USER), &*user, false);
    let name = worktree.join("leftfold.json");
    let base = match load(worktree, &[users], &env, known) {
        Ok(base) => base,
        Err(error) => return named(&error, USER, &user),
    };
    let settings = match load(worktree, &[users, (&name, &project, true)], &env, known) {
        Ok(settings) => settings,
        Err(error) => return named(&error, &name.display().to_string(), &project),
    };
    let wrong = loosened(&base, &settings)
        .or_else(|| changed(&base, &settings))
        .or_else(|| leaked(&base, &settings));
    match wrong {
        Some(wrong) => Err(format!("{wrong}\nuser: {user}\nproject: {project}")),
        None => Ok(()),
    }
}

fn named(error: &Error, source: &str, text: &str) -> Result<(), String> {
    let error = error.to_string();
    if error.starts_with(&format!("{source}:")) && error.len() > source.len() + 6 {
        return Ok(());
    }
    Err(format!("{error:?} does not name {source}: {text}"))
}

fn verdict(settings: &Settings, agent: &str, permission: &str, pattern: &str) -> Action {
    let mut all = rules::defaults();
    all.extend(settings.rules.clone());
    all.extend(settings.rules_of(agent));
    let restrictions = settings.restrictions(agent, &|_| Vec::new());
    let restrictions = restrictions.iter().map(Vec::as_slice);
    rules::evaluate_restricted(&all, restrictions, permission, pattern).0
}

/// A verdict that the project makes looser.
fn loosened(base: &Settings, settings: &Settings) -> Option<String> {
    let agents: Vec<&str> = settings.agents.keys().map(String::as_str).take(4).collect();
    let agents: Vec<&str> = ["build", "plan"].into_iter().chain(agents).collect();
    // also those that do not count, because nobody has trusted them
    let rules: Vec<Rule> = agents
        .iter()
        .flat_map(|agent| settings.restrictions(agent, &|_| Vec::new()).concat())
        .chain(settings.rules.clone())
        .chain(agents.iter().flat_map(|agent| settings.rules_of(agent)))
        .take(MAX_RULES)
        .collect();
    let of_rules = rules.iter().map(|rule| (rule.permission.as_str(), rule.pattern.as_str()));
    let asked: Vec<(&str, &str)> = ASKED.into_iter().chain(of_rules).collect();
    for agent in agents {
        for (permission, pattern) in &asked {
            let before = verdict(base, agent, permission, pattern);
            let after = verdict(settings, agent, permission, pattern);
            if after < before {
                return Some(format!(
                    "{agent}: {permission} {pattern:?} was {before:?} and is {after:?}"
                ));
            }
        }
    }
    None
}

/// Whether a setting has no effect.
fn is_idle(field: &Value) -> bool {
    let one_is = |any: &Vec<Value>| any.iter().any(is_idle);
    field["deprecated"] == true || field["anyOf"].as_array().is_some_and(one_is)
}

/// A setting that needs trust and is another one with the project.
fn changed(base: &Settings, settings: &Settings) -> Option<String> {
    let (before, after) = (value(base), value(settings));
    let fields = schema()["properties"].as_object().into_iter().flatten();
    for (key, _) in fields.filter(|(key, field)| !FREE.contains(&key.as_str()) && !is_idle(field)) {
        // an empty list or object sets nothing
        let set = |value: &'_ Value| {
            let is_empty = *value == json!({}) || *value == json!([]);
            (!is_empty).then(|| value.clone())
        };
        // a project may forbid to share, and turn formatters and language servers off
        let takes_away = (key == "share" && after[key] == "disabled")
            || (["formatter", "lsp"].contains(&key.as_str()) && after[key] == false);
        if takes_away {
            continue;
        }
        if before.get(key).and_then(set) != after.get(key).and_then(set) {
            return Some(format!("`{key}` was {:?} and is {:?}", before.get(key), after.get(key)));
        }
    }
    for (name, agent) in after["agent"].as_object().into_iter().flatten() {
        for (key, value) in agent.as_object().into_iter().flatten() {
            let old = before["agent"].get(name).and_then(|agent| agent.get(key));
            if !FREE_OF_AGENTS.contains(&key.as_str()) && old != Some(value) {
                return Some(format!("`agent.{name}.{key}` was {old:?} and is {value}"));
            }
        }
    }
    for (name, command) in after["command"].as_object().into_iter().flatten() {
        let old = before["command"].get(name);
        for key in ["agent", "model", "subtask"] {
            let (old, new) = (old.and_then(|old| old.get(key)), command.get(key));
            if old != new {
                return Some(format!("`command.{name}.{key}` was {old:?} and is {new:?}"));
            }
        }
        let template = command["template"].as_str().unwrap_or_default();
        if template.contains("!`") && old.is_none_or(|old| old["template"] != template) {
            return Some(format!("`command.{name}` runs {template:?}"));
        }
    }
    let (mut old, new) = (base.sandbox(), settings.sandbox());
    // a project may turn it on and hide more
    if new.mode == Some(SandboxMode::On) {
        old.mode = new.mode;
    }
    if old.hide.iter().all(|path| new.hide.contains(path)) {
        old.hide.clone_from(&new.hide);
    }
    if old != new {
        return Some(format!("`sandbox` was {old:?} and is {new:?}"));
    }
    let texts = |value: &Value| {
        let texts = value.as_array().into_iter().flatten().filter_map(Value::as_str);
        texts.map(str::to_owned).collect::<Vec<_>>()
    };
    for list in [["instructions", ""], ["skills", "paths"]] {
        let at = |value: &Value| match list {
            [key, ""] => texts(&value[key]),
            [key, below] => texts(&value[key][below]),
        };
        let old = at(&before);
        if let Some(new) = at(&after).into_iter().find(|new| !old.contains(new) && leads_out(new)) {
            return Some(format!("`{}` has {new:?}", list[0]));
        }
    }
    None
}

fn leads_out(text: &str) -> bool {
    let mut depth = 0;
    let climbs = text.split('/').any(|part| {
        depth += match part {
            ".." => -1,
            "" | "." => 0,
            _ => 1,
        };
        depth < 0
    });
    let is_page = text.starts_with("http://") || text.starts_with("https://");
    climbs || is_page || text.starts_with('/') || text.starts_with("~/")
}

fn leaked(base: &Settings, settings: &Settings) -> Option<String> {
    let has = |settings: &Settings| {
        value(settings).to_string().contains(CANARY)
            || settings.warnings.iter().any(|warning| warning.contains(CANARY))
    };
    (!has(base) && has(settings)).then(|| "a value of the user is in the settings".to_owned())
}
