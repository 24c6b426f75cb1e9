//! `webfetch`: fetches a page or file from the web.

pub(crate) mod client;
pub(crate) mod html;
mod markup;
mod page;
pub(crate) mod plain;

#[cfg(test)]
mod tests;

use std::path::PathBuf;
use std::time::Duration;

use leftfold_events::event::{Access, Attachment, Class, Consent, Wanted};
use leftfold_events::mask;
use leftfold_events::media::{MAX_SIDE, unfit};
use leftfold_events::rules::{HOST, SECRET_IN_URL, host};
use reqwest::header::{ACCEPT, ACCEPT_ENCODING, CONTENT_ENCODING, CONTENT_TYPE, LOCATION};
use reqwest::{Response, StatusCode, Url};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::args::WholeNumber;
use crate::tool::{ToolKind, Typed};
use crate::webfetch::page::{Page, Shape};
use crate::{Context, Elicitation, Error, Output, Plan, Workspace, address, media, text};

/// Default time limit in seconds.
const TIMEOUT: u64 = 30;

/// Longest time limit in seconds.
const MAX_TIMEOUT: u64 = 120;

/// Most bytes of a body.
const MAX_BODY: u64 = 5 * 1024 * 1024;

/// Most redirects followed in one call.
const MAX_REDIRECTS: usize = 10;

/// Most bytes read of an error response's body, and how long to wait for them.
const REFUSAL: u64 = 64 * 1024;
const REFUSAL_TIMEOUT: Duration = Duration::from_secs(2);

/// Most bytes quoted of an error response.
const QUOTED: usize = 500;

/// Longest URL in bytes.
const MAX_URL: usize = 8 * 1024;

const WANTED: &str =
    "text/markdown, text/html;q=0.9, application/xhtml+xml;q=0.9, text/plain;q=0.8, */*;q=0.5";

#[derive(Debug)]
pub(crate) struct WebFetch;

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub(crate) struct Args {
    /// The address: absolute, with http or https.
    url: String,
    /// How a web page is shown: `markdown`, `text` (without any markup) or `html` (as it is).
    /// Default: markdown. Anything that is not a web page is returned as it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    format: Option<Format>,
    /// Seconds to wait for the whole answer. Default: 30; at most 120.
    #[serde(skip_serializing_if = "Option::is_none")]
    timeout: Option<WholeNumber>,
}

#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Format {
    Text,
    #[default]
    Markdown,
    Html,
}

impl Typed for WebFetch {
    type Args = Args;
    const NAME: &'static str = "webfetch";
    const DESCRIPTION: &'static str = include_str!("../../../prompts/tools/webfetch.md");
    const KIND: ToolKind = ToolKind::Fetch;
    const USES_WORKSPACE: bool = true;

    fn plan(args: &Args, cx: &Workspace) -> Result<Plan, Error> {
        let url = address(&args.url)?;
        address::check(&url, cx.private_addresses)?;
        client::check_proxies(&url, cx.private_addresses)?;
        // a limit of 0 is never meant
        let timeout = args.timeout.map(|limit| limit.0).filter(|limit| *limit > 0);
        let timeout = timeout.unwrap_or(TIMEOUT);
        let timeout = timeout.min(MAX_TIMEOUT) * 1_000;
        let mut access = vec![Access {
            permission: Self::NAME.to_owned(),
            patterns: vec![address::shown(&url)],
            always: vec![format!("{}/*", url.origin().ascii_serialization())],
        }];
        access.extend(accesses(&url, &args.url, cx));
        Ok(Plan { access, timeout, ..Plan::new(Class::Read) })
    }

    async fn run(args: Args, _: Vec<PathBuf>, cx: Context) -> Result<Output, Error> {
        let cancel = cx.cancel.clone();
        tokio::select! {
            () = cancel.cancelled() => Err(Error::Cancelled),
            fetched = fetch(args, &cx) => fetched,
        }
    }
}

/// The accesses of a request to `url`: its host, and the secret that would leave in it. `given` is the
/// address as it was written: in a host, capital letters are lost.
fn accesses(url: &Url, given: &str, cx: &Workspace) -> Vec<Access> {
    let shown = address::shown(url);
    let access = |permission: &str, always| Access {
        permission: permission.to_owned(),
        patterns: vec![shown.clone()],
        always,
    };
    let has_secret = [shown.as_str(), given].into_iter().any(|text| {
        text.contains(SECRET) || cx.secrets.hide(text).is_some() || mask::mask(text).is_some()
    });
    let host = access(HOST, host::pattern_of(&shown).into_iter().collect());
    let secret = has_secret.then(|| access(SECRET_IN_URL, Vec::new()));
    std::iter::once(host).chain(secret).collect()
}

