//! Rules that people allowed with "always", remembered for the project in
//! `LEFTFOLD_HOME/projects/HASH/approved-ID.json`, a list of rules. HASH is the hash of the worktree's
//! path, and ID says which repository or folder it is: another one at the same path has no approvals.
//! A rule with the action `ask` was taken back: sessions that allowed it before ask again.
//!
//! The file is written once the answer is durable. It is read whenever a turn configuration is
//! gathered, which puts the rules into the log, so no replay reads this file.

use std::collections::HashMap;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use leftfold_actors::{Observation, Recorded};
use leftfold_config::private_file;
use leftfold_events::event::{Answer, Event, Permission};
use leftfold_events::rules::{Action, Rule};
use leftfold_events::{Envelope, Seq, Sha256};
use leftfold_process::Origin;
use leftfold_store::Imports;
use ractor::ActorRef;
use tokio::sync::watch;

use crate::gather::TurnSettings;
use crate::only_people;
use crate::session_paths::SessionPlace;
use crate::session_tree::{self, Follow};
use crate::texts::TextWatch;
use leftfold_view::QuestionId;

/// How long the end of a program waits for a slow disk to store an approval.
const WRITE_TIMEOUT: Duration = Duration::from_secs(2);

/// Hexadecimal digits of an id.
const ID_LENGTH: usize = 8;

/// The rules that "always" answers added to a project, and those that were taken back.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Approvals {
    /// Each rule allows.
    pub approved: Vec<Rule>,
    /// Rules that were taken back; their actions are `ask`.
    pub revoked: Vec<Rule>,
}

/// The project's remembered rules. A file that cannot be read counts as empty, so people are asked
/// again; standard error gets the reason.
pub fn for_worktree(worktree: &Path) -> Approvals {
    stored(worktree).unwrap_or_else(|error| {
        crate::note(&format!("leftfold: {error:#}; remembered approvals are ignored until then"));
        Approvals::default()
    })
}

/// The project's remembered rules.
///
/// # Errors
/// The file cannot be read, or holds something else.
pub fn stored(worktree: &Path) -> anyhow::Result<Approvals> {
    let rules = read(&file(worktree)?)?;
    let with = |action| rules.iter().filter(move |rule| rule.action == action).cloned().collect();
    Ok(Approvals { approved: with(Action::Allow), revoked: with(Action::Ask) })
}

/// The id of an approval on the command line: the start of a hash of its permission and pattern.
pub fn id(rule: &Rule) -> String {
    let text = format!("{}\0{}", rule.permission, rule.pattern);
    Sha256::digest(text.as_bytes()).to_string().chars().take(ID_LENGTH).collect()
}

/// Takes back the approvals that `wanted` chooses, for sessions that exist too. Answers them.
///
/// # Errors
/// The file cannot be read or written, or a call started this process.
pub fn forget(worktree: &Path, wanted: impl Fn(&Rule) -> bool) -> anyhow::Result<Vec<Rule>> {
    only_people::require("leftfold permission forget")?;
    let path = file(worktree)?;
    // names what is wrong with the file
    read(&path)?;
    let mut forgotten = Vec::new();
    let change = |rules: &mut Vec<Rule>| {
        for rule in rules.iter_mut().filter(|rule| rule.action == Action::Allow && wanted(rule)) {
            forgotten.push(rule.clone());
            rule.action = Action::Ask;
        }
        !forgotten.is_empty()
    };
    private_file::change(&path, change)
        .with_context(|| format!("cannot change {}", path.display()))?;
    Ok(forgotten)
}

fn file(worktree: &Path) -> anyhow::Result<PathBuf> {
    let hash = Sha256::digest(worktree.as_os_str().as_bytes()).to_string();
    let name = match identity(worktree) {
        Some(id) => format!("approved-{id}.json"),
        None => "approved.json".to_owned(),
    };
    Ok(crate::session_paths::data_dir()?.join("projects").join(hash).join(name))
}

/// The inode of the worktree's `.git`, or of the worktree, and when it was made: a clone in the place of another has
/// others. The device is left out, since its number may change when the machine starts. `None`: nothing is there, or it
/// is on another machine.
fn identity(worktree: &Path) -> Option<String> {
    let (inode, made) =
        inode_and_birth(&worktree.join(".git")).or_else(|| inode_and_birth(worktree))?;
    Some(format!("{inode:x}-{made:x}"))
}

