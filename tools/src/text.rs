//! Distinguishes text from binary files, decodes text that is not UTF-8, and loads text for a change.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::fs::Metadata;
use std::io::{self, Read};
use std::path::Path;

use chardetng::{EncodingDetector, Iso2022JpDetection, Utf8Detection};
use encoding_rs::{Encoding, UTF_16BE, UTF_16LE};
use encoding_rs_io::DecodeReaderBytesBuilder;
pub(crate) use leftfold_framing::{clip, floor};
use memchr::memmem;

use crate::{Error, confined};

/// Bytes at the start of a file that decide its type.
pub(crate) const SAMPLE: usize = 64 * 1024;

/// Largest file in bytes that is loaded for a change.
const MAX_EDITABLE: u64 = 32 * 1024 * 1024;

pub(crate) const BOM: &str = "\u{feff}";

/// Begins Japanese text in ISO-2022-JP, which has no other bytes than ASCII.
const ISO_2022_JP: [&[u8]; 2] = [b"\x1b$B", b"\x1b$@"];

/// The encoding of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Charset {
    Utf8,
    Utf32 {
        is_big_endian: bool,
    },
    /// UTF-16 with a byte order mark, or an older encoding that was guessed from the bytes.
    Other(&'static Encoding),
}

impl Charset {
    /// The encoding of a file by its first bytes ([`SAMPLE`]), or all of them. `None`: it is binary.
    pub(crate) fn from_sample(sample: &[u8]) -> Option<Self> {
        let charset = match sample {
            [0xff, 0xfe, 0, 0, ..] => Self::Utf32 { is_big_endian: false },
            [0, 0, 0xfe, 0xff, ..] => Self::Utf32 { is_big_endian: true },
            [0xff, 0xfe, ..] => Self::Other(UTF_16LE),
            [0xfe, 0xff, ..] => Self::Other(UTF_16BE),
            _ if sample.contains(&0) => return None,
            _ if is_utf8(sample) => return looks_like_text(sample).then_some(Self::Utf8),
            _ => Self::guess(sample)?,
        };
        let mut text = Vec::new();
        charset.decode(sample).read_to_end(&mut text).ok()?;
        looks_like_text(&text).then_some(charset)
    }

    /// The encoding in which a file is searched, by its first bytes. That of a binary file is UTF-8.
    pub(crate) fn of_searched(sample: &[u8]) -> Self {
        if is_plain_utf8(sample) {
            Self::Utf8
        } else {
            Self::from_sample(sample).unwrap_or(Self::Utf8)
        }
    }

    /// The older encoding whose text the bytes probably are. `None`: they have more controls than a text has.
    fn guess(sample: &[u8]) -> Option<Self> {
        let is_control = |byte: &&u8| byte.is_ascii() && is_odd_control(char::from(**byte));
        let controls = sample.iter().filter(is_control).count();
        // of the bytes of a compressed file, one in ten is a control
        if controls * 50 > sample.len() {
            return None;
        }
        let mut detector = EncodingDetector::new(Iso2022JpDetection::Allow);
        detector.feed(sample, sample.len() < SAMPLE);
        Some(Self::Other(detector.guess(None, Utf8Detection::Deny)))
    }

    /// The text of `bytes` in UTF-8. It may begin with a byte order mark. What is not in the encoding becomes U+FFFD.
    pub(crate) fn decode<'a>(self, bytes: impl Read + 'a) -> Box<dyn Read + 'a> {
        match self {
            Self::Utf8 => Box::new(bytes),
            Self::Utf32 { is_big_endian } => {
                Box::new(Utf32Reader { bytes, is_big_endian, decoded: VecDeque::new() })
            }
            Self::Other(encoding) => {
                Box::new(DecodeReaderBytesBuilder::new().encoding(Some(encoding)).build(bytes))
            }
        }
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Utf8 => "UTF-8",
            Self::Utf32 { is_big_endian: false } => "UTF-32LE",
            Self::Utf32 { is_big_endian: true } => "UTF-32BE",
            Self::Other(encoding) => encoding.name(),
        }
    }

    /// Tells the model that it sees a decoded text. `None` for UTF-8.
    pub(crate) fn note(self) -> Option<String> {
        let is = match self {
            Self::Utf8 => return None,
            Self::Other(encoding) if ![UTF_16LE, UTF_16BE].contains(&encoding) => "seems to be",
            Self::Utf32 { .. } | Self::Other(_) => "is",
        };
        Some(format!(
            "(The encoding of this file {is} {}; the text above is decoded. {KEEP})",
            self.name()
        ))
    }
}

