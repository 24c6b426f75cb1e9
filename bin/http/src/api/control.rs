//! Requests that are about clients and the server, not about sessions: control of terminals, which
//! goes to them over the feed, lines for the log, and the end of an instance.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use axum::Json;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::sync::Notify;

use super::{Answer, Api, ApiState, Directory, JsonBody, yes};
use crate::error::ApiError;
use crate::opencode::ids;
use crate::shapes::catalog::TuiControl;
use crate::shapes::{Shaped, shaped};

/// Controls that wait for a client of `/tui/control/next`. With more the oldest goes.
const WAITING: usize = 64;
/// Characters of a client's line in the log.
const LINE: usize = 400;
/// The names of commands that older clients send.
const COMMANDS: [(&str, &str); 11] = [
    ("session_new", "session.new"),
    ("session_share", "session.share"),
    ("session_interrupt", "session.interrupt"),
    ("session_compact", "session.compact"),
    ("messages_page_up", "session.page.up"),
    ("messages_page_down", "session.page.down"),
    ("messages_half_page_up", "session.half.page.up"),
    ("messages_half_page_down", "session.half.page.down"),
    ("messages_first", "session.first"),
    ("messages_last", "session.last"),
    ("agent_cycle", "agent.cycle"),
];

/// Controls for a terminal that asks for them one by one instead of reading the feed. Nothing waits
/// before the first such request.
#[derive(Debug, Default)]
pub(crate) struct ControlQueue {
    waiting: Mutex<Option<VecDeque<Value>>>,
    added: Notify,
}

impl ControlQueue {
    fn add(&self, control: Value) {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(waiting) = waiting.as_mut() else { return };
        if waiting.len() == WAITING {
            waiting.pop_front();
        }
        waiting.push_back(control);
        self.added.notify_one();
    }

    async fn next(&self) -> Value {
        loop {
            let added = self.added.notified();
            let first = {
                let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
                waiting.get_or_insert_default().pop_front()
            };
            match first {
                Some(control) => return control,
                None => added.await,
            }
        }
    }
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "TuiPromptAppend")]
pub(super) struct Text {
    text: String,
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "TuiCommandExecute")]
pub(super) struct Command {
    command: String,
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "TuiToastShow")]
pub(super) struct Toast {
    #[serde(skip_serializing_if = "Option::is_none")]
    title: Option<String>,
    message: String,
    variant: Variant,
    /// Milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    duration: Option<u64>,
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
pub(super) enum Variant {
    Info,
    Success,
    Warning,
    Error,
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "TuiSessionSelect")]
pub(super) struct Selected {
    #[serde(rename = "sessionID")]
    session: String,
}

/// Any control, in the form that it has in the feed.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", content = "properties")]
#[schemars(rename = "TuiEvent")]
pub(super) enum Control {
    #[serde(rename = "tui.prompt.append")]
    Append(Text),
    #[serde(rename = "tui.command.execute")]
    Execute(Command),
    #[serde(rename = "tui.toast.show")]
    Toast(Toast),
    #[serde(rename = "tui.session.select")]
    Select(Selected),
}

impl Control {
    fn command(name: &str) -> Self {
        Self::Execute(Command { command: name.to_owned() })
    }

    /// Sends it to the terminals of a directory. Without a terminal it is lost.
    fn send(self, api: &Api, Directory(directory): &Directory, path: &str) -> Answer<bool> {
        let (kind, properties) = match self {
            Self::Append(text) => ("tui.prompt.append", json!(text)),
            Self::Execute(command) => ("tui.command.execute", json!(command)),
            Self::Toast(toast) => ("tui.toast.show", json!(toast)),
            Self::Select(selected) => {
                let session = ids::named(&selected.session);
                if session.and_then(|session| api.feed.root_of(session)).is_none() {
                    let message = format!("there is no session `{}`", selected.session);
                    return Err(ApiError::not_found(message));
                }
                ("tui.session.select", json!(selected))
            }
        };
        api.controls.add(json!({ "path": path, "body": properties }));
        api.feed.announce(&directory.display().to_string(), kind, properties);
        yes()
    }
}

