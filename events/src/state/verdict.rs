//! What the rules say of a call.

use super::elicitation::QUESTION;
use super::{Call, State};
use crate::event::Access;
use crate::rules::{self, Action, Rule};
use crate::turn_config::AskMode;

/// The verdict of `rules` on one access: the worst over its patterns, with the rule that decided.
/// What "always" has allowed turns a question into a yes, never a no.
pub fn judge(rules: &[Rule], approved: &[Rule], access: &Access) -> (Action, Option<Rule>) {
    judged(rules, &[approved], access)
}

/// The lists in `approved` are asked one after the other.
fn judged(rules: &[Rule], approved: &[&[Rule]], access: &Access) -> (Action, Option<Rule>) {
    let mut worst = (Action::Allow, None);
    for pattern in &access.patterns {
        let rule = rules::evaluate(rules, &access.permission, pattern);
        let mut verdict = (rule.map_or(Action::Ask, |rule| rule.action), rule);
        if verdict.0 == Action::Ask
            && let Some(yes) =
                approved.iter().find_map(|yes| rules::evaluate(yes, &access.permission, pattern))
        {
            verdict = (yes.action, Some(yes));
        }
        if worse(verdict.0, &worst) {
            worst = (verdict.0, verdict.1.cloned());
        }
    }
    worst
}

/// Whether a verdict outdoes the worst so far. Of equal ones the first that a rule stands behind
/// is told.
fn worse(action: Action, worst: &(Action, Option<Rule>)) -> bool {
    action > worst.0 || action == worst.0 && worst.1.is_none()
}

/// The same in a session, where the project's approvals come after its own: where nobody is there
/// to be asked, a question is decided beforehand.
pub(crate) fn access(s: &State, access: &Access) -> (Action, Option<Rule>) {
    let (action, rule) =
        judged(&s.config.rules, &[&s.approved, &s.config.options.approved], access);
    let (action, rule) = match action {
        Action::Allow if access.permission == QUESTION => (Action::Ask, None),
        Action::Allow | Action::Ask | Action::Deny => (action, rule),
    };
    let action = match (action, s.config.options.ask) {
        // a yes to everything answers no question
        (Action::Ask, AskMode::Allow) if access.permission == QUESTION => Action::Deny,
        (Action::Ask, AskMode::Deny) => Action::Deny,
        (Action::Ask, AskMode::Allow) => Action::Allow,
        (action, _) => action,
    };
    (action, rule)
}

/// Whether the rules leave it to somebody who is asked. The questions of tools are for people alone.
pub(crate) fn is_open(s: &State, access: &Access) -> bool {
    let asked = judged(&s.config.rules, &[&s.approved, &s.config.options.approved], access).0;
    asked == Action::Ask && access.permission != QUESTION
}

/// Whether a call for which nobody is there to be asked is denied for that alone.
pub(crate) fn is_left_open(s: &State, c: &Call) -> bool {
    let fine = |a: &Access| is_open(s, a) || access(s, a).0 == Action::Allow;
    c.access().iter().all(fine)
}

/// The verdict on a whole call: the worst of its accesses. A call that touches nothing is allowed.
pub(crate) fn verdict(s: &State, c: &Call) -> (Action, Option<Rule>) {
    let mut worst = (Action::Allow, None);
    for verdict in c.access().iter().map(|a| access(s, a)) {
        if worse(verdict.0, &worst) {
            worst = verdict;
        }
    }
    worst
}

/// The access that keeps the call from running.
pub(crate) fn denied<'a>(s: &State, c: &'a Call) -> Option<&'a Access> {
    c.access().iter().find(|a| access(s, a).0 == Action::Deny)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::turn_config::Options;

    fn state(rules: &[Rule], own: &[Rule], project: &[Rule]) -> State {
        let mut state = State { approved: own.to_vec(), ..State::default() };
        state.config.rules = rules.to_vec();
        state.config.options = Options { approved: project.to_vec(), ..Options::default() };
        state
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
            let (found, rule) = access(&state(&rules, own, project), &access_to(patterns));
            assert_eq!(found, action, "{patterns:?}: {rule:?}");
        }
    }
}
