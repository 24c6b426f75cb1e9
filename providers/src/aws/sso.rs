//! Keys of an account that an SSO session has access to, with the token that `aws sso login` has left in
//! `~/.aws/sso/cache`. A token that ends is refreshed, and stored where the other programs for AWS find it.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use std::time::SystemTime;

use leftfold_events::Time;
use leftfold_events::event::FailureClass;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::answer::{self, Answer, TIMEOUT, Temporary, WHAT};
use super::credentials::{Sso, parsed};
use crate::errors::{Failure, Mask};
use crate::http;

/// How long before its end a token is refreshed, in milliseconds.
const EARLY: u64 = 5 * 60 * 1_000;

/// The token of a session, as the programs for AWS store it.
struct Token {
    /// All members, also those that nobody here knows.
    members: Map<String, Value>,
    access: String,
    expires: Time,
    /// Client id, client secret and refresh token.
    refresh: Option<[String; 3]>,
}

impl Token {
    fn of(members: Map<String, Value>, now: Time) -> Option<Self> {
        let text = |name: &str| {
            let value = members.get(name)?.as_str()?.trim();
            (!value.is_empty()).then(|| value.to_owned())
        };
        let ends = text("registrationExpiresAt").and_then(|time| parsed(&time));
        let refresh = (text("clientId"), text("clientSecret"), text("refreshToken"));
        let refresh = match refresh {
            (Some(id), Some(secret), Some(token)) => Some([id, secret, token]),
            (_, _, _) => None,
        };
        Some(Self {
            access: text("accessToken")?,
            expires: text("expiresAt").and_then(|time| parsed(&time))?,
            refresh: refresh.filter(|_| ends.is_none_or(|ends| ends > now)),
            members,
        })
    }

    fn lasts(&self, at: Time) -> bool {
        self.expires > at
    }

    fn secrets(&self) -> Vec<(String, String)> {
        let names = ["aws.sso.clientId", "aws.sso.clientSecret", "aws.sso.refreshToken"];
        let refresh = self.refresh.iter().flatten().zip(names);
        let refresh = refresh.skip(1).map(|(value, name)| (name.to_owned(), value.clone()));
        refresh.chain([("aws.sso.accessToken".to_owned(), self.access.clone())]).collect()
    }
}

/// How the session does, for people.
///
/// # Errors
/// It is over: what to do.
pub(super) fn standing(sso: &Sso, now: Time) -> Result<String, String> {
    match read(&sso.cache, now)? {
        Some(token) if token.lasts(now) => Ok(format!("until {}", token.expires)),
        Some(token) if token.refresh.is_some() => Ok("to be refreshed".to_owned()),
        Some(token) => Err(over(sso, &format!("has ended at {}", token.expires))),
        None => Err(over(sso, "has no token on this machine")),
    }
}

fn over(sso: &Sso, why: &str) -> String {
    let profile = &sso.profile;
    format!(
        "the SSO session of the AWS profile `{profile}` {why}: run `aws sso login --profile {profile}`"
    )
}

fn read(path: &Path, now: Time) -> Result<Option<Token>, String> {
    let text = match super::read(path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(format!("{} cannot be read: {error}", path.display())),
    };
    let members = serde_json::from_str(&text).ok();
    let token = members.and_then(|members| Token::of(members, now));
    token.map(Some).ok_or_else(|| format!("{} has no token that can be read", path.display()))
}

