//! Reports of faults, here or in programs of this kind, as data: a row of `reports.json` each. The built program runs
//! each row, and the row says what is right.
//!
//! A row has these members. Only the first three are needed.
//! - `report`: a sentence about what is right.
//! - `run`: the arguments of the program. An object or list becomes its JSON text.
//! - `right`: what has to come out, see [`Right`].
//! - `files`: texts of the project by name; `{"bytes": TEXT}` has a byte for each character up to U+00FF.
//! - `settings`: values by JSON pointer. The provider is `report`, its only model `m`.
//! - `wire`: the wire format of the provider, and `answers`: one for each request. A list is a stream, its items are the data
//!   of its events. An object has a `status`, its `headers` and a `body`.
//! - `first`: further arguments, which are run before those of `run`.
#![cfg(test)]

use std::collections::BTreeMap;

use common::{Answer, Ran, Server, Site, Split};
use serde::Deserialize;
use serde_json::{Value, json};

const REPORTS: &str = include_str!("reports.json");

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Report {
    report: String,
    run: Vec<Value>,
    right: Right,
    #[serde(default)]
    files: BTreeMap<String, Content>,
    #[serde(default)]
    settings: BTreeMap<String, Value>,
    #[serde(default)]
    wire: Option<String>,
    #[serde(default)]
    answers: Vec<Value>,
    #[serde(default)]
    first: Vec<Vec<Value>>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Content {
    Text(String),
    Bytes { bytes: String },
}

impl Content {
    fn bytes(&self) -> Vec<u8> {
        match self {
            Self::Text(text) => text.clone().into_bytes(),
            Self::Bytes { bytes } => bytes.chars().map(|c| u8::try_from(c).unwrap()).collect(),
        }
    }
}

/// Each member that is there must hold.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Right {
    #[serde(default)]
    exit: i32,
    /// Standard output, or only a part of it.
    output: Option<String>,
    #[serde(default)]
    says: Vec<String>,
    #[serde(default)]
    says_not: Vec<String>,
    #[serde(default)]
    warns: Vec<String>,
    /// Contents of files afterwards.
    #[serde(default)]
    files: BTreeMap<String, Content>,
    /// The number of requests.
    requests: Option<usize>,
    /// Parts of the last request's JSON.
    #[serde(default)]
    sends: Vec<String>,
    #[serde(default)]
    sends_not: Vec<String>,
}

impl Right {
    /// Each expectation that the run does not meet, in words.
    fn faults(&self, ran: &Ran, site: &Site, requests: &[String]) -> Vec<String> {
        let mut faults = Vec::new();
        let mut hold = |holds: bool, why: String| {
            if !holds {
                faults.push(why);
            }
        };
        hold(ran.code == self.exit, format!("exit {} is expected", self.exit));
        let output = self.output.as_ref();
        hold(output.is_none_or(|output| ran.stdout == *output), format!("expected: {output:?}"));
        let last = requests.last().map_or("", String::as_str);
        for (parts, text, is_there) in [
            (&self.says, &ran.stdout[..], true),
            (&self.says_not, &ran.stdout, false),
            (&self.warns, &ran.stderr, true),
            (&self.sends, last, true),
            (&self.sends_not, last, false),
        ] {
            for part in parts {
                let fault = if is_there { "missing" } else { "too much" };
                hold(text.contains(part) == is_there, format!("{fault}: {part}"));
            }
        }
        for (name, content) in &self.files {
            let found = std::fs::read(site.project().join(name)).unwrap_or_default();
            let shown = String::from_utf8_lossy(&found).into_owned();
            hold(found == content.bytes(), format!("{name} is {shown:?}"));
        }
        let count = requests.len();
        hold(self.requests.is_none_or(|n| n == count), format!("{count} requests: {last}"));
        faults
    }
}

/// The answer to a request.
fn answer(row: &Value) -> Answer {
    let Some(events) = row.as_array() else {
        let headers = row["headers"].as_array().into_iter().flatten();
        let headers = headers.map(|header| header.as_str().unwrap().to_owned());
        let headers = headers.chain(["content-type: application/json".to_owned()]).collect();
        let status = row["status"].as_u64().unwrap_or(200).try_into().unwrap();
        return Answer::Status(status, headers, row["body"].to_string());
    };
    let data = |event: &Value| match event.as_str() {
        Some(text) => format!("data: {text}\n\n"),
        None => format!("data: {event}\n\n"),
    };
    Answer::Stream(events.iter().map(data).collect(), Split::Whole)
}

/// Runs the program as the report says. The error has the expectations that are not met, and the output.
fn try_out(report: &Report) -> Result<(), String> {
    let server = Server::start(report.answers.iter().map(answer).collect());
    let mut site = Site::bare()
        .setting("/model", json!("report/m"))
        .setting("/title", json!(false))
        .setting("/summary", json!(false))
        .setting("/snapshot", json!(false))
        .setting("/retry", json!({ "attempts": 2 }))
        .setting("/provider/report/wire", json!(report.wire.as_deref().unwrap_or("openai-chat")))
        .setting("/provider/report/options", json!({ "baseURL": server.url(), "apiKey": "k" }))
        .setting(
            "/provider/report/models/m",
            json!({ "attachment": true, "limit": { "context": 200_000, "output": 4_000 } }),
        );
    for (pointer, value) in &report.settings {
        site = site.setting(pointer, value.clone());
    }
    for (name, content) in &report.files {
        site.file(name, content.bytes());
    }
    let run = |words: &[Value]| {
        let words = words.iter();
        let words = words.map(|word| word.as_str().map_or_else(|| word.to_string(), str::to_owned));
        let words: Vec<String> = words.collect();
        site.run(&words.iter().map(String::as_str).collect::<Vec<_>>())
    };
    for words in &report.first {
        run(words);
    }
    let ran = run(&report.run);
    let requests: Vec<String> =
        server.requests().iter().map(|request| request.body.to_string()).collect();
    match report.right.faults(&ran, &site, &requests) {
        faults if faults.is_empty() => Ok(()),
        faults => Err(format!("{}:\n{}\n{ran:?}", report.report, faults.join("\n"))),
    }
}

#[test]
fn each_report_comes_out_right() {
    let reports: Vec<Report> = serde_json::from_str(REPORTS).unwrap();
    let faults: Vec<String> = reports.iter().filter_map(|report| try_out(report).err()).collect();
    assert!(faults.is_empty(), "{}", faults.join("\n\n"));
}
