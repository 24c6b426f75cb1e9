//! The state of a session, folded from the events of its log. [`State::apply`] is the only way it
//! changes, [`next`](crate::next()) the only thing that decides from it.

mod apply;
mod asking;
pub mod batch;
mod call;
mod checkout;
mod compacting;
mod doom_loop;
mod elicitation;
mod files;
mod hook_results;
mod imported;
mod inherited_children;
mod limits;
mod message;
mod messages;
mod open;
mod plugins;
mod prompt_call;
mod reply;
mod structured;
pub mod switch;
mod tool_events;
pub(crate) mod words;

pub use call::{Call, CallDisplay, Outcome, Phase, Veto};
pub use compacting::{Compacting, Writing};
pub use elicitation::Elicitation;
pub use files::{Changed, Figures, Files, NoRevert, Restore, RestoreStep, Revert};
pub use inherited_children::InheritedChild;
pub use message::{Message, Prompt, PromptCall, Rejection, Reply, ReplyEnd, ReplyPart};
pub use messages::Messages;
pub use open::{EndedBy, OpenWait, PendingKind};
pub use plugins::{PendingHook, Plugins};
pub(crate) use reply::TRIMS;

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use crate::event::{
    Cost, Denial, DenialClass, EndReason, Ended, Envelope, Fact, FailureClass, Finish,
    SessionChoices, StreamedInput, TodoItem, TurnConfigPayloads, Usage,
};
use crate::id::{Seq, SessionId};
use crate::memo::Memo;
use crate::rules::Rule;
use crate::time::Time;
use crate::turn_config::TurnConfig;
use crate::verdict::RulesInForce;

/// The policy since which replies without a known size do not hide that an earlier one filled the context.
const SKIPS_UNSIZED_REPLIES: u16 = 6;

/// A session at one point of its log.
#[derive(Clone, Debug, PartialEq, Default, Serialize)]
pub struct State {
    pub session: SessionId,
    /// The last folded event; 0 before the first.
    pub seq: Seq,
    pub at: Time,
    pub origin: Option<Origin>,
    /// The policy version of the last node that wrote to this log.
    pub policy: u16,
    /// The last event that was imported and therefore grants nothing; 0 if there is none, or no
    /// `session.resumed` says so yet.
    #[serde(skip_serializing_if = "is_zero")]
    pub imported: Seq,
    pub title: Option<String>,
    /// A summary of the session in a few sentences, for lists.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub summary: Option<String>,
    /// When a client has put the session away.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub archived: Option<Time>,
    /// Empty if an imported log was resumed and nobody has prompted since.
    pub agent: String,
    /// A client's choices for later prompts.
    #[serde(skip_serializing_if = "SessionChoices::is_empty")]
    pub choices: SessionChoices,
    /// The session's own permission rules, which only make verdicts stricter.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub rules: Vec<Rule>,
    /// The prompts to which a client gave an id.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub prompt_ids: BTreeMap<String, Seq>,
    /// Whether the last prompt was for an agent that plans.
    pub planning: bool,
    pub config: TurnConfig,
    pub messages: Messages,
    /// The turn under way.
    pub turn: Option<Turn>,
    /// How the last turn ended.
    pub ended: Option<Box<Ended>>,
    pub todos: Vec<TodoItem>,
    /// Files as the model last read or wrote them: from path to version stamp.
    pub seen: BTreeMap<String, String>,
    /// Instruction files that results have attached since the last summary.
    pub instructed: BTreeSet<String>,
    /// Rules from "always" answers in this session.
    pub approved: Vec<Rule>,
    /// Hosts that prompts of people have named, which `webfetch` reads without a question.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub named_hosts: BTreeSet<String>,
    pub children: Vec<Child>,
    /// For a fork: the children in the shared events.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub inherited: Vec<InheritedChild>,
    pub delegated: Delegated,
    pub files: Files,
    #[serde(skip_serializing_if = "Plugins::is_empty")]
    pub plugins: Plugins,
    pub usage: Usage,
    pub cost: Cost,
    #[serde(skip)]
    configured: Option<TurnConfigPayloads>,
    #[serde(skip)]
    pub(crate) memo: Memo,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(seq: &Seq) -> bool {
    *seq == 0
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_none_yet(count: &u32) -> bool {
    *count == 0
}

/// Where the session comes from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Origin {
    pub directory: String,
    pub worktree: String,
    pub parent: Option<SessionId>,
    pub version: String,
}

/// The current turn: from its first prompt to `turn.ended`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Turn {
    pub prompted: Seq,
    pub since: Time,
    /// The last requested step; 0 before the first.
    pub step: u32,
    /// Attempts at that step.
    pub attempt: u32,
    /// The last `model.requested` of this turn; 0 before the first.
    pub asked: Seq,
    pub model_status: ModelStatus,
    /// The reason for which the turn will end, as soon as its calls are cancelled.
    pub stop: Option<EndReason>,
    /// Compactions since the last reply that left room.
    pub compactions: u32,
    /// Whether a person wants a summary as soon as nothing else is running.
    pub compact: bool,
    /// The person's instructions for that summary.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub compact_with: Option<String>,
    /// The text of the last reply that a summary has replaced.
    pub said: String,
    /// How often in a row the turn has gone on by itself after an incomplete reply without calls.
    pub continued: u32,
    /// How often in a row it has done so after an incomplete reply with calls.
    pub cut_calls: u32,
    /// The text that the next reply continues.
    pub cut: String,
    /// How often in a row a reply that announced calls and had none was requested again.
    pub uncalled: u32,
    /// How many replies gave no valid structured answer although they should have, and were followed by another.
    #[serde(skip_serializing_if = "is_none_yet")]
    pub output_failures: u32,
    pub title: Titling,
    /// The status of the session's summary.
    pub session_summary: Titling,
    /// The calls that the model is writing.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub writing: Vec<StreamedInput>,
    /// The calls that prompts must make before the model answers.
    pub prompt_calls: Vec<PromptCall>,
    /// The agent that will take over.
    pub switch: Option<String>,
    pub usage: Usage,
    pub cost: Cost,
    pub denials: Vec<Denial>,
    /// The party behind each of `denials`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub denial_classes: Vec<DenialClass>,
}

