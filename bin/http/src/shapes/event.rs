//! The events of the feed.

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde_json::Value;

use super::catalog::{Project, Pty};
use super::message::{Message, MessageError, Part};
use super::session::{
    DeletedSession, PermissionRequest, QuestionRequest, Session, SessionStatus, SnapshotFileDiff,
    Todo,
};

/// The kinds of events with their properties: the members, or the name of a type.
macro_rules! events {
    ($($kind:literal $(: $of:ty)? $({ $($members:tt)* })?;)*) => {
        /// An event.
        #[derive(Debug)]
        pub(crate) enum Event {}

        impl JsonSchema for Event {
            fn schema_name() -> std::borrow::Cow<'static, str> {
                "Event".into()
            }

            fn json_schema(generator: &mut SchemaGenerator) -> Schema {
                let mut all = Vec::new();
                $(
                    $(let properties = generator.subschema_for::<$of>();)?
                    $(let properties = members!(generator; $($members)*);)?
                    all.push(event(generator, $kind, &properties));
                )*
                super::any_of(&all)
            }
        }
    };
}

events! {
    "server.connected" {};
    "server.heartbeat" {};
    "server.instance.disposed" { directory: String };
    "global.disposed" {};
    "session.created" { sessionID: String, info: Session };
    "session.updated" { sessionID: String, info: Session };
    "session.deleted" { sessionID: String, info: DeletedSession };
    "session.status" { sessionID: String, status: SessionStatus };
    "session.idle" { sessionID: String };
    "session.error" { sessionID?: String, error?: MessageError };
    "session.diff" { sessionID: String, diff: Vec<SnapshotFileDiff> };
    "session.compacted" { sessionID: String };
    "message.updated" { sessionID: String, info: Message };
    "message.removed" { sessionID: String, messageID: String };
    "message.part.updated" { sessionID: String, part: Part, time: u64 };
    "message.part.delta" {
        sessionID: String,
        messageID: String,
        partID: String,
        field: String,
        delta: String,
    };
    "message.part.removed" { sessionID: String, messageID: String, partID: String };
    "permission.asked": PermissionRequest;
    "permission.replied" {
        sessionID: String,
        requestID: String,
        reply = "once" | "always" | "reject",
    };
    "question.asked": QuestionRequest;
    "question.replied" { sessionID: String, requestID: String, answers: Vec<Vec<String>> };
    "question.rejected" { sessionID: String, requestID: String };
    "todo.updated" { sessionID: String, todos: Vec<Todo> };
    "command.executed" { name: String, sessionID: String, arguments: String, messageID: String };
    "file.edited" { file: String };
    "file.watcher.updated" { file: String, event = "add" | "change" | "unlink" };
    "vcs.branch.updated" { branch?: String };
    "project.updated": Project;
    "lsp.updated" {};
    "mcp.tools.changed" { server: String };
    "mcp.browser.open.failed" { mcpName: String, url: String };
    "pty.created" { info: Pty };
    "pty.updated" { info: Pty };
    "pty.exited" { id: String, exitCode: u64 };
    "pty.deleted" { id: String };
    "tui.prompt.append" { text: String };
    "tui.command.execute" { command: String };
    "tui.toast.show" {
        title?: String,
        message: String,
        variant = "info" | "success" | "warning" | "error",
        duration?: u64,
    };
    "tui.session.select" { sessionID: String };
}

shapes! {
    /// An event on the feed of all directories. An event that is about all of them has none.
    GlobalEvent { directory?: String, project?: String, payload: Event }
}

/// Adds an event's type to the document, and refers to it: `session.idle` is `EventSessionIdle`.
fn event(generator: &mut SchemaGenerator, kind: &str, properties: &Schema) -> Schema {
    let mut name = "Event".to_owned();
    for word in kind.split('.') {
        let mut letters = word.chars();
        name.extend(letters.next().map(|first| first.to_ascii_uppercase()));
        name.push_str(letters.as_str());
    }
    let schema = json_schema!({
        "type": "object",
        "properties": {
            "id": { "type": "string" },
            "type": { "type": "string", "const": kind },
            "properties": properties,
        },
        "required": ["id", "type", "properties"],
    });
    let reference = format!("#/components/schemas/{name}");
    generator.definitions_mut().insert(name, Value::from(schema));
    Schema::new_ref(reference)
}
