//! `edit`: one piece of text in a file for another, found by exact match.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use leftfold_events::event::Class;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::tool::Typed;
use crate::{
    Context, Error, Output, Plan, Workspace, args, confined, diff, nearby, paths, text, write,
};

/// Lines of a file that are compared with what was not found in it.
const LOOK_AT: usize = 20_000;

/// Lines named or quoted in an error.
const QUOTE: usize = 10;

#[derive(Debug)]
pub(crate) struct Edit;

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Args {
    /// Path of the file: absolute, or relative to the working directory.
    #[serde(alias = "file_path")]
    file_path: String,
    /// The text to replace, exactly as it stands in the file.
    #[serde(alias = "old_string")]
    old_string: String,
    /// The text to put in its place.
    #[serde(alias = "new_string")]
    new_string: String,
    /// Replace every occurrence instead of the only one. Default: false.
    #[serde(
        default,
        alias = "replace_all",
        deserialize_with = "args::boolean",
        skip_serializing_if = "Option::is_none"
    )]
    replace_all: Option<bool>,
}

impl Typed for Edit {
    type Args = Args;
    const NAME: &'static str = "edit";
    const DESCRIPTION: &'static str = include_str!("../../prompts/tools/edit.md");

    fn plan(args: &Args, cx: &Workspace) -> Result<Plan, Error> {
        if args.old_string == args.new_string {
            return Err(Error::Identical);
        }
        Ok(paths::resolve(&args.file_path, cx)?.judged(Plan::new(Class::Write), "edit"))
    }

    async fn run(args: Args, paths: Vec<PathBuf>, cx: Context) -> Result<Output, Error> {
        write::changing(paths, cx, move |path| edit(&args, path)).await
    }
}

fn edit(args: &Args, path: &Path) -> Result<Output, Error> {
    let Some(found) = confined::look(path)? else {
        if args.old_string.is_empty() {
            confined::replace(path, None, args.new_string.as_bytes())?;
            return Ok(edited(args, path, None, &args.new_string, "Created"));
        }
        return Err(Error::NotFound(nearby::missing(path)));
    };
    confined::regular(path, &found)?;
    if args.old_string.is_empty() {
        return Err(Error::EmptyOldString(format!(
            "oldString is empty, but {} exists. Give the text to replace, or use write to replace the whole file.",
            path.display()
        )));
    }
    let before = text::load(path, &found)?;
    let (bom, body) = match before.strip_prefix(text::BOM) {
        Some(body) => (text::BOM, body),
        None => ("", before.as_str()),
    };
    let (changed, count) = replaced(body, args, path)?;
    let after = format!("{bom}{changed}");
    confined::replace(path, Some(&found), after.as_bytes())?;
    let did =
        if count == 1 { "Edited".to_owned() } else { format!("Replaced {count} occurrences in") };
    Ok(edited(args, path, Some(&before), &after, &did))
}

fn edited(args: &Args, path: &Path, before: Option<&str>, after: &str, did: &str) -> Output {
    let meta = diff::describe(&args.file_path, before, after);
    let output = format!(
        "{did} {}: {} lines added, {} removed.",
        path.display(),
        meta["additions"],
        meta["deletions"]
    );
    Output::new(&args.file_path, output, &Value::Object(meta))
}

/// The body with the replacement made, and how many there were.
fn replaced(body: &str, args: &Args, path: &Path) -> Result<(String, usize), Error> {
    for ending in endings(body) {
        let old = ending.apply(args.old_string.trim_start_matches(text::BOM));
        let new = ending.apply(args.new_string.trim_start_matches(text::BOM));
        let count = occurrences(body, &old).count();
        match count {
            0 => {}
            1 => return Ok((body.replacen(&old, &new, 1), 1)),
            _ if args.replace_all == Some(true) => {
                return Ok((body.replace(&old, &new), body.matches(&old).count()));
            }
            _ => return Err(several(body, &old, count, path)),
        }
    }
    Err(no_match(body, &args.old_string, path))
}

/// How the lines of a file end.
#[derive(Clone, Copy)]
enum Ending {
    Lf,
    CrLf,
}

impl Ending {
    fn apply(self, text: &str) -> String {
        let text = text.replace("\r\n", "\n");
        match self {
            Self::Lf => text,
            Self::CrLf => text.replace('\n', "\r\n"),
        }
    }
}

/// The endings in the file; CRLF first, since one is enough to count as such a file.
fn endings(body: &str) -> Vec<Ending> {
    let crlf = body.matches("\r\n").count();
    match (crlf, body.matches('\n').count()) {
        (0, _) => vec![Ending::Lf],
        (crlf, all) if crlf == all => vec![Ending::CrLf],
        _ => vec![Ending::CrLf, Ending::Lf],
    }
}

