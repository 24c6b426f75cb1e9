//! How `permission.*` events change a call: rules, questions, answers, and the questions of its
//! run.

use super::elicitation::Elicitation;
use super::{Call, Phase, Rejection, State, Wait, doom_loop, words};
use crate::event::{
    Access, Answer, Class, Consent, Denial, DenialClass, EndReason, Envelope, Permission,
};
use crate::id::Seq;
use crate::rules::{Action, Rule};
use crate::time::Time;

/// The first policy under which a rejection with words closes the other questions of the reply.
const CLOSES_OTHERS: u16 = 3;

impl Access {
    /// The rules that an "always" adds: for `instead`, or else for the patterns that are offered.
    fn approves(&self, instead: Option<&[String]>) -> Vec<Rule> {
        let patterns = instead.unwrap_or(&self.always).iter();
        patterns.map(|pattern| Rule::new(&self.permission, pattern, Action::Allow)).collect()
    }
}

impl Call {
    /// For denials that no access explains.
    fn nameless_access(&self) -> Access {
        let permission = self.name.clone();
        Access { permission, patterns: Vec::new(), always: Vec::new() }
    }

    fn is_asked_about(&mut self, wait: Wait, permission: &str, patterns: &[String]) {
        let from = if let Phase::MustAsk { access } = self.phase { access } else { 0 };
        let about = |a: &Access| a.permission == permission && a.patterns == patterns;
        let found = self.access().iter().skip(from).position(about);
        self.phase = Phase::Asking { wait, access: from + found.unwrap_or(0) };
    }
}

impl State {
    pub(super) fn apply_permission(&mut self, envelope: &Envelope, event: &Permission) {
        let of = envelope.of;
        match event {
            Permission::Ruled { action, rule, .. } => self.ruled(of, *action, rule.as_ref()),
            Permission::Asked { permission, patterns, .. } => {
                if let Some(call) = self.call_mut(of)
                    && !call.asks(envelope)
                {
                    call.is_asked_about(Wait::for_event(envelope), permission, patterns);
                }
                self.plugins.forget_question(of);
            }
            Permission::Answered { reply, feedback, by } => {
                self.person_answered(envelope, *reply, feedback.as_deref(), by, None);
            }
            Permission::AnsweredFor { reply, feedback, by, always } => {
                self.person_answered(envelope, *reply, feedback.as_deref(), by, Some(always));
            }
            Permission::RejectedWith { .. } => {
                let Some(call) = self.waiting_mut(of) else { return };
                let Phase::Asking { access, .. } = call.phase else { return };
                let seq = call.seq;
                self.rejected_with(Some(seq), access);
            }
        }
    }

    /// An "always" allows the patterns in `always`, or else those that the question offers.
    fn person_answered(
        &mut self,
        envelope: &Envelope,
        reply: Answer,
        feedback: Option<&str>,
        by: &str,
        always: Option<&[String]>,
    ) {
        let of = envelope.of;
        if let Some(call) = self.eliciting_mut(of) {
            let asked = call.elicitations.first().and_then(Elicitation::permission);
            let approved = asked.filter(|_| reply == Answer::Always);
            let approved = approved.map(|access| access.approves(always)).unwrap_or_default();
            call.told(envelope.at, reply, feedback);
            if !approved.is_empty() {
                self.approved.extend(approved);
                self.release();
            }
            return;
        }
        let words = self.answered(of, reply, feedback, always).map(str::to_owned);
        let (answer, by) = (envelope.seq, by.to_owned());
        if let Some(feedback) = words.filter(|_| self.policy >= CLOSES_OTHERS)
            && let Some(reply) = self.last_reply_mut()
        {
            let rejection = Rejection { answer, feedback, by };
            reply.rejection.get_or_insert_with(|| Box::new(rejection));
        }
    }

    fn ruled(&mut self, of: Option<Seq>, action: Action, rule: Option<&Rule>) {
        let denied = self.calls().find(|call| Some(call.seq) == of);
        let denied = denied.and_then(|call| self.rules_in_force().denied(call.access()));
        let class = match denied {
            Some((_, true)) => DenialClass::NoTerminal,
            Some((_, false)) | None => DenialClass::Rule,
        };
        let denied = denied.map(|(access, _)| access).cloned();
        if self.is_vetoed(of, action) {
            return;
        }
        let rejected = self.rejected(of);
        let too_deep = self.calls().any(|c| Some(c.seq) == of && self.is_nested_too_deeply(c));
        let max_depth = self.config.options.max_depth;
        let Some(call) = self.call_mut(of) else { return };
        match action {
            Action::Allow => call.phase = Phase::Allowed,
            Action::Ask => call.phase = Phase::MustAsk { access: 0 },
            Action::Deny if rule.is_none() && too_deep => {
                let access = call.access().first().cloned();
                let access = access.unwrap_or_else(|| call.nameless_access());
                let denial = call.denial(&access, "nested too deeply");
                call.done(words::too_deep(max_depth), true);
                self.note(denial, DenialClass::Depth);
            }
            Action::Deny if denied.is_none() && rejected.is_some() => {
                self.rejected_with(of, rejected.unwrap_or_default());
            }
            Action::Deny => {
                let access = denied.unwrap_or_else(|| call.nameless_access());
                let told = words::denied(rule, &access.permission, &access.patterns);
                let denial = call.denial(&access, "denied");
                call.done(told, true);
                self.deny(denial, class);
            }
        }
    }

    /// Whether the call would start a subagent that is nested more deeply than the settings allow.
    pub(crate) fn is_nested_too_deeply(&self, call: &Call) -> bool {
        call.class() == Class::Child && self.config.options.is_deepest()
    }

