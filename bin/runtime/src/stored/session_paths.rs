//! Finds the folders of sessions and of the user, and the session that a user's argument names.

use std::fs::DirEntry;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use anyhow::{Context, bail};
use leftfold_config::{Settings, SkillFolder};
use leftfold_events::{SessionId, Time};
use leftfold_store::Head;
use leftfold_tools::{UserFolders, skills};

use crate::{Usage, client_ids};

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
    let data = data_dir().ok();
    UserFolders { skills: folders.collect(), data, ..UserFolders::of_environment() }
}

/// The store that this process was told to use for all sessions.
static CHOSEN: OnceLock<PathBuf> = OnceLock::new();

/// From now on this process knows only the sessions in `store`, and keeps new ones there. Only the first call
/// counts.
pub fn choose_store(store: PathBuf) {
    if CHOSEN.set(store).is_err() {
        tracing::warn!("the store was chosen before");
    }
}

/// The store that was chosen for all sessions.
pub fn chosen_store() -> Option<&'static Path> {
    CHOSEN.get().map(PathBuf::as_path)
}

/// Whether a database keeps the logs of a store.
pub fn is_in_database(store: &Path) -> bool {
    leftfold_store::database_of(store).is_ok_and(|database| database.is_some())
}

/// The folder of the stores that databases keep.
pub fn databases_folder() -> anyhow::Result<PathBuf> {
    Ok(data_dir()?.join("databases"))
}

/// The folder for the store that the database with this address keeps.
pub fn database_folder(address: &str) -> anyhow::Result<PathBuf> {
    let hash = leftfold_events::Sha256::digest(address.as_bytes()).to_string();
    Ok(databases_folder()?.join(&hash[..16]))
}

/// The store in which long-lived nodes keep all sessions. Sessions of `leftfold run` and of the
/// terminal have stores of their own, `sessions/ID`, unless a store was chosen for all.
pub fn shared_store() -> anyhow::Result<PathBuf> {
    match chosen_store() {
        Some(store) => Ok(store.to_owned()),
        None => Ok(data_dir()?.join("store")),
    }
}

/// The place for a new session: a store of its own, unless one was chosen for all.
pub fn new_place(session: SessionId) -> anyhow::Result<SessionPlace> {
    let store = match chosen_store() {
        Some(store) => store.to_owned(),
        None => data_dir()?.join("sessions").join(session.to_string()),
    };
    Ok(SessionPlace { store, session })
}

/// The session that an id, a unique prefix of one, `last`, or a folder names, for a command that only reads it. `last` is
/// the newest session of all where the project has none, and a note says so.
pub fn find_to_read(text: &str, worktree: &Path) -> anyhow::Result<SessionPlace> {
    if text == "last"
        && last(worktree)?.is_none()
        && let Some(place) = newest(None)?
    {
        let (project, session) = (worktree.display(), place.session);
        crate::note(&format!(
            "leftfold: the project {project} has no sessions yet: `last` is {session}, the newest one of all projects"
        ));
        return Ok(place);
    }
    find(text, worktree)
}

/// The session that an id, a unique prefix of one, `last`, or a folder names. `last` is one of this project.
pub fn find(text: &str, worktree: &Path) -> anyhow::Result<SessionPlace> {
    if text == "last" {
        return last(worktree)?.ok_or_else(|| {
            let project = worktree.display();
            Usage(format!(
                "the project {project} has no sessions yet; those of other projects go by their ids, which \
                 `leftfold sessions` lists"
            ))
            .into()
        });
    }
    if text.contains('/') || leftfold_store::exists(Path::new(text)) {
        return in_folder(Path::new(text));
    }
    let wanted = client_ids::session(text)
        .map_or_else(|| text.to_ascii_uppercase(), |session| session.to_string());
    let mut found: Vec<SessionPlace> = Vec::new();
    let folders = folders()?;
    for store in &folders {
        let root = name(store);
        let heads = leftfold_store::heads(store)?.into_iter().map(|head| head.session);
        let mut ids: Vec<SessionId> = heads.chain(root).collect();
        ids.sort_unstable();
        ids.dedup();
        ids.retain(|id| id.to_string().starts_with(&wanted));
        found.extend(ids.into_iter().map(|session| SessionPlace { store: store.clone(), session }));
    }
    if let (true, Ok(session)) = (found.is_empty(), wanted.parse()) {
        found.extend(without_head(folders, session));
    }
    match found.as_slice() {
        [place] => Ok(place.clone()),
        [] => bail!(Usage(format!(
            "there is no session `{text}` in {}: give an id, a unique prefix of one, `last`, or a folder",
            place_of_all()?
        ))),
        several => bail!(Usage(format!(
            "`{text}` is a prefix of {} ids: {}",
            several.len(),
            several.iter().take(5).map(|p| p.session.to_string()).collect::<Vec<_>>().join(", ")
        ))),
    }
}