impl State {
    /// The agent of the last prompt, if it is known.
    pub fn last_agent(&self) -> Option<&str> {
        Some(self.agent.as_str()).filter(|name| !name.is_empty())
    }

    /// Whether a node has something to go on with here: a turn or a restore that has not ended.
    pub fn has_work(&self) -> bool {
        self.turn.is_some() || self.files.restore.is_some()
    }

    /// Whether a node should go on with this session if nobody owns it. A subagent does not say so, because its
    /// parent goes on with it.
    pub fn wants_node(&self) -> bool {
        self.has_work() && self.origin.as_ref().is_some_and(|origin| origin.parent.is_none())
    }

    /// The child that the call `c` waits for.
    pub fn child_of(&self, c: &Call) -> Option<&Child> {
        self.children.iter().find(|child| child.call == c.seq)
    }

    /// Children that have not reported their end.
    pub fn open_children(&self) -> impl Iterator<Item = &Child> {
        self.children.iter().filter(|child| !child.ended)
    }
}

/// The usage and cost of the children of this turn or the last one, including their children. It
/// counts towards the turn's limit, and not as the session's own.
#[derive(Clone, Copy, Debug, PartialEq, Default, Serialize)]
pub struct Delegated {
    pub usage: Usage,
    pub cost: Cost,
}

/// An intent that waits for its outcome.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Wait {
    /// The seq of the intent.
    pub intent: Seq,
    pub since: Time,
    pub until: Time,
}

impl Wait {
    fn for_event(envelope: &Envelope) -> Self {
        Self {
            intent: envelope.seq,
            since: envelope.at,
            until: envelope.until.unwrap_or(envelope.at),
        }
    }
}

/// The status in this turn of a text about the session: its title, or its summary.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Titling {
    #[default]
    Due,
    Waiting(Wait),
    /// Written, or given up: nothing depends on it.
    Over,
}

/// The status of the model request.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ModelStatus {
    /// No request in this turn yet, or room was made: the next step is due.
    Due,
    Waiting(Wait),
    Answered {
        finish: Finish,
    },
    Failed(Failure),
    /// A retry is scheduled.
    Backoff(Wait),
    /// Another attempt at this step is due.
    Again,
    /// A summary is being written.
    Compacting(Compacting),
    CompactionFailed {
        message: String,
    },
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Failure {
    pub class: FailureClass,
    pub message: String,
    pub retryable: bool,
    /// Milliseconds.
    pub retry_after: Option<u64>,
}

