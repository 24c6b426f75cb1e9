//! Lists sessions from their heads alone, and removes sessions.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};

use anyhow::bail;
use leftfold_events::event::EndReason;
use leftfold_events::{Envelope, SessionId, Time};
use leftfold_store::{Head, Summary, Tidied};

use serde_json::json;

use crate::history::History;
use crate::remote::{RpcError, client};
use crate::session_paths::{self, SessionPlace};

/// The node's method that removes a session of its store.
pub(crate) const REMOVE: &str = "_leftfold/remove";

/// Characters of a title in a list.
const TITLE: usize = 60;

/// Removes a session with everything that only it uses, by the store's node if there is one. Answers
/// the removed files that nothing refers to any more.
///
/// # Errors
/// It has forks, belongs to another session, or a node has it open.
pub fn remove(place: &SessionPlace) -> anyhow::Result<Tidied> {
    let heads = leftfold_store::heads(&place.store)?;
    let mut tree = removable(&heads, place.session)?;
    if is_alone(place, &heads) {
        leftfold_store::remove(&place.store)?;
        return Ok(Tidied::default());
    }
    tree.extend(children_without_head(place, &tree)?);
    match leftfold_store::forget(&place.store, &tree) {
        Ok(()) => Ok(tidy(&place.store, false)),
        Err(locked @ leftfold_store::Error::Locked { .. }) => {
            ask(place, locked)?;
            Ok(Tidied::default())
        }
        Err(error) => Err(error.into()),
    }
}

/// Lets the node of the store remove the session.
fn ask(place: &SessionPlace, locked: leftfold_store::Error) -> anyhow::Result<()> {
    let Ok(mut node) = client::connect(&place.store) else { return Err(locked.into()) };
    match node.call(REMOVE, &json!({ "session": place.session })) {
        Ok(_) => Ok(()),
        // A node of one session is about to release the store.
        Err(error) if error.downcast_ref().is_some_and(RpcError::is_leaving) => Err(locked.into()),
        Err(error) => Err(error),
    }
}

/// A session and its descendants, which are removed together.
///
/// # Errors
/// Forks share its events, or it belongs to another session.
pub(crate) fn removable(heads: &[Head], session: SessionId) -> anyhow::Result<Vec<SessionId>> {
    let fork_of = |head: &Head| head.summary.as_ref().and_then(|summary| summary.fork_of);
    let own = heads.iter().find(|head| head.session == session);
    let tree = descendants(heads, session);
    // A session that belongs to another one is removed with that one.
    let shares =
        |head: &&Head| parent(head).is_none() && fork_of(head).is_some_and(|of| tree.contains(&of));
    let forks = heads.iter().filter(shares).map(|head| head.session.to_string());
    let forks: Vec<String> = forks.collect();
    if !forks.is_empty() {
        bail!(
            "session {session} shares its events, or its children's, with forks, which have to go first: {}",
            forks.join(", ")
        );
    }
    if let Some(parent) = own.and_then(parent) {
        bail!("session {session} is a child of {parent}, and is removed with it");
    }
    Ok(tree.into_iter().collect())
}

/// Whether a store is of this session alone, and so is removed with it.
fn is_alone(place: &SessionPlace, heads: &[Head]) -> bool {
    let is_root = |head: &Head| session_paths::is_root(&place.store, head);
    match session_paths::name(&place.store) {
        Some(root) => root == place.session,
        None => {
            let is_own = |head: &Head| head.session == place.session || !is_root(head);
            !session_paths::is_shared(&place.store) && heads.iter().all(is_own)
        }
    }
}

/// Children that were spawned, and whose heads a crash has prevented.
fn children_without_head(
    place: &SessionPlace,
    tree: &[SessionId],
) -> anyhow::Result<Vec<SessionId>> {
    let (history, _) = History::good(place)?;
    let mut own = tree.to_vec();
    // Parents come before children.
    for (session, events) in history.sessions() {
        let of_own = |event: &&Envelope| own.contains(&session) && event.session == session;
        let children = events.iter().filter(of_own).filter_map(Envelope::spawned);
        let children: Vec<_> = children.filter(|child| !own.contains(child)).collect();
        own.extend(children);
    }
    Ok(own.split_off(tree.len()))
}

/// Removes files that no session of a store refers to. It removes nothing if a session of the store
/// runs or a log is damaged, since then the references are not known; standard error gets the
/// reason.
pub fn tidy(store: &Path, dry: bool) -> Tidied {
    leftfold_store::tidy(store, dry).unwrap_or_else(|error| {
        crate::note(&format!("leftfold: no unused files are removed: {error}"));
        Tidied::default()
    })
}

