//! A test site: a worktree and a folder outside it, removed after the test.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use leftfold_events::Json;
use leftfold_events::event::{CallSpec, Resolution};
use proptest::prelude::ProptestConfig;
use proptest::test_runner::RngSeed;
use serde_json::Value;
use tempfile::TempDir;

use crate::{Context, Output, SearchService, SearchVendor, UserFolders, Workspace};

pub(crate) struct Site {
    dir: TempDir,
}

impl Site {
    pub(crate) fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        for name in ["work", "outside"] {
            std::fs::create_dir(dir.path().join(name)).unwrap();
        }
        Self { dir }
    }

    pub(crate) fn root(&self) -> PathBuf {
        self.dir.path().canonicalize().unwrap()
    }

    pub(crate) fn path(&self, name: impl AsRef<Path>) -> PathBuf {
        self.root().join("work").join(name)
    }

    pub(crate) fn outside(&self, name: &str) -> PathBuf {
        self.root().join("outside").join(name)
    }

    pub(crate) fn file(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, content).unwrap();
        path
    }

    pub(crate) fn fifo(&self, name: &str) {
        use rustix::fs::{CWD, FileType, Mode, mknodat};
        mknodat(CWD, self.path(name), FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
    }

    pub(crate) fn text(&self, name: &str) -> String {
        String::from_utf8(std::fs::read(self.path(name)).unwrap()).unwrap()
    }

    pub(crate) fn workspace(&self) -> Workspace {
        let workspace = Workspace::new(self.path(""), self.path(""), self.root().join("spill"));
        let (home, config) = (Some(self.outside("home")), Some(self.outside("config")));
        // nobody listens there
        let search =
            SearchService::new(SearchVendor::Searxng, Some("http://127.0.0.1:1"), None, None);
        Workspace {
            websearch: search.clone().ok(),
            codesearch: search.ok(),
            user_folders: UserFolders { home, config, ..UserFolders::default() },
            ..workspace
        }
    }

    /// A context with a unique `LEFTFOLD_CALL`.
    pub(crate) fn context(&self) -> Context {
        static CALLS: AtomicU64 = AtomicU64::new(0);
        let n = CALLS.fetch_add(1, Ordering::Relaxed);
        let call_env = format!("test-{}-{n}:S:{n}:1", std::process::id());
        Context::new(Arc::new(self.workspace()), &format!("call_{n}"), &call_env)
    }

    pub(crate) fn resolve(&self, name: &str, input: &Value) -> Resolution {
        let input = Json::from_value(input);
        let call = CallSpec { id: "c".to_owned(), name: name.to_owned(), input };
        crate::resolve(&call, &self.workspace())
    }

    /// Resolves and runs.
    pub(crate) async fn run(&self, name: &str, input: &Value) -> Output {
        crate::run(&self.resolve(name, input), self.context()).await
    }
}

/// Runs fixed random cases, so that a failure comes from the change at hand. `LEFTFOLD_RANDOM=1`
/// picks new cases, `PROPTEST_CASES` sets their number.
pub(crate) fn cases(cases: u32) -> ProptestConfig {
    let given = |name| std::env::var(name).ok();
    let cases = given("PROPTEST_CASES").and_then(|n| n.parse().ok()).unwrap_or(cases);
    let seed = match given("LEFTFOLD_RANDOM") {
        Some(_) => RngSeed::Random,
        None => RngSeed::Fixed(1),
    };
    ProptestConfig { cases, rng_seed: seed, failure_persistence: None, ..ProptestConfig::default() }
}

/// Waits until `condition` holds; panics after 10 s.
pub(crate) async fn eventually(what: &str, mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(10);
    while !condition() {
        assert!(Instant::now() < deadline, "never happened: {what}");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

/// The `error_kind` of an output that must be an error.
pub(crate) fn kind(output: &Output) -> String {
    assert!(output.is_error, "{output:?}");
    output.meta()["error_kind"].as_str().unwrap().to_owned()
}
