use leftfold_events::event::{EndReason, Hook, HookOutcome, Model, Session, Subagent, Tool, Turn};
use leftfold_events::{Event, verify};
use leftfold_plugins::{self as plugins, LaunchContext, PluginCode, PluginProgram};
use leftfold_tools::Launch;
use ractor::ActorCell;

use super::*;
use crate::{ChildConfig, TurnConfigs};

/// The actors below `cell`, in the order of their start.
fn children(cell: &ActorCell) -> Vec<ActorCell> {
    let mut children = cell.get_children();
    children.sort_by_key(|child| child.get_id());
    children
}

/// The session is the node's second child, after the hub.
pub(super) fn session(live: &Live) -> ActorCell {
    children(&live.node.get_cell())[1].clone()
}

#[derive(Clone, Copy)]
pub(super) enum Worker {
    Processor,
    ToolExecutor,
    /// The last that has started with its first work.
    Last,
}

pub(super) async fn kill(live: &Live, worker: Worker) {
    let least = match worker {
        Worker::Processor => 1,
        Worker::ToolExecutor => 2,
        Worker::Last => 3,
    };
    let mut workers = children(&session(live));
    // the intent of its first work is durable before it starts
    while workers.len() < least {
        tokio::task::yield_now().await;
        workers = children(&session(live));
    }
    let worker = match worker {
        Worker::Processor | Worker::ToolExecutor => &workers[least - 1],
        Worker::Last => &workers[workers.len() - 1],
    };
    worker.kill();
}

pub(super) async fn completed(site: &Site, mut live: Live) -> Vec<Envelope> {
    let ended = live.until_ended().await;
    let Event::Turn(Turn::Ended(ended)) = ended.event else { panic!("{ended:?}") };
    assert_eq!(ended.reason, EndReason::Completed, "{:?}", ended.error);
    live.stop().await;
    let log = site.log();
    assert_eq!(verify(&log), vec![]);
    log
}

