//! The sessions of the corpus.

use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value, json};

use super::{Act, Meanwhile, PLUGIN, SERVER, Scenario};
use crate::{Answer, Block, Server, Site, Split, call, mcp as servers, message, plugin, says};

/// The end of a command that waits for the file `go`, which exists when its run of the program is
/// over.
const WAIT: &str = "; while [ ! -e go ]; do sleep 0.02; done";

/// A site whose script repeats its last reply.
fn site(replies: Value) -> Site {
    Site::scripted(&json!({ "replies": replies, "on_end": "repeat" }))
}

/// A call of `bash` that leaves a mark and then runs `more`.
fn mark(mark: &str, more: &str) -> Value {
    part("bash", json!({ "command": format!("echo {mark} >> marks{more}") }))
}

fn part(name: &str, input: Value) -> Value {
    json!({ "call": { "name": name, "input": input } })
}

fn reply(parts: &[Value]) -> Value {
    json!({ "parts": parts })
}

fn edit(path: &str, old: &str, new: &str) -> Value {
    part("edit", json!({ "filePath": path, "oldString": old, "newString": new }))
}

fn read(path: &str) -> Value {
    part("read", json!({ "filePath": path }))
}

fn on(condition: Value, parts: &[Value]) -> Value {
    json!({ "match": condition, "parts": parts })
}

fn text(text: &str) -> Value {
    json!({ "text": text })
}

/// One call of each kind in sequence, and one of an unknown tool.
pub(super) fn tools() -> Scenario {
    let thought = json!({ "reasoning": "A mark first.", "signature": "EqsFCqgF" });
    let mut first = reply(&[thought, text("I begin. "), mark("one", "; sleep 1000 &")]);
    first["chunk"] = json!(4);
    let todo = json!({ "content": "do it", "status": "in_progress", "priority": "high" });
    let site = site(json!([
        first,
        reply(&[part("write", json!({ "filePath": "made.txt", "content": "made\nend\n" }))]),
        reply(&[read("made.txt")]),
        reply(&[edit("made.txt", "end\n", "more\nend\n")]),
        reply(&[part("todowrite", json!({ "todos": [todo] })), part("raed", json!({}))]),
        reply(&[part("edit", json!("{\"filePath\": \"made"))]),
        says("The end."),
    ]));
    Scenario { site, server: None, acts: vec![Act::run(&["go"])] }
}

/// Calls that run at once, and some that must not.
pub(super) fn parallel() -> Scenario {
    let site = site(json!([
        reply(&[
            mark("two", ""),
            read("a.txt"),
            mark("three", "; exit 1"),
            edit("notes.txt", "end\n", "first\nend\n"),
            edit("notes.txt", "end\n", "second\nend\n"),
            part("glob", json!({ "pattern": "*.txt" })),
            mark("four", "; cat a.txt"),
        ]),
        reply(&[read("notes.txt"), mark("five", ""), read("gone.txt")]),
        says("The end."),
    ]));
    site.file("a.txt", "alpha\n");
    site.file("notes.txt", "end\n");
    Scenario { site, server: None, acts: vec![Act::run(&["go"])] }
}

/// Two children at once beside a call of their parent.
pub(super) fn children() -> Scenario {
    let task = |prompt: &str| {
        part(
            "task",
            json!({ "description": "A part", "prompt": prompt, "subagentType": "general" }),
        )
    };
    let of = |prompt: &str, answers: u32| json!({ "prompt": prompt, "answers": answers });
    let site = site(json!([
        reply(&[task("the upper half"), task("the lower half"), mark("six", "")]),
        on(of("the upper half", 0), &[mark("seven", "")]),
        on(json!({ "prompt": "the upper half" }), &[text("The upper half is done.")]),
        on(of("the lower half", 0), &[read("notes.txt")]),
        on(
            of("the lower half", 1),
            &[edit("notes.txt", "end\n", "lower\nend\n"), mark("eight", "")]
        ),
        on(json!({ "prompt": "the lower half" }), &[text("The lower half is done.")]),
        says("Both halves are done."),
    ]));
    site.file("notes.txt", "end\n");
    Scenario { site, server: None, acts: vec![Act::run(&["go"])] }
}

/// Commands of a session and of its subagent, whose starts record the sandbox.
pub(super) fn sandbox() -> Scenario {
    let task =
        json!({ "description": "A part", "prompt": "the inner part", "subagentType": "general" });
    let inner = |answers: u32| json!({ "prompt": "the inner part", "answers": answers });
    let site = site(json!([
        reply(&[mark("outer", ""), read("a.txt")]),
        reply(&[part("task", task)]),
        on(inner(0), &[mark("inner", "; cat a.txt")]),
        on(inner(1), &[text("The inner part is done.")]),
        says("The end."),
    ]))
    .setting("sandbox", json!("external"));
    site.file("a.txt", "alpha\n");
    Scenario { site, server: None, acts: vec![Act::run(&["go"])] }
}

