//! One plugin: how its pool starts it, and its running process.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use leftfold_events::event::{HookOutcome, HookPoint};
use leftfold_json_rpc::RequestError;
use leftfold_process::{Connection, Failure, Service, Supervised};
use serde_json::{Value, json};
use tokio::sync::OnceCell;

use super::answer;
use super::credentials::Credentials;
use super::handshake::{self, Handshake};
use super::link::Link;
use super::spec::{
    HookAnswer, LaunchContext, PluginCode, PluginProgram, PluginReport, PluginStatus,
};

/// Why sign-ins are left out.
const NO_SIGN_INS: &str = "its sign-ins are left out: only a plugin of your own settings may offer them, with a command that cannot mean files of the project";

pub(super) struct Plugin {
    pub(super) spec: PluginProgram,
    pub(super) root: LaunchContext,
}

/// A running plugin.
pub(super) struct Running {
    pub(super) handshake: Handshake,
    pub(super) link: Arc<Link>,
    /// Time limit of each answer.
    pub(super) limit: Duration,
    /// Keeps its credentials, if it is the user's own.
    pub(super) credentials: Option<Credentials>,
    /// The settings that it adds, or the reason why it could not say. Set by the first request.
    configured: OnceCell<Result<Value, String>>,
}

impl Connection for Running {
    fn is_over(&self) -> bool {
        self.link.is_over()
    }

    fn why(&self) -> String {
        self.link.why()
    }

    async fn close(&self) {
        self.link.close().await;
    }
}

impl Service for Plugin {
    type Connection = Running;

    const BACK_OFF: Duration = Duration::from_secs(60);

    async fn start(&self) -> Result<Running, Failure<Running>> {
        let explained = |why| self.spec.launch.explain(why);
        let link = Arc::new(Link::start(&self.spec, &self.root).await.map_err(explained)?);
        let limit = self.spec.timeout;
        let running = |handshake, link| {
            let (credentials, configured) = (self.spec.credentials.clone(), OnceCell::new());
            Running { handshake, link, limit, credentials, configured }
        };
        match self.initialize(&link).await.map_err(explained) {
            Ok(handshake) => Ok(running(handshake, link)),
            Err(why) => {
                // a caller that waits for the start does not wait for the end
                link.cut_off(&why);
                let closing = Some(Arc::new(running(Handshake::default(), link)));
                Err(Failure { why, closing })
            }
        }
    }
}

impl Plugin {
    async fn initialize(&self, link: &Arc<Link>) -> Result<Handshake, String> {
        let limit = self.spec.timeout;
        let mut params = handshake::params(&self.root);
        if let PluginCode::JavaScript(javascript) = &self.spec.code {
            params["javascript"] = javascript.params();
        }
        match link.ask("initialize", params, limit).await {
            Ok(answer) => {
                let mut handshake = Handshake::read(&answer, &self.program())?;
                match (&handshake.provider, &self.spec.credentials) {
                    (Some(provider), Some(_)) => link.renews(provider, &handshake.name),
                    (_, None) if !handshake.sign_ins.is_empty() => {
                        handshake.sign_ins.clear();
                        handshake.warnings.push(NO_SIGN_INS.to_owned());
                    }
                    _ => {}
                }
                Ok(handshake)
            }
            Err(RequestError::Refused { why, .. }) => {
                Err(format!("it refused `initialize`: {why}"))
            }
            Err(RequestError::Gone(why)) => Err(link.why_not_started(why).await),
            Err(RequestError::TimedOut) => {
                Err(format!("it did not start within {} ms", limit.as_millis()))
            }
        }
    }

    /// The name of the plugin's program, used until the plugin gives a name.
    fn program(&self) -> String {
        let name = |part: &String| {
            let path = Path::new(part);
            path.file_stem().map(|stem| stem.to_string_lossy().into_owned())
        };
        let command = match &self.spec.code {
            PluginCode::JavaScript(javascript) => return javascript.name.clone(),
            PluginCode::Command(command) => command,
        };
        // the script names the plugin better than its interpreter does
        let script = command.iter().skip(1).find(|part| Path::new(part).extension().is_some());
        script.or(command.first()).and_then(name).unwrap_or_else(|| "plugin".to_owned())
    }
}

impl Running {
    pub(super) async fn ask(&self, hook: HookPoint, mut params: Value) -> HookAnswer {
        // others wait until the plugin has renewed a credential that ends soon
        let mut open = None;
        if hook == HookPoint::Auth {
            let provider = self.handshake.provider.as_deref();
            let Some(provider) = provider.filter(|known| params["model"]["provider"] == **known)
            else {
                return answer::read(hook, Value::Null);
            };
            if let Some(credentials) = &self.credentials {
                match credentials.open(provider).await {
                    Ok(found) => open = found,
                    Err(why) => return HookAnswer::without_output(HookOutcome::Failed, why),
                }
            }
        }
        if let Some(open) = &open {
            params["credential"] = open.value.clone();
        }
        match self.link.ask(hook.name(), params, self.limit).await {
            Ok(said) => answer::read(hook, said),
            Err(RequestError::Refused { why, .. }) => {
                HookAnswer::without_output(HookOutcome::Failed, why)
            }
            Err(RequestError::Gone(why)) => HookAnswer::without_output(HookOutcome::Gone, why),
            Err(RequestError::TimedOut) => {
                HookAnswer::without_output(HookOutcome::TimedOut, self.late(hook.name()))
            }
        }
    }

    /// Asks once which settings it adds to `settings`. The answer stays valid after the plugin has
    /// ended.
    pub(super) async fn configure(&self, settings: Value) -> Result<Value, String> {
        let asked = self.configured.get_or_init(|| async {
            let params = json!({ "settings": settings });
            match self.link.ask(handshake::CONFIG, params, self.limit).await {
                Ok(said) => Ok(said),
                Err(RequestError::Refused { why, .. } | RequestError::Gone(why)) => Err(why),
                Err(RequestError::TimedOut) => Err(self.late(handshake::CONFIG)),
            }
        });
        asked.await.clone()
    }

    /// Ends a plugin that has not answered in time. Returns the reason.
    fn late(&self, hook: &str) -> String {
        let why = format!("it did not answer {hook} within {} ms", self.limit.as_millis());
        self.link.cut_off(&why);
        why
    }
}

/// The report on a plugin, without its tools: the pool adds them under their full names.
pub(super) fn report(plugin: &Supervised<Plugin>) -> PluginReport {
    let running = plugin.last_connection();
    let status = match plugin.failure() {
        Some(why) => PluginStatus::Failed(why),
        None if running.is_some() => PluginStatus::Running,
        None => PluginStatus::Idle,
    };
    let own = plugin.service();
    let handshake = running.map(|running| running.handshake.clone()).unwrap_or_default();
    let name = if handshake.name.is_empty() { own.program() } else { handshake.name.clone() };
    let (hooks, warnings) = (handshake.hook_names(), handshake.warnings);
    PluginReport { name, place: own.spec.place.clone(), status, hooks, tools: Vec::new(), warnings }
}
