//! Finds and mends the damage that stops a session of another agent: a request that its API refuses,
//! or content that the agent no longer finds.
//!
//! It works on the records of the file, so that every record without damage keeps its bytes. It
//! reads and writes no file, follows no path that the session names, and sends nothing.

mod claude;
mod codex;
mod lines;
mod media;
mod opencode;
mod pairs;

use leftfold_events::Sha256;
use leftfold_import::{Origin, UnreadableFile};
use serde_json::{Value, json};

/// Bytes of a file at most.
const LONGEST: usize = 256 << 20;

/// JSON values in a file at most: a value takes up to a hundred bytes of memory.
const MAX_VALUES: usize = 5_000_000;

/// Rounds of mending at most. One round can uncover damage for the next one: a message whose only
/// block is dropped leaves calls open.
const MAX_ROUNDS: usize = 8;

/// Findings that are kept. Further ones are counted and mended, so that a hostile file takes no
/// memory for them.
const MAX_FINDINGS: usize = 10_000;

/// Characters of an id or a name in a finding.
const LONGEST_WORD: usize = 60;

/// The result that an open call gets.
const UNKNOWN: &str = "The outcome of this call is unknown, because the session has no result for it. It may have \
                       run, or not.";

/// The prompt before an answer that nobody asked for.
const LOST: &str = "[The beginning of this conversation is lost.]";

leftfold_events::named! {
    /// A kind of damage.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
    pub enum DamageKind {
        BrokenLine = "broken-line",
        BrokenTree = "broken-tree",
        LostBeginning = "lost-beginning",
        DanglingCompaction = "dangling-compaction",
        OrphanCall = "orphan-call",
        OrphanResult = "orphan-result",
        DoubledResult = "doubled-result",
        DoubledCallId = "doubled-call-id",
        MisplacedResult = "misplaced-result",
        BadCallId = "bad-call-id",
        BadInput = "bad-input",
        BadName = "bad-name",
        EmptyBlock = "empty-block",
        UnsignedReasoning = "unsigned-reasoning",
        ReasoningAlone = "reasoning-alone",
        BadMedia = "bad-media",
        UnfinishedReply = "unfinished-reply",
    }
}

/// The consequence of damage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    /// Content is lost, or its agent does not find it.
    Warning,
    /// The model's API refuses the next request.
    Error,
}

impl DamageKind {
    pub fn severity(self) -> Severity {
        match self {
            Self::BrokenLine
            | Self::BrokenTree
            | Self::DanglingCompaction
            | Self::UnfinishedReply => Severity::Warning,
            _ => Severity::Error,
        }
    }
}

/// One place with damage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    pub kind: DamageKind,
    /// The line of the file, from 1.
    pub line: usize,
    /// The record's own id; empty if it has none.
    pub id: String,
    /// The path of the damaged value in its record; empty for the record itself.
    pub field: String,
    pub what: String,
    /// The change in the mended copy.
    pub mend: String,
}

/// The result of an examination.
#[derive(Clone, Debug)]
pub struct Examination {
    /// In the order of the file. The first 10,000 are kept.
    pub findings: Vec<Finding>,
    /// The number of findings that were not kept.
    pub unlisted: usize,
    /// The mended file. Equal to the examined one if nothing was found.
    pub mended: Vec<u8>,
}

/// The agent that wrote a session, recognized by its content. Also recognizes an export of OpenCode
/// that is cut off.
///
/// # Errors
/// The file is too large.
pub fn origin(bytes: &[u8]) -> Result<Option<Origin>, UnreadableFile> {
    const BEGINNING: usize = 4_096;
    check_size(bytes)?;
    let text = String::from_utf8_lossy(bytes);
    let known = leftfold_import::origin(&text);
    if known != Origin::Leftfold {
        return Ok(Some(known));
    }
    let start: String = text.chars().take(BEGINNING).filter(|c| !c.is_whitespace()).collect();
    if start.contains("\"info\":{") && start.contains("\"id\":\"ses_") {
        return Ok(Some(Origin::Opencode));
    }
    Ok(start.starts_with("{\"v\":").then_some(Origin::Leftfold))
}

/// # Errors
/// The file is too large.
fn check_size(bytes: &[u8]) -> Result<(), UnreadableFile> {
    if bytes.len() > LONGEST {
        return Err(UnreadableFile(format!("it has more than {} MiB", LONGEST >> 20)));
    }
    if values(bytes) > MAX_VALUES {
        return Err(UnreadableFile(format!("it has more than {MAX_VALUES} JSON values")));
    }
    Ok(())
}

