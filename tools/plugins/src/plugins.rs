//! The handle of a project's plugins.

use std::fmt;
use std::sync::Arc;

use leftfold_events::event::{Heard, Hook};
use leftfold_events::kit::{PluginSpec, ToolSpec};
use serde_json::Value;

use super::adviser::Adviser;
use super::pool::{self, Pool};
use super::spec::{Report, Root, Said, Spec, Status};
use super::watcher::Watcher;

/// The plugins of a project. Clones are the same; the default has none.
#[derive(Clone, Default)]
pub struct Plugins(pub(super) Arc<Pool>);

impl fmt::Debug for Plugins {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.0.specs()).finish()
    }
}

impl Plugins {
    /// Those of the project in `root`. Nothing is started yet.
    pub fn of(root: &Root, specs: &[Spec]) -> Self {
        Self(pool::shared(root, specs))
    }

    /// Waits until every plugin has been started, or has failed to.
    pub async fn ready(&self) {
        self.0.members.ready().await;
    }

    /// The same for code that can not await. Outside a runtime of several threads it waits for nothing.
    pub fn wait(&self) {
        self.0.members.wait();
    }

    /// Those that add to settings, in the order of the settings; only of those that have started.
    pub fn advisers(&self) -> Vec<Adviser> {
        self.0.advisers()
    }

    /// Those that run and want to be asked something.
    pub fn specs(&self) -> Vec<PluginSpec> {
        self.0.kit()
    }

    /// The tools there are. Each name is there once.
    pub fn tools(&self) -> Vec<ToolSpec> {
        self.0.tools()
    }

    /// Each plugin, in the order of the settings.
    pub fn reports(&self) -> Vec<Report> {
        self.0.reports()
    }

    /// What people should know of plugins that can not be used, or not in all they want.
    pub fn problems(&self) -> Vec<String> {
        let told = |report: Report| {
            let Report { name, place, status, warnings, .. } = report;
            let failed = match status {
                Status::Failed(why) => Some(why),
                Status::Running | Status::Idle => None,
            };
            let all = failed.into_iter().chain(warnings);
            all.map(move |why| format!("{place}: plugin `{name}`: {why}")).collect::<Vec<_>>()
        };
        self.reports().into_iter().flat_map(told).collect()
    }

    /// Puts a hook to a plugin. It has as long as settings say.
    pub async fn ask(&self, plugin: &str, hook: Hook, params: Value) -> Said {
        match self.0.named(plugin) {
            Some(running) => running.ask(hook, params).await,
            None => Said::not(Heard::Gone, "it does not run".to_owned()),
        }
    }

    /// Those that want to be told of every event.
    pub fn watchers(&self) -> Vec<Watcher> {
        self.0.watchers()
    }
}
