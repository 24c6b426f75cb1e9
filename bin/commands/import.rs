//! `leftfold import`: a session with its children, from the lines of an export, where ids and seqs stay; or one that
//! another agent has kept.

use std::collections::HashMap;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context, bail};
use leftfold_events::line::{self, Line};
use leftfold_events::{Envelope, SessionId, Sha256};
use leftfold_framing::surrogates::repair;
use leftfold_store::Store;

use crate::cli::Import;
use leftfold_config::worktree_of;
use leftfold_import::{self as import, LeftOut, LogStart, Misuse, Origin};
use leftfold_runtime::Usage;
use leftfold_runtime::secrets;
use leftfold_runtime::session_paths::{self, Place};

pub(crate) fn import(args: &Import) -> anyhow::Result<ExitCode> {
    let (bytes, name) = contents(&args.file)?;
    let text = String::from_utf8_lossy(&bytes);
    // other agents are written in languages whose strings may hold half a character
    let text = repair(text.trim_start_matches('\u{feff}'));
    let origin = args.from.unwrap_or_else(|| import::origin(&text));
    let sessions = match origin {
        Origin::Leftfold => read(bytes.as_slice(), &name)?,
        Origin::Claude | Origin::Codex | Origin::Opencode => {
            foreign(origin, &text, &name, &args.file)?
        }
    };
    let root = sessions.first().map(|(session, _)| *session);
    let Some(root) = root else { bail!(Usage("there is no event in it".to_owned())) };
    let place = session_paths::new_place(root)?;
    if place.store.exists() {
        bail!(Usage(format!("session {root} is here already: {}", place.store.display())));
    }
    write(&place, &sessions)?;
    super::print(&format!("{root}\n"))
}

/// What is to be imported, and what errors call it.
fn contents(file: &Path) -> anyhow::Result<(Vec<u8>, String)> {
    const DATABASE: &[u8] = b"SQLite format 3\0";
    let mut bytes = Vec::new();
    if file == Path::new("-") {
        io::stdin().lock().read_to_end(&mut bytes).context("standard input")?;
        return Ok((bytes, "standard input".to_owned()));
    }
    let name = file.display().to_string();
    if file.is_dir() {
        bail!(Usage(format!(
            "{name} is a folder: name the file of one session in it, such as \
             ~/.claude/projects/PROJECT/SESSION.jsonl, ~/.codex/sessions/YEAR/MONTH/DAY/rollout-….jsonl \
             or ~/.local/share/opencode/storage/session/PROJECT/SESSION.json"
        )));
    }
    let opened = std::fs::File::open(file).map_err(|error| Usage(format!("{name}: {error}")))?;
    BufReader::new(opened).read_to_end(&mut bytes).with_context(|| name.clone())?;
    if bytes.starts_with(DATABASE) {
        bail!(Usage(format!(
            "{name} is a database, which is not read here: if it is OpenCode's, run `opencode export \
             SESSION > FILE` and import that"
        )));
    }
    Ok((bytes, name))
}

/// A session of another agent as a log. The same file has the same id, so it is not taken in twice.
fn foreign(origin: Origin, text: &str, name: &str, path: &Path) -> anyhow::Result<Sessions> {
    let transcript = import::read(origin, text, name, Some(path).filter(|path| path.exists()))
        .map_err(|Misuse(why)| Usage(why))?;
    let here = std::env::current_dir()?;
    let directory = transcript.directory.clone().filter(|folder| folder.is_absolute());
    let directory = directory.unwrap_or_else(|| here.clone());
    let is_there = directory.is_dir();
    let at = transcript.items.first().map_or(0, |item| item.at.millis());
    let hash = Sha256::of(format!("{} {} {text}", origin.name(), transcript.id).as_bytes());
    let mut random = [0; 16];
    random.copy_from_slice(&hash.as_bytes()[..16]);
    let session = SessionId::from_ulid(ulid::Ulid::from_parts(at, u128::from_be_bytes(random)));
    let worktree = if is_there { worktree_of(&directory) } else { directory.clone() };
    let secrets = secrets::of(if is_there { &directory } else { &here });
    let start = LogStart {
        session,
        parent: None,
        directory: directory.display().to_string(),
        worktree: worktree.display().to_string(),
        origin,
        secrets: &secrets,
    };
    let (sessions, untold) = import::build_logs(&start, &transcript);
    build(origin, &transcript.left_out);
    build(origin, &untold);
    if !is_there {
        leftfold_runtime::note(&format!(
            "leftfold: the session's folder {} is not here: it can be looked at, and gone on with once it is",
            directory.display()
        ));
    }
    Ok(sessions)
}

