//! Texts of a project that calls have changed: the question whether to obey them, as every front end asks it, and the
//! end of a turn, after which the changed ones are held.
//!
//! `leftfold_files::texts` decides which texts are in force, and stores the answers.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use leftfold_actors::Recorded;
use leftfold_events::event::{Answer, Class, Event, Permission, Tool, Turn};
use leftfold_events::rules::PROTECTED_FILE;
use leftfold_events::{Envelope, Seq, SessionId, Sha256};
use leftfold_files::texts::{HeldText, Texts};
use leftfold_tools::FilePreview;
use leftfold_view::clean::visible_line;

use crate::gather::{self, TurnSettings};
use crate::{only_people, redact_output, session_paths};

/// The words of the prompts to each session whose turn has not ended.
static ASKED_FOR: LazyLock<Mutex<HashMap<SessionId, Vec<String>>>> = LazyLock::new(Mutex::default);

/// The most words of a turn's prompts that may name files.
const MAX_WORDS: usize = 100_000;

/// The files that one line names, at most.
const MAX_NAMED: usize = 10;

/// The texts of the project around `directory` that are not in force, because nobody has seen what calls have made of
/// them.
///
/// # Errors
/// The record of the texts cannot be read or written.
pub fn held(directory: &Path) -> anyhow::Result<Vec<HeldText>> {
    Ok(texts(directory)?.held()?)
}

/// Stores whether a person obeys these texts.
///
/// # Errors
/// The answer cannot be stored, or a call started this process.
pub fn answer(directory: &Path, texts_seen: &[HeldText], is_accepted: bool) -> anyhow::Result<()> {
    only_people::require("leftfold trust")?;
    Ok(texts(directory)?.answer(texts_seen, is_accepted)?)
}

fn of_worktree(worktree: &Path) -> anyhow::Result<Texts> {
    Ok(Texts::load(Some(&session_paths::data_dir()?), worktree).without(&redact_output::known()))
}

fn texts(directory: &Path) -> anyhow::Result<Texts> {
    let worktree = leftfold_config::worktree_of(directory);
    of_worktree(&worktree)
}

/// The question that people are asked: each difference, and then the files, which long differences do not push off a
/// screen.
pub fn question(held: &[HeldText]) -> String {
    let mut question = String::new();
    let mut files = String::new();
    for HeldText { path, before, now, .. } in held {
        let name = visible_line(path);
        let Some(now) = now else {
            let _ = writeln!(files, "{name}: it cannot be read any more");
            continue;
        };
        let change = FilePreview::of_texts(path, Path::new(path), before.as_deref(), now);
        for line in change.diff.lines() {
            let _ = writeln!(question, "{}", visible_line(line));
        }
        let made = if before.is_none() { "new, " } else { "" };
        let cut = if change.cut { "; the rest of this difference is not shown" } else { "" };
        let FilePreview { additions, deletions, .. } = change;
        let _ = writeln!(files, "{name}: {made}{additions} lines added, {deletions} removed{cut}");
    }
    format!(
        "{question}\nCalls of the agent have changed texts that it obeys, and nobody has seen this:\n{files}\
         Without your yes, the texts from before stay in force.",
    )
}

/// Remembers the files that are texts because settings name them. Problems are for people.
pub(crate) fn name(turn_settings: &TurnSettings) {
    let texts = turn_settings.sources.user_folders.texts(&turn_settings.worktree);
    let mut texts = texts.without(&redact_output::known());
    if let Err(error) = texts.name(&gather::named(turn_settings)) {
        crate::note(&format!("leftfold: {error}"));
    }
}

/// A person's prompt to a session. Files that it names are theirs.
pub(crate) fn asked_for(session: SessionId, prompt: &str) {
    let mut asked = ASKED_FOR.lock().unwrap_or_else(PoisonError::into_inner);
    let words = asked.entry(session).or_default();
    let is_end = |c: char| c.is_whitespace() || ",;:!?*()[]{}<>\"'`".contains(c);
    let new = prompt.split(is_end).map(|word| word.trim_start_matches('@').trim_end_matches('.'));
    let room = MAX_WORDS.saturating_sub(words.len());
    words.extend(new.filter(|word| word.contains('.')).map(str::to_owned).take(room));
}

