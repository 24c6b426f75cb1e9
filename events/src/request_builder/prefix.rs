//! Makes a turn's next request, and computes its hash, without building or hashing the shared prefix again.
//!
//! A request begins like the previous one, in its messages and in its canonical JSON, so this module keeps the messages and
//! the hash's state after each of them. It always verifies how many of them still apply:
//! messages that are kept here are shared with the state, and a change of a message there creates a
//! copy, so the two are no longer one object.
//!
//! Invariant: the results equal `request(s)` and `request(s).sha256()`, which a debug build asserts.

use std::collections::HashSet;
use std::sync::Arc;

use sha2::Digest;

use super::{Builder, Files, request, turn_head};
use crate::event::ModelRef;
use crate::id::Seq;
use crate::payload::Sha256;
use crate::request::{AssistantPart, Request, RequestMessage};
use crate::state::{Message, ReplyEnd, State};

/// Equals [`request(s).sha256()`](Request::sha256).
pub(crate) fn request_sha256(s: &State) -> Sha256 {
    let mut prefix = Prefix::from_state(s);
    let sha256 = prefix.finish(s);
    s.memo.keep(prefix);
    debug_assert_eq!(sha256, request(s).sha256(), "the request at {}", s.seq);
    sha256
}

/// Equals [`request(s)`](request). It shares messages with the requests before it.
pub fn turn_request(s: &State) -> Request {
    let prefix = Prefix::from_state(s);
    let mut made = prefix.request.clone();
    made.messages.extend(prefix.conversation.end(s).into_iter().map(|(message, _)| message));
    s.memo.keep(prefix);
    debug_assert_eq!(made, request(s), "the request at {}", s.seq);
    made
}

struct Prefix {
    /// The request with the messages that later events cannot change.
    request: Request,
    conversation: Conversation,
    /// The hash of `request`.
    hash: RequestHash,
}

impl Prefix {
    /// The prefix of the request of `s`, with all messages of the conversation.
    fn from_state(s: &State) -> Self {
        let head = turn_head(s);
        let known = s.memo.take().filter(|known: &Self| known.request.has_head_of(&head));
        let mut prefix = known.unwrap_or_else(|| Self::new(s, head));
        prefix.drop_changed(s);
        for (message, _) in prefix.conversation.extend(s) {
            prefix.hash.add(&message);
            prefix.request.messages.push(message);
        }
        prefix
    }

    fn new(s: &State, head: Request) -> Self {
        let hash = RequestHash::new(&head);
        Self { request: head, conversation: Conversation::new(s), hash }
    }

    /// Keeps the messages before the first one that has changed.
    fn drop_changed(&mut self, s: &State) {
        if !self.conversation.reads_alike(s) {
            self.conversation = Conversation::new(s);
        }
        let kept = self.conversation.keep_shared(s, &self.request.messages);
        self.request.messages.truncate(kept);
        self.hash.truncate(kept);
    }

    fn finish(&mut self, s: &State) -> Sha256 {
        let kept = self.request.messages.len();
        self.conversation.end(s).iter().for_each(|(message, _)| self.hash.add(message));
        let sha256 = self.hash.finish();
        self.hash.truncate(kept);
        sha256
    }
}

/// A message of a request, and the events that it comes from.
pub type Sourced = (RequestMessage, Vec<Seq>);

/// The messages of a conversation, as the requests of its turns have them.
#[derive(Debug)]
struct Conversation {
    model: ModelRef,
    /// How files appear in the messages.
    files: Files,
    covered: Vec<Covered>,
    /// The ids given to calls of these messages.
    ids: HashSet<String>,
    /// The messages of the request that later events may still change: a prompt that may be extended,
    /// and answers that are dropped if nothing follows them.
    open: Vec<Sourced>,
}

/// A message of the conversation that was read, and where it has led to.
#[derive(Debug)]
struct Covered {
    message: Arc<Message>,
    /// The number of messages of the request so far that later events cannot change.
    closed: usize,
    /// The messages after them.
    open: Vec<Sourced>,
}

impl Conversation {
    fn new(s: &State) -> Self {
        let (covered, ids, open) = (Vec::new(), HashSet::new(), Vec::new());
        Self { model: s.config.model.name(), files: Files::for_state(s), covered, ids, open }
    }

    /// Whether equal messages of `s` become equal messages of a request.
    fn reads_alike(&self, s: &State) -> bool {
        self.files == Files::for_state(s) && self.model == s.config.model.name()
    }

    /// The number of messages at the beginning that `s` has unchanged.
    fn shared(&self, s: &State) -> usize {
        let pairs = self.covered.iter().zip(s.messages.shared());
        pairs.take_while(|(mine, now)| Arc::ptr_eq(&mine.message, now)).count()
    }

    /// Forgets the messages from the first one on that `s` does not have unchanged. `closed` are all messages of the
    /// request that were read to be final; answers how many of them still are.
    fn keep_shared(&mut self, s: &State, closed: &[RequestMessage]) -> usize {
        let shared = self.shared(s);
        if shared == self.covered.len() {
            return self.closed();
        }
        self.covered.truncate(shared);
        self.open = self.covered.last().map(|last| last.open.clone()).unwrap_or_default();
        let kept = closed.iter().take(self.closed()).chain(self.open.iter().map(|(open, _)| open));
        self.ids = kept.flat_map(call_ids).map(str::to_owned).collect();
        self.closed()
    }

