//! The vendors' own types for requests, from their Python SDKs, and types of formats that exports have. `tests/peers/validator/` pins each package by its
//! hashes; they are installed once, below `target/`.

use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

#[derive(Clone, Debug)]
pub struct Validator {
    python: PathBuf,
}

/// A body in the format of a wire.
#[derive(Clone, Debug)]
pub struct Body {
    pub format: &'static str,
    pub name: String,
    pub body: Value,
}

impl Validator {
    /// Installs the packages. `None` if that is not possible; the running test then counts as skipped, and its
    /// caller returns.
    pub fn installed() -> Option<Self> {
        super::python::installed("tests/peers/validator").map(|python| Self { python })
    }

    /// The bodies that a vendor's types refuse: their names, and the faults.
    pub fn refused(&self, bodies: &[Body]) -> Vec<(String, Value)> {
        let mut running = Command::new(&self.python)
            .arg(super::root().join("tests/peers/validator/validate.py"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut input = running.stdin.take().unwrap();
        let lines: String = bodies
            .iter()
            .map(|Body { format, name, body }| {
                json!({ "format": format, "name": name, "body": body }).to_string() + "\n"
            })
            .collect();
        let writing = std::thread::spawn(move || input.write_all(lines.as_bytes()).unwrap());
        let output = running.wait_with_output().unwrap();
        writing.join().unwrap();
        assert!(output.status.success(), "validate.py: {}", output.status);
        let text = String::from_utf8(output.stdout).unwrap();
        let mut lines: Vec<Value> =
            text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let last = lines.pop().unwrap_or_default();
        assert_eq!(last["checked"], bodies.len(), "{text}");
        let refused = lines.into_iter();
        refused
            .map(|line| (line["name"].as_str().unwrap().into(), line["faults"].clone()))
            .collect()
    }
}
