//! The feed as server-sent events (SSE).

use std::sync::Arc;
use std::time::Duration;

use axum::body::Bytes;
use futures::stream;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;
use tokio::sync::mpsc::Receiver;
use tokio::time::{Instant, timeout_at};

use super::{Api, ApiState, Directory, EventStream, LastEventId, Query};
use crate::error::ApiError;
use crate::feed::{Cursor, Filter, Sent};
use crate::opencode::ids;
use crate::shapes::event::{Event, GlobalEvent};

const HEARTBEAT_INTERVAL: Duration = Duration::from_secs(10);

#[derive(Debug, Deserialize, JsonSchema)]
pub(super) struct EventsQuery {
    /// The cursor of the last frame that the client has.
    after: Option<String>,
}

/// The events of all directories, whichever one the request names.
pub(super) async fn global(
    api: ApiState,
    Query(query): Query<EventsQuery>,
    last: LastEventId,
) -> Result<EventStream<GlobalEvent>, ApiError> {
    Ok(respond(&api, Filter::All, query, last, true))
}

/// The events of one directory.
pub(super) async fn of_directory(
    api: ApiState,
    Directory(directory): Directory,
    Query(query): Query<EventsQuery>,
    last: LastEventId,
) -> Result<EventStream<Event>, ApiError> {
    Ok(respond(&api, Filter::Directory(directory.display().to_string()), query, last, false))
}

fn respond<T>(
    api: &Arc<Api>,
    filter: Filter,
    EventsQuery { after }: EventsQuery,
    LastEventId(last): LastEventId,
    is_global: bool,
) -> EventStream<T> {
    let after = after.or(last).and_then(|cursor| Cursor::parse(&cursor));
    // it subscribes before it greets, so nothing is lost in between
    let (end, frames) = api.feed.subscribe(filter, after);
    let greeted = after.unwrap_or(Cursor::Snapshot);
    let feed =
        SseFeed { frames, last: greeted, is_global, beat: Instant::now() + HEARTBEAT_INTERVAL };
    let hello = bare(is_global, "server.connected", after.map_or(Cursor::Snapshot, |_| greeted));
    tracing::debug!("a client of the feed connects, which is at {end}");
    EventStream::new(stream::unfold((Some(hello), feed), |(hello, mut feed)| async move {
        let next = match hello {
            Some(hello) => hello,
            None => feed.next().await?,
        };
        Some((next, (None, feed)))
    }))
}

struct SseFeed {
    frames: Receiver<Arc<Sent>>,
    /// The cursor of the last frame.
    last: Cursor,
    is_global: bool,
    /// When the next heartbeat is sent.
    beat: Instant,
}

impl SseFeed {
    /// The next frame; `None` if the client was cut off.
    async fn next(&mut self) -> Option<Bytes> {
        let Ok(sent) = timeout_at(self.beat, self.frames.recv()).await else {
            self.beat = Instant::now() + HEARTBEAT_INTERVAL;
            return Some(bare(self.is_global, "server.heartbeat", self.last));
        };
        let sent = sent?;
        self.last = sent.cursor;
        Some(sent.bytes(self.is_global))
    }
}

/// A frame that is about no session.
fn bare(is_global: bool, kind: &str, cursor: Cursor) -> Bytes {
    let payload = json!({ "id": ids::of_moment(), "type": kind, "properties": {} });
    let data = if is_global { json!({ "payload": payload }) } else { payload };
    format!("id: {cursor}\ndata: {data}\n\n").into()
}
