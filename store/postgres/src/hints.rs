//! Hints that a log has grown or that a message waits. They go to this process's subscribers directly,
//! and to those of other nodes by `NOTIFY`.
//!
//! `NOTIFY` is sent after the commit that it is about, by a statement of its own: within the commit it
//! would take a lock that only one commit of the whole database has at a time, and hold it during the
//! flush. So a crash in between loses a hint. Whoever watches a session does not depend on hints: its
//! last seq is read once a second.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use leftfold_events::{MessageId, Seq, SessionId};
use tokio::sync::{Notify, mpsc};
use tokio::time::{MissedTickBehavior, interval, sleep, timeout};
use tokio_postgres::Notification;
use uuid::Uuid;

use crate::columns::{get, seq, session, uuid};
use crate::connection::{Connector, Open, Purpose, Slot};
use crate::diagnosis;
use crate::error::Error;

/// How often the last seqs of watched sessions are read.
const SEQ_POLL_INTERVAL: Duration = Duration::from_secs(1);
const RECONNECT_DELAY: Duration = Duration::from_secs(1);
/// How long a notification may take that shows whether they arrive at all.
const PROBE_TIMEOUT: Duration = Duration::from_secs(5);
const PROBE: &str = "probe ";

/// Hints in one notification. PostgreSQL takes up to 8,000 bytes.
const IN_ONE: usize = 250;

const NOTIFY: &str = "select pg_notify($1, text) from unnest($2::text[]) as text";
const SEQS: &str = "select id, seq from session where id = any($1)";

/// Something that is worth reading. It may come late, twice or not at all, but what it is about can be
/// read when it comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Hint {
    /// The session's log has grown.
    Grown(SessionId),
    /// A message waits in the session's inbox.
    Message(SessionId),
    /// A node has given back sessions that want another one.
    Released,
    /// It is known what became of a message.
    Concluded(MessageId),
    /// An operator wants something of a node: each looks at its own row.
    Nodes,
    /// Another node is about to answer a request about the session: each tells when its clients have what the log has.
    Show(SessionId),
    /// The clients of one node have it.
    Shown(SessionId),
}

impl Hint {
    fn text(self) -> String {
        match self {
            Self::Grown(session) => format!("g{session}"),
            Self::Message(session) => format!("m{session}"),
            Self::Released => "r".to_owned(),
            Self::Nodes => "n".to_owned(),
            Self::Concluded(message) => format!("c{message}"),
            Self::Show(session) => format!("s{session}"),
            Self::Shown(session) => format!("t{session}"),
        }
    }

    fn parse(text: &str) -> Option<Self> {
        match text {
            "r" => return Some(Self::Released),
            "n" => return Some(Self::Nodes),
            _ => {}
        }
        let (kind, session) = text.split_at_checked(1)?;
        let session: SessionId = session.parse().ok()?;
        match kind {
            "g" => Some(Self::Grown(session)),
            "m" => Some(Self::Message(session)),
            "s" => Some(Self::Show(session)),
            "t" => Some(Self::Shown(session)),
            "c" => Some(Self::Concluded(MessageId::from_bytes(session.to_bytes()))),
            _ => None,
        }
    }
}

/// Takes a hint; `false` when it wants no more.
pub(crate) type Subscriber = Box<dyn Fn(Hint) -> bool + Send>;

/// Passes hints on.
pub(crate) struct Announcer {
    /// Marks notifications of this process.
    tag: String,
    subscribers: Mutex<Vec<Subscriber>>,
    /// Hints that other nodes have not been sent.
    unsent: Mutex<HashSet<Hint>>,
    more: Notify,
    /// For each watched session how many watch it and the last seq that they know of.
    watched: Mutex<HashMap<SessionId, (usize, Seq)>>,
}

impl Announcer {
    pub(crate) fn new() -> Self {
        Self {
            tag: format!("{:016x}", random()),
            subscribers: Mutex::default(),
            unsent: Mutex::default(),
            more: Notify::new(),
            watched: Mutex::default(),
        }
    }

    pub(crate) fn subscribe(&self, to: Subscriber) {
        self.subscribers.lock().unwrap_or_else(PoisonError::into_inner).push(to);
    }

    pub(crate) fn watch(&self, session: SessionId) {
        let mut watched = self.watched.lock().unwrap_or_else(PoisonError::into_inner);
        watched.entry(session).or_default().0 += 1;
    }

    pub(crate) fn unwatch(&self, session: SessionId) {
        let mut watched = self.watched.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((count, _)) = watched.get_mut(&session) {
            *count -= 1;
            if *count == 0 {
                watched.remove(&session);
            }
        }
    }

    /// The sessions' logs have grown by this process.
    pub(crate) fn announce(&self, sessions: impl Iterator<Item = SessionId>) {
        let hints: Vec<Hint> = sessions.map(Hint::Grown).collect();
        self.spread(&hints);
    }

    /// Sends hints of this process to everybody.
    pub(crate) fn spread(&self, hints: &[Hint]) {
        if hints.is_empty() {
            return;
        }
        hints.iter().for_each(|hint| self.deliver(*hint));
        self.tell(hints);
    }

    /// Sends hints of this process to other nodes.
    pub(crate) fn tell(&self, hints: &[Hint]) {
        self.unsent.lock().unwrap_or_else(PoisonError::into_inner).extend(hints);
        self.more.notify_one();
    }

