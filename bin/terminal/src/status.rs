//! What stands below the conversation for the time being: the unfinished end of the text, and one
//! line that says what is waited for.

use leftfold_events::Time;
use leftfold_events::event::Purpose;

use super::calls::duration;
use super::render::Renderer;
use super::style::Face;
use leftfold_view::clean::clip;

const SPINNER: [&str; 8] = ["⠋", "⠙", "⠸", "⠴", "⠦", "⠧", "⠇", "⠏"];
/// Milliseconds of one picture of the spinner.
const FRAME: u64 = 250;
/// Milliseconds after which text that does not go on is waited for.
const PAUSE: u64 = 1500;

impl Renderer {
    /// Rows that are painted over again and again. The first goes on where printed text ends.
    pub(super) fn live(&self, now: Time) -> Vec<String> {
        let tail = self.markdown.tail();
        let column = self.markdown.column();
        let mut rows: Vec<String> = tail.split('\n').map(str::to_owned).collect();
        let asking = self.asking.as_ref().map(|keys| (Face::BOLD, keys.clone()));
        if let Some((face, status)) = asking.or_else(|| Some((Face::DIM, self.status(now)?))) {
            let status = clip(&status, self.look.columns.saturating_sub(1));
            let status = self.look.style.paint(face, &status);
            if column == 0 && tail.is_empty() {
                rows.clear();
            }
            rows.push(status);
        }
        rows
    }

    /// What is waited for, and for how long already.
    fn status(&self, now: Time) -> Option<String> {
        if let Some((until, error)) = &self.retry {
            let left = until.since(now).div_ceil(1000);
            return Some(format!("retrying in {left} s: {error}"));
        }
        let spinner = usize::try_from(now.millis() / FRAME).unwrap_or(0) % SPINNER.len();
        let spinner = SPINNER[spinner];
        let mut running = self.calls.values().filter(|call| call.running.is_some());
        if let Some(call) = running.next() {
            let since = waited(now.since(call.running.unwrap_or(now)));
            let more = running.count();
            let more = if more > 0 { format!(" · and {more} more") } else { String::new() };
            let rest = self.delegated.as_ref().unwrap_or(&call.tail);
            let tail = if rest.is_empty() { "" } else { " · " };
            let heading = call.heading();
            let heading = clip(&heading, self.look.columns / 2);
            return Some(format!("{spinner} {heading} · {since}{more}{tail}{rest}"));
        }
        let (asked, purpose) = self.asked?;
        let since = if self.streamed > asked { self.streamed } else { asked };
        if since != asked && now.since(since) < PAUSE {
            return None;
        }
        let what = match purpose {
            Purpose::Turn => "waiting for the model",
            Purpose::Title => "looking for a title",
            Purpose::Compaction => "writing a summary",
        };
        Some(format!("{spinner} {what} · {}", waited(now.since(since))))
    }
}

/// In whole seconds: what is finer only flickers.
fn waited(millis: u64) -> String {
    if millis < 60_000 { format!("{} s", millis / 1000) } else { duration(millis) }
}