/// Keys of the account.
pub(super) async fn keys(sso: &Sso) -> Result<Temporary, Failure> {
    let token = token(sso).await?;
    let mut url = sso.portal.url.clone();
    url.set_path("/federation/credentials");
    let pairs = [("role_name", &sso.role), ("account_id", &sso.account)];
    url.query_pairs_mut().clear().extend_pairs(pairs);
    let mut bearer = reqwest::header::HeaderValue::from_str(&token.access).map_err(|_| {
        Failure::fatal(FailureClass::Auth, over(sso, "has no token that can be sent"))
    })?;
    bearer.set_sensitive(true);
    let request =
        http::client(&url).await?.get(url.clone()).header("x-amz-sso_bearer_token", bearer);
    let (status, body) = http::ask(WHAT, request, &url, TIMEOUT).await?;
    if status.as_u16() == 401 {
        return Err(Failure::fatal(FailureClass::Auth, over(sso, "is over")));
    }
    let mask = Mask::new([token.access.as_str()]);
    if !status.is_success() {
        return Err(answer::refused(&url, status, &Answer::from_body(&body), &mask));
    }
    let said: Portal = serde_json::from_slice(&body).unwrap_or_default();
    let keys = said.role_credentials;
    let expires = keys.expiration.map(Time::from_millis);
    let parts = [keys.access_key_id, keys.secret_access_key, keys.session_token];
    let keys = answer::checked(parts, expires, &url)?;
    Ok(Temporary { secrets: token.secrets(), ..keys })
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Portal {
    role_credentials: PortalKeys,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct PortalKeys {
    access_key_id: Option<String>,
    secret_access_key: Option<String>,
    session_token: Option<String>,
    /// Milliseconds since 1970.
    expiration: Option<u64>,
}

/// The session's token, refreshed if it ends soon.
async fn token(sso: &Sso) -> Result<Token, Failure> {
    let now = Time::from(SystemTime::now());
    let auth = |why: String| Failure::fatal(FailureClass::Auth, why);
    let stored = || {
        let path = sso.cache.clone();
        async move {
            let read = tokio::task::spawn_blocking(move || read(&path, now)).await;
            let read = read.map_err(|error| error.to_string()).and_then(|read| read);
            read.map_err(auth)?.ok_or_else(|| auth(over(sso, "has no token on this machine")))
        }
    };
    let token = stored().await?;
    if token.lasts(now.plus(EARLY)) {
        return Ok(token);
    }
    // processes that need a new token at the same time refresh it once: the first one replaces the file
    let path = sso.cache.clone();
    let locked = move || File::open(path).and_then(|file| file.lock().map(|()| file));
    let _lock = tokio::task::spawn_blocking(locked).await.ok().and_then(Result::ok);
    let token = stored().await?;
    if token.lasts(now.plus(EARLY)) {
        return Ok(token);
    }
    let ended = || auth(over(sso, &format!("has ended at {}", token.expires)));
    let Some(refresh) = &token.refresh else {
        return if token.lasts(now) { Ok(token) } else { Err(ended()) };
    };
    match refreshed(sso, refresh).await {
        Ok((access, expires, next)) => Ok(store(sso, &token, access, expires, next, now).await),
        // it is still good for this request
        Err(_) if token.lasts(now) => Ok(token),
        Err(failure) if failure.retryable => Err(failure),
        Err(_) => Err(ended()),
    }
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Refreshed {
    access_token: Option<String>,
    /// In seconds.
    expires_in: Option<u64>,
    refresh_token: Option<String>,
}

async fn refreshed(
    sso: &Sso,
    [id, secret, token]: &[String; 3],
) -> Result<(String, Time, Option<String>), Failure> {
    let mut url = sso.oidc.url.clone();
    url.set_path("/token");
    let body = json!({ "clientId": id, "clientSecret": secret, "grantType": "refresh_token",
        "refreshToken": token });
    let request = http::client(&url).await?.post(url.clone());
    let request = request.header("content-type", "application/json").body(body.to_string());
    let got = Time::from(SystemTime::now());
    let (status, body) = http::ask(WHAT, request, &url, TIMEOUT).await?;
    let said: Refreshed = serde_json::from_slice(&body).unwrap_or_default();
    match (status.is_success(), said.access_token, said.expires_in) {
        (true, Some(access), Some(seconds)) if !access.trim().is_empty() => {
            let expires = got.plus(seconds.min(86_400) * 1_000);
            Ok((access, expires, said.refresh_token))
        }
        (_, _, _) => {
            let mask = Mask::new([secret.as_str(), token.as_str()]);
            Err(answer::refused(&url, status, &Answer::from_body(&body), &mask))
        }
    }
}

/// The new token, in the place of the old one.
async fn store(
    sso: &Sso,
    old: &Token,
    access: String,
    expires: Time,
    next: Option<String>,
    now: Time,
) -> Token {
    let mut members = old.members.clone();
    let whole_seconds = expires.to_string();
    let whole_seconds = whole_seconds.split('.').next().unwrap_or_default();
    members.insert("accessToken".to_owned(), access.clone().into());
    members.insert("expiresAt".to_owned(), format!("{whole_seconds}Z").into());
    if let Some(next) = next {
        members.insert("refreshToken".to_owned(), next.into());
    }
    let (path, text) = (sso.cache.clone(), Value::Object(members.clone()).to_string());
    let stored = tokio::task::spawn_blocking(move || replace(&path, &text)).await;
    if let Err(error) = stored.unwrap_or_else(|error| Err(io::Error::other(error))) {
        tracing::warn!("the refreshed token of an SSO session is not stored: {error}");
    }
    let refresh = old.refresh.clone();
    Token::of(members.clone(), now).unwrap_or(Token { members, access, expires, refresh })
}

/// Only the user can read the new file, and no reader sees a part of it.
fn replace(path: &Path, text: &str) -> io::Result<()> {
    let folder = path.parent().ok_or(io::ErrorKind::NotFound)?;
    let mut file = tempfile::NamedTempFile::new_in(folder)?;
    file.write_all(text.as_bytes())?;
    file.persist(path).map(drop).map_err(|error| error.error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_without_a_registration_that_lasts_is_not_refreshed() {
        let now = Time::from_millis(1_795_000_000_000);
        let token = |members: Value| Token::of(members.as_object().unwrap().clone(), now);
        let full = json!({ "accessToken": "A", "expiresAt": "2026-11-18T13:00:00UTC", "clientId": "i",
            "clientSecret": "s", "refreshToken": "r",
            "registrationExpiresAt": "2027-01-01T00:00:00Z" });
        let known = token(full.clone()).unwrap();
        assert_eq!(known.expires.to_string(), "2026-11-18T13:00:00.000Z");
        let secrets: Vec<_> = known.secrets().into_iter().map(|(_, value)| value).collect();
        assert_eq!(secrets, ["s", "r", "A"]);
        for (name, value, is_token) in [
            ("clientSecret", json!(""), true),
            ("registrationExpiresAt", json!("2026-11-18T00:00:00Z"), true),
            ("accessToken", json!(""), false),
            ("expiresAt", json!("soon"), false),
        ] {
            let mut members = full.clone();
            members[name] = value;
            let found = token(members);
            assert_eq!(found.is_some(), is_token, "{name}");
            assert!(found.is_none_or(|found| found.refresh.is_none()), "{name}");
        }
    }
}
