//! The right to append to one session's log, and the append itself.

use std::collections::HashSet;
use std::sync::{Arc, Weak, mpsc};
use std::time::Instant;

use leftfold_events::event::EndReason;
use leftfold_events::{Envelope, MessageId, Payload, Seq, SessionId, Sha256};

use crate::chain::{self, Link, START};
use crate::engine::{Append, Done, Epoch, Poison, StoredEvent};
use crate::error::Error;
use crate::head::{self, Head, Summary};
use crate::open_store::OpenStore;
use crate::scan::Scan;
use crate::{codec, fault, lookup, payloads};

/// The right to append to one session's log. At most one exists for a session. Dropping it releases
/// the right.
#[derive(Debug)]
pub struct Log {
    store: Arc<OpenStore>,
    session: SessionId,
    epoch: Epoch,
    poison: Arc<Poison>,
    /// The last event of the session's own. `None`: it has none.
    own: Option<Seq>,
    head: Seq,
    link: Link,
    summary: Summary,
    wants: bool,
    /// The messages that the next batch settles.
    settles: Vec<MessageId>,
    /// In a shared store, the contents that this log has named. The engine keeps account of who names what, so it gets
    /// all of them, whatever this process knows to be there.
    named: HashSet<Sha256>,
}

impl Drop for Log {
    fn drop(&mut self) {
        self.store.engine.release(self.session, self.epoch);
    }
}

/// This node's right to a session of a shared store. It does not keep the store open.
#[derive(Clone, Debug)]
pub struct Lease {
    store: Weak<OpenStore>,
    session: SessionId,
    epoch: Epoch,
}

impl Lease {
    /// Until when an effect of the session may begin. `None`: none may. It may ask the database, and wait for it.
    pub fn holds(&self) -> Option<Instant> {
        self.store.upgrade()?.engine.holds(self.session, self.epoch)
    }
}

/// A batch in the form of the engine.
struct Encoded {
    events: Vec<StoredEvent>,
    payloads: Vec<(Sha256, Arc<str>)>,
    head: Head,
}

impl Log {
    pub(crate) fn open(
        store: &Arc<OpenStore>,
        session: SessionId,
        from: Option<SessionId>,
    ) -> Result<Self, Error> {
        let epoch = store.engine.claim(session, from)?;
        // from here on, dropping `log` releases the session
        let mut log = Self {
            store: Arc::clone(store),
            session,
            epoch,
            poison: Arc::new(Poison::new(session)),
            own: None,
            head: 0,
            link: START,
            summary: Summary::default(),
            wants: false,
            settles: Vec::new(),
            named: HashSet::new(),
        };
        log.find_end()?;
        Ok(log)
    }

    fn find_end(&mut self) -> Result<(), Error> {
        let store = Arc::clone(&self.store);
        let (source, dir) = (store.source(), store.dir());
        // the head's summary already covers all events up to the head's own
        let (mut scan, counted) = match store.head(self.session)? {
            Some(mut head) if head.summary.is_some() => {
                self.summary = head.summary.take().unwrap_or_default();
                let counted = head.seq;
                (Scan::tail(source, head), counted)
            }
            head => (Scan::all(source, self.session, head, 1), 0),
        };
        scan.try_for_each(|entry| {
            let entry = entry.map_err(|wrong| wrong.into_error(dir))?;
            if entry.envelope.seq > counted {
                self.summary.add(&entry.envelope);
            }
            (self.head, self.link) = (entry.envelope.seq, entry.link);
            self.own = Some(self.head);
            Ok(())
        })
    }

    fn send(&mut self, encoded: Encoded, done: Done) {
        let Encoded { events, payloads, head } = encoded;
        if self.store.engine.is_shared() {
            self.named.extend(payloads.iter().map(|(sha256, _)| *sha256));
        }
        let append = Append {
            session: self.session,
            epoch: self.epoch,
            expected: self.own.replace(head.seq),
            events,
            payloads: payloads.clone(),
            usage: self.store.usage(&head),
            head: head.encode(),
            wants: self.wants,
            settles: std::mem::take(&mut self.settles),
            done: self.acknowledge(payloads, head, done),
        };
        self.store.engine.append(append);
    }

    /// Notes what became of an append before `done` learns it.
    fn acknowledge(&self, payloads: Vec<(Sha256, Arc<str>)>, head: Head, done: Done) -> Done {
        let poison = Arc::clone(&self.poison);
        let (cache, heads) = (Arc::clone(&self.store.cache), Arc::clone(&self.store.heads));
        Box::new(move |result| {
            match &result {
                Ok(()) => {
                    payloads.into_iter().for_each(|(sha256, text)| cache.insert(sha256, text));
                    heads.put(head);
                }
                Err(error) => poison.set(error),
            }
            done(result);
        })
    }

