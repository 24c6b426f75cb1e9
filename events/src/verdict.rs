//! Judges a call: evaluates permission rules for an access. A pure function of rules, approvals and ask mode.
//! The accesses come from the tools; for a bash command, the crate `leftfold-shell` finds them.
//! Other modules decide what follows from a verdict.

use std::collections::BTreeSet;

use crate::event::Access;
use crate::rules::{
    self, Action, DYNAMIC, HOST, LEFTFOLD, NETWORK, Rule, UNREADABLE, UNSANDBOXED, WEBFETCH, host,
};
use crate::sandbox::{self, SandboxOptions, WorktreeAccess};
use crate::turn_config::{AskMode, Options, TurnConfig};

/// The permission for questions of tools to the user. Rules can deny such a question, but not
/// answer it.
pub(crate) const QUESTION: &str = "question";

/// The permission that a command line needs.
const COMMAND: &str = "bash";

/// The verdict of a turn configuration's rules on one access of a call that needs all of `call`: the strictest
/// over its patterns, with the deciding rule. An "always" answer turns a question into a yes, but never a denial.
pub fn judge(
    TurnConfig { rules, options, .. }: &TurnConfig,
    access: &Access,
    call: &[Access],
) -> (Action, Option<Rule>) {
    let (approved, named_hosts) = ([&options.approved, [].as_slice()], &BTreeSet::new());
    judged(&RulesInForce { rules, options, approved, named_hosts }, access, call)
}

/// The verdict of rules and the restrictions on them. The lists of approvals are evaluated one after the other.
fn judged<'a>(
    in_force: &RulesInForce<'a>,
    access: &Access,
    call: &[Access],
) -> (Action, Option<Rule>) {
    let RulesInForce { rules, options, approved, .. } = *in_force;
    if access.permission == UNREADABLE {
        return unreadable(in_force, access, call);
    }
    let in_line = is_in_line(access, call);
    let mut worst = (Action::Allow, None);
    for pattern in &access.patterns {
        let permission = &access.permission;
        let find = |rules: &'a [Rule]| match in_line {
            true => rules::evaluate_named(rules, permission, pattern),
            false => rules::evaluate(rules, permission, pattern),
        };
        let unruled = if in_line { Action::Allow } else { Action::Ask };
        let mut verdict = rules::strictest(find, unruled, rules, options.restricting());
        if verdict.0 == Action::Ask
            && let Some(yes) =
                approved.iter().find_map(|yes| rules::evaluate(yes, &access.permission, pattern))
        {
            verdict = (yes.action, Some(yes));
        }
        let is_host = permission == HOST;
        if verdict.0 == Action::Ask
            && (is_answered_by_mode(options, access, pattern, call)
                || is_host && in_force.is_host_answered(pattern, call))
        {
            // a rule with a pattern of its own still asks
            let mut found = lists(rules, options).filter_map(find);
            if !found.any(|rule| rule.action == Action::Ask && !is_for_all(rule)) {
                verdict = (Action::Allow, None);
            }
        }
        if is_host && let Some(denial) = in_force.denied_fetch(pattern) {
            verdict = denial;
        }
        if verdict.0 != Action::Deny
            && let Some(sandbox) = &options.sandbox
        {
            verdict = denied_by_sandbox((rules, options), sandbox, permission, pattern)
                .unwrap_or(verdict);
        }
        if verdict.0 == Action::Allow && access.permission == LEFTFOLD {
            verdict = (Action::Ask, None);
        }
        if is_worse(verdict.0, &worst) {
            worst = (verdict.0, verdict.1.cloned());
        }
    }
    worst
}

/// The verdict on the parts of a line that the judge cannot read. It asks if the command is not known, or if a rule that
/// denies or asks might be about the part. A person who is asked about the line anyway sees the parts too.
fn unreadable<'a>(
    in_force: &RulesInForce<'a>,
    access: &Access,
    call: &[Access],
) -> (Action, Option<Rule>) {
    let RulesInForce { rules, options, .. } = *in_force;
    let of_line = || {
        let is_of_line =
            |other: &&Access| matches!(other.permission.as_str(), COMMAND | NETWORK | UNSANDBOXED);
        call.iter().filter(is_of_line)
    };
    if of_line().any(|other| judged(in_force, other, call).0 != Action::Allow) {
        return (Action::Allow, None);
    }
    let is_held = options.sandbox.as_ref().is_some_and(|sandbox| sandbox.allows())
        && of_line().all(|other| other.permission != UNSANDBOXED);
    let mut worst = (Action::Allow, None);
    for pattern in &access.patterns {
        let find = |rules: &'a [Rule]| rules::evaluate_named(rules, UNREADABLE, pattern);
        let mut verdict = rules::strictest(find, Action::Allow, rules, options.restricting());
        if find(rules).is_none() {
            let evaded = lists(rules, options).find_map(|list| {
                let of = |other: &Access| {
                    rules::may_be_evaded(list, &other.permission, pattern, is_held)
                };
                of_line().find_map(of)
            });
            if evaded.is_some() || pattern == DYNAMIC && !is_held {
                let asks = (Action::Ask, evaded);
                verdict = if verdict.0 > Action::Ask { verdict } else { asks };
            }
        }
        if is_worse(verdict.0, &worst) {
            worst = (verdict.0, verdict.1.cloned());
        }
    }
    worst
}

