//! Lines from a client, of bounded length.

use tokio::io::{AsyncBufRead, AsyncBufReadExt};

/// What came up to the next end of line.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Line {
    Whole(Vec<u8>),
    /// Longer than allowed: passed over, not kept.
    TooLong,
    /// The client stopped in the middle of it.
    Half,
}

/// Reads the next line of at most `most` bytes, without its end. `None` at the end.
///
/// # Errors
/// Those of the connection.
pub(crate) async fn next(
    from: &mut (impl AsyncBufRead + Unpin),
    most: usize,
) -> std::io::Result<Option<Line>> {
    let mut line = Vec::new();
    let mut too_long = false;
    loop {
        let piece = from.fill_buf().await?;
        if piece.is_empty() {
            return Ok((too_long || !line.is_empty()).then_some(Line::Half));
        }
        let end = piece.iter().position(|byte| *byte == b'\n');
        let text = &piece[..end.unwrap_or(piece.len())];
        too_long |= line.len() + text.len() > most;
        if too_long {
            line = Vec::new();
        } else {
            line.extend_from_slice(text);
        }
        let taken = end.map_or(piece.len(), |end| end + 1);
        from.consume(taken);
        if end.is_some() {
            return Ok(Some(if too_long { Line::TooLong } else { Line::Whole(line) }));
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
            while let Some(line) = next(&mut from, 4).await.unwrap() {
                lines.push(line);
            }
            let expected = [whole("ab"), whole(""), Line::TooLong, whole("1234"), Line::Half];
            assert_eq!(lines, expected, "{size}");
        }
    }
}