/// The costs of the sessions of a list. The heads of a store are read once.
#[derive(Debug, Default)]
pub struct Costs(HashMap<PathBuf, Vec<Head>>);

impl Costs {
    /// The cost of the session and of its children.
    pub fn for_session(&mut self, store: &Path, head: &Head) -> f64 {
        let read = || session_paths::heads_now(store);
        cost(self.0.entry(store.to_owned()).or_insert_with(read), head)
    }
}

/// The cost of the session and of its children, which `heads` has; forks are counted separately.
pub fn cost(heads: &[Head], head: &Head) -> f64 {
    let tree = descendants(heads, head.session);
    let members = heads.iter().filter(|head| tree.contains(&head.session));
    members.filter_map(|head| Some(head.summary.as_ref()?.cost)).sum()
}

fn parent(head: &Head) -> Option<SessionId> {
    head.summary.as_ref().and_then(|summary| summary.parent)
}

/// A session and its descendants.
fn descendants(heads: &[Head], root: SessionId) -> HashSet<SessionId> {
    let mut children: HashMap<SessionId, Vec<SessionId>> = HashMap::new();
    for (parent, head) in heads.iter().filter_map(|head| Some((parent(head)?, head))) {
        children.entry(parent).or_default().push(head.session);
    }
    let (mut tree, mut next) = (HashSet::new(), vec![root]);
    while let Some(session) = next.pop() {
        if tree.insert(session) {
            next.extend(children.remove(&session).unwrap_or_default());
        }
    }
    tree
}

/// The session's title, or the beginning of its first prompt. A fork without a title of its own has its
/// number after it.
pub fn title(head: &Head) -> String {
    let Some(Summary { title, prompt, fork_number, is_retitled, .. }) = &head.summary else {
        return "?".to_owned();
    };
    let title = first_line(title.as_deref().or(prompt.as_deref()).unwrap_or_default());
    if *is_retitled { title } else { numbered(title, *fork_number) }
}

/// The title of a fork with its number; 0: it is no fork. A fork of a fork counts on: its title has one number.
pub fn numbered(title: String, fork_number: u32) -> String {
    if fork_number == 0 {
        return title;
    }
    let counted = title.strip_suffix(')').and_then(|title| {
        let (title, number) = title.rsplit_once(" (fork #")?;
        Some((title, number.parse().ok()?))
    });
    let (title, before): (&str, u32) = counted.unwrap_or((&title, 0));
    format!("{title} (fork #{})", before.saturating_add(fork_number)).trim_start().to_owned()
}

/// The first line of a text that says something, cut to a title's length.
pub fn first_line(text: &str) -> String {
    let line = text.lines().find(|line| !line.trim().is_empty()).unwrap_or_default().trim();
    match line.char_indices().nth(TITLE) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line.to_owned(),
    }
}

/// The session's state in one word.
pub fn state(store: &Path, head: &Head) -> &'static str {
    match head.summary.as_ref().and_then(|summary| summary.ended) {
        Some(EndReason::Completed) => "completed",
        Some(EndReason::Blocked) => "blocked",
        Some(EndReason::Error) => "error",
        Some(EndReason::Aborted) => "aborted",
        Some(EndReason::MaxSteps) => "max_steps",
        Some(EndReason::Limit) => "limit",
        Some(EndReason::Incomplete) => "incomplete",
        Some(EndReason::InvalidOutput) => "invalid_output",
        None if is_running(store, head) => "running",
        None => "interrupted",
    }
}

/// Whether a process runs the open turn of a session.
pub fn is_running(store: &Path, head: &Head) -> bool {
    let is_open = head.summary.as_ref().is_none_or(|summary| summary.ended.is_none());
    let is_owned = || {
        leftfold_store::owner(store, head.session)
            .is_ok_and(|owner| owner.is_some_and(|owner| owner.node.is_some()))
    };
    let is_ours = || leftfold_store::in_use(store) && !is_before_node(store, head);
    is_open && if session_paths::is_in_database(store) { is_owned() } else { is_ours() }
}

/// Whether a session's last event is older than the node that has its store. Then the node has not gone on with
/// the session's open turn: it runs nothing because it has opened a store.
fn is_before_node(store: &Path, head: &Head) -> bool {
    let socket = store.join(session_paths::SOCKET).symlink_metadata();
    socket.and_then(|made| made.modified()).is_ok_and(|made| head.at < Time::from(made))
}
