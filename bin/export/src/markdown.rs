//! A run as Markdown for an issue or a pull request.
//!
//! Every text of the run stands in a fenced code block, in a code span, or escaped in an HTML block. So it is shown as
//! it is: it makes no link, no image and no markup, mentions nobody and closes no issue.

use std::fmt::Write;

use leftfold_events::event::{Ended, FileChange, PromptKind, PromptPart, Usage, as_typed};
use leftfold_events::{Envelope, Event, Seq, SessionId, Time, fold};
use leftfold_view::clean::{printable, printable_line};
use leftfold_view::words::{counted, ends, first_line, shorten};
use leftfold_view::{
    Call, Change, CompactionEnd, Failure, FileDiff, Message, Outcome, Reply, ReplyPart,
    SessionView, changed_files,
};

use crate::{Run, escaped, transcript};

/// The most bytes of the output or the arguments of one call. The log has all of it.
const MAX_TEXT: usize = 8 << 10;
/// The longest heading of a call, in characters.
const HEADING: usize = 120;

/// The session first, then each subagent.
pub fn markdown(run: &Run) -> String {
    let mut out = String::new();
    let mut logs = run.logs();
    if let Some((session, events)) = logs.next() {
        let log = Log::new(session, events);
        let title = log.view().and_then(|view| view.title.as_deref()).unwrap_or("Session");
        let _ = writeln!(out, "# {}\n", code(title));
        log.write(&mut out);
        log.files(events, &mut out);
    }
    for (session, events) in logs {
        let log = Log::new(session, events);
        let agent = log.view().map_or("subagent", |view| view.agent.as_str());
        let _ = writeln!(out, "# Subagent {}\n", code(agent));
        log.write(&mut out);
    }
    out
}

/// One log with the things that a transcript does not keep.
struct Log {
    session: SessionId,
    transcript: leftfold_view::Transcript,
    /// Lines between messages: ends of turns and other notices, each after the event at its seq.
    lines: Vec<(Seq, String)>,
}

impl Log {
    fn new(session: SessionId, events: &[Envelope]) -> Self {
        let mut log = Self { session, transcript: transcript(session), lines: Vec::new() };
        for event in events {
            for change in log.transcript.apply(event) {
                if let Some(line) = line(change, event.at) {
                    log.lines.push((event.seq, line));
                }
            }
        }
        log
    }

    fn view(&self) -> Option<&SessionView> {
        self.transcript.root()
    }

    fn write(&self, out: &mut String) {
        let Some(view) = self.view() else { return };
        let model = view.model.as_ref().map(|model| format!(", {}", code(&model.to_string())));
        let (id, agent) = (code(&self.session.to_string()), code(&view.agent));
        let _ = writeln!(
            out,
            "Session {id}, agent {agent}{}, at {}",
            model.unwrap_or_default(),
            view.at
        );
        let _ = writeln!(out, "\n{}\n", sum(&view.usage, view.cost));
        let mut lines = self.lines.iter().peekable();
        for message in view.messages() {
            while let Some((_, line)) = lines.next_if(|(seq, _)| *seq < message.seq()) {
                let _ = writeln!(out, "{line}\n");
            }
            match message {
                Message::User(prompt) => {
                    out.push_str("## Prompt\n\n");
                    as_typed(&prompt.parts).iter().for_each(|part| prompt_part(part, out));
                    prompt.parts.iter().filter(|part| part.kind == PromptKind::Task).for_each(
                        |task| {
                            let agent = code(task.name.as_deref().unwrap_or_default());
                            let _ = writeln!(out, "Task for agent {agent}:\n");
                            fence(out, "text", &task.text);
                        },
                    );
                }
                Message::Assistant(reply) if reply.void => {}
                Message::Assistant(reply) => write_reply(view, reply, out),
                Message::Summary { text, .. } => {
                    fold_text(out, "Summary of everything before", "text", text);
                }
            }
        }
        for (_, line) in lines {
            let _ = writeln!(out, "{line}\n");
        }
    }

