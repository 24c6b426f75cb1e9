//! Packages from PyPI, to test against. Each `requirements.txt` pins them by their hashes; they are installed once, below
//! `target/`.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// pip's messages that mean that the pinned requirements are wrong. These fail the test.
const OURS: [&str; 3] = ["DO NOT MATCH THE HASHES", "--require-hashes mode", "Invalid requirement"];

/// The oldest Python that the pinned packages run on.
const PYTHON: (u32, u32) = (3, 11);

/// A Python that has the packages of `source`, a folder with `requirements.txt`. `None` if they cannot be installed; the
/// running test then counts as skipped, and its caller returns.
pub fn installed(source: &str) -> Option<PathBuf> {
    match install(source) {
        Ok(python) => Some(python),
        Err(why) => {
            super::skipped(&format!("the packages of {source} are not installed: {why}"));
            None
        }
    }
}

fn install(source: &str) -> Result<PathBuf, String> {
    let requirements = super::root().join(source).join("requirements.txt");
    let wanted = fs::read_to_string(&requirements).unwrap();
    let kind = Path::new(source).file_name().unwrap();
    let folder = super::program().parent().unwrap().join("../tmp/python").join(kind);
    fs::create_dir_all(&folder).unwrap();
    // other tests may install at the same time
    let lock = File::create(folder.join("lock")).unwrap();
    lock.lock().unwrap();
    let (done, python) = (folder.join("installed"), folder.join("venv/bin/python"));
    if fs::read_to_string(&done).is_ok_and(|installed| installed == wanted) && python.is_file() {
        return Ok(python);
    }
    super::may_install(&format!("the packages of {source} from PyPI"))?;
    let python3 = super::in_path(&["python3"]).ok_or("there is no `python3` in PATH")?;
    let version = said(Command::new(&python3).arg("--version"))?;
    let mut numbers = version.trim().trim_start_matches("Python ").split('.');
    let mut number = || numbers.next().and_then(|number| number.parse().ok()).unwrap_or(0);
    if (number(), number()) < PYTHON {
        return Err(format!("{} is too old", version.trim()));
    }
    // a pip in each environment takes longer to install than many of the packages
    let has_pip = said(Command::new(&python3).args(["-m", "pip", "--version"])).is_ok();
    let mut environment = Command::new(&python3);
    environment.args(["-m", "venv", "--clear"]).args(has_pip.then_some("--without-pip"));
    said(environment.arg(folder.join("venv")))?;
    // No package may run code during the installation. The file lists every dependency: resolved again,
    // `google-auth[requests]` would be the newest version, which has no hash in the file.
    let safe = ["--require-hashes", "--no-deps", "--only-binary", ":all:", "--no-input", "--quiet"];
    // what a test imports is compiled then, the rest never
    let safe = safe.into_iter().chain(["--no-compile"]);
    // Harbor as a whole needs 3.12, its types for trajectories do not.
    let safe = safe.chain(["--ignore-requires-python"]);
    let mut pip = Command::new(if has_pip { &python3 } else { &python });
    pip.args(["-m", "pip", "--python"]).arg(&python).arg("install");
    pip.args(safe).arg("-r").arg(Path::new(&requirements));
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
