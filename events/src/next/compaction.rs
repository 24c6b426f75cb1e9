//! Decides about compaction: when a summary replaces older messages, to make room in the model's context window.

use super::{ask_with, decide, end, intent, plugins, retry, retry_scheduled};
use crate::event::{
    CallKind, Compaction, EndReason, Envelope, FailureClass, Finish, PromptKind, PromptPart,
    Purpose,
};
use crate::id::Seq;
use crate::request_builder;
use crate::state::{Call, Compacting, Message, Phase, ReplyPart, State, Turn, Writing};

/// The number of consecutive compactions without success after which the turn ends.
const COMPACTIONS: u32 = 2;
/// The number of last user turns whose tool output is never cleared.
const KEPT_TURNS: usize = 2;
/// Tokens of tool output before those turns that are also kept.
const KEPT: usize = 40_000;
/// The smallest number of tokens that justifies changing the conversation.
const WORTH: usize = 20_000;

/// The tokens of a tail without a number of its own: a quarter of the usable context, within these.
const MIN_TAIL: u64 = 2_000;
const MAX_TAIL: u64 = 8_000;
/// The bytes that a picture or a PDF counts for in a tail.
const MEDIA: usize = 8_000;

/// The policy since which only the provider's own refusal ends a turn if compaction is off.
const ASKS_FIRST: u16 = 5;

/// Whether a conversation that seems too long is not sent. Without compaction it is: the estimate may be wrong, and
/// the session could never be prompted again.
pub(super) fn is_predicted(s: &State) -> bool {
    s.config.options.compact || s.policy < ASKS_FIRST
}

/// Replaces the conversation so far by a summary, if that can help.
pub(super) fn make_room(s: &State, turn: &Turn, why: &str) -> Envelope {
    let advice = if !s.config.options.compact {
        "compaction is off in the settings"
    } else if !s.has_past() {
        "there is nothing left to summarise: make the prompt shorter"
    } else if turn.compactions >= COMPACTIONS {
        "summaries leave no room"
    } else {
        return start(s, true);
    };
    end(s, turn, EndReason::Error, Some(format!("{why}, and {advice}")))
}

/// Starts a compaction. Prompts that no model has seen are not replaced, nor is the tail.
pub(super) fn start(s: &State, auto: bool) -> Envelope {
    let sent = s.unsent_prompt().map_or(s.seq, |prompt| prompt - 1);
    let through = tail(s, sent).map_or(sent, |first| first - 1);
    intent(s, None, Some(s.config.options.timeout), Compaction::Started { through, auto })
}

/// The first message of the tail that stays, of the messages up to `sent`. It is the beginning of a
/// prompt or of a reply. `None`: everything is replaced, because no tail is wanted, none fits, or one has
/// left too little room before.
fn tail(s: &State, sent: Seq) -> Option<Seq> {
    let wanted = s.config.options.tail?;
    if s.turn.as_ref().is_some_and(|turn| turn.compactions > 0) {
        return None;
    }
    // at least one reply is summarised
    let oldest = s.messages.iter().find_map(Message::reply)?.asked;
    let usable = s.usable();
    let share = || usable.map_or(MAX_TAIL, |usable| (usable / 4).clamp(MIN_TAIL, MAX_TAIL));
    let room = wanted.tokens.unwrap_or_else(share).min(usable.map_or(u64::MAX, |all| all / 2));
    let (mut turns, mut taken, mut first) = (0, 0, None);
    for message in s.messages.iter().rev().filter(|message| message.start() <= sent) {
        taken += estimate(message);
        if taken > room || wanted.turns == Some(turns) {
            break;
        }
        if message.start() <= oldest {
            break;
        }
        match message {
            Message::Summary { .. } => break,
            // it belongs to the reply before it
            Message::Note { .. } => {}
            Message::Assistant(reply) => first = Some(reply.asked),
            Message::User(prompt) => {
                turns += 1;
                first = Some(prompt.seq);
            }
        }
    }
    first
}

/// The tokens that a message takes up, at four bytes a token.
fn estimate(message: &Message) -> u64 {
    let of_part = |part: &PromptPart| match part.kind {
        PromptKind::Media => MEDIA,
        PromptKind::Text | PromptKind::Task | PromptKind::Command => part.text.len(),
    };
    let of_call = |call: &Call| {
        let output = match &call.phase {
            Phase::Done(_) if call.pruned => 0,
            Phase::Done(outcome) => outcome.output.len() + outcome.attachments.len() * MEDIA,
            Phase::Called
            | Phase::Checking(_)
            | Phase::Resolved
            | Phase::MustAsk { .. }
            | Phase::Asking { .. }
            | Phase::Allowed
            | Phase::Running { .. }
            | Phase::TimedOut { .. }
            | Phase::Unknown { .. } => 0,
        };
        call.input.as_str().len() + output
    };
    let of_reply = |part: &ReplyPart| match part {
        ReplyPart::Text { text, .. } | ReplyPart::Reasoning { text, .. } => text.len(),
        ReplyPart::Call(call) => of_call(call),
    };
    let bytes: usize = match message {
        Message::User(prompt) => prompt.filled().iter().map(of_part).sum(),
        Message::Assistant(reply) => reply.parts.iter().map(of_reply).sum(),
        Message::Summary { text, .. } | Message::Note { text, .. } => text.len(),
    };
    bytes as u64 / 4
}

