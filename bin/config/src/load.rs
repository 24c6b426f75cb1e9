//! Reads settings: each source by itself, so that an overriding source hides no error, and then all
//! of them merged. `sources.rs` has the order in which later sources win.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock, Mutex, PoisonError};
use std::time::SystemTime;

use leftfold_events::providers::KnownProviders;

use crate::auth::Keys;
use crate::claude_code::{self, Reading};
use crate::error::{Error, quoted};
use crate::files::{self, Noted};
use crate::models_dev::{self, ListSource};
use crate::settings::{JOINED, Settings};
use crate::source::{Env, SettingPlace, Source, SourceKind, environment};
use crate::sources::{self, Document, Format, FoundSources, Layer};
use crate::tree::{self, Node, Notation, References, Tree};
use crate::trust::{Trust, TrustItem};
use crate::trust_files::Files;
use crate::typed::{self, LeftOutKey};
use crate::worktree::worktree_of;
use crate::{legacy, markdown, permission, quota, sandbox, trust_review};

/// The settings besides files: the providers that this build knows, and the settings that each
/// plugin adds, in the order in which the plugins were asked.
#[derive(Clone)]
pub struct Layers {
    pub(crate) providers: &'static KnownProviders,
    pub(crate) all: Vec<Layer>,
    warnings: Vec<String>,
}

leftfold_events::debug_fields!(Layers {});

impl Layers {
    pub fn new(providers: &'static KnownProviders) -> Self {
        Self { providers, all: Vec::new(), warnings: Vec::new() }
    }

    /// Problems of plugins that were asked for settings.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    pub fn warn(&mut self, why: String) {
        if !self.warnings.contains(&why) {
            self.warnings.push(why);
        }
    }
}

/// One source by itself.
pub(crate) struct ReadSource {
    source: Arc<Source>,
    settings: Settings,
    /// Without the keys that are left out.
    pub(crate) node: Node,
    left_out: Vec<LeftOutKey>,
    pub(crate) reading: Reading,
}

/// The settings of one source, before they are read into types.
pub(crate) fn parse(document: &Document, references: References<'_>) -> Result<Node, Error> {
    parse_with(document, references, &mut Reading::default())
}

fn parse_with(
    document: &Document,
    references: References<'_>,
    reading: &mut Reading,
) -> Result<Node, Error> {
    let Document { source, text, format } = document;
    let json = |notation| tree::parse(text, source, notation, references);
    let mut node = match format {
        Format::Settings => json(Notation::Braces)?,
        Format::Markdown(entered) => markdown::parse(text, source, entered)?,
        Format::ClaudeServers => claude_code::servers(json(Notation::Shell)?, reading),
        Format::ClaudeRules { here, worktree } => {
            claude_code::permissions(json(Notation::Literal)?, (here, worktree), reading)?
        }
    };
    legacy::translate(&mut node);
    sandbox::spread(&mut node);
    Ok(node)
}

/// The settings in `directory` that need trust, and the user's decision.
///
/// # Errors
/// A source cannot be read.
pub fn review(directory: &Path, env: Env<'_>) -> Result<Trust, Error> {
    Ok(review_all(&sources::read_all(directory, env, &[])?, env))
}

/// The settings that need trust, in all files of the project that can be parsed.
pub(crate) fn review_all(found: &FoundSources, env: Env<'_>) -> Trust {
    let mut trust = Trust::load(&found.worktree, &found.directory, env);
    let mut files = Files::new(&found.worktree, &found.directory);
    let parse = |document| parse(document, References::Within(&found.worktree));
    // plugins are asked later, and come after all files anyway
    let is_own = |source: &Source| !source.of_project && source.kind != SourceKind::Plugin;
    for document in found.documents.iter().filter(|document| is_own(&document.source)) {
        if let Ok(node) = parse(document) {
            trust.own.add(&node);
        }
    }
    for document in found.documents.iter().filter(|document| needs_review(&document.source)) {
        if let Ok(mut node) = parse(document) {
            let items = trust_review::split(&mut node, &found.worktree, &trust.own, &mut files);
            trust.items.extend(items);
        }
    }
    add_names_of_plugins(&mut trust, found);
    trust
}

