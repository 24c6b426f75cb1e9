//! Fetches a page as text, for the setting `instructions`.

use crate::Error;
use crate::webfetch::page::Page;
use crate::webfetch::{CONTENT_TYPE, Format, address, body, follow, header, refusal, show};

/// The text of the page at `given`, converted as for a model, at most `max` bytes. The time limit
/// is the caller's task.
///
/// # Errors
/// The address is invalid or not allowed; no answer; an error status; no text.
pub(crate) async fn text(given: &str, private: bool, max: u64) -> Result<String, Error> {
    let (url, response) = follow(super::address(given)?, private, None).await?;
    if !response.status().is_success() {
        return Err(refusal(&url, response).await);
    }
    let declared = header(&response, &CONTENT_TYPE);
    let bytes = body(&url, response, max).await?;
    let shown = show(&Page { url, declared, bytes }, Format::Markdown, &|| false)?;
    if shown.attachments.is_empty() {
        Ok(shown.output)
    } else {
        Err(Error::Binary(format!("{} is not text.", shown.title)))
    }
}

/// `given` without parts that may be secret.
pub(crate) fn shown(given: &str) -> String {
    super::address(given).map_or_else(|_| "`instructions`".to_owned(), |url| address::shown(&url))
}
