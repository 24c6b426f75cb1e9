//! Requests for access tokens and their answers: the signed claim of a service account (RFC 7523), the refresh token of
//! a user (RFC 6749), and the metadata server of a machine of Google's.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD as BASE64;
use leftfold_events::event::FailureClass;
use reqwest::{RequestBuilder, Url};
use rustls::SignatureScheme;
use serde::Deserialize;
use serde_json::{Value, json};

use super::credentials::{Credentials, ServiceAccount};
use crate::errors::{Failure, Mask, is_markup};
use crate::http;
use crate::short_lived::Lifetime;

/// The only scope that the AI Platform accepts.
const SCOPE: &str = "https://www.googleapis.com/auth/cloud-platform";
/// The longest lifetime that a claim may ask for.
const LIFETIME: Duration = Duration::from_secs(60 * 60);
/// How long a token is used that does not say when it expires.
const UNKNOWN_LIFETIME: Duration = Duration::from_secs(5 * 60);
/// The longest lifetime of a token that is believed.
const LONGEST_LIFETIME: Duration = Duration::from_secs(24 * 60 * 60);
/// How long a token is waited for.
const TIMEOUT: Duration = Duration::from_secs(20);
/// The machine's own server answers at once, or it is not there.
const METADATA_TIMEOUT: Duration = Duration::from_secs(3);
/// The longest token, in bytes. Real ones have 1 KiB.
const LONGEST: usize = 16 * 1024;

/// A token for these credentials, which came from the place `from`.
pub(super) async fn get(
    credentials: &Credentials,
    from: &str,
) -> Result<(String, Lifetime), Failure> {
    let (url, form, secrets) = match credentials {
        Credentials::ServiceAccount(account) => {
            let assertion = assertion(account, SystemTime::now())
                .map_err(|why| Failure::fatal(FailureClass::Auth, format!("{from}: {why}")))?;
            let grant = "urn:ietf:params:oauth:grant-type:jwt-bearer".to_owned();
            let form = vec![("grant_type", grant), ("assertion", assertion.clone())];
            (&account.token_uri, form, vec![assertion])
        }
        Credentials::User(user) => {
            let form = vec![
                ("grant_type", "refresh_token".to_owned()),
                ("client_id", user.client_id.clone()),
                ("client_secret", user.client_secret.clone()),
                ("refresh_token", user.refresh_token.clone()),
            ];
            (&user.token_uri, form, vec![user.client_secret.clone(), user.refresh_token.clone()])
        }
    };
    let mut body = Url::clone(url);
    body.query_pairs_mut().clear().extend_pairs(form);
    let body = body.query().unwrap_or_default().to_owned();
    let request = http::client(url)
        .await?
        .post(url.clone())
        .header("content-type", "application/x-www-form-urlencoded")
        .body(body);
    let mask = Mask::new(secrets.iter().map(String::as_str));
    exchange(request, url, TIMEOUT, from, &mask).await
}

/// A token of the account that this machine of Google's runs as.
pub(super) async fn of_machine(host: &str) -> Result<(String, Lifetime), Failure> {
    let address =
        format!("http://{host}/computeMetadata/v1/instance/service-accounts/default/token");
    let bad = |why: String| {
        Failure::fatal(FailureClass::Auth, format!("GCE_METADATA_HOST is no host: {why}"))
    };
    let url = Url::parse(&address).map_err(|error| bad(error.to_string()))?;
    let request = http::without_proxy()?.get(url.clone()).header("metadata-flavor", "Google");
    exchange(request, &url, METADATA_TIMEOUT, "the metadata server", &Mask::default()).await
}

/// The claim of an account that it may have a token: a JSON web token, signed with its key.
fn assertion(account: &ServiceAccount, now: SystemTime) -> Result<String, String> {
    let now = now.duration_since(UNIX_EPOCH).unwrap_or_default();
    let mut header = json!({ "alg": "RS256", "typ": "JWT" });
    if let Some(id) = &account.key_id {
        header["kid"] = id.clone().into();
    }
    let claims = json!({ "iss": account.email, "scope": SCOPE, "aud": account.token_uri.as_str(),
        "iat": now.as_secs(), "exp": (now + LIFETIME).as_secs() });
    let part = |value: &Value| BASE64.encode(value.to_string());
    let signed = format!("{}.{}", part(&header), part(&claims));
    let signer = account.key.choose_scheme(&[SignatureScheme::RSA_PKCS1_SHA256]);
    let signer = signer.ok_or("`private_key` cannot sign with RS256")?;
    let signature = signer.sign(signed.as_bytes()).map_err(|error| error.to_string())?;
    Ok(format!("{signed}.{}", BASE64.encode(signature)))
}

