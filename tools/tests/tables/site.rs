//! A worktree for each test, and a neighbouring folder that no tool may touch.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use leftfold_events::Json;
use leftfold_events::event::{CallSpec, Resolution};
use leftfold_tools::{Context, Output, SearchService, SearchVendor, UserFolders, Workspace};
use serde_json::Value;
use tempfile::TempDir;

pub(crate) struct Site {
    dir: TempDir,
}

impl Site {
    pub(crate) fn new() -> Self {
        let dir = TempDir::new().unwrap();
        for name in ["work", "outside"] {
            std::fs::create_dir(dir.path().join(name)).unwrap();
        }
        Self { dir }
    }

    pub(crate) fn with(files: &[(&str, &[u8])]) -> Self {
        let site = Self::new();
        for (name, content) in files {
            site.file(name, content);
        }
        site
    }

    fn root(&self) -> PathBuf {
        self.dir.path().canonicalize().unwrap()
    }

    pub(crate) fn path(&self, name: impl AsRef<Path>) -> PathBuf {
        self.root().join("work").join(name)
    }

    pub(crate) fn outside(&self, name: &str) -> PathBuf {
        self.root().join("outside").join(name)
    }

    pub(crate) fn spill(&self) -> PathBuf {
        self.root().join("spill")
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

    pub(crate) fn bytes(&self, name: &str) -> Vec<u8> {
        std::fs::read(self.path(name)).unwrap()
    }

    pub(crate) fn text(&self, name: &str) -> String {
        String::from_utf8(self.bytes(name)).unwrap()
    }

    /// Paths of everything in the worktree, sorted.
    pub(crate) fn tree(&self) -> Vec<String> {
        let (top, mut found, mut left) = (self.path(""), Vec::new(), vec![self.path("")]);
        while let Some(folder) = left.pop() {
            for entry in std::fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                found.push(path.strip_prefix(&top).unwrap().display().to_string());
                if path.is_dir() && !path.is_symlink() {
                    left.push(path);
                }
            }
        }
        found.sort();
        found
    }

    pub(crate) fn workspace(&self) -> Workspace {
        let workspace = Workspace::new(self.path(""), self.path(""), self.spill());
        let (home, config) = (Some(self.outside("home")), Some(self.outside("config")));
        let user_folders = UserFolders { home, config, ..UserFolders::default() };
        // nobody listens there
        let url = Some("http://127.0.0.1:1");
        let search = SearchService::new(SearchVendor::Searxng, url, None, None);
        Workspace {
            user_folders,
            subagents: vec!["general".to_owned()],
            websearch: search.clone().ok(),
            codesearch: search.ok(),
            ..workspace
        }
    }

    /// A context with a unique `LEFTFOLD_CALL`.
    pub(crate) fn context(&self) -> Context {
        static CALLS: AtomicU64 = AtomicU64::new(0);
        let n = CALLS.fetch_add(1, Ordering::Relaxed);
        let call_env = format!("table-{}-{n}:S:{n}:1", std::process::id());
        Context::new(Arc::new(self.workspace()), &format!("call_{n}"), &call_env)
    }

    pub(crate) fn resolve(&self, name: &str, input: &Value) -> Resolution {
        let input = Json::from_value(input);
        let call = CallSpec { id: "c".to_owned(), name: name.to_owned(), input };
        leftfold_tools::resolve(&call, &self.workspace())
    }

    /// Resolves and runs.
    pub(crate) async fn run(&self, name: &str, input: &Value) -> Output {
        leftfold_tools::run(&self.resolve(name, input), self.context()).await
    }
}

/// One field of the metadata; null if it is missing.
pub(crate) fn meta(output: &Output, field: &str) -> Value {
    output.metadata.value()[field].clone()
}

/// The `error_kind` of an error, empty for a success.
pub(crate) fn kind(output: &Output) -> String {
    let kind = meta(output, "error_kind").as_str().unwrap_or_default().to_owned();
    assert_eq!(output.is_error, !kind.is_empty(), "{output:?}");
    kind
}
