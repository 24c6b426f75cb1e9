//! Caches of tools, which a command must be able to change although the home folder is read-only.

use std::path::{Path, PathBuf};

use leftfold_events::Sha256;

/// Variables that name a tool's cache, and the folder below the worktree's caches. Another project's results, and what
/// the user has built outside of the sandbox, are not reused: a cache that commands fill could poison them.
const CACHES: &[(&str, &str)] = &[
    ("CCACHE_DIR", "ccache"),
    ("GOCACHE", "go-build"),
    ("PIP_CACHE_DIR", "pip"),
    ("UV_CACHE_DIR", "uv"),
    ("YARN_CACHE_FOLDER", "yarn"),
];

/// Folders of the home folder whose changes are lost at the command's end.
const DISCARDED: &[&str] = &[".cache", ".npm"];

/// Folders of downloads, which a command with the network fills.
const DOWNLOADS: &[&str] = &[".cargo/git", ".cargo/registry", ".m2/repository", "go/pkg/mod"];

/// The folder of a worktree's caches.
pub(super) fn folder(data: &Path, worktree: &Path) -> PathBuf {
    let name = Sha256::digest(worktree.as_os_str().as_encoded_bytes()).to_string();
    data.join("cache").join(&name[..16])
}

/// The variables that lead to the caches in `folder`, without those that the user has set.
pub(super) fn variables(
    folder: &Path,
    home: Option<&Path>,
    is_set: impl Fn(&str) -> bool,
) -> Vec<(String, PathBuf)> {
    // a command could not make it
    let lacks_cache = home.is_none_or(|home| !home.join(".cache").is_dir());
    let general = lacks_cache.then_some(&("XDG_CACHE_HOME", "general"));
    let own = CACHES.iter().chain(general).filter(|(name, _)| !is_set(name));
    own.map(|(name, cache)| ((*name).to_owned(), folder.join(cache))).collect()
}

/// The folders whose changes are discarded: those of `home`, and caches that the user's variables name.
pub(super) fn discarded(
    home: Option<&Path>,
    value: impl Fn(&str) -> Option<PathBuf>,
) -> Vec<PathBuf> {
    let others = ["NPM_CONFIG_CACHE", "XDG_CACHE_HOME", "npm_config_cache"];
    let named = CACHES.iter().map(|(name, _)| *name).chain(others).filter_map(value);
    home.into_iter().flat_map(at_home).chain(named).collect()
}

/// The caches of `home` that tools make there.
pub(super) fn at_home(home: &Path) -> impl Iterator<Item = PathBuf> {
    DISCARDED.iter().map(|name| home.join(name))
}

/// The folders of `home` that a command with the network may change. Other commands read them.
pub(super) fn downloads(home: &Path) -> impl Iterator<Item = PathBuf> {
    DOWNLOADS.iter().map(|name| home.join(name))
}
