//! A session's children (subagents): sessions that its calls start. The node opens them. This module asks the
//! node for them, and turns the end of a child into the result of its call.

use leftfold_events::event::{
    Cost, EndReason, Ended, Finished, Session, Subagent, Tool, Turn, Usage,
};
use leftfold_events::state::{Call, Child, Delegated, Phase};
use leftfold_events::{Fact, Json, Seq, SessionId, State};
use ractor::ActorRef;

use crate::messages::{NodeMessage, ParentCall, SessionMessage, SpawnChild};

/// The maximum size of an answer for the parent's model, in bytes; the child's log has the whole
/// answer.
const ANSWER: usize = 50_000;

/// A session's access to its children.
pub(crate) struct Children<'a> {
    pub(crate) session: SessionId,
    pub(crate) node: &'a ActorRef<NodeMessage>,
}

impl SpawnChild {
    /// Whether the session begins with this intent, and is not continued by it.
    pub(crate) fn is_first(&self) -> bool {
        let ParentCall { session, spawned, since, .. } = self.parent;
        session.child(spawned, since) == self.session
    }
}

impl Children<'_> {
    /// Starts the child of the intent `spawned`.
    pub(crate) fn spawn(&self, spawned: Seq, state: &State) {
        let child = state.open_children().find(|child| child.wait.intent == spawned);
        if let Some(child) = child {
            self.begin(child, state, false, false);
        }
    }

    /// Starts the children again that were working when a node died, before the event `resumed`.
    pub(crate) fn spawn_again(&self, resumed: Seq, close: bool, state: &State) {
        let before = |child: &&Child| child.wait.intent < resumed;
        if close {
            let closed = state.calls().filter_map(|call| state.child_of(call));
            closed.filter(before).for_each(|child| self.begin(child, state, true, true));
        } else {
            let open = state.open_children().filter(before);
            open.for_each(|child| self.begin(child, state, true, false));
        }
    }

    /// Ends the turn of a child for which no call waits any more: a dead node may have left it, or
    /// it continued while the machine slept.
    pub(crate) fn give_up(&self, spawned: Seq, state: &State) {
        let child = state.children.iter().find(|child| child.wait.intent == spawned);
        child.into_iter().for_each(|child| self.begin(child, state, true, true));
    }

    fn begin(&self, child: &Child, state: &State, again: bool, close: bool) {
        let call = state.calls().find(|call| call.seq == child.call);
        let resolved = call.and_then(|call| call.resolved.as_ref());
        if resolved.is_none() && !close {
            return;
        }
        // a child that is only to be closed does not need its task
        let input = resolved.map(|resolved| resolved.input.value()).unwrap_or_default();
        let text = |key: &str| input[key].as_str().unwrap_or_default().to_owned();
        let parent = ParentCall {
            session: self.session,
            spawned: child.wait.intent,
            since: child.wait.since,
            started: call.map_or(0, started),
            call: call.map(|call| call.id.clone()).unwrap_or_default(),
        };
        let (session, agent) = (child.session, child.agent.clone());
        let (title, prompt, mut config) =
            (text("description"), text("prompt"), state.config.clone());
        config.options.max_cost = child.may_spend;
        config.options.named_hosts.extend(state.named_hosts.iter().cloned());
        let fork_of = child.fork_of;
        let spawn =
            SpawnChild { parent, session, agent, fork_of, title, prompt, config, again, close };
        self.to_node(NodeMessage::Spawn(Box::new(spawn)));
    }

    /// Interrupts the child of `call`, if it is working.
    pub(crate) fn interrupt(&self, call: Seq, state: &State) {
        let children = state.open_children().filter(|child| child.call == call);
        children.for_each(|child| self.to_node(interrupt(child.session)));
    }

    /// Reports the end of this session's turn to the waiting call of `parent`.
    pub(crate) fn report(&self, parent: ParentCall, ended: &Ended, state: &State) {
        self.to_node(ChildResult::from_end(self.session, ended, state).to(parent));
    }

    fn to_node(&self, message: NodeMessage) {
        if self.node.cast(message).is_err() {
            tracing::warn!("the node is gone: a message about a child was dropped");
        }
    }
}

