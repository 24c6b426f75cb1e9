//! Releases recorded facts to the session, through the actor or worker that reports such facts.

// A new event or effect is considered here.
#![warn(clippy::wildcard_enum_match_arm)]

use leftfold_events::event::{
    Compaction, Event, Files, Finished, Hook, Model, Permission, Purpose, Session, Subagent, Todo,
    TodoItem, Tool, Turn,
};
use leftfold_events::{Envelope, Fact, Seq, TurnConfig};
use leftfold_providers::{Failure, StreamEvent};
use leftfold_tools::Output;

use super::recording::{Effect, event};
use super::{Bound, Compared, Rerun};
use crate::children::ChildResult;
use crate::messages::{Answered, Error, QuestionReply, SessionMessage};

impl Rerun {
    pub(super) async fn release(&mut self, next: &Envelope) -> Result<Compared, Error> {
        let of = next.concerned();
        match &next.event {
            Event::Session(Session::Created { .. }) => self.created_event(next),
            Event::Session(Session::Forked { .. }) => self.begin(),
            Event::Session(Session::Titled { title }) if next.of.is_some() => {
                self.comes_with(next.seq, of, |event| {
                    matches!(event, Event::Model(Model::Finished { .. }))
                });
                return self.written(of, title.clone()).await;
            }
            Event::Session(Session::Summarised { summary }) => {
                self.comes_with(next.seq, of, |event| {
                    matches!(event, Event::Model(Model::Finished { .. }))
                });
                return self.written(of, summary.clone()).await;
            }
            Event::Session(Session::Configured { .. } | Session::RulesSet { .. }) => {
                self.choose(next);
            }
            Event::Session(Session::ResumedImported { .. }) => {
                let same = self.begin_again().await?;
                self.life.tell(SessionMessage::Facts(vec![fact(next)]));
                return Ok(same);
            }
            Event::Session(Session::Resumed { .. }) => {
                return self.resume(self.config(), next).await;
            }
            Event::Session(Session::DeadlinePassed {}) => {
                self.life.recording.elapse(next.seq);
                self.life.tell(SessionMessage::Due);
            }
            Event::Turn(Turn::Configured(_)) => return self.configure(next).await,
            Event::Turn(Turn::Prompted { .. }) => self.prompt(self.config(), next),
            Event::Tool(Tool::Called { call }) => {
                let call = match &mut self.wire {
                    Some(wire) => match wire.call(of, next.seq, call) {
                        Ok(call) => call,
                        Err(divergence) => return Ok(Err(divergence)),
                    },
                    None => call.clone(),
                };
                return self.stream(of, vec![StreamEvent::ToolCall(call)]).await;
            }
            Event::Model(Model::Finished { .. }) => return self.replied(of, next).await,
            Event::Model(Model::Failed { .. }) => return self.ended(of, next).await,
            Event::Model(Model::Streamed { parts }) => {
                if let Some(wire) = &mut self.wire
                    && let Err(divergence) = wire.streamed(of, next.seq, parts)
                {
                    return Ok(Err(divergence));
                }
                self.life.tell(SessionMessage::Facts(vec![fact(next)]));
            }
            Event::Tool(Tool::Resolved(resolution)) => {
                let resolution = resolution.as_ref().clone();
                return self.hand(of, next, |effect| {
                    let Effect::Check { resolved, .. } = effect else { return false };
                    resolved.send(resolution).is_ok()
                });
            }
            Event::Tool(Tool::Finished(finished)) => {
                return self.finished(of, next, finished, None, self.config()).await;
            }
            Event::Todo(Todo::Updated { todos }) => return self.todos(of, next, todos).await,
            Event::Permission(Permission::Answered { reply, feedback, by }) => {
                let (feedback, by) = (feedback.clone(), by.clone());
                let reply = QuestionReply { answer: *reply, feedback, always: None, by };
                return self.answer(of, next, reply).await;
            }
            Event::Permission(Permission::AnsweredFor { reply, feedback, by, always }) => {
                let (feedback, by, always) = (feedback.clone(), by.clone(), Some(always.clone()));
                let reply = QuestionReply { answer: *reply, feedback, always, by };
                return self.answer(of, next, reply).await;
            }
            Event::Subagent(Subagent::Ended { .. }) => return self.child_ended(of, next).await,
            Event::Files(Files::SnapshotsAccepted { .. }) => {
                self.life.tell(SessionMessage::Facts(vec![fact(next)]));
            }
            Event::Files(_) | Event::Hook(_) => return self.beside(of, next),
            // partial outcomes, and requests of people
            Event::Session(_)
            | Event::Turn(_)
            | Event::Model(_)
            | Event::Tool(_)
            | Event::Permission(_)
            | Event::Compaction(_)
            | Event::Subagent(_) => self.life.tell(SessionMessage::Facts(vec![fact(next)])),
        }
        Ok(Ok(()))
    }

