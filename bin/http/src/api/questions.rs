//! Open permissions and questions, and the answers to them.

use std::sync::Arc;
use std::time::Duration;

use leftfold_actors::{Answered, QuestionReply};
use leftfold_events::SessionId;
use leftfold_events::event::Answer as Reply;
use leftfold_runtime::PromptOptions;
use leftfold_runtime::client::{self, Client};
use leftfold_runtime::socket::{self, Sessions};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;
use tokio::time::timeout;

use super::{Answer, Api, ApiState, BY, JsonBody, Path, yes};
use crate::error::ApiError;
use crate::shapes::session::{PermissionRequest, QuestionRequest};
use crate::shapes::{Shaped, shaped};

const NO_PERMISSION: &str = "PermissionNotFoundError";
const NO_QUESTION: &str = "QuestionNotFoundError";

/// How long a turn that goes on may take to begin.
const RESUME_TIMEOUT: Duration = Duration::from_secs(5);

pub(super) async fn permissions(api: ApiState) -> Answer<Shaped<Vec<PermissionRequest>>> {
    Ok(shaped(open(&api, "permission.asked")))
}

pub(super) async fn questions(api: ApiState) -> Answer<Shaped<Vec<QuestionRequest>>> {
    Ok(shaped(open(&api, "question.asked")))
}

fn open(api: &Api, kind: &str) -> Value {
    let frames =
        api.feed.each(|tree| tree.sessions().flat_map(|(id, _)| tree.open_questions(id)).collect());
    let asked = frames.into_iter().filter(|frame| frame.kind == kind);
    asked.map(|frame| frame.properties).collect()
}

#[derive(Debug, Deserialize, JsonSchema)]
pub(super) struct PermissionReply {
    #[schemars(with = "String", extend("enum" = ["once", "always", "reject"]))]
    reply: Reply,
    message: Option<String>,
}

pub(super) async fn permission(
    api: ApiState,
    Path(request): Path<String>,
    JsonBody(PermissionReply { reply, message }): JsonBody<PermissionReply>,
) -> Answer<bool> {
    let feedback = message.filter(|message| !message.trim().is_empty());
    let reply = QuestionReply { answer: reply, feedback, always: None, by: BY.to_owned() };
    answer(&api, &request, reply, NO_PERMISSION).await
}

/// Allows one call, unless somebody else has answered.
pub(super) async fn allow(api: &Arc<Api>, request: &str) -> Result<(), ApiError> {
    let Some(id) = api.feed.question(request) else { return Ok(()) };
    let reply =
        QuestionReply { answer: Reply::Once, feedback: None, always: None, by: BY.to_owned() };
    api.client(id.0).await?.answer(id, reply).await?;
    Ok(())
}

#[derive(Debug, Deserialize, JsonSchema)]
pub(super) struct PermissionResponse {
    #[schemars(with = "String", extend("enum" = ["once", "always", "reject"]))]
    response: Reply,
}

/// The form of the first version of the API, which names the session too.
pub(super) async fn respond(
    api: ApiState,
    Path((_, request)): Path<(String, String)>,
    JsonBody(PermissionResponse { response }): JsonBody<PermissionResponse>,
) -> Answer<bool> {
    let reply = QuestionReply { answer: response, feedback: None, always: None, by: BY.to_owned() };
    answer(&api, &request, reply, NO_PERMISSION).await
}

#[derive(Debug, Deserialize, JsonSchema)]
pub(super) struct Answers {
    /// For each question the chosen options.
    answers: Vec<Vec<String>>,
}

pub(super) async fn reply(
    api: ApiState,
    Path(request): Path<String>,
    JsonBody(Answers { answers }): JsonBody<Answers>,
) -> Answer<bool> {
    let text = answers.iter().map(|chosen| chosen.join(", ")).collect::<Vec<_>>().join("\n");
    answer(&api, &request, client::reply(Some(text), BY), NO_QUESTION).await
}

pub(super) async fn reject(api: ApiState, Path(request): Path<String>) -> Answer<bool> {
    answer(&api, &request, client::reply(None, BY), NO_QUESTION).await
}

/// Answers a question. The first answer counts. In a turn that was cut off, an answer first resumes
/// the turn, which asks again under the same id.
async fn answer(api: &Arc<Api>, request: &str, reply: QuestionReply, tag: &str) -> Answer<bool> {
    let Some((session, of)) = api.feed.question(request) else {
        return Err(ApiError::no_request(tag, request, None));
    };
    let root = api.feed.root_of(session).unwrap_or(session);
    let client = api.client(root).await?;
    resume_cut_off(api, root, &client).await?;
    let by = match client.answer((session, of), reply).await? {
        Answered::Accepted => return yes(),
        Answered::Already { by } => Some(by),
        Answered::NotOpen | Answered::Refused { .. } | Answered::Repeated { .. } => {
            socket::answered_by(&client.for_session(session), of).await
        }
    };
    Err(ApiError::no_request(tag, request, by.as_deref()))
}

/// Resumes the session's turn if nobody runs it.
pub(super) async fn resume_cut_off(
    api: &Arc<Api>,
    session: SessionId,
    client: &Client,
) -> Result<(), ApiError> {
    if client.remote().is_some() {
        // its owner, or the next one, goes on with it before it takes this client's request
        return Ok(());
    }
    let is_cut_off = api.feed.loaded(session, |known| known.is_cut_off());
    if is_cut_off != Some(true) {
        return Ok(());
    }
    let setup = Sessions::setup(&*api.sessions, session, &PromptOptions::default()).await?;
    client.resume(&setup)?;
    let resumed = api.feed.when(session, |tree| {
        tree.session(session).filter(|known| !known.is_cut_off()).map(|_| ())
    });
    // the session may die, and another node may take it: then the request itself says so
    timeout(RESUME_TIMEOUT, resumed).await.unwrap_or(Ok(()))
}
