//! The models that a server on this machine offers, for people who have not chosen a model yet.

use std::time::Duration;

use reqwest::Url;
use serde_json::Value;

use crate::http;

/// The largest list that is read, in bytes.
const LARGEST: usize = 1 << 20;

/// The names of the models that the server at this base address lists (`GET BASE/models`, as OpenAI has it), without
/// those for embeddings. `None`: no such server answers within `patience`.
pub async fn served(base: &str, patience: Duration) -> Option<Vec<String>> {
    let url = Url::parse(&format!("{base}/models")).ok()?;
    let client = http::client(&url).await.ok()?;
    let mut response = client.get(url).timeout(patience).send().await.ok()?;
    if !response.status().is_success() {
        return None;
    }
    let mut body = Vec::new();
    while let Some(piece) = response.chunk().await.ok()? {
        body.extend_from_slice(&piece);
        if body.len() > LARGEST {
            return None;
        }
    }
    names(&serde_json::from_slice(&body).ok()?)
}

fn names(list: &Value) -> Option<Vec<String>> {
    let models = list.get("data")?.as_array()?;
    let names = models.iter().filter_map(|model| model.get("id")?.as_str());
    Some(names.filter(|name| !name.contains("embed")).map(str::to_owned).collect())
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
}
