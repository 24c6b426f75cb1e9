//! Permission rules: allow, ask or deny, by wildcards for permission and pattern. The last matching rule decides.
//!
//! Permissions of subagents: `bin/runtime/src/turn/turn_config/base.rs`.

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
    "angular.dev:443", "developer.mozilla.org:443", "doc.rust-lang.org:443",
    "docs.aws.amazon.com:443", "docs.djangoproject.com:443", "docs.docker.com:443",
    "docs.github.com:443", "docs.oracle.com:443", "docs.python.org:443", "docs.rs:443",
    "docs.swift.org:443", "git-scm.com:443", "html.spec.whatwg.org:443", "kubernetes.io:443",
    "nodejs.org:443", "react.dev:443", "vuejs.org:443", "www.typescriptlang.org:443",
];

/// Running a line that the judge cannot read in full. Its patterns are [`DYNAMIC`] for a command that is not known,
/// [`EVALUATED`] for text that is evaluated once more, and commands with [`DYNAMIC`] in the place of text that is
/// not known.
pub const UNREADABLE: &str = "unreadable";

/// The pattern of a part of a command that is not known before it runs.
pub const DYNAMIC: &str = "<dynamic>";

/// The pattern of a value that a known command evaluates, as in `echo $((x))`.
pub const EVALUATED: &str = "<evaluated>";

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

/// A rule that is stricter than the verdict on `text`, and that might decide instead if the parts of `text` that are not
/// known were known. With `is_answered`, a question counts as a yes.
pub(crate) fn may_be_evaded<'a>(
    rules: &'a [Rule],
    permission: &str,
    text: &str,
    is_answered: bool,
) -> Option<&'a Rule> {
    let decides = |rule: &Rule| rule.is_about(permission) && matches(&rule.pattern, text);
    let decider = rules.iter().rposition(decides);
    let (later, verdict) = match decider {
        Some(at) => (&rules[at + 1..], rules[at].action),
        None => (rules, Action::Allow),
    };
    let verdict = if is_answered && verdict == Action::Ask { Action::Allow } else { verdict };
    let evaded = |rule: &&Rule| {
        rule.action > verdict && rule.is_about(permission) && may_match(&rule.pattern, text)
    };
    later.iter().rev().find(evaded)
}

/// Whether a pattern matches `text` for some text in the places of [`DYNAMIC`]. Such text adds no redirection: `<` and `>`
/// are none in a value.
fn may_match(pattern: &str, text: &str) -> bool {
    if matches!(text, DYNAMIC | EVALUATED) {
        return true;
    }
    let open = |pattern: &str| {
        let pattern: Vec<char> = pattern.chars().collect();
        let parts = text.split(DYNAMIC).map(|part| part.chars().map(Some).collect::<Vec<_>>());
        let text: Vec<Option<char>> = parts.collect::<Vec<_>>().join(&None);
        // for each part of the pattern, whether it can end before each part of the text
        let mut ends = vec![false; text.len() + 1];
        ends[0] = true;
        for at in 0..=pattern.len() {
            if !ends.contains(&true) {
                return false;
            }
            let mut next = vec![false; text.len() + 1];
            for to in 0..=text.len() {
                let here = ends[to];
                let skips = pattern.get(at) == Some(&'*') || text.get(to) == Some(&None);
                if here && skips && to < text.len() {
                    ends[to + 1] = true;
                }
                let Some(c) = pattern.get(at).filter(|_| here) else { continue };
                match text.get(to) {
                    _ if *c == '*' => next[to] = true,
                    Some(None) => next[to] |= !matches!(c, '<' | '>'),
                    Some(Some(known)) => next[to + 1] |= *c == '?' || c == known,
                    None => {}
                }
            }
            if at == pattern.len() {
                return ends[text.len()];
            }
            ends = next;
        }
        false
    };
    open(pattern) || pattern.strip_suffix(" *").is_some_and(open)
}

/// The rules by which tools that are not built in need a question, below an agent that changes nothing. A rule that
/// names a tool decides instead. What the tool's own server says of it does not count.
pub fn asking(rules: &[Rule], tool: &str) -> Option<Rule> {
    let is_named = rules.iter().any(|rule| is_named(rule, tool));
    (!is_named).then(|| Rule::new(tool, "*", Action::Ask))
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

/// Permissions whose patterns are paths: relative inside of the worktree, absolute elsewhere.
const OF_PATHS: [&str; 4] = ["read", "edit", "list", PROTECTED_FILE];

impl Rule {
    /// Writes the pattern of a path as calls name paths: without `.`, `..` and empty names, and relative inside of
    /// `worktree`, an absolute path. A folder (`src/`) stands for what is in it.
    pub fn name_paths_as_calls_do(&mut self, worktree: &str) {
        if OF_PATHS.contains(&self.permission.as_str()) && self.pattern.contains('/') {
            self.pattern = path_pattern(&self.pattern, worktree);
        }
    }
}

fn path_pattern(pattern: &str, worktree: &str) -> String {
    let full = match pattern.starts_with('/') {
        true => pattern.to_owned(),
        false => format!("{worktree}/{pattern}"),
    };
    let mut names: Vec<&str> = Vec::new();
    for name in full.split('/').filter(|name| !matches!(*name, "" | ".")) {
        match name {
            ".." => drop(names.pop()),
            _ => names.push(name),
        }
    }
    if pattern.ends_with('/') {
        names.push("*");
    }
    let full = format!("/{}", names.join("/"));
    let inside = full.strip_prefix(worktree).and_then(|rest| rest.strip_prefix('/'));
    inside.map_or_else(|| full.clone(), str::to_owned)
}

/// Whether the last rule that names `permission` denies everything, in `rules` or in a list of `restrictions`.
pub fn denies_all<'a>(
    rules: &[Rule],
    mut restrictions: impl Iterator<Item = &'a [Rule]>,
    permission: &str,
) -> bool {
    let denies_all = |rules: &[Rule]| {
        let last = rules.iter().rfind(|rule| matches(&rule.permission, permission));
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
