//! Where a database is, and how to get in: the URL, and passwords from elsewhere.

use std::fmt;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use percent_encoding::percent_decode_str;
use tokio_postgres::Config;
use tokio_postgres::config::{Host, LoadBalanceHosts, SslMode, TargetSessionAttrs};

use crate::error::{Error, full};

const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(5);
/// How long sent bytes may wait for the other side before the connection counts as lost.
const UNACKNOWLEDGED_TIMEOUT: Duration = Duration::from_secs(10);

/// The URL of a database: `postgresql://USER@HOST:PORT/DATABASE?schema=NAME`. It takes the parameters
/// of PostgreSQL's own clients, `schema` (otherwise `leftfold`), in which the tables are, and `lease`.
///
/// `sslmode` differs from these clients, because most of their modes do not keep anybody out:
///
/// | `sslmode` | connection |
/// |---|---|
/// | absent | plain through a socket of the file system and to this machine, otherwise as `verify-full` |
/// | `verify-full`, `verify-ca`, `require` | TLS; certificate and host name are checked |
/// | `disable` | plain |
/// | `prefer`, `allow` | refused |
///
/// `sslrootcert` names a file with the certificates to trust instead of the system's.
///
/// `lease` is how many seconds the sessions of a node stay its own after it was last heard of, from 1 to 3600 (otherwise
/// 15).
///
/// A password comes from the URL, otherwise from `PGPASSWORD`, otherwise from `~/.pgpass` (or the file
/// that `PGPASSFILE` names). Neither `Display` nor `Debug` show it.
#[derive(Clone)]
pub struct Address {
    pub(crate) config: Config,
    pub(crate) encrypted: bool,
    pub(crate) roots: Option<PathBuf>,
    pub(crate) schema: String,
    /// How long the sessions of a node stay its own after it was last heard of.
    pub(crate) lease: Option<Duration>,
    /// The URL without a password.
    text: String,
}

impl Address {
    /// # Errors
    /// [`Error::Url`]; [`Error::Passwords`] if the file of passwords can be read by others.
    pub fn parse(url: &str) -> Result<Self, Error> {
        Self::with_passwords(url, &Passwords::of_user())
    }

    fn with_passwords(url: &str, passwords: &Passwords) -> Result<Self, Error> {
        let text = clean(url);
        let (url, own) = take_own_parameters(url)?;
        // the parser's errors name parameters, but no values
        let mut config: Config = url.parse().map_err(|error| Error::url(full(&error)))?;
        let [host, ..] = config.get_hosts() else {
            return Err(Error::url("it names no host"));
        };
        let is_near = config.get_hosts().iter().all(is_near);
        let encrypted = match own.mode.as_deref() {
            None => !is_near,
            Some("disable") => false,
            Some("require" | "verify-ca" | "verify-full") => true,
            Some("prefer" | "allow") => {
                let what = "`sslmode=prefer` protects from nobody: say `verify-full`, or `disable`";
                return Err(Error::url(what));
            }
            Some(_) => return Err(Error::url("`sslmode` is `verify-full` or `disable`")),
        };
        if encrypted && matches!(host, Host::Unix(_)) {
            return Err(Error::url("a socket of the file system has no TLS: leave `sslmode` out"));
        }
        config.ssl_mode(if encrypted { SslMode::Require } else { SslMode::Disable });
        if config.get_password().is_none()
            && let Some(password) = passwords.find(&config)?
        {
            config.password(password);
        }
        if config.get_hosts().len() > 1 {
            // a standby refuses at once, and the next host is tried
            config.target_session_attrs(TargetSessionAttrs::ReadWrite);
        }
        limit(&mut config);
        if config.get_application_name().is_none() {
            config.application_name("leftfold");
        }
        let schema = own.schema.unwrap_or_else(|| "leftfold".into());
        if !is_identifier(&schema) {
            let what =
                "`schema` is up to 63 lower-case letters, digits and underscores, no digit first";
            return Err(Error::url(what));
        }
        let lease = own.lease.as_deref().map(lease).transpose()?;
        Ok(Self { config, encrypted, roots: own.roots, schema, lease, text })
    }

    /// A URL of the same database for the same user, without a password.
    pub fn without_password(&self) -> String {
        self.text.clone()
    }

    /// The schema of the tables.
    pub fn schema(&self) -> &str {
        &self.schema
    }

