//! A file of JSON lines whose unchanged lines keep their bytes.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ops::Range;

use leftfold_framing::surrogates;
use leftfold_import::UnreadableFile;
use serde_json::{Deserializer, Value};

use crate::{DamageKind, FindingPlace, Notes};

/// Places in a torn line at which a whole record is looked for.
const MAX_STARTS: usize = 8;

/// The beginnings of records.
const STARTS: [&str; 3] = ["{\"type\":\"", "{\"parentUuid\":", "{\"timestamp\":"];

/// A record, or a blank line.
#[derive(Debug)]
pub(crate) struct Record {
    /// The line of the examined file.
    pub(crate) line: usize,
    /// `null` for a blank line.
    pub(crate) value: Value,
    /// Its bytes, as long as it is unchanged.
    raw: Option<Range<usize>>,
    pub(crate) is_dropped: bool,
}

impl Record {
    pub(crate) fn new(line: usize, value: Value) -> Self {
        Self { line, value, raw: None, is_dropped: false }
    }

    /// The value, to change it.
    pub(crate) fn edit(&mut self) -> &mut Value {
        self.raw = None;
        &mut self.value
    }
}

#[derive(Debug)]
pub(crate) struct Lines<'a> {
    bytes: &'a [u8],
    pub(crate) records: Vec<Record>,
}

impl<'a> Lines<'a> {
    /// Reads all lines. `is_record` tells a record from an object inside one.
    pub(crate) fn read(bytes: &'a [u8], is_record: fn(&Value) -> bool, notes: &mut Notes) -> Self {
        let mut lines = Self { bytes, records: Vec::new() };
        let mut start = 0;
        for (index, line) in bytes.split_inclusive(|byte| *byte == b'\n').enumerate() {
            let raw = start..start + line.len();
            start = raw.end;
            lines.line(index + 1, line, raw, is_record, notes);
        }
        lines
    }

    fn line(
        &mut self,
        number: usize,
        line: &[u8],
        raw: Range<usize>,
        is_record: fn(&Value) -> bool,
        notes: &mut Notes,
    ) {
        let text = String::from_utf8_lossy(line);
        if text.trim().is_empty() && matches!(text, Cow::Borrowed(_)) {
            let blank = Record { raw: Some(raw), ..Record::new(number, Value::Null) };
            return self.records.push(blank);
        }
        let whole = serde_json::from_str::<Value>(&text);
        if let (Ok(value), Cow::Borrowed(_)) = (&whole, &text)
            && value.is_object()
        {
            let value = whole.unwrap_or_default();
            return self.records.push(Record { raw: Some(raw), ..Record::new(number, value) });
        }
        let (found, is_all) = salvage(&text, is_record);
        let what = match (&whole, &text) {
            (Ok(_), Cow::Owned(_)) => "the line is not UTF-8".to_owned(),
            (Ok(_), Cow::Borrowed(_)) => "the line is not a JSON object".to_owned(),
            (Err(error), _) => format!("the line is not JSON: {error}"),
        };
        let mend = match (found.len(), is_all) {
            (0, _) => "dropped",
            (1, true) => "its text is repaired",
            (_, true) => "each of its objects gets a line",
            (_, false) => "its whole objects are kept, the rest is dropped",
        };
        notes.add(DamageKind::BrokenLine, FindingPlace(number, "", String::new()), what, mend);
        self.records.extend(found.into_iter().map(|value| Record::new(number, value)));
    }

    /// # Errors
    /// No line has a record.
    pub(crate) fn check(&self) -> Result<(), UnreadableFile> {
        if self.records.iter().any(|record| record.value.is_object()) {
            return Ok(());
        }
        Err(UnreadableFile("no line of it is a JSON object".to_owned()))
    }

    /// Removes dropped records. `inserts` have the index of the record that they precede.
    pub(crate) fn apply(&mut self, inserts: Vec<(usize, Record)>) {
        let mut before: BTreeMap<usize, Vec<Record>> = BTreeMap::new();
        for (at, record) in inserts {
            before.entry(at).or_default().push(record);
        }
        let old = std::mem::take(&mut self.records);
        let end = old.len();
        for (at, record) in old.into_iter().enumerate() {
            self.records.extend(before.remove(&at).unwrap_or_default());
            if !record.is_dropped {
                self.records.push(record);
            }
        }
        self.records.extend(before.remove(&end).unwrap_or_default());
    }

    /// The file.
    pub(crate) fn write(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        for record in &self.records {
            if bytes.last().is_some_and(|last| *last != b'\n') {
                bytes.push(b'\n');
            }
            match &record.raw {
                Some(raw) => bytes.extend_from_slice(&self.bytes[raw.clone()]),
                None => bytes.extend_from_slice(format!("{}\n", record.value).as_bytes()),
            }
        }
        bytes
    }
}

/// The objects in a broken line, and whether that is all of it.
fn salvage(line: &str, is_record: fn(&Value) -> bool) -> (Vec<Value>, bool) {
    let clean = legal(line.trim_start_matches('\u{feff}').trim());
    let clean = surrogates::repair(&clean);
    let (mut found, end) = objects(&clean);
    let rest = &clean[end..];
    if rest.trim().is_empty() {
        return (found, true);
    }
    let mut starts: Vec<usize> = STARTS
        .iter()
        .flat_map(|start| rest.match_indices(start).take(MAX_STARTS))
        .map(|(at, _)| at)
        .collect();
    starts.sort_unstable();
    for start in starts.into_iter().take(MAX_STARTS) {
        let (more, end) = objects(&rest[start..]);
        if rest[start + end..].trim().is_empty() && more.iter().all(is_record) {
            found.extend(more);
            break;
        }
    }
    (found, false)
}

/// The JSON objects at the beginning of a text, and where they end.
fn objects(text: &str) -> (Vec<Value>, usize) {
    let mut stream = Deserializer::from_str(text).into_iter::<Value>();
    let (mut found, mut end) = (Vec::new(), 0);
    while let Some(Ok(value)) = stream.next() {
        if !value.is_object() {
            break;
        }
        found.push(value);
        end = stream.byte_offset();
    }
    (found, end)
}

/// JSON without NULs, and with control characters in strings escaped.
fn legal(text: &str) -> String {
    let (mut legal, mut in_string, mut is_escaped) =
        (String::with_capacity(text.len()), false, false);
    for c in text.chars() {
        match c {
            '\0' => continue,
            _ if is_escaped => is_escaped = false,
            '\\' => is_escaped = in_string,
            '"' => in_string = !in_string,
            c if in_string && c < ' ' => {
                legal.push_str(&format!("\\u{:04x}", u32::from(c)));
                continue;
            }
            _ => {}
        }
        legal.push(c);
    }
    legal
}
