use futures::StreamExt;
use futures::stream::{self, BoxStream};
use leftfold_events::Request;
use leftfold_providers::{Credentials, Extra, Provider, StreamEvent};

use super::*;

const TOKEN: &str = "canary-4f1e-refreshed";

/// A provider whose token is new with its first request.
#[derive(Debug)]
struct SignedIn(Arc<dyn Provider>);

impl Provider for SignedIn {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn body(&self, request: &Request) -> Vec<u8> {
        self.0.body(request)
    }

    fn stream(&self, request: Request) -> BoxStream<'static, StreamEvent> {
        let token = Credentials(vec![("auth.s".to_owned(), TOKEN.to_owned())]);
        let first = stream::iter([StreamEvent::Credentials(token)]);
        first.chain(self.0.stream(request)).boxed()
    }
}

/// Also after a prompt that brings a world which does not know the token.
#[tokio::test(flavor = "multi_thread")]
async fn a_token_that_is_new_in_mid_session_gets_into_no_log() {
    let read = json!({ "call": { "name": "read", "input": { "filePath": "token.txt" } } });
    let mut site = Site::new(json!({ "replies": [
        { "parts": [{ "text": format!("reading {TOKEN}") }, read] },
        text(&format!("it is {TOKEN}")),
        { "parts": [read] },
        text("done"),
    ] }));
    std::fs::write(site.project().join("token.txt"), TOKEN).expect("a file");
    let scripted = site.world().models.get("s", &Extra::default()).expect("a provider");
    site.provider = Some(Arc::new(SignedIn(scripted)));
    let mut live = site.start().await;
    for _ in 0..2 {
        live.prompt(&site, "go");
        live.until_ended().await;
    }
    live.stop().await;
    let log = serde_json::to_string(&site.log()).expect("JSON");
    assert!(!log.contains(TOKEN), "{log}");
    let hidden = log.matches("{{secret:auth.s}}").count();
    assert!(hidden >= 4, "{hidden} of two texts and two outputs: {log}");
}
