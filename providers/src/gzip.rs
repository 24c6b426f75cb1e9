//! Inflates answers that are compressed although no request asks for it.

use std::io::{self, Read, Write};

use flate2::{read, write};

/// How many compressed bytes are inflated at once. They become at most about 4 MiB.
const PIECE: usize = 4_096;

/// Whether a body is compressed: neither an event stream nor JSON begins with these bytes.
pub(crate) fn is_gzip(body: &[u8]) -> bool {
    body.starts_with(&[0x1f, 0x8b])
}

/// The first bytes of a compressed body, at most `most`.
pub(crate) fn inflate(body: &[u8], most: u64) -> Vec<u8> {
    let mut inflated = Vec::new();
    // the bytes before damage may have a message, too
    let _ = read::GzDecoder::new(body).take(most).read_to_end(&mut inflated);
    inflated
}

/// Inflates a body in the pieces in which it arrives.
pub(crate) struct Inflater(write::GzDecoder<Vec<u8>>);

impl Inflater {
    pub(crate) fn new() -> Self {
        Self(write::GzDecoder::new(Vec::new()))
    }

    /// Gives the inflated bytes to `take`, a few MiB at a time.
    ///
    /// # Errors
    /// Those of `take`, or those of `damaged` if the bytes are damaged.
    pub(crate) fn push<E>(
        &mut self,
        bytes: &[u8],
        damaged: impl Fn(io::Error) -> E,
        mut take: impl FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        for piece in bytes.chunks(PIECE) {
            self.0.write_all(piece).map_err(&damaged)?;
            self.0.flush().map_err(&damaged)?;
            take(&std::mem::take(self.0.get_mut()))?;
        }
        Ok(())
    }
}
