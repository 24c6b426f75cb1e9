//! People and accidents: prompts, interrupts, answers, crashes and clocks, at random times.

use leftfold_events::event::{
    Answer, Compaction, Files, ModelRef, Permission, PromptKind, PromptPart, Session,
    SessionChoices, Turn,
};
use leftfold_events::rules::{Action, Rule};
use leftfold_events::state::PendingKind;
use leftfold_events::turn_config::AskMode;
use leftfold_events::{Fact, Notes, Seq, TurnConfig};

use super::ledger::Held;
use super::random::Random;
use super::session::Item;
use super::world::{Delivery, World};
use crate::common::config_of;

#[derive(Clone, Debug)]
pub(crate) enum Deed {
    Prompt,
    Interrupt,
    Compact,
    Revert,
    Unrevert,
    Title,
    /// A choice of agent or variant, or its removal.
    Configure,
    /// A message that starts no turn, or the id of an earlier one.
    Note,
    /// The session's own rules, or none.
    SetRules,
    Crash,
    /// A new node takes over: a person resumes the turn, or prompts.
    Restart,
    /// The system's clock is set this many milliseconds ahead or back.
    SetClock(i64),
}

/// An hour, in milliseconds.
const HOUR: i64 = 3_600_000;

/// A session's turn configuration, with limits small enough to be reached.
pub(crate) fn config(random: &mut Random) -> TurnConfig {
    let mut config = config_of(random.choose(&["build", "build", "plan"]));
    let options = &mut config.options;
    options.timeout = random.choose(&[5_000, 20_000]);
    options.retries = random.choose(&[0, 1, 2]);
    options.max_steps = random.choose(&[1, 2, 4, 6, 6, u32::MAX]);
    options.max_cost = random.choose(&[None, None, None, Some(1.0), Some(0.0)]);
    options.max_time = random.choose(&[None, None, None, Some(3_000), Some(60_000)]);
    options.ask =
        random.choose(&[AskMode::Ask, AskMode::Ask, AskMode::Ask, AskMode::Deny, AskMode::Allow]);
    options.ask_for = random.choose(&[2_000, 30_000]);
    options.compact = !random.one_in(6);
    options.snapshot = random.one_in(3);
    options.plugins = super::plugs::plugins(random);
    if random.one_in(3) {
        options.title_prompt = "Name it.".into();
    }
    if random.one_in(4) {
        config.model.limit.context = 0;
    }
    if random.one_in(3) {
        config.options.session_summary_prompt = "Sum it up.".into();
    }
    config
}

impl World {
    /// A turn configuration with these limits for another agent.
    pub(crate) fn config_for(&self, agent: &str) -> TurnConfig {
        let mut config = config_of(agent);
        let (plans, reminder) = (config.options.plans, config.options.reminder);
        config.options = self.config.options.clone();
        (config.options.plans, config.options.reminder) = (plans, reminder);
        config.model = self.config.model.clone();
        config
    }

    pub(crate) fn plan(&mut self) {
        self.deed(0, Deed::Prompt);
        let chances = [
            (2, Deed::Prompt, 12_000),
            (4, Deed::Prompt, 40_000),
            (4, Deed::Interrupt, 8_000),
            (7, Deed::Compact, 10_000),
            (12, Deed::Title, 10_000),
            (6, Deed::Configure, 10_000),
            (6, Deed::Configure, 30_000),
            (5, Deed::Note, 20_000),
            (5, Deed::Note, 40_000),
            (5, Deed::SetRules, 20_000),
            (8, Deed::SetRules, 40_000),
            (2, Deed::Crash, 10_000),
            (4, Deed::Crash, 60_000),
            (4, Deed::SetClock(-HOUR), 10_000),
            (8, Deed::SetClock(HOUR), 20_000),
        ];
        for (chance, deed, within) in chances {
            if self.random.one_in(chance) {
                let delay = self.random.below(within);
                self.deed(delay, deed);
            }
        }
        for deed in [Deed::Unrevert, Deed::Prompt, Deed::Revert, Deed::Compact, Deed::Revert] {
            if self.random.one_in(4) {
                self.afterwards.push(deed);
            }
        }
    }

    fn deed(&mut self, delay: u64, deed: Deed) {
        self.at(delay, None, Delivery::Deed(deed));
    }

    /// All participants are at rest: decides whether people do anything more.
    pub(crate) fn go_on(&mut self) -> bool {
        let deed = self.afterwards.pop();
        let any = deed.is_some();
        deed.into_iter().for_each(|deed| self.deed(1_000, deed));
        any
    }

