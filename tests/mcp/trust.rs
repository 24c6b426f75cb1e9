//! Where servers start, and that a project's server starts only as the user has trusted it, also when it starts again in
//! the middle of a turn.

use common::{Site, bash, call, mcp, says, script};
use serde_json::{Value, json};

const SERVER: &str = "trust::the_server_answers";

#[test]
fn the_server_answers() {
    mcp::serve_if_asked();
}

/// A site whose trusted project starts a server by a script.
fn site(replies: &[Value]) -> Site {
    let site = Site::scripted(&script(json!(replies)))
        .setting("/permission", json!({ "m_*": "allow", "bash": "allow" }));
    let mut server = mcp::local(SERVER, "shell");
    let words: Vec<String> = serde_json::from_value(server["command"].take()).unwrap();
    let words: Vec<String> = words.iter().map(|word| format!("'{word}'")).collect();
    site.file_of_stranger("tools/srv.sh", format!("exec {}\n", words.join(" ")));
    server["command"] = json!(["sh", "tools/srv.sh"]);
    site.file("leftfold.json", json!({ "mcp": { "m": server } }).to_string());
    site
}

fn in_server(line: &str) -> Value {
    call("m_shell", json!({ "text": line }))
}

#[test]
fn a_server_that_has_ended_starts_again_only_if_its_script_has_not_changed() {
    for (change, starts) in [("true", true), ("echo '# more' >> tools/srv.sh", false)] {
        // the first server is the parent of the shell
        let replies = [
            in_server("echo $((1)) one"),
            bash(change),
            in_server("kill -9 $PPID"),
            in_server("echo $((2)) two"),
            says("Done."),
        ];
        let site = site(&replies);
        let events = site.prompt("go").ok().events();
        let outputs: Vec<String> = events.iter().map(|event| event["data"].to_string()).collect();
        let said = |text: &str| outputs.iter().any(|output| output.contains(text));
        assert!(said("1 one"), "{outputs:?}");
        assert_eq!(said("2 two"), starts, "{outputs:?}");
        assert_eq!(said("has changed since you trusted"), !starts, "{outputs:?}");
        let started = site.text("started");
        assert_eq!(started.lines().count(), if starts { 2 } else { 1 }, "{started}");
    }
}

#[test]
fn a_server_of_the_user_starts_in_the_project_if_the_user_says_so_or_trusts_it() {
    for (cwd, is_trusted, in_project) in [
        (None, false, false),
        (None, true, true),
        (Some("{project}"), false, true),
        (Some("{project}"), true, true),
    ] {
        let mut server = mcp::local(SERVER, "");
        match cwd {
            Some(cwd) => server["cwd"] = json!(cwd),
            None => drop(server.as_object_mut().unwrap().remove("cwd")),
        }
        let site =
            Site::scripted(&script(json!([says("Done.")]))).setting("/mcp", json!({ "m": server }));
        let settings = r#"{ "retry": { "attempts": 3 } }"#;
        match is_trusted {
            true => site.file("leftfold.json", settings),
            false => site.file_of_stranger("leftfold.json", settings),
        };
        let _ = std::fs::remove_file(site.project().join("started"));
        site.prompt("go").ok();
        let found =
            [site.project(), site.path("home/programs")].map(|it| it.join("started").exists());
        assert_eq!(found[0], in_project, "{cwd:?} {is_trusted}");
        assert!(in_project || found[1], "{cwd:?} {is_trusted}");
    }
}
