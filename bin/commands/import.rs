//! `leftfold import`: imports a session with its children from an export, which keeps ids and seqs,
//! or a session of another agent.

use std::collections::HashMap;
use std::io::{self, BufRead, BufReader};
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context, bail};
use leftfold_events::line::{self, Line};
use leftfold_events::{Envelope, SessionId, Sha256, Time, fold};
use leftfold_framing::surrogates::repair;
use leftfold_snapshots::Unpacking;
use leftfold_store::Store;

use super::bundle;
use super::live_line::LiveLine;
use crate::cli::Import;
use leftfold_config::worktree_of;
use leftfold_import::{self as import, LeftOut, LogStart, Origin, UnreadableFile};
use leftfold_runtime::Usage;
use leftfold_runtime::secrets;
use leftfold_runtime::session_diff;
use leftfold_runtime::session_paths::{self, SessionPlace};

pub(crate) fn import(args: &Import) -> anyhow::Result<ExitCode> {
    if session_paths::chosen_store().is_some() {
        bail!(Usage(
            "`import` writes into the data folder: leave out --store and LEFTFOLD_STORE, then copy the session with \
             `leftfold fleet import`"
                .to_owned()
        ));
    }
    let live = LiveLine::about(&format!("reading {}", args.file.display()));
    let (bytes, name) = contents(&args.file)?;
    let text = String::from_utf8_lossy(&bytes);
    // Other agents' languages allow strings with half a surrogate pair.
    let text = repair(text.trim_start_matches('\u{feff}'));
    let origin = args.from.unwrap_or_else(|| import::origin(&text));
    let mut beside = Beside::default();
    let sessions = match origin {
        Origin::Leftfold => read(bundle::checked(&bytes, &name)?, &name, &mut beside)?,
        Origin::Claude | Origin::Codex | Origin::Opencode => {
            foreign(origin, &text, (&name, &args.file), &live)?
        }
    };
    let root = sessions.first().map(|(session, _)| *session);
    let Some(root) = root else { bail!(Usage("the file has no events".to_owned())) };
    let place = session_paths::new_place(root)?;
    if place.store.exists() {
        bail!(Usage(format!("session {root} already exists: {}", place.store.display())));
    }
    check_times(&sessions, &name)?;
    live.say(&format!("importing {root}"), "");
    write(&place, &sessions, beside)?;
    live.rest();
    note_directory(&sessions);
    super::print(&format!("{root}\n"))
}

/// A session's clock never goes behind its log, and no time after the year 9999 can be written. Deadlines need room
/// before that.
///
/// # Errors
/// An event has a time after [`LATEST`].
fn check_times(sessions: &Sessions, name: &str) -> anyhow::Result<()> {
    for (session, events) in sessions {
        if let Some(event) = events.iter().find(|event| event.at > LATEST) {
            bail!(Usage(format!(
                "{name}: event {} of {session} has the time {}: the latest time that can be imported is {LATEST}",
                event.seq, event.at
            )));
        }
    }
    Ok(())
}

/// 9000-01-01T00:00:00Z.
const LATEST: Time = Time::from_millis(221_845_392_000_000);

/// Says where the session will continue, if that is not the current project: the file decides it.
fn note_directory(sessions: &Sessions) {
    let events = sessions.first().map(|(_, events)| events.as_slice()).unwrap_or_default();
    let Some(origin) = fold(events).origin else { return };
    let here = std::env::current_dir().map(|here| worktree_of(&here));
    if here.ok().as_deref() != Some(&worktree_of(Path::new(&origin.directory))) {
        leftfold_runtime::note(&format!(
            "leftfold: the session continues in {}, which is not the current project",
            origin.directory.escape_debug()
        ));
    }
}

