//! `read`: shows lines of a text file, the entries of a folder, an image or a PDF.

use std::fs::{File, Metadata};
use std::io::{BufReader, Read as _, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use leftfold_events::event::{Attachment, CallKind, Class};
use leftfold_events::media::{MAX_SIDE, unfit};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::args::WholeNumber;
use crate::lines::{self, LineRange, Window};
use crate::media::{self, Media};
use crate::text_files::TextFiles;
use crate::tool::{ToolKind, Typed};
use crate::{
    Context, Error, Output, OutputLimits, Plan, Workspace, confined, instructions, nearby, paths,
    seen, skills, spill, text,
};

#[derive(Debug)]
pub(crate) struct Read;

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Args {
    /// Path of the file or folder: absolute, or relative to the working directory.
    #[serde(alias = "file_path")]
    file_path: String,
    /// The first line (or entry of a folder) to show, counted from 1. Default: 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    offset: Option<WholeNumber>,
    /// The number of lines (or entries) to show. Default and maximum: 2000.
    #[serde(skip_serializing_if = "Option::is_none")]
    limit: Option<WholeNumber>,
}

impl Args {
    fn wanted(&self, limits: OutputLimits) -> LineRange {
        let lines = self.limit.and_then(|limit| usize::try_from(limit.0).ok());
        // a limit of 0 is never meant
        let lines = lines.filter(|lines| *lines > 0).unwrap_or(limits.max_lines);
        LineRange {
            // models that count from 0 also mean the first line
            first: self.offset.map_or(1, |offset| offset.0.max(1)),
            lines: lines.min(limits.max_lines).max(1),
            bytes: limits.max_bytes,
        }
    }
}

impl Typed for Read {
    type Args = Args;
    const NAME: &'static str = "read";
    const DESCRIPTION: &'static str = include_str!("../../prompts/tools/read.md");
    const KIND: ToolKind = ToolKind::Read;
    const USES_WORKSPACE: bool = true;

    fn plan(args: &Args, cx: &Workspace) -> Result<Plan, Error> {
        let moved = spill::moved(&args.file_path, &cx.spill_dir);
        let mut target = paths::resolve(moved.as_ref().unwrap_or(&args.file_path), cx)?;
        // the hint under a cut output sends the model to this folder
        target.inside |= paths::real(&cx.spill_dir).is_ok_and(|dir| target.path.starts_with(dir));
        // a skill sends the model to the files beside it
        target.inside |= !target.inside && skills::is_own(&target.path, &cx.user_folders);
        let plan = Plan { kind: CallKind::ShowsFiles, ..Plan::new(Class::Read) };
        Ok(target.judged(plan, "read"))
    }

    async fn run(args: Args, paths: Vec<PathBuf>, cx: Context) -> Result<Output, Error> {
        let cancel = cx.cancel.clone();
        let reading = tokio::task::spawn_blocking(move || {
            let wanted = args.wanted(cx.workspace.limits);
            let path = paths::only(paths)?;
            let output = read(&args.file_path, &path, wanted, &cx)?;
            if let Some(servers) = &cx.workspace.language_servers {
                // its next call may change the file
                servers.prepare(&path);
            }
            Ok(instructions::attach(output, &path, &cx.workspace, &cx.instructed))
        });
        tokio::select! {
            () = cancel.cancelled() => Err(Error::Cancelled),
            read = reading => read.map_err(|error| Error::Io(format!("Reading failed: {error}.")))?,
        }
    }
}

fn read(title: &str, path: &Path, wanted: LineRange, cx: &Context) -> Result<Output, Error> {
    let cancel = &cx.cancel;
    let Some(found) = confined::lookup(path)? else {
        return Err(Error::NotFound(nearby::missing(path)));
    };
    if found.is_dir() {
        return folder(title, path, wanted);
    }
    confined::regular(path, &found)?;
    let (mut file, opened) = confined::open_found(path)?;
    let failed = |error| Error::io("read", path, &error);
    let mut sample = Vec::new();
    (&mut file).take(text::SAMPLE as u64).read_to_end(&mut sample).map_err(failed)?;
    file.seek(SeekFrom::Start(0)).map_err(failed)?;
    if let Some(media) = media::recognise(&sample) {
        return Ok(seen::add_stamp(attach(title, path, &mut file, media)?, path, &opened));
    }
    let charset = text::require(path, &sample)?;
    if let Some(unsaved) = unsaved(path, &opened, cx) {
        let window = lines::window(&mut unsaved.as_bytes(), wanted, &cx.workspace.secrets, cancel)
            .map_err(|_| Error::Cancelled)?;
        let output = lines_output(title, path, &window, wanted, None)?;
        return Ok(seen::add_text_stamp(output, path, &unsaved));
    }
    // a file may grow for ever while it is read; files of the kernel claim to be empty
    let left = if opened.len() == 0 { u64::MAX } else { opened.len() };
    let mut reader = BufReader::with_capacity(64 * 1024, charset.decode(file.take(left)));
    let window = lines::window(&mut reader, wanted, &cx.workspace.secrets, cancel)
        .map_err(|error| if cancel.is_cancelled() { Error::Cancelled } else { failed(error) })?;
    let output = lines_output(title, path, &window, wanted, charset.note())?;
    Ok(seen::add_stamp(output, path, &opened))
}

/// The unsaved text that the user sees in an editor. `None` if the file is being written now; then
/// the disk is read.
fn unsaved(path: &Path, opened: &Metadata, cx: &Context) -> Option<String> {
    cx.workspace.host.as_ref()?;
    let disk = text::load(path, opened).ok()?;
    TextFiles::from_context(cx).unsaved(path, opened, &disk)
}

fn lines_output(
    title: &str,
    path: &Path,
    window: &Window,
    wanted: LineRange,
    note: Option<String>,
) -> Result<Output, Error> {
    let Window { shown, seen, counted, .. } = *window;
    let last = wanted.first - 1 + shown;
    let more = shown > 0 && last < seen;
    let mut meta = json!({ "truncated": more || window.cut, "lines": shown });
    if counted {
        meta["total_lines"] = seen.into();
    }
    if seen == 0 && wanted.first == 1 {
        return Ok(Output::new(title, "(The file is empty.)", &meta));
    }
    if shown == 0 {
        return Err(Error::OffsetPastEnd(format!(
            "offset {} is past the end of {}, which has {seen} lines.",
            wanted.first,
            path.display()
        )));
    }
    let rest = if more {
        let total = if counted { seen.to_string() } else { format!("more than {seen}") };
        format!("(Lines {} to {last} of {total}. To go on: offset={}.)", wanted.first, last + 1)
    } else {
        format!("(End of file: {seen} lines.)")
    };
    let note = note.map(|note| format!("\n{note}")).unwrap_or_default();
    Ok(Output::new(title, format!("{}\n{rest}{note}", window.text), &meta))
}

/// The entries of a folder by name, folders with a trailing slash.
fn folder(title: &str, path: &Path, wanted: LineRange) -> Result<Output, Error> {
    let failed = |error| Error::io("list", path, &error);
    let mut names = Vec::new();
    for entry in std::fs::read_dir(path).map_err(failed)? {
        names.push(entry.map_err(failed)?.file_name());
    }
    names.sort_unstable();
    let total = names.len();
    let first = usize::try_from(wanted.first).unwrap_or(usize::MAX) - 1;
    if first > 0 && first >= total {
        return Err(Error::OffsetPastEnd(format!(
            "offset {} is past the end of {}, which has {total} entries.",
            wanted.first,
            path.display()
        )));
    }
    let mut list = String::new();
    let mut shown = 0;
    for name in names.iter().skip(first).take(wanted.lines) {
        let slash = if path.join(name).is_dir() { "/" } else { "" };
        let name = format!("{}{slash}", name.to_string_lossy());
        if shown > 0 && list.len() + name.len() > wanted.bytes {
            break;
        }
        list = list + &name + "\n";
        shown += 1;
    }
    let last = first + shown;
    let rest = if total == 0 {
        "(The folder is empty.)".to_owned()
    } else if last < total {
        format!("\n(Entries {} to {last} of {total}. To go on: offset={}.)", first + 1, last + 1)
    } else {
        format!("\n({total} entries.)")
    };
    let meta = json!({ "truncated": last < total, "entries": total });
    Ok(Output::new(title, list + &rest, &meta))
}

fn attach(title: &str, path: &Path, file: &mut File, media: Media) -> Result<Output, Error> {
    let too_large = |size: u64| {
        let Media { mime, max } = media;
        let path = path.display();
        Error::TooLarge(format!("{path} ({mime}) has {size} bytes; at most {max} can be shown."))
    };
    let failed = |error| Error::io("read", path, &error);
    let size = file.metadata().map_err(failed)?.len();
    if size > media.max {
        return Err(too_large(size));
    }
    let mut bytes = Vec::new();
    file.take(media.max + 1).read_to_end(&mut bytes).map_err(failed)?;
    if bytes.len() as u64 > media.max {
        return Err(too_large(bytes.len() as u64));
    }
    let mime = media.mime;
    let size = bytes.len();
    let base64 = media::base64(&bytes);
    if let Some(why) = unfit(mime, &base64, MAX_SIDE) {
        let path = path.display();
        return Err(Error::TooLarge(format!("{path} ({mime}): {why}. Make it smaller first.")));
    }
    let text = format!("Attached: {} ({mime}, {size} bytes).", path.display());
    let mut output = Output::new(title, text, &json!({ "truncated": false, "mime": mime }));
    output.attachments.push(Attachment {
        mime: mime.to_owned(),
        name: path.file_name().unwrap_or_default().to_string_lossy().into_owned(),
        base64,
    });
    Ok(output)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;
    use crate::testing::{Site, kind};

    #[tokio::test]
    async fn text() {
        let site = Site::new();
        site.file("five", "one\ntwo\nthree\nfour\nfive\n");
        site.file("empty", "");
        for (input, text, truncated) in [
            (
                json!({ "filePath": "five", "offset": 4 }),
                "4: four\n5: five\n\n(End of file: 5 lines.)",
                false,
            ),
            (
                json!({ "filePath": "five", "offset": 0, "limit": 1 }),
                "1: one\n\n(Lines 1 to 1 of 5. To go on: offset=2.)",
                true,
            ),
            (
                json!({ "filePath": "five", "offset": "2", "limit": 2 }),
                "2: two\n3: three\n\n(Lines 2 to 3 of 5. To go on: offset=4.)",
                true,
            ),
            (json!({ "filePath": "empty" }), "(The file is empty.)", false),
            (
                json!({ "filePath": site.path("five"), "offset": 5 }),
                "5: five\n\n(End of file: 5 lines.)",
                false,
            ),
        ] {
            let output = site.run("read", &input).await;
            assert_eq!((output.output.as_str(), output.is_error), (text, false));
            assert_eq!(output.meta()["truncated"], truncated, "{input}");
        }
    }

    #[tokio::test]
    async fn text_in_other_encodings_is_decoded_and_names_decide_nothing() {
        let site = Site::new();
        site.file("cube.obj", "v 0 0 0\n");
        site.file("u.txt", b"\xff\xfeG\0\xfc\0\r\0\n\0");
        site.file("g.txt", encoding_rs::GBK.encode("你好世界，测试文件内容\n").0);
        for (name, text, note) in [
            ("cube.obj", "1: v 0 0 0\n", None),
            ("u.txt", "1: Gü\n", Some("is UTF-16LE;")),
            ("g.txt", "1: 你好世界，测试文件内容\n", Some("seems to be GBK;")),
        ] {
            let output = site.run("read", &json!({ "filePath": name })).await;
            let rest = output.output.strip_prefix(text).unwrap_or_else(|| panic!("{output:?}"));
            match note {
                Some(note) => assert!(rest.contains(note) && rest.contains("keeps it"), "{rest}"),
                None => assert_eq!(rest, "\n(End of file: 1 lines.)"),
            }
        }
    }

    #[tokio::test]
    async fn limits() {
        let site = Site::new();
        let lines: String = (1..=2_500).map(|n| format!("{n}\n")).collect();
        site.file("lines", &lines);
        let output = site.run("read", &json!({ "filePath": "lines" })).await;
        assert!(
            output
                .output
                .ends_with("\n2000: 2000\n\n(Lines 1 to 2000 of 2500. To go on: offset=2001.)")
        );
        site.file("bytes", "x".repeat(1_000) + &("\n".to_owned() + &"y".repeat(999)).repeat(100));
        let output = site.run("read", &json!({ "filePath": "bytes" })).await;
        assert!(output.output.len() < 51_400, "{}", output.output.len());
        assert!(output.output.contains("To go on: offset=52."), "{}", &output.output[51_000..]);
        site.file("wide", "z".repeat(5_000_000));
        let output = site.run("read", &json!({ "filePath": "wide" })).await;
        assert!(output.output.len() < 2_200 && output.spill.is_none());
        assert_eq!(output.meta()["truncated"], true);
    }

    #[tokio::test]
    async fn errors() {
        let site = Site::new();
        site.file("five.txt", "1\n2\n3\n4\n5\n");
        site.file("bin", b"\x7fELF\0\0");
        site.fifo("pipe");
        symlink("pipe", site.path("to-pipe")).unwrap();
        symlink("gone", site.path("dangling")).unwrap();
        for (path, offset, expected, said) in [
            ("fife.txt", 1, "not_found", "five.txt"),
            ("no/such", 1, "not_found", "no folder"),
            ("dangling", 1, "not_found", "gone"),
            ("five.txt/x", 1, "not_directory", "not a directory"),
            ("five.txt", 6, "offset_past_end", "has 5 lines"),
            ("bin", 1, "binary", "binary"),
            ("pipe", 1, "special_file", "pipe"),
            ("to-pipe", 1, "special_file", "pipe"),
        ] {
            let output = site.run("read", &json!({ "filePath": path, "offset": offset })).await;
            assert_eq!(kind(&output), expected, "{path}");
            assert!(output.output.contains(said), "{}", output.output);
        }
        assert_eq!(
            kind(&site.run("read", &json!({ "filePath": "/dev/zero" })).await),
            "special_file"
        );
    }

    #[tokio::test]
    async fn folders() {
        let site = Site::new();
        for name in ["b.txt", "a/x", ".hidden", "c.txt"] {
            site.file(name, "");
        }
        std::fs::create_dir(site.path("none")).unwrap();
        for (input, text) in [
            (json!({ "filePath": "." }), ".hidden\na/\nb.txt\nc.txt\nnone/\n\n(5 entries.)"),
            (
                json!({ "filePath": ".", "offset": 2, "limit": 2 }),
                "a/\nb.txt\n\n(Entries 2 to 3 of 5. To go on: offset=4.)",
            ),
            (json!({ "filePath": "none" }), "(The folder is empty.)"),
        ] {
            assert_eq!(site.run("read", &input).await.output, text);
        }
        let output = site.run("read", &json!({ "filePath": ".", "offset": 9 })).await;
        assert_eq!(kind(&output), "offset_past_end");
    }

    #[tokio::test]
    async fn media_are_attached_by_content() {
        let site = Site::new();
        let png = b"\x89PNG\r\n\x1a\n....";
        site.file("picture.txt", png);
        let output = site.run("read", &json!({ "filePath": "picture.txt" })).await;
        let [attachment] = output.attachments.as_slice() else { panic!("{output:?}") };
        assert_eq!(
            (attachment.mime.as_str(), attachment.name.as_str()),
            ("image/png", "picture.txt")
        );
        assert_eq!(attachment.base64, media::base64(png));
        for (start, size, fits) in
            [(&b"\xff\xd8\xff"[..], 6, false), (b"%PDF-", 6, true), (b"%PDF-", 11, false)]
        {
            let mut bytes = start.to_vec();
            bytes.resize(size * 1024 * 1024, 1);
            site.file("m", bytes);
            let output = site.run("read", &json!({ "filePath": "m" })).await;
            assert_eq!(!output.is_error, fits, "{start:?} {size}");
        }
    }

    #[tokio::test]
    async fn permissions() {
        let site = Site::new();
        site.file(".env", "");
        symlink(".env", site.path("harmless.txt")).unwrap();
        let resolved = site.resolve("read", &json!({ "filePath": "harmless.txt" }));
        let [access] = resolved.access.as_slice() else { panic!("{resolved:?}") };
        assert_eq!((access.permission.as_str(), access.patterns[0].as_str()), ("read", ".env"));
        assert_eq!((resolved.class, resolved.timeout), (Class::Read, 60_000));
        let resolved = site.resolve("read", &json!({ "filePath": site.outside("") }));
        assert_eq!(resolved.access[0].permission, "external_directory");
        assert_eq!(resolved.access[0].patterns, [site.outside("*").to_string_lossy()]);
        // the model may read the rest of its own cut output
        let resolved =
            site.resolve("read", &json!({ "filePath": site.root().join("spill/c.txt") }));
        assert_eq!(resolved.access.len(), 1);
        let resolved = site.resolve("edit", &json!({ "filePath": site.root().join("spill/c.txt"), "oldString": "a", "newString": "b" }));
        assert_eq!(resolved.access[0].permission, "external_directory");
    }
}
