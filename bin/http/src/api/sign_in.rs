//! Signing in at vendors for a client that shows the page and the code. Tokens come out in no answer.

use std::collections::{BTreeMap, HashMap};
use std::path::Path as FilePath;
use std::sync::PoisonError;
use std::time::Duration;

use anyhow::anyhow;
use leftfold_plugins::{Plugins, SignInKind, SignInOffer, StartedSignIn};
use leftfold_runtime::resolved_settings;
use leftfold_runtime::sign_in::{self, Elsewhere, Method, SignIn};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::{Answer, Api, ApiState, Directory, JsonBody, Path, yes};
use crate::error::ApiError;
use crate::shapes::catalog::{ProviderAuthAuthorization, ProviderAuthMethod};
use crate::shapes::{MapOf, Shaped, shaped};

/// Sign-ins that wait for a person, by provider. One that nobody asks for ends with its own time limit.
pub(crate) type PendingSignIns = HashMap<String, PendingSignIn>;

#[derive(Debug)]
pub(crate) struct PendingSignIn {
    ended: JoinHandle<anyhow::Result<()>>,
    /// Where the code of a page goes, if there is one.
    code: Option<oneshot::Sender<String>>,
}

/// The time for the code of a page.
const CODE_TIMEOUT: Duration = Duration::from_secs(600);

/// A method, by its place in the list of `GET /provider/auth`.
#[derive(Deserialize, JsonSchema)]
pub(super) struct Authorize {
    method: usize,
    #[serde(default)]
    inputs: BTreeMap<String, String>,
}

#[derive(Deserialize, JsonSchema)]
pub(super) struct Callback {
    #[serde(rename = "method")]
    _method: usize,
    #[serde(default)]
    code: Option<String>,
}

