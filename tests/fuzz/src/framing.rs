//! Properties of lines and of JSON that hold for any bytes.
//!
//! # Errors
//! Every function here returns the property that does not hold.

use std::pin::pin;
use std::task::{Context, Poll, Waker};

use leftfold_framing::surrogates::repair;
use leftfold_framing::{Line, MAX_VALUES, is_too_dense, next_line};
use serde_json::Value;
use tokio::io::BufReader;

/// Input: any bytes. Lines come out as they went in, whatever the size of the pieces; of a line that is too long the
/// ends are kept.
pub fn lines(data: &[u8]) -> Result<(), String> {
    let most = data.len() % 61 + 1;
    let mut expected: Vec<&[u8]> = data.split(|byte| *byte == b'\n').collect();
    let rest = expected.pop().unwrap_or_default();
    for size in [1, 7, 4_096] {
        let mut input = BufReader::with_capacity(size, data);
        for expected in &expected {
            let line = ready(next_line(&mut input, most))?;
            let right = match &line {
                Some(Line::Whole(line)) => line == expected && line.len() <= most,
                Some(Line::TooLong { first, last, length }) => {
                    *length == expected.len()
                        && *length > most
                        && expected.starts_with(first)
                        && expected.ends_with(last)
                }
                Some(Line::Unfinished(_)) | None => false,
            };
            if !right {
                return Err(format!("pieces of {size}: {expected:?} became {line:?}"));
            }
        }
        let last = ready(next_line(&mut input, most))?;
        let right = match &last {
            None => rest.is_empty(),
            Some(Line::Unfinished(line)) => !rest.is_empty() && rest.starts_with(line),
            Some(Line::Whole(_) | Line::TooLong { .. }) => false,
        };
        if !right {
            return Err(format!("pieces of {size}: the rest {rest:?} became {last:?}"));
        }
    }
    Ok(())
}

/// A reader of bytes in memory never waits.
fn ready<T>(line: impl Future<Output = std::io::Result<T>>) -> Result<T, String> {
    match pin!(line).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(Ok(line)) => Ok(line),
        Poll::Ready(Err(error)) => Err(error.to_string()),
        Poll::Pending => Err("reading waits".to_owned()),
    }
}

/// Input: any bytes, read as text. Repairing changes no JSON that can be read, and nothing the second time. Short text
/// is never too dense.
pub fn json(data: &[u8]) -> Result<(), String> {
    let text = String::from_utf8_lossy(data);
    let repaired = repair(&text);
    if repair(&repaired) != repaired {
        return Err(format!("{text:?} is repaired to {repaired:?}, and then again"));
    }
    if let Ok(value) = serde_json::from_str::<Value>(&text)
        && serde_json::from_str::<Value>(&repaired).ok() != Some(value)
    {
        return Err(format!("{text:?} became {repaired:?}"));
    }
    if text.len() <= MAX_VALUES && is_too_dense(text.as_bytes()) {
        return Err(format!("{} bytes are too dense", text.len()));
    }
    Ok(())
}
