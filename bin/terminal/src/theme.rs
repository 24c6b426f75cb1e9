//! Named styles for everything on the screen: which colours a terminal has, and which of them to
//! use. It reads no environment itself: callers pass a look-up.

pub(crate) use leftfold_config::ThemeName;
use ratatui::style::{Color, Modifier, Style};

use crate::hyperlink::Hyperlinks;

/// How many colours the terminal has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum ColorDepth {
    /// No attributes either: `TERM=dumb`, or output for a screen reader. Markup stays in the text.
    Plain,
    /// Bold, italic and others, but no colours: `NO_COLOR`.
    Monochrome,
    Ansi16,
    Ansi256,
    TrueColor,
}

impl ColorDepth {
    /// From `NO_COLOR`, `COLORTERM` and `TERM`.
    pub(crate) fn detect(env: impl Fn(&str) -> Option<String>) -> Self {
        let value = |name| env(name).filter(|value| !value.is_empty());
        let term = value("TERM").unwrap_or_default();
        if matches!(term.as_str(), "" | "dumb") {
            return Self::Plain;
        }
        if value("NO_COLOR").is_some() {
            return Self::Monochrome;
        }
        let color_term = value("COLORTERM").unwrap_or_default();
        if matches!(color_term.as_str(), "truecolor" | "24bit") || term.ends_with("-direct") {
            return Self::TrueColor;
        }
        if term.contains("256color") || !color_term.is_empty() {
            return Self::Ansi256;
        }
        Self::Ansi16
    }
}

/// The terminal's background.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Background {
    Light,
    Dark,
}

impl Background {
    /// Asks the terminal for the colour of its background.
    pub(crate) const QUESTION: &str = "\x1b]11;?\x07";

    /// From the terminal's answer, such as `rgb:1e1e/1e1e/1e1e`: up to four hexadecimal digits for each of red, green
    /// and blue.
    pub(crate) fn of_answer(answer: &[u8]) -> Option<Self> {
        let answer = std::str::from_utf8(answer).ok()?;
        let parts: Vec<&str> = match answer.strip_prefix('#') {
            Some(digits) if digits.is_ascii() && digits.len().is_multiple_of(3) => {
                let (first, rest) = digits.split_at(digits.len() / 3);
                let (second, third) = rest.split_at(digits.len() / 3);
                vec![first, second, third]
            }
            Some(_) => return None,
            None => {
                let numbers =
                    answer.strip_prefix("rgb:").or_else(|| answer.strip_prefix("rgba:"))?;
                numbers.split('/').take(3).collect()
            }
        };
        // of a thousand
        let share = |digits: &&str| {
            let is_number = (1..=4).contains(&digits.len());
            let value = u32::from_str_radix(digits, 16)
                .ok()
                .filter(|_| is_number && !digits.starts_with('+'))?;
            let most = 16_u32.pow(u32::try_from(digits.len()).ok()?) - 1;
            Some(value * 1_000 / most)
        };
        let [red, green, blue] =
            parts.iter().map(share).collect::<Option<Vec<u32>>>()?.try_into().ok()?;
        // as bright as people see these colours
        let is_light = 299 * red + 587 * green + 114 * blue > 500_000;
        Some(if is_light { Self::Light } else { Self::Dark })
    }

    /// From `COLORFGBG`, such as `15;0`: foreground and background as numbers of the palette.
    pub(crate) fn of_environment(env: impl Fn(&str) -> Option<String>) -> Option<Self> {
        let value = env("COLORFGBG")?;
        match value.rsplit(';').next()?.parse().ok()? {
            7 | 9..=15 => Some(Self::Light),
            0..=6 | 8 => Some(Self::Dark),
            _ => None,
        }
    }
}

/// The styles of code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CodeTheme {
    pub(crate) comment: Style,
    pub(crate) keyword: Style,
    pub(crate) string: Style,
    pub(crate) number: Style,
    pub(crate) function: Style,
    /// Types, classes, tags and keys.
    pub(crate) name: Style,
}

