use std::path::Path;
use std::sync::{Arc, mpsc};

use leftfold_events::event::EndReason;
use leftfold_events::{Envelope, Payload, Seq, SessionId, Sha256};

use crate::error::Error;
use crate::head::{self, Head, Summary};
use crate::open_store::OpenStore;
use crate::pending::{Append, Content, Done, LogState};
use crate::record::{self, Link, MAX_INLINE, PAYLOADS, Pair, START};
use crate::scan::{Scan, Source};
use crate::{codec, fault, lookup, payloads};

/// The right to append to one session's log. At most one exists for a session. Dropping it releases
/// the right.
#[derive(Debug)]
pub struct Log {
    store: Arc<OpenStore>,
    state: Arc<LogState>,
    head: Seq,
    link: Link,
    summary: Summary,
}

impl Drop for Log {
    fn drop(&mut self) {
        self.store.give_back(self.state.session);
    }
}

/// An append as records, before it is sent to the writer.
#[derive(Default)]
struct Encoded {
    records: Vec<Pair>,
    files: Vec<Content>,
    payloads: Vec<(Sha256, Arc<str>)>,
    seq: Seq,
    link: Link,
    head: Vec<u8>,
    summary: Summary,
}

impl Log {
    pub(crate) fn open(store: &Arc<OpenStore>, session: SessionId) -> Result<Self, Error> {
        if session.to_bytes() == PAYLOADS {
            return Err(Error::Unstorable { session, seq: 0, why: "the id is reserved".into() });
        }
        if !store.take(session) {
            return Err(Error::Taken { session });
        }
        // from here on, dropping `log` releases the session
        let mut log = Self {
            store: Arc::clone(store),
            state: Arc::new(LogState::new(session)),
            head: 0,
            link: START,
            summary: Summary::default(),
        };
        log.find_end()?;
        Ok(log)
    }

    fn find_end(&mut self) -> Result<(), Error> {
        self.settle()?;
        let store = Arc::clone(&self.store);
        let (source, dir) = (source(&store)?, store.dir());
        let head = head::read(dir, self.session()).map_err(|d| Error::damaged(dir, d))?;
        // the head's summary already covers all events up to the head's own
        let (mut scan, counted) = match head {
            Some(mut head) if head.summary.is_some() => {
                self.summary = head.summary.take().unwrap_or_default();
                let counted = head.seq;
                (Scan::tail(source, head), counted)
            }
            head => (Scan::all(source, self.session(), head, 1), 0),
        };
        scan.try_for_each(|entry| {
            let entry = entry.map_err(|wrong| wrong.into_error(dir))?;
            if entry.envelope.seq > counted {
                self.summary.add(&entry.envelope);
            }
            (self.head, self.link) = (entry.envelope.seq, entry.link);
            Ok(())
        })
    }

    /// Waits until the appends of an earlier owner of this log are on the disk.
    fn settle(&self) -> Result<(), Error> {
        let (sender, receiver) = mpsc::channel();
        self.send(Encoded::default(), answer(sender));
        received(&receiver)
    }

    fn send(&self, encoded: Encoded, done: Done) {
        let Encoded { records, files, payloads, head, .. } = encoded;
        let state = Arc::clone(&self.state);
        let append = Append { state, records, files, payloads, head, done };
        if let Err(unsent) = self.store.send(append) {
            let error = Error::Database { what: "the writer has ended".into() };
            self.state.poison(&error);
            (unsent.done)(Err(error));
        }
    }

    pub fn session(&self) -> SessionId {
        self.state.session
    }

    /// Seq of the last event that was handed to the log, durable or not. 0: none.
    pub fn head(&self) -> Seq {
        self.head
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
        if let Err(error) = self.state.check() {
            return done(Err(error));
        }
        if batch.is_empty() {
            return done(Ok(()));
        }
        let encoded = match self.encode(batch) {
            Ok(encoded) => encoded,
            Err(error) => {
                self.state.poison(&error);
                return done(Err(error));
            }
        };
        (self.head, self.link) = (encoded.seq, encoded.link);
        self.summary.clone_from(&encoded.summary);
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
        let (source, dir) = (source(&self.store)?, self.store.dir());
        let head = head::read(dir, self.session()).map_err(|d| Error::damaged(dir, d))?;
        Scan::history(source, self.session(), head, (1, false))
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
        let summary = self.inherited(&batch[0]).unwrap_or_else(|| self.summary.clone());
        let mut encoded = Encoded { summary, ..Encoded::default() };
        for envelope in batch {
            self.in_order(envelope, seq.saturating_add(1))?;
            seq = envelope.seq;
            link = self.encode_one(envelope, &link, &mut encoded)?;
            encoded.summary.add(envelope);
        }
        let at = batch[batch.len() - 1].at;
        let summary = Some(encoded.summary.clone());
        let head = Head { session: self.session(), seq, chain: link, at, summary };
        Ok(Encoded { seq, link, head: head::encode(&head), ..encoded })
    }