/// Where `old` begins, overlapping hits included: two that overlap are ambiguous as well.
fn occurrences<'a>(body: &'a str, old: &'a str) -> impl Iterator<Item = usize> + 'a {
    let step = old.chars().next().map_or(1, char::len_utf8);
    let mut from = 0;
    std::iter::from_fn(move || {
        if old.is_empty() {
            return None;
        }
        let at = from + body.get(from..)?.find(old)?;
        from = at + step;
        Some(at)
    })
}

fn several(body: &str, old: &str, count: usize, path: &Path) -> Error {
    let lines: Vec<String> = occurrences(body, old)
        .take(QUOTE)
        .map(|at| (body[..at].matches('\n').count() + 1).to_string())
        .collect();
    let more = if count > QUOTE { ", …" } else { "" };
    Error::MultipleMatches(format!(
        "oldString occurs {count} times in {}, at lines {}{more}. Add lines around it until it is the only one, or set replaceAll.",
        path.display(),
        lines.join(", ")
    ))
}

fn no_match(body: &str, old: &str, path: &Path) -> Error {
    let mut text = format!("oldString was not found in {}.", path.display());
    if old.lines().all(|line| line.split_once(": ").is_some_and(|(n, _)| n.parse::<u32>().is_ok()))
    {
        text +=
            " It seems to have the line numbers that read puts before each line; leave them out.";
    }
    if let Some((first, lines)) = nearest(body, old) {
        text += " The most similar lines are:\n";
        for (n, line) in (first + 1..).zip(lines) {
            // writing to a String cannot fail
            let _ = writeln!(text, "{n}: {line}");
        }
        text += "It must match exactly, white space included.";
    } else {
        text += " Read the file again: nothing in it is similar.";
    }
    Error::NoMatch(text)
}

/// The lines most like those of `old`: index of the first, and their text.
fn nearest<'a>(body: &'a str, old: &str) -> Option<(usize, Vec<&'a str>)> {
    let wanted: Vec<&str> = old.lines().map(str::trim).take(QUOTE).collect();
    let anchor = wanted.iter().position(|line| !line.is_empty())?;
    let lines: Vec<&str> = body.lines().take(LOOK_AT).collect();
    let score = |start: usize| -> f32 {
        let pairs = wanted.iter().zip(lines.iter().skip(start));
        pairs.map(|(wanted, line)| likeness(wanted, line.trim())).sum()
    };
    let (best, start) = (0..lines.len())
        .filter(|line| likeness(wanted[anchor], lines[*line].trim()) >= 0.5)
        .map(|line| line.saturating_sub(anchor))
        .map(|start| (score(start), start))
        .max_by(|(a, i), (b, j)| a.total_cmp(b).then(j.cmp(i)))?;
    (best > 0.0).then(|| (start, lines.iter().skip(start).take(wanted.len()).copied().collect()))
}

