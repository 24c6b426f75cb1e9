//! The format of scripts.

use std::fs;

use leftfold_events::event::{FailureClass, Finish, Purpose};
use serde::Deserialize;
use serde_json::Value;

use crate::config::{Error, ScriptSource};

/// A whole script.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Script {
    pub(super) replies: Vec<Reply>,
    #[serde(default)]
    pub(super) on_end: OnEnd,
}

/// The behaviour when no reply is left.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum OnEnd {
    /// Fail the request permanently.
    #[default]
    Error,
    /// Play the last reply without a condition again.
    Repeat,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Reply {
    /// Play this reply to requests that fit, at any point of the conversation.
    #[serde(rename = "match")]
    pub(super) condition: Option<Condition>,
    #[serde(default)]
    pub(super) parts: Vec<ScriptPart>,
    /// Failures that are played instead of the parts, one per attempt, before the parts are played.
    #[serde(default)]
    pub(super) faults: Vec<ScriptedFault>,
    /// `tool_calls` if there are calls, else `stop`.
    pub(super) finish: Option<Finish>,
    #[serde(default)]
    pub(super) usage: UsageSpec,
    /// Text is streamed in pieces of this many characters; whole if absent or 0.
    #[serde(default)]
    pub(super) chunk: usize,
    /// Milliseconds before each piece.
    #[serde(default)]
    pub(super) delay_ms: u64,
}

/// A condition. All given members must hold.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Condition {
    /// The purpose of the reply.
    pub(super) purpose: Option<Purpose>,
    /// The text of the last user message contains this.
    pub(super) prompt: Option<String>,
    /// The output of the last tool result contains this.
    pub(super) result: Option<String>,
    /// A block of the system prompt contains this.
    pub(super) system: Option<String>,
    /// A tool of this name is offered.
    pub(super) tool: Option<String>,
    /// Whether any tool is offered.
    pub(super) tools: Option<bool>,
    /// The number of assistant messages in the conversation.
    pub(super) answers: Option<usize>,
}

impl Condition {
    /// Whether the reply may be a title or a summary of the session. Neither is ever taken from a reply for the
    /// conversation.
    pub(super) fn expects(&self, purpose: Purpose) -> bool {
        self.purpose == Some(purpose) || purpose == Purpose::Title && self.tools == Some(false)
    }
}

/// Exactly one of text, reasoning, redacted, call, delay, fault, cut and stall.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ScriptPart {
    pub(super) text: Option<String>,
    pub(super) reasoning: Option<String>,
    /// Allowed only with reasoning.
    pub(super) signature: Option<String>,
    /// Sealed reasoning.
    pub(super) redacted: Option<String>,
    pub(super) call: Option<Call>,
    pub(super) delay_ms: Option<u64>,
    pub(super) fault: Option<ScriptedFault>,
    /// Whether the connection ends in the middle of the answer.
    #[serde(default)]
    pub(super) cut: bool,
    /// Whether the stream stops here until the stall limit ends it.
    #[serde(default)]
    pub(super) stall: bool,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Call {
    /// `call_A_N` if absent: call N of answer A, counted from 1.
    pub(super) id: Option<String>,
    pub(super) name: String,
    /// `{}` if absent. A string is the model's text: it is parsed as JSON, or kept as text if it is
    /// not JSON.
    pub(super) input: Option<Value>,
}

/// A failure of a request.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ScriptedFault {
    /// Streamed before the failure.
    #[serde(default)]
    pub(super) parts: Vec<ScriptPart>,
    #[serde(default = "other")]
    pub(super) class: FailureClass,
    pub(super) message: Option<String>,
    pub(super) status: Option<u16>,
    /// The default depends on the class.
    pub(super) retryable: Option<bool>,
    /// Milliseconds.
    pub(super) retry_after: Option<u64>,
    /// Instead of a class, as in a part.
    #[serde(default)]
    pub(super) cut: bool,
    #[serde(default)]
    pub(super) stall: bool,
}

fn other() -> FailureClass {
    FailureClass::Other
}

/// Tokens. Absent counts are estimated at four characters a token.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct UsageSpec {
    pub(super) input: Option<u64>,
    pub(super) output: Option<u64>,
    pub(super) reasoning: Option<u64>,
    pub(super) cache_read: Option<u64>,
    pub(super) cache_write: Option<u64>,
}

impl Script {
    pub(super) fn read(source: &ScriptSource) -> Result<Self, Error> {
        let (source_name, text) = match source {
            ScriptSource::Inline(text) => ("in the settings".to_owned(), text.clone()),
            ScriptSource::Path(path) => {
                let source_name = path.display().to_string();
                match fs::read_to_string(path) {
                    Ok(text) => (source_name, text),
                    Err(e) => {
                        let reason = e.to_string();
                        return Err(Error::UnreadableScript { source_name, reason });
                    }
                }
            }
        };
        let script = serde_json::from_str::<Self>(&text).map_err(|e| e.to_string());
        script
            .and_then(|script| script.check().map(|()| script))
            .map_err(|reason| Error::BadScript { source_name, reason })
    }

    fn check(&self) -> Result<(), String> {
        if self.replies.is_empty() {
            return Err("`replies` is empty: expected at least one reply".into());
        }
        for (at, reply) in self.replies.iter().enumerate() {
            check_parts(&reply.parts, &format!("replies[{at}].parts"))?;
            for (fault, n) in reply.faults.iter().zip(0..) {
                check_parts(&fault.parts, &format!("replies[{at}].faults[{n}].parts"))?;
            }
        }
        Ok(())
    }
}

fn check_parts(parts: &[ScriptPart], path: &str) -> Result<(), String> {
    for (at, part) in parts.iter().enumerate() {
        let given = part.given();
        if given.len() != 1 {
            let found = if given.is_empty() { "none".into() } else { given.join(" and ") };
            return Err(format!(
                "{path}[{at}]: expected exactly one of text, reasoning, redacted, call, delay_ms, fault, cut, stall; found {found}"
            ));
        }
        if part.signature.is_some() && part.reasoning.is_none() {
            return Err(format!("{path}[{at}]: `signature` is allowed with `reasoning` only"));
        }
        if let Some(fault) = &part.fault {
            check_parts(&fault.parts, &format!("{path}[{at}].fault.parts"))?;
        }
        if part.is_end() && at + 1 < parts.len() {
            return Err(format!("{path}[{at}]: {} ends the answer, nothing may follow", given[0]));
        }
    }
    Ok(())
}

impl ScriptPart {
    fn given(&self) -> Vec<&'static str> {
        [
            ("text", self.text.is_some()),
            ("reasoning", self.reasoning.is_some()),
            ("redacted", self.redacted.is_some()),
            ("call", self.call.is_some()),
            ("delay_ms", self.delay_ms.is_some()),
            ("fault", self.fault.is_some()),
            ("cut", self.cut),
            ("stall", self.stall),
        ]
        .into_iter()
        .filter_map(|(name, given)| given.then_some(name))
        .collect()
    }

    fn is_end(&self) -> bool {
        self.fault.is_some() || self.cut || self.stall
    }
}