/// The advice for text in another encoding: programs that read the file expect that encoding.
const KEEP: &str = "To change the file, run a command that knows this encoding and keeps it.";

/// Decodes UTF-32.
struct Utf32Reader<R> {
    bytes: R,
    is_big_endian: bool,
    /// Decoded bytes that have not been read.
    decoded: VecDeque<u8>,
}

impl<R: Read> Read for Utf32Reader<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.decoded.is_empty() {
            let mut units = Vec::new();
            (&mut self.bytes).take(4_096).read_to_end(&mut units)?;
            for unit in units.chunks(4) {
                let unit = unit.try_into().unwrap_or([0xff; 4]);
                let from = if self.is_big_endian { u32::from_be_bytes } else { u32::from_le_bytes };
                let c = char::from_u32(from(unit)).unwrap_or(char::REPLACEMENT_CHARACTER);
                self.decoded.extend(c.encode_utf8(&mut [0; 4]).as_bytes());
            }
        }
        self.decoded.read(buffer)
    }
}

/// Whether the bytes are UTF-8 without damage, and no ISO-2022-JP.
fn is_plain_utf8(sample: &[u8]) -> bool {
    let is_japanese = || ISO_2022_JP.iter().any(|start| memmem::find(sample, start).is_some());
    std::str::from_utf8(sample).is_ok() && !is_japanese()
}

/// Whether the bytes are UTF-8, also if some of their characters are damaged. The last one may be cut.
fn is_utf8(sample: &[u8]) -> bool {
    let is_whole = |byte: &u8| byte & 0xc0 != 0x80;
    let last = sample.iter().rposition(is_whole).filter(|_| sample.len() >= SAMPLE);
    let sample = last.map_or(sample, |last| &sample[..last]);
    if std::str::from_utf8(sample).is_ok() {
        return is_plain_utf8(sample);
    }
    let (mut whole, mut damaged) = (0, 0);
    for chunk in sample.utf8_chunks() {
        whole += chunk.valid().chars().filter(|c| !c.is_ascii()).count();
        damaged += usize::from(!chunk.invalid().is_empty());
    }
    // in other encodings, few characters happen to be UTF-8
    whole > damaged
}

/// A file's text in UTF-8 without a byte order mark, and a sentence about its encoding if it has another one. `None`: the
/// file is binary.
pub fn decoded(bytes: &[u8]) -> Option<(String, Option<String>)> {
    let charset = Charset::from_sample(bytes)?;
    let mut text = Vec::new();
    charset.decode(bytes).read_to_end(&mut text).ok()?;
    let text = String::from_utf8_lossy(&text);
    Some((text.strip_prefix(BOM).unwrap_or(&text).to_owned(), charset.note()))
}

/// Refuses a file whose first bytes (`sample`) show that it is not text. Returns its encoding.
pub(crate) fn require(path: &Path, sample: &[u8]) -> Result<Charset, Error> {
    let binary = || Error::Binary(format!("{} is a binary file, not text.", path.display()));
    Charset::from_sample(sample).ok_or_else(binary)
}

/// Whether UTF-8 looks like text: no NUL, and at most three in ten characters that do not occur in text (control
/// characters, and bytes that are not UTF-8).
pub(crate) fn looks_like_text(sample: &[u8]) -> bool {
    if sample.contains(&0) {
        return false;
    }
    let text = String::from_utf8_lossy(sample);
    let odd = |c: &char| *c == char::REPLACEMENT_CHARACTER || is_odd_control(*c);
    let count = text.chars().filter(odd).count();
    count * 10 <= text.chars().count() * 3
}

/// Whether it is a control character that does not occur in text.
fn is_odd_control(c: char) -> bool {
    c.is_control() && !matches!(c, '\n' | '\r' | '\t' | '\x0b' | '\x0c' | '\x1b' | '\x08')
}

