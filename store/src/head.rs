//! Heads: how far each log was acknowledged, with a summary for lists.
//!
//! A checksum chain cannot show that its end is missing. So an engine keeps the place and link of
//! each session's last acknowledged event. The head is a *lower bound*: a log may be longer than
//! its head (after a crash before the head was written), but never shorter. A missing or empty head
//! is no damage: a crash before the first head leaves a log without one.
//!
//! Layout: `version (1) ‖ session (16) ‖ seq (8) ‖ link (16) ‖ time (8) ‖ length (2) ‖ crc32 (4)`,
//! then `length` bytes of JSON with the summary for lists, and their crc32 (4). Integers are
//! big-endian. The first part lies in one sector, so no crash can tear it; a torn second part is
//! rebuilt from the log.

use leftfold_events::event::{
    Compaction, Cost, EndReason, Model, PromptKind, PromptPart, Session, Turn,
};
use leftfold_events::{Envelope, Event, Seq, SessionId, Time};
use serde::{Deserialize, Serialize};

use crate::chain::{self, Link};
use crate::day::{self, Day};
use crate::fault;

/// The version of the layout. Logs of schema 1 have heads of version 1, later logs of version 2.
const VERSION: u8 = 2;
pub(crate) const FIXED: usize = 55;
/// The length to which a summary cuts texts, in characters.
const MAX_TEXT: usize = 120;

/// The length to which it cuts the session's summary.
const MAX_SUMMARY: usize = 700;

/// The end of a log when its last append was acknowledged.
#[derive(Clone, Debug, PartialEq)]
pub struct Head {
    pub session: SessionId,
    pub seq: Seq,
    /// Link of the checksum chain at `seq`.
    pub chain: Link,
    /// Time of the event at `seq`.
    pub at: Time,
    /// `None` if a crash tore it. The caller can then fold it from the events.
    pub summary: Option<Summary>,
}

impl Head {
    /// The bytes that an engine keeps.
    pub fn encode(&self) -> Vec<u8> {
        // plain data: serialising it to memory cannot fail
        let summary = serde_json::to_vec(&self.summary).unwrap_or_default();
        // only paths can be long; a summary that is too long is left out
        let length = u16::try_from(summary.len()).unwrap_or(0);
        let summary = if length == 0 { &[] } else { summary.as_slice() };
        let mut bytes = Vec::with_capacity(FIXED + summary.len() + 4);
        bytes.push(VERSION.min(fault::label()));
        bytes.extend(self.session.to_bytes());
        bytes.extend(self.seq.to_be_bytes());
        bytes.extend(self.chain);
        bytes.extend(self.at.millis().to_be_bytes());
        bytes.extend(length.to_be_bytes());
        bytes.extend(crc32fast::hash(&bytes).to_be_bytes());
        bytes.extend(summary);
        bytes.extend(crc32fast::hash(summary).to_be_bytes());
        bytes
    }

    /// Reads what [`encode`](Self::encode) wrote. `Ok(None)`: there are no bytes. A crash can leave a
    /// new file so.
    ///
    /// # Errors
    /// The fault of the bytes, for people.
    pub fn decode(bytes: &[u8]) -> Result<Option<Self>, String> {
        if bytes.is_empty() {
            return Ok(None);
        }
        let Some((fixed, rest)) = bytes.split_at_checked(FIXED) else {
            return Err(format!("the head has {} of its {FIXED} bytes", bytes.len()));
        };
        if fixed[0] > VERSION {
            return Err(format!("head version {} is newer: use a newer leftfold", fixed[0]));
        }
        if fixed[0] == 0 || crc32fast::hash(&fixed[..51]).to_be_bytes() != fixed[51..] {
            return Err("the head's checksum does not match".into());
        }
        if fixed[0] < VERSION {
            return Err(chain::other_schema(fixed[0]));
        }
        let mut fields = Fields(&fixed[1..]);
        let head = Self {
            session: SessionId::from_bytes(fields.take()),
            seq: Seq::from_be_bytes(fields.take()),
            chain: fields.take(),
            at: Time::from_millis(u64::from_be_bytes(fields.take())),
            summary: None,
        };
        let length = usize::from(u16::from_be_bytes(fields.take()));
        Ok(Some(Self { summary: summary(rest, length), ..head }))
    }
}

/// The data for lists of sessions, so that a list opens no log. It is derived from the events.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Summary {
    pub created: Time,
    pub directory: String,
    pub worktree: String,
    pub parent: Option<SessionId>,
    /// The session that this one was forked from.
    pub fork_of: Option<SessionId>,
    /// For a fork: its number among the forks of the same original session, from 1.
    pub fork_number: u32,
    /// Whether a fork has got a title of its own.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub is_retitled: bool,
    pub agent: String,
    pub title: Option<String>,
    /// A model's summary of the session; `None` if there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub summary: Option<String>,
    /// When a client has put the session away.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub archived: Option<Time>,
    /// Beginning of the first prompt's text.
    pub prompt: Option<String>,
    pub turns: u32,
    /// Cost of the session's own requests, in US dollars.
    pub cost: Cost,
    /// The day of the session's own first prompt. `None` also if an earlier version has written it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first_prompt: Option<Day>,
    /// The day of the last event.
    pub last_day: Day,
    /// Cost of the session's own requests on that day.
    pub last_cost: Cost,
    /// How the last turn ended, in a fork also a shared one; `None` while a turn is open.
    pub ended: Option<EndReason>,
}

