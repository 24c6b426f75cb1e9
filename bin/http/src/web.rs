//! A front end beside the API: Leftfold's own page, or with `leftfold serve --web` the files of a folder, or
//! another server that unknown requests are forwarded to. Only `GET` and `HEAD` come here, after every check of the
//! server, and only for paths that the API does not have.
//!
//! Forwarded requests carry no credentials of this server: no cookie, no password, no token.

use std::path::{Component, Path, PathBuf};
use std::sync::OnceLock;

use axum::body::Body;
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use leftfold_runtime::Usage;
use sha2::{Digest, Sha256};

use crate::error::ApiError;

const INDEX: &str = "index.html";
/// The largest file that is served, in bytes.
const MAX_FILE: u64 = 64 << 20;
/// Parameters of a query that are for this server alone.
const TOKEN: &str = "auth_token=";
/// Headers of a request that are forwarded.
const FORWARDED: [HeaderName; 6] = [
    header::ACCEPT,
    header::ACCEPT_ENCODING,
    header::ACCEPT_LANGUAGE,
    header::IF_MODIFIED_SINCE,
    header::IF_NONE_MATCH,
    header::RANGE,
];
/// Headers of an answer that come back.
const RETURNED: [HeaderName; 10] = [
    header::ACCEPT_RANGES,
    header::CACHE_CONTROL,
    header::CONTENT_ENCODING,
    header::CONTENT_LENGTH,
    header::CONTENT_RANGE,
    header::CONTENT_SECURITY_POLICY,
    header::CONTENT_TYPE,
    header::ETAG,
    header::LAST_MODIFIED,
    header::LOCATION,
];

/// Where a front end comes from.
#[derive(Debug)]
pub(crate) enum Web {
    /// Leftfold's page, at `/`.
    Page,
    /// A folder with `index.html`, without links in its path.
    Files(PathBuf),
    Server {
        /// Without a slash at its end.
        url: String,
        client: OnceLock<Result<reqwest::Client, String>>,
    },
}

impl Web {
    /// Reads the option `--web`.
    ///
    /// # Errors
    /// [`Usage`]: it is neither an address nor a folder with a front end.
    pub(crate) fn parse(text: &str) -> anyhow::Result<Self> {
        if text.starts_with("http://") || text.starts_with("https://") {
            let url = text.trim_end_matches('/');
            if url.contains(['?', '#', '@']) || url.parse::<Uri>().is_err() {
                let wrong =
                    format!("--web {text}: expected an address without a login and a query");
                return Err(Usage(wrong).into());
            }
            return Ok(Self::Server { url: url.to_owned(), client: OnceLock::new() });
        }
        let folder = Path::new(text).canonicalize();
        let folder = folder.map_err(|error| Usage(format!("--web {text}: {error}")))?;
        if !folder.join(INDEX).is_file() {
            let wrong =
                format!("--web {text}: expected a folder with the file {INDEX}, or an address");
            return Err(Usage(wrong).into());
        }
        Ok(Self::Files(folder))
    }

    /// The answer to a request for a path that the API does not have; `None`: this front end has
    /// nothing there either.
    pub(crate) async fn answer(&self, request: &Parts) -> Option<Response> {
        if !matches!(request.method, Method::GET | Method::HEAD) {
            return None;
        }
        match self {
            Self::Page => own_file(request.uri.path()),
            Self::Files(folder) => {
                let folder = folder.clone();
                let path = request.uri.path().to_owned();
                let is_page = accepts_pages(&request.headers);
                let found = tokio::task::spawn_blocking(move || file(&folder, &path, is_page));
                found.await.ok().flatten()
            }
            Self::Server { url, client } => {
                let client = client.get_or_init(leftfold_runtime::http_client);
                Some(match client {
                    Ok(client) => forward(client, url, request).await.unwrap_or_else(|error| {
                        bad_gateway(&format!("{url} does not answer: {}", error.without_url()))
                    }),
                    Err(why) => bad_gateway(why),
                })
            }
        }
    }
}

/// A file of Leftfold's page. Nothing in it is inline, and it connects to this server alone.
fn own_file(path: &str) -> Option<Response> {
    const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; \
        img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";
    let name = match path {
        "/" => leftfold_page::LIVE,
        path => path.strip_prefix("/leftfold/")?,
    };
    let text = leftfold_page::file(name)?;
    let headers = [
        (header::CONTENT_TYPE, content_type(Path::new(name))),
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::CACHE_CONTROL, "no-cache"),
    ];
    Some((headers, text).into_response())
}

fn accepts_pages(headers: &HeaderMap) -> bool {
    let accepted = headers.get(header::ACCEPT).and_then(|accepted| accepted.to_str().ok());
    accepted.is_some_and(|accepted| accepted.contains("text/html"))
}

