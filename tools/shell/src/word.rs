//! One word of a shell line: what it stands for, as far as that is known before it runs.

/// Most words that braces may make of one.
const MAX_ALTERNATIVES: usize = 64;

/// Most braces and commas of one word. The search for a pair takes time proportional to their square.
const MAX_BRACES: usize = 512;

/// A word as it stands in the line, with its quotes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Word(pub(crate) String);

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum WordPart {
    /// Itself, quotes and backslashes removed.
    Text(String),
    /// An unquoted character that makes the word a pattern of file names.
    Glob(char),
    /// An unquoted brace or comma.
    Brace(char),
    /// `~` or `~/`, at the start.
    Home,
    /// `$NAME`, `${NAME}`, `~+`, or `${NAME:-default}` with a literal default.
    Variable {
        name: String,
        /// Otherwise the shell splits the value at blanks and expands patterns in it.
        quoted: bool,
        default: Option<String>,
    },
    /// Text that is not known before the line runs; the rest of the word belongs to it.
    Unknown,
}

impl Word {
    pub(crate) fn new(source: &str) -> Self {
        Self(source.to_owned())
    }

    /// The text that the program is given; `None` if that depends on anything.
    pub(crate) fn literal(&self) -> Option<String> {
        if self.0 == "[" {
            return Some(self.0.clone());
        }
        let mut text = String::new();
        let parts = parts(&self.0);
        let braces = alternatives(&self.0).is_none_or(|all| all.len() > 1);
        for part in parts {
            match part {
                WordPart::Text(part) => text += &part,
                WordPart::Home => text.push('~'),
                WordPart::Brace(c) if !braces => text.push(c),
                WordPart::Brace(_)
                | WordPart::Glob(_)
                | WordPart::Variable { .. }
                | WordPart::Unknown => {
                    return None;
                }
            }
        }
        Some(text)
    }

    /// The text that rules see: without quotes, or the source if removing them would change its meaning.
    pub(crate) fn shown(&self) -> String {
        let mut text = String::new();
        for part in parts(&self.0) {
            match part {
                WordPart::Text(part) => text += &part,
                WordPart::Home => text.push('~'),
                WordPart::Brace(c) | WordPart::Glob(c) => text.push(c),
                WordPart::Variable { .. } | WordPart::Unknown => return self.0.clone(),
            }
        }
        text
    }
}

impl Word {
    /// Whether the word is one argument, whatever its variables hold: each expansion in it is in double
    /// quotes.
    pub(crate) fn is_single(&self) -> bool {
        if self.0.contains("$@") || self.0.contains("@") && self.0.contains("${") {
            return false;
        }
        let (mut quote, mut escaped, mut substitutes) = (None, false, false);
        for c in self.0.chars() {
            match (quote, c) {
                _ if escaped => escaped = false,
                (None | Some('"'), '\\') => escaped = true,
                (None, '\'' | '"') => quote = Some(c),
                (Some(open), _) if open == c => quote = None,
                // its quotes may be those of the substitution
                (Some('"'), '\'') if substitutes => return false,
                (Some('"'), '(' | '`') => substitutes = true,
                (None, '$' | '`' | '*' | '?' | '[' | '{' | '~' | '<' | '>' | '(') => return false,
                _ => {}
            }
        }
        quote.is_none() && !escaped
    }

    /// Whether its quotes end where it ends. A text that was cut at blanks may have lost one.
    pub(crate) fn is_whole(&self) -> bool {
        let (mut quote, mut escaped) = (None, false);
        for c in self.0.chars() {
            match (quote, c) {
                _ if escaped => escaped = false,
                (None | Some('"'), '\\') => escaped = true,
                (None, '\'' | '"') => quote = Some(c),
                (Some(open), _) if open == c => quote = None,
                _ => {}
            }
        }
        quote.is_none() && !escaped
    }

    /// Whether a variable or a substitution is in the word, and not only a pattern of file names.
    pub(crate) fn varies(&self) -> bool {
        let varies =
            |part: &WordPart| matches!(part, WordPart::Variable { .. } | WordPart::Unknown);
        parts(&self.0).iter().any(varies)
    }

    /// The text at the start of the word that is known.
    pub(crate) fn known_start(&self) -> String {
        match parts(&self.0).into_iter().next() {
            Some(WordPart::Text(text)) => text,
            _ => String::new(),
        }
    }

    /// Whether the word begins with a literal character other than `-`, so that it is no option.
    pub(crate) fn starts_plain(&self) -> bool {
        match parts(&self.0).first() {
            Some(WordPart::Text(text)) => !text.starts_with('-'),
            Some(WordPart::Home) => true,
            _ => false,
        }
    }
}

