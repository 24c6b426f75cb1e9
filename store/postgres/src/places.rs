//! The places that a node is at besides its own, for instance beside the executors that its settings name.

use std::fmt;
use std::sync::Arc;

/// Returns the further places of a node. They may change while it runs, so it is asked again each time.
#[derive(Clone, Default)]
pub struct FurtherPlaces(Option<Arc<dyn Fn() -> Vec<String> + Send + Sync>>);

impl FurtherPlaces {
    /// `now` may read files. It is called about once a second.
    pub fn new(now: impl Fn() -> Vec<String> + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(now)))
    }

    pub(crate) fn now(&self) -> Vec<String> {
        self.0.as_ref().map(|now| now()).unwrap_or_default()
    }
}

impl fmt::Debug for FurtherPlaces {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.now()).finish()
    }
}
