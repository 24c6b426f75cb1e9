//! Shows questions one after the other, and answers them with keys. `AnswerGate` decides which keys count.

use std::time::Instant;

use leftfold_actors::{Answered, QuestionReply};

use super::choosing::Choosing;
use super::conversation::{Conversation, ExitReason, GateId, Stage, is_gone};
use super::input::LineKind;
use super::keys::Pressed;
use super::question;
use super::style::Face;
use leftfold_view::{GateKind, GateOutcome, GateRow, OpenQuestion, QuestionId};

/// Shown below a question that was closed without an answer from here.
const CLOSED: &str = "  → closed: answered elsewhere, or no longer asked";

impl Conversation {
    /// Shows the first open question. While one is on the screen, no other is.
    pub(super) fn update_question(&mut self) -> anyhow::Result<()> {
        let pending: Vec<OpenQuestion> =
            self.renderer.transcript.open_questions().cloned().collect();
        if self.stage == Stage::Prompt {
            let mut open = pending.iter();
            return match open.find(|question| !self.answered.contains(&question.id)) {
                Some(question) => self.announce(question),
                None => Ok(()),
            };
        }
        // An answer that was given here is shown before the next question.
        let is_settled = !pending.iter().any(|question| self.answered.contains(&question.id));
        let Stage::Turn { running: true } = self.stage else { return Ok(()) };
        let Some(question) = pending.first().filter(|_| is_settled) else { return Ok(()) };
        let text = self.question_text(question);
        self.choosing = Choosing::default();
        let kind = match question.question {
            Some(_) => GateKind::Choice,
            None => GateKind::Permission { always: !question.always.is_empty() },
        };
        self.ask(Stage::Question(question.id), &text, kind)
    }

    /// Removes the keys of a question that is no longer open, and says so. The text that waited for
    /// its end follows.
    pub(super) fn close_question(&mut self) -> anyhow::Result<()> {
        let Stage::Question(asked) = self.stage else { return Ok(()) };
        let mut open = self.renderer.transcript.open_questions();
        if open.any(|question| question.id == asked) {
            return Ok(());
        }
        drop(open);
        self.stop_asking();
        let note = self.renderer.rows(Face::DIM, CLOSED);
        self.screen.paint(&format!("{note}\n"), 0, Vec::new())?;
        Ok(())
    }

    /// Shows a question of another client's turn above the line that is being typed.
    fn announce(&mut self, question: &OpenQuestion) -> anyhow::Result<()> {
        if self.announced.insert(question.id) {
            let mut text = self.question_text(question);
            text += &self.renderer.note(Face::DIM, question::ANNOUNCED);
            self.paint(&text)?;
        }
        Ok(())
    }

    /// The text of a question, with the change that its call would make to the current files.
    fn question_text(&mut self, question: &OpenQuestion) -> String {
        let change = question.change.as_ref();
        let files = change.and_then(|call| leftfold_tools::preview(call, &self.setup.workspace));
        self.renderer.question(question, &files.unwrap_or_default())
    }

    pub(super) fn ask_to_resume(&mut self) -> anyhow::Result<()> {
        self.mode.watch();
        let text = self.renderer.note(Face::YELLOW, "The last turn was interrupted.");
        self.ask(Stage::Resume, &text, GateKind::Consent { enter_is_no: false })
    }

    /// Draws a question whole; from here on nothing is printed between it and its keys.
    fn ask(&mut self, stage: Stage, text: &str, kind: GateKind) -> anyhow::Result<()> {
        self.paint(text)?;
        self.stage = stage;
        self.input_events.listen_to_keys()?;
        self.gate.show(self.gate_id(), kind, Instant::now());
        self.show_keys()?;
        Ok(())
    }

    fn gate_id(&self) -> GateId {
        match self.stage {
            Stage::Question(of) => Some(of),
            Stage::History(_)
            | Stage::Prompt
            | Stage::Turn { .. }
            | Stage::Reason(_)
            | Stage::Resume => None,
        }
    }

    /// Paints the row below the question: its keys once they count, or the text that is being typed.
    pub(super) fn show_keys(&mut self) -> anyhow::Result<Option<ExitReason>> {
        let columns = self.renderer.look.columns;
        let row = self.gate.row(Instant::now());
        let text = match row {
            GateRow::Quiet => question::QUIET.to_owned(),
            GateRow::Draft(draft) => question::draft_row(draft, columns),
            GateRow::Confirm => question::CONFIRM.to_owned(),
            GateRow::Keys => self.keys_of_question(),
        };
        // A draft changes with every key; a screen that only grows shows the rest.
        let is_new = !matches!(row, GateRow::Quiet | GateRow::Draft(_));
        if is_new && self.renderer.question_keys.as_ref() != Some(&text) {
            self.screen.remind(&text)?;
        }
        self.renderer.question_keys = Some(text);
        let rows = self.renderer.keys_row();
        Ok(is_gone(self.screen.paint("", 0, rows)))
    }

