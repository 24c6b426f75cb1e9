//! The part of a rerun that goes down to the wire: it encodes each request again, decodes each recorded
//! answer again, and compares both with the log. It reads records and nothing else.

use std::collections::{HashMap, VecDeque};
use std::path::{Path, PathBuf};

use leftfold_events::event::{
    CallSpec, Event, Exchange, Model, PartKind, Purpose, Record, StreamedPart,
};
use leftfold_events::verify::{Divergence, difference};
use leftfold_events::{Envelope, Request, Seq, SessionId, Sha256, State, request_builder};
use leftfold_providers::{Codec, End, Exchanged, StreamEvent, read_record};
use serde_json::Value;

use super::Compared;
use super::recording::event;

/// How far a rerun came with bodies and answers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WireCounts {
    /// Requests that were encoded.
    pub bodies: usize,
    /// Bodies that have the hash in the log.
    pub equal: usize,
    /// Bodies without a hash in the log.
    pub unchecked: usize,
    /// Answers that were decoded again from their records.
    pub answers: usize,
    /// Requests without a record of their answer.
    pub unrecorded: usize,
    /// Requests whose wire format the log does not name, and those that were played from a script.
    pub without_wire: usize,
    /// Facts that were compared with decoded answers.
    pub facts: usize,
}

/// By request: its outcome, and the note about the record there.
pub(super) type Records = HashMap<Seq, (Seq, Record)>;

/// Takes the notes about records out of a log: the actors of a rerun write none.
pub(super) fn take_records(log: &mut [Envelope]) -> Records {
    let mut records = HashMap::new();
    for event in log.iter_mut().filter(|event| event.notes.exchange.is_some()) {
        let taken = event.notes.exchange.as_mut().and_then(|exchange| exchange.record.take());
        if event.notes.exchange == Some(Exchange::default()) {
            event.notes.exchange = None;
        }
        if let (Some(record), Some(of)) = (taken, event.of) {
            records.insert(of, (event.seq, record));
        }
    }
    records
}

pub(super) struct Wire {
    session: SessionId,
    /// The store with the records.
    store: PathBuf,
    records: Records,
    decoded: HashMap<Seq, Decoded>,
    pub(super) counts: WireCounts,
    /// The first record whose bytes are not those that were written.
    changed: Option<Divergence>,
}

/// A recorded answer, decoded.
#[derive(Default)]
struct Decoded {
    purpose: Purpose,
    calls: VecDeque<CallSpec>,
    /// The parts with everything that the reply has of them, in order.
    parts: Vec<StreamedPart>,
    /// The parts as far as the log has come.
    logged: Vec<StreamedPart>,
    /// The last event, if the answer has one.
    end: Option<StreamEvent>,
}

impl Wire {
    pub(super) fn new(session: SessionId, store: &Path, records: Records) -> Self {
        Self {
            session,
            store: store.to_owned(),
            records,
            decoded: HashMap::new(),
            counts: WireCounts::default(),
            changed: None,
        }
    }

