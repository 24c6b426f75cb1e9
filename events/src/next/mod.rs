//! The agent's decisions: the next intent, decided from the state alone. This file is the agent loop and its policy. Read
//! it from top to bottom.

mod admit;
mod approval;
pub mod children;
mod compaction;
mod elicitation;
mod files;
mod finish;
mod limits;
mod plugins;
mod prompt_call;
mod repeatable;
mod retry;

pub use admit::admits;
pub use approval::{ApprovalRefused, may_approve};
pub use repeatable::Repeatable;

use crate::event::{
    Answer, BatchCall, CallKind, CallSpec, Class, Compaction, EndReason, Ended, Envelope, Event,
    FailureClass, HookPoint, Model, ModelRef, Notes, Permission, Purpose, StartedSandboxed,
    Subagent, Tool, Turn as TurnEvent,
};
use crate::id::{Seq, SessionId};
use crate::payload::Sha256;
use crate::request_builder;
use crate::rules::Action;
use crate::sandbox::{self, Profile};
use crate::state::{
    Call, Failure, ModelStatus, PendingKind, Phase, Rejection, State, TRIMS, Titling, Turn,
};

/// The time limit for working out what a call would do, in milliseconds.
const CHECK: u64 = 30_000;
/// The number of calls of one reply that run at a time.
const AT_ONCE: usize = 8;
/// The time that a child has to end after it was told to, in milliseconds.
const CHILD_END_TIMEOUT: u64 = 60_000;
/// The time limit of a request for a title or for the session's summary, in milliseconds. The end of the turn waits for it.
const TITLE: u64 = 30_000;

/// The session's next decision. `None`: it waits or is at rest. Pure and total.
pub fn next(s: &State) -> Option<Envelope> {
    if let Some(restore) = &s.files.restore {
        return files::restore(s, restore);
    }
    let turn = s.turn.as_ref()?;
    if let Some(intent) = s.calls().find_map(|c| call(s, turn, c)) {
        return Some(intent);
    }
    if let Some(reason) = turn.stop {
        let alone = s.open_children().next().is_none();
        let error = limits::past(s).filter(|_| reason == EndReason::Limit);
        return alone.then(|| end(s, turn, reason, error));
    }
    if let Some(agent) = &turn.switch {
        return Some(switch(s, agent));
    }
    if wants_title(s, turn) {
        return Some(ask_aside(s, turn, Purpose::Title));
    }
    if s.open().iter().any(|(open, _)| *open != PendingKind::Title) {
        return None;
    }
    if let Some(snapshot) = files::after(s, turn) {
        return Some(snapshot);
    }
    if let Some(asked) = plugins::prompt(s) {
        return Some(asked);
    }
    let mut decided =
        prompt_call::prompt_call(s, turn).unwrap_or_else(|| decide(s, turn, &turn.model_status));
    if !closes(&decided) && s.is_overspent() {
        decided = end(s, turn, EndReason::Limit, limits::past(s));
    }
    if is_answered(&decided) && wants_session_summary(s, turn) {
        return Some(ask_aside(s, turn, Purpose::SessionSummary));
    }
    // the title may still come
    (!closes(&decided) || s.open().is_empty()).then_some(decided)
}

/// Another agent takes over. Its turn configuration is already in force.
fn switch(s: &State, agent: &str) -> Envelope {
    let switched = TurnEvent::Switched { agent: agent.to_owned(), model: s.config.model.name() };
    intent(s, None, None, switched)
}

/// Continues a turn in which nothing is awaited.
fn decide(s: &State, turn: &Turn, status: &ModelStatus) -> Envelope {
    if turn.compact
        && s.has_past()
        && !matches!(status, ModelStatus::Failed(_) | ModelStatus::CompactionFailed { .. })
    {
        return compaction::start(s, false);
    }
    match status {
        ModelStatus::Failed(failure) => failed(s, turn, failure),
        ModelStatus::Answered { finish } if s.last_prompt() < turn.asked => {
            finish::after(s, turn, *finish)
        }
        ModelStatus::Again => ask(s, turn.step.max(1), turn.attempt + 1),
        ModelStatus::CompactionFailed { message } => {
            end(s, turn, EndReason::Error, Some(message.clone()))
        }
        ModelStatus::Compacting(compacting) => compaction::summary(s, turn, compacting),
        ModelStatus::Due
        | ModelStatus::Answered { .. }
        | ModelStatus::Waiting(_)
        | ModelStatus::Backoff(_) => step(s, turn),
    }
}

