//! Prompts, commands and shell lines.

use std::sync::Arc;

use axum::response::NoContent;
use indexmap::IndexMap;
use leftfold_actors::Answered;
use leftfold_events::event::{PromptKind, PromptPart, SlashCommand};
use leftfold_events::turn_config::StructuredOutput;
use leftfold_events::{Notes, SessionId};
use leftfold_runtime::attach;
use leftfold_runtime::client;
use leftfold_runtime::project::Project;
use leftfold_runtime::session_setup::SessionSetup;
use leftfold_runtime::slash::{self, OptionsFor, Prepared};
use leftfold_runtime::user_message::UserMessage;
use leftfold_runtime::{Overrides, PromptOptions, Usage, gathering};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use super::questions::{allow, resume_cut_off};
use super::{Answer, Api, ApiState, BY, JsonBody, Named, yes};
use crate::elsewhere;
use crate::error::ApiError;
use crate::opencode::{ProjectedMessage, Projection, ids};
use crate::shapes::message::MessageWithParts;
use crate::shapes::{self, Shaped, shaped};

#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
#[schemars(extend("required" = ["parts"]))]
pub(super) struct PromptBody {
    #[serde(rename = "messageID")]
    message: Option<String>,
    model: Option<PromptModel>,
    agent: Option<String>,
    variant: Option<String>,
    system: Option<String>,
    tools: IndexMap<String, bool>,
    #[serde(rename = "noReply")]
    no_reply: bool,
    #[schemars(with = "shapes::message::OutputFormat")]
    format: OutputFormat,
    #[schemars(with = "Vec<shapes::message::PartInput>")]
    parts: Vec<Value>,
    /// The turn ends after the calls of the prompt itself.
    #[serde(skip)]
    is_silent: bool,
    /// The command that the text calls. In other prompts a slash has no meaning.
    #[serde(skip)]
    command: Option<SlashCommand>,
}

impl PromptBody {
    fn options(&self) -> PromptOptions {
        PromptOptions {
            message_id: self.message.clone(),
            agent: self.agent.clone(),
            model: self
                .model
                .as_ref()
                .map(|PromptModel { provider, id }| format!("{provider}/{id}")),
            variant: self.variant.clone(),
            system: self.system.clone(),
            tools: self.tools.clone(),
            max_steps: self.is_silent.then_some(0),
            output: self.format.output(),
            ..PromptOptions::default()
        }
    }
}

/// The form of the answer: a [`shapes::message::OutputFormat`].
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum OutputFormat {
    #[default]
    Text,
    /// An object that fits the schema: `structured` of the answer's message.
    JsonSchema {
        schema: Value,
        /// How often the model may try again.
        #[serde(rename = "retryCount", default = "StructuredOutput::retries")]
        retries: u32,
    },
}

impl OutputFormat {
    fn output(&self) -> Option<StructuredOutput> {
        match self {
            Self::Text => None,
            Self::JsonSchema { schema, retries } => Some(StructuredOutput {
                schema: leftfold_events::Json::from_value(schema),
                retries: *retries,
            }),
        }
    }
}

#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[schemars(inline)]
pub(super) struct PromptModel {
    #[serde(rename = "providerID")]
    provider: String,
    #[serde(rename = "modelID")]
    id: String,
}

/// The members of [`shapes::message::PartInput`] that the log keeps as a prompt.
#[derive(Clone, Debug, Deserialize)]
#[serde(tag = "type", rename_all = "lowercase")]
enum PartInput {
    Text { text: String },
    File { mime: String, filename: Option<String>, url: String },
    Agent { name: String },
    Subtask { prompt: String, agent: String },
}

/// Prompts, and answers with the last message of the turn.
pub(super) async fn prompt(
    api: ApiState,
    Named(session): Named,
    JsonBody(body): JsonBody<PromptBody>,
) -> Answer<Shaped<MessageWithParts>> {
    let head = send(&api, session, body).await?;
    ended(&api, session, head, Started::Prompt).await
}

