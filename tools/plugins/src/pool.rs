//! The plugins of a project, and the names of their tools.

use std::collections::BTreeSet;
use std::sync::Arc;

use leftfold_events::Json;
use leftfold_events::kit::{PluginSpec, ToolSpec};
use leftfold_process::{Pool as Services, Pools, Supervised};
use leftfold_tools::external;

use super::adviser::Adviser;
use super::handshake::Tool;
use super::plugin::{self, Plugin, Running};
use super::spec::{Report, Root, Spec, Status};
use super::watcher::Watcher;

#[derive(Default)]
pub(super) struct Pool {
    root: Root,
    pub(super) members: Services<Plugin>,
}

/// A tool that is there now.
pub(super) struct Offer {
    pub(super) name: String,
    pub(super) plugin: String,
    pub(super) running: Arc<Running>,
    pub(super) tool: Tool,
}

static POOLS: Pools<Pool> = Pools::new();

/// The pool of these plugins in this folder.
pub(super) fn shared(root: &Root, specs: &[Spec]) -> Arc<Pool> {
    let is_same = |pool: &Pool| {
        let known = &pool.root;
        known.directory == root.directory
            && known.environment == root.environment
            && pool.specs().eq(specs)
    };
    POOLS.shared(is_same, || {
        let plugins = specs.iter().map(|spec| Plugin { spec: spec.clone(), root: root.clone() });
        Pool { members: Services::new(plugins), root: root.clone() }
    })
}

/// Ends all plugins of this process, and waits until they are gone: at most about a second. None is
/// started after that.
pub async fn close() {
    POOLS.close().await;
}

impl AsRef<Services<Plugin>> for Pool {
    fn as_ref(&self) -> &Services<Plugin> {
        &self.members
    }
}

impl Pool {
    pub(super) fn specs(&self) -> impl Iterator<Item = &Spec> {
        self.members.iter().map(|plugin| &plugin.service().spec)
    }

    /// Those that run. Of several with one name the first counts.
    fn running(&self) -> Vec<Arc<Running>> {
        let mut names = BTreeSet::new();
        let running = self.members.iter().filter_map(|plugin| plugin.connection());
        running.filter(|running| names.insert(running.handshake.name.clone())).collect()
    }

    pub(super) fn kit(&self) -> Vec<PluginSpec> {
        let asked = self.running().into_iter().filter(|plugin| !plugin.handshake.hooks.is_empty());
        let spec = |plugin: Arc<Running>| PluginSpec {
            name: plugin.handshake.name.clone(),
            hooks: plugin.handshake.hooks.clone(),
            timeout: u64::try_from(plugin.limit.as_millis()).unwrap_or(u64::MAX),
        };
        asked.map(spec).collect()
    }

    pub(super) fn named(&self, name: &str) -> Option<Arc<Running>> {
        self.running().into_iter().find(|plugin| plugin.handshake.name == name)
    }

    /// Those that add to settings.
    pub(super) fn advisers(&self) -> Vec<Adviser> {
        let mut names = BTreeSet::new();
        let known =
            self.members.iter().filter_map(|plugin| Some((plugin, plugin.last_connection()?)));
        let first = known.filter(|(_, running)| names.insert(running.handshake.name.clone()));
        let adviser = |(plugin, running): (&Arc<Supervised<Plugin>>, Arc<Running>)| Adviser {
            place: plugin.service().spec.place.clone(),
            running,
        };
        first.filter(|(_, running)| running.handshake.configures).map(adviser).collect()
    }

    pub(super) fn watchers(&self) -> Vec<Watcher> {
        let watching = self.running().into_iter().filter(|plugin| plugin.handshake.watches);
        let watcher = |plugin: Arc<Running>| Watcher {
            name: plugin.handshake.name.clone(),
            link: Arc::clone(&plugin.link),
        };
        watching.map(watcher).collect()
    }

    pub(super) fn reports(&self) -> Vec<Report> {
        let (offers, mut names) = (self.offers(), BTreeSet::new());
        let report = |plugin: &Arc<Supervised<Plugin>>| {
            let mut report = plugin::report(plugin);
            if report.status == Status::Running && !names.insert(report.name.clone()) {
                report.status = Status::Failed("another plugin has this name".to_owned());
                return report;
            }
            let own = offers.iter().filter(|offer| offer.plugin == report.name);
            let about = |offer: &Offer| (offer.name.clone(), offer.tool.description.clone());
            report.tools = own.map(about).collect();
            report
        };
        self.members.iter().map(report).collect()
    }

    pub(super) fn tools(&self) -> Vec<ToolSpec> {
        let spec = |Offer { name, tool, .. }: Offer| ToolSpec {
            name,
            description: tool.description,
            schema: tool.parameters.as_object().map_or_else(Json::object, external::object_schema),
        };
        self.offers().into_iter().map(spec).collect()
    }

    pub(super) fn find(&self, name: &str) -> Option<Offer> {
        self.offers().into_iter().find(|offer| offer.name == name)
    }

    /// Named as the tools of servers are (SPEC X6): `PLUGIN_TOOL`.
    fn offers(&self) -> Vec<Offer> {
        let mut offers: Vec<Offer> = Vec::new();
        for running in self.running() {
            for tool in running.handshake.tools.clone() {
                let taken = |name: &str| offers.iter().any(|offer| offer.name == name);
                let (plugin, running) = (running.handshake.name.clone(), Arc::clone(&running));
                let name = external::tool_name(&plugin, &tool.name, taken);
                offers.push(Offer { name, plugin, running, tool });
            }
        }
        offers
    }
}