/// A file's inode, and when it was made, in nanoseconds since 1970. Built for musl, the standard library does not know that time.
#[cfg(target_os = "linux")]
fn inode_and_birth(file: &Path) -> Option<(u64, u128)> {
    use rustix::fs::{AtFlags, CWD, StatxFlags, statx};
    let wanted = StatxFlags::INO | StatxFlags::BTIME;
    let found = statx(CWD, file, AtFlags::SYMLINK_NOFOLLOW, wanted).ok()?;
    let has_birth = StatxFlags::from_bits_retain(found.stx_mask).contains(StatxFlags::BTIME);
    let made = Duration::new(found.stx_btime.tv_sec.try_into().ok()?, found.stx_btime.tv_nsec);
    has_birth.then_some((found.stx_ino, made.as_nanos()))
}

#[cfg(not(target_os = "linux"))]
fn inode_and_birth(file: &Path) -> Option<(u64, u128)> {
    let found = file.symlink_metadata().ok()?;
    let made = found.created().ok()?.duration_since(std::time::UNIX_EPOCH).ok()?;
    Some((std::os::unix::fs::MetadataExt::ino(&found), made.as_nanos()))
}

fn read(path: &Path) -> anyhow::Result<Vec<Rule>> {
    let read = private_file::read::<Vec<Rule>>(path);
    let rules = read.map_err(|error| {
        let path = path.display();
        let kind = error.kind();
        let is_damaged = kind == io::ErrorKind::InvalidData || kind == io::ErrorKind::UnexpectedEof;
        let form = r#"[{"permission": "bash", "pattern": "git *", "action": "allow"}]"#;
        anyhow::Error::new(error).context(match is_damaged {
            true => format!("{path} is not a list of rules such as {form}: repair or remove it"),
            false => format!("cannot read {path}"),
        })
    });
    Ok(rules?.unwrap_or_default())
}

/// Adds rules to a project's. A rule that was taken back is allowed again. A node inside a call
/// stores nothing: a command of that call may have given the answer.
fn add(worktree: &Path, new: Vec<Rule>) -> anyhow::Result<()> {
    if !Origin::of_this_process().is_person() {
        anyhow::bail!("cannot store an approval: a command of a session started this node");
    }
    let path = file(worktree)?;
    let failed = || format!("cannot store an approval in {}", path.display());
    // names what is wrong with the file
    read(&path).with_context(failed)?;
    let change = |rules: &mut Vec<Rule>| {
        let known = rules.clone();
        for rule in new {
            rules.retain(|old| old.action != Action::Ask || !old.is_for_same(&rule));
            if !rules.contains(&rule) {
                rules.push(rule);
            }
        }
        *rules != known
    };
    private_file::change(&path, change).with_context(failed)?;
    Ok(())
}

/// The position up to which a session's log has been searched for approvals.
#[derive(Clone, Debug)]
pub struct Memory(watch::Receiver<Seq>);

impl Memory {
    /// Starts an observer that remembers, for the project, every "always" in the session and its
    /// children, except in imported events. It also holds the texts that turns after the event `head` have changed.
    pub async fn start(
        turn_settings: Arc<TurnSettings>,
        place: &SessionPlace,
        head: Seq,
    ) -> anyhow::Result<(Self, ActorRef<Observation>)> {
        let (session, imports) = (place.session, Imports::for_store(&place.store)?);
        let worktree = turn_settings.approvals_of();
        let texts = TextWatch::new(turn_settings, session, head);
        let records = Records { worktree, imports, asked: HashMap::new(), texts };
        let (sink, seen) = session_tree::follow(session, records).await?;
        Ok((Self(seen), sink))
    }

    /// Waits until the events up to and including `head` are searched.
    pub async fn through(&mut self, head: Seq) {
        let seen = tokio::time::timeout(WRITE_TIMEOUT, self.0.wait_for(|seen| *seen >= head));
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
    texts: TextWatch,
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
        self.texts.take(events).await;
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
            Permission::AnsweredFor { reply: Answer::Always, always, .. } => {
                let asked = event.of.and_then(|of| self.asked.remove(&(event.session, of)));
                let Some(Rule { permission, .. }) = asked.and_then(|rules| rules.first().cloned())
                else {
                    return Vec::new();
                };
                let allow = |pattern| Rule::new(&permission, pattern, Action::Allow);
                always.iter().map(allow).collect()
            }
            _ => Vec::new(),
        }
    }
}
