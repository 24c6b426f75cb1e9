//! Finds the folders of sessions and of the user, and the session that a user's argument names.

use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use leftfold_config::{Settings, SkillFolder};
use leftfold_events::{SessionId, Time};
use leftfold_store::Head;
use leftfold_tools::{UserFolders, skills};

use crate::Usage;

/// The socket's name in its store's folder.
pub const SOCKET: &str = "socket";

/// A session and the folder of its store.
#[derive(Clone, Debug)]
pub struct SessionPlace {
    pub store: PathBuf,
    pub session: SessionId,
}

/// `LEFTFOLD_HOME`, or `leftfold` in the user's data folder.
pub fn data_dir() -> anyhow::Result<PathBuf> {
    let var = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let home = var("LEFTFOLD_HOME")
        .or_else(|| var("XDG_DATA_HOME").map(|data| data.join("leftfold")))
        .or_else(|| var("HOME").map(|home| home.join(".local/share/leftfold")));
    let unset = || Usage("neither LEFTFOLD_HOME nor HOME is set: set one of them".into());
    // Absolute, because paths in events must be valid wherever they are read.
    Ok(std::path::absolute(home.ok_or_else(unset)?)?)
}

/// The folders of the user's own skills and instructions, and the skills that settings name.
pub fn user_folders(settings: &Settings) -> UserFolders {
    let folders = settings.skill_folders.iter();
    let folders = folders
        .map(|SkillFolder { path, own }| skills::SkillFolder { path: path.clone(), own: *own });
    UserFolders { skills: folders.collect(), ..UserFolders::of_environment() }
}

/// The place for a new session's store.
pub fn new_place(session: SessionId) -> anyhow::Result<SessionPlace> {
    Ok(SessionPlace { store: data_dir()?.join("sessions").join(session.to_string()), session })
}

/// The session that an id, a unique prefix of one, `last`, or a folder names.
pub fn find(text: &str, worktree: &Path) -> anyhow::Result<SessionPlace> {
    if text == "last" {
        return last(worktree)?.ok_or_else(|| {
            Usage(format!("the project {} has no sessions yet", worktree.display())).into()
        });
    }
    if text.contains('/') || Path::new(text).join("db").is_file() {
        return in_folder(Path::new(text));
    }
    let sessions = data_dir()?.join("sessions");
    let wanted = text.to_ascii_uppercase();
    let mut found: Vec<SessionPlace> = Vec::new();
    for store in folders(&sessions) {
        let root = name(&store);
        let heads = leftfold_store::heads(&store).into_iter().map(|head| head.session);
        let mut ids: Vec<SessionId> = heads.chain(root).collect();
        ids.sort_unstable();
        ids.dedup();
        ids.retain(|id| id.to_string().starts_with(&wanted));
        found.extend(ids.into_iter().map(|session| SessionPlace { store: store.clone(), session }));
    }
    if let (true, Ok(session)) = (found.is_empty(), wanted.parse()) {
        found.extend(without_head(&sessions, session));
    }
    match found.as_slice() {
        [place] => Ok(place.clone()),
        [] => bail!(Usage(format!(
            "there is no session `{text}` in {}: give an id, a unique prefix of one, `last`, or a folder",
            sessions.display()
        ))),
        several => bail!(Usage(format!(
            "`{text}` is a prefix of {} ids: {}",
            several.len(),
            several.iter().take(5).map(|p| p.session.to_string()).collect::<Vec<_>>().join(", ")
        ))),
    }
}

/// A fork or subagent whose node was killed after its first events were durable and before its head
/// was written. Only the database has it.
fn without_head(sessions: &Path, session: SessionId) -> Option<SessionPlace> {
    let mut stores = folders(sessions).into_iter();
    let store = stores.find(|store| {
        leftfold_store::Reader::open(store).is_ok_and(|it| it.sessions().contains(&session))
    })?;
    Some(SessionPlace { store, session })
}

