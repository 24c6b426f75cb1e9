//! Files attached to a prompt.

use std::io::Read;
use std::path::{Path, PathBuf};

use leftfold_events::event::{PromptKind, PromptPart};
use leftfold_events::media::{MAX_SIDE, unfit};
use leftfold_files::Unread;
use leftfold_tools::{base64, decoded, recognise};

use crate::Usage;

/// The largest text file, in bytes. Longer files are better read in pieces, with tools.
const MAX_TEXT: u64 = 256 * 1024;

/// Turns files into parts of a prompt. Images and PDFs, recognized by their content, become media;
/// text is headed by its path.
///
/// # Errors
/// A file does not exist, cannot be read, is too large, or is neither text nor media.
pub fn files(paths: &[PathBuf]) -> Result<Vec<PromptPart>, Usage> {
    paths.iter().map(|path| part(path)).collect()
}

fn part(path: &Path) -> Result<PromptPart, Usage> {
    let fault = |what: &str| Usage(format!("{}: {what}", path.display()));
    let failed = |error: std::io::Error| fault(&error.to_string());
    let (mut file, _) = leftfold_files::open(path, None).map_err(|why| match why {
        Unread::Folder => fault("is a folder: give its files, or name the folder in the prompt"),
        Unread::Io(error) => failed(error),
        Unread::Special | Unread::TooLarge(_) | Unread::LeadsOut(_) => fault(&why.to_string()),
    })?;
    let mut bytes = Vec::new();
    (&mut file).take(MAX_TEXT + 1).read_to_end(&mut bytes).map_err(failed)?;
    let media = recognise(&bytes);
    let max = media.map_or(MAX_TEXT, |media| media.max);
    file.take((max + 1).saturating_sub(bytes.len() as u64))
        .read_to_end(&mut bytes)
        .map_err(failed)?;
    if bytes.len() as u64 > max {
        let advice = if media.is_none() {
            ": name it in the prompt, and the model reads it in pieces"
        } else {
            ""
        };
        return Err(fault(&format!("has more than {max} bytes{advice}")));
    }
    // with a name, front ends show that and not the content
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned());
    if let Some(media) = media {
        let text = base64(&bytes);
        if let Some(why) = unfit(media.mime, &text, MAX_SIDE) {
            let path = path.display();
            crate::note(&format!("leftfold: {path} is not shown to the model: {why}"));
        }
        let mime = Some(media.mime.to_owned());
        return Ok(PromptPart { kind: PromptKind::Media, text, mime, name });
    }
    let text = text(&bytes).ok_or_else(|| fault(NEITHER))?;
    let text = format!("<file path=\"{}\">\n{text}\n</file>", path.display());
    Ok(PromptPart { name, ..PromptPart::text(text) })
}

const NEITHER: &str = "is neither text nor an image or PDF that models accept";

/// The text of these bytes, and a sentence about their encoding if it is not UTF-8. `None`: they are no text.
pub fn text(bytes: &[u8]) -> Option<String> {
    let (text, note) = decoded(bytes)?;
    Some(note.map_or_else(|| text.clone(), |note| format!("{text}\n{note}")))
}

/// The largest text on standard input, in bytes. Nobody reads it in pieces later.
const MAX_STDIN_TEXT: u64 = 4 * 1024 * 1024;

/// More bytes on standard input need not be read: no text and no media have as many.
pub const MAX_INPUT: u64 = 64 * 1024 * 1024;

/// Turns the bytes on standard input into a part of a prompt, as [`files`] does with a file. `None` if they are blank.
///
/// # Errors
/// They are neither text nor media, or too many.
pub fn input(bytes: &[u8]) -> Result<Option<PromptPart>, Usage> {
    let fault = |what: &str| Usage(format!("standard input: {what}"));
    let media = recognise(bytes);
    let max = media.map_or(MAX_STDIN_TEXT, |media| media.max);
    if bytes.len() as u64 > max {
        return Err(fault(&format!("has more than {max} bytes")));
    }
    if let Some(media) = media {
        let (text, mime) = (base64(bytes), Some(media.mime.to_owned()));
        return Ok(Some(PromptPart { kind: PromptKind::Media, text, mime, name: None }));
    }
    let text = text(bytes).ok_or_else(|| fault(NEITHER))?;
    let is_blank = text.trim().is_empty();
    Ok((!is_blank).then(|| PromptPart::quoted(format!("<stdin>\n{text}\n</stdin>"))))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(path: PathBuf) -> Result<PromptPart, String> {
        files(&[path]).map(|mut parts| parts.remove(0)).map_err(|error| error.to_string())
    }

    #[test]
    fn text_and_media_are_told_by_their_content() {
        let dir = tempfile::tempdir().unwrap();
        let file = |name: &str, bytes: &[u8]| {
            let path = dir.path().join(name);
            std::fs::write(&path, bytes).unwrap();
            path
        };
        let text = file("a.png", b"no picture");
        let part = one(text.clone()).unwrap();
        assert_eq!(part.kind, PromptKind::Text);
        assert!(part.text.contains(&*text.to_string_lossy()) && part.text.contains("no picture"));
        let part = one(file("b.txt", b"%PDF-1.7 x")).unwrap();
        assert_eq!((part.kind, part.mime.as_deref()), (PromptKind::Media, Some("application/pdf")));
        assert_eq!((part.name.as_deref(), part.text.as_str()), (Some("b.txt"), "JVBERi0xLjcgeA=="));
        let large = vec![b'x'; usize::try_from(MAX_TEXT).unwrap()];
        assert!(one(file("most", &large)).is_ok());
        assert!(one(file("more", &[&large[..], b"x"].concat())).unwrap_err().contains("pieces"));
        assert!(one(file("bytes", b"one\0two")).unwrap_err().contains("neither text"));
        assert!(one(dir.path().to_owned()).unwrap_err().contains("folder"));
        assert!(one("/dev/null".into()).unwrap_err().contains("regular"));
        assert!(one(dir.path().join("none")).unwrap_err().contains("none"));
    }

    #[test]
    fn text_is_decoded_whatever_its_encoding() {
        let greeting = "Grüße und Küsse";
        let wide =
            format!("\u{feff}{greeting}").encode_utf16().flat_map(u16::to_le_bytes).collect();
        for (bytes, encoding) in [
            (format!("\u{feff}{greeting}").into_bytes(), None),
            (wide, Some("UTF-16LE")),
            (b"Gr\xfc\xdfe und K\xfcsse".to_vec(), Some("windows-1252")),
        ] {
            let text = input(&bytes).unwrap().unwrap().text;
            assert!(text.starts_with(&format!("<stdin>\n{greeting}\n")), "{text}");
            assert!(encoding.is_none_or(|name| text.contains(name)), "{text}");
        }
    }

    #[test]
    fn standard_input_is_a_part_unless_it_is_blank() {
        let part = |bytes: &[u8]| input(bytes).map_err(|Usage(why)| why);
        assert_eq!(part(b"diff\n").unwrap().unwrap().text, "<stdin>\ndiff\n\n</stdin>");
        assert_eq!(part(b" \n"), Ok(None));
        assert_eq!(part(b"%PDF-1.7 x").unwrap().unwrap().kind, PromptKind::Media);
        assert!(part(b"one\0two").unwrap_err().contains("standard input: is neither"));
        let most = usize::try_from(MAX_STDIN_TEXT).unwrap();
        assert!(part(&vec![b'x'; most + 1]).unwrap_err().contains("more than"));
    }
}
