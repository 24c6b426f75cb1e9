//! Connections: opening them, checking what is at the other end, and opening them again.

use std::collections::HashMap;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use rustls::RootCertStore;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls_platform_verifier::BuilderVerifierExt;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::mpsc::UnboundedSender;
use tokio::task::AbortHandle;
use tokio::time::{Instant, sleep, timeout};
use tokio_postgres::error::Severity;
use tokio_postgres::types::ToSql;
use tokio_postgres::{
    AsyncMessage, Client, Config, Connection, NoTls, Notification, Row, Statement,
};
use tokio_postgres_rustls::MakeRustlsConnect;

use crate::address::Address;
use crate::columns::get;
use crate::diagnosis;
use crate::error::{Error, full};
use crate::schema;

const OLDEST_SERVER: i32 = 150_000;
/// How long opening a connection may take.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(30);
/// How long each of several hosts may take to let the client in, before the next one is tried.
const LOGIN_TIMEOUT: Duration = Duration::from_secs(8);
/// How long an answer may take, except to an append. The server itself gives a statement up after 30 s.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(35);
const FIRST_RETRY_DELAY: Duration = Duration::from_millis(20);
const MAX_RETRY_DELAY: Duration = Duration::from_secs(1);

/// Settings of every connection. The search path keeps tables of others out of our statements.
const SETUP: &str = "select set_config('search_path', $1, false), \
     set_config('synchronous_commit', \
        case current_setting('synchronous_commit') when 'remote_apply' then 'remote_apply' else 'on' end, \
        false), \
     set_config('statement_timeout', $2, false), set_config('lock_timeout', '0', false), \
     set_config('idle_in_transaction_session_timeout', '30s', false), \
     set_config('default_transaction_isolation', 'read committed', false), \
     set_config('jit', 'off', false), set_config('enable_seqscan', $3, false), \
     set_config('enable_hashjoin', $3, false), set_config('enable_mergejoin', $3, false), \
     set_config('plan_cache_mode', $4, false)";

const LOOK: &str = "select current_setting('server_version_num')::int, current_setting('server_version'), \
     current_setting('fsync'), current_setting('full_page_writes'), \
     pg_is_in_recovery() or current_setting('transaction_read_only') = 'on', \
     (select system_identifier from pg_control_system())::text || '/' || current_database() || '/' || $1, \
     (select has_schema_privilege(oid, 'usage') from pg_namespace where nspname = $1)";

/// The purpose of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// Creating the tables: they may be missing.
    Migrate,
    Read,
    /// Claims, leases, notifications.
    Control,
    /// Appends. They wait as long as the database needs, because nobody knows what became of an
    /// append that was given up.
    Append,
}

/// Opens connections to one database.
pub(crate) struct Connector {
    pub(crate) address: Address,
    tls: Option<MakeRustlsConnect>,
    /// The identity of the database when it was first connected to.
    identity: OnceLock<String>,
}

impl Connector {
    pub(crate) fn new(address: Address) -> Result<Self, Error> {
        let tls = if address.encrypted { Some(tls(&address)?) } else { None };
        Ok(Self { address, tls, identity: OnceLock::new() })
    }

    pub(crate) fn identity(&self) -> String {
        self.identity.get().cloned().unwrap_or_default()
    }

    /// A connection that is ready for its purpose. `notifications` get what it is told.
    pub(crate) async fn open(
        &self,
        purpose: Purpose,
        notifications: Option<UnboundedSender<Notification>>,
    ) -> Result<Open, Error> {
        let opening = async {
            let open = self.connect(purpose, notifications).await?;
            // first, as a time limit of the user or the database holds until then
            self.set_up(&open, purpose).await?;
            self.look(&open, purpose).await?;
            if purpose != Purpose::Migrate {
                schema::check(&self.address.schema, self.version(&open).await?)?;
            }
            Ok(open)
        };
        // some servers accept connections and then say nothing
        let opened = timeout(CONNECT_TIMEOUT, opening).await;
        opened
            .map_err(|_| Error::Silent { server: self.address.server(), waited: CONNECT_TIMEOUT })?
    }

    async fn connect(
        &self,
        purpose: Purpose,
        notifications: Option<UnboundedSender<Notification>>,
    ) -> Result<Open, Error> {
        let hosts = self.address.hosts();
        let limit = if hosts.len() > 1 { LOGIN_TIMEOUT } else { CONNECT_TIMEOUT };
        let mut result = Err(Error::Silent { server: self.address.server(), waited: limit });
        for host in hosts {
            match timeout(limit, self.connect_to(&host, purpose, notifications.clone())).await {
                Ok(Ok(open)) => return Ok(open),
                Ok(Err(error)) => result = Err(error),
                Err(_) => tracing::warn!("a server of {} does not answer", self.address.server()),
            }
        }
        result
    }