/// Agents and commands of the user's plugins are the user's too. The plugins start after trust was decided, so no
/// digest covers texts of the project for them: an untrusted project loses them.
fn add_names_of_plugins(trust: &mut Trust, found: &FoundSources) {
    let is_of_plugin = |source: &Source| !source.of_project && source.kind == SourceKind::Plugin;
    let before = trust.own.clone();
    for document in found.documents.iter().filter(|document| is_of_plugin(&document.source)) {
        if let Ok(node) = parse(document, References::Within(&found.worktree)) {
            trust.own.add(&node);
        }
    }
    if trust.own == before || trust.is_given() {
        return;
    }
    let mut files = Files::new(&found.worktree, &found.directory);
    for document in found.documents.iter().filter(|document| needs_review(&document.source)) {
        if let Ok(mut node) = parse(document, References::Within(&found.worktree)) {
            let items = trust_review::split(&mut node, &found.worktree, &trust.own, &mut files);
            let is_new =
                |item: &TrustItem| trust.items.iter().all(|known| known.place != item.place);
            let of_plugins: Vec<TrustItem> = items.into_iter().filter(is_new).collect();
            trust.of_plugins.extend(of_plugins);
        }
    }
}

/// Settings that a plugin of the project adds were trusted with the plugin.
fn needs_review(source: &Source) -> bool {
    let is_on_disk = matches!(source.kind, SourceKind::File | SourceKind::Script);
    source.of_project && is_on_disk
}

/// The most errors of a source that are reported at once.
const MAX_ERRORS: usize = 20;

/// The first error in the settings of a source.
fn first_error(root: &Node, known: &KnownProviders) -> Option<Error> {
    match typed::read::<Settings>(root) {
        Ok((settings, _)) => settings.check(known).err(),
        Err(error) => Some(error),
    }
}

/// Every error in the settings of a source, of which the first one is known. Takes out each wrong value and reads the rest
/// again.
fn all_errors(root: &Node, known: &KnownProviders, first: Error) -> Error {
    let (mut rest, mut errors) = (root.clone(), Vec::new());
    // a value that lacks what was taken out may be wrong only because of that
    let mut around: Vec<SettingPlace> = Vec::new();
    let mut next = Some(first);
    while let Some(error) = next {
        let place = error.place().cloned();
        if place.as_ref().is_none_or(|place| !around.contains(place)) {
            errors.push(error);
        }
        let taken = place.and_then(|place| rest.remove_at(&place));
        let Some(taken) = taken.filter(|_| errors.len() < MAX_ERRORS) else { break };
        around.extend(taken);
        next = first_error(&rest, known);
    }
    errors.sort_by_key(|error| error.place().map(|place| (place.line, place.column)));
    Error::all(errors)
}

/// Reads one source. Of a project that is not trusted, only what needs no trust.
pub(crate) fn read(
    document: &Document,
    env: Env<'_>,
    providers: &KnownProviders,
    trust: &Trust,
) -> Result<ReadSource, Error> {
    let source = &document.source;
    let mut reading = Reading::default();
    // if nothing needs trust, nothing is trusted either: references lead out of the project even where they have no
    // effect
    let mut node = if needs_review(source) && !trust.is_given() {
        let mut node = parse_with(document, References::Within(&trust.worktree), &mut reading)?;
        trust_review::take_unknown(&mut node);
        // an error is reported although its setting is left out; one that follows from a reference
        // without its value is none
        if !trust_review::has_reference(&node)
            && let Some(first) = first_error(&node, providers)
        {
            return Err(all_errors(&node, providers, first));
        }
        trust_review::strip(&mut node, &trust.worktree, &trust.own);
        node
    } else {
        parse_with(document, References::All(env), &mut reading)?
    };
    // workers read settings deep in the stack, where debug builds have little room for copies
    let (settings, left_out) = match typed::read::<Settings>(&node) {
        Ok(parts) => parts,
        Err(first) => return Err(all_errors(&node, providers, first)),
    };
    if let Err(first) = settings.check(providers) {
        return Err(all_errors(&node, providers, first));
    }
    let places: Vec<SettingPlace> = left_out.iter().map(|(place, _)| place.clone()).collect();
    node.remove(&places);
    Ok(ReadSource { source: Arc::clone(source), settings, node, left_out, reading })
}

