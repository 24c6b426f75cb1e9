//! `leftfold explain`: explains one event. For a model request it rebuilds the request from the
//! log, names the events that each piece comes from, and lists the events left out. For any other
//! event it names the events, rule and reason that it follows from. It names the files and lines that
//! the system prompt and the rules come from.

mod configuration;
mod event;
mod wire;

use std::fmt::Write;
use std::process::ExitCode;

use anyhow::bail;
use leftfold_events::context::{self, Built};
use leftfold_events::event::{Compaction, Event, Model, Purpose};
use leftfold_events::request::{AssistantPart, Request, RequestMessage};
use leftfold_events::{Envelope, Seq, Sha256, TurnConfig, fold};
use leftfold_view::clean::printable_line;
use leftfold_view::{event_line, words};
use serde_json::{Value, json};

pub(super) use self::configuration::{of_rule, shown};
use super::pages;
use crate::cli::{Explain, Format};
use leftfold_runtime::Usage;

pub(crate) fn explain(args: &Explain) -> anyhow::Result<ExitCode> {
    let (place, events) = super::events(&args.session)?;
    let Some(last) = events.iter().position(|event| event.seq == args.seq) else {
        bail!(Usage(elsewhere(&events, args.seq)))
    };
    let Some((purpose, recorded)) = requested(&events[last]) else {
        if args.request {
            bail!(Usage(elsewhere(&events, args.seq)));
        }
        let report = event::EventReport::new(&events, last);
        let report = match args.format {
            Format::Json => format!("{}\n", report.json()),
            Format::Text => report.text(),
        };
        return pages::page(&args.page, args.format, &report, pages::grouped_line);
    };
    let decided = (
        event::decided_on(&events, last),
        leftfold_view::reason(&fold(&events[..last]), &events[last]),
    );
    let (imported, from) = leftfold_events::verify::imported(&events);
    if args.seq <= imported {
        leftfold_runtime::note(&format!(
            "leftfold: {from} sent a prompt and tools of its own; this is the request that Leftfold would have \
             sent"
        ));
    }
    let (all, events) = (&events, &events[..=last]);
    let state = fold(events);
    let built = context::asked(&state, purpose);
    if args.wire {
        let model = context::model_of(&state, purpose);
        return wire::wire(args, &place, all, &built, (&state.config, model));
    }
    let bytes = serde_json::to_string(&built.request)?;
    let rebuilt = built.request.sha256();
    if args.request {
        // The bytes must match the hash in the log, so they are not masked.
        super::print_exact(&bytes)?;
    } else {
        let mut report = RequestReport {
            built: &built,
            config: &state.config,
            bytes: bytes.len(),
            recorded,
            rebuilt,
            decided,
            left_out: context::left_out(&state),
        };
        report.left_out.extend(summed_up(events));
        report.left_out.sort_by_key(|(seq, _)| *seq);
        let report = match args.format {
            Format::Json => format!("{}\n", report.json(args.seq)),
            Format::Text => report.text(place.session.to_string().as_str(), args.seq),
        };
        pages::page(&args.page, args.format, &report, pages::grouped_line)?;
    }
    if rebuilt == recorded {
        return Ok(ExitCode::SUCCESS);
    }
    bail!(
        "this version rebuilds another request than the one that was sent (hash {rebuilt}, the log has \
         {recorded}): `leftfold verify {}` shows the first difference",
        place.session
    )
}

fn requested(event: &Envelope) -> Option<(leftfold_events::event::Purpose, Sha256)> {
    let Event::Model(Model::Requested { purpose, request_sha256, .. }) = &event.event else {
        return None;
    };
    Some((*purpose, *request_sha256))
}

/// Why there is no request to show at `seq`, and which seqs have requests.
fn elsewhere(events: &[Envelope], seq: Seq) -> String {
    let what = match events.iter().find(|event| event.seq == seq) {
        Some(event) => {
            let detail = event_line::detail(&event.event);
            let kind = leftfold_events::line::type_of(&event.event);
            format!("event {seq} is {kind} {detail}").trim_end().to_owned()
        }
        None => {
            let last = events.last().map_or(0, |event| event.seq);
            format!("there is no event {seq}: the log has events 1 to {last}")
        }
    };
    let requests = events.iter().filter(|event| requested(event).is_some());
    let requests: Vec<String> = requests.map(|event| event.seq.to_string()).collect();
    format!("{what}; the session's requests (model.requested) are at: {}", requests.join(", "))
}

/// The events that summaries stand for.
fn summed_up(events: &[Envelope]) -> Vec<(Seq, &'static str)> {
    let mut out = Vec::new();
    let mut through = 0;
    for event in events {
        if let Event::Compaction(Compaction::Started { through: last, .. }) = &event.event {
            through = *last;
        } else if let Event::Compaction(Compaction::Finished { .. }) = &event.event {
            out.retain(|(_, what)| *what != SUMMED_UP);
            out.push((through, SUMMED_UP));
        }
    }
    out
}

const SUMMED_UP: &str = "everything up to this event, for which a summary stands";

