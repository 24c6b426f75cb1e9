//! Contents that events name by their hash.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use leftfold_events::{Envelope, Payload, Sha256};

use crate::engine::ReadEngine;
use crate::error::{ContentFault, Damage};

/// Contents that were already read or written, so that fifty equal turn configurations share one
/// text. A session has a handful of distinct ones.
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

/// Whether the payload was never set. Such a payload has neither contents nor a hash.
pub(crate) fn is_unset(payload: &Payload) -> bool {
    payload.sha256() == Sha256::default()
}

/// Puts the contents back into a decoded event. `load` reads those that are not in the cache.
pub(crate) fn fill(
    cache: &Cache,
    envelope: &mut Envelope,
    load: impl Fn(Sha256) -> Result<Arc<str>, ContentFault>,
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
                let damage = flaw.into_damage(session, seq);
                Damage { what: format!("payload {sha256}: {}", damage.what), ..damage }
            })?,
        };
        cache.insert(sha256, Arc::clone(&text));
        payload.fill(text);
    }
    Ok(())
}

/// Reads the contents with this hash, and compares it.
pub(crate) fn load(engine: &dyn ReadEngine, sha256: Sha256) -> Result<Arc<str>, ContentFault> {
    let bytes = engine.payload(sha256)?.ok_or_else(|| ContentFault::db("it is missing"))?;
    if Sha256::digest(&bytes) != sha256 {
        return Err(ContentFault::db("the contents have another hash"));
    }
    let text = String::from_utf8(bytes).map_err(|e| ContentFault::db(e.to_string()))?;
    Ok(Arc::from(text))
}