/// Prompts, and answers once the prompt is in the log.
pub(super) async fn prompt_async(
    api: ApiState,
    Named(session): Named,
    JsonBody(body): JsonBody<PromptBody>,
) -> Result<NoContent, ApiError> {
    send(&api, session, body).await?;
    Ok(NoContent)
}

#[derive(Debug, Deserialize, JsonSchema)]
pub(super) struct CommandBody {
    command: String,
    #[serde(default)]
    arguments: String,
    agent: Option<String>,
    /// `provider/model`
    model: Option<String>,
    variant: Option<String>,
    #[serde(rename = "messageID")]
    message: Option<String>,
    #[serde(default)]
    #[schemars(with = "Vec<shapes::message::FilePartInput>")]
    parts: Vec<Value>,
}

/// A slash command is a prompt that begins with its name.
pub(super) async fn command(
    api: ApiState,
    Named(session): Named,
    JsonBody(body): JsonBody<CommandBody>,
) -> Answer<Shaped<MessageWithParts>> {
    let model = body.model.as_deref().and_then(|name| name.split_once('/'));
    let model =
        model.map(|(provider, id)| PromptModel { provider: provider.into(), id: id.into() });
    let command = SlashCommand { name: body.command, arguments: body.arguments };
    let text = format!("/{} {}", command.name, command.arguments).trim_end().to_owned();
    let mut parts = vec![json!({ "type": "text", "text": text })];
    parts.extend(body.parts);
    let prompt = PromptBody {
        message: body.message,
        model,
        agent: body.agent,
        variant: body.variant,
        command: Some(command),
        parts,
        ..PromptBody::default()
    };
    let head = send(&api, session, prompt).await?;
    ended(&api, session, head, Started::Prompt).await
}

#[derive(Debug, Deserialize, JsonSchema)]
pub(super) struct ShellBody {
    #[serde(rename = "messageID")]
    message: Option<String>,
    command: String,
    agent: Option<String>,
    model: Option<PromptModel>,
}

/// Runs a command line. The model is not asked; it sees the command and its output with the next
/// prompt. The request itself answers the question of a rule that says `ask`.
pub(super) async fn shell(
    api: ApiState,
    Named(session): Named,
    JsonBody(ShellBody { message, command, agent, model }): JsonBody<ShellBody>,
) -> Answer<Shaped<MessageWithParts>> {
    super::sessions::must_rest(&api, session)?;
    let said = format!("I ran this command:\n$ {command}\nIts output:\n");
    let command = PromptPart { kind: PromptKind::Command, ..PromptPart::text(command) };
    let body = PromptBody { message, agent, model, is_silent: true, ..PromptBody::default() };
    // the person has typed neither
    let extras = vec![json!({ "synthetic": true }); 2];
    let parts = vec![PromptPart::text(said), command];
    let head = send_parts(&api, session, &body, move || Ok((parts, extras))).await?;
    let asked = |tree: &Projection| {
        let mut open = tree.open_questions(session).into_iter();
        let asked = open.find(|frame| frame.kind == "permission.asked")?;
        asked.properties["id"].as_str().map(str::to_owned)
    };
    let allows = async {
        loop {
            let request = api.feed.when(session, asked).await?;
            allow(&api, &request).await?;
            // until the answer is in the log
            let closed = |tree: &Projection| asked(tree).is_none_or(|open| open != request);
            api.feed.when(session, |tree| closed(tree).then_some(())).await?;
        }
    };
    tokio::select! {
        done = ended(&api, session, head, Started::Prompt) => done,
        failed = allows => failed,
    }
}

#[derive(Debug, Deserialize, JsonSchema)]
pub(super) struct SummarizeBody {
    #[serde(rename = "providerID")]
    provider: Option<String>,
    #[serde(rename = "modelID")]
    model: Option<String>,
    /// Instructions for the summary. OpenCode has no such field.
    instructions: Option<String>,
}

