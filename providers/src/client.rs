//! A provider that is reached over HTTP: a codec, and the address that it is used with.

use std::sync::Arc;

use futures::stream::BoxStream;
use leftfold_events::Request;

use crate::authorization::Outgoing;
use crate::codec::Codec;
#[cfg(any(debug_assertions, test))]
use crate::config::OnFault;
use crate::config::{Config, Error, Http};
use crate::endpoint::{self, Endpoint};
use crate::exchange::{self, Recorder};
use crate::stream::{Extra, Provider, StreamEvent};

#[derive(Clone, Debug)]
pub(crate) struct Client {
    codec: Codec,
    pub(crate) endpoint: Arc<Endpoint>,
    #[cfg(any(debug_assertions, test))]
    on_fault: OnFault,
    /// See [`Extra::is_by_user`].
    is_by_user: bool,
}

impl Client {
    pub(crate) fn new(config: Config, http: &'static dyn Http) -> Result<Self, Error> {
        let codec = Codec::new(&config, http);
        #[cfg(any(debug_assertions, test))]
        let on_fault = config.on_fault;
        let endpoint = Arc::new(endpoint::endpoint(config, http, codec.quirks())?);
        Ok(Self {
            codec,
            endpoint,
            #[cfg(any(debug_assertions, test))]
            on_fault,
            is_by_user: false,
        })
    }

    /// The reason not to send this request, if it has a fault. It is looked for before open calls are
    /// answered, so that they are reported.
    #[cfg(any(debug_assertions, test))]
    pub(crate) fn refusal(&self, request: &Request) -> Option<BoxStream<'static, StreamEvent>> {
        if self.on_fault != OnFault::Refuse {
            return None;
        }
        let fault = self.codec.fault(request)?;
        let message = format!(
            "the request was not sent, because the API would refuse it: {fault}; this is a bug in leftfold, please report it"
        );
        let class = leftfold_events::event::FailureClass::Invalid;
        let failure = crate::errors::Failure::fatal(class, message);
        Some(Box::pin(futures::stream::iter([StreamEvent::Failed(failure)])))
    }

    fn start(&self, request: &Request, is_recorded: bool) -> BoxStream<'static, StreamEvent> {
        #[cfg(any(debug_assertions, test))]
        if let Some(refusal) = self.refusal(request) {
            return refusal;
        }
        let model = self.endpoint.called(self.codec, &request.model.id);
        let (body, body_sha256) = self.codec.next_body(request);
        let url = self.codec.http().address(self.codec.quirks(), &self.endpoint.url, &model);
        let recorder = is_recorded.then(|| {
            let path = self.codec.path(&model);
            Recorder::new(self.codec, &self.endpoint.provider, path, body.clone())
        });
        let headers = self.endpoint.headers(self.codec.headers(request, self.is_by_user));
        let request = Outgoing { url, headers, body };
        exchange::run(Arc::clone(&self.endpoint), self.codec, request, body_sha256, recorder)
    }
}

impl Provider for Client {
    fn name(&self) -> &str {
        &self.endpoint.provider
    }

    fn body(&self, request: &Request) -> Vec<u8> {
        self.codec.body(request)
    }

    fn stream(&self, request: Request) -> BoxStream<'static, StreamEvent> {
        self.start(&request, false)
    }

    fn recorded(&self, request: Request) -> BoxStream<'static, StreamEvent> {
        self.start(&request, true)
    }

    fn with(&self, extra: &Extra) -> Option<Arc<dyn Provider>> {
        let endpoint = Arc::new(self.endpoint.with(extra));
        Some(Arc::new(Self { endpoint, is_by_user: extra.is_by_user, ..self.clone() }))
    }
}

#[cfg(test)]
mod tests {
    use futures::StreamExt;
    use leftfold_events::Json;
    use leftfold_events::event::{FailureClass, ModelRef, Purpose};
    use leftfold_events::request::Memo;
    use serde_json::{Value, json};

    use super::*;
    use crate::config::Wire;
    use crate::testing::client;

    fn request(messages: Value) -> Request {
        Request {
            purpose: Purpose::Turn,
            model: ModelRef { provider: "p".into(), id: "m".into() },
            max_output: 100,
            options: Json::object(),
            cache_key: String::new(),
            system: Vec::new(),
            tools: Vec::new(),
            messages: serde_json::from_value(messages).unwrap(),
            encoded: Memo::default(),
        }
    }

    #[tokio::test]
    async fn a_fault_names_its_rule_and_place_and_is_not_sent() {
        let ends = async |on_fault, request: &Request| -> Vec<StreamEvent> {
            let mut config = Config::new("p", Wire::ANTHROPIC);
            config.api_key = Some("key".into());
            config.on_fault = on_fault;
            match client(config).unwrap().refusal(request) {
                Some(refusal) => refusal.collect().await,
                None => Vec::new(),
            }
        };
        let messages = json!([
            { "role": "user", "parts": [{ "type": "text", "text": "go", "mime": null, "name": null }] },
            { "role": "assistant", "parts": [{ "type": "call", "id": "a", "name": "t", "input": {} }] },
            { "role": "user", "parts": [{ "type": "text", "text": "on", "mime": null, "name": null }] },
        ]);
        let open = request(messages.clone());
        let closed = request(json!([messages[0]]));
        assert_eq!(ends(OnFault::Mend, &open).await, []);
        let events = ends(OnFault::Refuse, &open).await;
        let [StreamEvent::Failed(failure)] = &events[..] else { panic!("{events:?}") };
        assert_eq!((failure.class, failure.retryable), (FailureClass::Invalid, false));
        let expected = "call-open at `messages[1].content[0]`: no result for `a` follows";
        assert!(failure.message.contains(expected), "{}", failure.message);
        assert_eq!(ends(OnFault::Refuse, &closed).await, []);
    }
}
