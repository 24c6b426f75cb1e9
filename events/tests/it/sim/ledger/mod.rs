//! Rules for logs, checked from the log alone: a second opinion on the core's decisions and
//! admissions, which shares no code with it.

mod asking;
mod beside;

use std::collections::{BTreeMap, BTreeSet};

use leftfold_events::event::{
    Class, Compaction, Event, Model, Purpose, Resolution, Session, Subagent, Todo, Tool, Turn,
};
use leftfold_events::rules::Action;
use leftfold_events::{Envelope, Seq, SessionId, Time};

pub(crate) type Held = Result<(), String>;

/// An upper limit of waits: a day, in milliseconds.
const LONGEST: u64 = 86_400_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wait {
    Request,
    /// A request for the session's title.
    Title,
    /// A request for the session's summary.
    Summary,
    Retry,
    Check(Seq),
    Question(Seq),
    /// A question of this call's run.
    Elicitation(Seq),
    Run(Seq),
    Compaction,
    Child,
    Snapshot,
    Restore,
    /// An answer of a plugin; about a question of this call.
    Hook(Option<Seq>),
}

#[derive(Default)]
struct Call {
    class: Option<Class>,
    /// Whether another agent takes over after it, so that its question is a yes-or-no question.
    switches: bool,
    ruled: Option<Action>,
    answered: bool,
    /// The open questions of its run.
    elicitations: Vec<u32>,
    /// All of the run so far.
    elicited: BTreeSet<u32>,
    /// Attempts.
    started: u32,
    /// Whether a node has died since its last event.
    orphaned: bool,
    ended: bool,
}

#[derive(Default)]
pub(crate) struct Ledger {
    session: Option<SessionId>,
    seq: Seq,
    at: Time,
    /// The prompt or request for a summary that began the current turn.
    turn: Option<Seq>,
    waits: BTreeMap<Seq, (Wait, Time)>,
    calls: BTreeMap<Seq, Call>,
    /// The last turn configuration: other rules may allow a call that needed a question.
    configured: Seq,
    /// Whether the session has a summary.
    summarised: bool,
    /// Whether a person has answered "always": questions may then close without an answer of their
    /// own.
    always: bool,
}

fn held(so: bool, otherwise: &str) -> Held {
    if so { Ok(()) } else { Err(otherwise.to_owned()) }
}

impl Ledger {
    pub(crate) fn from_log(log: &[Envelope]) -> Result<Self, String> {
        let mut ledger = Self::default();
        log.iter().try_for_each(|event| ledger.see(event))?;
        Ok(ledger)
    }

    /// Whether the call whose `tool.called` or `tool.batched` is `seq` has ended.
    pub(crate) fn has_ended(&self, seq: Seq) -> bool {
        self.calls.get(&seq).is_some_and(|call| call.ended)
    }

    pub(crate) fn awaits(&self, intent: Seq) -> bool {
        self.waits.contains_key(&intent)
    }

    /// Checks the end of the log.
    pub(crate) fn finish(&self) -> Held {
        held(self.turn.is_none(), "a turn that never ends")?;
        held(self.calls.values().all(|call| call.ended), "a call that never ends")
    }

    pub(crate) fn see(&mut self, e: &Envelope) -> Held {
        held(e.seq == self.seq + 1, "a gap in the log")?;
        held(e.at >= self.at, "time goes backwards")?;
        held(self.session.is_none_or(|session| session == e.session), "another session's event")?;
        held(e.of.is_none_or(|of| of < e.seq), "an answer before its question")?;
        (self.session, self.seq, self.at) = (Some(e.session), e.seq, e.at);
        match &e.event {
            Event::Session(event) => self.session(e, event),
            Event::Turn(event) => self.turn(e, event),
            Event::Model(event) => self.model(e, event),
            Event::Tool(event) => self.tool(e, event),
            Event::Permission(event) => self.permission(e, event),
            Event::Compaction(event) => self.compaction(e, event),
            Event::Subagent(event) => match event {
                Subagent::Spawned { .. } => self.wait(e, Wait::Child),
                Subagent::Ended { .. } | Subagent::EndedUncounted { .. } => {
                    self.outcome(e, |wait| wait == Wait::Child).map(drop)
                }
            },
            Event::Todo(Todo::Updated { .. }) => self.running(e),
            Event::Files(event) => self.files(e, event),
            Event::Hook(event) => self.plugin(e, event),
        }
    }

