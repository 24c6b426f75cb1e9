//! The last turn of a run as a JUnit report, for CI systems.
//!
//! The turn is a test case, which fails unless the turn was completed. Its calls are test cases after it: a call that
//! did not run is skipped, and one that failed is no failure, because the agent may have gone on differently.

use std::fmt::Write;

use leftfold_events::Time;
use leftfold_events::event::{EndReason, Ended};
use leftfold_view::words::{brief, ends, first_line, shorten};
use leftfold_view::{Call, Outcome, TurnStart};

use crate::Run;
use crate::records::{Record, Records, outcome_text, outcome_word, word};

type EndedTurn = (TurnStart, Option<(Time, Box<Ended>)>);
type EndedCall = (Box<Call>, Option<(Time, Outcome)>);

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
                Record::Turn(start, ended) => turn = Some((start, ended)),
                Record::Call(call, ended) => calls.push((call, ended)),
                Record::Request(..) => {}
            }
        }
    }
    let Some(turn) = turn else {
        return "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites/>\n".to_owned();
    };
    calls.retain(|(call, _)| call.turn == Some(turn.0.seq));
    calls.sort_by_key(|(call, _)| call.seq);
    report(&turn, &calls)
}

fn report((turn, ended): &EndedTurn, calls: &[EndedCall]) -> String {
    let ended = ended.as_ref();
    let completed = ended.is_some_and(|(_, ended)| ended.reason == EndReason::Completed);
    let took = ended.map_or(0, |(end, _)| end.since(turn.at));
    let figures = format!(
        "tests=\"{}\" failures=\"{}\" errors=\"0\" skipped=\"{}\" time=\"{}\"",
        calls.len() + 1,
        u8::from(!completed),
        calls.iter().filter(|(_, ended)| skipped(ended.as_ref()).is_some()).count(),
        seconds(took),
    );
    let mut out = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
    let at = turn.at.to_string();
    // the times of JUnit have no zone
    let at = at.split('.').next().unwrap_or_default();
    let _ = writeln!(out, "<testsuites name=\"leftfold\" {figures}>");
    let session = turn.session;
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
    for (call, ended) in calls {
        test_case(call, ended.as_ref(), &mut out);
    }
    out.push_str("</testsuite>\n</testsuites>\n");
    out
}

fn test_case(call: &Call, ended: Option<&(Time, Outcome)>, out: &mut String) {
    let took = call.started.zip(ended).map_or(0, |(from, (end, _))| end.since(from));
    let _ = write!(
        out,
        "<testcase name=\"{}\" classname=\"leftfold.{}\" time=\"{}\">",
        xml(&name(&format!("{} {}", call.name, brief(&call.input)))),
        xml(&name(&call.name)),
        seconds(took)
    );
    if let Some(why) = skipped(ended) {
        let _ = write!(out, "<skipped message=\"{why}\"/>");
    }
    if let Some((_, outcome)) = ended {
        let text = ends(outcome_text(outcome), MAX_OUTPUT);
        let element = if outcome_word(outcome) == "ok" { "system-out" } else { "system-err" };
        let _ = write!(out, "<{element}>{}</{element}>", xml(&text));
    }
    out.push_str("</testcase>\n");
}

/// Why a call did not run to its end.
fn skipped(ended: Option<&(Time, Outcome)>) -> Option<&'static str> {
    match ended.map(|(_, outcome)| outcome) {
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