/// Watches a session and its children for the end of each turn, and for what a person has allowed in it.
pub(crate) struct TextWatch {
    turn_settings: Arc<TurnSettings>,
    root: SessionId,
    /// Turns that ended before this event are over.
    head: Seq,
    /// Those with calls that may change files.
    sessions: BTreeSet<String>,
    /// The calls that questions about protected files are about.
    asked: HashMap<(SessionId, Seq), Seq>,
    /// Calls that have started.
    started: HashSet<(SessionId, Seq)>,
    /// Calls that a person has allowed after such a question, and their starts.
    allowed: HashSet<(SessionId, Seq)>,
    /// The hashes of texts that such calls have written.
    written: BTreeMap<PathBuf, String>,
    /// Whether each call of the turn that has started has ended by itself.
    is_clean: bool,
}

impl TextWatch {
    pub(crate) fn new(turn_settings: Arc<TurnSettings>, root: SessionId, head: Seq) -> Self {
        Self {
            turn_settings,
            root,
            head,
            sessions: BTreeSet::new(),
            asked: HashMap::new(),
            started: HashSet::new(),
            allowed: HashSet::new(),
            written: BTreeMap::new(),
            is_clean: true,
        }
    }

    pub(crate) async fn take(&mut self, events: &[Recorded]) {
        for event in events {
            self.learn(event);
            let is_end = matches!(event.event, Event::Turn(Turn::Ended(_)));
            if is_end && event.session == self.root {
                let root = self.root;
                let words = ASKED_FOR.lock().unwrap_or_else(PoisonError::into_inner).remove(&root);
                let new = Self::new(Arc::clone(&self.turn_settings), root, self.head);
                let turn = std::mem::replace(self, new);
                if event.seq > self.head {
                    let end = move || turn.end(&words.unwrap_or_default());
                    let ended = tokio::task::spawn_blocking(end).await;
                    if let Err(error) = ended.map_err(anyhow::Error::from).flatten() {
                        crate::note(&format!("leftfold: {error:#}"));
                    }
                }
            }
        }
    }

    fn learn(&mut self, event: &Envelope) {
        let session = event.session;
        let Some(of) = event.of else { return };
        if let Event::Permission(Permission::Asked { permission, .. }) = &event.event
            && permission == PROTECTED_FILE
        {
            self.asked.insert((session, event.seq), of);
        }
        if let Event::Permission(
            Permission::Answered { reply, .. } | Permission::AnsweredFor { reply, .. },
        ) = &event.event
            && *reply != Answer::Reject
        {
            let call = self.asked.remove(&(session, of));
            self.allowed.extend(call.map(|call| (session, call)));
        }
        let Event::Tool(tool) = &event.event else { return };
        if let Some(started) = tool.started() {
            if matches!(started.class, Class::Write | Class::Command) {
                self.sessions.insert(session.to_string());
            }
            self.started.insert((session, of));
            if self.allowed.contains(&(session, of)) {
                self.allowed.insert((session, event.seq));
            }
        }
        if matches!(tool, Tool::Lost { .. } | Tool::Cancelled { .. }) {
            self.is_clean &= !self.started.contains(&(session, of));
        }
        if let Tool::Finished(finished) = tool
            && self.allowed.contains(&(session, of))
        {
            let metadata = finished.metadata.value();
            let written = metadata["written"].as_object().into_iter().flatten();
            let written = written
                .filter_map(|(path, hash)| Some((PathBuf::from(path), hash.as_str()?.to_owned())));
            self.written.extend(written);
        }
    }

    fn end(self, words: &[String]) -> anyhow::Result<()> {
        let TurnSettings { directory, worktree, .. } = &*self.turn_settings;
        if self.turn_settings.workplace.is_some() {
            return Ok(());
        }
        let real = |path: &PathBuf| path.canonicalize().unwrap_or_else(|_| path.clone());
        let bases = [real(directory), real(worktree)];
        let is_seen = |path: &Path, text: &str| {
            let is_written = || {
                let hash = Sha256::digest(text.as_bytes()).to_string();
                self.written.get(path) == Some(&hash)
            };
            let is_named = |word: &String| {
                bases.iter().any(|base| base.join(word).components().eq(path.components()))
            };
            words.iter().any(is_named) || is_written()
        };
        let named = match self.sessions.is_empty() {
            true => Vec::new(),
            false => gather::named(&self.turn_settings),
        };
        let held = of_worktree(worktree)?.end(&self.sessions, self.is_clean, &named, is_seen)?;
        if !held.is_empty() {
            let more = held.len().saturating_sub(MAX_NAMED);
            let names = held.iter().take(MAX_NAMED).map(|path| visible_line(path));
            let names: Vec<String> =
                names.chain((more > 0).then(|| format!("{more} more"))).collect();
            crate::note(&format!(
                "leftfold: the agent has changed texts that it obeys; until you have seen that, those from before are in \
                 force: {} (`leftfold trust` shows the difference)",
                names.join(", ")
            ));
        }
        Ok(())
    }
}
