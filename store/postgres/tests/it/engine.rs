//! The suite of all engines, on PostgreSQL.

use std::path::Path;

use leftfold_postgres::{Options, Postgres, PostgresEngine, Reader};
use leftfold_store::Error;
use leftfold_store::engine::{Engine, ReadEngine};

use crate::cluster::{MakesTables, Tables, shared};
use crate::conformance::Place;

struct Database(Tables<'static>, tempfile::TempDir);

/// `None` without PostgreSQL.
fn database() -> Option<Database> {
    Some(Database(shared()?.tables(), tempfile::tempdir().unwrap()))
}

impl Place for Database {
    fn open(&self) -> Result<Box<dyn Engine>, Error> {
        let node = Postgres::open(&self.0.address(), Options::default()).unwrap();
        Ok(Box::new(PostgresEngine::new(node)))
    }

    fn read(&self) -> Box<dyn ReadEngine> {
        Box::new(Reader::open(&self.0.address()).unwrap())
    }

    fn dir(&self) -> &Path {
        self.1.path()
    }
}

crate::conformance::conformance!(match database() {
    Some(database) => database,
    None => return,
});
