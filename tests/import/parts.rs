//! The readers themselves: any part of a file makes a sound log.

use std::fs;

use leftfold_events::event::{Event, Session};
use leftfold_events::request::RequestMessage;
use leftfold_events::request_builder::request;
use leftfold_events::state::PendingKind;
use leftfold_events::{Envelope, Secrets, SessionId, fold};
use leftfold_import::{LogStart, Origin, build_logs, origin, read};
use serde_json::json;

/// One line for each record; the calls of one reply are branches of their own.
const CLAUDE: &str = r#"
{"type":"user","uuid":"1","parentUuid":null,"sessionId":"s","timestamp":"2026-03-01T10:00:00Z","message":{"role":"user","content":"Go."}}
{"type":"assistant","uuid":"2","parentUuid":"1","message":{"id":"m1","model":"c","content":[{"type":"tool_use","id":"t1","name":"Bash","input":{}}]}}
{"type":"assistant","uuid":"3","parentUuid":"2","message":{"id":"m1","model":"c","content":[{"type":"tool_use","id":"t2","name":"batch","input":{"toolCalls":[{"tool":"x"}]}}]}}
{"type":"user","uuid":"4","parentUuid":"2","message":{"role":"user","content":[{"type":"tool_result","tool_use_id":"t1","content":"one"}]}}
{"type":"user","uuid":"5","parentUuid":"3","message":{"role":"user","content":[{"type":"tool_result","tool_use_id":"t2","content":"two"},{"type":"text","text":"And hurry."}]}}
{"type":"assistant","uuid":"6","parentUuid":"5","message":{"id":"m2","model":"d","content":[{"type":"text","text":"Done."}]}}
{"type":"system","subtype":"compact_boundary","uuid":"7","parentUuid":null,"logicalParentUuid":"6"}
{"type":"user","uuid":"8","parentUuid":"7","isCompactSummary":true,"message":{"role":"user","content":"It is done."}}
{"type":"user","uuid":"9","parentUuid":"8","message":{"role":"user","content":"[Request interrupted by user]"}}
{"type":"user","uuid":"10","parentUuid":"9","message":{"role":"user","content":"Next."}}
{"type":"assistant","uuid":"11","parentUuid":"10","message":{"id":"m3","model":"d","content":[{"type":"tool_use","id":"t3","name":"plan_exit","input":1}]}}
"#;

const CODEX: &str = r#"
{"timestamp":"2026-03-01T10:00:00Z","type":"session_meta","payload":{"id":"x","cwd":"/x"}}
{"type":"response_item","payload":{"type":"message","role":"user","content":[{"type":"input_text","text":"Go."}]}}
{"type":"response_item","payload":{"type":"reasoning","summary":[]}}
{"type":"response_item","payload":{"type":"function_call","name":"shell","arguments":"{","call_id":"1"}}
{"type":"response_item","payload":{"type":"function_call","name":"shell","arguments":"{}","call_id":"1"}}
{"type":"response_item","payload":{"type":"function_call_output","call_id":"1","output":"one"}}
{"type":"response_item","payload":{"type":"function_call_output","call_id":"1","output":"two"}}
{"type":"compacted","payload":{"message":"All is one."}}
{"type":"response_item","payload":{"type":"message","role":"assistant","content":[{"type":"output_text","text":"So."}]}}
{"type":"event_msg","payload":{"type":"error","message":"no"}}
{"type":"event_msg","payload":{"type":"turn_aborted"}}
{"type":"event_msg","payload":{"type":"thread_rolled_back","num_turns":9}}
{"type":"response_item","payload":{"type":"message","role":"user","content":[{"type":"input_text","text":"Go."}]}}
"#;

type Logs = Vec<(SessionId, Vec<Envelope>)>;

fn logs(origin: Origin, text: &str) -> Option<Logs> {
    let transcript = read(origin, text, "test", None).ok()?;
    let start = LogStart {
        session: SessionId::default(),
        parent: None,
        directory: "/x".to_owned(),
        worktree: "/x".to_owned(),
        origin,
        secrets: &Secrets::default(),
    };
    Some(build_logs(&start, &transcript).0)
}

fn log(origin: Origin, text: &str) -> Option<Vec<Envelope>> {
    Some(logs(origin, text)?.remove(0).1)
}

/// Checks that a log is in order, is at rest or waits only for a model, and can be resumed.
fn assert_sound(events: &[Envelope], of: &str) {
    assert!(events.iter().map(|event| event.seq).eq(1..=events.len() as u64), "{of}");
    assert!(events.windows(2).all(|pair| pair[0].at <= pair[1].at), "{of}");
    let Event::Session(Session::Imported { through, .. }) = &events[1].event else { panic!() };
    assert_eq!(*through, events.len() as u64);
    let state = fold(events);
    assert!(
        state.open().iter().all(|(open, _)| *open == PendingKind::Request),
        "{of}: {:?}",
        state.open()
    );
    let undone = state.calls().filter(|call| !call.is_done()).count();
    assert_eq!(undone, 0, "{of}");
    assert_eq!(leftfold_events::next(&state), None, "{of}");
    let messages = request(&state).messages;
    let last = messages.last();
    assert!(!matches!(last, Some(RequestMessage::Assistant { .. })), "{of}: {messages:?}");
}

