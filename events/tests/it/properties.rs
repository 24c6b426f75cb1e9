//! Properties that hold for every order of facts.

use crate::common::*;
use leftfold_events::event::{Answer as Reply_, Class, FailureClass, Finish};
use leftfold_events::{TurnConfig, verify};
use proptest::collection::vec;
use proptest::prelude::*;

fn id() -> impl Strategy<Value = &'static str> {
    prop_oneof![Just("a"), Just("b"), Just("c"), Just(""), Just("a_1"), Just("a_2")]
}

fn class() -> impl Strategy<Value = Class> {
    prop_oneof![Just(Class::Read), Just(Class::Write), Just(Class::Command), Just(Class::Ask),]
}

fn access() -> impl Strategy<Value = (&'static str, &'static str)> {
    prop_oneof![
        Just(("read", "x")),
        Just(("ask", "x")),
        Just(("never", "x")),
        Just(("question", "x"))
    ]
}

/// Output that is soon cleared in part.
fn long() -> &'static str {
    static LONG: std::sync::OnceLock<String> = std::sync::OnceLock::new();
    LONG.get_or_init(|| "1234 6789".repeat(12_000))
}

fn step() -> impl Strategy<Value = Step> {
    let path = prop_oneof![Just("/p/x"), Just("/p/y"), Just("")];
    let failure = prop_oneof![
        Just(FailureClass::Overloaded),
        Just(FailureClass::Auth),
        Just(FailureClass::Overflow)
    ];
    let finish = prop_oneof![
        Just(Finish::Stop),
        Just(Finish::ToolCalls),
        Just(Finish::ContentFilter),
        Just(Finish::Length),
        Just(Finish::Other),
        Just(Finish::Pause)
    ];
    let answer = prop_oneof![Just(Reply_::Once), Just(Reply_::Always), Just(Reply_::Reject)];
    prop_oneof![
        2 => prop_oneof![Just("hi"), Just("")].prop_map(Prompt),
        1 => Just(Subtask("look")),
        1 => Just(Command("ls")),
        1 => id().prop_map(Exit),
        2 => prop_oneof![Just("text"), Just(" ")].prop_map(Text),
        1 => prop_oneof![Just(None), Just(Some("sig"))].prop_map(Think),
        4 => (id(), prop_oneof![Just("read"), Just("we.ird name"), Just("")])
            .prop_map(|(id, name)| Call(id, name)),
        3 => finish.prop_map(Reply),
        1 => Just(Full(9_900)),
        1 => (failure, any::<bool>()).prop_map(|(class, retryable)| Fail(class, retryable)),
        5 => (id(), class(), access(), path)
            .prop_map(|(id, class, access, path)| Resolve(id, class, access, path)),
        1 => id().prop_map(Unresolved),
        1 => id().prop_map(Task),
        1 => id().prop_map(ChildEnds),
        1 => (id(), 0..4_usize).prop_map(|(id, count)| Batch(id, count)),
        1 => id().prop_map(|id| Progress(id, "tail")),
        4 => id().prop_map(|id| Done(id, "ok")),
        2 => (id(), answer, prop_oneof![Just(None), Just(Some("why"))])
            .prop_map(|(id, answer, feedback)| Answer(id, answer, feedback)),
        2 => Just(Elapse),
        1 => Just(Interrupt),
        1 => any::<bool>().prop_map(|close| Resume { close }),
        1 => Just(Summary("so far")),
        1 => Just(NoSummary),
        1 => Just(Compact),
        1 => Just(Done("a", long())),
        1 => Just(Title("title")),
        1 => Just(NoTitle),
    ]
}

/// With and without titles and limits.
fn a_config() -> impl Strategy<Value = TurnConfig> {
    let cost = prop_oneof![2 => Just(None), 1 => Just(Some(0.0)), 1 => Just(Some(1.0))];
    let time = prop_oneof![2 => Just(None), 1 => (1..400_u64).prop_map(Some)];
    let steps = prop_oneof![2 => Just(20), 1 => 1..4_u32];
    (any::<bool>(), cost, time, steps).prop_map(|(titles, cost, time, steps)| {
        let mut config = if titles { titled() } else { config() };
        config.options.max_cost = cost;
        config.options.max_time = time;
        config.options.max_steps = steps;
        config
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    /// Any order of facts comes to rest, verifies, folds to the live state, and yields a valid
    /// request at every prefix; and all open waits can be brought to an end.
    #[test]
    fn any_order_of_facts_comes_to_rest(steps in vec(step(), 1..60), config in a_config()) {
        let mut run = Run::new(&config);
        for step in &steps {
            run.step(step);
            prop_assert!(leftfold_events::next(&run.state).is_none());
        }
        prop_assert_eq!(verify(&run.log), vec![]);
        prop_assert_eq!(&leftfold_events::fold(&run.log), &run.state);
        assert_prefixes_valid(&run.log);
        run.finish();
    }

    /// Verified in parts, a log has the divergences that it has as a whole.
    #[test]
    fn parts_are_verified_as_the_whole(
        steps in vec(step(), 1..30),
        config in a_config(),
        lost in any::<prop::sample::Index>(),
        length in 1..12_usize,
    ) {
        let mut run = Run::new(&config);
        steps.iter().for_each(|step| { run.step(step); });
        let mut log = run.log;
        log.remove(lost.index(log.len()));
        let parts: Vec<_> = leftfold_events::verify::parts(&log, length).collect();
        prop_assert_eq!(parts.len(), log.len().div_ceil(length));
        let found: Vec<_> = parts.into_iter().flat_map(|part| part.verify()).collect();
        prop_assert_eq!(found, verify(&log));
    }

    /// Facts that were not admitted, in any order and without a beginning, still fold.
    #[test]
    fn apply_takes_anything(steps in vec(step(), 1..40), of in 0..40_u64) {
        let mut run = Run::folded(&[]);
        for step in &steps {
            let mut fact = run.fact(step);
            if of % 3 == 0 {
                fact.of = Some(of);
            }
            run.log.extend(leftfold_events::settle(
                &mut run.state,
                Run::session(),
                fact,
                leftfold_events::Time::from_millis(run.now),
            ));
        }
        prop_assert!(leftfold_events::next(&run.state).is_none());
    }

    /// A crash after any event: the remaining log folds, continues and ends, and no tool with side
    /// effects starts twice.
    #[test]
    fn a_crash_anywhere_is_survived(steps in vec(step(), 1..40), close in any::<bool>(), config in a_config()) {
        let mut run = Run::new(&config);
        steps.iter().for_each(|step| { run.step(step); });
        for cut in 2..=run.log.len() {
            let mut survivor = Run::folded(&run.log[..cut]);
            survivor.step(&Resume { close });
            survivor.finish();
            assert_prefixes_valid(&survivor.log);
            prop_assert_eq!(verify(&survivor.log), vec![]);
            assert_started_once(&survivor.log);
        }
    }
}
