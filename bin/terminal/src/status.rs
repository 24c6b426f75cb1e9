//! The rows below the conversation: the unfinished end of the text, and one status line.

use leftfold_events::Time;
use leftfold_events::event::Purpose;
use leftfold_view::{Request, Retry, SubagentStatus};

use super::calls::{CallBlock, duration};
use super::render::Renderer;
use super::style::Face;
use leftfold_view::clean::clean_line;
use leftfold_view::clean::clip;
use leftfold_view::words;

const SPINNER: [&str; 8] = ["⠋", "⠙", "⠸", "⠴", "⠦", "⠧", "⠇", "⠏"];
/// Milliseconds for one frame of the spinner.
const FRAME: u64 = 250;
/// Milliseconds without new text before the status shows a wait.
const PAUSE: u64 = 1500;

impl Renderer {
    /// The repainted rows. The first continues the printed text.
    pub(super) fn live(&self, now: Time) -> Vec<String> {
        let tail = self.markdown.tail();
        let column = self.markdown.column();
        let mut rows: Vec<String> = tail.split('\n').map(str::to_owned).collect();
        if let Some(status) = self.status(now) {
            let status = self.row(Face::DIM, &status);
            if column == 0 && tail.is_empty() {
                rows.clear();
            }
            rows.push(status);
        }
        rows
    }

    /// The row with the keys of the open question.
    pub(super) fn keys_row(&self) -> Vec<String> {
        self.question_keys.iter().map(|keys| self.row(Face::BOLD, keys)).collect()
    }

    fn row(&self, face: Face, text: &str) -> String {
        self.look.style.paint(face, &clip(text, self.look.columns.saturating_sub(1)))
    }

    /// The pending work, and for how long it has been running.
    fn status(&self, now: Time) -> Option<String> {
        let session = self.transcript.root()?;
        if let Some(Retry { attempt, until, error }) = &session.retry {
            let left = until.since(now).div_ceil(1000);
            let error = clean_line(error);
            return Some(format!("retrying in {left} s, attempt {attempt}: {error}"));
        }
        let spinner = usize::try_from(now.millis() / FRAME).unwrap_or(0) % SPINNER.len();
        let spinner = SPINNER[spinner];
        let mut running = session.calls().filter(|call| call.is_running());
        if let Some(call) = running.next() {
            let since = waited(now.since(call.started.unwrap_or(now)));
            let more = running.count();
            let more = if more > 0 { format!(" · and {more} more") } else { String::new() };
            let call = CallBlock { call, look: self.look };
            let rest = self.delegated().unwrap_or_else(|| call.tail());
            let tail = if rest.is_empty() { "" } else { " · " };
            let heading = call.heading();
            let heading = clip(&heading, self.look.columns / 2);
            return Some(format!("{spinner} {heading} · {since}{more}{tail}{rest}"));
        }
        if let Some(input) = session.writing().last() {
            let written = clean_line(&words::written(input));
            let since = session.request.map_or(now, |request| request.since);
            return Some(format!("{spinner} writing {written} · {}", waited(now.since(since))));
        }
        let Request { since: asked, purpose, text_at, .. } = session.request?;
        let since = text_at.unwrap_or(asked);
        if since != asked && now.since(since) < PAUSE {
            return None;
        }
        let what = match purpose {
            Purpose::Turn => "waiting for the model",
            Purpose::Title => "generating a title",
            Purpose::SessionSummary => "summing up the session",
            Purpose::Compaction => "writing a summary",
        };
        Some(format!("{spinner} {what} · {}", waited(now.since(since))))
    }

    /// The work of the running subagents.
    fn delegated(&self) -> Option<String> {
        let said = |status: &SubagentStatus| {
            let calls = match status.calls {
                0 => "begins".to_owned(),
                1 => format!("{} (1 call)", status.last),
                calls => format!("{} ({calls} calls)", status.last),
            };
            clean_line(&format!("{}: {calls}", status.agent))
        };
        let said: Vec<String> = self.transcript.at_work().map(said).collect();
        (!said.is_empty()).then(|| said.join(" · "))
    }
}

/// In whole seconds, because fractions would only flicker.
fn waited(millis: u64) -> String {
    if millis < 60_000 { format!("{} s", millis / 1000) } else { duration(millis) }
}
