//! SIGKILL at any moment, and then `resume`: shown events are kept, no effect happens twice,
//! nothing is left behind.
//!
//! `LEFTFOLD_KILLS` sets how many runs are killed (default 6) and `LEFTFOLD_SEED` the first seed.

use std::collections::HashSet;

use common::{Random, Site, all, bash, call, end, kind, kinds, marked, number, says, script};
use rustix::process::Signal;
use serde_json::{Value, json};

/// Commands and a write that would show repeated effects, processes that stay behind, a read that
/// may be repeated, and slow text.
fn long_turn() -> Value {
    let trickle = |text: &str, mut reply: Value| {
        reply["chunk"] = json!(3);
        reply["delay_ms"] = json!(2);
        let parts = reply["parts"].as_array_mut().unwrap();
        parts.insert(0, json!({ "text": text }));
        reply
    };
    let mut two = bash("echo third >> effects; sleep 0.05; echo after >> effects");
    let more = json!({ "call": { "name": "bash",
        "input": { "command": "echo fourth >> effects; setsid sleep 1000 & sleep 1001 & wait" } } });
    let slow =
        json!({ "call": { "name": "bash", "input": { "command": "sleep 0.1; cat effects" } } });
    two["parts"].as_array_mut().unwrap().extend([slow]);
    let mut four = bash("echo fifth >> effects");
    four["parts"].as_array_mut().unwrap().push(more);
    four["parts"][1]["call"]["input"]["timeout"] = json!(150);
    script(json!([
        trickle("First a line of text. ", bash("echo first >> effects; sleep 1000 & echo $!")),
        trickle("Then a file. ", call("write", json!({ "filePath": "made", "content": "made" }))),
        trickle("And read it. ", call("read", json!({ "filePath": "made" }))),
        trickle("Two at once. ", two),
        trickle("Not at home. ", four),
        trickle(
            "Add to it. ",
            call(
                "edit",
                json!({ "filePath": "made", "oldString": "made", "newString": "made, made" })
            )
        ),
        says("The end."),
    ]))
}

/// Most lines that an uninterrupted run prints. A later kill comes after the run's end.
const LINES: usize = 62;

#[test]
fn killed_anywhere_it_goes_on_with_nothing_lost_doubled_or_left_behind() {
    let (kills, seed) = (number("LEFTFOLD_KILLS", 6), number("LEFTFOLD_SEED", 1));
    let next = std::sync::atomic::AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                loop {
                    let n = next.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                    if n >= kills {
                        return;
                    }
                    // spread over the run, with some randomness
                    let mut random = Random::new((seed.wrapping_mul(1_000_003) + n) as u64);
                    let lines = (n * LINES / kills + random.below(LINES / kills + 2)).max(1);
                    eprintln!("kill {n} of {kills}, seed {seed}: after {lines} lines");
                    kill_and_resume(lines, &mut random);
                }
            });
        }
    });
}

/// A run that is killed after `lines` lines, perhaps again while it is resumed, and then completed.
fn kill_and_resume(lines: usize, random: &mut Random) {
    let site = Site::scripted(&long_turn());
    let mut shown = killed(&site, &["run", "--format", "json", "go"], lines);
    let again = random.below(3) == 0;
    if again {
        shown += &killed(&site, &["resume", "--format", "json", "last"], 1 + random.below(8));
    }
    if site.sessions().is_empty() {
        return; // nothing was shown, so nothing is promised
    }
    assert_sound_or_empty(&site, &shown);
    let resumed = site.run(&["resume", "--format", "json", "last"]).ok();
    shown += &resumed.stdout;
    let events = site.exported();
    assert_shown_once(&site, &shown);
    assert_eq!(end(&events)["reason"], "completed", "{:?}", kinds(&events));
    assert_eq!(end(&events)["text"], "The end.");
    assert_eq!(all(&events, "turn.ended").len(), 1);
    assert_effects(&site, &events);
    assert_eq!(marked(events[0]["session"].as_str().unwrap()), [], "left behind");
    site.assert_sound();
}