pub(super) async fn append_prompt(
    api: ApiState,
    directory: Directory,
    JsonBody(text): JsonBody<Text>,
) -> Answer<bool> {
    Control::Append(text).send(&api, &directory, "/tui/append-prompt")
}

/// Handlers of requests for one command.
macro_rules! commands {
    ($($handler:ident $command:literal $path:literal;)*) => {$(
        pub(super) async fn $handler(api: ApiState, directory: Directory) -> Answer<bool> {
            Control::command($command).send(&api, &directory, $path)
        }
    )*};
}

commands! {
    submit_prompt "prompt.submit" "/tui/submit-prompt";
    clear_prompt "prompt.clear" "/tui/clear-prompt";
    open_help "help.show" "/tui/open-help";
    open_sessions "session.list" "/tui/open-sessions";
    open_themes "theme.switch" "/tui/open-themes";
    open_models "model.list" "/tui/open-models";
}

pub(super) async fn execute_command(
    api: ApiState,
    directory: Directory,
    JsonBody(Command { command }): JsonBody<Command>,
) -> Answer<bool> {
    let renamed = COMMANDS.iter().find(|(old, _)| *old == command);
    let name = renamed.map_or(command.as_str(), |(_, new)| new);
    Control::command(name).send(&api, &directory, "/tui/execute-command")
}

pub(super) async fn show_toast(
    api: ApiState,
    directory: Directory,
    JsonBody(toast): JsonBody<Toast>,
) -> Answer<bool> {
    Control::Toast(toast).send(&api, &directory, "/tui/show-toast")
}

pub(super) async fn select_session(
    api: ApiState,
    directory: Directory,
    JsonBody(selected): JsonBody<Selected>,
) -> Answer<bool> {
    Control::Select(selected).send(&api, &directory, "/tui/select-session")
}

pub(super) async fn publish(
    api: ApiState,
    directory: Directory,
    JsonBody(control): JsonBody<Control>,
) -> Answer<bool> {
    control.send(&api, &directory, "/tui/publish")
}

/// The next control, once there is one.
pub(super) async fn next(api: ApiState) -> Json<Shaped<TuiControl>> {
    shaped(api.controls.next().await)
}

/// A terminal's answer to a control. Nobody waits for it: a control is answered when it is sent.
pub(super) async fn response(JsonBody(_): JsonBody<Value>) -> Answer<bool> {
    yes()
}

#[derive(Debug, Deserialize, JsonSchema)]
pub(super) struct LogLine {
    service: String,
    level: Level,
    message: String,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(rename = "LogLevel")]
enum Level {
    Debug,
    Info,
    Warn,
    Error,
}

/// A client's line for the log.
pub(super) async fn log(JsonBody(line): JsonBody<LogLine>) -> Answer<bool> {
    let text = format!("{}: {}", line.service, line.message);
    let text = leftfold_view::clean::clip(&text, LINE);
    match line.level {
        Level::Debug => tracing::debug!("a client says: {text}"),
        Level::Info => tracing::info!("a client says: {text}"),
        Level::Warn => tracing::warn!("a client says: {text}"),
        Level::Error => tracing::error!("a client says: {text}"),
    }
    yes()
}

/// Tells clients to load a directory again. Sessions rest by themselves; nothing has to be ended.
pub(super) async fn dispose(api: ApiState, Directory(directory): Directory) -> Answer<bool> {
    let directory = directory.display().to_string();
    let properties = json!({ "directory": directory });
    api.feed.announce(&directory, "server.instance.disposed", properties);
    yes()
}

/// Tells all clients to load everything again.
pub(super) async fn dispose_all(api: ApiState) -> Answer<bool> {
    api.feed.announce("", "global.disposed", json!({}));
    yes()
}
