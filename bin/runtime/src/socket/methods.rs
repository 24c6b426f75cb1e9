//! The methods that a client can call.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;

use leftfold_actors::{Answered, QuestionReply, WatchScope};
use leftfold_events::event::{
    Answer, Event, Permission, PromptKind, PromptPart, Session, SessionChoices, Turn,
};
use leftfold_events::rules::Rule;
use leftfold_events::{Envelope, Seq, SessionId, Time};
use leftfold_store::LiveReader;
use serde::Deserialize;
use serde_json::{Value, json};

use super::derived::DerivedFeed;
use super::descendants;
use super::forks;
use super::peer::{Peer, SocketState, blocking, releasing};
use super::question::{Search, Which};
use super::reports;
use super::speak;
use crate::Usage;
use crate::client::Client;
use crate::fork::FORK;
use crate::lines::Lines;
use crate::remote::wire::{self, RpcError};
use crate::session_list::REMOVE;
use crate::slash::mention;
use crate::subscription::Subscription;
use crate::turn_config::PromptOptions;
use crate::user_message::UserMessage;
use leftfold_view::QuestionId;

pub(super) const WATCH: &str = "_leftfold/watch";
const DISPOSE: &str = "_leftfold/dispose";

pub const METHODS: [&str; 15] = [
    "_leftfold/read",
    WATCH,
    "_leftfold/prompt",
    "_leftfold/answer",
    "_leftfold/cancel",
    "_leftfold/compact",
    "_leftfold/configure",
    DISPOSE,
    "_leftfold/revert",
    "_leftfold/unrevert",
    FORK,
    REMOVE,
    speak::METHOD,
    reports::VERIFY,
    reports::WHY,
];

/// Methods that change nothing. Commands of a session may call these and [`WATCH`]; all others are
/// for people.
const READING: [&str; 3] = ["_leftfold/read", reports::VERIFY, reports::WHY];

/// The most events in one answer to `read`, and the bytes after which no further event is added.
const CHUNK: usize = 512;
const BYTES: usize = 4 << 20;

/// The most rules that a client can give a session or a prompt, and the most bytes of their texts.
const RULES: usize = 1_000;
const RULE_BYTES: usize = 64 << 10;

#[derive(Deserialize)]
struct ReadParams {
    session: SessionId,
    from: Seq,
    to: Option<Seq>,
}

#[derive(Deserialize)]
struct WatchParams {
    session: SessionId,
    from: Seq,
    children: Option<HashMap<SessionId, Seq>>,
    #[serde(default)]
    status: bool,
    #[serde(default)]
    derived: bool,
}

#[derive(Deserialize)]
struct PromptParams {
    session: SessionId,
    text: Option<String>,
    parts: Option<Vec<PromptPart>>,
    by: Option<String>,
    #[serde(default, alias = "noReply")]
    no_reply: bool,
}

#[derive(Deserialize)]
struct AnswerParams {
    session: SessionId,
    of: Option<Seq>,
    call: Option<String>,
    reply: Answer,
    feedback: Option<String>,
    always: Option<Vec<String>>,
    by: Option<String>,
}

#[derive(Deserialize)]
struct CompactParams {
    session: SessionId,
    instructions: Option<String>,
    by: Option<String>,
}

#[derive(Deserialize)]
struct ConfigureParams {
    session: SessionId,
    choices: Option<SessionChoices>,
    rules: Option<Vec<Rule>>,
    /// Milliseconds, or `null`.
    #[serde(default, deserialize_with = "wire::nullable")]
    archived: Option<Option<u64>>,
    by: Option<String>,
}

#[derive(Deserialize)]
struct DisposeParams {
    directory: PathBuf,
}

#[derive(Deserialize)]
struct RevertParams {
    session: SessionId,
    to: Seq,
    by: Option<String>,
}

#[derive(Deserialize)]
struct SessionParams {
    session: SessionId,
    by: Option<String>,
}

/// Whether a method has Leftfold's prefix.
pub fn is_leftfold_method(method: &str) -> bool {
    method.starts_with("_leftfold/")
}

