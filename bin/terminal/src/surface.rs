//! The screen: finished lines, which stay and scroll away, and below them the live rows, which are drawn in place.
//!
//! All movements are relative to the first live row. So the place of the cursor need never be asked of the terminal,
//! whose answer would come between the keys that are typed. (ratatui's own inline viewport asks for it, and cannot
//! change its height.)
//!
//! While the cursor is hidden, it rests at the first live row, and each frame draws from there without moving back by
//! rows that were drawn before. A terminal that wraps its text again moves the cursor along with that row. So frames
//! are right at any width, also before the program knows of a new one: tmux tells it a quarter of a second later.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::io::{self, Write};

use ratatui::buffer::{Buffer, Cell};
use ratatui::layout::{Position, Rect, Size};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::Line;

use leftfold_tools::base64;
use leftfold_view::clean::guarded;

use super::hyperlink::Hyperlinks;
use super::look::{Look, ascii};

/// Begins and ends a change that the terminal shows at once.
const BEGIN: &str = "\x1b[?2026h";
const END: &str = "\x1b[?2026l";
/// Erases the row of the cursor and all below. Not from the first column on, because tmux keeps what is erased from the
/// top of the screen on, and scrolls it up.
const ERASE: &str = "\r\x1b[K\x1b[C\x1b[J\r";
/// Long lines are cut at the edge of the screen, or wrapped. Live rows take one row of the screen each, even if it is
/// narrower than they are.
const CUTS: &str = "\x1b[?7l";
const WRAPS: &str = "\x1b[?7h";
const HIDE: &str = "\x1b[?25l";
const SHOW: &str = "\x1b[?25h";

/// Draws on `out`. After an error it must not be used, since a terminal that is gone does not come back.
#[derive(Debug)]
pub(super) struct Surface<W = io::Stdout> {
    out: W,
    /// Whether the terminal wraps the text that it has again when its width changes.
    rewraps: bool,
    size: Size,
    /// The rows on the screen.
    live: Buffer,
    /// The place of the cursor in them.
    cursor: Position,
    /// Whether the cursor is hidden, and at the first live row.
    is_hidden: bool,
    /// How far each row was written to, blanks included.
    written: Vec<u16>,
    /// The addresses of links; `None` if the terminal has none.
    hyperlinks: Option<Hyperlinks>,
    /// Whether the terminal shows characters beyond ASCII.
    unicode: bool,
}

impl Surface {
    /// The terminal of standard output.
    pub(super) fn new(size: Size, rewraps: bool, look: &Look) -> Self {
        let hyperlinks = look.theme.hyperlinks.clone();
        let unicode = look.unicode;
        Self { hyperlinks, unicode, ..Self::on(io::stdout(), size, rewraps) }
    }
}

impl<W: Write> Surface<W> {
    pub(super) fn on(out: W, size: Size, rewraps: bool) -> Self {
        let (live, cursor) = (Buffer::empty(Rect::ZERO), Position::ORIGIN);
        let (written, hyperlinks, unicode) = (Vec::new(), None, true);
        Self { out, rewraps, size, live, cursor, is_hidden: false, written, hyperlinks, unicode }
    }

    #[cfg(test)]
    pub(super) fn with_hyperlinks(self, hyperlinks: Hyperlinks) -> Self {
        Self { hyperlinks: Some(hyperlinks), ..self }
    }

    /// The width for rows: the last column stays empty, so that no row wraps by itself.
    pub(super) fn width(&self) -> u16 {
        self.size.width.saturating_sub(1).max(1)
    }

    /// The most live rows.
    pub(super) fn height(&self) -> u16 {
        self.size.height.saturating_sub(1).max(1)
    }

    /// The size of the terminal. If it is another one, everything live is drawn again below the text that the terminal
    /// has made of it. Answers whether it is.
    ///
    /// # Errors
    /// The terminal is gone.
    pub(super) fn resize(&mut self, size: Size) -> io::Result<bool> {
        if size == self.size {
            return Ok(false);
        }
        let columns = size.width.max(1);
        let narrower = self.rewraps && size.width < self.size.width;
        let rows_of = |written: u16| if narrower { written.div_ceil(columns).max(1) } else { 1 };
        let above = self.written.iter().take(usize::from(self.cursor.y));
        let above: u16 = above.map(|written| rows_of(*written)).sum();
        let beside = if narrower { self.cursor.x / columns } else { 0 };
        self.cursor = Position::new(0, above.saturating_add(beside));
        self.size = size;
        let erased = self.erased();
        self.write(&erased)?;
        Ok(true)
    }

