//! An address at which a server listens: who may ask there, its front end, and its directory. Every
//! server on a store has its own; the node answers the requests of all of them.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::guard::Guard;
use crate::web::Web;

/// As one server tells it to the node that answers its clients.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct FrontOptions {
    pub(crate) hostname: String,
    /// Allowed origins besides the server's own.
    pub(crate) cors: Vec<String>,
    /// The hash of the user and the password, if there is one.
    pub(crate) credentials: Option<[u8; 32]>,
    /// A front end in place of Leftfold's page: a folder, or the address of a server.
    pub(crate) web: Option<String>,
    /// The directory of requests that name none.
    pub(crate) directory: PathBuf,
    /// The executor where new sessions work.
    pub(crate) executor: Option<String>,
}

#[derive(Debug)]
pub(crate) struct Front {
    pub(crate) guard: Guard,
    pub(crate) web: Web,
    pub(crate) directory: PathBuf,
    pub(crate) executor: Option<String>,
}

impl Front {
    /// # Errors
    /// There is no such front end.
    pub(crate) fn new(options: FrontOptions) -> anyhow::Result<Self> {
        let FrontOptions { hostname, cors, credentials, web, directory, executor } = options;
        let web = web.as_deref().map(Web::parse).transpose()?.unwrap_or(Web::Page);
        Ok(Self { guard: Guard::new(&hostname, &cors, credentials), web, directory, executor })
    }
}
