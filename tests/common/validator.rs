//! The vendors' own types for requests, from their Python SDKs, and types of formats that exports have. `tests/peers/validator/` pins each package by its
//! hashes; they are installed once, below `target/`.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::{Value, json};

/// pip's messages that mean that the pinned requirements are wrong. These fail the test.
const OURS: [&str; 3] = ["DO NOT MATCH THE HASHES", "--require-hashes mode", "Invalid requirement"];

/// The oldest Python that the pinned packages run on.
const PYTHON: (u32, u32) = (3, 11);

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
        match install() {
            Ok(python) => Some(Self { python }),
            Err(why) => {
                super::skipped(&format!("the vendors' SDKs are not installed: {why}"));
                None
            }
        }
    }

    /// The bodies that a vendor's types refuse: their names, and the faults.
    pub fn refused(&self, bodies: &[Body]) -> Vec<(String, Value)> {
        let mut running = Command::new(&self.python)
            .arg(folder_of_sources().join("validate.py"))
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

fn folder_of_sources() -> PathBuf {
    super::root().join("tests/peers/validator")
}

/// The Python that has the packages.
fn install() -> Result<PathBuf, String> {
    let requirements = folder_of_sources().join("requirements.txt");
    let wanted = fs::read_to_string(&requirements).unwrap();
    let folder = super::program().parent().unwrap().join("../tmp/validator");
    fs::create_dir_all(&folder).unwrap();
    // other tests may install at the same time
    let lock = File::create(folder.join("lock")).unwrap();
    lock.lock().unwrap();
    let (done, python) = (folder.join("installed"), folder.join("venv/bin/python"));
    if fs::read_to_string(&done).is_ok_and(|installed| installed == wanted) && python.is_file() {
        return Ok(python);
    }
    super::may_install("the packages of tests/peers/validator from PyPI")?;
    let version = said(Command::new("python3").arg("--version"))?;
    let mut numbers = version.trim().trim_start_matches("Python ").split('.');
    let mut number = || numbers.next().and_then(|number| number.parse().ok()).unwrap_or(0);
    if (number(), number()) < PYTHON {
        return Err(format!("{} is too old", version.trim()));
    }
    said(Command::new("python3").args(["-m", "venv", "--clear"]).arg(folder.join("venv")))?;
    // No package may run code during the installation. The file lists every dependency: resolved again,
    // `google-auth[requests]` would be the newest version, which has no hash in the file.
    let safe = ["--require-hashes", "--no-deps", "--only-binary", ":all:", "--no-input", "--quiet"];
    // Harbor as a whole needs 3.12, its types for trajectories do not.
    let safe = safe.into_iter().chain(["--ignore-requires-python"]);
    let mut pip = Command::new(&python);
    pip.args(["-m", "pip", "install"]).args(safe).arg("-r").arg(Path::new(&requirements));
    said(&mut pip)?;
    fs::write(done, wanted).unwrap();
    Ok(python)
}

/// The output of a command that succeeds.
fn said(command: &mut Command) -> Result<String, String> {
    let ran = command.stdin(Stdio::null()).output();
    let ran = ran.map_err(|error| format!("{}: {error}", command.get_program().display()))?;
    let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
    if ran.status.success() {
        return Ok(text(&ran.stdout));
    }
    let why = text(&ran.stdout) + &text(&ran.stderr);
    assert!(!OURS.iter().any(|ours| why.contains(ours)), "{why}");
    Err(why.trim().to_owned())
}
