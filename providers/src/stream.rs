use std::collections::VecDeque;
use std::fmt::{self, Debug};
use std::sync::Arc;

use futures::stream::BoxStream;
use leftfold_events::event::{CallSpec, Finish, Usage};
use leftfold_events::{Request, Sha256};
use serde_json::Value;

use crate::authorization::Credentials;
use crate::errors::Failure;
use crate::exchanged::Exchanged;
use leftfold_framing::sse::SseEvent;

/// A language model, or something that behaves like one.
pub trait Provider: Send + Sync + Debug {
    /// The name in settings.
    fn name(&self) -> &str;

    /// The bytes that would go over the wire for `request`. A pure function of it.
    fn body(&self, request: &Request) -> Vec<u8>;

    /// Starts a request when the stream is first polled. Dropping the stream aborts the request.
    /// Needs a tokio runtime with time and I/O.
    fn stream(&self, request: Request) -> BoxStream<'static, StreamEvent>;

    /// Starts a request as [`Provider::stream`] does. The stream also has the exchange itself, directly
    /// before its last event, if the provider uses a server.
    fn recorded(&self, request: Request) -> BoxStream<'static, StreamEvent> {
        self.stream(request)
    }

    /// This provider with another key and other headers; `None` if it sends none. Values that
    /// cannot be sent are left out.
    fn with(&self, _extra: &Extra) -> Option<Arc<dyn Provider>> {
        None
    }
}

/// A key and headers from outside the settings. They take precedence over the settings.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Extra {
    /// Replaces the provider's key.
    pub key: Option<String>,
    /// Replace headers of the same name, including that of the key.
    pub headers: Vec<(String, String)>,
    /// Whether the request is the first after a person's prompt. Some vendors count those.
    pub is_by_user: bool,
}

/// Shows names but no values.
impl fmt::Debug for Extra {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Extra").field("has_key", &self.key.is_some()).finish_non_exhaustive()
    }
}

impl Extra {
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// The events of a reply, independent of the wire format.
///
/// Part ids are unique within one reply. Several parts may be open at a time. Deltas are never
/// empty. A call's deltas are for display: [`StreamEvent::ToolCall`] has the whole call.
#[derive(Clone, Debug, PartialEq)]
pub enum StreamEvent {
    /// First, before the request is sent: the hash of the body. It is absent if the request is not sent.
    Start {
        body_sha256: Sha256,
    },
    /// The credentials of this request, before it is sent, if they are not those of settings: they are to be kept out of
    /// everything that is logged from now on.
    Credentials(Credentials),
    /// The server's own id of the request, before anything else of the answer.
    RequestId(String),
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
    /// `signature` must go back unchanged with the reasoning; if `redacted`, it is the sealed
    /// reasoning itself. Reasoning without a signature cannot be sent back.
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
    /// A complete call. Input that is not JSON becomes a JSON string with the raw text; absent
    /// input becomes `{}`.
    ToolCall(CallSpec),
    /// The exchange, if it was asked for: see [`Provider::recorded`].
    Exchanged(Box<Exchanged>),
    /// The reply is complete; always last.
    Finish {
        finish: Finish,
        usage: Usage,
    },
    /// There is no complete reply; always last.
    Failed(Failure),
}

impl StreamEvent {
    /// Whether no event follows this one.
    pub fn is_last(&self) -> bool {
        matches!(self, Self::Finish { .. } | Self::Failed(_))
    }
}

/// Decoded events that are not yet read.
pub(crate) type EventQueue = VecDeque<StreamEvent>;

/// The event parser of a wire format. It is not called again after it has returned a last event.
pub(crate) trait Decoder: Send {
    fn event(&mut self, event: &SseEvent<'_>, out: &mut EventQueue);

    /// The data of events that have the same content as `answer`, a whole answer that is no stream. `None`: it is no
    /// answer of this wire format.
    fn unstreamed(&self, _answer: &Value) -> Option<Vec<String>> {
        None
    }

    /// The body ended normally after at least one event. `rest` is the data of an event that began
    /// and was not finished. Without a last event the answer counts as cut off.
    fn end(&mut self, _rest: Option<&str>, _out: &mut EventQueue) {}
}