    /// The number of messages of the request that later events cannot change.
    fn closed(&self) -> usize {
        self.covered.last().map_or(0, |last| last.closed)
    }

    /// Reads all further messages of the conversation. Answers those of the request that later events
    /// cannot change.
    fn extend(&mut self, s: &State) -> Vec<Sourced> {
        let mut builder = self.builder(s);
        builder.ids = std::mem::take(&mut self.ids);
        // a reply that has just been asked for is part of no request, and will change
        let messages = s.messages.shared();
        let open = messages.last().is_some_and(|last| is_asked_for(last));
        let settled = messages.len() - usize::from(open);
        let mut closed = Vec::new();
        for message in messages.get(self.covered.len()..settled).unwrap_or_default() {
            builder.message(message);
            let ends = builder.messages.len() - still_open(&builder.messages);
            closed.extend(builder.messages.drain(..ends).zip(builder.sources.drain(..ends)));
            let open = builder.messages.iter().cloned().zip(builder.sources.iter().cloned());
            let (message, open) = (Arc::clone(message), open.collect());
            self.covered.push(Covered { message, closed: self.closed() + ends, open });
        }
        self.ids = std::mem::take(&mut builder.ids);
        self.open = sourced(builder);
        closed
    }

    /// The messages at the end of a request that is made now.
    fn end(&self, s: &State) -> Vec<Sourced> {
        let mut builder = self.builder(s);
        builder.conclude(s);
        builder.drop_trailing_answers();
        sourced(builder)
    }

    /// A builder that continues after the messages that later events cannot change.
    fn builder(&self, s: &State) -> Builder {
        let mut builder = Builder::new(&s.config.model, self.files);
        (builder.messages, builder.sources) = self.open.iter().cloned().unzip();
        builder
    }
}

fn call_ids(message: &RequestMessage) -> impl Iterator<Item = &str> {
    let parts = match message {
        RequestMessage::Assistant { parts } => &parts[..],
        RequestMessage::User { .. } | RequestMessage::Tool { .. } => &[],
    };
    parts.iter().filter_map(|part| match part {
        AssistantPart::Call { id, .. } => Some(id.as_str()),
        AssistantPart::Text { .. } | AssistantPart::Reasoning { .. } => None,
    })
}

fn is_asked_for(message: &Message) -> bool {
    message.reply().is_some_and(|reply| !reply.has_calls() && reply.end == ReplyEnd::Open)
}

fn sourced(builder: Builder) -> Vec<Sourced> {
    builder.messages.into_iter().zip(builder.sources).collect()
}

/// The messages of the requests of turns, one request after another. The messages that a request shares with the
/// one before it are not built again.
#[derive(Debug, Default)]
pub struct RequestMessages(Option<Conversation>);

/// The messages of a request that the one before it does not have.
#[derive(Debug)]
pub struct FurtherMessages {
    /// Whether the request begins with all `closed` messages so far.
    pub continues: bool,
    /// Later requests have these messages, too, if they continue.
    pub closed: Vec<Sourced>,
    /// The messages at the end, which only this request has like this.
    pub end: Vec<Sourced>,
}

impl RequestMessages {
    /// The messages of the request for the next step of the turn, as [`request`] has them.
    pub fn next(&mut self, s: &State) -> FurtherMessages {
        let continues =
            |known: &Conversation| known.reads_alike(s) && known.shared(s) == known.covered.len();
        let known = self.0.take().filter(continues);
        let continues = known.is_some();
        let conversation = self.0.insert(known.unwrap_or_else(|| Conversation::new(s)));
        let closed = conversation.extend(s);
        FurtherMessages { continues, closed, end: conversation.end(s) }
    }
}

/// The JSON after a request's messages.
const END: &[u8] = b"]}";

/// The most bytes of a buffer that are kept for the next request.
const KEPT: usize = 64 << 10;

/// The hash of a request, as it is after the head and after each message.
struct RequestHash {
    after: Vec<sha2::Sha256>,
    /// Holds the JSON of one message.
    json: Vec<u8>,
}

impl RequestHash {
    fn new(head: &Request) -> Self {
        let mut hash = Self { after: Vec::new(), json: Vec::new() };
        hash.json(head);
        let mut sha256 = sha2::Sha256::new();
        sha256.update(hash.json.strip_suffix(END).unwrap_or(&hash.json));
        hash.after.push(sha256);
        hash
    }

    fn add(&mut self, message: &RequestMessage) {
        let mut sha256 = self.last();
        if self.after.len() > 1 {
            sha256.update(b",");
        }
        self.json(message);
        sha256.update(&self.json);
        self.after.push(sha256);
    }

    fn last(&self) -> sha2::Sha256 {
        self.after.last().cloned().unwrap_or_default()
    }

    fn finish(&mut self) -> Sha256 {
        self.json.clear();
        self.json.shrink_to(KEPT);
        let mut sha256 = self.last();
        sha256.update(END);
        Sha256::from_bytes(sha256.finalize().into())
    }

    /// Keeps only so many messages.
    fn truncate(&mut self, messages: usize) {
        self.after.truncate(messages + 1);
    }

    /// Writes a part of a request to `json`.
    fn json(&mut self, part: &impl serde::Serialize) {
        self.json.clear();
        // serialising these types to memory cannot fail
        let _ = serde_json::to_writer(&mut self.json, part);
    }
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
