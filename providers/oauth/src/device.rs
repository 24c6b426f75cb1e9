//! OpenAI's flow with a code: the code is for a page of theirs, and polling ends with an authorization code whose
//! verifier the server has made.

use std::time::Duration;

use oauth2::PkceCodeVerifier;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use crate::answer::Http;
use crate::row::DeviceCode;
use crate::server::{Answered, Error, Server, Tokens};

/// How long a person has for a code.
pub(crate) const CODE_TIMEOUT: Duration = Duration::from_secs(15 * 60);

/// The time between two requests, if the server names none, and the longest.
const INTERVAL: u64 = 5;
const LONGEST_INTERVAL: u64 = 60;

pub(crate) struct Code {
    id: String,
    pub(crate) user: String,
    pub(crate) page: String,
    interval: Duration,
}

pub(crate) async fn start(server: &Server, http: &Http, path: &str) -> Result<Code, Error> {
    let asked = server.post(http, path, &json!({ "client_id": server.row.client_id })).await?;
    let answer = asked.map_err(|Answered { status, code, about }| match status {
        404 => Error::Refused(
            "signing in with a code is not enabled for this account: sign in with a browser, or enable it in ChatGPT's \
             security settings"
                .to_owned(),
        ),
        _ => server.error(&code, Some(&about), &[]),
    })?;
    let text = |name: &str| answer.get(name).and_then(Value::as_str).map(str::to_owned);
    let (id, user) = (text("device_auth_id"), text("user_code").or_else(|| text("usercode")));
    let (Some(id), Some(user)) = (id, user) else {
        return Err(server.error("no_json", Some("its answer has no code"), &[]));
    };
    let interval = answer.get("interval");
    let interval =
        interval.and_then(|value| value.as_u64().or_else(|| value.as_str()?.trim().parse().ok()));
    let interval = Duration::from_secs(interval.unwrap_or(INTERVAL).min(LONGEST_INTERVAL));
    let DeviceCode::OpenAi { page, .. } = server.row.device else {
        return Err(server.error("no_code", None, &[]));
    };
    Ok(Code { id, user, page: server.url(page), interval })
}

pub(crate) async fn finish(server: &Server, http: &Http, code: Code) -> Result<Tokens, Error> {
    let DeviceCode::OpenAi { poll, redirect, .. } = server.row.device else {
        return Err(server.error("no_code", None, &[]));
    };
    let body = json!({ "device_auth_id": code.id, "user_code": code.user });
    let end = Instant::now() + CODE_TIMEOUT;
    let mut interval = code.interval;
    loop {
        match server.post(http, poll, &body).await {
            Ok(Ok(answer)) => {
                let text = |name: &str| answer.get(name).and_then(Value::as_str);
                let found = text("authorization_code").zip(text("code_verifier"));
                let Some((authorization, verifier)) = found else {
                    return Err(server.error("no_json", Some("its answer has no code"), &[]));
                };
                let verifier = PkceCodeVerifier::new(verifier.to_owned());
                return server.exchange(http, authorization, verifier, &server.url(redirect)).await;
            }
            Ok(Err(answered)) if answered.code == "slow_down" => {
                interval += Duration::from_secs(INTERVAL);
            }
            Ok(Err(answered)) if is_pending(&answered) => {}
            Ok(Err(Answered { code: refused, about, .. })) => {
                match server.error(&refused, Some(&about), &[&code.id]) {
                    Error::Unavailable(_) => interval = longer(interval),
                    refused @ Error::Refused(_) => return Err(refused),
                }
            }
            Err(_) => interval = longer(interval),
        }
        if Instant::now() + interval > end {
            return Err(Error::Refused("the code has expired: sign in again".to_owned()));
        }
        sleep(interval).await;
    }
}

/// While nobody has typed the code, the server answers that it knows no such code, or that it is forbidden.
fn is_pending(answered: &Answered) -> bool {
    let is_over = matches!(answered.code.as_str(), "access_denied" | "expired_token");
    !is_over && matches!(answered.status, 403 | 404)
}

fn longer(interval: Duration) -> Duration {
    (interval * 2).clamp(Duration::from_secs(1), Duration::from_secs(LONGEST_INTERVAL))
}
