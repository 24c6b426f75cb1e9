//! Error answers of vendors, servers and gateways, one per line of `table.jsonl`. A row without a
//! status is an error inside a stream. Bodies are worded as in the public documentation or as the
//! servers are known to send them.

use serde::Deserialize;
use serde_json::Value;

use super::*;

#[derive(Deserialize)]
struct Row {
    vendor: String,
    status: Option<u16>,
    headers: std::collections::BTreeMap<String, String>,
    body: Value,
    class: FailureClass,
    retryable: bool,
    hint: Option<u64>,
    /// Parts of the message for people.
    says: Vec<String>,
}

impl Row {
    fn failure(&self) -> Failure {
        let body = self.body.as_str().map_or_else(|| self.body.to_string(), str::to_owned);
        let headers: Vec<_> = self.headers.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect();
        match self.status {
            Some(status) => respond(status, &headers, &body),
            None => Failure::in_stream("p", &Details::from_value(&self.body)),
        }
    }

    fn problem(&self) -> Option<String> {
        let failure = self.failure();
        let found = (failure.class, failure.retryable, failure.retry_after);
        let expected = (self.class, self.retryable, self.hint);
        let shown = &failure.message;
        let says = self.says.iter().all(|part| shown.contains(part));
        let raw = ["<html", "</", "<!DOCTYPE", "\n", "Cloudflare", "nginx"];
        let is_clean = !shown.is_empty() && !raw.iter().any(|part| shown.contains(part));
        (found != expected || !says || !is_clean)
            .then(|| format!("{} {:?} {}: {found:?} {shown}", self.vendor, self.status, self.body))
    }
}

#[test]
fn every_row_has_its_class_its_hint_and_its_words() {
    let rows: Vec<Row> = include_str!("table.jsonl")
        .lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}")))
        .collect();
    assert!(rows.len() >= 80);
    let problems: Vec<String> = rows.iter().filter_map(Row::problem).collect();
    assert!(problems.is_empty(), "{} rows:\n{}", problems.len(), problems.join("\n"));
}