/// Whether an intent belongs to the end of the turn.
fn closes(intent: &Envelope) -> bool {
    matches!(
        intent.event,
        Event::Turn(TurnEvent::Ended(_)) | Event::Compaction(Compaction::Pruned { .. })
    )
}

/// Whether to request a title: during the first step of a root session's turn, until it has a
/// title.
fn wants_title(s: &State, turn: &Turn) -> bool {
    let root = s.is_root();
    let asks = !s.config.options.title_prompt.is_empty();
    let beside = turn.step == 1 && matches!(turn.model_status, ModelStatus::Waiting(_));
    let due = turn.title == Titling::Due && !s.is_overspent();
    beside && root && asks && s.title.is_none() && due
}

/// Whether an intent ends the turn with an answer.
fn is_answered(intent: &Envelope) -> bool {
    matches!(&intent.event, Event::Turn(TurnEvent::Ended(ended)) if ended.reason == EndReason::Completed)
}

/// Whether to request the session's summary: after the answer of a root session's first turn, or of a later
/// one if there is none yet.
fn wants_session_summary(s: &State, turn: &Turn) -> bool {
    let asks = !s.config.options.session_summary_prompt.is_empty() && s.summary.is_none();
    let due = turn.session_summary == Titling::Due && !s.is_overspent();
    asks && due && s.is_root() && turn.step > 0
}

/// Requests the session's title or summary.
fn ask_aside(s: &State, turn: &Turn, purpose: Purpose) -> Envelope {
    let request = match purpose {
        Purpose::SessionSummary => request_builder::session_summary_request(s),
        Purpose::Title | Purpose::Turn | Purpose::Compaction => request_builder::title_request(s),
    };
    let requested = Model::Requested {
        model: request.model.clone(),
        step: turn.step,
        attempt: 1,
        purpose,
        request_sha256: request.sha256(),
    };
    intent(s, None, Some(s.config.options.timeout.min(TITLE)), requested)
}

/// A new step, if the limits and the context allow one.
fn step(s: &State, turn: &Turn) -> Envelope {
    if turn.step >= s.config.options.max_steps {
        end(s, turn, EndReason::MaxSteps, None)
    } else if s.overflows() && compaction::is_predicted(s) {
        compaction::make_room(s, turn, "the conversation no longer fits the model's context")
    } else {
        ask(s, turn.step + 1, 1)
    }
}

/// The next intent of one call: check, rule, ask, start.
fn call(s: &State, turn: &Turn, c: &Call) -> Option<Envelope> {
    let stopped = turn.stop.is_some();
    match &c.phase {
        Phase::Done(_) if stopped || !plugins::may_be_revised(c) => None,
        Phase::Done(_) => plugins::then(s, c, HookPoint::ToolAfter, || None),
        Phase::TimedOut { attempt } => Some(cancelled(s, c, *attempt)),
        Phase::Unknown { attempt: 1 } if c.class() == Class::Read && !stopped => {
            Some(start(s, c, 2))
        }
        // never run twice without the model's knowledge
        Phase::Unknown { attempt } => {
            Some(about(s, c, None, Tool::Lost { call: c.id.clone(), attempt: *attempt }))
        }
        _ if stopped => Some(cancelled(s, c, c.attempt())),
        Phase::Called if is_out_of_steps(s, turn) && !s.gives_output(c) => Some(cancelled(s, c, 0)),
        _ if c.vetoed.is_some() => plugins::vetoed(s, c),
        Phase::Called => plugins::then(s, c, HookPoint::ToolBefore, || {
            Some(about(s, c, Some(CHECK), Tool::ResolveStarted { call: c.id.clone() }))
        }),
        Phase::Resolved => match next_part(s, c) {
            Some(part) => Some(about(s, c, None, Tool::Batched { call: part })),
            None => s.parts_of(c).all(|part| plugins::is_settled(s, part)).then(|| rule(s, c)),
        },
        Phase::MustAsk { .. } if !may_ask(s, turn, c) => None,
        Phase::MustAsk { access } => {
            plugins::permission(s, c, || question(s, c, *access).or_else(|| run(s, c)))
        }
        Phase::Allowed => run(s, c),
        Phase::Running { .. } if c.class() == Class::Child => spawn(s, c),
        Phase::Running { .. } => elicitation::elicit(s, c),
        Phase::Asking { wait, .. } => rejected_with(s, wait.intent),
        Phase::Checking(_) => None,
    }
}

