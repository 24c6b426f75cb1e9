//! `leftfold explain`: explains one event. For a model request it rebuilds the request from the
//! log, names the events that each piece comes from, and lists the events left out. For any other
//! event it names the events, rule and reason that it follows from. It names the files and lines that
//! the system prompt and the rules come from.

mod wire;

use std::process::ExitCode;

use anyhow::bail;
use leftfold_events::event::{Event, Model};
use leftfold_events::request_builder;
use leftfold_events::{Envelope, Seq, Sha256, fold};
use leftfold_view::event_line;
use leftfold_view::explain::{EventReport, Links, Omissions, RequestReport, decided_on};

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
        let before = fold(&events[..last]);
        let links = Links::new(events);
        let report = EventReport::new(&links, &before, last);
        let report = match args.format {
            Format::Json => format!("{}\n", report.json()),
            Format::Text => report.text(),
        };
        return pages::page(&args.page, args.format, &report, pages::grouped_line);
    };
    let decided =
        (decided_on(&events, last), leftfold_view::reason(&fold(&events[..last]), &events[last]));
    if let Some((imported, from)) = leftfold_events::verify::imported(&events)
        && args.seq <= imported
    {
        leftfold_runtime::note(&format!(
            "leftfold: {from} sent a prompt and tools of its own; this is the request that Leftfold would have \
             sent"
        ));
    }
    let (all, events) = (&events, &events[..=last]);
    let state = fold(events);
    let built = request_builder::asked(&state, purpose);
    if args.wire {
        let model = request_builder::model_of(&state, purpose);
        return wire::wire(args, &place, all, &built, (&state.config, model));
    }
    let bytes = serde_json::to_string(&built.request)?;
    let rebuilt = built.request.sha256();
    if args.request {
        // The bytes must match the hash in the log, so they are not masked.
        super::print_exact(&bytes)?;
    } else {
        let report = RequestReport {
            built: &built,
            config: &state.config,
            bytes: bytes.len(),
            recorded,
            rebuilt,
            decided,
            left_out: Omissions::from_events(events).from(&state),
        };
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