/// The rules and each list of restrictions on them.
fn lists<'a>(rules: &'a [Rule], options: &'a Options) -> impl Iterator<Item = &'a [Rule]> {
    std::iter::once(rules).chain(options.restricting())
}

/// Whether the text of a host is a web address.
fn is_address(text: &str) -> bool {
    text.contains("://")
}

fn is_for_all(rule: &Rule) -> bool {
    rule.pattern.chars().all(|c| c == '*')
}

/// Whether a mode of the turn answers a question.
fn is_answered_by_mode(options: &Options, access: &Access, pattern: &str, call: &[Access]) -> bool {
    let is_edit = access.permission == "edit" && is_in_worktree(pattern);
    let sandbox = options.sandbox.as_ref();
    options.accept_edits && is_edit
        || sandbox.is_some_and(|sandbox| is_answered_inside(sandbox, access, pattern, call))
}

/// Whether the pattern of a file names a known one of the worktree. Other files have absolute paths.
fn is_in_worktree(pattern: &str) -> bool {
    !pattern.starts_with('/') && pattern != DYNAMIC
}

/// Whether the mode "allow in the sandbox" answers a question: about a command that stays in a sandbox that holds it,
/// or about a file of the worktree that its line names.
fn is_answered_inside(
    sandbox: &SandboxOptions,
    access: &Access,
    pattern: &str,
    call: &[Access],
) -> bool {
    let is_of_line =
        access.permission == COMMAND || is_in_line(access, call) && !pattern.starts_with('/');
    let leaves = call.iter().any(|other| other.permission == UNSANDBOXED);
    sandbox.allows() && is_of_line && !leaves
}

/// The denial of the network, or of leaving the sandbox, that follows from other rules or from the session. Outside
/// the sandbox nothing holds a command to the rules about the network and about files.
fn denied_by_sandbox<'a>(
    (rules, options): (&'a [Rule], &'a Options),
    sandbox: &SandboxOptions,
    permission: &str,
    pattern: &str,
) -> Option<(Action, Option<&'a Rule>)> {
    if !matches!(permission, NETWORK | UNSANDBOXED) {
        return None;
    }
    if sandbox.offline {
        return Some((Action::Deny, None));
    }
    if permission == NETWORK {
        return None;
    }
    let is_read_only = sandbox::worktree(options, sandbox) == WorktreeAccess::Read;
    if is_read_only && sandbox.backend.confines() {
        return Some((Action::Deny, None));
    }
    let network = rules::evaluate_restricted(rules, options.restricting(), NETWORK, pattern);
    if network.0 == Action::Deny {
        return Some(network);
    }
    let denial = lists(rules, options).find_map(denial_of_files).filter(|_| pattern == DYNAMIC)?;
    Some((Action::Deny, Some(denial)))
}

/// A rule that denies to read or edit some files, and that no later rule lifts as a whole.
fn denial_of_files(rules: &[Rule]) -> Option<&Rule> {
    ["read", "edit"].into_iter().find_map(|permission| {
        let named = rules.iter().rev().filter(|rule| rules::is_named(rule, permission));
        let mut in_force =
            named.take_while(|rule| rule.action == Action::Deny || !is_for_all(rule));
        in_force.find(|rule| rule.action == Action::Deny)
    })
}

/// Whether a command line names the file. A rule for every permission has judged the line already, so
/// only rules that name `read` or `edit` judge the file.
fn is_in_line(access: &Access, call: &[Access]) -> bool {
    matches!(access.permission.as_str(), "read" | "edit")
        && call.iter().any(|other| other.permission == COMMAND)
}

/// Whether only a person may say yes.
fn is_for_people(permission: &str) -> bool {
    matches!(permission, QUESTION | LEFTFOLD)
}