impl Summary {
    /// Updates the summary with one more event.
    pub fn add(&mut self, envelope: &Envelope) {
        if self.created == Time::default() {
            self.created = envelope.at;
        }
        let day = day::day_of(envelope.at);
        if day != self.last_day {
            (self.last_day, self.last_cost) = (day, 0.0);
        }
        if let Some(ended) = turn_boundary(&envelope.event) {
            self.ended = ended;
        }
        if let Event::Session(event) = &envelope.event {
            self.add_session(event);
        } else if let Event::Turn(Turn::Prompted { parts, agent, .. }) = &envelope.event {
            if !self.has_begun() {
                self.first_prompt = Some(day);
            }
            self.agent.clone_from(agent);
            self.prompt = self.prompt.take().or_else(|| first_text(parts));
        } else if let Event::Turn(Turn::Switched { agent, .. }) = &envelope.event {
            self.agent.clone_from(agent);
        } else if let Event::Turn(Turn::Ended(_)) = &envelope.event {
            self.turns = self.turns.saturating_add(1);
        } else if let Event::Model(Model::Finished { cost, .. }) = &envelope.event {
            self.cost += cost;
            self.last_cost += cost;
        }
    }

    /// Whether the session has had a prompt of its own. A fork also has the first text of its origin.
    pub(crate) fn has_begun(&self) -> bool {
        let has_text = self.prompt.is_some() && self.fork_of.is_none();
        self.first_prompt.is_some() || self.turns > 0 || has_text
    }

    fn add_session(&mut self, event: &Session) {
        match event {
            Session::Created { directory, worktree, parent, agent, .. } => {
                self.directory.clone_from(directory);
                self.worktree.clone_from(worktree);
                self.parent = *parent;
                self.agent.clone_from(agent);
            }
            Session::Titled { title } => {
                self.title = Some(start_of(title));
                self.is_retitled = self.fork_of.is_some();
            }
            Session::Summarised { summary } => {
                self.summary = Some(summary.chars().take(MAX_SUMMARY).collect());
            }
            Session::Forked { from, .. } => {
                (self.fork_of, self.parent, self.archived) = (Some(*from), None, None);
            }
            Session::Archived { archived, .. } => self.archived = *archived,
            Session::Adopted { parent } => self.parent = Some(*parent),
            _ => {}
        }
    }
}

/// How a turn ends with this event; `Some(None)`: with this event a turn is open.
pub(crate) fn turn_boundary(event: &Event) -> Option<Option<EndReason>> {
    if let Event::Turn(Turn::Ended(ended)) = event {
        Some(Some(ended.reason))
    } else if let Event::Turn(Turn::Prompted { .. })
    | Event::Compaction(Compaction::Asked { .. } | Compaction::AskedWith { .. }) = event
    {
        Some(None)
    } else {
        None
    }
}

/// The number of the next fork of `of`: forks of forks count as forks of the original session.
pub(crate) fn next_fork(heads: &[Head], of: SessionId) -> u32 {
    let fork_of = |session| {
        let head = heads.iter().find(|head| head.session == session)?;
        head.summary.as_ref()?.fork_of
    };
    // a cycle of forks exists only in a damaged store
    let original = |session: SessionId| {
        let line = std::iter::successors(Some(session), |session| fork_of(*session));
        line.take(heads.len() + 1).last().unwrap_or(session)
    };
    let family = original(of);
    let forks = heads.iter().filter(|head| original(head.session) == family);
    let numbers = forks.filter_map(|head| Some(head.summary.as_ref()?.fork_number));
    numbers.max().unwrap_or_default().saturating_add(1)
}

fn first_text(parts: &[PromptPart]) -> Option<String> {
    parts.iter().find(|part| part.kind == PromptKind::Text).map(|part| start_of(&part.text))
}

fn start_of(text: &str) -> String {
    text.chars().take(MAX_TEXT).collect()
}

struct Fields<'a>(&'a [u8]);

impl Fields<'_> {
    /// The next field. Past the end of the input its bytes are zero.
    fn take<const N: usize>(&mut self) -> [u8; N] {
        let (field, rest) = self.0.split_at(N.min(self.0.len()));
        self.0 = rest;
        field.try_into().unwrap_or([0; N])
    }
}

fn summary(rest: &[u8], length: usize) -> Option<Summary> {
    let (json, crc) = (rest.get(..length)?, rest.get(length..length + 4)?);
    (crc32fast::hash(json).to_be_bytes() == crc).then_some(())?;
    serde_json::from_slice(json).ok()?
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head() -> Head {
        let session = SessionId::default().child(1, Time::from_millis(5));
        let summary = Summary { title: Some("A title".into()), ..Summary::default() };
        Head { session, seq: 9, chain: [3; 16], at: Time::from_millis(7), summary: Some(summary) }
    }

    #[test]
    fn round_trips_over_a_longer_one() {
        let mut bytes = head().encode();
        bytes.extend(b"left over from a longer head");
        assert_eq!(Head::decode(&bytes), Ok(Some(head())));
        assert_eq!(Head::decode(&[]), Ok(None));
    }

    #[test]
    fn a_flipped_bit_is_found_or_costs_only_the_summary() {
        let good = head().encode();
        for byte in 0..good.len() {
            let mut bytes = good.clone();
            bytes[byte] ^= 4;
            if byte < FIXED {
                assert!(Head::decode(&bytes).is_err(), "byte {byte}");
            } else {
                assert_eq!(Head::decode(&bytes), Ok(Some(Head { summary: None, ..head() })));
            }
        }
        for length in 1..FIXED {
            assert!(Head::decode(&good[..length]).is_err());
        }
    }
}