    /// How to connect to each of the hosts, in the order in which they are tried.
    pub(crate) fn hosts(&self) -> Vec<Config> {
        let all = &self.config;
        let count = all.get_hosts().len();
        if count == 1 || all.get_load_balance_hosts() == LoadBalanceHosts::Random {
            return vec![all.clone()];
        }
        (0..count).map(|at| one_host(all, at)).collect()
    }

    /// Hosts and ports, for people.
    pub(crate) fn server(&self) -> String {
        let ports = self.config.get_ports();
        let hosts = self.config.get_hosts().iter().enumerate().map(|(n, host)| {
            let port = ports.get(n).or(ports.first()).copied().unwrap_or(5432);
            match host {
                Host::Tcp(host) => format!("{host}:{port}"),
                Host::Unix(path) => format!("{} (port {port})", path.display()),
            }
        });
        hosts.collect::<Vec<_>>().join(",")
    }

    /// The database's name, which is by default the user's.
    pub(crate) fn database(&self) -> &str {
        self.config.get_dbname().unwrap_or_else(|| self.user())
    }

    pub(crate) fn user(&self) -> &str {
        self.config.get_user().unwrap_or("of this process")
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "postgresql://{}/{}", self.server(), self.database())
    }
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Address({self}, schema {})", self.schema)
    }
}

/// The configuration for one of the hosts.
fn one_host(all: &Config, at: usize) -> Config {
    let mut one = Config::new();
    match all.get_hosts().get(at) {
        Some(Host::Tcp(host)) => one.host(host),
        Some(Host::Unix(path)) => one.host_path(path),
        None => &mut one,
    };
    if let Some(address) = all.get_hostaddrs().get(at) {
        one.hostaddr(*address);
    }
    if let Some(port) = all.get_ports().get(at).or(all.get_ports().first()) {
        one.port(*port);
    }
    if let Some(user) = all.get_user() {
        one.user(user);
    }
    if let Some(password) = all.get_password() {
        one.password(password);
    }
    if let Some(database) = all.get_dbname() {
        one.dbname(database);
    }
    if let Some(options) = all.get_options() {
        one.options(options);
    }
    if let Some(name) = all.get_application_name() {
        one.application_name(name);
    }
    one.ssl_mode(all.get_ssl_mode()).ssl_negotiation(all.get_ssl_negotiation());
    one.channel_binding(all.get_channel_binding());
    one.target_session_attrs(all.get_target_session_attrs());
    limit(&mut one);
    one.keepalives(all.get_keepalives());
    one
}

/// How long a host that is away is waited for.
fn limit(config: &mut Config) {
    config.connect_timeout(CONNECT_TIMEOUT);
    config
        .keepalives_idle(KEEPALIVE_INTERVAL)
        .keepalives_interval(KEEPALIVE_INTERVAL)
        .keepalives_retries(2);
    config.tcp_user_timeout(UNACKNOWLEDGED_TIMEOUT);
}

/// The parameters that the library of the connection does not know.
#[derive(Default)]
struct StoreParameters {
    mode: Option<String>,
    roots: Option<PathBuf>,
    schema: Option<String>,
    lease: Option<String>,
}

fn lease(text: &str) -> Result<Duration, Error> {
    let seconds = text.parse().ok().filter(|seconds| (1..=3_600).contains(seconds));
    let wrong = || Error::url("`lease` is a number of seconds from 1 to 3600");
    seconds.map(Duration::from_secs).ok_or_else(wrong)
}

fn take_own_parameters(url: &str) -> Result<(String, StoreParameters), Error> {
    let known = |prefix| url.strip_prefix(prefix);
    let Some(rest) = known("postgresql://").or_else(|| known("postgres://")) else {
        return Err(Error::url("it begins with `postgresql://`"));
    };
    let (place, query) = rest.split_once('?').unwrap_or((rest, ""));
    // otherwise the end of a password would be taken for a host, and shown
    if place.matches('@').count() > 1 || query.contains('@') {
        return Err(Error::url(
            "in a user or password, `@` is written `%40`, `/` `%2F`, `?` `%3F`",
        ));
    }
    let mut own = StoreParameters::default();
    let mut others = Vec::new();
    for parameter in query.split('&').filter(|parameter| !parameter.is_empty()) {
        let (name, value) = parameter.split_once('=').unwrap_or((parameter, ""));
        let decoded = || percent_decode_str(value).decode_utf8_lossy().into_owned();
        match name {
            "sslmode" => own.mode = Some(decoded()),
            "sslrootcert" => own.roots = Some(decoded().into()),
            "schema" => own.schema = Some(decoded()),
            "lease" => own.lease = Some(decoded()),
            _ => others.push(parameter),
        }
    }
    Ok((format!("postgresql://{place}?{}", others.join("&")), own))
}