    /// The keys of the question on the screen.
    fn keys_of_question(&self) -> String {
        let Stage::Question(of) = self.stage else { return question::RESUME.to_owned() };
        let mut open = self.renderer.transcript.open_questions();
        match open.find(|open| open.id == of) {
            Some(OpenQuestion { question: Some(asked), .. }) => {
                question::keys(asked, &self.choosing.places)
            }
            Some(open) => question::permission_keys(!open.always.is_empty()).to_owned(),
            None => String::new(),
        }
    }

    pub(super) fn stop_asking(&mut self) {
        self.stop_asking_keys();
        self.stage = Stage::Turn { running: true };
    }

    /// Reads no more keys. Those that were read and had no effect stay as text.
    pub(super) fn stop_asking_keys(&mut self) {
        self.gate.close();
        self.renderer.question_keys = None;
        if let Some(Pressed { keys, at, .. }) = self.input_events.ignore_keys() {
            self.gate.press(&keys, at);
        }
    }

    pub(super) async fn keys(&mut self, pressed: &Pressed) -> anyhow::Result<Option<ExitReason>> {
        let before = self.gate.row(Instant::now()) == GateRow::Confirm;
        let Pressed { keys, at, pasted } = pressed;
        let outcome = if *pasted { self.gate.paste(keys, *at) } else { self.gate.press(keys, *at) };
        match (self.stage, outcome) {
            (_, GateOutcome::Nothing) => return Ok(None),
            (Stage::Question(of), GateOutcome::Redraw) => {
                let confirms = self.gate.row(Instant::now()) == GateRow::Confirm;
                if confirms && !before {
                    self.show_always(of)?;
                }
                return self.show_keys();
            }
            (Stage::Question(of), GateOutcome::Answer(answer)) => {
                self.stop_asking();
                self.answer(of, question::reply(answer, None)).await?;
            }
            (Stage::Question(of), GateOutcome::Because) => self.begin_line(of, LineKind::Reason)?,
            (Stage::Question(of), GateOutcome::Words(words)) => {
                self.begin_line(of, LineKind::Answer(words))?;
            }
            (Stage::Question(of), GateOutcome::Keys(keys)) => {
                if let Some(asked) = self.renderer.question_of(of) {
                    self.choose(of, &asked, &keys).await?;
                }
            }
            (Stage::Resume, GateOutcome::Yes) => {
                self.stop_asking();
                self.unfinished = false;
                self.client()?.resume(&self.setup)?;
                return self.paint("");
            }
            (Stage::Resume, GateOutcome::No) => {
                self.stop_asking();
                let note = self.renderer.note(Face::DIM, "Your next prompt closes it.");
                self.paint(&note)?;
                self.take_prompt()?;
            }
            (_, GateOutcome::Redraw) => return self.show_keys(),
            (
                _,
                GateOutcome::Answer(_)
                | GateOutcome::Because
                | GateOutcome::Keys(_)
                | GateOutcome::Words(_)
                | GateOutcome::Yes
                | GateOutcome::No,
            ) => {}
        }
        self.update_question()?;
        Ok(None)
    }

    /// Prints what an "always" would allow, between the question and the row that asks for the second
    /// key.
    fn show_always(&mut self, of: QuestionId) -> anyhow::Result<()> {
        let mut open = self.renderer.transcript.open_questions();
        let Some(open) = open.find(|open| open.id == of) else { return Ok(()) };
        let text = self.renderer.always_in_full(open);
        self.screen.paint(&text, 0, Vec::new())?;
        Ok(())
    }

    pub(super) async fn answer(
        &mut self,
        of: QuestionId,
        reply: QuestionReply,
    ) -> anyhow::Result<()> {
        self.answered.insert(of);
        let answered = self.client()?.answer(of, reply).await?;
        let note = match answered {
            Answered::Accepted => String::new(),
            Answered::Already { .. } | Answered::NotOpen | Answered::Repeated { .. } => {
                self.renderer.note(Face::YELLOW, &format!("  {answered}"))
            }
        };
        self.paint(&note)?;
        Ok(())
    }
}