/// Every style that the conversation uses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Theme {
    pub(crate) depth: ColorDepth,
    pub(crate) text: Style,
    /// Secondary text: reasoning, output of tools, notes.
    pub(crate) dim: Style,
    pub(crate) heading: Style,
    /// Code between backquotes.
    pub(crate) code: Style,
    pub(crate) link: Style,
    pub(crate) quote: Style,
    /// Markers of lists, borders of tables, rules.
    pub(crate) marker: Style,
    pub(crate) added: Style,
    pub(crate) removed: Style,
    /// The words that differ within a changed line.
    pub(crate) added_word: Style,
    pub(crate) removed_word: Style,
    /// The whole row of a changed line, and the code on it; without a ground if the terminal has few colours.
    pub(crate) added_row: Style,
    pub(crate) removed_row: Style,
    pub(crate) changed_syntax: CodeTheme,
    /// The whole row of a prompt.
    pub(crate) prompt: Style,
    pub(crate) line_number: Style,
    pub(crate) error: Style,
    pub(crate) warning: Style,
    pub(crate) success: Style,
    /// The user's own prompts, keys, what can be chosen.
    pub(crate) accent: Style,
    /// The selected row of a list.
    pub(crate) selection: Style,
    /// The characters that match a search.
    pub(crate) matched: Style,
    pub(crate) syntax: CodeTheme,
    /// The addresses that a click opens; `None` if the terminal has no links.
    pub(crate) hyperlinks: Option<Hyperlinks>,
}

/// One colour in each palette.
#[derive(Clone, Copy)]
struct Paint {
    light: u32,
    dark: u32,
    /// `Color::Reset` for the terminal's own foreground.
    palette: Color,
}

const RED: Paint = Paint { light: 0xb3_1d28, dark: 0xf4_7067, palette: Color::Red };
const GREEN: Paint = Paint { light: 0x11_6329, dark: 0x6b_c46d, palette: Color::Green };
const YELLOW: Paint = Paint { light: 0x8a_5a00, dark: 0xe0_b25c, palette: Color::Yellow };
const BLUE: Paint = Paint { light: 0x05_50ae, dark: 0x6c_b6ff, palette: Color::Blue };
const CYAN: Paint = Paint { light: 0x0b_6e7f, dark: 0x5c_c8d7, palette: Color::Cyan };
const MAGENTA: Paint = Paint { light: 0x6f_42c1, dark: 0xc7_9bf0, palette: Color::Magenta };
const GREY: Paint = Paint { light: 0x65_6d76, dark: 0x8b_949e, palette: Color::Reset };

/// A quiet background in each palette, as a colour and as one of the 256. The nearest of those would be grey.
#[derive(Clone, Copy)]
struct Ground {
    light: (u32, u8),
    dark: (u32, u8),
}

const RED_ROW: Ground = Ground { light: (0xfd_ecea, 224), dark: (0x38_1a1d, 52) };
const GREEN_ROW: Ground = Ground { light: (0xe4_f7e8, 194), dark: (0x15_2e1d, 22) };
const RED_WORD: Ground = Ground { light: (0xfb_c9c5, 217), dark: (0x6e_282c, 88) };
const GREEN_WORD: Ground = Ground { light: (0xb4_ebc0, 157), dark: (0x1c_4a2a, 22) };
const PROMPT_ROW: Ground = Ground { light: (0xea_eef2, 254), dark: (0x2a_2f38, 236) };
/// Text on a dark background.
const PALE: Paint = Paint { light: 0xd0_d7de, dark: 0xd0_d7de, palette: Color::Gray };

/// Turns a [`Paint`] into a colour of the terminal.
#[derive(Clone, Copy)]
struct Palette {
    depth: ColorDepth,
    background: Option<Background>,
    /// Whether texts are nearer to black or white, and grounds nearer to the background.
    is_high_contrast: bool,
}

impl Palette {
    fn color(self, paint: Paint) -> Option<Color> {
        let rgb = match self.background {
            Some(Background::Light) => self.contrasted(paint.light, 0),
            Some(Background::Dark) => self.contrasted(paint.dark, 255),
            None => return self.has_colors().then_some(paint.palette),
        };
        match self.depth {
            ColorDepth::Plain | ColorDepth::Monochrome => None,
            ColorDepth::Ansi16 => Some(paint.palette),
            ColorDepth::Ansi256 => Some(Color::Indexed(nearest_of_256(rgb))),
            ColorDepth::TrueColor => Some(true_color(rgb)),
        }
    }

