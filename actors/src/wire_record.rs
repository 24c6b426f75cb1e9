//! Writes the exchange of a request to a file beside the log, if the turn configuration asks for it. The
//! file holds no address, no key, no known secret and no header but those that decoding reads. It is no
//! log: it is not flushed, and a request that is cut off leaves none.

use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use leftfold_events::event::Record;
use leftfold_events::{Secrets, Seq, SessionId, Sha256};
use leftfold_providers::{Codec, Exchanged, StreamEvent, write_record};

use crate::tasks::blocking;

/// Where the exchange of a request is written.
#[derive(Clone, Debug)]
pub(crate) struct WireRecord {
    path: PathBuf,
    session: SessionId,
    requested: Seq,
    secrets: Secrets,
}

impl WireRecord {
    /// The record of the request `requested` in `store`.
    pub(crate) fn new(store: &Path, session: SessionId, requested: Seq, secrets: Secrets) -> Self {
        let path = leftfold_store::wire_record(store, session, requested);
        Self { path, session, requested, secrets }
    }

    /// Writes the record. `None`: there is none, and the program's log has the reason.
    pub(crate) async fn keep(self, exchanged: Exchanged) -> Option<Record> {
        let path = self.path.clone();
        match blocking(move || self.write(exchanged)).await {
            Ok(Ok(record)) => record,
            Ok(Err(error)) => {
                tracing::warn!(path = %path.display(), %error, "cannot write the record of a request");
                None
            }
            Err(error) => {
                tracing::warn!(path = %path.display(), %error, "the record of a request is lost");
                None
            }
        }
    }

    fn write(&self, mut exchanged: Exchanged) -> io::Result<Option<Record>> {
        if self.finds(&String::from_utf8_lossy(&exchanged.body)) {
            tracing::warn!("a known secret is in the body of a request, which is not recorded");
            return Ok(None);
        }
        if self.is_revealed_by(&exchanged) {
            exchanged.drop_answer("a known secret is in the answer");
        }
        let text = write_record(&exchanged, self.session, self.requested);
        let folder = self.path.parent().unwrap_or(&self.path);
        DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
        let new = self.path.with_extension("new");
        let mut options = OpenOptions::new();
        let mut file = options.write(true).create(true).truncate(true).mode(0o600).open(&new)?;
        file.write_all(text.as_bytes())?;
        fs::rename(&new, &self.path)?;
        let bytes = u64::try_from(text.len()).unwrap_or(u64::MAX);
        Ok(Some(Record { sha256: Sha256::digest(text.as_bytes()), bytes }))
    }

    fn finds(&self, text: &str) -> bool {
        self.secrets.hide(text).is_some()
    }

    /// Whether a known secret is in the answer. It may be spread over several events, so the decoded
    /// texts are searched too.
    fn is_revealed_by(&self, exchanged: &Exchanged) -> bool {
        let Some(answer) = &exchanged.answer else { return false };
        if self.finds(&exchanged.answer_text()) || answer.headers.values().any(|v| self.finds(v)) {
            return true;
        }
        let Ok(Some(codec)) = Codec::find(&exchanged.wire, &exchanged.vendor) else { return false };
        let mut texts = [String::new(), String::new(), String::new()];
        let [text, reasoning, calls] = &mut texts;
        for event in codec.replay(&exchanged.provider, answer) {
            match event {
                StreamEvent::TextDelta { text: piece, .. } => text.push_str(&piece),
                StreamEvent::ReasoningDelta { text: piece, .. } => reasoning.push_str(&piece),
                StreamEvent::ToolCall(call) => {
                    calls.push_str(call.input.as_str());
                    calls.push('\n');
                }
                StreamEvent::Failed(failure) => {
                    calls.push_str(&failure.message);
                    calls.push('\n');
                }
                StreamEvent::Start { .. }
                | StreamEvent::Credentials(_)
                | StreamEvent::RequestId(_)
                | StreamEvent::Exchanged(_)
                | StreamEvent::TextStart { .. }
                | StreamEvent::TextEnd { .. }
                | StreamEvent::ReasoningStart { .. }
                | StreamEvent::ReasoningEnd { .. }
                | StreamEvent::ToolInputStart { .. }
                | StreamEvent::ToolInputDelta { .. }
                | StreamEvent::Finish { .. } => {}
            }
        }
        texts.iter().any(|text| self.finds(text))
    }
}
