//! The observer of one session: what has become durable goes to the client, as updates, as
//! questions, and in the end as the answer to its prompts.

use std::collections::HashMap;
use std::sync::Arc;

use agent_client_protocol::v1::schema::{RequestPermissionRequest, SessionUpdate};
use agent_client_protocol::{Error, RequestCancellationHandle};
use leftfold_actors::{Observation, Recorded};
use leftfold_events::event::{Event, PromptPart, Session};
use leftfold_events::{Envelope, Seq, SessionId};
use leftfold_tools::Workspace;
use ractor::{Actor, ActorProcessingErr, ActorRef};

use super::choices::Offer;
use super::compaction::Compactions;
use super::family::Children;
use super::flow::Flow;
use super::opening::Arrival;
use super::replies::{chosen, told};
use super::shared::{BY, Shared};
use super::view::{self, Question, Told, View};
use super::{form, preview};
use leftfold_runtime::home::Place;
use leftfold_runtime::project::Project;
use leftfold_view::QuestionId;

pub(super) struct Updates;

pub(super) struct Watching {
    shared: Arc<Shared>,
    place: Place,
    project: Arc<Project>,
    /// Where the calls that are asked about would run.
    workspace: Arc<Workspace>,
    view: View,
    compactions: Compactions,
    children: Children,
    flow: Flow,
    /// Whether events of another session may come first, as this one is a fork of it.
    shares: bool,
    /// The last event that was told.
    seen: Seq,
    /// Events up to and with this one are history.
    history: Seq,
    /// Whether the turn that history ends in was cut off, so that nobody waits for an answer.
    cut_off: bool,
    /// Questions of history that are still open.
    open: Vec<Question>,
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
    pub(super) place: Place,
    pub(super) project: Arc<Project>,
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
        let Arguments { shared, workspace, place, project, from, history, cut_off, arrival } =
            arguments;
        let (view, flow, asked) = (View::default(), shared.flow.clone(), HashMap::new());
        let (seen, open, children) = (from - 1, Vec::new(), Children::new(place.session));
        let session = shared.abilities.session.as_ref();
        let known = session.is_some_and(|session| session.compaction.is_some());
        let compactions = Compactions::new(known);
        shared.has_seen(seen);
        Ok(Watching {
            shared,
            place,
            project,
            workspace,
            view,
            compactions,
            children,
            flow,
            shares: from == 1,
            seen,
            history,
            cut_off,
            open,
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
            if watching.is_shared(event) {
                let root = watching.place.session;
                watching.tell(&Envelope { session: root, ..event.clone() }).await;
                continue;
            }
            // a session that was opened again is watched once more
            if !watching.children.is_root(event) {
                watching.tell_of_child(event).await;
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
    /// Whether the event is one that a fork has in common with the session that it comes from: those
    /// come before all of its own.
    fn is_shared(&mut self, event: &Envelope) -> bool {
        self.shares &= !self.children.is_root(event);
        self.shares
    }

    async fn tell(&mut self, event: &Envelope) {
        self.seen = event.seq;
        self.shared.has_seen(event.seq);
        let live = event.seq > self.history;
        self.children.see(event);
        if let Event::Session(Session::Forked { .. }) = &event.event {
            // what was asked there is asked there
            self.open.clear();
        }
        if let Some(update) = self.compactions.see(event) {
            self.update(update);
        }
        for told in self.view.see(event) {
            match told {
                Told::Update(update) => self.update(*update),
                Told::Prompted { by, parts } => self.prompted(live, &by, &parts),
                Told::Switched(agent) if live => self.switched(agent),
                // who took over in the past is known from the log
                Told::Switched(_) => {}
                Told::Ask(question) if live => self.ask(*question).await,
                Told::Ask(question) => self.open.push(*question),
                Told::Settled(of) => self.settled(of),
                Told::Silent(_) => {}
                Told::Ended { ended, finish } => {
                    self.shared.is_now(false);
                    self.shared.terminals().clear();
                    self.open.clear();
                    if live {
                        self.withdraw_all();
                        self.tell_prompts_of_servers();
                        self.shared.prompts.ended(&ended, finish);
                    }
                }
            }
        }
        if event.seq >= self.history
            && let Some(arrival) = self.arrival.take()
        {
            let offer = Offer::of(&self.place, &self.project, &self.shared.chosen());
            let offer = offer
                .inspect_err(|error| leftfold_runtime::note(&format!("leftfold: {error:#}")))
                .ok();
            report(arrival.arrived(offer.as_ref()));
            if let Some(offer) = offer {
                self.shared.tell_commands_again(offer.commands());
            }
            self.arrived().await;
        }
    }

    /// Servers are started with the first turn, and have commands to offer from then on.
    fn tell_prompts_of_servers(&mut self) {
        if self.told_prompts || self.workspace.mcp.prompts().is_empty() {
            return;
        }
        self.told_prompts = true;
        let offer = Offer::of(&self.place, &self.project, &self.shared.chosen());
        self.shared.tell_choices(offer.ok().map(|offer| offer.commands()));
    }

    /// Of a turn that nobody goes on with, nothing is asked.
    async fn tell_of_child(&mut self, event: &Envelope) {
        for told in self.children.see(event) {
            match told {
                Told::Update(update) => self.update(*update),
                Told::Ask(_) if self.cut_off || !self.children.works(event.session) => {}
                Told::Ask(question) if self.arrival.is_some() => self.open.push(*question),
                Told::Ask(question) => self.ask(*question).await,
                Told::Settled(asked) => self.settled(asked),
                Told::Silent(child) => self.silent(child),
                Told::Prompted { .. } | Told::Switched(_) | Told::Ended { .. } => {}
            }
        }
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
        let open = std::mem::take(&mut self.open);
        if self.cut_off {
            self.shared.is_now(false);
        } else {
            for question in open {
                self.ask(question).await;
            }
        }
    }

    /// Another agent has taken over, and the next prompts are for it.
    fn switched(&mut self, agent: String) {
        let mut chosen = self.shared.chosen();
        chosen.agent = Some(agent);
        if let Ok(offer) = Offer::of(&self.place, &self.project, &chosen) {
            self.shared.tell_choices(offer.updates());
        }
        self.shared.choose(chosen);
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

    /// Asks the client; its answer is the session's to judge.
    async fn ask(&mut self, question: Question) {
        let asked = question.asked;
        let (id, shared) = (self.shared.id.clone(), Arc::clone(&self.shared));
        if let Some(inquiry) = question.inquiry.as_ref().filter(|_| shared.has_forms()) {
            let request = form::request(id, question.call.tool_call_id, inquiry);
            let sent = shared.connection.send_request(request);
            self.asked.insert(asked, sent.cancellation_handle());
            let inquiry = inquiry.clone();
            tokio::spawn(async move {
                let reply = told(sent.block_task().await, |response| {
                    leftfold_runtime::client::reply(form::answer(response, &inquiry), BY)
                });
                shared.answer(asked, reply).await;
            });
            return;
        }
        let question = preview::with_change(question, &self.workspace).await;
        let Question { call, options, answers, .. } = question;
        let sent = shared.connection.send_request(RequestPermissionRequest::new(id, call, options));
        self.asked.insert(asked, sent.cancellation_handle());
        tokio::spawn(async move {
            let reply = told(sent.block_task().await, |response| chosen(&response, &answers));
            shared.answer(asked, reply).await;
        });
    }

    /// The question is open no longer, whoever answered it.
    fn settled(&mut self, asked: QuestionId) {
        self.open.retain(|question| question.asked != asked);
        if let Some(asked) = self.asked.remove(&asked) {
            // it does nothing if the client was the one who answered
            report(asked.cancel());
        }
    }

    /// A child's turn is over, and with it whatever it has asked.
    fn silent(&mut self, child: SessionId) {
        self.open.retain(|question| question.asked.0 != child);
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

/// A client that has gone needs nothing more.
pub(super) fn report(sent: Result<(), Error>) {
    if let Err(error) = sent {
        tracing::debug!("the client is gone: {error}");
    }
}
