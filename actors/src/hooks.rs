//! Calls plugins' hooks for the session and reports their answers. Each hook call is a task of this
//! actor and ends with it; a plugin's own time limit may end it sooner. This module keeps no
//! values: secret values go to the session beside the fact.

use std::sync::Arc;

use leftfold_events::event::{Hook as HookEvent, HookOutcome, HookPoint};
use leftfold_events::{Fact, Json, Seq};
use leftfold_plugins::{HookAnswer, Plugins};
use leftfold_tools::Workspace;
use ractor::{Actor, ActorProcessingErr, ActorRef};

use crate::hook_secrets::HookSecrets;
use crate::messages::{CallHook, HooksMessage, SessionMessage};
use crate::tasks::Tasks;
use crate::world::{Recording, World};

pub(crate) struct Hooks;

pub(crate) struct Calling {
    owner: ActorRef<SessionMessage>,
    workspace: Arc<Workspace>,
    plugins: Plugins,
    /// Gives the answers in a rerun, instead of the plugins.
    recording: Option<Arc<dyn Recording>>,
    calls: Tasks,
}

impl Actor for Hooks {
    type Msg = HooksMessage;
    type State = Calling;
    type Arguments = (ActorRef<SessionMessage>, World);

    async fn pre_start(
        &self,
        _: ActorRef<Self::Msg>,
        (owner, world): Self::Arguments,
    ) -> Result<Calling, ActorProcessingErr> {
        let World { workspace, plugins, recording, .. } = world;
        Ok(Calling { owner, workspace, plugins, recording, calls: Tasks::default() })
    }

    async fn handle(
        &self,
        _: ActorRef<Self::Msg>,
        message: HooksMessage,
        calling: &mut Calling,
    ) -> Result<(), ActorProcessingErr> {
        match message {
            HooksMessage::Call(call) => calling.call(*call),
            HooksMessage::Use(world) => {
                (calling.workspace, calling.plugins) = (world.workspace, world.plugins);
            }
            // aborting tells the plugin that its answer is no longer needed
            HooksMessage::CancelAll => calling.calls.abort_all(),
        }
        Ok(())
    }
}

impl Calling {
    fn call(&mut self, call: CallHook) {
        let owner = self.owner.clone();
        let of = call.of;
        let failed_itself =
            || (failed("asking it failed unexpectedly".to_owned()), HookSecrets::default());
        let report = move |returned: Option<(HookEvent, HookSecrets)>| {
            let (event, secrets) = returned.unwrap_or_else(failed_itself);
            report(&owner, of, event, secrets);
        };
        if let Some(recording) = self.recording.clone() {
            let recorded = async move { (recording.hook(of).await, HookSecrets::default()) };
            self.calls.spawn(recorded, report);
            return;
        }
        let (workspace, plugins) = (Arc::clone(&self.workspace), self.plugins.clone());
        self.calls.spawn(async move { ask(&call, &plugins, &workspace).await }, report);
    }
}

fn report(owner: &ActorRef<SessionMessage>, of: Seq, event: HookEvent, secrets: HookSecrets) {
    let fact = Box::new(Fact::for_intent(of, event));
    if owner.cast(SessionMessage::HookReturned { fact, secrets }).is_err() {
        tracing::debug!("the session is gone: a plugin's answer was dropped");
    }
}

/// Calls the hook, and divides the answer into the part for the log and the part that must not be
/// in it.
async fn ask(
    call: &CallHook,
    plugins: &Plugins,
    workspace: &Workspace,
) -> (HookEvent, HookSecrets) {
    let CallHook { of, asked, question, provider } = call;
    let mut question = question.clone();
    if let Some(socket) = &workspace.socket {
        question["socket"] = socket.display().to_string().into();
    }
    let said = plugins.ask(&asked.plugin, asked.hook, question).await;
    let HookAnswer { outcome, output, message, values, key } = said;
    let message = message.map(|why| format!("plugin `{}`: {why}", asked.plugin));
    let output = cut(asked.hook, output, workspace, &of.to_string());
    let secrets = HookSecrets::for_hook(asked, provider.clone(), values, key);
    (HookEvent::Returned { outcome, output, message }, secrets)
}

/// Cuts a text that replaces a call's output to the allowed length.
fn cut(hook: HookPoint, output: Json, workspace: &Workspace, name: &str) -> Json {
    let mut said = output.value();
    match said["output"].as_str().filter(|_| hook == HookPoint::ToolAfter) {
        Some(text) => {
            said["output"] = leftfold_tools::limited(text.to_owned(), workspace, name).into();
            Json::from_value(&said)
        }
        None => output,
    }
}

/// The outcome of a hook call that was running when the worker died.
pub(crate) fn lost(of: Seq, plugin: &str) -> Fact {
    Fact::for_intent(of, failed(format!("plugin `{plugin}`: the worker that calls plugins died")))
}

fn failed(why: String) -> HookEvent {
    HookEvent::Returned { outcome: HookOutcome::Failed, output: Json::object(), message: Some(why) }
}
