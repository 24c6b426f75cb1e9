//! `write`: writes a whole file.

use std::path::{Path, PathBuf};

use leftfold_events::event::Class;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::diff::{FilePreview, MAX_FILE};
use crate::text_files::TextFiles;
use crate::tool::{Seen, ToolKind, Typed};
use crate::{Context, Error, Output, Plan, Workspace, confined, diff, locks, paths, seen, text};

#[derive(Debug)]
pub(crate) struct Write;

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Args {
    /// Path of the file: absolute, or relative to the working directory.
    #[serde(alias = "file_path")]
    file_path: String,
    /// The whole content of the file, including line breaks.
    content: String,
}

impl Typed for Write {
    type Args = Args;
    const NAME: &'static str = "write";
    const DESCRIPTION: &'static str = include_str!("../../prompts/tools/write.md");
    const KIND: ToolKind = ToolKind::Edit;
    const USES_WORKSPACE: bool = true;

    fn plan(args: &Args, cx: &Workspace) -> Result<Plan, Error> {
        Ok(paths::resolve(&args.file_path, cx)?.judged(Plan::new(Class::Write), "edit"))
    }

    fn preview(
        args: &Args,
        paths: Vec<PathBuf>,
        cx: &Workspace,
    ) -> Result<Vec<FilePreview>, Error> {
        previewing(&args.file_path, paths, cx, |path, texts| {
            let found = confined::lookup(path)?;
            let before = found.map(|found| texts.load(path, &found, &Seen::new())).transpose()?;
            let before = before.map(|held| held.text);
            let after = text::as_before(before.as_deref().unwrap_or_default(), &args.content);
            Ok((before, after.into_owned()))
        })
    }

    async fn run(args: Args, paths: Vec<PathBuf>, cx: Context) -> Result<Output, Error> {
        let (seen, texts) = (cx.seen.clone(), TextFiles::from_context(&cx));
        changing(paths, cx, move |path| write(&args, path, &seen, &texts)).await
    }
}

/// Runs `change` on a blocking thread, with the file locked. A change is never cut short: it takes
/// only a moment.
pub(crate) async fn changing(
    paths: Vec<PathBuf>,
    cx: Context,
    change: impl FnOnce(&Path) -> Result<Output, Error> + Send + 'static,
) -> Result<Output, Error> {
    let path = paths::only(paths)?;
    let changing = tokio::task::spawn_blocking(move || {
        locks::with_lock(&path, || {
            if cx.cancel.is_cancelled() { Err(Error::Cancelled) } else { change(&path) }
        })
    });
    changing.await.map_err(|error| Error::Io(format!("Writing failed: {error}.")))?
}

/// The preview of a call that changes the one file `name`. `change` returns its text before, if the file exists, and
/// after.
pub(crate) fn previewing(
    name: &str,
    paths: Vec<PathBuf>,
    cx: &Workspace,
    change: impl FnOnce(&Path, &TextFiles) -> Result<(Option<String>, String), Error>,
) -> Result<Vec<FilePreview>, Error> {
    let path = paths::only(paths)?;
    let (before, after) = change(&path, &TextFiles::of_workspace(cx))?;
    if u64::try_from(after.len()).is_ok_and(|bytes| bytes > MAX_FILE) {
        return Err(Error::TooLarge(format!("{} would be too large to show.", path.display())));
    }
    Ok(vec![FilePreview::of_texts(name, &path, before.as_deref(), &after)])
}

