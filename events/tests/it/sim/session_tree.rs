//! Children: opened in the store of their parents, prompted, continued after a crash, and
//! interrupted with the call that waits for them.

use leftfold_events::children::{self, ChildIntent, Spawned};
use leftfold_events::event::{EndReason, Ended, Finished, PromptPart, Subagent, Tool, Turn, Usage};
use leftfold_events::state::{Child, Phase};
use leftfold_events::{Fact, Json, Seq, SessionId, State, Time, TurnConfig};

use super::ledger::Held;
use super::people::prompted;
use super::session::{Item, Parent, SimSession};
use super::world::{Delivery, World};

/// A child to open or to continue.
#[derive(Clone, Debug)]
pub(crate) struct Spawn {
    parent: Parent,
    since: Time,
    session: SessionId,
    config: TurnConfig,
    again: bool,
}

impl World {
    pub(crate) fn spawn(&mut self, at: usize, spawned: Seq) {
        let state = &self.sessions[at].state;
        let child = state.open_children().find(|child| child.wait.intent == spawned).cloned();
        child.into_iter().for_each(|child| self.begin(at, &child, false, false));
    }

    pub(crate) fn spawn_again(&mut self, at: usize, resumed: Seq, close: bool) {
        let state = &self.sessions[at].state;
        let mut children: Vec<Child> = if close {
            state.calls().filter_map(|call| state.child_of(call)).cloned().collect()
        } else {
            state.open_children().cloned().collect()
        };
        children.retain(|child| child.wait.intent < resumed);
        children.iter().for_each(|child| self.begin(at, child, true, close));
    }

    fn begin(&mut self, at: usize, child: &Child, again: bool, close: bool) {
        let state = &self.sessions[at].state;
        let call = state.calls().find(|call| call.seq == child.call);
        if call.is_none() && !close {
            return;
        }
        let mut config = self.config_for("build");
        config.options.max_cost = state.left_to_spend();
        config.options.max_time = None;
        let started = match call.map(|call| &call.phase) {
            Some(Phase::Running { wait, .. }) => wait.intent,
            _ => 0,
        };
        let parent = Parent { sim_session: at, spawned: child.wait.intent, started };
        let (session, since) = (child.session, child.wait.since);
        let spawn = Spawn { parent, since, session, config, again };
        let delay = self.random.below(50);
        self.later(delay, Delivery::Spawn(Box::new(spawn)));
    }

    /// No call waits any more for the child that the intent `spawned` started.
    pub(crate) fn give_up(&mut self, at: usize, spawned: Seq) {
        let children = &self.sessions[at].state.children;
        let child = children.iter().find(|child| child.wait.intent == spawned).cloned();
        child.into_iter().for_each(|child| self.begin(at, &child, true, true));
    }

    /// Creates the child's place, and performs the core's decision for it.
    pub(crate) fn open_child(&mut self, spawn: &Spawn) -> Held {
        let known = self.sessions.iter().position(|sim_session| sim_session.id == spawn.session);
        let spawned = Spawned {
            seq: spawn.parent.spawned,
            at: spawn.since,
            again: spawn.again,
            cut_off: known.is_some_and(|at| self.sessions[at].cut_off),
        };
        let parent = &self.sessions[spawn.parent.sim_session];
        let unborn = State::default();
        let child = known.map_or(&unborn, |at| &self.sessions[at].state);
        let intent = children::next(&parent.state, child, &spawned);
        let of = parent.id;
        match intent {
            ChildIntent::CallOff => {
                self.end_child(spawn.parent, EndReason::Error, 0.0);
                return Ok(());
            }
            ChildIntent::Report(ended) => {
                self.end_child(spawn.parent, ended.reason, ended.cost);
                return Ok(());
            }
            ChildIntent::Nothing => return Ok(()),
            ChildIntent::Prompt { .. }
            | ChildIntent::Wait
            | ChildIntent::Resume { .. }
            | ChildIntent::Interrupt => {}
        }
        let at = known.unwrap_or(self.sessions.len());
        if known.is_none() {
            self.sessions.push(SimSession::new(spawn.session, Some(of), self.now(), self.sabotage));
        }
        let sim_session = &mut self.sessions[at];
        sim_session.parent = Some(spawn.parent);
        match intent {
            ChildIntent::Resume { close } => {
                sim_session.cut_off = false;
                sim_session.resume(&spawn.config, close);
            }
            ChildIntent::Interrupt => sim_session.inbox.push_back(Item::Fact(interrupted())),
            ChildIntent::Prompt { .. } => {
                let task = prompted(vec![PromptPart::text("look")], &spawn.config);
                sim_session.prompt(&spawn.config, task);
            }
            ChildIntent::Wait
            | ChildIntent::Report(_)
            | ChildIntent::CallOff
            | ChildIntent::Nothing => {}
        }
        self.write(at)
    }

    /// Tells the children of the call `of` to end.
    pub(crate) fn interrupt_children(&mut self, at: usize, of: Seq) -> Held {
        let open = self.sessions[at].state.open_children().filter(|child| child.call == of);
        let sessions: Vec<SessionId> = open.map(|child| child.session).collect();
        for session in sessions {
            if let Some(child) =
                self.sessions.iter().position(|sim_session| sim_session.id == session)
            {
                self.sessions[child].inbox.push_back(Item::Fact(interrupted()));
                self.write(child)?;
            }
        }
        Ok(())
    }

    /// A turn is over, for which a call of another session may wait.
    pub(crate) fn report(&mut self, at: usize, ended: &Ended) {
        if let Some(parent) = self.sessions[at].parent.take() {
            self.end_child(parent, ended.reason, ended.cost);
        }
    }

    fn end_child(&mut self, parent: Parent, reason: EndReason, cost: f64) {
        let Parent { sim_session, spawned, started } = parent;
        let (session, usage) = (self.sessions[sim_session].id, Usage::default());
        let ended = Subagent::Ended { session, answer: "so".into(), reason, usage, cost };
        let finished = finished(started, "what came of it", reason != EndReason::Completed);
        let delay = self.random.below(5);
        self.say(sim_session, delay, Item::Fact(Fact::for_intent(spawned, ended)));
        self.say(sim_session, delay, Item::Fact(finished));
    }
}

fn interrupted() -> Fact {
    Fact::new(Turn::Interrupted { by: "parent".into() })
}

pub(crate) fn finished(of: Seq, output: &str, is_error: bool) -> Fact {
    let finished = Finished {
        call: "a".into(),
        title: String::new(),
        output: output.into(),
        is_error,
        metadata: Json::object(),
        spill: None,
        attachments: Vec::new(),
    };
    Fact::for_intent(of, Tool::Finished(Box::new(finished)))
}
