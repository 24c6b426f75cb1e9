//! Sessions, their status, questions, todos and changed files.

use schemars::{JsonSchema, Schema, SchemaGenerator};

use super::Free;

shapes! {
    /// A session.
    Session {
        id: String,
        slug: String,
        projectID: String,
        directory: String,
        path?: String,
        parentID?: String,
        title: String,
        agent?: String,
        model?: { id: String, providerID: String, variant?: String },
        version: String,
        summary?: { additions: u64, deletions: u64, files: u64, diffs?: Vec<SnapshotFileDiff> },
        cost?: f64,
        tokens?: Tokens,
        metadata?: Free,
        permission?: Vec<PermissionRule>,
        time: { created: u64, updated: u64, compacting?: u64, archived?: u64 },
        revert?: { messageID: String, partID?: String, snapshot?: String, diff?: String },
    }

    /// Tokens that models have used.
    Tokens {
        total?: u64,
        input: u64,
        output: u64,
        reasoning: u64,
        cache: { read: u64, write: u64 },
    }

    /// The project of a session in a list of all directories.
    ProjectSummary { id: String, name?: String, worktree?: String }

    /// A deleted session of which only the id is known.
    SessionReference { id: String }

    SessionStatusIdle { type = "idle" }
    SessionStatusBusy { type = "busy" }
    /// The model is asked again at `next`, in milliseconds since 1970.
    SessionStatusRetry { type = "retry", attempt: u64, message: String, next: u64 }

    /// A rule for calls. The last rule that matches counts.
    PermissionRule { permission: String, pattern: String, action = "allow" | "deny" | "ask" }

    /// A question whether a call may run.
    PermissionRequest {
        id: String,
        sessionID: String,
        permission: String,
        patterns: Vec<String>,
        metadata: Free,
        always: Vec<String>,
        tool?: QuestionTool,
    }

    /// A question of a tool.
    QuestionRequest {
        id: String,
        sessionID: String,
        questions: Vec<QuestionInfo>,
        tool?: QuestionTool,
    }

    QuestionInfo {
        question: String,
        header: String,
        options: Vec<QuestionOption>,
        multiple?: bool,
        custom?: bool,
    }

    QuestionOption { label: String, description: String }

    /// The call that a question is about.
    QuestionTool { messageID: String, callID: String }

    Todo {
        id?: String,
        content: String,
        status: String,
        priority: String,
    }

    /// The changes of a session to a file.
    SnapshotFileDiff {
        file?: String,
        patch?: String,
        additions: u64,
        deletions: u64,
        status? = "added" | "deleted" | "modified",
    }

    /// A session in the form of the second version of the API.
    SessionV2Info {
        id: String,
        parentID?: String,
        projectID: String,
        agent?: String,
        model?: { id: String, providerID: String, variant?: String },
        cost: f64,
        tokens: Tokens,
        time: { created: u64, updated: u64, archived?: u64 },
        title: String,
        location: { directory: String },
    }

    SessionsResponse {
        data: Vec<SessionV2Info>,
        cursor: { previous?: String, next?: String },
    }
}

unions! {
    DeletedSession = Session | SessionReference;
    SessionStatus = SessionStatusIdle | SessionStatusBusy | SessionStatusRetry;
}

/// A session in a list of all directories.
#[derive(Debug)]
pub(crate) enum GlobalSession {}

impl JsonSchema for GlobalSession {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "GlobalSession".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let mut schema = Session::json_schema(generator);
        let project = generator.subschema_for::<ProjectSummary>().to_value();
        if let Some(members) = schema.get_mut("properties").and_then(|known| known.as_object_mut())
        {
            members.insert("project".to_owned(), project);
        }
        schema
    }
}