/// From 0 to 1, by the words that two lines share. Rough, but linear: a long file has many lines.
fn likeness(a: &str, b: &str) -> f32 {
    if a == b {
        return if a.is_empty() { 0.1 } else { 1.0 };
    }
    let [a, b] = [a, b].map(|line| {
        line.split(|c: char| !c.is_alphanumeric()).filter(|w| !w.is_empty()).take(50).collect()
    });
    let (a, b): (Vec<&str>, Vec<&str>) = (a, b);
    let shared = a.iter().filter(|word| b.contains(word)).count();
    #[expect(clippy::cast_precision_loss, reason = "at most 50 words")]
    let ratio = |part: usize, whole: usize| part as f32 / whole.max(1) as f32;
    ratio(2 * shared, a.len() + b.len()) * 0.99
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::testing::{Site, kind};

    #[tokio::test]
    async fn replacements() {
        for (before, old, new, all, after) in [
            ("one two three", "two", "2", false, "one 2 three"),
            ("a\nb\nc\n", "b\n", "", false, "a\nc\n"),
            ("a a a", "a", "b", true, "b b b"),
            ("aaa", "a", "aa", true, "aaaaaa"),
            ("a", "a", "$1 \\0 $& \\n", false, "$1 \\0 $& \\n"),
            ("x = \"ä\";", "ä", "€", false, "x = \"€\";"),
            // arguments take on the ending of the file
            ("a\r\nb\r\nc\r\n", "a\nb", "a\nx\nb", false, "a\r\nx\r\nb\r\nc\r\n"),
            ("a\r\nb\r\n", "b", "b\r\nc", false, "a\r\nb\r\nc\r\n"),
            ("a\nb\n", "a\r\nb", "c\r\nd", false, "c\nd\n"),
            // endings that are mixed stay so where nothing is changed
            ("a\r\nb\nc\nd\r\n", "b\nc", "x\ny", false, "a\r\nx\ny\nd\r\n"),
            ("a\r\nb\nc\n", "a\nb", "x", false, "x\nc\n"),
            // a byte order mark stays, and none is added
            ("\u{feff}a\n", "a", "b", false, "\u{feff}b\n"),
            ("\u{feff}a\n", "\u{feff}a", "\u{feff}b", false, "\u{feff}b\n"),
            ("a\n", "a", "\u{feff}b", false, "b\n"),
        ] {
            let site = Site::new();
            site.file("f", before);
            let input = json!({
                "filePath": "f", "oldString": old, "newString": new, "replaceAll": all,
            });
            let output = site.run("edit", &input).await;
            assert!(!output.is_error, "{before:?}: {output:?}");
            assert_eq!(site.text("f"), after, "{before:?}");
        }
    }

    #[tokio::test]
    async fn errors_change_nothing() {
        let site = Site::new();
        site.file("f", "a\nb\na\naaa\n");
        site.file("dir/x", "");
        site.file("bin", b"a\0b");
        site.file("latin1", b"caf\xe9");
        site.fifo("pipe");
        for (path, old, new, expected) in [
            ("f", "zzz", "y", "no_match"),
            ("f", "a\n", "y", "multiple_matches"),
            ("f", "aa", "y", "multiple_matches"),
            ("f", "", "y", "empty_old_string"),
            ("nope", "a", "b", "not_found"),
            ("dir", "a", "b", "is_directory"),
            ("bin", "a", "b", "binary"),
            ("latin1", "caf", "b", "binary"),
            ("pipe", "a", "b", "special_file"),
        ] {
            let input = json!({ "filePath": path, "oldString": old, "newString": new });
            let output = site.run("edit", &input).await;
            assert_eq!(kind(&output), expected, "{path} {old:?}");
        }
        assert_eq!(site.text("f"), "a\nb\na\naaa\n");
        // identical strings come first, even where the file is missing
        let same = json!({ "filePath": "nope", "oldString": "a", "newString": "a" });
        let error = site.resolve("edit", &same).error.unwrap();
        assert!(error.contains("identical"), "{error}");
    }

    #[tokio::test]
    async fn errors_help() {
        let site = Site::new();
        site.file("f", "fn one() {\n    let x = 1;\n    go(x);\n}\n\nfn two() {}\nend\nend\n");
        for (old, said) in [
            (
                "fn one() {\n  let x = 1;",
                "\n1: fn one() {\n2:     let x = 1;\nIt must match exactly",
            ),
            ("    let x = 2;\n    go(x)", "\n2:     let x = 1;\n3:     go(x);\n"),
            ("1: fn one() {", "line numbers"),
            ("completely different words", "nothing in it is similar"),
            ("end", "occurs 2 times in"),
            ("end", "at lines 7, 8."),
        ] {
            let input = json!({ "filePath": "f", "oldString": old, "newString": "y" });
            let output = site.run("edit", &input).await;
            assert!(output.output.contains(said), "{old:?}: {}", output.output);
        }
    }

    #[tokio::test]
    async fn says_what_it_did() {
        let site = Site::new();
        site.file("f", "a\nb\nb\n");
        let input = json!({ "file_path": "f", "old_string": "b", "new_string": "c", "replace_all": "true" });
        let output = site.run("edit", &input).await;
        assert!(output.output.starts_with("Replaced 2 occurrences in "), "{}", output.output);
        let meta = output.meta();
        assert_eq!((&meta["additions"], &meta["deletions"]), (&json!(2), &json!(2)));
        assert!(meta["diff"].as_str().unwrap().contains("-b\n-b\n+c\n+c\n"));
        let input = json!({ "filePath": "new/file", "oldString": "", "newString": "hello\n" });
        let output = site.run("edit", &input).await;
        assert_eq!((site.text("new/file").as_str(), output.is_error), ("hello\n", false));
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
    async fn edits_side_by_side_lose_nothing() {
        let site = std::sync::Arc::new(Site::new());
        let lines: String = (0..20).map(|n| format!("line {n}.\n")).collect();
        site.file("f", &lines);
        let edits: Vec<_> = (0..20)
            .map(|n| {
                let site = std::sync::Arc::clone(&site);
                let (old, new) = (format!("line {n}."), format!("done {n}."));
                let input = json!({ "filePath": "f", "oldString": old, "newString": new });
                tokio::spawn(async move { site.run("edit", &input).await })
            })
            .collect();
        for edit in edits {
            let output = edit.await.unwrap();
            assert!(!output.is_error, "{output:?}");
        }
        assert_eq!(site.text("f"), lines.replace("line", "done"));
    }
}
