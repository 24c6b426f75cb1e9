//! The state of a conversation on a terminal: a function of the session's events and of the keys. It does no I/O and
//! reads no clock: its caller performs the [`Action`]s, and draws what [`App::live`] and [`App::take`] answer.

use std::collections::{HashSet, VecDeque};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use leftfold_actors::QuestionReply;
use leftfold_config::KeyAction;
use leftfold_events::event::{Answer, Compaction, EndReason, Event, Model, Session, Tool, Turn};
use leftfold_events::{Envelope, Seq, SessionId};
use leftfold_runtime::client;
use leftfold_runtime::session_setup::SessionSetup;
use leftfold_tools::FilePreview;
use leftfold_view::clean::clean_line;
use leftfold_view::{
    AnswerGate, Change, ESCAPE, GateKind, GateOutcome, GateRow, OpenQuestion, QuestionId,
    SessionView,
};
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ratatui::text::Line;

use super::BY;
use super::attachments;
use super::blocks::Blocks;
use super::choices::{self, Choices, EarlierPrompt, Pick, PromptsFor};
use super::choosing::{ChoiceAction, Choosing};
use super::completion::{self, Context, Menu};
use super::composer::{Composer, Edit};
use super::entered::{self, Builtin, Needs, needs};
use super::file_search::FoundFiles;
use super::key_parser::Input;
use super::keys::{Batch, is_control, named, typed};
use super::look::Look;
use super::picker::{Picked, Picker};
use super::prompt_history::PromptHistory;
use super::status_line::StatusLine;
use super::theme::Background;

/// Two presses of Esc within this time go back to an earlier prompt, and two of Ctrl-C leave.
const DOUBLE_PRESS_TIMEOUT: Duration = Duration::from_secs(1);
/// The events that `/explain` completes to.
const EXPLAINABLE: usize = 100;
/// The keys that `?` shows in an empty composer.
const SUMMARY: [(KeyAction, &str); 10] = [
    (KeyAction::Send, "sends"),
    (KeyAction::Newline, "begins a line"),
    (KeyAction::Interrupt, "interrupts"),
    (KeyAction::Cancel, "clears, interrupts, leaves"),
    (KeyAction::RowUp, "earlier prompts"),
    (KeyAction::SearchPrompts, "searches them"),
    (KeyAction::NextAgent, "next agent"),
    (KeyAction::NextMode, "permissions"),
    (KeyAction::Expand, "shows folded output"),
    (KeyAction::Editor, "editor"),
];
const TYPED: [&str; 4] =
    ["/ commands", "@ files and agents", "! runs a command", "/help lists all keys"];
/// Shown below a question that was closed without an answer from here.
const CLOSED: &str = "  → closed: answered elsewhere, or no longer asked";

/// A question on the screen. Identifies it for the gate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Asked {
    Question(QuestionId),
    /// Whether to resume the interrupted turn.
    Resume,
}

/// The action of Enter on the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Entry {
    Prompt,
    /// It is the reason of a rejection.
    Because(QuestionId),
    /// It answers the question.
    Answer(QuestionId),
    /// It is what an "always" to the question allows, one pattern a line.
    Always(QuestionId),
}

/// A task for the caller.
#[derive(Clone, Debug)]
pub(super) enum Action {
    /// A prompt or a command. [`App::handed`] says what became of a prompt.
    Submit(String),
    Interrupt,
    Answer(QuestionId, QuestionReply),
    Resume,
    /// Show the earlier prompts of the session with [`App::choose_prompt`].
    ListPrompts,
    /// Take back the approval with this id.
    Forget(String),
    NextAgent,
    NextMode,
    /// Attach the file at this path, or else insert the pasted text that names it.
    Attach {
        path: PathBuf,
        pasted: String,
    },
    /// Attach the image of the clipboard.
    AttachClipboard,
    /// Edit the text in the user's editor.
    Edit(String),
    Suspend,
    Redraw,
    Leave(Leaving),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Leaving {
    Done,
    Interrupted,
}

/// The effect that a second press of the same key would have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Armed {
    Interrupted,
    Leave,
    EndOfInput,
    Back(Instant),
}

/// Search in the history.
#[derive(Debug, Default)]
pub(super) struct Search {
    pub(super) query: String,
    /// The index of the entry that was found.
    pub(super) found: Option<usize>,
    draft: String,
}

