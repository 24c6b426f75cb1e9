//! Rules that people allowed with "always", remembered for the project in
//! `LEFTFOLD_HOME/projects/HASH/approved.json`, a list of rules. HASH is the hash of the worktree's
//! path.
//!
//! The file is written once the answer is durable. It is read whenever a turn configuration is
//! gathered, which puts the rules into the log, so no replay reads this file.

use std::collections::HashMap;
use std::fs::{self, DirBuilder, File};
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;
use leftfold_actors::{Observation, Recorded};
use leftfold_events::event::{Answer, Event, Permission};
use leftfold_events::rules::{Action, Rule};
use leftfold_events::{Envelope, Seq, Sha256};
use leftfold_process::Origin;
use leftfold_store::Imports;
use ractor::ActorRef;
use tokio::sync::watch;

use crate::session_paths::SessionPlace;
use crate::session_tree::{self, Follow};
use leftfold_view::QuestionId;

/// How long the end of a program waits for a slow disk to store an approval.
const PATIENCE: Duration = Duration::from_secs(2);

/// The project's remembered rules. A file that cannot be read counts as empty, so people are asked
/// again; standard error gets the reason.
pub fn of(worktree: &Path) -> Vec<Rule> {
    let rules = folder(worktree).and_then(|folder| read(&folder.join(FILE)));
    rules.unwrap_or_else(|error| {
        crate::note(&format!("leftfold: {error:#}; remembered approvals are ignored until then"));
        Vec::new()
    })
}

const FILE: &str = "approved.json";

fn folder(worktree: &Path) -> anyhow::Result<PathBuf> {
    let hash = Sha256::of(worktree.as_os_str().as_bytes()).to_string();
    Ok(crate::session_paths::data_dir()?.join("projects").join(hash))
}

fn read(path: &Path) -> anyhow::Result<Vec<Rule>> {
    let bytes = match fs::read(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        read => read.with_context(|| format!("cannot read {}", path.display()))?,
    };
    let mut rules: Vec<Rule> = serde_json::from_slice(&bytes).with_context(|| {
        let form = r#"[{"permission": "bash", "pattern": "git *", "action": "allow"}]"#;
        format!("{} is not a list of rules such as {form}: repair or remove it", path.display())
    })?;
    // Approvals only ever allow.
    rules.retain(|rule| rule.action == Action::Allow);
    Ok(rules)
}

/// Adds rules to a project's. Another process that adds at the same time waits. A node inside a call
/// stores nothing: a command of that call may have given the answer.
fn add(worktree: &Path, new: Vec<Rule>) -> anyhow::Result<()> {
    if !Origin::of_this_process().is_person() {
        anyhow::bail!("cannot store an approval: a command of a session started this node");
    }
    let folder = folder(worktree)?;
    let path = folder.join(FILE);
    let failed = || format!("cannot store an approval in {}", path.display());
    DirBuilder::new().recursive(true).mode(0o700).create(&folder).with_context(failed)?;
    let lock = File::create(folder.join("lock")).with_context(failed)?;
    lock.lock().with_context(failed)?;
    let mut rules = read(&path).with_context(failed)?;
    let known = rules.len();
    for rule in new {
        if !rules.contains(&rule) {
            rules.push(rule);
        }
    }
    if rules.len() == known {
        return Ok(());
    }
    replace(&path, &serde_json::to_vec_pretty(&rules)?).with_context(failed)
}

/// Replaces the file at once: a concurrent reader sees the old file or the new one.
fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let new = path.with_extension("new");
    let mut options = File::options();
    let mut file = options.write(true).create(true).truncate(true).mode(0o600).open(&new)?;
    file.write_all(bytes)?;
    file.write_all(b"\n")?;
    file.sync_data()?;
    fs::rename(&new, path)
}

/// The position up to which a session's log has been searched for approvals.
#[derive(Clone, Debug)]
pub struct Memory(watch::Receiver<Seq>);

impl Memory {
    /// Starts an observer that remembers, for the project, every "always" in the session and its
    /// children, except in imported events.
    pub async fn start(
        worktree: &Path,
        place: &SessionPlace,
    ) -> anyhow::Result<(Self, ActorRef<Observation>)> {
        let (session, imports) = (place.session, Imports::of(&place.store));
        let records = Records { worktree: worktree.to_owned(), imports, asked: HashMap::new() };
        let (sink, seen) = session_tree::follow(session, records).await?;
        Ok((Self(seen), sink))
    }

    /// Waits until the events up to and including `head` are searched.
    pub async fn through(&mut self, head: Seq) {
        let seen = tokio::time::timeout(PATIENCE, self.0.wait_for(|seen| *seen >= head));
        if !matches!(seen.await, Ok(Ok(_))) {
            tracing::warn!("approvals are remembered only up to event {}", *self.0.borrow());
        }
    }
}

struct Records {
    worktree: PathBuf,
    imports: Imports,
    /// The rules that an "always" answer to each open question would allow.
    asked: HashMap<QuestionId, Vec<Rule>>,
}

impl Follow for Records {
    async fn take(&mut self, events: &[Recorded]) {
        let new: Vec<Rule> = events.iter().flat_map(|event| self.allowed(event)).collect();
        if !new.is_empty() {
            let worktree = self.worktree.clone();
            let added = tokio::task::spawn_blocking(move || add(&worktree, new)).await;
            if let Err(error) = added.map_err(Into::into).flatten() {
                crate::note(&format!("leftfold: {error:#}"));
            }
        }
    }
}

impl Records {
    /// The rules that `event` allows for good.
    fn allowed(&mut self, event: &Envelope) -> Vec<Rule> {
        let Event::Permission(permission) = &event.event else { return Vec::new() };
        if self.imports.covers(event) {
            return Vec::new();
        }
        match permission {
            Permission::Asked { permission, always, .. } => {
                let allow = |pattern| Rule::new(permission, pattern, Action::Allow);
                self.asked.insert((event.session, event.seq), always.iter().map(allow).collect());
                Vec::new()
            }
            Permission::Answered { reply, .. } => {
                let rules = event.of.and_then(|of| self.asked.remove(&(event.session, of)));
                let rules = rules.unwrap_or_default();
                if *reply == Answer::Always { rules } else { Vec::new() }
            }
            Permission::Ruled { .. } | Permission::RejectedWith { .. } => Vec::new(),
        }
    }
}
