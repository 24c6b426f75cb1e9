//! Consent that needs nobody.

use reqwest::Url;
use reqwest::header::LOCATION;

use super::Consent;
use crate::mcp::remote;

/// Asks for the page and takes where it leads at once. Servers do so that trust whoever asks, as those do
/// that clients are tested with.
#[derive(Clone, Copy, Debug)]
pub struct Follow;

impl Consent for Follow {
    async fn ask(&self, page: &str) -> Result<String, String> {
        let client = tokio::task::spawn_blocking(remote::client).await;
        let client = client.map_err(|error| error.to_string())??;
        let asked = client.get(page).send().await;
        let answer = asked.map_err(|error| format!("its page does not answer: {error}"))?;
        let to = answer.headers().get(LOCATION).and_then(|to| to.to_str().ok());
        let Some(to) = to else {
            return Err(format!("its page leads nowhere by itself ({})", answer.status()));
        };
        let base = Url::parse(page).map_err(|error| error.to_string())?;
        base.join(to).map(String::from).map_err(|error| error.to_string())
    }
}
