//! A child that was spawned in what a fork shares is forked itself before a call of the fork's goes on with
//! it: as it stood when what is shared of its parent ended.

use leftfold_events::event::{Event, Session, Subagent, Turn};
use leftfold_events::{Envelope, Fact, Seq, SessionId, fold, settle};
use leftfold_store::Store;

use crate::messages::{Error, SpawnChild};

/// Begins the session of `spawn` as a fork, if it is to be one and has not begun. From then on `fork_of`
/// says what it was made a fork of just now. It blocks on the disk.
///
/// # Errors
/// A log can not be read, or the new one not be written.
pub(super) fn begin(store: &Store, spawn: &mut SpawnChild) -> Result<(), Error> {
    let Some(of) = spawn.fork_of.take().filter(|_| !spawn.close) else { return Ok(()) };
    let mut log = match store.log(spawn.session) {
        // its session is open
        Err(leftfold_store::Error::Taken { .. }) => return Ok(()),
        log => log?,
    };
    if log.head() > 0 {
        return Ok(());
    }
    let parent = spawn.parent.session;
    let child = store.read(of, 1, usize::MAX)?;
    let Some(at) = point(&store.read(parent, 1, usize::MAX)?, &child, of) else { return Ok(()) };
    let mut state = fold(child.iter().take_while(|event| event.seq <= at));
    let mut batch = Vec::new();
    for fact in [Session::Forked { from: of, at }, Session::Adopted { parent }] {
        let now = spawn.parent.since;
        batch.extend(settle(&mut state, spawn.session, Fact::new(fact), now));
    }
    log.append_wait(&batch)?;
    spawn.fork_of = Some(of);
    Ok(())
}

/// The last event of the child `of` that is shared, given the log of the session that inherits it. A child
/// whose end had come by then stands where a turn ended. `None`: it had not been told anything yet.
fn point(heir: &[Envelope], child: &[Envelope], of: SessionId) -> Option<Seq> {
    let spawns = |event: &Envelope| matches!(&event.event, Event::Subagent(Subagent::Spawned { session, .. }) if *session == of);
    let ends = |event: &Envelope| {
        matches!(
            &event.event,
            Event::Subagent(Subagent::Ended { session, .. } | Subagent::EndedUncounted { session, .. })
                if *session == of
        )
    };
    let parent = heir.iter().rev().find(|event| spawns(event))?.session;
    let until = heir.iter().rev().find(|event| event.session == parent)?.at;
    let last = heir.iter().rev().find(|event| spawns(event) || ends(event))?;
    // the times of a log never go backwards
    let had = || child.iter().take_while(|event| event.at <= until);
    had().find(|event| matches!(event.event, Event::Turn(Turn::Prompted { .. })))?;
    let whole = had().filter(|event| matches!(event.event, Event::Turn(Turn::Ended(_)))).last();
    let whole = whole.filter(|_| ends(last));
    Some(whole.or_else(|| had().last())?.seq)
}