/// Ends the MCP servers, plugins and language servers of a directory in this process.
async fn dispose(asked: DisposeParams) -> Result<Value, RpcError> {
    let directory = asked.directory;
    if !directory.is_absolute() {
        return Err(RpcError::params("`directory`: the path is not absolute"));
    }
    // sessions name their directory with links resolved
    let directory = directory.canonicalize().unwrap_or(directory);
    let (servers, plugins, language_servers) = tokio::join!(
        leftfold_mcp::dispose(&directory),
        leftfold_plugins::dispose(&directory),
        leftfold_lsp::dispose(&directory)
    );
    Ok(json!({ "disposed": servers + plugins + language_servers }))
}

/// Calls every method except [`WATCH`].
pub(super) async fn call(peer: &Peer, method: &str, params: Value) -> Result<Value, RpcError> {
    let known = METHODS.iter().find(|known| **known == method);
    let Some(&method) = known else { return Err(RpcError::method(method, &METHODS)) };
    if !READING.contains(&method) {
        peer.must_be_person(method).await?;
    }
    if method == FORK {
        return forks::fork(peer, params).await;
    }
    if method == DISPOSE {
        return dispose(wire::params(params)?).await;
    }
    if method == speak::METHOD {
        // at the socket, `connection` answers it
        return speak::find(peer, params).await.map(|_| json!({}));
    }
    if method == REMOVE {
        let SessionParams { session, .. } = wire::params(params)?;
        peer.context.sessions.remove(session).await?;
        return Ok(json!({}));
    }
    if let Some(session) = params.get("session").and_then(Value::as_str)
        && let Ok(session) = session.parse()
        && let Some(remote) = peer.open(session).await?.remote()
    {
        if remote.inbox().is_none() {
            return remote.call(method, params).await.map_err(RpcError::from_error);
        }
        // logs of a shared store are read here
        if !READING.contains(&method) {
            peer.must_be_first()?;
            let mut params = params;
            params["by"] = peer.by(params["by"].as_str()).into();
            return remote.pass_on(method, params).await.map_err(RpcError::from_error);
        }
    }
    match method {
        "_leftfold/read" => read(peer, wire::params(params)?).await,
        "_leftfold/prompt" => {
            let options = wire::params(params.clone())?;
            prompt(peer, wire::params(params)?, options).await
        }
        "_leftfold/answer" => answer(peer, wire::params(params)?).await,
        "_leftfold/compact" => compact(peer, wire::params(params)?).await,
        "_leftfold/configure" => configure(peer, wire::params(params)?).await,
        "_leftfold/revert" => {
            let RevertParams { session, to, by } = wire::params(params)?;
            revert(peer, session, Some(to), by).await
        }
        "_leftfold/unrevert" => {
            let SessionParams { session, by } = wire::params(params)?;
            revert(peer, session, None, by).await
        }
        reports::VERIFY => reports::verify(peer, params).await,
        reports::WHY => reports::why(peer, params).await,
        _ => cancel(peer, wire::params(params)?).await,
    }
}

/// Subscribes to a session, and to notifications that follow from its events if the client wants
/// them.
pub(super) async fn watch(
    peer: &Peer,
    params: Value,
) -> Result<(Subscription, Option<DerivedFeed>), RpcError> {
    let WatchParams { session, from, children, status, derived } = wire::params(params)?;
    first(from)?;
    children.iter().flat_map(HashMap::values).try_for_each(|from| first(*from))?;
    let scope = children.map_or(WatchScope::Alone, |named| WatchScope::Whole(Arc::new(named)));
    let client = peer.open(session).await?;
    let feed = match status || derived {
        true => Some(DerivedFeed::before(&client, from, derived).await?),
        false => None,
    };
    let subscription =
        Subscription::open_as(&client, from, scope).await.map_err(RpcError::from_error)?;
    Ok((subscription, feed))
}

fn first(from: Seq) -> Result<(), RpcError> {
    if from == 0 { Err(RpcError::params("`from`: the first event is 1")) } else { Ok(()) }
}

async fn read(peer: &Peer, asked: ReadParams) -> Result<Value, RpcError> {
    let ReadParams { session, from, to } = asked;
    first(from)?;
    let store = peer.open(session).await?.reading().await.map_err(RpcError::internal)?;
    let to = to.unwrap_or(Seq::MAX);
    blocking(move || {
        let events = store.read(session, from, CHUNK).map_err(RpcError::internal)?;
        Ok(page(&events, from, to))
    })
    .await
}

