//! The fold (the reducer): applies one event to the state. It cannot fail and never acts. An event without meaning in
//! this state changes only the position.

use super::reply::KEEPS_INTERRUPTED;
use super::{
    Child, Delegated, Failure, ModelStatus, Origin, PromptCall, State, Titling, Turn, Wait,
};
use crate::event::{EndReason, Envelope, Event, Session, Subagent, Todo, Turn as TurnEvent};
use crate::id::Seq;
use crate::turn_config::AskMode;

impl State {
    /// Folds one event, fact or intent.
    pub fn apply(&mut self, envelope: &Envelope) {
        self.session = envelope.session;
        self.seq = envelope.seq;
        self.at = self.at.max(envelope.at);
        match &envelope.event {
            Event::Session(event) => self.apply_session(envelope, event),
            Event::Turn(event) => self.apply_turn(envelope, event),
            Event::Model(event) => self.apply_model(envelope, event),
            Event::Tool(event) => self.apply_tool(envelope, event),
            Event::Permission(event) => self.apply_permission(envelope, event),
            Event::Compaction(event) => self.apply_compaction(envelope, event),
            Event::Subagent(event) => self.apply_subagent(envelope, event),
            Event::Todo(Todo::Updated { todos }) => self.todos.clone_from(todos),
            Event::Files(event) => self.apply_files(envelope, event),
            Event::Hook(event) => self.apply_plugin(envelope, event),
        }
        if !matches!(envelope.event, Event::Model(_) | Event::Todo(_) | Event::Files(_)) {
            self.date_ended_calls();
        }
        self.keep_command_output();
    }

    fn apply_session(&mut self, envelope: &Envelope, event: &Session) {
        match event {
            Session::Created { directory, worktree, parent, agent, version, policy } => {
                self.origin = Some(Origin {
                    directory: directory.clone(),
                    worktree: worktree.clone(),
                    parent: *parent,
                    version: version.clone(),
                });
                self.agent.clone_from(agent);
                self.policy = *policy;
                self.config.options.executor.clone_from(&envelope.notes.executor);
            }
            Session::Titled { title } => self.title = Some(title.clone()),
            Session::Summarised { summary } => self.summary = Some(summary.clone()),
            Session::Archived { archived, .. } => self.archived = *archived,
            Session::Imported { .. } => {}
            Session::Configured { choices, .. } => self.choices.clone_from(choices),
            Session::RulesSet { rules, .. } => {
                self.rules.clone_from(rules);
                self.config.options.session_rules.clone_from(rules);
            }
            Session::Resumed { policy, close } => {
                self.policy = *policy;
                self.resumed(*close);
            }
            Session::ResumedImported { policy, close, imported } => {
                self.policy = *policy;
                // an imported log may itself claim this, but only for what comes before
                self.distrust((*imported).min(envelope.seq.saturating_sub(1)));
                self.resumed(*close);
            }
            Session::Forked { .. } => {
                self.archived = None;
                self.resumed(true);
                self.forked();
            }
            Session::DeadlinePassed {} => {
                if let Some(of) = envelope.of {
                    self.elapsed(of);
                }
            }
            Session::Adopted { parent } => {
                if let Some(origin) = &mut self.origin {
                    origin.parent = Some(*parent);
                }
                // it has not done anything for this parent yet
                self.ended = None;
            }
        }
    }

    fn apply_turn(&mut self, envelope: &Envelope, event: &TurnEvent) {
        if let TurnEvent::Prompted { .. } | TurnEvent::Noted { .. } = event
            && let Some(id) = &envelope.notes.client
        {
            self.prompt_ids.entry(id.clone()).or_insert(envelope.seq);
        }
        match event {
            TurnEvent::Prompted { parts, agent, .. } => {
                self.files.turn_begins();
                self.name_hosts(parts);
                self.prompted(envelope.seq, parts.clone(), agent);
                if self.turn.is_none() {
                    self.delegated = Delegated::default();
                }
                let turn = self.turn.get_or_insert_with(|| Turn::new(envelope));
                turn.prompt_calls.extend(PromptCall::all_of(envelope.seq, parts));
            }
            TurnEvent::Configured(configured) => {
                self.config.apply(self.configured.as_ref(), configured);
                self.config.options.session_rules.clone_from(&self.rules);
                self.drop_revoked();
                self.plugins.configured();
                self.configured = Some(configured.clone());
            }
            TurnEvent::Interrupted { .. } => self.stop(EndReason::Aborted),
            TurnEvent::Ended(ended) => {
                self.turn = None;
                self.files.turn_ended(envelope.seq);
                self.plugins.turn_ended();
                self.ended = Some(ended.clone());
            }
            TurnEvent::Switched { agent, .. } => self.switched(envelope.seq, agent),
            TurnEvent::Continued { finish, note } => self.continued(envelope.seq, *finish, note),
            TurnEvent::Noted { parts, .. } => {
                self.files.turn_begins();
                self.noted(envelope.seq, parts.clone());
            }
        }
    }

