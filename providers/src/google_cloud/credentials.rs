//! Credentials in Google's JSON files: a service account's key, a sign-in by `gcloud auth application-default login`, the
//! identity of another cloud, or an account that one of these may act for.
//!
//! An address in a file gets tokens, so it must be one of Google's; only the token of another cloud may come from elsewhere.
//! Errors repeat nothing of a file but names of accounts: the file may be another one than the user meant.

use std::collections::BTreeMap;
use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use reqwest::Url;
use rustls::SignatureAlgorithm;
use rustls::crypto::ring::sign::any_supported_type;
use rustls::pki_types::PrivateKeyDer;
use rustls::pki_types::pem::PemObject;
use rustls::sign::SigningKey;
use serde::Deserialize;
use serde::de::IgnoredAny;

use crate::http::is_loopback;

/// The largest accepted file, in bytes. Real ones have 3 KiB.
const LARGEST: u64 = 64 * 1024;

/// Where tokens come from, if a file names no other address.
const TOKEN_URI: &str = "https://oauth2.googleapis.com/token";

/// Where tokens of other clouds are exchanged, if a file names no other address.
const STS_URL: &str = "https://sts.googleapis.com/v1/token";

/// Where the sign-in of a workforce is refreshed, if a file names no other address.
const STS_REFRESH_URL: &str = "https://sts.googleapis.com/v1/oauthtoken";

/// The metadata servers of other clouds, which may be asked without encryption.
const METADATA_HOSTS: [&str; 2] = ["169.254.169.254", "[fd00:ec2::254]"];

/// How long a token of another account lasts, unless the file names a time.
const IMPERSONATED_LIFETIME: Duration = Duration::from_secs(60 * 60);

/// The cloud whose services are used. Others belong to partners and have other hosts.
const UNIVERSE: &str = "googleapis.com";

/// Something that access tokens are given for.
#[derive(Debug)]
pub(super) enum Credentials {
    ServiceAccount(ServiceAccount),
    User(User),
    Federated(Federated),
    /// A service account that other credentials act for.
    Impersonated {
        account: Account,
        by: Box<Self>,
    },
}

/// For people.
impl fmt::Display for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ServiceAccount(account) => write!(f, "service account {}", account.email),
            Self::User(user) if user.is_of_workforce => f.write_str("sign-in of a workforce"),
            Self::User(_) => f.write_str("sign-in of gcloud"),
            Self::Federated(federated) => write!(f, "{}", federated.subject),
            Self::Impersonated { account, by } => {
                write!(f, "service account {}, by {by}", account.email)
            }
        }
    }
}

impl Credentials {
    /// The values that must not become known, with their names.
    pub(super) fn secrets(&self) -> Vec<(String, String)> {
        let named = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        match self {
            Self::ServiceAccount(account) => vec![named("private_key", &account.pem)],
            Self::User(user) => vec![
                named("client_secret", &user.client_secret),
                named("refresh_token", &user.refresh_token),
            ],
            Self::Federated(Federated { client, subject, .. }) => {
                let client = client.iter().map(|(_, secret)| named("client_secret", secret));
                let headers = match subject {
                    Subject::Address { headers, .. } => headers.as_slice(),
                    Subject::InFile { .. } | Subject::Aws { .. } => &[],
                };
                // a header such as `Metadata: true` is no secret
                let headers = headers.iter().filter(|(_, value)| value.len() > 8);
                client.chain(headers.map(|(name, value)| named(name, value))).collect()
            }
            Self::Impersonated { by, .. } => by.secrets(),
        }
    }

    /// Something of another machine that has to be there for a token.
    ///
    /// # Errors
    /// It is not there: what to do.
    pub(super) fn standing(&self) -> Result<(), String> {
        match self {
            Self::Federated(Federated { subject: Subject::InFile { path, .. }, .. })
                if !path.is_file() =>
            {
                Err(format!("`credential_source.file`: there is no file {}", path.display()))
            }
            Self::Impersonated { by, .. } => by.standing(),
            Self::ServiceAccount(_) | Self::User(_) | Self::Federated(_) => Ok(()),
        }
    }
}

