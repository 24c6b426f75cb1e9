//! The plugins of a project, and the names of their tools.

use std::collections::BTreeSet;
use std::fmt;
use std::path::Path;
use std::sync::Arc;

use leftfold_events::Json;
use leftfold_events::event::{HookOutcome, HookPoint};
use leftfold_events::turn_config::{PluginSpec, ToolSpec};
use leftfold_process::{Pool as Services, PoolUse, Pools, SharedServices, Supervised};
use leftfold_tools::{BoxFuture, external};
use serde_json::Value;

use super::config_plugin::ConfigPlugin;
use super::handshake::{Handshake, Tool};
use super::plugin::{self, Plugin, Running};
use super::sign_in::SignInOffer;
use super::spec::{HookAnswer, LaunchContext, PluginProgram, PluginReport, PluginStatus};
use super::watcher::Watcher;

/// The plugins of a project. Clones share them. The default has none.
#[derive(Clone, Default)]
pub struct Plugins(Arc<PoolUse<Pool>>);

#[derive(Default)]
struct Pool {
    root: LaunchContext,
    members: Services<Plugin>,
}

/// A tool that a running plugin offers.
pub(super) struct NamedTool {
    pub(super) name: String,
    pub(super) plugin: String,
    pub(super) running: Arc<Running>,
    pub(super) tool: Tool,
}

static POOLS: Pools<Pool> = Pools::new();

/// Ends all plugins of this process and waits until they are gone, at most about a second. No
/// plugin starts after that.
pub async fn close() {
    POOLS.close().await;
    leftfold_tools::remove_unused_folders();
}

/// Ends the plugins of the project in `directory`, also for hooks and calls that use them. Returns how many
/// sets of plugins these were. The next prompt there starts plugins again.
pub async fn dispose(directory: &Path) -> usize {
    POOLS.dispose(|pool| pool.root.directory == directory).await
}

impl SharedServices for Pool {
    async fn close(&self) {
        self.members.close().await;
    }
}

impl fmt::Debug for Plugins {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.0.specs()).finish()
    }
}

impl Pool {
    fn specs(&self) -> impl Iterator<Item = &PluginProgram> {
        self.members.iter().map(|plugin| &plugin.service().spec)
    }
}

impl Plugins {
    /// The plugins of the project in `root`. Starts none yet.
    pub fn from_specs(root: &LaunchContext, specs: &[PluginProgram]) -> Self {
        let is_same = |pool: &Pool| {
            let known = &pool.root;
            known.directory == root.directory
                && known.environment == root.environment
                && pool.specs().eq(specs)
        };
        let make = || {
            let plugin = |spec: &PluginProgram| Plugin { spec: spec.clone(), root: root.clone() };
            Pool { members: Services::new(specs.iter().map(plugin)), root: root.clone() }
        };
        let ends = |pool| -> BoxFuture<'static, ()> { Box::pin(POOLS.end_unused(pool)) };
        Self(Arc::new(POOLS.shared(is_same, make, ends)))
    }

    /// Waits until every plugin has started or failed to.
    pub async fn ready(&self) {
        self.0.members.ready().await;
    }

    /// [`Plugins::ready`] for code that cannot await. Returns at once outside a multi-threaded
    /// runtime.
    pub fn wait(&self) {
        self.0.members.wait();
    }

    /// The running plugins with the hook `config`, in the order of the settings.
    pub fn config_plugins(&self) -> Vec<ConfigPlugin> {
        let mut names = BTreeSet::new();
        let known =
            self.0.members.iter().filter_map(|plugin| Some((plugin, plugin.last_connection()?)));
        let first = known.filter(|(_, running)| names.insert(running.handshake.name.clone()));
        let config_plugin = |(plugin, running): (&Arc<Supervised<Plugin>>, Arc<Running>)| {
            ConfigPlugin { place: plugin.service().spec.place.clone(), running }
        };
        first.filter(|(_, running)| running.handshake.configures).map(config_plugin).collect()
    }

    /// The running plugins that have hooks, for the turn configuration.
    pub fn specs(&self) -> Vec<PluginSpec> {
        let asked = self.running().into_iter().filter(|plugin| !plugin.handshake.hooks.is_empty());
        let spec = |plugin: Arc<Running>| PluginSpec {
            name: plugin.handshake.name.clone(),
            hooks: plugin.handshake.hooks.clone(),
            timeout: u64::try_from(plugin.limit.as_millis()).unwrap_or(u64::MAX),
        };
        asked.map(spec).collect()
    }