/// The parts of a word in their order.
pub(crate) fn parts(source: &str) -> Vec<WordPart> {
    Scan { rest: source, found: Vec::new(), text: String::new(), some: false }.all()
}

struct Scan<'a> {
    rest: &'a str,
    found: Vec<WordPart>,
    /// Literal so far, not yet among `found`.
    text: String,
    /// Whether anything has been read, quotes too.
    some: bool,
}

impl<'a> Scan<'a> {
    fn all(mut self) -> Vec<WordPart> {
        while let Some(c) = self.take() {
            match c {
                '\'' => self.raw(),
                '"' => self.quoted(),
                '\\' => match self.take() {
                    Some('\n') | None => {}
                    Some(c) => self.text.push(c),
                },
                '$' => self.dollar(false),
                '`' => self.part(WordPart::Unknown),
                '<' | '>' if self.rest.starts_with('(') => self.part(WordPart::Unknown),
                '*' | '?' | '[' => self.part(WordPart::Glob(c)),
                // `@(a|b)` and its like
                '@' | '+' | '!' if self.rest.starts_with('(') => self.part(WordPart::Unknown),
                '{' | '}' | ',' => self.part(WordPart::Brace(c)),
                '~' if !self.some => self.home(),
                c => self.text.push(c),
            }
            self.some = true;
            if self.found.last() == Some(&WordPart::Unknown) {
                return self.found;
            }
        }
        self.flush();
        self.found
    }

    fn take(&mut self) -> Option<char> {
        let c = self.rest.chars().next()?;
        self.rest = &self.rest[c.len_utf8()..];
        Some(c)
    }

    fn flush(&mut self) {
        if !self.text.is_empty() {
            self.found.push(WordPart::Text(std::mem::take(&mut self.text)));
        }
    }

    fn part(&mut self, part: WordPart) {
        self.flush();
        self.found.push(part);
    }

    fn variable(&mut self, name: &str, quoted: bool, default: Option<&str>) {
        let (name, default) = (name.to_owned(), default.map(str::to_owned));
        self.part(WordPart::Variable { name, quoted, default });
    }

    fn until(&mut self, end: char) -> &'a str {
        let (text, rest) = self.rest.split_once(end).unwrap_or((self.rest, ""));
        self.rest = rest;
        text
    }

    fn raw(&mut self) {
        let text = self.until('\'');
        self.text += text;
    }

    fn home(&mut self) {
        match self.rest.chars().next() {
            None | Some('/') => self.part(WordPart::Home),
            Some('+') if self.rest[1..].is_empty() || self.rest[1..].starts_with('/') => {
                self.rest = &self.rest[1..];
                self.variable("PWD", true, None);
            }
            // another user's, or a folder that was left
            Some(_) => self.part(WordPart::Unknown),
        }
    }

    fn quoted(&mut self) {
        while let Some(c) = self.take() {
            match c {
                '"' => return,
                '\\' => match self.take() {
                    Some('\n') | None => {}
                    Some(c @ ('$' | '`' | '"' | '\\')) => self.text.push(c),
                    Some(c) => self.text.extend(['\\', c]),
                },
                '$' => self.dollar(true),
                '`' => self.part(WordPart::Unknown),
                c => self.text.push(c),
            }
            if self.found.last() == Some(&WordPart::Unknown) {
                return;
            }
        }
    }

    /// After a `$`.
    fn dollar(&mut self, quoted: bool) {
        match self.rest.chars().next() {
            Some('\'') if !quoted => {
                self.rest = &self.rest[1..];
                self.ansi();
            }
            // a translation may be another text, and bash expands it again
            Some('"') if !quoted => self.part(WordPart::Unknown),
            Some('{') => match self.rest[1..].split_once('}') {
                Some((body, rest)) if is_name(body) => {
                    self.rest = rest;
                    self.variable(body, quoted, None);
                }
                Some((body, rest)) => match with_default(body) {
                    Some((name, default)) => {
                        self.rest = rest;
                        self.variable(name, quoted, Some(default));
                    }
                    None => self.part(WordPart::Unknown),
                },
                None => self.part(WordPart::Unknown),
            },
            Some(c) if c == '_' || c.is_ascii_alphabetic() => {
                let of = |c: char| c == '_' || c.is_ascii_alphanumeric();
                let end = self.rest.find(|c| !of(c)).unwrap_or(self.rest.len());
                let (name, rest) = self.rest.split_at(end);
                self.rest = rest;
                self.variable(name, quoted, None);
            }
            Some(c) if c == '(' || c == '[' || c.is_ascii_digit() || "@*#?-$!".contains(c) => {
                self.part(WordPart::Unknown);
            }
            _ => self.text.push('$'),
        }
    }

    /// `$'…'`, after its quote. Codes of characters beyond ASCII make the word unknown.
    fn ansi(&mut self) {
        while let Some(c) = self.take() {
            match c {
                '\'' => return,
                '\\' => match self.escape() {
                    Some(c) => self.text.push(c),
                    None => return self.part(WordPart::Unknown),
                },
                c => self.text.push(c),
            }
        }
    }

    /// The character that an escape in `$'…'` stands for, after its backslash.
    fn escape(&mut self) -> Option<char> {
        let (radix, most) = match self.rest.chars().next()? {
            'x' => (16, 2),
            'u' => (16, 4),
            'U' => (16, 8),
            '0'..='7' => (8, 3),
            _ => {
                return match self.take()? {
                    'a' => Some('\u{7}'),
                    'b' => Some('\u{8}'),
                    'e' | 'E' => Some('\u{1b}'),
                    'f' => Some('\u{c}'),
                    'n' => Some('\n'),
                    'r' => Some('\r'),
                    't' => Some('\t'),
                    'v' => Some('\u{b}'),
                    c @ ('\\' | '\'' | '"' | '?') => Some(c),
                    _ => None,
                };
            }
        };
        if radix == 16 {
            self.take();
        }
        let digits = self.rest.chars().take(most).take_while(|c| c.is_digit(radix)).count();
        let (code, rest) = self.rest.split_at(digits);
        self.rest = rest;
        let code = u32::from_str_radix(code, radix).ok().and_then(char::from_u32)?;
        (code.is_ascii() && code != '\0').then_some(code)
    }
}

