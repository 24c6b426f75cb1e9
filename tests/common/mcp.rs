//! An MCP server for tests: the test binary itself, which settings start again for one test alone,
//! or a thread that speaks HTTP.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

/// The variable that makes this process the server. Its value is the server's manner.
const SERVE: &str = "LEFTFOLD_TEST_MCP";

/// An image of one pixel.
const PNG: &str = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";

/// The settings of a local server: the test binary with only the test `test`, which calls
/// [`serve_if_asked`]. The manner is empty, `silent` (it answers nothing), `deaf` (it ends
/// neither with its input nor at SIGTERM, and has started a process), `shell` (it has a tool that runs shell lines), or
/// `noting` (it appends a line to the file `answered` when a person has answered).
pub fn local(test: &str, manner: &str) -> Value {
    let program = std::env::current_exe().unwrap();
    let program = program.to_str().unwrap();
    let ignore = "trap '' TERM; exec \"$@\"";
    let mut command = vec![program, "--exact", test];
    if manner == "deaf" {
        command = [&["sh", "-c", ignore, "sh"], &command[..]].concat();
    }
    // it notes its starts in the project
    let environment = json!({ SERVE: manner });
    json!({ "type": "local", "command": command, "environment": environment, "cwd": "{project}" })
}

/// Becomes the server if this process was started as one.
pub fn serve_if_asked() {
    let Ok(manner) = std::env::var(SERVE) else { return };
    note("started");
    let deaf = manner == "deaf";
    let child = deaf.then(|| std::process::Command::new("sleep").arg("1000").spawn().unwrap());
    for line in std::io::stdin().lines() {
        let Ok(message) = serde_json::from_str::<Value>(&line.unwrap()) else { continue };
        match answer(&message) {
            Some(answer) if manner != "silent" => say(&answer),
            _ => {}
        }
    }
    if let Some(mut child) = child {
        child.wait().unwrap();
    }
    std::process::exit(0);
}

fn say(message: &Value) {
    let mut stdout = std::io::stdout().lock();
    writeln!(stdout, "{message}").unwrap();
    stdout.flush().unwrap();
}

/// Appends a line to a file in the server's folder. In a sandbox two servers may have one process id.
fn note(name: &str) {
    let mut file = std::fs::OpenOptions::new().create(true).append(true).open(name).unwrap();
    let now = std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap().as_nanos();
    writeln!(file, "{} {now}", std::process::id()).unwrap();
}

/// How often the server in `folder` has been started.
pub fn starts(folder: &Path) -> usize {
    std::fs::read_to_string(folder.join("started")).unwrap_or_default().lines().count()
}

/// Processes of the servers that the node with this id has started.
pub fn servers_of(node: u32) -> Vec<u32> {
    let Ok(table) = std::fs::read_dir("/proc") else { return Vec::new() };
    let pids = table.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<u32>().ok());
    let ours = |pid: &u32| {
        let environ = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        environ.split(|byte| *byte == 0).any(|variable| {
            let variable = String::from_utf8_lossy(variable);
            let mark = variable.strip_prefix("LEFTFOLD_CALL=server:").unwrap_or_default();
            mark.split(':').nth(1) == Some(&node.to_string())
        })
    };
    pids.filter(ours).collect()
}

/// Whether the server offers one more tool.
static GROWN: AtomicBool = AtomicBool::new(false);

pub fn answer(message: &Value) -> Option<Value> {
    let params = &message["params"];
    if message["method"].is_null() {
        return answered(message);
    }
    let result = match message["method"].as_str()? {
        "initialize" => json!({
            "protocolVersion": params["protocolVersion"],
            "capabilities": { "tools": {}, "prompts": {} },
            "serverInfo": { "name": "double", "version": "1.5" },
        }),
        "tools/list" => json!({ "tools": tools() }),
        "prompts/list" => json!({ "prompts": [{
            "name": "greet",
            "description": "Greets somebody.",
            "arguments": [{ "name": "whom", "required": true }],
        }] }),
        "prompts/get" => json!({ "messages": [{
            "role": "user",
            "content": {
                "type": "text",
                "text": format!("Greet {}.", params["arguments"]["whom"].as_str().unwrap()),
            },
        }] }),
        "tools/call" if params["name"] == "grow" => {
            GROWN.store(true, Ordering::SeqCst);
            say(&json!({ "jsonrpc": "2.0", "method": "notifications/tools/list_changed" }));
            call(params)?
        }
        "tools/call" if params["name"] == "ask" => return ask(message),
        "tools/call" => call(params)?,
        "notifications/cancelled" => {
            note("cancelled");
            return None;
        }
        _ => {
            let error = json!({ "code": -32601, "message": "there is no such method" });
            return Some(json!({ "jsonrpc": "2.0", "id": message.get("id")?, "error": error }));
        }
    };
    Some(json!({ "jsonrpc": "2.0", "id": message.get("id")?, "result": result }))
}

fn tools() -> Vec<Value> {
    let tool = |name: &str, read_only: bool| {
        json!({
            "name": name,
            "description": format!("The tool {name} of a double."),
            "inputSchema": { "type": "object", "properties": { "text": { "type": "string" } } },
            "annotations": { "readOnlyHint": read_only },
        })
    };
    let grown = GROWN.load(Ordering::SeqCst).then(|| tool("grown", true));
    let writing = [
        "grow", "write", "fail", "crash", "hang", "patch", "list/all", "environment", "ask", "mark",
    ];
    let reading = ["echo", "picture", "long"];
    let has_shell = std::env::var(SERVE).is_ok_and(|manner| manner == "shell");
    let shell = has_shell.then(|| tool("shell", false));
    let reading = reading.iter().map(|name| tool(name, true));
    writing.iter().map(|name| tool(name, false)).chain(reading).chain(grown).chain(shell).collect()
}

