//! The durable log: an append-only event store. A store holds a *family* of sessions (a root, its children, its
//! forks), or several families. Its bytes are with an [`engine`]; the only one here is [`SledEngine`], a sled
//! database in the store's folder. Nothing outside of this crate knows which files that one has.
//!
//! | item | purpose |
//! |---|---|
//! | [`engine`] | what an engine must do, for a crate that brings another one |
//! | [`Store`] | a node's open store |
//! | [`Log`] | the right to append to one session. At most one exists for a session, and only the Session actor holds it |
//! | [`Store::import`] | another way for events into a store: it adds and checks a whole new log |
//! | [`Store::copy_log`] | copies a whole log from another store, byte for byte |
//! | [`LiveReader`] | reads a store that this process holds open, also while it is written |
//! | [`read`] | reads the first events of one session |
//! | [`Reader`] | reads any store from a private copy, without taking the lock or changing anything |
//! | [`check`] | finds all damage in a store |
//! | [`salvage`] | writes a new store from the readable parts of a damaged one |
//! | [`used`] | what the sessions of a project have used on a day |
//! | [`tidy`] | removes files and records that no event refers to |
//!
//! A folder may also name a database that keeps the logs ([`database_of`]); the program brings the engine.
//!
//! With [`SledEngine`], a store's folder contains sled's own files (`db`, `conf`, `snap.*`, and `blobs/`, which stays
//! empty), `heads/SESSION` (how far each log was acknowledged), `payloads/SHA256` (contents too
//! large for the database), `spill/` (full texts of tool outputs), `wire/` (recorded exchanges with providers) and `closed` (a note that makes
//! the next opening quicker). `imported` notes up to where logs were imported. A node that has the store open also has its `socket` there.
//!
//! A fork is a session of the same store whose first event is `session.forked{from, at}`. It stores
//! only its own events. Their seqs and their chain continue after event `at` of the session `from`,
//! and reading a fork reads the shared events from that session's log.
//!
//! Invariants:
//! - An append is acknowledged after its bytes are on the disk and its head is written. So a log that
//!   ends before its head has lost events, and every command that reads it reports that.
//! - Readers work on copies. They take no lock and change nothing. One way of reading serves all
//!   stores, whether they were closed in good order or not.
//! - A flipped byte is detected or harmless (`tests/it/flips.rs`), and a power cut loses no
//!   acknowledged event (`tests/it/power.rs`). A tear in sled's log that costs no event is no damage.
//! - Only `codec` knows the binary form of an event, and stored schemas decode for ever (golden
//!   files).
//! - Encoding, checksums of the chain, forks, summaries and verification are one code for all engines.
//! - Only `sled_engine` uses sled, except for salvage and tidying, and sled never unwinds into a caller.

mod chain;
mod check;
mod codec;
mod copy_log;
mod database;
pub mod day;
mod durable;
pub mod engine;
mod error;
mod fault;
mod files;
mod forget;
mod head;
mod imported;
mod log;
mod lookup;
mod open_store;
mod payloads;
mod read_ahead;
mod reader;
mod salvage;
mod scan;
mod sled_engine;
mod store;
mod tidy;
pub mod usage;

pub use chain::{Link, SCHEMA};
pub use check::{Report, SpillFault, check, check_tree, full_text};
pub use codec::{decode, encode, encode_as};
pub use copy_log::Copied;
pub use database::{Databases, SocketLock, database_of, name_database, use_databases};
#[cfg(debug_assertions)]
#[doc(hidden)]
pub use durable::synced;
pub use error::{ContentFault, Damage, Error};
pub use files::wire_record;
pub use forget::forget;
pub use head::{Head, Summary};
pub use imported::{Imports, accepted_steps, imported};
pub use log::{Lease, Log};
pub use reader::{Reader, read, visit};
pub use salvage::{Fragment, Rescued, Salvaged, salvage};
pub use sled_engine::{
    SledEngine, StoreStamp, exists, has_begun, has_session, heads, in_use, owner, remove, used,
    written,
};
pub use store::{Inbox, LiveReader, Store, WeakInbox};
pub use tidy::{Tidied, tidy};
