//! Notifications about a watched session that follow from its events, for clients that do not fold
//! events themselves.

use leftfold_events::{Envelope, Seq, mask};
use leftfold_store::Reader;
use leftfold_view::Derived;

use super::peer::blocking;
use crate::client::Client;
use crate::remote::wire::{self, RpcError};

/// The most events to read at once.
const CHUNK: usize = 512;

/// Follows one session, and sends notifications about it.
pub(super) struct DerivedFeed(Derived);

impl DerivedFeed {
    /// Starts after the event before `from`; for a fork, at the earliest after its shared events.
    /// Without `all`, only the status is sent.
    pub(super) async fn before(client: &Client, from: Seq, all: bool) -> Result<Self, RpcError> {
        let session = client.session;
        let local = match client.remote() {
            None => Some(client.reading().await.map_err(RpcError::internal)?),
            Some(_) => None,
        };
        let store = client.remote().map(|remote| remote.store().to_owned());
        blocking(move || {
            let mut derived = if all { Derived::all(session) } else { Derived::status(session) };
            if let Some(store) = store {
                let events = Reader::open(&store).and_then(|reader| reader.read(session, 1));
                apply(&mut derived, &events.map_err(RpcError::internal)?, from);
            }
            while let Some(local) = &local {
                let events = local.read(session, derived.seq() + 1, CHUNK);
                let events = events.map_err(RpcError::internal)?;
                if apply(&mut derived, &events, from) < CHUNK {
                    break;
                }
            }
            Ok(Self(derived))
        })
        .await
    }

    /// Appends the notifications for a client that knows nothing yet.
    pub(super) fn begin(&mut self, to: &mut Vec<u8>) {
        let news = self.0.begin();
        news.iter().for_each(|one| wire::derived(self.0.session(), self.0.seq(), one, to));
    }

    /// Applies an event, with tokens masked, and appends its notifications. Events of other sessions
    /// change nothing.
    pub(super) fn apply(&mut self, event: &Envelope, to: &mut Vec<u8>) {
        if event.session == self.0.session() && event.seq > self.0.seq() {
            let news = self.0.apply(event);
            news.iter().for_each(|one| wire::derived(event.session, event.seq, one, to));
        }
    }
}

/// Applies the events before `from`, and those that a fork shares, with tokens masked. Answers how
/// many there were.
fn apply(derived: &mut Derived, events: &[Envelope], from: Seq) -> usize {
    let mut count = 0;
    let session = derived.session();
    let past = |event: &&Envelope| event.seq < from || event.session != session;
    for event in events.iter().take_while(past) {
        let shown = mask::shown(event);
        derived.apply(shown.masked.as_deref().unwrap_or(event));
        count += 1;
    }
    count
}
