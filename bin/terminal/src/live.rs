//! The rows below the finished lines: what streams and what runs, the open question, the queue, the composer and the
//! status line.

use std::time::Instant;

use leftfold_config::{KeyAction, StatusItem};
use leftfold_events::event::{Cost, Purpose, TodoStatus};
use leftfold_events::{Seq, SessionId, Time};
use leftfold_view::clean::{clean, clean_line, clip, visible_line};
use leftfold_view::{
    Call, FilesJob, GateRow, OpenQuestion, Question, Request, Retry, SessionView, SubagentStatus,
    words,
};
use ratatui::buffer::Buffer;
use ratatui::layout::{Position, Rect};
use ratatui::style::Modifier;
use ratatui::text::{Line, Span};
use unicode_width::UnicodeWidthStr;

use super::app::{App, Asked, Entry, is_editable};
use super::blocks::{span, tokens};
use super::calls::{CallBlock, elapsed, todo_line};
use super::choices::Pick;
use super::choosing::DIGITS;
use super::render;
use super::render::wrap::{clip as clip_spans, width_of};

const SPINNER: [&str; 8] = ["⠋", "⠙", "⠸", "⠴", "⠦", "⠧", "⠇", "⠏"];
const SPINNER_ASCII: [&str; 4] = ["|", "/", "-", "\\"];
/// Milliseconds for one frame of the spinner.
const FRAME: u64 = 250;
/// Milliseconds after which everything shows that it lives.
const NOTICED: u64 = 1000;
/// The rows of a terminal that has room for a blank line above the composer.
const SPACIOUS: usize = 12;
/// The running calls whose last lines of output are shown.
const WITH_OUTPUT: usize = 4;
/// The rows of reasoning that are shown while it streams.
const THOUGHTS: usize = 3;
/// The columns before the deepest subagents.
const DEEPEST_INDENT: usize = 16;
/// The most rows of each list.
const LONGEST_LIST: usize = 8;
/// The most rows of a list to choose from.
const LONGEST_PICKER: usize = 14;
/// The most rows of the composer, unless the terminal has few.
const LONGEST_DRAFT: usize = 12;

/// The keys of the question whether to resume an interrupted turn.
const RESUME: &str = "  resume it? [y]es  [n]o";
/// The keys that confirm an "always".
const CONFIRM: &str = "  [y] allows it from now on; any other key goes back";
const CONFIRM_OR_EDIT: &str =
    "  [y] allows it from now on, [e] edits it first; any other key goes back";
/// Between the parts of a hint in the composer, and of the status line.
const PART: &str = " · ";
/// Shown until keys count.
const QUIET: &str = "  …";

/// The rows, and the place of the cursor in them.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Live {
    pub(super) rows: Buffer,
    pub(super) cursor: Option<Position>,
}

impl App {
    /// The rows for a terminal with room for `height` of them.
    pub(super) fn live(&mut self, height: u16, now: Instant, time: Time) -> Live {
        let height = usize::from(height.max(1));
        let width = self.blocks.look.width;
        let (mut composer, row, column) = match self.picker_rows(height) {
            Some(list) => (list, 0, 0),
            None => self.composer_rows((height / 3).clamp(1, LONGEST_DRAFT)),
        };
        let keys = self.question_rows(now);
        let menu = self.menu_rows(height.saturating_sub(composer.len()));
        // the menu stands where the status does
        let status = if menu.is_empty() { self.status_row(time) } else { menu };
        let gap = usize::from(height >= SPACIOUS);
        let fixed = keys.len() + gap + composer.len() + status.len();
        let mut room = height.saturating_sub(fixed);
        let mut queue = self.queue_rows();
        queue.truncate(room);
        room -= queue.len();
        let mut work = self.work_rows(height, now, time);
        work.drain(..work.len().saturating_sub(room));
        let mut all = match self.asked {
            // no text of another one stands between a question and its keys
            Some(_) => [keys, work].concat(),
            None => work,
        };
        all.extend(std::iter::repeat_n(Line::default(), gap));
        all.extend(queue);
        let top = all.len() + row;
        all.append(&mut composer);
        all.extend(status);
        // a terminal with too few rows shows the last ones
        let cut = all.len().saturating_sub(height);
        all.drain(..cut);
        let size = |n: usize| u16::try_from(n).unwrap_or(u16::MAX);
        let area = Rect::new(0, 0, size(width), size(all.len()));
        let mut rows = Buffer::empty(area);
        for (y, line) in (0..).zip(&all) {
            rows.set_line(0, y, line, area.width);
        }
        let place = Position::new(size(column).min(area.width), size(top.saturating_sub(cut)));
        let cursor = match self.picker {
            Some(_) => None,
            // drawn, because the terminal's own stays where frames begin, so that they are right at any width
            None if self.is_busy() || self.resizes_until.is_some_and(|until| now < until) => {
                let last = area.width.saturating_sub(1);
                if let Some(cell) = rows.cell_mut((place.x.min(last), place.y)) {
                    cell.modifier.insert(Modifier::REVERSED);
                }
                None
            }
            None => Some(place),
        };
        Live { rows, cursor }
    }

