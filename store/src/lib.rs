//! The durable log: one sled database in a folder holds a *family* of sessions (a root, its
//! children, its forks), or any number of families.
//!
//! | type | is |
//! |---|---|
//! | [`Store`] | the node's hold on a folder: sled's lock, one writer thread, one flush for all who wait |
//! | [`Log`] | the right to append to one session; there is never more than one, and only the actor Session has it |
//! | [`Store::import`] | the one other way for events into a store: a whole log that is not there yet, checked |
//! | [`LiveReader`] | reads an open store, also while it is written |
//! | [`read`] | the first events of one session, and nothing else |
//! | [`Reader`] | everybody else: works on a private copy, takes no lock, changes nothing |
//! | [`check`] | everything that can be wrong with a folder |
//! | [`salvage`] | a new store from what can still be read of a damaged one |
//! | [`tidy`] | removes what nothing in a store refers to |
//!
//! What stands in a store's folder: sled's own files (`db`, `conf`, `snap.*`, and `blobs/`, which
//! stays empty), `heads/SESSION` (how far each log is known to reach), `payloads/SHA256` (contents
//! too large for the database) and `closed` (a note that makes the next opening quicker).
//!
//! Invariant: an append is acknowledged after its bytes are on the disk and its head is written,
//! so a log that ends before its head has lost events, and is never taken for a shorter log.
//! Invariant: only `codec` knows the binary form of an event, only `database` opens sled, and sled
//! never unwinds into a caller.

mod check;
mod codec;
mod database;
mod durable;
mod error;
mod fault;
mod files;
mod forget;
mod frames;
mod head;
mod log;
mod lookup;
mod open_store;
mod payloads;
mod pending;
mod probe;
mod reader;
mod record;
mod room;
mod salvage;
mod scan;
mod store;
mod tidy;
mod writer;

pub use check::{Report, SpillFault, check};
pub use codec::{decode, encode};
#[cfg(debug_assertions)]
#[doc(hidden)]
pub use durable::synced;
pub use error::{Damage, Error};
pub use forget::forget;
pub use head::{Head, Summary, heads};
pub use log::Log;
pub use probe::{in_use, remove};
pub use reader::{Reader, read};
pub use record::{Link, SCHEMA};
pub use salvage::{Fragment, Rescued, Salvaged, salvage};
pub use store::{LiveReader, Store};
pub use tidy::{Tidied, tidy};