    pub fn session(&self) -> SessionId {
        self.session
    }

    /// Seq of the last event that was handed to the log, durable or not. 0: none.
    pub fn head(&self) -> Seq {
        self.head
    }

    /// Says whether the session wants a node after the next batch, and after those that follow. At first it does not.
    pub fn set_wants(&mut self, wants: bool) {
        self.wants = wants;
    }

    /// The next batch settles these messages of inboxes.
    pub fn settle(&mut self, messages: Vec<MessageId>) {
        self.settles = messages;
    }

    /// The family of the session, and its epoch.
    pub fn family(&self) -> (SessionId, Epoch) {
        (self.store.engine.family(self.session), self.epoch)
    }

    /// Binds the session's family to a place, if nodes share the store. It waits for the database.
    ///
    /// # Errors
    /// [`Error::Fenced`]: the right to the session is over. [`Error::Engine`]: the database is away.
    pub fn bind(&self, place: &str) -> Result<(), Error> {
        self.store.engine.bind(self.session, self.epoch, place)
    }

    /// This node's right to the session, for whoever performs effects for it. `None`: nobody else can take it.
    pub fn lease(&self) -> Option<Lease> {
        let (store, session, epoch) = (Arc::downgrade(&self.store), self.session, self.epoch);
        self.store.engine.is_shared().then_some(Lease { store, session, epoch })
    }

    /// Hands the batch to the writer and returns without waiting for the disk. `done` runs on the
    /// writer's thread after the batch is durable and its head is written, or after it failed.
    /// `done` must be quick. A batch is in the log entirely or not at all. Batches of one log are
    /// acknowledged in order.
    ///
    /// # Errors
    /// `done` gets them: [`Error::Order`] unless seqs continue from [`head`](Self::head) without a
    /// gap (a fork's first event is `forked{at}` with seq `at + 1`), [`Error::Foreign`],
    /// [`Error::Unstorable`], [`Error::Full`], [`Error::Io`], [`Error::Database`]. After any
    /// failure the log takes no more events ([`Error::Poisoned`]).
    pub fn append(
        &mut self,
        batch: &[Envelope],
        done: impl FnOnce(Result<(), Error>) + Send + 'static,
    ) {
        if let Err(error) = self.poison.check() {
            return done(Err(error));
        }
        if batch.is_empty() {
            return done(Ok(()));
        }
        let encoded = match self.encode(batch) {
            Ok(encoded) => encoded,
            Err(error) => {
                self.poison.set(&error);
                return done(Err(error));
            }
        };
        (self.head, self.link) = (encoded.head.seq, encoded.head.chain);
        self.summary = encoded.head.summary.clone().unwrap_or_default();
        self.send(encoded, Box::new(done));
    }

    /// Calls [`append`](Self::append) and waits for its result.
    ///
    /// # Errors
    /// As for `append`.
    pub fn append_wait(&mut self, batch: &[Envelope]) -> Result<(), Error> {
        let (sender, receiver) = mpsc::channel();
        self.append(batch, answer(sender));
        received(&receiver)
    }

    /// The session's events (for a fork, including the shared ones), verified against checksums,
    /// chain and head, with their payloads' contents.
    ///
    /// # Errors
    /// [`Error::Damaged`] or [`Error::OtherSchema`] at the first event that is not as written.
    pub fn read(&self) -> Result<Vec<Envelope>, Error> {
        let (source, dir) = (self.store.source(), self.store.dir());
        let head = self.store.head(self.session)?;
        Scan::history(source, self.session, head, (1, false))
            .map(|entry| entry.map(|e| e.envelope).map_err(|wrong| wrong.into_error(dir)))
            .collect()
    }

    /// Checks that all of `events` could be appended, one after the other.
    pub(crate) fn check_order(&self, events: &[Envelope]) -> Result<(), Error> {
        let Some(first) = events.first() else { return Ok(()) };
        let (before, _) = self.before(first)?;
        events.iter().zip(before.saturating_add(1)..).try_for_each(|(e, seq)| self.in_order(e, seq))
    }

