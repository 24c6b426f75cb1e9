//! Decides how a turn goes on after a reply, by the way in which the provider ended it. A reply that was cut off
//! never counts as complete.

use super::{end, intent, retry_scheduled, step};
use crate::event::{EndReason, Envelope, Finish, Turn as TurnEvent};
use crate::state::{Message, State, Turn, words};
use crate::turn_config::StructuredOutput;

/// The policy since which this holds. Earlier ones took every reply without calls for complete.
const SINCE: u16 = 5;

/// How often in a row a turn goes on by itself after a reply that the output limit has cut off: without calls, and
/// with calls.
const AFTER_TEXT: u32 = 1;
const AFTER_CALLS: u32 = 3;
/// How often in a row after a reply without calls that ended for an unknown reason.
const AFTER_UNKNOWN: u32 = 2;

/// The policy since which a turn does not end with reasoning alone.
const ASKS_FOR_ANSWER: u16 = 7;

/// How often in a row after a complete reply that is reasoning alone.
const AFTER_REASONING: u32 = 1;

/// How often in a row a reply that announces calls and has none is requested again.
const AFTER_NO_CALLS: u32 = 1;

/// The decision after a reply to which no prompt has been added.
pub(super) fn after(s: &State, turn: &Turn, finish: Finish) -> Envelope {
    let has_calls = s.calls().next().is_some();
    if s.policy < SINCE || s.config.options.any_finish {
        return if has_calls { step(s, turn) } else { formerly(s, turn, finish) };
    }
    if let Some(output) = &s.config.options.output
        && let Some(decided) = structured(s, turn, output, finish)
    {
        return decided;
    }
    let error = |text: &str| end(s, turn, EndReason::Error, Some(text.to_owned()));
    let incomplete = |text: &str| end(s, turn, EndReason::Incomplete, Some(text.to_owned()));
    match finish {
        Finish::Length if has_calls => match turn.cut_calls < AFTER_CALLS && !is_last_step(s, turn)
        {
            true => continued(s, finish, words::CUT_CALLS),
            false if is_last_step(s, turn) => step(s, turn),
            false => incomplete("the output limit has cut off every reply, within its calls"),
        },
        _ if has_calls => step(s, turn),
        Finish::Stop if s.policy < ASKS_FOR_ANSWER || !is_reasoning_alone(s, turn) => {
            end(s, turn, EndReason::Completed, None)
        }
        Finish::Stop if goes_on(s, turn, AFTER_REASONING) => {
            continued(s, finish, words::EMPTY_REPLY)
        }
        Finish::Stop => error(NO_ANSWER),
        Finish::Length if !ends_in_text(s, turn) => {
            incomplete("the model reached the output limit before it had written an answer")
        }
        Finish::Length if goes_on(s, turn, AFTER_TEXT) => continued(s, finish, words::CUT_TEXT),
        Finish::Length => incomplete("the output limit has cut off the answer"),
        Finish::Other if goes_on(s, turn, AFTER_UNKNOWN) => {
            let is_cut = ends_in_text(s, turn);
            continued(s, finish, if is_cut { words::UNKNOWN_END } else { words::EMPTY_REPLY })
        }
        Finish::Other => incomplete("the provider ended the answer for an unknown reason"),
        Finish::ToolCalls if turn.uncalled < AFTER_NO_CALLS => {
            retry_scheduled(s, turn.attempt, None, NO_CALLS)
        }
        Finish::ToolCalls => error(&format!("{NO_CALLS} (after {} attempts)", turn.uncalled + 1)),
        Finish::ContentFilter if s.answer().is_empty() => error(WITHHELD),
        Finish::ContentFilter => incomplete("the provider's content filter has cut off the answer"),
        Finish::Error => error(BROKEN_OFF),
        Finish::Pause => error(PAUSED),
    }
}

/// The decision of a turn that asks for a structured answer, after a reply that has one or should have had one.
fn structured(
    s: &State,
    turn: &Turn,
    output: &StructuredOutput,
    finish: Finish,
) -> Option<Envelope> {
    if s.structured_output().is_some() {
        return Some(end(s, turn, EndReason::Completed, None));
    }
    let refused = s.refused_output();
    let is_text = finish == Finish::Stop && s.calls().next().is_none();
    if refused.is_none() && !is_text {
        return None;
    }
    if turn.output_failures < output.retries && !is_last_step(s, turn) {
        return is_text.then(|| continued(s, finish, words::NO_STRUCTURED_OUTPUT));
    }
    let tries = turn.output_failures + 1;
    let error = words::invalid_output(refused, tries);
    Some(end(s, turn, EndReason::InvalidOutput, Some(error)))
}

const NO_CALLS: &str = "the provider announced tool calls and sent none";
const NO_ANSWER: &str = "the model has given no answer: twice its reply was reasoning alone";
const WITHHELD: &str = "the provider withheld the answer (content filter or refusal)";
const BROKEN_OFF: &str = "the provider broke off its answer with an error";
const PAUSED: &str = "the provider paused in work of its own, of which it has none here";

/// The end of a turn before policy [`SINCE`].
fn formerly(s: &State, turn: &Turn, finish: Finish) -> Envelope {
    let error = match finish {
        Finish::ContentFilter if s.answer().is_empty() => Some(WITHHELD),
        Finish::Error => Some(BROKEN_OFF),
        Finish::Pause => Some(PAUSED),
        Finish::Stop
        | Finish::Length
        | Finish::ToolCalls
        | Finish::ContentFilter
        | Finish::Other => None,
    };
    let reason = if error.is_some() { EndReason::Error } else { EndReason::Completed };
    end(s, turn, reason, error.map(str::to_owned))
}

fn goes_on(s: &State, turn: &Turn, most: u32) -> bool {
    turn.continued < most && !is_last_step(s, turn)
}

fn is_last_step(s: &State, turn: &Turn) -> bool {
    turn.step >= s.config.options.max_steps
}

fn is_reasoning_alone(s: &State, turn: &Turn) -> bool {
    let last = s.messages.iter().next_back().and_then(Message::reply);
    last.is_some_and(|reply| reply.asked == turn.asked && reply.is_reasoning_alone())
}

/// Whether the conversation ends in the text of the reply, so that the model can continue it.
fn ends_in_text(s: &State, turn: &Turn) -> bool {
    let last = s.messages.iter().next_back().and_then(Message::reply);
    last.is_some_and(|reply| reply.asked == turn.asked && !reply.text().trim().is_empty())
}

fn continued(s: &State, finish: Finish, note: &str) -> Envelope {
    intent(s, None, None, TurnEvent::Continued { finish, note: note.to_owned() })
}
