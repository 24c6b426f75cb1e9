use serde::{Deserialize, Serialize};

use super::model::CallSpec;
use crate::json::Json;
use crate::payload::Sha256;

/// A tool call's way from the model's words to a result. `call` is always the model's call id.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Tool {
    /// The model has finished writing one call; `of` is its request.
    Called {
        call: CallSpec,
    },
    /// Work out, without effect, what the call would do.
    ResolveStarted {
        call: String,
    },
    Resolved(Box<Resolution>),
    Started {
        call: String,
        name: String,
        class: Class,
        attempt: u32,
    },
    /// The last part of what a running tool has printed so far.
    Progressed {
        tail: String,
    },
    Finished(Box<Finished>),
    /// Nobody knows whether the tool ran or how far.
    Lost {
        call: String,
        attempt: u32,
    },
    Cancelled {
        call: String,
        attempt: u32,
    },
    /// A call that the call or the prompt `of` brings forth; what is said about it names this event.
    Batched {
        call: CallSpec,
    },
    /// Before it goes on, a running tool wants to know something from a person. The call's questions
    /// are numbered from 1.
    ElicitationRequested {
        #[serde(alias = "inquiry")]
        elicitation: u32,
        /// Who wants to know, such as a server.
        from: String,
        message: String,
        wanted: Wanted,
    },
    /// What the tool is told: `content` are the values by the names of their fields.
    ElicitationAnswered {
        call: String,
        #[serde(alias = "inquiry")]
        elicitation: u32,
        consent: Consent,
        content: Json,
    },
}

/// What a person is asked for in the middle of a call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Wanted {
    /// Values for the fields of a JSON Schema.
    Form { schema: Json },
    /// To do something at this address.
    Visit { url: String },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Consent {
    Accepted,
    /// A person has said no, or the rules have.
    Declined,
    /// Nobody has said anything in time, or it can not be asked.
    Cancelled,
}

/// What a call would do, with nothing done yet: the strings that permission rules judge.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Resolution {
    /// The tool that will run: the model's name for it, repaired where needed.
    pub name: String,
    pub input: Json,
    pub class: Class,
    pub access: Vec<Access>,
    /// Absolute paths with links resolved that the call reads or writes.
    pub paths: Vec<String>,
    /// How long it may run, in milliseconds.
    pub timeout: u64,
    /// The call can not be run; the model is told this.
    pub error: Option<String>,
    /// What the session does about the call besides running its tool. Exports from before it was told
    /// do not have it.
    #[serde(default)]
    pub kind: CallKind,
}

/// What a session does about a call besides running its tool. The tool says so, so that nobody else
/// needs to know it by its name.
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
    /// Has no effect, so a call whose outcome a crash has taken may run again.
    Read,
    /// Changes files that `paths` names.
    Write,
    /// May do anything.
    Command,
    /// Starts a session of its own.
    Child,
    /// Asks a person.
    Ask,
}

/// One permission that a call needs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Access {
    pub permission: String,
    /// What it touches; every one must be allowed.
    pub patterns: Vec<String>,
    /// The patterns that an "always" would allow from now on.
    pub always: Vec<String>,
}

/// A tool has come to its end, well or not: both are news for the model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Finished {
    pub call: String,
    pub title: String,
    pub output: String,
    pub is_error: bool,
    pub metadata: Json,
    /// Where the full text is, if `output` was cut.
    pub spill: Option<Spill>,
    pub attachments: Vec<Attachment>,
}

/// A file beside the log with output too long to keep in it. It may be pruned later.
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