/// Requests a summary, and waits for the end of its turn.
pub(super) async fn summarize(
    api: ApiState,
    Named(session): Named,
    JsonBody(body): JsonBody<SummarizeBody>,
) -> Answer<bool> {
    let client = api.client(session).await?;
    resume_cut_off(&api, session, &client).await?;
    let instructions = body.instructions;
    let body = PromptBody {
        model: body.provider.zip(body.model).map(|(provider, id)| PromptModel { provider, id }),
        ..PromptBody::default()
    };
    let (setup, _, ()) = setup(&api, session, &body, || Ok((String::new(), ()))).await?;
    let head = client.view().await?.seq;
    let config = gathering(move || setup.prompt_config()).await?;
    let compacted = client.compact(config, BY, instructions.as_deref(), false).await?;
    if compacted != Answered::Accepted {
        return Err(ApiError::bad_request("there is nothing to summarize"));
    }
    drop(ended(&api, session, head, Started::Summary).await?);
    yes()
}

/// `/init` as a request of its own.
pub(super) async fn init(
    api: ApiState,
    Named(session): Named,
    JsonBody(body): JsonBody<SummarizeBody>,
) -> Answer<bool> {
    let command = SlashCommand { name: "init".to_owned(), arguments: String::new() };
    let prompt = PromptBody {
        model: body.provider.zip(body.model).map(|(provider, id)| PromptModel { provider, id }),
        parts: vec![json!({ "type": "text", "text": "/init" })],
        command: Some(command),
        ..PromptBody::default()
    };
    let head = send(&api, session, prompt).await?;
    drop(ended(&api, session, head, Started::Prompt).await?);
    yes()
}

/// Goes on with a turn that a crash has cut off.
pub(super) async fn resume(api: ApiState, Named(session): Named) -> Answer<bool> {
    let client = api.client(session).await?;
    resume_cut_off(&api, session, &client).await?;
    yes()
}

/// Sends a prompt, and returns the last event before it.
async fn send(api: &Arc<Api>, session: SessionId, body: PromptBody) -> Result<u64, ApiError> {
    let given = body.parts.clone();
    let read = move || {
        let (mut parts, mut extras) = (Vec::new(), Vec::new());
        for (index, value) in given.into_iter().enumerate() {
            let input = ClientMembers::deserialize(&value)
                .and_then(|_| PartInput::deserialize(&value))
                .map_err(|error| Usage(format!("body: `parts[{index}]`: {error}")))?;
            parts.push(part(input)?);
            extras.push(extra(value));
        }
        if parts.is_empty() {
            return Err(Usage("body: `parts` has nothing to send".to_owned()).into());
        }
        Ok((parts, extras))
    };
    send_parts(api, session, &body, read).await
}

/// The types of members that Leftfold does not use. Other clients get them back, and rely on the types.
#[derive(Debug, Deserialize)]
#[expect(dead_code, reason = "only the types are checked")]
struct ClientMembers {
    id: Option<String>,
    synthetic: Option<bool>,
    ignored: Option<bool>,
    metadata: Option<shapes::Free>,
    source: Option<shapes::Free>,
    time: Option<PartTime>,
}

#[derive(Debug, Deserialize)]
#[expect(dead_code, reason = "only the types are checked")]
struct PartTime {
    start: u64,
    end: Option<u64>,
}

/// The members of a client's part that Leftfold gives back unchanged. Files and agents stay what they are,
/// although the model gets a text.
fn extra(part: Value) -> Value {
    const KEPT: [&str; 6] = ["id", "synthetic", "ignored", "metadata", "source", "time"];
    let of_kind: &[&str] = match part["type"].as_str() {
        Some("file") if part["url"].as_str().is_some_and(is_path) => {
            &["type", "mime", "filename", "url"]
        }
        Some("agent") => &["type", "name"],
        Some(_) | None => &[],
    };
    let Value::Object(mut members) = part else { return Value::Null };
    members.retain(|name, value| {
        !value.is_null() && (KEPT.contains(&name.as_str()) || of_kind.contains(&name.as_str()))
    });
    members.into()
}