    async fn connect_to(
        &self,
        config: &Config,
        purpose: Purpose,
        notifications: Option<UnboundedSender<Notification>>,
    ) -> Result<Open, Error> {
        let unsynced = Arc::new(AtomicBool::new(false));
        let failed = |error| diagnosis::connecting(&self.address, &error);
        let (client, driver) = match &self.tls {
            Some(tls) => {
                let (client, connection) = config.connect(tls.clone()).await.map_err(failed)?;
                (client, tokio::spawn(drive(connection, notifications, Arc::clone(&unsynced))))
            }
            None => {
                let (client, connection) = config.connect(NoTls).await.map_err(failed)?;
                (client, tokio::spawn(drive(connection, notifications, Arc::clone(&unsynced))))
            }
        };
        let limit = (purpose != Purpose::Append).then_some(ANSWER_TIMEOUT);
        let driver = driver.abort_handle();
        Ok(Open { client, driver, limit, statements: Mutex::default(), unsynced })
    }

    /// The version of the tables; 0 without them.
    pub(crate) async fn version(&self, open: &Open) -> Result<i32, Error> {
        let rows = open.once("select coalesce(max(number), 0) from version", &[]).await;
        let rows = rows.map_err(|error| diagnosis::statement(&self.address, &error))?;
        rows.first().map_or(Ok(0), |row| get(row, 0))
    }

    async fn look(&self, open: &Open, purpose: Purpose) -> Result<(), Error> {
        let server = || self.address.server();
        let rows = open.once(LOOK, &[&self.address.schema]).await;
        let rows = rows.map_err(|error| diagnosis::statement(&self.address, &error))?;
        let Some(row) = rows.first() else { return Ok(()) };
        if get::<i32>(row, 0)? < OLDEST_SERVER {
            return Err(Error::TooOld { server: server(), found: get(row, 1)? });
        }
        for (place, setting) in [(2, "fsync"), (3, "full_page_writes")] {
            if get::<String>(row, place)? != "on" {
                return Err(Error::Unsafe { server: server(), setting });
            }
        }
        if purpose != Purpose::Read && get(row, 4)? {
            return Err(Error::ReadOnly { server: server() });
        }
        let found: String = get(row, 5)?;
        let expected = self.identity.get_or_init(|| found.clone());
        if *expected != found {
            return Err(Error::OtherDatabase { expected: expected.clone(), found });
        }
        // without it, tables that are there look as if they were not
        if get::<Option<bool>>(row, 6)? == Some(false) {
            let schema = &self.address.schema;
            let why = format!("usage of schema {schema}, where the tables are");
            return Err(Error::Rights { user: self.address.user().to_owned(), why });
        }
        Ok(())
    }

    async fn set_up(&self, open: &Open, purpose: Purpose) -> Result<(), Error> {
        let timeout = if purpose == Purpose::Append { "0" } else { "30s" };
        // an append finds its rows by their keys, however small the tables were when it was planned
        let (scans, plans) = match purpose {
            Purpose::Append => ("off", "force_generic_plan"),
            Purpose::Migrate | Purpose::Read | Purpose::Control => ("on", "auto"),
        };
        let path = format!("\"{}\"", self.address.schema);
        let set = open.once(SETUP, &[&path, &timeout, &scans, &plans]).await;
        set.map_err(|error| diagnosis::statement(&self.address, &error))?;
        Ok(())
    }
}

fn tls(address: &Address) -> Result<MakeRustlsConnect, Error> {
    let failed = |error: rustls::Error| Error::Failed { why: full(&error) };
    let ring = Arc::new(rustls::crypto::ring::default_provider());
    let builder = rustls::ClientConfig::builder_with_provider(ring)
        .with_safe_default_protocol_versions()
        .map_err(failed)?;
    let config = match &address.roots {
        None => builder.with_platform_verifier().map_err(failed)?.with_no_client_auth(),
        Some(file) => {
            let unusable = |why: String| Error::Roots { file: file.clone(), why };
            let mut roots = RootCertStore::empty();
            let found = CertificateDer::pem_file_iter(file).map_err(|e| unusable(full(&e)))?;
            for certificate in found {
                let certificate = certificate.map_err(|e| unusable(full(&e)))?;
                roots.add(certificate).map_err(|e| unusable(full(&e)))?;
            }
            if roots.is_empty() {
                return Err(unusable("it holds no certificate".into()));
            }
            builder.with_root_certificates(roots).with_no_client_auth()
        }
    };
    Ok(MakeRustlsConnect::new(config))
}

/// Moves the bytes of a connection until it ends.
async fn drive<S, T>(
    mut connection: Connection<S, T>,
    notifications: Option<UnboundedSender<Notification>>,
    unsynced: Arc<AtomicBool>,
) where
    S: AsyncRead + AsyncWrite + Unpin,
    T: AsyncRead + AsyncWrite + Unpin,
{
    while let Some(message) = std::future::poll_fn(|cx| connection.poll_message(cx)).await {
        match message {
            // it comes before the answer to the commit that it is about
            Ok(AsyncMessage::Notice(notice)) => {
                if notice.routine() == Some("SyncRepWaitForLSN") {
                    unsynced.store(true, Ordering::Release);
                }
                if notice.parsed_severity() == Some(Severity::Warning) {
                    tracing::warn!("the database warns: {}", notice.message());
                }
            }
            Ok(AsyncMessage::Notification(notification)) => {
                if let Some(to) = &notifications {
                    let _ = to.send(notification);
                }
            }
            Ok(_) => {}
            Err(error) => {
                tracing::debug!("a connection to the database ended: {}", full(&error));
                break;
            }
        }
    }
}

