//! The status of a watched session, for clients that do not fold events themselves.

use leftfold_events::{Envelope, Seq, SessionId, mask};
use leftfold_store::Reader;
use leftfold_view::{SessionView, Status};

use super::peer::blocking;
use crate::client::Client;
use crate::remote::wire::{self, RpcError};

/// The most events to read at once.
const CHUNK: usize = 512;

/// Follows one session, and says when its status has changed.
pub(super) struct StatusFeed {
    session: SessionId,
    view: SessionView,
    /// The status that the client knows.
    sent: Option<Status>,
}

impl StatusFeed {
    /// The status as it was before the event `from`.
    pub(super) async fn before(client: &Client, from: Seq) -> Result<Self, RpcError> {
        let session = client.session;
        let local = match client.remote() {
            None => Some(client.reading().await.map_err(RpcError::internal)?),
            Some(_) => None,
        };
        let store = client.remote().map(|remote| remote.store().to_owned());
        blocking(move || {
            let mut view = SessionView::default();
            if let Some(store) = store.filter(|_| from > 1) {
                let events = Reader::open(&store).and_then(|reader| reader.read(session, 1));
                apply(&mut view, &events.map_err(RpcError::internal)?, from);
            }
            while let Some(local) = &local
                && view.seq + 1 < from
            {
                let events = local.read(session, view.seq + 1, CHUNK);
                if apply(&mut view, &events.map_err(RpcError::internal)?, from) == 0 {
                    break;
                }
            }
            Ok(Self { session, view, sent: None })
        })
        .await
    }

    /// Applies an event, with tokens masked. Events of other sessions change nothing.
    pub(super) fn apply(&mut self, event: &Envelope) {
        if event.session == self.session {
            self.view.apply(event);
        }
    }

    /// Appends the notification for the current status, if it is news for the client.
    pub(super) fn tell(&mut self, to: &mut Vec<u8>) {
        let status = self.view.status();
        if self.sent.as_ref() != Some(&status) {
            wire::status(self.session, self.view.seq, &status, to);
            self.sent = Some(status);
        }
    }
}

/// Applies the events before `from`, with tokens masked. Answers how many there were.
fn apply(view: &mut SessionView, events: &[Envelope], from: Seq) -> usize {
    let mut count = 0;
    for event in events.iter().take_while(|event| event.seq < from) {
        let shown = mask::shown(event);
        view.apply(shown.masked.as_deref().unwrap_or(event));
        count += 1;
    }
    count
}
