//! The servers of a project, and the names of their tools.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use leftfold_events::kit::ToolSpec;
use leftfold_framing::clip;
use leftfold_process::{Pool as Services, Pools, Supervised};
use leftfold_tools::external;
use rmcp::model::Tool;

use super::connect::Root;
use super::link::Link;
use super::resources;
use super::server::{self, Server};
use super::spec::{Offered, Report, Spec};

/// Bytes of a description that models are told.
const MAX_DESCRIPTION: usize = 10_000;

#[derive(Default)]
pub(super) struct Pool {
    root: Root,
    pub(super) members: Services<Server>,
    /// Which tool of which server each name has been given to: while this process lives, it stays so.
    names: Mutex<BTreeMap<String, (String, String)>>,
}

/// A tool that is there now.
pub(super) struct Offer {
    pub(super) name: String,
    pub(super) server: Arc<Supervised<Server>>,
    pub(super) link: Arc<Link>,
    pub(super) tool: Tool,
}

static POOLS: Pools<Pool> = Pools::new();

/// The pool of these servers in this folder.
pub(super) fn shared(directory: &Path, environment: &[String], specs: &[Spec]) -> Arc<Pool> {
    let root = Root { directory: directory.to_owned(), environment: environment.to_vec() };
    let is_same = |pool: &Pool| pool.root == root && pool.specs().eq(specs);
    POOLS.shared(is_same, || {
        let servers = specs.iter().map(|spec| Server { spec: spec.clone(), root: root.clone() });
        let members = Services::new(servers);
        Pool { root: root.clone(), members, names: Mutex::default() }
    })
}

/// Ends all servers of this process, and waits until they are gone: at most about a second. None is
/// started after that.
pub async fn close() {
    POOLS.close().await;
}

impl AsRef<Services<Server>> for Pool {
    fn as_ref(&self) -> &Services<Server> {
        &self.members
    }
}

impl Pool {
    pub(super) fn specs(&self) -> impl Iterator<Item = &Spec> {
        self.members.iter().map(|server| &server.service().spec)
    }

    pub(super) fn server_named(&self, name: &str) -> Option<&Arc<Supervised<Server>>> {
        self.members.iter().find(|server| server.service().spec.name == name)
    }

    pub(super) fn tools(&self) -> Vec<ToolSpec> {
        self.offers().into_iter().map(|offer| spec(offer.name, &offer.tool)).collect()
    }

    pub(super) fn reports(&self) -> Vec<Report> {
        let offers = self.offers();
        let report = |server: &Arc<Supervised<Server>>| {
            let own = offers.iter().filter(|offer| Arc::ptr_eq(&offer.server, server));
            Report { tools: own.map(Offer::about).collect(), ..server::report(server) }
        };
        self.members.iter().map(report).collect()
    }

    pub(super) fn find(&self, name: &str) -> Option<Offer> {
        self.offers().into_iter().find(|offer| offer.name == name)
    }

    /// What models call `tool` of `server`, if it is there now.
    pub(super) fn name_of(&self, server: &str, tool: &str) -> Option<String> {
        let is_it = |o: &Offer| o.server.service().spec.name == server && o.tool.name == tool;
        self.offers().into_iter().find(is_it).map(|offer| offer.name)
    }

    /// The server whose tools have names that begin like this one.
    pub(super) fn server_of(&self, name: &str) -> Option<&Arc<Supervised<Server>>> {
        let prefix =
            |server: &Supervised<Server>| external::name_prefix(&server.service().spec.name);
        let fits = |server: &&Arc<Supervised<Server>>| name.starts_with(&prefix(server));
        self.members.iter().filter(fits).max_by_key(|server| server.service().spec.name.len())
    }

    fn offers(&self) -> Vec<Offer> {
        let mut names = self.names.lock().unwrap_or_else(PoisonError::into_inner);
        let mut offers: Vec<Offer> = Vec::new();
        for server in self.members.iter() {
            let Some(link) = server.connection() else { continue };
            for tool in resources::all_tools(&link) {
                let owner = (server.service().spec.name.clone(), tool.name.to_string());
                let name = name(&mut names, owner);
                // a server that names a tool twice means one
                if offers.iter().all(|offer| offer.name != name) {
                    let (server, link) = (Arc::clone(server), Arc::clone(&link));
                    offers.push(Offer { name, server, link, tool });
                }
            }
        }
        offers
    }
}

/// The name that the tool has, or gets now.
fn name(given: &mut BTreeMap<String, (String, String)>, owner: (String, String)) -> String {
    if let Some((name, _)) = given.iter().find(|(_, known)| **known == owner) {
        return name.clone();
    }
    let name = external::tool_name(&owner.0, &owner.1, |name| given.contains_key(name));
    given.insert(name.clone(), owner);
    name
}

impl Offer {
    fn about(&self) -> Offered {
        Offered {
            name: self.name.clone(),
            tool: self.tool.name.to_string(),
            description: description(&self.tool),
            read_only: self.is_read_only(),
        }
    }

    pub(super) fn is_read_only(&self) -> bool {
        is_read_only(&self.tool)
    }

    /// What people call the tool.
    pub(super) fn title(&self) -> String {
        let hints = self.tool.annotations.as_ref();
        let title = self.tool.title.clone().or_else(|| hints?.title.clone());
        title.unwrap_or_else(|| self.tool.name.to_string())
    }
}

pub(super) fn is_read_only(tool: &Tool) -> bool {
    let hints = tool.annotations.as_ref();
    hints.and_then(|hints| hints.read_only_hint).unwrap_or(false)
}

pub(super) fn description(tool: &Tool) -> String {
    clip(tool.description.as_deref().unwrap_or_default().trim().to_owned(), MAX_DESCRIPTION)
}

fn spec(name: String, tool: &Tool) -> ToolSpec {
    let told = description(tool);
    let description = if told.is_empty() { tool.name.to_string() } else { told };
    ToolSpec { name, description, schema: external::object_schema(&tool.input_schema) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_once_given_stays() {
        let mut given = BTreeMap::new();
        let mut ask = |server: &str, tool: &str| name(&mut given, (server.into(), tool.into()));
        assert_eq!(ask("a", "b_c"), "a_b_c");
        let second = ask("a_b", "c");
        assert!(second.starts_with("a_b_c_"), "{second}");
        assert_eq!((ask("a", "b_c"), ask("a_b", "c")), ("a_b_c".to_owned(), second));
    }
}