fn is_path(url: &str) -> bool {
    url.starts_with("file://")
}

/// Sends what `read` gives: parts, and their members that only clients know. It may read files.
async fn send_parts(
    api: &Arc<Api>,
    session: SessionId,
    body: &PromptBody,
    read: impl FnOnce() -> anyhow::Result<(Vec<PromptPart>, Vec<Value>)> + Send + 'static,
) -> Result<u64, ApiError> {
    if let Some(id) = body.message.as_deref().filter(|id| !ids::is_given(id, "msg")) {
        return Err(ApiError::bad_request(format!(
            "body: `messageID`: `{id}` is not a message's id"
        )));
    }
    let is_command = body.command.is_some();
    let read = move || {
        let given = read()?;
        let first = given.0.first().filter(|part| is_command && part.kind == PromptKind::Text);
        Ok((first.map(|part| part.text.clone()).unwrap_or_default(), given))
    };
    let (setup, prepared, (parts, mut extras)) = setup(api, session, body, read).await?;
    setup.extensions.ready().await;
    let parts = slash::with_agents(&setup, parts);
    // a client that sends files has read the mentions in the text
    let has_files = body.parts.iter().any(|part| part["type"] == "file");
    let parts = match has_files && !prepared.is_command() {
        true => parts,
        false => prepared.parts(&setup, parts).await?,
    };
    // the person has not typed the files that the text mentions
    extras.resize(parts.len(), json!({ "synthetic": true }));
    let mut message = UserMessage { quiet: body.no_reply, ..UserMessage::prompt(parts, BY) };
    // a command's template has other parts than the client's
    if !prepared.is_command() && extras.iter().any(|extra| *extra != json!({})) {
        let known = Some(leftfold_events::Json::from_value(&Value::Array(extras)));
        message.notes = Notes::of_client(None, known)
            .map_err(|why| ApiError::bad_request(format!("body: `parts`: {why}")))?;
    }
    let is_short = |called: &SlashCommand| {
        called.name.len() + called.arguments.len() <= Notes::MAX_PARTS && prepared.is_command()
    };
    if let Some(command) = body.command.clone().filter(is_short) {
        message.notes.command = Some(command);
    }
    let mut left = client::ATTEMPTS;
    loop {
        let client = api.client(session).await?;
        let head = client.view().await?.seq;
        match client.send_message(&setup, message.clone(), &body.options()).await {
            Err(error) if client::is_leaving(&error) && left > 0 => left -= 1,
            Err(error) => return Err(error.into()),
            // the turn of a repeated prompt may have ended already
            Ok(Answered::Repeated { seq }) => return Ok(seq.saturating_sub(1)),
            Ok(
                Answered::Accepted
                | Answered::Already { .. }
                | Answered::NotOpen
                | Answered::Refused { .. },
            ) => {
                return Ok(head);
            }
        }
        tokio::time::sleep(client::RETRY_DELAY).await;
    }
}

/// Settings, agent and model for a prompt. `read` gives the text of a command, and more of the prompt.
async fn setup<T: Send + 'static>(
    api: &Arc<Api>,
    session: SessionId,
    body: &PromptBody,
    read: impl FnOnce() -> anyhow::Result<(String, T)> + Send + 'static,
) -> Result<(SessionSetup, Prepared, T), ApiError> {
    let client = api.client(session).await?;
    let state = client.view().await?;
    let (place, project) = api.sessions.registered(session)?;
    let agent = state.last_agent().map(str::to_owned).or_else(|| project.agent.clone());
    let choices = match state.origin {
        Some(_) => state.choices.clone(),
        None => project.choices.clone(),
    };
    let project = Project { choices, agent, ..(*project).clone() };
    let overrides = body.options().over(&Overrides::interactive());
    let host = api.sessions.host(session);
    let gathered = gathering(move || -> anyhow::Result<_> {
        let (text, given) = read()?;
        let prepared =
            Prepared::new((&project, &place.store), &overrides, &text, OptionsFor::ForAll)?;
        let mut setup =
            SessionSetup::new(place.clone(), &prepared.project, &prepared.overrides, false)?;
        setup.workspace.host = host;
        Ok((setup, prepared, given))
    });
    Ok(gathered.await??)
}

