//! `websearch` and `codesearch`: search the web, or sites about code, through the service that settings name.
//!
//! A search follows no redirect, so the key goes only to the address in settings. That address may be private, because
//! the user chose it. Results with addresses that `webfetch` would refuse are left out. All text of a service is cleaned
//! and indented, so that it cannot look like text of the tool.

mod results;
#[cfg(test)]
mod tests;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use leftfold_events::event::{Access, Class};
use reqwest::header::{LOCATION, RETRY_AFTER};
use reqwest::{Response, StatusCode};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::args::WholeNumber;
use crate::search_service::{Scope, SearchService, SearchVendor};
use crate::tool::{ToolKind, Typed};
use crate::webfetch::{body, client, header};
use crate::{Context, Error, Output, Plan, Workspace, address, quoted, text};

/// The names of the tools that exist only with a [`SearchService`].
pub const SEARCH_TOOLS: [&str; 2] = [WebSearch::NAME, CodeSearch::NAME];

/// Time limit in milliseconds.
const TIMEOUT: u64 = 25_000;

/// Time that a second request needs after a wait.
const SECOND_REQUEST: Duration = Duration::from_secs(2);

/// Most bytes of a query.
const MAX_QUERY: usize = 2_000;

/// Most bytes of a service's answer.
const MAX_BODY: u64 = 4 * 1024 * 1024;

/// Most bytes quoted of an error response.
const QUOTED: usize = 300;

impl Scope {
    /// The name of the tool, its permission and its setting.
    fn name(self) -> &'static str {
        match self {
            Self::Web => WebSearch::NAME,
            Self::Code => CodeSearch::NAME,
        }
    }

    fn service(self, cx: &Workspace) -> Result<&SearchService, Error> {
        let service = match self {
            Self::Web => &cx.websearch,
            Self::Code => &cx.codesearch,
        };
        service.as_ref().ok_or_else(|| {
            let name = self.name();
            Error::NotConfigured(format!(
                "There is no search service: the user's settings have no usable `{name}`. `leftfold doctor` says why."
            ))
        })
    }
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Args {
    /// What to search for.
    query: String,
    /// The most results to show: at most 20. Default: 8, or as the user's settings say.
    #[serde(alias = "num_results", skip_serializing_if = "Option::is_none")]
    num_results: Option<WholeNumber>,
}

#[derive(Debug)]
pub(crate) struct WebSearch;

impl Typed for WebSearch {
    type Args = Args;
    const NAME: &'static str = "websearch";
    const DESCRIPTION: &'static str = include_str!("../../../prompts/tools/websearch.md");
    const KIND: ToolKind = ToolKind::Search;

    fn plan(args: &Args, cx: &Workspace) -> Result<Plan, Error> {
        plan(Scope::Web, args, cx)
    }

    async fn run(args: Args, _: Vec<PathBuf>, cx: Context) -> Result<Output, Error> {
        run(Scope::Web, args, cx).await
    }
}

#[derive(Debug)]
pub(crate) struct CodeSearch;

impl Typed for CodeSearch {
    type Args = Args;
    const NAME: &'static str = "codesearch";
    const DESCRIPTION: &'static str = include_str!("../../../prompts/tools/codesearch.md");
    const KIND: ToolKind = ToolKind::Search;

    fn plan(args: &Args, cx: &Workspace) -> Result<Plan, Error> {
        plan(Scope::Code, args, cx)
    }

    async fn run(args: Args, _: Vec<PathBuf>, cx: Context) -> Result<Output, Error> {
        run(Scope::Code, args, cx).await
    }
}

fn plan(scope: Scope, args: &Args, cx: &Workspace) -> Result<Plan, Error> {
    let invalid = |problem: String| Err(Error::InvalidArguments { tool: scope.name(), problem });
    let query = args.query.trim();
    if query.is_empty() {
        return invalid("`query` is empty".to_owned());
    }
    if query.len() > MAX_QUERY {
        return invalid(format!("`query` has more than {MAX_QUERY} bytes"));
    }
    scope.service(cx)?;
    let access = Access {
        permission: scope.name().to_owned(),
        patterns: vec![query.to_owned()],
        always: vec!["*".to_owned()],
    };
    Ok(Plan { access: vec![access], timeout: TIMEOUT, ..Plan::new(Class::Read) })
}

async fn run(scope: Scope, args: Args, cx: Context) -> Result<Output, Error> {
    let cancel = cx.cancel.clone();
    tokio::select! {
        () = cancel.cancelled() => Err(Error::Cancelled),
        found = search(scope, &args, &cx) => found,
    }
}

