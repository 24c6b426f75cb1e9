//! A reader who types what a page shows, line by line, into a shell of their own: with a project that is a git
//! repository, a home folder, and a model that is a server of the test.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use common::{Answer, Block, Live, Ran, Recorded, Server, Split, Terminal, message};
use rustix::process::Signal;
use serde_json::Value;
use tempfile::TempDir;

/// Files of the project that is there when a page begins.
const PROJECT: [(&str, &str); 5] = [
    ("README.md", "# Shop\n\nRun the tests with `sh test.sh`.\n"),
    ("total.sh", "# total A B: the sum of two prices.\ntotal() {\n    echo $(($1 - $2))\n}\n"),
    (
        "test.sh",
        ". ./total.sh\n[ \"$(total 2 3)\" = 5 ] || { echo \"total 2 3 is not 5\"; exit 1; }\necho passed\n",
    ),
    ("notes.md", "The shop opens at nine.\n"),
    (".gitignore", "*.log\n"),
];

/// A change that is not committed yet.
const CHANGE: (&str, &str) = ("notes.md", "The shop opens at nine.\nIt closes at six.\n");

/// Files of the home folder: sessions of other agents, a key.
const HOME: [(&str, &str); 5] = [
    // what the pages start with `npx` is this
    ("bin/npx", include_str!("fixtures/npx.py")),
    (".gitconfig", "[user]\nname = Reader\nemail = reader@example.org\n"),
    ("key.txt", "sk-ant-0123456789\n"),
    (
        ".claude/projects/-home-me-shop/5d1c0a52-7a0b-4c1e-9d5e-0a1b2c3d4e5f.jsonl",
        include_str!("fixtures/claude.jsonl"),
    ),
    (
        ".codex/sessions/2026/03/01/rollout-2026-03-01T10-00-00-0197.jsonl",
        include_str!("fixtures/codex.jsonl"),
    ),
];

pub(super) struct PageReader {
    dir: TempDir,
    _model: Server,
    background: Vec<(usize, String, Live)>,
}

impl PageReader {
    pub(super) fn new() -> Self {
        let dir = tempfile::Builder::new().prefix("leftfold-docs-").tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        for name in ["home", "home/shop", "tmp", "state"] {
            std::fs::create_dir(root.join(name)).unwrap();
        }
        let model = Server::answering(answer);
        let folder = common::program().parent().unwrap().to_owned();
        let path = std::env::var("PATH").unwrap_or_default();
        let home = root.join("home");
        let text = |path: &Path| path.to_str().unwrap().to_owned();
        let env = [
            ("PATH", format!("{}:{}:{path}", folder.display(), home.join("bin").display())),
            ("HOME", text(&home)),
            ("TMPDIR", text(&root.join("tmp"))),
            ("XDG_CONFIG_HOME", text(&home.join(".config"))),
            ("LEFTFOLD_HOME", text(&home.join(".local/share/leftfold"))),
            ("ANTHROPIC_API_KEY", "sk-ant-9876543210".to_owned()),
            ("ANTHROPIC_BASE_URL", model.url()),
        ];
        let lines = env.iter().map(|(name, value)| format!("export {name}='{value}'\n"));
        std::fs::write(root.join("state/env"), lines.collect::<String>()).unwrap();
        std::fs::write(root.join("state/cwd"), text(&home.join("shop"))).unwrap();
        let reader = Self { dir, _model: model, background: Vec::new() };
        for (name, content) in HOME {
            reader.write(&home.join(name), &content.replace("/home/me", &text(&home)));
        }
        for (name, content) in PROJECT {
            reader.write(&home.join("shop").join(name), content);
        }
        let commit =
            "chmod +x ~/bin/npx && git init -q -b main && git add . && git commit -q -m Begin";
        let ran = reader.run(commit);
        assert_eq!(ran.code, 0, "{ran:?}");
        reader.file(CHANGE.0, CHANGE.1);
        reader
    }

    fn root(&self) -> PathBuf {
        self.dir.path().canonicalize().unwrap()
    }

    fn write(&self, path: &Path, content: &str) {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
    }

    /// A file that the page shows, where the reader is.
    pub(super) fn file(&self, name: &str, content: &str) {
        let cwd = std::fs::read_to_string(self.root().join("state/cwd")).unwrap();
        self.write(&Path::new(cwd.trim()).join(name), content);
    }

    /// A folder of the repository, where the reader is.
    pub(super) fn copy(&self, name: &str) {
        for entry in std::fs::read_dir(common::root().join(name)).unwrap() {
            let path = entry.unwrap().path();
            let text = std::fs::read_to_string(&path).unwrap();
            self.file(&format!("{name}/{}", path.file_name().unwrap().to_str().unwrap()), &text);
        }
    }

