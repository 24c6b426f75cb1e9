//! A typist who does anything at any time: ten thousand keys, pastes and resizes, while replies stream, calls run and
//! several questions wait.

use std::collections::BTreeSet;

use leftfold_view::QuestionId;

use super::*;

/// The same numbers in each run.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit
    }
}

struct Typist {
    now: Instant,
    log: Log,
    app: App,
    drawn: Drawn,
    columns: u16,
    request: Option<Seq>,
    open: BTreeSet<Seq>,
    /// The question on the screen, and since when.
    shown: Option<(QuestionId, Instant)>,
    typed: Vec<String>,
    sent: String,
}

impl Typist {
    fn new() -> Self {
        Self {
            now: Instant::now(),
            log: Log::default(),
            app: App::new(look(79), SessionId::default(), PromptHistory::default()),
            drawn: Drawn::new(80, 24),
            columns: 80,
            request: None,
            open: BTreeSet::new(),
            shown: None,
            typed: Vec::new(),
            sent: String::new(),
        }
    }

    fn step(&mut self, n: usize, random: &mut Random) {
        self.now += Duration::from_millis(random.below(1_200));
        let now = self.now;
        let had_draft = !self.app.composer.is_empty() && self.app.entry == Entry::Prompt;
        let word = format!("<{n}>");
        let actions = match random.below(24) {
            0..=3 => {
                // the key that leads back from "always" is no text
                let leads_back =
                    self.app.asked.is_some() && self.app.gate.row(now) == GateRow::Confirm;
                self.typed.push(word[usize::from(leads_back)..].to_owned());
                press(&mut self.app, &word, now)
            }
            4 => {
                self.typed.push(word.clone());
                self.app.input(batch(&word, now), now)
            }
            5 => {
                self.typed.push(word.clone());
                self.app.input(Batch { inputs: vec![Input::Paste(word)], at: now }, now)
            }
            6 | 7 => press(&mut self.app, "\n", now),
            8 => press(
                &mut self.app,
                ["⎋", "^c", "^o", "⇧"][usize::try_from(random.below(4)).unwrap()],
                now,
            ),
            9..=13 => {
                let keys = ["o", "y", "a", "e", "n", "b", "\n", "⎋"];
                press(&mut self.app, keys[usize::try_from(random.below(8)).unwrap()], now)
            }
            14 => {
                self.resize(1 + u16::try_from(random.below(130)).unwrap());
                Vec::new()
            }
            15 => self.app.next_prompt().into_iter().collect(),
            _ => {
                self.event(random);
                Vec::new()
            }
        };
        for action in actions {
            self.perform(action, had_draft, random);
        }
        self.look();
    }

    fn resize(&mut self, columns: u16) {
        self.columns = columns;
        self.drawn.surface.resize(Size::new(columns, 24)).unwrap();
        self.app.blocks.resize(usize::from(self.drawn.surface.width()));
    }

    /// Something happens in the session.
    fn event(&mut self, random: &mut Random) {
        let Some(request) = self.request else {
            self.log.prompted("go", "terminal");
            self.request = Some(self.log.requested());
            return;
        };
        match random.below(8) {
            0..=3 => self.log.streamed(request, "some *words* and\n\n- an item\n"),
            4 => self.log.streamed_as(request, leftfold_events::event::PartKind::Reasoning, "hm "),
            5 if self.open.len() < 3 => {
                let call = self.log.called(request, "bash", &json!({ "command": "x" }), None);
                self.open.insert(self.log.asked(call, "bash", &["x"]));
            }
            6 => {
                let call = self.log.called(request, "bash", &json!({ "command": "y" }), None);
                let run = self.log.started(call);
                self.log.finished(run, &"line\n".repeat(30), &json!({ "exit": 0 }), false);
            }
            7 if random.below(4) == 0 => {
                let reason = [EndReason::Completed, EndReason::Aborted];
                self.log.ended(reason[usize::try_from(random.below(2)).unwrap()], None);
                self.request = None;
                self.open.clear();
            }
            _ => {}
        }
    }

    fn perform(&mut self, action: Action, had_draft: bool, random: &mut Random) {
        match action {
            Action::Submit(text) => {
                self.sent += &text;
                self.app.settle(random.below(3) == 0);
            }
            Action::Answer(id, reply) => {
                let is_reason = reply.feedback.is_some();
                self.sent += &reply.feedback.unwrap_or_default();
                let (shown, since) = self.shown.take().expect("a question is on the screen");
                assert_eq!(id, shown);
                assert!(
                    is_reason || (self.now >= since + leftfold_view::QUIET_DELAY && !had_draft)
                );
                if let Some(patterns) = reply.always {
                    if random.below(2) == 0 {
                        self.app.refused(id, &patterns, "no such pattern");
                        self.shown = Some((shown, since));
                        return;
                    }
                    self.sent += &patterns.concat();
                }
                if self.open.remove(&id.1) {
                    self.log.answered(id.1, reply.answer, None, "terminal");
                }
            }
            _ => {}
        }
    }

    /// Observes the events, shows the next question, and draws.
    fn look(&mut self) {
        let seen = usize::try_from(self.app.seen()).unwrap();
        self.log.events[seen..].iter().for_each(|event| self.app.observe(event));
        if self.app.asked.is_none() {
            self.shown = None;
        }
        let next = self.app.next_question();
        if let Some(question) = &next {
            self.app.ask(question, &[], self.now);
            self.shown = Some((question.id, self.now));
        }
        let at = self.log.events.last().map_or_else(Time::default, |event| event.at);
        let height = self.drawn.surface.height();
        let live = self.app.live(height, self.now, at);
        let finished = self.app.take();
        if next.is_some() {
            assert!(finished.iter().any(|line| line.to_string().contains("? bash")));
        }
        self.drawn.surface.draw(&finished, &live.rows, live.cursor).unwrap();
        self.drawn.written.0.take();
    }

    fn check(mut self) {
        let history = self.app.history_text();
        let rest = self.app.unsent().concat();
        for word in self.typed {
            assert!(
                self.sent.contains(&word) || rest.contains(&word) || history.contains(&word),
                "{word} is in none of {:?}, {rest:?}, {history:?}",
                self.sent
            );
        }
    }
}

#[test]
fn ten_thousand_keys_lose_nothing_and_answer_no_question_unseen() {
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let mut answers = 0;
    for _ in 0..20 {
        let mut typist = Typist::new();
        for n in 0..500 {
            let open = typist.open.len();
            typist.step(n, &mut random);
            answers += usize::from(typist.open.len() < open && typist.request.is_some());
        }
        typist.check();
    }
    // the typist has met questions at all
    assert!(answers > 50, "{answers}");
}
