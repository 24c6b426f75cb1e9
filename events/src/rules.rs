//! Permission rules: wildcards; the last matching rule decides.

use serde::{Deserialize, Serialize};

pub mod host;

/// The verdict of a rule. Ordered from the most to the least permissive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Action {
    Allow,
    Ask,
    Deny,
}

/// `permission` and `pattern` are wildcards ([`matches`]).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rule {
    pub permission: String,
    pub pattern: String,
    pub action: Action,
}

impl Rule {
    pub fn new(permission: impl Into<String>, pattern: impl Into<String>, action: Action) -> Self {
        Self { permission: permission.into(), pattern: pattern.into(), action }
    }

    /// Whether both have one permission and pattern, whatever their actions.
    pub fn is_for_same(&self, other: &Self) -> bool {
        (&self.permission, &self.pattern) == (&other.permission, &other.pattern)
    }

    /// Whether its permission matches. Permissions of [`ALWAYS_ASK`] have to be named in full: a rule that
    /// allows everything was not written with them in mind.
    fn is_about(&self, permission: &str) -> bool {
        if ALWAYS_ASK.contains(&permission) && self.action != Action::Deny {
            return self.permission == permission;
        }
        if permission == HOST && self.action == Action::Deny {
            // a rule for every permission has denied the tool itself
            return is_named(self, permission);
        }
        matches(&self.permission, permission)
    }

    /// Whether its pattern matches a text of the permission.
    fn fits(&self, permission: &str, text: &str) -> bool {
        fits(permission, &self.pattern, text)
    }
}

/// Whether a pattern of `permission` matches a text. Those of [`HOST`] are matched by [`host::matches`].
pub(crate) fn fits(permission: &str, pattern: &str, text: &str) -> bool {
    match permission {
        HOST => host::matches(pattern, text),
        _ => matches(pattern, text),
    }
}

/// The permission to run Leftfold from within a session. A rule can deny it; no rule and no approval
/// allows it without a question.
pub const LEFTFOLD: &str = "leftfold";

/// Writing to settings, agents, commands, skills, plugins, instruction files, `.git/hooks` and
/// `.git/config`: they decide what later runs do.
pub const PROTECTED_FILE: &str = "protected_file";

/// Running a command with the network. Its patterns are those of the command.
pub const NETWORK: &str = "network";

/// Running a command outside the sandbox. Its patterns are those of the command.
pub const UNSANDBOXED: &str = "unsandboxed";

/// Fetching a page. Its patterns are addresses.
pub const WEBFETCH: &str = "webfetch";

/// Connecting to a host. A rule's pattern is a host ([`host::matches`]), the text that it judges the whole address, which
/// people see.
pub const HOST: &str = "host";

/// Sending a known secret, or what looks like one, in a web address. Its patterns are addresses.
pub const SECRET_IN_URL: &str = "secret_in_url";

/// Hosts with documentation that `webfetch` reads without a question, by https. Only their owner sees what is asked for.
/// No search engines, wikis, pages of users, or services that fetch from elsewhere.
const DOCUMENTATION: [&str; 18] = [
    "angular.dev:443",
    "developer.mozilla.org:443",
    "doc.rust-lang.org:443",
    "docs.aws.amazon.com:443",
    "docs.djangoproject.com:443",
    "docs.docker.com:443",
    "docs.github.com:443",
    "docs.oracle.com:443",
    "docs.python.org:443",
    "docs.rs:443",
    "docs.swift.org:443",
    "git-scm.com:443",
    "html.spec.whatwg.org:443",
    "kubernetes.io:443",
    "nodejs.org:443",
    "react.dev:443",
    "vuejs.org:443",
    "www.typescriptlang.org:443",
];

/// The pattern of a part of a command that is not known before it runs.
pub const DYNAMIC: &str = "<dynamic>";

/// Permissions that only a rule of exactly this name allows.
pub const ALWAYS_ASK: [&str; 3] = [PROTECTED_FILE, SECRET_IN_URL, UNSANDBOXED];

/// The rules that apply without settings.
pub fn defaults() -> Vec<Rule> {
    use Action::{Allow, Ask, Deny};
    [
        ("*", "*", Allow),
        ("doom_loop", "*", Ask),
        ("external_directory", "*", Ask),
        ("question", "*", Deny),
        ("plan_enter", "*", Deny),
        ("plan_exit", "*", Deny),
        ("read", "*", Allow),
        ("read", "*.env", Ask),
        ("read", "*.env.*", Ask),
        ("read", "*.env.example", Allow),
        (HOST, "*", Ask),
    ]
    .into_iter()
    .chain(DOCUMENTATION.map(|host| (HOST, host, Allow)))
    .map(|(permission, pattern, action)| Rule::new(permission, pattern, action))
    .collect()
}