    /// Shows whole what was shown in part last.
    pub(super) fn unfold(&mut self) {
        if self.asked.is_some() {
            self.hint = Some("Output is shown once the question is answered.".to_owned());
            return;
        }
        let key = self.blocks.look.key(KeyAction::Expand).unwrap_or_default();
        self.hint = match self.blocks.unfold() {
            None => Some("Nothing more is folded.".to_owned()),
            Some(true) => Some(format!("{key} again shows what was folded before.")),
            Some(false) => None,
        };
    }

    fn row(&self, style: ratatui::style::Style, text: &str) -> Line<'static> {
        Line::from(span(style, clip(text, self.blocks.look.width)))
    }

    /// The composer within this many rows, and the row and column of the cursor.
    fn composer_rows(&self, most: usize) -> (Vec<Line<'static>>, usize, usize) {
        let look = &self.blocks.look;
        let (theme, sign) = (&look.theme, self.sign());
        if let Some(search) = &self.search {
            let begin = format!("  search: {} ", search.query);
            let found = match search.found {
                None if !search.query.is_empty() => "no earlier prompt has it".to_owned(),
                _ => self.composer.text().lines().next().unwrap_or_default().to_owned(),
            };
            let column = begin.trim_end().width() + usize::from(search.query.is_empty());
            let line = Line::from(vec![span(theme.accent, begin), span(theme.text, clean(&found))]);
            return (vec![line], 0, column);
        }
        let (rows, (row, column)) = self.composer.rows(self.composer_width());
        let indent = sign.width();
        let first = (row + 1).saturating_sub(most);
        let mut shown = Vec::new();
        for (n, composed) in rows.iter().enumerate().skip(first).take(most) {
            let begin = if n == 0 { sign.to_owned() } else { " ".repeat(indent) };
            let mut spans = vec![span(theme.accent, begin)];
            spans.extend(composed.pieces.iter().map(|(text, is_fold)| {
                span(if *is_fold { theme.dim } else { theme.text }, text.clone())
            }));
            shown.push(Line::from(spans));
        }
        if self.composer.is_empty()
            && let Some(hint) = self.placeholder()
            && let Some(line) = shown.first_mut()
        {
            let room = look.width.saturating_sub(indent);
            // parts for which there is no room are left out
            let fits = |(end, _): &(usize, &str)| hint[..*end].width() <= room;
            let shorter = hint.rmatch_indices(PART).find(fits);
            let shown = match shorter.filter(|_| hint.width() > room) {
                Some((end, _)) => hint[..end].to_owned(),
                None => clip(&hint, room),
            };
            line.push_span(span(theme.dim, shown));
        }
        (shown, row - first, indent + column)
    }

    /// Shown in an empty composer.
    fn placeholder(&self) -> Option<String> {
        let key = |action| self.blocks.look.key(action).unwrap_or_default();
        let (send, back) = (key(KeyAction::Send), key(KeyAction::Interrupt));
        match self.entry {
            Entry::Because(_) => Some(format!("why not? The model reads it; {back} goes back")),
            Entry::Answer(_) => Some(format!("{send} answers; {back} goes back")),
            Entry::Always(_) => {
                Some(format!("the patterns to allow from now on; {back} goes back"))
            }
            Entry::Prompt if self.asked.is_some() => Some("a question waits".to_owned()),
            Entry::Prompt if self.is_working() => {
                let stop = if back.is_empty() { key(KeyAction::Cancel) } else { back };
                Some(format!("{stop} interrupts{PART}{send} queues a prompt"))
            }
            Entry::Prompt if self.handed.is_some() || self.job.is_some() => {
                Some(format!("{send} queues a prompt"))
            }
            Entry::Prompt if self.is_new() => Some("Describe a task, or ask a question".to_owned()),
            Entry::Prompt => None,
        }
    }

    fn status_row(&self, time: Time) -> Vec<Line<'static>> {
        let theme = &self.blocks.look.theme;
        if let Some(hint) = &self.hint {
            return self.blocks.look.note(theme.warning, hint);
        }
        let items = self.status_spans(time);
        if items.is_empty() {
            return Vec::new();
        }
        vec![Line::from(clip_spans(&items, self.blocks.look.width))]
    }

    /// The row with the keys of the question.
    fn question_rows(&self, now: Instant) -> Vec<Line<'static>> {
        if self.asked.is_none() {
            return Vec::new();
        }
        let look = &self.blocks.look;
        look.note(look.theme.heading, &self.keys_text(now))
    }

    /// The keys of the question, if they count.
    pub(super) fn keys_text(&self, now: Instant) -> String {
        if self.entry != Entry::Prompt {
            return String::new();
        }
        if !self.composer.is_empty() {
            let key = |action| self.blocks.look.key(action).unwrap_or_default();
            let (send, aside) = (key(KeyAction::Send), key(KeyAction::Interrupt));
            return format!(
                "  (keys do not answer while you write: {send} queues the text, {aside} puts it aside)"
            );
        }
        let text = match self.gate.row(now) {
            GateRow::Quiet | GateRow::Draft(_) => return QUIET.to_owned(),
            GateRow::Confirm => self.confirm_keys().to_owned(),
            GateRow::Keys => match self.asked {
                Some(Asked::Question(of)) => match self.blocks.open_question(of) {
                    Some(OpenQuestion { question: Some(asked), .. }) => {
                        choice_keys(asked, &self.choosing.places)
                    }
                    Some(open) => permission_keys(!open.always.is_empty()).to_owned(),
                    None => String::new(),
                },
                Some(Asked::Resume) => RESUME.to_owned(),
                None => String::new(),
            },
        };
        match (self.status.asked, self.waiting()) {
            (_, 0) | (0 | 1, 1) => text,
            (asked, waiting) => {
                let asked = asked.max(1);
                format!("{text}  ({asked} of {})", asked - 1 + waiting)
            }
        }
    }

    /// The keys that follow the one for "always".
    fn confirm_keys(&self) -> &'static str {
        let Some(Asked::Question(of)) = self.asked else { return CONFIRM };
        let open = self.blocks.open_question(of);
        if open.is_some_and(|open| is_editable(&open.always)) { CONFIRM_OR_EDIT } else { CONFIRM }
    }

    /// The list to choose from.
    fn picker_rows(&self, height: usize) -> Option<Vec<Line<'static>>> {
        let look = &self.blocks.look;
        let most = height.saturating_sub(1).clamp(1, LONGEST_PICKER);
        let size = |n: usize| u16::try_from(n).unwrap_or(u16::MAX);
        let picker = self.picker.as_ref()?;
        let Some(Pick::Theme(_, theme)) = picker.selected().map(|row| &row.value) else {
            return Some(picker.lines(size(look.width), size(most), &look.theme));
        };
        // a theme shows itself while it is selected
        let mut lines = picker.lines(size(look.width), size(most), theme);
        let room = height.saturating_sub(1 + lines.len());
        lines.extend(render::sample(look.columns(), theme).into_iter().take(room));
        Some(lines)
    }

    /// The rows of the menu.
    fn menu_rows(&self, most: usize) -> Vec<Line<'static>> {
        let look = &self.blocks.look;
        let size = |n: usize| u16::try_from(n).unwrap_or(u16::MAX);
        self.menu.lines(size(look.width), size(most), &look.theme, &|action| look.key(action))
    }

    /// The prompts that wait.
    fn queue_rows(&self) -> Vec<Line<'static>> {
        let theme = &self.blocks.look.theme;
        let mut rows = Vec::new();
        let first = |text: &str| {
            let mut lines = text.trim().lines();
            let first = clean_line(lines.next().unwrap_or_default());
            match lines.count() {
                0 => first,
                more => format!("{first} … {more} more lines"),
            }
        };
        if !self.aside.is_empty() {
            rows.push(self.row(theme.dim, &format!("  aside: {}", first(&self.aside))));
        }
        if let Some(handed) = self.handed.as_ref().filter(|text| !text.starts_with('/')) {
            rows.push(self.row(theme.dim, &format!("  sending: {}", first(handed))));
        }
        let hidden = self.queue.len().saturating_sub(LONGEST_LIST);
        let queued = self.queue.iter().take(LONGEST_LIST);
        rows.extend(queued.map(|text| self.row(theme.dim, &format!("  queued: {}", first(text)))));
        if hidden > 0 {
            rows.push(self.row(theme.dim, &format!("  and {hidden} more queued")));
        }
        rows
    }

    /// The text that streams and the calls that run, with their elapsed time.
    fn work_rows(&mut self, height: usize, now: Instant, time: Time) -> Vec<Line<'static>> {
        let mut rows = Vec::new();
        let mut below = Vec::new();
        if self.asked.is_none() {
            rows = self.blocks.growing();
            below = self.blocks.thoughts(THOUGHTS);
        }
        let theme = &self.blocks.look.theme;
        below.extend(self.running_rows(time));
        below.extend(self.todo_rows(height));
        if let Some(job) = self.job_text(now) {
            below.push(self.row(theme.dim, &format!("{} {job}", self.spinner(time))));
        }
        let is_apart = self.blocks.is_text() && height >= SPACIOUS;
        if is_apart && !rows.is_empty() && !below.is_empty() {
            rows.push(Line::default());
        }
        rows.extend(below);
        rows
    }

    fn spinner(&self, time: Time) -> &'static str {
        let frame = usize::try_from(time.millis() / FRAME).unwrap_or(0);
        match self.blocks.look.unicode {
            true => SPINNER[frame % SPINNER.len()],
            false => SPINNER_ASCII[frame % SPINNER_ASCII.len()],
        }
    }

    /// A row that says how long something has been under way: the last column of the text is the
    /// first to go where there is no room.
    fn progress_row(&self, what: &str, since: Time, time: Time) -> Line<'static> {
        let look = &self.blocks.look;
        let since = format!(" · {}", elapsed(time.since(since)));
        let what = clip(what, look.width.saturating_sub(since.width() + 2));
        let spinner = span(look.theme.accent, self.spinner(time));
        Line::from(vec![spinner, span(look.theme.dim, format!(" {what}{since}"))])
    }

    /// The rows of pending work: a retry, calls with their subagents, a request or a snapshot.
    fn running_rows(&self, time: Time) -> Vec<Line<'static>> {
        let theme = &self.blocks.look.theme;
        let Some(session) = self.blocks.transcript.root().filter(|_| self.is_working()) else {
            return Vec::new();
        };
        if let Some(Retry { attempt, until, error }) = &session.retry {
            let left = until.since(time).div_ceil(1000);
            let error = clean_line(error);
            let spinner = self.spinner(time);
            let text = format!("{spinner} retrying in {left} s, attempt {attempt}: {error}");
            return vec![self.row(theme.warning, &text)];
        }
        let mut rows = self.call_rows(session, time);
        rows.extend(self.subagent_rows(0, time));
        if !rows.is_empty() || self.asked.is_some() {
            return rows;
        }
        rows.extend(self.wait_row(session, time));
        rows
    }

    /// The running calls, with the last line of their output or their subagents below.
    fn call_rows(&self, session: &SessionView, time: Time) -> Vec<Line<'static>> {
        let look = &self.blocks.look;
        let running: Vec<_> = session.calls().filter(|call| call.is_running()).collect();
        let mut rows = Vec::new();
        for call in running.iter().take(LONGEST_LIST) {
            let block = CallBlock { call, look };
            rows.push(self.progress_row(&block.heading(), call.started.unwrap_or(time), time));
            let subagents = self.subagent_rows(call.seq, time);
            let tail = block.tail();
            if subagents.is_empty() && !tail.is_empty() && running.len() <= WITH_OUTPUT {
                let branch = look.sign("└ ", "- ");
                rows.push(self.row(look.theme.dim, &format!("  {branch}{tail}")));
            }
            rows.extend(subagents);
        }
        if let Some(hidden @ 1..) = running.len().checked_sub(LONGEST_LIST) {
            rows.push(self.row(look.theme.dim, &format!("  and {hidden} more")));
        }
        rows
    }

    /// The request that is waited for, or what else takes long.
    fn wait_row(&self, session: &SessionView, time: Time) -> Option<Line<'static>> {
        // a snapshot is noticed only where it takes long
        let is_long = |job: &FilesJob| job.restores || time.since(job.since) >= NOTICED;
        if let Some(FilesJob { since, restores, .. }) = session.files.filter(is_long) {
            let what = if restores { "restoring files" } else { "taking a snapshot of the files" };
            return Some(self.progress_row(what, since, time));
        }
        let Some(&Request { since, purpose, text_at, .. }) = session.request() else {
            let turn = session.turn.as_ref()?;
            return Some(self.progress_row("working", turn.at, time));
        };
        let written = self.blocks.written_tokens();
        let what = match (purpose, session.writing().last()) {
            (Purpose::Turn, Some(input)) => clean_line(&words::written(input)),
            (Purpose::Turn, None) if self.blocks.reasoning_tokens() > 0 => "thinking".to_owned(),
            // the text itself shows that it lives
            (Purpose::Turn, None) if text_at.is_some() && time.since(since) < NOTICED => {
                return None;
            }
            (Purpose::Turn, None) if text_at.is_some() => "answering".to_owned(),
            (Purpose::Turn, None) => "waiting for the model".to_owned(),
            (Purpose::Title, _) => "generating a title".to_owned(),
            (Purpose::SessionSummary, _) => "summing up the session".to_owned(),
            (Purpose::Compaction, _) => match session.context_used {
                Some(used) => format!("summarising {} tokens", tokens(used)),
                None => "writing a summary".to_owned(),
            },
        };
        let mut row = self.progress_row(&what, since, time);
        if written > 0 && session.writing().is_empty() {
            let so_far = format!(" · about {} tokens", tokens(written));
            row.push_span(span(self.blocks.look.theme.dim, so_far));
        }
        Some(row)
    }

    /// The running subagents of a call as a tree, one line each; for 0 those of no running call.
    fn subagent_rows(&self, under: Seq, time: Time) -> Vec<Line<'static>> {
        let transcript = &self.blocks.transcript;
        let Some(root) = transcript.root() else { return Vec::new() };
        let is_shown = |seq: Seq| root.call(seq).is_some_and(Call::is_running);
        let running: Vec<(SessionId, &SubagentStatus)> = transcript
            .subagents()
            .filter(|(_, status)| status.works)
            .filter(|(_, status)| match under {
                0 => !is_shown(status.under),
                under => status.under == under,
            })
            .collect();
        let mut rows = Vec::new();
        let is_running = |id: SessionId| running.iter().any(|(other, _)| *other == id);
        let tops = running.iter().filter(|(_, status)| !status.parent.is_some_and(is_running));
        let tops: Vec<_> = tops.collect();
        for (n, (id, status)) in tops.iter().enumerate() {
            let is_last = n + 1 == tops.len();
            self.subagent_branch(&running, (*id, status), ("  ", is_last), time, &mut rows);
        }
        let hidden = rows.len().saturating_sub(LONGEST_LIST);
        if hidden > 0 {
            rows.truncate(LONGEST_LIST);
            rows.push(
                self.row(self.blocks.look.theme.dim, &format!("  and {hidden} more subagents")),
            );
        }
        rows
    }

    /// One subagent, and below it those that it has started.
    fn subagent_branch(
        &self,
        running: &[(SessionId, &SubagentStatus)],
        (id, status): (SessionId, &SubagentStatus),
        (indent, is_last): (&str, bool),
        time: Time,
        rows: &mut Vec<Line<'static>>,
    ) {
        let look = &self.blocks.look;
        let calls = match status.calls {
            0 => "begins".to_owned(),
            calls => format!("{} · {}", words::counted(calls, "call"), status.last),
        };
        let turn = self.blocks.transcript.session(id).and_then(|view| view.turn.as_ref());
        let since = turn.map(|turn| format!(" · {}", elapsed(time.since(turn.at))));
        let since = since.unwrap_or_default();
        let branch = match is_last {
            true => look.sign("└ ", "- "),
            false => look.sign("├ ", "- "),
        };
        let room = look.width.saturating_sub(since.width());
        let said = clean_line(&format!("{}: {calls}", status.agent));
        let said = clip(&format!("{indent}{branch}{said}"), room);
        rows.push(self.row(look.theme.dim, &format!("{said}{since}")));
        // deeper ones are not indented further
        let below = match (is_last, indent.width() < DEEPEST_INDENT) {
            (_, false) => indent.to_owned(),
            (true, true) => format!("{indent}  "),
            (false, true) => format!("{indent}{}", look.sign("│ ", "  ")),
        };
        let own: Vec<_> =
            running.iter().filter(|(_, status)| status.parent == Some(id)).copied().collect();
        for (n, child) in own.iter().enumerate() {
            let is_last = n + 1 == own.len();
            self.subagent_branch(running, *child, (&below, is_last), time, rows);
        }
    }

    /// The list of tasks while a turn works on it.
    fn todo_rows(&self, height: usize) -> Vec<Line<'static>> {
        let look = &self.blocks.look;
        let theme = &look.theme;
        let Some(session) = self.blocks.transcript.root().filter(|_| self.is_working()) else {
            return Vec::new();
        };
        let is_open = |status| matches!(status, TodoStatus::Pending | TodoStatus::InProgress);
        if !session.todos.iter().any(|todo| is_open(todo.status)) {
            return Vec::new();
        }
        let done = session.todos.iter().filter(|todo| todo.status == TodoStatus::Completed).count();
        let current = session.todos.iter().position(|todo| todo.status == TodoStatus::InProgress);
        let most = (height / 4).clamp(1, LONGEST_LIST);
        let first = current.unwrap_or(done).saturating_sub(most / 2);
        let first = first.min(session.todos.len().saturating_sub(most));
        let mut rows =
            vec![self.row(theme.dim, &format!("  {done} of {} done", session.todos.len()))];
        for todo in session.todos.iter().skip(first).take(most) {
            rows.push(todo_line("  ", todo, look));
        }
        rows
    }
}

