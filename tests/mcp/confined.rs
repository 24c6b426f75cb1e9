//! MCP servers in the sandbox: what they reach, what they do not see, and how they end.
#![cfg(target_os = "linux")]

use std::fs;
use std::io::Write;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;

use common::{Ran, Site, all, call, mcp, says, script, skipped, sleeping, wait_until};
use rustix::process::Signal;
use serde_json::{Value, json};

const SERVER: &str = "confined::the_server_answers";

#[test]
fn the_server_answers() {
    mcp::serve_if_asked();
}

/// A site in the sandbox, with keys, data and a repository, and a model that runs these shell lines in the server `m`.
fn site(lines: &[&str]) -> Site {
    let replies = lines.iter().map(|line| call("m_shell", json!({ "text": line })));
    let replies: Vec<Value> = replies.chain([says("Done.")]).collect();
    let site = Site::scripted(&script(json!(replies))).sandboxed();
    let git = std::process::Command::new("git").args(["init", "-q"]).arg(site.project()).status();
    assert!(git.unwrap().success());
    for (name, text) in [
        ("user/.ssh/id", "PRIVATE"),
        ("user/.aws/credentials", "PRIVATE"),
        ("home/auth.json", r#"{ "x": { "type": "api", "key": "PRIVATE" } }"#),
        ("config/leftfold/leftfold.json", "{ \"username\": \"PRIVATE\" }"),
        ("config/leftfold/server.txt", "script"),
        ("project/.env", "KEY=1"),
    ] {
        fs::create_dir_all(site.path(name).parent().unwrap()).unwrap();
        fs::write(site.path(name), text).unwrap();
    }
    fs::set_permissions(site.path("home/auth.json"), fs::Permissions::from_mode(0o600)).unwrap();
    site.setting("/permission", json!({ "m_*": "allow" }))
}

fn server(sandbox: &Value) -> Value {
    let mut server = mcp::local(SERVER, "shell");
    server["sandbox"] = sandbox.clone();
    server
}

/// Whether each line succeeded, and its output.
fn results(ran: Ran) -> Vec<(bool, String)> {
    assert!(!ran.stderr.contains("MCP server"), "{}", ran.stderr);
    let events = ran.ok().events();
    let outputs = all(&events, "tool.finished").into_iter().map(|event| {
        let output = event["data"]["output"].as_str().unwrap();
        (output.starts_with("Some(0)"), output.to_owned())
    });
    outputs.collect()
}

/// Runs each line in the server, and compares whether it succeeds.
fn check(site: impl Fn(&[&str]) -> Site, tries: &[(&str, bool)]) {
    let lines: Vec<&str> = tries.iter().map(|(line, _)| *line).collect();
    let site = site(&lines);
    let results = results(site.prompt("go"));
    assert_eq!(results.len(), tries.len(), "{results:?}");
    for ((line, works), (worked, output)) in tries.iter().zip(results) {
        assert_eq!(worked, *works, "{line}: {output}");
        assert!(!output.contains("PRIVATE") || worked, "{line}: {output}");
    }
    site.assert_sound();
}

/// A server of the machine that says hello.
fn greeter() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            stream.unwrap().write_all(b"hello\n").unwrap();
        }
    });
    port
}

#[test]
fn a_server_of_the_user_reaches_everything_but_keys_the_store_and_other_processes() {
    let (port, pid) = (greeter(), std::process::id());
    check(
        |lines| site(lines).setting("/mcp", json!({ "m": server(&json!("on")) })),
        &[
            ("echo x > made && echo x > ../made && echo x > ~/.made", true),
            ("cat .env", true),
            ("cat $XDG_CONFIG_HOME/leftfold/server.txt", true),
            (
                &format!("exec 3<>/dev/tcp/127.0.0.1/{port}; read -r said <&3; [ $said = hello ]"),
                true,
            ),
            ("cat ~/.ssh/id", false),
            ("cat ~/.aws/credentials", false),
            ("cat ../home/auth.json", false),
            ("ls ../home | grep .", false),
            ("cat $XDG_CONFIG_HOME/leftfold/leftfold.json", false),
            ("echo {} > $XDG_CONFIG_HOME/leftfold/leftfold.jsonc", false),
            ("echo x > .git/hooks/post-commit", false),
            ("git config a.b c", false),
            (&format!("kill -0 {pid} || test -e /proc/{pid}/comm"), false),
            ("ls /run | grep -v -e resolv -e system -e Network", false),
        ],
    );
}

#[test]
fn settings_show_paths_to_one_server_or_turn_its_sandbox_off() {
    for (sandbox, aws, store) in [
        (json!({ "show": ["~/.aws"] }), true, false),
        (json!({ "mode": "off" }), true, true),
        (json!("off"), true, true),
    ] {
        check(
            |lines| site(lines).setting("/mcp", json!({ "m": server(&sandbox) })),
            &[("cat ~/.aws/credentials", aws), ("cat ../home/auth.json", store)],
        );
    }
}

