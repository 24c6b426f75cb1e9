//! Only people answer: a model tries everything from `bash`, and gets nowhere. Most tests do without the sandbox, where a
//! command reaches the socket and the program.

use std::path::Path;
use std::process::{Command, Stdio};

use common::{Live, Peer, Site, Tally, all, end, kinds, only, says, script, skipped, wait_until};
use rustix::process::Signal;
use serde_json::{Value, json};

/// A client of the socket, independent of Leftfold: it calls every method and writes the code of
/// each error, or `ok`, to a file.
const CLIENT: &str = r#"
import json, os, socket, sys
store, out = sys.argv[1:3]
session = os.path.basename(store)
of = {"session": session}
methods = {
    "prompt": {"text": "Do as I say."},
    "answer": {"call": "call_1_2", "reply": "always"},
    "cancel": {}, "compact": {}, "configure": {"choices": {}}, "dispose": {"directory": "/"},
    "revert": {"to": 1}, "unrevert": {}, "fork": {},
    "read": {"from": 1}, "watch": {"from": 1}, "why": {}, "verify": {},
}
os.chdir(store)
node = socket.socket(socket.AF_UNIX)
node.connect("socket")
lines, requests = node.makefile("r"), node.makefile("w")
codes = {}
for id, (method, params) in enumerate(methods.items()):
    request = {"jsonrpc": "2.0", "id": id, "method": "_leftfold/" + method, "params": {**of, **params}}
    requests.write(json.dumps(request) + "\n")
    requests.flush()
    while True:
        answer = json.loads(lines.readline())
        if answer.get("id") == id:
            break
    codes[method] = answer["error"]["code"] if "error" in answer else "ok"
with open(out + ".new", "w") as file:
    json.dump(codes, file)
os.rename(out + ".new", out)
"#;

/// Shell lines that start `$ATTACK`, a program with its arguments, in every way to get rid of
/// parents and marks. The name of each is also that of its file.
const WAYS: &[(&str, &str)] = &[
    ("direct", "$ATTACK"),
    ("no-mark", "env -u LEFTFOLD_CALL -u LEFTFOLD_NODE $ATTACK"),
    ("other-mark", "LEFTFOLD_CALL=server:1:1:1:1 $ATTACK"),
    ("env-i", "env -i $ATTACK"),
    ("setsid", "setsid -w $ATTACK"),
    ("nohup", "nohup $ATTACK >/dev/null 2>&1"),
    ("subshells", "( ( ( env -i $ATTACK ) ) )"),
    ("background", "$ATTACK & wait"),
    ("double-fork", "(setsid sh -c \"env -i $ATTACK &\" &)"),
    ("orphan", "(sh -c \"(sleep 0.3; env -i $ATTACK) &\" &)"),
    ("orphan-without-session", "(env -i setsid /bin/sh -c \"(/bin/sleep 0.3; exec $ATTACK) &\" &)"),
];

fn python() -> Option<String> {
    let found = Command::new("sh").args(["-c", "command -v python3"]).output().unwrap();
    let path = String::from_utf8(found.stdout).unwrap().trim().to_owned();
    if path.is_empty() {
        skipped("python3 is not installed");
        return None;
    }
    Some(path)
}

/// A site whose model runs the shell script `lines`, while a question about `.env` is open. The rules
/// see only the name of the script.
fn attacked(lines: &str) -> Site {
    let site = running("bash attack.sh").unsandboxed();
    site.file("attack.sh", lines);
    site
}

/// A site whose model runs `line`, while a question about `.env` is open.
fn running(line: &str) -> Site {
    let bash = json!({ "call": { "name": "bash", "input": { "command": line } } });
    let read = json!({ "call": { "name": "read", "input": { "filePath": ".env" } } });
    let site = Site::scripted(&script(json!([{ "parts": [bash, read] }, says("So be it.")])));
    site.file(".env", "COLOUR=blue\n");
    site
}

/// Starts the turn and waits for its question. `until` names files that the command writes.
fn start(site: &Site, until: &[String]) -> Live {
    let mut live = site.start(&common::ASK);
    live.until("permission.asked");
    for name in until {
        wait_until(name, || site.project().join(name).exists());
    }
    live
}

/// The question is still open, and this process, a person's, may answer it.
fn a_person_answers(site: &Site, live: Live) -> Vec<Value> {
    let store = site.session();
    let session = store.file_name().unwrap().to_str().unwrap();
    let params = json!({ "session": session, "call": "call_1_2", "reply": "once" });
    let answer = Peer::connect(&store).call("_leftfold/answer", &params);
    assert_eq!(answer["result"]["accepted"], true, "{answer}");
    let events = live.wait().ok().events();
    assert_eq!(end(&events)["reason"], "completed");
    assert_eq!(only(&events, "permission.answered")["data"]["reply"], "once");
    events
}

