//! Computes the hash of a turn's next request without hashing the shared prefix again.
//!
//! A request's canonical JSON begins like that of the previous request, so this module keeps the
//! hash's state at the end of the shared part. It always verifies that the kept part still applies:
//! messages that are kept here are shared with the state, and a change of a message there creates a
//! copy, so the two are no longer one object.
//!
//! Invariant: the result equals `request(s).sha256()`, which a debug build asserts.

use std::collections::HashSet;
use std::sync::Arc;

use sha2::Digest;

use super::{Builder, Files, head, request};
use crate::event::Purpose;
use crate::payload::Sha256;
use crate::request::{Request, RequestMessage};
use crate::state::{Message, State};

/// Equals [`request(s).sha256()`](Request::sha256).
pub(crate) fn request_sha256(s: &State) -> Sha256 {
    let known = s.memo.take().filter(|prefix: &Prefix| prefix.is_of(s));
    let mut prefix = known.unwrap_or_else(|| Prefix::new(s));
    prefix.extend(s);
    let sha256 = prefix.finish(s);
    s.memo.keep(prefix);
    debug_assert_eq!(sha256, request(s).sha256(), "the request at {}", s.seq);
    sha256
}

struct Prefix {
    /// The request without its messages.
    head: Request,
    /// How files appear in the messages.
    files: Files,
    /// The messages of the conversation that are covered by `hash` and `open`.
    covered: Vec<Arc<Message>>,
    /// The ids given to calls of these messages.
    ids: HashSet<String>,
    /// The hash up to the last message of the request that later events cannot change.
    hash: sha2::Sha256,
    /// The number of messages in `hash`.
    hashed: usize,
    /// The messages of the request after those: a prompt that may be extended, and answers that are
    /// dropped if nothing follows them.
    open: Vec<RequestMessage>,
}

impl Prefix {
    fn new(s: &State) -> Self {
        let head = head(s, Purpose::Turn, s.config.model.name());
        let (json, files) = (json(&head), Files::of(&s.config.model));
        let mut hash = sha2::Sha256::new();
        hash.update(json.strip_suffix(END).unwrap_or(&json));
        let (covered, ids, open) = (Vec::new(), HashSet::new(), Vec::new());
        Self { head, files, covered, ids, hash, hashed: 0, open }
    }

    /// Whether the request of `s` has this prefix.
    fn is_of(&self, s: &State) -> bool {
        let messages = s.messages.shared();
        messages.len() >= self.covered.len()
            && self.covered.iter().zip(messages).all(|(mine, now)| Arc::ptr_eq(mine, now))
            && self.files == Files::of(&s.config.model)
            && self.head == head(s, Purpose::Turn, s.config.model.name())
    }

    /// Adds all further messages of the conversation.
    fn extend(&mut self, s: &State) {
        let mut builder = self.builder(s);
        builder.ids = std::mem::take(&mut self.ids);
        for message in &s.messages.shared()[self.covered.len()..] {
            builder.message(message);
            self.covered.push(Arc::clone(message));
        }
        self.ids = builder.ids;
        self.open = builder.messages;
        let closed = self.open.len() - still_open(&self.open);
        for message in self.open.drain(..closed) {
            hash(&mut self.hash, &mut self.hashed, &message);
        }
    }

    fn finish(&self, s: &State) -> Sha256 {
        let mut builder = self.builder(s);
        builder.conclude(s);
        builder.drop_trailing_answers();
        let (mut sha256, mut hashed) = (self.hash.clone(), self.hashed);
        builder.messages.iter().for_each(|message| hash(&mut sha256, &mut hashed, message));
        sha256.update(END);
        Sha256::from_bytes(sha256.finalize().into())
    }

    /// A builder that continues after the messages that later events cannot change.
    fn builder(&self, s: &State) -> Builder {
        let mut builder = Builder::new(&s.config.model);
        builder.messages.clone_from(&self.open);
        builder.sources.resize(self.open.len(), Vec::new());
        builder
    }
}

/// The JSON after a request's messages.
const END: &[u8] = b"]}";

fn hash(sha256: &mut sha2::Sha256, hashed: &mut usize, message: &RequestMessage) {
    if *hashed > 0 {
        sha256.update(b",");
    }
    sha256.update(json(message));
    *hashed += 1;
}

fn json(part: &impl serde::Serialize) -> Vec<u8> {
    // serialising these types to memory cannot fail
    serde_json::to_vec(part).unwrap_or_default()
}

/// The number of messages at the end that may still change: answers may be dropped, and then the
/// prompt before them may be extended.
fn still_open(messages: &[RequestMessage]) -> usize {
    let answer = |message: &&RequestMessage| matches!(message, RequestMessage::Assistant { .. });
    let answers = messages.iter().rev().take_while(answer).count();
    let before = messages.len() - answers;
    let prompt = messages[..before].last();
    answers + usize::from(matches!(prompt, Some(RequestMessage::User { .. })))
}