/// Begins the name of a secret in a call's arguments.
const SECRET: &str = "{{secret:";

fn address(given: &str) -> Result<Url, Error> {
    let invalid = |problem: String| Error::InvalidArguments { tool: WebFetch::NAME, problem };
    if given.len() > MAX_URL {
        return Err(invalid(format!("`url` has more than {MAX_URL} bytes")));
    }
    Url::parse(given.trim()).map_err(|error| {
        invalid(format!(
            "`url`: {given:?} is not an absolute address ({error}), such as https://host/path"
        ))
    })
}

async fn fetch(args: Args, cx: &Context) -> Result<Output, Error> {
    let private = cx.workspace.private_addresses;
    let (url, response) = follow(address(&args.url)?, private, Some(cx)).await?;
    let status = response.status();
    if !status.is_success() {
        return Err(refusal(&url, response).await);
    }
    let declared = header(&response, &CONTENT_TYPE);
    let bytes = body(&url, response, MAX_BODY).await?;
    let (format, cancel) = (args.format.unwrap_or_default(), cx.cancel.clone());
    // converting a large page takes a while
    let shown = tokio::task::spawn_blocking(move || {
        let page = Page { url, declared, bytes };
        show(&page, format, &|| cancel.is_cancelled()).map(|output| (page, output))
    });
    let (page, mut output) = shown
        .await
        .map_err(|error| Error::Io(format!("Showing the answer failed: {error}.")))??;
    output.mark("status", status.as_u16());
    output.mark("url", address::shown(&page.url));
    output.mark("content_type", page.mime());
    output.mark("bytes", page.bytes.len());
    Ok(output)
}

/// Requests `url` and follows redirects. With a call, those to other hosts are judged as the call was.
async fn follow(
    mut url: Url,
    private: bool,
    call: Option<&Context>,
) -> Result<(Url, Response), Error> {
    let client = client::client(private).await?;
    let asked = address::shown(&url);
    let mut from: Option<Url> = None;
    for _ in 0..=MAX_REDIRECTS {
        address::check(&url, private)?;
        client::check_proxies(&url, private)?;
        if let (Some(from), Some(cx)) = (&from, call) {
            judge_redirect(from, &url, cx).await?;
        }
        let request = client.get(url.clone()).header(ACCEPT, WANTED);
        // a compressed body could unpack to more than the limit
        let request = request.header(ACCEPT_ENCODING, "identity");
        let response = request.send().await.map_err(|error| client::failure(&url, &error))?;
        match redirect(&url, &response)? {
            Some(next) => from = Some(std::mem::replace(&mut url, next)),
            None => return Ok((url, response)),
        }
    }
    Err(Error::Network(format!(
        "{asked} redirects more than {MAX_REDIRECTS} times, at last to {}.",
        address::shown(&url)
    )))
}

/// Asks for the permissions of a redirect to another host.
///
/// # Errors
/// One is not granted.
async fn judge_redirect(from: &Url, to: &Url, cx: &Context) -> Result<(), Error> {
    let [shown_from, shown] = [from, to].map(address::shown);
    let host = host::key_of(&shown);
    if host.is_some() && host == host::key_of(&shown_from) {
        return Ok(());
    }
    for access in accesses(to, &shown, &cx.workspace) {
        let Access { permission, patterns, always } = access;
        let hint = host::pattern_of(&shown).unwrap_or_default();
        let refused = format!(
            "{shown_from} redirects to another host, which was not allowed: {shown}. Fetch that address with a \
             call of its own if the task needs it. The user can allow it in the settings: \
             \"permission\": {{ \"{permission}\": {{ \"{hint}\": \"allow\" }} }}."
        );
        let asked = (cx.elicit)(Elicitation {
            from: WebFetch::NAME.to_owned(),
            message: format!("{shown_from} redirects to another host."),
            wanted: Wanted::Permission { permission, patterns, always },
        });
        if asked.await.0 != Consent::Accepted {
            return Err(Error::PermissionDenied(refused));
        }
    }
    Ok(())
}

/// The address that a response redirects to.
fn redirect(url: &Url, response: &Response) -> Result<Option<Url>, Error> {
    let redirects = matches!(
        response.status(),
        StatusCode::MOVED_PERMANENTLY
            | StatusCode::FOUND
            | StatusCode::SEE_OTHER
            | StatusCode::TEMPORARY_REDIRECT
            | StatusCode::PERMANENT_REDIRECT
    );
    let Some(location) = response.headers().get(LOCATION).filter(|_| redirects) else {
        return Ok(None);
    };
    let location = String::from_utf8_lossy(location.as_bytes());
    url.join(&location).map(Some).map_err(|error| {
        let (from, to) = (address::shown(url), text::clip(location.into_owned(), QUOTED));
        Error::Network(format!("{from} redirects to {to:?}, which is not an address ({error})."))
    })
}

