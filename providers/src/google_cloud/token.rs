//! Requests for access tokens and their answers: the signed claim of a service account (RFC 7523), the refresh token of
//! a user (RFC 6749), the token of another cloud (RFC 8693), the token of an account that may act for another one, and the
//! metadata server of a machine of Google's.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD as BASE64;
use futures::FutureExt;
use futures::future::BoxFuture;
use leftfold_events::Time;
use leftfold_events::event::FailureClass;
use reqwest::{RequestBuilder, Url};
use rustls::SignatureScheme;
use serde::Deserialize;
use serde_json::{Value, json};

use super::Token;
use super::credentials::{self, Account, Credentials, Federated, ServiceAccount, Subject, User};
use crate::aws;
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
const MAX_LIFETIME: Duration = Duration::from_secs(24 * 60 * 60);
/// How long a token is waited for.
const TIMEOUT: Duration = Duration::from_secs(20);
/// The machine's own server answers at once, or it is not there.
const METADATA_TIMEOUT: Duration = Duration::from_secs(3);
/// The longest token, in bytes. Real ones have 1 KiB.
const LONGEST: usize = 16 * 1024;

/// The advice if a key or a sign-in is not accepted.
const OVER: &str = "it has expired or was revoked, or this machine's clock is wrong: run `gcloud auth \
     application-default login`, or get another key";
/// The advice if the token of another cloud is not accepted.
const NOT_TRUSTED: &str = "that cloud's token has expired, or the provider of the pool does not accept it: \
     check its issuer, audience and conditions";
/// The advice if an account may not act for another one.
const MAY_NOT_ACT: &str = "the account that acts needs the role `roles/iam.serviceAccountTokenCreator` \
     (or `roles/iam.workloadIdentityUser`) on the service account";

/// How a token is asked for.
struct Asking<'a> {
    /// The place of the credentials.
    from: &'a str,
    timeout: Duration,
    mask: Mask,
    /// The remedy if the credentials are not accepted.
    advice: &'a str,
}

/// A token for these credentials, which came from the place `from`.
pub(super) fn get<'a>(
    credentials: &'a Credentials,
    from: &'a str,
) -> BoxFuture<'a, Result<(Token, Lifetime), Failure>> {
    async move {
        let mut secrets = credentials.secrets();
        let (value, lifetime) = match credentials {
            Credentials::ServiceAccount(account) => of_account(account, from).await?,
            Credentials::User(user) => of_user(user, from).await?,
            Credentials::Federated(federated) => {
                let (subject, more) = subject_token(federated, from).await?;
                secrets.extend(more);
                exchanged(federated, subject, from).await?
            }
            Credentials::Impersonated { account, by } => {
                let (token, _) = get(by, from).await?;
                let got = impersonated(account, &token, from).await?;
                secrets = token.secrets;
                secrets.push(("acting_access_token".to_owned(), token.value));
                got
            }
        };
        Ok((Token { value, secrets }, lifetime))
    }
    .boxed()
}

async fn of_account(account: &ServiceAccount, from: &str) -> Result<(String, Lifetime), Failure> {
    let assertion =
        assertion(account, SystemTime::now()).map_err(|why| failed(format!("{from}: {why}")))?;
    let grant = "urn:ietf:params:oauth:grant-type:jwt-bearer";
    let form = [("grant_type", grant), ("assertion", &assertion)];
    let request = posted(&account.token_uri, &form).await?;
    let mask = Mask::new([assertion.as_str()]);
    let asking = Asking { from, timeout: TIMEOUT, mask, advice: OVER };
    exchange(request, &account.token_uri, &asking).await
}

async fn of_user(user: &User, from: &str) -> Result<(String, Lifetime), Failure> {
    let (id, secret) = (user.client_id.as_str(), user.client_secret.as_str());
    let mut form = vec![("grant_type", "refresh_token")];
    if !user.is_of_workforce {
        form.extend([("client_id", id), ("client_secret", secret)]);
    }
    form.push(("refresh_token", &user.refresh_token));
    let mut request = posted(&user.token_uri, &form).await?;
    if user.is_of_workforce {
        request = request.basic_auth(id, Some(secret));
    }
    let mask = Mask::new([secret, user.refresh_token.as_str()]);
    let asking = Asking { from, timeout: TIMEOUT, mask, advice: OVER };
    exchange(request, &user.token_uri, &asking).await
}

