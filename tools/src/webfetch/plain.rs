//! A page as text, for settings that name one.

use crate::Error;
use crate::webfetch::page::Page;
use crate::webfetch::{CONTENT_TYPE, Format, address, body, follow, header, refusal, show};

/// The text of the page at `given`, which is shown as a model would see it, with at most `max`
/// bytes; and the address as it may be shown. The caller keeps the time.
///
/// # Errors
/// No address, one that may not be reached, no answer, a refusal, no text.
pub(crate) async fn text(given: &str, private: bool, max: u64) -> Result<String, Error> {
    let (url, response) = follow(super::address(given)?, private).await?;
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

/// `given` without what may be secret in it.
pub(crate) fn shown(given: &str) -> String {
    super::address(given).map_or_else(|_| "`instructions`".to_owned(), |url| address::shown(&url))
}
