//! Builds blocks of the system prompt together with the origins of their pieces.

use std::ops::Range;
use std::path::Path;

use leftfold_config::SettingPlace;
use leftfold_events::turn_config::PromptPiece;

/// The largest agent file to look for the lines of a prompt, in bytes.
const LARGEST: u64 = 1 << 20;

/// A text with the origins of its pieces.
#[derive(Clone, Debug, Default)]
pub(super) struct Block {
    pub(super) text: String,
    /// Together they cover the text.
    pieces: Vec<PromptPiece>,
}

impl Block {
    /// Appends a text of one origin.
    pub(super) fn push(&mut self, text: &str, origin: PromptPiece) {
        let from = self.text.len();
        self.text.push_str(text);
        let to = self.text.len();
        let extends = |last: &&mut PromptPiece| last.kind == FRAME && origin.kind == FRAME;
        match self.pieces.last_mut().filter(extends) {
            Some(last) => last.to = to,
            None if from < to => self.pieces.push(PromptPiece { from, to, ..origin }),
            None => {}
        }
    }

    /// Appends text that Leftfold writes around others.
    pub(super) fn frame(&mut self, text: &str) {
        self.push(text, PromptPiece::new(FRAME));
    }

    /// Appends a text in which the pieces at these places have an origin, and the rest is frame.
    pub(super) fn framed(&mut self, text: &str, pieces: Vec<(Range<usize>, PromptPiece)>) {
        let mut done = 0;
        for (Range { start, end }, origin) in pieces {
            let (before, piece) = (text.get(done..start), text.get(start..end));
            if let (Some(before), Some(piece)) = (before, piece) {
                self.frame(before);
                self.push(piece, origin);
                done = end;
            }
        }
        self.frame(text.get(done..).unwrap_or_default());
    }

    /// The pieces, as those of this block of the system prompt.
    pub(super) fn pieces(self, block: usize) -> impl Iterator<Item = PromptPiece> {
        self.pieces.into_iter().map(move |piece| PromptPiece { block, ..piece })
    }
}

const FRAME: &str = "frame";

/// The origin of an agent's prompt: its file, with the lines if the file has the prompt as it is.
pub(super) fn of_agent(name: &str, prompt: &str, place: Option<&SettingPlace>) -> PromptPiece {
    let mut piece = PromptPiece { name: Some(name.to_owned()), ..PromptPiece::new("agent") };
    let Some(place) = place else { return piece };
    let path = Path::new(&place.source.name);
    piece.path = Some(place.source.name.clone());
    let text = leftfold_files::text(path, None, LARGEST);
    piece.lines = text.and_then(|text| {
        let first = text[..text.find(prompt)?].matches('\n').count() + 1;
        Some(lines(first, prompt))
    });
    if piece.lines.is_none() && place.line > 0 {
        piece.lines = Some((place.line, place.line));
    }
    piece
}

/// The first and the last line of a text that begins in line `first`.
pub(super) fn lines(first: usize, text: &str) -> (usize, usize) {
    (first, first + text.trim_end_matches('\n').matches('\n').count())
}