/// Reads all settings that apply in `directory`, and the stored keys. `env` gives the variables:
/// `HOME`, `PATH`, `XDG_CONFIG_HOME`, `LEFTFOLD_HOME`, `XDG_DATA_HOME`, `LEFTFOLD_CONFIG`,
/// `LEFTFOLD_CONFIG_CONTENT`, `LEFTFOLD_SANDBOX`, `OPENCODE_CONFIG`, `OPENCODE_CONFIG_DIR`, `OPENCODE_CONFIG_CONTENT`,
/// and variables that files refer to.
///
/// # Errors
/// All errors in sources, with file, line, column and key: see [`Error`].
pub fn load(
    directory: &Path,
    env: Env<'_>,
    providers: &'static KnownProviders,
) -> Result<Settings, Error> {
    load_with(directory, env, &Layers::new(providers))
}

/// Folders whose settings are kept.
const KEPT: usize = 64;

/// The settings of folders, and the files that they depend on.
static KNOWN: LazyLock<Mutex<HashMap<PathBuf, Arc<Known>>>> = LazyLock::new(Mutex::default);

struct Known {
    settings: Arc<Settings>,
    noted: Noted,
    providers: &'static KnownProviders,
}

/// Reads settings as [`load`] does with this process's environment. Those that were read before are used again if every
/// file and folder that they depend on, those included that do not exist, is still the one that it was: a server reads
/// settings for each prompt, and looking is a tenth of the work. A process does not change its environment.
///
/// # Errors
/// As for [`load`].
pub fn load_shared(
    directory: &Path,
    providers: &'static KnownProviders,
) -> Result<Arc<Settings>, Error> {
    load_at(SystemTime::now(), (directory, &environment), providers)
}

