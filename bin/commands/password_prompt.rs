//! Reads a line from the terminal without showing it.

use std::io::{self, BufRead, Write};

use rustix::termios::{self, LocalModes, OptionalActions, SpecialCodeIndex, Termios};

const INTERRUPT: u8 = 0x03;
const END: u8 = 0x04;
const CLEAR: u8 = 0x15;

/// The longest accepted line, in bytes.
const LONGEST: usize = 64 * 1024;

/// Asks for a line on the terminal of standard input; `None` after an interrupt or the end of
/// input.
pub(crate) fn ask(prompt: &str) -> io::Result<Option<String>> {
    let quiet = Quiet::start()?;
    let mut stderr = io::stderr();
    write!(stderr, "{}", leftfold_view::clean::printable_line(prompt))?;
    stderr.flush()?;
    let line = read(io::stdin().lock());
    drop(quiet);
    writeln!(stderr)?;
    line
}

/// Turns off echo, line mode and signals of the terminal until it is dropped. An interrupt key is
/// read as a byte, so the terminal is always restored.
struct Quiet(Termios);

impl Quiet {
    fn start() -> io::Result<Self> {
        let before = termios::tcgetattr(io::stdin())?;
        let mut quiet = before.clone();
        quiet.local_modes.remove(LocalModes::ECHO | LocalModes::ICANON | LocalModes::ISIG);
        quiet.special_codes[SpecialCodeIndex::VMIN] = 1;
        quiet.special_codes[SpecialCodeIndex::VTIME] = 0;
        termios::tcsetattr(io::stdin(), OptionalActions::Now, &quiet)?;
        Ok(Self(before))
    }
}

impl Drop for Quiet {
    fn drop(&mut self) {
        // The terminal may be gone.
        let _ = termios::tcsetattr(io::stdin(), OptionalActions::Now, &self.0);
    }
}

fn read(keys: impl BufRead) -> io::Result<Option<String>> {
    let mut line = Vec::new();
    for key in keys.bytes() {
        match key? {
            b'\n' | b'\r' => return Ok(Some(String::from_utf8_lossy(&line).into_owned())),
            INTERRUPT => return Ok(None),
            END if line.is_empty() => return Ok(None),
            END => {}
            CLEAR => line.clear(),
            0x08 | 0x7f => drop(line.pop()),
            key if line.len() < LONGEST => line.push(key),
            _ => {}
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_can_be_corrected_and_given_up() {
        for (keys, line) in [
            ("key\n", Some("key")),
            ("key\r", Some("key")),
            ("kk\x7fey\n", Some("key")),
            ("wrong\x15key\n", Some("key")),
            ("ke\x04y\n", Some("key")),
            ("\n", Some("")),
            ("\x04", None),
            ("key\x03\n", None),
            ("cut", None),
        ] {
            assert_eq!(read(keys.as_bytes()).unwrap().as_deref(), line, "{keys:?}");
        }
    }
}
