use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::model::CallSpec;
use super::sandbox::Profile;
use crate::json::{Json, shared_text};
use crate::payload::Sha256;

events! {
    /// The events of a tool call, from the model's request to the result. `call` is always the model's
    /// call id.
    #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    pub enum Tool {
        /// The model has finished writing one call; `of` is its request.
        fact Called { call: CallSpec } texts [call],
        /// Work out, without side effects, what the call would do.
        intent ResolveStarted { call: String },
        fact Resolved(Box<Resolution>) texts [0],
        intent Started { call: String, name: String, class: Class, attempt: u32 },
        /// The last part of a running tool's output so far.
        fact Progressed { tail: String } texts [tail],
        fact Finished(Box<Finished>) texts [0],
        /// The node died while the call ran, so its effect is unknown.
        intent Lost { call: String, attempt: u32 },
        intent Cancelled { call: String, attempt: u32 },
        /// A call that the call or the prompt `of` creates. Later events of the call name this event.
        intent Batched { call: CallSpec } texts [call],
        /// A running tool needs an answer from a person before it continues. The questions of a call
        /// are numbered from 1.
        fact ElicitationRequested {
            #[serde(alias = "inquiry")]
            elicitation: u32,
            /// The party that asks, such as a server.
            from: String,
            message: String,
            wanted: Wanted,
        } texts [from, message, wanted],
        /// The answer for the tool: `content` has the values by the names of their fields.
        intent ElicitationAnswered {
            call: String,
            #[serde(alias = "inquiry")]
            elicitation: u32,
            consent: Consent,
            content: Json,
        } texts [content],
        /// The form of `Started` for a command, if the turn configuration knows a sandbox. Its public name is that of
        /// `Started`; its field `sandbox` tells the two apart.
        #[serde(rename(serialize = "started", deserialize = "started_sandboxed"))]
        intent StartedSandboxed(Box<StartedSandboxed>) texts [0],
        /// The model is still writing these calls; `of` is its request. `tool.called` follows for each of
        /// them, unless the request fails first.
        fact InputStreamed { calls: Vec<StreamedInput> } texts [calls],
    }
}

/// The size of a call's arguments so far. Their text is not logged before it is complete: part of a
/// secret would not be recognised.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StreamedInput {
    /// The model's id of the call.
    pub id: String,
    pub name: String,
    pub bytes: u64,
}

/// The start of a command, with its confinement.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StartedSandboxed {
    pub call: String,
    pub name: String,
    pub class: Class,
    pub attempt: u32,
    pub sandbox: Profile,
}

/// A `tool.started` in either of its forms.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Started<'a> {
    pub call: &'a str,
    pub name: &'a str,
    pub class: Class,
    pub attempt: u32,
    pub sandbox: Option<&'a Profile>,
}

impl Tool {
    /// The start of a call, if this is one.
    pub fn started(&self) -> Option<Started<'_>> {
        if let Self::Started { call, name, class, attempt } = self {
            let (class, attempt) = (*class, *attempt);
            return Some(Started { call, name, class, attempt, sandbox: None });
        }
        let Self::StartedSandboxed(started) = self else { return None };
        let StartedSandboxed { call, name, class, attempt, sandbox } = &**started;
        let (class, attempt) = (*class, *attempt);
        Some(Started { call, name, class, attempt, sandbox: Some(sandbox) })
    }
}

/// The kind of answer that a running call asks a person for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Wanted {
    /// Values for the fields of a JSON Schema.
    Form { schema: Json },
    /// To act at this address.
    Visit { url: String },
    /// To let the tool do this. Rules and approvals answer it as they answer the accesses of a call.
    Permission {
        permission: String,
        patterns: Vec<String>,
        /// The patterns that an "always" would allow from then on.
        always: Vec<String>,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Consent {
    Accepted,
    /// A person or the rules declined.
    Declined,
    /// No one answered in time, or the question cannot be asked.
    Cancelled,
}

/// A call's planned effect, worked out without side effects: the strings that permission rules
/// judge.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Resolution {
    /// The tool that will run: the model's name for it, corrected if necessary.
    pub name: String,
    pub input: Json,
    pub class: Class,
    pub access: Vec<Access>,
    /// Absolute paths, with links resolved, that the call reads or writes.
    pub paths: Vec<String>,
    /// How long the call may run, in milliseconds.
    pub timeout: u64,
    /// The call cannot be run; the model gets this message.
    pub error: Option<String>,
    /// The session's treatment of the call besides running its tool. Older exports do not have it.
    #[serde(default)]
    pub kind: CallKind,
}

/// A session's treatment of a call besides running its tool. The tool declares it, so that no other
/// code needs to know the tool's name.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CallKind {
    #[default]
    Plain,
    /// It runs a shell command: plugins may set variables for it.
    Shell,
    /// It shows files to the model, and with them the instruction files beside them.
    ShowsFiles,
    /// Its result holds for the whole session and is never pruned.
    Lasting,
    /// Its calls come first, one after the other; it runs when all are done.
    Batch { calls: Vec<BatchCall> },
    /// A person is asked whether `agent` takes over after it.
    SwitchAgent { agent: String },
    /// Its arguments are the turn's answer, which fits the schema that the turn asks for.
    StructuredOutput,
}

/// A call that a batch makes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BatchCall {
    pub name: String,
    pub input: Json,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Class {
    /// It has no side effects, so a call whose outcome was lost in a crash may run again.
    Read,
    /// It changes the files that `paths` names.
    Write,
    /// It may do anything.
    Command,
    /// It starts a session of its own.
    Child,
    /// It asks a person.
    Ask,
}

/// One permission that a call needs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Access {
    pub permission: String,
    /// The objects of the access; each must be allowed.
    pub patterns: Vec<String>,
    /// The patterns that an "always" would allow from then on.
    pub always: Vec<String>,
}

/// A tool has ended, successfully or not. The model gets the output in both cases.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Finished {
    pub call: String,
    pub title: String,
    #[serde(deserialize_with = "shared_text")]
    pub output: Arc<str>,
    pub is_error: bool,
    pub metadata: Json,
    /// The place of the full text, if `output` was cut.
    pub spill: Option<Spill>,
    pub attachments: Vec<Attachment>,
}

/// A file beside the log with output that is too long for the log. It may be deleted later.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Spill {
    /// Absolute path.
    pub path: String,
    pub sha256: Sha256,
    pub bytes: u64,
}

/// Media for the model.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attachment {
    pub mime: String,
    pub name: String,
    pub base64: String,
}