/// The bytes of a session file, and the name for them in errors.
pub(super) fn contents(file: &Path) -> anyhow::Result<(Vec<u8>, String)> {
    const DATABASE: &[u8] = b"SQLite format 3\0";
    if file == Path::new("-") {
        let name = "standard input";
        return Ok((bounded(io::stdin().lock(), name)?, name.to_owned()));
    }
    let name = file.display().to_string();
    if file.is_dir() {
        bail!(Usage(format!(
            "{name} is a folder: name one session file in it, such as \
             ~/.claude/projects/PROJECT/SESSION.jsonl, ~/.codex/sessions/YEAR/MONTH/DAY/rollout-….jsonl \
             or ~/.local/share/opencode/storage/session/PROJECT/SESSION.json"
        )));
    }
    let opened = std::fs::File::open(file).map_err(|error| Usage(format!("{name}: {error}")))?;
    let bytes = bounded(BufReader::new(opened), &name)?;
    if bytes.starts_with(DATABASE) {
        bail!(Usage(format!(
            "{name} is a database, which Leftfold does not read: if it is OpenCode's, run `opencode export \
             SESSION > FILE` and import that"
        )));
    }
    Ok((bytes, name))
}

/// Bytes of one line at most: a message with some pictures in it.
const LONGEST_LINE: usize = 64 << 20;

/// Bytes of everything at most. It is held in memory, and so is what is made of it.
pub(super) const LONGEST: usize = 1 << 30;

/// Reads everything.
///
/// # Errors
/// A line is too long, or there is too much.
fn bounded(mut input: impl BufRead, name: &str) -> anyhow::Result<Vec<u8>> {
    let (mut bytes, mut line, mut number) = (Vec::new(), 0, 1);
    loop {
        let piece = input.fill_buf().with_context(|| name.to_owned())?;
        if piece.is_empty() {
            return Ok(bytes);
        }
        let end = piece.iter().position(|byte| *byte == b'\n');
        let taken = end.map_or(piece.len(), |end| end + 1);
        bytes.extend_from_slice(&piece[..taken]);
        line += taken;
        if line > LONGEST_LINE {
            let most = LONGEST_LINE >> 20;
            bail!(Usage(format!("{name}, line {number}: it has more than {most} MiB")));
        }
        if bytes.len() > LONGEST {
            bail!(Usage(format!("{name} has more than {} MiB", LONGEST >> 20)));
        }
        if end.is_some() {
            (line, number) = (0, number + 1);
        }
        input.consume(taken);
    }
}

/// Turns a session of another agent into a log. A file always gets the same id, so it is not
/// imported twice.
fn foreign(
    origin: Origin,
    text: &str,
    (name, path): (&str, &Path),
    live: &LiveLine,
) -> anyhow::Result<Sessions> {
    let transcript = import::read(origin, text, name, Some(path).filter(|path| path.exists()))
        .map_err(|UnreadableFile(why)| Usage(why))?;
    let here = std::env::current_dir()?;
    let directory = transcript.directory.clone().filter(|folder| folder.is_absolute());
    let directory = directory.unwrap_or_else(|| here.clone());
    let is_there = directory.is_dir();
    let at = transcript.items.first().map_or(0, |item| item.at.millis());
    let hash = Sha256::digest(format!("{} {} {text}", origin.name(), transcript.id).as_bytes());
    let mut random = [0; 16];
    random.copy_from_slice(&hash.as_bytes()[..16]);
    let session = SessionId::from_ulid(ulid::Ulid::from_parts(at, u128::from_be_bytes(random)));
    let worktree = if is_there { worktree_of(&directory) } else { directory.clone() };
    let secrets = secrets::for_directory(if is_there { &directory } else { &here });
    let start = LogStart {
        session,
        parent: None,
        directory: directory.display().to_string(),
        worktree: worktree.display().to_string(),
        origin,
        secrets: &secrets,
    };
    let (sessions, left_out) = import::build_logs(&start, &transcript);
    let aside = live.aside();
    note_left_out(origin, &transcript.left_out);
    note_left_out(origin, &left_out);
    if !is_there {
        leftfold_runtime::note(&format!(
            "leftfold: the session's folder {} does not exist: the session can be read, but continued only once it does",
            directory.display()
        ));
    }
    drop(aside);
    Ok(sessions)
}

