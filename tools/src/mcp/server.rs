//! One server: started when it is needed, and again when it has ended.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::watch;

use super::connect::{self, Root};
use super::desk::Desk;
use super::link::Link;
use super::{Reach, Report, Spec, Status};

/// How long one that has failed is left alone.
const REST: Duration = Duration::from_secs(60);

pub(super) struct Server {
    pub(super) spec: Spec,
    root: Root,
    state: watch::Sender<State>,
}

#[derive(Clone)]
enum State {
    Idle,
    Starting,
    Up(Arc<Link>),
    Failed {
        why: String,
        at: Instant,
    },
    /// For good: the process ends.
    Closed,
}

impl State {
    /// Whether it is to be started now by whoever needs it.
    fn is_due(&self) -> bool {
        match self {
            Self::Idle => true,
            Self::Up(link) => link.is_over(),
            Self::Failed { at, .. } => at.elapsed() >= REST,
            Self::Starting | Self::Closed => false,
        }
    }
}

impl Server {
    pub(super) fn new(spec: Spec, root: Root) -> Self {
        Self { spec, root, state: watch::Sender::new(State::Idle) }
    }

    pub(super) fn is_settled(&self) -> bool {
        let state = self.state.borrow();
        !state.is_due() && !matches!(&*state, State::Starting)
    }

    /// Has it started if need be, and waits for what comes of it.
    pub(super) async fn ready(self: &Arc<Self>) {
        if self.spec.reach == Reach::Disabled {
            return;
        }
        let mut state = self.state.subscribe();
        let begins = self.state.send_if_modified(|state| {
            let due = state.is_due();
            if due {
                *state = State::Starting;
            }
            due
        });
        if begins {
            // whoever waits may stop waiting; the start goes on
            tokio::spawn(Arc::clone(self).start());
        }
        // the sender lives as long as this server
        let _ = state.wait_for(|state| !matches!(state, State::Starting)).await;
    }

    async fn start(self: Arc<Self>) {
        let next = match connect::connect(&self.spec, &self.root, Desk::of(&self.spec.name)).await {
            Ok(link) => State::Up(Arc::new(link)),
            Err(failure) => State::Failed { why: failure.why, at: Instant::now() },
        };
        let late = self.state.send_if_modified(|state| {
            let wanted = matches!(state, State::Starting);
            if wanted {
                *state = next.clone();
            }
            wanted
        });
        if let (false, State::Up(link)) = (late, next) {
            link.close().await;
        }
    }

    pub(super) fn link(&self) -> Option<Arc<Link>> {
        match &*self.state.borrow() {
            State::Up(link) => Some(Arc::clone(link)),
            State::Idle | State::Starting | State::Failed { .. } | State::Closed => None,
        }
    }

    /// Why it can not be used, if that is so.
    pub(super) fn failure(&self) -> Option<String> {
        if self.spec.reach == Reach::Disabled {
            return Some("it is disabled in settings".to_owned());
        }
        match &*self.state.borrow() {
            State::Failed { why, .. } => Some(why.clone()),
            State::Up(link) if link.is_over() => Some("it has ended".to_owned()),
            State::Idle | State::Starting | State::Up(_) | State::Closed => None,
        }
    }

    /// Without its tools: their names are for the pool to give.
    pub(super) fn report(&self) -> Report {
        let status = match (self.failure(), self.link()) {
            _ if self.spec.reach == Reach::Disabled => Status::Disabled,
            (Some(why), _) => Status::Failed(why),
            (None, Some(_)) => Status::Connected,
            (None, None) => Status::Idle,
        };
        let server = self.link().and_then(|link| link.server());
        Report { name: self.spec.name.clone(), status, server, tools: Vec::new() }
    }

    /// Ends it for good.
    pub(super) async fn close(&self) {
        let before = self.state.send_replace(State::Closed);
        if let State::Up(link) = before {
            link.close().await;
        }
    }
}