    /// Releases outcomes of files and plugins' answers.
    fn beside(&mut self, of: Seq, next: &Envelope) -> Result<Compared, Error> {
        match &next.event {
            Event::Files(
                done @ (Files::Snapshotted { .. }
                | Files::SnapshotFailed { .. }
                | Files::SnapshotFailedAs { .. }
                | Files::Restored { .. }
                | Files::RestoreFailed { .. }
                | Files::RestoreFailedAs { .. }),
            ) => {
                let outcome = done.clone();
                self.hand(of, next, |effect| {
                    let Effect::Files { done, .. } = effect else { return false };
                    done.send(outcome).is_ok()
                })
            }
            Event::Hook(said @ Hook::Returned { .. }) => {
                let outcome = said.clone();
                self.hand(of, next, |effect| {
                    let Effect::Plugin { said, .. } = effect else { return false };
                    said.send(outcome).is_ok()
                })
            }
            Event::Session(_)
            | Event::Turn(_)
            | Event::Model(_)
            | Event::Tool(_)
            | Event::Permission(_)
            | Event::Compaction(_)
            | Event::Subagent(_)
            | Event::Todo(_)
            | Event::Files(_)
            | Event::Hook(_) => {
                self.life.tell(SessionMessage::Facts(vec![fact(next)]));
                Ok(Ok(()))
            }
        }
    }

    /// The turn configuration in force.
    fn config(&self) -> TurnConfig {
        self.state.config.clone()
    }

    fn after(&self, seq: Seq) -> Option<Envelope> {
        event(&self.log, seq + 1).cloned()
    }

    /// Starts a new session with its prompt, the prompt's turn configuration, and possibly a
    /// client's choices.
    fn created_event(&mut self, created: &Envelope) {
        let is_choice = |e: &&Envelope| {
            matches!(e.event, Event::Session(Session::Configured { .. } | Session::RulesSet { .. }))
        };
        let behind = self.log.iter().filter(|e| e.seq > created.seq);
        let chosen: Vec<Envelope> = behind.take_while(is_choice).cloned().collect();
        let last = chosen.last().unwrap_or(created).seq;
        let (configured, prompted) = (self.after(last), self.after(last + 1));
        let equips = |e: &Envelope| matches!(e.event, Event::Turn(Turn::Configured(_)));
        let prompts = |e: &Envelope| {
            matches!(e.event, Event::Turn(Turn::Prompted { .. } | Turn::Noted { .. }))
        };
        match (configured.filter(equips), prompted.filter(prompts)) {
            (Some(configured), Some(prompted)) => {
                for chosen in chosen {
                    self.coming.insert(chosen.seq);
                    self.choose(&chosen);
                }
                self.coming.extend([configured.seq, prompted.seq]);
                self.prompt(self.configured(&configured), &prompted);
            }
            _ => self.life.tell(SessionMessage::Facts(vec![fact(created)])),
        }
    }