/// Prints a note for each kind of content that the log cannot hold.
fn note_left_out(origin: Origin, left_out: &LeftOut) {
    /// The number of bad lines that are printed one by one.
    const MAX_PRINTED: usize = 10;
    for bad in left_out.bad.iter().take(MAX_PRINTED) {
        leftfold_runtime::note(&format!("leftfold: {bad}"));
    }
    if !left_out.bad.is_empty() {
        let count = left_out.bad.len();
        leftfold_runtime::note(&format!(
            "leftfold: {count} of its lines cannot be read; the rest is imported"
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

/// The parts of a bundle other than its events.
#[derive(Default)]
struct Beside {
    snapshots: Option<Unpacking>,
    outputs: Option<bundle::Outputs>,
}

/// Reads the lines of an export. Snapshots and full texts of outputs go to `beside`.
fn read(lines: impl BufRead, name: &str, beside: &mut Beside) -> anyhow::Result<Sessions> {
    let folder = session_paths::data_dir()?.join("sessions");
    let mut sessions: Sessions = Vec::new();
    let mut contents: HashMap<Sha256, Arc<str>> = HashMap::new();
    for (number, text) in lines.lines().enumerate() {
        let at = || format!("{name}, line {}", number + 1);
        let text = text.map_err(|error| Usage(format!("{}: {error}", at())))?;
        if text.trim().is_empty() || number == 0 && text == bundle::FIRST.trim_end() {
            continue;
        }
        let piece = bundle::read(&text).map_err(|error| Usage(format!("{}: {error}", at())))?;
        if let Some(piece) = piece {
            let into = match &mut beside.snapshots {
                Some(into) => into,
                None => beside.snapshots.insert(Unpacking::new(&session_paths::data_dir()?)?),
            };
            into.add(&piece).map_err(|error| Usage(format!("{}: {error}", at())))?;
            continue;
        }
        let is_output = bundle::take_output(&text, &mut beside.outputs, &folder);
        if is_output.map_err(|error| Usage(format!("{}: {error}", at())))? {
            continue;
        }
        match line::read(&text).map_err(|error| Usage(format!("{}: {error}", at())))? {
            Line::Payload { sha256, text } => {
                if Sha256::digest(text.as_bytes()) != sha256 {
                    bail!(Usage(format!("{}: the hash of the text is not {sha256}", at())));
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
        // A hash that was never set.
        if sha256 == Sha256::default() {
            continue;
        }
        let text = contents.get(&sha256);
        let text = text.ok_or_else(|| format!("no line before it has the payload {sha256}"))?;
        payload.fill(Arc::clone(text));
    }
    Ok(())
}

/// Writes everything or nothing: the store gets its final name when it is complete, with the note that
/// its logs are imported.
fn write(
    place: &SessionPlace,
    sessions: &Sessions,
    Beside { snapshots: unpacking, outputs }: Beside,
) -> anyhow::Result<()> {
    let folder = place.store.parent().context("the data folder has no folder for sessions")?;
    std::fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
    let nursery = tempfile::Builder::new().prefix(".import-").tempdir_in(folder)?;
    let new = nursery.path().join("store");
    let store = Store::open(&new)?;
    for (session, events) in sessions {
        store.import(*session, events).with_context(|| format!("session {session}"))?;
    }
    if let Some(outputs) = outputs {
        outputs.keep(&new.join("spill"), sessions.iter().flat_map(|(_, events)| events))?;
    }
    let events = sessions.first().map(|(_, events)| events.as_slice()).unwrap_or_default();
    let mut accepted = Vec::new();
    if let (Some(unpacking), Some(origin)) = (unpacking, fold(events).origin) {
        let through = events.last().map_or(0, |event| event.seq);
        let snapshots = session_diff::snapshots(&origin, through)?;
        let trees = unpacking.keep(&snapshots)?;
        accepted = session_diff::steps_to_accept(events, &snapshots, &trees)?;
    }
    let logs = sessions.iter().map(|(session, events)| (*session, events.as_slice()));
    store.note_imported(logs, accepted)?;
    drop(store);
    std::fs::rename(new, &place.store)?;
    std::fs::File::open(folder)?.sync_all()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;

    #[test]
    fn a_line_without_end_is_refused_with_its_number() {
        let long = || io::Cursor::new(b"{}\n").chain(io::repeat(b'x'));
        let error = bounded(BufReader::new(long()), "file").unwrap_err().to_string();
        assert_eq!(error, "file, line 2: it has more than 64 MiB");
        let whole = b"a\n\nb";
        assert_eq!(bounded(&whole[..], "file").unwrap(), whole);
    }
}