fn write(args: &Args, path: &Path, seen: &Seen, texts: &TextFiles) -> Result<Output, Error> {
    let found = confined::lookup(path)?;
    let mut unsaved = false;
    let before = match found.as_ref().map(|found| texts.load(path, found, seen)) {
        None => Before::Nothing,
        Some(Ok(held)) => {
            unsaved = held.unsaved;
            Before::Text(held.text)
        }
        // a file that is not UTF-8 may be replaced too, but without a diff
        Some(Err(Error::NotUtf8 { charset, .. })) => Before::Encoded(charset),
        Some(Err(Error::Binary(_) | Error::TooLarge(_))) => Before::Other,
        Some(Err(error)) => return Err(error),
    };
    let content = match &before {
        Before::Text(text) => text::as_before(text, &args.content),
        Before::Nothing | Before::Encoded(_) | Before::Other => args.content.as_str().into(),
    };
    if let (Before::Text(text), Some(found)) = (&before, &found)
        && *text == content
        && !unsaved
    {
        return Ok(seen::add_stamp(unchanged(args, path), path, found));
    }
    let put = texts.write(path, found.as_ref(), &content)?;
    let put = texts.format(path, &content, put);
    let mut output = written(args, path, &before, &put.text);
    texts.report(&mut output, std::slice::from_ref(&put), &[]);
    Ok(seen::add_written_stamp(output, path, &put.text, &put.to))
}

fn unchanged(args: &Args, path: &Path) -> Output {
    let output =
        format!("{} already has exactly this content; nothing was written.", path.display());
    let meta = json!({ "path": args.file_path, "changed": false, "created": false, "additions": 0, "deletions": 0, "diff": "" });
    Output::new(&args.file_path, output, &meta)
}

/// The file before the write.
enum Before {
    Nothing,
    Text(String),
    /// Text in another encoding.
    Encoded(&'static str),
    Other,
}

fn written(args: &Args, path: &Path, before: &Before, text: &str) -> Output {
    let (old, did) = match before {
        Before::Nothing => (None, "Created"),
        Before::Text(text) => (Some(text.as_str()), "Replaced"),
        Before::Encoded(_) => (Some(""), "Replaced"),
        Before::Other => (Some(""), "Replaced (it was not text)"),
    };
    let mut meta = diff::describe(&args.file_path, old, text);
    meta.insert("changed".to_owned(), json!(true));
    let (lines, bytes) = (text.lines().count(), text.len());
    let mut output = format!("{did} {}: {lines} lines, {bytes} bytes.", path.display());
    if let Before::Encoded(charset) = before {
        output += &format!(
            " Its encoding has changed: it was {charset} and is UTF-8 now. If programs expect the old encoding, convert it back with a command."
        );
    }
    Output::new(&args.file_path, output, &Value::Object(meta))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};

    use super::*;
    use crate::testing::{Site, kind};

    #[test]
    fn permissions() {
        let site = Site::new();
        let input = json!({ "filePath": "a/new.rs", "content": "" });
        let resolved = site.resolve("write", &input);
        assert_eq!(resolved.class, Class::Write);
        let [access] = resolved.access.as_slice() else { panic!("{resolved:?}") };
        assert_eq!((access.permission.as_str(), access.patterns[0].as_str()), ("edit", "a/new.rs"));
        assert_eq!(access.always, ["a/new.rs"]);
        assert_eq!(resolved.paths, [site.path("a/new.rs").to_string_lossy()]);

        let out = site.outside("x.txt");
        let resolved = site.resolve("write", &json!({ "filePath": out, "content": "" }));
        let [first, second] = resolved.access.as_slice() else { panic!("{resolved:?}") };
        let folder = site.outside("*").to_string_lossy().into_owned();
        assert_eq!(first.permission, "external_directory");
        assert_eq!((&first.patterns, &first.always), (&vec![folder.clone()], &vec![folder]));
        assert_eq!(second.permission, "edit");
        assert_eq!(second.patterns, [out.to_string_lossy()]);
        assert!(!out.exists());
    }

    #[tokio::test]
    async fn creates_parents_and_keeps_the_content_as_given() {
        let site = Site::new();
        for content in ["", "a", "a\n", "a\r\nb", "\u{feff}x\n\n"] {
            let name = format!("deep/er/{}.txt", content.len());
            let output = site.run("write", &json!({ "filePath": name, "content": content })).await;
            assert!(!output.is_error, "{output:?}");
            assert_eq!(site.text(&name), content);
            assert_eq!(output.meta()["created"], true);
        }
        let left: Vec<_> = std::fs::read_dir(site.path("deep/er")).unwrap().collect();
        assert_eq!(left.len(), 5, "no temporary file stays behind");
    }

