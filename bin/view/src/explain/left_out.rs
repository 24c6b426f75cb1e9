use std::collections::HashMap;

use leftfold_events::event::{Compaction, Event, Files, Model, Tool, Turn};
use leftfold_events::request_builder;
use leftfold_events::state::{Call, Message};
use leftfold_events::{Envelope, Seq, State};
use serde::Serialize;

use crate::words::{counted, heading, quoted};

/// The most summarised prompts that are named.
const PROMPTS: usize = 20;

/// A part of the session that a request does not contain.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LeftOut {
    pub seq: Seq,
    pub what: String,
}

/// Collects from the events of a log which of them later requests leave out: a state no longer knows what was
/// summarised or reverted.
#[derive(Debug, Default)]
pub struct Omissions {
    /// The prompts that no revert has removed, and their texts.
    prompts: Vec<(Seq, String)>,
    /// The last event that a summary is being made of.
    summarising: Seq,
    /// The last event that the newest summary stands for, and the summary.
    summary: Option<(Seq, Seq)>,
    /// The `files.revert_asked` or `files.unrevert_asked` being carried out, and its author.
    asked: Option<(Seq, String)>,
    /// The first message that the restore in progress removes.
    restoring: Option<Seq>,
    revert: Option<Reverted>,
    /// Reverts that a prompt has made final.
    reverted: Vec<Reverted>,
    /// The `compaction.pruned` of each pruned call.
    pruned: HashMap<Seq, Seq>,
    /// The calls of starts that have no result yet.
    started: HashMap<Seq, Seq>,
    /// The results that were too long, by call: seq and bytes of the whole.
    cut: HashMap<Seq, (Seq, u64)>,
    /// The texts that open requests have streamed before their first call.
    streaming: HashMap<Seq, Streamed>,
    /// The texts of requests that failed before their first call.
    discarded: Vec<Streamed>,
}

/// The text of a reply so far.
#[derive(Clone, Debug)]
struct Streamed {
    request: Seq,
    from: Seq,
    to: Seq,
    text: String,
}

#[derive(Clone, Debug)]
struct Reverted {
    from: Seq,
    to: Seq,
    asked: Seq,
    by: String,
}

impl Streamed {
    fn left_out(&self) -> LeftOut {
        let Self { request, from, to, text } = self;
        let through = if to > from { format!(" (up to {to})") } else { String::new() };
        let what = format!("{}{through}, which failed request {request} streamed", quoted(text));
        LeftOut { seq: *from, what }
    }
}

