//! What permission rules say of an access. A pure function of rules, approvals and mode; what follows
//! from a verdict is decided elsewhere.

use crate::event::Access;
use crate::rules::{self, Action, Rule};
use crate::turn_config::AskMode;

/// The permission that a tool needs to put a question to the user: it is put whatever the rules allow.
pub(crate) const QUESTION: &str = "question";

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
        if is_worse(verdict.0, &worst) {
            worst = (verdict.0, verdict.1.cloned());
        }
    }
    worst
}

/// Whether a verdict outdoes the worst so far. Of equal ones the first that a rule stands behind
/// is told.
fn is_worse(action: Action, worst: &(Action, Option<Rule>)) -> bool {
    action > worst.0 || action == worst.0 && worst.1.is_none()
}

/// The rules in force in a session.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RulesInForce<'a> {
    pub(crate) rules: &'a [Rule],
    /// What "always" has allowed in the session, and before that in its project.
    pub(crate) approved: [&'a [Rule]; 2],
    pub(crate) ask: AskMode,
}

impl RulesInForce<'_> {
    /// The verdict on one access. Where nobody is there to be asked, a question is decided beforehand.
    pub(crate) fn access(&self, access: &Access) -> (Action, Option<Rule>) {
        let (action, rule) = judged(self.rules, &self.approved, access);
        let (action, rule) = match action {
            Action::Allow if access.permission == QUESTION => (Action::Ask, None),
            Action::Allow | Action::Ask | Action::Deny => (action, rule),
        };
        let action = match (action, self.ask) {
            // a yes to everything answers no question
            (Action::Ask, AskMode::Allow) if access.permission == QUESTION => Action::Deny,
            (Action::Ask, AskMode::Deny) => Action::Deny,
            (Action::Ask, AskMode::Allow) => Action::Allow,
            (action, _) => action,
        };
        (action, rule)
    }

    /// The verdict on a whole call: the worst of its accesses. A call that touches nothing is allowed.
    pub(crate) fn all(&self, accesses: &[Access]) -> (Action, Option<Rule>) {
        let mut worst = (Action::Allow, None);
        for verdict in accesses.iter().map(|access| self.access(access)) {
            if is_worse(verdict.0, &worst) {
                worst = verdict;
            }
        }
        worst
    }

    /// The access that keeps a call from running.
    pub(crate) fn denied<'a>(&self, accesses: &'a [Access]) -> Option<&'a Access> {
        accesses.iter().find(|access| self.access(access).0 == Action::Deny)
    }

    /// Whether the rules leave it to somebody who is asked. The questions of tools are for people alone.
    pub(crate) fn leave_open(&self, access: &Access) -> bool {
        let asked = judged(self.rules, &self.approved, access).0;
        asked == Action::Ask && access.permission != QUESTION
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
            let in_force =
                RulesInForce { rules: &rules, approved: [own, project], ask: AskMode::default() };
            let (found, rule) = in_force.access(&access_to(patterns));
            assert_eq!(found, action, "{patterns:?}: {rule:?}");
        }
    }
}