#[derive(Debug)]
pub(super) struct App {
    pub(super) blocks: Blocks,
    pub(super) composer: Composer,
    pub(super) entry: Entry,
    /// The prompts to send once the turn is over.
    pub(super) queue: VecDeque<String>,
    /// The prompt that was handed over and is not in the log yet.
    pub(super) handed: Option<String>,
    pub(super) asked: Option<Asked>,
    pub(super) gate: AnswerGate<Asked, Instant>,
    pub(super) choosing: Choosing,
    pub(super) status: StatusLine,
    /// Shown instead of the status until the next key.
    pub(super) hint: Option<String>,
    pub(super) search: Option<Search>,
    /// A list to choose from, instead of the composer.
    pub(super) picker: Option<Picker<Pick>>,
    /// The completions of the text before the cursor.
    pub(super) menu: Menu,
    /// All commands and mentions that the menu can offer.
    pub(super) choices: Choices,
    /// The files for the mention that is being written, as far as they are found.
    files: FoundFiles,
    /// The mention that is being written.
    mention: Option<String>,
    is_completing: bool,
    /// Files to search for, for [`App::files_found`].
    pub(super) wanted_files: Option<String>,
    /// The choices are stale.
    pub(super) wants_choices: bool,
    /// The screen has no rows for menus and lists.
    pub(super) is_plain: bool,
    /// The user's home folder, for pasted paths.
    pub(super) home: Option<PathBuf>,
    /// The caller's current work, and when it started.
    pub(super) job: Option<(String, Instant)>,
    /// A turn was interrupted and not resumed; the next prompt closes it.
    pub(super) unfinished: bool,
    /// The user does not want to resume it.
    declined: bool,
    /// Text that was put aside while a question is open.
    pub(super) aside: String,
    /// The past is being shown, up to this event.
    past: Option<Seq>,
    /// The session before the turn from which it is shown.
    pub(super) before: SessionView,
    history: PromptHistory,
    /// The entry of the history in the composer, and the draft that it replaced.
    browsing: Option<(usize, String)>,
    armed: Option<Armed>,
    /// The questions that were answered here, until the log says so.
    answered: HashSet<QuestionId>,
    /// Finished lines that wait until the question is closed.
    held: Vec<Line<'static>>,
    finished: Vec<Line<'static>>,
    /// The last event of the session that was applied.
    seen: Seq,
    /// The terminal's size may change again until then.
    pub(super) resizes_until: Option<Instant>,
    /// The terminal's background, once it has told it, until the theme follows it.
    pub(super) background: Option<Background>,
    /// A turn has ended or a question is asked, and nobody was told.
    pub(super) calls_for_attention: bool,
    /// The last events of the session that `/explain` can be asked about, the newest first.
    explainable: VecDeque<completion::Entry>,
    /// The prompt that was taken back and is in the composer, until a key is pressed.
    taken_back: Option<String>,
}

impl App {
    pub(super) fn new(look: Look, root: SessionId, history: PromptHistory) -> Self {
        Self {
            blocks: Blocks::new(look, root),
            composer: Composer::default(),
            entry: Entry::Prompt,
            queue: VecDeque::new(),
            handed: None,
            asked: None,
            gate: AnswerGate::default(),
            choosing: Choosing::default(),
            status: StatusLine::default(),
            hint: None,
            search: None,
            picker: None,
            menu: Menu::default(),
            choices: Choices::default(),
            files: FoundFiles::default(),
            mention: None,
            is_completing: false,
            wanted_files: None,
            wants_choices: false,
            is_plain: false,
            home: None,
            job: None,
            unfinished: false,
            declined: false,
            aside: String::new(),
            past: None,
            before: SessionView::default(),
            history,
            browsing: None,
            armed: None,
            answered: HashSet::new(),
            held: Vec::new(),
            finished: Vec::new(),
            seen: 0,
            resizes_until: None,
            background: None,
            calls_for_attention: false,
            explainable: VecDeque::new(),
            taken_back: None,
        }
    }

    /// Takes where the rules stand.
    pub(super) fn take_setup(&mut self, setup: &SessionSetup) {
        let (rules, sources) = setup.rules();
        self.blocks.transcript.set_rules(rules, sources);
        self.blocks.directory = format!("{}/", setup.turn_settings.directory.display());
    }

    /// Continues with another session. What the user writes stays.
    pub(super) fn switch(&mut self, root: SessionId) {
        self.finish();
        self.finished.append(&mut self.held);
        self.blocks = Blocks::new(self.blocks.look.clone(), root).following();
        (self.unfinished, self.declined, self.past, self.seen) = (false, false, None, 0);
        self.explainable.clear();
        self.before = SessionView::default();
        self.answered.clear();
    }

    /// Whether a turn is running, or a summary is written.
    pub(super) fn is_working(&self) -> bool {
        let summarises =
            || self.blocks.transcript.root().is_some_and(|root| root.compaction.is_some());
        let is_open = self.blocks.turn().is_some() || summarises();
        self.past.is_none() && is_open && !self.unfinished
    }

    /// Whether the session has no prompt yet.
    pub(super) fn is_new(&self) -> bool {
        self.blocks.transcript.root().is_none() && self.past.is_none()
    }

    /// Whether something runs that changes the screen by itself.
    pub(super) fn is_busy(&self) -> bool {
        self.is_working() || self.job.is_some()
    }

    /// Whether a prompt would be sent at once.
    fn takes_prompts(&self) -> bool {
        self.past.is_none()
            && !self.is_working()
            && self.handed.is_none()
            && self.job.is_none()
            && self.asked.is_none()
    }

    /// The last event that was applied.
    pub(super) fn seen(&self) -> Seq {
        self.seen
    }

    /// The events up to `head` are the past: the last turn is shown from them.
    pub(super) fn show_past(&mut self, head: Seq) {
        self.past = Some(head);
    }