/// Lines up to `to`, and the start of the next page if there may be one.
fn page(events: &[Envelope], from: Seq, to: Seq) -> Value {
    let (mut lines, mut bytes, mut next) = (Lines::default(), 0, from);
    let mut page: Vec<Value> = Vec::new();
    for event in events.iter().take_while(|event| event.seq <= to) {
        if bytes > BYTES {
            break;
        }
        for line in lines.for_event(event) {
            bytes += line.len();
            // The line was made as JSON just before.
            page.extend(serde_json::from_str::<Value>(&line).ok());
        }
        next = event.seq + 1;
    }
    let more = next <= to && events.len() == CHUNK || events.last().is_some_and(|e| e.seq >= next);
    json!({ "lines": page, "next": (more && next <= to).then_some(next) })
}

async fn prompt(
    peer: &Peer,
    asked: PromptParams,
    options: PromptOptions,
) -> Result<Value, RpcError> {
    let PromptParams { session, text, parts, by, no_reply } = asked;
    check(&options, no_reply)?;
    // a client that gives parts has looked up the mentions itself
    let has_mentions = text.is_some();
    let parts = match (text, parts) {
        (Some(text), None) => vec![PromptPart::text(text)],
        (None, Some(parts)) => parts,
        (None, None) | (Some(_), Some(_)) => {
            return Err(RpcError::params("params: give the prompt as either `text` or `parts`"));
        }
    };
    if parts.iter().all(|part| part.text.trim().is_empty()) {
        return Err(RpcError::params("`text`: the prompt is empty"));
    }
    let ended = || {
        let how =
            format!("the turn has ended: start another with `leftfold run --session {session}`");
        RpcError::leaving(how)
    };
    match peer.context.state() {
        SocketState::Open => {}
        SocketState::Ending | SocketState::Gone => return Err(ended()),
        SocketState::Resting => return Err(releasing(session)),
    }
    let sessions = &peer.context.sessions;
    let client = peer.open(session).await?;
    let setup = sessions.setup(session, &options).await;
    let setup = setup.map_err(|error| refused(error, options.changes_turn()))?;
    let mut parts = match has_mentions {
        true => mention::attached(&setup, parts).await.map_err(RpcError::from_error)?,
        false => parts,
    };
    if no_reply {
        // a message without a turn runs nothing
        parts.retain(|part| matches!(part.kind, PromptKind::Text | PromptKind::Media));
    }
    let (by, joins) = (peer.by(by.as_deref()), sessions.only_joins());
    let message = UserMessage { quiet: no_reply, ..UserMessage::prompt(parts, &by) };
    let message = message.with_id(options.message_id).map_err(|why| refused(why.into(), true))?;
    match client
        .prompt_with(setup.prompt_config(), message, joins)
        .await
        .map_err(RpcError::from_error)?
    {
        Answered::Accepted => Ok(json!({})),
        Answered::Repeated { seq } => Ok(json!({ "repeated": true, "seq": seq })),
        Answered::NotOpen | Answered::Already { .. } | Answered::Refused { .. } => Err(ended()),
    }
}

/// Refuses options that are too large, and those for a turn with a message that starts none.
fn check(options: &PromptOptions, no_reply: bool) -> Result<(), RpcError> {
    let bytes: usize = options.tools.keys().map(String::len).sum();
    if options.tools.len() > RULES || bytes > RULE_BYTES {
        let most = format!("at most {RULES} names of together {} KiB", RULE_BYTES >> 10);
        return Err(RpcError::params(format!("`tools`: {most} are taken")));
    }
    if options.message_id.as_ref().is_some_and(|id| id.trim().is_empty()) {
        return Err(RpcError::params("`message_id`: the id is empty"));
    }
    if no_reply && options.changes_turn() {
        return Err(RpcError::params("`no_reply`: a message that starts no turn takes no options"));
    }
    Ok(())
}

/// The error of wrong settings, or of wrong options that the client gave.
fn refused(error: anyhow::Error, has_options: bool) -> RpcError {
    match error.downcast_ref() {
        Some(Usage(why)) if has_options => RpcError::params(format!("params: {why}")),
        Some(Usage(_)) | None => RpcError::from_error(error),
    }
}

