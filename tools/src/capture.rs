//! Captures a command's output in bounded memory: the end for the model, and all of it (up to a
//! limit) in a file.

use std::collections::VecDeque;
use std::io;

use leftfold_events::event::Spill;
use leftfold_events::secrets::Redactor;

use crate::spill::SpillFile;
use crate::truncate::{self, Size};
use crate::{OutputLimits, Workspace};

pub(crate) struct Capture {
    limits: OutputLimits,
    workspace: Workspace,
    call: String,
    /// Removes secrets before anything is stored below.
    redactor: Redactor,
    /// All output until there is too much of it; then it moves to `spill`.
    all: Vec<u8>,
    /// The last bytes, at most as many as are shown.
    tail: VecDeque<u8>,
    size: Size,
    spill: Option<io::Result<SpillFile>>,
    ends_in_newline: bool,
}

#[derive(Debug)]
pub(crate) struct Captured {
    /// The output. If it was cut, a hint comes first.
    pub(crate) text: String,
    pub(crate) truncated: bool,
    pub(crate) spill: Option<Spill>,
}

impl Capture {
    pub(crate) fn new(workspace: &Workspace, call: &str) -> Self {
        Self {
            limits: workspace.limits,
            workspace: workspace.clone(),
            call: call.to_owned(),
            redactor: Redactor::new(workspace.secrets.clone()),
            all: Vec::new(),
            tail: VecDeque::new(),
            size: Size { lines: 0, bytes: 0 },
            spill: None,
            ends_in_newline: true,
        }
    }

    pub(crate) fn push(&mut self, bytes: &[u8]) {
        let bytes = self.redactor.push(bytes);
        self.take(&bytes);
    }

    fn take(&mut self, bytes: &[u8]) {
        let Some(last) = bytes.last() else { return };
        self.ends_in_newline = *last == b'\n';
        self.size.bytes += bytes.len() as u64;
        self.size.lines += bytes.iter().filter(|byte| **byte == b'\n').count() as u64;
        self.tail.extend(&bytes[bytes.len().saturating_sub(self.limits.max_bytes)..]);
        let surplus = self.tail.len().saturating_sub(self.limits.max_bytes);
        self.tail.drain(..surplus);
        if self.spill.is_some() {
            self.save(bytes);
            return;
        }
        self.all.extend_from_slice(bytes);
        if self.is_too_much() {
            self.spill = Some(SpillFile::create(&self.workspace.spill_dir, &self.call));
            let all = std::mem::take(&mut self.all);
            self.save(&all);
        }
    }

    /// Writes to the file. If that fails, the file is given up; the end of the output is still
    /// shown.
    fn save(&mut self, bytes: &[u8]) {
        if let Some(Ok(file)) = &mut self.spill
            && let Err(error) = file.write(bytes)
        {
            self.spill = Some(Err(error));
        }
    }

    fn lines(&self) -> u64 {
        self.size.lines + u64::from(!self.ends_in_newline)
    }

    fn is_too_much(&self) -> bool {
        self.size.bytes > self.limits.max_bytes as u64
            || self.lines() > self.limits.max_lines as u64
    }

    /// The last `bytes` bytes so far, starting at a whole character.
    pub(crate) fn last(&self, bytes: usize) -> String {
        let skip = self.tail.len().saturating_sub(bytes);
        lossy(&self.tail.iter().skip(skip).copied().collect::<Vec<u8>>(), skip > 0)
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.size.bytes
    }

    pub(crate) fn finish(mut self) -> Captured {
        let held = self.redactor.finish();
        self.take(&held);
        let whole = Size { lines: self.lines(), ..self.size };
        let Some(spill) = self.spill.take() else {
            let text = String::from_utf8_lossy(&self.all).into_owned();
            return Captured { text, truncated: false, spill: None };
        };
        let text = lossy(self.tail.make_contiguous(), true);
        let kept = truncate::tail(&text, self.limits);
        let saved = spill.map(|file| (file.full, file.finish())).map(|(full, spill)| (spill, full));
        let hint = truncate::hint("last", kept, whole, saved.as_ref(), &self.workspace);
        let text = format!("{hint}\n\n{kept}");
        Captured { text, truncated: true, spill: saved.ok().map(|(spill, _)| spill) }
    }
}