async fn search(scope: Scope, args: &Args, cx: &Context) -> Result<Output, Error> {
    let service = scope.service(&cx.workspace)?;
    let (query, count) =
        (args.query.trim(), service.count(args.num_results.map(|number| number.0)));
    let response = ask(service, scope, query, count, cx.deadline).await?;
    let endpoint = service.endpoint();
    let answer = body(endpoint, response, MAX_BODY).await?;
    let Some(found) = results::parse(service.vendor(), &answer) else {
        let name = service.vendor().name();
        return Err(Error::Network(format!(
            "{} does not answer as {name} does: the answer is not a list of results in JSON. Check `{}.url` and `{}.provider` in the settings.",
            address::shown(endpoint),
            scope.name(),
            scope.name(),
        )));
    };
    let listed = results::list(found, count, scope, cx.workspace.private_addresses);
    let meta = json!({
        "provider": service.vendor().id(), "results": listed.meta, "left_out": listed.left_out,
    });
    let host = endpoint.host_str().unwrap_or_default();
    let output = format!("{} ({host}): {}", service.vendor().name(), listed.text);
    Ok(Output::new(query, output, &meta))
}

/// The successful response. A service that is asked too often is asked once more, if it says when and the call's time
/// allows it.
async fn ask(
    service: &SearchService,
    scope: Scope,
    query: &str,
    count: u64,
    deadline: Option<Instant>,
) -> Result<Response, Error> {
    // the user chose the address, so it may be one of this machine
    let client = client::client(true).await?;
    let deadline = deadline.unwrap_or_else(|| Instant::now() + Duration::from_millis(TIMEOUT));
    let mut may_wait = true;
    loop {
        let request = service.request(client, scope, query, count);
        let sent = request.send().await;
        let response = sent.map_err(|error| client::failure(service.endpoint(), &error))?;
        let status = response.status();
        if status.is_success() {
            return Ok(response);
        }
        let wait = retry_after(&response);
        let time_left = deadline.saturating_duration_since(Instant::now());
        match wait.filter(|_| status == StatusCode::TOO_MANY_REQUESTS && may_wait) {
            Some(wait) if wait.saturating_add(SECOND_REQUEST) <= time_left => {
                may_wait = false;
                tokio::time::sleep(wait).await;
            }
            _ => return Err(refusal(service, scope, response, wait).await),
        }
    }
}

/// The wait that a response asks for, in the form that search services use; a second without one.
fn retry_after(response: &Response) -> Option<Duration> {
    let value = header(response, &RETRY_AFTER);
    if value.is_empty() {
        return Some(Duration::from_secs(1));
    }
    value.trim().parse().ok().map(Duration::from_secs)
}

/// The error for a response that is no success, with the setting to look at.
async fn refusal(
    service: &SearchService,
    scope: Scope,
    response: Response,
    wait: Option<Duration>,
) -> Error {
    let (endpoint, setting) = (service.endpoint(), scope.name());
    let (shown, status) = (address::shown(endpoint), response.status());
    if status.is_redirection() {
        let to = quoted::line(&header(&response, &LOCATION), QUOTED);
        return Error::AddressRefused(format!(
            "{shown} redirects to {to:?}. Searches follow no redirect, because a key goes with them: if the service has moved, correct `{setting}.url` in the settings."
        ));
    }
    let advice = match (status, service.vendor()) {
        (StatusCode::FORBIDDEN, SearchVendor::Searxng) => {
            " SearXNG answers so unless `search.formats` in its own settings.yml has `json`."
                .to_owned()
        }
        (StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN, _) => format!(
            " The key is missing or not accepted: check `{setting}.apiKey` in the settings."
        ),
        (StatusCode::PAYMENT_REQUIRED, _) => {
            format!(" The account of `{setting}.apiKey` has no searches left.")
        }
        (StatusCode::TOO_MANY_REQUESTS, _) => {
            let seconds = wait.map(|wait| format!(" in {} s", wait.as_secs().max(1)));
            format!(
                " Too many searches: try again{}.",
                seconds.unwrap_or_else(|| " later".to_owned())
            )
        }
        (StatusCode::NOT_FOUND, _) => format!(" Check `{setting}.url` in the settings."),
        _ => String::new(),
    };
    let said = crate::webfetch::said(endpoint, response).await;
    let said = quoted::block(&said, QUOTED);
    let said = if said.is_empty() { said } else { format!("\n{said}") };
    Error::HttpStatus(text::clip(format!("{shown} answers {status}.{advice}{said}"), 2_000))
}