/// Not accepted: nothing to summarize, or a summary is already being written.
async fn compact(peer: &Peer, asked: CompactParams) -> Result<Value, RpcError> {
    let CompactParams { session, instructions, by } = asked;
    peer.must_be_open(session)?;
    let sessions = &peer.context.sessions;
    let client = peer.open(session).await?;
    let config = sessions
        .setup(session, &PromptOptions::default())
        .await
        .map_err(RpcError::from_error)?
        .prompt_config();
    let (by, joins) = (peer.by(by.as_deref()), sessions.only_joins());
    let asked = client
        .compact(config, &by, instructions.as_deref(), joins)
        .await
        .map_err(RpcError::from_error)?;
    let accepted = asked == Answered::Accepted;
    if !accepted && joins && client.view().await.map_err(RpcError::internal)?.turn.is_none() {
        return Err(releasing(session));
    }
    Ok(json!({ "accepted": accepted }))
}

/// Sets the choices for prompts from now on and the session's own rules, and archives it. Not accepted: nothing has
/// changed.
async fn configure(peer: &Peer, asked: ConfigureParams) -> Result<Value, RpcError> {
    let ConfigureParams { session, choices, rules, archived, by } = asked;
    if choices.is_none() && rules.is_none() && archived.is_none() {
        return Err(RpcError::params("params: give `choices`, `rules` or `archived`"));
    }
    if let Some(rules) = &rules {
        check_rules(rules)?;
    }
    let client = peer.open(session).await?;
    let is_new = client.view().await.map_err(RpcError::internal)?.origin.is_none();
    if is_new && (choices.is_some() || archived.is_some()) {
        return Err(RpcError::params(format!("session {session} has no log yet: prompt it first")));
    }
    let by = peer.by(by.as_deref());
    let mut accepted = false;
    if let Some(archived) = archived {
        // the message of another node counts as done with the last change
        let settles = peer.message.filter(|_| choices.is_none() && rules.is_none());
        let client = client.clone().settling(settles);
        let archived = archived.map(Time::from_millis);
        accepted |= client.archive(archived, &by).await.map_err(RpcError::from_error)?;
    }
    if let Some(rules) = rules {
        let settles = peer.message.filter(|_| choices.is_none());
        let client = client.clone().settling(settles);
        accepted |= client.set_rules(rules, &by).await.map_err(RpcError::from_error)?;
    }
    if let Some(choices) = choices {
        accepted |= client.configure(choices, &by).await.map_err(RpcError::from_error)?;
    }
    Ok(json!({ "accepted": accepted }))
}

/// A list of rules from a client.
///
/// # Errors
/// It is no such list, or it is too long.
pub fn rules(given: &Value) -> Result<Vec<Rule>, RpcError> {
    let rules: Vec<Rule> = wire::params(given.clone())?;
    check_rules(&rules)?;
    Ok(rules)
}

/// Refuses a list of rules that would make each verdict slow.
///
/// # Errors
/// It is too long.
pub fn check_rules(rules: &[Rule]) -> Result<(), RpcError> {
    let bytes: usize = rules.iter().map(|rule| rule.permission.len() + rule.pattern.len()).sum();
    if rules.len() > RULES || bytes > RULE_BYTES {
        let most = format!("at most {RULES} rules of together {} KiB", RULE_BYTES >> 10);
        return Err(RpcError::params(format!("`rules`: {most} are taken")));
    }
    Ok(())
}

/// If refused, says what to do instead.
async fn revert(
    peer: &Peer,
    session: SessionId,
    back: Option<Seq>,
    by: Option<String>,
) -> Result<Value, RpcError> {
    peer.must_be_open(session)?;
    let client = peer.open(session).await?;
    let setup = peer
        .context
        .sessions
        .setup(session, &PromptOptions::default())
        .await
        .map_err(RpcError::from_error)?;
    let by = peer.by(by.as_deref());
    let refused =
        client.revert(setup.prompt_config(), back, &by).await.map_err(RpcError::from_error)?.err();
    Ok(json!({ "accepted": refused.is_none(), "refused": refused }))
}

async fn cancel(peer: &Peer, asked: SessionParams) -> Result<Value, RpcError> {
    let SessionParams { session, by } = asked;
    let by = peer.by(by.as_deref());
    peer.open(session).await?.interrupt(&by).await.map_err(RpcError::from_error)?;
    Ok(json!({}))
}

