//! The observer of one session: what has become durable goes to the client, as updates, as
//! questions, and in the end as the answer to its prompts.

use std::collections::HashMap;
use std::sync::Arc;

use agent_client_protocol::v1::schema::{RequestPermissionRequest, SessionUpdate};
use agent_client_protocol::{Error, RequestCancellationHandle};
use leftfold_actors::{Observation, Recorded};
use leftfold_events::event::{Ended, Event, Finish, PromptPart, Session, SessionChoices};
use leftfold_events::{Envelope, Seq, SessionId};
use leftfold_tools::Workspace;
use leftfold_view::{Change, QuestionId, Transcript};
use ractor::{Actor, ActorProcessingErr, ActorRef};

use super::arrival::Arrival;
use super::choices::AvailableChoices;
use super::errors::report;
use super::flow::Flow;
use super::form;
use super::question::{Asking, chosen, replied};
use super::shared::{BY, Shared};
use super::view::{self, View};
use leftfold_runtime::project::Project;
use leftfold_runtime::session_paths::SessionPlace;

pub(super) struct Updates;

pub(super) struct Watching {
    shared: Arc<Shared>,
    place: SessionPlace,
    /// Where the calls that are asked about would run.
    workspace: Arc<Workspace>,
    transcript: Transcript,
    view: View,
    flow: Flow,
    /// The last event that was told.
    seen: Seq,
    /// Events up to and with this one are history.
    history: Seq,
    /// Whether the turn that history ends in was cut off, so that nobody waits for an answer.
    cut_off: bool,
    /// To be answered when history has been told.
    arrival: Option<Arrival>,
    /// Whether the client knows the prompts of servers.
    told_prompts: bool,
    /// Questions that the client has not answered yet.
    asked: HashMap<QuestionId, RequestCancellationHandle>,
}

pub(super) struct Arguments {
    pub(super) shared: Arc<Shared>,
    pub(super) workspace: Arc<Workspace>,
    pub(super) place: SessionPlace,
    /// The first event that is told.
    pub(super) from: Seq,
    pub(super) history: Seq,
    pub(super) cut_off: bool,
    pub(super) arrival: Option<Arrival>,
}

impl Actor for Updates {
    type Msg = Observation;
    type State = Watching;
    type Arguments = Arguments;

    async fn pre_start(
        &self,
        _: ActorRef<Observation>,
        arguments: Arguments,
    ) -> Result<Watching, ActorProcessingErr> {
        let Arguments { shared, workspace, place, from, history, cut_off, arrival } = arguments;
        let (flow, asked, seen) = (shared.flow.clone(), HashMap::new(), from - 1);
        let session = shared.abilities.session.as_ref();
        let knows_compaction = session.is_some_and(|session| session.compaction.is_some());
        let view = View::new(knows_compaction);
        let transcript = Transcript::live(place.session);
        let transcript = if from == 1 { transcript.from_start() } else { transcript };
        shared.has_seen(seen);
        Ok(Watching {
            shared,
            place,
            workspace,
            transcript,
            view,
            flow,
            seen,
            history,
            cut_off,
            arrival,
            told_prompts: false,
            asked,
        })
    }

    async fn handle(
        &self,
        _: ActorRef<Observation>,
        observation: Observation,
        watching: &mut Watching,
    ) -> Result<(), ActorProcessingErr> {
        let Observation { events, done } = observation;
        for event in events.iter().map(Recorded::masked) {
            // a session that was opened again is watched once more
            if !watching.transcript.is_root(event) {
                watching.tell_of_subagent(event).await;
            } else if event.seq > watching.seen {
                watching.tell(event).await;
            }
        }
        watching.flow.room().await;
        // the hub may have gone with the node
        let _ = done.send(());
        Ok(())
    }

    /// Another one tells of the session from its beginning.
    async fn post_stop(
        &self,
        _: ActorRef<Observation>,
        watching: &mut Watching,
    ) -> Result<(), ActorProcessingErr> {
        if let Some(arrival) = watching.arrival.take() {
            let why = "the session was opened again, or closed, before it was there";
            report(arrival.failed(Error::invalid_request().data(why)));
        }
        Ok(())
    }
}

