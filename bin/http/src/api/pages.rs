//! The data of the page that shows runs: overview, blocks of a run, and what is new in it.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Bytes;
use axum::http::StatusCode;
use futures::stream;
use leftfold_events::SessionId;
use leftfold_runtime::socket;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::time::{Instant, timeout};

use super::{
    Answer, Api, ApiState, BY, EventStream, JsonBody, JsonText, LastEventId, Path, Query, blocking,
    sessions, yes,
};
use crate::error::ApiError;
use crate::opencode::ids;
use crate::runs::{News, OpenRun, RunKey};
use crate::shapes::catalog::{Overview, RunBlock, RunFork};
use crate::shapes::{Shaped, shaped};

/// The least time between two frames of a page.
const PAGE_FRAME_INTERVAL: Duration = Duration::from_millis(200);
/// How often a log that another process writes is looked at, and the time between two signs of life.
const LOG_POLL_INTERVAL: Duration = Duration::from_secs(1);
const HEARTBEAT_INTERVAL: Duration = Duration::from_secs(10);

#[derive(Debug, Deserialize, JsonSchema)]
pub(super) struct RunQuery {
    /// A session to compare with.
    compare: Option<String>,
    /// The run that the page knows.
    epoch: Option<String>,
    /// The cursor of the last frame that the page has.
    after: Option<String>,
}

/// Sessions, and their totals by day, model and tool.
pub(super) async fn overview(api: ApiState) -> Answer<Shaped<Overview>> {
    Ok(shaped(blocking(move || api.overview.read(&api.feed)).await?))
}

/// A block of a run's data. `run` is what a page knows first.
pub(super) async fn block(
    api: ApiState,
    Path((session, name)): Path<(String, String)>,
    Query(query): Query<RunQuery>,
) -> Result<JsonText<RunBlock>, ApiError> {
    let run = open(&api, &session, &query).await?;
    if query.epoch.as_ref().is_some_and(|epoch| *epoch != run.epoch) {
        let why = "the run was read again: load the page again";
        return Err(ApiError::refused(StatusCode::CONFLICT, why));
    }
    let epoch = run.epoch.clone();
    let read = move || match name.as_str() {
        "run" => {
            let News { mut data, counts, .. } = run.news(&api.runs, &api.feed, &[])?;
            data["epoch"] = json!(epoch);
            data["cursor"] = json!(Cursor { epoch, counts }.to_string());
            anyhow::Ok(Some(data.to_string()))
        }
        name => Ok(run.block(name)),
    };
    let found = blocking(read).await?;
    let found = found.ok_or_else(|| ApiError::not_found("there is no such block"))?;
    Ok(JsonText::new(found))
}

async fn open(api: &Arc<Api>, session: &str, query: &RunQuery) -> Result<Arc<OpenRun>, ApiError> {
    let root = named(api, session).await?;
    let other = match &query.compare {
        Some(other) => Some(named(api, other).await?),
        None => None,
    };
    Ok(api.runs.get(RunKey { root, other: other.filter(|other| *other != root) })?)
}

/// A session by its id, as Leftfold or OpenCode write it.
async fn named(api: &Arc<Api>, text: &str) -> Result<SessionId, ApiError> {
    let missing = || ApiError::not_found(format!("there is no session `{text}`"));
    let session = ids::named(text).ok_or_else(missing)?;
    let feed = Arc::clone(&api.feed);
    let known = tokio::task::spawn_blocking(move || feed.with(session, |_| ())).await;
    known.ok().flatten().map(|()| session).ok_or_else(missing)
}

/// A page's place in a run: `EPOCH.COUNT.COUNT…`, with the number of events of each log.
#[derive(Clone, Debug)]
struct Cursor {
    epoch: String,
    counts: Vec<usize>,
}

impl std::fmt::Display for Cursor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.epoch)?;
        self.counts.iter().try_for_each(|count| write!(f, ".{count}"))
    }
}

impl Cursor {
    fn parse(text: &str) -> Option<Self> {
        let mut parts = text.split('.');
        let epoch = parts.next()?.to_owned();
        let counts = parts.map(|part| part.parse().ok()).collect::<Option<Vec<usize>>>()?;
        Some(Self { epoch, counts })
    }
}