/// The intent whose outcome a running call waits for.
fn started(call: &Call) -> Seq {
    if let Phase::Running { wait, .. } = &call.phase { wait.intent } else { 0 }
}

pub(crate) fn interrupt(child: SessionId) -> NodeMessage {
    let interrupted = Fact::new(Turn::Interrupted { by: "parent".to_owned() });
    NodeMessage::Tell { session: child, message: SessionMessage::Facts(vec![interrupted]) }
}

/// The title of a child, from the call's description.
pub(crate) fn titled(title: &str, agent: &str) -> Option<Fact> {
    let title = title.trim();
    let titled = || Fact::new(Session::Titled { title: format!("{title} (@{agent} subagent)") });
    (!title.is_empty()).then(titled)
}

/// The result of a child, for its parent.
pub(crate) struct ChildResult {
    pub(crate) session: SessionId,
    pub(crate) reason: EndReason,
    pub(crate) answer: String,
    /// Including its own children.
    pub(crate) usage: Usage,
    pub(crate) cost: Cost,
}

impl ChildResult {
    /// The result of a turn's end; `state` is the child's state after it.
    pub(crate) fn from_end(session: SessionId, ended: &Ended, state: &State) -> Self {
        let Delegated { mut usage, cost } = state.delegated;
        usage += ended.usage;
        let cost = cost + ended.cost;
        Self { session, reason: ended.reason, answer: answer(ended), usage, cost }
    }

    /// The result of a child that could not begin.
    pub(crate) fn failed(session: SessionId, why: String) -> Self {
        let (reason, usage, cost) = (EndReason::Error, Usage::default(), 0.0);
        Self { session, reason, answer: why, usage, cost }
    }

    pub(crate) fn to(self, parent: ParentCall) -> NodeMessage {
        let (session, message) = self.message(parent);
        NodeMessage::Tell { session, message }
    }

    pub(crate) fn message(self, parent: ParentCall) -> (SessionId, SessionMessage) {
        let ParentCall { session: to, spawned, started, call, .. } = parent;
        let Self { session, reason, answer, usage, cost } = self;
        let completed = reason == EndReason::Completed;
        let how = if completed { String::new() } else { how(reason) };
        let output =
            format!("task_id: {session}\n\n{how}<task_result>\n{}\n</task_result>", short(&answer));
        let finished = Finished {
            call,
            title: String::new(),
            output: output.into(),
            is_error: !completed,
            metadata: Json::from_value(&serde_json::json!({ "session": session.to_string() })),
            spill: None,
            attachments: Vec::new(),
        };
        let ended =
            Fact::for_intent(spawned, Subagent::Ended { session, answer, reason, usage, cost });
        let finished = Fact::for_intent(started, Tool::Finished(Box::new(finished)));
        (to, SessionMessage::Facts(vec![ended, finished]))
    }
}

/// The last text, or the reason why there is none.
fn answer(ended: &Ended) -> String {
    match &ended.error {
        Some(error) if ended.text.is_empty() => error.clone(),
        Some(error) => format!("{}\n\n({error})", ended.text),
        None => ended.text.clone(),
    }
}

fn how(reason: EndReason) -> String {
    let why = match reason {
        EndReason::Completed => "it completed",
        EndReason::Blocked => "a person stopped it",
        EndReason::Error => "it failed",
        EndReason::Aborted => "it was interrupted",
        EndReason::MaxSteps => "it used up its steps",
        EndReason::Limit => "it reached a limit",
        EndReason::Incomplete => "its answer was cut off",
        EndReason::InvalidOutput => "its answer did not fit the schema",
    };
    format!("The subagent came to no proper end: {why}. This is the last it said.\n")
}

fn short(answer: &str) -> String {
    if answer.len() <= ANSWER {
        return answer.to_owned();
    }
    let end = (0..=ANSWER).rev().find(|at| answer.is_char_boundary(*at)).unwrap_or_default();
    format!("{}\n[{} more bytes are in the subagent's log]", &answer[..end], answer.len() - end)
}
