//! Signing in at vendors for a client that shows the page and the code. Tokens come out in no answer.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError};

use anyhow::anyhow;
use axum::extract::State;
use leftfold_runtime::sign_in::{self, Elsewhere, Method, SignIn};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use tokio::task::JoinHandle;

use super::{Answer, Api, JsonBody, Path, yes};
use crate::error::ApiError;
use crate::shapes::catalog::{ProviderAuthAuthorization, ProviderAuthMethod};
use crate::shapes::{MapOf, Shaped, shaped};

/// Sign-ins that wait for a person, by provider. One that nobody asks for ends with its own time limit.
pub(crate) type PendingSignIns = HashMap<&'static str, JoinHandle<anyhow::Result<()>>>;

/// A method, by its place in the list of `GET /provider/auth`.
#[derive(Deserialize, JsonSchema)]
pub(super) struct Authorize {
    method: usize,
    #[serde(default)]
    inputs: HashMap<String, String>,
}

#[derive(Deserialize, JsonSchema)]
pub(super) struct Callback {
    #[serde(rename = "method")]
    _method: usize,
    #[serde(rename = "code", default)]
    _code: Option<String>,
}

/// The methods of each provider. Its key comes last: it goes to `PUT /auth/{providerID}`.
pub(super) async fn methods() -> Answer<Shaped<MapOf<Vec<ProviderAuthMethod>>>> {
    let all = sign_in::sign_ins().iter().map(|row| {
        let signs_in = sign_in::methods(row).into_iter().map(|method| described(row, method));
        let key = (row.browser.is_some()).then(|| json!({ "type": "api", "label": "API key" }));
        (row.provider.to_owned(), signs_in.chain(key).collect())
    });
    Ok(shaped(Value::Object(all.collect::<Map<String, Value>>())))
}

fn described(row: &SignIn, method: Method) -> Value {
    let label = match method {
        Method::Browser => {
            format!("{} account, in a browser on the machine of the server", row.label)
        }
        Method::Device => format!("{} account, with a code", row.label),
    };
    let mut described = json!({ "type": "oauth", "label": label });
    if row.enterprise.is_some() {
        described["prompts"] = json!([
            {
                "type": "select",
                "key": "deploymentType",
                "message": "Where is your account?",
                "options": [
                    { "label": row.issuer.trim_start_matches("https://"), "value": "public" },
                    { "label": "A host of an organization", "value": "enterprise" },
                ],
            },
            {
                "type": "text",
                "key": "enterpriseUrl",
                "message": "The organization's host",
                "placeholder": "company.ghe.com",
                "when": { "key": "deploymentType", "op": "eq", "value": "enterprise" },
            },
        ]);
    }
    described
}

fn row(provider: &str) -> Result<&'static SignIn, ApiError> {
    sign_in::of(provider)
        .ok_or_else(|| ApiError::bad_request("this provider has no sign-in: store its key instead"))
}

/// Begins a sign-in in the place of an earlier one.
pub(super) async fn authorize(
    State(api): State<Arc<Api>>,
    Path(provider): Path<String>,
    JsonBody(Authorize { method, inputs }): JsonBody<Authorize>,
) -> Answer<Shaped<ProviderAuthAuthorization>> {
    let row = row(&provider)?;
    let methods = sign_in::methods(row);
    let Some(method) = methods.get(method).copied() else {
        return Err(ApiError::bad_request("body: `method`: expected one that signs in"));
    };
    if let Some(earlier) = api.take_sign_in(row.provider) {
        earlier.abort();
        // its port is free once it has ended
        let _ = earlier.await;
    }
    let is_enterprise = inputs.get("deploymentType").is_some_and(|kind| kind == "enterprise");
    let host = inputs.get("enterpriseUrl").filter(|_| is_enterprise);
    let pending = sign_in::begin(row, method, host.map(String::as_str)).await;
    let pending = pending.map_err(|error| ApiError::bad_request(format!("{error:#}")))?;
    let (page, code) = (pending.page(), pending.code().map(str::to_owned));
    let instructions = match code {
        Some(code) => format!("Enter code: {code}"),
        None => "Sign in on the page, in a browser on the machine of the server".to_owned(),
    };
    let waiting = tokio::spawn(async move { pending.finish(&Elsewhere).await });
    let replaced = api.put_sign_in(row.provider, waiting);
    if let Some(other) = replaced {
        other.abort();
    }
    Ok(shaped(json!({ "url": page, "method": "auto", "instructions": instructions })))
}

/// Waits for the end of the sign-in that was begun.
pub(super) async fn callback(
    State(api): State<Arc<Api>>,
    Path(provider): Path<String>,
    JsonBody(Callback { .. }): JsonBody<Callback>,
) -> Answer<bool> {
    let row = row(&provider)?;
    let Some(waiting) = api.take_sign_in(row.provider) else {
        return Err(ApiError::bad_request("no sign-in was begun: authorize first"));
    };
    let ended = waiting.await.unwrap_or_else(|_| Err(anyhow!("another sign-in was begun")));
    ended.map_err(|error| ApiError::bad_request(format!("{error:#}")))?;
    yes()
}

impl Api {
    fn take_sign_in(&self, provider: &str) -> Option<JoinHandle<anyhow::Result<()>>> {
        self.sign_ins.lock().unwrap_or_else(PoisonError::into_inner).remove(provider)
    }

    fn put_sign_in(
        &self,
        provider: &'static str,
        waiting: JoinHandle<anyhow::Result<()>>,
    ) -> Option<JoinHandle<anyhow::Result<()>>> {
        self.sign_ins.lock().unwrap_or_else(PoisonError::into_inner).insert(provider, waiting)
    }
}
