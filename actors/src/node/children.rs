//! Opens the sessions that calls start, in the store of their parents, and performs the decisions
//! of `leftfold_events::children`.

use leftfold_events::children::{self, ChildIntent, Spawned};
use leftfold_events::event::{ModelRef, PromptPart, Session as SessionEvent, Turn};
use leftfold_events::{Fact, POLICY, Seq, SessionId, State, TurnConfig};
use leftfold_store::LiveReader;
use ractor::ActorRef;

use super::Sessions;
use super::opening::{Then, Waiting};
use crate::children::{ChildResult, interrupt, titled};
use crate::messages::{
    Error, NodeMessage, ObserversMessage, OpenSession, ReadyChild, SessionMessage, SpawnChild,
};
use crate::world::{ChildConfig, World};

impl Sessions {
    /// Builds the child's configuration in a task beside the node, because that reads files.
    pub(super) fn spawn(&mut self, node: &ActorRef<NodeMessage>, spawn: Box<SpawnChild>) {
        let Some(entry) = self.open.get(&spawn.parent.session) else { return };
        let (world, store) = (entry.world.clone(), entry.store.dir().to_owned());
        let (reader, created_event, node) =
            (entry.store.reader(), entry.created_event.clone(), node.clone());
        let (session, parent) = (spawn.session, spawn.parent.clone());
        let gather = move || -> Result<ReadyChild, String> {
            let fork_of = fork_of(&reader, &spawn).map_err(|error| error.to_string())?;
            let config = configure(&world, &spawn)?;
            let created_event = birth_of(created_event, &spawn);
            let world = World { models: config.models.clone(), ..world };
            let session = spawn.session;
            let open = Box::new(OpenSession { store, session, world, created_event, fork_of });
            Ok(ReadyChild { open, spawn, config: Box::new(config.config) })
        };
        self.tasks.spawn_blocking(gather, move |ready| {
            let failed_itself = || Err("Opening the subagent failed unexpectedly.".to_owned());
            let message = match ready.unwrap_or_else(failed_itself) {
                Ok(ready) => NodeMessage::OpenChild(Box::new(ready)),
                Err(why) => ChildResult::failed(session, why).to(parent),
            };
            // a node that is gone tells nobody
            let _ = node.cast(message);
        });
    }

    pub(super) async fn open_child(&mut self, node: &ActorRef<NodeMessage>, ready: ReadyChild) {
        let ReadyChild { open, spawn, config } = ready;
        let forks = open.fork_of.is_some();
        let world = Box::new(open.world.clone());
        self.open(node, Waiting { open, then: Then::Child { spawn, config, world, forks } }).await;
    }

    /// Prompts an open child with its task, if its log does not have the task yet. A child that
    /// `forks` first gets the id of its parent.
    pub(super) fn prompt_child(
        &mut self,
        node: &ActorRef<NodeMessage>,
        spawn: Box<SpawnChild>,
        (config, world): (Box<TurnConfig>, Box<World>),
        forks: bool,
    ) {
        let Some(entry) = self.open.get(&spawn.session) else { return };
        let woken = ObserversMessage::Woken {
            parent: spawn.parent.session,
            spawned: spawn.parent.spawned,
            child: spawn.session,
            from: entry.head + 1,
            first: spawn.is_first(),
        };
        if self.observers.cast(woken).is_err() {
            tracing::warn!("the observer hub is gone: observers get no events");
        }
        let Some(parent) = self.open.get(&spawn.parent.session) else { return };
        let (child, parent) = (entry.actor.clone(), parent.actor.clone());
        let spawned = Spawned {
            seq: spawn.parent.spawned,
            at: spawn.parent.since,
            again: spawn.again,
            cut_off: entry.cut_off,
        };
        let (session, of) = (spawn.session, spawn.parent.clone());
        let tell = node.clone();
        let begin = async move {
            if forks {
                let parent = spawn.parent.session;
                let facts = vec![Fact::new(SessionEvent::Adopted { parent })];
                let begun = ractor::call!(child, |reply_to| SessionMessage::Begin {
                    facts,
                    settles: None,
                    reply_to
                });
                if begun.is_err() {
                    return;
                }
            }
            // a session that dies here is restarted, and its parent asks again
            let Ok(of_child) = ractor::call!(child, SessionMessage::View) else { return };
            let Ok(of_parent) = ractor::call!(parent, SessionMessage::View) else { return };
            let intent = children::next(&of_parent, &of_child, &spawned);
            let works = matches!(
                intent,
                ChildIntent::Prompt { .. }
                    | ChildIntent::Wait
                    | ChildIntent::Resume { close: false }
            );
            for message in messages(intent, &spawn, (config, world), &of_child) {
                let _ = tell.cast(message);
            }
            // the parent may have been interrupted before the child began to work
            if works
                && let Ok(of_parent) = ractor::call!(parent, SessionMessage::View)
                && !children::waits_for(&of_parent, spawned.seq)
            {
                let _ = tell.cast(interrupt(session));
            }
        };
        let node = node.clone();
        self.tasks.spawn(begin, move |begun| {
            if begun.is_none() {
                let why = "Starting the subagent failed unexpectedly.".to_owned();
                // a node that is gone tells nobody
                let _ = node.cast(ChildResult::failed(session, why).to(of));
            }
        });
    }
}

