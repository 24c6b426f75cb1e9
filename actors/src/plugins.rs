//! Puts hooks to plugins and tells the session what they say. What must not stand in a log, values of
//! headers and variables, is kept here until the requests and commands that it is for.

use std::collections::BTreeMap;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, PoisonError};

use futures::FutureExt;
use leftfold_events::event::{Heard, Hook, Plugin as PluginEvent};
use leftfold_events::state::Consulted;
use leftfold_events::{Fact, Json, Seq, State, context};
use leftfold_providers::Extra;
use leftfold_tools::Workspace;
use leftfold_tools::plugins::Said;
use ractor::ActorRef;

use crate::World;
use crate::report::tell;
use crate::session::SessionMessage;

/// By name; later ones win.
pub(crate) type Values = Vec<(String, String)>;

/// What plugins have given a session in this turn.
#[derive(Clone, Default)]
pub(crate) struct Given(Arc<Mutex<Kept>>);

#[derive(Default)]
struct Kept {
    /// The last that each plugin has said, in its hook, and for which provider.
    extra: BTreeMap<(Hook, String), (String, Extra)>,
    /// For calls.
    variables: BTreeMap<Seq, Values>,
}

impl Given {
    fn with<T>(&self, change: impl FnOnce(&mut Kept) -> T) -> T {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// For the next request to this provider: what is said of one is no other's business.
    pub(crate) fn extra(&self, provider: &str) -> Extra {
        self.with(|kept| {
            let of = kept.extra.values().filter(|(known, _)| known == provider);
            let mut all = Extra::default();
            for (_, Extra { key, headers }) in of {
                all.key = key.clone().or(all.key);
                all.headers.extend(headers.iter().cloned());
            }
            all
        })
    }

    /// For the command of the call at `call`.
    pub(crate) fn variables(&self, call: Seq) -> Values {
        self.with(|kept| kept.variables.remove(&call).unwrap_or_default())
    }

    /// The turn is over.
    pub(crate) fn clear(&self) {
        self.with(|kept| *kept = Kept::default());
    }

    fn keep(&self, asked: &Consulted, provider: String, values: Values, key: Option<String>) {
        let Consulted { hook, about, ref plugin, .. } = *asked;
        self.with(|kept| match hook {
            Hook::ShellEnv => kept.variables.entry(about).or_default().extend(values),
            Hook::ChatHeaders | Hook::Auth => {
                let extra = Extra { key, headers: values };
                kept.extra.insert((hook, plugin.clone()), (provider, extra));
            }
            Hook::ChatMessage
            | Hook::ChatParams
            | Hook::ToolBefore
            | Hook::ToolAfter
            | Hook::ToolDefinition
            | Hook::PermissionAsk
            | Hook::System
            | Hook::Compacting => {}
        });
    }
}

/// Asks what the intent `of` has decided to ask, beside the session.
pub(crate) fn ask(
    owner: &ActorRef<SessionMessage>,
    world: &World,
    given: &Given,
    of: Seq,
    state: &State,
) {
    let Some(asked) = state.plugins.waiting(of).cloned() else { return };
    let owner = owner.clone();
    if let Some(tape) = world.tape.clone() {
        tokio::spawn(async move { tell(&owner, vec![Fact::of(of, tape.plugin(of).await)]) });
        return;
    }
    let (workspace, given) = (Arc::clone(&world.workspace), given.clone());
    let provider = state.kit.model.provider.clone();
    let mut question = context::question(state, &asked);
    if let Some(socket) = &world.workspace.socket {
        question["socket"] = socket.display().to_string().into();
    }
    tokio::spawn(async move {
        let asking = AssertUnwindSafe(workspace.plugins.ask(&asked.plugin, asked.hook, question));
        let said = asking.catch_unwind().await;
        let event = said.map_or_else(
            |_| failed("asking it failed unexpectedly"),
            |Said { outcome, output, message, values, key }| {
                given.keep(&asked, provider, values, key);
                let message = message.map(|why| format!("plugin `{}`: {why}", asked.plugin));
                let output = cut(asked.hook, output, &workspace, &format!("{of}"));
                PluginEvent::Answered { outcome, output, message }
            },
        );
        tell(&owner, vec![Fact::of(of, event)]);
    });
}

/// What takes the place of a call's output is no longer than that may be.
fn cut(hook: Hook, output: Json, workspace: &Workspace, name: &str) -> Json {
    let mut said = output.value();
    match said["output"].as_str().filter(|_| hook == Hook::ToolAfter) {
        Some(text) => {
            said["output"] = leftfold_tools::limited(text.to_owned(), workspace, name).into();
            Json::from_value(&said)
        }
        None => output,
    }
}

fn failed(why: &str) -> PluginEvent {
    let (outcome, message) = (Heard::Failed, Some(why.to_owned()));
    PluginEvent::Answered { outcome, output: Json::object(), message }
}
