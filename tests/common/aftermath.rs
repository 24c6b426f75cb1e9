//! Checks the effects that a crash may leave behind, and what the model is told about them.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::path::Path;

use leftfold_events::event::{Class, Event, Files, Model, Purpose, Started, Tool, Turn};
use leftfold_events::state::ModelStatus;
use leftfold_events::{Envelope, Request, Seq, State, request_builder};

use super::Site;
use super::corpus::Logs;

/// Checks that the next request after a lost call, or the one that summarises, tells the model so.
/// Returns how often.
pub fn assert_told(log: &[Envelope]) -> usize {
    let mut lost = 0;
    let mut state = State::default();
    let mut untold = 0;
    for event in log {
        match &event.event {
            Event::Tool(Tool::Lost { .. }) => untold += 1,
            Event::Turn(Turn::Ended(_)) => untold = 0,
            Event::Model(Model::Requested { purpose, .. }) if untold > 0 => {
                if let Some(request) = asked(&state, *purpose) {
                    let words = serde_json::to_string(&request.messages).unwrap();
                    let told = words.matches("outcome of this call is unknown").count();
                    assert!(told >= untold, "{untold} lost, {told} told at {}", event.seq);
                    lost += std::mem::take(&mut untold);
                }
            }
            _ => {}
        }
        state.apply(event);
    }
    lost
}

/// The request made in this state. Requests for titles do not mention calls.
fn asked(state: &State, purpose: Purpose) -> Option<Request> {
    match (purpose, &state.turn.as_ref()?.model_status) {
        (Purpose::Turn, _) => Some(request_builder::request(state)),
        (Purpose::Compaction, ModelStatus::Compacting(due)) => {
            Some(request_builder::summary_request(state, due))
        }
        (Purpose::Compaction | Purpose::Title | Purpose::SessionSummary, _) => None,
    }
}

/// Checks that no call was started twice, except a call without effects whose outcome a crash has
/// lost.
pub fn assert_started_once(logs: &Logs) {
    for (session, log) in logs {
        let mut started = BTreeMap::new();
        for event in log {
            if let Event::Tool(tool) = &event.event
                && let Some(Started { class, attempt, .. }) = tool.started()
            {
                let before = started.insert(event.of, attempt);
                let again = class == Class::Read && (before, attempt) == (Some(1), 2);
                assert!((before, attempt) == (None, 1) || again, "{session} {event:?}");
            }
        }
    }
}

/// Checks that each mark exists at most once, only if its call was started, and always if the call
/// is reported as done.
pub fn assert_marks(site: &Site, logs: &Logs) {
    assert_no_line_twice(&site.project());
    let text = site.text("marks");
    let marks: BTreeSet<&str> = text.lines().collect();
    let (mut started, mut done) = (BTreeSet::new(), BTreeSet::new());
    for (session, log) in logs {
        let at = |seq: Option<Seq>| seq.and_then(|seq| log.get(usize::try_from(seq).ok()? - 1));
        for event in log.iter().filter(|event| event.session == *session) {
            match &event.event {
                Event::Tool(Tool::Started { .. } | Tool::StartedSandboxed(_)) => {
                    started.extend(mark(at(event.of)));
                }
                Event::Tool(Tool::Finished(_)) => {
                    done.extend(at(event.of).and_then(|start| mark(at(start.of))));
                }
                _ => {}
            }
        }
    }
    let marks: BTreeSet<String> = marks.into_iter().map(str::to_owned).collect();
    assert!(marks.is_subset(&started), "without a call: {marks:?}, started {started:?}");
    assert!(done.is_subset(&marks), "told as done: {done:?}, found {marks:?}");
}

/// Checks that the files of the session `revert` are exactly those after its last revert.
pub fn assert_files(site: &Site, log: &[Envelope]) {
    let restore = |event: &Envelope| match &event.event {
        Event::Files(Files::RestoreStarted { to, .. }) => Some(to.is_some()),
        _ => None,
    };
    let Some(back) = log.iter().rev().find_map(restore) else { return };
    let found = ["a.txt", "b.txt", "c.txt"].map(|name| site.text(name));
    let expected = if back { ["second\n", "", "c\n"] } else { ["second\nmore\n", "b\n", ""] };
    assert_eq!(found, expected);
}

/// The mark that a call leaves.
fn mark(call: Option<&Envelope>) -> Option<String> {
    let Event::Tool(Tool::Called { call } | Tool::Batched { call }) = &call?.event else {
        return None;
    };
    let input = call.input.value();
    if let Some(mark) = input["mark"].as_str() {
        return Some(mark.to_owned());
    }
    let command = input["command"].as_str()?;
    let mark = command.strip_prefix("echo ")?.split_once(" >> marks")?.0;
    Some(mark.to_owned())
}

/// Checks that no file contains a line twice, as a repeated write would. The file in which the
/// plugin of the tests keeps its requests begins anew with each node.
fn assert_no_line_twice(folder: &Path) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.file_name().is_some_and(|name| name == super::plugin::ASKED) {
            continue;
        }
        if path.is_dir() {
            assert_no_line_twice(&path);
            continue;
        }
        let text = std::fs::read_to_string(&path).unwrap();
        let mut seen = HashSet::new();
        for line in text.lines() {
            assert!(seen.insert(line), "{} has `{line}` twice", path.display());
        }
    }
}
