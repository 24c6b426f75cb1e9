//! Shows a consent page to a person, and waits for the address to which it leads.

use std::time::Duration;

use leftfold_framing::clip;
use reqwest::Url;
use reqwest::header::LOCATION;

use crate::callback::{Callback, query};
use crate::http;

/// How long to wait for consent.
pub const CONSENT_TIMEOUT: Duration = Duration::from_secs(5 * 60);

/// Bytes kept of a server's error.
const MAX_WHY: usize = 1_000;

/// A way to show a consent page to a person.
pub trait Consent: Sync {
    /// Shows the page. May return where it has led: an address with a `code`, or the code. An
    /// implementation that learns nothing of the result may wait for ever: the browser reports back
    /// by itself.
    fn ask(&self, page: &str) -> impl Future<Output = Result<String, String>> + Send;
}

/// Requests the page and follows its redirect at once, without a person. This works with servers
/// that trust every client, such as those of conformance suites.
#[derive(Clone, Copy, Debug)]
pub struct AutoConsent;

impl Consent for AutoConsent {
    async fn ask(&self, page: &str) -> Result<String, String> {
        let client = tokio::task::spawn_blocking(http::client).await;
        let client = client.map_err(|error| error.to_string())??;
        let asked = client.get(page).send().await;
        let answer = asked.map_err(|error| format!("its consent page does not answer: {error}"))?;
        let to = answer.headers().get(LOCATION).and_then(|to| to.to_str().ok());
        let Some(to) = to else {
            return Err(format!(
                "its consent page does not redirect by itself ({})",
                answer.status()
            ));
        };
        let base = Url::parse(page).map_err(|error| error.to_string())?;
        base.join(to).map(String::from).map_err(|error| error.to_string())
    }
}

/// Waits for the address that consent led to: from the browser, or pasted by its user.
///
/// # Errors
/// There was no consent within `limit`, or what was pasted is no answer, in words for people.
pub async fn answer(
    page: &str,
    callback: &Callback,
    consent: &impl Consent,
    limit: Duration,
) -> Result<Url, String> {
    let address = Url::parse(page)
        .map_err(|error| format!("the address of its consent page is invalid: {error}"))?;
    if !matches!(address.scheme(), "http" | "https") {
        return Err("the address of its consent page is not on the web".to_owned());
    }
    let state = query(&address, "state").ok_or("the address of its consent page has no `state`")?;
    let url = tokio::select! {
        url = callback.answer(&state) => url,
        told = consent.ask(page) => read(told?.trim(), callback.address(), &state)?,
        () = tokio::time::sleep(limit) => {
            let minutes = limit.as_secs() / 60;
            return Err(format!("there was no consent within {minutes} minutes"));
        }
    };
    let Some(refused) = query(&url, "error") else { return Ok(url) };
    let about = query(&url, "error_description").map(|about| format!(" ({about})"));
    let refused = format!("there was no consent: {refused}{}", about.unwrap_or_default());
    Err(clip(refused, MAX_WHY))
}

/// Reads a pasted address or code.
fn read(told: &str, address: &str, state: &str) -> Result<Url, String> {
    if told.contains("://") {
        let url = Url::parse(told).map_err(|error| format!("that is not an address: {error}"))?;
        return match query(&url, "state") {
            Some(known) if known == state => Ok(url),
            Some(_) | None => Err(STRANGE.to_owned()),
        };
    }
    let query = [("code", told), ("state", state)];
    Url::parse_with_params(address, query).map_err(|error| error.to_string())
}

const STRANGE: &str = "that address belongs to another request (its `state` differs): open the page shown now, and paste the address to which it leads";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::callback::Redirect;

    const ANY: Redirect<'static> = Redirect { host: "127.0.0.1", ports: &[], path: "/callback" };

    struct Says(Option<&'static str>);

    impl Consent for Says {
        async fn ask(&self, page: &str) -> Result<String, String> {
            match self.0 {
                Some(said) => {
                    Ok(said.replace("STATE", &query(&Url::parse(page).unwrap(), "state").unwrap()))
                }
                None => std::future::pending().await,
            }
        }
    }

    async fn answered(said: Option<&'static str>, limit: Duration) -> Result<Url, String> {
        let callback = Callback::open(ANY).await.unwrap();
        let page = "https://auth.test/authorize?state=s-1&client_id=c";
        answer(page, &callback, &Says(said), limit).await
    }

    #[tokio::test]
    async fn what_is_pasted_is_an_address_with_the_right_state_or_a_code() {
        for told in ["  c-1 \n", "http://127.0.0.1:1/callback?code=c-1&state=STATE"] {
            let url = answered(Some(told), CONSENT_TIMEOUT).await.unwrap();
            assert_eq!(
                (query(&url, "code").unwrap(), query(&url, "state").unwrap()),
                ("c-1".into(), "s-1".into())
            );
        }
        for (told, expected) in [
            ("http://127.0.0.1:1/callback?code=c-1&state=other", STRANGE),
            ("http://127.0.0.1:1/callback?code=c-1", STRANGE),
            (
                "http://h/?state=STATE&error=access_denied&error_description=no",
                "there was no consent: access_denied (no)",
            ),
        ] {
            assert_eq!(answered(Some(told), CONSENT_TIMEOUT).await.unwrap_err(), expected);
        }
    }

    #[tokio::test]
    async fn nobody_is_waited_for_for_ever() {
        let why = answered(None, Duration::from_millis(20)).await.unwrap_err();
        assert!(why.starts_with("there was no consent within"), "{why}");
    }

    #[test]
    fn consent_may_take_five_minutes() {
        assert_eq!(CONSENT_TIMEOUT, Duration::from_millis(300_000));
    }

    #[tokio::test]
    async fn a_page_is_one_of_the_web() {
        let callback = Callback::open(ANY).await.unwrap();
        for page in [
            "file:///etc/passwd?state=s", "javascript:alert(1)?state=s",
            "data:text/html,x?state=s", "vbscript:x?state=s", "smb://host/share?state=s",
            "ms-settings:x?state=s", "mailto:a@b.test?state=s",
        ] {
            let why = answer(page, &callback, &Says(None), CONSENT_TIMEOUT).await.unwrap_err();
            assert_eq!(why, "the address of its consent page is not on the web", "{page}");
        }
        for page in ["--help", "-e x", "", "/bin/sh", "https:///?state=s"] {
            let why = answer(page, &callback, &Says(None), CONSENT_TIMEOUT).await.unwrap_err();
            assert!(why.starts_with("the address of its consent page is"), "{page}: {why}");
        }
    }
}