    /// Encodes the request `seq`, which the actors have made from `state`, and decodes its answer.
    pub(super) fn requested(
        &mut self,
        seq: Seq,
        request: &Request,
        state: &State,
        log: &[Envelope],
    ) -> Compared {
        let model = request_builder::model_of(state, request.purpose);
        if model.wire.is_empty() {
            self.counts.without_wire += 1;
            return Ok(());
        }
        let codec = match Codec::find(&model.wire, &model.vendor) {
            Ok(Some(codec)) => codec,
            Ok(None) => {
                self.counts.without_wire += 1;
                return Ok(());
            }
            Err(error) => {
                let expected = Value::String(error.to_string());
                let found = Value::String(format!("{}, {}", model.wire, model.vendor));
                return Err(self.differs(seq, "wire", expected, found));
            }
        };
        self.counts.bodies += 1;
        let body = codec.body(request);
        let exchanged = self.record(seq, log)?;
        if let Some(exchanged) = &exchanged
            && exchanged.body != body
        {
            let json = |bytes: &[u8]| serde_json::from_slice(bytes).unwrap_or(Value::Null);
            let (ours, recorded) = (json(&body), json(&exchanged.body));
            if let Some((field, expected, found)) = difference(&ours, &recorded, "body") {
                return Err(self.differs(seq, &field, expected, found));
            }
        }
        match sent(log, seq) {
            None => self.counts.unchecked += 1,
            Some(hash) if hash == Sha256::digest(&body) => self.counts.equal += 1,
            Some(hash) => {
                let ours = Sha256::digest(&body).to_string();
                return Err(self.differs(seq, "body_sha256", ours.into(), hash.to_string().into()));
            }
        }
        let answer = exchanged.and_then(|exchanged| exchanged.answer);
        match answer {
            Some(answer) if !matches!(answer.end, End::Dropped(_)) => {
                self.counts.answers += 1;
                let events = codec.replay(&request.model.provider, &answer);
                self.decoded.insert(seq, Decoded::new(request.purpose, events));
            }
            Some(_) | None => self.counts.unrecorded += 1,
        }
        Ok(())
    }

    /// Reads the record of the request `seq`, if it is still there.
    fn record(&mut self, seq: Seq, log: &[Envelope]) -> Result<Option<Exchanged>, Divergence> {
        let Some((outcome, record)) = self.records.get(&seq).cloned() else { return Ok(None) };
        let Some(requested) = event(log, seq) else { return Ok(None) };
        let path = leftfold_store::wire_record(&self.store, requested.session, seq);
        let Ok(bytes) = std::fs::read(path) else { return Ok(None) };
        let hash = Sha256::digest(&bytes);
        let changed = || {
            let (ours, recorded) = (hash.to_string().into(), record.sha256.to_string().into());
            self.differs(outcome, "notes.exchange.record.sha256", ours, recorded)
        };
        match read_record(&String::from_utf8_lossy(&bytes)) {
            Ok(exchanged) => {
                if hash != record.sha256 {
                    // the first difference in the contents says more
                    let changed = changed();
                    self.changed.get_or_insert(changed);
                }
                Ok(Some(exchanged))
            }
            Err(_) => Err(changed()),
        }
    }

    /// The decoder's next call of the reply to `of`; `called` if there is no record.
    pub(super) fn call(
        &mut self,
        of: Seq,
        seq: Seq,
        called: &CallSpec,
    ) -> Result<CallSpec, Divergence> {
        let Some(decoded) = self.decoded.get_mut(&of) else { return Ok(called.clone()) };
        self.counts.facts += 1;
        let call = decoded.calls.pop_front();
        call.ok_or_else(|| self.differs(seq, "type", Value::Null, "tool.called".into()))
    }

    /// Compares pieces of the reply to `of` with the decoded answer.
    pub(super) fn streamed(&mut self, of: Seq, seq: Seq, parts: &[StreamedPart]) -> Compared {
        let Some(decoded) = self.decoded.get_mut(&of) else { return Ok(()) };
        self.counts.facts += 1;
        for piece in parts {
            append(&mut decoded.logged, piece);
            let logged = text(&decoded.logged, piece);
            let whole = text(&decoded.parts, piece);
            if !whole.starts_with(logged) {
                let (whole, logged) = (whole.to_owned(), logged.to_owned());
                return Err(self.differs(seq, "data.parts.text", whole.into(), logged.into()));
            }
        }
        Ok(())
    }

    /// The decoded end of the reply to `of`, whose outcome is at `seq`; `None`: the one in the log counts.
    pub(super) fn end(&mut self, of: Seq, seq: Seq) -> Result<Option<StreamEvent>, Divergence> {
        let Some(decoded) = self.decoded.get_mut(&of) else { return Ok(None) };
        self.counts.facts += 1;
        let (end, call) = (decoded.end.take(), decoded.calls.pop_front());
        if decoded.purpose != Purpose::Turn {
            // only replies of the turn are logged piece by piece
            return Ok(end);
        }
        let (parts, logged) = (contents(&decoded.parts), contents(&decoded.logged));
        if let Some((field, expected, found)) = difference(&parts, &logged, "parts") {
            return Err(self.differs(seq, &field, expected, found));
        }
        match call {
            Some(call) => Err(self.differs(seq, "call", call.name.into(), Value::Null)),
            None => Ok(end),
        }
    }

