//! The engine of a shared event store on PostgreSQL 15 or later, for many nodes that can take over each other's sessions:
//! appends, claims with leases, and the inbox.
//!
//! | item | purpose |
//! |---|---|
//! | [`Address`] | the URL of a database, without ever showing its password |
//! | [`migrate`] | creates the tables or brings them up to date |
//! | [`Postgres`] | a node: claims sessions, appends to their logs |
//! | [`PostgresReader`] | reads any log, of a standby too |
//! | [`Operator`] | asks nodes to leave, moves sessions to other hosts, removes old ones |
//! | [`PostgresEngine`] | the same as an engine of a store, for `leftfold_store::Store` |
//! | [`Databases`] | opens that engine for stores whose folder names a database |
//! | [`Hint`], [`Watch`] | wake-ups when a log has grown |
//! | [`Metrics`] | counts of a node's appends, commits and lease |
//!
//! ```no_run
//! # fn main() -> Result<(), leftfold_postgres::Error> {
//! use leftfold_postgres::{Address, Append, End, Options, Postgres, migrate};
//! use leftfold_store::engine::StoredEvent;
//!
//! let address = Address::parse("postgresql://ann@db.example/logs")?;
//! migrate(&address)?;
//! let node = Postgres::open(&address, Options::default())?;
//! let session = leftfold_events::SessionId::default();
//! let claim = node.claim(session)?;
//! let (sender, receiver) = std::sync::mpsc::channel();
//! node.append(Append {
//!     session,
//!     epoch: claim.epoch,
//!     expected: End::default(),
//!     events: vec![StoredEvent { seq: 1, schema: 3, link: [7; 16], body: b"encoded".to_vec() }],
//!     payloads: Vec::new(),
//!     head: Vec::new(),
//!     usage: None,
//!     wants: false,
//!     settles: Vec::new(),
//!     done: Box::new(move |result| drop(sender.send(result))),
//! });
//! assert_eq!(receiver.recv(), Ok(Ok(())));
//! assert_eq!(node.reader().events(session, 1, 1 << 20)?.events.len(), 1);
//! # Ok(()) }
//! ```
//!
//! The crate knows encoded events, not what is in them. It is synchronous with callbacks; everything
//! happens on one thread of its own. A node holds five connections: two for appends, one each for
//! reads, for claims and its lease, and for notifications.
//!
//! Invariants:
//! - An append is acknowledged after its commit, which waits for the disk and for the standbys that the
//!   server is set up to wait for. The engine sets `synchronous_commit` itself, and refuses servers
//!   with `fsync` or `full_page_writes` off. If the server gives up waiting for a standby, the engine
//!   takes no more appends.
//! - An append changes a log only if the log ends where the append expects it to, in seq and link, and
//!   only in the epoch of the last claim. Batch, contents, head and inbox change together or not at all.
//! - An append whose connection was lost is never repeated blindly: see `append`.
//! - A session belongs to one node at a time; see `ownership`.
//! - Nothing that this crate says contains a password.
//!
//! Chosen, and why:
//! - `NOTIFY` follows the commit in a statement of its own. Within it, it would take a lock that only
//!   one commit of the database has at a time.
//! - Nodes take over from each other only after a whole undisturbed lease of their own, instead of after
//!   some time since a failover: what a failover is, only the server's operator knows, and the effect
//!   (nobody could renew) is the same when the network fails.
//! - A lost commit is looked up with a lock, so that a commit under way is waited for, and what the look
//!   saw is as durable as an answer.
//! - Sessions outside the months that have partitions go to one for all, so an append never fails for
//!   want of a partition or of the right to make one.
//!
//! Limits: what readers see has reached the primary's disk and normally the standbys; after a crash of
//! the primary they may see a commit that no standby has. CockroachDB and YugabyteDB speak the
//! protocol but are untested.

mod address;
mod append;
mod batch;
mod columns;
mod connection;
mod databases;
mod diagnosis;
mod engine;
mod error;
mod hints;
mod inspect;
mod metrics;
mod migrate;
mod operate;
mod ownership;
mod places;
mod read;
mod retention;
mod schema;
mod store_engine;

pub use address::Address;
pub use append::{Append, Done, End};
pub use batch::Fault;
pub use databases::Databases;
pub use engine::{Options, Postgres, PostgresReader, Watch};
pub use error::Error;
pub use hints::Hint;
pub use inspect::{NodeStatus, Server, Status};
pub use metrics::{Counts, Distribution, Metrics};
pub use migrate::migrate;
pub use operate::{Draining, Moved, Operator};
pub use ownership::{Claim, MAX_MESSAGES};
pub use places::FurtherPlaces;
pub use read::{Head, Page};
pub use retention::Removed;
pub use store_engine::PostgresEngine;