    /// Releases the beginning of a fork, with the facts of its first batch.
    fn begin(&mut self) {
        let is_told = |event: &Event| {
            matches!(
                event,
                Event::Session(Session::Adopted { .. } | Session::ResumedImported { .. })
                    | Event::Files(Files::CheckoutAsked { .. } | Files::SnapshotsAccepted { .. })
            )
        };
        let behind = self.log.iter().skip(self.place + 1);
        let behind = behind.take_while(|behind| behind.event.is_intent() || is_told(&behind.event));
        let told: Vec<&Envelope> = behind.filter(|behind| is_told(&behind.event)).collect();
        self.coming.extend(told.iter().map(|told| told.seq));
        let facts = told.into_iter().map(fact).collect();
        // nobody waits for the answer
        let reply_to = ractor::concurrency::oneshot().0.into();
        self.life.tell(SessionMessage::Begin { facts, settles: None, reply_to });
    }

    /// Releases a client's choice, or the rules that it set.
    fn choose(&self, chosen: &Envelope) {
        if let Event::Session(configured) = &chosen.event {
            let configured = Box::new(configured.clone());
            // the reply is not needed
            let reply_to = ractor::concurrency::oneshot().0.into();
            self.life.tell(SessionMessage::Configure { configured, settles: None, reply_to });
        }
    }

    /// The turn configuration that `configured` brings into force.
    fn configured(&self, configured: &Envelope) -> TurnConfig {
        let mut state = self.state.clone();
        state.apply(configured);
        state.config
    }

    /// Releases a turn configuration together with the fact that follows it.
    async fn configure(&mut self, configured: &Envelope) -> Result<Compared, Error> {
        let config = self.configured(configured);
        let Some(served) = self.after(configured.seq).filter(|next| !next.event.is_intent()) else {
            self.life.tell(SessionMessage::Facts(vec![fact(configured)]));
            return Ok(Ok(()));
        };
        self.coming.insert(served.seq);
        if let Event::Session(Session::Resumed { .. } | Session::ResumedImported { .. }) =
            &served.event
        {
            return self.resume(config, &served).await;
        }
        if let Event::Tool(Tool::Finished(finished)) = &served.event {
            return self.finished(served.concerned(), &served, finished, None, config).await;
        }
        self.prompt(config, &served);
        Ok(Ok(()))
    }

    fn prompt(&self, config: TurnConfig, prompted: &Envelope) {
        let (config, prompted) = (Box::new(config), Box::new(fact(prompted)));
        self.life.tell(SessionMessage::Prompt {
            config,
            world: None,
            prompted,
            joins: false,
            reply_to: None,
        });
    }

    async fn resume(&mut self, config: TurnConfig, resumed: &Envelope) -> Result<Compared, Error> {
        let same = self.begin_again().await?;
        let (config, finished) = (Box::new(config), Box::new(fact(resumed)));
        // the recorded outcome, whatever today's policy is
        self.life.tell(SessionMessage::Outcome { config, finished });
        Ok(same)
    }

    async fn replied(&mut self, of: Seq, next: &Envelope) -> Result<Compared, Error> {
        let mut purpose = Purpose::Turn;
        if let Some(asked) = event(&self.log, of)
            && let Event::Model(Model::Requested { purpose: wanted, .. }) = &asked.event
        {
            purpose = *wanted;
        }
        if purpose == Purpose::Turn {
            return self.ended(of, next).await;
        }
        let summed = |event: &&Envelope| {
            matches!(
                event.event,
                Event::Compaction(Compaction::Finished { .. } | Compaction::Failed { .. })
            )
        };
        // a summary that was cut off has no outcome of its own
        let decided = |event: &&Envelope| {
            matches!(
                event.event,
                Event::Model(Model::Requested { .. }) | Event::Turn(Turn::Ended(_))
            )
        };
        let rest = self.log[self.place..].iter();
        let summed = rest.take_while(|event| !decided(event)).find(summed);
        let summed = summed.filter(|_| purpose == Purpose::Compaction);
        let Some(summed) = summed else { return self.written(of, String::new()).await };
        self.coming.insert(summed.seq);
        let mut text = String::new();
        if let Event::Compaction(Compaction::Finished { summary }) = &summed.event {
            text.clone_from(summary);
        }
        self.written(of, text).await
    }