impl Omissions {
    pub fn from_events<'a>(events: impl IntoIterator<Item = &'a Envelope>) -> Self {
        let mut omissions = Self::default();
        events.into_iter().for_each(|event| omissions.push(event));
        omissions
    }

    /// Takes the next event of the log.
    pub fn push(&mut self, event: &Envelope) {
        match &event.event {
            Event::Turn(Turn::Prompted { parts, .. }) => {
                if let Some(revert) = self.revert.take() {
                    self.prompts.retain(|(seq, _)| *seq < revert.from);
                    self.reverted.push(Reverted { to: event.seq - 1, ..revert });
                }
                let texts: Vec<&str> = parts.iter().map(|part| part.text.as_str()).collect();
                self.prompts.push((event.seq, quoted(&texts.join(" "))));
            }
            Event::Compaction(Compaction::Started { through, .. }) => self.summarising = *through,
            Event::Compaction(Compaction::Finished { .. }) => {
                self.summary = Some((self.summarising, event.seq));
                self.reverted.retain(|reverted| reverted.from > self.summarising);
                self.discarded.retain(|discarded| discarded.from > self.summarising);
            }
            Event::Compaction(Compaction::Pruned { calls }) => {
                self.pruned.extend(calls.iter().map(|call| (*call, event.seq)));
            }
            Event::Files(files) => self.push_files(event.seq, files),
            Event::Tool(Tool::Started { .. } | Tool::StartedSandboxed(_)) => {
                self.started.extend(event.of.map(|call| (event.seq, call)));
            }
            Event::Model(model) => self.push_model(event, model),
            Event::Tool(Tool::Called { .. }) => {
                // from its first call on, a reply counts even if its request fails
                event.of.map(|request| self.streaming.remove(&request));
            }
            Event::Tool(Tool::Finished(finished)) => {
                let call = event.of.and_then(|start| self.started.remove(&start));
                if let (Some(call), Some(spill)) = (call, &finished.spill) {
                    self.cut.insert(call, (event.seq, spill.bytes));
                }
            }
            _ => {}
        }
    }

    fn push_model(&mut self, event: &Envelope, model: &Model) {
        let Some(request) = event.of else { return };
        match model {
            Model::Streamed { parts } => {
                let (from, to) = (event.seq, event.seq);
                let new = || Streamed { request, from, to, text: String::new() };
                let streamed = self.streaming.entry(request).or_insert_with(new);
                streamed.to = to;
                streamed.text.extend(parts.iter().map(|part| part.text.as_str()));
            }
            Model::Finished { .. } => drop(self.streaming.remove(&request)),
            Model::Failed { .. } => self.discarded.extend(self.streaming.remove(&request)),
            _ => {}
        }
    }

    fn push_files(&mut self, seq: Seq, event: &Files) {
        match event {
            Files::RevertAsked { by, .. } | Files::UnrevertAsked { by } => {
                self.asked = Some((seq, by.clone()));
            }
            Files::RestoreStarted { to, .. } => self.restoring = *to,
            Files::Restored { .. } => {
                let asked = self.asked.take();
                self.revert = self
                    .restoring
                    .take()
                    .zip(asked)
                    .map(|(from, (asked, by))| Reverted { from, to: seq, asked, by });
            }
            Files::RestoreFailed { .. } | Files::RestoreFailedAs { .. } => self.restoring = None,
            _ => {}
        }
    }

    /// The events that the next request of `state` leaves out, in order; `state` is the fold of the pushed events.
    pub fn from(&self, state: &State) -> Vec<LeftOut> {
        let mut all = self.shortened(state);
        let known = |seq: Seq| all.iter().any(|left_out| left_out.seq == seq);
        let discarded = self.discarded.iter().filter(|streamed| !known(streamed.request));
        let discarded: Vec<LeftOut> = discarded.map(Streamed::left_out).collect();
        all.extend(discarded);
        all.extend(self.reverted.iter().map(|Reverted { from, to, asked, by }| LeftOut {
            seq: *from,
            what: format!("this and everything up to {to}, reverted by {asked} ({by})"),
        }));
        if let Some((through, summary)) = self.summary {
            let what = format!("this and everything before it: summary {summary} is sent instead");
            all.push(LeftOut { seq: through, what });
            let of_prompts = self.prompts.iter().filter(|(seq, _)| *seq <= through);
            all.extend(of_prompts.rev().take(PROMPTS).map(|(seq, text)| LeftOut {
                seq: *seq,
                what: format!("the prompt {text}: only what summary {summary} says of it is sent"),
            }));
        }
        all.sort_by_key(|left_out| left_out.seq);
        all
    }

    /// The parts of the conversation that are not sent in full.
    fn shortened(&self, state: &State) -> Vec<LeftOut> {
        let calls =
            state.messages.iter().filter_map(Message::reply).flat_map(|reply| reply.calls());
        let calls: HashMap<Seq, &Call> = calls.map(|call| (call.seq, call)).collect();
        let named = |call: &Call| heading(&call.name, &call.input.value());
        let known = request_builder::left_out(state).into_iter().map(|(seq, what)| {
            let pruned = calls.get(&seq).zip(self.pruned.get(&seq));
            let what = match pruned {
                Some((call, pruned)) => {
                    let output = format!("the output of {}", named(call));
                    format!("{output}, pruned by {pruned} (setting `compaction.prune`)")
                }
                None => what.to_owned(),
            };
            LeftOut { seq, what }
        });
        let cut = calls.values().filter(|call| !call.pruned).filter_map(|call| {
            let (result, bytes) = self.cut.get(&call.seq)?;
            let whole = counted(bytes, "byte");
            let what = format!("part of the output of {}: {whole} were too many", named(call));
            Some(LeftOut { seq: *result, what: format!("{what} (setting `tool_output`)") })
        });
        known.chain(cut).collect()
    }
}
