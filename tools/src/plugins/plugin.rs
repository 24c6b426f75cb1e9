//! One plugin: started when it is needed, and again some time after it has ended.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use leftfold_events::event::{Heard, Hook};
use serde_json::{Value, json};
use tokio::sync::{OnceCell, watch};

use super::hello::{self, Hello};
use super::link::{Fail, Link};
use super::{Report, Root, Said, Spec, Status, answer};

/// How long one that has failed is left alone.
const REST: Duration = Duration::from_secs(60);

pub(super) struct Plugin {
    pub(super) spec: Spec,
    root: Root,
    state: watch::Sender<State>,
}

#[derive(Clone)]
enum State {
    Idle,
    Starting,
    Up(Arc<Up>),
    Failed {
        why: String,
        at: Instant,
        /// What may still be about to end.
        link: Option<Arc<Link>>,
    },
    /// For good: the process ends.
    Closed,
}

/// One that runs.
pub(super) struct Up {
    pub(super) hello: Hello,
    pub(super) link: Arc<Link>,
    since: Instant,
    /// What it has to add to settings, once it has said so, or why it has not.
    configured: OnceCell<Result<Value, String>>,
}

impl Up {
    /// What it adds to `settings`: it is asked once. One that has ended since then has still said so.
    pub(super) async fn configure(
        &self,
        settings: Value,
        limit: Duration,
    ) -> Result<Value, String> {
        let asked = self.configured.get_or_init(|| async {
            let params = json!({ "settings": settings });
            match self.link.ask(hello::CONFIG, params, Some(limit)).await {
                Ok(said) => Ok(said),
                Err(Fail::Refused(why) | Fail::Gone(why)) => Err(why),
                Err(Fail::TimedOut) => Err(late(&self.link, hello::CONFIG, limit)),
            }
        });
        asked.await.clone()
    }
}

/// Ends one that has not answered in time; says so.
fn late(link: &Arc<Link>, hook: &str, limit: Duration) -> String {
    let why = format!("it did not answer {hook} within {} ms", limit.as_millis());
    link.cut_off(&why);
    why
}

impl State {
    /// Whether it is to be started now by whoever needs it.
    fn is_due(&self) -> bool {
        match self {
            Self::Idle => true,
            Self::Up(up) => up.link.is_over() && up.since.elapsed() >= REST,
            Self::Failed { at, .. } => at.elapsed() >= REST,
            Self::Starting | Self::Closed => false,
        }
    }
}

impl Plugin {
    pub(super) fn new(spec: Spec, root: Root) -> Self {
        Self { spec, root, state: watch::Sender::new(State::Idle) }
    }

    pub(super) fn is_settled(&self) -> bool {
        let state = self.state.borrow();
        !state.is_due() && !matches!(&*state, State::Starting)
    }

    /// Has it started if need be, and waits for what comes of it.
    pub(super) async fn ready(self: &Arc<Self>) {
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
        // the sender lives as long as this plugin
        let _ = state.wait_for(|state| !matches!(state, State::Starting)).await;
    }

    async fn start(self: Arc<Self>) {
        let failed = |why, link| State::Failed { why, at: Instant::now(), link };
        let next = match Link::start(&self.spec, &self.root).await {
            Ok(link) => {
                let link = Arc::new(link);
                let begun = self.begin(Arc::clone(&link)).await;
                begun.unwrap_or_else(|why| failed(why, Some(link)))
            }
            Err(why) => failed(why, None),
        };
        let wanted = self.state.send_if_modified(|state| {
            let wanted = matches!(state, State::Starting);
            if wanted {
                *state = next.clone();
            }
            wanted
        });
        if let (false, State::Up(up)) = (wanted, next) {
            up.link.close().await;
        }
    }

    async fn begin(&self, link: Arc<Link>) -> Result<State, String> {
        let limit = self.spec.timeout;
        let answer = link.ask("initialize", hello::params(&self.root), Some(limit)).await;
        let hello = match answer {
            Ok(answer) => Hello::read(&answer, &self.program()),
            Err(Fail::Refused(why)) => Err(format!("it refused `initialize`: {why}")),
            Err(Fail::Gone(why)) => Err(link.last_words(&why).await),
            Err(Fail::TimedOut) => Err(format!("it did not start within {} ms", limit.as_millis())),
        };
        // whoever waits for its start does not wait for its end
        let hello = hello.inspect_err(|why| link.cut_off(why))?;
        let (since, configured) = (Instant::now(), OnceCell::new());
        Ok(State::Up(Arc::new(Up { hello, link, since, configured })))
    }

    /// The name of its program, for as long as it has said none.
    fn program(&self) -> String {
        let name = |part: &String| {
            let path = Path::new(part);
            path.file_stem().map(|stem| stem.to_string_lossy().into_owned())
        };
        // an interpreter says less than what it runs
        let script =
            self.spec.command.iter().skip(1).find(|part| Path::new(part).extension().is_some());
        script.or(self.spec.command.first()).and_then(name).unwrap_or_else(|| "plugin".to_owned())
    }

    pub(super) fn up(&self) -> Option<Arc<Up>> {
        self.last_up().filter(|up| !up.link.is_over())
    }

    /// The same, or one that has ended and was not started again.
    pub(super) fn last_up(&self) -> Option<Arc<Up>> {
        match &*self.state.borrow() {
            State::Up(up) => Some(Arc::clone(up)),
            State::Idle | State::Starting | State::Failed { .. } | State::Closed => None,
        }
    }

    pub(super) async fn ask(&self, hook: Hook, params: Value) -> Said {
        let Some(up) = self.up() else {
            let why = self.failure().unwrap_or_else(|| "it does not run".to_owned());
            return Said::not(Heard::Gone, why);
        };
        if hook == Hook::Auth
            && params["model"]["provider"].as_str() != up.hello.provider.as_deref()
        {
            return answer::read(hook, Value::Null);
        }
        let limit = self.spec.timeout;
        match up.link.ask(hook.name(), params, Some(limit)).await {
            Ok(said) => answer::read(hook, said),
            Err(Fail::Refused(why)) => Said::not(Heard::Failed, why),
            Err(Fail::Gone(why)) => Said::not(Heard::Gone, why),
            Err(Fail::TimedOut) => Said::not(Heard::TimedOut, late(&up.link, hook.name(), limit)),
        }
    }

    /// Why it can not be used, if that is so.
    fn failure(&self) -> Option<String> {
        match &*self.state.borrow() {
            State::Failed { why, .. } => Some(why.clone()),
            State::Up(up) if up.link.is_over() => Some(up.link.why()),
            State::Idle | State::Starting | State::Up(_) | State::Closed => None,
        }
    }

    /// Without its tools: their names are for the pool to give.
    pub(super) fn report(&self) -> Report {
        let up = self.last_up();
        let status = match self.failure() {
            Some(why) => Status::Failed(why),
            None if up.is_some() => Status::Running,
            None => Status::Idle,
        };
        let hello = up.map(|up| up.hello.clone()).unwrap_or_default();
        let name = if hello.name.is_empty() { self.program() } else { hello.name.clone() };
        let (hooks, warnings) = (hello.hook_names(), hello.warnings);
        Report { name, place: self.spec.place.clone(), status, hooks, tools: Vec::new(), warnings }
    }

    /// Ends it for good.
    pub(super) async fn close(&self) {
        match self.state.send_replace(State::Closed) {
            State::Up(up) => up.link.close().await,
            State::Failed { link: Some(link), .. } => link.close().await,
            State::Failed { link: None, .. } | State::Idle | State::Starting | State::Closed => {}
        }
    }
}
