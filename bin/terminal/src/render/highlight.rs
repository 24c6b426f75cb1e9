//! Colours of code, line by line. The syntaxes are loaded when the first code is shown.

use std::sync::LazyLock;

use ratatui::style::Style;
use ratatui::text::Span;
use syntect::parsing::{ParseState, Scope, ScopeStack, SyntaxReference, SyntaxSet};

use super::wrap::span;
use crate::theme::{CodeTheme, ColorDepth, Theme};

/// Bytes of a line that is highlighted. Longer ones are data, and cost much more than a line of code.
const LONGEST_LINE: usize = 1_000;
/// Lines of one text that are highlighted.
const MAX_LINES: usize = 5_000;

static SYNTAXES: LazyLock<SyntaxSet> = LazyLock::new(two_face::syntax::extra_newlines);
static RULES: LazyLock<Vec<(Scope, Role)>> = LazyLock::new(|| {
    let scope = |(name, role): &(&str, Role)| Some((Scope::new(name).ok()?, *role));
    ROLES.iter().filter_map(scope).collect()
});

/// Which style of a [`CodeTheme`] a scope has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    Text,
    Comment,
    Keyword,
    String,
    Number,
    Function,
    Name,
    Added,
    Removed,
    Heading,
}

/// Scopes of the grammars by their beginnings; the first that fits counts.
const ROLES: &[(&str, Role)] = &[
    ("comment", Role::Comment),
    ("punctuation.definition.comment", Role::Comment),
    ("string", Role::String),
    ("punctuation.definition.string", Role::String),
    ("constant.character", Role::String),
    ("constant", Role::Number),
    ("keyword.operator", Role::Text),
    ("keyword", Role::Keyword),
    ("storage.type.numeric", Role::Number),
    ("storage", Role::Keyword),
    ("variable.language", Role::Keyword),
    ("entity.name.function", Role::Function),
    ("support.function", Role::Function),
    ("variable.function", Role::Function),
    ("entity.name.section", Role::Heading),
    ("markup.heading", Role::Heading),
    ("entity.name", Role::Name),
    ("entity.other", Role::Name),
    ("support", Role::Name),
    ("markup.inserted", Role::Added),
    ("markup.deleted", Role::Removed),
    ("markup.raw", Role::String),
];

/// Highlights one text, whose lines come in order.
#[derive(Clone, Debug)]
pub(super) struct Highlighter {
    /// `None` if the language is unknown, or the screen has no colours.
    state: Option<(ParseState, ScopeStack)>,
    lines: usize,
}

impl Highlighter {
    /// By the word after the fence of a code block, such as `rust`.
    pub(super) fn of_language(language: &str, theme: &Theme) -> Self {
        let language = language.to_ascii_lowercase();
        let token = match language.as_str() {
            "shell" | "console" | "sh-session" | "shellsession" | "zsh" => "bash",
            "jsonc" | "json5" => "json",
            "csharp" => "cs",
            "golang" => "go",
            "docker" => "dockerfile",
            "patch" => "diff",
            "jsx" | "mjs" | "cjs" => "js",
            other => other,
        };
        Self::new(theme, || SYNTAXES.find_syntax_by_token(token).filter(|_| !token.is_empty()))
    }

    /// By the name of a file.
    pub(super) fn of_file(name: &str, theme: &Theme) -> Self {
        let name = name.rsplit('/').next().unwrap_or(name);
        let extension = name.rsplit('.').next().unwrap_or(name);
        Self::new(theme, || {
            let by = |extension| SYNTAXES.find_syntax_by_extension(extension);
            by(name).or_else(|| by(extension))
        })
    }

    fn new(theme: &Theme, find: impl FnOnce() -> Option<&'static SyntaxReference>) -> Self {
        let syntax = if theme.depth >= ColorDepth::Ansi16 { find() } else { None };
        let state = syntax.map(|syntax| (ParseState::new(syntax), ScopeStack::new()));
        Self { state, lines: 0 }
    }

