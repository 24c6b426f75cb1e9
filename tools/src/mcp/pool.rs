//! The servers of a project, and the names of their tools.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use futures::future::join_all;
use leftfold_events::Json;
use leftfold_events::kit::ToolSpec;
use rmcp::model::{JsonObject, Tool};
use serde_json::Value;

use super::connect::Root;
use super::link::Link;
use super::server::Server;
use super::{Offered, Report, Spec, names};
use crate::{registry, text};

/// Bytes of a description that models are told.
const MAX_DESCRIPTION: usize = 10_000;

pub(crate) struct Pool {
    root: Root,
    servers: Vec<Arc<Server>>,
    /// Which tool of which server each name has been given to: while this process lives, it stays so.
    names: Mutex<BTreeMap<String, (String, String)>>,
}

/// A tool that is there now.
pub(super) struct Offer {
    pub(super) name: String,
    pub(super) server: Arc<Server>,
    pub(super) link: Arc<Link>,
    pub(super) tool: Tool,
}

/// Those that somebody in this process still holds.
static POOLS: Mutex<Vec<Weak<Pool>>> = Mutex::new(Vec::new());

/// The pool of these servers in this folder.
pub(super) fn shared(directory: &Path, environment: &[String], specs: Vec<Spec>) -> Arc<Pool> {
    let root = Root { directory: directory.to_owned(), environment: environment.to_vec() };
    let mut pools = POOLS.lock().unwrap_or_else(PoisonError::into_inner);
    pools.retain(|pool| pool.strong_count() > 0);
    let same = |pool: &Arc<Pool>| pool.root == root && pool.specs().eq(&specs);
    if let Some(known) = pools.iter().filter_map(Weak::upgrade).find(same) {
        return known;
    }
    let servers = specs.into_iter().map(|spec| Arc::new(Server::new(spec, root.clone())));
    let servers = servers.collect();
    let pool = Arc::new(Pool { root, servers, names: Mutex::default() });
    pools.push(Arc::downgrade(&pool));
    pool
}

/// Ends all servers of this process, and waits until they are gone: at most about a second. None is
/// started after that.
pub async fn close() {
    let pools: Vec<Arc<Pool>> = {
        let pools = POOLS.lock().unwrap_or_else(PoisonError::into_inner);
        pools.iter().filter_map(Weak::upgrade).collect()
    };
    let servers = pools.iter().flat_map(|pool| &pool.servers);
    join_all(servers.map(|server| server.close())).await;
}

impl Pool {
    pub(super) fn specs(&self) -> impl Iterator<Item = &Spec> {
        self.servers.iter().map(|server| &server.spec)
    }

    pub(super) fn servers(&self) -> impl Iterator<Item = &Arc<Server>> {
        self.servers.iter()
    }

    pub(super) fn server_named(&self, name: &str) -> Option<&Arc<Server>> {
        self.servers.iter().find(|server| server.spec.name == name)
    }

    pub(super) fn is_settled(&self) -> bool {
        self.servers.iter().all(|server| server.is_settled())
    }

    pub(super) async fn ready(&self) {
        join_all(self.servers.iter().map(|server| server.ready())).await;
    }

    pub(super) fn tools(&self) -> Vec<ToolSpec> {
        self.offers().into_iter().map(|offer| spec(offer.name, &offer.tool)).collect()
    }

    pub(super) fn reports(&self) -> Vec<Report> {
        let offers = self.offers();
        let report = |server: &Arc<Server>| {
            let own = offers.iter().filter(|offer| Arc::ptr_eq(&offer.server, server));
            Report { tools: own.map(Offer::about).collect(), ..server.report() }
        };
        self.servers.iter().map(report).collect()
    }

    pub(super) fn find(&self, name: &str) -> Option<Offer> {
        self.offers().into_iter().find(|offer| offer.name == name)
    }

    /// What models call `tool` of `server`, if it is there now.
    pub(super) fn name_of(&self, server: &str, tool: &str) -> Option<String> {
        let is_it = |o: &Offer| o.server.spec.name == server && o.tool.name == tool;
        self.offers().into_iter().find(is_it).map(|offer| offer.name)
    }

    /// The server whose tools have names that begin like this one.
    pub(super) fn server_of(&self, name: &str) -> Option<&Arc<Server>> {
        let fits = |server: &&Arc<Server>| name.starts_with(&names::beginning(&server.spec.name));
        self.servers.iter().filter(fits).max_by_key(|server| server.spec.name.len())
    }

    fn offers(&self) -> Vec<Offer> {
        let mut names = self.names.lock().unwrap_or_else(PoisonError::into_inner);
        let mut offers: Vec<Offer> = Vec::new();
        for server in &self.servers {
            let Some(link) = server.link().filter(|link| !link.is_over()) else { continue };
            for tool in link.tools() {
                let owner = (server.spec.name.clone(), tool.name.to_string());
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
    let taken =
        |name: &str| registry::find(&name.to_lowercase()).is_some() || given.contains_key(name);
    let name = names::of(&owner.0, &owner.1, taken);
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
    text::clip(tool.description.as_deref().unwrap_or_default().trim().to_owned(), MAX_DESCRIPTION)
}

fn spec(name: String, tool: &Tool) -> ToolSpec {
    let told = description(tool);
    let description = if told.is_empty() { tool.name.to_string() } else { told };
    ToolSpec { name, description, schema: schema(&tool.input_schema) }
}

/// The schema as every API takes it: of an object, and without alternatives at its top. The server
/// itself checks the arguments.
pub(crate) fn schema(told: &JsonObject) -> Json {
    let mut schema = told.clone();
    for key in ["$schema", "oneOf", "anyOf", "allOf", "not", "enum", "if", "then", "else"] {
        schema.shift_remove(key);
    }
    schema.insert("type".to_owned(), "object".into());
    if !schema.get("properties").is_some_and(Value::is_object) {
        schema.insert("properties".to_owned(), Value::Object(JsonObject::new()));
    }
    Json::from_value(&Value::Object(schema))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn schemas_are_of_objects() {
        for (told, expected) in [
            (json!({}), json!({ "type": "object", "properties": {} })),
            (
                json!({ "$schema": "x", "type": "object", "properties": { "a": {} }, "required": ["a"] }),
                json!({ "type": "object", "properties": { "a": {} }, "required": ["a"] }),
            ),
            (
                json!({ "anyOf": [{}], "properties": null }),
                json!({ "properties": {}, "type": "object" }),
            ),
        ] {
            let Value::Object(told) = told else { panic!("{told}") };
            assert_eq!(schema(&told).value(), expected);
        }
    }

    #[test]
    fn a_name_once_given_stays_and_no_built_in_tool_loses_its_own() {
        let mut given = BTreeMap::new();
        let mut ask = |server: &str, tool: &str| name(&mut given, (server.into(), tool.into()));
        assert_eq!(ask("a", "b_c"), "a_b_c");
        let second = ask("a_b", "c");
        assert!(second.starts_with("a_b_c_"), "{second}");
        assert_eq!((ask("a", "b_c"), ask("a_b", "c")), ("a_b_c".to_owned(), second));
        for (server, tool) in [("plan", "enter"), ("Plan", "Exit"), ("apply", "patch")] {
            let name = ask(server, tool);
            assert!(name.len() > server.len() + tool.len() + 2, "{name}");
        }
    }
}
