//! What a session's workers reach of the world outside: models and the project's files.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use leftfold_providers::Provider;
use leftfold_tools::Workspace;

/// The providers of a session, by the name that settings give them.
#[derive(Clone, Default)]
pub struct Models(Arc<HashMap<String, Arc<dyn Provider>>>);

impl Models {
    pub fn new(providers: impl IntoIterator<Item = (String, Arc<dyn Provider>)>) -> Self {
        Self(Arc::new(providers.into_iter().collect()))
    }

    pub(crate) fn get(&self, name: &str) -> Option<&Arc<dyn Provider>> {
        self.0.get(name)
    }
}

impl fmt::Debug for Models {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.0.keys()).finish()
    }
}

/// Models and workspace.
#[derive(Clone, Debug)]
pub struct World {
    pub models: Models,
    pub workspace: Arc<Workspace>,
}