/// The token of the other cloud, and further values that must not become known.
async fn subject_token(
    federated: &Federated,
    from: &str,
) -> Result<(String, Vec<(String, String)>), Failure> {
    let (text, member) = match &federated.subject {
        Subject::Aws { url } => {
            let target = ("x-goog-cloud-target-resource", federated.audience.as_str());
            return aws::identity_proof(url, target).await;
        }
        Subject::InFile { path, member } => {
            let owned = path.clone();
            let read = tokio::task::spawn_blocking(move || credentials::contents(&owned)).await;
            let read = read.map_err(|error| error.to_string()).flatten();
            let bad = |why: String| failed(format!("{from}: {}: {why}", path.display()));
            (read.map_err(bad)?, member)
        }
        Subject::Address { url, headers, member } => {
            let is_plain = url.scheme() == "http";
            let client = if is_plain { http::without_proxy()? } else { http::client(url).await? };
            let request = client.get(url.clone());
            let request = headers.iter().fold(request, |it, (name, value)| it.header(name, value));
            let what = format!("no access token for {from}");
            let (status, body) = http::ask(&what, request, url, TIMEOUT).await?;
            if !status.is_success() {
                let address = http::display_url(url);
                let class = match status.as_u16() {
                    500.. => FailureClass::Overloaded,
                    _ => FailureClass::Auth,
                };
                let message = format!("{what}: {address} answered {status} instead of a token");
                return Err(Failure::new(class, message));
            }
            (body, member)
        }
    };
    let source = &federated.subject;
    let text = String::from_utf8(text).unwrap_or_default();
    let token = match member {
        None => Some(text),
        Some(member) => serde_json::from_str(&text)
            .ok()
            .and_then(|json: Value| json.get(member).and_then(Value::as_str).map(str::to_owned)),
    };
    let token = token.map(|token| token.trim().to_owned()).filter(|token| is_usable(token));
    let token = token.ok_or_else(|| {
        let place = member.as_ref().map_or_else(String::new, |it| format!(" as the member `{it}`"));
        failed(format!("{from}: {source} has no token{place}"))
    })?;
    let secrets = vec![("subject_token".to_owned(), token.clone())];
    Ok((token, secrets))
}

async fn exchanged(
    federated: &Federated,
    subject: String,
    from: &str,
) -> Result<(String, Lifetime), Failure> {
    let options = match (&federated.client, &federated.project) {
        (None, Some(project)) => Some(json!({ "userProject": project }).to_string()),
        (_, _) => None,
    };
    let form = [
        ("grant_type", "urn:ietf:params:oauth:grant-type:token-exchange"),
        ("audience", &federated.audience),
        ("scope", SCOPE),
        ("requested_token_type", "urn:ietf:params:oauth:token-type:access_token"),
        ("subject_token", &subject),
        ("subject_token_type", &federated.token_type),
    ];
    let options = options.as_deref().map(|options| ("options", options));
    let form: Vec<(&str, &str)> = form.into_iter().chain(options).collect();
    let mut request = posted(&federated.token_url, &form).await?;
    if let Some((id, secret)) = &federated.client {
        request = request.basic_auth(id, Some(secret));
    }
    let secret = federated.client.as_ref().map(|(_, secret)| secret.as_str());
    let mask = Mask::new(secret.into_iter().chain([subject.as_str()]));
    let asking = Asking { from, timeout: TIMEOUT, mask, advice: NOT_TRUSTED };
    exchange(request, &federated.token_url, &asking).await
}

async fn impersonated(
    account: &Account,
    by: &Token,
    from: &str,
) -> Result<(String, Lifetime), Failure> {
    let lifetime = format!("{}s", account.lifetime.as_secs());
    let mut body = json!({ "scope": [SCOPE], "lifetime": lifetime });
    if !account.delegates.is_empty() {
        body["delegates"] = account.delegates.clone().into();
    }
    let request = http::client(&account.url).await?.post(account.url.clone());
    let request = request.bearer_auth(&by.value).header("content-type", "application/json");
    let mask = Mask::new([by.value.as_str()]);
    let asking = Asking { from, timeout: TIMEOUT, mask, advice: MAY_NOT_ACT };
    exchange(request.body(body.to_string()), &account.url, &asking).await
}

