//! A session in this process's node, as those who drive it see it.

use std::sync::Arc;
use std::time::SystemTime;

use anyhow::Context;
use leftfold_actors::equip::{self, Setup};
use leftfold_actors::{
    Answered, Models, Node, NodeMessage, Observation, Open, Opened, Reply, SessionMessage, Watch,
    World,
};
use leftfold_events::event::{ModelRef, PromptPart, Session, Turn};
use leftfold_events::kit::AskMode;
use leftfold_events::{Fact, Kit, POLICY, Seq, SessionId, State, Time};
use leftfold_providers::Provider;
use leftfold_store::Store;
use leftfold_tools::Workspace;
use ractor::{Actor, ActorRef};

use crate::approvals::{self, Memory};
use crate::home::Place;

/// All that a session needs to know of the world.
pub(crate) struct Job<'a> {
    pub(crate) place: Place,
    pub(crate) setup: Setup<'a>,
    pub(crate) provider: (String, Arc<dyn Provider>),
    pub(crate) workspace: Workspace,
    pub(crate) agent: String,
}

impl Job<'_> {
    /// What is in force right now, with what the project remembers.
    pub(crate) fn kit(&self) -> Kit {
        let mut setup = self.setup.clone();
        setup.options.approved = approvals::of(setup.worktree);
        equip::gather(setup, Time::from(SystemTime::now()))
    }

    /// What a client needs to prompt after this job's own prompt.
    pub(crate) fn equipment(&self) -> Equipment {
        let (agent, model) = (self.agent.clone(), self.setup.model.name());
        Equipment { kit: self.kit(), agent, model }
    }

    /// Whether somebody is there to be asked.
    pub(crate) fn asks(&self) -> bool {
        self.setup.options.ask == AskMode::Ask
    }

    fn birth(&self) -> Session {
        Session::Created {
            directory: self.setup.directory.display().to_string(),
            worktree: self.setup.worktree.display().to_string(),
            parent: None,
            agent: self.agent.clone(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            policy: POLICY,
        }
    }

    fn open(&self) -> Open {
        let (name, provider) = &self.provider;
        let models = Models::new([(name.clone(), Arc::clone(provider))]);
        Open {
            store: self.place.store.clone(),
            session: self.place.session,
            world: World { models, workspace: Arc::new(self.workspace.clone()) },
            birth: self.birth(),
        }
    }
}

/// What goes with a prompt: the kit, and who is to answer with which model.
#[derive(Clone, Debug)]
pub(crate) struct Equipment {
    pub(crate) kit: Kit,
    pub(crate) agent: String,
    pub(crate) model: ModelRef,
}

/// Clones talk to the same session.
#[derive(Clone)]
pub(crate) struct Client {
    node: ActorRef<NodeMessage>,
    pub(crate) session: SessionId,
    memory: Memory,
}

/// Starts a node: one for a process.
pub(crate) async fn node() -> anyhow::Result<ActorRef<NodeMessage>> {
    Ok(Actor::spawn(None, Node, ()).await.context("the node can not be started")?.0)
}

impl Client {
    /// Opens the job's session in `node`.
    pub(crate) async fn open(
        node: ActorRef<NodeMessage>,
        job: &Job<'_>,
    ) -> anyhow::Result<(Self, Opened)> {
        leftfold_tools::prune(&job.workspace.spill_dir, SystemTime::now());
        let open = Box::new(job.open());
        let opened = ractor::call!(node, |reply| NodeMessage::Open { open, reply });
        let opened = opened.context("the node has died")??;
        let session = job.place.session;
        let (memory, sink) = Memory::start(job.setup.worktree).await?;
        let client = Self { node, session, memory };
        // what a crash kept from being remembered is remembered now
        client.watch(if opened.unfinished { 1 } else { opened.head + 1 }, sink)?;
        Ok((client, opened))
    }

    /// Waits until every "always" in the log so far is remembered for the project.
    pub(crate) async fn remembered(&mut self) -> anyhow::Result<()> {
        let head = self.view().await?.seq;
        self.memory.through(head).await;
        Ok(())
    }

    /// The session as it is now, what is being made durable included.
    pub(crate) async fn view(&self) -> anyhow::Result<Box<State>> {
        let session = self.session;
        let view = ractor::call!(self.node, |reply| NodeMessage::Tell {
            session,
            message: SessionMessage::View(reply),
        });
        view.context("the session is gone")
    }

    /// The store, for reading what is durable.
    pub(crate) async fn reading(&self) -> anyhow::Result<Store> {
        let session = self.session;
        let store = ractor::call!(self.node, |reply| NodeMessage::Reading { session, reply });
        store.context("the node has died")?.context("the session is closed")
    }

    /// Has `sink` told of every event from `from` on.
    pub(crate) fn watch(&self, from: Seq, sink: ActorRef<Observation>) -> anyhow::Result<()> {
        let watch = Watch { session: self.session, from, sink };
        self.node.cast(NodeMessage::Watch(watch)).context("the node has died")
    }

    pub(crate) fn prompt(&self, job: &Job<'_>, text: String, by: &str) -> anyhow::Result<()> {
        self.prompt_parts(job, vec![PromptPart::text(text)], by)
    }

    pub(crate) fn prompt_parts(
        &self,
        job: &Job<'_>,
        parts: Vec<PromptPart>,
        by: &str,
    ) -> anyhow::Result<()> {
        self.prompt_with(job.equipment(), parts, by)
    }

    pub(crate) fn prompt_with(
        &self,
        equipment: Equipment,
        parts: Vec<PromptPart>,
        by: &str,
    ) -> anyhow::Result<()> {
        let Equipment { kit, agent, model } = equipment;
        let prompted = Turn::Prompted { parts, agent, model, by: by.to_owned() };
        let (kit, prompted) = (Box::new(kit), Box::new(Fact::new(prompted)));
        self.tell(SessionMessage::Prompt { kit, prompted })
    }

    /// Goes on with a turn that was cut off, or (`close`) brings it to its end.
    pub(crate) fn resume(&self, job: &Job<'_>, close: bool) -> anyhow::Result<()> {
        self.tell(SessionMessage::Resume { kit: Box::new(job.kit()), close })
    }

    pub(crate) fn interrupt(&self, by: &str) -> anyhow::Result<()> {
        let interrupted = Fact::new(Turn::Interrupted { by: by.to_owned() });
        self.tell(SessionMessage::Told(vec![interrupted]))
    }

    /// Answers the question that the intent `of` asked.
    pub(crate) async fn answer(&self, of: Seq, reply: Reply) -> anyhow::Result<Answered> {
        let answered = ractor::call!(self.node, |told| NodeMessage::Tell {
            session: self.session,
            message: SessionMessage::Answer { of, reply, told },
        });
        answered.context("the session is gone")
    }

    /// Takes the node down where it stands; the log has what it takes to go on.
    pub(crate) async fn stop(&self) {
        // one that is dead already is as good
        let _ = self.node.kill_and_wait(None).await;
    }

    fn tell(&self, message: SessionMessage) -> anyhow::Result<()> {
        let tell = NodeMessage::Tell { session: self.session, message };
        self.node.cast(tell).context("the node has died")
    }
}

/// Waits until the session is closed for good; the reason.
pub(crate) async fn closed(opened: &mut Opened) -> String {
    match opened.closed.wait_for(Option::is_some).await {
        Ok(reason) => reason.clone().unwrap_or_default(),
        Err(_) => "the node has died".to_owned(),
    }
}
