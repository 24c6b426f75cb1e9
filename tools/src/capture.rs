//! Captures a command's output in bounded memory, as a terminal would show it in the end: the last part for the model, and
//! all of it (up to a limit) in a file.

use std::collections::VecDeque;
use std::io;

use leftfold_events::event::Spill;
use leftfold_events::secrets::Redactor;

use crate::screen::Screen;
use crate::spill::SpillFile;
use crate::truncate::{self, Size};
use crate::{OutputLimits, Workspace};

pub(crate) struct Capture {
    limits: OutputLimits,
    workspace: Workspace,
    call: String,
    /// Number of bytes that the command has written.
    pushed: u64,
    /// Removes control sequences and overwritten frames.
    screen: Screen,
    /// Removes secrets before anything is stored below.
    redactor: Redactor,
    /// All output until there is too much of it; then it moves to `spill`.
    all: Vec<u8>,
    /// The last bytes, at most as many as are shown.
    tail: VecDeque<u8>,
    /// Whether `tail` begins inside a line.
    cut_in_line: bool,
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
            pushed: 0,
            screen: Screen::default(),
            redactor: Redactor::new(workspace.secrets.clone()),
            all: Vec::new(),
            tail: VecDeque::new(),
            cut_in_line: false,
            size: Size { lines: 0, bytes: 0 },
            spill: None,
            ends_in_newline: true,
        }
    }

    pub(crate) fn push(&mut self, bytes: &[u8]) {
        self.pushed += bytes.len() as u64;
        let shown = self.screen.push(bytes);
        let known = self.redactor.push(&shown);
        self.take(&known);
    }

    fn take(&mut self, bytes: &[u8]) {
        let Some(last) = bytes.last() else { return };
        self.ends_in_newline = *last == b'\n';
        self.size.bytes += bytes.len() as u64;
        self.size.lines += bytes.iter().filter(|byte| **byte == b'\n').count() as u64;
        let skipped = bytes.len().saturating_sub(self.limits.max_bytes);
        self.tail.extend(&bytes[skipped..]);
        let surplus = self.tail.len().saturating_sub(self.limits.max_bytes);
        let dropped = self.tail.drain(..surplus).next_back();
        let before = skipped.checked_sub(1).map(|at| bytes[at]).or(dropped);
        self.cut_in_line = before.map_or(self.cut_in_line, |byte| byte != b'\n');
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
        let mut redactor = self.redactor.clone();
        let held = redactor.push(self.screen.held());
        let skip = (self.tail.len() + held.len()).saturating_sub(bytes);
        let last = self.tail.iter().chain(&*held).skip(skip).copied();
        lossy(&last.collect::<Vec<u8>>(), skip > 0)
    }

    /// Number of bytes that the command has written so far.
    pub(crate) fn bytes(&self) -> u64 {
        self.pushed
    }

    pub(crate) fn finish(mut self) -> Captured {
        let rest = self.screen.finish();
        let known = self.redactor.push(&rest);
        self.take(&known);
        let held = self.redactor.finish();
        self.take(&held);
        let whole = Size { lines: self.lines(), ..self.size };
        let Some(spill) = self.spill.take() else {
            let text = String::from_utf8_lossy(&self.all).into_owned();
            return Captured { text, truncated: false, spill: None };
        };
        let text = lossy(self.tail.make_contiguous(), true);
        let kept = truncate::tail(&text, self.limits);
        let starts_inside = match text[..text.len() - kept.len()].chars().next_back() {
            Some(before) => before != '\n',
            None => self.cut_in_line,
        };
        let whole_lines = if starts_inside { from_whole_line(kept) } else { Some(kept) };
        let (mark, kept) = whole_lines.map_or((CUT_LINE, kept), |lines| ("", lines));
        let saved = spill.map(|file| (file.full, file.finish())).map(|(full, spill)| (spill, full));
        let hint = truncate::hint("last", kept, whole, saved.as_ref(), &self.workspace);
        let text = format!("{hint}\n\n{mark}{kept}");
        Captured { text, truncated: true, spill: saved.ok().map(|(spill, _)| spill) }
    }
}

/// Stands before a line whose beginning is left out.
const CUT_LINE: &str = "[the beginning of this line is left out] ";

/// The text from its second line on; `None` if it has only one.
fn from_whole_line(text: &str) -> Option<&str> {
    let (_, rest) = text.split_once('\n')?;
    (!rest.is_empty()).then_some(rest)
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
        assert_eq!(crate::truncate::cut_lines(&captured.text), Some((5000, 2000)));
        assert!(captured.text.ends_with("\nline 5000\n"));
        assert!(captured.text.contains("\n\nline 3001\n"));
        assert_eq!(std::fs::read_to_string(captured.spill.unwrap().path).unwrap(), full);
    }

    #[test]
    fn an_end_is_cut_at_a_line_or_says_that_it_is_not() {
        let site = Site::new();
        let end = |full: &str, chunk: usize| {
            let mut capture = Capture::new(&site.workspace(), "c");
            full.as_bytes().chunks(chunk).for_each(|bytes| capture.push(bytes));
            let text = capture.finish().text;
            text.split_once("\n\n").unwrap().1.to_owned()
        };
        // 600 lines of 100 bytes: the limit of bytes falls into a line, or exactly between two
        for (width, kept) in [(99, 99), (100, 51_200 / 100), (128, 51_200 / 128)] {
            let line = format!("{}\n", "x".repeat(width - 1));
            let full = line.repeat(600);
            for chunk in [1, 7, 4_096, 100_000] {
                let end = end(&full, chunk);
                assert!(end.lines().all(|line| line.len() == width - 1), "{width} {chunk}");
                assert!(end.lines().count() >= kept, "{width} {chunk}");
            }
        }
        let long = "y".repeat(60_000);
        assert!(end(&long, 1_000).starts_with(&format!("{CUT_LINE}yyy")));
        assert!(end(&format!("{long}\n"), 1_000).starts_with(&format!("{CUT_LINE}yyy")));
        assert_eq!(end(&format!("{long}\nend\n"), 1_000), "end\n");
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
            for (nth, chunk) in full.as_bytes().chunks(size).enumerate() {
                capture.push(chunk);
                if nth % 97 == 0 {
                    assert!(!capture.last(100).contains("hunter2-hunter2"));
                }
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
    fn frames_and_colours_are_in_neither_and_hide_no_secret() {
        let site = Site::new();
        let secret = Secret { name: "S".into(), value: "hunter2-hunter2".into(), usable: true };
        let secrets = Secrets::new([secret]).unwrap();
        let workspace = Workspace { secrets, ..site.workspace() };
        let mut capture = Capture::new(&workspace, "c");
        for n in 0..5_000 {
            capture.push(format!("\rstep {n}").as_bytes());
        }
        assert_eq!(capture.last(100), "step 4999");
        capture.push(b"\n\x1b[31mhunter2-\x1b[1mhunter2\x1b[0m\n");
        assert_eq!(capture.finish().text, "step 4999\n{{secret:S}}\n");
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