    fn apply_subagent(&mut self, envelope: &Envelope, event: &Subagent) {
        match event {
            Subagent::Spawned { session, agent, max_cost, .. } => {
                let fork_of = self.succeed(envelope.of, *session);
                self.children.push(Child {
                    session: *session,
                    call: envelope.of.unwrap_or_default(),
                    agent: agent.clone(),
                    fork_of,
                    wait: Wait::for_event(envelope),
                    ended: false,
                    may_spend: *max_cost,
                    counted: false,
                });
            }
            Subagent::EndedUncounted { .. } => self.child_ended(envelope.of),
            Subagent::Ended { usage, cost, .. } => {
                self.delegated.usage += *usage;
                self.delegated.cost += *cost;
                let of = |child: &&mut Child| Some(child.wait.intent) == envelope.of;
                self.children.iter_mut().filter(of).for_each(|child| child.counted = true);
                self.child_ended(envelope.of);
            }
        }
    }

    /// The child that the intent `of` spawned has ended, or is given up.
    fn child_ended(&mut self, of: Option<Seq>) {
        let spawned = self.children.iter_mut().filter(|child| Some(child.wait.intent) == of);
        spawned.for_each(|child| child.ended = true);
    }

    /// Interrupt, rejection, limit: no open intent counts any longer.
    pub(super) fn stop(&mut self, reason: EndReason) {
        let Some(turn) = &mut self.turn else { return };
        turn.stop.get_or_insert(reason);
        self.files.taking = None;
        self.interrupt_reply();
    }

    /// A node has died, and another one continues.
    fn resumed(&mut self, close: bool) {
        self.files.forget();
        self.plugins.forget();
        let Some(turn) = &mut self.turn else { return };
        if close {
            turn.stop.get_or_insert(EndReason::Aborted);
            // these children are closed too, and no call waits for them
            self.children.iter_mut().for_each(|child| child.ended = true);
        }
        if self.is_late() {
            self.run_out();
        }
        let Some(turn) = &mut self.turn else { return };
        for text in [&mut turn.title, &mut turn.session_summary] {
            if let Titling::Waiting(_) = text {
                *text = Titling::Due;
            }
        }
        turn.writing.clear();
        match &mut turn.model_status {
            ModelStatus::Waiting(_) => {
                let called = self.last_reply().is_some_and(super::Reply::has_calls);
                if close && self.policy >= KEEPS_INTERRUPTED {
                    self.interrupt_reply();
                }
                self.close_reply();
                if let Some(turn) = &mut self.turn {
                    turn.model_status = if called { ModelStatus::Due } else { ModelStatus::Again };
                }
            }
            ModelStatus::Compacting(compacting) => compacting.cut_off(),
            ModelStatus::Due
            | ModelStatus::Answered { .. }
            | ModelStatus::Failed(_)
            | ModelStatus::Backoff(_)
            | ModelStatus::Again
            | ModelStatus::CompactionFailed { .. } => {}
        }
        let asks = self.config.options.ask == AskMode::Ask;
        if let Some(reply) = self.last_reply_mut() {
            reply.calls_mut().for_each(|call| call.forget(close, asks));
        }
    }

    /// From here on the session is a fork of its own: the shared events were paid for by another
    /// session, and their children are not its own.
    fn forked(&mut self) {
        (self.usage, self.cost) = Default::default();
        self.inherit();
        self.files.restore = None;
        if let Some(origin) = &mut self.origin {
            origin.parent = None;
        }
        if let Some(turn) = &mut self.turn {
            (turn.usage, turn.cost) = Default::default();
            (turn.title, turn.session_summary) = (Titling::Over, Titling::Over);
        }
    }

    fn elapsed(&mut self, of: Seq) {
        if self.files.elapsed(of) {
            return;
        }
        if self.open_children().any(|child| child.wait.intent == of) {
            return self.child_ended(Some(of));
        }
        if self.deadline().is_some_and(|deadline| deadline.intent == of) {
            return self.run_out();
        }
        if self.plugin_elapsed(of) {
            return;
        }
        let Some(turn) = self.turn.as_mut().filter(|turn| turn.stop.is_none()) else { return };
        if turn.end_text_about_session(Some(of)) {
            return;
        }
        let silent = Failure::silent(self.config.options.timeout);
        match &mut turn.model_status {
            ModelStatus::Backoff(wait) if wait.intent == of => {
                turn.model_status = ModelStatus::Again;
            }
            ModelStatus::Compacting(compacting) => compacting.elapsed(of, silent),
            ModelStatus::Waiting(wait) if wait.intent == of => self.request_elapsed(of),
            ModelStatus::Due
            | ModelStatus::Waiting(_)
            | ModelStatus::Answered { .. }
            | ModelStatus::Failed(_)
            | ModelStatus::Backoff(_)
            | ModelStatus::Again
            | ModelStatus::CompactionFailed { .. } => self.call_elapsed(of),
        }
    }
}

impl Turn {
    pub(super) fn new(envelope: &Envelope) -> Self {
        Self {
            prompted: envelope.seq,
            since: envelope.at,
            step: 0,
            attempt: 0,
            asked: 0,
            model_status: ModelStatus::Due,
            stop: None,
            compactions: 0,
            compact: false,
            compact_with: None,
            said: String::new(),
            continued: 0,
            cut_calls: 0,
            cut: String::new(),
            uncalled: 0,
            output_failures: 0,
            writing: Vec::new(),
            title: Titling::Due,
            session_summary: Titling::Due,
            prompt_calls: Vec::new(),
            switch: None,
            usage: crate::event::Usage::default(),
            cost: 0.0,
            denials: Vec::new(),
            denial_classes: Vec::new(),
        }
    }
}
