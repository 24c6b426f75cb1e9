//! Opens the sessions that calls start, in the store of their parents.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::Arc;

use leftfold_events::event::{ModelRef, PromptPart, Session as SessionEvent, Turn};
use leftfold_events::{Fact, Kit, POLICY, State};
use ractor::ActorRef;

use super::opening::{Then, Waiting};
use super::{Sessions, heirs};
use crate::children::{Told, interrupt, titled};
use crate::messages::{
    NodeMessage, ObserversMessage, Open, ReadyChild, SessionMessage, SpawnChild,
};
use crate::world::{ChildConfig, World};

impl Sessions {
    /// Gathers what the child is to work with, beside the node, because that looks at files.
    pub(super) fn spawn(&mut self, node: &ActorRef<NodeMessage>, mut spawn: Box<SpawnChild>) {
        let Some(entry) = self.open.get(&spawn.parent.session) else { return };
        let (world, store) = (entry.world.clone(), entry.store.dir().to_owned());
        let shared = spawn.fork_of.map(|_| entry.store.clone());
        let (birth, node) = (entry.birth.clone(), node.clone());
        tokio::task::spawn_blocking(move || {
            let config = catch_unwind(AssertUnwindSafe(|| {
                let forked = shared.map_or(Ok(()), |store| heirs::begin(&store, &mut spawn));
                forked.map_err(|error| error.to_string())?;
                configure(&world, &spawn)
            }));
            let failed_itself = || Err("Opening the subagent failed unexpectedly.".to_owned());
            let ready = match config.unwrap_or_else(|_| failed_itself()) {
                Ok(config) => ready(config, &world, store, &birth, spawn),
                Err(why) => {
                    let told = Told::failed(spawn.session, why);
                    // a node that is gone tells nobody
                    let _ = node.cast(told.to(spawn.parent));
                    return;
                }
            };
            let _ = node.cast(NodeMessage::OpenChild(Box::new(ready)));
        });
    }

    pub(super) async fn open_child(&mut self, node: &ActorRef<NodeMessage>, ready: ReadyChild) {
        let ReadyChild { open, spawn, kit } = ready;
        self.open(node, Waiting { open, then: Then::Child { spawn, kit } }).await;
    }

    /// Tells a child that is open what it was spawned for, as far as its log does not have that
    /// already.
    pub(super) fn begin_child(
        &mut self,
        node: &ActorRef<NodeMessage>,
        spawn: Box<SpawnChild>,
        kit: Box<Kit>,
    ) {
        let Some(entry) = self.open.get(&spawn.session) else { return };
        let woken = ObserversMessage::Woken {
            parent: spawn.parent.session,
            spawned: spawn.parent.spawned,
            child: spawn.session,
            // all that it has of its own, if it is a fork that was just made
            from: spawn.fork_of.map_or(entry.head + 1, |_| 1),
            first: spawn.is_first(),
        };
        if self.observers.cast(woken).is_err() {
            tracing::warn!("nobody hands events to observers");
        }
        let Some(parent) = self.open.get(&spawn.parent.session) else { return };
        let (child, parent) = (entry.actor.clone(), parent.actor.clone());
        let (cut_off, node) = (entry.cut_off, node.clone());
        tokio::spawn(async move {
            // a session that dies here is started again, and its parent asks again
            let Ok(state) = ractor::call!(child, SessionMessage::View) else { return };
            let wanted = || async {
                let view = ractor::call!(parent, SessionMessage::View);
                view.is_ok_and(|state| spawn.close || waits(&state, &spawn))
            };
            // a turn that was cut off is brought to its end, of which the parent is told
            let close = spawn.close || !wanted().await;
            if close && !spawn.close && !(cut_off && state.turn.is_some()) {
                let told = Told::failed(spawn.session, "It was called off.".to_owned());
                let _ = node.cast(told.to(spawn.parent.clone()));
                return;
            }
            for message in begin(&state, &spawn, close, kit, cut_off) {
                let _ = node.cast(message);
            }
            if !wanted().await {
                let _ = node.cast(interrupt(spawn.session));
            }
        });
    }
}

fn configure(world: &World, spawn: &SpawnChild) -> Result<ChildConfig, String> {
    let configs = world.turn_configs.as_ref().ok_or("There are no subagents here.")?;
    configs.for_child(&spawn.agent, &spawn.kit)
}

fn ready(
    config: ChildConfig,
    parent: &World,
    store: PathBuf,
    birth: &SessionEvent,
    spawn: Box<SpawnChild>,
) -> ReadyChild {
    let ChildConfig { kit, models } = config;
    let mut world = World { models, ..parent.clone() };
    if !kit.tools.iter().any(|tool| tool.name == "task") {
        // nobody to give tasks to
        Arc::make_mut(&mut world.workspace).subagents.clear();
    }
    let mut birth = birth.clone();
    if let SessionEvent::Created { parent, agent, policy, .. } = &mut birth {
        *parent = Some(spawn.parent.session);
        agent.clone_from(&spawn.agent);
        *policy = POLICY;
    }
    let open = Box::new(Open { store, session: spawn.session, world, birth });
    ReadyChild { open, spawn, kit: Box::new(kit) }
}

/// Whether the parent still waits for the child.
fn waits(parent: &State, spawn: &SpawnChild) -> bool {
    let stopped = parent.turn.as_ref().is_none_or(|turn| turn.stop.is_some());
    let child = parent.open_children().find(|child| child.wait.intent == spawn.parent.spawned);
    let running = |call| parent.calls().any(|c| c.seq == call && c.is_running());
    !stopped && child.is_some_and(|child| running(child.call))
}

/// What a child is told, given how it stands.
fn begin(
    state: &State,
    spawn: &SpawnChild,
    close: bool,
    kit: Box<Kit>,
    cut_off: bool,
) -> Vec<NodeMessage> {
    let session = spawn.session;
    let tell = |message| NodeMessage::Tell { session, message };
    let adopt = tell(SessionMessage::Adopt(spawn.parent.clone()));
    let resume = tell(SessionMessage::Resume { kit: kit.clone(), close });
    if state.turn.is_some() {
        return match (cut_off, close) {
            (true, _) => vec![adopt, resume],
            (false, true) => vec![adopt, interrupt(session)],
            (false, false) => vec![adopt],
        };
    }
    let had_it = spawn.again && state.origin.is_some() && state.at >= spawn.parent.since;
    if close {
        return Vec::new();
    }
    if let Some(ended) = state.ended.as_ref().filter(|_| had_it) {
        return vec![Told::of(session, ended, state).to(spawn.parent.clone())];
    }
    let prompted = Box::new(prompt(spawn, kit.model.name()));
    let prompt = SessionMessage::Prompt { kit, prompted, joins: false, told: None };
    let title = titled(&spawn.title).filter(|_| state.title.is_none());
    let title = title.map(|title| tell(SessionMessage::Told(vec![title])));
    [adopt, tell(prompt)].into_iter().chain(title).collect()
}

fn prompt(spawn: &SpawnChild, model: ModelRef) -> Fact {
    Fact::new(Turn::Prompted {
        parts: vec![PromptPart::text(spawn.prompt.clone())],
        agent: spawn.agent.clone(),
        model,
        by: format!("session {}", spawn.parent.session),
    })
}
