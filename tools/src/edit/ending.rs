//! The line endings of a file.

use std::borrow::Cow;

use memchr::{memchr, memmem};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ending {
    Lf,
    CrLf,
}

impl Ending {
    pub(super) fn apply(self, text: &str) -> Cow<'_, str> {
        let text = match memchr(b'\r', text.as_bytes()) {
            Some(_) => Cow::Owned(text.replace("\r\n", "\n")),
            None => Cow::Borrowed(text),
        };
        match self {
            Self::Lf => text,
            Self::CrLf => Cow::Owned(text.replace('\n', "\r\n")),
        }
    }

    /// The ending that arguments are converted to: CRLF if the file has any, unless its endings are
    /// mixed and `old` occurs only with LF.
    pub(super) fn for_edit(body: &str, old: &str) -> Self {
        if memmem::find(body.as_bytes(), b"\r\n").is_none() {
            return Self::Lf;
        }
        let has =
            |ending: Self| memmem::find(body.as_bytes(), ending.apply(old).as_bytes()).is_some();
        if !has(Self::CrLf) && has(Self::Lf) { Self::Lf } else { Self::CrLf }
    }
}
