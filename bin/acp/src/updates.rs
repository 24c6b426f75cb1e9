//! The observer of one session. It sends durable events to the client as updates and questions, and
//! answers its prompts at the end of the turn. A question is the observation of `permission.asked`:
//! the first answer counts, and a question that somebody else has answered is withdrawn from the
//! client.

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
use super::question::{PermissionPrompt, chosen, replied};
use super::shared::{NAME, Shared};
use super::view::{self, UpdateRenderer};
use leftfold_runtime::project::Project;
use leftfold_runtime::session_paths::SessionPlace;

pub(super) struct Updates;

pub(super) struct Watching {
    shared: Arc<Shared>,
    place: SessionPlace,
    /// The workspace in which the calls in question would run.
    workspace: Arc<Workspace>,
    transcript: Transcript,
    view: UpdateRenderer,
    flow: Flow,
    /// The last event sent.
    seen: Seq,
    /// Events up to and including this one are history.
    history: Seq,
    /// Whether the last turn of the history was interrupted, so that no question waits for an
    /// answer.
    cut_off: bool,
    /// The load or resume to answer after the history.
    arrival: Option<Arrival>,
    /// Whether the client has the list of servers' prompts.
    sent_server_prompts: bool,
    /// Questions that the client has not answered yet.
    asked: HashMap<QuestionId, RequestCancellationHandle>,
}

pub(super) struct Arguments {
    pub(super) shared: Arc<Shared>,
    pub(super) workspace: Arc<Workspace>,
    pub(super) place: SessionPlace,
    /// The first event to send.
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
        let view = UpdateRenderer::new(shared.call_ids.clone(), knows_compaction);
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
            sent_server_prompts: false,
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
            // A session that was opened again is watched again, so events may repeat.
            if !watching.transcript.is_root(event) {
                watching.follow_subagent(event).await;
            } else if event.seq > watching.seen {
                watching.send(event).await;
            }
        }
        watching.flow.room().await;
        // The hub may have ended with the node.
        let _ = done.send(());
        Ok(())
    }

    /// Another observer sends the session from its beginning.
    async fn post_stop(
        &self,
        _: ActorRef<Observation>,
        watching: &mut Watching,
    ) -> Result<(), ActorProcessingErr> {
        if let Some(arrival) = watching.arrival.take() {
            let why = "the session was opened again or closed before it had loaded";
            report(arrival.failed(Error::invalid_request().data(why)));
        }
        Ok(())
    }
}