/// Makes the client ask a person, with the call's arguments as the question. The answer becomes the
/// call's result; with `alone` the call does not wait for it.
fn ask(message: &Value) -> Option<Value> {
    let (id, arguments) = (&message["id"], &message["params"]["arguments"]);
    let asked = format!("ask {id}");
    say(&json!({
        "jsonrpc": "2.0", "id": asked, "method": "elicitation/create", "params": arguments["ask"],
    }));
    (arguments["alone"] == true).then(|| asked_for(id, &Value::Null))
}

/// The result of the call `id`, after a person has answered.
fn asked_for(id: &Value, said: &Value) -> Value {
    let result = json!({ "content": [{ "type": "text", "text": said.to_string() }] });
    json!({ "jsonrpc": "2.0", "id": id, "result": result })
}

/// The end of a call that waited for this answer, if it is one.
fn answered(message: &Value) -> Option<Value> {
    let call = message["id"].as_str()?.strip_prefix("ask ")?;
    if std::env::var(SERVE).is_ok_and(|manner| manner == "noting") {
        note("answered");
    }
    Some(asked_for(&serde_json::from_str(call).ok()?, &message["result"]))
}

fn call(params: &Value) -> Option<Value> {
    let text = |text: String| json!({ "content": [{ "type": "text", "text": text }] });
    if let Some(result) = params["arguments"].get("result") {
        // a result of the caller's choice, valid or not
        return Some(result.clone());
    }
    let said = params["arguments"]["text"].as_str().unwrap_or("nothing");
    Some(match params["name"].as_str()? {
        "echo" => text(format!("You said {said}.")),
        "write" => {
            std::fs::write("written", said).unwrap();
            text("It is written.".to_owned())
        }
        "mark" => {
            let mut marks = std::fs::OpenOptions::new();
            let mut marks = marks.create(true).append(true).open("marks").unwrap();
            let mark = params["arguments"]["mark"].as_str().unwrap_or("nothing");
            marks.write_all(format!("{mark}\n").as_bytes()).unwrap();
            text("It is marked.".to_owned())
        }
        "fail" => {
            let mut result = text(format!("No {said} here."));
            result["isError"] = true.into();
            result
        }
        "crash" => std::process::exit(3),
        "hang" => {
            let token = &params["_meta"]["progressToken"];
            let said = json!({ "progressToken": token, "progress": 1, "message": "half way" });
            say(&json!({ "jsonrpc": "2.0", "method": "notifications/progress", "params": said }));
            return None;
        }
        "picture" => json!({
            "content": [{ "type": "image", "data": PNG, "mimeType": "image/png" }],
        }),
        "long" => text("a long line\n".repeat(3_000)),
        "shell" => {
            let ran = std::process::Command::new("bash").args(["-c", said]).output().unwrap();
            let output = [ran.stdout, ran.stderr].concat();
            text(format!("{:?}\n{}", ran.status.code(), String::from_utf8_lossy(&output)))
        }
        "environment" => {
            let mut names: Vec<String> = std::env::vars().map(|(name, _)| name).collect();
            names.sort();
            text(names.join(" "))
        }
        name => text(format!("This was {name}.")),
    })
}

/// The server over HTTP. Records the header `x-key` of each request, in order.
pub struct Remote {
    pub url: String,
    pub keys: Arc<Mutex<Vec<String>>>,
}

pub fn remote() -> Remote {
    remote_after_start(None)
}

/// As [`remote`], but every request after `initialize` is redirected to this address.
pub fn remote_redirecting(to: &str) -> Remote {
    remote_after_start(Some(to.to_owned()))
}

fn remote_after_start(redirect: Option<String>) -> Remote {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    let keys = Arc::new(Mutex::new(Vec::new()));
    let heard = Arc::clone(&keys);
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let (stream, heard) = (stream.unwrap(), Arc::clone(&heard));
            let redirect = redirect.clone();
            // a client may hang up at any time
            std::thread::spawn(move || drop(converse(&stream, &heard, redirect.as_deref())));
        }
    });
    Remote { url, keys }
}

fn converse(
    stream: &TcpStream,
    keys: &Mutex<Vec<String>>,
    redirect: Option<&str>,
) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream);
    let (mut length, mut first) = (0, String::new());
    reader.read_line(&mut first)?;
    loop {
        let mut line = String::new();
        reader.read_line(&mut line)?;
        let line = line.trim().to_lowercase();
        match line.split_once(": ") {
            Some(("content-length", value)) => length = value.parse().unwrap(),
            Some(("x-key", value)) => keys.lock().unwrap().push(value.to_owned()),
            Some(_) => {}
            None => break,
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body)?;
    let message: Value = serde_json::from_slice(&body).unwrap_or_default();
    if let Some(to) = redirect.filter(|_| message["method"] != "initialize") {
        let head = "HTTP/1.1 307 Temporary Redirect\r\ncontent-length: 0\r\nconnection: close";
        return write!(&*stream, "{head}\r\nlocation: {to}\r\n\r\n");
    }
    let (status, body) = match answer(&message) {
        _ if !first.starts_with("POST") => ("405 Method Not Allowed", String::new()),
        None => ("202 Accepted", String::new()),
        Some(reply) => ("200 OK", reply.to_string()),
    };
    let length = body.len();
    let head = "content-type: application/json\r\nmcp-session-id: session-1\r\nconnection: close";
    write!(&*stream, "HTTP/1.1 {status}\r\n{head}\r\ncontent-length: {length}\r\n\r\n{body}")
}
