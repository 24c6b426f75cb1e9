//! Reads lines from the user, with history, on a thread of its own because reading blocks.

use std::borrow::Cow;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc as blocking;

use rustyline::completion::Completer;
use rustyline::config::Configurer;
use rustyline::error::ReadlineError;
use rustyline::highlight::Highlighter;
use rustyline::hint::Hinter;
use rustyline::history::FileHistory;
use rustyline::validate::{ValidationContext, ValidationResult, Validator};
use rustyline::{
    Cmd, ConditionalEventHandler, Config, Editor, Event, EventContext, EventHandler,
    ExternalPrinter, Helper, KeyCode, KeyEvent, Modifiers, RepeatCount,
};
use tokio::sync::mpsc;

use super::screen;
use super::style::{Face, Style, guarded};
use leftfold_runtime::redact_output;

/// The number of prompts in the history.
const HISTORY: usize = 1000;

/// The result of reading a line.
#[derive(Debug)]
pub(super) enum Typed {
    Line(String),
    /// Ctrl-C; `empty` says whether the line was empty.
    Interrupted {
        empty: bool,
    },
    /// Ctrl-D in an empty line.
    End,
    /// The terminal cannot be read any more.
    Gone(String),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum LineKind {
    /// A prompt, with this text in the line already.
    Prompt(String),
    /// The reason of a rejection.
    Reason,
    /// The answer to a question, with this text in the line already.
    Answer(String),
}

impl LineKind {
    fn sign(&self) -> &'static str {
        match self {
            Self::Prompt(_) => "› ",
            Self::Reason => "  because: ",
            Self::Answer(_) => "  answer: ",
        }
    }

    /// The text in the line at the start.
    fn prefix(&self) -> &str {
        match self {
            Self::Reason => "",
            Self::Prompt(prefix) | Self::Answer(prefix) => prefix,
        }
    }
}

/// Requests lines, one after the other.
pub(super) struct Input {
    wanted: blocking::Sender<LineKind>,
    printer: Option<Box<dyn ExternalPrinter + Send>>,
}

impl Input {
    /// Starts the thread. Lines go to `typed`; prompts are kept in `history`.
    pub(super) fn start(
        history: PathBuf,
        style: Style,
        typed: mpsc::UnboundedSender<Typed>,
    ) -> anyhow::Result<Self> {
        let empty = Arc::new(AtomicBool::new(false));
        let mut editor = editor(style, Arc::clone(&empty))?;
        let (wanted, asked) = blocking::channel();
        // Without line editing, nothing can be printed above the line.
        let printer = editor.create_external_printer().ok();
        let mut lines = Lines { editor, history, empty };
        std::thread::Builder::new().name("input".to_owned()).spawn(move || {
            lines.load();
            while let Ok(read) = asked.recv() {
                if typed.send(lines.read(&read)).is_err() {
                    return;
                }
            }
        })?;
        Ok(Self { wanted, printer: printer.map(|printer| Box::new(printer) as _) })
    }

    pub(super) fn read(&self, what: LineKind) {
        // The thread lives as long as this value.
        let _ = self.wanted.send(what);
    }

    /// Prints the complete lines of `text` above the line that is being typed, and removes them
    /// from `text`.
    pub(super) fn print_above(&mut self, text: &mut String, allowed: bool) {
        let Some(printer) = self.printer.as_mut().filter(|_| allowed) else { return };
        let Some(end) = text.rfind('\n') else { return };
        let lines: String = text.drain(..=end).collect();
        if let Err(error) = printer.print(guarded(&lines).into_owned()) {
            tracing::debug!("cannot print above the input line: {error}");
        }
    }

    /// Undoes the terminal settings of reading a line, if the reading thread cannot.
    pub(super) fn abandon(&self) {
        if self.printer.is_some() {
            screen::mark_pastes(false);
        }
    }
}

struct Lines {
    editor: Editor<LineHelper, FileHistory>,
    history: PathBuf,
    /// Whether the last Ctrl-C met an empty line.
    empty: Arc<AtomicBool>,
}

impl Lines {
    fn load(&mut self) {
        if let Err(error) = self.editor.load_history(&self.history) {
            tracing::debug!("cannot read the history {}: {error}", self.history.display());
        }
    }

    fn read(&mut self, what: &LineKind) -> Typed {
        self.empty.store(true, Ordering::Release);
        match self.editor.readline_with_initial(what.sign(), (what.prefix(), "")) {
            Ok(line) => {
                let line = line.replace("\\\n", "\n");
                if matches!(what, LineKind::Prompt(_)) && !line.trim().is_empty() {
                    self.remember(&line);
                }
                Typed::Line(line)
            }
            Err(ReadlineError::Interrupted) => {
                Typed::Interrupted { empty: self.empty.load(Ordering::Acquire) }
            }
            Err(ReadlineError::Eof) => Typed::End,
            Err(error) => Typed::Gone(error.to_string()),
        }
    }

    fn remember(&mut self, line: &str) {
        let kept = self
            .editor
            .add_history_entry(&*redact_output::clean(line))
            .and_then(|new| if new { self.editor.append_history(&self.history) } else { Ok(()) });
        if let Err(error) = kept {
            tracing::warn!("cannot save the history in {}: {error}", self.history.display());
        }
    }
}

fn editor(
    style: Style,
    empty: Arc<AtomicBool>,
) -> rustyline::Result<Editor<LineHelper, FileHistory>> {
    let config = Config::builder()
        .max_history_size(HISTORY)?
        .history_ignore_dups(true)?
        .history_ignore_space(true)
        .tab_stop(4)
        .build();
    let history = FileHistory::with_config(&config);
    let mut editor = Editor::with_history(config, history)?;
    editor.set_helper(Some(LineHelper { style }));
    editor.set_auto_add_history(false);
    let interrupt = EventHandler::Conditional(Box::new(Interrupt { empty }));
    editor.bind_sequence(KeyEvent::ctrl('C'), interrupt);
    let newline = KeyEvent(KeyCode::Enter, Modifiers::ALT);
    editor.bind_sequence(newline, EventHandler::Simple(Cmd::Newline));
    Ok(editor)
}

/// Notes whether Ctrl-C met an empty line, and leaves the rest to the default handler.
struct Interrupt {
    empty: Arc<AtomicBool>,
}

impl ConditionalEventHandler for Interrupt {
    fn handle(&self, _: &Event, _: RepeatCount, _: bool, ctx: &EventContext<'_>) -> Option<Cmd> {
        self.empty.store(ctx.line().is_empty(), Ordering::Release);
        None
    }
}

/// The look of lines, and the rule for complete ones.
struct LineHelper {
    style: Style,
}

impl Helper for LineHelper {}

impl Completer for LineHelper {
    type Candidate = String;
}

impl Hinter for LineHelper {
    type Hint = String;
}

impl Highlighter for LineHelper {
    fn highlight_prompt<'b, 's: 'b, 'p: 'b>(&'s self, prompt: &'p str, _: bool) -> Cow<'b, str> {
        Cow::Owned(self.style.paint(Face::CYAN, prompt))
    }
}

impl Validator for LineHelper {
    /// A backslash at the end of a line continues it on the next one.
    fn validate(&self, ctx: &mut ValidationContext<'_>) -> rustyline::Result<ValidationResult> {
        Ok(if ctx.input().ends_with('\\') {
            ValidationResult::Incomplete
        } else {
            ValidationResult::Valid(None)
        })
    }
}
