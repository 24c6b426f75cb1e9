//! Evaluates permission rules for an access. A pure function of rules, approvals and ask mode.
//! Other modules decide what follows from a verdict.

use crate::event::Access;
use crate::rules::{self, Action, Rule};
use crate::turn_config::AskMode;

/// The permission for questions of tools to the user. Rules can deny such a question, but not
/// answer it.
pub(crate) const QUESTION: &str = "question";

/// The verdict of `rules` on one access: the strictest over its patterns, with the deciding rule.
/// An "always" answer turns a question into a yes, but never a denial.
pub fn judge(rules: &[Rule], approved: &[Rule], access: &Access) -> (Action, Option<Rule>) {
    judged(rules, &[approved], access)
}

/// The verdict with several lists of approvals, which are evaluated one after the other.
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

/// Whether a verdict is stricter than the strictest so far. Of equal verdicts, the first one with a
/// rule is reported.
fn is_worse(action: Action, worst: &(Action, Option<Rule>)) -> bool {
    action > worst.0 || action == worst.0 && worst.1.is_none()
}

/// The rules in force in a session.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RulesInForce<'a> {
    pub(crate) rules: &'a [Rule],
    /// Rules from "always" answers: first those of the session, then those of its project.
    pub(crate) approved: [&'a [Rule]; 2],
    pub(crate) ask: AskMode,
}

impl RulesInForce<'_> {
    /// The verdict on one access. If no person is there to be asked, the ask mode decides.
    pub(crate) fn access(&self, access: &Access) -> (Action, Option<Rule>) {
        let (action, rule) = judged(self.rules, &self.approved, access);
        let (action, rule) = match action {
            Action::Allow if access.permission == QUESTION => (Action::Ask, None),
            Action::Allow | Action::Ask | Action::Deny => (action, rule),
        };
        let action = match (action, self.ask) {
            // a yes to everything does not answer a question
            (Action::Ask, AskMode::Allow) if access.permission == QUESTION => Action::Deny,
            (Action::Ask, AskMode::Deny) => Action::Deny,
            (Action::Ask, AskMode::Allow) => Action::Allow,
            (action, _) => action,
        };
        (action, rule)
    }

    /// The verdict on a whole call: the strictest of its accesses. A call without accesses is
    /// allowed.
    pub(crate) fn all(&self, accesses: &[Access]) -> (Action, Option<Rule>) {
        let mut worst = (Action::Allow, None);
        for verdict in accesses.iter().map(|access| self.access(access)) {
            if is_worse(verdict.0, &worst) {
                worst = verdict;
            }
        }
        worst
    }

    /// The access that is denied.
    pub(crate) fn denied<'a>(&self, accesses: &'a [Access]) -> Option<&'a Access> {
        accesses.iter().find(|access| self.access(access).0 == Action::Deny)
    }

    /// Whether the rules require a person's answer. Only people answer the questions of tools.
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