    /// The access that a person would be asked about next, of a call that nobody is asked about
    /// because another call of its reply was rejected.
    fn rejected(&self, of: Option<Seq>) -> Option<usize> {
        self.last_reply()?.rejection.as_ref()?;
        let call = self.calls().find(|call| Some(call.seq) == of)?;
        self.questioned(call).map(|(access, _)| access)
    }

    /// The call is rejected together with another one of its reply.
    fn rejected_with(&mut self, of: Option<Seq>, access: usize) {
        let rejection = self.last_reply().and_then(|reply| reply.rejection.as_ref());
        let told = words::rejected_with(rejection.map_or("", |rejection| &rejection.feedback));
        let Some(call) = self.call_mut(of) else { return };
        let Some(access) = call.access().get(access).cloned() else { return };
        let denial = call.denial(&access, "rejected");
        call.done(told, true);
        self.note(denial, DenialClass::Person);
    }

    /// The words of a rejection, if it has any.
    fn answered<'a>(
        &mut self,
        of: Option<Seq>,
        reply: Answer,
        feedback: Option<&'a str>,
        always: Option<&[String]>,
    ) -> Option<&'a str> {
        let call = self.waiting_mut(of)?;
        let Phase::Asking { access: at, .. } = call.phase else { return None };
        let access = call.access().get(at).cloned()?;
        let (reply, feedback) = call.understood(reply, feedback);
        if reply == Answer::Reject {
            let denial = call.denial(&access, "rejected");
            call.done(words::rejected(feedback), true);
            self.note(denial, DenialClass::Person);
            if feedback.is_none() && !self.config.options.goes_on_after_rejection {
                self.stop(EndReason::Blocked);
            }
            return feedback;
        }
        call.phase = Phase::MustAsk { access: at + 1 };
        call.answers.extend(feedback.map(str::to_owned).or_else(|| Some(String::new())));
        if reply == Answer::Always {
            self.approved.extend(access.approves(always));
            self.release();
        }
        None
    }

    /// Drops the approvals of this session that the user has taken back. A later "always" adds them again.
    pub(super) fn drop_revoked(&mut self) {
        let revoked = &self.config.options.revoked;
        self.approved.retain(|rule| !revoked.iter().any(|back| back.is_for_same(rule)));
    }

    /// Closes the questions that an "always" has also answered.
    fn release(&mut self) {
        let mut questions = self.questions();
        questions.retain(|(of, access)| {
            let asks = |call: &&Call| {
                matches!(call.phase, Phase::Asking { wait, .. } if wait.intent == *of)
            };
            let call = self.calls().find(asks).map_or(&[][..], Call::access);
            self.rules_in_force().verdict_on_access(access, call).0 == Action::Allow
        });
        for (of, _) in questions {
            if let Some(call) = self.waiting_mut(Some(of))
                && let Phase::Asking { access, .. } = call.phase
            {
                call.phase = Phase::MustAsk { access };
            }
        }
    }

    /// The call is denied. A turn that repeats a call without success ends there.
    pub(super) fn deny(&mut self, denial: Denial, class: DenialClass) {
        let in_circles = denial.permission == doom_loop::DOOM_LOOP;
        self.note(denial, if in_circles { DenialClass::DoomLoop } else { class });
        if in_circles {
            self.stop(EndReason::Blocked);
        }
    }

    pub(super) fn note(&mut self, denial: Denial, class: DenialClass) {
        if let Some(turn) = &mut self.turn {
            turn.denials.push(denial);
            turn.denial_classes.push(class);
        }
    }
}

/// While a person is asked, the call's own time limit is suspended.
impl Call {
    /// The question that the running call waits for.
    pub fn eliciting(&self) -> Option<Wait> {
        self.elicitations.first().filter(|_| self.is_running())?.wait
    }

    /// The question that the running call waits for, with its access.
    pub(super) fn elicits(&self) -> Option<(Seq, Access)> {
        let wait = self.eliciting()?;
        Some((wait.intent, self.elicitations.first()?.access()?))
    }

    /// Takes a question that belongs to the run.
    pub(super) fn asks(&mut self, asked: &Envelope) -> bool {
        let Phase::Running { wait, .. } = &mut self.phase else { return false };
        let Some(elicitation) = self.elicitations.first_mut() else { return false };
        let question = Wait::for_event(asked);
        elicitation.left = wait.until.since(asked.at);
        elicitation.wait = Some(question);
        wait.until = question.until.plus(elicitation.left);
        true
    }

    /// A person has answered.
    pub(super) fn told(&mut self, at: Time, reply: Answer, words: Option<&str>) {
        self.go_on(at, |elicitation| elicitation.hear(reply, words));
    }

    /// No person has answered in time.
    pub(super) fn unheard(&mut self, at: Time) {
        self.go_on(at, |elicitation| {
            elicitation.wait = None;
            elicitation.end = Some(Consent::Cancelled);
        });
    }

    fn go_on(&mut self, at: Time, heard: impl FnOnce(&mut Elicitation)) {
        let Phase::Running { wait, .. } = &mut self.phase else { return };
        if let Some(elicitation) = self.elicitations.first_mut() {
            wait.until = at.plus(elicitation.left);
            heard(elicitation);
        }
    }
}

impl State {
    /// The call whose run waits for an answer to the question `of`.
    pub(super) fn eliciting_mut(&mut self, of: Option<Seq>) -> Option<&mut Call> {
        if self.turn.as_ref().is_none_or(|turn| turn.stop.is_some()) {
            return None;
        }
        let asks = |call: &&mut Call| call.eliciting().is_some_and(|wait| Some(wait.intent) == of);
        self.last_reply_mut()?.calls_mut().find(asks)
    }
}