/// The work that a request started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Started {
    Prompt,
    Summary,
}

/// Waits for the end of the turn that began after the event `head`, and answers with its last message.
async fn ended(
    api: &Arc<Api>,
    session: SessionId,
    head: u64,
    started: Started,
) -> Answer<Shaped<MessageWithParts>> {
    let last = api.feed.when(session, |tree| {
        let known = tree.session(session)?;
        if tree.seq(session) <= head || tree.is_working(session) {
            return None;
        }
        let messages = known.messages();
        // other events may come first, such as the end of a turn that was cut off
        let is_there =
            |message: &ProjectedMessage| message.seq() > head && message.info()["role"] == "user";
        if started == Started::Prompt && !messages.iter().rev().any(is_there) {
            return None;
        }
        let mut latest = messages.iter().rev();
        let is_reply = |message: &&ProjectedMessage| {
            message.seq() > head && message.info()["role"] == "assistant"
        };
        let reply = latest.find(is_reply);
        // a message that asks for no answer has none
        reply.or(messages.last()).map(|last| last.whole())
    });
    let last = last.await?;
    elsewhere::shown(&api.sessions, &api.feed, session).await;
    Ok(shaped(last))
}

/// The part of a prompt that an input stands for.
fn part(input: PartInput) -> anyhow::Result<PromptPart> {
    Ok(match input {
        PartInput::Text { text } => PromptPart::text(text),
        PartInput::Agent { name } => slash::agent_part(&name),
        PartInput::Subtask { prompt, agent } => {
            let name = Some(agent);
            PromptPart { kind: PromptKind::Task, name, ..PromptPart::text(prompt) }
        }
        PartInput::File { mime, filename, url } => file(&mime, filename, &url)?,
    })
}

/// A file in the prompt itself, or on the disk.
fn file(mime: &str, filename: Option<String>, url: &str) -> anyhow::Result<PromptPart> {
    let wrong = |why: &str| Usage(format!("body: a file of the prompt {why}"));
    if let Some(path) = url.strip_prefix("file://") {
        let path = path.split(['?', '#']).next().unwrap_or_default();
        let path = percent_encoding::percent_decode_str(path).decode_utf8_lossy().into_owned();
        let mut parts = attach::files(&[path.into()])?;
        return Ok(parts.remove(0));
    }
    let data = url.strip_prefix("data:").and_then(|data| data.split_once(','));
    let (kind, data) = data.ok_or_else(|| wrong("has a url that is neither file: nor data:"))?;
    let bytes = match kind.ends_with(";base64") {
        true => leftfold_tools::decode(data).ok_or_else(|| wrong("has broken base64"))?,
        false => percent_encoding::percent_decode_str(data).collect(),
    };
    let name = filename.unwrap_or_else(|| "file".to_owned());
    if leftfold_tools::recognise(&bytes).is_some() {
        return Ok(PromptPart {
            kind: PromptKind::Media,
            text: leftfold_tools::base64(&bytes),
            mime: Some(mime.to_owned()),
            name: Some(name),
        });
    }
    let text = attach::text(&bytes)
        .ok_or_else(|| wrong("is neither text nor an image or PDF that models accept"))?;
    Ok(PromptPart::quoted(format!("<file path=\"{name}\">\n{text}\n</file>")))
}
