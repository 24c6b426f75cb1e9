//! The models that a server offers: one on this machine, for people who have not chosen a model yet, or the API behind an
//! account, which has other models for each account.

use std::time::Duration;

use leftfold_events::turn_config::Limit;
use leftfold_oauth::SignIn;
use reqwest::header::HeaderMap;
use reqwest::{StatusCode, Url};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::authorization::{Authorization, Outgoing};
use crate::http;

/// The largest list that is read, in bytes.
const LARGEST: usize = 4 << 20;

/// The most models of an account, and the longest id of one.
const MAX_MODELS: usize = 1_000;
const LONGEST_ID: usize = 200;

/// The names of the models that the server at this base address lists (`GET BASE/models`, as OpenAI has it), without
/// those for embeddings. `None`: no such server answers within `patience`.
pub async fn served(base: &str, patience: Duration) -> Option<Vec<String>> {
    let url = Url::parse(&format!("{base}/models")).ok()?;
    names(&list(url, HeaderMap::new(), patience).await.ok()?)
}

async fn list(url: Url, headers: HeaderMap, patience: Duration) -> Result<Value, String> {
    let address = http::display_url(&url);
    let unreachable = |error: reqwest::Error| format!("{address}: {}", http::chain(&error));
    let client = http::client(&url).await.map_err(|failure| failure.message)?;
    let request = client.get(url).headers(headers).timeout(patience);
    let mut response = request.send().await.map_err(unreachable)?;
    if response.status() != StatusCode::OK {
        return Err(format!("{address} answered {}", response.status()));
    }
    let mut body = Vec::new();
    while let Some(piece) = response.chunk().await.map_err(unreachable)? {
        body.extend_from_slice(&piece);
        if body.len() > LARGEST {
            return Err(format!("{address} answered more than {LARGEST} bytes"));
        }
    }
    serde_json::from_slice(&body).map_err(|_| format!("{address} did not answer JSON"))
}

fn names(list: &Value) -> Option<Vec<String>> {
    let models = list.get("data")?.as_array()?;
    let names = models.iter().filter_map(|model| model.get("id")?.as_str());
    Some(names.filter(|name| !name.contains("embed")).map(str::to_owned).collect())
}

/// A model that an account has.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AccountModel {
    pub id: String,
    /// 0 if it is not known.
    pub limit: Limit,
    pub tools: bool,
    pub images: bool,
}

/// The models that the account of a sign-in has, in the vendor's order.
///
/// # Errors
/// The vendor has no list, refuses the tokens, or does not answer within `patience`: the reason, for people.
pub async fn account_models(
    row: &SignIn,
    (authorization, api): &(Authorization, String),
    patience: Duration,
) -> Result<Vec<AccountModel>, String> {
    let path = row.models.ok_or_else(|| format!("{} has no list of models", row.label))?;
    let url = Url::parse(&format!("{api}{path}")).map_err(|error| format!("{api}: {error}"))?;
    let mut request = Outgoing { url, headers: HeaderMap::new(), body: Vec::new() };
    authorization.authorize(&mut request).await.map_err(|failure| failure.message)?;
    let list = list(request.url, request.headers, patience).await?;
    let models = list.get("data").and_then(Value::as_array);
    let models = models.ok_or_else(|| format!("the list of {} has no `data`", row.label))?;
    Ok(models.iter().filter_map(account_model).take(MAX_MODELS).collect())
}

/// A model of Copilot's list. `None`: it is no model for conversations, is off for the account or in its menus, or has no API
/// that Leftfold speaks there.
fn account_model(model: &Value) -> Option<AccountModel> {
    let id = model.get("id")?.as_str()?;
    let is_off = model["model_picker_enabled"] == false || model["policy"]["state"] == "disabled";
    let capabilities = &model["capabilities"];
    let is_chat = capabilities["type"].as_str().is_none_or(|kind| kind == "chat");
    let is_spoken = model["supported_endpoints"].as_array().is_none_or(|all| {
        all.iter().any(|path| matches!(path.as_str(), Some("/chat/completions" | "/responses")))
    });
    let is_plain = id.len() <= LONGEST_ID && id.bytes().all(|byte| byte.is_ascii_graphic());
    if is_off || !is_chat || !is_spoken || !is_plain || id.is_empty() {
        return None;
    }
    let limit = |name: &str| capabilities["limits"][name].as_u64().unwrap_or_default();
    let is = |name: &str| capabilities["supports"][name] == true;
    let output = limit("max_output_tokens");
    Some(AccountModel {
        id: id.to_owned(),
        limit: Limit {
            context: limit("max_context_window_tokens"),
            input: limit("max_prompt_tokens"),
            output: if output == 0 { Limit::default().output } else { output },
        },
        tools: is("tool_calls"),
        images: is("vision"),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn models_for_embeddings_answer_no_prompt() {
        let list = json!({ "object": "list", "data": [
            { "id": "qwen3:8b", "object": "model" }, { "id": "nomic-embed-text:latest" }, { "object": "model" },
        ] });
        assert_eq!(names(&list), Some(vec!["qwen3:8b".to_owned()]));
        assert_eq!(names(&json!({ "models": [] })), None);
    }

    #[test]
    fn only_models_of_an_account_that_can_be_used_are_listed() {
        let with = |more: Value| {
            let mut model = json!({ "id": "m", "model_picker_enabled": true,
                "policy": { "state": "enabled" }, "capabilities": { "type": "chat",
                    "limits": { "max_context_window_tokens": 264_000, "max_prompt_tokens": 200_000,
                        "max_output_tokens": 64_000 },
                    "supports": { "tool_calls": true, "vision": true } } });
            for (name, value) in more.as_object().unwrap() {
                model[name] = value.clone();
            }
            account_model(&model)
        };
        let usable = AccountModel {
            id: "m".to_owned(),
            limit: Limit { context: 264_000, input: 200_000, output: 64_000 },
            tools: true,
            images: true,
        };
        let plain =
            AccountModel { limit: Limit::default(), tools: false, images: false, ..usable.clone() };
        for (more, expected) in [
            (json!({}), Some(usable.clone())),
            (json!({ "supported_endpoints": ["/chat/completions"] }), Some(usable.clone())),
            (json!({ "supported_endpoints": ["/responses", "ws:/responses"] }), Some(usable)),
            (json!({ "supported_endpoints": ["/v1/messages"] }), None),
            (json!({ "policy": null, "capabilities": null }), Some(plain)),
            (json!({ "policy": { "state": "disabled" } }), None),
            (json!({ "model_picker_enabled": false }), None),
            (json!({ "capabilities": { "type": "embeddings" } }), None),
            (json!({ "id": "a\u{1b}[2J" }), None),
            (json!({ "id": "" }), None),
            (json!({ "id": 7 }), None),
        ] {
            assert_eq!(with(more.clone()), expected, "{more}");
        }
    }
}