/// The last rule that matches both. `None`: no rule matches, which means to ask.
pub fn evaluate<'a>(rules: &'a [Rule], permission: &str, pattern: &str) -> Option<&'a Rule> {
    rules.iter().rev().find(|rule| rule.is_about(permission) && rule.fits(permission, pattern))
}

/// The strictest verdict of `rules` and of each list in `restrictions`, with the rule that decided. A
/// restriction without a matching rule changes nothing.
pub fn evaluate_restricted<'a>(
    rules: &'a [Rule],
    restrictions: impl IntoIterator<Item = &'a [Rule]>,
    permission: &str,
    pattern: &str,
) -> (Action, Option<&'a Rule>) {
    let find = |rules: &'a [Rule]| evaluate(rules, permission, pattern);
    strictest(find, Action::Ask, rules, restrictions)
}

/// As [`evaluate_restricted`], with the rules that `find` finds. Without any the action is `unruled`.
pub(crate) fn strictest<'a>(
    find: impl Fn(&'a [Rule]) -> Option<&'a Rule>,
    unruled: Action,
    rules: &'a [Rule],
    restrictions: impl IntoIterator<Item = &'a [Rule]>,
) -> (Action, Option<&'a Rule>) {
    let rule = find(rules);
    let mut verdict = (rule.map_or(unruled, |rule| rule.action), rule);
    for rule in restrictions.into_iter().filter_map(find) {
        if rule.action > verdict.0 {
            verdict = (rule.action, Some(rule));
        }
    }
    verdict
}

/// The last rule that matches both and is not one for every permission.
pub(crate) fn evaluate_named<'a>(
    rules: &'a [Rule],
    permission: &str,
    pattern: &str,
) -> Option<&'a Rule> {
    let mut named = rules.iter().rev().filter(|rule| is_named(rule, permission));
    named.find(|rule| rule.fits(permission, pattern))
}

/// Whether a rule is about the permission, and not about every permission.
pub(crate) fn is_named(rule: &Rule, permission: &str) -> bool {
    rule.permission.chars().any(|c| c != '*') && matches(&rule.permission, permission)
}

/// The rule as part of a list of which only denials count.
pub fn only_denying(rule: Rule) -> Rule {
    let action = if rule.action == Action::Deny { Action::Deny } else { Action::Allow };
    Rule { action, ..rule }
}

/// The permission of a tool in rules. Tools that change files share the permission `edit`.
pub fn permission_of(tool: &str) -> &str {
    match tool {
        "write" | "apply_patch" | "multiedit" | "patch" => "edit",
        other => other,
    }
}

/// Whether `tool` is not offered to models: the last rule that names it denies everything, in `rules` or in a list
/// of `restrictions`.
pub fn hides<'a>(
    rules: &[Rule],
    mut restrictions: impl Iterator<Item = &'a [Rule]>,
    tool: &str,
) -> bool {
    let denies_all = |rules: &[Rule]| {
        let last = rules.iter().rfind(|rule| matches(&rule.permission, permission_of(tool)));
        last.is_some_and(|rule| rule.pattern == "*" && rule.action == Action::Deny)
    };
    denies_all(rules) || restrictions.any(denies_all)
}

/// `*` matches any run of characters, including `/` and newlines. `?` matches exactly one
/// character. Other characters match themselves. A trailing ` *` is optional: `git *` matches
/// `git`. Case counts. The worst-case time is proportional to the product of both lengths.
pub fn matches(pattern: &str, text: &str) -> bool {
    glob(pattern, text) || pattern.strip_suffix(" *").is_some_and(|start| glob(start, text))
}

fn glob(pattern: &str, text: &str) -> bool {
    // most rules differ from most texts in their first byte
    match (pattern.as_bytes().first(), text.as_bytes().first()) {
        (Some(b'*' | b'?'), _) => {}
        (first, other) if first != other => return false,
        _ => {}
    }
    let (mut pattern, mut text) = (pattern.chars(), text.chars());
    // where to continue when a literal fails: after the last `*`, one character further in the text
    let mut retry = None;
    loop {
        let (mut rest, mut ahead) = (pattern.clone(), text.clone());
        match (rest.next(), ahead.next()) {
            (Some('*'), _) => {
                retry = Some((rest.clone(), text.clone()));
                pattern = rest;
                continue;
            }
            (None, None) => return true,
            (Some(p), Some(t)) if p == '?' || p == t => {
                (pattern, text) = (rest, ahead);
                continue;
            }
            (None | Some(_), _) => {}
        }
        let Some((after_star, from)) = &mut retry else { return false };
        if from.next().is_none() {
            return false;
        }
        (pattern, text) = (after_star.clone(), from.clone());
    }
}

#[cfg(test)]
mod tests;