    #[tokio::test]
    async fn keeps_mark_and_line_ends_and_says_that_an_encoding_changes() {
        let site = Site::new();
        site.file("t.ps1", "\u{feff}a\r\n");
        let input = json!({ "filePath": "t.ps1", "content": "b\n" });
        let output = site.run("write", &input).await;
        assert_eq!(site.text("t.ps1"), "\u{feff}b\r\n");
        assert!(output.meta()["diff"].as_str().unwrap().contains("b\r\n"), "{output:?}");
        assert_eq!(site.run("write", &input).await.meta()["changed"], false);

        site.file("u.txt", b"\xff\xfea\0\n\0");
        let output = site.run("write", &json!({ "filePath": "u.txt", "content": "b\n" })).await;
        assert!(output.output.contains("it was UTF-16LE and is UTF-8 now"), "{output:?}");
        assert_eq!(site.text("u.txt"), "b\n");
    }

    #[tokio::test]
    async fn replaces_with_a_diff_and_keeps_the_mode() {
        let site = Site::new();
        let path = site.file("run.sh", "one\ntwo\n");
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o751)).unwrap();
        let input = json!({ "filePath": "run.sh", "content": "one\n2\n3\n" });
        let output = site.run("write", &input).await;
        let meta = output.meta();
        assert_eq!((&meta["additions"], &meta["deletions"]), (&json!(2), &json!(1)));
        assert!(meta["diff"].as_str().unwrap().contains("\n-two\n+2\n+3\n"));
        assert_eq!(path.metadata().unwrap().mode() & 0o7777, 0o751);
        let before = path.metadata().unwrap().ino();
        let output = site.run("write", &input).await;
        assert!(output.output.contains("already has exactly this content"), "{}", output.output);
        assert_eq!(
            (&output.meta()["changed"], path.metadata().unwrap().ino()),
            (&json!(false), before)
        );
    }

    #[tokio::test]
    async fn links_are_written_through_and_never_out() {
        let site = Site::new();
        site.file("real.txt", "old");
        symlink("real.txt", site.path("link")).unwrap();
        site.run("write", &json!({ "filePath": "link", "content": "new" })).await;
        assert_eq!(site.text("real.txt"), "new");
        assert!(site.path("link").is_symlink());

        site.file("dir/f", "inside");
        std::fs::write(site.outside("f"), "outside").unwrap();
        let input = json!({ "filePath": "dir/f", "content": "escaped" });
        let plan = crate::find("write")
            .unwrap()
            .plan(&leftfold_events::Json::from_value(&input), &site.workspace());
        std::fs::rename(site.path("dir"), site.path("was")).unwrap();
        symlink(site.outside(""), site.path("dir")).unwrap();
        // the folder became a link even after the second check
        let output = crate::find("write").unwrap().run(plan.unwrap(), site.context()).await;
        assert_eq!(kind(&output), "paths_changed");
        assert_eq!(std::fs::read_to_string(site.outside("f")).unwrap(), "outside");
    }

    #[tokio::test]
    async fn a_name_that_looks_the_same_is_no_second_file() {
        let site = Site::new();
        site.file("Cafe\u{301}.md", "old\n");
        site.run("write", &json!({ "filePath": "Caf\u{e9}.md", "content": "new\n" })).await;
        assert_eq!(site.text("Cafe\u{301}.md"), "new\n");
        assert!(!site.path("Caf\u{e9}.md").exists());
    }

    #[tokio::test]
    async fn what_is_no_file_is_refused() {
        let site = Site::new();
        site.file("dir/x", "");
        site.file("file", "");
        site.fifo("pipe");
        for (path, expected) in [
            ("dir", "is_directory"),
            ("pipe", "special_file"),
            ("file/below", "not_directory"),
            (".", "is_directory"),
        ] {
            let output = site.run("write", &json!({ "filePath": path, "content": "x" })).await;
            assert_eq!(kind(&output), expected, "{path}");
        }
        site.file("image", b"\0\x01\x02");
        let output = site.run("write", &json!({ "filePath": "image", "content": "text" })).await;
        assert!(!output.is_error);
        assert_eq!(site.text("image"), "text");
    }
}