/// Whether a verdict is stricter than the strictest so far. Of equal verdicts, the first one with a
/// rule is reported.
fn is_worse(action: Action, worst: &(Action, Option<Rule>)) -> bool {
    action > worst.0 || action == worst.0 && worst.1.is_none()
}

/// The rules in force in a session.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RulesInForce<'a> {
    pub(crate) rules: &'a [Rule],
    pub(crate) options: &'a Options,
    /// Rules from "always" answers: first those of the session, then those of its project.
    pub(crate) approved: [&'a [Rule]; 2],
    /// The hosts that prompts of the session have named.
    pub(crate) named_hosts: &'a BTreeSet<String>,
}

impl<'a> RulesInForce<'a> {
    /// The verdict of the rules about `webfetch` on the page at `address`.
    fn verdict_on_fetch(&self, address: &str) -> (Action, Option<&'a Rule>) {
        let find = |rules: &'a [Rule]| rules::evaluate(rules, WEBFETCH, address);
        rules::strictest(find, Action::Ask, self.rules, self.options.restricting())
    }

    /// The denial of a page that a rule about `webfetch` denies. A call was not judged by it for the page to which
    /// another page leads.
    fn denied_fetch(&self, address: &str) -> Option<(Action, Option<&'a Rule>)> {
        let verdict = self.verdict_on_fetch(address);
        (is_address(address) && verdict.0 == Action::Deny).then_some(verdict)
    }

    /// Whether the host of `address` needs no question: a person has named it in a prompt, is asked about the whole
    /// address, or has allowed it by a rule about `webfetch` with a pattern of its own.
    fn is_host_answered(&self, address: &str, call: &[Access]) -> bool {
        let is_named = |key: String| {
            self.named_hosts.contains(&key) || self.options.named_hosts.contains(&key)
        };
        if !is_address(address) || host::key_of(address).is_some_and(is_named) {
            return is_address(address);
        }
        let allows = |rule: &Rule| {
            rule.action == Action::Allow && rules::is_named(rule, WEBFETCH) && !is_for_all(rule)
        };
        let is_asked = |other: &Access| {
            other.permission == WEBFETCH && other.patterns.iter().any(|asked| asked == address)
        };
        let (action, rule) = self.verdict_on_fetch(address);
        let approved = self.approved.into_iter();
        let mut deciding =
            approved.filter_map(|yes| rules::evaluate(yes, WEBFETCH, address)).chain(rule);
        deciding.any(allows) || action == Action::Ask && call.iter().any(is_asked)
    }

    /// The verdict on one access. If no person is there to be asked, the ask mode decides.
    /// The access belongs to a call that needs all of `call`.
    pub(crate) fn verdict_on_access(
        &self,
        access: &Access,
        call: &[Access],
    ) -> (Action, Option<Rule>) {
        let (action, rule) = judged(self, access, call);
        let (action, rule) = match action {
            Action::Allow if access.permission == QUESTION => (Action::Ask, None),
            Action::Allow | Action::Ask | Action::Deny => (action, rule),
        };
        let action = match (action, self.options.ask) {
            // a yes to everything does not answer a question
            (Action::Ask, AskMode::Allow) if is_for_people(&access.permission) => Action::Deny,
            (Action::Ask, AskMode::Deny) => Action::Deny,
            (Action::Ask, AskMode::Allow) => Action::Allow,
            (action, _) => action,
        };
        (action, rule)
    }

    /// The verdict on a whole call: the strictest of its accesses. A call without accesses is
    /// allowed.
    pub(crate) fn verdict_on_call(&self, accesses: &[Access]) -> (Action, Option<Rule>) {
        let mut worst = (Action::Allow, None);
        for verdict in accesses.iter().map(|access| self.verdict_on_access(access, accesses)) {
            if is_worse(verdict.0, &worst) {
                worst = verdict;
            }
        }
        worst
    }