pub(crate) fn header(response: &Response, name: &reqwest::header::HeaderName) -> String {
    let value = response.headers().get(name).map(reqwest::header::HeaderValue::as_bytes);
    String::from_utf8_lossy(value.unwrap_or_default()).into_owned()
}

/// The whole body. An error if it has more than `max` bytes, before they are in memory.
pub(crate) async fn body(url: &Url, mut response: Response, max: u64) -> Result<Vec<u8>, Error> {
    let shown = address::shown(url);
    let too_large = |size: &str| {
        Error::TooLarge(format!("{shown} has {size} bytes; at most {max} can be fetched."))
    };
    let coding = header(&response, &CONTENT_ENCODING);
    if !matches!(coding.trim().to_ascii_lowercase().as_str(), "" | "identity") {
        let text =
            format!("{shown} answers with the encoding {coding:?}, which was not requested.");
        return Err(Error::Binary(text));
    }
    if let Some(size) = response.content_length().filter(|size| *size > max) {
        return Err(too_large(&size.to_string()));
    }
    let mut bytes = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(|error| client::failure(url, &error))? {
        if (bytes.len() + chunk.len()) as u64 > max {
            return Err(too_large(&format!("more than {max}")));
        }
        bytes.extend_from_slice(&chunk);
    }
    Ok(bytes)
}

/// The error for a response with an error status, with the text of its body.
async fn refusal(url: &Url, response: Response) -> Error {
    let status = response.status();
    let said = said(url, response).await;
    let colon = if said.is_empty() { "." } else { ":\n" };
    Error::HttpStatus(format!("{} answers {status}{colon}{said}", address::shown(url)))
}

/// The start of the text of an error response.
pub(crate) async fn said(url: &Url, response: Response) -> String {
    let declared = header(&response, &CONTENT_TYPE);
    let reading = tokio::time::timeout(REFUSAL_TIMEOUT, body(url, response, REFUSAL)).await;
    let page = Page {
        url: url.clone(),
        declared,
        bytes: reading.ok().and_then(Result::ok).unwrap_or_default(),
    };
    let said = match page.shape() {
        Shape::Html(html) => html::text(&html, &|| false).unwrap_or_default(),
        Shape::Text(text) => text,
        Shape::Media(_) | Shape::Binary => String::new(),
    };
    let lines: Vec<&str> = said.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    text::clip(lines.join("\n"), QUOTED)
}

fn show(page: &Page, format: Format, cancelled: &dyn Fn() -> bool) -> Result<Output, Error> {
    let shown = address::shown(&page.url);
    let text = match (page.shape(), format) {
        (Shape::Media(media), _) => return attach(page, media),
        (Shape::Binary, _) => {
            let (mime, size) = (page.mime(), page.bytes.len());
            let mime = if mime.is_empty() { "of no stated type" } else { &mime };
            let text = format!("{shown} is not text ({mime}, {size} bytes), so it is not shown.");
            return Err(Error::Binary(text));
        }
        (Shape::Html(html), Format::Markdown) => html::markdown(&html, &page.url, cancelled)?,
        (Shape::Html(html), Format::Text) => html::text(&html, cancelled)?,
        (Shape::Html(text), Format::Html) | (Shape::Text(text), _) => text,
    };
    let text = if text.trim().is_empty() { "(The page has no text.)".to_owned() } else { text };
    Ok(Output::new(shown, text, &json!({})))
}

fn attach(page: &Page, media: media::Media) -> Result<Output, Error> {
    let (shown, mime, size) = (address::shown(&page.url), media.mime, page.bytes.len());
    if size as u64 > media.max {
        let max = media.max;
        return Err(Error::TooLarge(format!(
            "{shown} ({mime}) has {size} bytes; at most {max} can be shown."
        )));
    }
    let base64 = media::base64(&page.bytes);
    if let Some(why) = unfit(mime, &base64, MAX_SIDE) {
        return Err(Error::TooLarge(format!("{shown} ({mime}): {why}.")));
    }
    let text = format!("Attached: {shown} ({mime}, {size} bytes).");
    let mut output = Output::new(shown, text, &json!({ "mime": mime }));
    let mut names = page.url.path_segments().into_iter().flatten();
    output.attachments.push(Attachment {
        mime: mime.to_owned(),
        name: names.next_back().unwrap_or_default().to_owned(),
        base64,
    });
    Ok(output)
}
