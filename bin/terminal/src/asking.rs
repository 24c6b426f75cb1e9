//! Questions that are answered with a key.

use leftfold_actors::{Answered, Reply};

use super::conversation::{Conversation, Leave, Stage};
use super::input::Read;
use super::keys;
use super::question::{self, Choice};
use super::style::Face;
use leftfold_view::{OpenQuestion, QuestionId};

impl Conversation {
    /// Asks the first question that is open, and stops asking one that is not.
    pub(super) fn see_to_questions(&mut self) -> anyhow::Result<()> {
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
        let text = self.shown(&question);
        self.stage = Stage::Question(question.id);
        self.chosen.clear();
        let asked = question.question.as_ref();
        let keys = asked
            .map_or_else(|| question::PERMISSION.to_owned(), |asked| question::keys(asked, &[]));
        self.ask(&text, &keys)
    }

    /// Shows a question of somebody else's turn while a line is being typed.
    fn announce(&mut self, question: &OpenQuestion) -> anyhow::Result<()> {
        if self.announced.insert(question.id) {
            let mut text = self.shown(question);
            text += &self.renderer.note(Face::DIM, question::ANNOUNCED);
            self.paint(&text)?;
        }
        Ok(())
    }

    /// What a question is about, with what would become of the files as they are now.
    fn shown(&mut self, question: &OpenQuestion) -> String {
        let change = question.change.as_ref();
        let files = change.and_then(|call| leftfold_tools::preview(call, &self.setup.workspace));
        self.renderer.question(question, &files.unwrap_or_default())
    }

    pub(super) fn ask_to_resume(&mut self) -> anyhow::Result<()> {
        self.mode.watch();
        self.stage = Stage::Resume;
        let text = self.renderer.note(Face::YELLOW, "The last turn was cut off.");
        self.ask(&text, question::RESUME)
    }

    fn ask(&mut self, text: &str, keys: &str) -> anyhow::Result<()> {
        self.renderer.asking = Some(keys.to_owned());
        self.input_events.listen_to_keys()?;
        self.paint(text)?;
        self.screen.remind(keys)?;
        Ok(())
    }

    pub(super) fn stop_asking(&mut self) {
        self.input_events.ignore_keys();
        self.renderer.asking = None;
        self.stage = Stage::Turn { running: true };
    }

    pub(super) async fn keys(&mut self, keys: &str) -> anyhow::Result<Option<Leave>> {
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
        self.see_to_questions()?;
        Ok(None)
    }

    /// What a key means for a permission.
    async fn allow(&mut self, of: QuestionId, key: char) -> anyhow::Result<()> {
        match question::choice(key) {
            Some(Choice::Reply(answer)) => {
                self.stop_asking();
                self.answer(of, question::reply(answer, None)).await
            }
            Some(Choice::Because) => self.begin_line(of, Read::Reason),
            None => Ok(()),
        }
    }

    pub(super) async fn answer(&mut self, of: QuestionId, reply: Reply) -> anyhow::Result<()> {
        self.answered.insert(of);
        let told = self.client()?.answer(of, reply).await?;
        let note = match told {
            Answered::Accepted => String::new(),
            Answered::Already { .. } | Answered::NotOpen => {
                self.renderer.note(Face::YELLOW, &format!("  {told}"))
            }
        };
        self.paint(&note)?;
        Ok(())
    }
}
