//! The list of providers and models of models.dev, for the providers that this build does not have built in, and for
//! models that it does not list.
//!
//! | list | used |
//! | --- | --- |
//! | the file that `models_file` in the user's own settings names, else `OPENCODE_MODELS_PATH` | always |
//! | the list that OpenCode has cached | if it is newer than Leftfold's own |
//! | Leftfold's own: `own.json.gz` | otherwise |
//!
//! A list is read when a provider of it is named, and not before: it is large. Invariant: a file gives facts about models,
//! and new providers. It never moves the key or the address of a provider that this build knows.

use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock, OnceLock};
use std::time::UNIX_EPOCH;

use flate2::read::GzDecoder;
use indexmap::IndexMap;
use leftfold_events::Time;
use leftfold_events::providers::KnownProviders;
use leftfold_events::secrets::is_credential;
use leftfold_events::turn_config::ModelSpec;
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::files;
use crate::provider::{Abilities, Costs, Limits};
use crate::source::{Env, set};
use crate::typed::{AMOUNT, At};

/// The key in settings.
pub(crate) const KEY: &str = "models_file";

/// The list of the npm package `opencode-linux-x64` 1.18.33, packed. It has the models that call tools, are not deprecated
/// and were released since June 2025, and of them only what is read here: `own.jq` makes it.
const OWN: &[u8] = include_bytes!("own.json.gz");
/// The names of its providers, a line for each.
const OWN_NAMES: &str = include_str!("own_names.txt");
/// When that package was published.
const OWN_DATE: &str = "2026-09-28";

/// The largest list that is read, in bytes. That of models.dev has 5 MB.
const MAX_LIST: u64 = 64 << 20;
/// How many faults of a list are told. A list of another form would have thousands.
const MAX_FAULTS: usize = 5;

/// A list that was read.
#[derive(Clone, Debug, Default)]
pub(crate) struct ModelList {
    /// Its date and its origin, for people.
    pub(crate) about: String,
    pub(crate) providers: IndexMap<String, ListedProvider>,
    /// The faults of the file, for people.
    pub(crate) faults: Vec<String>,
}

/// A provider of a list.
#[derive(Clone, Debug, Default)]
pub(crate) struct ListedProvider {
    /// The package by which OpenCode names a wire format.
    pub(crate) npm: Option<String>,
    /// The address. `${NAME}` stands for the value of a variable.
    pub(crate) api: Option<String>,
    /// Variables that may hold the key, and parts of the address.
    env: Vec<String>,
    pub(crate) models: IndexMap<String, ListedModel>,
}

/// A model of a list.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ListedModel {
    limit: Limits,
    cost: Costs,
    pub abilities: Abilities,
    /// The efforts of reasoning that it accepts.
    pub efforts: Vec<String>,
    /// The package and the address, if they are not those of its provider.
    pub(crate) npm: Option<String>,
    pub(crate) api: Option<String>,
}

impl ListedModel {
    /// Takes each fact that this entry does not have from `known`.
    pub fn over(&self, known: ModelSpec) -> ModelSpec {
        ModelSpec {
            limit: self.limit.over(known.limit),
            cost: self.cost.over(known.cost),
            abilities: self.abilities.over(known.abilities),
            ..known
        }
    }
}

/// The list in force.
#[derive(Clone, Debug, Default)]
pub(crate) struct ListSource {
    file: Option<PathBuf>,
    /// Whether the user has named the file.
    is_named: bool,
    text: OnceLock<Arc<Result<String, String>>>,
    read: OnceLock<Arc<ModelList>>,
}

impl PartialEq for ListSource {
    fn eq(&self, other: &Self) -> bool {
        self.file == other.file
    }
}

impl ListSource {
    /// `named`: the file in settings.
    pub(crate) fn find(named: Option<&At<String>>, env: Env<'_>) -> Self {
        let named = named.map(|path| path.place().source.path(path));
        let named = named.or_else(|| set(env, "OPENCODE_MODELS_PATH").map(PathBuf::from));
        let is_newer = |path: &PathBuf| date_of(path).is_some_and(|date| date.as_str() > OWN_DATE);
        let is_named = named.is_some();
        let file = match named {
            Some(path) => {
                // so that settings are read again when it changes
                let _ = files::metadata(&path);
                Some(path)
            }
            None => cache(env).filter(is_newer),
        };
        Self { file, is_named, ..Self::default() }
    }

    pub(crate) fn is_named(&self) -> bool {
        self.is_named
    }

