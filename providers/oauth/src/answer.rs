//! Requests to an authorization server, and its answers in the form that the standard asks for: vendors differ in
//! statuses, in the form of errors and in members that are left out.

use std::pin::Pin;
use std::time::Duration;

use oauth2::{AsyncHttpClient, HttpRequest, HttpResponse};
use serde_json::{Map, Value, json};
use tokio::sync::OnceCell;

use crate::http;

/// Longer answers have no token in them, in bytes.
const LONGEST: usize = 1024 * 1024;

/// How long one request may take.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);

/// The error codes of answers that say nothing about the request: the server is at fault, or overloaded.
const UNAVAILABLE: &str = "unavailable";

/// There was no answer.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct NoAnswer(pub(crate) String);

/// The client for authorization servers, as oauth2 uses it.
#[derive(Debug)]
pub(crate) struct Http(reqwest::Client);

impl Http {
    /// The client of this process. Making it reads the system's certificates.
    pub(crate) async fn shared() -> Result<&'static Self, NoAnswer> {
        static SHARED: OnceCell<Http> = OnceCell::const_new();
        let make = || async {
            let made = tokio::task::spawn_blocking(http::client).await;
            let made = made.map_err(|error| NoAnswer(error.to_string()))?;
            made.map(Self).map_err(NoAnswer)
        };
        SHARED.get_or_try_init(make).await
    }
}

impl<'c> AsyncHttpClient<'c> for Http {
    type Error = NoAnswer;
    type Future = Pin<Box<dyn Future<Output = Result<HttpResponse, NoAnswer>> + Send + 'c>>;

    fn call(&'c self, request: HttpRequest) -> Self::Future {
        Box::pin(send(self, request))
    }
}

/// Sends a request. An answer is a success with a JSON object, or an error as in RFC 6749.
pub(crate) async fn send(http: &Http, request: HttpRequest) -> Result<HttpResponse, NoAnswer> {
    let (head, body) = request.into_parts();
    let request = http
        .0
        .request(head.method, head.uri.to_string())
        .headers(head.headers)
        .timeout(REQUEST_TIMEOUT)
        .body(body);
    let failed = |error: reqwest::Error| {
        let what = if error.is_timeout() { "it did not answer in time" } else { "no connection" };
        NoAnswer(format!("{what} ({})", innermost(&error)))
    };
    let mut response = request.send().await.map_err(failed)?;
    let mut bytes = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(failed)? {
        bytes.extend_from_slice(&chunk);
        if bytes.len() > LONGEST {
            return Err(NoAnswer("its answer has more than 1 MiB".to_owned()));
        }
    }
    let (status, body) = normal(response.status().as_u16(), &bytes);
    let answer = ::http::Response::builder().status(status).body(body.to_string().into_bytes());
    answer.map_err(|error| NoAnswer(error.to_string()))
}

/// Status and body as in RFC 6749.
fn normal(status: u16, body: &[u8]) -> (u16, Value) {
    let object = match serde_json::from_slice(body) {
        Ok(Value::Object(object)) => Some(object),
        Ok(_) | Err(_) => None,
    };
    let is_good = (200..300).contains(&status);
    match object {
        Some(object) if object.contains_key("error") => (400, error(status, &object)),
        Some(mut object) if is_good => {
            // required by the standard, and always this
            object.entry("token_type").or_insert_with(|| "bearer".into());
            (200, object.into())
        }
        Some(object) => (400, error(status, &object)),
        None if is_good => {
            (400, json!({ "error": "no_json", "error_description": "its answer is not JSON" }))
        }
        None => (400, error(status, &Map::new())),
    }
}

/// An error in the standard's form. Some vendors have an object in the place of the code.
fn error(status: u16, object: &Map<String, Value>) -> Value {
    let inner = object.get("error").and_then(Value::as_object);
    let text = |from: Option<&Map<String, Value>>, names: &[&str]| {
        names.iter().find_map(|name| from?.get(*name)?.as_str().map(str::to_owned))
    };
    let code = text(inner, &["code", "type"]).or_else(|| text(Some(object), &["error", "code"]));
    let about = text(inner, &["message"])
        .or_else(|| text(Some(object), &["error_description", "message", "detail"]));
    let code = match code {
        _ if status >= 500 || status == 429 => UNAVAILABLE.to_owned(),
        Some(code) => code,
        None => format!("status_{status}"),
    };
    let about = about.unwrap_or_else(|| format!("it answered with status {status}"));
    json!({ "error": code, "error_description": about, "status": status })
}

/// Whether an error of this code passes by itself.
pub(crate) fn passes(code: &str) -> bool {
    matches!(code, UNAVAILABLE | "temporarily_unavailable" | "server_error" | "no_json")
}

fn innermost(error: &dyn std::error::Error) -> String {
    let mut innermost = error.to_string();
    let mut next = error.source();
    while let Some(error) = next {
        innermost = error.to_string();
        next = error.source();
    }
    innermost
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_of_all_vendors_become_those_of_the_standard() {
        for (status, body, expected, code) in [
            (200, r#"{"access_token":"t"}"#, 200, None),
            (201, r#"{"access_token":"t","token_type":"Bearer"}"#, 200, None),
            (200, r#"{"error":"authorization_pending"}"#, 400, Some("authorization_pending")),
            (
                400,
                r#"{"error":"invalid_grant","error_description":"gone"}"#,
                400,
                Some("invalid_grant"),
            ),
            (
                401,
                r#"{"error":{"message":"used","code":"refresh_token_reused"}}"#,
                400,
                Some("refresh_token_reused"),
            ),
            (403, r#"{"detail":"no"}"#, 400, Some("status_403")),
            (500, r#"{"error":"invalid_grant"}"#, 400, Some("unavailable")),
            (429, "slow", 400, Some("unavailable")),
            (200, "<html>", 400, Some("no_json")),
            (200, "[1]", 400, Some("no_json")),
            (302, "", 400, Some("status_302")),
        ] {
            let (found, answer) = normal(status, body.as_bytes());
            assert_eq!(found, expected, "{status} {body}");
            assert_eq!(answer.get("error").and_then(Value::as_str), code, "{status} {body}");
        }
    }
}