impl App {
    /// The status in one line; empty if there is nothing to say. Parts for which there is no room are left out, from
    /// the last one on.
    fn status_spans(&self, now: Time) -> Vec<Span<'static>> {
        let look = &self.blocks.look;
        let mut spans: Vec<Span<'static>> = Vec::new();
        for item in &self.status.items {
            let Some(text) = self.status_item(*item, now) else { continue };
            let separator = if spans.is_empty() { "" } else { PART };
            let used = width_of(&spans) + separator.width();
            if !spans.is_empty() && text.width() > look.width.saturating_sub(used) {
                break;
            }
            if !spans.is_empty() {
                spans.push(span(look.theme.dim, separator));
            }
            spans.push(span(self.status.style(*item, &look.theme), text));
        }
        spans
    }

    fn status_item(&self, item: StatusItem, now: Time) -> Option<String> {
        let status = &self.status;
        let root = self.blocks.transcript.root();
        let text = match item {
            StatusItem::Agent => clean_line(&status.agent),
            StatusItem::Model => match &status.variant {
                Some(variant) => clean_line(&format!("{} {variant}", status.model)),
                None => clean_line(&status.model),
            },
            StatusItem::Context => {
                let used = root?.context_used?;
                let size = root.map(|root| root.context_size).filter(|size| *size > 0);
                match used.saturating_mul(100).checked_div(size.unwrap_or(status.context)) {
                    Some(percent) => format!("{percent} % ({})", tokens(used)),
                    None => format!("{} tokens", tokens(used)),
                }
            }
            StatusItem::Cost => format!("${:.4}", self.cost()?),
            StatusItem::Time => {
                elapsed(now.since(self.blocks.turn().filter(|_| self.is_working())?))
            }
            StatusItem::Queue => match self.queue.len() {
                0 => return None,
                queued => format!("{queued} queued"),
            },
            StatusItem::Permissions => status.permissions.to_owned(),
            StatusItem::Branch => clean_line(status.branch.as_deref()?),
        };
        Some(text).filter(|text| !text.is_empty())
    }

    /// The cost of the session with its subagents; `None` without a price.
    pub(super) fn cost(&self) -> Option<Cost> {
        let root = self.blocks.transcript.root()?;
        let cost = root.cost + root.cost_of_subagents;
        let before = self.before.cost + self.before.cost_of_subagents;
        Some(cost + before).filter(|cost| *cost > 0.0)
    }

    /// How long the caller has been working on something, and on what.
    pub(super) fn job_text(&self, now: Instant) -> Option<String> {
        let (what, since) = self.job.as_ref()?;
        let millis = u64::try_from(now.saturating_duration_since(*since).as_millis()).ok()?;
        let servers = self.status.starting.join(", ");
        let servers = match self.status.starting.len() {
            0 => String::new(),
            1 => format!(" · starting the MCP server {}", clean_line(&servers)),
            _ => format!(" · starting the MCP servers {}", clean_line(&servers)),
        };
        (millis >= NOTICED).then(|| format!("{what} · {}{servers}", elapsed(millis)))
    }
}