#[test]
fn any_part_of_a_file_makes_a_sound_log() {
    let mut logs = 0;
    for (origin, text) in [(Origin::Claude, CLAUDE), (Origin::Codex, CODEX)] {
        let lines: Vec<&str> = text.lines().collect();
        for end in 0..=lines.len() {
            for without in 0..=end {
                let kept = lines[..end].iter().enumerate().filter(|(at, _)| *at != without);
                let part = kept.map(|(_, line)| *line).collect::<Vec<_>>().join("\n");
                if let Some(events) = log(origin, &part) {
                    assert_sound(&events, &part);
                    logs += 1;
                }
            }
        }
    }
    assert!(logs > 150, "{logs}");
}

/// Two tasks at once: one is recognized by its prompt, and one, which has a task of its own, by its
/// result.
const TASKS: &str = r#"
{"type":"user","uuid":"1","parentUuid":null,"sessionId":"x","timestamp":"2026-03-01T10:00:00Z","message":{"role":"user","content":"Go."}}
{"type":"assistant","uuid":"2","parentUuid":"1","message":{"id":"m1","model":"c","content":[{"type":"tool_use","id":"t1","name":"Task","input":{"prompt":"Look.","subagent_type":"scout"}}]}}
{"type":"assistant","uuid":"3","parentUuid":"2","message":{"id":"m1","model":"c","content":[{"type":"tool_use","id":"t2","name":"Task","input":{"prompt":"Dig.","description":"Dig"}}]}}
{"type":"user","uuid":"s1","parentUuid":null,"isSidechain":true,"message":{"role":"user","content":"Look."}}
{"type":"assistant","uuid":"s2","parentUuid":"s1","isSidechain":true,"message":{"id":"m2","model":"d","content":[{"type":"tool_use","id":"t3","name":"Read","input":{}}],"usage":{"input_tokens":3,"output_tokens":4}}}
{"type":"user","uuid":"a1","parentUuid":null,"isSidechain":true,"agentId":"a","message":{"role":"user","content":"Dig."}}
{"type":"user","uuid":"s3","parentUuid":"s2","isSidechain":true,"message":{"role":"user","content":[{"type":"tool_result","tool_use_id":"t3","content":"one"}]}}
{"type":"assistant","uuid":"a2","parentUuid":"a1","isSidechain":true,"agentId":"a","message":{"id":"m3","model":"d","content":[{"type":"text","text":"Dug."}],"usage":{"input_tokens":5,"output_tokens":6}}}
{"type":"assistant","uuid":"s4","parentUuid":"s3","isSidechain":true,"message":{"id":"m4","model":"d","content":[{"type":"text","text":"Seen."}],"usage":{"input_tokens":7,"output_tokens":8}}}
{"type":"user","uuid":"4","parentUuid":"2","message":{"role":"user","content":[{"type":"tool_result","tool_use_id":"t1","content":"Seen."}]}}
{"type":"user","uuid":"5","parentUuid":"3","toolUseResult":{"agentId":"a"},"message":{"role":"user","content":[{"type":"tool_result","tool_use_id":"t2","content":"Dug."}]}}
{"type":"assistant","uuid":"6","parentUuid":"5","message":{"id":"m5","model":"c","content":[{"type":"text","text":"Done."}]}}
{"type":"user","uuid":"7","parentUuid":"6","message":{"role":"user","content":"[Request interrupted by user]"}}
"#;

#[test]
fn any_part_of_a_file_with_tasks_makes_sound_logs() {
    let lines: Vec<&str> = TASKS.lines().collect();
    let (mut most, mut children) = (0, 0);
    for end in 0..=lines.len() {
        for without in 0..=end {
            let kept = lines[..end].iter().enumerate().filter(|(at, _)| *at != without);
            let part = kept.map(|(_, line)| *line).collect::<Vec<_>>().join("\n");
            let Some(logs) = logs(Origin::Claude, &part) else { continue };
            assert_sound(&logs[0].1, &part);
            let parent = fold(&logs[0].1);
            assert_eq!(parent.open_children().count(), 0, "{part}");
            let ids = parent.children.iter().map(|child| child.session);
            assert!(ids.eq(logs[1..].iter().map(|(id, _)| *id)), "{part}");
            for (_, log) in &logs[1..] {
                assert_sound(log, &part);
                let child = fold(log);
                assert!(child.turn.is_none(), "{part}");
                assert_eq!(child.origin.unwrap().parent, Some(logs[0].0));
            }
            most = most.max(logs.len());
            children += logs.len() - 1;
        }
    }
    assert!(most == 3 && children > 30, "{most} {children}");
}