    /// Prints `finished` above, and shows `live` with the cursor at this place in it; without one it is hidden.
    ///
    /// # Errors
    /// The terminal is gone.
    pub(super) fn draw(
        &mut self,
        finished: &[Line<'_>],
        live: &Buffer,
        cursor: Option<Position>,
    ) -> io::Result<()> {
        let is_hidden = cursor.is_none() && live.area.height > 0;
        let mut bytes = String::new();
        if finished.is_empty() && live.area == self.live.area {
            match self.is_hidden {
                true => self.rewrite(live, &mut bytes),
                false => self.change(live, &mut bytes),
            }
        } else {
            bytes += &self.erased();
            for line in finished {
                self.line(line, &mut bytes);
            }
            bytes.push_str(CUTS);
            self.rows(live, &mut bytes);
            bytes.push_str(WRAPS);
        }
        self.live.clone_from(live);
        self.go(cursor.unwrap_or(Position::ORIGIN), &mut bytes);
        if is_hidden != self.is_hidden {
            bytes.push_str(if is_hidden { HIDE } else { SHOW });
            self.is_hidden = is_hidden;
        }
        if bytes.is_empty() {
            return Ok(());
        }
        self.write(&format!("{BEGIN}{bytes}{END}"))
    }

    /// Removes the live rows. The cursor is then at the start of the line below the finished ones.
    ///
    /// # Errors
    /// The terminal is gone.
    pub(super) fn clear(&mut self) -> io::Result<()> {
        let erased = self.erased();
        self.write(&erased)
    }

    /// The live rows are no longer what the screen shows, because another program has written on it.
    pub(super) fn forget(&mut self) {
        self.live = Buffer::empty(Rect::ZERO);
        self.written.clear();
        self.cursor = Position::ORIGIN;
    }

    /// Puts a text into the terminal's clipboard (OSC 52).
    ///
    /// # Errors
    /// The terminal is gone.
    pub(super) fn copy(&mut self, text: &str) -> io::Result<()> {
        self.write(&format!("\x1b]52;c;{}\x07", base64(text.as_bytes())))
    }

    /// A code that the terminal does not show.
    ///
    /// # Errors
    /// The terminal is gone.
    pub(super) fn code(&mut self, code: &str) -> io::Result<()> {
        self.write(code)
    }

    fn write(&mut self, bytes: &str) -> io::Result<()> {
        self.out.write_all(bytes.as_bytes())?;
        self.out.flush()
    }

    /// The codes that erase the live rows.
    fn erased(&mut self) -> String {
        let mut codes = String::new();
        if self.cursor.y > 0 {
            let _ = write!(codes, "\x1b[{}A", self.cursor.y);
        }
        codes.push_str(ERASE);
        self.forget();
        codes
    }

    /// A finished line. The terminal wraps it if it is long.
    fn line(&self, line: &Line<'_>, bytes: &mut String) {
        for span in &line.spans {
            let style = line.style.patch(span.style);
            self.text(style, &guarded(&span.content), bytes);
        }
        // the background of a line goes on to the edge of the screen
        if let Some(ground) = line.style.bg {
            self.text(Style::new().bg(ground), "\x1b[K", bytes);
        }
        bytes.push_str("\r\n");
    }

    /// All rows, with the cursor at the first one's start before and at the last one's end after.
    fn rows(&mut self, live: &Buffer, bytes: &mut String) {
        let height = live.area.height;
        self.written = vec![0; usize::from(height)];
        for y in 0..height {
            if y > 0 {
                bytes.push_str("\r\n");
            }
            self.row(live, y, bytes);
        }
    }

    /// All rows over those that are there, if any is different, with the cursor at the first one's start before. The
    /// terminal may have wrapped them again, so that none can be left out.
    fn rewrite(&mut self, live: &Buffer, bytes: &mut String) {
        if *live == self.live {
            return;
        }
        bytes.push_str(CUTS);
        for y in 0..live.area.height {
            if y > 0 {
                // also in the last row of the screen, so that the way back is as long
                bytes.push_str("\r\n");
            }
            self.row(live, y, bytes);
            bytes.push_str("\x1b[K");
        }
        bytes.push_str("\x1b[J");
        bytes.push_str(WRAPS);
    }

    /// One row, with the cursor at its start before.
    fn row(&mut self, live: &Buffer, y: u16, bytes: &mut String) {
        let cell = |x: u16| live.cell((x, y)).unwrap_or(&Cell::EMPTY);
        let end = end(live, y);
        let mut run = (Style::default(), String::new());
        let mut x = 0;
        while x < end {
            let cell = cell(x);
            let style = cell.style();
            if style != run.0 {
                self.text(run.0, &run.1, bytes);
                run = (style, String::new());
            }
            run.1.push_str(&guarded(cell.symbol()));
            x += columns(cell);
        }
        self.text(run.0, &run.1, bytes);
        self.set_written(y, end);
        self.cursor = Position::new(x, y);
    }

    /// The cells that are different. What is blank up to the end of a row is erased.
    fn change(&mut self, live: &Buffer, bytes: &mut String) {
        let mut erased = None;
        for (x, y, cell) in self.live.clone().diff(live) {
            let end = end(live, y);
            if x >= end {
                if erased != Some(y) {
                    self.go(Position::new(end, y), bytes);
                    bytes.push_str("\x1b[K");
                    self.set_written(y, end);
                }
                erased = Some(y);
                continue;
            }
            self.go(Position::new(x, y), bytes);
            self.text(cell.style(), &guarded(cell.symbol()), bytes);
            self.cursor.x = x + columns(cell);
            self.set_written(y, end);
        }
    }

    fn set_written(&mut self, y: u16, end: u16) {
        if let Some(written) = self.written.get_mut(usize::from(y)) {
            *written = end;
        }
    }

    fn go(&mut self, to: Position, bytes: &mut String) {
        if to == self.cursor {
            return;
        }
        match i32::from(to.y) - i32::from(self.cursor.y) {
            0 => {}
            down @ 1.. => drop(write!(bytes, "\x1b[{down}B")),
            up => drop(write!(bytes, "\x1b[{}A", -up)),
        }
        bytes.push('\r');
        if to.x > 0 {
            let _ = write!(bytes, "\x1b[{}C", to.x);
        }
        self.cursor = to;
    }

    fn text(&self, style: Style, text: &str, bytes: &mut String) {
        if text.is_empty() {
            return;
        }
        let codes = codes(style);
        let link = self.hyperlinks.as_ref().and_then(|links| links.address(style));
        if let Some((number, address)) = &link {
            // with its number the terminal knows that the rows of a wrapped link belong together
            let _ = write!(bytes, "\x1b]8;id={number};{address}\x1b\\");
        }
        let text = if self.unicode { Cow::Borrowed(text) } else { ascii(text) };
        match codes.is_empty() {
            true => bytes.push_str(&text),
            false => drop(write!(bytes, "\x1b[{codes}m{text}\x1b[0m")),
        }
        if link.is_some() {
            bytes.push_str("\x1b]8;;\x1b\\");
        }
    }
}

/// Where the text of a row ends.
fn end(live: &Buffer, y: u16) -> u16 {
    let is_blank = |x: &u16| live.cell((*x, y)).is_none_or(|cell| *cell == Cell::EMPTY);
    let last = (0..live.area.width).rev().find(|x| !is_blank(x));
    last.map_or(0, |x| x + live.cell((x, y)).map_or(1, columns))
}

/// The columns of a cell's text.
fn columns(cell: &Cell) -> u16 {
    u16::try_from(unicode_width::UnicodeWidthStr::width(cell.symbol())).unwrap_or(1).max(1)
}

/// The parameters of the code for a style, with `;` between them.
fn codes(style: Style) -> String {
    let mut codes = Vec::new();
    for (modifier, code) in [
        (Modifier::BOLD, "1"),
        (Modifier::DIM, "2"),
        (Modifier::ITALIC, "3"),
        (Modifier::UNDERLINED, "4"),
        (Modifier::REVERSED, "7"),
        (Modifier::CROSSED_OUT, "9"),
    ] {
        if style.add_modifier.contains(modifier) && !style.sub_modifier.contains(modifier) {
            codes.push(code.to_owned());
        }
    }
    codes.extend(style.fg.and_then(|colour| code(colour, 0)));
    codes.extend(style.bg.and_then(|colour| code(colour, 10)));
    codes.join(";")
}

/// The code of a colour; that of a background is 10 more.
fn code(colour: Color, more: u8) -> Option<String> {
    let named = match colour {
        Color::Reset => return None,
        Color::Black => 30,
        Color::Red => 31,
        Color::Green => 32,
        Color::Yellow => 33,
        Color::Blue => 34,
        Color::Magenta => 35,
        Color::Cyan => 36,
        Color::Gray => 37,
        Color::DarkGray => 90,
        Color::LightRed => 91,
        Color::LightGreen => 92,
        Color::LightYellow => 93,
        Color::LightBlue => 94,
        Color::LightMagenta => 95,
        Color::LightCyan => 96,
        Color::White => 97,
        Color::Indexed(n) => return Some(format!("{};5;{n}", 38 + more)),
        Color::Rgb(r, g, b) => return Some(format!("{};2;{r};{g};{b}", 38 + more)),
    };
    Some((named + more).to_string())
}
