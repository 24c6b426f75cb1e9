//! Reads messages with a header that says how long they are, as language servers write them.

use std::io;

use tokio::io::{AsyncBufRead, AsyncReadExt};

use crate::lines::{Line, next_line};

/// Longest line of a header, and most lines of one.
const LINE: usize = 1_024;
const LINES: usize = 32;

/// One message, without its header.
#[derive(Debug, PartialEq, Eq)]
pub enum Content {
    Whole(Vec<u8>),
    /// Longer than allowed, by its header. The message is still to be read.
    TooLong(usize),
    /// No header that says how long the message is, but this.
    NoLength(Vec<u8>),
}

/// Reads the next message of at most `most` bytes. Returns `None` at the end of the input. Dropping the future before it
/// is ready loses the message being read. After [`Content::TooLong`] and [`Content::NoLength`] nothing more can be read.
///
/// # Errors
/// Errors of the reader, or the end of the input within a message.
pub async fn next_content(
    from: &mut (impl AsyncBufRead + Unpin),
    most: usize,
) -> io::Result<Option<Content>> {
    let mut length = None;
    for at in 0..LINES {
        let line = match next_line(from, LINE).await? {
            None if at == 0 => return Ok(None),
            None | Some(Line::Unfinished(_)) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Some(Line::TooLong { first, .. }) => return Ok(Some(Content::NoLength(first))),
            Some(Line::Whole(line)) => line,
        };
        let Some((name, value)) = field(&line) else {
            return match length.filter(|_| line.trim_ascii().is_empty()) {
                None => Ok(Some(Content::NoLength(line))),
                Some(length) if length > most => Ok(Some(Content::TooLong(length))),
                Some(length) => body(from, length).await.map(Some),
            };
        };
        if name.eq_ignore_ascii_case("content-length") {
            match value.parse() {
                Ok(value) => length = Some(value),
                Err(_) => return Ok(Some(Content::NoLength(line))),
            }
        }
    }
    Ok(Some(Content::NoLength(Vec::new())))
}

/// A field of a header.
fn field(line: &[u8]) -> Option<(&str, &str)> {
    let (name, value) = std::str::from_utf8(line).ok()?.split_once(':')?;
    Some((name.trim(), value.trim()))
}

async fn body(from: &mut (impl AsyncBufRead + Unpin), length: usize) -> io::Result<Content> {
    // memory grows with what arrives, not with what the header promises
    let mut message = Vec::new();
    from.take(length as u64).read_to_end(&mut message).await?;
    match message.len() == length {
        true => Ok(Content::Whole(message)),
        false => Err(io::ErrorKind::UnexpectedEof.into()),
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::BufReader;

    use super::*;

    async fn all(text: &str, size: usize) -> Vec<Result<Content, io::ErrorKind>> {
        let mut from = BufReader::with_capacity(size, text.as_bytes());
        let mut all = Vec::new();
        loop {
            let next = next_content(&mut from, 10).await.map_err(|error| error.kind());
            let is_last = !matches!(next, Ok(Some(Content::Whole(_))));
            match next {
                Ok(None) => return all,
                Ok(Some(content)) => all.push(Ok(content)),
                Err(kind) => all.push(Err(kind)),
            }
            if is_last {
                return all;
            }
        }
    }

    #[tokio::test]
    async fn messages_are_told_apart_whatever_the_size_of_the_pieces() {
        let whole = |text: &str| Ok(Content::Whole(text.into()));
        let no_length = |text: &str| Ok(Content::NoLength(text.into()));
        let cut = || Err(io::ErrorKind::UnexpectedEof);
        for (text, expected) in [
            ("", vec![]),
            ("Content-Length: 2\r\n\r\n{}content-length:1\n\n1", vec![whole("{}"), whole("1")]),
            ("Content-Type: x\r\nContent-Length: 0\r\n\r\n", vec![whole("")]),
            ("Content-Length: 10\r\n\r\n\r\n\r\n012345", vec![whole("\r\n\r\n012345")]),
            ("Content-Length: 11\r\n\r\n", vec![Ok(Content::TooLong(11))]),
            ("Content-Length: 2\r\n\r\n{", vec![cut()]),
            ("Content-Length: 2\r\n", vec![cut()]),
            ("Content-Length: -1\r\n\r\n", vec![no_length("Content-Length: -1\r")]),
            ("Content-Length: 2\r\n\r\n{}log\n", vec![whole("{}"), no_length("log")]),
            ("\r\n", vec![no_length("\r")]),
            ("A: b\r\n\r\n", vec![no_length("\r")]),
        ] {
            for size in [1, 2, 3, 64] {
                assert_eq!(all(text, size).await, expected, "{text:?} {size}");
            }
        }
        assert_eq!(all(&"a: b\n".repeat(40), 64).await, [no_length("")]);
        let [Ok(Content::NoLength(first))] = &all(&("x".repeat(5_000) + "\n"), 64).await[..] else {
            panic!("it was read");
        };
        assert!(first.len() <= 5_000);
    }
}