    /// The lines that are finished. They go above the live part and never change.
    pub(super) fn take(&mut self) -> Vec<Line<'static>> {
        let mut lines = std::mem::take(&mut self.finished);
        let new = self.blocks.take();
        // the log is to say first what was answered
        match self.asked.is_some() || !self.answered.is_empty() {
            true => self.held.extend(new),
            false => lines.extend(new),
        }
        lines
    }

    pub(super) fn note(&mut self, text: &str) {
        let dim = self.blocks.look.theme.dim;
        self.blocks.note(dim, text);
    }

    pub(super) fn warn(&mut self, text: &str) {
        let style = self.blocks.look.theme.warning;
        self.blocks.note(style, text);
    }

    /// Applies an event.
    pub(super) fn observe(&mut self, event: &Envelope) {
        let own = self.blocks.transcript.is_root(event);
        // a session that was opened again is watched again, so events may repeat
        if own && event.seq <= self.seen {
            return;
        }
        if !self.answered.is_empty() {
            let before = self.blocks.take();
            self.held.extend(before);
        }
        let changes = self.blocks.apply(event);
        let session = self.blocks.transcript.session_of(event);
        let is_own_answer = |change: &Change| {
            matches!(change, Change::Answered { question, .. }
                if self.answered.contains(&(session, *question)))
        };
        if changes.iter().any(is_own_answer) {
            // it stands below its question, before the lines that waited for it
            self.finish();
        }
        if own {
            self.seen = event.seq;
            self.follow(event);
            if is_explainable(&event.event) {
                self.explainable.truncate(EXPLAINABLE - 1);
                self.explainable.push_front(choices::event(event));
            }
        }
        for change in changes {
            if let Change::TurnEnded { ended, .. } = &change {
                self.turn_ended(ended.reason);
            }
            if let Change::Prompted { by, .. } = &change
                && *by == self.blocks.me
            {
                self.handed = None;
            }
        }
        self.close_question();
    }

    fn follow(&mut self, event: &Envelope) {
        let resumed = matches!(
            event.event,
            Event::Session(Session::Resumed { .. } | Session::ResumedImported { .. })
        );
        if let Some(head) = self.past {
            if event.seq >= head {
                self.past = None;
            }
            return;
        }
        self.unfinished &= !resumed;
        if let Event::Turn(Turn::Prompted { .. }) = event.event {
            (self.unfinished, self.declined) = (false, false);
        }
        // another client has resumed the turn
        if resumed && self.asked == Some(Asked::Resume) {
            self.stop_asking();
        }
    }

    fn turn_ended(&mut self, reason: EndReason) {
        if self.past.is_some() {
            return;
        }
        self.calls_for_attention = true;
        self.armed = None;
        self.hint = None;
        let is_done = reason == EndReason::Completed
            || (self.blocks.is_shell && reason == EndReason::MaxSteps);
        if !is_done {
            self.take_back_queue();
        }
    }

    /// Puts all queued prompts back into the composer.
    fn take_back_queue(&mut self) {
        if self.queue.is_empty() {
            return;
        }
        let queue: Vec<String> = self.queue.drain(..).collect();
        self.composer.put_before(&queue.join("\n"));
    }

    /// Whether the caller should ask to resume the turn.
    pub(super) fn wants_to_resume(&self) -> bool {
        self.past.is_none() && self.unfinished && !self.declined && self.asked.is_none()
    }

    pub(super) fn ask_to_resume(&mut self, now: Instant) {
        self.warn("The last turn was interrupted.");
        self.finish();
        self.asked = Some(Asked::Resume);
        self.gate.show(Asked::Resume, GateKind::Consent { enter_is_no: false }, now);
    }

    /// The next question to show, if there is one and none is on the screen.
    pub(super) fn next_question(&self) -> Option<OpenQuestion> {
        if self.asked.is_some() || self.past.is_some() || self.unfinished {
            return None;
        }
        let mut open = self.blocks.transcript.open_questions();
        // an answer that was given here is shown before the next question
        if self.blocks.transcript.open_questions().any(|open| self.answered.contains(&open.id)) {
            return None;
        }
        open.next().cloned()
    }

    /// The number of open questions.
    pub(super) fn waiting(&self) -> usize {
        self.blocks.transcript.open_questions().count()
    }

    /// Shows a question, with the changes that its call would make to the files as they are. From here on nothing
    /// is finished between it and its keys.
    pub(super) fn ask(&mut self, question: &OpenQuestion, change: &[FilePreview], now: Instant) {
        self.blocks.question(question, change);
        self.finish();
        self.status.asked += 1;
        self.choosing = Choosing::default();
        self.entry = Entry::Prompt;
        self.picker = None;
        let asked = Asked::Question(question.id);
        self.asked = Some(asked);
        self.gate.close();
        self.gate.show(asked, kind_of(question), now);
        self.calls_for_attention = true;
    }

    /// Everything so far is finished.
    fn finish(&mut self) {
        self.blocks.group_ends();
        let new = self.blocks.take();
        self.finished.extend(new);
    }

    /// Removes the keys of a question that is no longer open, and says so.
    fn close_question(&mut self) {
        let open: Vec<QuestionId> =
            self.blocks.transcript.open_questions().map(|open| open.id).collect();
        self.answered.retain(|id| open.contains(id));
        if self.asked.is_none() && self.answered.is_empty() {
            self.finished.append(&mut self.held);
        }
        if open.is_empty() {
            self.status.asked = 0;
        }
        let Some(Asked::Question(asked)) = self.asked else { return };
        if open.contains(&asked) {
            return;
        }
        let dim = self.blocks.look.theme.dim;
        let note = self.blocks.look.note(dim, CLOSED);
        self.finished.extend(note);
        self.stop_asking();
    }

    /// No question is on the screen. The lines that waited for that are finished.
    fn stop_asking(&mut self) {
        self.put_question_away();
        self.finished.append(&mut self.held);
    }

    fn put_question_away(&mut self) {
        self.asked = None;
        self.entry = Entry::Prompt;
        self.gate.close();
        let text = self.gate.take_text();
        let aside = std::mem::take(&mut self.aside);
        self.composer.put_before(&joined(&aside, &text));
    }

    /// The next prompt of the queue, once it can be sent.
    pub(super) fn next_prompt(&mut self) -> Option<Action> {
        if !self.takes_prompts() || self.wants_to_resume() {
            return None;
        }
        let prompt = self.queue.pop_front()?;
        Some(self.submit(prompt))
    }

    fn submit(&mut self, text: String) -> Action {
        self.handed = Some(text.clone());
        Action::Submit(text)
    }

    /// The prompt was not sent: it is in the composer again. Or it was a command, and is done.
    pub(super) fn settle(&mut self, give_back: bool) {
        if let Some(text) = self.handed.take().filter(|_| give_back) {
            self.composer.put_before(&text);
        }
    }

    /// Text that was typed before the conversation began.
    pub(super) fn keep(&mut self, text: &str) {
        self.composer.put_before(text);
    }

    /// A prompt was taken back: it can be changed and sent again.
    pub(super) fn take_back(&mut self, text: &str) {
        self.taken_back = self.composer.is_empty().then(|| text.to_owned());
        self.composer.put_before(text);
    }

    /// A prompt was brought back.
    pub(super) fn bring_back(&mut self) {
        self.drop_taken_back();
    }

    /// Removes the prompt that was taken back from the composer, if nothing was changed. The history has it.
    fn drop_taken_back(&mut self) {
        if let Some(text) = self.taken_back.take()
            && text == self.composer.text()
        {
            let text = self.composer.take();
            self.remember_unsent(&text);
        }
    }

    /// Every text that was not sent. It is put into the history, so that the next conversation has it.
    pub(super) fn unsent(&mut self) -> Vec<String> {
        let handed = self.handed.take();
        let aside = Some(std::mem::take(&mut self.aside));
        let draft = Some(self.composer.take());
        let texts = handed.into_iter().chain(self.queue.drain(..)).chain(aside).chain(draft);
        texts.filter(|text| !text.trim().is_empty()).collect()
    }

    pub(super) fn remember(&mut self, text: &str) {
        let text = entered::kept(text);
        let stored = leftfold_runtime::redact_output::clean(text).into_owned();
        self.history.add(text, &stored);
    }

    pub(super) fn remember_unsent(&mut self, text: &str) {
        let text = entered::kept(text);
        let stored = leftfold_runtime::redact_output::clean(text).into_owned();
        self.history.add_unsent(text, &stored);
    }

    #[cfg(test)]
    pub(super) fn history_text(&self) -> String {
        self.history.entries().concat()
    }

    /// A question that needs no key: the user has just entered its command line.
    pub(super) fn answered_by_typing(&mut self, question: QuestionId) {
        self.answered.insert(question);
    }

    /// Handles the signal that Ctrl-C sends in other modes of the terminal.
    pub(super) fn interrupted(&mut self) -> Vec<Action> {
        let armed = self.armed.take();
        self.control_c(armed).into_iter().collect()
    }

    /// Shows the earlier prompts, to go back to one of them.
    pub(super) fn choose_prompt(&mut self, prompts: &[EarlierPrompt], wanted: PromptsFor) {
        if prompts.is_empty() {
            self.hint = Some("There is no earlier prompt.".to_owned());
        } else {
            self.pick(choices::prompts(prompts, wanted));
        }
    }

    /// Shows a list to choose from.
    pub(super) fn pick(&mut self, picker: Picker<Pick>) {
        match self.asked {
            Some(_) => self.hint = Some("Answer the question first.".to_owned()),
            None => self.picker = Some(picker),
        }
    }

    /// Takes what a search for files has found.
    pub(super) fn files_found(&mut self, found: FoundFiles) {
        self.files = found;
        self.update_menu();
    }

    /// Takes what there is to complete to.
    pub(super) fn take_choices(&mut self, choices: Choices) {
        self.choices = choices;
        self.update_menu();
    }

    /// Completes the text that is being written, unless it is not the user's own.
    fn update_menu(&mut self) {
        let is_off = self.is_plain
            || self.entry != Entry::Prompt
            || self.asked.is_some()
            || self.search.is_some()
            || self.picker.is_some()
            || self.browsing.is_some();
        let before = if is_off { "" } else { self.composer.before_cursor() };
        let context = Context::from_text(before);
        self.wants_choices |= context.is_some() && !self.is_completing;
        self.is_completing = context.is_some();
        let mention = match context {
            Some(Context::Mention(query)) => Some(query.to_owned()),
            Some(Context::Command(_) | Context::Argument { .. }) | None => None,
        };
        if mention != self.mention {
            self.wanted_files.clone_from(&mention);
            self.mention = mention;
        }
        if let Some(Context::Argument { command, .. }) = context {
            self.choices.set_arguments(Builtin::Explain, command, &self.explainable);
        }
        let Choices { commands, mentions, .. } = &self.choices;
        self.menu.update(before, commands, mentions, &self.files);
    }

    /// Takes the selected entry of the menu. Answers whether the text is a whole command now.
    fn complete(&mut self) -> bool {
        let Some(replacement) = self.menu.replacement() else { return false };
        self.composer.replace_before(replacement.range, &replacement.text);
        self.browsing = None;
        replacement.is_complete
    }

    /// Handles a key for the menu.
    fn menu_key(&mut self, key: KeyEvent) -> Option<Vec<Action>> {
        match key.code {
            KeyCode::Esc => self.menu.close(),
            KeyCode::Up => self.menu.move_by(-1),
            KeyCode::Down => self.menu.move_by(1),
            _ if is_control(key, 'p') => self.menu.move_by(-1),
            _ if is_control(key, 'n') => self.menu.move_by(1),
            KeyCode::Tab => {
                self.complete();
            }
            // before all commands are known, the text may be one of the others
            _ if self.action(key) == Some(KeyAction::Send)
                && self.menu.is_partial()
                && (self.choices.has_all || self.menu.is_moved()) =>
            {
                if self.complete() {
                    return Some(self.enter().into_iter().collect());
                }
            }
            _ => return None,
        }
        Some(Vec::new())
    }

    fn picker_key(&mut self, key: KeyEvent) -> Vec<Action> {
        let Some(picker) = &mut self.picker else { return Vec::new() };
        match picker.key(key) {
            Picked::Nothing
            | Picked::Chosen(Pick::Approval(_))
            | Picked::Removed(Pick::Run(_) | Pick::Prompt(_) | Pick::Fork(_) | Pick::Theme(..)) => {
                Vec::new()
            }
            Picked::Closed => {
                self.picker = None;
                Vec::new()
            }
            Picked::Chosen(Pick::Prompt(seq)) => {
                self.picker = Some(choices::steps_back(seq));
                Vec::new()
            }
            Picked::Chosen(Pick::Fork(seq)) => {
                self.picker = Some(choices::fork_at(seq));
                Vec::new()
            }
            Picked::Chosen(Pick::Run(line)) => {
                self.picker = None;
                self.send(line).into_iter().collect()
            }
            Picked::Chosen(Pick::Theme(name, _)) => {
                self.picker = None;
                self.send(format!("/theme {}", name.name())).into_iter().collect()
            }
            Picked::Removed(Pick::Approval(id)) => match self.job {
                // it is read already
                Some(_) => Vec::new(),
                None => vec![Action::Forget(id)],
            },
        }
    }

    /// Handles everything that was read at once.
    pub(super) fn input(&mut self, batch: Batch, now: Instant) -> Vec<Action> {
        let mut actions = Vec::new();
        let mut inputs = VecDeque::from(batch.inputs);
        while let Some(input) = inputs.pop_front() {
            match input {
                Input::Focus(focus) => self.status.focused = focus,
                Input::Background(background) => self.background = Some(background),
                Input::Paste(text) => actions.extend(self.paste(&text, batch.at)),
                Input::Key(key) => {
                    if self.gate_decides(key, now) {
                        // keys at once are text, so the gate gets them at once
                        let mut keys: String = typed(key).into_iter().collect();
                        while let Some(Input::Key(key)) = inputs.front()
                            && self.gate_decides(*key, now)
                        {
                            keys.extend(typed(*key));
                            inputs.pop_front();
                        }
                        self.hint = None;
                        actions.extend(self.gate_keys(&keys, batch.at, now));
                    } else {
                        actions.extend(self.key(key, batch.at, now));
                    }
                }
            }
            self.update_menu();
        }
        actions
    }

    /// Whether a key is for the question: nothing is being written, and the key is text or ends text.
    fn gate_decides(&self, key: KeyEvent, now: Instant) -> bool {
        if self.asked.is_none()
            || self.entry != Entry::Prompt
            || !self.composer.is_empty()
            || self.search.is_some()
            || self.picker.is_some()
        {
            return false;
        }
        let Some(c) = typed(key) else { return false };
        // Esc interrupts, unless it leads back from "always"
        c != ESCAPE || matches!(self.gate.row(now), GateRow::Confirm)
    }

    fn gate_keys(&mut self, keys: &str, at: Instant, now: Instant) -> Option<Action> {
        let was_confirming = self.gate.row(now) == GateRow::Confirm;
        let outcome = self.gate.press(keys, at);
        let asked = self.asked?;
        match (asked, outcome) {
            (_, GateOutcome::Redraw) => {
                let confirms = self.gate.row(now) == GateRow::Confirm;
                if confirms && !was_confirming {
                    self.show_always();
                }
                // the gate may still need a key that it has seen as the start of a word
                let is_single = was_confirming && keys.chars().count() == 1;
                if !confirms && !is_single {
                    let text = self.gate.take_text();
                    self.composer.insert(&text);
                } else if let GateRow::Draft(_) = self.gate.row(now) {
                    let text = self.gate.take_text();
                    self.composer.insert(&text);
                }
                None
            }
            (Asked::Question(of), GateOutcome::Answer(answer)) => {
                let by = BY.to_owned();
                self.answer(of, QuestionReply { answer, feedback: None, always: None, by })
            }
            (Asked::Question(of), GateOutcome::Because) => {
                self.entry = Entry::Because(of);
                None
            }
            (Asked::Question(of), GateOutcome::EditAlways) => {
                self.edit_always(of, at);
                None
            }
            (Asked::Question(of), GateOutcome::Words(words)) => {
                self.entry = Entry::Answer(of);
                self.composer.paste(&words);
                None
            }
            (Asked::Question(of), GateOutcome::Keys(keys)) => self.choose(of, &keys),
            (Asked::Resume, GateOutcome::Yes) => {
                self.stop_asking();
                self.unfinished = false;
                Some(Action::Resume)
            }
            (Asked::Resume, GateOutcome::No) => {
                self.stop_asking();
                self.declined = true;
                self.note("Your next prompt closes it.");
                None
            }
            (_, _) => None,
        }
    }

    fn choose(&mut self, of: QuestionId, keys: &str) -> Option<Action> {
        let question = self.blocks.open_question(of)?.question.clone()?;
        match self.choosing.press(&question, keys) {
            ChoiceAction::Chosen => None,
            ChoiceAction::Answer => {
                let answer = question.chosen(&self.choosing.places);
                self.answer(of, client::reply(Some(answer), BY))
            }
            ChoiceAction::Dismiss => self.answer(of, client::reply(None, BY)),
            ChoiceAction::Words(words) => {
                self.entry = Entry::Answer(of);
                self.composer.insert(&words);
                None
            }
        }
    }

    /// Lets the user write what an "always" allows, from the patterns that the question offers.
    fn edit_always(&mut self, of: QuestionId, at: Instant) {
        let offered = self.blocks.open_question(of).map(|open| open.always.clone());
        let offered = offered.unwrap_or_default();
        if !is_editable(&offered) {
            self.hint = Some("A pattern of several lines cannot be edited.".to_owned());
            return self.restart_gate(at);
        }
        let (send, back) = (self.key_of(KeyAction::Send), self.key_of(KeyAction::Interrupt));
        let hint =
            format!("{send} allows these from now on, one pattern a line; {back} goes back.");
        self.write_always(of, &offered, &hint);
    }

    fn write_always(&mut self, of: QuestionId, patterns: &[String], hint: &str) {
        self.entry = Entry::Always(of);
        self.composer.set(&patterns.join("\n"));
        self.hint = Some(hint.to_owned());
    }

    /// An "always" was refused: its patterns can be changed.
    pub(super) fn refused(&mut self, of: QuestionId, patterns: &[String], why: &str) {
        self.answered.remove(&of);
        let why = clean_line(why);
        if self.blocks.open_question(of).is_none() || self.asked.is_some() {
            self.composer.put_before(&patterns.join("\n"));
            return self.warn(&format!("  {why}"));
        }
        let draft = self.composer.take();
        self.aside = joined(&self.aside, &draft);
        self.asked = Some(Asked::Question(of));
        self.write_always(of, patterns, &why);
    }

    fn answer(&mut self, of: QuestionId, reply: QuestionReply) -> Option<Action> {
        self.answered.insert(of);
        self.put_question_away();
        Some(Action::Answer(of, reply))
    }

    /// Prints what an "always" would allow, between the question and the row that asks for the second key.
    fn show_always(&mut self) {
        let Some(Asked::Question(of)) = self.asked else { return };
        let Some(open) = self.blocks.open_question(of).cloned() else { return };
        let before = self.blocks.take();
        self.held.extend(before);
        self.blocks.always(&open);
        self.finish();
    }

    fn paste(&mut self, text: &str, at: Instant) -> Option<Action> {
        self.hint = None;
        if let Some(search) = &mut self.search {
            search.query.push_str(&leftfold_view::clean::clean_line(text));
            self.find(false);
            return None;
        }
        if let Some(picker) = &mut self.picker {
            picker.paste(text);
            return None;
        }
        let is_draft = self.entry == Entry::Prompt && self.asked.is_some();
        if is_draft && self.composer.is_empty() {
            // it may begin an answer in words; it never answers by itself
            if let Some(Asked::Question(of)) = self.asked
                && let GateOutcome::Words(words) = self.gate.paste(text, at)
            {
                self.entry = Entry::Answer(of);
                self.composer.paste(&words);
                return None;
            }
            drop(self.gate.take_text());
            self.restart_gate(at);
        }
        if self.entry == Entry::Prompt
            && self.asked.is_none()
            && let Some(path) = attachments::path_of(text, self.home.as_deref())
        {
            return Some(Action::Attach { path, pasted: text.to_owned() });
        }
        self.insert_pasted(text);
        None
    }

    pub(super) fn insert_pasted(&mut self, text: &str) {
        self.browsing = None;
        self.composer.paste(text);
    }

    /// Inserts the marker of a file that goes with the text.
    pub(super) fn insert_marker(&mut self, marker: &str) {
        self.browsing = None;
        self.composer.insert(&format!("{marker} "));
    }

    /// The question takes keys again only after a while.
    fn restart_gate(&mut self, at: Instant) {
        let Some(asked) = self.asked else { return };
        let kind = match asked {
            Asked::Resume => Some(GateKind::Consent { enter_is_no: false }),
            Asked::Question(of) => self.blocks.open_question(of).map(kind_of),
        };
        self.gate.close();
        if let Some(kind) = kind {
            self.gate.show(asked, kind, at);
        }
    }

    /// The action of a key, which depends on whether there is text.
    fn action(&self, key: KeyEvent) -> Option<KeyAction> {
        self.blocks.look.keys.action(named(key)?, self.composer.is_empty())
    }

    /// The keys that people look for first.
    fn key_summary(&self) -> String {
        let named = SUMMARY.iter().filter_map(|(action, what)| {
            Some(format!("{} {what}", self.blocks.look.key(*action)?))
        });
        let typed = TYPED.iter().map(|text| (*text).to_owned());
        named.chain(typed).collect::<Vec<_>>().join(" · ")
    }

    /// The first key of an action, as people write it; "" if it has none.
    fn key_of(&self, action: KeyAction) -> String {
        self.blocks.look.key(action).unwrap_or_default()
    }

    fn key(&mut self, key: KeyEvent, at: Instant, now: Instant) -> Vec<Action> {
        if self.search.is_some() {
            return self.search_key(key);
        }
        if self.picker.is_some() {
            return self.picker_key(key);
        }
        if self.menu.is_open()
            && let Some(actions) = self.menu_key(key)
        {
            return actions;
        }
        // a command such as `/redo` is not written after the prompt
        match typed(key) {
            Some('/') => self.drop_taken_back(),
            Some(_) | None => self.taken_back = None,
        }
        let had_text = !self.composer.is_empty();
        self.hint = None;
        let armed = self.armed.take();
        let action = self.action(key);
        let actions = match action {
            Some(KeyAction::Cancel) => self.control_c(armed),
            Some(KeyAction::Interrupt) => self.escape(armed, now),
            Some(KeyAction::Leave) => self.control_d(armed),
            Some(KeyAction::Send) => self.enter(),
            Some(KeyAction::NextAgent) if self.takes_choices() => Some(Action::NextAgent),
            Some(KeyAction::NextMode) if self.entry == Entry::Prompt => Some(Action::NextMode),
            Some(KeyAction::Editor) => Some(Action::Edit(self.composer.text())),
            Some(KeyAction::Redraw) => Some(Action::Redraw),
            Some(KeyAction::PasteImage) if self.entry == Entry::Prompt => {
                Some(Action::AttachClipboard)
            }
            Some(KeyAction::Expand) => {
                self.unfold();
                None
            }
            Some(KeyAction::Suspend) => Some(Action::Suspend),
            Some(KeyAction::SearchPrompts) => {
                let draft = self.composer.text();
                self.search = Some(Search { draft, ..Search::default() });
                None
            }
            Some(KeyAction::PreviousPrompt) => self.earlier(),
            Some(KeyAction::NextPrompt) => self.later(),
            action => match self.composer.key(key, action, self.composer_width()) {
                Edit::Above => self.earlier(),
                Edit::Below => self.later(),
                Edit::Done => {
                    if !matches!(action, Some(KeyAction::RowUp | KeyAction::RowDown)) {
                        self.browsing = None;
                    }
                    None
                }
                Edit::Unknown => None,
            },
        };
        if !had_text && self.composer.text() == "?" && self.entry == Entry::Prompt {
            self.hint = Some(self.key_summary());
        }
        // a draft is over: the question begins anew
        if had_text && self.composer.is_empty() && self.entry == Entry::Prompt {
            self.restart_gate(at);
        }
        actions.into_iter().collect()
    }

    /// Whether a key may choose for the next prompt, because nothing is written.
    fn takes_choices(&self) -> bool {
        self.entry == Entry::Prompt && self.asked.is_none() && self.composer.is_empty()
    }

    /// The columns for the text beside its sign.
    pub(super) fn composer_width(&self) -> usize {
        self.blocks.look.width.saturating_sub(self.sign().chars().count()).max(2)
    }

    /// The sign before the text.
    pub(super) fn sign(&self) -> &'static str {
        match self.entry {
            Entry::Prompt => self.blocks.look.sign("› ", "> "),
            Entry::Because(_) => "  because: ",
            Entry::Answer(_) => "  answer: ",
            Entry::Always(_) => "  allow: ",
        }
    }

    fn control_c(&mut self, armed: Option<Armed>) -> Option<Action> {
        if !self.composer.is_empty() {
            let text = self.composer.take();
            self.remember_unsent(&text);
            self.browsing = None;
            let next = if self.is_working() { "interrupts" } else { "leaves" };
            let (up, key) = (self.key_of(KeyAction::RowUp), self.key_of(KeyAction::Cancel));
            self.hint = Some(format!("Cleared; {up} brings it back. {key} again {next}."));
            return None;
        }
        if self.is_working() {
            if armed == Some(Armed::Interrupted) {
                return Some(Action::Leave(Leaving::Interrupted));
            }
            self.armed = Some(Armed::Interrupted);
            let key = self.key_of(KeyAction::Cancel);
            self.hint = Some(format!("Interrupting. {key} again leaves."));
            return Some(Action::Interrupt);
        }
        if armed == Some(Armed::Leave) || self.asked.is_some() || self.past.is_some() {
            return Some(Action::Leave(Leaving::Done));
        }
        self.armed = Some(Armed::Leave);
        let again = self.key_of(KeyAction::Cancel);
        let leave = self.blocks.look.key(KeyAction::Leave);
        let or = leave.map(|key| format!(" or {key}")).unwrap_or_default();
        self.hint = Some(format!("To leave, press {again} again{or}, or type /exit."));
        None
    }

    fn control_d(&mut self, armed: Option<Armed>) -> Option<Action> {
        if self.entry != Entry::Prompt {
            self.leave_entry();
            return None;
        }
        if self.is_working() && armed != Some(Armed::EndOfInput) {
            self.armed = Some(Armed::EndOfInput);
            let key = self.key_of(KeyAction::Leave);
            self.hint =
                Some(format!("A turn is running. {key} again leaves; the turn can be resumed."));
            return None;
        }
        Some(Action::Leave(Leaving::Done))
    }

    fn escape(&mut self, armed: Option<Armed>, now: Instant) -> Option<Action> {
        if self.entry != Entry::Prompt {
            self.leave_entry();
            return None;
        }
        if self.asked.is_some() && !self.composer.is_empty() {
            let text = self.composer.take();
            self.aside = joined(&self.aside, &text);
            return None;
        }
        if self.composer.is_empty()
            && let Some(prompt) = self.queue.pop_back()
        {
            self.composer.set(&prompt);
            return None;
        }
        if self.is_working() {
            if self.asked.is_some() && self.gate.row(now) == GateRow::Quiet {
                return None;
            }
            self.hint = Some("Interrupting.".to_owned());
            return Some(Action::Interrupt);
        }
        if !self.composer.is_empty() || self.asked.is_some() || self.past.is_some() {
            return None;
        }
        if let Some(Armed::Back(since)) = armed
            && now.saturating_duration_since(since) <= DOUBLE_PRESS_TIMEOUT
        {
            return Some(Action::ListPrompts);
        }
        self.armed = Some(Armed::Back(now));
        let key = self.key_of(KeyAction::Interrupt);
        self.hint = Some(format!("{key} again goes back to an earlier prompt."));
        None
    }

    /// Leaves the question open. The text stays as a draft.
    fn leave_entry(&mut self) {
        let offered = match self.entry {
            Entry::Always(of) => self.blocks.open_question(of).map(|open| open.always.join("\n")),
            Entry::Prompt | Entry::Because(_) | Entry::Answer(_) => None,
        };
        self.entry = Entry::Prompt;
        let text = self.composer.take();
        // patterns that the user has not changed are no text of the user
        if offered.as_ref() != Some(&text) {
            self.aside = joined(&self.aside, &text);
        }
        self.restart_gate(Instant::now());
    }

    fn enter(&mut self) -> Option<Action> {
        if self.composer.continues_line() {
            return None;
        }
        if self.composer.is_blank() {
            if self.entry != Entry::Prompt {
                self.leave_entry();
            }
            return None;
        }
        self.browsing = None;
        match self.entry {
            Entry::Because(of) => {
                let why = self.composer.take().trim().to_owned();
                let (answer, by) = (Answer::Reject, BY.to_owned());
                let (feedback, always) = (Some(why), None);
                self.answer(of, QuestionReply { answer, feedback, always, by })
            }
            Entry::Always(of) => {
                let offered = self.blocks.open_question(of)?.always.clone();
                let text = self.composer.take();
                let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
                let patterns: Vec<String> = lines.map(str::to_owned).collect();
                let always = Some(patterns).filter(|patterns| *patterns != offered);
                let (answer, by) = (Answer::Always, BY.to_owned());
                self.answer(of, QuestionReply { answer, feedback: None, always, by })
            }
            Entry::Answer(of) => {
                let text = self.composer.text();
                let asked = self.blocks.open_question(of)?.question.clone()?;
                let answer = asked.parse_answer(&text)?;
                drop(self.composer.take());
                self.answer(of, client::reply(Some(answer), BY))
            }
            Entry::Prompt => {
                let text = self.composer.take();
                self.remember(&text);
                self.send(text)
            }
        }
    }

    /// Sends a prompt or carries out a command, or queues it.
    fn send(&mut self, text: String) -> Option<Action> {
        if self.takes_prompts() && self.queue.is_empty() {
            return Some(self.submit(text));
        }
        let can = match needs(&text) {
            Needs::Nothing => true,
            Needs::Job => self.handed.is_none() && self.job.is_none() && self.asked.is_none(),
            Needs::Rest => false,
        };
        if can {
            return Some(Action::Submit(text));
        }
        self.queue.push_back(text);
        None
    }

    /// The last queued prompt, or an earlier entry of the history.
    fn earlier(&mut self) -> Option<Action> {
        // beside a question, a cursor key must not begin a draft
        if self.entry != Entry::Prompt || (self.asked.is_some() && self.composer.is_empty()) {
            return None;
        }
        if self.composer.is_empty()
            && self.browsing.is_none()
            && let Some(prompt) = self.queue.pop_back()
        {
            self.composer.set(&prompt);
            return None;
        }
        let entries = self.history.entries();
        let (place, draft) = match self.browsing.take() {
            Some((place, draft)) => (place.checked_sub(1), draft),
            None => (entries.len().checked_sub(1), self.composer.text()),
        };
        match place {
            Some(place) => {
                self.composer.set(&entries[place]);
                self.browsing = Some((place, draft));
            }
            None if !entries.is_empty() => self.browsing = Some((0, draft)),
            None => {}
        }
        None
    }

    fn later(&mut self) -> Option<Action> {
        let (place, draft) = self.browsing.take()?;
        match self.history.entries().get(place + 1) {
            Some(entry) => {
                self.composer.set(entry);
                self.browsing = Some((place + 1, draft));
            }
            None => self.composer.set(&draft),
        }
        None
    }

    fn search_key(&mut self, key: KeyEvent) -> Vec<Action> {
        let action = self.action(key);
        let Some(search) = &mut self.search else { return Vec::new() };
        match key.code {
            KeyCode::Esc => self.end_search(false),
            _ if is_control(key, 'c') || is_control(key, 'g') => self.end_search(false),
            _ if action == Some(KeyAction::SearchPrompts) => self.find(true),
            KeyCode::Backspace => {
                search.query.pop();
                search.found = None;
                self.find(false);
            }
            KeyCode::Char(c)
                if !key.modifiers.intersects(KeyModifiers::CONTROL | KeyModifiers::ALT) =>
            {
                search.query.push(c);
                self.find(false);
            }
            _ => self.end_search(true),
        }
        Vec::new()
    }

    /// Finds the last entry with the query; with `older` one before the entry that was found.
    fn find(&mut self, older: bool) {
        let Some(search) = &mut self.search else { return };
        let entries = self.history.entries();
        let end = match search.found {
            Some(found) if older => found,
            Some(found) => found + 1,
            None => entries.len(),
        };
        let query = search.query.to_lowercase();
        let mut before = entries.iter().enumerate().take(end).rev();
        let found = before.find(|(_, entry)| entry.to_lowercase().contains(&query));
        match found {
            Some((place, entry)) => {
                search.found = Some(place);
                self.composer.set(entry);
            }
            None if older => {}
            None => search.found = None,
        }
    }

    fn end_search(&mut self, take: bool) {
        let Some(search) = self.search.take() else { return };
        if !take || search.found.is_none() {
            self.composer.set(&search.draft);
        }
    }

    /// The text of the editor replaces the draft.
    pub(super) fn edited(&mut self, text: &str) {
        self.composer.set(text.strip_suffix('\n').unwrap_or(text));
    }

    /// When something on the screen changes by itself, at the latest.
    pub(super) fn alarm(&self, now: Instant) -> Option<Instant> {
        let counts = self.gate.counts_from(now).filter(|_| self.composer.is_empty());
        let settles = self.resizes_until.filter(|until| *until > now);
        counts.into_iter().chain(settles).min()
    }
}

/// Whether patterns can be written one a line.
pub(super) fn is_editable(patterns: &[String]) -> bool {
    !patterns.iter().any(|pattern| pattern.contains(char::is_control))
}

fn kind_of(question: &OpenQuestion) -> GateKind {
    match question.question {
        Some(_) => GateKind::Choice,
        None => GateKind::Permission { always: !question.always.is_empty() },
    }
}

/// Whether an event says something that people ask about.
fn is_explainable(event: &Event) -> bool {
    matches!(
        event,
        Event::Turn(Turn::Prompted { .. } | Turn::Ended(_))
            | Event::Model(Model::Requested { .. } | Model::Failed { .. })
            | Event::Tool(Tool::Called { .. } | Tool::Finished(_) | Tool::Lost { .. })
            | Event::Permission(_)
            | Event::Compaction(Compaction::Finished { .. })
            | Event::Subagent(_)
    )
}

/// Two texts with a line end between them.
fn joined(first: &str, second: &str) -> String {
    let texts = [first, second].into_iter().filter(|text| !text.trim().is_empty());
    texts.collect::<Vec<_>>().join("\n")
}
