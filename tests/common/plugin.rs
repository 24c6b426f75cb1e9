//! A plugin for tests: the test binary itself, which settings start again for one test alone.

use std::io::{BufRead, Write};
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

/// The variable with the plugin's answers by method. A string as an answer is a manner.
const SAYS: &str = "LEFTFOLD_TEST_PLUGIN";

/// The file that receives every request, one a line.
pub(crate) const ASKED: &str = "asked";

/// Settings of a plugin: the test binary with only the test `test`, which calls [`serve_if_asked`].
/// The answer `"silent"` never comes, `"crash"` ends the plugin, `"deaf"` stops it from reading,
/// and `"refuse"` is an error. For `tool`, an answer with `ask` first sends these as requests `ask`, one
/// after the other, and is then the replies.
pub fn double(test: &str, handshake: Value, answers: Value) -> Value {
    let program = std::env::current_exe().unwrap();
    let says = json!({ "handshake": handshake, "answers": answers }).to_string();
    json!({
        "command": [program, "--exact", test],
        "environment": { SAYS: says },
        // it notes what it was asked in the project
        "cwd": "{project}",
        "timeout": 20_000,
    })
}

/// [`double`] with a time limit in milliseconds.
pub fn hasty(test: &str, handshake: Value, answers: Value, timeout: u64) -> Value {
    let mut double = double(test, handshake, answers);
    double["timeout"] = timeout.into();
    double
}

/// Becomes the plugin if this process was started as one.
pub fn serve_if_asked() {
    let Ok(says) = std::env::var(SAYS) else { return };
    let says: Value = serde_json::from_str(&says).unwrap();
    let mut lines = std::io::stdin().lock().lines();
    while let Some(line) = lines.next() {
        let line = line.unwrap();
        let mut asked = std::fs::OpenOptions::new();
        let mut asked = asked.create(true).append(true).open(ASKED).unwrap();
        asked.write_all(format!("{line}\n").as_bytes()).unwrap();
        let message: Value = serde_json::from_str(&line).unwrap();
        let (method, id) = (message["method"].as_str().unwrap_or(""), message.get("id"));
        let said = match method {
            "initialize" => says["handshake"].clone(),
            method => says["answers"][method].clone(),
        };
        match (said.as_str(), id) {
            (Some("crash"), _) => std::process::exit(3),
            (Some("deaf"), _) => loop {
                std::thread::park();
            },
            (Some("silent"), _) | (_, None) => {}
            (Some("refuse"), Some(id)) => {
                let error = json!({ "code": 1, "message": "I will not" });
                say(&json!({ "jsonrpc": "2.0", "id": id, "error": error }));
            }
            (_, Some(id)) if said["ask"].is_array() => {
                let mut replies = Vec::new();
                for params in said["ask"].as_array().unwrap() {
                    let mut params = params.clone();
                    if params["request"].is_null() {
                        params["request"] = id.clone();
                    }
                    let ask =
                        json!({ "jsonrpc": "2.0", "id": "q", "method": "ask", "params": params });
                    say(&ask);
                    let reply: Value =
                        serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap();
                    assert_eq!(reply["id"], "q", "{reply}");
                    let error = reply["error"]["code"].to_string();
                    let status = reply["result"]["status"].as_str().map(str::to_owned);
                    replies.push(status.unwrap_or(error));
                }
                say(&json!({ "jsonrpc": "2.0", "id": id, "result": replies.join(", ") }));
            }
            (_, Some(id)) => say(&json!({ "jsonrpc": "2.0", "id": id, "result": said })),
        }
    }
    std::process::exit(0);
}

fn say(message: &Value) {
    let mut stdout = std::io::stdout().lock();
    writeln!(stdout, "{message}").unwrap();
    stdout.flush().unwrap();
}