    /// For high contrast, a colour that is nearer to black (0) or white (255).
    fn contrasted(self, rgb: u32, end: u32) -> u32 {
        const PERCENT: u32 = 45;
        if !self.is_high_contrast {
            return rgb;
        }
        let mixed = |part| (u32::from(part) * (100 - PERCENT) + end * PERCENT) / 100;
        let [_, red, green, blue] =
            rgb.to_be_bytes().map(|part| u8::try_from(mixed(part)).unwrap_or(u8::MAX));
        u32::from_be_bytes([0, red, green, blue])
    }

    fn has_colors(self) -> bool {
        self.depth >= ColorDepth::Ansi16
    }

    fn foreground(self, paint: Paint) -> Style {
        self.color(paint).map_or_else(Style::new, |color| Style::new().fg(color))
    }

    /// Attributes, if the terminal has them.
    fn with(self, style: Style, modifier: Modifier) -> Style {
        if self.depth == ColorDepth::Plain { style } else { style.add_modifier(modifier) }
    }

    /// Secondary text. Grey has no place among the sixteen colours that suits every palette, so it
    /// is the attribute there.
    fn dim(self) -> Style {
        if self.background.is_some() && self.depth >= ColorDepth::Ansi256 {
            self.foreground(GREY)
        } else if self.is_high_contrast {
            Style::new()
        } else {
            self.with(Style::new(), Modifier::DIM)
        }
    }

    /// A quiet background, if the terminal has shades.
    fn ground(self, ground: Ground) -> Option<Style> {
        let ((rgb, index), end) = match self.background {
            Some(Background::Light) => (ground.light, 255),
            Some(Background::Dark) | None => (ground.dark, 0),
        };
        match self.depth {
            ColorDepth::TrueColor => Some(Style::new().bg(true_color(self.contrasted(rgb, end)))),
            ColorDepth::Ansi256 => Some(Style::new().bg(Color::Indexed(index))),
            ColorDepth::Ansi16 | ColorDepth::Monochrome | ColorDepth::Plain => None,
        }
    }

    /// A row on a quiet background. Where the terminal's own is unknown, it brings a text that can be read on it.
    fn row(self, ground: Ground) -> Option<Style> {
        let row = self.ground(ground)?;
        Some(match self.background {
            Some(_) => row,
            None => row.patch(self.on_ground().foreground(PALE)),
        })
    }

    /// For text on a quiet background.
    fn on_ground(self) -> Self {
        Self { background: self.background.or(Some(Background::Dark)), ..self }
    }

    /// The changed words of a line. Of the 256 colours, few can be the ground of a text, so there they are bold too.
    fn word(self, line: Style, ground: Ground) -> Style {
        match self.ground(ground) {
            Some(word) if self.depth == ColorDepth::TrueColor => word,
            Some(word) => self.with(word, Modifier::BOLD),
            None => self.with(line, Modifier::BOLD),
        }
    }

    /// For code on the row of a changed line.
    fn changed_syntax(self) -> CodeTheme {
        let syntax = self.on_ground().syntax();
        let text = if self.background.is_none() {
            self.on_ground().foreground(PALE)
        } else {
            Style::new()
        };
        CodeTheme { comment: self.with(text, Modifier::ITALIC), ..syntax }
    }

    fn syntax(self) -> CodeTheme {
        let color = |paint| self.foreground(paint);
        CodeTheme {
            comment: self.with(self.dim(), Modifier::ITALIC),
            keyword: color(MAGENTA),
            string: color(GREEN),
            number: color(YELLOW),
            function: color(BLUE),
            name: color(CYAN),
        }
    }
}

