//! A provider that plays a script: for the tour without a key, and for tests of everything that
//! talks to a model.
//!
//! `providers/README.md` describes the format; the script's own types describe each field.
//!
//! **The choice of a reply is a pure function of the request**, so it is equal after a crash, in a
//! second process and in a retry. The first reply whose `match` fits is played. If none fits, the
//! reply without `match` is played whose index is the number of assistant messages in the request.
//! A title is written only by a reply whose `match` expects one; otherwise it stays empty. Only
//! `faults` are counted, in memory: each process plays them from the first.

mod play;
mod script;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures::StreamExt;
use futures::stream::{self, BoxStream};
use leftfold_events::Request;
use leftfold_events::event::{FailureClass, PromptKind, Purpose};
use leftfold_events::request::RequestMessage;

use crate::config::{Config, Error, Protocol, Transport, Wire};
use crate::errors::Failure;
use crate::stream::{Provider, StreamEvent};
use crate::vendors::{GENERIC, Model, Vendor};
use play::Step;
use script::{Condition, OnEnd, Reply, Script};
use tokio::time::Instant;

/// How much of the lateness of a timer the next waits make up for.
const LATEST: Duration = Duration::from_millis(5);

/// Not a real vendor: the name that is reported for scripted providers.
const SCRIPTED_VENDOR: Vendor = Vendor { names: &["scripted"], ..GENERIC };

#[derive(Debug)]
struct ScriptedWire;

impl Wire {
    /// Plays a script, without a wire.
    pub const SCRIPTED: Self = Self::new(&ScriptedWire);
}

impl Protocol for ScriptedWire {
    fn name(&self) -> &'static str {
        "scripted"
    }

    fn vendor(&self, _config: &Config) -> &'static Vendor {
        &SCRIPTED_VENDOR
    }

    fn models(&self, _vendor: &Vendor) -> &'static [Model] {
        &[]
    }

    fn transport(&self) -> Transport {
        Transport::Own(|config| Ok(Arc::new(Scripted::new(config)?)))
    }
}

#[derive(Debug)]
pub(crate) struct Scripted {
    name: String,
    stall: Duration,
    script: Script,
    /// For each reply, how many of its faults were played.
    faults: Vec<AtomicUsize>,
}

impl Scripted {
    pub(crate) fn new(config: Config) -> Result<Self, Error> {
        let source =
            config.script.ok_or_else(|| Error::MissingScript { provider: config.name.clone() })?;
        let script = Script::read(&source)?;
        let faults = script.replies.iter().map(|_| AtomicUsize::new(0)).collect();
        Ok(Self { name: config.name, stall: config.stall, script, faults })
    }

    /// The reply to `request` and its index in the script.
    fn choose(&self, request: &Request) -> Option<(usize, &Reply)> {
        let replies = || self.script.replies.iter().enumerate();
        let facts = RequestFacts::of(request);
        let titles = is_aside(request.purpose);
        let fits = |when: &Condition| (!titles || when.expects(request.purpose)) && facts.fit(when);
        let fitting = replies().find(|(_, reply)| reply.condition.as_ref().is_some_and(fits));
        let in_turn = || replies().filter(|(_, reply)| reply.condition.is_none() && !titles);
        fitting.or_else(|| in_turn().nth(facts.answers)).or_else(|| match self.script.on_end {
            OnEnd::Error => None,
            OnEnd::Repeat => in_turn().next_back(),
        })
    }

    fn steps(&self, request: &Request) -> Vec<Step> {
        let answers = answers(request);
        let chosen = self.choose(request);
        if chosen.is_none() && is_aside(request.purpose) {
            return play::steps(&Reply::default(), None, request, answers);
        }
        let Some((at, reply)) = chosen else {
            let message = format!(
                "the script has no reply to this request: none of its {} replies matches, and the conversation already has {answers} answers; add a reply, or `\"on_end\": \"repeat\"`",
                self.script.replies.len(),
            );
            return vec![Step::failure(Failure::fatal(FailureClass::Invalid, message))];
        };
        let fault = if reply.faults.is_empty() {
            None
        } else {
            reply.faults.get(self.faults[at].fetch_add(1, Ordering::Relaxed))
        };
        play::steps(reply, fault, request, answers)
    }
}

/// Whether nothing but a list shows the reply.
fn is_aside(purpose: Purpose) -> bool {
    matches!(purpose, Purpose::Title | Purpose::SessionSummary)
}

impl Provider for Scripted {
    fn name(&self) -> &str {
        &self.name
    }

    /// The request's canonical JSON.
    fn body(&self, request: &Request) -> Vec<u8> {
        // serialising a request to memory cannot fail
        serde_json::to_vec(request).unwrap_or_default()
    }

    fn stream(&self, request: Request) -> BoxStream<'static, StreamEvent> {
        let start = Step::Say(StreamEvent::Start { body_sha256: request.sha256() });
        let steps: Vec<Step> = std::iter::once(start).chain(self.steps(&request)).collect();
        let state = (Arc::<[Step]>::from(steps), 0, self.stall, Instant::now());
        stream::unfold(state, |(steps, mut at, stall, mut due)| async move {
            loop {
                let step = steps.get(at)?;
                at += 1;
                let event = match step {
                    Step::Wait(time) => {
                        // a thousand short waits take as long as one, although each timer is late
                        let earliest = Instant::now().checked_sub(LATEST).unwrap_or(due);
                        due = due.max(earliest) + *time;
                        tokio::time::sleep_until(due).await;
                        continue;
                    }
                    Step::Stall => {
                        tokio::time::sleep(stall).await;
                        StreamEvent::Failed(Failure::stalled(stall))
                    }
                    Step::Say(event) => event.clone(),
                };
                return Some((event, (steps, at, stall, due)));
            }
        })
        .boxed()
    }
}

/// The properties of a request that conditions test.
struct RequestFacts<'a> {
    request: &'a Request,
    answers: usize,
    prompt: String,
    result: &'a str,
}

impl<'a> RequestFacts<'a> {
    fn of(request: &'a Request) -> Self {
        let mut facts =
            Self { request, answers: answers(request), prompt: String::new(), result: "" };
        for message in &request.messages {
            match message {
                RequestMessage::User { parts } => {
                    let texts = parts.iter().filter(|part| part.kind == PromptKind::Text);
                    facts.prompt =
                        texts.map(|part| part.text.as_str()).collect::<Vec<_>>().join("\n");
                }
                RequestMessage::Tool { results } => {
                    facts.result = results.last().map_or("", |result| &result.output);
                }
                RequestMessage::Assistant { .. } => {}
            }
        }
        facts
    }

    fn fit(&self, when: &Condition) -> bool {
        let has =
            |part: &Option<String>, text: &str| part.as_ref().is_none_or(|p| text.contains(p));
        let tools = &self.request.tools;
        when.purpose.is_none_or(|purpose| purpose == self.request.purpose)
            && has(&when.prompt, &self.prompt)
            && has(&when.result, self.result)
            && when
                .system
                .as_ref()
                .is_none_or(|p| self.request.system.iter().any(|s| s.contains(p)))
            && when.tool.as_ref().is_none_or(|name| tools.iter().any(|tool| tool.name == *name))
            && when.tools.is_none_or(|any| any != tools.is_empty())
            && when.answers.is_none_or(|count| count == self.answers)
    }
}

fn answers(request: &Request) -> usize {
    let is_answer = |m: &&RequestMessage| matches!(m, RequestMessage::Assistant { .. });
    request.messages.iter().filter(is_answer).count()
}

#[cfg(test)]
mod tests;
