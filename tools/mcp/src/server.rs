//! One server, as its pool starts it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use leftfold_process::{Failure, Service, Supervised};

use super::client_handler::ClientHandler;
use super::connect::{self, LaunchContext};
use super::link::Link;
use super::spec::{Endpoint, ServerReport, ServerSpec, ServerStatus};

pub(super) struct Server {
    pub(super) spec: ServerSpec,
    pub(super) root: LaunchContext,
    /// Whether the last start failed because its user has not signed in.
    wants_sign_in: AtomicBool,
}

impl Server {
    pub(super) fn new(spec: ServerSpec, root: LaunchContext) -> Self {
        Self { spec, root, wants_sign_in: AtomicBool::new(false) }
    }
}

impl Service for Server {
    type Connection = Link;

    /// The next call starts a server that has ended.
    const BACK_OFF: Duration = Duration::ZERO;

    fn is_enabled(&self) -> bool {
        self.spec.endpoint != Endpoint::Disabled
    }

    async fn start(&self) -> Result<Link, Failure<Link>> {
        let handler = ClientHandler::for_server(&self.spec.name, &self.root.directory);
        let connected = connect::connect(&self.spec, &self.root, handler.clone()).await;
        if connected.is_ok() {
            handler.tools_changed();
        }
        let wants_sign_in = connected.as_ref().is_err_and(|failure| failure.wants_sign_in);
        self.wants_sign_in.store(wants_sign_in, Ordering::Relaxed);
        connected.map_err(|failure| failure.why.into())
    }
}

/// The reason why a server cannot be used, or `None` if it can.
pub(super) fn failure(server: &Supervised<Server>) -> Option<String> {
    if server.service().is_enabled() {
        server.failure()
    } else {
        Some("it is disabled in settings".to_owned())
    }
}

/// The report on a server, without its tools: the pool adds them under their full names.
pub(super) fn report(server: &Supervised<Server>) -> ServerReport {
    let link = server.last_connection();
    let Server { spec, wants_sign_in, .. } = server.service();
    let wants_sign_in = spec.has_sign_in() && wants_sign_in.load(Ordering::Relaxed);
    let status = match failure(server) {
        _ if !server.service().is_enabled() => ServerStatus::Disabled,
        Some(why) if wants_sign_in => ServerStatus::NeedsSignIn(why),
        Some(why) => ServerStatus::Failed(why),
        None if link.is_some() => ServerStatus::Connected,
        None => ServerStatus::Idle,
    };
    let name = spec.name.clone();
    ServerReport { name, status, server: link.and_then(|link| link.server()), tools: Vec::new() }
}
