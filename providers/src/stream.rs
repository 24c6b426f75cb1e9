use std::collections::VecDeque;
use std::fmt::{self, Debug};
use std::sync::Arc;

use futures::stream::BoxStream;
use leftfold_events::event::{CallSpec, Finish, Usage};
use leftfold_events::{Request, Sha256};

use crate::errors::Failure;
use leftfold_framing::sse::SseEvent;

/// Something that answers requests as a language model does.
pub trait Provider: Send + Sync + Debug {
    /// The name that settings gave it.
    fn name(&self) -> &str;

    /// The bytes that would go over the wire for `request`. A pure function of it.
    fn body(&self, request: &Request) -> Vec<u8>;

    /// Starts a request once the stream is polled; dropping the stream aborts it at once. Needs a
    /// tokio runtime with time and I/O.
    fn stream(&self, request: Request) -> BoxStream<'static, StreamEvent>;

    /// The same provider with a key and headers in place of its own; `None` if it sends none. What can
    /// not be sent is left out.
    fn with(&self, _extra: &Extra) -> Option<Arc<dyn Provider>> {
        None
    }
}

/// What is sent besides what settings say, and comes before that.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Extra {
    /// Sent where the provider has its key.
    pub key: Option<String>,
    /// In place of those of the same name, the key's among them.
    pub headers: Vec<(String, String)>,
}

/// Names no values.
impl fmt::Debug for Extra {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Extra").field("has_key", &self.key.is_some()).finish_non_exhaustive()
    }
}

impl Extra {
    pub fn is_empty(&self) -> bool {
        self.key.is_none() && self.headers.is_empty()
    }
}

/// What a reply is made of, whatever wire format it came in.
///
/// Part ids are unique within one reply. Parts may be open at the same time, deltas are never
/// empty, and a call's deltas are for show: [`StreamEvent::ToolCall`] has the whole call.
#[derive(Clone, Debug, PartialEq)]
pub enum StreamEvent {
    /// Always first, before anything is sent: the hash of the body.
    Start {
        body_sha256: Sha256,
    },
    TextStart {
        id: String,
    },
    TextDelta {
        id: String,
        text: String,
    },
    TextEnd {
        id: String,
    },
    ReasoningStart {
        id: String,
    },
    ReasoningDelta {
        id: String,
        text: String,
    },
    /// `signature` has to go back unchanged with the reasoning; if `redacted` it is the reasoning
    /// itself, sealed. Without one the reasoning can not be sent back.
    ReasoningEnd {
        id: String,
        signature: Option<String>,
        redacted: bool,
    },
    ToolInputStart {
        id: String,
        name: String,
    },
    ToolInputDelta {
        id: String,
        text: String,
    },
    /// A call that is complete. Input that was no JSON is a JSON string with the raw text, absent
    /// input is `{}`.
    ToolCall(CallSpec),
    /// The reply is complete; always last.
    Finish {
        finish: Finish,
        usage: Usage,
    },
    /// There is no complete reply; always last.
    Failed(Failure),
}

impl StreamEvent {
    /// Whether nothing follows this event.
    pub fn is_last(&self) -> bool {
        matches!(self, Self::Finish { .. } | Self::Failed(_))
    }
}

/// A wire format's way of reading events. Once it has handed out a last event it is asked no more.
pub(crate) trait Decoder: Send {
    fn event(&mut self, event: &SseEvent<'_>, out: &mut VecDeque<StreamEvent>);

    /// The body has ended well after at least one event. `rest` is the data of an event that has
    /// begun and was not closed. Without a last event the answer counts as cut off.
    fn end(&mut self, _rest: Option<&str>, _out: &mut VecDeque<StreamEvent>) {}
}