impl Watching {
    async fn send(&mut self, event: &Envelope) {
        self.seen = event.seq;
        self.shared.has_seen(event.seq);
        let live = event.seq > self.history;
        self.shared.report_seen(event.seq);
        if let Event::Session(Session::Configured { choices, by }) = &event.event
            && live
        {
            self.configured(choices, by);
        }
        if live && matches!(event.event, Event::Session(Session::Resumed { close: false, .. })) {
            self.cut_off = false;
            self.shared.set_running(true);
        }
        for change in self.transcript.apply(event) {
            if let Some(session) = self.transcript.root() {
                for update in self.view.updates(session, &change) {
                    self.update(update);
                }
            }
            if let Change::Prompted { by, parts } = &change {
                self.prompted(live, by, parts);
            } else if let Change::AgentSwitched { agent, .. } = &change
                && live
            {
                // The log already has earlier switches.
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
        if live
            && self.arrival.is_none()
            && matches!(event.event, Event::Session(Session::Resumed { close: false, .. }))
        {
            // Its questions are open again.
            self.arrived().await;
        }
        if event.seq >= self.history
            && let Some(arrival) = self.arrival.take()
        {
            let available = AvailableChoices::for_project(&self.place, &self.shared.project());
            let available = available
                .inspect_err(|error| leftfold_runtime::note(&format!("leftfold: {error:#}")))
                .ok();
            report(arrival.arrived(available.as_ref()));
            if let Some(available) = available {
                self.shared.resend_commands(available.commands());
            }
            self.arrived().await;
        }
    }

    /// Servers start with the first turn; their prompts become commands then.
    fn send_server_prompts(&mut self) {
        if std::mem::replace(&mut self.sent_server_prompts, true) {
            return;
        }
        if let Ok(available) = AvailableChoices::for_project(&self.place, &self.shared.project()) {
            self.shared.send_commands(available.commands());
        }
    }

    fn turn_ended(&mut self, live: bool, ended: &Ended, finish: Option<Finish>) {
        self.shared.set_running(false);
        self.shared.terminals().clear();
        self.shared.call_ids.clear();
        if live {
            self.withdraw_all();
            self.send_server_prompts();
            self.shared.prompts.ended(ended, finish);
        }
    }

    /// Sends a subagent's questions, and the outcome of the calls they are about. Questions of an
    /// interrupted turn are not sent.
    async fn follow_subagent(&mut self, event: &Envelope) {
        let session = event.session;
        let worked = self.is_working(session);
        let changes = self.transcript.apply(event);
        for change in &changes {
            let view = self.transcript.session(session);
            if let Some(update) = view.and_then(|view| view::of_subagent(view, change)) {
                self.update(update);
            }
            if let Change::Asked(question) = change {
                if !self.cut_off && self.is_working(session) && self.arrival.is_none() {
                    self.ask_now((session, *question)).await;
                }
            } else if let Change::QuestionClosed(question) = change {
                self.settled((session, *question));
            } else if let Change::TurnEnded { .. } = change {
                self.close_questions(session);
            }
        }
        for change in changes.iter().filter(|_| worked) {
            if let Some(update) = self.view.progress(&self.transcript, session, change) {
                self.update(update);
            }
        }
    }

    /// Whether a subagent is running, as far as its parent knows.
    fn is_working(&self, subagent: SessionId) -> bool {
        self.transcript.subagent(subagent).is_some_and(|status| status.works)
    }

    fn prompted(&mut self, live: bool, by: &str, parts: &[PromptPart]) {
        self.shared.set_running(true);
        self.cut_off &= !live;
        if self.shared.is_this_client(by)
            && (live || self.arrival.as_ref().is_some_and(Arrival::goes_on))
        {
            self.shared.prompts.taken();
        } else {
            view::prompt(parts).into_iter().for_each(|update| self.update(update));
        }
    }

    /// Ends the history. Its open questions go to the client, unless its turn was interrupted.
    async fn arrived(&mut self) {
        if self.cut_off {
            self.shared.set_running(false);
            return;
        }
        let root = self.place.session;
        let open = self.transcript.open_questions().map(|open| open.id);
        let open = open.filter(|(session, _)| *session == root || self.is_working(*session));
        let open: Vec<_> = open.filter(|id| !self.asked.contains_key(id)).collect();
        for id in open {
            self.ask_now(id).await;
        }
    }

    /// Another agent has taken over, and gets the next prompts.
    fn switched(&self, agent: String) {
        let project = self.shared.project();
        let mut choices = project.choices.clone();
        // The log already has this choice.
        choices.agent = choices.agent.map(|_| agent.clone());
        self.set_project(Project { agent: Some(agent), choices, ..(*project).clone() });
    }

    /// Another client has changed the choices.
    fn configured(&self, choices: &SessionChoices, by: &str) {
        let project = self.shared.project();
        let own = self.shared.is_this_client(by) && self.shared.confirm_choice(choices);
        if project.choices != *choices && !own {
            self.set_project(Project { choices: choices.clone(), ..(*project).clone() });
        }
    }

    /// Sets the choices for prompts from now on, and sends them to the client.
    fn set_project(&self, project: Project) {
        if let Ok(available) = AvailableChoices::for_project(&self.place, &project) {
            self.shared.send_choices(available.updates());
        }
        self.shared.set_project(project);
    }

    /// Sends an update, unless it belongs to history that the client knows.
    fn update(&self, update: SessionUpdate) {
        let update = self.shared.terminals().with(update);
        if self.arrival.as_ref().is_none_or(|arrival| arrival.wants(self.seen))
            && let Some(update) = update
        {
            self.shared.update(update);
        }
    }

    async fn ask_now(&mut self, (session, question): QuestionId) {
        let view = self.transcript.session(session);
        if let Some(open) = view.and_then(|view| view.question(question)) {
            let prompt = PermissionPrompt::new(open, &self.transcript, &self.shared.call_ids);
            self.ask(prompt).await;
        }
    }

    /// Asks the client; the session decides whether its answer counts.
    async fn ask(&mut self, prompt: PermissionPrompt) {
        let asked = prompt.open.id;
        let (id, shared) = (self.shared.id.clone(), Arc::clone(&self.shared));
        if let Some(question) = prompt.open.question.as_ref().filter(|_| shared.has_forms()) {
            let request = form::request(id, prompt.call.tool_call_id, question);
            let sent = shared.connection.send_request(request);
            self.asked.insert(asked, sent.cancellation_handle());
            let question = question.clone();
            tokio::spawn(async move {
                let reply = replied(sent.block_task().await, |response| {
                    leftfold_runtime::client::reply(form::answer(response, &question), NAME)
                });
                shared.answer(asked, reply).await;
            });
            return;
        }
        let prompt = prompt.with_change(&self.workspace).await;
        let PermissionPrompt { call, options, answers, .. } = prompt;
        let sent = shared.connection.send_request(RequestPermissionRequest::new(id, call, options));
        self.asked.insert(asked, sent.cancellation_handle());
        tokio::spawn(async move {
            let reply = replied(sent.block_task().await, |response| chosen(&response, &answers));
            shared.answer(asked, reply).await;
        });
    }

    /// Withdraws a question that anybody has answered.
    fn settled(&mut self, asked: QuestionId) {
        if let Some(asked) = self.asked.remove(&asked) {
            // Withdrawing does nothing if this client has answered.
            report(asked.cancel());
        }
    }

    /// Withdraws the questions of a child whose turn has ended.
    fn close_questions(&mut self, child: SessionId) {
        let cancelled = self.shared.prompts.cancelled();
        let over = self.asked.extract_if(|(session, _), _| *session == child);
        for (_, asked) in over.filter(|_| !cancelled) {
            report(asked.cancel());
        }
    }

    /// A client that cancels answers its questions itself.
    fn withdraw_all(&mut self) {
        let cancelled = self.shared.prompts.cancelled();
        for (_, asked) in self.asked.drain().filter(|_| !cancelled) {
            report(asked.cancel());
        }
    }
}