/// Starts the program and kills it after `lines` lines. Returns its output.
fn killed(site: &Site, args: &[&str], lines: usize) -> String {
    let mut live = site.start(args);
    for _ in 0..lines {
        if live.line().is_none() {
            break;
        }
    }
    live.signal(Signal::KILL);
    let mut shown = live.wait().stdout;
    // drops the line during which it was killed
    shown.truncate(shown.rfind('\n').map_or(0, |end| end + 1));
    shown
}

/// Checks that every printed line is in the export unchanged, and that no event was printed twice.
fn assert_shown_once(site: &Site, shown: &str) {
    let export = site.run(&["export", "last"]).ok().stdout;
    let logged: HashSet<&str> = export.lines().collect();
    let mut seen = HashSet::new();
    for line in shown.lines() {
        assert!(logged.contains(line), "shown and not in the log: {line}");
        assert!(seen.insert(line), "shown twice: {line}");
    }
}

/// Checks that each command or write was started at most once, and had its effect at most once.
fn assert_effects(site: &Site, events: &[Value]) {
    let mut calls = HashSet::new();
    for started in all(events, "tool.started") {
        let (call, attempt) = (&started["of"], &started["data"]["attempt"]);
        let read = started["data"]["class"] == "read";
        assert!(calls.insert((call.as_u64(), attempt.as_u64())), "{started}");
        assert!(*attempt == 1 || (read && *attempt == 2), "{started}");
    }
    let text = site.text("effects");
    let mut effects: Vec<&str> = text.lines().collect();
    let count = effects.len();
    effects.sort_unstable();
    effects.dedup();
    assert_eq!(effects.len(), count, "doubled: {text}");
    for effect in promised(events) {
        assert!(effects.contains(&effect.as_str()), "told as done, and missing: {effect}");
    }
    assert!(["made", "made, made", ""].contains(&site.text("made").as_str()));
}

/// The effects of commands that are reported as successful. A kill may also prevent the model from
/// making a call at all.
fn promised(events: &[Value]) -> Vec<String> {
    let at = |seq: &Value| events.iter().find(|event| event["seq"] == *seq).unwrap();
    let ended = all(events, "tool.finished").into_iter().filter(|f| f["data"]["is_error"] == false);
    let calls = ended.map(|finished| at(&at(&finished["of"])["of"]));
    let commands = calls.filter_map(|call| call["data"]["call"]["input"]["command"].as_str());
    let echoes = commands.flat_map(|command| command.split("echo ").skip(1));
    let effects = echoes.filter_map(|echo| echo.split_once(" >> effects"));
    effects.map(|(effect, _)| effect.to_owned()).collect()
}

/// Checks that `check` finds no problem, unless the first batch was not written yet.
fn assert_sound_or_empty(site: &Site, shown: &str) {
    if !shown.is_empty() {
        site.assert_sound();
    }
}

#[test]
fn the_model_is_told_that_an_outcome_is_unknown() {
    let site = Site::scripted(&json!({ "replies": [
        bash("echo once >> effects; touch ready; sleep 1000"),
        { "match": { "result": "outcome of this call is unknown" }, "parts": [{ "text": "I look." }] },
    ] }));
    let mut live = site.start(&["run", "--format", "json", "go"]);
    live.until("tool.started");
    common::wait_until("the command runs", || common::exists(&site.project().join("ready")));
    live.signal(Signal::KILL);
    let events = live.wait().events();
    let session = events[0]["session"].as_str().unwrap();
    if common::in_sandbox() {
        common::wait_until("the end of the sandbox", || marked(session).is_empty());
    } else {
        assert_ne!(marked(session), [], "a killed node cannot end its commands");
    }
    let resumed = site.run(&["resume", "--format", "json", "last"]).ok().events();
    assert_eq!(kind(&resumed[0]), "session.resumed");
    assert_eq!(resumed[0]["data"]["close"], false);
    assert_eq!(
        common::only(&resumed, "tool.lost")["of"],
        common::only(&events, "tool.started")["of"]
    );
    assert_eq!(end(&resumed)["text"], "I look.");
    assert_eq!(site.text("effects"), "once\n");
    assert_eq!(marked(session), []);
    site.assert_sound();
}

