//! Turns a reply of a script into a sequence of steps.

use std::time::Duration;

use leftfold_events::event::{CallSpec, Finish, Usage};
use leftfold_events::{Json, Request};
use serde_json::Value;

use super::script::{Call, Reply, ScriptPart, ScriptedFault};
use crate::errors::Failure;
use crate::stream::StreamEvent;

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Step {
    Say(StreamEvent),
    Wait(Duration),
    Stall,
}

impl Step {
    pub(super) fn failure(failure: Failure) -> Self {
        Self::Say(StreamEvent::Failed(failure))
    }

    fn is_end(&self) -> bool {
        match self {
            Self::Say(event) => event.is_last(),
            Self::Wait(_) => false,
            Self::Stall => true,
        }
    }
}

/// The steps of `reply`, or of `fault` if it is played instead.
pub(super) fn steps(
    reply: &Reply,
    fault: Option<&ScriptedFault>,
    request: &Request,
    answers: usize,
) -> Vec<Step> {
    let mut player =
        Player { reply, answers, steps: Vec::new(), parts: 0, calls: 0, chars: [0; 2] };
    match fault {
        Some(fault) => player.fault(fault),
        None => reply.parts.iter().for_each(|part| player.part(part)),
    }
    if !player.steps.last().is_some_and(Step::is_end) {
        player.finish(request);
    }
    player.steps
}

struct Player<'a> {
    reply: &'a Reply,
    /// Number of assistant messages before this reply.
    answers: usize,
    steps: Vec<Step>,
    parts: usize,
    calls: usize,
    /// Characters of output and of reasoning.
    chars: [usize; 2],
}

impl Player<'_> {
    fn say(&mut self, event: StreamEvent) {
        self.steps.push(Step::Say(event));
    }

    fn part(&mut self, part: &ScriptPart) {
        if let Some(text) = &part.text {
            let id = self.next_id();
            self.say(StreamEvent::TextStart { id: id.clone() });
            self.chars[0] += text.chars().count();
            self.pieces(text, |text| StreamEvent::TextDelta { id: id.clone(), text });
            self.say(StreamEvent::TextEnd { id });
        } else if let Some(text) = &part.reasoning {
            self.reasoning(text, part.signature.clone(), false);
        } else if let Some(sealed) = &part.redacted {
            self.reasoning("", Some(sealed.clone()), true);
        } else if let Some(call) = &part.call {
            self.call(call);
        } else if let Some(millis) = part.delay_ms {
            self.steps.push(Step::Wait(Duration::from_millis(millis)));
        } else if let Some(fault) = &part.fault {
            self.fault(fault);
        } else {
            self.break_off(part.stall);
        }
    }

    fn next_id(&mut self) -> String {
        self.parts += 1;
        (self.parts - 1).to_string()
    }

    fn reasoning(&mut self, text: &str, signature: Option<String>, redacted: bool) {
        let id = self.next_id();
        self.say(StreamEvent::ReasoningStart { id: id.clone() });
        self.chars[1] += text.chars().count();
        self.pieces(text, |text| StreamEvent::ReasoningDelta { id: id.clone(), text });
        self.say(StreamEvent::ReasoningEnd { id, signature, redacted });
    }

    fn call(&mut self, call: &Call) {
        self.calls += 1;
        let id = call.id.clone();
        let id = id.unwrap_or_else(|| format!("call_{}_{}", self.answers + 1, self.calls));
        let raw = match &call.input {
            None => String::new(),
            Some(Value::String(text)) => text.clone(),
            Some(value) => value.to_string(),
        };
        let name = call.name.clone();
        self.chars[0] += name.len() + raw.chars().count();
        self.say(StreamEvent::ToolInputStart { id: id.clone(), name: name.clone() });
        self.pieces(&raw, |text| StreamEvent::ToolInputDelta { id: id.clone(), text });
        let input = if raw.trim().is_empty() {
            Json::object()
        } else {
            Json::parse(&raw).unwrap_or_else(|_| Json::from_value(&Value::from(raw)))
        };
        self.say(StreamEvent::ToolCall(CallSpec { id, name, input }));
    }

    fn pieces(&mut self, text: &str, event: impl Fn(String) -> StreamEvent) {
        let size = if self.reply.chunk == 0 { usize::MAX } else { self.reply.chunk };
        let mut rest = text;
        while !rest.is_empty() {
            let end = rest.char_indices().nth(size).map_or(rest.len(), |(at, _)| at);
            let (piece, after) = rest.split_at(end);
            if self.reply.delay_ms > 0 {
                self.steps.push(Step::Wait(Duration::from_millis(self.reply.delay_ms)));
            }
            self.say(event(piece.to_owned()));
            rest = after;
        }
    }

    fn fault(&mut self, fault: &ScriptedFault) {
        fault.parts.iter().for_each(|part| self.part(part));
        if self.steps.last().is_some_and(Step::is_end) {
            return;
        }
        if fault.cut || fault.stall {
            return self.break_off(fault.stall);
        }
        let message = fault.message.clone().unwrap_or_else(|| "a fault of the script".to_owned());
        let failure = Failure::new(fault.class, message);
        let retryable = fault.retryable.unwrap_or(failure.retryable);
        let (status, retry_after) = (fault.status, fault.retry_after);
        self.steps.push(Step::failure(Failure { status, retryable, retry_after, ..failure }));
    }

    fn break_off(&mut self, stall: bool) {
        self.steps.push(if stall { Step::Stall } else { Step::failure(Failure::cut_off()) });
    }

    fn finish(&mut self, request: &Request) {
        let usual = if self.calls > 0 { Finish::ToolCalls } else { Finish::Stop };
        let finish = self.reply.finish.unwrap_or(usual);
        let given = self.reply.usage;
        let input = || tokens(serde_json::to_string(request).map_or(0, |json| json.len()));
        let usage = Usage {
            input: given.input.unwrap_or_else(input),
            output: given.output.unwrap_or_else(|| tokens(self.chars[0])),
            reasoning: given.reasoning.unwrap_or_else(|| tokens(self.chars[1])),
            cache_read: given.cache_read.unwrap_or(0),
            cache_write: given.cache_write.unwrap_or(0),
        };
        self.say(StreamEvent::Finish { finish, usage });
    }
}

fn tokens(chars: usize) -> u64 {
    chars.div_ceil(4) as u64
}
