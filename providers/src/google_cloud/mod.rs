//! Access tokens of Google Cloud for Vertex AI, from the places where Google's own clients look ("application default
//! credentials"): the file that `GOOGLE_APPLICATION_CREDENTIALS` names, the sign-in of gcloud, the metadata server.
//!
//! It never looks for credentials before the first request of a provider that has neither a key nor a header of its own.
//! A token is kept in memory until shortly before it expires. Credentials are read anew for each token and never kept.

mod credentials;
mod token;

use std::path::PathBuf;
use std::sync::{Arc, LazyLock};

use futures::FutureExt;
use futures::future::BoxFuture;
use leftfold_events::event::FailureClass;

use crate::authorization::{self, Authorization, Authorize, Outgoing};
use crate::errors::Failure;
use crate::short_lived::{Lifetime, Shared};
use credentials::Credentials;

/// The file of a sign-in, in gcloud's folder.
const OF_GCLOUD: &str = "application_default_credentials.json";

/// The name of an access token among the credentials of a request.
const TOKEN: &str = "access_token";

/// A name of the metadata server that needs no look-up.
const METADATA_HOST: &str = "169.254.169.254";

/// A file that says on a machine of Google's that it is one.
const PRODUCT: &str = "/sys/class/dmi/id/product_name";

/// The places where credentials may be.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct CredentialPlaces {
    /// The file that the variable names. If it is named, nothing else counts.
    named: Option<PathBuf>,
    /// The file of gcloud.
    gcloud: Option<PathBuf>,
    /// The host of the metadata server, if this is a machine of Google's.
    metadata: Option<String>,
}

impl CredentialPlaces {
    fn of_process() -> Self {
        let product = std::fs::read_to_string(PRODUCT).unwrap_or_default();
        Self::of(|name| std::env::var(name).ok(), &product)
    }

    fn of(env: impl Fn(&str) -> Option<String>, product: &str) -> Self {
        let set = |name: &str| env(name).filter(|value| !value.trim().is_empty());
        let gcloud = set("CLOUDSDK_CONFIG").map(PathBuf::from);
        let gcloud =
            gcloud.or_else(|| Some(PathBuf::from(set("HOME")?).join(".config").join("gcloud")));
        // Cloud Run and its relatives, whose machines say nothing of Google
        let is_google = product.contains("Google")
            || ["K_SERVICE", "CLOUD_RUN_JOB"].iter().any(|name| set(name).is_some());
        Self {
            named: set("GOOGLE_APPLICATION_CREDENTIALS").map(PathBuf::from),
            gcloud: gcloud.map(|folder| folder.join(OF_GCLOUD)),
            metadata: set("GCE_METADATA_HOST")
                .or_else(|| is_google.then(|| METADATA_HOST.to_owned())),
        }
    }

    /// The credentials and where they come from, for people; `None` if there are none.
    ///
    /// # Errors
    /// They cannot be used.
    fn find(&self) -> Result<Option<(FoundCredentials, String)>, String> {
        let read = |path: &PathBuf, by: &str| {
            let from = format!("{by}{}", path.display());
            match credentials::read(path) {
                Ok(credentials) => {
                    Ok(Some((FoundCredentials::Credentials(Box::new(credentials)), from)))
                }
                Err(why) => Err(format!("{from}: {why}")),
            }
        };
        if let Some(path) = &self.named {
            return read(path, "GOOGLE_APPLICATION_CREDENTIALS: ");
        }
        if let Some(path) = self.gcloud.as_ref().filter(|path| path.exists()) {
            return read(path, "");
        }
        let machine = |host: &String| {
            (FoundCredentials::Machine(host.clone()), "the metadata server".to_owned())
        };
        Ok(self.metadata.as_ref().map(machine))
    }
}

/// The advice if there are no credentials.
const NOTHING: &str = "no credentials of Google Cloud: run `gcloud auth application-default login`, \
     or set GOOGLE_APPLICATION_CREDENTIALS to the file of a service account's key";

/// Something that a token can be got for.
#[derive(Debug)]
enum FoundCredentials {
    Credentials(Box<Credentials>),
    /// The account of this machine; the host is that of the metadata server.
    Machine(String),
}

/// Access tokens for all requests of the process.
#[derive(Debug, Default)]
struct Tokens {
    places: CredentialPlaces,
    current: Shared<Token>,
}

/// A token, and the secrets that it was got with.
#[derive(Clone)]
struct Token {
    value: String,
    secrets: Vec<(String, String)>,
}