    pub(crate) fn perform(&mut self, deed: &Deed) -> Held {
        match deed {
            Deed::SetClock(ahead) => self.ahead = *ahead,
            Deed::Restart if !self.up => self.restart()?,
            Deed::Restart => {}
            _ if !self.up => {}
            Deed::Crash => return self.crash(),
            Deed::Prompt => self.prompt()?,
            Deed::Interrupt => self.tell(Fact::new(Turn::Interrupted { by: "p".into() })),
            Deed::Compact => self.tell(Fact::new(Compaction::Asked { by: "p".into() })),
            Deed::Title => self.tell(Fact::new(Session::Titled { title: "Mine".into() })),
            Deed::Configure => {
                let agent = self.random.choose(&[None, Some("build"), Some("plan")]);
                let variant = self.random.choose(&[None, Some("high")]);
                let (agent, variant) = (agent.map(str::to_owned), variant.map(str::to_owned));
                let choices = SessionChoices { agent, model: None, variant };
                self.tell(Fact::new(Session::Configured { choices, by: "p".into() }));
            }
            Deed::Note => {
                let (parts, by) = (vec![PromptPart::text("by the way")], "p".into());
                let id =
                    self.random.choose(&[None, Some("first"), Some("second")]).map(str::to_owned);
                let notes = Notes::of_client(id, None).map_err(|why| why.to_string())?;
                self.tell(Fact::new(Turn::Noted { parts, by }).with_notes(notes));
            }
            Deed::SetRules => {
                let action = self.random.choose(&[Action::Deny, Action::Ask, Action::Allow]);
                let rule = Rule::new(self.random.choose(&["*", "bash", "edit"]), "*", action);
                let rules = if self.random.one_in(3) { Vec::new() } else { vec![rule] };
                self.tell(Fact::new(Session::RulesSet { rules, by: "p".into() }));
            }
            Deed::Revert => {
                let to = self.random.below(self.sessions[0].state.seq + 2);
                self.tell(Fact::new(Files::RevertAsked { to, by: "p".into() }));
            }
            Deed::Unrevert => self.tell(Fact::new(Files::UnrevertAsked { by: "p".into() })),
        }
        if self.up { self.write(0) } else { Ok(()) }
    }

    fn tell(&mut self, fact: Fact) {
        self.sessions[0].inbox.push_back(Item::Fact(fact));
    }

    fn prompt(&mut self) -> Held {
        if self.random.one_in(4) {
            self.config = config(&mut self.random);
        }
        let text = self.random.choose(&["go", "and this", " "]);
        let mut parts = vec![PromptPart::text(text)];
        if self.random.one_in(10) {
            let (kind, name) = (PromptKind::Task, Some("general".to_owned()));
            parts.push(PromptPart { kind, name, ..PromptPart::text("look around") });
        }
        if self.random.one_in(10) {
            let line = self.random.choose(&["ls", "never"]);
            parts.push(PromptPart { kind: PromptKind::Command, ..PromptPart::text(line) });
            parts.push(PromptPart::text(" and on"));
        }
        let config = self.config.clone();
        let prompted = prompted(parts, &config);
        if std::mem::take(&mut self.sessions[0].cut_off) {
            // the interrupted turn is ended first
            self.sessions[0].resume(&config, true);
            self.write(0)?;
        }
        self.sessions[0].prompt(&config, prompted);
        Ok(())
    }

    /// The node dies: the batch being written is durable entirely, in part, or not at all.
    fn crash(&mut self) -> Held {
        for sim_session in &mut self.sessions {
            let pending = sim_session.in_flight.as_ref().map_or(0, |batch| batch.events.len());
            let part = self.random.below(pending as u64 + 1) as usize;
            let durable = self.random.choose(&[0, pending, part]);
            sim_session.die(durable)?;
        }
        (self.life, self.up) = (self.life + 1, false);
        let delay = self.random.choose(&[0, 5_000, 100_000]);
        self.deed(delay, Deed::Restart);
        Ok(())
    }

    fn restart(&mut self) -> Held {
        let now = self.now();
        self.sessions.iter_mut().for_each(|sim_session| sim_session.wake(now));
        self.up = true;
        if !self.sessions[0].cut_off || self.random.one_in(4) {
            return self.prompt();
        }
        let config = self.config.clone();
        self.sessions[0].cut_off = false;
        self.sessions[0].resume(&config, false);
        Ok(())
    }

    /// The question of the intent `of` is open: some people will answer, or none.
    pub(crate) fn ask(&mut self, at: usize, of: Seq) {
        self.sessions[at].questions.entry(of).or_insert(None);
        let people = self.random.choose(&[0, 1, 1, 2, 3, 4]);
        let begin = self.random.below(3_000);
        for person in 0..people {
            let reply =
                self.random.choose(&[Answer::Once, Answer::Once, Answer::Always, Answer::Reject]);
            let feedback = self.random.choose(&[None, None, Some("yes"), Some("no, so")]);
            let (feedback, by) = (feedback.map(str::to_owned), format!("person {person} of {of}"));
            let answer = Permission::Answered { reply, feedback, by };
            // several at one point in time
            let delay = begin + self.random.choose(&[0, 0, 1, 500]);
            self.at(delay, None, Delivery::Answer(at, of, answer));
        }
    }

    /// Questions from before a crash are asked again.
    pub(crate) fn ask_again(&mut self, at: usize, resumed: Seq) {
        let open = self.sessions[at].state.open();
        for (kind, wait) in open {
            if kind == PendingKind::Question && wait.intent < resumed {
                self.ask(at, wait.intent);
            }
        }
    }
}

pub(crate) fn prompted(parts: Vec<PromptPart>, config: &TurnConfig) -> Fact {
    let agent = if config.options.plans { "plan" } else { "build" }.to_owned();
    let model: ModelRef = config.model.name();
    Fact::new(Turn::Prompted { parts, agent, model, by: "somebody".into() })
}