/// Loads a whole text file for a change. It must still be the file that was `found` at its path,
/// unchanged.
///
/// # Errors
/// Those of [`load_bytes`]. It is binary, or not UTF-8 (a change would garble it).
pub(crate) fn load(path: &Path, found: &Metadata) -> Result<String, Error> {
    let bytes = load_bytes(path, found)?;
    let shown = path.display();
    let charset = require(path, &bytes[..bytes.len().min(SAMPLE)])?;
    if charset != Charset::Utf8 {
        let charset = charset.name();
        return Err(Error::NotUtf8 {
            charset,
            message: format!(
                "{shown} is text in {charset}, and this tool changes only UTF-8. Nothing was changed. {KEEP}"
            ),
        });
    }
    match String::from_utf8(bytes) {
        Ok(text) if text.contains('\0') => {
            Err(Error::Binary(format!("{shown} is a binary file, not text.")))
        }
        Ok(text) => Ok(text),
        Err(error) => Err(Error::NotUtf8 {
            charset: "another encoding than UTF-8",
            message: format!(
                "{shown} is not UTF-8 (the byte at {} is the first that is not), so editing could garble it. {KEEP}",
                error.utf8_error().valid_up_to()
            ),
        }),
    }
}

/// Loads a whole file for a change. It must still be the file that was `found` at its path, unchanged.
///
/// # Errors
/// It is over 32 MiB, or has changed since.
pub(crate) fn load_bytes(path: &Path, found: &Metadata) -> Result<Vec<u8>, Error> {
    confined::regular(path, found)?;
    if found.len() > MAX_EDITABLE {
        return Err(Error::TooLarge(format!(
            "{} has {} bytes; files over {MAX_EDITABLE} bytes cannot be edited with this tool.",
            path.display(),
            found.len()
        )));
    }
    let (file, opened) = confined::open_found(path)?;
    if !confined::same(found, &opened) {
        return Err(Error::changed(path));
    }
    let mut bytes = Vec::new();
    file.take(MAX_EDITABLE)
        .read_to_end(&mut bytes)
        .map_err(|error| Error::io("read", path, &error))?;
    Ok(bytes)
}