    fn deliver(&self, hint: Hint) {
        let mut subscribers = self.subscribers.lock().unwrap_or_else(PoisonError::into_inner);
        subscribers.retain(|to| to(hint));
    }

    /// Sends this process's hints to other nodes, for ever.
    pub(crate) async fn notify(self: Arc<Self>, slot: Arc<Slot>) {
        loop {
            self.more.notified().await;
            while !self.send(&slot).await {
                sleep(RECONNECT_DELAY).await;
            }
        }
    }

    /// Sends what other nodes have not been sent. False: that failed, and is kept.
    pub(crate) async fn send(&self, slot: &Slot) -> bool {
        let unsent =
            std::mem::take(&mut *self.unsent.lock().unwrap_or_else(PoisonError::into_inner));
        if unsent.is_empty() {
            return true;
        }
        let hints: Vec<String> = unsent.iter().map(|hint| hint.text()).collect();
        let texts: Vec<String> =
            hints.chunks(IN_ONE).map(|hints| format!("{} {}", self.tag, hints.join(" "))).collect();
        let channel = &slot.connector.address.schema;
        let sent = match slot.get().await {
            Ok(open) => {
                open.query(NOTIFY, &[channel, &texts]).await.map_err(|error| slot.error(&error))
            }
            Err(error) => Err(error),
        };
        let Err(error) = sent else { return true };
        tracing::debug!("hints wait: {error}");
        self.unsent.lock().unwrap_or_else(PoisonError::into_inner).extend(unsent);
        false
    }

    /// Delivers what other nodes notify, for ever. `probes` gets an empty text each time it begins to
    /// listen, and what [`probe`] sends.
    pub(crate) async fn listen(
        self: Arc<Self>,
        connector: Arc<Connector>,
        probes: mpsc::UnboundedSender<String>,
    ) {
        loop {
            let (to, mut notifications) = mpsc::unbounded_channel::<Notification>();
            match listener(&connector, to).await {
                Ok(_open) => {
                    let _ = probes.send(String::new());
                    // it ends with the connection
                    while let Some(notification) = notifications.recv().await {
                        self.receive(notification.payload(), &probes);
                    }
                }
                Err(error) => tracing::debug!("no notifications: {error}"),
            }
            sleep(RECONNECT_DELAY).await;
        }
    }

    fn receive(&self, text: &str, probes: &mpsc::UnboundedSender<String>) {
        if text.starts_with(PROBE) {
            let _ = probes.send(text.to_owned());
        }
        let mut words = text.split(' ');
        if words.next() != Some(&self.tag) {
            words.filter_map(Hint::parse).for_each(|hint| self.deliver(hint));
        }
    }

    /// Reads the last seqs of watched sessions once a second, for ever.
    pub(crate) async fn poll(self: Arc<Self>, slot: Arc<Slot>) {
        let mut ticks = interval(SEQ_POLL_INTERVAL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            let ids = self.watched_ids();
            if ids.is_empty() {
                continue;
            }
            let Ok(open) = slot.get().await else { continue };
            let Ok(rows) = open.query(SEQS, &[&ids]).await else { continue };
            for row in rows {
                let (Ok(id), Ok(found)) = (get(&row, 0), get(&row, 1)) else { continue };
                self.found(session(id), seq(found));
            }
        }
    }

    fn watched_ids(&self) -> Vec<Uuid> {
        let watched = self.watched.lock().unwrap_or_else(PoisonError::into_inner);
        watched.keys().map(|session| uuid(*session)).collect()
    }

    fn found(&self, session: SessionId, seq: Seq) {
        let mut watched = self.watched.lock().unwrap_or_else(PoisonError::into_inner);
        let grown = watched.get_mut(&session).is_some_and(|(_, known)| {
            let grown = *known < seq;
            *known = seq;
            grown
        });
        drop(watched);
        if grown {
            self.deliver(Hint::Grown(session));
        }
    }
}

async fn listener(
    connector: &Connector,
    to: mpsc::UnboundedSender<Notification>,
) -> Result<Open, Error> {
    let open = connector.open(Purpose::Read, Some(to)).await?;
    let listen = format!("listen \"{}\"", connector.address.schema);
    open.run(&listen).await.map_err(|error| diagnosis::statement(&connector.address, &error))?;
    Ok(open)
}

/// Waits until the listener hears what another connection says. A pooler in transaction mode lets that
/// go nowhere.
pub(crate) async fn probe(
    slot: &Slot,
    probes: &mut mpsc::UnboundedReceiver<String>,
) -> Result<(), Error> {
    let text = format!("{PROBE}{:016x}", random());
    let hear = async {
        // it listens
        probes.recv().await?;
        let open = slot.get().await.ok()?;
        open.query(NOTIFY, &[&slot.connector.address.schema, &vec![text.as_str()]]).await.ok()?;
        while probes.recv().await? != text {}
        Some(())
    };
    let heard = timeout(PROBE_TIMEOUT, hear).await.ok().flatten();
    heard.ok_or_else(|| Error::Pooler { server: slot.connector.address.server() })
}

fn random() -> u64 {
    std::hash::BuildHasher::hash_one(&std::hash::RandomState::new(), 0)
}