    fn encode(&self, batch: &[Envelope]) -> Result<Encoded, Error> {
        let (mut seq, mut link) = self.before(&batch[0])?;
        let mut summary = self.inherited(&batch[0]).unwrap_or_else(|| self.summary.clone());
        let (mut events, mut payloads) = (Vec::with_capacity(batch.len()), Vec::new());
        for envelope in batch {
            self.in_order(envelope, seq.saturating_add(1))?;
            for payload in envelope.event.payloads() {
                self.add_payload(envelope, payload, &mut payloads)?;
            }
            let body = codec::encode_as(fault::schema(), envelope)
                .map_err(|why| self.unstorable(envelope, why))?;
            seq = envelope.seq;
            link = chain::link(&link, self.session, seq, &body);
            events.push(StoredEvent { seq, schema: fault::label(), link, body });
            summary.add(envelope);
        }
        let at = batch[batch.len() - 1].at;
        let head = Head { session: self.session, seq, chain: link, at, summary: Some(summary) };
        Ok(Encoded { events, payloads, head })
    }

    fn in_order(&self, envelope: &Envelope, expected: Seq) -> Result<(), Error> {
        let session = self.session;
        if envelope.session != session {
            return Err(Error::Foreign { session, found: envelope.session });
        }
        if envelope.seq != expected {
            return Err(Error::Order { session, expected, found: envelope.seq });
        }
        Ok(())
    }

    /// Seq and link of the event before `first`. For a fork's first event that is an event of its
    /// parent.
    fn before(&self, first: &Envelope) -> Result<(Seq, Link), Error> {
        let forked = lookup::forked_from(first).filter(|_| self.head == 0);
        let Some((from, at)) = forked else { return Ok((self.head, self.link)) };
        match lookup::stored_link(self.store.engine.reader(), from, at) {
            Ok(Some(link)) => Ok((at, link)),
            Ok(None) => Err(self.unstorable(first, format!("session {from} has no event {at}"))),
            Err(fault) => Err(fault.into_error(self.store.dir())),
        }
    }

    /// The summary that a fork starts with: its parent's, but with a cost and turns of its own.
    fn inherited(&self, first: &Envelope) -> Option<Summary> {
        let (from, at) = lookup::forked_from(first).filter(|_| self.head == 0)?;
        let engine = self.store.engine.reader();
        let parent = engine.head(from).ok()??.summary?;
        let heads = self.store.heads().ok()?;
        let (ended, fork_number) = (self.ended_at(from, at), head::next_fork(&heads, from));
        let (created, is_retitled) = (first.at, false);
        Some(Summary {
            created,
            cost: 0.0,
            turns: 0,
            first_prompt: None,
            last_day: 0,
            last_cost: 0.0,
            ended,
            fork_number,
            is_retitled,
            ..parent
        })
    }

    /// How the last turn of a session up to `at` ended; `None`: it was open there.
    fn ended_at(&self, session: SessionId, at: Seq) -> Option<EndReason> {
        let source = self.store.source();
        let mut events = 64;
        loop {
            let from = at.saturating_sub(events).max(1);
            let scan = Scan::history(source, session, None, (from, true));
            let shared = scan.map_while(Result::ok).take_while(|entry| entry.envelope.seq <= at);
            let last = shared.filter_map(|entry| head::turn_boundary(&entry.envelope.event)).last();
            if last.is_some() || from == 1 {
                return last.flatten();
            }
            events = events.saturating_mul(8);
        }
    }

    fn unstorable(&self, envelope: &Envelope, why: impl Into<String>) -> Error {
        Error::Unstorable { session: self.session, seq: envelope.seq, why: why.into() }
    }

    /// Adds the contents unless they are known to be stored, and in a shared store, named by this session.
    fn add_payload(
        &self,
        event: &Envelope,
        payload: &Payload,
        to: &mut Vec<(Sha256, Arc<str>)>,
    ) -> Result<(), Error> {
        let sha256 = payload.sha256();
        let known = |(known, _): &(Sha256, _)| *known == sha256;
        let cached = self.store.cache.get(sha256);
        let is_stored = match self.store.engine.is_shared() {
            true => self.named.contains(&sha256),
            false => cached.is_some(),
        };
        if payloads::is_unset(payload) || is_stored || to.iter().any(known) {
            return Ok(());
        }
        let text = match cached {
            Some(text) => text,
            None if Sha256::digest(payload.text().as_bytes()) == sha256 => {
                Arc::clone(payload.text())
            }
            None => {
                let why = format!("payload {sha256} comes without its contents");
                return Err(self.unstorable(event, why));
            }
        };
        to.push((sha256, text));
        Ok(())
    }
}

fn answer(sender: mpsc::Sender<Result<(), Error>>) -> Done {
    Box::new(move |result| {
        // the receiver lives until the result has come
        let _ = sender.send(result);
    })
}

fn received(receiver: &mpsc::Receiver<Result<(), Error>>) -> Result<(), Error> {
    let gone = |_| Err(Error::Database { what: "the writer has ended".into() });
    receiver.recv().unwrap_or_else(gone)
}