pub(crate) fn load_at(
    now: SystemTime,
    (directory, env): (&Path, Env<'_>),
    providers: &'static KnownProviders,
) -> Result<Arc<Settings>, Error> {
    let kept = || KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    let known = kept().get(directory).cloned();
    let is_of_these = |known: &Arc<Known>| std::ptr::eq(known.providers, providers);
    if let Some(known) = known.filter(|known| is_of_these(known) && known.noted.is_current()) {
        return Ok(Arc::clone(&known.settings));
    }
    let (read, noted) = files::noting(now, || load(directory, env, providers));
    let settings = Arc::new(read?);
    let mut kept = kept();
    kept.remove(directory);
    // a relative path is another folder elsewhere
    if let Some(noted) = noted.filter(|_| directory.is_absolute()) {
        if kept.len() >= KEPT {
            kept.clear();
        }
        let known = Known { settings: Arc::clone(&settings), noted, providers };
        kept.insert(directory.to_owned(), Arc::new(known));
    }
    Ok(settings)
}

/// Reads the settings in `directory`, with the additions of plugins.
///
/// # Errors
/// All errors in sources, as for [`load`].
pub fn load_with(directory: &Path, env: Env<'_>, layers: &Layers) -> Result<Settings, Error> {
    load_found(sources::read_all(directory, env, &layers.all)?, (directory, env), layers)
}

/// Reads each source by itself.
///
/// # Errors
/// All errors of all sources.
fn read_all(
    found: &FoundSources,
    env: Env<'_>,
    providers: &KnownProviders,
    trust: &Trust,
) -> Result<Vec<ReadSource>, Error> {
    let (mut parts, mut errors) = (Vec::new(), Vec::new());
    for document in &found.documents {
        match read(document, env, providers, trust) {
            Ok(part) => parts.push(part),
            Err(error) => errors.extend(error.each()),
        }
    }
    if errors.is_empty() { Ok(parts) } else { Err(Error::all(errors)) }
}

pub(crate) fn load_found(
    mut found: FoundSources,
    (directory, env): (&Path, Env<'_>),
    layers: &Layers,
) -> Result<Settings, Error> {
    let trust = review_all(&found, env);
    let parts = read_all(&found, env, layers.providers, &trust)?;
    found.warnings.extend(trust.brief_warnings());
    merge(parts, (directory, env), layers, (trust, found.warnings))
}

/// The most keys of a file of which each has a warning; more are in one.
const MAX_KEYS: usize = 3;

/// Warnings of keys that mean nothing here, which another program may have in its file.
fn without_meaning(left_out: &[LeftOutKey]) -> Vec<String> {
    let of_files = left_out.chunk_by(|(one, _), (other, _)| one.source == other.source);
    let warnings = of_files.flat_map(|keys| match keys {
        [(place, _), ..] if keys.len() > MAX_KEYS => {
            let names: Vec<String> = keys.iter().map(|(_, path)| path.clone()).collect();
            vec![format!(
                "{}: {} keys are not settings of Leftfold and have no effect: {}",
                place.source.name,
                keys.len(),
                quoted(&names)
            )]
        }
        _ => {
            let warning = |(place, path): &LeftOutKey| {
                format!("{place}: `{path}` is not a setting of Leftfold and has no effect")
            };
            keys.iter().map(warning).collect()
        }
    });
    warnings.collect()
}

fn add(tree: &mut Option<Node>, node: Node) {
    match tree {
        Some(tree) => {
            tree.merge(node, &JOINED);
            legacy::translate(tree);
        }
        None => *tree = Some(node),
    }
}

/// Merges sources, weakest first.
pub(crate) fn merge(
    parts: Vec<ReadSource>,
    (directory, env): (&Path, Env<'_>),
    layers: &Layers,
    (trust, warnings): (Trust, Vec<String>),
) -> Result<Settings, Error> {
    let mut tree: Option<Node> = None;
    let mut sources = Vec::new();
    let mut rules = Settings::default();
    let mut own: Option<Node> = None;
    let mut left_out = Vec::new();
    let mut of_project = Vec::new();
    let mut of_claude = Vec::new();
    // the last rules whose order counts for nothing: their folder and owner, and where they begin
    let mut unordered: Option<((PathBuf, bool), usize)> = None;
    for mut part in parts {
        if part.source.of_project {
            for key in [quota::KEY, models_dev::KEY] {
                of_project.extend(part.node.take(key).map(|place| (place, key)));
            }
        }
        let start = rules.placed_rules.len();
        rules.append_rules(&part.settings);
        unordered = part.reading.unordered.map(|folder| {
            let whose = (folder, part.source.of_project);
            match unordered.take() {
                Some((same, start)) if same == whose => (same, start),
                Some(_) | None => (whose, start),
            }
        });
        if let Some((_, start)) = &unordered {
            rules.placed_rules[*start..].sort_by_key(|placed| placed.rule.action);
        }
        of_claude.extend(part.reading.warnings);
        if !part.source.of_project {
            add(&mut own, part.node.clone());
        }
        left_out.extend(part.left_out);
        sources.push(part.source);
        add(&mut tree, part.node);
    }
    if let Some(Node { tree: Tree::Map(entries), .. }) = &mut tree {
        let joined = entries.iter_mut().filter(|entry| JOINED.contains(&entry.key.as_str()));
        joined.for_each(tree::Entry::unique);
    }
    let mut settings = match &tree {
        Some(tree) => typed::read::<Settings>(tree)?.0,
        None => Settings::default(),
    };
    settings.check(layers.providers)?;
    let worktree = worktree_of(directory);
    let of_agents = rules.agent_placed_rules.values_mut().flatten();
    for placed in rules.placed_rules.iter_mut().chain(of_agents) {
        placed.rule.name_paths_as_calls_do(&worktree.to_string_lossy());
    }
    let of_all = [&rules.placed_rules].into_iter().chain(rules.agent_placed_rules.values());
    settings.warnings = of_all.clone().flat_map(|said| permission::without_effect(said)).collect();
    let is_of_server = |name: &str| {
        let of = |server: &String| {
            name.strip_prefix(server.as_str()).is_some_and(|rest| rest.starts_with('_'))
        };
        settings.mcp.keys().any(of)
    };
    let unknown =
        permission::unknown(of_all.flatten(), is_of_server, !settings.plugins.is_empty())?;
    settings.warnings.extend(unknown);
    (settings.placed_rules, settings.agent_placed_rules) =
        (rules.placed_rules, rules.agent_placed_rules);
    if let Some(own) = &own {
        let own = typed::read::<Settings>(own)?.0;
        (settings.own_agents, settings.own_default_agent) = (own.agents, own.default_agent);
    }
    settings.trust = trust;
    settings.choose_rules();
    settings.warnings.extend(warnings);
    settings.warnings.extend(of_claude);
    settings.warnings.extend(without_meaning(&left_out));
    settings.warnings.extend(of_project.iter().map(|(place, key)| {
        format!("{place}: `{key}` counts only in your own settings, and has no effect here")
    }));
    settings.warnings.extend(settings.terminal.keys.keymap()?.1);
    settings.find_skills(directory);
    settings.find_shell(env);
    settings.warnings.extend(layers.warnings.iter().cloned());
    settings.stored = Keys::load(env)?;
    settings.list = ListSource::find(settings.models_file.as_ref(), env);
    settings.known = Some(layers.providers);
    settings.sources = sources;
    settings.tree = tree;
    Ok(settings)
}
