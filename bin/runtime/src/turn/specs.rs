//! Turns MCP servers and plugins in settings into the specifications that their crates start.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use leftfold_config::{
    At, Cwd, Mcp, McpKind, OAuth, Plugin, PluginCode, Secret, Settings, token_store,
};
use leftfold_mcp::{Endpoint, ServerSpec};
use leftfold_plugins::Credentials;
use leftfold_programs::PROJECT;
use leftfold_tools::{Launch, ProgramKind, ProgramOwner, StartFolder, TrustCheck};

use crate::plugin_credentials::PluginCredentials;
use crate::{sandbox, session_paths, trust, warnings};

/// The servers in settings.
pub fn servers(settings: &Settings) -> impl Iterator<Item = ServerSpec> {
    settings.mcp.iter().map(|(name, mcp)| server(name, mcp, settings))
}

/// The server with the key `name` in settings.
pub fn server(name: &str, mcp: &At<Mcp>, settings: &Settings) -> ServerSpec {
    switched(name, mcp, settings, mcp.is_enabled())
}

/// The server, on or off whatever the settings say.
pub(crate) fn switched(name: &str, mcp: &At<Mcp>, settings: &Settings, on: bool) -> ServerSpec {
    let timeout = mcp.timeout().or(settings.experimental.mcp_timeout());
    let timeout = timeout.map(Duration::from_millis);
    let endpoint = if on { endpoint(name, mcp, settings) } else { Endpoint::Disabled };
    ServerSpec { name: name.to_owned(), endpoint, timeout }
}

/// A server that a client supplies, in the sandbox of the user's servers. `mcp.NAME.sandbox` in settings counts for it.
pub(crate) fn supplied(mut spec: ServerSpec, settings: &Settings) -> ServerSpec {
    let timeout = settings.experimental.mcp_timeout();
    spec.timeout = spec.timeout.or(timeout.map(Duration::from_millis));
    if let Endpoint::Local { launch, sandbox, .. } = &mut spec.endpoint {
        let named = settings.mcp.get(&spec.name);
        let said = named.map(|mcp| mcp.sandbox()).unwrap_or_default();
        *launch = of_user(settings, named.and_then(|mcp| mcp.cwd()));
        *sandbox = sandbox::of_program(settings, ProgramKind::Server, &said).map(Box::new);
    }
    spec
}

fn endpoint(name: &str, mcp: &At<Mcp>, settings: &Settings) -> Endpoint {
    let unset: Vec<String> = Mcp::unset(mcp).map(|error| error.to_string()).collect();
    let lacks =
        |key: &str| Endpoint::Unusable(format!("{}: `mcp.{name}` has no `{key}`", mcp.key_place()));
    if !unset.is_empty() {
        return Endpoint::Unusable(unset.join("; "));
    }
    match (mcp.kind(), mcp.command(), mcp.url()) {
        (McpKind::Local, Some(command), _) => {
            let (kind, launch) = match mcp.is_of_project() {
                true => (ProgramKind::ProjectServer, of_project(settings, mcp.cwd())),
                false => (ProgramKind::Server, of_user(settings, mcp.cwd())),
            };
            if let StartFolder::Neutral(_) = launch.folder {
                warn_of_neutral_folder(name, mcp, &command, settings);
            }
            let environment = mcp.environment();
            let sandbox = sandbox::of_program(settings, kind, &mcp.sandbox()).map(Box::new);
            Endpoint::Local { command, environment, launch, sandbox }
        }
        (McpKind::Local, None, _) => lacks("command"),
        (McpKind::Remote, _, Some(url)) => Endpoint::Remote {
            url: url.to_owned(),
            headers: mcp.headers(),
            oauth: oauth(mcp.oauth()),
        },
        (McpKind::Remote, _, None) => lacks("url"),
    }
}

/// The start of a program that the user's own settings name.
fn of_user(settings: &Settings, cwd: Option<Cwd>) -> Launch {
    let folder = match cwd {
        Some(Cwd::Folder(folder)) => StartFolder::Named(folder),
        Some(Cwd::Project) => StartFolder::Project,
        None if settings.trust.is_given() => StartFolder::Project,
        // the root belongs to no project either
        None => StartFolder::Neutral(
            session_paths::data_dir().map_or_else(|_| "/".into(), |data| data.join("programs")),
        ),
    };
    Launch { folder, owner: ProgramOwner::User }
}