/// The name and the default of `NAME:-default`, `NAME-default` and the forms with `=`, given without braces.
fn with_default(body: &str) -> Option<(&str, &str)> {
    let (name, default) = body.split_once(['-', '='])?;
    let name = name.strip_suffix(':').unwrap_or(name);
    let plain = |c: char| c.is_ascii_alphanumeric() || "_./+-".contains(c);
    (is_name(name) && default.chars().all(plain)).then_some((name, default))
}

/// The source of a word with this text.
pub(crate) fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "'\\''"))
}

pub(crate) fn is_name(text: &str) -> bool {
    text.starts_with(|c: char| c == '_' || c.is_ascii_alphabetic())
        && text.chars().all(|c| c == '_' || c.is_ascii_alphanumeric())
}

/// The words that braces make of `source`, in their quotes; of `{1..9}` the first alone stands for
/// all. `None` if they are too many.
pub(crate) fn alternatives(source: &str) -> Option<Vec<String>> {
    if unquoted(source).len() > MAX_BRACES {
        return None;
    }
    let mut done = Vec::new();
    let mut waiting = vec![source.to_owned()];
    while let Some(word) = waiting.pop() {
        if done.len() + waiting.len() > MAX_ALTERNATIVES {
            return None;
        }
        match braces(&word) {
            Some((start, ends, options)) => {
                let (before, after) = (&word[..start], &word[ends..]);
                waiting.extend(options.iter().rev().map(|one| format!("{before}{one}{after}")));
            }
            None => done.push(word),
        }
    }
    Some(done)
}

/// The words of a command after its braces are replaced: `{-o,x}` is `-o x`. Words with too many alternatives stay.
pub(crate) fn expanded(words: &[Word]) -> Vec<Word> {
    let of = |word: &Word| match alternatives(&word.0) {
        Some(all) if all.len() > 1 => all.iter().map(|source| Word::new(source)).collect(),
        Some(_) | None => vec![word.clone()],
    };
    words.iter().flat_map(of).collect()
}

/// Start, end and options of the first braces that make several words.
fn braces(word: &str) -> Option<(usize, usize, Vec<String>)> {
    let marks = unquoted(word);
    for (n, (start, _)) in marks.iter().enumerate().filter(|(_, (_, c))| *c == '{') {
        let (mut depth, mut from, mut options) = (0, start + 1, Vec::new());
        for (at, c) in &marks[n + 1..] {
            match (c, depth) {
                (',', 0) => {
                    options.push(word[from..*at].to_owned());
                    from = at + 1;
                }
                ('{', _) => depth += 1,
                ('}', 0) if !options.is_empty() => {
                    options.push(word[from..*at].to_owned());
                    return Some((*start, at + 1, options));
                }
                ('}', 0) => match word[from..*at].split_once("..") {
                    Some((first, last)) => return Some((*start, at + 1, sequence(first, last))),
                    None => break,
                },
                ('}', _) => depth -= 1,
                _ => {}
            }
        }
    }
    None
}