pub(super) struct ServiceAccount {
    pub(super) email: String,
    pem: String,
    pub(super) key: Arc<dyn SigningKey>,
    pub(super) key_id: Option<String>,
    pub(super) token_uri: Url,
}

pub(super) struct User {
    pub(super) client_id: String,
    pub(super) client_secret: String,
    pub(super) refresh_token: String,
    pub(super) token_uri: Url,
    /// Whether it is one of workforce identity federation. Its client authenticates with a header.
    pub(super) is_of_workforce: bool,
}

/// An identity of another cloud or system, which Google trusts.
pub(super) struct Federated {
    /// The provider in a pool of identities.
    pub(super) audience: String,
    pub(super) token_type: String,
    pub(super) token_url: Url,
    /// Id and secret of a client.
    pub(super) client: Option<(String, String)>,
    /// The project that pays for requests of a workforce.
    pub(super) project: Option<String>,
    pub(super) subject: Subject,
}

/// Where the other cloud's token comes from.
pub(super) enum Subject {
    InFile {
        path: PathBuf,
        /// The member of a JSON object that has the token. `None`: the file is the token.
        member: Option<String>,
    },
    Address {
        url: Url,
        headers: Vec<(String, String)>,
        member: Option<String>,
    },
    /// The keys for AWS on this machine: they sign a request to this address, which proves whose they are.
    Aws {
        url: String,
    },
}

/// A service account for which another one gets tokens.
#[derive(Debug)]
pub(super) struct Account {
    pub(super) email: String,
    pub(super) url: Url,
    /// The accounts in between.
    pub(super) delegates: Vec<String>,
    pub(super) lifetime: Duration,
}

/// For people.
impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::InFile { path, .. } => write!(f, "the identity in {}", path.display()),
            Self::Address { url, .. } => {
                write!(f, "the identity at {}", crate::http::display_url(url))
            }
            Self::Aws { .. } => f.write_str("the identity at AWS"),
        }
    }
}

impl fmt::Debug for Federated {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Federated({})", self.subject)
    }
}

// Shows the account.
leftfold_events::debug_fields!(ServiceAccount { email });

// Shows nothing: the id of the client is that of gcloud.
leftfold_events::debug_fields!(User {});