#[test]
fn what_children_have_spent_is_known_to_their_parent() {
    let logs = logs(Origin::Claude, TASKS).unwrap();
    let parent = fold(&logs[0].1);
    let used = parent.delegated.usage;
    assert_eq!((used.input, used.output), (15, 18));
    let agents: Vec<&str> = parent.children.iter().map(|child| child.agent.as_str()).collect();
    assert_eq!(agents, ["scout", "general"]);
    let said: Vec<String> =
        logs[1..].iter().map(|(_, log)| fold(log).ended.unwrap().text).collect();
    assert_eq!(said, ["Seen.", "Dug."]);
}

#[test]
fn more_calls_than_run_at_once_and_results_in_any_order() {
    let call =
        |n: usize| format!(r#"{{"type":"tool_use","id":"t{n}","name":"Bash","input":{{}}}}"#);
    let calls: Vec<String> = (0..20).map(call).collect();
    let result = |n: usize| {
        format!(
            r#"{{"type":"user","message":{{"role":"user","content":[{{"type":"tool_result","tool_use_id":"t{n}","content":"{n}"}}]}}}}"#
        )
    };
    let results: Vec<String> = (0..20).rev().filter(|n| n % 7 != 3).map(result).collect();
    let text = format!(
        "{}\n{{\"type\":\"assistant\",\"message\":{{\"id\":\"m\",\"model\":\"c\",\"content\":[{}]}}}}\n{}",
        r#"{"type":"user","message":{"role":"user","content":"Go."}}"#,
        calls.join(","),
        results.join("\n")
    );
    let events = log(Origin::Claude, &text).unwrap();
    assert_sound(&events, "many");
    let count = |wanted: &str| {
        let kinds = events.iter().map(|event| leftfold_events::line::type_of(&event.event));
        kinds.filter(|kind| kind == wanted).count()
    };
    assert_eq!((count("tool.finished"), count("tool.lost")), (17, 3));
}

#[test]
fn a_file_tells_whose_it_is() {
    for (text, expected) in [
        (CLAUDE, Origin::Claude),
        (CODEX, Origin::Codex),
        (r#"{"type":"summary","summary":"x","leafUuid":"y"}"#, Origin::Claude),
        ("{\"id\":\"1\",\"timestamp\":\"x\",\"instructions\":null}\n", Origin::Codex),
        ("{\n  \"info\": {},\n  \"messages\": []\n}\n", Origin::Opencode),
        ("Exporting session: x\n{\"info\":{},\"messages\":[]}", Origin::Opencode),
        (r#"{"id":"ses_1","projectID":"p"}"#, Origin::Opencode),
        (r#"{"v":1,"session":"x","seq":1,"type":"session.created","data":{}}"#, Origin::Leftfold),
        ("broken\n{\"type\":\"event_msg\",\"payload\":{}}", Origin::Codex),
        ("", Origin::Leftfold),
        ("nothing at all", Origin::Leftfold),
    ] {
        assert_eq!(origin(text), expected, "{text}");
    }
}

#[test]
fn a_subagents_own_file_is_a_session() {
    let text = r#"{"type":"user","uuid":"1","parentUuid":null,"isSidechain":true,"message":{"role":"user","content":"Go."}}
{"type":"assistant","uuid":"2","parentUuid":"1","isSidechain":true,"message":{"id":"m","model":"c","content":[{"type":"text","text":"Done."}]}}"#;
    let events = log(Origin::Claude, text).unwrap();
    assert_sound(&events, text);
    assert_eq!(fold(&events).ended.unwrap().text, "Done.");
}

#[test]
fn ids_lead_to_no_other_folder() {
    let site = tempfile::tempdir().unwrap();
    let storage = site.path();
    let session = storage.join("session/p/s.json");
    let message = json!({ "id": "m", "role": "user", "time": { "created": 1 } }).to_string();
    let part = json!({ "type": "text", "text": "Go." }).to_string();
    // each folder that an id below could lead to has a message
    for folder in ["message/ses_1", "message/a/b", "message/a", "message", "x", "."] {
        fs::create_dir_all(storage.join(folder)).unwrap();
        fs::write(storage.join(folder).join("m.json"), &message).unwrap();
    }
    fs::create_dir_all(storage.join("part/m")).unwrap();
    fs::write(storage.join("part/m/p.json"), part).unwrap();
    for (id, is_plain) in [
        ("ses_1", true),
        ("", false),
        ("..", false),
        ("../x", false),
        (storage.join("x").to_str().unwrap(), false),
        ("a/b", false),
        ("a/", false),
    ] {
        let text = json!({ "id": id, "projectID": "p" }).to_string();
        let found = read(Origin::Opencode, &text, "test", Some(&session));
        assert_eq!(found.is_ok(), is_plain, "{id}: {found:?}");
        let why = found.err().map(|error| error.to_string()).unwrap_or_default();
        assert!(is_plain || why.contains("are missing beside it"), "{id}: {why}");
    }
}
