//! The stores that this node holds, for the listeners that make it reachable there.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::messages::{StoreGuard, StoreListener};

#[derive(Debug, Default)]
pub(super) struct Holds {
    listener: Option<Arc<dyn StoreListener>>,
    held: HashMap<PathBuf, Box<dyn StoreGuard>>,
}

impl Holds {
    pub(super) fn keep<'a>(
        &mut self,
        listener: Arc<dyn StoreListener>,
        stores: impl Iterator<Item = &'a Path>,
    ) {
        self.listener = Some(listener);
        stores.for_each(|store| self.add(store));
    }

    /// Adds a store that the node holds.
    pub(super) fn add(&mut self, store: &Path) {
        let Some(listener) = self.listener.as_ref().filter(|_| !self.held.contains_key(store))
        else {
            return;
        };
        self.held.insert(store.to_owned(), listener.hold(store));
    }

    pub(super) fn rest(&mut self, store: &Path) {
        if let Some(hold) = self.held.remove(store) {
            hold.rest();
        }
    }
}
