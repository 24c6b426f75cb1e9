//! Which stores this node holds, for whoever makes it reachable there.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::messages::{Hold, Keeper};

#[derive(Debug, Default)]
pub(super) struct Holds {
    keeper: Option<Arc<dyn Keeper>>,
    held: HashMap<PathBuf, Box<dyn Hold>>,
}

impl Holds {
    pub(super) fn keep<'a>(
        &mut self,
        keeper: Arc<dyn Keeper>,
        stores: impl Iterator<Item = &'a Path>,
    ) {
        self.keeper = Some(keeper);
        stores.for_each(|store| self.add(store));
    }

    /// The store is held, now or already.
    pub(super) fn add(&mut self, store: &Path) {
        let Some(keeper) = self.keeper.as_ref().filter(|_| !self.held.contains_key(store)) else {
            return;
        };
        self.held.insert(store.to_owned(), keeper.hold(store));
    }

    pub(super) fn rest(&mut self, store: &Path) {
        if let Some(hold) = self.held.remove(store) {
            hold.rest();
        }
    }
}