/// A method of a provider.
enum Way {
    Vendor(&'static SignIn, Method),
    Plugin(Box<SignInOffer>),
    /// Its key, which goes to `PUT /auth/{providerID}`.
    Key,
}

/// The methods of each provider in the order of clients' numbers: those of Leftfold, those of plugins, and a key. The plugins
/// must be kept until a sign-in ends.
async fn ways(directory: &FilePath) -> Result<(Plugins, Vec<(String, Vec<Way>)>), ApiError> {
    let (plugins, offers) = resolved_settings::sign_ins(directory).await?;
    let mut all: Vec<(String, Vec<Way>)> = Vec::new();
    for row in sign_in::sign_ins() {
        let methods = sign_in::methods(row).into_iter();
        all.push((row.provider.to_owned(), methods.map(|it| Way::Vendor(row, it)).collect()));
    }
    for offer in offers {
        let provider = offer.provider.clone();
        let way = Way::Plugin(Box::new(offer));
        match all.iter_mut().find(|(known, _)| *known == provider) {
            Some((_, ways)) => ways.push(way),
            None => all.push((provider, vec![way])),
        }
    }
    for (provider, ways) in &mut all {
        if sign_in::for_provider(provider).is_none_or(|row| row.browser.is_some()) {
            ways.push(Way::Key);
        }
    }
    Ok((plugins, all))
}

/// The methods of each provider.
pub(super) async fn methods(
    Directory(directory): Directory,
) -> Answer<Shaped<MapOf<Vec<ProviderAuthMethod>>>> {
    let (_plugins, all) = ways(&directory).await?;
    let all = all.into_iter().map(|(provider, ways)| {
        let ways = ways.iter().map(|way| match way {
            Way::Vendor(row, method) => described(row, *method),
            Way::Plugin(offer) => {
                let kind = match offer.method.kind {
                    SignInKind::OAuth => "oauth",
                    SignInKind::Key => "api",
                };
                let (label, prompts) = (&offer.method.label, &offer.method.prompts);
                json!({ "type": kind, "label": label, "prompts": prompts })
            }
            Way::Key => json!({ "type": "api", "label": "API key" }),
        });
        (provider, ways.collect())
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

/// Begins a sign-in in the place of an earlier one.
pub(super) async fn authorize(
    api: ApiState,
    Directory(directory): Directory,
    Path(provider): Path<String>,
    JsonBody(Authorize { method, inputs }): JsonBody<Authorize>,
) -> Answer<Shaped<ProviderAuthAuthorization>> {
    let (plugins, all) = ways(&directory).await?;
    let Some((_, mut ways)) = all.into_iter().find(|(known, _)| *known == provider) else {
        return Err(no_sign_in());
    };
    let signs_in = |way: &Way| match way {
        Way::Vendor(..) => true,
        Way::Plugin(offer) => offer.method.kind == SignInKind::OAuth,
        Way::Key => false,
    };
    let way = (method < ways.len()).then(|| ways.swap_remove(method)).filter(signs_in);
    let wrong = || ApiError::bad_request("body: `method`: expected one that signs in");
    let way = way.ok_or_else(wrong)?;
    let failed = |error: anyhow::Error| ApiError::bad_request(format!("{error:#}"));
    if let Some(earlier) = api.take_sign_in(&provider) {
        earlier.ended.abort();
        // its port is free once it has ended
        let _ = earlier.ended.await;
    }
    let (begun, pending) = match way {
        Way::Vendor(row, method) => {
            let is_enterprise = inputs.get("deploymentType").is_some_and(|it| it == "enterprise");
            let host = inputs.get("enterpriseUrl").filter(|_| is_enterprise);
            let pending = sign_in::begin(row, method, host.map(String::as_str)).await;
            let pending = pending.map_err(failed)?;
            let instructions = match pending.code() {
                Some(code) => format!("Enter code: {code}"),
                None => "Sign in on the page, in a browser on the machine of the server".to_owned(),
            };
            let begun =
                json!({ "url": pending.page(), "method": "auto", "instructions": instructions });
            let ended = tokio::spawn(async move { pending.finish(&Elsewhere).await });
            (begun, PendingSignIn { ended, code: None })
        }
        Way::Plugin(offer) => {
            let started = offer.authorize(&inputs).await.map_err(|why| failed(anyhow!(why)))?;
            let kind = if started.needs_code { "code" } else { "auto" };
            let begun =
                json!({ "url": started.url, "method": kind, "instructions": started.instructions });
            (begun, wait_for(started, plugins))
        }
        Way::Key => return Err(wrong()),
    };
    let replaced = api.put_sign_in(provider, pending);
    if let Some(other) = replaced {
        other.ended.abort();
    }
    Ok(shaped(begun))
}

/// Waits for the end of a plugin's sign-in while the plugins are kept.
fn wait_for(started: StartedSignIn, plugins: Plugins) -> PendingSignIn {
    let (code, given) = match started.needs_code {
        true => {
            let (code, given) = oneshot::channel();
            (Some(code), Some(given))
        }
        false => (None, None),
    };
    let ended = tokio::spawn(async move {
        let code = match given {
            Some(given) => Some(timeout(CODE_TIMEOUT, given).await??),
            None => None,
        };
        let finished = started.finish(code.as_deref()).await;
        drop(plugins);
        finished.map_err(|why| anyhow!(why))
    });
    PendingSignIn { ended, code }
}

fn no_sign_in() -> ApiError {
    ApiError::bad_request("this provider has no sign-in: store its key instead")
}

/// Waits for the end of the sign-in that was begun.
pub(super) async fn callback(
    api: ApiState,
    Path(provider): Path<String>,
    JsonBody(Callback { code, .. }): JsonBody<Callback>,
) -> Answer<bool> {
    let Some(waiting) = api.take_sign_in(&provider) else {
        return Err(ApiError::bad_request("no sign-in was begun: authorize first"));
    };
    let code = code.map(|code| code.trim().to_owned()).filter(|code| !code.is_empty());
    if waiting.code.is_some() && code.is_none() {
        api.put_sign_in(provider, waiting);
        return Err(ApiError::bad_request("body: `code`: expected the code of the page"));
    }
    if let (Some(wanted), Some(code)) = (waiting.code, code) {
        // the wait may have ended
        let _ = wanted.send(code);
    }
    let ended = waiting.ended.await.unwrap_or_else(|_| Err(anyhow!("another sign-in was begun")));
    ended.map_err(|error| ApiError::bad_request(format!("{error:#}")))?;
    yes()
}

impl Api {
    fn take_sign_in(&self, provider: &str) -> Option<PendingSignIn> {
        self.sign_ins.lock().unwrap_or_else(PoisonError::into_inner).remove(provider)
    }

    fn put_sign_in(&self, provider: String, pending: PendingSignIn) -> Option<PendingSignIn> {
        self.sign_ins.lock().unwrap_or_else(PoisonError::into_inner).insert(provider, pending)
    }
}