/// Closes the question `of` if another call of the reply was rejected with words: the model gets them
/// first. Calls that need no answer run.
fn rejected_with(s: &State, of: Seq) -> Option<Envelope> {
    let Rejection { answer, feedback, by } = s.last_reply()?.rejection.as_deref()?;
    let closed = Permission::RejectedWith {
        reply: Answer::Reject,
        feedback: Some(feedback.clone()),
        by: by.clone(),
        with: *answer,
    };
    Some(intent(s, Some(of), None, closed))
}

/// Whether the last allowed step of the turn has been requested: calls of its reply are not run.
fn is_out_of_steps(s: &State, turn: &Turn) -> bool {
    turn.step > 0 && turn.step >= s.config.options.max_steps
}

/// Whether the question of `c` can be asked now. An agent that takes over brings its own rules. So
/// all other calls of the reply come first, except later calls that would also switch the agent.
fn may_ask(s: &State, turn: &Turn, c: &Call) -> bool {
    let mut others = s.calls().filter(|call| call.seq != c.seq);
    let after = |call: &Call| call.seq > c.seq && call.switches_to().is_some();
    c.switches_to().is_none()
        || !turn.is_writing() && others.all(|call| call.is_done() || after(call))
}

/// The next call that a batch is to create; `None` if `c` is not a batch or has created all.
fn next_part(s: &State, c: &Call) -> Option<CallSpec> {
    let CallKind::Batch { calls } = c.kind() else { return None };
    let known = s.parts_of(c).count();
    let BatchCall { name, input } = calls.get(known)?.clone();
    Some(CallSpec { id: format!("{}_{}", c.id, known + 1), name, input })
}

fn rule(s: &State, c: &Call) -> Envelope {
    let (action, rule) =
        if s.is_nested_too_deeply(c) { (Action::Deny, None) } else { plugins::verdict(s, c) };
    about(s, c, None, Permission::Ruled { call: c.id.clone(), action, rule })
}

/// The question about the first access from `from` on that still needs one.
fn question(s: &State, c: &Call, from: usize) -> Option<Envelope> {
    let rules = s.rules_in_force();
    let verdicts = c.access().iter().skip(from);
    let verdicts = verdicts.map(|access| (access, rules.verdict_on_access(access, c.access())));
    let (access, (action, rule)) =
        verdicts.into_iter().find(|(_, (action, _))| *action != Action::Allow)?;
    if action == Action::Deny {
        // the rules have changed since the verdict on the call
        return Some(about(s, c, None, Permission::Ruled { call: c.id.clone(), action, rule }));
    }
    if s.last_reply().is_some_and(|reply| reply.rejection.is_some()) {
        let (action, rule) = (Action::Deny, None);
        return Some(about(s, c, None, Permission::Ruled { call: c.id.clone(), action, rule }));
    }
    let asked = Permission::Asked {
        call: c.id.clone(),
        permission: access.permission.clone(),
        patterns: access.patterns.clone(),
        always: access.always.clone(),
    };
    Some(about(s, c, Some(s.config.options.ask_for), asked))
}

fn run(s: &State, c: &Call) -> Option<Envelope> {
    let start = || files::before(s, c).or_else(|| may_start(s, c).then(|| start(s, c, 1)));
    plugins::variables(s, c, start)
}

/// Whether the call may start. Eight calls run at a time. A call that writes a path waits for
/// earlier calls that write it or may write it. Children wait until their shares of the cost limit
/// are known.
fn may_start(s: &State, c: &Call) -> bool {
    let writes = |call: &Call| call.class() == Class::Write;
    let blocks = |earlier: &Call| match &earlier.resolved {
        None => true,
        Some(theirs) => {
            let ours = c.resolved.iter().flat_map(|mine| &mine.paths);
            writes(earlier) && ours.into_iter().any(|path| theirs.paths.contains(path))
        }
    };
    let mut earlier = s.calls().take_while(|call| call.seq < c.seq);
    !files::awaited(s, c)
        && s.calls().filter(|call| call.is_running()).count() < AT_ONCE
        && (!writes(c) || !earlier.any(|call| !call.is_done() && blocks(call)))
        && (c.class() != Class::Child || limits::knows_shares(s))
}

fn start(s: &State, c: &Call, attempt: u32) -> Envelope {
    let (name, timeout) = c
        .resolved
        .as_ref()
        .map_or((c.name.clone(), 0), |resolved| (resolved.name.clone(), resolved.timeout));
    let (call, class) = (c.id.clone(), c.class());
    let started = match sandbox_of(s, c) {
        Some(sandbox) => {
            let started = StartedSandboxed { call, name, class, attempt, sandbox };
            Tool::StartedSandboxed(Box::new(started))
        }
        None => Tool::Started { call, name, class, attempt },
    };
    about(s, c, Some(timeout), started)
}

