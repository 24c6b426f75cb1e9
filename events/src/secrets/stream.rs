//! Replaces values in bytes that arrive in pieces, where a value may span two pieces.

use std::borrow::Cow;

use super::Secrets;

/// Replaces values by names. It holds back the last bytes while they may begin a value.
#[derive(Clone, Debug, Default)]
pub struct Redactor {
    secrets: Secrets,
    held: Vec<u8>,
}

impl Redactor {
    pub fn new(secrets: Secrets) -> Self {
        Self { secrets, held: Vec::new() }
    }

    /// Takes the next bytes and returns those that are certain.
    pub fn push<'a>(&mut self, bytes: &'a [u8]) -> Cow<'a, [u8]> {
        let Some(known) = &self.secrets.0 else { return Cow::Borrowed(bytes) };
        self.held.extend_from_slice(bytes);
        let settled = known.settled(&self.held);
        let rest = self.held.split_off(settled);
        let settled = std::mem::replace(&mut self.held, rest);
        Cow::Owned(known.hide(&settled).unwrap_or(settled))
    }

    /// Returns the bytes that were held back, at the end of the stream.
    pub fn finish(&mut self) -> Vec<u8> {
        let held = std::mem::take(&mut self.held);
        let hidden = self.secrets.0.as_ref().and_then(|known| known.hide(&held));
        hidden.unwrap_or(held)
    }
}