    fn in_order(&self, envelope: &Envelope, expected: Seq) -> Result<(), Error> {
        let session = self.session();
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
        let source = source(&self.store)?;
        match lookup::stored_link(source.db, from, at) {
            Ok(Some(link)) => Ok((at, link)),
            Ok(None) => Err(self.unstorable(first, format!("session {from} has no event {at}"))),
            Err(why) => Err(self.unstorable(first, why)),
        }
    }

    /// The summary that a fork starts with: its parent's, but with a cost and turns of its own.
    fn inherited(&self, first: &Envelope) -> Option<Summary> {
        let (from, at) = lookup::forked_from(first).filter(|_| self.head == 0)?;
        let dir = self.store.dir();
        let parent = head::read(dir, from).ok()??.summary?;
        let (ended, fork_number) = (self.ended_at(from, at), head::next_fork(dir, from));
        let (created, is_retitled) = (first.at, false);
        Some(Summary { created, cost: 0.0, turns: 0, ended, fork_number, is_retitled, ..parent })
    }

    /// How the last turn of a session up to `at` ended; `None`: it was open there.
    fn ended_at(&self, session: SessionId, at: Seq) -> Option<EndReason> {
        let source = source(&self.store).ok()?;
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
        Error::Unstorable { session: self.session(), seq: envelope.seq, why: why.into() }
    }

    fn encode_one(&self, event: &Envelope, before: &Link, to: &mut Encoded) -> Result<Link, Error> {
        for payload in event.event.payloads() {
            self.encode_payload(event, payload, to)?;
        }
        let body =
            codec::encode_as(fault::schema(), event).map_err(|why| self.unstorable(event, why))?;
        let key = record::event_key(event.session, event.seq);
        let link = record::link(before, &key, &body);
        push_records(&key, &link, &body, to);
        Ok(link)
    }

    /// Adds the contents unless the store already has them.
    fn encode_payload(
        &self,
        event: &Envelope,
        payload: &Payload,
        to: &mut Encoded,
    ) -> Result<(), Error> {
        let sha256 = payload.sha256();
        let known = |(known, _): &(Sha256, _)| *known == sha256;
        if payloads::is_unset(payload)
            || self.store.cache.get(sha256).is_some()
            || to.payloads.iter().any(known)
        {
            return Ok(());
        }
        if Sha256::of(payload.text().as_bytes()) != sha256 {
            let why = format!("payload {sha256} comes without its contents");
            return Err(self.unstorable(event, why));
        }
        let source = source(&self.store)?;
        let stored = payloads::is_stored(source.db, sha256);
        if !stored.map_err(|what| Error::Database { what })? {
            push_records(&record::payload_key(sha256), &[], payload.text().as_bytes(), to);
        }
        to.payloads.push((sha256, Arc::clone(payload.text())));
        Ok(())
    }
}

/// Encodes contents as records, or as a file and a record that names it.
fn push_records(key: &[u8], lead: &[u8], body: &[u8], to: &mut Encoded) {
    let schema = fault::label();
    if body.len() <= MAX_INLINE {
        to.records.extend(record::to_records(schema, key, lead, body));
    } else {
        let sha256 = Sha256::of(body);
        let length = body.len() as u64;
        to.records.extend(record::to_file_record(schema, key, lead, sha256, length));
        to.files.push(Content { sha256, bytes: Arc::from(body) });
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

fn source(store: &OpenStore) -> Result<Source<'_>, Error> {
    store.source().ok_or_else(|| Error::Database { what: closed(store.dir()) })
}

fn closed(dir: &Path) -> String {
    format!("{} is closed", dir.display())
}
