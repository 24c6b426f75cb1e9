//! Reads the lists of servers page by page, and again when the server reports a change.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use leftfold_framing::clip;
use rmcp::RoleClient;
use rmcp::model::{
    ClientRequest, ListToolsRequest, ListToolsResult, PaginatedRequestParams, Prompt, ServerResult,
    Tool,
};
use rmcp::service::{Peer, ServiceError};
use serde_json::{Value, json};

use super::spec::STARTUP;

/// How long to wait for a list that the server can be used without.
pub(super) const LIST_TIMEOUT: Duration = Duration::from_secs(5);

/// Largest number of pages read of a list.
const PAGES: usize = 100;

/// Largest number of tools of a server, and of prompts.
const MAX_LISTED: usize = 1_000;

/// Largest schema of a tool in bytes, as JSON.
const MAX_SCHEMA: usize = 64 * 1_024;

/// Bytes of a server's text in a warning.
const WARNED: usize = 200;

/// Least time between two requests for a changing list.
const LIST_REQUEST_INTERVAL: Duration = Duration::from_millis(100);

pub(super) async fn tools(peer: &Peer<RoleClient>) -> Result<Vec<Tool>, ServiceError> {
    let (mut tools, mut pages, mut cursor) = (Vec::new(), PageCursors::default(), None);
    loop {
        let page = PaginatedRequestParams::default().with_cursor(cursor);
        let request = ClientRequest::ListToolsRequest(ListToolsRequest::with_param(page));
        let answer = peer.send_request(request).await?;
        let (listed, next) = read(answer).ok_or(ServiceError::UnexpectedResponse)?;
        tools.extend(listed);
        cursor = pages.next(next).filter(|_| tools.len() <= MAX_LISTED);
        if cursor.is_none() {
            return Ok(bounded(tools));
        }
    }
}

pub(super) async fn prompts(peer: &Peer<RoleClient>) -> Result<Vec<Prompt>, ServiceError> {
    let (mut prompts, mut pages, mut cursor) = (Vec::new(), PageCursors::default(), None);
    loop {
        let page = PaginatedRequestParams::default().with_cursor(cursor);
        let listed = peer.list_prompts(Some(page)).await?;
        prompts.extend(listed.prompts);
        cursor = pages.next(listed.next_cursor).filter(|_| prompts.len() <= MAX_LISTED);
        if cursor.is_none() {
            if prompts.len() > MAX_LISTED {
                tracing::warn!(
                    "a server lists more than {MAX_LISTED} prompts: the rest is left out"
                );
                prompts.truncate(MAX_LISTED);
            }
            return Ok(prompts);
        }
    }
}

/// The tools that a model can be offered: every request to it has all of them.
fn bounded(mut tools: Vec<Tool>) -> Vec<Tool> {
    if tools.len() > MAX_LISTED {
        tracing::warn!("a server lists more than {MAX_LISTED} tools: the rest is left out");
        tools.truncate(MAX_LISTED);
    }
    tools.retain(|tool| {
        let bytes = json!(tool.input_schema).to_string().len();
        if bytes > MAX_SCHEMA {
            let name = clip(tool.name.to_string(), WARNED);
            tracing::warn!("a server's tool {name} is left out: its schema has {bytes} bytes, over {MAX_SCHEMA}");
        }
        bytes <= MAX_SCHEMA
    });
    tools
}

/// The tools of a page, and the cursor of the next page.
fn read(answer: ServerResult) -> Option<(Vec<Tool>, Option<String>)> {
    if let ServerResult::ListToolsResult(ListToolsResult { tools, next_cursor, .. }) = answer {
        return Some((tools, next_cursor));
    }
    let ServerResult::CustomResult(said) = answer else { return None };
    lenient(said.0)
}

/// Reads a list of tools that violates the protocol. A tool without a schema accepts any arguments;
/// other invalid tools are left out. `None` if the answer is not a list of tools.
fn lenient(mut said: Value) -> Option<(Vec<Tool>, Option<String>)> {
    let cursor = said["nextCursor"].as_str().map(str::to_owned);
    let Some(Value::Array(listed)) = said.get_mut("tools").map(Value::take) else { return None };
    let read = |mut tool: Value| {
        if !tool.get("inputSchema").is_some_and(Value::is_object) && tool.is_object() {
            tool["inputSchema"] = json!({ "type": "object" });
        }
        let name = clip(tool["name"].to_string(), WARNED);
        serde_json::from_value(tool).map_err(|error| (name, clip(error.to_string(), WARNED)))
    };
    let (tools, unreadable): (Vec<_>, Vec<_>) =
        listed.into_iter().map(read).partition(Result::is_ok);
    // one line, however many there are: the server is not trusted with people's terminals
    if let Some(Err((name, error))) = unreadable.first() {
        let count = unreadable.len();
        tracing::warn!(
            "a server's tool {name} is left out ({count} in all cannot be read): {error}"
        );
    }
    Some((tools.into_iter().filter_map(Result::ok).collect(), cursor))
}