/// All letters of `{a..e}`; of numbers, the first and the last stand for all.
fn sequence(first: &str, last: &str) -> Vec<String> {
    let letter = |text: &str| match text.as_bytes() {
        [c] if c.is_ascii_alphabetic() => Some(*c),
        _ => None,
    };
    match (letter(first), letter(last)) {
        (Some(a), Some(b)) => (a.min(b)..=a.max(b)).map(|c| char::from(c).to_string()).collect(),
        _ => vec![first.to_owned(), last.to_owned()],
    }
}

/// Where unquoted braces and commas are.
fn unquoted(word: &str) -> Vec<(usize, char)> {
    let mut found = Vec::new();
    let (mut quote, mut escaped, mut before) = (None, false, ' ');
    for (at, c) in word.char_indices() {
        match (quote, c) {
            _ if escaped => escaped = false,
            (None | Some('"'), '\\') => escaped = true,
            (None, '\'' | '"') => quote = Some(c),
            (Some(open), _) if open == c => quote = None,
            // `${` begins no alternatives
            (None, '{') if before == '$' => {}
            (None, '{' | '}' | ',') => found.push((at, c)),
            _ => {}
        }
        before = c;
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotes_are_removed_and_what_is_not_known_is_said() {
        for (source, literal, shown) in [
            ("rm", Some("rm"), "rm"),
            ("\"rm\"", Some("rm"), "rm"),
            ("r\\m", Some("rm"), "rm"),
            ("'r'\"m\"", Some("rm"), "rm"),
            ("$'r\\'m\\n'", Some("r'm\n"), "r'm\n"),
            ("$'\\x72m'", Some("rm"), "rm"),
            ("$'\\162\\u006d'", Some("rm"), "rm"),
            ("$'\\xc3\\xa9'", None, "$'\\xc3\\xa9'"),
            ("$\"rm\"", None, "$\"rm\""),
            ("\"a \\$b \\\" \\c\"", Some("a $b \" \\c"), "a $b \" \\c"),
            ("r\\\nm", Some("rm"), "rm"),
            ("$X", None, "$X"),
            ("r${X}", None, "r${X}"),
            ("\"$(rm)\"", None, "\"$(rm)\""),
            ("`rm`", None, "`rm`"),
            ("/bin/r?", None, "/bin/r?"),
            ("{rm,x}", None, "{rm,x}"),
            ("{}", Some("{}"), "{}"),
            ("a,b", Some("a,b"), "a,b"),
            ("~/x", Some("~/x"), "~/x"),
            ("~root", None, "~root"),
            ("a~", Some("a~"), "a~"),
            ("cost$", Some("cost$"), "cost$"),
            ("''", Some(""), ""),
            ("<(ls)", None, "<(ls)"),
            ("ü\\é", Some("üé"), "üé"),
        ] {
            let word = Word::new(source);
            assert_eq!(word.literal().as_deref(), literal, "{source}");
            assert_eq!(word.shown(), shown, "{source}");
        }
    }

    #[test]
    fn words_that_stay_one() {
        for (source, single) in [
            ("a", true),
            ("\"$x\"", true),
            ("--a=\"$(b c)\"", true),
            ("'$x'", true),
            ("\"$(a \"b\")\"", true),
            ("\\$x", true),
            ("$x", false),
            ("\"$x\"$y", false),
            ("\"$@\"", false),
            ("\"${x[@]}\"", false),
            ("*", false),
            ("{a,b}", false),
            ("\"$(a '\"')\"$x\"'\"", false),
        ] {
            assert_eq!(Word::new(source).is_single(), single, "{source}");
        }
        for (source, plain) in [("a$x", true), ("\"a\"", true), ("-a", false), ("$x", false)] {
            assert_eq!(Word::new(source).starts_plain(), plain, "{source}");
        }
    }

    #[test]
    fn braces_make_words() {
        for (source, expected) in [
            ("a{b,c}d", &["abd", "acd"][..]),
            ("{a,b{1,2}}", &["a", "b1", "b2"]),
            ("{1..9}", &["1", "9"]),
            ("{c..a}", &["a", "b", "c"]),
            ("{}", &["{}"]),
            ("{a}", &["{a}"]),
            ("'{a,b}'", &["'{a,b}'"]),
            ("${a,b}", &["${a,b}"]),
            ("{a,b", &["{a,b"]),
            ("{,x}", &["", "x"]),
            ("{{a,b}", &["{a", "{b"]),
        ] {
            let found = alternatives(source).unwrap();
            assert_eq!(found, expected, "{source}");
        }
        assert_eq!(alternatives(&"{a,b}".repeat(20)), None);
    }
}