    /// The list, which is read now if it was not before.
    pub(crate) fn get(&self, known: &KnownProviders) -> &ModelList {
        self.read.get_or_init(|| match &self.file {
            Some(path) => Arc::new(read(path, self.text(path), known)),
            None => Arc::clone(&OWN_LIST),
        })
    }

    /// The list, if it was read.
    pub(crate) fn if_read(&self) -> Option<&ModelList> {
        self.read.get().map(|list| &**list)
    }

    /// A provider of the list. The list is not read for a name that it cannot have.
    pub(crate) fn provider(&self, name: &str, known: &KnownProviders) -> Option<&ListedProvider> {
        let has = |path: &PathBuf| match self.text(path) {
            Ok(text) => text.contains(&format!("\"{name}\"")),
            Err(_) => false,
        };
        let may_have =
            OWN_NAMES.lines().any(|own| own == name) || self.file.as_ref().is_some_and(has);
        if may_have { self.get(known).providers.get(name) } else { None }
    }

    fn text(&self, path: &Path) -> &Result<String, String> {
        self.text.get_or_init(|| {
            let read = || -> io::Result<String> {
                // a pipe would never end
                if !files::metadata(path)?.is_file() {
                    return Err(io::Error::other("it is no file"));
                }
                let mut text = String::new();
                files::open(path)?.take(MAX_LIST).read_to_string(&mut text)?;
                Ok(text)
            };
            Arc::new(read().map_err(|error| error.to_string()))
        })
    }
}

/// Where OpenCode keeps the list.
fn cache(env: Env<'_>) -> Option<PathBuf> {
    let of_home = || Some(Path::new(&set(env, "HOME")?).join(".cache"));
    let folder = set(env, "XDG_CACHE_HOME").map(PathBuf::from).or_else(of_home)?;
    Some(folder.join("opencode/models.json"))
}

/// The day of a file's last change.
fn date_of(path: &Path) -> Option<String> {
    let found = files::metadata(path).ok().filter(std::fs::Metadata::is_file)?;
    let age = found.modified().ok()?.duration_since(UNIX_EPOCH).ok()?;
    let time = Time::from_millis(u64::try_from(age.as_millis()).ok()?);
    time.to_string().split_once('T').map(|(day, _)| day.to_owned())
}

static OWN_LIST: LazyLock<Arc<ModelList>> = LazyLock::new(|| {
    let mut text = String::new();
    // the bytes are a part of the program; a test reads them
    let _ = GzDecoder::new(OWN).read_to_string(&mut text);
    let mut list = parse(&text, None);
    list.about = format!("{OWN_DATE} (Leftfold's own copy)");
    Arc::new(list)
});

fn read(path: &Path, text: &Result<String, String>, known: &KnownProviders) -> ModelList {
    let shown = path.display();
    let mut list = match text {
        Ok(text) => parse(text, Some(known)),
        Err(error) => ModelList { faults: vec![error.clone()], ..ModelList::default() },
    };
    let more = list.faults.len().saturating_sub(MAX_FAULTS);
    list.faults.truncate(MAX_FAULTS);
    if more > 0 {
        list.faults.push(format!("{more} more such faults"));
    }
    if list.providers.is_empty() {
        let faults = std::mem::take(&mut list.faults);
        list = ModelList { faults, ..ModelList::clone(&OWN_LIST) };
        list.faults.push("it has no providers, and Leftfold's own list is used".to_owned());
    } else {
        list.about = format!("{} ({shown})", date_of(path).unwrap_or_default());
    }
    let placed = |fault: &String| format!("the list of models {shown}: {fault}");
    list.faults = list.faults.iter().map(placed).collect();
    list
}

/// Reads a list. `known`: it is a file, and says nothing about addresses and keys of providers that are known.
fn parse(text: &str, known: Option<&KnownProviders>) -> ModelList {
    let mut list = ModelList::default();
    let all: Map<String, Value> = match serde_json::from_str(text) {
        Ok(all) => all,
        Err(error) => {
            let (line, column) = (error.line(), error.column());
            list.faults.push(format!(
                "line {line}, column {column}: expected a list as models.dev has it, in JSON"
            ));
            return list;
        }
    };
    for (name, value) in all {
        let faults = &mut list.faults;
        let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
        let named = (!name.is_empty() && name.bytes().all(is_name)).then_some(value);
        let Some(Value::Object(members)) = named else {
            skip(faults, &name, "an object with the name of a provider");
            continue;
        };
        let mut provider = provider(&name, members, faults);
        if let Some(known) = known {
            keep_keys_in_place(&name, &mut provider, known, faults);
        }
        list.providers.insert(name, provider);
    }
    list
}