/// The cursors seen so far in one list.
#[derive(Default)]
struct PageCursors(Vec<String>);

impl PageCursors {
    /// The cursor of the next page to ask for. `None` after the last page, and when the list
    /// repeats a cursor or has too many pages.
    fn next(&mut self, cursor: Option<String>) -> Option<String> {
        let cursor = cursor.filter(|cursor| !cursor.is_empty())?;
        if self.0.contains(&cursor) || self.0.len() + 1 == PAGES {
            tracing::warn!("a server's list has no end: the rest of it is left out");
            return None;
        }
        self.0.push(cursor.clone());
        Some(cursor)
    }
}

/// Re-reads a list that the server reports as changed. Only one request is under way at a time;
/// changes reported meanwhile lead to one more request after it.
#[derive(Clone, Default)]
pub(super) struct Changes(Arc<Mutex<State>>);

#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum State {
    #[default]
    Known,
    Asked,
    /// A request is under way, and the list has changed since.
    Outdated,
}

impl Changes {
    /// Asks for the list in a background task, because the connection that reported the change also
    /// delivers the answer.
    pub(super) fn follow<F>(&self, ask: impl Fn() -> F + Send + 'static)
    where
        F: Future<Output = Result<(), ServiceError>> + Send,
    {
        if !self.begins() {
            return;
        }
        let changes = self.clone();
        tokio::spawn(async move {
            loop {
                let asked = tokio::time::timeout(STARTUP, ask()).await;
                let asked = asked.unwrap_or(Err(ServiceError::Timeout { timeout: STARTUP }));
                if let Err(error) = asked {
                    tracing::warn!("a server's list has changed and cannot be read: {error}");
                }
                if !changes.goes_on() {
                    return;
                }
                tokio::time::sleep(LIST_REQUEST_INTERVAL).await;
            }
        });
    }

    /// Notes a change. Returns true if no request is under way.
    fn begins(&self) -> bool {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let known = *state == State::Known;
        *state = if known { State::Asked } else { State::Outdated };
        known
    }

    /// Notes an answer. Returns true if the list changed meanwhile and must be asked for again.
    fn goes_on(&self) -> bool {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let outdated = *state == State::Outdated;
        *state = if outdated { State::Asked } else { State::Known };
        outdated
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_without_an_end_is_cut_off() {
        let mut pages = PageCursors::default();
        let cursor = |name: &str| Some(name.to_owned());
        assert_eq!(pages.next(None), None);
        assert_eq!(pages.next(cursor("")), None);
        assert_eq!(pages.next(cursor("a")), cursor("a"));
        assert_eq!(pages.next(cursor("b")), cursor("b"));
        assert_eq!(pages.next(cursor("a")), None);
        let asked = (0..1_000).take_while(|n| pages.next(cursor(&n.to_string())).is_some()).count();
        // the first page has no cursor, and two were asked for above
        assert_eq!(asked, PAGES - 3);
    }

    #[test]
    fn a_model_is_offered_no_endless_tools() {
        let tool = |name: &str, text: usize| json!({ "name": name, "inputSchema": { "type": "object", "x": "x".repeat(text) } });
        let read = |tools: Value| lenient(json!({ "tools": tools })).unwrap().0;
        let kept = bounded(read(json!([tool("a", 60_000), tool("b", 70_000), tool("c", 0)])));
        let names: Vec<&str> = kept.iter().map(|tool| &*tool.name).collect();
        assert_eq!(names, ["a", "c"]);
        let many: Vec<Value> = (0..2_000).map(|n| tool(&n.to_string(), 0)).collect();
        assert_eq!(bounded(read(many.into())).len(), MAX_LISTED);
    }

    #[test]
    fn one_tool_that_is_none_does_not_take_the_others_away() {
        let (listed, cursor) = lenient(json!({
            "nextCursor": "c",
            "tools": [
                { "name": "a", "inputSchema": { "type": "object" } },
                { "name": "b" },
                { "name": "c", "inputSchema": null },
                { "description": "without a name" },
                "x",
            ],
        }))
        .unwrap();
        let names: Vec<&str> = listed.iter().map(|tool| &*tool.name).collect();
        assert_eq!((names, cursor.as_deref()), (vec!["a", "b", "c"], Some("c")));
        assert!(lenient(json!({ "tools": 7 })).is_none() && lenient(json!("x")).is_none());
    }

    #[test]
    fn a_list_that_changes_often_is_asked_for_once_more() {
        let changes = Changes::default();
        assert!(changes.begins());
        assert!(!changes.begins() && !changes.begins());
        assert!(changes.goes_on());
        assert!(!changes.goes_on());
        assert!(changes.begins());
    }
}
