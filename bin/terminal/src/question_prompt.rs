//! Shows questions, and answers them with keys.

use leftfold_actors::{Answered, QuestionReply};

use super::conversation::{Conversation, ExitReason, Stage};
use super::input::LineKind;
use super::keys;
use super::question::{self, PermissionKey};
use super::style::Face;
use leftfold_view::{OpenQuestion, QuestionId};

impl Conversation {
    /// Shows the first open question, and removes one that is no longer open.
    pub(super) fn update_question(&mut self) -> anyhow::Result<()> {
        let pending: Vec<OpenQuestion> =
            self.renderer.transcript.open_questions().cloned().collect();
        if let Stage::Question(asked) = self.stage {
            if pending.iter().any(|question| question.id == asked) {
                return Ok(());
            }
            self.stop_asking();
        }
        let mut open = pending.into_iter();
        let Some(question) = open.find(|question| !self.answered.contains(&question.id)) else {
            return Ok(());
        };
        if self.stage == Stage::Prompt {
            return self.announce(&question);
        }
        let Stage::Turn { running: true } = self.stage else { return Ok(()) };
        let text = self.question_text(&question);
        self.stage = Stage::Question(question.id);
        self.chosen.clear();
        let asked = question.question.as_ref();
        let keys = asked
            .map_or_else(|| question::PERMISSION.to_owned(), |asked| question::keys(asked, &[]));
        self.ask(&text, &keys)
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
        self.stage = Stage::Resume;
        let text = self.renderer.note(Face::YELLOW, "The last turn was interrupted.");
        self.ask(&text, question::RESUME)
    }

    fn ask(&mut self, text: &str, keys: &str) -> anyhow::Result<()> {
        self.renderer.question_keys = Some(keys.to_owned());
        self.input_events.listen_to_keys()?;
        self.paint(text)?;
        self.screen.remind(keys)?;
        Ok(())
    }

    pub(super) fn stop_asking(&mut self) {
        self.input_events.ignore_keys();
        self.renderer.question_keys = None;
        self.stage = Stage::Turn { running: true };
    }

    pub(super) async fn keys(&mut self, keys: &str) -> anyhow::Result<Option<ExitReason>> {
        let key = keys::single(keys);
        match self.stage {
            Stage::Question(of) => match (self.renderer.question_of(of), key) {
                (Some(asked), _) => self.choose(of, &asked, keys).await?,
                (None, Some(key)) => self.allow(of, key).await?,
                (None, None) => {}
            },
            Stage::Resume if matches!(key, Some('y' | 'n')) => {
                self.stop_asking();
                if key == Some('y') {
                    self.unfinished = false;
                    self.client()?.resume(&self.setup)?;
                    return self.paint("");
                }
                let note = self.renderer.note(Face::DIM, "Your next prompt closes it.");
                self.paint(&note)?;
                self.take_prompt()?;
            }
            Stage::Resume
            | Stage::History(_)
            | Stage::Prompt
            | Stage::Turn { .. }
            | Stage::Reason(_) => {}
        }
        self.update_question()?;
        Ok(None)
    }

    /// Acts on a key for a permission question.
    async fn allow(&mut self, of: QuestionId, key: char) -> anyhow::Result<()> {
        match question::choice(key) {
            Some(PermissionKey::QuestionReply(answer)) => {
                self.stop_asking();
                self.answer(of, question::reply(answer, None)).await
            }
            Some(PermissionKey::Because) => self.begin_line(of, LineKind::Reason),
            None => Ok(()),
        }
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
            Answered::Already { .. } | Answered::NotOpen => {
                self.renderer.note(Face::YELLOW, &format!("  {answered}"))
            }
        };
        self.paint(&note)?;
        Ok(())
    }
}