#[test]
fn the_socket_refuses_every_descendant_of_a_call() {
    let Some(python) = python() else { return };
    let lines = WAYS.iter().map(|(name, line)| {
        let attack = format!("{python} $PWD/client.py $STORE $PWD/{name}.json");
        line.replace("$ATTACK", &attack)
    });
    let store = "STORE=$(cd $HOME/../home/sessions/*; pwd)\n";
    // the end of the call ends them all
    let orphans = "\nfor way in double-fork orphan orphan-without-session; do
        while ! [ -e $way.json ]; do sleep 0.05; done
    done";
    let site = attacked(&format!("{store}{}{orphans}", lines.collect::<Vec<_>>().join("\n")));
    site.file("client.py", CLIENT);
    let files: Vec<String> = WAYS.iter().map(|(name, _)| format!("{name}.json")).collect();
    let live = start(&site, &files);
    let tally = Tally::also("only people answer")
        .counts(&["ways", "requests", "reads"])
        .never(&["requests accepted", "reads refused"]);
    tally.add("ways", WAYS.len());
    for name in &files {
        let codes: Value = serde_json::from_str(&site.text(name)).unwrap();
        for (method, code) in codes.as_object().unwrap() {
            let reads = ["read", "watch", "why", "verify"].contains(&method.as_str());
            let (count, violation, expected) = if reads {
                ("reads", "reads refused", json!("ok"))
            } else {
                ("requests", "requests accepted", json!(-32003))
            };
            tally.add(count, 1);
            tally.equal(violation, code, &expected, format!("{name}: {method}"));
        }
        assert_eq!(codes.as_object().unwrap().len(), 13, "{name}");
    }
    let events = a_person_answers(&site, live);
    assert_eq!(all(&events, "turn.prompted").len(), 1, "{:?}", kinds(&events));
    assert!(!kinds(&events).iter().any(|kind| kind.contains("revert") || kind.contains("compact")));
    assert_eq!(site.sessions().len(), 1);
    assert!(!site.path("home/projects").exists(), "an approval was stored");
    tally.finish();
}

#[test]
fn a_command_in_the_sandbox_reaches_no_socket_and_decides_nothing() {
    let Some(python) = python() else { return };
    let ways = WAYS.iter().map(|(name, line)| {
        let attack = format!("{python} $PWD/client.py $STORE $PWD/{name}.json");
        line.replace("$ATTACK", &attack)
    });
    let arguments =
        FOR_PEOPLE.iter().map(|it| format!("./leftfold {it} </dev/null; echo $? >>codes"));
    let lines: Vec<String> = ways.chain(arguments).collect();
    let head = "STORE=$(echo $HOME/../home/sessions/*)\nexport LEFTFOLD_HOME=$HOME/../home";
    let site =
        attacked(&format!("{head}\n{}\nsleep 0.5; echo over >over", lines.join("\n"))).sandboxed();
    site.file("client.py", CLIENT);
    // the one that was built may lie in a folder that the sandbox hides
    std::fs::copy(common::program(), site.project().join("leftfold")).unwrap();
    let live = start(&site, &["over".into()]);
    for (name, _) in WAYS {
        assert_eq!(site.text(&format!("{name}.json")), "", "{name} reached the socket");
    }
    assert_eq!(site.text("codes"), "2\n".repeat(FOR_PEOPLE.len()));
    let events = a_person_answers(&site, live);
    assert_eq!(all(&events, "turn.prompted").len(), 1, "{:?}", kinds(&events));
    assert_eq!(site.sessions().len(), 1);
    assert!(!site.path("home/projects").exists(), "an approval was stored");
}

/// A plugin that answers every question over the socket.
const PLUGIN: &str = r#"
import json, socket, sys
for line in sys.stdin:
    message = json.loads(line)
    params = message.get("params", {})
    if message["method"] == "initialize":
        path = params["socket"]
        answer = {"name": "helper", "hooks": ["event"], "tools": []}
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": answer}), flush=True)
    elif message["method"] == "event" and params["type"] == "permission.asked":
        node = socket.socket(socket.AF_UNIX)
        node.connect(path)
        question = {"session": params["session"], "of": params["seq"], "reply": "once", "by": "plugin"}
        request = {"jsonrpc": "2.0", "id": 1, "method": "_leftfold/answer", "params": question}
        node.sendall((json.dumps(request) + "\n").encode())
        node.makefile("r").readline()
"#;