/// Leaves out of a file what would send a key of a known provider elsewhere.
fn keep_keys_in_place(
    name: &str,
    provider: &mut ListedProvider,
    known: &KnownProviders,
    faults: &mut Vec<String>,
) {
    if let Some(own) = OWN_LIST.providers.get(name) {
        if own.api.as_deref().map(host) != provider.api.as_deref().map(host) {
            skip(faults, &format!("{name}.api"), "the address that Leftfold knows");
        }
        let (npm, api, env) = (own.npm.clone(), own.api.clone(), own.env.clone());
        (provider.npm, provider.api, provider.env) = (npm, api, env);
    } else {
        provider.env.retain(|variable| {
            let is_of = |keys: &[&str]| keys.contains(&variable.as_str());
            let mut builtin = known.builtin.iter();
            let is_known = builtin.any(|builtin| is_of(builtin.keys) || is_of(builtin.hidden))
                || OWN_LIST.providers.values().any(|own| own.env.contains(variable));
            if is_known {
                skip(
                    faults,
                    &format!("{name}.env"),
                    &format!("no {variable}, the key of another provider"),
                );
            }
            !is_known
        });
    }
    let at = provider.api.as_deref().map(host);
    provider.models.retain(|id, model| {
        let is_there = model.api.as_deref().is_none_or(|api| Some(host(api)) == at);
        if !is_there {
            skip(faults, &format!("{name}.models.{id}"), "the address of its provider");
        }
        is_there
    });
}

fn provider(name: &str, members: Map<String, Value>, faults: &mut Vec<String>) -> ListedProvider {
    let mut object = Object { path: name.to_owned(), members, faults };
    let npm = object.text("npm");
    let api = object.take("api", "an address with https", address);
    let env = object.take("env", "a list of variables", |value| {
        let names = Vec::<String>::deserialize(value).ok()?;
        let is_name = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
        names.iter().all(|name| name.bytes().all(is_name)).then_some(names)
    });
    let models = object.object("models").unwrap_or_default();
    let mut provider =
        ListedProvider { npm, api, env: env.unwrap_or_default(), ..ListedProvider::default() };
    for (id, value) in models {
        let path = format!("{name}.models.{id}");
        let Value::Object(members) = value else {
            skip(faults, &path, "an object");
            continue;
        };
        let model = model(&mut Object { path, members, faults });
        provider.models.insert(id, model);
    }
    provider
}

fn model(object: &mut Object<'_>) -> ListedModel {
    let mut model = ListedModel::default();
    object.within("limit", |limit| {
        model.limit = Limits {
            context: limit.count("context"),
            input: limit.count("input"),
            output: limit.count("output"),
        };
    });
    object.within("cost", |cost| {
        let of = &mut model.cost;
        of.input = cost.amount("input");
        of.output = cost.amount("output");
        of.cache_read = cost.amount("cache_read");
        of.cache_write = cost.amount("cache_write");
    });
    let (mut images, mut writes) = (None, true);
    object.within("modalities", |modalities| {
        let has =
            |kinds: &Value, kind: &str| Some(kinds.as_array()?.iter().any(|known| known == kind));
        images = modalities.take("input", "a list", |kinds| has(kinds, "image"));
        writes = modalities.take("output", "a list", |kinds| has(kinds, "text")).unwrap_or(true);
    });
    model.abilities = Abilities {
        tools: Some(object.flag("tool_call").unwrap_or(true) && writes),
        images: images.or(object.flag("attachment")).or(Some(false)),
        reasoning: object.flag("reasoning").or(Some(false)),
        temperature: object.flag("temperature"),
    };
    let efforts = object.take("reasoning_options", "a list", |options| {
        let efforts = |option: &Value| option.get("values").and_then(Value::as_array).cloned();
        Some(options.as_array()?.iter().filter_map(efforts).flatten().collect::<Vec<_>>())
    });
    let efforts = efforts.unwrap_or_default().into_iter();
    model.efforts = efforts.filter_map(|effort| effort.as_str().map(str::to_owned)).collect();
    object.within("provider", |provider| {
        model.api = provider.take("api", "an address with https", address);
        model.npm = provider.text("npm");
        // OpenAI's package has two APIs
        match provider.text("shape").as_deref() {
            Some("completions") => model.npm = Some("@ai-sdk/openai-compatible".to_owned()),
            Some("responses") => model.npm = Some("@ai-sdk/openai".to_owned()),
            Some(_) | None => {}
        }
    });
    model
}

