//! Contents that events name by hash.

use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use leftfold_events::{Envelope, Payload, Sha256};

use crate::database::quiet;
use crate::error::{Damage, Flaw};
use crate::files;
use crate::record::{self, Body, Fault};

/// What has been read or written already, so that fifty equal equips share one text. A session
/// has a handful of distinct ones.
#[derive(Debug, Default)]
pub(crate) struct Cache(Mutex<HashMap<Sha256, Arc<str>>>);

impl Cache {
    pub(crate) fn get(&self, sha256: Sha256) -> Option<Arc<str>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(&sha256).cloned()
    }

    pub(crate) fn insert(&self, sha256: Sha256, text: Arc<str>) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(sha256, text);
    }
}

/// A payload that was never set has neither contents nor a hash.
pub(crate) fn is_unset(payload: &Payload) -> bool {
    payload.sha256() == Sha256::default()
}

/// Whether the database has it (whatever its state).
pub(crate) fn is_stored(db: &sled::Db, sha256: Sha256) -> Result<bool, String> {
    let key = record::part(&record::payload_key(sha256), 0);
    quiet(|| db.contains_key(key))?.map_err(|e| e.to_string())
}

/// Puts the contents back into a decoded event; `load` gets those that are not in the cache.
pub(crate) fn fill(
    cache: &Cache,
    envelope: &mut Envelope,
    load: impl Fn(Sha256) -> Result<Arc<str>, Flaw>,
) -> Result<(), Damage> {
    let (session, seq) = (envelope.session, envelope.seq);
    for payload in envelope.event.payloads_mut() {
        if is_unset(payload) {
            continue;
        }
        let sha256 = payload.sha256();
        let text = match cache.get(sha256) {
            Some(text) => text,
            None => load(sha256).map_err(|flaw| {
                let damage = flaw.of(session, seq);
                Damage { what: format!("payload {sha256}: {}", damage.what), ..damage }
            })?,
        };
        cache.insert(sha256, Arc::clone(&text));
        payload.fill(text);
    }
    Ok(())
}

/// The contents behind a hash, read from where they are kept.
pub(crate) fn load(db: &sled::Db, dir: &Path, sha256: Sha256) -> Result<Arc<str>, Flaw> {
    let records = quiet(|| {
        db.scan_prefix(record::payload_key(sha256)).collect::<Result<Vec<_>, sled::Error>>()
    });
    whole(&records.map_err(Flaw::db)?.map_err(|e| Flaw::db(e.to_string()))?, dir, sha256)
}

/// The contents that these records hold, in the order of their parts.
fn whole<K: AsRef<[u8]>, V: AsRef<[u8]>>(
    records: &[(K, V)],
    dir: &Path,
    sha256: Sha256,
) -> Result<Arc<str>, Flaw> {
    if records.is_empty() {
        return Err(Flaw::db("it is missing"));
    }
    let laid = record::gather(records, 0).map_err(|fault| match fault {
        Fault::Schema(schema) => Flaw::db(record::other_schema(schema)),
        Fault::Bad(what) => Flaw::db(what),
    })?;
    let bytes = match laid.body {
        Body::Inline(bytes) => bytes,
        Body::File { sha256: file, length } => files::get(dir, file, length)?,
    };
    if Sha256::of(&bytes) != sha256 {
        return Err(Flaw::db("the contents have another hash"));
    }
    let text = String::from_utf8(bytes).map_err(|e| Flaw::db(e.to_string()))?;
    Ok(Arc::from(text))
}