/// A URL without its password, by which two spellings of it are the same. It has one `@` at most.
fn clean(url: &str) -> String {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let (place, query) = rest.split_once('?').unwrap_or((rest, ""));
    let place = match place.split_once('@') {
        Some((user, host)) => format!("{}@{host}", user.split(':').next().unwrap_or_default()),
        None => place.to_owned(),
    };
    let mut parameters: Vec<&str> = query.split('&').filter(|one| !one.is_empty()).collect();
    // a name may be written with escapes
    parameters.retain(|one| {
        let name = one.split('=').next().unwrap_or_default();
        percent_decode_str(name).decode_utf8_lossy() != "password"
    });
    parameters.sort_unstable();
    let query =
        if parameters.is_empty() { String::new() } else { format!("?{}", parameters.join("&")) };
    format!("postgresql://{place}{query}")
}

fn is_near(host: &Host) -> bool {
    match host {
        Host::Unix(_) => true,
        Host::Tcp(name) => {
            name == "localhost"
                || name.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
        }
    }
}

fn is_identifier(name: &str) -> bool {
    let letter = |c: char| c.is_ascii_lowercase() || c == '_';
    name.len() <= 63
        && name.starts_with(letter)
        && name.chars().all(|c| letter(c) || c.is_ascii_digit())
}

/// Passwords that are not in the URL.
#[derive(Default)]
struct Passwords {
    variable: Option<Vec<u8>>,
    file: Option<PathBuf>,
}

impl Passwords {
    fn of_user() -> Self {
        use std::os::unix::ffi::OsStringExt;

        let home = || Some(PathBuf::from(std::env::var_os("HOME")?).join(".pgpass"));
        Self {
            variable: std::env::var_os("PGPASSWORD").map(OsStringExt::into_vec),
            file: std::env::var_os("PGPASSFILE").map(PathBuf::from).or_else(home),
        }
    }

    fn find(&self, config: &Config) -> Result<Option<Vec<u8>>, Error> {
        if self.variable.is_some() {
            return Ok(self.variable.clone());
        }
        let Some(file) = self.file.as_deref() else { return Ok(None) };
        let Ok(metadata) = fs::metadata(file) else { return Ok(None) };
        if metadata.mode() & 0o077 != 0 {
            return Err(Error::Passwords { file: file.to_owned() });
        }
        let text = fs::read_to_string(file).unwrap_or_default();
        Ok(text.lines().find_map(|line| in_line(line, config)).map(String::into_bytes))
    }
}