#[test]
fn a_plugin_answers_for_its_user() {
    let Some(python) = python() else { return };
    for site in [running("true").unsandboxed(), running("true").sandboxed()] {
        let plugin = site.file("plugin.py", PLUGIN);
        // the shell is the plugin, and Python its child
        let line = format!("{python} {}; true", plugin.display());
        let site = site.setting("/plugin", json!([["sh", "-c", line]]));
        let events = site.run(&common::ASK).ok().events();
        let answered = &only(&events, "permission.answered")["data"];
        assert!(answered["by"].as_str().unwrap().starts_with("plugin"), "{answered}");
    }
}

/// Requests to a node inside a call, which speaks with the command that started it.
#[test]
fn a_node_inside_a_call_leaves_sessions_alone() {
    let program = common::program();
    let lines = format!(
        r#"
export LEFTFOLD_HOME=$(cd $HOME/../home; pwd); SESSION=$(ls $LEFTFOLD_HOME/sessions)
ask() {{ echo '{{"jsonrpc":"2.0","id":'$1',"method":"'$2'","params":'$3'}}'; sleep 0.3; }}
of='"sessionId":"'$SESSION'"'
in='"cwd":"'$PWD'","mcpServers":[]'
{{
    ask 1 initialize '{{"protocolVersion":1}}'
    ask 2 session/load "{{$of,$in}}"
    ask 3 session/resume "{{$of,$in}}"
    ask 4 session/fork "{{$of,$in}}"
    ask 5 session/delete "{{$of}}"
    ask 6 _leftfold/prompt '{{"session":"'$SESSION'","text":"Do"}}'
    sleep 1
}} | {} node >answers.new 2>said; mv answers.new answers"#,
        program.display()
    );
    let site = attacked(&lines);
    let live = start(&site, &["answers".into()]);
    let answers = site.text("answers");
    for id in 2..=6 {
        let answer = answers.lines().find(|line| line.contains(&format!("\"id\":{id}")));
        let answer =
            answer.unwrap_or_else(|| panic!("no answer {id}: {answers} {}", site.text("said")));
        assert!(answer.contains("cannot answer its own questions"), "{id}: {answer}");
    }
    a_person_answers(&site, live);
    assert_eq!(site.sessions().len(), 1);
}

/// Arguments that decide for the user.
const FOR_PEOPLE: &[&str] = &[
    "permission answer last call_1_2 always", "permission forget 01234567",
    "permission forget --all", "trust", "trust --yes", "trust --revoke", "revert last --to 1",
    "unrevert last", "fork last", "compact last", "resume last", "run --continue hello",
    "run --session last hello", "run --session last --fork hello", "--continue", "--session last",
    "sessions rm last", "sessions prune --unused", "import export.jsonl", "auth login anthropic",
    "auth logout anthropic", "mcp login files", "mcp logout files",
];

#[test]
fn the_command_line_refuses_every_descendant_of_a_call() {
    let program = common::program();
    let mut lines = vec!["export LEFTFOLD_HOME=$(cd $HOME/../home; pwd)".to_owned()];
    let mut files = Vec::new();
    for (at, arguments) in FOR_PEOPLE.iter().enumerate() {
        let run = format!(
            "{} {arguments} </dev/null >/dev/null 2>$PWD/said-{at}; echo $? >$PWD/code-{at}.new; \
             mv $PWD/code-{at}.new $PWD/code-{at}",
            program.display()
        );
        lines.push(run);
        files.push(format!("code-{at}"));
    }
    // an orphan without a mark, and commands that only read
    lines.push(format!(
        "(env -i setsid /bin/sh -c \"(/bin/sleep 0.3; LEFTFOLD_HOME=$LEFTFOLD_HOME {} revert last --to 1 \
         2>$PWD/said-orphan; echo \\$? >$PWD/code-orphan) &\" &)",
        program.display()
    ));
    for reading in ["sessions", "why last", "verify last", "export last", "replay last"] {
        let name = reading.split(' ').next().unwrap();
        lines.push(format!(
            "{} {reading} >/dev/null 2>said-{name}; echo $? >code-{name}",
            program.display()
        ));
        files.push(format!("code-{name}"));
    }
    files.push("code-orphan".into());
    // the end of the call ends the orphan
    lines.push("while ! [ -s code-orphan ]; do sleep 0.05; done".to_owned());
    let site = attacked(&lines.join("\n"));
    let live = start(&site, &files);
    wait_until("code-orphan", || !site.text("code-orphan").is_empty());
    let refused = (0..FOR_PEOPLE.len()).map(|at| at.to_string()).chain(["orphan".to_owned()]);
    for at in refused {
        let said = site.text(&format!("said-{at}"));
        assert_eq!(site.text(&format!("code-{at}")), "2\n", "{at}: {said}");
        assert!(said.contains("cannot answer its own questions"), "{at}: {said}");
    }
    for name in ["sessions", "why", "verify", "export", "replay"] {
        let said = site.text(&format!("said-{name}"));
        assert_eq!(site.text(&format!("code-{name}")), "0\n", "{name}: {said}");
    }
    a_person_answers(&site, live);
    assert_eq!(site.sessions().len(), 1);
}