/// Sends the news of a run as server-sent events: `run` adds events, `status` replaces the state of the sessions and
/// their open questions, and `reload` says that the page knows nothing of this run.
pub(super) async fn feed(
    api: ApiState,
    Path(session): Path<String>,
    Query(query): Query<RunQuery>,
    LastEventId(last): LastEventId,
) -> Result<EventStream<RunBlock>, ApiError> {
    let run = open(&api, &session, &query).await?;
    let root = named(&api, &session).await?;
    // a browser that connects again sends the cursor of its last frame, and the first address
    let cursor = last.or(query.after).and_then(|cursor| Cursor::parse(&cursor));
    let counts = cursor.filter(|cursor| cursor.epoch == run.epoch).map(|cursor| cursor.counts);
    let changed = api.feed.changes(root);
    let page = PageFeed {
        api: api.0,
        run,
        root,
        counts,
        changed,
        status: Value::Null,
        sent: Instant::now(),
    };
    let frames = stream::unfold(Some(page), |page| async move {
        let mut page = page?;
        let frame = page.next().await;
        let is_last = page.counts.is_none();
        frame.map(|frame| (frame, Some(page).filter(|_| !is_last)))
    });
    Ok(EventStream::new(frames))
}

struct PageFeed {
    api: Arc<Api>,
    run: Arc<OpenRun>,
    root: SessionId,
    /// The events that the page knows; `None`: it knows another run.
    counts: Option<Vec<usize>>,
    changed: Option<watch::Receiver<()>>,
    /// As it was sent last.
    status: Value,
    /// When the last frame was sent.
    sent: Instant,
}

impl PageFeed {
    /// The next frame; `None`: the run cannot be read any more.
    async fn next(&mut self) -> Option<Bytes> {
        let Some(counts) = self.counts.clone() else {
            return Some("event: reload\ndata: {}\n\n".into());
        };
        loop {
            let (api, run, known) = (Arc::clone(&self.api), Arc::clone(&self.run), counts.clone());
            let news = blocking(move || run.news(&api.runs, &api.feed, &known)).await.ok()?;
            if news.counts != counts {
                let cursor = Cursor { epoch: self.run.epoch.clone(), counts: news.counts.clone() };
                self.counts = Some(news.counts);
                self.sent = Instant::now();
                let mut data = news.data;
                data["is_all"] = json!(news.is_all);
                return Some(format!("event: run\nid: {cursor}\ndata: {data}\n\n").into());
            }
            let status = self.status();
            if status != self.status {
                self.status = status;
                self.sent = Instant::now();
                return Some(format!("event: status\ndata: {}\n\n", self.status).into());
            }
            if self.sent.elapsed() > HEARTBEAT_INTERVAL {
                self.sent = Instant::now();
                return Some(": here\n\n".into());
            }
            self.wait().await;
        }
    }

    async fn wait(&mut self) {
        tokio::time::sleep(PAGE_FRAME_INTERVAL).await;
        let is_gone = match &mut self.changed {
            Some(changed) => {
                matches!(timeout(LOG_POLL_INTERVAL, changed.changed()).await, Ok(Err(_)))
            }
            None => {
                tokio::time::sleep(LOG_POLL_INTERVAL).await;
                true
            }
        };
        // a tree that was dropped is loaded again for the status
        if is_gone {
            self.changed = self.api.feed.changes(self.root);
        }
    }

    /// The state of the sessions and their open questions, in the shapes of the API.
    fn status(&self) -> Value {
        let of_tree = self.api.feed.with(self.root, |tree| {
            let sessions = tree.sessions().map(|(id, known)| {
                let state =
                    json!({ "status": known.status()["type"], "cut_off": known.is_cut_off() });
                (id.to_string(), state)
            });
            let questions = tree.sessions().flat_map(|(id, _)| tree.open_questions(id));
            let questions =
                questions.map(|frame| json!({ "kind": frame.kind, "of": frame.properties }));
            json!({
                "id": ids::of_session(self.root),
                "sessions": sessions.collect::<serde_json::Map<_, _>>(),
                "questions": questions.collect::<Vec<_>>(),
            })
        });
        of_tree.unwrap_or_default()
    }
}

#[derive(Debug, Deserialize, JsonSchema)]
pub(super) struct AtEvent {
    /// The last event that the fork shares.
    at: u64,
}

/// A fork of a session with everything up to an event.
pub(super) async fn fork(
    api: ApiState,
    Path(session): Path<String>,
    JsonBody(AtEvent { at }): JsonBody<AtEvent>,
) -> Answer<Shaped<RunFork>> {
    let session = named(&api, &session).await?;
    let all: Arc<dyn socket::Sessions> = api.sessions.clone();
    let fork = socket::fork_as(all, (BY, None), session, Some(at)).await?;
    Ok(shaped(json!({ "session": fork })))
}

#[derive(Debug, Deserialize, JsonSchema)]
pub(super) struct ToEvent {
    /// A prompt or a step.
    to: u64,
}

/// Restores files and messages to their state before an event.
pub(super) async fn revert(
    api: ApiState,
    Path(session): Path<String>,
    JsonBody(ToEvent { to }): JsonBody<ToEvent>,
) -> Answer<bool> {
    let session = named(&api, &session).await?;
    let _ = sessions::reverted(&api, session, Some(to)).await?;
    yes()
}
