//! Tool calls as they are shown: a heading with how it went, and a short look at what it did.

use leftfold_events::Time;
use leftfold_events::event::Finished;
use leftfold_tools::FilePreview;
use serde_json::Value;

use super::style::{Face, Style};
use leftfold_runtime::preview::LINES;
use leftfold_view::clean::clip;
use leftfold_view::clean::{clean, clean_line};

/// Lines of a diff, or of the end of what a command printed.
const EXCERPT: usize = 12;

/// A call that has not come to its end.
#[derive(Clone, Debug)]
pub(super) struct Call {
    pub(super) name: String,
    pub(super) input: Value,
    /// Since when it runs.
    pub(super) running: Option<Time>,
    /// The last line that it has printed.
    pub(super) tail: String,
    /// Whether a question has shown already what it would change.
    pub(super) previewed: bool,
}

/// How a call ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mark {
    Well,
    Failed,
    /// It was not run, or nobody knows.
    Not,
}

impl Call {
    pub(super) fn new(name: &str, input: Value) -> Self {
        let name = clean_line(name);
        Self { name, input, running: None, tail: String::new(), previewed: false }
    }

    /// The argument that says most.
    pub(super) fn argument(&self) -> String {
        ["command", "filePath", "pattern", "url", "description"]
            .iter()
            .find_map(|key| self.input.get(key)?.as_str())
            .or_else(|| self.input.get("questions")?.get(0)?.get("question")?.as_str())
            .map(clean)
            .unwrap_or_default()
    }

    /// The tool, and the argument that says most, in one line.
    pub(super) fn heading(&self) -> String {
        let brief = self.argument();
        let mut lines = brief.trim().lines();
        let first = lines.next().unwrap_or_default();
        let more = if lines.next().is_some() { " …" } else { "" };
        format!("{} {first}{more}", self.name).trim_end().to_owned()
    }

    /// What would change, for whoever has to allow it; from the arguments alone where no more is known.
    pub(super) fn preview(
        &self,
        change: &[FilePreview],
        style: Style,
        columns: usize,
    ) -> Vec<String> {
        if !change.is_empty() {
            return changes(&leftfold_runtime::preview::lines(change), LINES, style, columns);
        }
        let text = |key| self.input.get(key).and_then(Value::as_str).map(clean);
        let mut lines = Vec::new();
        if let (Some(old), Some(new)) = (text("oldString"), text("newString")) {
            lines.extend(old.lines().map(|line| format!("-{line}")));
            lines.extend(new.lines().map(|line| format!("+{line}")));
        } else if let Some(content) = text("content") {
            lines.extend(content.lines().map(|line| format!("+{line}")));
        } else if let Some(command) = text("command").filter(|command| command.contains('\n')) {
            lines.extend(command.lines().map(|line| format!(" {line}")));
        }
        changes(&lines, LINES, style, columns)
    }

    /// The whole block of a call that has come to its end.
    pub(super) fn ended(&self, mark: Mark, note: &str, style: Style, columns: usize) -> String {
        let (face, sign) = match mark {
            Mark::Well => (Face::GREEN, "✓"),
            Mark::Failed => (Face::RED, "✗"),
            Mark::Not => (Face::YELLOW, "–"),
        };
        let room = columns.saturating_sub(3);
        let note = clip(&clean_line(note), room / 2);
        let heading = clip(&self.heading(), room.saturating_sub(note.chars().count() + 2));
        let mut line = format!("{} {heading}", style.paint(face, sign));
        if !note.is_empty() {
            line.push_str("  ");
            style.write(&mut line, Face::DIM, &note);
        }
        line
    }

    pub(super) fn finished(
        &self,
        finished: &Finished,
        at: Time,
        style: Style,
        columns: usize,
    ) -> Vec<String> {
        let metadata = finished.metadata.value();
        let exit = metadata.get("exit").and_then(Value::as_i64).filter(|exit| *exit != 0);
        let failed = finished.is_error || exit.is_some();
        let mut notes = Vec::new();
        if finished.is_error {
            notes.push(clean(&finished.output).trim().lines().next().unwrap_or("").to_owned());
        }
        notes.extend(exit.map(|exit| format!("exit {exit}")));
        notes.extend(counted(&metadata));
        let took = self.running.map_or(0, |since| at.since(since));
        if took >= 1000 {
            notes.push(duration(took));
        }
        let mark = if failed { Mark::Failed } else { Mark::Well };
        let mut block = vec![self.ended(mark, &notes.join(" · "), style, columns)];
        let diff = metadata.get("diff").and_then(Value::as_str);
        match diff {
            Some(_) if self.previewed => {}
            Some(diff) => block.extend(changes(&diff_lines(diff), EXCERPT, style, columns)),
            None if metadata.get("exit").is_some() => {
                block.extend(output(&finished.output, style, columns));
            }
            None => {}
        }
        block
    }
}

/// Lines added and taken away.
fn counted(metadata: &Value) -> Option<String> {
    let number = |key| metadata.get(key).and_then(Value::as_u64);
    let (additions, deletions) = (number("additions")?, number("deletions")?);
    Some(format!("+{additions} -{deletions}"))
}

/// What a unified diff says, without its headers.
fn diff_lines(diff: &str) -> Vec<String> {
    // two lines of headers, and where the first change is
    let lines = diff.lines().skip_while(|line| !line.starts_with("@@")).skip(1);
    lines.map(clean).collect()
}

/// The beginning of a diff, coloured.
fn changes(lines: &[String], most: usize, style: Style, columns: usize) -> Vec<String> {
    let painted = |line: &String| {
        let face = match line.chars().next() {
            Some('+') => Face::GREEN,
            Some('-') => Face::RED,
            _ => Face::DIM,
        };
        format!("    {}", style.paint(face, &clip(line, columns.saturating_sub(5))))
    };
    let mut shown: Vec<String> = lines.iter().take(most).map(painted).collect();
    if lines.len() > most {
        let more = format!("… {} more lines", lines.len() - most);
        shown.push(format!("    {}", style.paint(Face::DIM, &more)));
    }
    shown
}

/// The end of what a command printed.
fn output(output: &str, style: Style, columns: usize) -> Vec<String> {
    let text = clean(output);
    let lines: Vec<&str> = text.trim_end().lines().collect();
    let mut shown = Vec::new();
    let left_out = lines.len().saturating_sub(EXCERPT);
    if left_out > 0 {
        let more = format!("… {left_out} lines before");
        shown.push(format!("    {}", style.paint(Face::DIM, &more)));
    }
    shown.extend(lines[left_out..].iter().map(|line| {
        format!("    {}", style.paint(Face::DIM, &clip(line, columns.saturating_sub(5))))
    }));
    shown
}

/// As people say it: `450 ms`, `1.2 s`, `3 min 20 s`.
pub(super) fn duration(millis: u64) -> String {
    match millis {
        0..1000 => format!("{millis} ms"),
        1000..10_000 => format!("{}.{} s", millis / 1000, millis % 1000 / 100),
        10_000..60_000 => format!("{} s", millis / 1000),
        _ => format!("{} min {} s", millis / 60_000, millis % 60_000 / 1000),
    }
}
