//! Opens the engines of stores whose folder names a database. The names have no passwords: one that came in a
//! URL is remembered here, for this process.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::{Arc, Mutex, PoisonError};

use leftfold_store::Error;
use leftfold_store::engine::{Engine, ReadEngine};

use crate::address::Address;
use crate::engine::{Options, Postgres, PostgresReader};
use crate::store_engine::{PostgresEngine, engine_error};

/// The databases of this process.
#[derive(Debug, Default)]
pub struct Databases {
    options: Options,
    known: Mutex<HashMap<String, Known>>,
}

#[derive(Debug)]
struct Known {
    address: Address,
    /// Opening one takes several exchanges with the server, so all readers share it.
    reader: Option<Arc<PostgresReader>>,
}

impl Databases {
    /// With these addresses, whose passwords are used when one of them is named.
    pub fn new(options: Options, addresses: impl IntoIterator<Item = Address>) -> Self {
        let known = addresses
            .into_iter()
            .map(|address| (address.without_password(), Known { address, reader: None }));
        Self { options, known: Mutex::new(known.collect()) }
    }

    /// Works with a database, which may be new here.
    fn with<T>(
        &self,
        name: &str,
        work: impl FnOnce(&mut Known) -> Result<T, crate::Error>,
    ) -> Result<T, Error> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let known = match known.entry(name.to_owned()) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(new) => {
                let address = Address::parse(name).map_err(engine_error)?;
                new.insert(Known { address, reader: None })
            }
        };
        work(known).map_err(engine_error)
    }
}

impl leftfold_store::Databases for Databases {
    fn open(&self, name: &str) -> Result<Box<dyn Engine>, Error> {
        let address = self.with(name, |known| Ok(known.address.clone()))?;
        let node = Postgres::open(&address, self.options.clone()).map_err(engine_error)?;
        Ok(Box::new(PostgresEngine::new(node)))
    }

    fn reader(&self, name: &str) -> Result<Arc<dyn ReadEngine>, Error> {
        let reader = self.with(name, |known| {
            if let Some(reader) = &known.reader {
                return Ok(Arc::clone(reader));
            }
            let reader = Arc::new(PostgresReader::open(&known.address)?);
            Ok(Arc::clone(known.reader.insert(reader)))
        });
        Ok(reader?)
    }
}
