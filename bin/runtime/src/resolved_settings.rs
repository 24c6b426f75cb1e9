//! The settings that sessions go by: those that are found, and what the plugins add that these name
//! (SPEC X1, the hook `config`).

use std::path::Path;

use leftfold_plugins::{LaunchContext, Plugins};

use crate::model;
use crate::project::Project;
use crate::specs;
use crate::warnings;
use leftfold_config::{self as settings, Layers, Settings};

/// Settings, and the plugins that have been asked for their part.
#[derive(Debug)]
pub struct ResolvedSettings {
    pub settings: Settings,
    pub plugins: Plugins,
}

impl ResolvedSettings {
    /// Those of a project, which holds its plugins from now on, for a session in `store`. Waits for
    /// plugins, so it may block; a project without any waits for nothing.
    ///
    /// # Errors
    /// The settings are wrong. What is wrong with a plugin is among their warnings.
    pub fn of(project: &Project, store: &Path) -> anyhow::Result<Self> {
        let directory = &project.directory;
        let found = without_plugins(directory)?;
        let (plugins, wrong) = plugins(directory, &project.worktree, store, &found);
        warnings::tell(&wrong);
        project.plugins.hold(&plugins);
        let layers = asked(directory, &plugins)?;
        let settings = match layers {
            Some(layers) => settings::load_with(directory, &model::environment, &layers),
            None => Ok(found),
        };
        Ok(Self { settings: settings.map_err(model::usage)?, plugins })
    }
}

/// The settings in `directory`, with what these plugins add. May block likewise.
///
/// # Errors
/// The settings are wrong.
pub fn settings(directory: &Path, plugins: &Plugins) -> anyhow::Result<Settings> {
    let layers = asked(directory, plugins)?.unwrap_or_else(no_layers);
    settings::load_with(directory, &model::environment, &layers).map_err(model::usage)
}

/// The same for a command that has no session: plugins are started for it alone, and end with it.
///
/// # Errors
/// The settings are wrong.
pub fn shown(directory: &Path) -> anyhow::Result<Settings> {
    let layers = layers(directory)?;
    warnings::tell(layers.warnings());
    settings::load_with(directory, &model::environment, &layers).map_err(model::usage)
}

/// What plugins add to the settings in `directory`, likewise; what keeps them from it is among the
/// warnings.
///
/// # Errors
/// The settings are wrong.
pub fn layers(directory: &Path) -> anyhow::Result<Layers> {
    let found = without_plugins(directory)?;
    if found.plugins.is_empty() {
        return Ok(no_layers());
    }
    // there is no session, and so no node that could be reached
    let store = Path::new("");
    let (plugins, _) = plugins(directory, &settings::worktree_of(directory), store, &found);
    crate::run_async(async {
        let mut layers = asked(directory, &plugins)?.unwrap_or_else(no_layers);
        plugins.problems().into_iter().for_each(|problem| layers.warn(problem));
        Ok(layers)
    })?
}

/// The settings of files and variables alone, without what plugins add.
///
/// # Errors
/// The settings are wrong.
pub fn without_plugins(directory: &Path) -> anyhow::Result<Settings> {
    settings::load(directory, &model::environment, leftfold_providers::known())
        .map_err(model::usage)
}

/// What settings rest on where no plugin adds to them.
pub fn no_layers() -> Layers {
    Layers::new(leftfold_providers::known())
}

/// `None` if nobody has anything to add.
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

/// The plugins that settings name, for whoever works in `directory`, and what is wrong with those that can
/// not be used.
pub fn plugins(
    directory: &Path,
    worktree: &Path,
    store: &Path,
    settings: &Settings,
) -> (Plugins, Vec<String>) {
    let named = settings.plugins.iter().filter_map(specs::plugin);
    let (specs, wrong): (Vec<_>, Vec<_>) = named.partition(Result::is_ok);
    let wrong: Vec<String> = wrong.into_iter().filter_map(Result::err).collect();
    let root = LaunchContext {
        directory: directory.to_owned(),
        worktree: worktree.to_owned(),
        environment: settings.environment(),
        socket: store.join(crate::session_paths::SOCKET),
    };
    let specs: Vec<_> = specs.into_iter().filter_map(Result::ok).collect();
    (Plugins::of(&root, &specs), wrong)
}
