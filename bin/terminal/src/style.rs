//! Colours of text on terminals that have them.

use std::borrow::Cow;
use std::fmt::Write;

use leftfold_view::clean;

/// The look of a piece of text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Face {
    pub(super) bold: bool,
    pub(super) italic: bool,
    pub(super) dim: bool,
    pub(super) colour: Option<Colour>,
}

/// From the terminal's own palette, which fits light and dark themes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Colour {
    Red = 31,
    Green = 32,
    Yellow = 33,
    Cyan = 36,
}

impl Face {
    pub(super) const PLAIN: Self = Self { bold: false, italic: false, dim: false, colour: None };
    pub(super) const BOLD: Self = Self { bold: true, ..Self::PLAIN };
    pub(super) const DIM: Self = Self { dim: true, ..Self::PLAIN };
    pub(super) const RED: Self = Self { colour: Some(Colour::Red), ..Self::PLAIN };
    pub(super) const GREEN: Self = Self { colour: Some(Colour::Green), ..Self::PLAIN };
    pub(super) const YELLOW: Self = Self { colour: Some(Colour::Yellow), ..Self::PLAIN };
    pub(super) const CYAN: Self = Self { colour: Some(Colour::Cyan), ..Self::PLAIN };
    pub(super) const HEADING: Self = Self { bold: true, colour: Some(Colour::Cyan), ..Self::PLAIN };

    /// This face with the attributes of `other` added.
    pub(super) fn with(self, other: Self) -> Self {
        Self {
            bold: self.bold || other.bold,
            italic: self.italic || other.italic,
            dim: self.dim || other.dim,
            colour: other.colour.or(self.colour),
        }
    }
}

/// Whether colours are used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Style {
    pub(super) colour: bool,
}

impl Style {
    /// The text with the face's codes around it.
    pub(super) fn paint(self, face: Face, text: &str) -> String {
        let mut out = String::new();
        self.write(&mut out, face, text);
        out
    }

    pub(super) fn write(self, out: &mut String, face: Face, text: &str) {
        if !self.colour || face == Face::PLAIN || text.is_empty() {
            out.push_str(text);
            return;
        }
        let attributes = [(face.bold, "1"), (face.dim, "2"), (face.italic, "3")];
        let mut codes: Vec<String> =
            attributes.iter().filter(|(on, _)| *on).map(|(_, code)| (*code).to_owned()).collect();
        codes.extend(face.colour.map(|colour| (colour as u8).to_string()));
        let _ = write!(out, "\x1b[{}m{text}\x1b[0m", codes.join(";"));
    }
}

/// Text for the screen: of control and invisible characters only the codes of [`Style::write`] stay,
/// others become escapes. Joiners are left to [`clean::Cleaner`], because a piece of text may begin
/// with one.
pub(super) fn guarded(text: &str) -> Cow<'_, str> {
    if !text.contains('\x1b') {
        return clean::guarded(text);
    }
    let mut out = String::with_capacity(text.len());
    let mut pieces = text.split("\x1b[");
    out.push_str(&clean::guarded(pieces.next().unwrap_or_default()));
    for piece in pieces {
        let rest = match piece.split_once('m') {
            Some((codes, rest)) if is_own(codes) => {
                out.extend(["\x1b[", codes, "m"]);
                rest
            }
            Some(_) | None => {
                out.push_str("\\x1b[");
                piece
            }
        };
        out.push_str(&clean::guarded(rest));
    }
    Cow::Owned(out)
}

/// Whether [`Style::write`] writes these codes.
fn is_own(codes: &str) -> bool {
    codes.split(';').all(|code| matches!(code, "0" | "1" | "2" | "3" | "31" | "32" | "33" | "36"))
}

/// The properties of the terminal.
#[derive(Clone, Copy, Debug)]
pub(super) struct Look {
    pub(super) style: Style,
    pub(super) columns: usize,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_own_codes_reach_the_screen() {
        let style = Style { colour: true };
        let faces = [Face::BOLD, Face::DIM, Face::RED, Face::GREEN, Face::YELLOW, Face::HEADING];
        for face in faces {
            let painted = style.paint(face, "❤\u{fe0f} text\n");
            assert_eq!(guarded(&painted), painted);
        }
        for (text, shown) in [
            ("\x1b[2Ja\x1b[8mb\x1b[1;8mc\x1b[0m", "\\x1b[2Ja\\x1b[8mb\\x1b[1;8mc\x1b[0m"),
            ("\x1b]0;t\x07\x1b[31m\r\x08\u{202e}", "\\x1b]0;t\\x07\x1b[31m\\x0d\\x08\\u{202e}"),
            ("\x1b[", "\\x1b["),
            ("\u{9b}31m", "\\u{9b}31m"),
        ] {
            assert_eq!(guarded(text), shown, "{text:?}");
        }
    }
}
