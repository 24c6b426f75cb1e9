//! Images and PDFs that go with a prompt. They come from a path that is pasted, as terminals do with a file that is
//! dropped on them, or from the clipboard. A marker in the text stands for each: without it, the file stays here.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, bail};
use leftfold_events::event::{PromptKind, PromptPart};
use leftfold_runtime::attach;
use leftfold_view::clean::clean_line;
use percent_encoding::percent_decode_str;
use tokio::io::AsyncReadExt;
use tokio::process::Command;

/// The extensions of a pasted path. The contents of the file decide its type.
const ENDINGS: [&str; 6] = ["png", "jpg", "jpeg", "gif", "webp", "pdf"];
/// Bytes of the longest path.
const LONGEST_PATH: usize = 4_096;
/// Characters of a name in a marker.
const LONGEST_NAME: usize = 40;
/// How long the clipboard may take.
const CLIPBOARD_TIMEOUT: Duration = Duration::from_secs(3);

/// The files of this conversation, with their markers.
#[derive(Debug, Default)]
pub(super) struct Attachments(Vec<(String, PromptPart)>);

impl Attachments {
    /// Keeps a file, and answers its marker.
    pub(super) fn add(&mut self, part: PromptPart) -> String {
        let kind = match part.mime.as_deref() {
            Some("application/pdf") => "document",
            Some(_) | None => "image",
        };
        let name: String =
            part.name.iter().flat_map(|name| name.chars()).take(LONGEST_NAME).collect();
        let name = clean_line(&name).replace(['[', ']'], "");
        let name = if name.is_empty() { name } else { format!(": {name}") };
        let marker = format!("[{kind} {}{name}]", self.0.len() + 1);
        self.0.push((marker.clone(), part));
        marker
    }

    /// The files whose markers a text has.
    pub(super) fn for_text(&self, text: &str) -> Vec<PromptPart> {
        let named = self.0.iter().filter(|(marker, _)| text.contains(marker.as_str()));
        named.map(|(_, part)| part.clone()).collect()
    }
}

/// The absolute path of an image or a PDF that a pasted text consists of: bare, in quotes, with escapes of the shell,
/// or as a `file:` address.
pub(super) fn path_of(pasted: &str, home: Option<&Path>) -> Option<PathBuf> {
    let text = pasted.trim();
    if text.len() > LONGEST_PATH || text.contains(|c: char| c.is_control()) {
        return None;
    }
    let quoted = ['\'', '"'].into_iter().find_map(|quote| {
        text.strip_prefix(quote)?.strip_suffix(quote).filter(|inner| !inner.contains(quote))
    });
    let path = match (quoted, text.strip_prefix("file://")) {
        (Some(quoted), _) => quoted.to_owned(),
        (None, Some(address)) => {
            let address = address.strip_prefix("localhost").unwrap_or(address);
            percent_decode_str(address).decode_utf8().ok()?.into_owned()
        }
        (None, None) => unescaped(text)?,
    };
    let path = match (path.strip_prefix("~/"), home) {
        (Some(rest), Some(home)) => home.join(rest),
        (Some(_), None) => return None,
        (None, _) => PathBuf::from(path),
    };
    let ending = path.extension()?.to_str()?.to_lowercase();
    (path.is_absolute() && ENDINGS.contains(&ending.as_str())).then_some(path)
}

/// A word of a shell line. `None`: there are several.
fn unescaped(text: &str) -> Option<String> {
    let mut path = String::new();
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => path.push(chars.next()?),
            ' ' => return None,
            c => path.push(c),
        }
    }
    Some(path)
}

