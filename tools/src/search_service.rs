//! The search services: their addresses, and the request of each.

use reqwest::header::{
    ACCEPT, ACCEPT_ENCODING, AUTHORIZATION, CONTENT_TYPE, HeaderName, HeaderValue,
};
use reqwest::{Client, RequestBuilder, Url};
use serde_json::{Value, json};

use crate::address;

/// Most results of a search.
const MAX_RESULTS: u64 = 20;

/// Results of a search, unless settings or the call say otherwise.
const RESULTS: u64 = 8;

/// Bytes of text that a service is asked for with each result, if it can be asked.
const TEXT: u64 = 1_500;

/// The sites of `codesearch`, for services that know no category for code.
const CODE_SITES: [&str; 6] = [
    "github.com", "gitlab.com", "stackoverflow.com", "developer.mozilla.org", "docs.rs",
    "pkg.go.dev",
];

/// The part of the web that is searched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scope {
    Web,
    Code,
}

/// The kind of a search service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SearchVendor {
    Searxng,
    Brave,
    Tavily,
    Exa,
}

impl SearchVendor {
    /// The name for people.
    pub fn name(self) -> &'static str {
        match self {
            Self::Searxng => "SearXNG",
            Self::Brave => "Brave Search",
            Self::Tavily => "Tavily",
            Self::Exa => "Exa",
        }
    }

    /// The name in settings.
    pub(crate) fn id(self) -> &'static str {
        match self {
            Self::Searxng => "searxng",
            Self::Brave => "brave",
            Self::Tavily => "tavily",
            Self::Exa => "exa",
        }
    }

    /// The vendor's own address. Everybody hosts SearXNG themselves.
    fn base(self) -> Option<&'static str> {
        match self {
            Self::Searxng => None,
            Self::Brave => Some("https://api.search.brave.com/res/v1"),
            Self::Tavily => Some("https://api.tavily.com"),
            Self::Exa => Some("https://api.exa.ai"),
        }
    }

    /// The path of a search below the base address.
    fn path(self) -> &'static str {
        match self {
            Self::Brave => "/web/search",
            Self::Searxng | Self::Tavily | Self::Exa => "/search",
        }
    }
}

/// A search service with its address and key.
#[derive(Clone, Debug)]
pub struct SearchService {
    vendor: SearchVendor,
    endpoint: Url,
    /// The header with the key. It is marked as sensitive, so that it is never printed.
    key: Option<(HeaderName, HeaderValue)>,
    results: u64,
}

impl SearchService {
    /// A service at `url`, by default the vendor's own. `results` is the usual number of results of a search.
    ///
    /// # Errors
    /// The reason why it cannot be used, without the key.
    pub fn new(
        vendor: SearchVendor,
        url: Option<&str>,
        key: Option<&str>,
        results: Option<u64>,
    ) -> Result<Self, String> {
        let base = url.or(vendor.base());
        let base = base.ok_or_else(|| format!("{} needs a `url`", vendor.name()))?;
        let key = match (key, vendor) {
            (None, SearchVendor::Searxng) => None,
            (None, _) => return Err(format!("{} needs an `apiKey`", vendor.name())),
            (Some(key), _) => Some(key_header(vendor, key.trim())?),
        };
        let base = base.trim().trim_end_matches('/');
        let base = base.strip_suffix(vendor.path()).unwrap_or(base);
        // the parser's error quotes nothing of the address
        let endpoint = Url::parse(&format!("{base}{}", vendor.path()))
            .map_err(|error| format!("`url` is not an absolute address ({error})"))?;
        address::check(&endpoint, true).map_err(|error| format!("`url`: {error}"))?;
        if endpoint.query().is_some() || endpoint.fragment().is_some() {
            return Err("`url` has a query or fragment; it is the base address alone".to_owned());
        }
        Ok(Self { vendor, endpoint, key, results: results.unwrap_or(RESULTS) })
    }

    pub fn vendor(&self) -> SearchVendor {
        self.vendor
    }

    /// The address of searches, without query.
    pub fn endpoint(&self) -> &Url {
        &self.endpoint
    }

    /// The number of results for a call that `asked` for so many.
    pub(crate) fn count(&self, asked: Option<u64>) -> u64 {
        asked.unwrap_or(self.results).clamp(1, MAX_RESULTS)
    }

    /// The request of a search for `query`.
    pub(crate) fn request(
        &self,
        client: &Client,
        scope: Scope,
        query: &str,
        count: u64,
    ) -> RequestBuilder {
        let is_code = scope == Scope::Code;
        let get = |pairs: &[(&str, &str)]| {
            let mut url = self.endpoint.clone();
            url.query_pairs_mut().extend_pairs(pairs);
            client.get(url)
        };
        let post = |body: &Value| {
            let request = client.post(self.endpoint.clone()).body(body.to_string());
            request.header(CONTENT_TYPE, "application/json")
        };
        let request = match self.vendor {
            SearchVendor::Searxng => {
                let category = if is_code { "it" } else { "general" };
                get(&[("q", query), ("format", "json"), ("categories", category)])
            }
            SearchVendor::Brave => {
                let sites = CODE_SITES.map(|site| format!("site:{site}")).join(" OR ");
                let query = if is_code { format!("{query} ({sites})") } else { query.to_owned() };
                let plain = ("text_decorations", "false");
                get(&[("q", query.as_str()), ("count", &count.to_string()), plain])
            }
            SearchVendor::Tavily => {
                let mut body = json!({ "query": query, "max_results": count });
                if is_code {
                    body["include_domains"] = json!(CODE_SITES);
                }
                post(&body)
            }
            SearchVendor::Exa => {
                let text = json!({ "maxCharacters": TEXT });
                let mut body =
                    json!({ "query": query, "numResults": count, "contents": { "text": text } });
                if is_code {
                    body["includeDomains"] = json!(CODE_SITES);
                }
                post(&body)
            }
        };
        // a compressed body could unpack to more than the limit
        let request =
            request.header(ACCEPT, "application/json").header(ACCEPT_ENCODING, "identity");
        match &self.key {
            Some((name, value)) => request.header(name.clone(), value.clone()),
            None => request,
        }
    }
}

/// The header that carries the key.
fn key_header(vendor: SearchVendor, key: &str) -> Result<(HeaderName, HeaderValue), String> {
    let (name, value) = match vendor {
        SearchVendor::Brave => (HeaderName::from_static("x-subscription-token"), key.to_owned()),
        SearchVendor::Exa => (HeaderName::from_static("x-api-key"), key.to_owned()),
        SearchVendor::Searxng | SearchVendor::Tavily => (AUTHORIZATION, format!("Bearer {key}")),
    };
    let mut value = HeaderValue::from_str(&value)
        .map_err(|_| "`apiKey` has a character that cannot be sent".to_owned())?;
    value.set_sensitive(true);
    Ok((name, value))
}