/// A session that a call of this session started.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Child {
    pub session: SessionId,
    pub call: Seq,
    pub agent: String,
    /// The inherited child that it is a fork of, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fork_of: Option<SessionId>,
    /// The wait for its end, since the last `subagent.spawned` that started or continued it.
    pub wait: Wait,
    pub ended: bool,
    /// The cost limit of its turn in US dollars, including its own children; `None`: no limit.
    pub may_spend: Option<Cost>,
    /// Whether its end has reported its cost.
    pub counted: bool,
}

impl State {
    /// The last reply. Only its calls can be open.
    pub fn last_reply(&self) -> Option<&Reply> {
        self.messages.iter().rev().find_map(Message::reply)
    }

    fn last_reply_mut(&mut self) -> Option<&mut Reply> {
        let at = self.messages.iter().rposition(|message| message.reply().is_some())?;
        self.messages[at].reply_mut()
    }

    /// The calls of the last reply, in call order.
    pub fn calls(&self) -> impl Iterator<Item = &Call> {
        self.last_reply().into_iter().flat_map(Reply::calls)
    }

    /// The seq of the last prompt that asks for an answer; 0 without one.
    pub fn last_prompt(&self) -> Seq {
        let mut prompts = self.messages.iter().rev().filter_map(Message::prompt);
        prompts.find(|prompt| !prompt.quiet).map_or(0, |prompt| prompt.seq)
    }

    /// The earlier prompt to which a client gave the id of this one.
    pub fn repeated_prompt(&self, prompted: &Fact) -> Option<Seq> {
        self.prompt_ids.get(prompted.notes.client.as_ref()?).copied()
    }

    /// The first prompt that no model has seen yet.
    pub fn unsent_prompt(&self) -> Option<Seq> {
        let asked = self.last_reply().map_or(0, |reply| reply.asked);
        self.messages.iter().filter_map(Message::prompt).map(|p| p.seq).find(|seq| *seq > asked)
    }

    /// The text of this turn's last reply, with the text that it continues.
    pub fn answer(&self) -> String {
        let since = self.turn.as_ref().map_or(0, |turn| turn.prompted);
        let said = || self.turn.as_ref().map(|turn| turn.said.clone()).unwrap_or_default();
        let reply = self.last_reply().filter(|reply| reply.asked > since);
        reply.map_or_else(said, |reply| format!("{}{}", reply.continues, reply.text()))
    }

    /// The number of tokens that the history may use. `None` if the model's limits are
    /// unknown.
    pub fn usable(&self) -> Option<u64> {
        let limit = &self.config.model.limit;
        let output = limit.output.min(self.config.options.max_output);
        let reserved = self.config.options.reserved;
        if limit.input > 0 {
            Some(limit.input.saturating_sub(reserved.unwrap_or(output.min(20_000))))
        } else if limit.context > 0 {
            Some(
                limit
                    .context
                    .saturating_sub(reserved.map_or(output, |reserved| reserved.max(output))),
            )
        } else {
            None
        }
    }

    /// Whether the last exchange filled the model's context. False directly after a compaction.
    pub fn overflows(&self) -> bool {
        let used = self.context_used();
        self.usable().is_some_and(|usable| used > 0 && used >= usable)
    }

    /// The tokens of the last exchange whose usage is known; 0 directly after a compaction.
    pub fn context_used(&self) -> u64 {
        let skips = self.policy >= SKIPS_UNSIZED_REPLIES;
        let exchanged = |message: &&Message| match message {
            Message::User(_) | Message::Note { .. } => false,
            Message::Assistant(reply) => !skips || reply.usage.total() > 0,
            Message::Summary { .. } => true,
        };
        let last = self.messages.iter().rfind(exchanged);
        last.and_then(Message::reply).map_or(0, |reply| reply.usage.total())
    }

    /// The permission rules, with what "always" has allowed.
    pub(crate) fn rules_in_force(&self) -> RulesInForce<'_> {
        let options = &self.config.options;
        let approved = [self.approved.as_slice(), options.approved.as_slice()];
        let named_hosts = &self.named_hosts;
        RulesInForce { rules: &self.config.rules, options, approved, named_hosts }
    }

    /// The turn configuration's event, if it differs from the one in force. A node writes it before
    /// a prompt.
    pub fn changed_config(&self, configured: TurnConfigPayloads) -> Option<TurnConfigPayloads> {
        (self.configured.as_ref() != Some(&configured)).then_some(configured)
    }
}