/// An address to which a key may go: an encrypted one, one of this machine, or one that a variable of the user's says.
fn address(value: &Value) -> Option<String> {
    let text = value.as_str()?;
    let local = ["127.0.0.1", "localhost", "[::1]"];
    let is_local = |rest: &str| {
        local
            .iter()
            .any(|host| rest.strip_prefix(host).is_some_and(|rest| rest.starts_with([':', '/'])))
    };
    let is_safe = text.starts_with("https://")
        || text.starts_with("${")
        || text.strip_prefix("http://").is_some_and(is_local);
    let is_plain = text.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'@');
    (is_safe && is_plain).then(|| text.to_owned())
}

/// The scheme and the host of an address.
fn host(address: &str) -> &str {
    let begin = address.find("://").map_or(0, |at| at + 3);
    let end = address[begin..].find(['/', '?', '#']).map_or(address.len(), |at| begin + at);
    &address[..end]
}

fn skip(faults: &mut Vec<String>, path: &str, expected: &str) {
    faults.push(format!("`{path}` is skipped: expected {expected}"));
}

/// An object of a list. Members of a wrong type are skipped.
struct Object<'a> {
    path: String,
    members: Map<String, Value>,
    faults: &'a mut Vec<String>,
}

impl Object<'_> {
    fn take<T>(
        &mut self,
        name: &str,
        expected: &str,
        read: impl FnOnce(&Value) -> Option<T>,
    ) -> Option<T> {
        let value = self.members.remove(name).filter(|value| !value.is_null())?;
        let read = read(&value);
        if read.is_none() {
            skip(self.faults, &format!("{}.{name}", self.path), expected);
        }
        read
    }

    fn text(&mut self, name: &str) -> Option<String> {
        self.take(name, "a string", |value| value.as_str().map(str::to_owned))
    }

    fn flag(&mut self, name: &str) -> Option<bool> {
        self.take(name, "a boolean", Value::as_bool)
    }

    fn count(&mut self, name: &str) -> Option<u64> {
        self.take(name, "a whole number that is not negative", Value::as_u64)
    }

    fn amount(&mut self, name: &str) -> Option<f64> {
        self.take(name, AMOUNT, |value| value.as_f64().filter(|amount| *amount >= 0.0))
    }

    fn object(&mut self, name: &str) -> Option<Map<String, Value>> {
        let value = self.members.remove(name).filter(|value| !value.is_null())?;
        let Value::Object(members) = value else {
            skip(self.faults, &format!("{}.{name}", self.path), "an object");
            return None;
        };
        Some(members)
    }

    fn within(&mut self, name: &str, read: impl FnOnce(&mut Object<'_>)) {
        if let Some(members) = self.object(name) {
            let path = format!("{}.{name}", self.path);
            read(&mut Object { path, members, faults: self.faults });
        }
    }
}

impl ListedProvider {
    /// The variables that may hold the key.
    pub(crate) fn keys(&self) -> impl Iterator<Item = &str> {
        self.env.iter().map(String::as_str).filter(|name| is_credential(name))
    }

    /// The address of a model, or of the provider, before variables are filled in.
    pub(crate) fn template(&self, model: Option<&str>) -> Option<&str> {
        let own = model.and_then(|id| self.models.get(id)?.api.as_deref());
        own.or(self.api.as_deref())
    }

    /// The package of a model, or of the provider.
    pub(crate) fn package(&self, model: Option<&str>) -> Option<&str> {
        let own = model.and_then(|id| self.models.get(id)?.npm.as_deref());
        own.or(self.npm.as_deref())
    }

    /// The address of a model with the values of variables, which hold no keys and which the provider names; otherwise
    /// the first variable without a value.
    pub(crate) fn address(
        &self,
        model: Option<&str>,
        env: Env<'_>,
    ) -> Option<Result<String, String>> {
        let mut rest = self.template(model)?;
        let mut address = String::new();
        while let Some((before, after)) = rest.split_once("${") {
            let (name, after) = after.split_once('}').unwrap_or((after, ""));
            let is_own = self.env.iter().any(|own| own == name) && !is_credential(name);
            let Some(value) = set(env, name).filter(|_| is_own) else {
                return Some(Err(name.to_owned()));
            };
            address.push_str(before);
            address.push_str(&value);
            rest = after;
        }
        Some(Ok(address + rest))
    }
}