/// Where all sessions are, for people.
fn place_of_all() -> anyhow::Result<String> {
    let folder = match chosen_store() {
        Some(store) => match leftfold_store::database_of(store)? {
            Some(address) => return Ok(address),
            None => store.to_owned(),
        },
        None => data_dir()?.join("sessions"),
    };
    Ok(folder.display().to_string())
}

/// A fork or subagent whose node was killed after its first events were durable and before its head
/// was written. Only the database has it.
fn without_head(stores: Vec<PathBuf>, session: SessionId) -> Option<SessionPlace> {
    let store = stores.into_iter().find(|store| {
        leftfold_store::Reader::open(store)
            .and_then(|it| it.sessions())
            .is_ok_and(|sessions| sessions.contains(&session))
    })?;
    Some(SessionPlace { store, session })
}

/// The project's root session with the newest event.
pub fn last(worktree: &Path) -> anyhow::Result<Option<SessionPlace>> {
    newest(Some(worktree))
}

/// The root session with the newest event, of this project or of all.
fn newest(worktree: Option<&Path>) -> anyhow::Result<Option<SessionPlace>> {
    let mut newest: Option<(Time, SessionPlace)> = None;
    for store in stores()? {
        let heads = leftfold_store::heads(&store)?;
        let mut roots: Vec<(SessionId, Time, Option<&Head>)> = Vec::new();
        roots.extend(heads.iter().filter(|head| is_root(&store, head)).map(|head| {
            let at = head.at;
            (head.session, at, Some(head))
        }));
        // A session without a readable head is not skipped, so that the user learns of the damage.
        if let (true, Some(session), Some(at)) =
            (roots.is_empty(), name(&store), leftfold_store::written(&store))
        {
            roots.push((session, Time::from(at), None));
        }
        for (session, at, head) in roots {
            let newer = newest.as_ref().is_none_or(|(known, _)| *known < at);
            let is_wanted = |worktree: &Path| belongs(session, head, &store, worktree).is_here();
            if newer && worktree.is_none_or(is_wanted) {
                newest = Some((at, SessionPlace { store: store.clone(), session }));
            }
        }
    }
    Ok(newest.map(|(_, place)| place))
}

/// The heads in a store; none, with a warning, while its database is away. For what looks again later.
pub fn heads_now(store: &Path) -> Vec<Head> {
    leftfold_store::heads(store).unwrap_or_else(|error| {
        tracing::warn!("the sessions of {} cannot be listed: {error}", store.display());
        Vec::new()
    })
}

/// The folders of all stores in the data folder: one for each session of its own, and the shared
/// one.
pub fn stores() -> anyhow::Result<Vec<PathBuf>> {
    let mut stores = folders()?;
    stores.retain(|store| name(store).is_some() || is_shared(store));
    stores.sort_unstable();
    Ok(stores)
}

/// The head of every root session and of every fork, with the folder of its store.
pub fn listed() -> anyhow::Result<Vec<(PathBuf, Head)>> {
    let mut listed = Vec::new();
    for store in stores()? {
        let mut heads = leftfold_store::heads(&store)?;
        heads.retain(|head| is_root(&store, head) || is_fork(head));
        listed.extend(heads.into_iter().map(|head| (store.clone(), head)));
    }
    Ok(listed)
}

