//! Colours of text on terminals that have them.

use std::fmt::Write;

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

/// The properties of the terminal.
#[derive(Clone, Copy, Debug)]
pub(super) struct Look {
    pub(super) style: Style,
    pub(super) columns: usize,
}