/// Authorises requests with the credentials that this process finds. If they are not `required`, a request is sent
/// without any if there are none.
pub(crate) fn authorization(required: bool) -> Authorization {
    /// All providers share a token.
    static TOKENS: LazyLock<Arc<Tokens>> = LazyLock::new(|| {
        Arc::new(Tokens { places: CredentialPlaces::of_process(), ..Tokens::default() })
    });
    Authorization::new(GoogleCloud { tokens: Arc::clone(&TOKENS), required })
}

#[derive(Debug)]
struct GoogleCloud {
    tokens: Arc<Tokens>,
    required: bool,
}

impl Authorize for GoogleCloud {
    fn identity(&self) -> &str {
        if self.required { "google-cloud" } else { "google-cloud, if there is an account" }
    }

    fn authorize<'a>(
        &'a self,
        request: &'a mut Outgoing,
    ) -> BoxFuture<'a, Result<authorization::Credentials, Failure>> {
        let authorized = async {
            let Some(token) = self.tokens.get().await? else {
                if self.required {
                    return Err(Failure::fatal(FailureClass::Auth, NOTHING));
                }
                return Ok(authorization::Credentials::default());
            };
            request.set("authorization", &format!("Bearer {}", token.value))?;
            let mut credentials = token.secrets;
            credentials.push((TOKEN.to_owned(), token.value));
            Ok(authorization::Credentials(credentials))
        };
        authorized.boxed()
    }

    fn refused(&self, used: &authorization::Credentials) -> bool {
        let is_used = |token: &Token| {
            used.0.iter().any(|(name, value)| name == TOKEN && *value == token.value)
        };
        self.tokens.current.refused(is_used).unwrap_or(true)
    }
}

/// Says where credentials come from, without using them.
///
/// # Errors
/// There are none, or they cannot be used: what to do.
pub(crate) fn describe() -> Result<String, String> {
    let Some((found, from)) = CredentialPlaces::of_process().find()? else {
        return Err(NOTHING.to_owned());
    };
    Ok(match found {
        FoundCredentials::Credentials(credentials) => {
            credentials.standing().map_err(|why| format!("{from}: {why}"))?;
            format!("{credentials} ({from})")
        }
        FoundCredentials::Machine(host) => format!("{from} at {host}"),
    })
}

/// The files in which credentials may be.
pub(crate) fn files() -> Vec<PathBuf> {
    let CredentialPlaces { named, gcloud, .. } = CredentialPlaces::of_process();
    named.into_iter().chain(gcloud).filter(|path| path.is_absolute() && path.exists()).collect()
}

impl Tokens {
    /// A token for a request; `None` if there are no credentials.
    async fn get(&self) -> Result<Option<Token>, Failure> {
        self.current.get(self.fetched()).await
    }

    async fn fetched(&self) -> Result<Option<(Token, Lifetime)>, Failure> {
        let places = self.places.clone();
        let found = tokio::task::spawn_blocking(move || places.find()).await;
        let (found, from) = match found {
            Ok(Ok(Some(found))) => found,
            Ok(Ok(None)) => return Ok(None),
            Ok(Err(why)) => return Err(Failure::fatal(FailureClass::Auth, why)),
            Err(error) => return Err(Failure::new(FailureClass::Other, error.to_string())),
        };
        Ok(Some(match &found {
            FoundCredentials::Credentials(credentials) => token::get(credentials, &from).await?,
            FoundCredentials::Machine(host) => {
                let (value, lifetime) = token::of_machine(host).await?;
                (Token { value, secrets: Vec::new() }, lifetime)
            }
        }))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use reqwest::header::HeaderMap;
    use serde_json::{Value, json};

    use super::*;

    pub(super) const KEY: &str = include_str!("../../tests/google_cloud/key.pem");

    pub(super) fn service_account_json(token_uri: &str) -> Value {
        json!({ "type": "service_account", "project_id": "shop", "private_key_id": "key-1",
            "private_key": KEY, "client_email": "robot@shop.iam.gserviceaccount.com",
            "token_uri": token_uri, "universe_domain": "googleapis.com" })
    }

    fn places(variables: &[(&str, &str)], product: &str) -> CredentialPlaces {
        let of = |name: &str| {
            let found = variables.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| (*value).to_owned())
        };
        CredentialPlaces::of(of, product)
    }

