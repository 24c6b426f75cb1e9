//! The program's own log: warnings, or the records that `LEFTFOLD_LOG` selects. It goes to standard
//! error or to a file, and never to standard output. Known secrets and tokens are masked in it, and
//! control characters are escaped.

use std::fs::{self, File, OpenOptions};
use std::io::{self, IsTerminal, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;
use std::sync::OnceLock;

use leftfold_runtime::{redact_output, session_paths};
use leftfold_view::clean;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::fmt::writer::BoxMakeWriter;

/// Warnings of Leftfold's own crates. Warnings of libraries are left out, because the code here
/// handles their errors.
const DEFAULT_FILTER: &str = "leftfold=warn";

/// A log file with more bytes than this is renamed to `leftfold.log.old` when a conversation begins to log.
const MAX_FILE: u64 = 1024 * 1024;

/// Starts the log. A conversation draws on the terminal, so its log goes to `leftfold.log` in the data
/// directory unless standard error is redirected.
pub(crate) fn start(is_conversation: bool) {
    let asked_for = std::env::var("LEFTFOLD_LOG");
    let filter = EnvFilter::new(asked_for.as_deref().unwrap_or(DEFAULT_FILTER));
    let folder =
        session_paths::data_dir().ok().filter(|_| is_conversation && io::stderr().is_terminal());
    let writer = match folder {
        Some(folder) => {
            BoxMakeWriter::new(LogFile { path: folder.join("leftfold.log"), file: OnceLock::new() })
        }
        None => BoxMakeWriter::new(|| Stderr),
    };
    let log =
        tracing_subscriber::fmt().with_env_filter(filter).with_writer(writer).with_ansi(false);
    match asked_for {
        Ok(_) => log.init(),
        Err(_) => log.with_target(false).without_time().init(),
    }
}

fn masked(line: &[u8]) -> String {
    let line = String::from_utf8_lossy(line);
    clean::printable(&redact_output::clean(&line)).into_owned()
}

/// Standard error; one write is one line.
struct Stderr;

impl Write for Stderr {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        io::stderr().write_all(masked(line).as_bytes())?;
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        io::stderr().flush()
    }
}

/// A file that only its owner can read. It is created with the first line.
struct LogFile {
    path: PathBuf,
    file: OnceLock<Option<File>>,
}

impl LogFile {
    fn open(&self) -> io::Result<File> {
        if let Some(folder) = self.path.parent() {
            fs::create_dir_all(folder)?;
        }
        if fs::metadata(&self.path).is_ok_and(|known| known.len() > MAX_FILE) {
            fs::rename(&self.path, self.path.with_extension("log.old"))?;
        }
        OpenOptions::new().create(true).append(true).mode(0o600).open(&self.path)
    }
}

impl Write for &LogFile {
    /// Drops the line where the file cannot be written: there is nowhere else to say so.
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let file = self.file.get_or_init(|| self.open().ok());
        if let Some(mut file) = file.as_ref() {
            file.write_all(masked(line).as_bytes())?;
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for LogFile {
    type Writer = &'a Self;

    fn make_writer(&'a self) -> &'a Self {
        self
    }
}
