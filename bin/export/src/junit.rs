//! The last turn of a run as a JUnit report, for CI systems.
//!
//! The turn is a test case, which fails unless the turn was completed. Its calls are test cases after it: a call that
//! did not run is skipped, and one that failed is no failure, because the agent may have gone on differently.

use std::fmt::Write;

use leftfold_events::event::EndReason;
use leftfold_view::Outcome;
use leftfold_view::words::{brief, ends, first_line, shorten};

use crate::Run;
use crate::records::{CallRecord, Record, Records, TurnRecord, outcome_text, outcome_word, word};

/// The most bytes of one output.
const MAX_OUTPUT: usize = 16 << 10;
/// The longest name of a test case, in characters.
const NAME: usize = 120;

pub fn junit(run: &Run) -> String {
    let (mut turn, mut calls) = (None, Vec::new());
    if let Some((_, events)) = run.logs().next() {
        let mut records = Records::default();
        let mut done: Vec<Record> = events.iter().flat_map(|event| records.apply(event)).collect();
        done.extend(records.rest());
        for record in done {
            match record {
                Record::Turn(ended) => turn = Some(ended),
                Record::Call(call) => calls.push(call),
                Record::Request(_) => {}
            }
        }
    }
    let Some(turn) = turn else {
        return "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites/>\n".to_owned();
    };
    calls.retain(|call| call.turn == Some(turn.began.seq));
    calls.sort_by_key(|call| call.began.seq);
    report(&turn, &calls)
}

fn report(turn: &TurnRecord, calls: &[CallRecord]) -> String {
    let ended = turn.ended.as_ref();
    let completed = ended.is_some_and(|(_, ended)| ended.reason == EndReason::Completed);
    let took = ended.map_or(0, |(at, _)| at.time.since(turn.began.time));
    let figures = format!(
        "tests=\"{}\" failures=\"{}\" errors=\"0\" skipped=\"{}\" time=\"{}\"",
        calls.len() + 1,
        u8::from(!completed),
        calls.iter().filter(|call| skipped(call).is_some()).count(),
        seconds(took),
    );
    let mut out = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
    let at = turn.began.time.to_string();
    // the times of JUnit have no zone
    let at = at.split('.').next().unwrap_or_default();
    let _ = writeln!(out, "<testsuites name=\"leftfold\" {figures}>");
    let session = turn.began.session;
    let _ = writeln!(
        out,
        "<testsuite name=\"{}\" id=\"{session}\" timestamp=\"{at}\" hostname=\"localhost\" {figures}>",
        xml(&name(&turn.prompt))
    );
    let _ = write!(
        out,
        "<testcase name=\"{}\" classname=\"leftfold.turn\" time=\"{}\">",
        xml(&name(&turn.prompt)),
        seconds(took)
    );
    match ended {
        None => out.push_str("<failure type=\"cut_off\" message=\"the turn has not ended\"/>"),
        Some((_, ended)) => {
            if !completed {
                let (reason, error) = (word(ended.reason), ended.error.as_deref());
                let error = error.unwrap_or_default();
                let _ = write!(
                    out,
                    "<failure type=\"{reason}\" message=\"{}\">{}</failure>",
                    xml(&name(error)),
                    xml(error)
                );
            }
            let _ = write!(out, "<system-out>{}</system-out>", xml(&ends(&ended.text, MAX_OUTPUT)));
        }
    }
    out.push_str("</testcase>\n");
    for call in calls {
        test_case(call, &mut out);
    }
    out.push_str("</testsuite>\n</testsuites>\n");
    out
}

fn test_case(call: &CallRecord, out: &mut String) {
    let end = call.ended.as_ref();
    let took = call.started.zip(end).map_or(0, |(from, (at, _))| at.time.since(from));
    let _ = write!(
        out,
        "<testcase name=\"{}\" classname=\"leftfold.{}\" time=\"{}\">",
        xml(&name(&format!("{} {}", call.tool, brief(&call.input.value())))),
        xml(&name(&call.tool)),
        seconds(took)
    );
    if let Some(why) = skipped(call) {
        let _ = write!(out, "<skipped message=\"{why}\"/>");
    }
    if let Some((_, outcome)) = end {
        let text = ends(outcome_text(outcome), MAX_OUTPUT);
        let element = if outcome_word(outcome) == "ok" { "system-out" } else { "system-err" };
        let _ = write!(out, "<{element}>{}</{element}>", xml(&text));
    }
    out.push_str("</testcase>\n");
}

/// Why a call did not run to its end.
fn skipped(call: &CallRecord) -> Option<&'static str> {
    match call.ended.as_ref().map(|(_, outcome)| outcome) {
        None => Some("cut_off"),
        Some(Outcome::Finished(_)) => None,
        Some(outcome) => Some(outcome_word(outcome)),
    }
}

fn name(text: &str) -> String {
    shorten(first_line(text), NAME)
}

fn seconds(millis: u64) -> String {
    format!("{}.{:03}", millis / 1_000, millis % 1_000)
}

/// Text of an element or an attribute.
fn xml(text: &str) -> String {
    // two characters that XML excludes are no control characters
    crate::escaped(&text.replace(['\u{fffe}', '\u{ffff}'], "\u{fffd}"))
}
