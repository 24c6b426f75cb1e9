//! Switches from one agent to another: by a person's prompt, or within a turn if a person agrees to
//! the model's request. Also the texts that tell the model about it. The texts
//! stay in the prompt's message in the state.

use std::collections::BTreeMap;

use super::message::{Message, Prompt};
use super::{Call, State, words};
use crate::event::{Answer, CallKind, PromptPart};
use crate::id::Seq;
use crate::rules::host;

/// The most hosts that count as named in a session.
const MAX_NAMED_HOSTS: usize = 200;

/// The answers to the question whether an agent takes over.
pub const YES: &str = "Yes";
pub const NO: &str = "No";

impl Call {
    /// The agent that takes over after this call.
    pub fn switches_to(&self) -> Option<&str> {
        if let CallKind::SwitchAgent { agent } = self.kind() { Some(agent) } else { None }
    }

    /// The meaning of an answer to the question of such a call. Only a yes is a yes; other text is
    /// passed to the model.
    pub(super) fn understood<'a>(
        &self,
        reply: Answer,
        words: Option<&'a str>,
    ) -> (Answer, Option<&'a str>) {
        let said = words.map(|words| words.trim().to_lowercase());
        match said.as_deref() {
            _ if self.switches_to().is_none() || reply == Answer::Reject => (reply, words),
            None | Some("" | "y" | "yes") => (reply, words),
            Some("n" | "no") => (Answer::Reject, None),
            Some(_) => (Answer::Reject, words),
        }
    }
}

impl State {
    pub(super) fn take_over(&mut self, agent: Option<String>) {
        if let (Some(turn), Some(agent)) = (&mut self.turn, agent) {
            turn.switch = Some(agent);
        }
    }

    /// The reminder of the agent in force, if it has one.
    pub(super) fn reminder(&self) -> Option<String> {
        Some(self.config.options.reminder.clone()).filter(|text| !text.is_empty())
    }

    /// Adds the hosts that a prompt names. The prompts of a subagent are written by a model.
    pub(super) fn name_hosts(&mut self, parts: &[PromptPart]) {
        if self.origin.as_ref().is_some_and(|origin| origin.parent.is_some()) {
            return;
        }
        let left = MAX_NAMED_HOSTS.saturating_sub(self.named_hosts.len());
        let typed = parts.iter().filter(|part| part.is_typed());
        self.named_hosts.extend(typed.flat_map(|part| host::named(&part.text)).take(left));
    }

    pub(super) fn prompted(&mut self, seq: Seq, parts: Vec<PromptPart>, agent: &str) {
        agent.clone_into(&mut self.agent);
        let plans = self.config.options.plans;
        let reminder = self.reminder().filter(|_| plans != self.planning);
        self.planning = plans;
        self.messages.push(Message::User(Prompt {
            seq,
            parts,
            outputs: BTreeMap::new(),
            reminder,
            quiet: false,
        }));
    }

    /// Adds a message that asks for no answer.
    pub(super) fn noted(&mut self, seq: Seq, parts: Vec<PromptPart>) {
        let (outputs, reminder, quiet) = (BTreeMap::new(), None, true);
        self.messages.push(Message::User(Prompt { seq, parts, outputs, reminder, quiet }));
    }

    pub(super) fn switched(&mut self, seq: Seq, agent: &str) {
        let told =
            if self.config.options.plans { words::PLANNING_APPROVED } else { words::PLAN_APPROVED };
        self.prompted(seq, vec![PromptPart::text(told)], agent);
        // the agent that has taken over also gets the next prompts
        if let Some(chosen) = &mut self.choices.agent {
            agent.clone_into(chosen);
        }
        if let Some(turn) = &mut self.turn {
            turn.switch = None;
        }
    }
}