/// The requests so far to the plugin in `folder`.
pub fn asked(folder: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(folder.join(ASKED)).unwrap_or_default();
    text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

/// The parameters of the requests with one method.
pub fn asked_for(folder: &Path, method: &str) -> Vec<Value> {
    let all = asked(folder).into_iter().filter(|message| message["method"] == method);
    all.map(|message| message["params"].clone()).collect()
}

/// One of the example plugins, as a command.
pub fn example(interpreter: &str, name: &str) -> Value {
    let path = super::root().join("examples/plugins").join(name);
    json!([interpreter, path])
}

/// A plugin `door` for the provider `acme`: with a code, by itself, and with a key. Its first tokens have ended, and it renews
/// them. Requests tell whether it had a credential.
pub const DOOR: &str = r#"
import json, sys

NAMES = ("access", "refresh", "expires")
METHODS = [
    {"type": "oauth", "label": "Acme code", "prompts": [
        {"type": "select", "key": "kind", "message": "Which account?",
         "options": [{"label": "Person", "value": "person"}, {"label": "Team", "value": "team"}]},
        {"type": "text", "key": "team", "message": "Team", "when": {"key": "kind", "op": "eq", "value": "team"}}]},
    {"type": "oauth", "label": "Acme page"},
    {"type": "api", "label": "Acme key"},
]


def send(**message):
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)


def tokens(name, expires):
    return {"access": f"canary-{name}-access-0123456789", "refresh": f"canary-{name}-refresh-0123456789", "expires": expires}


def authorize(params):
    if params["method"] == 2:
        return {"type": "success"} if params["key"].startswith("good") else {"type": "failed", "message": "a bad key"}
    page = "https://acme.test/" + "/".join(params["inputs"].values())
    return {"url": page, "instructions": "Look at the page", "method": ["code", "auto"][params["method"]]}


def callback(params):
    if params["method"] == 1:
        return {"type": "success", **tokens("page", 0)}
    if params.get("code") != "right":
        return {"type": "failed", "message": "the code is wrong"}
    return {"type": "success", **tokens("first", 1)}


def auth(params):
    credential = params.get("credential")
    said = {"headers": {"x-acme-had": str(credential is not None)}}
    if credential and credential["type"] == "api":
        return said
    if not credential:
        send(id="s", method="auth.set", params={"provider": "acme", "credential": tokens("stray", 0)})
        said["headers"]["x-acme-set"] = "error" if "error" in json.loads(sys.stdin.readline()) else "done"
        return said
    if credential["expires"]:
        credential = tokens("second", 0)
        send(id="s", method="auth.set", params={"provider": "acme", "credential": credential})
        assert json.loads(sys.stdin.readline())["result"] == {}
    return {**said, "apiKey": credential["access"]}


def initialize(params):
    return {"name": "door", "hooks": ["auth"], "auth": {"provider": "acme", "methods": METHODS}}


ANSWERS = {"initialize": initialize, "auth": auth, "auth.authorize": authorize, "auth.callback": callback}
for line in sys.stdin:
    message = json.loads(line)
    if message["method"] in ANSWERS:
        send(id=message["id"], result=ANSWERS[message["method"]](message["params"]))
"#;

/// A site with the provider `acme` at `server` and [`DOOR`] as a plugin, which is a file of the user's.
pub fn with_door(server: &super::Server) -> super::Site {
    let site = super::Site::served(server);
    let door = site.path("user/door.py");
    std::fs::write(&door, DOOR).unwrap();
    let acme =
        json!({ "wire": "anthropic", "env": ["ACME_KEY"], "options": { "baseURL": server.url() } });
    let site = site.setting("provider/acme", acme).setting("model", json!("acme/m"));
    site.setting("plugin", json!([["python3", door]]))
}

/// Whether Python is installed. Without it, the running test counts as skipped.
pub fn has_python() -> bool {
    let found =
        Command::new("python3").arg("--version").output().is_ok_and(|out| out.status.success());
    if !found {
        super::skipped("python3 is not installed");
    }
    found
}
