//! A session driven by hand: steps name calls by the model's id, and the harness finds the
//! intent that each outcome answers.

#![allow(dead_code, reason = "each test file uses its own part")]
#![allow(clippy::expect_used, clippy::panic, reason = "a harness fails by panicking")]

mod checks;
mod facts;
mod kept;
mod planning;
mod plugging;

pub(crate) use checks::*;
pub(crate) use facts::*;
pub(crate) use kept::*;
pub(crate) use planning::*;
#[allow(unused_imports, reason = "likewise")]
pub(crate) use plugging::*;

use leftfold_events::event::{
    Answer, BatchCall, CallKind, CallSpec, Class, Compaction, EndReason, FailureClass, Finish,
    HookOutcome, Model, PartKind, Permission, PromptKind, PromptPart, Session, Tool, Turn,
};
use leftfold_events::rules::{self, Action, Rule};
use leftfold_events::state::PendingKind;
use leftfold_events::turn_config::{AskMode, Limit, ModelSpec, Options};
use leftfold_events::{
    Envelope, Fact, Json, POLICY, Seq, SessionId, State, Time, TurnConfig, settle,
};

pub(crate) const START: u64 = 1_700_000_000_000;

#[derive(Clone, Debug)]
pub(crate) enum Step {
    Prompt(&'static str),
    /// A prompt with a subtask for another agent.
    Subtask(&'static str),
    /// A prompt with the output of this command line in its text.
    Command(&'static str),
    Text(&'static str),
    /// Reasoning with or without a signature.
    Think(Option<&'static str>),
    Call(&'static str, &'static str),
    Reply(Finish),
    /// A reply that has filled the context with this many tokens.
    Full(u64),
    Fail(FailureClass, bool),
    /// The resolution of a call: class, permission and pattern, path.
    Resolve(&'static str, Class, (&'static str, &'static str), &'static str),
    Unresolved(&'static str),
    /// A call that a child performs.
    Task(&'static str),
    /// A call after which `build` takes over.
    Exit(&'static str),
    /// The turn configuration of this agent comes into force.
    Equip(&'static str),
    /// The child of the call has ended.
    ChildEnds(&'static str),
    /// A batch with this many calls of `read`.
    Batch(&'static str, usize),
    Progress(&'static str, &'static str),
    Done(&'static str, &'static str),
    Answer(&'static str, Answer, Option<&'static str>),
    /// Time advances to the first deadline.
    Elapse,
    Interrupt,
    Resume {
        close: bool,
    },
    /// A node continues the log, which is imported so far.
    ResumeImported {
        close: bool,
    },
    Summary(&'static str),
    NoSummary,
    /// The reply with the summary ends in this way, before its end.
    CutSummary(Finish),
    /// A person wants a summary.
    Compact,
    Title(&'static str),
    NoTitle,
    /// A model has summed up the session.
    About(&'static str),
    /// A snapshot is taken, with this tree; calls have changed these files.
    Snap(&'static str, &'static [&'static str]),
    NoSnap,
    /// A person wants to revert to this event, or to undo that.
    Revert(Seq),
    Unrevert,
    /// A person wants these files as a tree has them.
    Checkout(&'static [(&'static str, &'static str)]),
    /// The files are restored, and have this tree now.
    Restored(&'static str),
    NotRestored,
    /// A plugin answers this, or fails to answer.
    Hear(&'static str),
    NotHeard(HookOutcome),
}

pub(crate) use Step::*;

/// [`turn configuration`] with titles.
pub(crate) fn titled() -> TurnConfig {
    let mut config = config();
    config.options.title_prompt = "Name it.".into();
    config
}

pub(crate) fn config() -> TurnConfig {
    let mut rules = rules::defaults();
    rules.push(Rule::new("ask", "*", Action::Ask));
    rules.push(Rule::new("never", "*", Action::Deny));
    TurnConfig {
        system: vec!["system".into()],
        rules,
        model: ModelSpec {
            provider: "p".into(),
            id: "m".into(),
            limit: Limit { context: 10_000, input: 0, output: 1_000 },
            ..ModelSpec::default()
        },
        options: Options {
            retries: 2,
            max_steps: 20,
            ask: AskMode::Ask,
            summary_prompt: "Summarise.".into(),
            ..Options::default()
        },
        prompt: "default".into(),
        ..TurnConfig::default()
    }
}

pub(crate) struct Run {
    pub(crate) state: State,
    pub(crate) log: Vec<Envelope>,
    pub(crate) now: u64,
}

impl Run {
    pub(crate) fn new(config: &TurnConfig) -> Self {
        Self::under(config, POLICY)
    }

    /// A session of the version with this policy.
    pub(crate) fn under(config: &TurnConfig, policy: u16) -> Self {
        let mut run = Self { state: State::default(), log: Vec::new(), now: START };
        run.tell(Fact::new(Session::Created {
            directory: "/p".into(),
            worktree: "/p".into(),
            parent: None,
            agent: "build".into(),
            version: "0".into(),
            policy,
        }));
        run.tell(Fact::new(Turn::Configured(config.payloads())));
        run
    }

    /// A session that was folded from a log, as a new node finds it.
    pub(crate) fn folded(log: &[Envelope]) -> Self {
        let now = log.last().map_or(START, |event| event.at.millis());
        Self { state: leftfold_events::fold(log), log: log.to_vec(), now }
    }

    pub(crate) fn session() -> SessionId {
        SessionId::default().child(1, Time::from_millis(START))
    }

    /// Settles a fact if it is admitted, and returns the intents that follow.
    pub(crate) fn tell(&mut self, fact: Fact) -> Vec<Envelope> {
        if !leftfold_events::admits(&self.state, &fact) {
            return Vec::new();
        }
        self.now += 10;
        // a folded session continues as itself
        let known = self.log.last().map(|event| event.session);
        let session = known.unwrap_or_else(Self::session);
        let batch = settle(&mut self.state, session, fact, Time::from_millis(self.now));
        self.log.extend(batch.clone());
        batch
    }

    fn open(&self, wanted: PendingKind) -> Option<Seq> {
        self.state.open().iter().find(|(kind, _)| *kind == wanted).map(|(_, wait)| wait.intent)
    }

    /// The waiting intent about the call with this id.
    pub(crate) fn waiting(&self, id: &str) -> Option<Seq> {
        use leftfold_events::state::Phase;
        self.state.calls().filter(|call| call.id == id).find_map(|call| match &call.phase {
            Phase::Checking(wait) | Phase::Asking { wait, .. } | Phase::Running { wait, .. } => {
                Some(wait.intent)
            }
            _ => None,
        })
    }

    fn to_request(&self, event: impl Into<leftfold_events::Event>) -> Fact {
        Fact::for_intent(self.open(PendingKind::Request).unwrap_or(0), event)
    }

    pub(crate) fn fact(&mut self, step: &Step) -> Fact {
        match step {
            Prompt(text) => prompted(vec![PromptPart::text(*text)]),
            Subtask(task) => {
                let name = Some("general".into());
                let kind = PromptKind::Task;
                let task = PromptPart { kind, name, ..PromptPart::text(*task) };
                prompted(vec![PromptPart::text("/do it"), task])
            }
            Command(line) => {
                let command = PromptPart { kind: PromptKind::Command, ..PromptPart::text(*line) };
                let [before, after] = ["It says <", ">."].map(PromptPart::text);
                prompted(vec![before, command, after])
            }
            Text(text) => self.to_request(streamed(PartKind::Text, text, None)),
            Think(signature) => self.to_request(streamed(PartKind::Reasoning, "hm", *signature)),
            Call(id, name) => {
                let call =
                    CallSpec { id: (*id).into(), name: (*name).into(), input: Json::object() };
                self.to_request(Tool::Called { call })
            }
            Reply(finish) => self.to_request(replied(*finish, 10)),
            Full(tokens) => self.to_request(replied(Finish::Stop, *tokens)),
            Fail(class, retryable) => self.to_request(Model::Failed {
                class: *class,
                message: "it failed".into(),
                status: None,
                retryable: *retryable,
                retry_after: None,
            }),
            Resolve(id, class, access, path) => {
                let resolution = resolution(id, *class, *access, path);
                Fact::for_intent(
                    self.waiting(id).unwrap_or(0),
                    Tool::Resolved(Box::new(resolution)),
                )
            }
            Batch(id, _) | Task(id) | Exit(id) | ChildEnds(id) => self.special(step, id),
            Equip(agent) => Fact::new(Turn::Configured(config_of(agent).payloads())),
            Unresolved(id) => {
                let mut resolution = resolution(id, Class::Read, ("read", "x"), "");
                resolution.error = Some("bad arguments".into());
                Fact::for_intent(
                    self.waiting(id).unwrap_or(0),
                    Tool::Resolved(Box::new(resolution)),
                )
            }
            Progress(id, tail) => Fact::for_intent(
                self.waiting(id).unwrap_or(0),
                Tool::Progressed { tail: (*tail).into() },
            ),
            Done(id, output) => Fact::for_intent(
                self.waiting(id).unwrap_or(0),
                Tool::Finished(Box::new(finished(id, output))),
            ),
            Answer(id, reply, feedback) => Fact::for_intent(
                self.waiting(id).unwrap_or(0),
                Permission::Answered {
                    reply: *reply,
                    feedback: feedback.map(Into::into),
                    by: "somebody".into(),
                },
            ),
            Elapse => {
                let due = self.state.due().unwrap_or_default();
                self.now = self.now.max(due.millis());
                let first = self.state.overdue(due).first().copied();
                Fact::for_intent(first.unwrap_or(0), Session::DeadlinePassed {})
            }
            Compact => Fact::new(Compaction::Asked { by: "test".into() }),
            Interrupt => Fact::new(Turn::Interrupted { by: "test".into() }),
            Resume { close } => Fact::new(Session::Resumed { policy: POLICY, close: *close }),
            ResumeImported { close } => Fact::new(Session::ResumedImported {
                policy: POLICY,
                close: *close,
                imported: self.state.seq,
            }),
            Summary(_) | NoSummary | CutSummary(_) | Title(_) | NoTitle | About(_) => {
                self.written(step)
            }
            Hear(_) | NotHeard(_) => self.said(step),
            Snap(..) | NoSnap | Revert(_) | Unrevert | Checkout(_) | Restored(_) | NotRestored => {
                self.kept(step)
            }
        }
    }

    fn batch(&self, id: &str, count: usize) -> Fact {
        let mut resolution = resolution(id, Class::Read, ("read", "x"), "");
        let call = BatchCall { name: "read".into(), input: Json::object() };
        resolution.name = "batch".into();
        resolution.access.clear();
        resolution.kind = CallKind::Batch { calls: vec![call; count] };
        Fact::for_intent(self.waiting(id).unwrap_or(0), Tool::Resolved(Box::new(resolution)))
    }

    /// Calls of a special kind.
    fn special(&self, step: &Step, id: &str) -> Fact {
        if let Batch(_, count) = step {
            return self.batch(id, *count);
        }
        if let Task(_) = step {
            let mut resolution = resolution(id, Class::Child, ("task", "general"), "");
            resolution.input =
                Json::parse(r#"{"prompt":"look","subagentType":"general"}"#).expect("JSON");
            return Fact::for_intent(
                self.waiting(id).unwrap_or(0),
                Tool::Resolved(Box::new(resolution)),
            );
        }
        if let Exit(_) = step {
            return Fact::for_intent(
                self.waiting(id).unwrap_or(0),
                Tool::Resolved(Box::new(exit(id))),
            );
        }
        let call = self.state.calls().find(|call| call.id == id).map_or(0, |call| call.seq);
        let child = self.state.open_children().find(|child| child.call == call);
        let (of, session) = child.map_or((0, Self::session()), |c| (c.wait.intent, c.session));
        let (answer, reason) = ("found it".to_owned(), EndReason::Completed);
        Fact::for_intent(of, child_ended(session, answer, reason, 0.0))
    }

    /// The outcomes of a summary or a title.
    fn written(&mut self, step: &Step) -> Fact {
        match step {
            Summary(text) => {
                let replied = self.to_request(replied(Finish::Stop, 10));
                self.tell(replied);
                let of = self.open(PendingKind::Compaction).unwrap_or(0);
                Fact::for_intent(of, Compaction::Finished { summary: (*text).into() })
            }
            CutSummary(finish) => self.to_request(replied(*finish, 10)),
            Title(title) => {
                let of = self.open(PendingKind::Title).unwrap_or(0);
                self.tell(Fact::for_intent(of, Session::Titled { title: (*title).into() }));
                Fact::for_intent(of, replied(Finish::Stop, 10))
            }
            About(summary) => {
                let of = self.open(PendingKind::Title).unwrap_or(0);
                self.tell(Fact::for_intent(of, Session::Summarised { summary: (*summary).into() }));
                Fact::for_intent(of, replied(Finish::Stop, 10))
            }
            NoTitle => {
                Fact::for_intent(self.open(PendingKind::Title).unwrap_or(0), failed_for_good())
            }
            NoSummary => {
                let of = self.open(PendingKind::Compaction).unwrap_or(0);
                Fact::for_intent(of, Compaction::Failed { message: "no summary".into() })
            }
            _ => panic!("{step:?} is nothing that is written beside the reply"),
        }
    }

    pub(crate) fn step(&mut self, step: &Step) -> Vec<Envelope> {
        let fact = self.fact(step);
        self.tell(fact)
    }

    /// Brings an open turn to its end with a model that only answers and tools that only succeed.
    pub(crate) fn finish(&mut self) {
        for _ in 0..200 {
            if self.state.turn.is_none() && self.state.files.restore.is_none() {
                return;
            }
            let open = self.state.open();
            let (kind, wait) = open.first().copied().expect("a turn that is not over waits");
            let call = self.state.calls().find(|c| self.waiting(&c.id) == Some(wait.intent));
            let id = call.map(|call| call.id.clone()).unwrap_or_default();
            let of = wait.intent;
            let fact = match kind {
                PendingKind::Request | PendingKind::Title => {
                    Fact::for_intent(of, replied(Finish::Stop, 10))
                }
                PendingKind::Retry => {
                    self.now = wait.until.millis();
                    Fact::for_intent(of, Session::DeadlinePassed {})
                }
                PendingKind::Check => Fact::for_intent(
                    of,
                    Tool::Resolved(Box::new(resolution(&id, Class::Read, ("read", "x"), "/p/x"))),
                ),
                PendingKind::Question => Fact::for_intent(
                    of,
                    Permission::Answered { reply: Answer::Once, feedback: None, by: "t".into() },
                ),
                PendingKind::Tool => {
                    Fact::for_intent(of, Tool::Finished(Box::new(finished(&id, "ok"))))
                }
                PendingKind::Child => {
                    let (answer, reason) = ("ok".to_owned(), EndReason::Completed);
                    Fact::for_intent(of, child_ended(Self::session(), answer, reason, 0.0))
                }
                PendingKind::Snapshot => Fact::for_intent(of, snapshotted("late", &["x"])),
                PendingKind::Restore => Fact::for_intent(of, restored("late")),
                PendingKind::Hook => self.said(&Hear("{}")),
                PendingKind::Compaction => {
                    Fact::for_intent(of, Compaction::Finished { summary: "s".into() })
                }
            };
            assert!(!self.tell(fact).is_empty(), "an outcome of an open intent is admitted");
        }
        panic!("the turn does not end");
    }
}
