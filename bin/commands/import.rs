//! `leftfold import`: a session with its children, from the lines of an export. Ids and seqs stay.

use std::collections::HashMap;
use std::io::{self, BufRead, BufReader};
use std::path::Path;
use std::process::ExitCode;
use std::sync::{Arc, mpsc};

use anyhow::{Context, bail};
use leftfold_events::line::{self, Line};
use leftfold_events::{Envelope, SessionId, Sha256};
use leftfold_store::Store;

use crate::Usage;
use crate::cli::Import;
use crate::home::{self, Place};

/// Events that are written at once.
const BATCH: usize = 500;

pub(crate) fn import(args: &Import) -> anyhow::Result<ExitCode> {
    let sessions = if args.file == Path::new("-") {
        read(io::stdin().lock(), "standard input")
    } else {
        let file = std::fs::File::open(&args.file)
            .map_err(|error| Usage(format!("{}: {error}", args.file.display())))?;
        read(BufReader::new(file), &args.file.display().to_string())
    }?;
    let root = sessions.first().map(|(session, _)| *session);
    let Some(root) = root else { bail!(Usage("there is no event in it".to_owned())) };
    let place = home::new_place(root)?;
    if place.store.exists() {
        bail!(Usage(format!("session {root} is here already: {}", place.store.display())));
    }
    write(&place, &sessions)?;
    super::print(&format!("{root}\n"))
}

/// The events of each session, in the order in which the sessions begin.
type Sessions = Vec<(SessionId, Vec<Envelope>)>;

fn read(lines: impl BufRead, name: &str) -> anyhow::Result<Sessions> {
    let mut sessions: Sessions = Vec::new();
    let mut contents: HashMap<Sha256, Arc<str>> = HashMap::new();
    for (number, text) in lines.lines().enumerate() {
        let at = || format!("{name}, line {}", number + 1);
        let text = text.with_context(at)?;
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
        let mut log = store.log(*session)?;
        for batch in events.chunks(BATCH) {
            let (done, written) = mpsc::channel();
            log.append(batch, move |result| {
                let _ = done.send(result);
            });
            written.recv()?.with_context(|| format!("session {session}"))?;
        }
    }
    drop(store);
    std::fs::rename(nursery.path().join("store"), &place.store)?;
    std::fs::File::open(folder)?.sync_all()?;
    Ok(())
}
