//! A session in this process's node, as those who drive it see it.

use std::sync::Arc;
use std::time::SystemTime;

use anyhow::Context;
use leftfold_actors::equip::{self, Setup};
use leftfold_actors::{
    Answered, Models, Node, NodeMessage, Observation, Open, Opened, Reply, SessionMessage, Watch,
    World,
};
use leftfold_events::event::{PromptPart, Session, Turn};
use leftfold_events::kit::AskMode;
use leftfold_events::{Fact, Kit, POLICY, Seq, SessionId, Time};
use leftfold_providers::Provider;
use leftfold_tools::Workspace;
use ractor::{Actor, ActorRef};

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
    /// What is in force right now.
    pub(crate) fn kit(&self) -> Kit {
        equip::gather(self.setup.clone(), Time::from(SystemTime::now()))
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

/// Clones talk to the same session.
#[derive(Clone)]
pub(crate) struct Client {
    node: ActorRef<NodeMessage>,
    pub(crate) session: SessionId,
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
        let open = Box::new(job.open());
        let opened = ractor::call!(node, |reply| NodeMessage::Open { open, reply });
        let opened = opened.context("the node has died")??;
        Ok((Self { node, session: job.place.session }, opened))
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
        let prompted = Turn::Prompted {
            parts,
            agent: job.agent.clone(),
            model: job.setup.model.name(),
            by: by.to_owned(),
        };
        let (kit, prompted) = (Box::new(job.kit()), Box::new(Fact::new(prompted)));
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