/// A full context, a summary that fails once, and further work; then a requested summary.
pub(super) fn compaction() -> Scenario {
    let mut full = on(json!({ "prompt": "go", "answers": 0 }), &[mark("nine", "")]);
    full["usage"] = json!({ "input": 99_000, "output": 500 });
    let mut summary = on(json!({ "purpose": "compaction" }), &[text("Half is done.")]);
    summary["faults"] = json!([{ "class": "overloaded", "message": "busy", "retry_after": 1 }]);
    let more = on(json!({ "prompt": "next steps", "answers": 0 }), &[mark("ten", "")]);
    let site = site(json!([summary, full, more, says("All is done.")]));
    let compact = Act::new(&["compact", "last", "--format", "json"]);
    Scenario { site, server: None, acts: vec![Act::run(&["go"]), compact] }
}

/// Old output that is no longer sent.
pub(super) fn prune() -> Scenario {
    let names = ["a.txt", "b.txt", "c.txt", "d.txt", "e.txt"];
    let mut reads = reply(&names.map(read));
    reads["usage"] = json!({ "input": 100 });
    let mut more = reply(&[mark("eleven", "")]);
    more["usage"] = json!({ "input": 100 });
    let site = site(json!([reads, says("They are long."), more, says("The end.")]));
    for name in names {
        let line = |n: usize| format!("{name} has a line of its own with the number {n}\n");
        site.file(name, (0..1150).map(line).collect::<String>());
    }
    let prompts = [&["go"][..], &["--continue", "more"], &["--continue", "and more"]];
    Scenario { site, server: None, acts: prompts.map(Act::run).to_vec() }
}

/// Questions answered with once, always, and no with a reason.
pub(super) fn permissions() -> Scenario {
    let site = site(json!([
        reply(&[mark("twelve", "")]),
        reply(&[read(".env")]),
        reply(&[mark("thirteen", ""), read(".env")]),
        reply(&[read("example.txt")]),
        says("So be it."),
    ]));
    let site = site.setting("permission", json!({ "bash": "ask" }));
    site.file(".env", "COLOUR=blue\n");
    site.file("example.txt", "COLOUR=green\n");
    let mut run = Act::run(&["--permission-mode", "ask", "go"]);
    run.input = "o\na\nuse the example instead\n";
    Scenario { site, server: None, acts: vec![run] }
}

/// Requests that fail before and during their answer.
pub(super) fn retry() -> Scenario {
    let busy = json!({ "class": "overloaded", "message": "busy", "retry_after": 1 });
    let half = json!({ "class": "overloaded", "message": "gone", "retry_after": 1,
        "parts": [{ "text": "Half of an" }] });
    let mut first = reply(&[text("I begin."), mark("fifteen", "")]);
    first["faults"] = json!([busy, half]);
    let mut last = says("The end.");
    last["faults"] = json!([half]);
    Scenario { site: site(json!([first, last])), server: None, acts: vec![Act::run(&["go"])] }
}

/// A fork from the middle.
pub(super) fn fork() -> Scenario {
    let otherwise = json!({ "prompt": "otherwise", "answers": 1 });
    let site = site(json!([
        reply(&[mark("sixteen", "")]),
        on(otherwise, &[mark("seventeen", "")]),
        reply(&[mark("eighteen", ""), read("marks")]),
        says("The end."),
    ]));
    let fork = Act::new(&["fork", "last", "--format", "json", "--at", "seq:result:1", "otherwise"]);
    Scenario { site, server: None, acts: vec![Act::run(&["go"]), fork] }
}

/// A plan, and the agent that carries it out.
pub(super) fn plan() -> Scenario {
    let site = site(json!([
        reply(&[part(
            "write",
            json!({ "filePath": ".leftfold/plans/x.md", "content": "A plan.\n" })
        )]),
        reply(&[part("plan_exit", json!({}))]),
        reply(&[mark("nineteen", "")]),
        says("Built."),
    ]));
    site.file(".git/HEAD", "ref: refs/heads/main\n");
    let mut run = Act::run(&["--permission-mode", "ask", "--agent", "plan", "go"]);
    run.input = "Yes\n";
    Scenario { site, server: None, acts: vec![run] }
}