/// The project's root session with the newest event.
pub fn last(worktree: &Path) -> anyhow::Result<Option<SessionPlace>> {
    let mut newest: Option<(Time, SessionPlace)> = None;
    for store in folders(&data_dir()?.join("sessions")) {
        let Some(session) = name(&store) else { continue };
        let head = leftfold_store::heads(&store).into_iter().find(|head| head.session == session);
        // A session without a readable head is not skipped, so that the user learns of the damage.
        let Some(at) = head.as_ref().map(|head| head.at).or_else(|| written(&store)) else {
            continue;
        };
        let newer = newest.as_ref().is_none_or(|(known, _)| *known < at);
        if newer && belongs(session, head.as_ref(), &store, worktree) {
            newest = Some((at, SessionPlace { store, session }));
        }
    }
    Ok(newest.map(|(_, place)| place))
}

/// The time of the last write to the database.
fn written(store: &Path) -> Option<Time> {
    Some(Time::from(std::fs::metadata(store.join("db")).ok()?.modified().ok()?))
}

/// The folders of all stores in the data folder.
pub fn stores() -> anyhow::Result<Vec<PathBuf>> {
    let mut stores = folders(&data_dir()?.join("sessions"));
    stores.retain(|store| name(store).is_some());
    stores.sort_unstable();
    Ok(stores)
}

/// The head of every root session and of every fork, with the folder of its store.
pub fn listed() -> anyhow::Result<Vec<(PathBuf, Head)>> {
    let of = |store: PathBuf| {
        let root = name(&store);
        let is_fork = |head: &Head| {
            let summary = head.summary.as_ref();
            summary.is_some_and(|s| s.fork_of.is_some() && s.parent.is_none())
        };
        let heads = leftfold_store::heads(&store).into_iter();
        let heads = heads.filter(move |head| Some(head.session) == root || is_fork(head));
        heads.map(move |head| (store.clone(), head))
    };
    Ok(stores()?.into_iter().flat_map(of).collect())
}

/// The head of every root session, with the folder of its store.
pub fn roots() -> anyhow::Result<Vec<(PathBuf, Head)>> {
    let mut listed = listed()?;
    listed.retain(|(store, head)| name(store) == Some(head.session));
    Ok(listed)
}

/// Whether a session belongs to this project, by its head or else by its log. If neither can be
/// read, it counts as belonging.
pub fn belongs(session: SessionId, head: Option<&Head>, store: &Path, worktree: &Path) -> bool {
    let here = |text: &str| Path::new(text) == worktree;
    if let Some(summary) = head.and_then(|head| head.summary.as_ref()) {
        return here(&summary.worktree);
    }
    let Ok(reader) = leftfold_store::Reader::open(store) else { return true };
    let (events, damage) = reader.read_good(session);
    match leftfold_events::fold(&events).origin {
        Some(origin) => here(&origin.worktree),
        None => damage.is_some(),
    }
}

fn in_folder(folder: &Path) -> anyhow::Result<SessionPlace> {
    let store = folder
        .canonicalize()
        .with_context(|| format!("cannot open {}", folder.display()))
        .map_err(|error| Usage(format!("{error:#}")))?;
    let session = match name(&store) {
        Some(id) => id,
        // A renamed folder: its root session is the first one.
        None => leftfold_store::Reader::open(&store)?
            .sessions()
            .first()
            .copied()
            .ok_or_else(|| Usage(format!("{} holds no session", store.display())))?,
    };
    Ok(SessionPlace { store, session })
}

/// The root session of a store in the data folder, which its folder is named after.
pub fn name(store: &Path) -> Option<SessionId> {
    store.file_name()?.to_str()?.parse().ok()
}

fn folders(sessions: &Path) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(sessions) else { return Vec::new() };
    entries.filter_map(Result::ok).map(|entry| entry.path()).filter(|path| path.is_dir()).collect()
}
