//! Credentials in Google's JSON files: a service account's key, or a sign-in by
//! `gcloud auth application-default login`.
//!
//! Errors repeat nothing of a file but names of accounts: the file may be another one than the user meant.

use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;
use std::sync::Arc;

use reqwest::Url;
use rustls::SignatureAlgorithm;
use rustls::crypto::ring::sign::any_supported_type;
use rustls::pki_types::PrivateKeyDer;
use rustls::pki_types::pem::PemObject;
use rustls::sign::SigningKey;
use serde::Deserialize;

use crate::http::is_loopback;

/// The largest accepted file, in bytes. Real ones have 3 KiB.
const LARGEST: u64 = 64 * 1024;

/// Where tokens come from, if a file names no other address.
const TOKEN_URI: &str = "https://oauth2.googleapis.com/token";

/// The cloud whose services are used. Others belong to partners and have other hosts.
const UNIVERSE: &str = "googleapis.com";

/// Something that access tokens are given for.
#[derive(Debug)]
pub(super) enum Credentials {
    ServiceAccount(ServiceAccount),
    User(User),
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
}

/// Shows the account.
impl fmt::Debug for ServiceAccount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServiceAccount").field("email", &self.email).finish_non_exhaustive()
    }
}

/// Shows nothing: the id of the client is that of gcloud.
impl fmt::Debug for User {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("User").finish_non_exhaustive()
    }
}

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
}

/// Reads a file of credentials.
///
/// # Errors
/// The error says what is wrong with the file, without its path.
pub(super) fn read(path: &Path) -> Result<Credentials, String> {
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
    parse(&bytes)
}

fn parse(bytes: &[u8]) -> Result<Credentials, String> {
    let json: Json = serde_json::from_slice(bytes).map_err(|error| {
        let (line, column) = (error.line(), error.column());
        format!("line {line}, column {column}: not a JSON object of credentials")
    })?;
    if json.universe_domain.as_deref().is_some_and(|domain| domain != UNIVERSE) {
        return Err(format!("`universe_domain`: only {UNIVERSE} is supported"));
    }
    match json.kind.as_deref().map(str::trim) {
        Some("service_account") => service_account(json).map(Credentials::ServiceAccount),
        Some("authorized_user") => user(json).map(Credentials::User),
        Some("external_account" | "external_account_authorized_user") => Err(unsupported(
            "workload or workforce identity federation (`external_account`)",
        )),
        Some("impersonated_service_account") => {
            Err(unsupported("impersonation (`impersonated_service_account`)"))
        }
        Some(_) | None => Err(
            "`type`: expected \"service_account\" or \"authorized_user\": this is no file of credentials that can be used"
                .to_owned(),
        ),
    }
}

fn unsupported(what: &str) -> String {
    format!(
        "{what} is not supported: use the key of a service account, or run `gcloud auth \
         application-default login` without it, or give an access token as \
         `options.headers.Authorization`"
    )
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
        client_id: needed(json.client_id, "client_id")?,
        client_secret: needed(json.client_secret, "client_secret")?,
        refresh_token: needed(json.refresh_token, "refresh_token")?,
    })
}

fn needed(value: Option<String>, name: &str) -> Result<String, String> {
    value.filter(|value| !value.trim().is_empty()).ok_or_else(|| format!("`{name}` is missing"))
}

/// The address that tokens come from. A refresh token goes there, so a file must not name any other host than Google's;
/// servers of this machine are for tests.
fn token_uri(given: Option<&str>) -> Result<Url, String> {
    let bad =
        || format!("`token_uri`: expected an https address of {UNIVERSE}, such as {TOKEN_URI}");
    let url = Url::parse(given.unwrap_or(TOKEN_URI).trim()).map_err(|_| bad())?;
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
            ("type", json!("external_account"), "identity federation"),
            ("type", json!("impersonated_service_account"), "impersonation"),
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