/// A prompt that comes while a command runs.
pub(super) fn queued() -> Scenario {
    let site =
        site(json!([reply(&[mark("twenty", WAIT)]), reply(&[mark("more", "")]), says("Both.")]));
    let mut run = Act::run(&["go"]);
    run.meanwhile = Meanwhile::Joins("and hurry");
    Scenario { site, server: None, acts: vec![run] }
}

/// Two turns that change files. One is reverted, restored, and reverted for good.
pub(super) fn revert() -> Scenario {
    // the reverted change leaves no mark
    let change = "echo b >> b.txt; echo more >> a.txt; rm c.txt";
    let change = part("bash", json!({ "command": change }));
    let site = site(json!([
        on(json!({ "prompt": "one", "answers": 0 }), &[edit("a.txt", "first", "second")]),
        on(json!({ "prompt": "one" }), &[text("Edited.")]),
        on(json!({ "prompt": "two", "answers": 2 }), &[change]),
        on(json!({ "prompt": "two" }), &[text("Changed.")]),
        says("Two is forgotten."),
    ]));
    let site = site.setting("/snapshot", json!(true));
    site.file("a.txt", "first\n");
    site.file("c.txt", "c\n");
    let revert = Act::new(&["revert", "last", "--format", "json", "--to", "seq:prompt:2"]);
    let acts = vec![
        Act::run(&["one"]),
        Act::run(&["--continue", "two"]),
        revert.clone(),
        Act::new(&["unrevert", "last", "--format", "json"]),
        revert,
        Act::run(&["--continue", "again"]),
    ];
    Scenario { site, server: None, acts }
}

/// A turn that is cut off and resumed, and one that is interrupted.
pub(super) fn cut() -> Scenario {
    let site = site(json!([
        reply(&[mark("twenty-one", "")]),
        reply(&[mark("twenty-two", "")]),
        says("Resumed."),
        reply(&[mark("twenty-three", WAIT)]),
        says("Interrupted."),
    ]));
    let mut dies = Act::run(&["go"]);
    (dies.dies, dies.code) = (Some("5:before"), -1);
    let mut interrupted = Act::run(&["--continue", "on"]);
    (interrupted.meanwhile, interrupted.code) = (Meanwhile::Interrupted, 130);
    let acts = vec![
        dies,
        Act::resume(false).for_session("last"),
        interrupted,
        Act::run(&["--continue", "so"]),
    ];
    Scenario { site, server: None, acts }
}

/// Replies that the provider did not complete: text, a call, text for an unknown reason.
pub(super) fn incomplete() -> Scenario {
    let ending = |finish: &str, parts: &[Value]| json!({ "parts": parts, "finish": finish });
    let half = part("write", json!("{\"filePath\":\"b.txt\",\"content\":\"ha"));
    let site = site(json!([
        ending("length", &[text("It beg")]),
        ending("length", &[text("ins. "), mark("twenty-six", ""), half]),
        ending("other", &[text("It is do")]),
        says("ne."),
    ]));
    Scenario { site, server: None, acts: vec![Act::run(&["go"])] }
}

/// A title, a batch and questions.
pub(super) fn mixed() -> Scenario {
    let entry =
        |part: Value| json!({ "tool": part["call"]["name"], "parameters": part["call"]["input"] });
    let entries = json!({ "toolCalls": [
        entry(read("a.txt")),
        entry(mark("twenty-four", "")),
        entry(part("write", json!({ "filePath": "b.txt", "content": "b\n" }))),
        entry(read("gone.txt")),
    ] });
    let question = json!({ "questions": [
        { "question": "Which colour?", "options": [{ "label": "red" }, { "label": "blue" }] },
        { "question": "Are you sure?" },
    ] });
    let site = site(json!([
        on(json!({ "purpose": "title" }), &[text("Many things")]),
        call("batch", entries),
        call("question", question),
        reply(&[mark("twenty-five", "")]),
        says("So be it."),
    ]));
    let site = site.setting("title", json!(true));
    site.file("a.txt", "alpha\n");
    let mut run = Act::run(&["--permission-mode", "ask", "go"]);
    run.input = "2\nvery\n";
    Scenario { site, server: None, acts: vec![run] }
}