    /// The files that the session has changed.
    fn files(&self, events: &[Envelope], out: &mut String) {
        if !events.iter().any(|event| matches!(event.event, Event::Files(_))) {
            return;
        }
        let files = changed_files(&fold(events));
        if files.is_empty() {
            return;
        }
        out.push_str("## Changed files\n\n");
        for FileChange { path, change, additions, deletions } in &files {
            let change = format!("{change:?}").to_lowercase();
            let _ = writeln!(out, "- {} {change}, +{additions} −{deletions}", code(path));
        }
        out.push('\n');
    }
}

/// The line of a change that no message has.
fn line(change: Change, at: Time) -> Option<String> {
    match change {
        Change::TurnEnded { ended, since, .. } => {
            Some(end(&ended, since.map(|since| at.since(since))))
        }
        Change::Retry { attempt, error, .. } => Some(format!(
            "_Attempt {attempt} follows:_ {}",
            code(&shorten(first_line(&error), 300))
        )),
        Change::Resumed { .. } => Some("_Resumed after an interruption._".to_owned()),
        Change::Forked => Some("_The fork begins here._".to_owned()),
        Change::AgentSwitched { agent, .. } => {
            Some(format!("_Agent_ {} _takes over._", code(&agent)))
        }
        Change::Notice(line) => Some(code(&line)),
        Change::CompactionEnded { end: CompactionEnd::Failed { message }, .. } => {
            Some(format!("_No summary:_ {}", code(&message)))
        }
        _ => None,
    }
}

fn end(ended: &Ended, took: Option<u64>) -> String {
    let reason = serde_json::json!(ended.reason);
    let reason = reason.as_str().unwrap_or_default().replace('_', " ");
    let mut line = format!("**Turn: {reason}**, {}", counted(ended.steps, "step"));
    if let Some(took) = took {
        let _ = write!(line, ", {}", seconds(took));
    }
    let _ = write!(line, ", {}", sum(&ended.usage, ended.cost));
    if let Some(error) = &ended.error {
        let _ = write!(line, ": {}", code(&shorten(error, 300)));
    }
    line
}

fn sum(usage: &Usage, cost: f64) -> String {
    let input = usage.input.saturating_add(usage.cache_read).saturating_add(usage.cache_write);
    let output = usage.output.saturating_add(usage.reasoning);
    let cached = match usage.cache_read {
        0 => String::new(),
        cached => format!(" ({cached} from the cache)"),
    };
    let cost = if cost > 0.0 { format!(", ${cost:.4}") } else { String::new() };
    format!("{input} tokens in{cached}, {output} out{cost}")
}

fn seconds(millis: u64) -> String {
    format!("{}.{:02} s", millis / 1_000, millis % 1_000 / 10)
}

fn prompt_part(part: &PromptPart, out: &mut String) {
    match (part.kind, &part.name) {
        (PromptKind::Media, name) => {
            let name = name.as_deref().unwrap_or("file");
            let mime = part.mime.as_deref().unwrap_or("unknown type");
            let _ = writeln!(out, "With {} ({})\n", code(name), code(mime));
        }
        (_, Some(name)) => fold_text(out, name, "text", &part.text),
        (_, None) => fence(out, "text", &part.text),
    }
}

fn write_reply(view: &SessionView, reply: &Reply, out: &mut String) {
    for part in &reply.parts {
        match part {
            ReplyPart::Text(text) if text.text.trim().is_empty() => {}
            ReplyPart::Text(text) => fence(out, "markdown", &text.text),
            ReplyPart::Reasoning(text) if text.text.trim().is_empty() => {}
            ReplyPart::Reasoning(text) => fold_text(out, "Reasoning", "text", &text.text),
            ReplyPart::Call(seq) => {
                view.call(*seq).into_iter().for_each(|call| write_call(call, out));
            }
        }
    }
    if let Some(Failure { message, .. }) = &reply.failure {
        let _ = writeln!(out, "_The request failed:_ {}\n", code(&shorten(message, 300)));
    }
}