    /// Releases the end of a reply: the decoded one if there is one, otherwise the one in the log.
    async fn ended(&mut self, of: Seq, next: &Envelope) -> Result<Compared, Error> {
        let mut events = ending(next);
        if let Some(wire) = &mut self.wire {
            match wire.end(of, next.seq) {
                Ok(Some(end)) => {
                    events.pop();
                    events.push(end);
                }
                Ok(None) => {}
                Err(divergence) => return Ok(Err(divergence)),
            }
        }
        self.stream(of, events).await
    }

    /// Releases a whole text, and the end of its reply.
    async fn written(&mut self, of: Seq, text: String) -> Result<Compared, Error> {
        let replied = |event: &&Envelope| {
            event.of == Some(of) && matches!(event.event, Event::Model(Model::Finished { .. }))
        };
        let replied = self.log[self.place..].iter().find(replied);
        let mut events = replied.map(ending).unwrap_or_default();
        let end = events.pop();
        match self.wire.as_mut().and_then(|wire| wire.written(of)) {
            Some(decoded) => {
                events.extend(decoded);
                events.extend(end.filter(|_| !events.last().is_some_and(StreamEvent::is_last)));
            }
            None => {
                events.push(StreamEvent::TextDelta { id: "0".to_owned(), text });
                events.extend(end);
            }
        }
        self.stream(of, events).await
    }

    async fn stream(&mut self, of: Seq, events: Vec<StreamEvent>) -> Result<Compared, Error> {
        let Some(Bound::Effect(Effect::Request { reply, .. })) = self.bound.get(&of) else {
            return Ok(Err(self.missed(of, "effect")));
        };
        let mut events = events.into_iter();
        // a cancelled request no longer listens
        while events.next().is_some_and(|event| reply.send(event).is_ok()) {}
        Ok(Ok(()))
    }

    /// Hands the outcome of the intent `of` to the worker that waits for it.
    fn hand(
        &mut self,
        of: Seq,
        next: &Envelope,
        outcome: impl FnOnce(Effect) -> bool,
    ) -> Result<Compared, Error> {
        let taken = match self.bound.insert(of, Bound::Reported) {
            Some(Bound::Effect(effect)) => outcome(effect),
            Some(Bound::Reported) | None => false,
        };
        Ok(if taken { Ok(()) } else { Err(self.missed(next.seq, "of")) })
    }

    async fn finished(
        &mut self,
        of: Seq,
        next: &Envelope,
        finished: &Finished,
        todos: Option<Vec<TodoItem>>,
        config: TurnConfig,
    ) -> Result<Compared, Error> {
        if !self.bound.contains_key(&of) {
            // a call with a child whose worker died
            self.life.tell(SessionMessage::Facts(vec![fact(next)]));
            return Ok(Ok(()));
        }
        let Finished { title, output, is_error, metadata, spill, attachments, .. } =
            finished.clone();
        let output = output.to_string();
        let output = Output { title, output, is_error, metadata, spill, attachments, todos };
        self.hand(of, next, |effect| match effect {
            Effect::Run { output: waits, .. } => waits.send(output).is_ok(),
            Effect::Switch { done, .. } => {
                let config = (!output.is_error).then_some(config);
                done.send((output, config)).is_ok()
            }
            Effect::Request { .. }
            | Effect::Check { .. }
            | Effect::Files { .. }
            | Effect::Plugin { .. }
            | Effect::Child(_) => false,
        })
    }

