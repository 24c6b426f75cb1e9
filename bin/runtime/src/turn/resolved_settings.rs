//! The settings of sessions: those found in files and variables, and those that plugins add.

use std::path::Path;
use std::sync::{Arc, OnceLock};

use leftfold_plugins::{LaunchContext, Plugins, SignInOffer};

use crate::model;
use crate::project::Project;
use crate::specs;
use crate::warnings;
use leftfold_config::{self as settings, Layers, Settings};

/// The address of this process's HTTP server.
static SERVER: OnceLock<String> = OnceLock::new();

/// Lets plugins use the HTTP server of this process, which asks for no password. The first address stays.
pub fn offer_server(address: &str) {
    // a process has one server
    let _ = SERVER.set(address.to_owned());
}

/// Settings, and the plugins that have been asked to add to them.
#[derive(Debug)]
pub struct ResolvedSettings {
    pub settings: Arc<Settings>,
    pub plugins: Plugins,
}

impl ResolvedSettings {
    /// The settings of a project for a session in `store`; the project holds the plugins from now
    /// on. Waits for plugins, so it may block; without plugins it does not wait.
    ///
    /// # Errors
    /// The settings are wrong. Problems with plugins are among the warnings.
    pub fn for_project(project: &Project, store: &Path) -> anyhow::Result<Self> {
        let directory = project.settings_directory();
        let found = settings::load_shared(directory, leftfold_providers::known());
        let found = found.map_err(model::usage)?;
        if project.executor.is_some() {
            let left_out = found.plugins.iter().map(|plugin| {
                let place = plugin.place();
                format!("{place}: a plugin is a program, and is left out at an executor")
            });
            warnings::print_once(&left_out.collect::<Vec<_>>());
            return Ok(Self { settings: found, plugins: Plugins::default() });
        }
        let (plugins, wrong) = plugins(directory, &project.worktree, store, &found);
        warnings::print_once(&wrong);
        project.plugins.hold(&plugins);
        let layers = asked(directory, &plugins)?;
        let settings = match layers {
            Some(layers) => {
                settings::load_with(directory, &model::environment, &layers).map(Arc::new)
            }
            None => Ok(found),
        };
        Ok(Self { settings: settings.map_err(model::usage)?, plugins })
    }
}

/// The settings in `directory`, with the additions of these plugins. Waits for plugins, so it may
/// block.
///
/// # Errors
/// The settings are wrong.
pub fn settings(directory: &Path, plugins: &Plugins) -> anyhow::Result<Settings> {
    let layers = asked(directory, plugins)?.unwrap_or_else(no_layers);
    settings::load_with(directory, &model::environment, &layers).map_err(model::usage)
}

/// The settings for a command without a session. Plugins are started for it, and end with it. Warns of
/// each setting that is left out until the user trusts the project.
///
/// # Errors
/// The settings are wrong.
pub fn shown(directory: &Path) -> anyhow::Result<Settings> {
    let layers = layers(directory)?;
    warnings::print_once(layers.warnings());
    let found =
        settings::load_with(directory, &model::environment, &layers).map_err(model::usage)?;
    warnings::print_once(&found.trust.warnings());
    Ok(found)
}

/// The layers that plugins add to the settings in `directory`. Waits for plugins, so it may block.
/// Problems with plugins are among the warnings.
///
/// # Errors
/// The settings are wrong.
pub fn layers(directory: &Path) -> anyhow::Result<Layers> {
    let found = without_plugins(directory)?;
    if found.plugins.is_empty() {
        return Ok(no_layers());
    }
    // Without a session there is no node for plugins to reach.
    let store = Path::new("");
    let (plugins, _) = plugins(directory, &settings::worktree_of(directory), store, &found);
    let ask = || {
        let mut layers = asked(directory, &plugins)?.unwrap_or_else(no_layers);
        plugins.problems().into_iter().for_each(|problem| layers.warn(problem));
        Ok(layers)
    };
    match tokio::runtime::Handle::try_current() {
        // the sessions of a server share these plugins, so they stay
        Ok(_) => ask(),
        Err(_) => crate::run_async(async { ask() })?,
    }
}

/// The ways to sign in that plugins in the settings of `directory` offer, and all plugins there, which must be kept until a
/// sign-in ends. Warns of problems with plugins.
///
/// # Errors
/// The settings are wrong.
pub async fn sign_ins(directory: &Path) -> anyhow::Result<(Plugins, Vec<SignInOffer>)> {
    let found = without_plugins(directory)?;
    if found.plugins.is_empty() {
        return Ok((Plugins::default(), Vec::new()));
    }
    // Without a session there is no node for plugins to reach.
    let store = Path::new("");
    let (plugins, wrong) = plugins(directory, &settings::worktree_of(directory), store, &found);
    plugins.ready().await;
    warnings::print_once(&wrong);
    warnings::print_once(&plugins.problems());
    let offers = plugins.sign_ins();
    Ok((plugins, offers))
}

/// The settings of files and variables, without the additions of plugins.
///
/// # Errors
/// The settings are wrong.
pub fn without_plugins(directory: &Path) -> anyhow::Result<Settings> {
    settings::load(directory, &model::environment, leftfold_providers::known())
        .map_err(model::usage)
}

/// The layers if no plugin adds any.
pub fn no_layers() -> Layers {
    Layers::new(leftfold_providers::known())
}

/// `None` if no plugin adds anything.
fn asked(directory: &Path, plugins: &Plugins) -> anyhow::Result<Option<Layers>> {
    plugins.wait();
    let config_plugins = plugins.config_plugins();
    if config_plugins.is_empty() {
        return Ok(None);
    }
    let mut layers = no_layers();
    for config_plugin in config_plugins {
        let who = (config_plugin.name(), config_plugin.place());
        layers
            .add((directory, &model::environment), who, |settings| config_plugin.ask(settings))
            .map_err(model::usage)?;
    }
    Ok(Some(layers))
}

/// The plugins in settings, for a session in `directory`, and the problems with those that cannot
/// be used.
pub fn plugins(
    directory: &Path,
    worktree: &Path,
    store: &Path,
    settings: &Settings,
) -> (Plugins, Vec<String>) {
    let named = settings.plugins.iter().filter_map(|plugin| specs::plugin(plugin, settings));
    let (specs, wrong): (Vec<_>, Vec<_>) = named.partition(Result::is_ok);
    let wrong: Vec<String> = wrong.into_iter().filter_map(Result::err).collect();
    let root = LaunchContext {
        directory: directory.to_owned(),
        worktree: worktree.to_owned(),
        environment: settings.environment(),
        shell: settings.shell_program.clone(),
        socket: store.join(crate::session_paths::SOCKET),
        server: SERVER.get().cloned(),
    };
    let mut specs: Vec<_> = specs.into_iter().filter_map(Result::ok).collect();
    specs::distinguish(&mut specs);
    (Plugins::from_specs(&root, &specs), wrong)
}