    /// The next line, without its line end.
    pub(super) fn line(&mut self, line: &str, theme: &Theme) -> Vec<Span<'static>> {
        self.lines += 1;
        if self.lines > MAX_LINES {
            self.state = None;
        }
        let Some((parser, stack)) = self.state.as_mut().filter(|_| line.len() <= LONGEST_LINE)
        else {
            return vec![span(line, theme.text)];
        };
        let Ok(ops) = parser.parse_line(&format!("{line}\n"), &SYNTAXES) else {
            self.state = None;
            return vec![span(line, theme.text)];
        };
        let mut spans: Vec<Span<'static>> = Vec::new();
        let mut push = |text: &str, style: Style| match spans.last_mut() {
            _ if text.is_empty() => {}
            Some(last) if last.style == style => {
                last.content.to_mut().push_str(&span(text, style).content);
            }
            Some(_) | None => spans.push(span(text, style)),
        };
        let mut from = 0;
        for (at, op) in ops {
            let at = at.min(line.len());
            push(line.get(from..at).unwrap_or_default(), style_of(stack, theme));
            from = from.max(at);
            if stack.apply(&op).is_err() {
                self.state = None;
                return vec![span(line, theme.text)];
            }
        }
        push(&line[from..], style_of(stack, theme));
        spans
    }
}

/// The style of the innermost scope that has one.
fn style_of(stack: &ScopeStack, theme: &Theme) -> Style {
    let role = stack.as_slice().iter().rev().find_map(|scope| {
        RULES.iter().find(|(prefix, _)| prefix.is_prefix_of(*scope)).map(|(_, role)| *role)
    });
    let CodeTheme { comment, keyword, string, number, function, name } = theme.syntax;
    match role.unwrap_or(Role::Text) {
        Role::Text => theme.text,
        Role::Comment => comment,
        Role::Keyword => keyword,
        Role::String => string,
        Role::Number => number,
        Role::Function => function,
        Role::Name => name,
        Role::Added => theme.added,
        Role::Removed => theme.removed,
        Role::Heading => theme.heading,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::render::tests::{marked, theme};
    use ratatui::text::Line;

    fn highlighted(mut highlighter: Highlighter, code: &str) -> Vec<String> {
        let theme = theme();
        let lines = code.lines().map(|line| Line::from(highlighter.line(line, &theme)));
        marked(&lines.collect::<Vec<_>>())
    }

    #[test]
    fn all_scopes_are_valid() {
        assert_eq!(RULES.len(), ROLES.len());
    }

    #[test]
    fn code_has_colours_by_its_language() {
        for (language, code, expected) in [
            ("rust", "fn a() {} // x", &["{keyword:fn} {function:a}() {} {comment:// x}"][..]),
            ("Python", "x = 'a'", &["x = {string:'a'}"]),
            ("ts", "const a: number = 1", &["{keyword:const} a: {name:number} = {literal:1}"]),
            ("toml", "a = 1", &["{name:a} = {literal:1}"]),
            ("patch", "+a\n-b", &["{added:+a}", "{removed:-b}"]),
            ("rust", "/* a\nb */ 1", &["{comment:/* a}", "{comment:b */} {literal:1}"]),
            ("no such language", "fn a()", &["fn a()"]),
            ("", "fn a()", &["fn a()"]),
        ] {
            let highlighter = Highlighter::of_language(language, &theme());
            assert_eq!(highlighted(highlighter, code), expected, "{language}: {code}");
        }
    }

    #[test]
    fn long_lines_and_long_texts_are_plain() {
        let theme = theme();
        let mut highlighter = Highlighter::of_language("json", &theme);
        let long = format!("[{}]", "1,".repeat(1000));
        assert_eq!(highlighter.line(&long, &theme).len(), 1);
        assert!(highlighter.line("[1, 2]", &theme).len() > 1);
        highlighter.lines = MAX_LINES;
        assert_eq!(highlighter.line("[1, 2]", &theme).len(), 1);
    }
}