fn write_call(call: &Call, out: &mut String) {
    let (mark, outcome) = outcome(call);
    let took =
        call.started.zip(call.ended).map(|(from, to)| format!(", {}", seconds(to.since(from))));
    let heading = shorten(&call.heading(), HEADING);
    let summary = format!("{mark} {}{}", html(&heading), took.unwrap_or_default());
    begin_fold(out, &summary);
    let arguments = serde_json::to_string_pretty(&call.input).unwrap_or_default();
    fence(out, "json", &ends(&arguments, MAX_TEXT));
    match &call.outcome {
        Some(Outcome::Finished(finished)) => {
            if FileDiff::of_call(finished).is_some() {
                let metadata = finished.metadata.value();
                fence(out, "diff", &ends(metadata["diff"].as_str().unwrap_or_default(), MAX_TEXT));
            } else {
                fence(out, "text", &ends(&finished.output, MAX_TEXT));
            }
        }
        Some(_) | None => {
            let _ = writeln!(out, "{outcome}\n");
        }
    }
    if let Some(subagent) = call.subagent {
        let _ = writeln!(out, "Subagent {}\n", code(&subagent.to_string()));
    }
    out.push_str("</details>\n\n");
}

/// The mark of a call's outcome, and the outcome in words.
fn outcome(call: &Call) -> (char, String) {
    match &call.outcome {
        None => ('…', "It has not ended.".to_owned()),
        Some(Outcome::Finished(finished)) if finished.is_error => ('✗', String::new()),
        Some(Outcome::Finished(finished)) => {
            let exit = finished.metadata.value()["exit"].as_i64();
            (if exit.is_none_or(|exit| exit == 0) { '✓' } else { '✗' }, String::new())
        }
        Some(Outcome::Unresolved(error)) => {
            ('✗', format!("Not run: {}", code(&shorten(error, 300))))
        }
        Some(Outcome::Denied) => ('✗', "Denied by the permission rules.".to_owned()),
        Some(Outcome::Rejected { feedback, .. }) => {
            let feedback = feedback.as_deref().map(|words| format!(": {}", code(words)));
            ('✗', format!("Rejected by a person{}", feedback.unwrap_or_default()))
        }
        Some(Outcome::TimedOut { asked: true }) => ('✗', "Nobody answered in time.".to_owned()),
        Some(Outcome::TimedOut { asked: false }) => ('✗', "It took too long.".to_owned()),
        Some(Outcome::Lost) => ('?', "Outcome unknown after a crash.".to_owned()),
        Some(Outcome::Cancelled) => ('✗', "Stopped.".to_owned()),
    }
}

fn fold_text(out: &mut String, summary: &str, language: &str, text: &str) {
    begin_fold(out, &html(&shorten(summary, HEADING)));
    fence(out, language, &ends(text, MAX_TEXT));
    out.push_str("</details>\n\n");
}

/// `summary` is HTML in one line.
fn begin_fold(out: &mut String, summary: &str) {
    let _ = writeln!(out, "<details>\n<summary>{summary}</summary>\n");
}

/// A fenced block. Its fence is longer than any row of backticks in the text.
fn fence(out: &mut String, language: &str, text: &str) {
    let text = printable(text.trim_end());
    let fence = "`".repeat(longest_row(&text).max(2) + 1);
    let _ = writeln!(out, "{fence}{language}\n{text}\n{fence}\n");
}

/// A code span in one line, which a heading, a list and a paragraph can hold.
fn code(text: &str) -> String {
    let text = printable_line(text.trim());
    if text.is_empty() {
        return "` `".to_owned();
    }
    let ticks = "`".repeat(longest_row(&text) + 1);
    if text.starts_with('`') || text.ends_with('`') {
        // the spaces are not shown
        return format!("{ticks} {text} {ticks}");
    }
    format!("{ticks}{text}{ticks}")
}

fn longest_row(text: &str) -> usize {
    text.split(|c| c != '`').map(str::len).max().unwrap_or(0)
}

/// Text in one line of an HTML block.
fn html(text: &str) -> String {
    format!("<code>{}</code>", escaped(&printable_line(text)))
}
