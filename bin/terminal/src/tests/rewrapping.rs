//! A terminal that wraps its text again when its width changes, as most do and vt100 does not, and
//! replies that stream into it while it is resized.

use super::*;

/// The text of a terminal whose scrollback is endless.
struct Terminal {
    width: usize,
    /// Lines between line ends, however many rows they take.
    lines: Vec<Vec<char>>,
    line: usize,
    column: usize,
    /// Whether text goes on in another row at the edge of the screen. Otherwise it replaces the last column.
    wraps: bool,
}

impl Terminal {
    fn new(width: usize) -> Self {
        Self { width, lines: vec![Vec::new()], line: 0, column: 0, wraps: true }
    }

    /// The rows of a line.
    fn rows(&self, line: usize) -> usize {
        self.lines[line].len().div_ceil(self.width).max(1)
    }

    fn process(&mut self, bytes: &[u8]) {
        let text = std::str::from_utf8(bytes).unwrap();
        let mut chars = text.chars();
        while let Some(c) = chars.next() {
            match c {
                '\r' => self.column -= self.column % self.width,
                '\n' => self.line_end(),
                '\x1b' => {
                    assert_eq!(chars.next(), Some('['));
                    let mut parameters = String::new();
                    let last = loop {
                        match chars.next().unwrap() {
                            c @ ('0'..='9' | ';' | '?') => parameters.push(c),
                            last => break last,
                        }
                    };
                    self.control(&parameters, last);
                }
                c => {
                    let column = match self.wraps {
                        true => self.column,
                        false => self.column.min(self.width - 1),
                    };
                    let line = &mut self.lines[self.line];
                    line.resize(line.len().max(column + 1), ' ');
                    line[column] = c;
                    self.column = column + 1;
                    if !self.wraps {
                        self.column = self.column.min(self.width - 1);
                    }
                }
            }
        }
    }

    fn control(&mut self, parameters: &str, last: char) {
        let count = parameters.parse().unwrap_or(1);
        match last {
            'A' => (0..count).for_each(|_| self.up()),
            'B' => (0..count).for_each(|_| self.down()),
            'C' => self.column += count,
            'J' => {
                // tmux keeps what is erased from the first column of its screen on
                assert!(self.column > 0);
                self.lines.truncate(self.line + 1);
                self.lines[self.line].truncate(self.column);
            }
            'K' => self.lines[self.line].truncate(self.column),
            'h' | 'l' if parameters == "?7" => self.wraps = last == 'h',
            'm' | 'h' | 'l' => {}
            other => panic!("unknown: {other}"),
        }
    }

    fn up(&mut self) {
        let row = self.column / self.width;
        if row > 0 {
            self.column -= self.width;
        } else if self.line > 0 {
            self.line -= 1;
            self.column += (self.rows(self.line) - 1) * self.width;
        }
    }

    /// Goes to the row below, which is another line from now on.
    fn line_end(&mut self) {
        let end = (self.column / self.width + 1) * self.width;
        if end < self.lines[self.line].len() {
            let rest = self.lines[self.line].split_off(end);
            self.lines.insert(self.line + 1, rest);
        }
        self.down();
    }

    fn down(&mut self) {
        if self.column / self.width + 1 < self.rows(self.line) {
            self.column += self.width;
            return;
        }
        self.column %= self.width;
        self.line += 1;
        if self.line == self.lines.len() {
            self.lines.push(Vec::new());
        }
    }

    fn text(&self) -> String {
        self.lines.iter().map(|line| line.iter().collect::<String>() + "\n").collect()
    }
}

/// The words `w0`, `w1` and so on, as Markdown of all kinds.
fn reply(words: usize) -> String {
    let mut text = String::new();
    for n in 0..words {
        text += &format!("w{n}");
        text += match n % 23 {
            4 => "\n\n- ",
            7 => "\n- ",
            11 => "\n\n```\n",
            13 => "\n",
            16 => "\n```\n\n",
            19 => "\n\n> ",
            22 => "\n\n",
            _ => " ",
        };
    }
    text
}

/// `PROPTEST_CASES` sets the number of cases (100).
fn config() -> ProptestConfig {
    let given = std::env::var("PROPTEST_CASES").ok().and_then(|cases| cases.parse().ok());
    let cases = given.unwrap_or(100);
    ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(cases) }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn a_resize_in_mid_stream_garbles_nothing(
        steps in prop::collection::vec((1_usize..12, 30_u16..130, 0_u8..4), 10..60),
    ) {
        let now = Instant::now();
        let mut log = Log::default();
        log.prompted("go", "terminal");
        let asked = log.requested();
        let mut app = app(&log, 79);
        press(&mut app, "a draft of mine", now);
        let mut terminal = Terminal::new(80);
        let written = Shared::default();
        let mut surface = Surface::on(written.clone(), Size::new(80, 50), true);
        let words = 200;
        let text = reply(words);
        let mut rest = text.as_str();
        let steps = steps.into_iter().chain(std::iter::repeat_n((9, 90, 3), 1000));
        for (length, width, kind) in steps {
            if rest.is_empty() {
                break;
            }
            // the terminal is resized before the program knows it, also by a multiplexer that tells it frames later
            if kind < 2 {
                terminal.width = usize::from(width);
            }
            if kind == 0 {
                surface.resize(Size::new(width, 50)).unwrap();
                app.blocks.resize(usize::from(surface.width()));
            }
            let (piece, after) = rest.split_at(length.min(rest.len()));
            rest = after;
            log.streamed(asked, piece);
            app.observe(log.events.last().unwrap());
            let live = app.live(surface.height(), now, log.events.last().unwrap().at);
            surface.draw(&app.take(), &live.rows, live.cursor).unwrap();
            terminal.process(&written.0.take());
            let shown = terminal.text();
            prop_assert_eq!(shown.matches("› a draft of mine").count(), 1, "{}", shown);
        }
        // at last it knows the width
        let width = u16::try_from(terminal.width).unwrap();
        surface.resize(Size::new(width, 50)).unwrap();
        app.blocks.resize(usize::from(surface.width()));
        log.ended(EndReason::Completed, None);
        app.observe(log.events.last().unwrap());
        let live = app.live(surface.height(), now, Time::default());
        surface.draw(&app.take(), &live.rows, live.cursor).unwrap();
        terminal.process(&written.0.take());
        let shown = terminal.text();
        let is_word = |word: &&str| word.starts_with('w') && word[1..].parse::<usize>().is_ok();
        let found: Vec<&str> = shown.split_whitespace().filter(is_word).collect();
        let expected: Vec<String> = (0..words).map(|n| format!("w{n}")).collect();
        prop_assert_eq!(found, expected, "{}", shown);
    }
}
