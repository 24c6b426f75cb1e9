//! Rebuilds the body of a request as it went over the wire, and checks it against the hash in the log.
//! It uses no address, no key and no settings.

use std::process::ExitCode;

use anyhow::bail;
use leftfold_events::event::{Event, Model, Session, Turn};
use leftfold_events::request::RequestMessage;
use leftfold_events::request_builder::Built;
use leftfold_events::turn_config::ModelSpec;
use leftfold_events::{Envelope, Seq, Sha256, TurnConfig};
use leftfold_providers::{Codec, RequestPlace, Span};
use serde_json::{Value, json};
use similar::TextDiff;

use crate::cli::{Explain, Format};
use leftfold_runtime::Usage;
use leftfold_runtime::session_paths::SessionPlace;
use leftfold_view::configuration;

/// Lines around each difference of two bodies.
const CONTEXT: usize = 3;

/// Prints the body of the request of event `args.seq`.
pub(super) fn wire(
    args: &Explain,
    place: &SessionPlace,
    events: &[Envelope],
    built: &Built,
    (config, model): (&TurnConfig, &ModelSpec),
) -> anyhow::Result<ExitCode> {
    let request = &built.request;
    let codec = codec(model, &model.vendor)?;
    let body = codec.body(request);
    if let Some(vendor) = &args.other {
        let other = self::codec(model, vendor)?;
        let encoded = other.body(request);
        match args.format {
            Format::Json => super::super::print_json(&report(&other, built, &encoded, None, &[]))?,
            Format::Text => super::super::print(&difference(codec, &body, other, &encoded)?)?,
        };
        return Ok(ExitCode::SUCCESS);
    }
    let sent = sent(events, args.seq);
    match args.format {
        Format::Json => {
            let pieces = pieces(codec, built, events, args.seq, config);
            super::super::print_json(&report(&codec, built, &body, sent, &pieces))?
        }
        // the bytes must match the hash in the log, so they are not masked
        Format::Text => super::super::print_exact(&String::from_utf8(body.clone())?)?,
    };
    let rebuilt = Sha256::digest(&body);
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

fn report(
    codec: &Codec,
    built: &Built,
    body: &[u8],
    sent: Option<Sha256>,
    pieces: &[Value],
) -> String {
    let value: Value = serde_json::from_slice(body).unwrap_or_default();
    let report = json!({
        "method": "POST",
        "path": codec.path(&built.request.model.id),
        "wire": codec.wire(),
        "vendor": codec.vendor(),
        "bytes": body.len(),
        "body_sha256": { "recorded": sent, "rebuilt": Sha256::digest(body) },
        "pieces": pieces,
        "body": value,
    });
    format!("{report}\n")
}

/// Each piece of the body: its bytes from and to, the piece of the request, and the events that it comes from.
fn pieces(
    codec: Codec,
    built: &Built,
    events: &[Envelope],
    seq: Seq,
    config: &TurnConfig,
) -> Vec<Value> {
    let request = &built.request;
    let named = &config.options.sources;
    // the files, settings, servers and plugins behind a piece of the configuration
    let sources = |place: RequestPlace| match place {
        RequestPlace::System(block) => {
            let text = request.system.get(block);
            let at = config.system.iter().position(|other| Some(other) == text);
            at.map_or(Value::Null, |at| configuration::block_json(config, at))
        }
        RequestPlace::Tools if !named.tools.is_empty() => json!(named.tools),
        RequestPlace::Options => {
            let of_request = named.options.iter().filter_map(|(name, source)| {
                Some((name.strip_prefix("request.")?.to_owned(), json!(source)))
            });
            Value::Object(of_request.collect())
        }
        RequestPlace::Model if config.model.name() == request.model => json!(named.model),
        _ => Value::Null,
    };
    let configured = |event: &&Envelope| matches!(event.event, Event::Turn(Turn::Configured(_)));
    let before = events.iter().take_while(|event| event.seq <= seq);
    let configured = before.filter(configured).last().map(|event| event.seq);
    let from = |place: RequestPlace| -> Vec<Seq> {
        match place {
            RequestPlace::Message(message, part) => {
                let sources = built.sources.get(message).map(Vec::as_slice).unwrap_or_default();
                match built.request.messages.get(message) {
                    // one event for each result
                    Some(RequestMessage::Tool { .. }) => {
                        sources.get(part).copied().into_iter().collect()
                    }
                    Some(RequestMessage::User { .. } | RequestMessage::Assistant { .. }) | None => {
                        sources.to_vec()
                    }
                }
            }
            RequestPlace::System(_)
            | RequestPlace::Tools
            | RequestPlace::Model
            | RequestPlace::Options
            | RequestPlace::MaxOutput => configured.into_iter().collect(),
            RequestPlace::CacheKey | RequestPlace::Format | RequestPlace::Unknown => Vec::new(),
        }
    };
    let piece = |span: Span| {
        let Span { at, place } = span;
        let mut piece =
            json!({ "at": [at.start, at.end], "what": place.to_string(), "from": from(place) });
        let sources = sources(place);
        if !sources.is_null() {
            piece["sources"] = sources;
        }
        piece
    };
    codec.spans(&built.request).into_iter().map(piece).collect()
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
        _ => None,
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