/// Requests the summary, again if a retry can help. Otherwise the turn continues without it.
pub(super) fn summary(s: &State, turn: &Turn, c: &Compacting) -> Envelope {
    match &c.writing {
        Writing::Failed(failure) if failure.class == FailureClass::Overflow => {
            if c.overflows == 1 {
                return ask_summary(s, turn, c);
            }
            give_up(s, turn, c, &retry::error(s, failure, c.attempt))
        }
        Writing::Failed(failure) if retry::is_worth(s, failure, c.attempt) => {
            retry_scheduled(s, c.attempt, failure.retry_after, &failure.message)
        }
        Writing::Failed(failure) => give_up(s, turn, c, &retry::error(s, failure, c.attempt)),
        Writing::CutOff(_) if c.cut == 1 => ask_summary(s, turn, c),
        Writing::CutOff(finish) => {
            give_up(s, turn, c, &retry::with_attempts(cut_off(*finish), c.attempt))
        }
        Writing::Due | Writing::Waiting(_) | Writing::Written | Writing::Backoff(_) => {
            ask_summary(s, turn, c)
        }
    }
}

fn ask_summary(s: &State, turn: &Turn, c: &Compacting) -> Envelope {
    if let Some(asked) = plugins::summary(s, c) {
        return asked;
    }
    let request = request_builder::summary_request(s, c);
    let asked = (request.model.clone(), request.sha256());
    ask_with(s, asked, (turn.step, c.attempt + 1), Purpose::Compaction)
}

/// Why a summary is incomplete.
fn cut_off(finish: Finish) -> &'static str {
    match finish {
        Finish::Length => "the output limit has cut it off",
        Finish::ContentFilter => "the provider's content filter has cut it off",
        Finish::Error => "the provider broke it off",
        Finish::Other | Finish::Stop | Finish::ToolCalls | Finish::Pause => {
            "the provider ended it for an unknown reason"
        }
    }
}

fn give_up(s: &State, turn: &Turn, c: &Compacting, message: &str) -> Envelope {
    if !c.is_vital(turn) {
        return decide(s, turn, &c.then);
    }
    let message = format!("the summary failed: {message}");
    end(s, turn, EndReason::Error, Some(message))
}

/// Clears old tool output at the end of a turn, if enough tokens are saved.
pub(super) fn prune(s: &State) -> Option<Envelope> {
    let calls = prunable(s);
    let any = s.config.options.prune && !calls.is_empty();
    any.then(|| intent(s, None, None, Compaction::Pruned { calls }))
}

/// The calls whose output is cleared, in call order.
fn prunable(s: &State) -> Vec<Seq> {
    let (mut turns, mut kept, mut cleared, mut calls) = (0, 0, 0, Vec::new());
    for message in s.messages.iter().rev() {
        let reply = match message {
            Message::Summary { .. } => break,
            Message::User(_) => {
                turns += 1;
                continue;
            }
            Message::Note { .. } => continue,
            Message::Assistant(_) if turns < KEPT_TURNS => continue,
            Message::Assistant(reply) => reply,
        };
        let mut old: Vec<&Call> = reply.calls().filter(|call| is_output(call)).collect();
        old.reverse();
        for call in old {
            if call.pruned {
                return worth(cleared, calls);
            }
            let size = tokens(call);
            kept += size;
            if kept > KEPT {
                cleared += size;
                calls.push(call.seq);
            }
        }
    }
    worth(cleared, calls)
}

fn worth(cleared: usize, mut calls: Vec<Seq>) -> Vec<Seq> {
    if cleared <= WORTH {
        calls.clear();
    }
    calls.reverse();
    calls
}

/// Whether the call's output is sent to the model and may be cleared.
fn is_output(call: &Call) -> bool {
    call.is_done() && call.within.is_none() && *call.kind() != CallKind::Lasting
}

/// An estimate of four characters per token.
fn tokens(call: &Call) -> usize {
    if let Phase::Done(outcome) = &call.phase { outcome.output.chars().count() / 4 } else { 0 }
}