    /// A waiting intent has a deadline that is not too far away.
    fn wait(&mut self, e: &Envelope, wait: Wait) -> Held {
        let until = e.until.ok_or("it waits without a deadline")?;
        held(until.since(e.at) <= LONGEST, "it waits for ever")?;
        let twice = |other: &(Wait, Time)| matches!(wait, Wait::Request) && other.0 == wait;
        held(!self.waits.values().any(twice), "two requests at once")?;
        held(self.turn.is_some() || matches!(wait, Wait::Snapshot | Wait::Restore), "no turn")?;
        self.waits.insert(e.seq, (wait, until));
        Ok(())
    }

    fn find(&self, e: &Envelope, fits: impl Fn(Wait) -> bool) -> Result<(Seq, Wait), String> {
        let of = e.of.ok_or("an outcome of nothing")?;
        let (wait, _) = self.waits.get(&of).ok_or("nobody waits for this outcome")?;
        held(fits(*wait), "an outcome of another kind than what is awaited")?;
        Ok((of, *wait))
    }

    fn outcome(&mut self, e: &Envelope, fits: impl Fn(Wait) -> bool) -> Result<Wait, String> {
        let (of, wait) = self.find(e, fits)?;
        self.waits.remove(&of);
        Ok(wait)
    }

    /// A piece of a reply extends its deadline by the time that the current turn configuration
    /// allows.
    fn moved_on(&mut self, at: Time) {
        for (wait, until) in self.waits.values_mut() {
            if matches!(wait, Wait::Request | Wait::Compaction) {
                *until = at.min(*until);
            }
        }
    }

    fn running(&self, e: &Envelope) -> Held {
        self.find(e, |wait| matches!(wait, Wait::Run(_))).map(drop)
    }

    /// The call of an intent, which leaves its earlier wait.
    fn about(&mut self, e: &Envelope) -> Result<&mut Call, String> {
        let of = e.of.ok_or("about no call")?;
        let other = |wait: Wait| match wait {
            Wait::Check(call)
            | Wait::Question(call)
            | Wait::Elicitation(call)
            | Wait::Run(call) => call != of,
            Wait::Request
            | Wait::Title
            | Wait::Summary
            | Wait::Retry
            | Wait::Compaction
            | Wait::Child
            | Wait::Snapshot
            | Wait::Restore
            | Wait::Hook(_) => true,
        };
        self.waits.retain(|_, (wait, _)| other(*wait));
        let call = self.calls.get_mut(&of).ok_or("about a call that nobody made")?;
        held(!call.ended, "about a call that has ended")?;
        Ok(call)
    }

    fn end(&mut self, seq: Seq) -> Held {
        self.waits.retain(|_, (wait, _)| *wait != Wait::Elicitation(seq));
        let call = self.calls.get_mut(&seq).ok_or("the end of a call that nobody made")?;
        held(!std::mem::replace(&mut call.ended, true), "a second end of a call")
    }