/// The session that the child begins as a fork of, and the last shared event. A child that was
/// spawned in the shared events of a fork is forked before a call of the fork continues it. It
/// blocks on the disk.
fn fork_of(store: &LiveReader, spawn: &SpawnChild) -> Result<Option<(SessionId, Seq)>, Error> {
    let Some(from) = spawn.fork_of.filter(|_| !spawn.close) else { return Ok(None) };
    if !store.read(spawn.session, 1, 1)?.is_empty() {
        return Ok(None);
    }
    let fork = store.read(spawn.parent.session, 1, usize::MAX)?;
    let child = store.read(from, 1, usize::MAX)?;
    Ok(children::fork_point(&fork, &child, from).map(|at| (from, at)))
}

/// The first event of a child, given that of its parent.
fn birth_of(mut created_event: SessionEvent, spawn: &SpawnChild) -> SessionEvent {
    if let SessionEvent::Created { parent, agent, policy, .. } = &mut created_event {
        *parent = Some(spawn.parent.session);
        agent.clone_from(&spawn.agent);
        *policy = POLICY;
    }
    created_event
}

fn configure(world: &World, spawn: &SpawnChild) -> Result<ChildConfig, String> {
    let configs = world.turn_configs.as_ref().ok_or("There are no subagents here.")?;
    configs.for_child(&spawn.agent, &spawn.config)
}

/// The messages that perform the decision.
fn messages(
    intent: ChildIntent,
    spawn: &SpawnChild,
    (config, world): (Box<TurnConfig>, Box<World>),
    child: &State,
) -> Vec<NodeMessage> {
    let session = spawn.session;
    let tell = |message| NodeMessage::Tell { session, message };
    let adopt = tell(SessionMessage::Adopt(spawn.parent.clone()));
    match intent {
        ChildIntent::Prompt { title } => {
            let prompted = Box::new(prompt(spawn, config.model.name()));
            let prompt = SessionMessage::Prompt {
                config,
                world: Some(world),
                prompted,
                joins: false,
                reply_to: None,
            };
            let title = titled(&spawn.title, &spawn.agent).filter(|_| title);
            let title = title.map(|title| tell(SessionMessage::Facts(vec![title])));
            [adopt, tell(prompt)].into_iter().chain(title).collect()
        }
        ChildIntent::Wait => vec![adopt],
        ChildIntent::Resume { close } => {
            vec![adopt, tell(SessionMessage::Resume { config, world: Some(world), close })]
        }
        ChildIntent::Interrupt => vec![adopt, interrupt(session)],
        ChildIntent::Report(ended) => {
            vec![ChildResult::from_end(session, &ended, child).to(spawn.parent.clone())]
        }
        ChildIntent::CallOff => {
            let told = ChildResult::failed(session, "It was called off.".to_owned());
            vec![told.to(spawn.parent.clone())]
        }
        ChildIntent::Nothing => Vec::new(),
    }
}

fn prompt(spawn: &SpawnChild, model: ModelRef) -> Fact {
    Fact::new(Turn::Prompted {
        parts: vec![PromptPart::text(spawn.prompt.clone())],
        agent: spawn.agent.clone(),
        model,
        by: format!("session {}", spawn.parent.session),
    })
}