impl Theme {
    /// `background` is what the terminal reports, if it does.
    pub(crate) fn new(name: ThemeName, depth: ColorDepth, background: Option<Background>) -> Self {
        let (background, is_high_contrast) = match name {
            ThemeName::Auto => (background, false),
            ThemeName::Light => (Some(Background::Light), false),
            ThemeName::Dark => (Some(Background::Dark), false),
            ThemeName::HighContrastLight => (Some(Background::Light), true),
            ThemeName::HighContrastDark => (Some(Background::Dark), true),
        };
        let palette = Palette { depth, background, is_high_contrast };
        let color = |paint| palette.foreground(paint);
        let bold = |style| palette.with(style, Modifier::BOLD);
        Self {
            depth,
            text: Style::new(),
            dim: palette.dim(),
            heading: bold(color(CYAN)),
            code: color(CYAN),
            link: palette.with(color(BLUE), Modifier::UNDERLINED),
            quote: palette.with(palette.dim(), Modifier::ITALIC),
            marker: palette.dim(),
            added: color(GREEN),
            removed: color(RED),
            added_word: palette.word(color(GREEN), GREEN_WORD),
            removed_word: palette.word(color(RED), RED_WORD),
            added_row: palette.row(GREEN_ROW).unwrap_or_default(),
            removed_row: palette.row(RED_ROW).unwrap_or_default(),
            changed_syntax: palette.changed_syntax(),
            prompt: palette
                .row(PROMPT_ROW)
                .unwrap_or_else(|| palette.with(Style::new(), Modifier::REVERSED)),
            line_number: palette.dim(),
            error: bold(color(RED)),
            warning: color(YELLOW),
            success: color(GREEN),
            accent: bold(color(MAGENTA)),
            selection: palette.with(Style::new(), Modifier::REVERSED),
            matched: palette.with(color(YELLOW), Modifier::BOLD | Modifier::UNDERLINED),
            syntax: palette.syntax(),
            hyperlinks: None,
        }
    }

    /// The theme for a terminal with this environment.
    pub(crate) fn detect(name: ThemeName, env: impl Fn(&str) -> Option<String>) -> Self {
        let theme = Self::new(name, ColorDepth::detect(&env), Background::of_environment(&env));
        Self { hyperlinks: has_hyperlinks(env).then(Hyperlinks::default), ..theme }
    }

    /// Whether the screen has no attributes at all, so that only the text can tell things apart.
    pub(crate) fn is_plain(&self) -> bool {
        self.depth == ColorDepth::Plain
    }

    /// `style` with an attribute, if the screen has any.
    pub(crate) fn with(&self, style: Style, modifier: Modifier) -> Style {
        if self.is_plain() { style } else { style.add_modifier(modifier) }
    }
}

/// Whether the terminal shows OSC 8 links, by the names that terminals leave in the environment.
/// Others would show nothing of a link's address, or its control sequence.
fn has_hyperlinks(env: impl Fn(&str) -> Option<String>) -> bool {
    let value = |name| env(name).unwrap_or_default();
    let at_least =
        |name, least: u32| value(name).parse().is_ok_and(|version: u32| version >= least);
    let term = value("TERM");
    if matches!(term.as_str(), "" | "dumb" | "linux") {
        return false;
    }
    // A multiplexer stands between, whatever terminal it runs in.
    if env("STY").is_some() {
        return false;
    }
    if env("TMUX").is_some() {
        let version = value("TERM_PROGRAM_VERSION");
        let mut numbers = version.split(|c: char| !c.is_ascii_digit()).map(str::parse::<u32>);
        let major = numbers.next().and_then(Result::ok).unwrap_or(0);
        let minor = numbers.next().and_then(Result::ok).unwrap_or(0);
        return value("TERM_PROGRAM") == "tmux" && (major, minor) >= (3, 4);
    }
    let program = value("TERM_PROGRAM");
    let programs = ["iTerm.app", "WezTerm", "vscode", "ghostty", "Hyper", "rio", "Tabby", "zed"];
    let terms = ["xterm-kitty", "xterm-ghostty", "alacritty", "foot", "contour", "wezterm"];
    programs.contains(&program.as_str())
        || terms.iter().any(|name| term.starts_with(name))
        || at_least("VTE_VERSION", 5000)
        || at_least("KONSOLE_VERSION", 201_200)
        || ["KITTY_WINDOW_ID", "WT_SESSION", "DOMTERM"].iter().any(|name| env(name).is_some())
}

