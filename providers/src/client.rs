//! A provider that is reached over HTTP: a codec, and the address that it is used with.

use std::sync::Arc;

use futures::stream::BoxStream;
use leftfold_events::Request;

use crate::authorization::Outgoing;
use crate::codec::Codec;
use crate::config::{Config, Error, Http, OnFault};
use crate::endpoint::{self, Endpoint};
use crate::exchange::{self, Recorder};
use crate::stream::{Extra, Provider, StreamEvent};

#[derive(Clone, Debug)]
pub(crate) struct Client {
    codec: Codec,
    pub(crate) endpoint: Arc<Endpoint>,
    on_fault: OnFault,
    /// See [`Extra::is_by_user`].
    is_by_user: bool,
}

impl Client {
    pub(crate) fn new(config: Config, http: &'static dyn Http) -> Result<Self, Error> {
        let codec = Codec::new(&config, http);
        let on_fault = config.on_fault;
        let endpoint = Arc::new(endpoint::endpoint(config, http, codec.quirks())?);
        Ok(Self { codec, endpoint, on_fault, is_by_user: false })
    }

    /// The reason not to send this request, if it has a fault. It is looked for before open calls are
    /// answered, so that they are reported.
    #[cfg(any(debug_assertions, test))]
    pub(crate) fn refusal(&self, request: &Request) -> Option<BoxStream<'static, StreamEvent>> {
        if self.on_fault != OnFault::Refuse {
            return None;
        }
        self.codec.fault(request).map(|fault| crate::check::refused_stream(&fault))
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