    /// The available tools. Names are unique.
    pub fn tools(&self) -> Vec<ToolSpec> {
        let spec = |NamedTool { name, tool, .. }: NamedTool| ToolSpec {
            name,
            description: tool.description,
            schema: tool.parameters.as_object().map_or_else(Json::object, external::object_schema),
        };
        self.named_tools().into_iter().map(spec).collect()
    }

    /// A report on each plugin, in the order of the settings.
    pub fn reports(&self) -> Vec<PluginReport> {
        let (named_tools, mut names) = (self.named_tools(), BTreeSet::new());
        let report = |plugin: &Arc<Supervised<Plugin>>| {
            let mut report = plugin::report(plugin);
            if report.status == PluginStatus::Running && !names.insert(report.name.clone()) {
                report.status = PluginStatus::Failed("another plugin has this name".to_owned());
                return report;
            }
            let own = named_tools.iter().filter(|offered| offered.plugin == report.name);
            let about =
                |offered: &NamedTool| (offered.name.clone(), offered.tool.description.clone());
            report.tools = own.map(about).collect();
            report
        };
        self.0.members.iter().map(report).collect()
    }

    /// Problems for people: plugins that cannot be used, and hooks that do not exist.
    pub fn problems(&self) -> Vec<String> {
        let told = |report: PluginReport| {
            let PluginReport { name, place, status, warnings, .. } = report;
            let failed = match status {
                PluginStatus::Failed(why) => Some(why),
                PluginStatus::Running | PluginStatus::Idle => None,
            };
            let all = failed.into_iter().chain(warnings);
            all.map(move |why| format!("{place}: plugin `{name}`: {why}")).collect::<Vec<_>>()
        };
        self.reports().into_iter().flat_map(told).collect()
    }

    /// Calls a hook of a plugin. The answer's time limit is that of the settings.
    pub async fn ask(&self, plugin: &str, hook: HookPoint, params: Value) -> HookAnswer {
        match self.named(plugin) {
            Some(running) => running.ask(hook, params).await,
            None => HookAnswer::without_output(HookOutcome::Gone, "it is not running".to_owned()),
        }
    }

    /// The ways to sign in that running plugins offer.
    pub fn sign_ins(&self) -> Vec<SignInOffer> {
        let mut offers = Vec::new();
        for running in self.running() {
            let Handshake { name, provider, sign_ins, .. } = &running.handshake;
            let (Some(provider), Some(credentials)) = (provider, &running.credentials) else {
                continue;
            };
            offers.extend(sign_ins.iter().enumerate().map(|(at, method)| SignInOffer {
                plugin: name.clone(),
                provider: provider.clone(),
                method: method.clone(),
                at,
                running: Arc::clone(&running),
                credentials: credentials.clone(),
            }));
        }
        offers
    }

    /// The running plugins that want every event.
    pub fn watchers(&self) -> Vec<Watcher> {
        let watching = self.running().into_iter().filter(|plugin| plugin.handshake.watches);
        let watcher = |plugin: Arc<Running>| Watcher {
            name: plugin.handshake.name.clone(),
            link: Arc::clone(&plugin.link),
        };
        watching.map(watcher).collect()
    }

    /// The running plugins. If several have one name, the first counts.
    fn running(&self) -> Vec<Arc<Running>> {
        let mut names = BTreeSet::new();
        let running = self.0.members.iter().filter_map(|plugin| plugin.connection());
        running.filter(|running| names.insert(running.handshake.name.clone())).collect()
    }

    fn named(&self, name: &str) -> Option<Arc<Running>> {
        self.running().into_iter().find(|plugin| plugin.handshake.name == name)
    }

    pub(super) fn find(&self, name: &str) -> Option<NamedTool> {
        self.named_tools().into_iter().find(|offered| offered.name == name)
    }

    /// The tools of all running plugins, named like the tools of MCP servers (`PLUGIN_TOOL`), or by their own names if the
    /// plugin wants that.
    fn named_tools(&self) -> Vec<NamedTool> {
        let mut named_tools: Vec<NamedTool> = Vec::new();
        for running in self.running() {
            for tool in running.handshake.tools.clone() {
                let taken = |name: &str| named_tools.iter().any(|offered| offered.name == name);
                let (plugin, running) = (running.handshake.name.clone(), Arc::clone(&running));
                let name = match running.handshake.has_plain_names {
                    true => external::plain_name(&plugin, &tool.name, taken),
                    false => external::tool_name(&plugin, &tool.name, taken),
                };
                named_tools.push(NamedTool { name, plugin, running, tool });
            }
        }
        named_tools
    }
}