    /// The access that is denied, and whether it is only because nobody can be asked.
    pub(crate) fn denied<'c>(&self, accesses: &'c [Access]) -> Option<(&'c Access, bool)> {
        let is_denied =
            |access: &&Access| self.verdict_on_access(access, accesses).0 == Action::Deny;
        let denied = accesses.iter().find(is_denied)?;
        let (action, _) = judged(self, denied, accesses);
        Some((denied, action != Action::Deny))
    }

    /// Whether the rules require an answer that need not come from a person.
    pub(crate) fn leave_open(&self, access: &Access, call: &[Access]) -> bool {
        let asked = judged(self, access, call).0;
        asked == Action::Ask && !is_for_people(&access.permission)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn access_to(permission: &str, pattern: &str) -> Access {
        let (permission, always) = (permission.to_owned(), Vec::new());
        Access { permission, patterns: vec![pattern.to_owned()], always }
    }

    #[test]
    fn only_people_allow_a_command_to_run_leftfold() {
        let rule = |action| Rule::new("*", "*", action);
        let access = access_to(LEFTFOLD, "leftfold sessions");
        for (action, ask, expected) in [
            (Action::Allow, AskMode::Ask, Action::Ask),
            (Action::Allow, AskMode::Allow, Action::Deny),
            (Action::Allow, AskMode::Deny, Action::Deny),
            (Action::Deny, AskMode::Ask, Action::Deny),
        ] {
            // an approval of everything changes nothing
            let (rules, approved) = ([rule(action)], [rule(Action::Allow)]);
            let options = &Options { ask, ..Options::default() };
            let named_hosts = &BTreeSet::new();
            let approved: [&[Rule]; 2] = [&approved, &[]];
            let in_force = RulesInForce { rules: &rules, options, approved, named_hosts };
            assert_eq!(in_force.verdict_on_access(&access, &[]).0, expected, "{ask:?}");
            assert!(!in_force.leave_open(&access, &[]));
        }
    }

    #[test]
    fn rules_for_every_permission_say_nothing_of_a_file_in_a_line() {
        let call = [access_to("bash", "cat a"), access_to("read", "a")];
        for (permission, action, alone, in_line) in [
            ("*", Action::Deny, Action::Deny, Action::Allow),
            ("**", Action::Deny, Action::Deny, Action::Allow),
            ("read", Action::Deny, Action::Deny, Action::Deny),
            ("r*", Action::Ask, Action::Ask, Action::Ask),
            ("edit", Action::Deny, Action::Ask, Action::Allow),
        ] {
            let rules = [Rule::new(permission, "*", action)];
            let config = TurnConfig { rules: rules.to_vec(), ..TurnConfig::default() };
            assert_eq!(judge(&config, &call[1], &call[1..]).0, alone, "{permission}");
            assert_eq!(judge(&config, &call[1], &call).0, in_line, "{permission}");
        }
    }

    #[test]
    fn a_line_that_can_not_be_read_asks_unless_a_rule_names_that() {
        use Action::{Allow, Ask, Deny};
        let rule = |permission: &str, pattern: &str, action| Rule::new(permission, pattern, action);
        let all = || rule("*", "*", Allow);
        let git = || rule("bash", "git *", Allow);
        let no_push = || rule("bash", "git push *", Deny);
        let asks = || rule("bash", "*", Ask);
        let named = |action| rule("unreadable", "*", action);
        for (rules, pattern, expected) in [
            (vec![all()], "<dynamic>", Ask),
            (vec![all(), named(Allow)], "<dynamic>", Allow),
            (vec![all(), named(Deny)], "<dynamic>", Deny),
            (vec![all(), rule("un*", "*", Allow)], "<dynamic>", Allow),
            // the question about the line shows it all
            (vec![all(), asks()], "<dynamic>", Allow),
            (vec![all()], "<evaluated>", Allow),
            (vec![all()], "git <dynamic>", Allow),
            (vec![all(), no_push()], "<dynamic>", Ask),
            (vec![all(), no_push()], "<evaluated>", Ask),
            (vec![all(), no_push()], "git <dynamic>", Ask),
            (vec![all(), no_push()], "git <dynamic> x", Ask),
            (vec![all(), no_push()], "git pu<dynamic>", Ask),
            (vec![all(), no_push()], "git push<dynamic>", Ask),
            (vec![all(), no_push()], "git log <dynamic>", Allow),
            (vec![all(), no_push()], "gi <dynamic>", Allow),
            (vec![all(), rule("bash", "*>*", Deny)], "cat <dynamic>", Allow),
            (vec![all(), rule("bash", "git ????", Ask)], "git <dynamic>", Ask),
            (vec![all(), git(), no_push()], "git <dynamic>", Ask),
            // a later rule lifts the denial
            (vec![all(), no_push(), git()], "git <dynamic>", Allow),
            (vec![all(), no_push(), named(Allow)], "git <dynamic>", Allow),
            (vec![rule("*", "*", Deny), git()], "git <dynamic>", Allow),
        ] {
            let call = [access_to("bash", "git x"), access_to(UNREADABLE, pattern)];
            let mut config = TurnConfig { rules, ..TurnConfig::default() };
            let found = judge(&config, &call[1], &call).0;
            assert_eq!(found, expected, "{pattern}: {:?}", config.rules);
            // an approval of everything changes nothing
            config.options.approved = vec![all(), rule("bash", "*", Allow)];
            if config.rules.last() != Some(&asks()) {
                assert_eq!(judge(&config, &call[1], &call).0, expected, "{pattern}");
            }
            // nor does a project loosen it
            config.options.restrictions = vec![vec![named(Allow)]];
            let restricted = judge(&config, &call[1], &call).0;
            assert!(restricted >= expected || config.rules.contains(&asks()), "{pattern}");
        }
    }

    #[test]
    fn a_sandbox_that_holds_a_command_answers_for_one_that_is_not_known() {
        use crate::event::Backend;
        let rule = |pattern: &str, action| Rule::new("bash", pattern, action);
        let sandbox = SandboxOptions {
            backend: Backend::Namespaces,
            allow: true,
            ..SandboxOptions::default()
        };
        let options = Options { sandbox: Some(sandbox), ..Options::default() };
        for (more, rules, expected) in [
            (None, vec![rule("*", Action::Allow)], Action::Allow),
            (None, vec![rule("*", Action::Ask)], Action::Allow),
            (None, vec![rule("*", Action::Allow), rule("rm *", Action::Deny)], Action::Ask),
            (None, vec![rule("*", Action::Ask), rule("rm *", Action::Ask)], Action::Ask),
            (Some(UNSANDBOXED), vec![rule("*", Action::Allow)], Action::Ask),
        ] {
            let unsandboxed = Rule::new(UNSANDBOXED, "*", Action::Allow);
            let rules = [rules, vec![unsandboxed]].concat();
            let config = TurnConfig { rules, options: options.clone(), ..TurnConfig::default() };
            let line = ["bash"].into_iter().chain(more).map(|it| access_to(it, DYNAMIC));
            let call: Vec<Access> = line.chain([access_to(UNREADABLE, DYNAMIC)]).collect();
            let access = call.last().unwrap();
            assert_eq!(judge(&config, access, &call).0, expected, "{more:?} {:?}", config.rules);
        }
    }

    #[test]
    fn accepted_edits_are_those_of_known_files_in_the_worktree() {
        use Action::{Allow, Ask, Deny};
        let asks = || Rule::new("edit", "*", Ask);
        let own = || Rule::new("edit", "src/*", Ask);
        for (rules, access, expected) in [
            (vec![asks()], access_to("edit", "a"), Allow),
            (vec![asks()], access_to("edit", "/srv/a"), Ask),
            (vec![asks()], access_to("edit", DYNAMIC), Ask),
            (vec![asks()], access_to("read", "a"), Ask),
            (vec![asks()], access_to("protected_file", "AGENTS.md"), Ask),
            (vec![asks(), own()], access_to("edit", "src/a"), Ask),
            (vec![asks(), own()], access_to("edit", "a"), Allow),
            (vec![Rule::new("edit", "*", Deny)], access_to("edit", "a"), Deny),
        ] {
            let options = Options { accept_edits: true, ..Options::default() };
            let config = TurnConfig { rules, options, ..TurnConfig::default() };
            let found = judge(&config, &access, std::slice::from_ref(&access)).0;
            assert_eq!(found, expected, "{access:?}");
        }
    }

    #[test]
    fn approvals_of_session_and_project_answer_questions_and_never_beat_a_deny() {
        let rule = |pattern, action| Rule::new("bash", pattern, action);
        let (ask, deny) = (rule("*", Action::Ask), rule("rm *", Action::Deny));
        let (git, rm) = (rule("git *", Action::Allow), rule("rm *", Action::Allow));
        let access_to = |patterns: &[&str]| Access {
            permission: "bash".into(),
            patterns: patterns.iter().map(|&pattern| pattern.to_owned()).collect(),
            always: Vec::new(),
        };
        let rules = [ask, deny];
        for (own, project, patterns, action) in [
            (&[][..], &[][..], &["git log"][..], Action::Deny),
            (std::slice::from_ref(&git), &[], &["git log"], Action::Allow),
            (&[], std::slice::from_ref(&git), &["git log"], Action::Allow),
            (&[], std::slice::from_ref(&git), &["git log", "ls"], Action::Deny),
            (
                &[rule("ls", Action::Allow)],
                std::slice::from_ref(&git),
                &["git log", "ls"],
                Action::Allow,
            ),
            (&[], &[rm], &["rm x"], Action::Deny),
        ] {
            let in_force = RulesInForce {
                rules: &rules,
                options: &Options::default(),
                approved: [own, project],
                named_hosts: &BTreeSet::new(),
            };
            let (found, rule) = in_force.verdict_on_access(&access_to(patterns), &[]);
            assert_eq!(found, action, "{patterns:?}: {rule:?}");
        }
    }
}