impl Watching {
    async fn tell(&mut self, event: &Envelope) {
        self.seen = event.seq;
        self.shared.has_seen(event.seq);
        let live = event.seq > self.history;
        if let Event::Session(Session::Configured { choices, by }) = &event.event
            && live
        {
            self.configured(choices, by);
        }
        for change in self.transcript.apply(event) {
            if let Some(session) = self.transcript.root()
                && let Some(update) = self.view.updates(session, &change)
            {
                self.update(update);
            }
            if let Change::Prompted { by, parts } = &change {
                self.prompted(live, by, parts);
            } else if let Change::AgentSwitched { agent, .. } = &change
                && live
            {
                // who took over in the past is known from the log
                self.switched(agent.clone());
            } else if let Change::Asked(question) = &change
                && live
            {
                self.ask_now((self.place.session, *question)).await;
            } else if let Change::QuestionClosed(question) = &change {
                self.settled((self.place.session, *question));
            } else if let Change::TurnEnded { ended, finish, .. } = &change {
                self.turn_ended(live, ended, *finish);
            }
        }
        if event.seq >= self.history
            && let Some(arrival) = self.arrival.take()
        {
            let available = AvailableChoices::of(&self.place, &self.shared.project());
            let available = available
                .inspect_err(|error| leftfold_runtime::note(&format!("leftfold: {error:#}")))
                .ok();
            report(arrival.arrived(available.as_ref()));
            if let Some(available) = available {
                self.shared.tell_commands_again(available.commands());
            }
            self.arrived().await;
        }
    }

    /// Servers are started with the first turn, and have commands to available from then on.
    fn tell_prompts_of_servers(&mut self) {
        if std::mem::replace(&mut self.told_prompts, true) {
            return;
        }
        if let Ok(available) = AvailableChoices::of(&self.place, &self.shared.project()) {
            self.shared.tell_commands(available.commands());
        }
    }

    fn turn_ended(&mut self, live: bool, ended: &Ended, finish: Option<Finish>) {
        self.shared.is_now(false);
        self.shared.terminals().clear();
        if live {
            self.withdraw_all();
            self.tell_prompts_of_servers();
            self.shared.prompts.ended(ended, finish);
        }
    }

    /// What a subagent asks, and what becomes of the calls that it has asked about. Of a turn that nobody
    /// goes on with, nothing is asked.
    async fn tell_of_subagent(&mut self, event: &Envelope) {
        let session = event.session;
        let worked = self.works(session);
        let changes = self.transcript.apply(event);
        for change in &changes {
            let view = self.transcript.session(session);
            if let Some(update) = view.and_then(|view| view::of_subagent(view, change)) {
                self.update(update);
            }
            if let Change::Asked(question) = change {
                if !self.cut_off && self.works(session) && self.arrival.is_none() {
                    self.ask_now((session, *question)).await;
                }
            } else if let Change::QuestionClosed(question) = change {
                self.settled((session, *question));
            } else if let Change::TurnEnded { .. } = change {
                self.silent(session);
            }
        }
        for change in changes.iter().filter(|_| worked) {
            if let Some(update) = self.view.progress(&self.transcript, session, change) {
                self.update(update);
            }
        }
    }

    /// Whether a subagent is at work, as far as its parent knows.
    fn works(&self, subagent: SessionId) -> bool {
        self.transcript.subagent(subagent).is_some_and(|status| status.works)
    }

    fn prompted(&mut self, live: bool, by: &str, parts: &[PromptPart]) {
        self.shared.is_now(true);
        self.cut_off &= !live;
        if live && self.shared.is_me(by) {
            self.shared.prompts.taken();
        } else {
            view::prompt(parts).into_iter().for_each(|update| self.update(update));
        }
    }