    fn session(&mut self, e: &Envelope, event: &Session) -> Held {
        match event {
            Session::Created { .. } | Session::Forked { .. } => held(e.seq == 1, "born twice"),
            Session::Adopted { .. } => held(false, "nothing is forked here"),
            Session::Imported { .. } => held(false, "nothing is imported here"),
            Session::Configured { .. } | Session::RulesSet { .. } | Session::Archived { .. } => {
                Ok(())
            }
            Session::Titled { .. } if e.of.is_none() => Ok(()),
            Session::Titled { .. } => self.find(e, |wait| wait == Wait::Title).map(drop),
            Session::Summarised { .. } => {
                self.summarised = true;
                self.find(e, |wait| wait == Wait::Summary).map(drop)
            }
            Session::Resumed { close, .. } => {
                self.orphan(*close);
                Ok(())
            }
            Session::ResumedImported { .. } => held(false, "nothing is imported here"),
            Session::DeadlinePassed {} if e.of.is_some() && e.of == self.turn => Ok(()),
            Session::DeadlinePassed {} => {
                let until = e.of.and_then(|of| self.waits.get(&of)).map(|(_, until)| *until);
                held(until.is_some_and(|until| until <= e.at), "a deadline before its time")?;
                // a summary may be requested again, with a wait of its own
                let (of, wait) = self.find(e, |_| true)?;
                if wait == Wait::Compaction {
                    self.waits.retain(|_, (wait, _)| *wait != Wait::Request);
                } else {
                    self.waits.remove(&of);
                }
                match wait {
                    Wait::Check(call) | Wait::Question(call) => self.end(call),
                    Wait::Hook(Some(call)) if of < self.configured => self.answer(call),
                    Wait::Request
                    | Wait::Title
                    | Wait::Summary
                    | Wait::Retry
                    | Wait::Run(_)
                    | Wait::Elicitation(_)
                    | Wait::Compaction
                    | Wait::Child
                    | Wait::Snapshot
                    | Wait::Restore
                    | Wait::Hook(_) => Ok(()),
                }
            }
        }
    }

    /// A node has died, and with it the work in progress.
    fn orphan(&mut self, close: bool) {
        for (of, (wait, _)) in &self.waits {
            // as in `answer`
            if let Wait::Hook(Some(call)) = wait
                && *of < self.configured
                && let Some(call) = self.calls.get_mut(call)
            {
                call.answered = true;
            }
        }
        let calls = &self.calls;
        let child = |call: &Seq| calls.get(call).is_some_and(|c| c.class == Some(Class::Child));
        self.waits.retain(|_, (wait, _)| match wait {
            Wait::Child | Wait::Question(_) => !close,
            Wait::Run(call) => !close && child(call),
            Wait::Retry | Wait::Compaction => true,
            Wait::Request
            | Wait::Title
            | Wait::Summary
            | Wait::Check(_)
            | Wait::Elicitation(_)
            | Wait::Snapshot
            | Wait::Restore
            | Wait::Hook(_) => false,
        });
        self.calls.values_mut().for_each(|call| call.orphaned = true);
    }

    fn turn(&mut self, e: &Envelope, event: &Turn) -> Held {
        match event {
            Turn::Prompted { .. } => {
                self.turn.get_or_insert(e.seq);
                Ok(())
            }
            Turn::Noted { .. } => Ok(()),
            Turn::Configured(_) => {
                self.configured = e.seq;
                Ok(())
            }
            Turn::Interrupted { .. } | Turn::Switched { .. } | Turn::Continued { .. } => {
                held(self.turn.is_some(), "no turn")
            }
            Turn::Ended(_) => {
                held(self.turn.take().is_some(), "the end of no turn")?;
                let child = |(wait, _): &(Wait, Time)| *wait == Wait::Child;
                held(!self.waits.values().any(child), "an end before that of a child")?;
                self.waits.clear();
                held(self.calls.values().all(|call| call.ended), "an end with a call still open")
            }
        }
    }

    fn model(&mut self, e: &Envelope, event: &Model) -> Held {
        match event {
            Model::Requested { purpose: Purpose::Title, .. } => self.wait(e, Wait::Title),
            Model::Requested { purpose: Purpose::SessionSummary, .. } => {
                held(!self.summarised, "a summary of a session that has one")?;
                held(self.calls.values().all(|call| call.ended), "a summary before the answer")?;
                let works = |(wait, _): &(Wait, Time)| {
                    matches!(wait, Wait::Request | Wait::Retry | Wait::Child)
                };
                held(!self.waits.values().any(works), "a summary beside other work")?;
                self.wait(e, Wait::Summary)
            }
            Model::Requested { purpose, .. } => {
                if *purpose == Purpose::Compaction {
                    self.waits_as_long(e.until.unwrap_or(e.at));
                }
                self.wait(e, Wait::Request)
            }
            Model::RetryScheduled { .. } => self.wait(e, Wait::Retry),
            Model::Streamed { .. } => {
                self.find(e, |wait| wait == Wait::Request)?;
                self.moved_on(e.at);
                Ok(())
            }
            Model::Finished { .. } | Model::Failed { .. } => {
                let reply = |wait| matches!(wait, Wait::Request | Wait::Title | Wait::Summary);
                self.outcome(e, reply).map(drop)
            }
        }
    }