    /// Settings that stand by themselves in a folder elsewhere.
    pub(super) fn settings(&self, content: &str) -> Ran {
        let folder = self.root().join("state/settings");
        self.write(&folder.join("leftfold.json"), content);
        self.run(&format!("(cd {} && leftfold config)", folder.display()))
    }

    /// A shell that goes on where the last one was, with its variables. `replaced` makes it become the line's command.
    fn shell(&self, line: &str, replaced: bool) -> Command {
        let state = self.root().join("state");
        let state = state.display();
        let begin = format!("cd \"$(<{state}/cwd)\"; . {state}/env; set -a -o pipefail");
        let script = if replaced {
            format!("{begin}; exec {line}")
        } else {
            let end =
                format!("code=$?; set +a; export -p >{state}/env; pwd >{state}/cwd; exit $code");
            format!("{begin}\n{line}\n{end}")
        };
        let mut command = Command::new("bash");
        command.args(["-c", &script]).env_clear().stdin(Stdio::null());
        command
    }

    pub(super) fn run(&self, line: &str) -> Ran {
        Live::start(self.shell(line, false)).wait()
    }

    /// A conversation, which is left at its first prompt.
    pub(super) fn converse(&self, line: &str) -> Ran {
        let mut terminal = Terminal::start(self.shell(line, false), 100);
        terminal.until_prompt().press("\u{4}");
        let code = terminal.wait();
        Ran { code, stdout: terminal.shown(), stderr: String::new() }
    }

    /// A command that goes on until it is interrupted, which it is after its first line.
    pub(super) fn watch(&self, line: &str) -> Ran {
        let mut live = Live::start(self.shell(line, true));
        let first = live.line();
        live.signal(Signal::INT);
        let mut ran = live.wait();
        if first.is_some() && ran.code == 130 {
            ran.code = 0;
        }
        ran
    }

    /// A command that goes on beside the next ones; it is waited for until a question stands open.
    pub(super) fn start(&mut self, number: usize, line: &str) {
        let live = Live::start(self.shell(line, true));
        self.background.push((number, line.to_owned(), live));
        common::wait_until("a question", || {
            let why = self.run("leftfold why last");
            why.code == 0 && why.stdout.contains("question")
        });
    }

    /// The commands in the background, each with the number of its line.
    pub(super) fn leave(&mut self) -> Vec<(usize, String, Live)> {
        std::mem::take(&mut self.background)
    }

    /// A line of output with the reader's own folders under the names that pages give them.
    pub(super) fn disguised(&self, line: &str) -> String {
        let root = self.root();
        let line = line.replace(root.join("home").to_str().unwrap(), "/home/me");
        line.replace(root.to_str().unwrap(), "")
    }
}

/// The model: what it says or calls follows from the last prompt and the results after it.
fn answer(request: &Recorded) -> Answer {
    let body = &request.body;
    let empty = Vec::new();
    let messages = body["messages"].as_array().unwrap_or(&empty);
    let is_result = |block: &Value| block["type"] == "tool_result";
    let blocks = |message: &Value| message["content"].as_array().cloned().unwrap_or_default();
    let has_result = |message: &Value| blocks(message).iter().any(is_result);
    let results = messages.iter().rev().take_while(|m| m["role"] == "assistant" || has_result(m));
    let results = results.flat_map(blocks).filter(is_result).count();
    let prompt = messages.iter().rfind(|m| m["role"] == "user" && !has_result(m));
    let prompt = prompt.map(|message| message["content"].to_string()).unwrap_or_default();
    let offered = body["tools"].as_array().is_some_and(|tools| !tools.is_empty());
    let block = match results {
        _ if !offered => Block::Text("The shop's total"),
        done => turn(&prompt, done),
    };
    Answer::Stream(message(&[block]), Split::Whole)
}

fn turn(prompt: &str, results: usize) -> Block {
    let call = |id, name, input: &Value| Block::Call(id, name, input.to_string());
    let edit = serde_json::json!({ "filePath": "total.sh", "oldString": "$1 - $2", "newString": "$1 + $2" });
    let test = serde_json::json!({ "command": "sh test.sh", "description": "Run the tests" });
    let calls: BTreeMap<usize, (&'static str, &Value)> = if prompt.contains("epair") {
        [(0, ("edit", &edit)), (1, ("bash", &test))].into()
    } else if prompt.contains("un the tests") {
        [(0, ("bash", &test))].into()
    } else {
        BTreeMap::new()
    };
    match calls.get(&results) {
        Some((name, input)) if results == 0 => call("toolu_1", name, input),
        Some((name, input)) => call("toolu_2", name, input),
        None => Block::Text("`total` in total.sh subtracts where it should add."),
    }
}