/// The content for a file that has the text `before`: a byte order mark and CRLF at the ends of lines stay. Content that
/// has carriage returns keeps its own ends.
pub(crate) fn as_before<'a>(before: &str, content: &'a str) -> Cow<'a, str> {
    let (all, crlf) = (before.matches('\n').count(), before.matches("\r\n").count());
    let ended = match crlf * 2 > all && !content.contains('\r') {
        true => Cow::Owned(content.replace('\n', "\r\n")),
        false => Cow::Borrowed(content),
    };
    match before.starts_with(BOM) && !content.starts_with(BOM) {
        true => Cow::Owned(format!("{BOM}{ended}")),
        false => ended,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CHINESE: &str = "你好世界，测试文件内容\nabc\n";
    const TAIWAN: &str = "這是一個測試檔案，內容為繁體中文\n";
    const JAPANESE: &str = "これはテスト用のファイルです。日本語の文章\n";
    const KOREAN: &str = "안녕하세요, 이것은 시험용 파일입니다\n";
    const RUSSIAN: &str = "Привет, мир! Это проверка текста в файле\n";
    const WESTERN: &str = "Die Straße ist für Fußgänger gesperrt, café\n";

    /// The text that `read` shows, and the name of its encoding. `None`: binary.
    fn shown(sample: &[u8]) -> Option<(String, &'static str)> {
        let charset = Charset::from_sample(sample)?;
        let mut text = String::new();
        charset.decode(sample).read_to_string(&mut text).unwrap();
        Some((text.trim_start_matches(BOM).to_owned(), charset.name()))
    }

    #[test]
    fn text_is_decoded_whatever_its_encoding() {
        use encoding_rs::*;
        for (encoding, text) in [
            (GBK, CHINESE),
            (GB18030, CHINESE),
            (BIG5, TAIWAN),
            (SHIFT_JIS, JAPANESE),
            (EUC_JP, JAPANESE),
            (ISO_2022_JP, JAPANESE),
            (EUC_KR, KOREAN),
            (WINDOWS_1251, RUSSIAN),
            (KOI8_R, RUSSIAN),
            (IBM866, RUSSIAN),
            (ISO_8859_5, RUSSIAN),
            (WINDOWS_1252, WESTERN),
        ] {
            // comments in source text, too
            for text in
                [text.to_owned(), format!("#include <a.h>\n{}// {text}", "x();\n".repeat(99))]
            {
                let (bytes, _, lossy) = encoding.encode(&text);
                assert!(!lossy, "{}", encoding.name());
                let (shown, _) = shown(&bytes).unwrap();
                assert_eq!(shown, text, "{}", encoding.name());
            }
        }
        for text in [CHINESE, RUSSIAN, "a\n", "😀\r\n"] {
            let with_bom = format!("{BOM}{text}");
            let wide =
                |bytes: fn(u16) -> [u8; 2]| with_bom.encode_utf16().flat_map(bytes).collect();
            let wider = |bytes: fn(u32) -> [u8; 4]| {
                with_bom.chars().flat_map(|c| bytes(c.into())).collect::<Vec<u8>>()
            };
            let rows: [(&str, Vec<u8>); 5] = [
                ("UTF-8", with_bom.clone().into_bytes()),
                ("UTF-16LE", wide(u16::to_le_bytes)),
                ("UTF-16BE", wide(u16::to_be_bytes)),
                ("UTF-32LE", wider(u32::to_le_bytes)),
                ("UTF-32BE", wider(u32::to_be_bytes)),
            ];
            for (name, bytes) in rows {
                assert_eq!(shown(&bytes), Some((text.to_owned(), name)));
            }
        }
    }

    #[test]
    fn text_is_told_from_binary() {
        // no text and no NUL, as in compressed files
        let noise: Vec<u8> =
            (1..400_u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 11) as u8 | 1).collect();
        for (name, sample, text) in [
            ("source", &b"fn main() {}\n"[..], true),
            ("empty", b"", true),
            ("log", b"\x1b[31mred\x1b[0m\r\n", true),
            ("damaged UTF-8", "Grüße und Küsse \u{fffd}".as_bytes(), true),
            ("NUL", b"one\0two", false),
            ("noise", &noise, false),
            ("controls", b"\x01\x02\x03\x04ab", false),
            ("UTF-16 without text", b"\xff\xfe\0\0\x01\0", false),
            ("UTF-16 without mark", b"h\0i\0", false),
        ] {
            assert_eq!(Charset::from_sample(sample).is_some(), text, "{name}");
        }
    }

    #[test]
    fn mark_and_line_ends_stay() {
        for (before, content, after) in [
            ("a\n", "b\n", "b\n"),
            ("a\r\n", "b\nc\n", "b\r\nc\r\n"),
            ("\u{feff}a\r\n", "b\n", "\u{feff}b\r\n"),
            ("\u{feff}a\n", "\u{feff}b\n", "\u{feff}b\n"),
            ("\u{feff}", "", "\u{feff}"),
            ("a\r\nb\r\nc\n", "d\n", "d\r\n"),
            ("a\nb\nc\r\n", "d\n", "d\n"),
            ("a\n", "b\r\n", "b\r\n"),
            ("a\r\n", "b\r\nc\n", "b\r\nc\n"),
            ("", "b\n", "b\n"),
        ] {
            assert_eq!(as_before(before, content), after, "{before:?} {content:?}");
        }
    }

    #[test]
    fn damaged_utf8_stays_utf8() {
        let text = [&"Grüße, Küsse\n".repeat(3).into_bytes()[..], b"caf\xe9\n"].concat();
        assert_eq!(Charset::from_sample(&text), Some(Charset::Utf8));
        // the sample cuts the last character
        for text in ["ä".repeat(SAMPLE), format!("{}ä", "a".repeat(SAMPLE - 1))] {
            assert_eq!(Charset::from_sample(&text.as_bytes()[..SAMPLE]), Some(Charset::Utf8));
        }
        assert!(looks_like_text(&"ä".repeat(10).as_bytes()[..19]));
    }
}
