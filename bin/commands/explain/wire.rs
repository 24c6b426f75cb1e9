//! Rebuilds the body of a request as it went over the wire, and checks it against the hash in the log.
//! It uses no address, no key and no settings.

use std::process::ExitCode;

use anyhow::bail;
use leftfold_events::event::{Event, Model, Session};
use leftfold_events::turn_config::ModelSpec;
use leftfold_events::{Envelope, Request, Seq, Sha256};
use leftfold_providers::Codec;
use serde_json::{Value, json};
use similar::TextDiff;

use crate::cli::{Explain, Format};
use leftfold_runtime::Usage;
use leftfold_runtime::session_paths::SessionPlace;

/// Lines around each difference of two bodies.
const CONTEXT: usize = 3;

/// Prints the body of `request`, which is the one of event `args.seq`.
pub(super) fn wire(
    args: &Explain,
    place: &SessionPlace,
    events: &[Envelope],
    request: &Request,
    model: &ModelSpec,
) -> anyhow::Result<ExitCode> {
    let codec = codec(model, &model.vendor)?;
    let body = codec.body(request);
    if let Some(vendor) = &args.other {
        let other = self::codec(model, vendor)?;
        let encoded = other.body(request);
        match args.format {
            Format::Json => super::super::print_json(&report(&other, request, &encoded, None))?,
            Format::Text => super::super::print(&difference(codec, &body, other, &encoded)?)?,
        };
        return Ok(ExitCode::SUCCESS);
    }
    let sent = sent(events, args.seq);
    match args.format {
        Format::Json => super::super::print_json(&report(&codec, request, &body, sent))?,
        // the bytes must match the hash in the log, so they are not masked
        Format::Text => super::super::print_exact(&String::from_utf8(body.clone())?)?,
    };
    let rebuilt = Sha256::of(&body);
    let Some(sent) = sent else {
        leftfold_runtime::note(
            "leftfold: the log has no hash of this body, because no answer to it is logged or an earlier \
             version wrote it: the body was not checked",
        );
        return Ok(ExitCode::SUCCESS);
    };
    if sent == rebuilt {
        return Ok(ExitCode::SUCCESS);
    }
    bail!(
        "this version ({}) makes another body than the one that was sent by version {} (hash {rebuilt}, the log \
         has {sent}): `leftfold rerun --wire {}` shows the first difference that the log can tell",
        env!("CARGO_PKG_VERSION"),
        version(events, args.seq).unwrap_or("unknown"),
        place.session
    )
}

/// The codec for the model's wire format, with this vendor.
fn codec(model: &ModelSpec, vendor: &str) -> anyhow::Result<Codec> {
    let name = model.name();
    if model.wire.is_empty() {
        bail!(Usage(format!(
            "the log does not name the wire format of {name}: an earlier version, or another agent, wrote it"
        )));
    }
    match Codec::find(&model.wire, vendor) {
        Ok(Some(codec)) => Ok(codec),
        Ok(None) => bail!(Usage(format!("{name} was played from a script: there is no body"))),
        Err(error) => bail!(Usage(error.to_string())),
    }
}

fn report(codec: &Codec, request: &Request, body: &[u8], sent: Option<Sha256>) -> String {
    let value: Value = serde_json::from_slice(body).unwrap_or_default();
    let report = json!({
        "method": "POST",
        "path": codec.path(&request.model.id),
        "wire": codec.wire(),
        "vendor": codec.vendor(),
        "bytes": body.len(),
        "body_sha256": { "recorded": sent, "rebuilt": Sha256::of(body) },
        "body": value,
    });
    format!("{report}\n")
}

/// The difference between the bodies for two vendors, line by line of their indented JSON.
fn difference(codec: Codec, body: &[u8], other: Codec, encoded: &[u8]) -> anyhow::Result<String> {
    let indented = |body: &[u8]| -> anyhow::Result<String> {
        let value: Value = serde_json::from_slice(body)?;
        Ok(serde_json::to_string_pretty(&value)? + "\n")
    };
    let (old, new) = (indented(body)?, indented(encoded)?);
    if old == new {
        return Ok(format!("the body for {} is the same\n", other.vendor()));
    }
    let diff = TextDiff::from_lines(&old, &new);
    let text = diff
        .unified_diff()
        .context_radius(CONTEXT)
        .header(codec.vendor(), other.vendor())
        .to_string();
    Ok(text)
}

/// The hash of the body that was sent for the request `seq`, if the log has it. Imported logs have
/// zeros in its place.
fn sent(events: &[Envelope], seq: Seq) -> Option<Sha256> {
    let hash = |event: &Envelope| match &event.event {
        Event::Model(Model::Finished { body_sha256, .. }) => Some(*body_sha256),
        Event::Model(Model::Failed { .. }) => event.notes.exchange.as_ref()?.body_sha256,
        Event::Session(_)
        | Event::Turn(_)
        | Event::Model(_)
        | Event::Tool(_)
        | Event::Permission(_)
        | Event::Compaction(_)
        | Event::Subagent(_)
        | Event::Todo(_)
        | Event::Files(_)
        | Event::Hook(_) => None,
    };
    let outcome = events.iter().filter(|event| event.of == Some(seq)).find_map(hash);
    outcome.filter(|hash| *hash != Sha256::default())
}

/// The version that wrote the log up to `seq`, as far as the log tells.
fn version(events: &[Envelope], seq: Seq) -> Option<&str> {
    let mut version = None;
    for event in events.iter().take_while(|event| event.seq <= seq) {
        if let Event::Session(Session::Created { version: written, .. }) = &event.event {
            version = Some(written.as_str());
        } else if let Some(owner) = &event.notes.owner {
            version = Some(owner.version.as_str());
        }
    }
    version
}
