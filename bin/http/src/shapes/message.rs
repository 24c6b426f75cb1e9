//! Messages, their parts, the parts of prompts, and the errors of replies.

use serde_json::Value;

use super::session::{SnapshotFileDiff, Tokens};
use super::{Free, MapOf};

shapes! {
    /// A message with its parts.
    MessageWithParts { info: Message, parts: Vec<Part> }

    /// A prompt, or the request for a summary.
    UserMessage {
        id: String,
        sessionID: String,
        role = "user",
        time: { created: u64 },
        format?: Free,
        summary?: { title?: String, body?: String, diffs: Vec<SnapshotFileDiff> },
        agent: String,
        model: { providerID: String, modelID: String, variant?: String },
        system?: String,
        tools?: MapOf<bool>,
    }

    /// A reply of a model, or a summary.
    AssistantMessage {
        id: String,
        sessionID: String,
        role = "assistant",
        time: { created: u64, completed?: u64 },
        error?: MessageError,
        parentID: String,
        modelID: String,
        providerID: String,
        mode: String,
        agent: String,
        path: { cwd: String, root: String },
        summary?: bool,
        cost: f64,
        tokens: Tokens,
        structured?: Value,
        variant?: String,
        finish?: String,
    }

    TextPart {
        id: String,
        sessionID: String,
        messageID: String,
        type = "text",
        text: String,
        synthetic?: bool,
        ignored?: bool,
        time?: { start: u64, end?: u64 },
        metadata?: Free,
    }

    ReasoningPart {
        id: String,
        sessionID: String,
        messageID: String,
        type = "reasoning",
        text: String,
        metadata?: Free,
        time: { start: u64, end?: u64 },
    }

    FilePart {
        id: String,
        sessionID: String,
        messageID: String,
        type = "file",
        mime: String,
        filename?: String,
        url: String,
        source?: FilePartSource,
        synthetic?: bool,
    }

    FileSource { type = "file", text: FilePartSourceText, path: String }
    SymbolSource {
        type = "symbol",
        text: FilePartSourceText,
        path: String,
        range: Range,
        name: String,
        kind: u64,
    }
    ResourceSource { type = "resource", text: FilePartSourceText, clientName: String, uri: String }

    /// The text of a prompt that stands for a file.
    FilePartSourceText { value: String, start: u64, end: u64 }

    Range { start: { line: u64, character: u64 }, end: { line: u64, character: u64 } }

    /// A call of a tool.
    ToolPart {
        id: String,
        sessionID: String,
        messageID: String,
        type = "tool",
        callID: String,
        tool: String,
        state: ToolState,
        metadata?: Free,
    }

    ToolStatePending { status = "pending", input: Free, raw: String }
    ToolStateRunning {
        status = "running",
        input: Free,
        title?: String,
        metadata?: Free,
        time: { start: u64 },
    }
    ToolStateCompleted {
        status = "completed",
        input: Free,
        output: String,
        title: String,
        metadata: Free,
        time: { start: u64, end: u64, compacted?: u64 },
        attachments?: Vec<FilePart>,
    }
    ToolStateError {
        status = "error",
        input: Free,
        error: String,
        metadata?: Free,
        time: { start: u64, end: u64 },
    }

    StepStartPart {
        id: String,
        sessionID: String,
        messageID: String,
        type = "step-start",
        snapshot?: String,
    }

    StepFinishPart {
        id: String,
        sessionID: String,
        messageID: String,
        type = "step-finish",
        reason: String,
        snapshot?: String,
        cost: f64,
        tokens: Tokens,
    }

    SnapshotPart {
        id: String,
        sessionID: String,
        messageID: String,
        type = "snapshot",
        snapshot: String,
    }

    /// The files that a step has changed.
    PatchPart {
        id: String,
        sessionID: String,
        messageID: String,
        type = "patch",
        hash: String,
        files: Vec<String>,
    }

    AgentPart {
        id: String,
        sessionID: String,
        messageID: String,
        type = "agent",
        name: String,
        source?: FilePartSourceText,
        synthetic?: bool,
    }

    /// A prompt for a subagent.
    SubtaskPart {
        id: String,
        sessionID: String,
        messageID: String,
        type = "subtask",
        prompt: String,
        description: String,
        agent: String,
        model?: { providerID: String, modelID: String },
        command?: String,
    }

    /// A failed attempt, which this message replaces.
    RetryPart {
        id: String,
        sessionID: String,
        messageID: String,
        type = "retry",
        attempt: u64,
        error: APIError,
        time: { created: u64 },
    }

    CompactionPart {
        id: String,
        sessionID: String,
        messageID: String,
        type = "compaction",
        auto: bool,
        overflow?: bool,
        tail_start_id?: String,
    }

    TextPartInput {
        id?: String,
        type = "text",
        text: String,
        synthetic?: bool,
        ignored?: bool,
        time?: { start: u64, end?: u64 },
        metadata?: Free,
    }

    /// A file: its `url` begins with `file:` or `data:`.
    FilePartInput {
        id?: String,
        type = "file",
        mime: String,
        filename?: String,
        url: String,
        source?: FilePartSource,
    }

    AgentPartInput {
        id?: String,
        type = "agent",
        name: String,
        source?: FilePartSourceText,
    }

    SubtaskPartInput {
        id?: String,
        type = "subtask",
        prompt: String,
        description?: String,
        agent: String,
    }

    OutputFormatText { type = "text" }
    /// An object that fits the schema: `structured` of the answer's message. The model may try again `retryCount` times.
    OutputFormatJsonSchema { type = "json_schema", schema: Free, retryCount?: u64 }

    ProviderAuthError { name = "ProviderAuthError", data: { providerID: String, message: String } }
    UnknownError { name = "UnknownError", data: { message: String } }
    MessageOutputLengthError { name = "MessageOutputLengthError", data: Free }
    MessageAbortedError { name = "MessageAbortedError", data: { message: String } }
    StructuredOutputError {
        name = "StructuredOutputError",
        data: { message: String, retries: u64 },
    }
    ContextOverflowError { name = "ContextOverflowError", data: { message: String } }
    /// The provider has refused the request.
    APIError {
        name = "APIError",
        data: {
            message: String,
            statusCode?: u64,
            isRetryable: bool,
            responseHeaders?: MapOf<String>,
            responseBody?: String,
            metadata?: MapOf<String>,
        },
    }
}

unions! {
    Message = UserMessage | AssistantMessage;
    Part = TextPart | SubtaskPart | ReasoningPart | FilePart | ToolPart | StepStartPart | StepFinishPart
        | SnapshotPart | PatchPart | AgentPart | RetryPart | CompactionPart;
    FilePartSource = FileSource | SymbolSource | ResourceSource;
    ToolState = ToolStatePending | ToolStateRunning | ToolStateCompleted | ToolStateError;
    /// A part of a prompt.
    PartInput = TextPartInput | FilePartInput | AgentPartInput | SubtaskPartInput;
    /// The form of an answer.
    OutputFormat = OutputFormatText | OutputFormatJsonSchema;
    /// The reason why a reply is not complete.
    MessageError = ProviderAuthError | UnknownError | MessageOutputLengthError | MessageAbortedError
        | StructuredOutputError | ContextOverflowError | APIError;
}