async fn answer(peer: &Peer, asked: AnswerParams) -> Result<Value, RpcError> {
    let AnswerParams { session, of, call, reply, feedback, always, by } = asked;
    let which = match (of, call) {
        (Some(of), None) => Which::Of(of),
        (None, Some(call)) => Which::Call(call),
        (None, None) | (Some(_), Some(_)) => {
            return Err(RpcError::params("params: name the question by either `of` or `call`"));
        }
    };
    let client = peer.open(session).await?;
    if let Some((session, of)) = descendants::question(&client, &which).await? {
        let by = peer.by(by.as_deref());
        let reply = QuestionReply { answer: reply, feedback, always, by };
        // Subscribed before the answer is given, so that its outcome is not missed.
        let subscription = Subscription::open(&client.for_session(session), of)
            .await
            .map_err(RpcError::internal)?;
        let by = match client.answer((session, of), reply).await.map_err(RpcError::internal)? {
            Answered::Accepted => return durable(subscription, (session, of)).await,
            Answered::Already { by } => Some(by),
            Answered::NotOpen | Answered::Repeated { .. } => None,
            Answered::Refused { why } => {
                let refused =
                    json!({ "accepted": false, "session": session, "of": of, "refused": why });
                return Ok(refused);
            }
        };
        if by.is_some() {
            return Ok(json!({ "accepted": false, "session": session, "of": of, "by": by }));
        }
    }
    closed(&client, which).await
}

/// The name of the party that answered a closed question of the client's session. `None` if nobody answered it, or if
/// the name is unknown.
pub async fn answered_by(client: &Client, of: Seq) -> Option<String> {
    closed(client, Which::Of(of)).await.ok()?["by"].as_str().map(str::to_owned)
}

/// The outcome of a question that is not open, in the session or a descendant.
async fn closed(client: &Client, which: Which) -> Result<Value, RpcError> {
    let sessions = match which {
        Which::Of(_) => vec![client.session],
        Which::Call(_) => descendants::subtree(client).await,
    };
    for session in sessions {
        // The event that closed the question may not be durable yet.
        if let Ok(state) = client.for_session(session).view().await {
            let subscription =
                Subscription::open(&client.for_session(session), state.seq.max(1)).await;
            subscription.map_err(RpcError::internal)?.next().await;
        }
        let store = client.reading().await.map_err(RpcError::internal)?;
        let which = which.clone();
        let search = blocking(move || search(&store, session, which)).await?;
        if let Some((of, by)) = search.found {
            return Ok(json!({ "accepted": false, "session": session, "of": of, "by": by }));
        }
    }
    Ok(json!({ "accepted": false, "session": null, "of": null, "by": null }))
}

/// Waits until an accepted answer is in the log, or its question was closed first.
async fn durable(
    mut subscription: Subscription,
    (session, of): QuestionId,
) -> Result<Value, RpcError> {
    while let Some(observation) = subscription.next().await {
        let accepted = observation.events.iter().find_map(|event| counts(event, of));
        if let Some(accepted) = accepted {
            let result = json!({ "accepted": accepted, "session": session, "of": of, "by": null });
            return Ok(result);
        }
        // The hub may have ended with the node.
        let _ = observation.done.send(());
    }
    Err(RpcError::internal("the node has died"))
}

/// Whether `event` is the answer to the question (true), or closes it without one (false).
fn counts(event: &Envelope, of: Seq) -> Option<bool> {
    let ours = event.of == Some(of);
    if let Event::Permission(Permission::Answered { .. } | Permission::AnsweredFor { .. }) =
        &event.event
    {
        return ours.then_some(true);
    }
    let over = ours
        && matches!(
            &event.event,
            Event::Session(Session::DeadlinePassed {})
                | Event::Permission(Permission::RejectedWith { .. })
        );
    (over || matches!(&event.event, Event::Turn(Turn::Ended(_)))).then_some(false)
}

/// Searches the log for a question.
fn search(store: &LiveReader, session: SessionId, which: Which) -> Result<Search, RpcError> {
    let (mut from, mut search) = (1, Search::new(which));
    loop {
        let events = store.read(session, from, CHUNK).map_err(RpcError::internal)?;
        let Some(last) = events.last() else { return Ok(search) };
        from = last.seq + 1;
        events.iter().for_each(|event| search.take(event));
    }
}
