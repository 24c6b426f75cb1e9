//! The engine in a folder.

use std::path::Path;

use leftfold_store::engine::{Engine, ReadEngine};
use leftfold_store::{Error, SledEngine};

use super::EnginePlace;

struct Folder(tempfile::TempDir);

fn folder() -> Folder {
    Folder(tempfile::tempdir().unwrap())
}

impl EnginePlace for Folder {
    fn open(&self) -> Result<Box<dyn Engine>, Error> {
        Ok(Box::new(SledEngine::open(self.0.path())?))
    }

    fn read(&self) -> Box<dyn ReadEngine> {
        SledEngine::copy(self.0.path()).unwrap()
    }

    fn dir(&self) -> &Path {
        self.0.path()
    }
}

super::conformance!(folder());