    /// The whole decoded text of the reply to `of`, of which no piece is in the log, and its end.
    pub(super) fn written(&mut self, of: Seq) -> Option<Vec<StreamEvent>> {
        let decoded = self.decoded.remove(&of)?;
        self.counts.facts += 1;
        let texts = decoded.parts.into_iter().filter(|part| part.kind == PartKind::Text);
        let texts = texts.map(|part| StreamEvent::TextDelta { id: part.id, text: part.text });
        Some(texts.chain(decoded.end).collect())
    }

    /// The difference that is left if the actors have found none: a record that was changed.
    pub(super) fn changed(&mut self) -> Option<Divergence> {
        self.changed.take()
    }

    fn differs(&self, seq: Seq, field: &str, expected: Value, found: Value) -> Divergence {
        Divergence { session: self.session, seq, field: field.to_owned(), expected, found }
    }
}

impl Decoded {
    fn new(purpose: Purpose, events: Vec<StreamEvent>) -> Self {
        let mut decoded = Self { purpose, ..Self::default() };
        let part = |id: String, kind, text| StreamedPart {
            id,
            kind,
            text,
            signature: None,
            redacted: false,
        };
        for event in events {
            match event {
                StreamEvent::TextDelta { id, text } => {
                    append(&mut decoded.parts, &part(id, PartKind::Text, text));
                }
                StreamEvent::ReasoningDelta { id, text } => {
                    append(&mut decoded.parts, &part(id, PartKind::Reasoning, text));
                }
                StreamEvent::ReasoningEnd { id, signature, redacted } => {
                    let sealed = part(id, PartKind::Reasoning, String::new());
                    append(&mut decoded.parts, &StreamedPart { signature, redacted, ..sealed });
                }
                StreamEvent::ToolCall(call) => decoded.calls.push_back(call),
                end @ (StreamEvent::Finish { .. } | StreamEvent::Failed(_)) => {
                    decoded.end = Some(end);
                }
                _ => {}
            }
        }
        decoded
    }
}

/// Adds a piece to the part with its id and kind.
fn append(parts: &mut Vec<StreamedPart>, piece: &StreamedPart) {
    let known = parts.iter_mut().find(|part| part.id == piece.id && part.kind == piece.kind);
    let Some(part) = known else { return parts.push(piece.clone()) };
    part.text.push_str(&piece.text);
    if piece.signature.is_some() {
        part.signature.clone_from(&piece.signature);
    }
    part.redacted |= piece.redacted;
}

/// The text so far of the part that `piece` belongs to.
fn text<'a>(parts: &'a [StreamedPart], piece: &StreamedPart) -> &'a str {
    let part = parts.iter().find(|part| part.id == piece.id && part.kind == piece.kind);
    part.map_or("", |part| &part.text)
}

/// The parts that a log has: those with a text or a signature.
fn contents(parts: &[StreamedPart]) -> Value {
    let kept =
        |part: &&StreamedPart| !part.text.is_empty() || part.signature.is_some() || part.redacted;
    serde_json::to_value(parts.iter().filter(kept).collect::<Vec<_>>()).unwrap_or_default()
}

/// The hash of the body that was sent for the request `seq`, if the log has it.
fn sent(log: &[Envelope], seq: Seq) -> Option<Sha256> {
    let hash = |outcome: &Envelope| {
        let Event::Model(event) = &outcome.event else { return None };
        match event {
            Model::Finished { body_sha256, .. } => Some(*body_sha256),
            Model::Failed { .. } => outcome.notes.exchange.as_ref()?.body_sha256,
            _ => None,
        }
    };
    let outcomes = log.iter().filter(|event| event.of == Some(seq));
    outcomes.filter_map(hash).find(|hash| *hash != Sha256::default())
}
