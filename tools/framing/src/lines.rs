//! Reads lines of bounded length from a program or a connection.

use std::io;

use tokio::io::{AsyncBufRead, AsyncBufReadExt};

/// Bytes kept from each end of a line that is too long.
const ENDS: usize = 4 * 1_024;

/// One line, without its line end.
#[derive(Debug, PartialEq, Eq)]
pub enum Line {
    Whole(Vec<u8>),
    /// Longer than allowed: only its first and last bytes are kept.
    TooLong {
        first: Vec<u8>,
        last: Vec<u8>,
        /// Length of the whole line, in bytes.
        length: usize,
    },
    /// The input ended before the line did. If the line is too long, it is cut.
    Unfinished(Vec<u8>),
}

/// Reads the next line of at most `most` bytes. Returns `None` at the end of the input. Dropping
/// the future before it is ready loses the line being read.
///
/// # Errors
/// Errors of the reader.
pub async fn next_line(
    from: &mut (impl AsyncBufRead + Unpin),
    most: usize,
) -> io::Result<Option<Line>> {
    let (mut line, mut last, mut length) = (Vec::new(), Vec::new(), 0);
    loop {
        let piece = from.fill_buf().await?;
        if piece.is_empty() {
            return Ok((length > 0).then_some(Line::Unfinished(line)));
        }
        let end = piece.iter().position(|byte| *byte == b'\n');
        let text = &piece[..end.unwrap_or(piece.len())];
        length += text.len();
        if length <= most {
            line.extend_from_slice(text);
        } else {
            let missing = ENDS.min(most).saturating_sub(line.len()).min(text.len());
            line.extend_from_slice(&text[..missing]);
            line.truncate(ENDS);
            line.shrink_to_fit();
            last.extend_from_slice(&text[text.len().saturating_sub(ENDS)..]);
            last.drain(..last.len().saturating_sub(ENDS));
        }
        let taken = end.map_or(piece.len(), |end| end + 1);
        from.consume(taken);
        if end.is_some() {
            let whole = length <= most;
            return Ok(Some(if whole {
                Line::Whole(line)
            } else {
                Line::TooLong { first: line, last, length }
            }));
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::BufReader;

    use super::*;

    #[tokio::test]
    async fn lines_are_told_apart_whatever_the_size_of_the_pieces() {
        let whole = |text: &str| Line::Whole(text.into());
        for size in [1, 2, 3, 64] {
            let mut from = BufReader::with_capacity(size, &b"ab\n\n12345\n1234\nrest"[..]);
            let mut lines = Vec::new();
            while let Some(line) = next_line(&mut from, 4).await.unwrap() {
                lines.push(line);
            }
            let [first, second, Line::TooLong { length: 5, .. }, fourth, fifth] = &lines[..] else {
                panic!("{size}: {lines:?}");
            };
            assert_eq!(
                [first, second, fourth],
                [&whole("ab"), &whole(""), &whole("1234")],
                "{size}"
            );
            assert_eq!(fifth, &Line::Unfinished(b"rest".to_vec()), "{size}");
        }
    }

    #[tokio::test]
    async fn of_a_line_that_is_too_long_both_ends_are_kept() {
        let text = [&b"begin"[..], &vec![b'x'; 100_000], b"end\nnext\n"].concat();
        for size in [64, 8 * 1_024, 1_000_000] {
            let mut from = BufReader::with_capacity(size, &text[..]);
            let line = next_line(&mut from, 10_000).await.unwrap();
            let Some(Line::TooLong { first, last, length: 100_008 }) = line else {
                panic!("{size}: {line:?}");
            };
            assert!(first.starts_with(b"beginxxx") && last.ends_with(b"xxxend"), "{size}");
            assert!(first.len() <= ENDS && last.len() <= ENDS, "{size}");
            let line = next_line(&mut from, 10_000).await.unwrap();
            assert_eq!(line, Some(Line::Whole(b"next".to_vec())));
        }
    }
}
