//! Which stores this node holds, for whoever makes it reachable there.

use std::collections::HashMap;
use std::fmt::Debug;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Makes a node reachable in the stores that it holds. Whatever it does in a store's folder it does
/// while the node has the store's lock.
pub trait Keeper: Debug + Send + Sync {
    /// The node holds the store in this folder.
    fn hold(&self, store: &Path) -> Box<dyn Hold>;
}

/// A store that is held. It is dropped, while the lock is still there, when the node ends.
pub trait Hold: Debug + Send {
    /// Every session in it rests, so that the node lets go of it in a moment.
    fn rest(self: Box<Self>);
}

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