pub(super) fn has(log: &[Envelope], fits: impl Fn(&Event) -> bool) -> bool {
    log.iter().any(|event| fits(&event.event))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_that_dies_goes_on_where_its_log_ends() {
    let site =
        Site::new(json!({ "replies": [bash("echo ran >> marks.txt; sleep 1000"), text("well")] }));
    let mut live = site.start().await;
    live.prompt(&site, "hi");
    live.until(|e| matches!(e, Event::Tool(Tool::Started { .. }))).await;
    session(&live).kill();
    let log = completed(&site, live).await;
    assert!(has(&log, |e| matches!(e, Event::Session(Session::Resumed { close: false, .. }))));
    assert!(has(&log, |e| matches!(e, Event::Tool(Tool::Lost { .. }))));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_that_keeps_dying_is_closed_with_a_reason() {
    let site = Site::new(json!({ "replies": [{ "parts": [{ "stall": true }] }] }));
    let mut live = site.start().await;
    live.prompt(&site, "hi");
    for _ in 0..4 {
        live.until(|e| matches!(e, Event::Model(Model::Requested { .. }))).await;
        session(&live).kill();
    }
    let mut closed = live.opened.closed.clone();
    let reason = tokio::time::timeout(STEP_TIMEOUT, closed.wait_for(Option::is_some)).await;
    assert!(reason.expect("in time").is_ok());
    live.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_processor_that_dies_costs_one_attempt() {
    let mut reply = text("there");
    reply["parts"] = json!([{ "text": "there" }, { "delay_ms": 400 }]);
    let site = Site::new(json!({ "replies": [reply] }));
    let mut live = site.start().await;
    live.prompt(&site, "hi");
    live.until(|e| matches!(e, Event::Model(Model::Streamed { .. }))).await;
    kill(&live, Worker::Processor).await;
    let retry = live.until(|e| matches!(e, Event::Model(Model::RetryScheduled { .. }))).await;
    live.tell(SessionMessage::Facts(vec![Fact::for_intent(retry.seq, Session::DeadlinePassed {})]));
    completed(&site, live).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tool_executor_that_dies_is_an_error_that_the_model_is_told() {
    let site = Site::new(json!({ "replies": [bash("sleep 1000"), text("well")] }));
    let mut live = site.start().await;
    live.prompt(&site, "hi");
    live.until(|e| matches!(e, Event::Tool(Tool::Started { .. }))).await;
    kill(&live, Worker::ToolExecutor).await;
    let log = completed(&site, live).await;
    assert!(has(&log, |e| {
        matches!(e, Event::Tool(Tool::Finished(finished)) if finished.output.contains("died"))
    }));
}

/// Gives every child this configuration.
#[derive(Debug)]
struct Child(TurnConfig, Models);

impl TurnConfigs for Child {
    fn for_child(&self, _: &str, _: &TurnConfig) -> Result<ChildConfig, String> {
        Ok(ChildConfig { config: self.0.clone(), models: self.1.clone() })
    }

    fn for_switch(&self, agent: &str, _: &TurnConfig) -> Result<TurnConfig, String> {
        Err(format!("there is no agent {agent}"))
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tool_executor_that_dies_leaves_calls_with_children_alone() {
    let task = json!({ "description": "wait", "prompt": "Wait.", "subagentType": "general" });
    let mut site = Site::new(json!({ "replies": [call("task", &task), text("well")] }));
    let wait = bash("until [ -e go ]; do sleep 0.02; done");
    let child = Site::new(json!({ "replies": [wait, text("It went.")] }));
    site.turn_configs = Some(Arc::new(Child(site.config(), child.world().models)));
    let mut live = site.start().await;
    live.prompt(&site, "hi");
    live.until(|e| matches!(e, Event::Subagent(Subagent::Spawned { .. }))).await;
    let executor = children(&session(&live))[Worker::ToolExecutor as usize].clone();
    executor.kill_and_wait(None).await.expect("its end");
    // by now the session has noticed
    live.view().await;
    std::fs::write(site.project().join("go"), "").expect("a file");
    let log = completed(&site, live).await;
    assert!(has(&log, |e| {
        matches!(e, Event::Tool(Tool::Finished(finished)) if finished.output.contains("It went."))
    }));
}

/// A plugin that is called before calls and never answers.
fn silent(site: &Site) -> Plugins {
    let hello = json!({ "name": "silent", "hooks": ["tool.execute.before"] });
    let hello = json!({ "jsonrpc": "2.0", "id": 1, "result": hello });
    let script = format!("read -r line; echo '{hello}'; cat > /dev/null");
    let spec = PluginProgram {
        place: "the test".into(),
        code: PluginCode::Command(["sh", "-c", &script].map(str::to_owned).into()),
        environment: Vec::new(),
        timeout: STEP_TIMEOUT * 2,
        launch: Launch::in_project(),
        sandbox: None,
        credentials: None,
    };
    let root = LaunchContext {
        directory: site.project(),
        worktree: site.project(),
        environment: Vec::new(),
        socket: site.project().join("socket"),
        shell: None,
        server: None,
    };
    Plugins::from_specs(&root, &[spec])
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hooks_worker_that_dies_costs_the_answer_that_it_waited_for() {
    let mut site = Site::new(json!({ "replies": [bash("echo ran >> marks.txt"), text("well")] }));
    site.plugins = silent(&site);
    site.plugins.ready().await;
    let mut config = site.config();
    config.options.plugins = site.plugins.specs();
    let mut live = site.start().await;
    live.prompt_with(config, "hi");
    live.until(|e| matches!(e, Event::Hook(Hook::Called { .. }))).await;
    kill(&live, Worker::Last).await;
    let log = completed(&site, live).await;
    plugins::close().await;
    assert!(has(&log, |e| {
        matches!(e, Event::Hook(Hook::Returned { outcome: HookOutcome::Failed, message: Some(why), .. })
            if why.contains("died"))
    }));
    assert_eq!(site.read("marks.txt"), "ran\n");
    assert_runs_again(&site, log).await;
}

/// A rerun of the log needs nothing outside it, including the deaths in it.
pub(super) async fn assert_runs_again(site: &Site, log: Vec<Envelope>) {
    let rerun = crate::rerun(site.session, log, &site.folder.path().join("rerun"), None).await;
    assert_eq!(rerun.expect("a rerun").divergence, None);
}