/// Decodes bytes that may begin inside a character (`cut`).
fn lossy(bytes: &[u8], cut: bool) -> String {
    let inside = |byte: &&u8| **byte & 0b1100_0000 == 0b1000_0000;
    let skip = if cut { bytes.iter().take(3).take_while(inside).count() } else { 0 };
    String::from_utf8_lossy(&bytes[skip..]).into_owned()
}

#[cfg(test)]
mod tests {
    use leftfold_events::Secrets;
    use leftfold_events::secrets::Secret;

    use super::*;
    use crate::testing::Site;

    #[test]
    fn the_end_is_kept_and_all_of_it_saved() {
        let site = Site::new();
        let mut capture = Capture::new(&site.workspace(), "c");
        let full: String = (1..=5_000).map(|n| format!("line {n}\n")).collect();
        for chunk in full.as_bytes().chunks(1_000) {
            capture.push(chunk);
        }
        let captured = capture.finish();
        assert!(captured.truncated);
        assert!(captured.text.starts_with("(Output cut: the last 2000 of 5000 lines, 48893 bytes"));
        assert!(captured.text.ends_with("\nline 5000\n"));
        assert!(captured.text.contains("\n\nline 3001\n"));
        assert_eq!(std::fs::read_to_string(captured.spill.unwrap().path).unwrap(), full);
    }

    #[test]
    fn a_secret_is_in_neither_wherever_it_is_cut() {
        let site = Site::new();
        let secret = Secret { name: "S".into(), value: "hunter2-hunter2".into(), usable: true };
        let secrets = Secrets::new([secret]).unwrap();
        let workspace = Workspace { secrets, ..site.workspace() };
        let full = "hunter2-hunter2 ".repeat(10_000);
        for size in [1, 7, 16, 1_000, 65_536] {
            let mut capture = Capture::new(&workspace, "c");
            for chunk in full.as_bytes().chunks(size) {
                capture.push(chunk);
                assert!(!capture.last(100).contains("hunter2-hunter2"));
            }
            let captured = capture.finish();
            let saved = std::fs::read_to_string(captured.spill.unwrap().path).unwrap();
            assert_eq!(saved, "{{secret:S}} ".repeat(10_000));
            assert!(!captured.text.contains("hunter2"));
        }
    }

    #[test]
    fn what_fits_is_left_as_it_is() {
        let site = Site::new();
        for text in ["", "a", "a\nb\n", &"x\n".repeat(2_000), &"x".repeat(51_200)] {
            let mut capture = Capture::new(&site.workspace(), "c");
            capture.push(text.as_bytes());
            let captured = capture.finish();
            assert!(!captured.truncated && captured.spill.is_none());
            assert_eq!(captured.text, text);
        }
        assert!(!site.root().join("spill").exists());
    }

    #[test]
    fn bytes_that_are_no_text_do_not_grow_over_the_limit() {
        let site = Site::new();
        let mut capture = Capture::new(&site.workspace(), "c");
        capture.push(&vec![0xff; 200_000]);
        let captured = capture.finish();
        assert!(captured.text.len() < 52_000, "{}", captured.text.len());
        assert_eq!(captured.spill.unwrap().bytes, 200_000);
    }

    #[test]
    fn a_progress_tail_starts_at_a_character() {
        let site = Site::new();
        let mut capture = Capture::new(&site.workspace(), "c");
        capture.push("äöü".as_bytes());
        assert_eq!(capture.last(3), "ü");
        assert_eq!(capture.last(99), "äöü");
    }
}
