//! The plugins of a project, and the names of their tools.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use futures::future::join_all;
use leftfold_events::Json;
use leftfold_events::kit::{PluginSpec, ToolSpec};

use super::adviser::Adviser;
use super::hello::Tool;
use super::link::Watcher;
use super::plugin::{Plugin, Up};
use super::{Report, Root, Spec, Status};
use crate::mcp::{names, schema};
use crate::registry;

pub(crate) struct Pool {
    root: Root,
    plugins: Vec<Arc<Plugin>>,
}

/// A tool that is there now.
pub(super) struct Offer {
    pub(super) name: String,
    pub(super) plugin: String,
    pub(super) up: Arc<Up>,
    pub(super) tool: Tool,
}

/// Those that somebody in this process still holds.
static POOLS: Mutex<Vec<Weak<Pool>>> = Mutex::new(Vec::new());

/// The pool of these plugins in this folder.
pub(super) fn shared(root: Root, specs: Vec<Spec>) -> Arc<Pool> {
    let mut pools = POOLS.lock().unwrap_or_else(PoisonError::into_inner);
    pools.retain(|pool| pool.strong_count() > 0);
    let same = |pool: &Arc<Pool>| {
        let (theirs, ours) = (&pool.root, &root);
        theirs.directory == ours.directory
            && theirs.environment == ours.environment
            && pool.specs().eq(&specs)
    };
    if let Some(known) = pools.iter().filter_map(Weak::upgrade).find(same) {
        return known;
    }
    let plugins = specs.into_iter().map(|spec| Arc::new(Plugin::new(spec, root.clone())));
    let pool = Arc::new(Pool { plugins: plugins.collect(), root });
    pools.push(Arc::downgrade(&pool));
    pool
}

/// Ends all plugins of this process, and waits until they are gone: at most about a second. None is
/// started after that.
pub async fn close() {
    let pools: Vec<Arc<Pool>> = {
        let pools = POOLS.lock().unwrap_or_else(PoisonError::into_inner);
        pools.iter().filter_map(Weak::upgrade).collect()
    };
    let plugins = pools.iter().flat_map(|pool| &pool.plugins);
    join_all(plugins.map(|plugin| plugin.close())).await;
}

impl Pool {
    pub(super) fn specs(&self) -> impl Iterator<Item = &Spec> {
        self.plugins.iter().map(|plugin| &plugin.spec)
    }

    pub(super) fn is_settled(&self) -> bool {
        self.plugins.iter().all(|plugin| plugin.is_settled())
    }

    pub(super) async fn ready(&self) {
        join_all(self.plugins.iter().map(|plugin| plugin.ready())).await;
    }

    /// Those that run. Of several with one name the first counts.
    fn up(&self) -> Vec<(&Arc<Plugin>, Arc<Up>)> {
        let mut names = BTreeSet::new();
        let running = self.plugins.iter().filter_map(|plugin| Some((plugin, plugin.up()?)));
        running.filter(|(_, up)| names.insert(up.hello.name.clone())).collect()
    }

    pub(super) fn kit(&self) -> Vec<PluginSpec> {
        let up = self.up().into_iter().filter(|(_, up)| !up.hello.hooks.is_empty());
        let spec = |(plugin, up): (&Arc<Plugin>, Arc<Up>)| PluginSpec {
            name: up.hello.name.clone(),
            hooks: up.hello.hooks.clone(),
            timeout: u64::try_from(plugin.spec.timeout.as_millis()).unwrap_or(u64::MAX),
        };
        up.map(spec).collect()
    }

    pub(super) fn named(&self, name: &str) -> Option<Arc<Plugin>> {
        let found = self.up().into_iter().find(|(_, up)| up.hello.name == name);
        found.map(|(plugin, _)| Arc::clone(plugin))
    }

    /// Those that add to settings.
    pub(super) fn advisers(&self) -> Vec<Adviser> {
        let mut names = BTreeSet::new();
        let known = self.plugins.iter().filter_map(|plugin| Some((plugin, plugin.last_up()?)));
        let first = known.filter(|(_, up)| names.insert(up.hello.name.clone()));
        let adviser = |(plugin, up): (&Arc<Plugin>, Arc<Up>)| Adviser {
            place: plugin.spec.place.clone(),
            limit: plugin.spec.timeout,
            up,
        };
        first.filter(|(_, up)| up.hello.configures).map(adviser).collect()
    }

    pub(super) fn watchers(&self) -> Vec<Watcher> {
        let watching = self.up().into_iter().filter(|(_, up)| up.hello.watches);
        let watcher = |(_, up): (&Arc<Plugin>, Arc<Up>)| Watcher {
            name: up.hello.name.clone(),
            link: Arc::clone(&up.link),
        };
        watching.map(watcher).collect()
    }

    pub(super) fn reports(&self) -> Vec<Report> {
        let (offers, mut names) = (self.offers(), BTreeSet::new());
        let report = |plugin: &Arc<Plugin>| {
            let mut report = plugin.report();
            if report.status == Status::Running && !names.insert(report.name.clone()) {
                report.status = Status::Failed("another plugin has this name".to_owned());
                return report;
            }
            let own = offers.iter().filter(|offer| offer.plugin == report.name);
            let about = |offer: &Offer| (offer.name.clone(), offer.tool.description.clone());
            report.tools = own.map(about).collect();
            report
        };
        self.plugins.iter().map(report).collect()
    }

    pub(super) fn tools(&self) -> Vec<ToolSpec> {
        let spec = |Offer { name, tool, .. }: Offer| ToolSpec {
            name,
            description: tool.description,
            schema: tool.parameters.as_object().map_or_else(Json::object, schema),
        };
        self.offers().into_iter().map(spec).collect()
    }

    pub(super) fn find(&self, name: &str) -> Option<Offer> {
        self.offers().into_iter().find(|offer| offer.name == name)
    }

    /// Named as the tools of servers are (SPEC X6): `PLUGIN_TOOL`.
    fn offers(&self) -> Vec<Offer> {
        let mut offers: Vec<Offer> = Vec::new();
        for (_, up) in self.up() {
            for tool in up.hello.tools.clone() {
                let taken = |name: &str| {
                    let built_in = registry::find(&name.to_lowercase()).is_some();
                    built_in || offers.iter().any(|offer| offer.name == name)
                };
                let (plugin, up) = (up.hello.name.clone(), Arc::clone(&up));
                let name = names::of(&plugin, &tool.name, taken);
                offers.push(Offer { name, plugin, up, tool });
            }
        }
        offers
    }
}
