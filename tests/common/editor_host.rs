//! An editor's own side: open files, some unsaved, and terminals.

use std::collections::HashMap;
use std::fs::File;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};

use super::{Editor, Site};

pub struct EditorHost {
    folder: PathBuf,
    /// Unsaved texts, by path.
    pub unsaved: HashMap<String, String>,
    /// Methods that are answered with an error.
    pub refused: Vec<&'static str>,
    /// Methods that are never answered.
    pub silent: Vec<&'static str>,
    /// Every received request, in order.
    pub asked: Vec<Value>,
    terminals: HashMap<String, Child>,
    /// Unanswered requests that wait for a terminal's end.
    waiting: Vec<Value>,
    /// Whether to report the end of a command only after a kill.
    pub patient: bool,
}

impl EditorHost {
    pub fn new(site: &Site) -> Self {
        Self {
            folder: site.path(""),
            unsaved: HashMap::new(),
            refused: Vec::new(),
            silent: Vec::new(),
            asked: Vec::new(),
            terminals: HashMap::new(),
            waiting: Vec::new(),
            patient: false,
        }
    }

    /// Serves requests until the request `id` is answered. Returns its result.
    pub fn result(&mut self, editor: &mut Editor, id: u64) -> Value {
        let answers = |message: &Value| message["id"] == id && message.get("method").is_none();
        let answer = self.until(editor, answers);
        assert!(answer.get("error").is_none(), "{answer}");
        answer["result"].clone()
    }

    /// Serves requests until a message satisfies the condition and is not for the host or has been
    /// served.
    pub fn until(&mut self, editor: &mut Editor, wanted: impl Fn(&Value) -> bool) -> Value {
        loop {
            let message = editor.until(|_| true);
            self.serve(editor, &message);
            if wanted(&message) {
                return message;
            }
        }
    }

    /// The requests with this method.
    pub fn asked(&self, method: &str) -> Vec<&Value> {
        let asked = self.asked.iter().filter(|request| request["method"] == method);
        asked.map(|request| &request["params"]).collect()
    }

    fn serve(&mut self, editor: &mut Editor, message: &Value) {
        let Some(method) = message["method"].as_str() else { return };
        if !method.starts_with("fs/") && !method.starts_with("terminal/") {
            return;
        }
        self.asked.push(message.clone());
        if self.silent.contains(&method) {
            return;
        }
        if self.refused.contains(&method) {
            return editor.refuse(message, "not here");
        }
        let params = &message["params"];
        let path = params["path"].as_str().unwrap_or_default();
        let result = match method {
            "fs/read_text_file" => {
                let shown = self.unsaved.get(path).cloned();
                let text = shown.unwrap_or_else(|| std::fs::read_to_string(path).unwrap());
                json!({ "content": text })
            }
            "fs/write_text_file" => {
                self.unsaved.remove(path);
                std::fs::write(path, params["content"].as_str().unwrap()).unwrap();
                json!({})
            }
            "terminal/create" => json!({ "terminalId": self.open(params) }),
            "terminal/wait_for_exit" if self.patient => return self.waiting.push(message.clone()),
            _ => self.terminal(editor, method, params["terminalId"].as_str().unwrap()),
        };
        editor.reply(message, result);
    }

    /// Starts a command in a process group of its own, like a terminal would, with a variable that
    /// only the editor has.
    fn open(&mut self, params: &Value) -> String {
        let id = format!("t{}", self.terminals.len() + 1);
        let output = File::create(self.folder.join(&id)).unwrap();
        let texts = |list: &Value| -> Vec<String> {
            list.as_array().unwrap().iter().map(|text| text.as_str().unwrap().to_owned()).collect()
        };
        let mut command = Command::new(params["command"].as_str().unwrap());
        command.args(texts(&params["args"])).current_dir(params["cwd"].as_str().unwrap());
        for variable in params["env"].as_array().unwrap() {
            let of = |field: &str| variable[field].as_str().unwrap().to_owned();
            command.env(of("name"), of("value"));
        }
        command.env("EDITORS_OWN", "1").stdin(Stdio::null()).stdout(output.try_clone().unwrap());
        self.terminals.insert(id.clone(), command.stderr(output).spawn().unwrap());
        id
    }

    fn terminal(&mut self, editor: &mut Editor, method: &str, id: &str) -> Value {
        let text = || std::fs::read_to_string(self.folder.join(id)).unwrap().replace('\n', "\r\n");
        let child = self.terminals.get_mut(id).unwrap();
        match method {
            "terminal/output" => json!({ "output": text(), "truncated": false }),
            "terminal/wait_for_exit" => json!({ "exitCode": child.wait().unwrap().code() }),
            "terminal/kill" => {
                // the process may have ended
                let _ = child.kill();
                child.wait().unwrap();
                for waiting in std::mem::take(&mut self.waiting) {
                    editor.reply(&waiting, json!({ "signal": "SIGKILL" }));
                }
                json!({})
            }
            "terminal/release" => json!({}),
            _ => panic!("{method}"),
        }
    }
}

impl Drop for EditorHost {
    fn drop(&mut self) {
        for child in self.terminals.values_mut() {
            // the process may have ended
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
