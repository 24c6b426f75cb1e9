//! `leftfold export` in the formats of other tools.

use common::validator::{Body, Validator};
use common::{Site, bash, says, script};
use rusqlite::Connection;
use serde_json::{Value, json};

use super::page::{Shown, compacted, plain, sessions, subagents};

fn exported(site: &Site, format: &str) -> String {
    site.run(&["export", "last", "--format", format]).ok().stdout
}

#[test]
fn a_transcript_has_what_happened_and_no_more_markup_than_its_own() {
    let words = [
        ("plain", "```diff\n--- a/notes.txt"),
        ("parallel", "bash sleep 0.2; echo a</code>"),
        ("subagents", "# Subagent `"),
        ("crashed", "_Resumed after an interruption._"),
        ("compacted", "Summary of everything before"),
        ("denied", "Denied by the permission rules."),
        ("huge", "Once more."),
        ("reverted", "Session `"),
        ("hostile", "ghp_…[masked]"),
    ];
    for Shown { name, site, hides, .. } in sessions() {
        let text = exported(&site, "md");
        let (_, words) = words.iter().find(|(known, _)| *known == name).unwrap();
        assert!(text.contains(words), "{name}: {text}");
        for hidden in hides {
            assert!(!text.contains(hidden), "{name}: {hidden}");
        }
        let opened = text.lines().filter(|line| *line == "<details>").count();
        assert_eq!(text.lines().filter(|line| *line == "</details>").count(), opened, "{name}");
        let is_control = |c: char| c.is_control() && c != '\n' && c != '\t';
        assert!(!text.contains(is_control) && !text.contains('\u{202e}'), "{name}");
        assert_eq!(text, exported(&site, "md"), "{name}");
        assert_eq!(text.contains("Repair the notes."), name == "plain", "{name}");
    }
}

/// The lines or objects of an export.
fn values(site: &Site, format: &str) -> Vec<Value> {
    let text = exported(site, format);
    let values = serde_json::Deserializer::from_str(&text).into_iter::<Value>();
    values.map(Result::unwrap).collect()
}

/// A session with an image, a result that is an image, and arguments that are no object.
fn with_media() -> Site {
    let site = Site::scripted(&script(json!([
        { "parts": [
            { "text": "I look." },
            { "call": { "id": "a.b", "name": "read", "input": { "filePath": "dot.png" } } },
            { "call": { "id": "c", "name": "read", "input": "no object" } },
        ] },
        says("A dot."),
        says("Nothing more."),
    ])));
    let dot = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x01\0\0\0\x01\x08\x06\0\0\0\x1f\x15\xc4\x89";
    site.file("dot.png", dot);
    site.run(&["run", "--format", "json", "--file", "dot.png", "What is it?"]).ok();
    site.run(&["run", "--continue", "--format", "json", "And now?"]).ok();
    site
}

/// The types of the formats' own makers accept what is exported of all kinds of sessions.
#[test]
fn exports_have_the_shapes_of_their_formats() {
    let Some(validator) = Validator::installed() else { return };
    let mut bodies = Vec::new();
    let session = "last".to_owned();
    let media = Shown { name: "media", site: with_media(), session, shows: vec![], hides: vec![] };
    for Shown { name, site, hides, .. } in sessions().into_iter().chain([media]) {
        for (export, format) in
            [("openai", "openai-training"), ("anthropic", "anthropic-training"), ("atif", "atif")]
        {
            let values = values(&site, export);
            assert!(!values.is_empty() || name == "reverted", "{name} {export}");
            for (body, at) in values.into_iter().zip(1..) {
                let text = body.to_string();
                assert!(hides.iter().all(|hidden| !text.contains(hidden)), "{name} {export}");
                bodies.push(Body { format, name: format!("{name} {at}"), body });
            }
        }
    }
    assert!(bodies.len() > 30, "{}", bodies.len());
    assert_eq!(validator.refused(&bodies), []);
    // and they refuse what is none
    let broken = |format, body| Body { format, name: "broken".into(), body };
    let user = json!({ "messages": [{ "role": "user", "content": "x" }] });
    let broken = [
        broken("openai-training", user.clone()),
        broken("anthropic-training", user),
        broken("atif", json!({ "steps": [] })),
    ];
    assert_eq!(validator.refused(&broken).len(), 3);
}