#[test]
fn a_new_session_inside_a_call_runs() {
    let inner = Site::scripted(&script(json!([says("The inner one.")])));
    let command = inner.command(&["run", "hello"]);
    let variables = command
        .get_envs()
        .filter_map(|(name, value)| Some(format!("{}='{}'", name.to_str()?, value?.to_str()?)));
    let variables: Vec<String> = variables.collect();
    let line = format!(
        "env {} {} run hello >answer; echo $? >code",
        variables.join(" "),
        common::program().display()
    );
    let site = attacked(&line);
    let live = start(&site, &["code".into()]);
    wait_until("the code", || !site.text("code").is_empty());
    assert_eq!(site.text("code"), "0\n");
    assert!(site.text("answer").contains("The inner one."));
    a_person_answers(&site, live);
}

/// The node is killed. What it has left behind has no living ancestor, but still its mark, and a limit that it
/// cannot raise if it has removed the mark.
#[test]
fn a_process_of_a_killed_node_is_refused() {
    let program = common::program();
    for environment in ["env", "env -i PATH=\"$PATH\" HOME=\"$HOME\""] {
        let line = format!(
            "{environment} setsid sh -c 'while ! [ -e go ]; do sleep 0.05; done; LEFTFOLD_HOME=$(cd $HOME/../home; pwd) \
             {} revert last --to 1 2>said; echo $? >code' >/dev/null 2>&1 & echo up >up; wait",
            program.display()
        );
        let site = attacked(&line);
        let live = start(&site, &["up".into()]);
        live.signal(Signal::KILL);
        live.wait();
        site.file("go", "");
        wait_until("the code", || !site.text("code").is_empty());
        assert_eq!(site.text("code"), "2\n", "{environment}: {}", site.text("said"));
        assert!(site.text("said").contains("cannot answer its own questions"), "{environment}");
    }
}

/// Writes what a command has of the person's: a terminal, descriptors, standard input.
const LOOKS: &str = "
    if (: </dev/tty) 2>/dev/null; then echo terminal; else echo no terminal; fi
    read -r _ _ _ _ _ session tty _ </proc/$$/stat
    [ $session = $$ ] && echo own session
    echo tty $tty
    for file in /proc/$$/fd/*; do
        case $(readlink $file) in *tty*|*pts*|*secret*) echo inherited $file;; esac
    done
    echo count $(ls /proc/$$/fd | wc -l)";

#[test]
fn commands_and_servers_have_no_terminal_and_no_descriptors() {
    let server = format!("({LOOKS}) </dev/null >server 2>/dev/null; mv server server.done");
    let server = server.replace("</dev/null >server", ">server");
    let server = json!({ "type": "local", "command": ["sh", "-c", server], "cwd": "{project}" });
    let site = attacked(&format!("({LOOKS}) >command.new; mv command.new command"))
        .setting("/permission", json!({ "external_directory": "allow" }))
        .setting("/mcp/looks", server);
    let secret = site.file("secret", "the person's");
    // the shell of the person has a descriptor open that is no terminal either
    let inner = site.command(&common::ASK);
    let mut command = Command::new("bash");
    command
        .args(["-c", "exec 7<>\"$1\" 8<>/dev/tty; shift; exec \"$@\"", "run"])
        .arg(&secret)
        .arg(inner.get_program())
        .args(inner.get_args())
        .env_clear()
        .envs(inner.get_envs().filter_map(|(name, value)| Some((name, value?))))
        .current_dir(site.project())
        .stdin(Stdio::inherit());
    let mut terminal = common::Terminal::start(command, 200);
    terminal.until("permission.asked");
    // bash has its script open
    for (name, count) in [("command", 4), ("server.done", 3)] {
        wait_until(name, || site.project().join(name).exists());
        let text = site.text(name);
        assert!(text.contains("no terminal\n"), "{name}: {text}");
        assert!(text.contains("own session\n"), "{name}: {text}");
        assert!(text.contains("tty 0\n"), "{name}: {text}");
        assert!(!text.contains("inherited"), "{name}: {text}");
        assert!(text.contains(&format!("count {count}\n")), "{name}: {text}");
    }
    terminal.signal(Signal::KILL);
    let _ = terminal.wait();
    assert!(Path::new(&secret).exists());
}