fn true_color(rgb: u32) -> Color {
    let [_, red, green, blue] = rgb.to_be_bytes();
    Color::Rgb(red, green, blue)
}

/// The nearest colour of the cube and the grey ramp of the 256 colours.
fn nearest_of_256(rgb: u32) -> u8 {
    let [_, red, green, blue] = rgb.to_be_bytes();
    /// The levels of the cube.
    const LEVELS: [u8; 6] = [0, 95, 135, 175, 215, 255];
    let nearest_level = |value: u8| {
        let levels = (0_u8..).zip(LEVELS);
        levels.min_by_key(|(_, level)| level.abs_diff(value)).unwrap_or_default()
    };
    let distance = |colour: [u8; 3]| -> u32 {
        let pairs = colour.into_iter().zip([red, green, blue]);
        pairs.map(|(a, b)| u32::from(a.abs_diff(b)).pow(2)).sum()
    };
    let [r, g, b] = [red, green, blue].map(nearest_level);
    let cube = (16 + 36 * r.0 + 6 * g.0 + b.0, distance([r.1, g.1, b.1]));
    let greys = (0_u8..24).map(|step| (232 + step, distance([8 + 10 * step; 3])));
    let grey = greys.min_by_key(|(_, distance)| *distance).unwrap_or(cube);
    if grey.1 < cube.1 { grey.0 } else { cube.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn env<'a>(pairs: &'a [(&str, &str)]) -> impl Fn(&str) -> Option<String> + 'a {
        move |name| {
            let pair = pairs.iter().find(|(key, _)| *key == name);
            pair.map(|(_, value)| (*value).to_owned())
        }
    }

    #[test]
    fn the_environment_says_how_many_colours_there_are() {
        for (pairs, depth) in [
            (&[][..], ColorDepth::Plain),
            (&[("TERM", "dumb"), ("COLORTERM", "truecolor")], ColorDepth::Plain),
            (&[("TERM", "xterm")], ColorDepth::Ansi16),
            (&[("TERM", "linux")], ColorDepth::Ansi16),
            (&[("TERM", "xterm"), ("COLORTERM", "1")], ColorDepth::Ansi256),
            (&[("TERM", "xterm-256color")], ColorDepth::Ansi256),
            (&[("TERM", "tmux-256color"), ("COLORTERM", "24bit")], ColorDepth::TrueColor),
            (&[("TERM", "xterm-direct")], ColorDepth::TrueColor),
            (&[("TERM", "xterm-direct"), ("NO_COLOR", "1")], ColorDepth::Monochrome),
            (&[("TERM", "xterm-direct"), ("NO_COLOR", "")], ColorDepth::TrueColor),
        ] {
            assert_eq!(ColorDepth::detect(env(pairs)), depth, "{pairs:?}");
        }
    }

    #[test]
    fn the_background_is_read_or_reported() {
        let of = |value| Background::of_environment(env(&[("COLORFGBG", value)]));
        assert_eq!(of("15;0"), Some(Background::Dark));
        assert_eq!(of("0;default;15"), Some(Background::Light));
        assert_eq!(of("0;default"), None);
        for (answer, expected) in [
            ("rgb:0000/0000/0000", Some(Background::Dark)),
            ("rgb:ffff/ffff/ffff", Some(Background::Light)),
            ("rgb:fd/f6/e3", Some(Background::Light)),
            ("rgb:f/f/0", Some(Background::Light)),
            ("rgba:0000/0000/ffff/ffff", Some(Background::Dark)),
            ("#ffffff", Some(Background::Light)),
            ("#111122223333", Some(Background::Dark)),
            ("#ffff", None),
            ("rgb:fffff/0/0", None),
            ("rgb:+f/0/0", None),
            ("rgb:/0/0", None),
            ("rgb:ffff/ffff", None),
            ("rgb:zzzz/0000/0000", None),
            ("?", None),
            ("", None),
        ] {
            assert_eq!(Background::of_answer(answer.as_bytes()), expected, "{answer}");
        }
        assert_eq!(Background::of_answer(b"rgb:\xff/0/0"), None);
    }

    /// All colours of a theme.
    fn colors(theme: &Theme) -> Vec<Color> {
        let of_code = |code: CodeTheme| {
            let CodeTheme { comment, keyword, string, number, function, name } = code;
            [comment, keyword, string, number, function, name]
        };
        let others = [
            theme.text, theme.dim, theme.heading, theme.code, theme.link, theme.quote,
            theme.marker, theme.added, theme.removed, theme.added_word, theme.removed_word,
            theme.added_row, theme.removed_row, theme.prompt, theme.line_number, theme.error,
            theme.warning, theme.success, theme.accent, theme.selection, theme.matched,
        ];
        let code = [theme.syntax, theme.changed_syntax].map(of_code).concat();
        let styles = [others.as_slice(), &code].concat();
        styles.iter().flat_map(|style| [style.fg, style.bg]).flatten().collect()
    }

    #[test]
    fn a_theme_uses_only_what_the_terminal_has() {
        let backgrounds = [None, Some(Background::Light), Some(Background::Dark)];
        for name in ThemeName::ALL {
            assert_eq!(ThemeName::parse(name.name()), Some(name));
            for background in backgrounds {
                let theme = |depth| Theme::new(name, depth, background);
                let plain = theme(ColorDepth::Plain);
                assert!(plain.is_plain());
                assert_eq!((plain.heading, plain.selection), (Style::new(), Style::new()));
                let monochrome = theme(ColorDepth::Monochrome);
                assert_eq!(colors(&monochrome), []);
                assert_ne!(monochrome.selection, monochrome.text);
                assert_ne!(monochrome.heading, monochrome.text);
                let is_rgb = |color: &Color| matches!(color, Color::Rgb(..));
                let is_indexed = |color: &Color| matches!(color, Color::Indexed(_));
                let sixteen = colors(&theme(ColorDepth::Ansi16));
                assert!(!sixteen.iter().any(|color| is_rgb(color) || is_indexed(color)));
                assert!(!colors(&theme(ColorDepth::Ansi256)).iter().any(is_rgb));
            }
        }
        let unknown = Theme::new(ThemeName::Auto, ColorDepth::TrueColor, None);
        assert_eq!(unknown.added.fg, Some(Color::Green));
        // a ground brings its text where nobody knows which colour the terminal's is
        for depth in [ColorDepth::Ansi256, ColorDepth::TrueColor] {
            let unknown = Theme::new(ThemeName::Auto, depth, None);
            for row in [unknown.added_row, unknown.removed_row, unknown.prompt] {
                assert!(row.bg.is_some() && row.fg.is_some(), "{row:?}");
            }
            let light = Theme::new(ThemeName::Light, depth, None);
            assert!(light.prompt.bg.is_some() && light.prompt.fg.is_none());
        }
        let few = Theme::new(ThemeName::Auto, ColorDepth::Ansi16, None);
        assert_eq!((few.added_row, few.prompt.bg), (Style::new(), None));
        let dark = Theme::new(ThemeName::Dark, ColorDepth::TrueColor, None);
        assert_eq!(dark.added.fg, Some(Color::Rgb(0x6b, 0xc4, 0x6d)));
    }

    /// The relative luminance of a colour, as WCAG 2 defines it.
    fn luminance(rgb: u32) -> f64 {
        let [_, red, green, blue] = rgb.to_be_bytes().map(|part| {
            let share = f64::from(part) / 255.0;
            if share <= 0.03928 { share / 12.92 } else { ((share + 0.055) / 1.055).powf(2.4) }
        });
        0.2126 * red + 0.7152 * green + 0.0722 * blue
    }

    /// The contrast of two colours, as WCAG 2 defines it.
    fn contrast(one: u32, other: u32) -> f64 {
        let (one, other) = (luminance(one), luminance(other));
        (one.max(other) + 0.05) / (one.min(other) + 0.05)
    }

    fn rgb(color: Color) -> u32 {
        let join = |[red, green, blue]: [u8; 3]| u32::from_be_bytes([0, red, green, blue]);
        let level = |step: u8| if step == 0 { 0 } else { 55 + 40 * step };
        match color {
            Color::Rgb(red, green, blue) => join([red, green, blue]),
            Color::Indexed(grey @ 232..) => join([8 + 10 * (grey - 232); 3]),
            Color::Indexed(index) => {
                let index = index - 16;
                join([index / 36, index / 6 % 6, index % 6].map(level))
            }
            other => panic!("{other} has no fixed value"),
        }
    }

    #[test]
    fn every_text_can_be_read_on_its_background() {
        for (name, backgrounds, text, quiet) in [
            (ThemeName::Light, [0xff_ffff, 0xfd_f6e3], 4.5, 3.0),
            (ThemeName::Dark, [0, 0x28_2c34], 4.5, 3.0),
            (ThemeName::HighContrastLight, [0xff_ffff, 0xfd_f6e3], 6.0, 7.0),
            (ThemeName::HighContrastDark, [0, 0x28_2c34], 7.0, 7.0),
        ] {
            for depth in [ColorDepth::Ansi256, ColorDepth::TrueColor] {
                let theme = Theme::new(name, depth, None);
                let CodeTheme { comment, keyword, string, number, function, name: of_type } =
                    theme.syntax;
                let quiets = [theme.dim, theme.quote, theme.marker, theme.line_number, comment]
                    .map(|it| (it, quiet));
                let texts = [
                    theme.heading, theme.code, theme.link, theme.added, theme.removed, theme.error,
                    theme.warning, theme.success, theme.accent, theme.matched, keyword, string,
                    number, function, of_type,
                ];
                let check = |style: Style, background, least| {
                    let found = contrast(rgb(style.fg.unwrap()), background);
                    let shown = format!("{name:?}, {depth:?}, {style:?} on {background:06x}");
                    assert!(found >= least, "{shown}: {found:.2} is less than {least}");
                };
                for (style, least) in texts.map(|it| (it, text)).into_iter().chain(quiets) {
                    backgrounds.iter().for_each(|background| check(style, *background, least));
                }
                let CodeTheme { comment, keyword, string, number, function, name: of_type } =
                    theme.changed_syntax;
                assert_eq!(comment.fg, None);
                let grounds =
                    [theme.added_row, theme.added_word, theme.removed_row, theme.removed_word];
                for ground in grounds.map(|it| rgb(it.bg.unwrap())) {
                    for style in [keyword, string, number, function, of_type] {
                        check(style, ground, 3.0);
                    }
                }
            }
        }
    }

    #[test]
    fn the_256_colours_come_close() {
        for (rgb, index) in
            [(0, 16), (0xff_ffff, 231), (0xff_0000, 196), (0x80_8080, 244), (0x5f_87af, 67)]
        {
            assert_eq!(nearest_of_256(rgb), index, "{rgb:06x}");
        }
    }

    #[test]
    fn links_are_for_terminals_that_are_known_to_show_them() {
        let kitty = ("TERM", "xterm-kitty");
        for (pairs, shown) in [
            (&[][..], false),
            (&[("TERM", "xterm-256color")], false),
            (&[kitty], true),
            (&[kitty, ("STY", "1.screen")], false),
            (&[kitty, ("TMUX", "/tmp/x")], false),
            (
                &[
                    kitty,
                    ("TMUX", "/tmp/x"),
                    ("TERM_PROGRAM", "tmux"),
                    ("TERM_PROGRAM_VERSION", "3.3a"),
                ],
                false,
            ),
            (
                &[
                    kitty,
                    ("TMUX", "/tmp/x"),
                    ("TERM_PROGRAM", "tmux"),
                    ("TERM_PROGRAM_VERSION", "3.5a"),
                ],
                true,
            ),
            (&[("TERM", "xterm-256color"), ("VTE_VERSION", "7200")], true),
            (&[("TERM", "xterm-256color"), ("TERM_PROGRAM", "vscode")], true),
            (&[("TERM", "dumb"), ("VTE_VERSION", "7200")], false),
        ] {
            assert_eq!(has_hyperlinks(env(pairs)), shown, "{pairs:?}");
        }
    }
}