/// The head of every root session, with the folder of its store.
pub fn roots() -> anyhow::Result<Vec<(PathBuf, Head)>> {
    let mut listed = listed()?;
    listed.retain(|(store, head)| is_root(store, head));
    Ok(listed)
}

/// Whether a session is the one that its store is named after or, in a store of many, neither a
/// subagent nor a fork.
pub fn is_root(store: &Path, head: &Head) -> bool {
    match (name(store), &head.summary) {
        (Some(root), _) => head.session == root,
        (None, Some(summary)) => summary.parent.is_none() && summary.fork_of.is_none(),
        (None, None) => true,
    }
}

/// Whether a session is a fork, and not the subagent of one.
pub fn is_fork(head: &Head) -> bool {
    let summary = head.summary.as_ref();
    summary.is_some_and(|summary| summary.fork_of.is_some() && summary.parent.is_none())
}

/// Whether a session belongs to a project.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Belongs {
    Here,
    Elsewhere,
    /// Nothing says so, as in a store that is just being made.
    Silent,
    /// The store or the log cannot be read.
    Unreadable,
}

impl Belongs {
    /// Whether it counts as belonging, if nothing more comes. What cannot be read is not hidden.
    pub fn is_here(self) -> bool {
        matches!(self, Self::Here | Self::Unreadable)
    }
}

/// Whether a session belongs to the project with this worktree, by its head or else by its log.
pub fn belongs(session: SessionId, head: Option<&Head>, store: &Path, worktree: &Path) -> Belongs {
    let of = |text: &str| match Path::new(text) == worktree {
        true => Belongs::Here,
        false => Belongs::Elsewhere,
    };
    if let Some(summary) = head.and_then(|head| head.summary.as_ref()) {
        return of(&summary.worktree);
    }
    let Ok(reader) = leftfold_store::Reader::open(store) else { return Belongs::Unreadable };
    let (events, damage) = reader.read_good(session);
    match leftfold_events::fold(&events).origin {
        Some(origin) => of(&origin.worktree),
        None if damage.is_some() => Belongs::Unreadable,
        None => Belongs::Silent,
    }
}

fn in_folder(folder: &Path) -> anyhow::Result<SessionPlace> {
    let store = folder
        .canonicalize()
        .with_context(|| format!("cannot open {}", folder.display()))
        .map_err(|error| Usage(format!("{error:#}")))?;
    let session = match name(&store) {
        Some(id) => id,
        None if is_shared(&store) => {
            let what = "holds many sessions: give the id of one";
            return Err(Usage(format!("{} {what}", store.display())).into());
        }
        // A renamed folder: its root session is the first one.
        None => leftfold_store::Reader::open(&store)?
            .sessions()?
            .first()
            .copied()
            .ok_or_else(|| Usage(format!("{} holds no session", store.display())))?,
    };
    Ok(SessionPlace { store, session })
}

/// The root session of a store of its own, which its folder is named after.
pub fn name(store: &Path) -> Option<SessionId> {
    store.file_name()?.to_str()?.parse().ok()
}

/// Whether a store is the shared one.
pub fn is_shared(store: &Path) -> bool {
    shared_store().is_ok_and(|shared| store == shared)
}

/// Every folder that may be a store: those of single sessions, renamed ones included, and the shared
/// store once it exists.
fn folders() -> anyhow::Result<Vec<PathBuf>> {
    if let Some(store) = chosen_store() {
        return Ok(vec![store.to_owned()]);
    }
    let entries = std::fs::read_dir(data_dir()?.join("sessions")).into_iter().flatten();
    // the kind is known without a look at the folder, unless it is a link
    let is_folder = |entry: &DirEntry| match entry.file_type() {
        Ok(kind) if !kind.is_symlink() => kind.is_dir(),
        Ok(_) | Err(_) => entry.path().is_dir(),
    };
    let entries = entries.flatten().filter(is_folder);
    let shared = Some(shared_store()?).filter(|shared| shared.is_dir());
    Ok(entries.map(|entry| entry.path()).chain(shared).collect())
}
