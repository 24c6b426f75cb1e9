//! MCP servers: their tools, calls, and how they end.

use common::{
    Answer, Block, Editor, Live, Ran, Server, Site, Split, all, call, end, mcp, message, only,
    says, script, wait_until,
};
use leftfold_events::Sha256;
use rustix::process::Signal;
use serde_json::{Value, json};

const SERVER: &str = "servers::the_server_answers";

#[test]
fn the_server_answers() {
    mcp::serve_if_asked();
    let site = site(&[], "");
    let listed = listed(&site);
    assert_eq!((listed.len(), &listed[0]["status"]), (1, &json!("connected")), "{listed:?}");
}

/// A site with the server `m`, and a model that makes these calls, one a step.
fn site(calls: &[(&str, Value)], manner: &str) -> Site {
    let mut replies: Vec<Value> = calls.iter().map(|(name, input)| call(name, input)).collect();
    replies.push(says("So be it."));
    let site = Site::scripted(&script(json!(replies)));
    site.setting("/mcp", json!({ "m": mcp::local(SERVER, manner) }))
}

/// The report of `leftfold mcp` on each server.
fn listed(site: &Site) -> Vec<Value> {
    let ran = site.run(&["mcp", "--format", "json"]).ok();
    ran.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// The results of a completed turn's calls; for a refused call, the reason.
fn results(ran: Ran) -> Vec<Value> {
    let events = ran.ok().events();
    assert_eq!(end(&events)["text"], "So be it.");
    let refused = |event: &&Value| event["data"]["error"].is_string();
    let refused = all(&events, "tool.resolved").into_iter().filter(refused);
    let finished = all(&events, "tool.finished").into_iter().chain(refused);
    finished.map(|event| event["data"].clone()).collect()
}

/// Whether a call was refused with a reason that contains `why`.
fn is_refused(result: &Value, why: &str) -> bool {
    result["error"].as_str().is_some_and(|error| error.contains(why))
}

#[test]
fn tools_are_listed_with_names_that_every_model_takes() {
    let site = site(&[], "");
    let server = &listed(&site)[0];
    assert_eq!(server["server"], json!({ "name": "double", "version": "1.5" }));
    assert_eq!((&server["type"], &server["error"]), (&json!("local"), &Value::Null));
    let named = |tool: &str| {
        let tools = server["tools"].as_array().unwrap();
        tools.iter().find(|known| known["tool"] == tool).unwrap().clone()
    };
    assert_eq!(
        (&named("echo")["name"], &named("echo")["read_only"]),
        (&json!("m_echo"), &json!(true))
    );
    assert_eq!(named("list/all")["name"], "m_list_all");
    assert_eq!(named("write")["read_only"], false);
    let text = site.run(&["mcp"]).ok().stdout;
    assert!(text.starts_with("m  local  connected (double 1.5)\n  m_grow  The tool"), "{text}");
}

#[test]
fn a_tool_whose_name_is_shortened_can_be_called() {
    let server = "s".repeat(70);
    let hash = Sha256::digest(format!("{server}\0echo").as_bytes()).to_string();
    let name = format!("{}_{}", &server[..55], &hash[..8]);
    let site = site(&[(&name, json!({ "text": "hello" }))], "");
    let site = site.setting("/mcp", json!({ server: mcp::local(SERVER, "") }));
    let results = results(site.prompt("go"));
    assert_eq!(results[0]["output"], "You said hello.");
}

#[test]
fn each_tool_of_a_server_names_it() {
    let site = site(&[], "");
    let events = site.prompt("go").ok().events();
    for kind in ["turn.configured", "model.requested"] {
        let seq = all(&events, kind)[0]["seq"].to_string();
        let text = site.run(&["explain", "last", &seq]).ok().stdout;
        let line = text.lines().find(|line| line.starts_with("  MCP server m: "));
        let line = line.unwrap_or_else(|| panic!("{text}"));
        assert!(line.contains("m_echo") && line.contains("m_list_all"), "{line}");
        assert!(!line.contains("bash"), "{line}");
    }
}

#[test]
fn a_call_is_made_and_nothing_of_it_needs_the_server_again() {
    let calls = [
        ("m_echo", json!({ "text": "hello" })),
        ("M_nope", json!({})),
        ("M_Echo", json!({ "text": "again" })),
    ];
    let site = site(&calls, "");
    let live = site.start(&["run", "--format", "json", "go"]);
    let node = live.id();
    let results = results(live.wait());
    assert_eq!(
        (&results[0]["output"], &results[0]["is_error"]),
        (&json!("You said hello."), &json!(false))
    );
    assert_eq!(results[0]["metadata"], json!({ "server": "m", "tool": "echo" }));
    assert_eq!(results[1]["output"], "You said again.");
    assert!(is_refused(&results[2], "There is no tool named"), "{}", results[2]);
    let error = results[2]["error"].as_str().unwrap();
    assert!(error.contains(", m_echo") && !error.contains("apply_patch"), "{error}");
    assert_eq!(mcp::servers_of(node), [0; 0]);
    assert_eq!(mcp::starts(&site.project()), 1);
    let events = site.exported();
    let resolved = &all(&events, "tool.resolved")[0]["data"];
    assert_eq!(
        (&resolved["class"], &resolved["access"][0]["permission"]),
        (&json!("read"), &json!("m_echo"))
    );
    site.assert_sound();
    site.run(&["rerun", "last"]).ok();
    let shown = site.run(&["replay", "last"]).ok().stdout;
    assert!(shown.contains("m_echo"), "{shown}");
    assert_eq!(mcp::starts(&site.project()), 1);
}

/// A server's word that a tool only reads is no reason to trust it.
#[test]
fn an_agent_that_changes_nothing_calls_tools_after_a_question() {
    let said = || json!({ "text": "x" });
    let calls = || {
        let own = [call("m_echo", said()), call("m_write", said())];
        let task = json!({ "description": "d", "prompt": "work", "subagentType": "general" });
        let of_child = |answers: u32| {
            let (tool, input) = ("m_echo", said());
            json!({ "match": { "prompt": "work", "answers": answers },
                "parts": [if answers == 0 { json!({ "call": { "name": tool, "input": input } }) } else { json!({ "text": "Done." }) }] })
        };
        let ends = [call("task", task), says("So be it."), of_child(0), of_child(1)];
        Value::from([own.to_vec(), ends.to_vec()].concat())
    };
    let all_allowed = json!({ "*": "allow" });
    let named = json!({ "m_*": "allow" });
    for (agent, rules, runs) in [
        ("build", json!({}), true),
        ("plan", json!({}), false),
        ("plan", all_allowed, false),
        ("plan", named, true),
    ] {
        let site = Site::scripted(&script(calls()))
            .setting("/mcp", json!({ "m": mcp::local(SERVER, "") }))
            .setting("/permission", rules.clone());
        let events = site.run(&["run", "--format", "json", "--agent", agent, "go"]).ok().events();
        let of_tools = |kind: &str| {
            let all = all(&events, kind).into_iter().map(|event| &event["data"]);
            all.filter(|data| data["name"].as_str().is_some_and(|it| it.starts_with("m_"))).count()
        };
        assert_eq!(of_tools("tool.started"), if runs { 3 } else { 0 }, "{agent} {rules}");
    }
}

#[test]
fn errors_pictures_and_long_texts() {
    let site = site(
        &[
            ("m_fail", json!({ "text": "luck" })),
            ("m_picture", json!({})),
            ("m_long", json!({})),
            ("m_missing", json!({})),
            ("m_echo", json!("[]")),
        ],
        "",
    );
    let results = results(site.prompt("go"));
    let is_error: Vec<bool> = results.iter().map(|result| result["is_error"] == true).collect();
    assert_eq!(is_error, [true, false, false, false, false]);
    assert_eq!(
        (&results[0]["output"], &results[0]["metadata"]["error_kind"]),
        (&json!("No luck here."), &json!("mcp"))
    );
    assert_eq!(results[1]["attachments"][0]["mime"], "image/png");
    assert!(results[2]["spill"]["bytes"].as_u64().unwrap() == 36_000, "{}", results[2]["spill"]);
    assert!(is_refused(&results[3], "The tools of the MCP server \"m\" are: m_grow, m_write"));
    assert!(is_refused(&results[4], "The m_echo tool was called with invalid arguments"));
    site.assert_sound();
}

#[test]
fn children_get_no_keys_but_what_settings_give_them() {
    let mut server = mcp::local(SERVER, "");
    server["environment"]["MY_TOKEN"] = "given".into();
    server["environment"]["MY_UNSET"] = "{env:NOT_SET_ANYWHERE}".into();
    let site = site(&[("m_environment", json!({}))], "")
        .env("DEPLOY_TOKEN", "secret")
        .setting("/mcp", json!({ "m": server }));
    let results = results(site.prompt("go"));
    let names: Vec<&str> = results[0]["output"].as_str().unwrap().split(' ').collect();
    assert!(names.contains(&"PATH") && names.contains(&"MY_TOKEN"), "{names:?}");
    for name in ["DEPLOY_TOKEN", "MY_UNSET", "LEFTFOLD_HOME", "LEFTFOLD_CONFIG_CONTENT"] {
        assert!(!names.contains(&name), "{names:?}");
    }
}

#[test]
fn rules_decide_by_the_name_of_the_tool() {
    let calls = [("m_write", json!({ "text": "x" })), ("m_echo", json!({}))];
    let site = site(&calls, "").setting("/permission", json!({ "m_*": "ask", "m_echo": "allow" }));
    let events = site.prompt("go").ok().events();
    assert_eq!(end(&events)["permission_denials"].as_array().unwrap().len(), 1);
    assert!(
        all(&events, "tool.finished").iter().any(|e| e["data"]["output"] == "You said nothing.")
    );
    assert_eq!(site.text("written"), "");
    site.assert_sound();
}

#[test]
fn a_tool_that_is_denied_is_not_offered() {
    let site = site(&[("m_echo", json!({}))], "").setting("/permission", json!({ "m_*": "deny" }));
    let events = site.prompt("go").ok().events();
    assert_eq!(end(&events)["permission_denials"].as_array().unwrap().len(), 1);
    let exported = site.run(&["export", "last"]).ok().stdout;
    assert!(!exported.contains("The tool echo of a double."), "{exported}");
}

#[test]
fn no_name_is_that_of_a_built_in_tool() {
    let site = Site::bare().setting("/mcp", json!({}));
    let site = site.setting("/mcp", json!({ "apply": mcp::local(SERVER, "") }));
    let tools = listed(&site)[0]["tools"].clone();
    let names: Vec<&str> =
        tools.as_array().unwrap().iter().map(|tool| tool["name"].as_str().unwrap()).collect();
    assert!(!names.contains(&"apply_patch"), "{names:?}");
    assert!(names.iter().any(|name| name.starts_with("apply_patch_")), "{names:?}");
}

#[test]
fn one_that_does_not_start_is_told_of_and_left_out() {
    let mut silent = mcp::local(SERVER, "silent");
    silent["timeout"] = 300.into();
    let servers = json!({
        "silent": silent,
        "absent": { "type": "local", "command": ["no-such-program-anywhere"] },
        "loud": { "type": "local", "command": ["sh", "-c", "echo it is broken >&2; exit 7"] },
        "empty": { "type": "remote" },
        "unset": { "url": "{env:NOT_SET_ANYWHERE}" },
        "off": { "enabled": false, "command": ["no-such-program-anywhere"] },
        "m": mcp::local(SERVER, ""),
    });
    let site = site(&[("m_echo", json!({})), ("silent_x", json!({}))], "");
    let site = site.setting("/mcp", servers).unsandboxed();
    let live = site.start(&["run", "--format", "json", "go"]);
    let node = live.id();
    let ran = live.wait().saying(&[
        "MCP server `silent`: it did not start within 300 ms",
        "MCP server `absent`: cannot start `no-such-program-anywhere`",
        "MCP server `loud`: it ended at once (exit status: 7); it said: it is broken",
        "LEFTFOLD_CONFIG_CONTENT:1:",
        "`mcp.empty` has no `url`",
        "`mcp.unset.url` needs the environment variable NOT_SET_ANYWHERE",
    ]);
    assert_eq!(ran.stderr.matches("MCP server").count(), 5, "{ran:?}");
    let results = results(ran);
    assert_eq!(results[0]["output"], "You said nothing.");
    assert!(is_refused(&results[1], "The MCP server \"silent\" cannot be used now"));
    assert_eq!(mcp::servers_of(node), [0; 0]);
    let status: Vec<Value> = listed(&site).iter().map(|server| server["status"].clone()).collect();
    let failed = "failed";
    assert_eq!(status, [failed, failed, failed, failed, failed, "disabled", "connected"]);
}

#[test]
fn one_that_ends_within_a_call_is_started_again_for_the_next() {
    let site = site(&[("m_crash", json!({})), ("m_echo", json!({}))], "");
    let results = results(site.prompt("go"));
    let said = results[0]["output"].as_str().unwrap();
    assert!(said.contains("ended before the call did") && results[0]["is_error"] == true, "{said}");
    assert_eq!(results[1]["output"], "You said nothing.");
    assert_eq!(mcp::starts(&site.project()), 2);
    site.assert_sound();
}

#[test]
fn one_that_does_not_end_is_ended_with_all_it_has_started() {
    let site = site(&[("m_echo", json!({}))], "deaf");
    let live = site.start(&["run", "--format", "json", "go"]);
    let node = live.id();
    assert_eq!(results(live.wait()).len(), 1);
    assert_eq!(mcp::servers_of(node), [0; 0]);
}

/// A turn whose call hangs and has reported progress.
fn hanging(manner: &str) -> (Site, Live) {
    let site = site(&[("m_hang", json!({}))], manner);
    let mut live = site.start(&["run", "--format", "json", "go"]);
    let progressed = live.until("tool.progressed");
    assert_eq!(progressed["data"]["tail"], "half way");
    (site, live)
}

#[test]
fn a_call_that_is_cancelled_is_cancelled_at_the_server() {
    let (site, live) = hanging("");
    let node = live.id();
    live.signal(Signal::INT);
    let events = live.wait().with(130).events();
    assert_eq!(end(&events)["reason"], "aborted");
    assert_eq!(only(&events, "tool.cancelled")["of"], only(&events, "tool.called")["seq"]);
    wait_until("the server knows", || !site.text("cancelled").is_empty());
    assert_eq!(mcp::servers_of(node), [0; 0]);
    site.assert_sound();
}

#[test]
fn what_a_killed_node_leaves_behind_is_ended_by_the_next() {
    let (site, live) = hanging("deaf");
    let node = live.id();
    assert!(mcp::servers_of(node).len() >= 2);
    live.signal(Signal::KILL);
    live.wait();
    // the kernel ends a server in the sandbox at once
    assert!(common::in_sandbox() || !mcp::servers_of(node).is_empty());
    let events = site.run(&["resume", "--format", "json", "last"]).ok().events();
    assert_eq!(end(&events)["text"], "So be it.");
    assert_eq!(mcp::servers_of(node), [0; 0]);
    site.assert_sound();
}

#[test]
fn remote_ones_are_spoken_to_by_http_with_their_headers() {
    let remote = mcp::remote();
    let server = json!({ "type": "remote", "url": remote.url, "headers": { "X-Key": "k-123" } });
    let site = site(&[("far_echo", json!({ "text": "hello" }))], "");
    let site = site.setting("/mcp", json!({ "far": server }));
    let results = results(site.prompt("go"));
    assert_eq!(results[0]["output"], "You said hello.");
    let keys = remote.keys.lock().unwrap().clone();
    assert!(keys.len() >= 4 && keys.iter().all(|key| key == "k-123"), "{keys:?}");
    let exported = site.run(&["export", "last"]).ok().stdout;
    assert!(!exported.contains("k-123"));
    site.assert_sound();
}

#[test]
fn a_redirect_takes_no_key_and_no_session_to_another_server() {
    let other = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let remote = mcp::remote_redirecting(&format!("http://{}/mcp", other.local_addr().unwrap()));
    let server = json!({ "type": "remote", "url": remote.url, "headers": { "X-Key": "k-123" } });
    let site = site(&[("far_echo", json!({ "text": "hello" }))], "");
    let site = site.setting("/mcp", json!({ "far": server }));
    site.prompt("go").ok().saying(&["MCP server `far`: "]);
    assert!(remote.keys.lock().unwrap().len() >= 2, "it was not asked after `initialize`");
    other.set_nonblocking(true).unwrap();
    let reached = other.accept().err().map(|error| error.kind());
    assert_eq!(reached, Some(std::io::ErrorKind::WouldBlock));
}

#[test]
fn a_remote_one_that_is_not_there_is_told_of() {
    // nobody listens any more
    let address = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let server = json!({ "type": "remote", "url": format!("http://{address}/mcp") });
    let site = site(&[], "").setting("/mcp", json!({ "far": server }));
    let ran = site.prompt("go").ok().saying(&["MCP server `far`: no connection"]);
    assert_eq!(results(ran), [Value::Null; 0]);
}

#[test]
fn models_are_told_of_the_tools_as_their_apis_take_them() {
    let stream = |blocks: &[Block]| Answer::Stream(message(blocks), Split::Whole);
    let echo = Block::Call("toolu_1", "m_echo", json!({ "text": "hello" }).to_string());
    let server = Server::start(vec![stream(&[echo]), stream(&[Block::Text("So be it.")])]);
    let site = Site::served(&server).setting("/mcp", json!({ "m": mcp::local(SERVER, "") }));
    assert_eq!(results(site.prompt("go"))[0]["output"], "You said hello.");
    let requests = server.requests();
    let tools = requests[0].body["tools"].as_array().unwrap();
    let told = tools.iter().find(|tool| tool["name"] == "m_echo").unwrap();
    assert_eq!(told["description"], "The tool echo of a double.");
    let schema = json!({ "type": "object", "properties": { "text": { "type": "string" } } });
    assert_eq!(told["input_schema"], schema);
    assert!(requests[1].body["messages"].to_string().contains("You said hello."));
}

/// A node whose model makes this call at each prompt.
fn calling(name: &str) -> (Site, Editor) {
    let replies: Vec<Value> =
        (0..200).flat_map(|n| [call(name, json!({ "n": n })), says("So be it.")]).collect();
    let site = Site::scripted(&script(json!(replies)));
    let site = site.setting("/mcp", json!({ "m": mcp::local(SERVER, "") }));
    let editor = Editor::start(&site, &[]);
    (site, editor)
}

#[test]
fn sessions_of_a_project_share_a_server_and_it_ends_with_their_node() {
    let (site, mut editor) = calling("m_echo");
    let node = editor.live.id();
    let sessions = [editor.session(&site), editor.session(&site)];
    for session in &sessions {
        let prompt = editor.prompt(session, "go");
        assert_eq!(editor.stop_reason(prompt), "end_turn");
        let events = site.run(&["export", session]).ok().events();
        assert_eq!(only(&events, "tool.finished")["data"]["output"], "You said nothing.");
    }
    assert_eq!(mcp::starts(&site.project()), 1);
    assert_ne!(mcp::servers_of(node), [0; 0]);
    editor.leave();
    wait_until("the server is gone", || mcp::servers_of(node).is_empty());
}

#[test]
fn a_client_ends_the_servers_of_a_directory_and_the_next_prompt_starts_them_again() {
    let (site, mut editor) = calling("m_echo");
    let node = editor.live.id();
    let sessions = [editor.session(&site), editor.session(&site)];
    let ask = |editor: &mut Editor, session: &str| {
        let prompt = editor.prompt(session, "go");
        assert_eq!(editor.stop_reason(prompt), "end_turn");
        let events = site.run(&["export", session]).ok().events();
        assert_eq!(only(&events, "tool.finished")["data"]["output"], "You said nothing.");
    };
    ask(&mut editor, &sessions[0]);
    assert_ne!(mcp::servers_of(node), [0; 0]);
    let dispose = |editor: &mut Editor, directory: &std::path::Path| {
        let asked = editor.ask("_leftfold/dispose", json!({ "directory": directory }));
        editor.result(asked)["disposed"].as_u64().unwrap()
    };
    assert_eq!(dispose(&mut editor, std::path::Path::new("/")), 0);
    assert_ne!(mcp::servers_of(node), [0; 0]);
    assert!(dispose(&mut editor, &site.project()) >= 1);
    assert_eq!(mcp::servers_of(node), [0; 0], "they are gone when the answer comes");
    ask(&mut editor, &sessions[1]);
    assert_eq!(mcp::starts(&site.project()), 2);
    editor.leave();
}

#[test]
fn what_an_editor_hands_over_counts_for_its_session() {
    let of = mcp::local(SERVER, "");
    let (program, args) = of["command"].as_array().unwrap().split_first().unwrap();
    let env = of["environment"].as_object().unwrap().iter();
    let env: Vec<Value> =
        env.map(|(name, value)| json!({ "name": name, "value": value })).collect();
    let server = json!({ "name": "m", "command": program, "args": args, "env": env });
    let site = site(&[("m_echo", json!({}))], "");
    let site = site.setting("/mcp", json!({ "m": { "command": ["no-such-program-anywhere"] } }));
    let mut editor = Editor::start(&site, &[]);
    let ask = json!({ "cwd": site.project(), "mcpServers": [server] });
    let asked = editor.ask("session/new", ask);
    let session = editor.result(asked)["sessionId"].as_str().unwrap().to_owned();
    let prompt = editor.prompt(&session, "go");
    assert_eq!(editor.stop_reason(prompt), "end_turn");
    let events = site.run(&["export", &session]).ok().events();
    assert_eq!(only(&events, "tool.finished")["data"]["output"], "You said nothing.");
    editor.leave();
}

/// An editor learns of the server's prompts once a turn has waited for the server.
#[test]
fn its_prompts_are_commands_of_an_editor_after_the_first_turn() {
    let site = Site::scripted(&script(json!([says("One."), says("Two.")])));
    let site = site.setting("/mcp", json!({ "m": mcp::local(SERVER, "") }));
    let mut editor = Editor::start(&site, &[]);
    let session = editor.session(&site);
    let prompt = editor.prompt(&session, "go");
    assert_eq!(editor.stop_reason(prompt), "end_turn");
    let updates = editor.updates(&session);
    let mut offers = updates.iter().filter_map(|update| update["availableCommands"].as_array());
    let mut latest = offers.next_back().unwrap().iter();
    let greet = latest.find(|command| command["name"] == "m:greet").unwrap();
    assert_eq!(greet["description"], "Greets somebody.");
    let prompt = editor.prompt(&session, "/m:greet the world");
    assert_eq!(editor.stop_reason(prompt), "end_turn");
    editor.leave();
    let events = site.run(&["export", &session]).ok().events();
    let prompted = all(&events, "turn.prompted");
    assert_eq!(prompted[1]["data"]["parts"][0]["text"], "Greet the world.");
}

#[test]
fn tools_that_come_later_are_offered_to_later_prompts() {
    let (site, mut editor) = calling("m_grow");
    let session = editor.session(&site);
    let prompts = (0..200).position(|_| {
        let prompt = editor.prompt(&session, "go");
        assert_eq!(editor.stop_reason(prompt), "end_turn");
        site.run(&["export", &session]).ok().stdout.contains("The tool grown of a double.")
    });
    assert!(prompts.is_some_and(|prompts| prompts > 0), "{prompts:?}");
    assert_eq!(mcp::starts(&site.project()), 1);
    editor.leave();
}

#[test]
fn a_secret_reaches_the_server_and_no_log() {
    let secret = json!({ "text": "{{secret:DEPLOY}}" });
    let site = site(
        &[
            ("m_write", secret.clone()),
            ("m_echo", secret),
            ("m_echo", json!({ "text": "{{secret:NONE}}" })),
        ],
        "",
    )
    .setting("/secrets", json!({ "DEPLOY": "canary-0123456789" }));
    let results = results(site.prompt("go"));
    assert_eq!(site.text("written"), "canary-0123456789");
    assert_eq!(results[1]["output"], "You said {{secret:DEPLOY}}.");
    assert!(is_refused(&results[2], "there is no secret named `NONE`"), "{}", results[2]);
    let exported = site.run(&["export", "last"]).ok().stdout;
    assert!(!exported.contains("canary-0123456789"), "{exported}");
    site.assert_sound();
}