/// The members of all types of files.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Json {
    #[serde(rename = "type")]
    kind: Option<String>,
    client_email: Option<String>,
    private_key: Option<String>,
    private_key_id: Option<String>,
    token_uri: Option<String>,
    client_id: Option<String>,
    client_secret: Option<String>,
    refresh_token: Option<String>,
    universe_domain: Option<String>,
    audience: Option<String>,
    subject_token_type: Option<String>,
    token_url: Option<String>,
    credential_source: Option<SourceJson>,
    workforce_pool_user_project: Option<String>,
    service_account_impersonation_url: Option<String>,
    service_account_impersonation: Option<ImpersonationJson>,
    delegates: Option<Vec<String>>,
    source_credentials: Option<Box<Json>>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ImpersonationJson {
    token_lifetime_seconds: Option<u64>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct SourceJson {
    file: Option<String>,
    url: Option<String>,
    headers: Option<BTreeMap<String, String>>,
    format: Option<FormatJson>,
    environment_id: Option<String>,
    regional_cred_verification_url: Option<String>,
    executable: Option<IgnoredAny>,
    certificate: Option<IgnoredAny>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct FormatJson {
    #[serde(rename = "type")]
    kind: Option<String>,
    subject_token_field_name: Option<String>,
}

/// Reads a file of credentials.
///
/// # Errors
/// The error says what is wrong with the file, without its path.
pub(super) fn read(path: &Path) -> Result<Credentials, String> {
    parse(&contents(path)?)
}

/// The bytes of a short file.
///
/// # Errors
/// The error says what is wrong with the file, without its path.
pub(super) fn contents(path: &Path) -> Result<Vec<u8>, String> {
    let failed = |error: io::Error| format!("it cannot be read: {error}");
    // a pipe would never end
    if !path.metadata().map_err(failed)?.is_file() {
        return Err("it is not a file".to_owned());
    }
    let mut bytes = Vec::new();
    let file = File::open(path).map_err(failed)?;
    file.take(LARGEST + 1).read_to_end(&mut bytes).map_err(failed)?;
    if bytes.len() as u64 > LARGEST {
        return Err(format!("it has more than {} KiB", LARGEST / 1024));
    }
    Ok(bytes)
}

fn parse(bytes: &[u8]) -> Result<Credentials, String> {
    let json: Json = serde_json::from_slice(bytes).map_err(|error| {
        let (line, column) = (error.line(), error.column());
        format!("line {line}, column {column}: not a JSON object of credentials")
    })?;
    of_json(json, true)
}

/// `may_act`: whether credentials that act for another account may be meant.
fn of_json(json: Json, may_act: bool) -> Result<Credentials, String> {
    if json.universe_domain.as_deref().is_some_and(|domain| domain != UNIVERSE) {
        return Err(format!("`universe_domain`: only {UNIVERSE} is supported"));
    }
    match json.kind.as_deref().map(str::trim) {
        Some("service_account") => service_account(json).map(Credentials::ServiceAccount),
        Some("authorized_user") => user(json).map(Credentials::User),
        Some("external_account_authorized_user") => workforce(json).map(Credentials::User),
        Some("external_account") => external(json, may_act),
        Some("impersonated_service_account") if may_act => impersonated(json),
        Some(_) | None => Err(
            "`type`: expected \"service_account\", \"authorized_user\", \"external_account\" or \
             \"impersonated_service_account\": this is no file of credentials that can be used"
                .to_owned(),
        ),
    }
}

fn impersonated(mut json: Json) -> Result<Credentials, String> {
    let account = account(&mut json)?;
    let account = account.ok_or("`service_account_impersonation_url` is missing")?;
    let source = json.source_credentials.ok_or("`source_credentials` is missing")?;
    let by = of_json(*source, false).map_err(|why| format!("`source_credentials`: {why}"))?;
    Ok(Credentials::Impersonated { account, by: Box::new(by) })
}

/// The account that the credentials of a file act for.
fn account(json: &mut Json) -> Result<Option<Account>, String> {
    const NAME: &str = "service_account_impersonation_url";
    let Some(address) = json.service_account_impersonation_url.take() else { return Ok(None) };
    let url = of_google(&address, NAME, "https://iamcredentials.googleapis.com/…")?;
    let path = url.path().strip_suffix(":generateAccessToken");
    let email = path.and_then(|path| path.rsplit_once("/serviceAccounts/"));
    let (_, email) = email.ok_or_else(|| {
        format!("`{NAME}`: expected one that ends in /serviceAccounts/EMAIL:generateAccessToken")
    })?;
    let email = email.replace("%40", "@");
    let said = json.service_account_impersonation.take();
    let seconds = said.and_then(|said| said.token_lifetime_seconds);
    let lifetime = seconds.map_or(IMPERSONATED_LIFETIME, Duration::from_secs);
    Ok(Some(Account { email, url, delegates: json.delegates.take().unwrap_or_default(), lifetime }))
}

fn external(mut json: Json, may_act: bool) -> Result<Credentials, String> {
    let account = account(&mut json)?;
    let token_type = needed(json.subject_token_type, "subject_token_type")?;
    let client = match (json.client_id, json.client_secret) {
        (Some(id), Some(secret)) => Some((id, secret)),
        (_, _) => None,
    };
    let source = json.credential_source.ok_or("`credential_source` is missing")?;
    let by = Credentials::Federated(Federated {
        audience: needed(json.audience, "audience")?,
        subject: subject(source, &token_type)?,
        token_type,
        token_url: token_url(json.token_url.as_deref(), STS_URL)?,
        client,
        project: json.workforce_pool_user_project,
    });
    Ok(match account.filter(|_| may_act) {
        Some(account) => Credentials::Impersonated { account, by: Box::new(by) },
        None => by,
    })
}

fn subject(source: SourceJson, token_type: &str) -> Result<Subject, String> {
    let format = source.format.unwrap_or_default();
    let member = match format.kind.as_deref() {
        None | Some("text") => None,
        Some("json") => {
            let name = "credential_source.format.subject_token_field_name";
            Some(needed(format.subject_token_field_name, name)?)
        }
        Some(_) => {
            return Err("`credential_source.format.type`: expected \"text\" or \"json\"".to_owned());
        }
    };
    if let Some(environment) = source.environment_id {
        if environment != "aws1" || !token_type.ends_with(":aws4_request") {
            return Err("`credential_source.environment_id`: only \"aws1\" is supported, with a \
                        `subject_token_type` of AWS"
                .to_owned());
        }
        let name = "credential_source.regional_cred_verification_url";
        let url = needed(source.regional_cred_verification_url, name)?;
        let begin = ["https://sts.{region}.amazonaws.com", "https://sts.amazonaws.com"];
        if !begin.iter().any(|begin| {
            let rest = url.strip_prefix(begin).map(|rest| rest.trim_start_matches(".cn"));
            rest.is_some_and(|rest| rest.starts_with(['?', '/']))
        }) {
            return Err(format!("`{name}`: expected an address that begins with {}", begin[0]));
        }
        return Ok(Subject::Aws { url });
    }
    if let Some(file) = source.file {
        let path = PathBuf::from(file);
        // a relative path would be one of the project
        return match path.is_absolute() {
            true => Ok(Subject::InFile { path, member }),
            false => Err("`credential_source.file`: expected its full path".to_owned()),
        };
    }
    if let Some(address) = source.url {
        let expected = "`credential_source.url`: expected an https address, or one of this machine or of a \
                        metadata server";
        let url = Url::parse(&address).map_err(|_| expected.to_owned())?;
        let is_metadata = url.host_str().is_some_and(|host| METADATA_HOSTS.contains(&host));
        let headers = source.headers.unwrap_or_default().into_iter().collect();
        return match url.scheme() {
            "https" => Ok(Subject::Address { url, headers, member }),
            "http" if is_metadata || is_loopback(&url) => {
                Ok(Subject::Address { url, headers, member })
            }
            _ => Err(expected.to_owned()),
        };
    }
    Err(match (source.executable, source.certificate) {
        (Some(_), _) => "`credential_source.executable`: Leftfold runs no program that a file of credentials \
                         names: have it write its token into a file, and name that as `credential_source.file`",
        (None, Some(_)) => "`credential_source.certificate` is not supported: use `file`, `url` or AWS",
        (None, None) => "`credential_source`: expected `file`, `url` or `environment_id`",
    }
    .to_owned())
}

/// Credentials of `gcloud auth application-default login` with a workforce's configuration.
fn workforce(json: Json) -> Result<User, String> {
    Ok(User {
        token_uri: token_url(json.token_url.as_deref(), STS_REFRESH_URL)?,
        client_id: needed(json.client_id, "client_id")?,
        client_secret: needed(json.client_secret, "client_secret")?,
        refresh_token: needed(json.refresh_token, "refresh_token")?,
        is_of_workforce: true,
    })
}

fn token_url(given: Option<&str>, own: &str) -> Result<Url, String> {
    of_google(given.unwrap_or(own), "token_url", own)
}

fn service_account(json: Json) -> Result<ServiceAccount, String> {
    let token_uri = token_uri(json.token_uri.as_deref())?;
    let email = needed(json.client_email, "client_email")?;
    let pem = needed(json.private_key, "private_key")?;
    let bad = |_| "`private_key`: expected an RSA key in PEM".to_owned();
    let key = PrivateKeyDer::from_pem_slice(pem.as_bytes()).map_err(bad)?;
    let key = any_supported_type(&key)
        .map_err(|_| "`private_key`: expected an RSA key of 2048 to 8192 bits in PEM".to_owned())?;
    if key.algorithm() != SignatureAlgorithm::RSA {
        return Err("`private_key`: expected an RSA key, found one of another kind".to_owned());
    }
    let key_id = json.private_key_id.filter(|id| !id.trim().is_empty());
    Ok(ServiceAccount { email, pem, key, key_id, token_uri })
}

fn user(json: Json) -> Result<User, String> {
    Ok(User {
        token_uri: token_uri(json.token_uri.as_deref())?,
        is_of_workforce: false,
        client_id: needed(json.client_id, "client_id")?,
        client_secret: needed(json.client_secret, "client_secret")?,
        refresh_token: needed(json.refresh_token, "refresh_token")?,
    })
}

fn needed(value: Option<String>, name: &str) -> Result<String, String> {
    value.filter(|value| !value.trim().is_empty()).ok_or_else(|| format!("`{name}` is missing"))
}

fn token_uri(given: Option<&str>) -> Result<Url, String> {
    of_google(given.unwrap_or(TOKEN_URI), "token_uri", TOKEN_URI)
}

/// An address that tokens go to, so a file must not name any other host than Google's; servers of this machine are for
/// tests.
fn of_google(address: &str, name: &str, example: &str) -> Result<Url, String> {
    let bad = || format!("`{name}`: expected an https address of {UNIVERSE}, such as {example}");
    let url = Url::parse(address.trim()).map_err(|_| bad())?;
    let host = url.host_str().unwrap_or_default();
    let is_google = host.strip_suffix(UNIVERSE).is_some_and(|rest| rest.ends_with('.'))
        || host == "accounts.google.com";
    let has_user = !url.username().is_empty() || url.password().is_some();
    match url.scheme() {
        "https" if is_google && !has_user => Ok(url),
        "http" | "https" if is_loopback(&url) && !has_user => Ok(url),
        _ => Err(bad()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::google_cloud::tests::{KEY, service_account_json};

    const EC_KEY: &str = include_str!("../../tests/google_cloud/ec_key.pem");

    fn with(changes: &[(&str, Value)]) -> Result<Credentials, String> {
        let mut json = service_account_json(TOKEN_URI);
        for (name, value) in changes {
            json[*name] = value.clone();
        }
        parse(json.to_string().as_bytes())
    }

    #[test]
    fn both_kinds_of_credentials_are_read() {
        let Ok(Credentials::ServiceAccount(account)) = with(&[]) else { panic!("not read") };
        assert_eq!(account.email, "robot@shop.iam.gserviceaccount.com");
        assert_eq!(
            (account.key_id.as_deref(), account.token_uri.as_str()),
            (Some("key-1"), TOKEN_URI)
        );
        let user = json!({ "type": "authorized_user", "client_id": "c.apps", "client_secret": "s",
            "refresh_token": "1//r", "quota_project_id": "shop" });
        let Ok(Credentials::User(user)) = parse(user.to_string().as_bytes()) else {
            panic!("not read")
        };
        assert_eq!((user.client_id.as_str(), user.token_uri.as_str()), ("c.apps", TOKEN_URI));
        for form in ["1//r", "c.apps", "PRIVATE"] {
            assert!(!format!("{user:?} {account:?}").contains(form));
        }
    }

    #[test]
    fn each_fault_is_named_and_nothing_is_quoted() {
        for (name, value, expected) in [
            ("type", json!("secret-type"), "`type`: expected"),
            ("type", json!(7), "not a JSON object"),
            ("type", json!("external_account"), "`subject_token_type` is missing"),
            (
                "type",
                json!("impersonated_service_account"),
                "`service_account_impersonation_url` is missing",
            ),
            ("client_email", json!(""), "`client_email` is missing"),
            ("private_key", Value::Null, "`private_key` is missing"),
            ("private_key", json!("secret"), "`private_key`: expected an RSA key"),
            ("private_key", json!(KEY.replace("MII", "MIJ")), "`private_key`: expected an RSA key"),
            ("private_key", json!(EC_KEY), "another kind"),
            ("universe_domain", json!("secret.example"), "only googleapis.com"),
            ("token_uri", json!("http://oauth2.googleapis.com/token"), "`token_uri`: expected"),
            ("token_uri", json!("https://secret.example/token"), "`token_uri`: expected"),
            ("token_uri", json!("https://googleapis.com.secret.example/"), "`token_uri`: expected"),
            ("token_uri", json!("https://secretgoogleapis.com/token"), "`token_uri`: expected"),
            ("token_uri", json!("https://a@oauth2.googleapis.com/"), "`token_uri`: expected"),
            ("token_uri", json!("http://169.254.169.254/"), "`token_uri`: expected"),
            ("token_uri", json!("file:///secret"), "`token_uri`: expected"),
        ] {
            let error = with(&[(name, value.clone())]).map(|_| ()).unwrap_err();
            assert!(error.contains(expected), "{name} {value}: {error}");
            assert!(!error.contains("secret"), "{error}");
        }
        let user = json!({ "type": "authorized_user", "client_id": "c", "client_secret": "s" });
        let error = parse(user.to_string().as_bytes()).map(|_| ()).unwrap_err();
        assert_eq!(error, "`refresh_token` is missing");
        let error = parse(b"{\n \"private_key\": \"secret").map(|_| ()).unwrap_err();
        assert_eq!(error, "line 2, column 23: not a JSON object of credentials");
    }

    const IMPERSONATION: &str = "https://iamcredentials.googleapis.com/v1/projects/-/serviceAccounts/robot@shop.iam.gserviceaccount.com:generateAccessToken";

    fn external_account(source: &Value) -> Value {
        json!({ "type": "external_account", "audience": "//iam.googleapis.com/pools/p",
            "subject_token_type": "urn:ietf:params:oauth:token-type:jwt", "token_url": STS_URL,
            "service_account_impersonation_url": IMPERSONATION, "credential_source": source })
    }

    fn user_json() -> Value {
        json!({ "type": "authorized_user", "client_id": "c", "client_secret": "s", "refresh_token": "r" })
    }

    #[test]
    fn accounts_that_others_act_for_are_read() {
        let aws = json!({ "environment_id": "aws1",
            "regional_cred_verification_url": "https://sts.{region}.amazonaws.com?Action=GetCallerIdentity" });
        let mut of_aws = external_account(&aws);
        of_aws["subject_token_type"] = "urn:ietf:params:aws:token-type:aws4_request".into();
        let mut plain = external_account(&json!({ "file": "/run/token" }));
        plain["service_account_impersonation_url"] = Value::Null;
        let robot = "service account robot@shop.iam.gserviceaccount.com, by";
        for (json, described) in [
            (plain, "the identity in /run/token".to_owned()),
            (
                external_account(&json!({ "file": "/run/token" })),
                format!("{robot} the identity in /run/token"),
            ),
            (
                external_account(&json!({ "url": "https://ci.example/token?a=secret" })),
                format!("{robot} the identity at https://ci.example/token"),
            ),
            (
                external_account(&json!({ "url": "http://169.254.169.254/metadata/identity" })),
                format!("{robot} the identity at http://169.254.169.254/metadata/identity"),
            ),
            (of_aws, format!("{robot} the identity at AWS")),
            (
                json!({ "type": "impersonated_service_account", "source_credentials": user_json(),
                    "service_account_impersonation_url": IMPERSONATION, "delegates": [] }),
                format!("{robot} sign-in of gcloud"),
            ),
            (
                json!({ "type": "external_account_authorized_user", "client_id": "c",
                    "client_secret": "s", "refresh_token": "r" }),
                "sign-in of a workforce".to_owned(),
            ),
        ] {
            let read = parse(json.to_string().as_bytes()).unwrap();
            assert_eq!(read.to_string(), described);
        }
    }

    #[test]
    fn each_fault_of_a_federation_is_named() {
        let of_source = |source: &Value| external_account(source);
        let with = |name: &str, value: &str| {
            let mut json = external_account(&json!({ "file": "/run/token" }));
            json[name] = value.into();
            json
        };
        let twice = json!({ "type": "impersonated_service_account",
            "service_account_impersonation_url": IMPERSONATION,
            "source_credentials": { "type": "impersonated_service_account" } });
        for (json, expected) in [
            (of_source(&json!({ "file": "token" })), "`credential_source.file`: expected its full"),
            (of_source(&json!({ "url": "http://secret.example/" })), "`credential_source.url`: "),
            (of_source(&json!({ "url": "file:///secret" })), "`credential_source.url`: "),
            (of_source(&json!({ "executable": { "command": "secret" } })), "runs no program"),
            (of_source(&json!({ "certificate": {} })), "`credential_source.certificate` is not"),
            (of_source(&json!({})), "`credential_source`: expected `file`"),
            (
                of_source(&json!({ "file": "/a", "format": { "type": "json" } })),
                "subject_token_field_name` is missing",
            ),
            (
                of_source(&json!({ "file": "/a", "format": { "type": "xml" } })),
                "`credential_source.format.type`",
            ),
            (of_source(&json!({ "environment_id": "aws1" })), "`credential_source.environment_id`"),
            (with("token_url", "https://secret.example/token"), "`token_url`: expected"),
            (
                with(
                    "service_account_impersonation_url",
                    "https://secret.example/a:generateAccessToken",
                ),
                "`service_account_impersonation_url`: expected",
            ),
            (
                with(
                    "service_account_impersonation_url",
                    "https://iamcredentials.googleapis.com/v1",
                ),
                "ends in /serviceAccounts/EMAIL",
            ),
            (twice, "`source_credentials`: `type`: expected"),
        ] {
            let error = parse(json.to_string().as_bytes()).map(|_| ()).unwrap_err();
            assert!(error.contains(expected), "{json}: {error}");
            assert!(!error.contains("secret"), "{error}");
        }
        let mut aws = external_account(&json!({ "environment_id": "aws1",
            "regional_cred_verification_url": "https://sts.{region}.amazonaws.com.secret.example" }));
        aws["subject_token_type"] = "urn:ietf:params:aws:token-type:aws4_request".into();
        let error = parse(aws.to_string().as_bytes()).map(|_| ()).unwrap_err();
        assert!(error.contains("expected an address that begins with"), "{error}");
    }

    #[test]
    fn servers_of_this_machine_are_for_tests() {
        for uri in ["http://127.0.0.1:9/token", "http://[::1]:9/", "https://127.0.0.1/"] {
            assert!(with(&[("token_uri", json!(uri))]).is_ok(), "{uri}");
        }
    }

    #[test]
    fn only_short_files_are_read() {
        let folder = tempfile::tempdir().unwrap();
        let large = folder.path().join("large.json");
        std::fs::write(&large, " ".repeat(70_000)).unwrap();
        for (path, expected) in [
            (folder.path(), "it is not a file"),
            (&large, "it has more than 64 KiB"),
            (&folder.path().join("none"), "it cannot be read"),
            (Path::new("/dev/zero"), "it is not a file"),
        ] {
            let error = read(path).map(|_| ()).unwrap_err();
            assert!(error.contains(expected), "{error}");
        }
    }
}