/// The start of a program that the settings of a trusted project name.
fn of_project(settings: &Settings, cwd: Option<Cwd>) -> Launch {
    let folder = match cwd {
        Some(Cwd::Folder(folder)) => StartFolder::Named(folder),
        Some(Cwd::Project) | None => StartFolder::Project,
    };
    let directory = settings.trust.directory().to_owned();
    let owner = ProgramOwner::Project(TrustCheck { directory, check: trust::still_holds });
    Launch { folder, owner }
}

/// Tells once that a server does not find what its command seems to name in the project.
fn warn_of_neutral_folder(name: &str, mcp: &At<Mcp>, command: &[String], settings: &Settings) {
    let names_project = |word: &String| {
        let is_plain = !word.starts_with('-') && Path::new(word).is_relative();
        is_plain && settings.trust.directory().join(word).exists()
    };
    if let Some(word) = command.iter().skip(1).find(|word| names_project(word)) {
        warnings::print_once(&[format!(
            "{}: the MCP server `{name}` does not start in the project, because you have not trusted it, so {word:?} does not \
             mean the project's; `\"cwd\": \"{PROJECT}\"` starts it there",
            mcp.key_place()
        )]);
    }
}

fn oauth(said: &OAuth) -> leftfold_mcp::OAuth {
    let client = match said {
        OAuth::Off(_) => return leftfold_mcp::OAuth::default(),
        OAuth::As(client) => client,
    };
    let secret = client.client_secret().map(Secret::reveal).map(str::to_owned);
    let scopes = client.scope.iter().flat_map(|scope| scope.split_whitespace());
    leftfold_mcp::OAuth {
        token_store: token_store(),
        client: client.client_id.clone().map(|id| (id, secret)),
        client_metadata: client.client_metadata.clone(),
        scopes: scopes.map(str::to_owned).collect(),
        port: client.callback_port.map(u16::from),
    }
}

fn code(code: PluginCode) -> leftfold_plugins::PluginCode {
    match code {
        PluginCode::Command(command) => leftfold_plugins::PluginCode::Command(command),
        PluginCode::JavaScript(leftfold_config::JavaScript {
            name,
            module,
            tools,
            options,
            folder,
        }) => {
            let code = leftfold_plugins::JavaScript { name, module, tools, options, folder };
            leftfold_plugins::PluginCode::JavaScript(code)
        }
    }
}

/// Gives each plugin in JavaScript a name of its own, and leaves out a module that stands there twice.
pub(crate) fn distinguish(plugins: &mut Vec<leftfold_plugins::PluginProgram>) {
    let (mut names, mut modules) = (BTreeSet::new(), BTreeSet::new());
    plugins.retain_mut(|plugin| {
        let leftfold_plugins::PluginCode::JavaScript(code) = &mut plugin.code else { return true };
        let module = code.module.as_ref();
        let real = module.map(|module| module.canonicalize().unwrap_or_else(|_| module.clone()));
        if real.is_some_and(|real| !modules.insert(real)) {
            return false;
        }
        let (mut name, mut number) = (code.name.clone(), 1);
        while !names.insert(name.clone()) {
            number += 1;
            name = format!("{}-{number}", code.name);
        }
        code.name = name;
        true
    });
}

/// The plugin to start; the error says why it cannot be used, and `None` means that it is turned
/// off.
pub fn plugin(
    plugin: &At<Plugin>,
    settings: &Settings,
) -> Option<Result<leftfold_plugins::PluginProgram, String>> {
    Some(plugin.program()?.map(|program| {
        let launch = match plugin.place().source.of_project {
            true => of_project(settings, program.cwd),
            false => of_user(settings, program.cwd),
        };
        let own = plugin.for_sign_ins(&program.code).filter(|_| is_fixed(&program.code, &launch));
        let timeout = match &program.code {
            PluginCode::Command(_) => leftfold_plugins::TIMEOUT,
            PluginCode::JavaScript(_) => leftfold_plugins::JAVASCRIPT_TIMEOUT,
        };
        leftfold_plugins::PluginProgram {
            sandbox: sandbox::of_program(settings, ProgramKind::Plugin, &program.sandbox)
                .map(Box::new),
            place: plugin.place().to_string(),
            environment: program.environment,
            timeout: program.timeout.map_or(timeout, Duration::from_millis),
            credentials: own.map(|own| Credentials::new(PluginCredentials::new(own))),
            code: code(program.code),
            launch,
        }
    }))
}

/// Whether the command means the same files in every project: it does not start there, or names files by absolute paths.
fn is_fixed(code: &PluginCode, launch: &Launch) -> bool {
    let PluginCode::Command(command) = code else { return true };
    let is_elsewhere = launch.folder != StartFolder::Project;
    is_elsewhere || command.iter().skip(1).all(|word| Path::new(word).is_absolute())
}