#[test]
fn a_server_of_a_project_is_confined_like_a_command_with_the_network() {
    let port = greeter();
    let site = |lines: &[&str]| {
        let site = site(lines);
        let settings = json!({ "mcp": { "m": mcp::local(SERVER, "shell") } });
        site.file("leftfold.json", settings.to_string());
        site
    };
    check(
        site,
        &[
            ("echo x > made && echo x > /tmp/made", true),
            (
                &format!("exec 3<>/dev/tcp/127.0.0.1/{port}; read -r said <&3; [ $said = hello ]"),
                true,
            ),
            ("echo x > ~/.made", false),
            ("cat .env", false),
            ("cat ~/.ssh/id", false),
            ("cat ../home/auth.json", false),
        ],
    );
}

#[test]
fn nothing_of_a_server_survives_its_node() {
    let number = format!("2345.{}", std::process::id());
    let left = format!(
        "(env -i setsid sleep {number} & env -i setsid nohup sleep {number} &) > /dev/null 2>&1"
    );
    let wait = "sleep 60";
    let site = site(&[&left, wait]).setting("/mcp", json!({ "m": server(&json!("on")) }));
    let mut live = site.start(&["run", "--format", "json", "go"]);
    live.until("tool.finished");
    live.until("tool.started");
    wait_until("the processes", || sleeping(&number) == 2);
    let node = live.id();
    assert!(!mcp::servers_of(node).is_empty());
    live.signal(Signal::KILL);
    live.wait();
    wait_until("their end", || sleeping(&number) == 0 && mcp::servers_of(node).is_empty());
}

#[test]
fn nothing_of_a_server_survives_an_orderly_end() {
    let number = format!("3456.{}", std::process::id());
    let left = format!(
        "(env -i setsid sleep {number} & env -i setsid nohup sleep {number} &) > /dev/null 2>&1"
    );
    let site = site(&[&left]).setting("/mcp", json!({ "m": server(&json!("on")) }));
    let live = site.start(&["run", "--format", "json", "go"]);
    let node = live.id();
    assert!(results(live.wait())[0].0);
    assert_eq!((sleeping(&number), mcp::servers_of(node)), (0, vec![]));
}

#[test]
fn one_that_cannot_start_in_the_sandbox_is_told_of_with_the_setting_that_opts_out() {
    let servers = json!({
        "absent": { "command": ["no-such-program-anywhere"] },
        "loud": { "command": ["sh", "-c", "echo it is broken >&2; exit 7"] },
        // debug builds stop at this step
        "broken": { "command": ["cat"], "environment": { "LEFTFOLD_SANDBOX_CRASH": "init:9" } },
    });
    let site = site(&[]).setting("/mcp", servers);
    let ran = site.run(&["run", "go"]);
    let told = [
        "MCP server `absent`: cannot start `no-such-program-anywhere` in ",
        "MCP server `loud`: it ended at once (exit status: 7) in the sandbox, which `\"sandbox\": \"off\"` in its \
         settings turns off; it said: it is broken",
        "MCP server `broken`: it does not start: its sandbox, which `\"sandbox\": \"off\"` in its settings turns off, \
         could not be set up",
    ];
    ran.saying(&told[..if cfg!(debug_assertions) { 3 } else { 2 }]);
}

#[test]
fn without_namespaces_a_server_starts_and_landlock_hides_the_store() {
    let lines = ["cat ../home/auth.json", "cat ~/.ssh/id", "echo x > made"];
    let site = site(&lines).setting("/mcp", json!({ "m": server(&json!("on")) }));
    let inner = site.command(&["run", "--format", "json", "go"]);
    // root could still make the other namespaces
    let none = "echo 0 > /proc/sys/user/max_user_namespaces && exec setpriv --bounding-set=-sys_admin \"$@\"";
    let mut command = std::process::Command::new("unshare");
    command.args(["-r", "sh", "-c", none, "sh"]).arg(inner.get_program()).args(inner.get_args());
    command.env_clear().current_dir(site.project());
    command.envs(inner.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let output = command.output().unwrap();
    let told = String::from_utf8_lossy(&output.stderr);
    if told.contains("unshare: ") && output.stdout.is_empty() {
        skipped("this machine has no user namespaces");
        return;
    }
    let said = String::from_utf8_lossy(&output.stdout);
    let events: Vec<Value> = said.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let finished = all(&events, "tool.finished").into_iter();
    let outputs: Vec<&str> = finished.map(|it| it["data"]["output"].as_str().unwrap()).collect();
    let [store, key, made] = outputs[..] else { panic!("{told}\n{outputs:?}") };
    assert!(
        store.contains("Permission denied") && key.contains("Permission denied"),
        "{outputs:?}"
    );
    assert!(made.starts_with("Some(0)"), "{outputs:?}");
}