/// The password in a line `HOST:PORT:DATABASE:USER:PASSWORD` if the line is about this connection.
fn in_line(line: &str, config: &Config) -> Option<String> {
    if line.starts_with('#') {
        return None;
    }
    let mut fields = vec![String::new()];
    let mut chars = line.chars();
    while let Some(c) = chars.next() {
        match (c, fields.len()) {
            ('\\', _) => fields.last_mut()?.extend(chars.next()),
            (':', ..5) => fields.push(String::new()),
            _ => fields.last_mut()?.push(c),
        }
    }
    let [host, port, database, user, password] = <[String; 5]>::try_from(fields).ok()?;
    let name = match config.get_hosts().first()? {
        Host::Tcp(name) => name.clone(),
        Host::Unix(path) if path == Path::new("/var/run/postgresql") => "localhost".into(),
        Host::Unix(path) => path.display().to_string(),
    };
    let is = |field: &str, value: &str| field == "*" || field == value;
    let wanted_port = config.get_ports().first().copied().unwrap_or(5432).to_string();
    let wanted_user = config.get_user().unwrap_or_default();
    let wanted_database = config.get_dbname().unwrap_or(wanted_user);
    (is(&host, &name)
        && is(&port, &wanted_port)
        && is(&database, wanted_database)
        && is(&user, wanted_user))
    .then_some(password)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn parse(url: &str) -> Result<Address, Error> {
        Address::with_passwords(url, &Passwords::default())
    }

    #[test]
    fn a_password_is_in_no_text() {
        let url = "postgresql://ann:s3cret@db.example:6000/logs?schema=team_1";
        let address = parse(url).unwrap();
        assert_eq!(address.config.get_password(), Some(&b"s3cret"[..]));
        assert_eq!(address.to_string(), "postgresql://db.example:6000/logs");
        assert_eq!(address.schema, "team_1");
        let texts = [
            format!("{address:?}"),
            format!("{:?}", address.config),
            parse("postgresql://ann:s3cret@x@db/logs").unwrap_err().to_string(),
            parse("postgresql://ann:s3cret?@db/logs").unwrap_err().to_string(),
            parse("postgresql://ann:s3cret@db:port/logs").unwrap_err().to_string(),
            parse("postgresql://ann:s3cret@db/logs?nonsense=s3cret").unwrap_err().to_string(),
            parse("postgres:ann:s3cret@db").unwrap_err().to_string(),
        ];
        for text in texts {
            assert!(!text.contains("s3cret"), "{text}");
        }
    }

    #[test]
    fn far_hosts_are_encrypted_unless_the_url_says_otherwise() {
        for (url, encrypted) in [
            ("postgresql://db.example/logs", true),
            ("postgresql://localhost/logs", false),
            ("postgresql://[::1]/logs", false),
            ("postgresql://%2Frun%2Fpostgresql/logs", false),
            ("postgresql://localhost,db.example/logs", true),
            ("postgresql://db.example/logs?sslmode=disable", false),
            ("postgresql://localhost/logs?sslmode=require", true),
        ] {
            assert_eq!(parse(url).unwrap().encrypted, encrypted, "{url}");
        }
        for mode in ["prefer", "allow", "none"] {
            let url = format!("postgresql://db.example/logs?sslmode={mode}");
            assert!(parse(&url).unwrap_err().to_string().contains("verify-full"));
        }
        assert_eq!(
            parse("postgresql://db/logs?lease=2").unwrap().lease,
            Some(Duration::from_secs(2))
        );
        for lease in ["0", "-1", "x", "3601", ""] {
            let url = format!("postgresql://db/logs?lease={lease}");
            assert!(parse(&url).unwrap_err().to_string().contains("1 to 3600"), "{lease}");
        }
        for url in ["postgresql:///logs", "mysql://db/logs", "postgresql://db/logs?schema=A-B"] {
            assert!(matches!(parse(url), Err(Error::Url { .. })), "{url}");
        }
    }

    #[test]
    fn a_url_without_its_password_names_the_same_database() {
        for (url, expected) in [
            ("postgresql://ann:s3cret@db:5433/logs", "postgresql://ann@db:5433/logs"),
            ("postgres://db/logs?user=ann&password=s3cret", "postgresql://db/logs?user=ann"),
            ("postgresql://db/logs?pass%77ord=s3cret", "postgresql://db/logs"),
            (
                "postgresql://ann:@a,b/l?schema=x&connect_timeout=3",
                "postgresql://ann@a,b/l?connect_timeout=3&schema=x",
            ),
            ("postgresql://%2Frun%2Fpg/logs?", "postgresql://%2Frun%2Fpg/logs"),
        ] {
            let address = Address::with_passwords(url, &Passwords::default()).unwrap();
            let clean = address.without_password();
            assert_eq!(clean, expected, "{url}");
            let again = Address::with_passwords(&clean, &Passwords::default()).unwrap();
            assert_eq!(again.without_password(), expected);
            assert_eq!((again.server(), again.schema()), (address.server(), address.schema()));
        }
    }

    #[test]
    fn passwords_come_from_the_variable_or_a_file_that_only_its_owner_reads() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("pgpass");
        fs::write(&file, "# notes\ndb:5432:other:*:no\ndb:*:logs:ann:a\\:b\\\\c:d\n").unwrap();
        let mut passwords = Passwords { variable: None, file: Some(file.clone()) };
        let url = "postgresql://ann@db/logs";
        fs::set_permissions(&file, fs::Permissions::from_mode(0o640)).unwrap();
        let error = Address::with_passwords(url, &passwords).unwrap_err().to_string();
        assert!(error.contains("chmod 600"), "{error}");
        fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
        let found = |url: &str, passwords: &Passwords| {
            let address = Address::with_passwords(url, passwords).unwrap();
            address.config.get_password().map(|bytes| String::from_utf8_lossy(bytes).into_owned())
        };
        assert_eq!(found(url, &passwords).as_deref(), Some("a:b\\c:d"));
        assert_eq!(found("postgresql://bob@db/logs", &passwords), None);
        passwords.variable = Some(b"v".to_vec());
        assert_eq!(found(url, &passwords).as_deref(), Some("v"));
        assert_eq!(found("postgresql://ann:u@db/logs", &passwords).as_deref(), Some("u"));
    }
}