fn sandbox_of(s: &State, c: &Call) -> Option<Profile> {
    let worktree = s.origin.as_ref().map_or("", |origin| origin.worktree.as_str());
    sandbox::profile(&s.config.options, worktree, c.resolved.as_deref()?)
}

/// The session that a call runs in: the session of an earlier call, or a new one. The new session
/// is a fork if the earlier call belongs to another session.
fn spawn(s: &State, c: &Call) -> Option<Envelope> {
    let resolved = c.resolved.as_ref().filter(|_| s.child_of(c).is_none())?;
    let input = resolved.input.value();
    let text = |key: &str| input[key].as_str();
    let is_free = |session: &SessionId| {
        let known = s.children.iter().filter(|child| child.session == *session);
        known.clone().next().is_some() && known.clone().all(|child| child.ended)
    };
    let left = s.task_of(c).filter(is_free);
    let session = left.unwrap_or_else(|| s.session.child(s.seq + 1, s.at));
    // logs of earlier versions have the second name
    let agent = text("subagent_type").or_else(|| text("subagentType"));
    let agent = agent.unwrap_or_default().to_owned();
    let wait = resolved.timeout.saturating_add(CHILD_END_TIMEOUT);
    let (call, max_cost) = (c.id.clone(), limits::share(s));
    Some(about(s, c, Some(wait), Subagent::Spawned { call, session, agent, max_cost }))
}

fn cancelled(s: &State, c: &Call, attempt: u32) -> Envelope {
    about(s, c, None, Tool::Cancelled { call: c.id.clone(), attempt })
}

fn failed(s: &State, turn: &Turn, failure: &Failure) -> Envelope {
    if failure.class == FailureClass::Overflow {
        return compaction::make_room(s, turn, &failure.message);
    }
    if failure.class == FailureClass::OutputLength {
        return end(s, turn, EndReason::Incomplete, Some(failure.message.clone()));
    }
    if !retry::is_worth(s, failure, turn.attempt) {
        let error = retry::error(s, failure, turn.attempt);
        return end(s, turn, EndReason::Error, Some(error));
    }
    retry_scheduled(s, turn.attempt, failure.retry_after, &failure.message)
}

fn retry_scheduled(s: &State, attempt: u32, hint: Option<u64>, error: &str) -> Envelope {
    let wait = retry::backoff(attempt, hint, s.session, s.seq + 1);
    let event = Model::RetryScheduled { attempt, error: error.to_owned() };
    intent(s, None, Some(wait), event)
}

fn ask(s: &State, step: u32, attempt: u32) -> Envelope {
    if let Some(asked) = plugins::request(s) {
        return asked;
    }
    let asked = (s.config.model.name(), request_builder::request_sha256(s));
    ask_with(s, asked, (step, attempt), Purpose::Turn)
}

fn ask_with(
    s: &State,
    (model, request_sha256): (ModelRef, Sha256),
    (step, attempt): (u32, u32),
    purpose: Purpose,
) -> Envelope {
    let requested = Model::Requested { model, step, attempt, purpose, request_sha256 };
    intent(s, None, Some(s.config.options.timeout), requested)
}

fn end(s: &State, turn: &Turn, reason: EndReason, error: Option<String>) -> Envelope {
    if let Some(pruned) = compaction::prune(s) {
        return pruned;
    }
    let mut text = s.answer();
    if let (EndReason::Completed, Some(answer)) = (reason, s.structured_output()) {
        answer.as_str().clone_into(&mut text);
    } else if s.policy >= TRIMS {
        text.truncate(text.trim_end().len());
    }
    let ended = Ended {
        reason,
        text,
        usage: turn.usage,
        cost: turn.cost,
        steps: turn.step,
        permission_denials: turn.denials.clone(),
        error,
    };
    intent(s, None, None, TurnEvent::Ended(Box::new(ended)))
}

/// An intent about a call.
fn about(s: &State, c: &Call, wait: Option<u64>, event: impl Into<Event>) -> Envelope {
    intent(s, Some(c.seq), wait, event)
}

fn intent(s: &State, of: Option<Seq>, wait: Option<u64>, event: impl Into<Event>) -> Envelope {
    Envelope {
        session: s.session,
        seq: s.seq + 1,
        at: s.at,
        of,
        until: wait.map(|millis| s.at.plus(millis)),
        event: event.into(),
        notes: Notes::default(),
    }
}
