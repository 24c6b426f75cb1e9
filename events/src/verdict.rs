//! Evaluates permission rules for an access. A pure function of rules, approvals and ask mode.
//! Other modules decide what follows from a verdict.

use crate::event::Access;
use crate::rules::{self, Action, LEFTFOLD, Rule};
use crate::turn_config::{AskMode, TurnConfig};

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
    judged((rules, &options.restrictions), &[&options.approved], access, call)
}

/// The verdict of rules and the restrictions on them, with several lists of approvals, which are evaluated one
/// after the other.
fn judged(
    (rules, restrictions): (&[Rule], &[Vec<Rule>]),
    approved: &[&[Rule]],
    access: &Access,
    call: &[Access],
) -> (Action, Option<Rule>) {
    let in_line = is_in_line(access, call);
    let mut worst = (Action::Allow, None);
    for pattern in &access.patterns {
        let permission = &access.permission;
        let mut verdict = if in_line {
            let find = |rules| rules::evaluate_named(rules, permission, pattern);
            rules::strictest(find, Action::Allow, rules, restrictions)
        } else {
            rules::evaluate_restricted(rules, restrictions, permission, pattern)
        };
        if verdict.0 == Action::Ask
            && let Some(yes) =
                approved.iter().find_map(|yes| rules::evaluate(yes, &access.permission, pattern))
        {
            verdict = (yes.action, Some(yes));
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
    /// Lists that can only make a verdict stricter.
    pub(crate) restrictions: &'a [Vec<Rule>],
    /// Rules from "always" answers: first those of the session, then those of its project.
    pub(crate) approved: [&'a [Rule]; 2],
    pub(crate) ask: AskMode,
}

impl RulesInForce<'_> {
    /// The verdict on one access. If no person is there to be asked, the ask mode decides.
    /// The access belongs to a call that needs all of `call`.
    pub(crate) fn verdict_on_access(
        &self,
        access: &Access,
        call: &[Access],
    ) -> (Action, Option<Rule>) {
        let (action, rule) = judged((self.rules, self.restrictions), &self.approved, access, call);
        let (action, rule) = match action {
            Action::Allow if access.permission == QUESTION => (Action::Ask, None),
            Action::Allow | Action::Ask | Action::Deny => (action, rule),
        };
        let action = match (action, self.ask) {
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

    /// The access that is denied.
    pub(crate) fn denied<'a>(&self, accesses: &'a [Access]) -> Option<&'a Access> {
        accesses.iter().find(|access| self.verdict_on_access(access, accesses).0 == Action::Deny)
    }

    /// Whether the rules require an answer that need not come from a person.
    pub(crate) fn leave_open(&self, access: &Access, call: &[Access]) -> bool {
        let asked = judged((self.rules, self.restrictions), &self.approved, access, call).0;
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
            let in_force =
                RulesInForce { rules: &rules, restrictions: &[], approved: [&approved, &[]], ask };
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
                restrictions: &[],
                approved: [own, project],
                ask: AskMode::default(),
            };
            let (found, rule) = in_force.verdict_on_access(&access_to(patterns), &[]);
            assert_eq!(found, action, "{patterns:?}: {rule:?}");
        }
    }
}