fn failed(why: String) -> Failure {
    Failure::fatal(FailureClass::Auth, why)
}

/// A request with a form.
async fn posted(url: &Url, form: &[(&str, &str)]) -> Result<RequestBuilder, Failure> {
    let mut body = url.clone();
    body.query_pairs_mut().clear().extend_pairs(form);
    let body = body.query().unwrap_or_default().to_owned();
    let request = http::client(url).await?.post(url.clone());
    Ok(request.header("content-type", "application/x-www-form-urlencoded").body(body))
}

fn is_usable(token: &str) -> bool {
    !token.is_empty() && token.len() <= LONGEST && token.bytes().all(|byte| byte.is_ascii_graphic())
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
    let from = "the metadata server";
    let asking = Asking { from, timeout: METADATA_TIMEOUT, mask: Mask::default(), advice: OVER };
    exchange(request, &url, &asking).await
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
    asking: &Asking<'_>,
) -> Result<(String, Lifetime), Failure> {
    let got = SystemTime::now();
    let (status, body) = http::ask("no access token", request, url, asking.timeout).await?;
    let answer: Answer = serde_json::from_slice(&body).unwrap_or_default();
    let token = answer.access_token.as_deref().map(str::trim).filter(|token| is_usable(token));
    if let Some(token) = token.filter(|_| status.is_success()) {
        let lifetime = answer.lifetime(got).unwrap_or(UNKNOWN_LIFETIME).min(MAX_LIFETIME);
        return Ok((token.to_owned(), Lifetime::new(got, lifetime)));
    }
    let said = match answer.reason() {
        Some(said) => said,
        None if is_markup(&String::from_utf8_lossy(&body)) => "a web page".to_owned(),
        None => "no reason".to_owned(),
    };
    let said: String = said.split_whitespace().collect::<Vec<_>>().join(" ");
    let said: String = said.chars().filter(|c| !c.is_control()).take(300).collect();
    let class = match status.as_u16() {
        429 => FailureClass::RateLimit,
        500.. => FailureClass::Overloaded,
        _ => FailureClass::Auth,
    };
    let is_refused = ["invalid_grant", "PERMISSION_DENIED"].iter().any(|it| said.starts_with(it));
    let is_final = class == FailureClass::Auth && is_refused;
    let advice = if is_final { format!("; {}", asking.advice) } else { String::new() };
    let (said, address) = (asking.mask.hide(said), http::display_url(url));
    let from = asking.from;
    let message =
        format!("no access token for {from}: {address} answered {status}: {said}{advice}");
    Err(Failure { status: Some(status.as_u16()), ..Failure::new(class, message) })
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Answer {
    #[serde(alias = "accessToken")]
    access_token: Option<String>,
    /// In seconds.
    expires_in: Option<u64>,
    #[serde(rename = "expireTime")]
    expire_time: Option<String>,
    /// A name, or an object of Google's APIs.
    error: Option<Value>,
    error_description: Option<String>,
}

impl Answer {
    fn lifetime(&self, got: SystemTime) -> Option<Duration> {
        let left = |end: Time| Duration::from_millis(end.since(Time::from(got)));
        let end = || serde_json::from_value(self.expire_time.as_deref()?.into()).ok();
        self.expires_in.map(Duration::from_secs).or_else(|| end().map(left))
    }

    fn reason(&self) -> Option<String> {
        let member = |name: &str| self.error.as_ref()?.get(name)?.as_str();
        let name = self.error.as_ref().and_then(Value::as_str).or_else(|| member("status"));
        let said = self.error_description.as_deref().or_else(|| member("message"));
        match (name, said) {
            (Some(name), Some(said)) => Some(format!("{name}: {said}")),
            (name, said) => name.or(said).map(str::to_owned),
        }
    }
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
        let failure = get(&account(&uri), "a file").await.map(|_| ()).unwrap_err();
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