/// An open connection.
pub(crate) struct Open {
    client: Client,
    /// Ends the connection: what waits for an answer then fails.
    driver: AbortHandle,
    /// How long an answer may take.
    limit: Option<Duration>,
    statements: Mutex<HashMap<&'static str, Statement>>,
    unsynced: Arc<AtomicBool>,
}

type Parameters<'a> = [&'a (dyn ToSql + Sync)];

impl Open {
    /// Runs a statement that this connection runs often.
    pub(crate) async fn query(
        &self,
        sql: &'static str,
        parameters: &Parameters<'_>,
    ) -> Result<Vec<Row>, tokio_postgres::Error> {
        let known = self.statements().get(sql).cloned();
        let statement = match known {
            Some(statement) => statement,
            None => {
                let statement = self.answer(self.client.prepare(sql)).await?;
                self.statements().insert(sql, statement.clone());
                statement
            }
        };
        self.answer(self.client.query(&statement, parameters)).await
    }

    /// Runs a statement once.
    pub(crate) async fn once(
        &self,
        sql: &str,
        parameters: &Parameters<'_>,
    ) -> Result<Vec<Row>, tokio_postgres::Error> {
        self.answer(self.client.query(sql, parameters)).await
    }

    /// Runs statements without parameters.
    pub(crate) async fn run(&self, sql: &str) -> Result<(), tokio_postgres::Error> {
        self.answer(self.client.batch_execute(sql)).await
    }

    /// Waits for an answer. A server that stands still would otherwise hold its clients for ever.
    async fn answer<T>(
        &self,
        answer: impl Future<Output = Result<T, tokio_postgres::Error>>,
    ) -> Result<T, tokio_postgres::Error> {
        let mut answer = pin!(answer);
        if let Some(limit) = self.limit {
            if let Ok(answer) = timeout(limit, &mut answer).await {
                return answer;
            }
            tracing::warn!("the database has not answered for {} s", limit.as_secs());
            self.driver.abort();
        }
        answer.await
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.client.is_closed()
    }

    /// Whether a commit on this connection was confirmed without the standby that it waited for.
    pub(crate) fn is_unsynced(&self) -> bool {
        self.unsynced.load(Ordering::Acquire)
    }

    fn statements(&self) -> std::sync::MutexGuard<'_, HashMap<&'static str, Statement>> {
        self.statements.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A connection that is opened when it is needed and again after it was lost.
pub(crate) struct Slot {
    pub(crate) connector: Arc<Connector>,
    purpose: Purpose,
    open: tokio::sync::Mutex<Option<Arc<Open>>>,
}

impl Slot {
    pub(crate) fn new(connector: &Arc<Connector>, purpose: Purpose) -> Self {
        Self { connector: Arc::clone(connector), purpose, open: tokio::sync::Mutex::default() }
    }

    /// One attempt.
    pub(crate) async fn get(&self) -> Result<Arc<Open>, Error> {
        let mut open = self.open.lock().await;
        if let Some(open) = open.as_ref().filter(|open| !open.is_closed()) {
            return Ok(Arc::clone(open));
        }
        let new = Arc::new(self.connector.open(self.purpose, None).await?);
        *open = Some(Arc::clone(&new));
        Ok(new)
    }

    /// Gives the connection up: what is under way on it counts as lost.
    pub(crate) async fn close(&self) {
        *self.open.lock().await = None;
    }

    /// The error of a statement.
    pub(crate) fn error(&self, error: &tokio_postgres::Error) -> Error {
        diagnosis::statement(&self.connector.address, error)
    }
}

/// Attempts at something that is harmless to repeat, with pauses that become longer.
pub(crate) struct Attempts {
    pause: Duration,
    end: Instant,
}

impl Attempts {
    pub(crate) fn until(end: Instant) -> Self {
        Self { pause: FIRST_RETRY_DELAY, end }
    }

    /// `None`: try again.
    pub(crate) async fn take<T>(&mut self, result: Result<T, Error>) -> Option<Result<T, Error>> {
        match result {
            Err(error) if error.is_passing() && self.wait().await => {
                tracing::debug!("the database is tried again: {error}");
                None
            }
            result => Some(result),
        }
    }

    /// `false`: there is no time left.
    pub(crate) async fn wait(&mut self) -> bool {
        if Instant::now() + self.pause > self.end {
            return false;
        }
        sleep(self.pause).await;
        self.pause = (self.pause * 2).min(MAX_RETRY_DELAY);
        true
    }
}