    #[test]
    fn credentials_are_where_googles_clients_look() {
        let in_home = |folder: &str| Some(PathBuf::from(folder).join(OF_GCLOUD));
        let home = ("HOME", "/home/me");
        let plain = CredentialPlaces {
            gcloud: in_home("/home/me/.config/gcloud"),
            ..CredentialPlaces::default()
        };
        assert_eq!(places(&[home], "ThinkPad\n"), plain);
        assert_eq!(places(&[], ""), CredentialPlaces::default());
        let moved = places(&[home, ("CLOUDSDK_CONFIG", "/etc/gcloud")], "");
        assert_eq!(moved.gcloud, in_home("/etc/gcloud"));
        let named = places(&[("GOOGLE_APPLICATION_CREDENTIALS", "/k.json")], "");
        assert_eq!(named.named, Some(PathBuf::from("/k.json")));
        for (variables, product, host) in [
            (&[][..], "Google Compute Engine\n", Some(METADATA_HOST)),
            (&[("K_SERVICE", "shop")], "", Some(METADATA_HOST)),
            (&[("GCE_METADATA_HOST", "127.0.0.1:9")], "", Some("127.0.0.1:9")),
            (&[("GCE_METADATA_HOST", " ")], "", None),
        ] {
            assert_eq!(places(variables, product).metadata.as_deref(), host);
        }
    }

    /// An endpoint that counts its requests.
    fn endpoint() -> (String, Arc<AtomicUsize>) {
        use std::io::{Read, Write};
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let uri = format!("http://{}/token", listener.local_addr().unwrap());
        let count = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&count);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                let number = counted.fetch_add(1, Ordering::Relaxed) + 1;
                let _ = stream.read(&mut [0; 8_192]);
                let body = format!(r#"{{"access_token":"token-{number}","expires_in":3600}}"#);
                let length = body.len();
                let _ = write!(
                    stream,
                    "HTTP/1.1 200 OK\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{body}"
                );
            }
        });
        (uri, count)
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
    async fn requests_at_one_time_share_a_token_until_it_is_refused() {
        let (uri, count) = endpoint();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("key.json");
        std::fs::write(&path, service_account_json(&uri).to_string()).unwrap();
        let places = CredentialPlaces { named: Some(path), ..CredentialPlaces::default() };
        let tokens = Arc::new(Tokens { places, ..Tokens::default() });
        let google = Arc::new(GoogleCloud { tokens, required: true });
        let ask = || {
            let google = Arc::clone(&google);
            tokio::spawn(async move {
                let url = "https://aiplatform.googleapis.com/".parse().unwrap();
                let mut request = Outgoing { url, headers: HeaderMap::new(), body: Vec::new() };
                let credentials = google.authorize(&mut request).await.unwrap();
                (request.headers["authorization"].to_str().unwrap().to_owned(), credentials)
            })
        };
        let asked: Vec<_> = (0..8).map(|_| ask()).collect();
        let mut used = authorization::Credentials::default();
        for asked in asked {
            let (header, credentials) = asked.await.unwrap();
            assert_eq!(header, "Bearer token-1");
            used = credentials;
        }
        assert_eq!(count.load(Ordering::Relaxed), 1);
        let debug = format!("{google:?}");
        assert!(!debug.contains("token-1") && !debug.contains("PRIVATE"), "{debug}");
        let names: Vec<&str> = used.0.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["private_key", TOKEN]);
        // another may be accepted, once
        assert!(google.refused(&used));
        let (header, new) = ask().await.unwrap();
        assert_eq!(header, "Bearer token-2");
        assert!(google.refused(&used), "the refused token is not the current one");
        assert!(!google.refused(&new));
    }

    #[test]
    fn the_first_place_that_has_credentials_counts() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        let user =
            r#"{"type":"authorized_user","client_id":"c","client_secret":"s","refresh_token":"r"}"#;
        std::fs::write(path("user.json"), user).unwrap();
        std::fs::write(path("broken.json"), "{").unwrap();
        let found = |named: Option<&str>, gcloud: Option<&str>, host: Option<&str>| {
            let (named, gcloud) = (named.map(path), gcloud.map(path));
            let places = CredentialPlaces { named, gcloud, metadata: host.map(str::to_owned) };
            places.find().map(|found| found.map(|(_, from)| from))
        };
        let user = path("user.json").display().to_string();
        let named = format!("GOOGLE_APPLICATION_CREDENTIALS: {user}");
        assert_eq!(found(Some("user.json"), Some("broken.json"), None), Ok(Some(named)));
        assert_eq!(found(None, Some("user.json"), Some("h")), Ok(Some(user)));
        assert_eq!(
            found(None, Some("none"), Some("h")),
            Ok(Some("the metadata server".to_owned()))
        );
        assert_eq!(found(None, Some("none"), None), Ok(None));
        for (named, gcloud, expected) in [
            (Some("none"), Some("user.json"), "GOOGLE_APPLICATION_CREDENTIALS: /"),
            (None, Some("broken.json"), "broken.json: line 1, column 1"),
        ] {
            let why = found(named, gcloud, None).unwrap_err();
            assert!(why.contains(expected), "{why}");
        }
    }
}