#[test]
fn a_prompt_closes_the_turn_that_was_cut_off() {
    let site = Site::scripted(&json!({ "replies": [
        { "match": { "prompt": "second" }, "parts": [{ "text": "The second." }] },
        bash("echo once >> effects; touch ready; sleep 1000"),
        says("never"),
    ] }));
    let live = site.start(&["run", "--format", "json", "first"]);
    common::wait_until("the command runs", || common::exists(&site.project().join("ready")));
    live.signal(Signal::KILL);
    let before = live.wait().events();
    let session = before[0]["session"].as_str().unwrap();
    let run = site.run(&["run", "--format", "json", "--session", session, "second"]).ok();
    let events = run.events();
    let mut order = kinds(&events);
    order.retain(|kind| *kind != "model.streamed" && *kind != "turn.configured");
    assert_eq!(
        order,
        [
            "session.resumed", "tool.lost", "turn.prompted", "model.requested", "model.finished",
            "turn.ended",
        ]
    );
    assert_eq!(events[0]["data"]["close"], true);
    // the end of the earlier turn is in the log, and not in the output of another prompt
    assert_eq!(all(&site.exported(), "turn.ended")[0]["data"]["reason"], "aborted");
    assert_eq!(end(&events)["text"], "The second.");
    assert_eq!(site.text("effects"), "once\n");
    assert_eq!(marked(session), []);
    site.assert_sound();
}

#[test]
fn a_finished_session_is_not_resumed() {
    let site = Site::scripted(&script(json!([says("done"), says("never")])));
    site.prompt("go").ok();
    let before = site.run(&["export", "last"]).ok().stdout;
    for format in ["json", "text"] {
        let ran = site.run(&["resume", "--format", format, "last"]).ok();
        assert_eq!(ran.stdout, "", "{ran:?}");
    }
    assert_eq!(site.run(&["export", "last"]).ok().stdout, before);
}

#[test]
fn reading_commands_run_nothing_of_a_turn_that_was_cut_off() {
    let site = Site::scripted(&script(json!([bash("touch ready; sleep 1000"), says("done")])));
    let live = site.start(&["run", "--format", "json", "go"]);
    common::wait_until("the command runs", || common::exists(&site.project().join("ready")));
    live.signal(Signal::KILL);
    live.wait();
    let before = site.run(&["export", "last"]).ok().stdout;
    for args in [&["replay", "last"][..], &["replay", "last", "--state"], &["check", "last"]] {
        site.run(args).ok();
    }
    assert_eq!(site.run(&["export", "last"]).ok().stdout, before);
    assert_eq!(
        end(&site.run(&["resume", "--format", "json", "last"]).ok().events())["text"],
        "done"
    );
}

#[test]
fn killed_before_its_first_line_it_has_promised_nothing_and_is_in_nobodys_way() {
    for n in 0..6_u32 {
        let site = Site::scripted(&script(json!([says("done")])));
        let live = site.start(&["run", "--format", "json", "go"]);
        // some die before the folder exists, some while it is created
        if n > 2 {
            common::wait_until("the folder is there", || !site.sessions().is_empty());
            (0..n * 20_000).for_each(|spin| {
                std::hint::black_box(spin);
            });
        }
        live.signal(Signal::KILL);
        let shown = live.wait().stdout;
        for folder in site.sessions() {
            let ran = site.run(&["resume", "--format", "json", folder.to_str().unwrap()]);
            assert!(!ran.stderr.contains("panicked"), "{ran:?}");
            assert!(ran.code == 0 || shown.is_empty(), "{ran:?}");
        }
        let events = site.prompt("go").ok().events();
        assert_eq!(end(&events)["text"], "done");
        site.assert_sound();
    }
}