    /// History has been told. What it leaves open is the client's too, unless nobody goes on with it.
    async fn arrived(&mut self) {
        if self.cut_off {
            self.shared.is_now(false);
            return;
        }
        let root = self.place.session;
        let open = self.transcript.open_questions().map(|open| open.id);
        let open = open.filter(|(session, _)| *session == root || self.works(*session));
        for id in open.collect::<Vec<_>>() {
            self.ask_now(id).await;
        }
    }

    /// Another agent has taken over, and the next prompts are for it.
    fn switched(&self, agent: String) {
        let project = self.shared.project();
        let mut choices = project.choices.clone();
        // as the log has it
        choices.agent = choices.agent.map(|_| agent.clone());
        self.takes(Project { agent: Some(agent), choices, ..(*project).clone() });
    }

    /// Somebody else has chosen how prompts are taken.
    fn configured(&self, choices: &SessionChoices, by: &str) {
        let project = self.shared.project();
        let own = self.shared.is_me(by) && self.shared.has_chosen(choices);
        if project.choices != *choices && !own {
            self.takes(Project { choices: choices.clone(), ..(*project).clone() });
        }
    }

    /// From now on the session's prompts are taken like this, and the client is told.
    fn takes(&self, project: Project) {
        if let Ok(available) = AvailableChoices::of(&self.place, &project) {
            self.shared.tell_choices(available.updates());
        }
        self.shared.set_project(project);
    }

    /// Who knows what was before is not told of it.
    fn update(&self, update: SessionUpdate) {
        let update = self.shared.terminals().with(update);
        if self.arrival.as_ref().is_none_or(Arrival::wants_history)
            && let Some(update) = update
        {
            self.shared.update(update);
        }
    }

    async fn ask_now(&mut self, (session, question): QuestionId) {
        let view = self.transcript.session(session);
        if let Some(open) = view.and_then(|view| view.question(question)) {
            let asking = Asking::new(open, &self.transcript);
            self.ask(asking).await;
        }
    }

    /// Asks the client; its answer is the session's to judge.
    async fn ask(&mut self, asking: Asking) {
        let asked = asking.open.id;
        let (id, shared) = (self.shared.id.clone(), Arc::clone(&self.shared));
        if let Some(question) = asking.open.question.as_ref().filter(|_| shared.has_forms()) {
            let request = form::request(id, asking.call.tool_call_id, question);
            let sent = shared.connection.send_request(request);
            self.asked.insert(asked, sent.cancellation_handle());
            let question = question.clone();
            tokio::spawn(async move {
                let reply = replied(sent.block_task().await, |response| {
                    leftfold_runtime::client::reply(form::answer(response, &question), BY)
                });
                shared.answer(asked, reply).await;
            });
            return;
        }
        let asking = asking.with_change(&self.workspace).await;
        let Asking { call, options, answers, .. } = asking;
        let sent = shared.connection.send_request(RequestPermissionRequest::new(id, call, options));
        self.asked.insert(asked, sent.cancellation_handle());
        tokio::spawn(async move {
            let reply = replied(sent.block_task().await, |response| chosen(&response, &answers));
            shared.answer(asked, reply).await;
        });
    }

    /// The question is open no longer, whoever answered it.
    fn settled(&mut self, asked: QuestionId) {
        if let Some(asked) = self.asked.remove(&asked) {
            // it does nothing if the client was the one who answered
            report(asked.cancel());
        }
    }

    /// A child's turn is over, and with it whatever it has asked.
    fn silent(&mut self, child: SessionId) {
        let cancelled = self.shared.prompts.cancelled();
        let over = self.asked.extract_if(|(session, _), _| *session == child);
        for (_, asked) in over.filter(|_| !cancelled) {
            report(asked.cancel());
        }
    }

    /// A client that has cancelled answers its questions itself.
    fn withdraw_all(&mut self) {
        let cancelled = self.shared.prompts.cancelled();
        for (_, asked) in self.asked.drain().filter(|_| !cancelled) {
            report(asked.cancel());
        }
    }
}