/// A file of the folder. A page that does not exist is the front end itself, which shows its routes.
fn file(folder: &Path, path: &str, is_page: bool) -> Option<Response> {
    let path = percent_encoding::percent_decode_str(path).decode_utf8().ok()?;
    let relative = Path::new(path.trim_start_matches('/'));
    let is_plain = |part: Component<'_>| match part {
        Component::Normal(name) => !name.as_encoded_bytes().starts_with(b"."),
        Component::Prefix(_) | Component::RootDir | Component::CurDir | Component::ParentDir => {
            false
        }
    };
    if path.contains(['\0', '\\']) || !relative.components().all(is_plain) {
        return None;
    }
    let named = folder.join(relative).canonicalize().ok();
    // links do not lead out of the folder
    let named = named.filter(|named| named.starts_with(folder) && named.is_file());
    let index = || folder.join(INDEX);
    let found = match named {
        Some(named) => named,
        None if is_page || path == "/" => index(),
        None => return None,
    };
    let bytes = leftfold_files::read(&found, Some(folder), MAX_FILE).ok()?;
    let kind = content_type(&found);
    let mut headers = HeaderMap::new();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    if kind.starts_with("text/html") {
        let policy = HeaderValue::from_str(&policy(&bytes)).ok()?;
        headers.insert(header::CONTENT_SECURITY_POLICY, policy);
    }
    Some((headers, bytes).into_response())
}

fn content_type(file: &Path) -> &'static str {
    let extension = file.extension().and_then(|extension| extension.to_str()).unwrap_or_default();
    match extension.to_ascii_lowercase().as_str() {
        "html" | "htm" => "text/html; charset=utf-8",
        "js" | "mjs" => "text/javascript; charset=utf-8",
        "css" => "text/css; charset=utf-8",
        "json" | "map" => "application/json",
        "webmanifest" => "application/manifest+json",
        "svg" => "image/svg+xml",
        "png" => "image/png",
        "jpg" | "jpeg" => "image/jpeg",
        "gif" => "image/gif",
        "webp" => "image/webp",
        "avif" => "image/avif",
        "ico" => "image/x-icon",
        "woff" => "font/woff",
        "woff2" => "font/woff2",
        "ttf" => "font/ttf",
        "wasm" => "application/wasm",
        "mp3" => "audio/mpeg",
        "aac" => "audio/aac",
        "wav" => "audio/wav",
        "txt" | "md" => "text/plain; charset=utf-8",
        _ => "application/octet-stream",
    }
}

/// The content security policy of a page: everything from this server, and the scripts that stand in
/// the page itself, by their hashes.
fn policy(page: &[u8]) -> String {
    let page = String::from_utf8_lossy(page);
    let mut hashes = String::new();
    let mut rest = page.as_ref();
    while let Some((_, tag)) = rest.split_once("<script") {
        let Some((attributes, after)) = tag.split_once('>') else { break };
        let Some((script, after)) = after.split_once("</script") else { break };
        if !attributes.contains("src=") {
            let hash = leftfold_tools::base64(&Sha256::digest(script.as_bytes()));
            hashes += &format!(" 'sha256-{hash}'");
        }
        rest = after;
    }
    format!(
        "default-src 'self'; script-src 'self' 'wasm-unsafe-eval'{hashes}; style-src 'self' 'unsafe-inline'; \
         img-src 'self' data: blob:; font-src 'self' data:; media-src 'self' data:; connect-src 'self' data:; \
         object-src 'none'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
    )
}

async fn forward(
    client: &reqwest::Client,
    url: &str,
    request: &Parts,
) -> Result<Response, reqwest::Error> {
    let mut target = format!("{url}{}", request.uri.path());
    let query = request.uri.query().unwrap_or_default();
    let kept: Vec<&str> =
        query.split('&').filter(|pair| !pair.is_empty() && !pair.starts_with(TOKEN)).collect();
    if !kept.is_empty() {
        target += &format!("?{}", kept.join("&"));
    }
    let mut forwarded = client.request(request.method.clone(), target);
    for name in FORWARDED {
        if let Some(value) = request.headers.get(&name) {
            forwarded = forwarded.header(name, value);
        }
    }
    let answered = forwarded.send().await?;
    let mut headers = HeaderMap::new();
    for name in RETURNED {
        if let Some(value) = answered.headers().get(&name) {
            headers.insert(name, value.clone());
        }
    }
    let status = answered.status();
    Ok((status, headers, Body::from_stream(answered.bytes_stream())).into_response())
}

fn bad_gateway(why: &str) -> Response {
    ApiError::refused(StatusCode::BAD_GATEWAY, why).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scripts_in_the_page_are_allowed_by_their_hashes() {
        let page = b"<script src=\"/a.js\"></script><script type=\"x\">alert(1)</script>";
        let policy = policy(page);
        // printf 'alert(1)' | openssl dgst -sha256 -binary | base64
        assert!(
            policy.contains("'sha256-bhHHL3z2vDgxUt0W3dWQOrprscmda2Y5pLsLg4GF+pI='"),
            "{policy}"
        );
        assert_eq!(policy.matches("sha256").count(), 1);
    }
}
