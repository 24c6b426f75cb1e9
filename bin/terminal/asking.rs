//! Questions that are answered with a key.

use leftfold_actors::Answered;
use leftfold_events::Seq;
use leftfold_events::event::Answer;

use super::conversation::{Conversation, Leave, Stage};
use super::input::Read;
use super::question::{self, Choice};
use super::render::Question;
use super::style::Face;

impl Conversation<'_> {
    /// Asks the first question that is open, and stops asking one that is not.
    pub(super) fn see_to_questions(&mut self) -> anyhow::Result<()> {
        let first = self.renderer.questions.front().cloned();
        if let Stage::Question(of) = self.stage {
            if first.as_ref().is_some_and(|question| question.of == of) {
                return Ok(());
            }
            self.stop_asking();
        }
        let Some(question) = first.filter(|question| question.of > self.answered) else {
            return Ok(());
        };
        if self.stage == Stage::Prompt {
            return self.announce(&question);
        }
        let Stage::Turn { running: true } = self.stage else { return Ok(()) };
        let text = self.renderer.question(&question);
        self.stage = Stage::Question(question.of);
        self.ask(&text, question::PERMISSION)
    }

    /// Shows a question of somebody else's turn while a line is being typed.
    fn announce(&mut self, question: &Question) -> anyhow::Result<()> {
        if question.of > std::mem::replace(&mut self.announced, question.of) {
            let mut text = self.renderer.question(question);
            text += &self.renderer.note(Face::DIM, question::ANNOUNCED);
            self.paint(&text)?;
        }
        Ok(())
    }

    pub(super) fn ask_to_resume(&mut self) -> anyhow::Result<()> {
        self.mode.watch();
        self.stage = Stage::Resume;
        let text = self.renderer.note(Face::YELLOW, "The last turn was cut off.");
        self.ask(&text, question::RESUME)
    }

    fn ask(&mut self, text: &str, keys: &'static str) -> anyhow::Result<()> {
        self.renderer.asking = Some(keys);
        self.ears.listen_to_keys()?;
        self.paint(text)?;
        self.screen.remind(keys)?;
        Ok(())
    }

    fn stop_asking(&mut self) {
        self.ears.ignore_keys();
        self.renderer.asking = None;
        self.stage = Stage::Turn { running: true };
    }

    pub(super) async fn key(&mut self, key: char) -> anyhow::Result<Option<Leave>> {
        match self.stage {
            Stage::Question(of) => match question::choice(key) {
                Some(Choice::Reply(answer)) => {
                    self.stop_asking();
                    self.answer(of, answer, None).await?;
                }
                Some(Choice::Because) => {
                    self.stop_asking();
                    self.screen.print("")?;
                    self.mode.restore();
                    self.stage = Stage::Reason(of);
                    self.input.read(Read::Reason);
                }
                None => {}
            },
            Stage::Resume if matches!(key, 'y' | 'n') => {
                self.stop_asking();
                if key == 'y' {
                    self.unfinished = false;
                    self.client()?.resume(&self.job)?;
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

    pub(super) async fn answer(
        &mut self,
        of: Seq,
        answer: Answer,
        feedback: Option<String>,
    ) -> anyhow::Result<()> {
        self.answered = of;
        let told = self.client()?.answer(of, question::reply(answer, feedback)).await?;
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