async fn exchange(
    request: RequestBuilder,
    url: &Url,
    timeout: Duration,
    from: &str,
    mask: &Mask,
) -> Result<(String, Lifetime), Failure> {
    let got = SystemTime::now();
    let (status, body) = http::ask("no access token", request, url, timeout).await?;
    let answer: Answer = serde_json::from_slice(&body).unwrap_or_default();
    if let Some(token) = answer.access_token.filter(|_| status.is_success()) {
        let token = token.trim();
        if !token.is_empty()
            && token.len() <= LONGEST
            && token.bytes().all(|byte| byte.is_ascii_graphic())
        {
            let lifetime = answer.expires_in.map_or(UNKNOWN_LIFETIME, Duration::from_secs);
            let lifetime = lifetime.min(LONGEST_LIFETIME);
            return Ok((token.to_owned(), Lifetime::new(got, lifetime)));
        }
    }
    let said = match (answer.error, answer.error_description) {
        (Some(error), Some(description)) => format!("{error}: {description}"),
        (Some(text), None) | (None, Some(text)) => text,
        (None, None) if is_markup(&String::from_utf8_lossy(&body)) => "a web page".to_owned(),
        (None, None) => "no reason".to_owned(),
    };
    let said: String = said.split_whitespace().collect::<Vec<_>>().join(" ");
    let said: String = said.chars().filter(|c| !c.is_control()).take(300).collect();
    let class = match status.as_u16() {
        429 => FailureClass::RateLimit,
        500.. => FailureClass::Overloaded,
        _ => FailureClass::Auth,
    };
    let advice = match (class, said.starts_with("invalid_grant")) {
        (FailureClass::Auth, true) => {
            "; it has expired or was revoked, or this machine's clock is wrong: run `gcloud auth \
             application-default login`, or get another key"
        }
        (_, _) => "",
    };
    let (said, address) = (mask.hide(said), http::display_url(url));
    let message =
        format!("no access token for {from}: {address} answered {status}: {said}{advice}");
    Err(Failure { status: Some(status.as_u16()), ..Failure::new(class, message) })
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Answer {
    access_token: Option<String>,
    /// In seconds.
    expires_in: Option<u64>,
    error: Option<String>,
    error_description: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::google_cloud::credentials;
    use crate::google_cloud::tests::service_account_json;

    fn account(token_uri: &str) -> Credentials {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("key.json");
        std::fs::write(&path, service_account_json(token_uri).to_string()).unwrap();
        credentials::read(&path).unwrap()
    }

    /// The test's clock skips idle time, so the real limit applies and the test does not wait for it.
    #[tokio::test(start_paused = true)]
    async fn an_endpoint_that_says_nothing_is_given_up() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let host = listener.local_addr().unwrap().to_string();
        let uri = format!("http://{host}/token");
        let failure = get(&account(&uri), "a file").await.unwrap_err();
        assert_eq!((failure.class, failure.retryable), (FailureClass::Network, true));
        assert_eq!(failure.message, format!("no access token: {uri} did not answer within 20 s"));
        let failure = of_machine(&host).await.unwrap_err();
        assert!(failure.message.ends_with("did not answer within 3 s"), "{}", failure.message);
        let failure = of_machine("not a host").await.unwrap_err();
        assert!(failure.message.contains("GCE_METADATA_HOST"), "{}", failure.message);
    }

    #[test]
    fn a_claim_says_who_wants_what_from_whom_and_is_signed() {
        let Credentials::ServiceAccount(account) = account("http://127.0.0.1:9/token") else {
            panic!("not a service account")
        };
        let now = UNIX_EPOCH + Duration::from_millis(1_795_000_000_900);
        let claim = assertion(&account, now).unwrap();
        let parts: Vec<&str> = claim.split('.').collect();
        let json = |part: &str| -> Value {
            serde_json::from_slice(&BASE64.decode(part).unwrap()).unwrap()
        };
        assert_eq!(json(parts[0]), json!({ "alg": "RS256", "typ": "JWT", "kid": "key-1" }));
        let claims = json!({ "iss": "robot@shop.iam.gserviceaccount.com", "scope": SCOPE,
            "aud": "http://127.0.0.1:9/token", "iat": 1_795_000_000, "exp": 1_795_003_600 });
        assert_eq!(json(parts[1]), claims);
        let public = include_bytes!("../../tests/google_cloud/public_key.der");
        let scheme = &ring::signature::RSA_PKCS1_2048_8192_SHA256;
        let public = ring::signature::UnparsedPublicKey::new(scheme, public);
        let signed = format!("{}.{}", parts[0], parts[1]);
        public.verify(signed.as_bytes(), &BASE64.decode(parts[2]).unwrap()).unwrap();
    }
}