    async fn todos(
        &mut self,
        of: Seq,
        next: &Envelope,
        todos: &[TodoItem],
    ) -> Result<Compared, Error> {
        let end = |event: &&Envelope| {
            event.of == Some(of) && matches!(event.event, Event::Tool(Tool::Finished(_)))
        };
        let end = self.log[self.place..].iter().find(end).cloned();
        let Some(Envelope { seq, event: Event::Tool(Tool::Finished(finished)), .. }) = &end else {
            self.life.tell(SessionMessage::Facts(vec![fact(next)]));
            return Ok(Ok(()));
        };
        self.coming.insert(*seq);
        self.finished(of, next, finished, Some(todos.to_vec()), self.config()).await
    }

    /// Marks the first later event that is also an outcome of `of`: it is released together with
    /// `seq`.
    fn comes_with(&mut self, seq: Seq, of: Seq, fits: impl Fn(&Event) -> bool) {
        let mut later = self.log.iter().filter(|event| event.seq > seq && event.of == Some(of));
        if let Some(event) = later.find(|event| fits(&event.event)) {
            self.coming.insert(event.seq);
        }
    }

    async fn answer(
        &self,
        of: Seq,
        next: &Envelope,
        reply: QuestionReply,
    ) -> Result<Compared, Error> {
        let answer = |reply_to| SessionMessage::Answer { of, reply, settles: None, reply_to };
        match ractor::call!(self.life.actor(), answer) {
            Ok(Answered::Accepted) => Ok(Ok(())),
            Ok(
                Answered::Already { .. }
                | Answered::NotOpen
                | Answered::Refused { .. }
                | Answered::Repeated { .. },
            ) => Ok(Err(self.missed(next.seq, "of"))),
            Err(gone) => Err(Error::Gone(gone.to_string())),
        }
    }

    /// Releases the end of a child. The end of its call follows from it.
    async fn child_ended(&mut self, of: Seq, next: &Envelope) -> Result<Compared, Error> {
        if !self.bound.contains_key(&of)
            && let Err(divergence) = self.bind(of).await?
        {
            return Ok(Err(divergence));
        }
        let Event::Subagent(Subagent::Ended { session, answer, reason, usage, cost }) = &next.event
        else {
            return Ok(Ok(()));
        };
        let (session, answer, reason) = (*session, answer.clone(), *reason);
        let told = ChildResult { session, reason, answer, usage: *usage, cost: *cost };
        let Some(Bound::Effect(Effect::Child(parent))) = self.bound.insert(of, Bound::Reported)
        else {
            return Ok(Err(self.missed(next.seq, "of")));
        };
        self.comes_with(next.seq, parent.started, |event| {
            matches!(event, Event::Tool(Tool::Finished(_)))
        });
        let (_, message) = told.message(*parent);
        self.life.tell(message);
        Ok(Ok(()))
    }
}

fn fact(event: &Envelope) -> Fact {
    Fact { of: event.of, event: event.event.clone(), notes: event.notes.clone(), settles: None }
}

/// The events without contents of the stream that ends in `outcome`. Its end comes last.
fn ending(outcome: &Envelope) -> Vec<StreamEvent> {
    let noted = outcome.notes.exchange.as_ref();
    let Event::Model(event) = &outcome.event else { return Vec::new() };
    let (body_sha256, end) = match event {
        Model::Finished { finish, usage, body_sha256, .. } => {
            (Some(*body_sha256), StreamEvent::Finish { finish: *finish, usage: *usage })
        }
        Model::Failed { class, message, status, retryable, retry_after } => {
            let (class, message) = (*class, message.clone());
            let (status, retryable, retry_after) = (*status, *retryable, *retry_after);
            let failure = Failure { class, message, status, retryable, retry_after };
            (noted.and_then(|noted| noted.body_sha256), StreamEvent::Failed(failure))
        }
        Model::Requested { .. } | Model::Streamed { .. } | Model::RetryScheduled { .. } => {
            return Vec::new();
        }
    };
    let start = body_sha256.map(|body_sha256| StreamEvent::Start { body_sha256 });
    let id = noted.and_then(|noted| noted.request_id.clone()).map(StreamEvent::RequestId);
    start.into_iter().chain(id).chain([end]).collect()
}