#[test]
fn a_line_for_training_is_a_conversation_as_the_model_had_it() {
    let site =
        Site::scripted(&script(json!([bash("echo ran"), says("Done."), says("You are welcome.")])));
    site.prompt("Do it.").ok();
    site.run(&["run", "--continue", "--format", "json", "Thanks."]).ok();
    for format in ["openai", "anthropic"] {
        let lines = values(&site, format);
        assert_eq!(lines.len(), 1, "{format}");
        let messages = lines[0]["messages"].as_array().unwrap();
        assert_eq!(messages.last().unwrap()["content"], "You are welcome.", "{format}");
        let prompts = messages.iter().filter(|message| message["content"] == "Thanks.");
        assert_eq!(prompts.count(), 1, "{format}");
    }
    let openai = &values(&site, "openai")[0];
    let called = openai["messages"].as_array().unwrap().iter().find_map(|message| {
        let call = &message["tool_calls"][0]["function"];
        (call["name"] == "bash").then(|| call["arguments"].clone())
    });
    assert!(called.unwrap().as_str().unwrap().contains(r#""command":"echo ran""#));
    // a summary ends one conversation and begins another
    let lines = values(&compacted(), "openai");
    assert_eq!(lines.len(), 2);
    assert!(!lines[0].to_string().contains("Half is done."), "{}", lines[0]);
    assert!(lines[1].to_string().contains("Half is done."), "{}", lines[1]);
}

#[test]
fn a_trajectory_has_each_step_with_its_results_and_subagents() {
    let whole = &values(&plain(), "atif")[0];
    let steps = whole["steps"].as_array().unwrap();
    let sources: Vec<&str> = steps.iter().map(|step| step["source"].as_str().unwrap()).collect();
    assert_eq!(sources, ["system", "user", "agent", "agent", "agent", "agent", "agent"]);
    assert_eq!(steps[5]["tool_calls"][0]["function_name"], "bash");
    let output = steps[5]["observation"]["results"][0]["content"].as_str().unwrap();
    assert!(output.starts_with("ran\n"), "{output}");
    let tokens = |name: &str| -> u64 {
        steps.iter().filter_map(|step| step["metrics"][name].as_u64()).sum()
    };
    assert_eq!(whole["final_metrics"]["total_prompt_tokens"], tokens("prompt_tokens"));
    assert!(tokens("completion_tokens") > 0);

    let whole = &values(&subagents(), "atif")[0];
    let inner = whole["subagent_trajectories"].as_array().unwrap();
    let known: Vec<&Value> = inner.iter().map(|inner| &inner["trajectory_id"]).collect();
    let refs = whole.to_string().matches("subagent_trajectory_ref").count();
    assert!(!known.is_empty() && refs == known.len(), "{refs} {known:?}");
    for step in whole["steps"].as_array().unwrap() {
        for result in step["observation"]["results"].as_array().into_iter().flatten() {
            let named = &result["subagent_trajectory_ref"][0]["trajectory_id"];
            assert!(named.is_null() || known.contains(&named), "{named}");
        }
    }
}

fn database(site: &Site) -> Connection {
    let file = site.path("runs.db");
    site.run(&["export", "--all", "--format", "sqlite", "-o", file.to_str().unwrap()]).ok();
    Connection::open(file).unwrap()
}

fn number(database: &Connection, sql: &str) -> i64 {
    database.query_row(sql, [], |row| row.get(0)).unwrap_or_else(|error| panic!("{sql}: {error}"))
}

/// The queries of all pages.
fn queries() -> Vec<String> {
    let pages = std::fs::read_dir(common::root().join("docs")).unwrap();
    let pages = pages.map(|page| page.unwrap().path()).filter(|page| page.is_file());
    let queries = |page: String| {
        let blocks = page.split("```sql\n").skip(1);
        blocks.map(|block| block.split("```").next().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let pages =
        pages.map(|page| String::from_utf8_lossy(&std::fs::read(page).unwrap()).into_owned());
    pages.flat_map(queries).collect()
}

#[test]
fn a_database_has_all_sessions_and_answers_the_queries_of_its_page() {
    let queries = queries();
    assert_eq!(queries.len(), 10);
    let mut answered = vec![0; queries.len()];
    let again = json!([bash("echo twice"), bash("echo twice"), says("Done.")]);
    let again = Site::scripted(&script(again));
    again.prompt("go").ok();
    let limited = Site::scripted(&script(json!([bash("echo once")])));
    limited.run(&["run", "--max-steps", "1", "--format", "json", "go"]).with(4);
    let snapshots = plain().setting("/snapshot", json!(true));
    snapshots.file("notes.txt", "old words\n");
    snapshots.prompt("Repair the notes.").ok();
    let more =
        [("again", again), ("limited", limited), ("snapshots", snapshots)].map(|(name, site)| {
            let session = "last".to_owned();
            Shown { name, site, session, shows: vec![], hides: vec![] }
        });
    for Shown { name, site, hides, .. } in sessions().into_iter().chain(more) {
        let database = database(&site);
        let file = std::fs::read(site.path("runs.db")).unwrap();
        for hidden in hides {
            let hidden = hidden.as_bytes();
            assert!(!file.windows(hidden.len()).any(|window| window == hidden), "{name}");
        }
        let sessions: i64 = number(&database, "SELECT count(*) FROM sessions");
        assert!(sessions >= 1, "{name}");
        if name != "snapshots" {
            let lines = site.exported();
            let count =
                |kind: &str| lines.iter().filter(|line| line["type"] == kind).count() as i64;
            let events = lines.iter().filter(|line| line["seq"].is_u64()).count() as i64;
            assert_eq!(number(&database, "SELECT count(*) FROM events"), events, "{name}");
            let requests = number(&database, "SELECT count(*) FROM requests");
            assert_eq!(requests, count("model.requested"), "{name}");
            let calls = number(&database, "SELECT count(*) FROM calls");
            assert_eq!(calls, count("tool.called") + count("tool.batched"), "{name}");
            let ended = number(&database, "SELECT count(*) FROM turns WHERE reason IS NOT NULL");
            assert_eq!(ended, count("turn.ended"), "{name}");
        }
        let wrong = "SELECT count(*) FROM turns WHERE input > (SELECT sum(requests.input) FROM requests \
             WHERE requests.session = turns.session)";
        assert_eq!(number(&database, wrong), 0, "{name}");
        for (query, answered) in queries.iter().zip(&mut answered) {
            let mut prepared = database.prepare(query).unwrap_or_else(|e| panic!("{query}: {e}"));
            let mut rows = prepared.query([]).unwrap();
            while rows.next().unwrap_or_else(|error| panic!("{query}: {error}")).is_some() {
                *answered += 1;
            }
        }
    }
    for (query, rows) in queries.iter().zip(answered) {
        assert!(rows > 0, "no session has an answer to {query}");
    }
}

#[test]
fn a_fork_counts_only_what_is_its_own() {
    let site = Site::scripted(&script(json!([bash("echo one"), says("One."), says("Two.")])));
    site.prompt("First.").ok();
    site.run(&["run", "--continue", "--fork", "--format", "json", "Second."]).ok();
    let database = database(&site);
    assert_eq!(number(&database, "SELECT count(*) FROM sessions"), 2);
    assert_eq!(number(&database, "SELECT count(*) FROM sessions WHERE fork_of IS NOT NULL"), 1);
    assert_eq!(number(&database, "SELECT count(*) FROM turns"), 2);
    assert_eq!(number(&database, "SELECT count(*) FROM requests"), 3);
    assert_eq!(number(&database, "SELECT count(*) FROM calls"), 1);
    let of_fork =
        "SELECT count(*) FROM turns JOIN sessions ON id = session WHERE fork_of IS NOT NULL";
    assert_eq!(number(&database, of_fork), 1);
}

#[test]
fn what_no_format_can_do_is_refused() {
    let site = Site::scripted(&script(json!([says("Hello.")])));
    site.prompt("hi").ok();
    let folder = site.project();
    let folder = folder.to_str().unwrap();
    for (args, says) in [
        (&["export", "last", "--format", "sqlite"][..], "-o FILE"),
        (&["export", "last", "last", "--format", "md"], "only `sqlite`"),
        (&["export", "--all"], "only `sqlite`"),
        (&["export"], "SESSION"),
        (&["export", "last", "--all", "--format", "sqlite", "-o", "x.db"], "--all"),
    ] {
        site.run(args).with(2).saying(&[says]);
    }
    let ran = site.run(&["export", "last", "--format", "sqlite", "-o", folder]);
    ran.with(1).saying(&["cannot be written"]);
}

#[test]
fn formats_of_other_tools_are_always_masked() {
    let site = Site::scripted(&script(json!([says("Hello.")])));
    site.prompt("hi").ok();
    for format in ["md", "openai", "anthropic", "atif"] {
        for option in ["--unmasked", "--bundle"] {
            let ran = site.run(&["export", "last", "--format", format, option]);
            ran.with(2).saying(&["always masked"]);
        }
        let file = site.path("run.out");
        site.run(&["export", "last", "--format", format, "-o", file.to_str().unwrap()]).ok();
        assert_eq!(std::fs::read_to_string(file).unwrap(), exported(&site, format));
    }
}
