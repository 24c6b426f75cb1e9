//! A provider that is reached over HTTP. It combines settings, vendor and wire format.

use std::sync::Arc;

use futures::stream::BoxStream;
use leftfold_events::Request;
use serde_json::Value;

use crate::closing;
use crate::config::{Config, Error, Http, OnFault};
use crate::endpoint::{self, Endpoint};
use crate::exchange;
use crate::stream::{Extra, Provider, StreamEvent};
use crate::vendors::Vendor;

#[derive(Clone, Debug)]
pub(crate) struct Client {
    http: &'static dyn Http,
    vendor: &'static Vendor,
    pub(crate) endpoint: Arc<Endpoint>,
    on_fault: OnFault,
}

impl Client {
    pub(crate) fn new(config: Config, http: &'static dyn Http) -> Result<Self, Error> {
        let vendor = config.wire.protocol().vendor(&config);
        let on_fault = config.on_fault;
        let endpoint = Arc::new(endpoint::endpoint(config, http, vendor)?);
        Ok(Self { http, vendor, endpoint, on_fault })
    }

    /// The body. Open calls are answered, unless this build refuses faulty requests: then they stay
    /// as they are, so that the fault is reported.
    fn value(&self, request: &Request) -> Value {
        match self.on_fault {
            OnFault::Refuse => self.http.body(self.vendor, request),
            OnFault::Mend => self.http.body(self.vendor, &closing::closed(request)),
        }
    }

    /// The reason not to send this body, if it has a fault.
    #[cfg(any(debug_assertions, test))]
    pub(crate) fn refusal(
        &self,
        model: &str,
        body: &Value,
    ) -> Option<BoxStream<'static, StreamEvent>> {
        if self.on_fault != OnFault::Refuse {
            return None;
        }
        let faults = crate::config::faults(self.http, self.vendor, model, body);
        faults.first().map(|fault| crate::check::refused_stream(&bytes(body), fault))
    }
}

impl Provider for Client {
    fn name(&self) -> &str {
        &self.endpoint.provider
    }

    fn body(&self, request: &Request) -> Vec<u8> {
        bytes(&self.value(request))
    }

    fn stream(&self, request: Request) -> BoxStream<'static, StreamEvent> {
        let body = self.value(&request);
        let model = &request.model.id;
        #[cfg(any(debug_assertions, test))]
        if let Some(refusal) = self.refusal(model, &body) {
            return refusal;
        }
        let url = self.http.address(&self.endpoint.url, model);
        let decoder = self.http.decoder(&self.endpoint.provider, self.vendor);
        exchange::run(Arc::clone(&self.endpoint), url, bytes(&body), decoder)
    }

    fn with(&self, extra: &Extra) -> Option<Arc<dyn Provider>> {
        let endpoint = Arc::new(self.endpoint.with(extra));
        Some(Arc::new(Self { endpoint, ..self.clone() }))
    }
}

/// The bytes of a body.
pub(crate) fn bytes(body: &Value) -> Vec<u8> {
    // serialising values to memory cannot fail
    serde_json::to_vec(body).unwrap_or_default()
}