/// A program that prints the clipboard's image, and its arguments.
type Program = (&'static str, &'static [&'static str]);

/// The programs for the display that the environment names.
fn programs(env: impl Fn(&str) -> bool) -> Vec<Program> {
    let mut programs: Vec<Program> = Vec::new();
    if env("WAYLAND_DISPLAY") {
        programs.push(("wl-paste", &["--no-newline", "--type", "image/png"]));
    }
    if env("DISPLAY") {
        programs.push(("xclip", &["-selection", "clipboard", "-target", "image/png", "-out"]));
    }
    if cfg!(target_os = "macos") {
        programs.push(("pngpaste", &["-"]));
    }
    programs
}

/// The image of the clipboard.
///
/// # Errors
/// There is none, or no program that can read it.
pub(super) async fn of_clipboard() -> anyhow::Result<PromptPart> {
    let has = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    let mut missing = Vec::new();
    for (program, arguments) in programs(has) {
        let Ok(command) = leftfold_programs::for_person(program) else {
            missing.push(program);
            continue;
        };
        let mut command = Command::from(command);
        command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        let Ok(mut running) = command.kill_on_drop(true).spawn() else {
            missing.push(program);
            continue;
        };
        let mut bytes = Vec::new();
        let output = running.stdout.take().context("the program has no output")?;
        // more need not be read: no image has as many
        let mut output = output.take(attach::MAX_INPUT);
        let read = tokio::time::timeout(CLIPBOARD_TIMEOUT, output.read_to_end(&mut bytes));
        read.await.with_context(|| format!("{program} does not answer"))??;
        return match attach::input(&bytes)? {
            Some(part) if part.kind == PromptKind::Media => Ok(part),
            Some(_) | None => bail!("there is no image in the clipboard"),
        };
    }
    match missing.as_slice() {
        [] => bail!("this machine has no display whose clipboard could be read"),
        missing => bail!("install {} to paste images", missing.join(" or ")),
    }
}

#[cfg(test)]
mod tests {

    use super::*;

    #[test]
    fn paths_of_images_are_recognised() {
        let home = Path::new("/home/u");
        for (pasted, expected) in [
            ("/tmp/a.png", Some("/tmp/a.png")),
            (" /tmp/A.JPG \n", Some("/tmp/A.JPG")),
            ("'/tmp/a b.png'", Some("/tmp/a b.png")),
            ("\"/tmp/a b.pdf\"", Some("/tmp/a b.pdf")),
            ("/tmp/a\\ b\\(1\\).png", Some("/tmp/a b(1).png")),
            ("~/a.webp", Some("/home/u/a.webp")),
            ("file:///tmp/a%20b%C3%B6.gif", Some("/tmp/a bö.gif")),
            ("file://localhost/tmp/a.gif", Some("/tmp/a.gif")),
            ("file:///tmp/a%ff.gif", None),
            ("/tmp/a.png is wrong", None),
            ("/tmp/a.png /tmp/b.png", None),
            ("/tmp/a.png\n/tmp/b.png", None),
            ("/tmp/a.txt", None),
            ("a.png", None),
            ("https://example.org/a.png", None),
            ("'/tmp/a.png' '/tmp/b.png'", None),
            ("", None),
        ] {
            assert_eq!(path_of(pasted, Some(home)), expected.map(PathBuf::from), "{pasted:?}");
        }
        assert_eq!(path_of("~/a.png", None), None);
    }

    #[test]
    fn files_go_with_the_texts_that_have_their_markers() {
        let part = |name: Option<&str>, mime: &str| PromptPart {
            kind: PromptKind::Media,
            mime: Some(mime.to_owned()),
            name: name.map(str::to_owned),
            ..PromptPart::text("x")
        };
        let mut attachments = Attachments::default();
        assert_eq!(attachments.add(part(Some("a\u{1b}[2J].png"), "image/png")), "[image 1: a.png]");
        assert_eq!(attachments.add(part(None, "image/png")), "[image 2]");
        let long = format!("{}.pdf", "x".repeat(100));
        let third = attachments.add(part(Some(&long), "application/pdf"));
        assert_eq!(third, format!("[document 3: {}]", "x".repeat(40)));
        let names = |text: &str| attachments.for_text(text).len();
        assert_eq!(names("see [image 2] and [image 1: a.png]"), 2);
        assert_eq!(names("see [image 1]"), 0);
        assert_eq!(names(&third), 1);
    }

    #[test]
    fn the_display_says_which_program_reads_the_clipboard() {
        let names = |set: &[&str]| -> Vec<&str> {
            programs(|name| set.contains(&name)).into_iter().map(|(name, _)| name).collect()
        };
        if cfg!(target_os = "linux") {
            assert_eq!(names(&["WAYLAND_DISPLAY", "DISPLAY"]), ["wl-paste", "xclip"]);
            assert_eq!(names(&["DISPLAY"]), ["xclip"]);
            assert_eq!(names(&[]), Vec::<&str>::new());
        }
    }
}