struct RequestReport<'a> {
    built: &'a Built,
    /// The turn configuration in force.
    config: &'a TurnConfig,
    /// Length of the request's canonical JSON in bytes.
    bytes: usize,
    recorded: Sha256,
    rebuilt: Sha256,
    /// The fact on which the request was decided, and the reason.
    decided: (Option<Seq>, Option<String>),
    left_out: Vec<(Seq, &'static str)>,
}

impl RequestReport<'_> {
    fn json(&self, seq: Seq) -> Value {
        let Request { model, max_output, system, tools, purpose, .. } = &self.built.request;
        let messages = self.messages().map(|(role, content, of, bytes)| {
            json!({ "role": role, "from": of, "bytes": bytes, "text": content })
        });
        json!({
            "seq": seq,
            "purpose": purpose,
            "model": model,
            "bytes": self.bytes,
            "decided_on": self.decided.0,
            "reason": self.decided.1,
            "sha256": { "recorded": self.recorded, "rebuilt": self.rebuilt },
            "max_output": max_output,
            "system": system.iter().map(String::len).collect::<Vec<_>>(),
            "sources": system.iter().map(|block| self.sources(block)).collect::<Vec<_>>(),
            "tools": tools.iter().map(|tool| &tool.name).collect::<Vec<_>>(),
            "messages": messages.collect::<Vec<_>>(),
            "left_out": self.left_out.iter()
                .map(|(seq, what)| json!({ "seq": seq, "what": what })).collect::<Vec<_>>(),
        })
    }

    fn text(&self, session: &str, seq: Seq) -> String {
        let Request { model, system, tools, purpose, .. } = &self.built.request;
        let same = if self.rebuilt == self.recorded { "as logged" } else { "NOT as logged" };
        let purpose = json!(purpose);
        let mut text = format!(
            "request {seq} of {session}: {} to {model}, {} bytes, sha256 {} ({same})\n",
            purpose.as_str().unwrap_or_default(),
            self.bytes,
            self.rebuilt
        );
        if let (Some(fact), reason) = &self.decided {
            let reason = reason.as_ref().map(|why| format!(": {}", printable_line(why)));
            let reason = reason.unwrap_or_default();
            let _ = writeln!(text, "decided on event {fact}{reason}");
        }
        for (index, block) in system.iter().enumerate() {
            let _ = writeln!(text, "system {}: {} bytes, {}", index + 1, block.len(), first(block));
            match self.block(block) {
                Some(at) => text += &configuration::block(self.config, at),
                None if self.built.request.purpose == Purpose::Turn => {
                    text += "  changed by a plugin\n";
                }
                None => {}
            }
        }
        let names: Vec<&str> = tools.iter().map(|tool| tool.name.as_str()).collect();
        let _ = writeln!(text, "tools: {}", printable_line(&names.join(", ")));
        text += &configuration::of_tools(self.config);
        for (role, content, of, bytes) in self.messages() {
            let from = match of {
                [] => "written for this request".to_owned(),
                of => {
                    format!("from {}", of.iter().map(Seq::to_string).collect::<Vec<_>>().join(", "))
                }
            };
            let _ = writeln!(text, "{role}, {from}, {bytes} bytes: {}", first(&content));
        }
        match self.left_out.as_slice() {
            [] => text.push_str("left out: nothing\n"),
            left_out => {
                text.push_str("left out:\n");
                for (seq, what) in left_out {
                    let _ = writeln!(text, "  {seq}: {what}");
                }
            }
        }
        text
    }

    /// The block of the configuration's system prompt with this text. A plugin may have written another
    /// one.
    fn block(&self, text: &str) -> Option<usize> {
        self.config.system.iter().position(|block| block == text)
    }

    /// The sources of a block of the system prompt; null for a block that is not the configuration's.
    fn sources(&self, text: &str) -> Value {
        self.block(text).map_or(Value::Null, |at| configuration::block_json(self.config, at))
    }

    /// Role, text, sources and length of each message.
    fn messages(&self) -> impl Iterator<Item = (&'static str, String, &[Seq], usize)> {
        let messages = self.built.request.messages.iter();
        messages.zip(&self.built.sources).map(|(message, of)| {
            let bytes = serde_json::to_vec(message).map_or(0, |bytes| bytes.len());
            let (role, content) = role_and_text(message);
            (role, content, of.as_slice(), bytes)
        })
    }
}

fn first(text: &str) -> String {
    words::quoted(text.trim())
}

fn role_and_text(message: &RequestMessage) -> (&'static str, String) {
    match message {
        RequestMessage::User { parts } => {
            ("user", parts.iter().map(|part| part.text.as_str()).collect::<Vec<_>>().join("\n"))
        }
        RequestMessage::Assistant { parts } => {
            let part = |part: &AssistantPart| match part {
                AssistantPart::Text { text } => text.clone(),
                AssistantPart::Reasoning { .. } => "[reasoning]".to_owned(),
                AssistantPart::Call { name, input, .. } => {
                    format!("[{name} {}]", words::brief(&input.value()))
                }
            };
            ("assistant", parts.iter().map(part).collect::<Vec<_>>().join("\n"))
        }
        RequestMessage::Tool { results } => {
            let result = results.iter().map(|result| result.output.as_str());
            ("tool", result.collect::<Vec<_>>().join("\n"))
        }
    }
}