    fn tool(&mut self, e: &Envelope, event: &Tool) -> Held {
        let of = e.of.unwrap_or_default();
        match event {
            Tool::Called { .. } => {
                self.find(e, |wait| wait == Wait::Request)?;
                self.moved_on(e.at);
                self.calls.insert(e.seq, Call::default());
                Ok(())
            }
            Tool::InputStreamed { .. } => {
                self.find(e, |wait| wait == Wait::Request)?;
                self.moved_on(e.at);
                Ok(())
            }
            Tool::ResolveStarted { .. } => {
                self.about(e)?;
                self.wait(e, Wait::Check(of))
            }
            Tool::Resolved(resolution) => self.resolved(e, resolution),
            Tool::Started { attempt, class, .. } => {
                self.started(e, *attempt, *class)?;
                self.wait(e, Wait::Run(of))
            }
            Tool::StartedSandboxed(started) => {
                self.started(e, started.attempt, started.class)?;
                self.wait(e, Wait::Run(of))
            }
            Tool::Progressed { .. } => self.running(e),
            Tool::Finished(_) => match self.outcome(e, |wait| matches!(wait, Wait::Run(_)))? {
                Wait::Run(call) => self.end(call),
                _ => Ok(()),
            },
            Tool::Lost { attempt, .. } => {
                let call = self.about(e)?;
                held(call.orphaned, "lost, and no node has died")?;
                held(call.started == *attempt, "lost in an attempt that was none")?;
                self.end(of)
            }
            Tool::Cancelled { .. } => {
                self.about(e)?;
                self.end(of)
            }
            Tool::Batched { .. } => {
                self.calls.insert(e.seq, Call::default());
                Ok(())
            }
            Tool::ElicitationRequested { .. } | Tool::ElicitationAnswered { .. } => {
                self.elicitation(e, event)
            }
        }
    }

    fn resolved(&mut self, e: &Envelope, resolution: &Resolution) -> Held {
        let Wait::Check(seq) = self.outcome(e, |wait| matches!(wait, Wait::Check(_)))? else {
            return Ok(());
        };
        let call = self.calls.get_mut(&seq).ok_or("the check of no call")?;
        call.class = Some(resolution.class);
        call.switches = ["plan_enter", "plan_exit"].contains(&resolution.name.as_str());
        if resolution.error.is_some() { self.end(seq) } else { Ok(()) }
    }

    /// One start for each attempt; a second attempt only after a crash, and only of calls without
    /// side effects.
    fn started(&mut self, e: &Envelope, attempt: u32, class: Class) -> Held {
        let always = self.always;
        let call = self.about(e)?;
        held(call.class == Some(class), "started as what it is not")?;
        held(attempt == call.started + 1, "an attempt started twice, or one left out")?;
        let again = attempt == 2 && class == Class::Read && call.orphaned;
        held(attempt == 1 || again, "a second attempt of what may have had an effect")?;
        let allowed = match call.ruled {
            Some(Action::Allow) => true,
            Some(Action::Ask) => call.answered || always,
            Some(Action::Deny) | None => false,
        };
        held(allowed, "started, and nobody has allowed it")?;
        (call.started, call.orphaned) = (attempt, false);
        call.elicitations.clear();
        call.elicited.clear();
        Ok(())
    }

    fn compaction(&mut self, e: &Envelope, event: &Compaction) -> Held {
        match event {
            Compaction::Asked { .. } | Compaction::AskedWith { .. } => {
                self.turn.get_or_insert(e.seq);
                Ok(())
            }
            Compaction::Started { .. } => {
                self.waits.retain(|_, (wait, _)| *wait != Wait::Compaction);
                self.wait(e, Wait::Compaction)
            }
            Compaction::Finished { .. } | Compaction::Failed { .. } => {
                self.outcome(e, |wait| wait == Wait::Compaction)?;
                // the outcome of the summary also settles its request
                self.waits.retain(|_, (wait, _)| *wait != Wait::Request);
                Ok(())
            }
            Compaction::Pruned { .. } => held(self.turn.is_some(), "no turn"),
        }
    }
}
