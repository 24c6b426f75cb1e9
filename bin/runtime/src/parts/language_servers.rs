//! The language servers that settings turn on, and why each that is off is off.

use std::path::Path;
use std::sync::Arc;

use indexmap::IndexMap;
use leftfold_config::{At, LanguageServer, LanguageServers, Settings};
use leftfold_events::sandbox::Backend;
use leftfold_lsp::{KnownServer, LaunchContext, Roots, ServerSpec, Servers};
use leftfold_tools::{ProgramKind, Workspace};
use serde_json::Value;

use crate::sandbox;

/// A language server that settings or Leftfold know.
#[derive(Debug)]
pub struct ServerStatus {
    pub id: String,
    pub extensions: Vec<String>,
    /// The command that starts the server here, or the reason for people why it is off.
    pub spec: Result<ServerSpec, String>,
    /// Whether it would start if it were installed, or settings were right.
    pub is_wanted: bool,
}

/// Why no language server at all starts for the project in these settings. `None`: some may.
pub fn why_off(settings: &Settings) -> Option<String> {
    if named(settings).is_none() {
        return Some("settings do not turn them on (`lsp`)".to_owned());
    }
    if !settings.trust.has_trusted("lsp") {
        return Some(
            "they run build scripts and macros of the project, so they need an `lsp` in the project's own settings that \
             you trust (`leftfold trust`)"
                .to_owned(),
        );
    }
    None
}

/// The servers in settings, if settings turn language servers on.
fn named(settings: &Settings) -> Option<IndexMap<&str, &At<LanguageServer>>> {
    match &**settings.lsp.as_ref()? {
        LanguageServers::All(false) => None,
        LanguageServers::All(true) => Some(IndexMap::new()),
        LanguageServers::Named(named) => {
            Some(named.iter().map(|(id, said)| (id.as_str(), said)).collect())
        }
    }
}

/// All servers, in the order in which they are asked: those that Leftfold knows, and further ones of settings.
pub fn all(settings: &Settings, directory: &Path) -> Vec<ServerStatus> {
    let off = why_off(settings);
    let named = named(settings).unwrap_or_default();
    let known = KnownServer::all().map(|known| (known.id, Some(known)));
    let further = named.keys().filter(|id| KnownServer::all().all(|known| known.id != **id));
    let every = known.chain(further.map(|id| (*id, None)));
    let status = |(id, known): (&str, Option<&KnownServer>)| {
        let said = named.get(id).copied();
        let own = known.map(|known| known.extensions.iter().map(|end| (*end).to_owned()).collect());
        let extensions = said.and_then(|said| said.extensions.clone()).or(own).unwrap_or_default();
        let is_disabled = said.is_some_and(|said| said.disabled);
        let spec = match &off {
            _ if is_disabled => Err("settings disable it".to_owned()),
            Some(why) => Err(why.clone()),
            None => spec(settings, directory, (id, known, said), extensions.clone()),
        };
        let is_wanted = off.is_none() && !is_disabled;
        ServerStatus { id: id.to_owned(), extensions, spec, is_wanted }
    };
    every.map(status).collect()
}

fn spec(
    settings: &Settings,
    directory: &Path,
    (id, known, said): (&str, Option<&KnownServer>, Option<&At<LanguageServer>>),
    extensions: Vec<String>,
) -> Result<ServerSpec, String> {
    let worktree = &settings.trust.worktree;
    let place = said.map(|said| format!("{}: ", said.key_place())).unwrap_or_default();
    let command = match (said.and_then(|said| said.command()), known) {
        (Some(command), _) => installed(&command?, directory, worktree)?,
        (None, Some(known)) => {
            let command = known.command(directory, worktree, true);
            command.ok_or_else(|| format!("{} is not installed", known.programs()))?
        }
        (None, None) => {
            return Err(format!(
                "{place}`lsp.{id}` has no `command`, and Leftfold knows no language server of this name"
            ));
        }
    };
    if extensions.is_empty() {
        return Err(format!("{place}`lsp.{id}` has no `extensions`"));
    }
    let program_sandbox = said.map(|said| said.sandbox()).unwrap_or_default();
    if !program_sandbox.is_off && sandbox::options(settings).backend == Backend::None {
        return Err("there is no sandbox on this machine (see `leftfold doctor`)".to_owned());
    }
    let initialization = said.and_then(|said| said.initialization.clone());
    let own = || known.map_or(Value::Null, |known| known.initialization(directory));
    Ok(ServerSpec {
        id: id.to_owned(),
        extensions,
        command,
        environment: said.map(|said| said.environment()).unwrap_or_default(),
        initialization: initialization.unwrap_or_else(own),
        language: said.and_then(|said| said.language_id.clone()),
        roots: known.map_or_else(Roots::default, |known| known.roots),
        sandbox: sandbox::of_program(settings, ProgramKind::LanguageServer, &program_sandbox)
            .map(Box::new),
    })
}

/// The command with the path of its program.
fn installed(command: &[String], directory: &Path, worktree: &Path) -> Result<Vec<String>, String> {
    let Some((program, arguments)) = command.split_first() else {
        return Err("its command is empty".to_owned());
    };
    let found = leftfold_tools::installed_program(program, directory, true, worktree)
        .ok_or_else(|| format!("{program} is not installed"))?;
    Ok([vec![found], arguments.to_vec()].concat())
}

/// The servers that are in force for a project, for one turn. `None`: none is. Starts none yet.
pub fn servers(settings: &Settings, directory: &Path) -> Option<Servers> {
    let specs: Vec<ServerSpec> =
        all(settings, directory).into_iter().filter_map(|server| server.spec.ok()).collect();
    let context = LaunchContext {
        directory: directory.to_owned(),
        worktree: settings.trust.worktree.clone(),
        environment: settings.environment(),
    };
    (!specs.is_empty()).then(|| Servers::from_specs(&context, &specs))
}

/// Whether the tool `lsp` has no server that it could ask.
pub(crate) fn is_missing(settings: &Settings, directory: &Path) -> bool {
    all(settings, directory).iter().all(|server| server.spec.is_err())
}

/// Gives the tools of `workspace` their servers.
pub fn set_up(workspace: &mut Workspace, settings: &Settings) {
    let servers = servers(settings, &workspace.directory);
    workspace.language_servers = servers.map(|servers| Arc::new(servers) as Arc<_>);
}