/// Examines a session of another agent, and mends a copy of it.
///
/// # Errors
/// The file is too large, or it has no session of this agent.
pub fn examine(origin: Origin, bytes: &[u8]) -> Result<Examination, UnreadableFile> {
    check_size(bytes)?;
    let mut notes = Notes::default();
    let mended = match origin {
        Origin::Leftfold => {
            let why = "it is a session of Leftfold: `leftfold check SESSION` examines it";
            return Err(UnreadableFile(why.to_owned()));
        }
        Origin::Claude => {
            let mut lines = lines::Lines::read(bytes, claude::is_record, &mut notes);
            lines.check()?;
            notes.rounds(|notes| claude::judge(&mut lines, notes));
            // mending may have dropped all of them
            lines.check()?;
            lines.write()
        }
        Origin::Codex => {
            let mut lines = lines::Lines::read(bytes, codex::is_record, &mut notes);
            lines.check()?;
            notes.rounds(|notes| codex::judge(&mut lines, notes));
            // mending may have dropped all of them
            lines.check()?;
            lines.write()
        }
        Origin::Opencode => opencode::examine(bytes, &mut notes)?,
    };
    let unlisted = notes.count - notes.findings.len();
    let mut findings = notes.findings;
    findings.sort_by_key(|finding| (finding.line, finding.kind));
    let mended = if findings.is_empty() { bytes.to_vec() } else { mended };
    Ok(Examination { findings, unlisted, mended })
}

/// At least the number of JSON values in a text: each but the first follows one of these signs.
fn values(bytes: &[u8]) -> usize {
    let (mut count, mut in_string, mut is_escaped) = (0, false, false);
    for byte in bytes {
        match byte {
            b'\n' => (in_string, is_escaped) = (false, false),
            _ if is_escaped => is_escaped = false,
            b'\\' => is_escaped = in_string,
            b'"' => in_string = !in_string,
            b',' | b':' | b'[' | b'{' if !in_string => count += 1,
            _ => {}
        }
    }
    count
}

/// The findings so far.
#[derive(Debug, Default)]
struct Notes {
    findings: Vec<Finding>,
    /// All of them, also those that were not kept.
    count: usize,
}

/// The place of a finding: line, id of the record, path in it.
struct FindingPlace<'a>(usize, &'a str, String);

impl Notes {
    fn add(
        &mut self,
        kind: DamageKind,
        FindingPlace(line, id, field): FindingPlace<'_>,
        what: impl Into<String>,
        mend: impl Into<String>,
    ) {
        self.count += 1;
        if self.findings.len() == MAX_FINDINGS {
            return;
        }
        let (id, what, mend) = (word(id), what.into(), mend.into());
        self.findings.push(Finding { kind, line, id, field, what, mend });
    }

    /// Mends until nothing is left to find.
    fn rounds(&mut self, mut mend: impl FnMut(&mut Self)) {
        for _ in 0..MAX_ROUNDS {
            let before = self.count;
            mend(self);
            if self.count == before {
                return;
            }
        }
    }
}

/// A word from the file, short enough for a finding.
fn word(text: &str) -> String {
    if text.chars().count() <= LONGEST_WORD {
        return text.to_owned();
    }
    let short: String = text.chars().take(LONGEST_WORD).collect();
    format!("{short}…")
}

/// Whether an API counts this text as empty.
fn is_blank(text: &str) -> bool {
    text.trim().is_empty()
}

/// Letters, digits, `_` and `-`: what APIs allow in names and ids.
fn is_plain(text: &str, longest: usize) -> bool {
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    !text.is_empty() && text.len() <= longest && text.chars().all(fits)
}

/// A name that APIs accept.
fn plain(name: &str, longest: usize) -> String {
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    let name: String = name.chars().take(longest).map(|c| if fits(c) { c } else { '_' }).collect();
    if name.is_empty() { "unknown".to_owned() } else { name }
}

/// A call id that APIs accept, and that no other id of the session equals.
fn plain_id(id: &str, salt: &str) -> String {
    let start: String = plain(id, 40);
    format!("{start}_{}", &hash(&[id, salt])[..8])
}

/// Gives a call an object as its input. Answers the problem, if the input was none.
fn mend_input(input: &mut Value) -> Option<&'static str> {
    if input.is_object() {
        return None;
    }
    let old = input.take();
    let (new, what) = match old {
        Value::Null => (json!({}), "the call's input is missing"),
        Value::String(text) => {
            let parsed = serde_json::from_str::<Value>(&text).ok().filter(Value::is_object);
            let new = parsed.unwrap_or_else(|| json!({ "input": text }));
            (new, "the call's input is a text, not an object")
        }
        Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => {
            (json!({ "input": old }), "the call's input is not an object")
        }
    };
    *input = new;
    Some(what)
}

fn hash(parts: &[&str]) -> String {
    Sha256::digest(parts.join("\n").as_bytes()).to_string()
}

/// A UUID that depends only on these texts.
fn uuid(parts: &[&str]) -> String {
    let hash = hash(parts);
    format!(
        "{}-{}-4{}-8{}-{}",
        &hash[..8],
        &hash[8..12],
        &hash[13..16],
        &hash[17..20],
        &hash[20..32]
    )
}
