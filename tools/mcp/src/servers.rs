//! The handle of a project's servers.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use leftfold_events::kit::ToolSpec;
use leftfold_process::Supervised;

use super::link::Link;
use super::pool::{self, Pool};
use super::resources;
use super::server::{self, Server};
use super::spec::{Report, Spec, Status};

/// The servers of a project. Clones are the same; the default has none.
#[derive(Clone, Default)]
pub struct Servers(pub(super) Arc<Pool>);

impl fmt::Debug for Servers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.0.specs()).finish()
    }
}

impl Servers {
    /// Those of the project in `directory`, where local ones are started. Nothing is started yet.
    /// `environment` names variables that they get besides the usual ones.
    pub fn of(directory: &Path, environment: &[String], specs: &[Spec]) -> Self {
        Self(pool::shared(directory, environment, specs))
    }

    /// Waits until every server has been started, or has failed to.
    pub async fn ready(&self) {
        self.0.members.ready().await;
    }

    /// The same for code that can not await. Outside a runtime of several threads it waits for nothing.
    pub fn wait(&self) {
        self.0.members.wait();
    }

    /// The tools there are, in the order of the settings. Each name is there once.
    pub fn tools(&self) -> Vec<ToolSpec> {
        self.0.tools()
    }

    /// Each server, in the order of the settings.
    pub fn reports(&self) -> Vec<Report> {
        self.0.reports()
    }

    /// What keeps servers from being used, for people.
    pub fn problems(&self) -> Vec<String> {
        let failed = |report: Report| match report.status {
            Status::Failed(why) => Some(format!("MCP server `{}`: {why}", report.name)),
            Status::Connected | Status::Idle | Status::Disabled => None,
        };
        self.reports().into_iter().filter_map(failed).collect()
    }

    /// The server and the address in `SERVER:URI`, if there is such a server.
    pub fn addressed<'a>(&self, mention: &'a str) -> Option<(String, &'a str)> {
        let fits = self.0.specs().filter_map(|spec| {
            let uri = mention.strip_prefix(spec.name.as_str())?.strip_prefix(':')?;
            (!uri.is_empty()).then(|| (spec.name.clone(), uri))
        });
        fits.max_by_key(|(name, _)| name.len())
    }

    /// What models call the tool that reads what this server has to be read. Waits for the server.
    ///
    /// # Errors
    /// In words for people: it can not be used, or has nothing to be read in this way.
    pub async fn reader(&self, server: &str) -> Result<String, String> {
        let (_, link) = self.connected(server).await?;
        let has_own = resources::has_own_reader(&link);
        let name = self.0.name_of(server, resources::READ).filter(|_| !has_own);
        name.ok_or_else(|| format!("the MCP server `{server}` has no resources"))
    }

    /// The server of this name and the connection to it. Waits for the server.
    ///
    /// # Errors
    /// In words for people: there is none, or it can not be used.
    pub(super) async fn connected(
        &self,
        server: &str,
    ) -> Result<(&Supervised<Server>, Arc<Link>), String> {
        let unknown = || format!("there is no MCP server `{server}`");
        let found = self.0.server_named(server).ok_or_else(unknown)?;
        found.ready().await;
        if let Some(why) = server::failure(found) {
            return Err(format!("the MCP server `{server}` can not be used now: {why}"));
        }
        Ok((found, found.connection().ok_or_else(unknown)?))
    }
}
