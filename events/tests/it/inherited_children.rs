//! Children in the shared events of a fork, which the fork's own calls continue.

#![allow(clippy::expect_used, reason = "a test fails by panicking")]

use crate::common::*;
use leftfold_events::event::{Class, EndReason, Finish, Session, Tool};
use leftfold_events::state::{Child, PendingKind};
use leftfold_events::{Fact, Json, Seq, SessionId, Time, fold, settle, verify};

/// A call of `task` that names a session, up to its child.
fn task(run: &mut Run, id: &'static str, named: Option<SessionId>) -> Child {
    run.step(&Call(id, "task"));
    run.step(&Reply(Finish::ToolCalls));
    let waits = run
        .state
        .open()
        .into_iter()
        .find(|(kind, _)| *kind == PendingKind::Check)
        .expect("a check");
    let mut resolution = resolution(id, Class::Child, ("task", "general"), "");
    let task = named.map_or(String::new(), |named| format!(r#","taskId":"{named}""#));
    resolution.input =
        Json::parse(&format!(r#"{{"subagentType":"general"{task}}}"#)).expect("JSON");
    run.tell(Fact::for_intent(waits.1.intent, Tool::Resolved(Box::new(resolution))));
    run.state.open_children().next().expect("a child").clone()
}

/// A call of `task` that names a session, up to the end of the turn.
fn told(run: &mut Run, id: &'static str, named: Option<SessionId>) -> Child {
    run.step(&Prompt("go"));
    let child = task(run, id, named);
    let ended = child_ended(child.session, "found".into(), EndReason::Completed, 0.0);
    run.tell(Fact::for_intent(child.wait.intent, ended));
    run.step(&Done(id, "found"));
    run.step(&Text("done"));
    run.step(&Reply(Finish::Stop));
    assert!(run.state.turn.is_none());
    child
}

fn fork(of: &Run) -> Run {
    let mut run = Run::folded(&of.log);
    let (from, at): (SessionId, Seq) = (run.state.session, run.state.seq);
    let session = from.child(at, run.state.at);
    let forked = Fact::new(Session::Forked { from, at });
    run.log.extend(settle(&mut run.state, session, forked, Time::default()));
    run
}

#[test]
fn a_call_goes_on_with_a_fork_of_an_inherited_child_and_then_with_that_fork() {
    let mut first = Run::new(&config());
    let child = told(&mut first, "a", None);
    assert_eq!((child.fork_of, &first.state.inherited[..]), (None, &[][..]));
    let mut run = fork(&first);
    assert_eq!((run.state.children.len(), run.state.inherited[0].session), (0, child.session));
    let heir = told(&mut run, "b", Some(child.session));
    assert_ne!(heir.session, child.session);
    assert_eq!(heir.fork_of, Some(child.session));
    // the model may know it by either id
    for (id, named) in [("c", child.session), ("d", heir.session)] {
        let again = told(&mut run, id, Some(named));
        assert_eq!((again.session, again.fork_of), (heir.session, None));
    }
    // once more in a fork of the fork
    let mut third = fork(&run);
    let grandchild = told(&mut third, "e", Some(child.session));
    assert_eq!(grandchild.fork_of, Some(heir.session));
    assert_eq!(told(&mut third, "f", Some(heir.session)).session, grandchild.session);
    for run in [&first, &run, &third] {
        assert_eq!(verify(&run.log), []);
        assert_eq!(fold(&run.log), run.state);
        assert_prefixes_valid(&run.log);
    }
}

#[test]
fn what_nobody_knows_is_no_heritage() {
    let mut first = Run::new(&config());
    let child = told(&mut first, "a", None);
    let mut run = fork(&first);
    let other = child.session.child(7, Time::default());
    assert_eq!(told(&mut run, "b", Some(other)).fork_of, None);
    assert_eq!(told(&mut run, "c", None).fork_of, None);
    assert_eq!(run.state.inherited[0].heir, None);
    // in the session itself the child is its own
    let mine = told(&mut first, "b", Some(child.session));
    assert_eq!((mine.session, mine.fork_of), (child.session, None));
}

#[test]
fn a_session_is_adopted_once_and_has_done_nothing_for_its_parent_then() {
    let mut first = Run::new(&config());
    told(&mut first, "a", None);
    let mut run = fork(&first);
    assert!(run.state.ended.is_some());
    let adopted = || Fact::new(Session::Adopted { parent: SessionId::default() });
    assert_eq!(run.tell(adopted()).len(), 1);
    let parent = run.state.origin.as_ref().and_then(|origin| origin.parent);
    assert_eq!((parent, run.state.ended.as_ref()), (Some(SessionId::default()), None));
    assert_eq!(run.tell(adopted()).len(), 0);
    assert_eq!(verify(&run.log), []);
}