/// What is not in the log.
fn build(origin: Origin, left_out: &LeftOut) {
    /// Bad lines that are told one by one.
    const MOST: usize = 10;
    for bad in left_out.bad.iter().take(MOST) {
        leftfold_runtime::note(&format!("leftfold: {bad}"));
    }
    if !left_out.bad.is_empty() {
        let count = left_out.bad.len();
        leftfold_runtime::note(&format!(
            "leftfold: {count} of its lines can not be read; the rest is taken in"
        ));
    }
    for (kind, count) in &left_out.kinds {
        let name = origin.name();
        leftfold_runtime::note(&format!(
            "leftfold: left out of the session of {name}: {kind} ({count})"
        ));
    }
}

/// The events of each session, in the order in which the sessions begin.
type Sessions = Vec<(SessionId, Vec<Envelope>)>;

fn read(lines: impl BufRead, name: &str) -> anyhow::Result<Sessions> {
    let mut sessions: Sessions = Vec::new();
    let mut contents: HashMap<Sha256, Arc<str>> = HashMap::new();
    for (number, text) in lines.lines().enumerate() {
        let at = || format!("{name}, line {}", number + 1);
        let text = text.map_err(|error| Usage(format!("{}: {error}", at())))?;
        if text.trim().is_empty() {
            continue;
        }
        match line::read(&text).map_err(|error| Usage(format!("{}: {error}", at())))? {
            Line::Payload { sha256, text } => {
                if Sha256::of(text.as_bytes()) != sha256 {
                    bail!(Usage(format!("{}: the text has another hash than {sha256}", at())));
                }
                contents.insert(sha256, text.into());
            }
            Line::Event(mut event) => {
                fill(&mut event, &contents).map_err(|what| Usage(format!("{}: {what}", at())))?;
                let known = sessions.iter_mut().find(|(session, _)| *session == event.session);
                match known {
                    Some((_, events)) => {
                        let last = events.last().map_or(0, |event| event.seq);
                        if event.seq != last + 1 {
                            bail!(Usage(format!(
                                "{}: seq {} of {} does not follow {last}",
                                at(),
                                event.seq,
                                event.session
                            )));
                        }
                        events.push(*event);
                    }
                    None => sessions.push((event.session, vec![*event])),
                }
            }
        }
    }
    Ok(sessions)
}

/// Puts the contents behind hashes into an event.
fn fill(event: &mut Envelope, contents: &HashMap<Sha256, Arc<str>>) -> Result<(), String> {
    for payload in event.event.payloads_mut() {
        let sha256 = payload.sha256();
        // one that was never set
        if sha256 == Sha256::default() {
            continue;
        }
        let text = contents.get(&sha256);
        let text = text.ok_or_else(|| format!("no line before it has the payload {sha256}"))?;
        payload.fill(Arc::clone(text));
    }
    Ok(())
}

/// All of it, or nothing: the store gets its name when everything is in it.
fn write(place: &Place, sessions: &Sessions) -> anyhow::Result<()> {
    let folder = place.store.parent().context("the data folder has no place for sessions")?;
    std::fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
    let nursery = tempfile::Builder::new().prefix(".import-").tempdir_in(folder)?;
    let store = Store::open(&nursery.path().join("store"))?;
    for (session, events) in sessions {
        store.import(*session, events).with_context(|| format!("session {session}"))?;
    }
    drop(store);
    std::fs::rename(nursery.path().join("store"), &place.store)?;
    std::fs::File::open(folder)?.sync_all()?;
    Ok(())
}