/// A plugin that is asked before and after calls and requests, and answers a question of the rules.
pub(super) fn plugins() -> Scenario {
    let hooks = [
        "chat.message", "chat.params", "chat.system.transform", "permission.ask",
        "tool.execute.before", "tool.execute.after",
    ];
    let answers = json!({
        "chat.message": { "append": "Mind the gap." },
        "chat.params": { "temperature": 0.25 },
        "chat.system.transform": { "system": ["Be brief."] },
        "permission.ask": { "status": "allow" },
        "tool.execute.after": { "title": "Quietly" },
    });
    let double = plugin::double(PLUGIN, json!({ "name": "d", "hooks": hooks }), answers);
    let site = site(json!([
        reply(&[mark("thirty", ""), read("a.txt")]),
        reply(&[edit("a.txt", "alpha", "beta")]),
        says("The end."),
    ]))
    .setting("/plugin", json!([double]))
    .setting("permission", json!({ "edit": "ask" }));
    site.file("a.txt", "alpha\n");
    Scenario { site, server: None, acts: vec![Act::run(&["go"])] }
}

/// A site with an MCP server, whose tools need no permission.
fn with_server(replies: Value) -> Site {
    site(replies)
        .setting("/mcp", json!({ "m": servers::local(SERVER, "") }))
        .setting("permission", json!({ "m_*": "allow" }))
}

/// Calls of an MCP server, at once and one after another; one result is too long for the model.
pub(super) fn mcp() -> Scenario {
    let marked = |mark: &str| part("m_mark", json!({ "mark": mark }));
    let site = with_server(json!([
        reply(&[
            marked("thirty-one"),
            part("m_echo", json!({ "text": "yes" })),
            marked("thirty-two")
        ]),
        reply(&[part("m_long", json!({})), part("m_fail", json!({ "text": "way" }))]),
        reply(&[marked("thirty-three")]),
        says("The end."),
    ]));
    Scenario { site, server: None, acts: vec![Act::run(&["go"])] }
}

/// An MCP server that asks a person two fields in the middle of a call, and once more in vain.
pub(super) fn elicitation() -> Scenario {
    let form = json!({ "ask": {
        "message": "Which seat?",
        "requestedSchema": { "type": "object", "required": ["row"], "properties": {
            "row": { "type": "integer", "minimum": 1, "maximum": 9 },
            "side": { "type": "string", "enum": ["l", "r"] },
        } },
    } });
    let site = with_server(json!([
        reply(&[part("m_ask", form.clone())]),
        reply(&[part("m_mark", json!({ "mark": "thirty-four" }))]),
        reply(&[part("m_ask", form)]),
        reply(&[mark("thirty-five", "")]),
        says("The end."),
    ]));
    let mut run = Act::run(&["--permission-mode", "ask", "go"]);
    run.input = "ten\n3\n2\n\n";
    Scenario { site, server: None, acts: vec![run] }
}

/// Changes of files by a session and by its subagent, with a snapshot before and after each.
pub(super) fn snapshots() -> Scenario {
    let task =
        json!({ "description": "A part", "prompt": "the inner part", "subagentType": "general" });
    let inner = |answers: u32| json!({ "prompt": "the inner part", "answers": answers });
    let site = site(json!([
        reply(&[edit("a.txt", "alpha", "beta"), mark("thirty-six", "")]),
        reply(&[part("task", task)]),
        on(inner(0), &[edit("a.txt", "beta", "gamma")]),
        on(inner(1), &[text("The inner part is done.")]),
        reply(&[mark("thirty-seven", "")]),
        says("The end."),
    ]))
    .setting("/snapshot", json!(true));
    site.file("a.txt", "alpha\n");
    Scenario { site, server: None, acts: vec![Act::run(&["go"])] }
}

/// A model over HTTP, whose server is overloaded at every other request.
pub(super) fn served() -> Scenario {
    let requests = AtomicUsize::new(0);
    let server = Server::answering(move |request| {
        if requests.fetch_add(1, Ordering::Relaxed).is_multiple_of(2) {
            let busy = json!({ "type": "error",
                "error": { "type": "overloaded_error", "message": "Overloaded" } });
            return Answer::Status(529, vec!["retry-after-ms: 1".to_owned()], busy.to_string());
        }
        let results = request.body["messages"].to_string().matches("tool_result").count();
        let command =
            |name: &str| json!({ "command": format!("echo {name} >> marks") }).to_string();
        let blocks = match results {
            0 => vec![
                Block::Thinking("A mark first.", "EqsFCqgF"),
                Block::Text("I begin."),
                Block::Call("toolu_1", "bash", command("thirty-eight")),
            ],
            1 => vec![Block::Call("toolu_2", "bash", command("thirty-nine"))],
            _ => vec![Block::Text("The end.")],
        };
        Answer::Stream(message(&blocks), Split::Whole)
    });
    let site = Site::served(&server);
    Scenario { site, server: Some(server), acts: vec![Act::run(&["go"])] }
}