/// The keys of a permission question.
fn permission_keys(always: bool) -> &'static str {
    match always {
        true => "  allow? [o]nce  [a]lways  [n]o  no [b]ecause…",
        false => "  allow? [o]nce  [n]o  no [b]ecause…",
    }
}

/// The line that shows the chosen options and the keys.
fn choice_keys(question: &Question, chosen: &[usize]) -> String {
    if !chosen.is_empty() {
        let numbers: Vec<_> = chosen.iter().map(|place| (place + 1).to_string()).collect();
        let answer = visible_line(&question.chosen(chosen));
        return format!("  [Enter] answers {}: {answer}", numbers.join(", "));
    }
    let count = question.options.len();
    let choose = match count {
        0 => "type an answer".to_owned(),
        1 => "[1] chooses, or type an answer".to_owned(),
        2..=DIGITS if question.multiple => format!("[1-{count}] choose, or type an answer"),
        2..=DIGITS => format!("[1-{count}] chooses, or type an answer"),
        _ => "type a number or an answer".to_owned(),
    };
    format!("  {choose}; [Ctrl-D] dismisses")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_keys_are_named() {
        let question = |options: usize, multiple: bool| -> Question {
            let options: Vec<_> =
                (1..=options).map(|n| json!({ "label": format!("l{n}") })).collect();
            let question = json!({ "question": "?", "options": options, "multiple": multiple });
            serde_json::from_value(question).unwrap()
        };
        for (options, multiple, chosen, expected) in [
            (0, false, &[][..], "  type an answer; [Ctrl-D] dismisses"),
            (3, false, &[], "  [1-3] chooses, or type an answer; [Ctrl-D] dismisses"),
            (3, true, &[], "  [1-3] choose, or type an answer; [Ctrl-D] dismisses"),
            (12, false, &[], "  type a number or an answer; [Ctrl-D] dismisses"),
            (3, false, &[1], "  [Enter] answers 2: l2"),
            (3, true, &[0, 2], "  [Enter] answers 1, 3: l1, l3"),
        ] {
            assert_eq!(choice_keys(&question(options, multiple), chosen), expected);
        }
    }
}
