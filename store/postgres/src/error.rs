use std::path::PathBuf;
use std::time::Duration;

use leftfold_events::SessionId;

/// The errors of this crate, for people. Cheap to clone: every append of a failed group gets a copy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    #[error("the URL of the database is not valid: {what}")]
    Url { what: String },
    #[error(
        "{} holds passwords and can be read by others, so it is not used: `chmod 600` it",
        file.display()
    )]
    Passwords { file: PathBuf },
    #[error("the file of certificates {} cannot be used: {why}", file.display())]
    Roots { file: PathBuf, why: String },
    #[error("{server} cannot be reached: {why}; check the host, the port and the network")]
    Unreachable { server: String, why: String },
    #[error(
        "the certificate of {server} is not accepted ({why}): name the host as its certificate \
         does, or the file of its authority with `sslrootcert=FILE`"
    )]
    Certificate { server: String, why: String },
    #[error(
        "{server} does not speak TLS: turn it on there (`ssl = on`), or say `sslmode=disable` if \
         the network in between is your own"
    )]
    NoTls { server: String },
    #[error("{server} does not let user {user} in: {why}; check user and password")]
    Login { server: String, user: String, why: String },
    #[error("{server} has no database {database}: create it with `createdb`, or correct the URL")]
    NoDatabase { server: String, database: String },
    #[error("user {user} lacks a right: {why}; its owner can `grant` it")]
    Rights { user: String, why: String },
    #[error("{server} is PostgreSQL {found}, and 15 or later is needed: upgrade the server")]
    TooOld { server: String, found: String },
    #[error(
        "{server} runs with `{setting} = off`, so a crash would lose acknowledged events: set it to \
         `on` in postgresql.conf and reload the server"
    )]
    Unsafe { server: String, setting: &'static str },
    #[error(
        "{server} only reads (a standby, or `default_transaction_read_only`): name the primary, or \
         all servers (`postgresql://A,B/…`), in the URL"
    )]
    ReadOnly { server: String },
    #[error(
        "the database has no tables of Leftfold in schema {schema}: create them with `leftfold \
         fleet init`"
    )]
    NoSchema { schema: String },
    #[error(
        "the tables in schema {schema} are of version {found}, and this leftfold needs {needed}: \
         run `leftfold fleet init` of this version"
    )]
    OlderSchema { schema: String, found: i32, needed: i32 },
    #[error(
        "the tables in schema {schema} are of version {found}, and this leftfold knows {known}: use \
         a newer leftfold"
    )]
    NewerSchema { schema: String, found: i32, known: i32 },
    #[error(
        "{server} does not keep a connection to one session of the database, as a pooler in transaction mode does: connect \
         to PostgreSQL itself, or let the pooler pool sessions"
    )]
    Pooler { server: String },
    #[error("behind the URL there is another database than before ({found}, not {expected})")]
    OtherDatabase { expected: String, found: String },
    #[error(
        "the disk of the database is full ({what}): make room there; nothing of this append is in \
         the log"
    )]
    Full { what: String },
    #[error(
        "the database did not answer within {} s ({what}): an append may or may not be in the log; \
         look at the server's load, locks and standbys",
        waited.as_secs()
    )]
    Slow { what: String, waited: Duration },
    #[error(
        "{server} takes connections, but did not answer within {} s: look whether PostgreSQL is stuck or overloaded there, \
         or something else listens",
        waited.as_secs()
    )]
    Silent { server: String, waited: Duration },
    #[error(
        "the database gave up waiting for a standby, so an append may be lost with the primary: \
         look at the standbys, then start this node again"
    )]
    Unsynced,
    #[error("session {session} belongs to another node ({node}) whose lease has not run out")]
    Taken {
        session: SessionId,
        node: String,
        /// How long the lease is of a node that does not renew it.
        lease: Duration,
    },
    #[error(
        "session {session} belonged to node {node}, which does not renew its lease; this node waits \
         {} s more before it takes the session, in case only the database was away",
        wait.as_secs() + 1
    )]
    TooEarly { session: SessionId, node: String, wait: Duration },
    #[error("session {session} has another owner or other events ({why}): open it again")]
    Fenced { session: SessionId, why: String },
    #[error("session {session} takes no more events since an append failed ({why}): open it again")]
    Poisoned { session: SessionId, why: String },
    #[error("session {session} cannot take the batch: {why}")]
    Unstorable { session: SessionId, why: String },
    #[error("session {session} has {most} unread messages: try again when its node has read them")]
    InboxFull { session: SessionId, most: i64 },
    #[error("the connection to the database is lost ({why})")]
    Lost { why: String },
    #[error("the database failed: {why}")]
    Failed { why: String },
    #[error("the database knows no node {node}: `leftfold fleet nodes` lists them")]
    NoNode { node: String },
    #[error("several nodes have an id that begins with {node}: say more of it")]
    SeveralNodes { node: String },
    #[error(
        "the lease of node {node} has run out, so there is nothing to drain: other nodes take its sessions over by \
         themselves"
    )]
    DeadNode { node: String },
    #[error("the database has no session {named}: `leftfold sessions` lists them")]
    NoSession { named: String },
    #[error("several sessions have an id that begins with {named}: say more of it")]
    SeveralSessions { named: String },
    #[error(
        "session {session} is bound to no host, but to {place}: each node that has this executor in its settings may \
         go on with it"
    )]
    AtExecutor { session: SessionId, place: String },
    #[error("the engine is closed")]
    Closed,
}

impl Error {
    pub(crate) fn url(what: impl Into<String>) -> Self {
        Self::Url { what: what.into() }
    }

    pub(crate) fn no_thread(error: &std::io::Error) -> Self {
        Self::Failed { why: format!("no thread can be started: {error}") }
    }

    /// Whether the same attempt may succeed on a new connection.
    pub(crate) fn is_passing(&self) -> bool {
        matches!(
            self,
            Self::Lost { .. }
                | Self::Unreachable { .. }
                | Self::ReadOnly { .. }
                | Self::Slow { .. }
                | Self::Silent { .. }
        )
    }
}

/// An error with its causes.
pub(crate) fn full(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text = format!("{text}: {cause_text}");
        }
        source = cause.source();
    }
    text
}
