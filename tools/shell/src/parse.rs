//! Splits a line into steps, by its tree. `commands` turns steps into the patterns that rules judge.
//!
//! The tree is the work of a grammar that is not bash's own, so `check` holds it against the text; a
//! line that is doubtful in any way is not understood here, and is cut instead (`cut`).

use std::ops::{ControlFlow, Range};
use std::time::{Duration, Instant};

use tree_sitter::{Node, ParseOptions, ParseState, Parser, Tree};

use crate::builtins::{self, Effect};
use crate::inner::Inner;
use crate::step::{Run, Step};
use crate::word::{self, Word};
use crate::wrappers::{self, is_assignment};
use crate::{assignments, check, expansions};

/// How deep commands may be in one another.
const MAX_DEPTH: usize = 100;

/// How deep lines may be in lines (`bash -c`), and commands in wrappers.
const MAX_LINES: usize = 8;

/// Most steps of one line.
const MAX_STEPS: usize = 2_000;

const PARSE_TIMEOUT: Duration = Duration::from_millis(500);

/// Parts of a tree in which nothing but their own children can run a command. [`LineParser::node`] looks at
/// the kinds that are not here; one that it does not know either is unknown.
const PLAIN: &[&str] = &[
    "ansi_c_string", "array", "binary_expression", "brace_expression", "case_item", "command_name",
    "comment", "concatenation", "do_group", "elif_clause", "else_clause", "file_descriptor",
    "heredoc_body", "heredoc_content", "heredoc_end", "heredoc_redirect", "heredoc_start",
    "herestring_redirect", "negated_command", "number", "parenthesized_expression",
    "postfix_expression", "program", "raw_string", "regex", "simple_expansion",
    "special_variable_name", "string", "string_content", "ternary_expression", "test_operator",
    "unary_expression", "variable_assignments", "variable_name", "word",
];

/// The steps of `line` in the order in which they stand; `None` if it is not understood.
pub(crate) fn steps(line: &str) -> Option<Vec<Step>> {
    let mut steps = Vec::new();
    let limit = Instant::now() + PARSE_TIMEOUT;
    read(line, 0, limit, &mut steps)?;
    Some(steps)
}

fn read(line: &str, nested: usize, limit: Instant, steps: &mut Vec<Step>) -> Option<()> {
    let tree = tree(line, limit)?;
    check::agrees(&tree, line)?;
    LineParser { line, steps, nested, limit }.node(tree.root_node(), 0)
}

/// The grammar's scanner looks for the digits of `{1..9}` with C's `isdigit`, which reads outside its table for a
/// character beyond U+00FF. That can end the process.
fn is_safe(line: &str) -> bool {
    fn after_digits(text: &str) -> &str {
        text.trim_start_matches(|c: char| c.is_ascii_digit())
    }
    let in_table = |text: &str| text.chars().next().is_none_or(|c| c <= '\u{ff}');
    line.split('{').skip(1).map(after_digits).all(|text| {
        let end = text.strip_prefix("..").map(after_digits);
        in_table(text) && end.is_none_or(in_table)
    })
}

fn tree(line: &str, limit: Instant) -> Option<Tree> {
    if !is_safe(line) {
        return None;
    }
    let mut parser = Parser::new();
    parser.set_language(&tree_sitter_bash::LANGUAGE.into()).ok()?;
    let mut late = |_: &ParseState| match Instant::now() > limit {
        true => ControlFlow::Break(()),
        false => ControlFlow::Continue(()),
    };
    let options = ParseOptions::new().progress_callback(&mut late);
    let line = without_dashes(line);
    let bytes = line.as_bytes();
    let mut text = |at: usize, _| bytes.get(at..).unwrap_or_default();
    parser.parse_with_options(&mut text, None, Some(options))
}

/// The line with another word for each `-` before `<<`, which the grammar does not understand: `python3 - <<'E'`.
fn without_dashes(line: &str) -> String {
    let mut found = line.to_owned();
    for (at, _) in line.match_indices(" -") {
        let rest = &line[at + 2..];
        if rest.starts_with(' ') && rest.trim_start_matches(' ').starts_with("<<") {
            found.replace_range(at + 1..at + 2, "_");
        }
    }
    found
}

/// More steps than can be taken in, or deeper ones, are not understood.
struct LineParser<'a, 's> {
    line: &'a str,
    steps: &'s mut Vec<Step>,
    nested: usize,
    limit: Instant,
}

/// How a command comes to run.
struct CommandContext<'a> {
    /// Its input, if that stands in the line.
    stdin: Option<&'a str>,
    /// Whether the shell reads its words as those of a declaration.
    declares: bool,
    /// Text in its words that is replaced by something that does not stand in the line.
    placeholder: Option<&'a str>,
}

impl<'a> LineParser<'a, '_> {
    fn node(&mut self, node: Node<'a>, depth: usize) -> Option<()> {
        if depth > MAX_DEPTH {
            return None;
        }
        match node.kind() {
            "command" | "declaration_command" | "unset_command" => {
                self.command(node, &[node], depth)
            }
            "test_command" => self.test(node, depth),
            "redirected_statement" => self.redirected(node, depth),
            "file_redirect" => self.redirect(node, depth),
            "variable_assignment" => self.assignment(node, depth),
            "for_statement" => self.repeated(node, depth),
            "command_substitution" if self.text(node).starts_with('`') => {
                self.backticks(node, depth)
            }
            "subshell" | "command_substitution" | "process_substitution" => {
                // in a here-document, the grammar takes arithmetic for a subshell
                if self.text(node).starts_with("$((") {
                    self.push(Step::Unknown)?;
                }
                self.within(Step::Enter, Step::Leave, node, depth)
            }
            "pipeline" => self.pipeline(node, depth),
            "list" => self.list(node, depth),
            "function_definition" => {
                self.push(Step::Function)?;
                self.within(Step::Perhaps, Step::Joined, node, depth)
            }
            "c_style_for_statement" => {
                self.evaluated(is_literal_loop(node, self.line))?;
                self.within(Step::Perhaps, Step::Joined, node, depth)
            }
            "if_statement" | "while_statement" | "case_statement" => {
                self.within(Step::Perhaps, Step::Joined, node, depth)
            }
            "arithmetic_expansion" => {
                let inner = inside(self.text(node), &[("$((", "))"), ("$[", "]")]);
                self.evaluated(inner.is_some_and(expansions::is_literal_arithmetic))?;
                self.children(node, depth)
            }
            "compound_statement" => {
                let text = self.text(node);
                let inner = inside(text, &[("((", "))")]);
                let group = node.child(0).is_some_and(|first| first.kind() == "{");
                self.evaluated(group || inner.is_some_and(expansions::is_literal_arithmetic))?;
                self.children(node, depth)
            }
            "expansion" => {
                self.evaluated(expansions::is_plain_parameter(self.text(node)))?;
                self.default_value(node)?;
                self.children(node, depth)
            }
            "subscript" => {
                let index = self.text(node).split_once('[').map_or("", |(_, index)| index);
                let index = index.strip_suffix(']').unwrap_or(index);
                self.evaluated(expansions::is_literal_subscript(index))?;
                self.children(node, depth)
            }
            // a translation may be another text, and bash expands it again
            "string" if self.line[..node.start_byte()].ends_with('$') => {
                self.push(Step::Unknown)?;
                self.children(node, depth)
            }
            "extglob_pattern" if !self.text(node).contains('(') => self.children(node, depth),
            kind if !node.is_named() || PLAIN.contains(&kind) => self.children(node, depth),
            _ => {
                self.push(Step::Unreadable)?;
                self.children(node, depth)
            }
        }
    }

    /// The shell evaluates `node` when it gets there; that is certain to run nothing only if `literal`.
    fn evaluated(&mut self, literal: bool) -> Option<()> {
        if literal { Some(()) } else { self.push(Step::Unknown) }
    }

    /// `${NAME:=value}` assigns.
    fn default_value(&mut self, node: Node<'a>) -> Option<()> {
        let Some((name, _)) = self.text(node).trim_start_matches("${").split_once('=') else {
            return Some(());
        };
        let name = name.trim_end_matches(':');
        if !word::is_name(name) {
            return Some(());
        }
        if assignments::is_decisive(name) {
            self.push(Step::Unknown)?;
        }
        self.push(Step::Assign(name.to_owned(), None))
    }

    fn push(&mut self, step: Step) -> Option<()> {
        self.steps.push(step);
        (self.steps.len() <= MAX_STEPS).then_some(())
    }

    fn text(&self, node: Node<'_>) -> &'a str {
        self.line.get(node.byte_range()).unwrap_or_default()
    }

    fn children(&mut self, node: Node<'a>, depth: usize) -> Option<()> {
        children(node).into_iter().try_for_each(|child| self.node(child, depth + 1))
    }

    fn within(&mut self, first: Step, last: Step, node: Node<'a>, depth: usize) -> Option<()> {
        self.push(first)?;
        self.children(node, depth)?;
        self.push(last)
    }

    /// Each part runs in a shell of its own.
    fn pipeline(&mut self, node: Node<'a>, depth: usize) -> Option<()> {
        for child in children(node) {
            self.push(Step::Enter)?;
            self.node(child, depth + 1)?;
            self.push(Step::Leave)?;
        }
        Some(())
    }

    /// `a && b`: only the first is certain.
    fn list(&mut self, node: Node<'a>, depth: usize) -> Option<()> {
        let (first, rest) = match children(node).split_first() {
            Some((first, rest)) => (*first, rest.to_vec()),
            None => return Some(()),
        };
        self.node(first, depth + 1)?;
        self.push(Step::Perhaps)?;
        rest.into_iter().try_for_each(|child| self.node(child, depth + 1))?;
        self.push(Step::Joined)
    }

    fn repeated(&mut self, node: Node<'a>, depth: usize) -> Option<()> {
        let (mut name, mut values) = (None, 0);
        let all = children(node);
        for child in &all {
            match child.kind() {
                "variable_name" => name = Some(self.text(*child).to_owned()),
                "do_group" | "compound_statement" => {}
                _ if child.is_named() => values += 1,
                _ => {}
            }
        }
        if let Some(name) = name {
            if assignments::is_decisive(&name) {
                self.push(Step::Unknown)?;
            }
            for word in
                all.iter().filter(|child| child.is_named() && child.kind() != "do_group").skip(1)
            {
                self.push(Step::Assign(name.clone(), Some(Word::new(self.text(*word)))))?;
            }
            if values == 0 {
                self.push(Step::Assign(name, None))?;
            }
        }
        self.within(Step::Perhaps, Step::Joined, node, depth)
    }

    fn assignment(&mut self, node: Node<'a>, depth: usize) -> Option<()> {
        let text = self.text(node);
        let name = node.child_by_field_name("name").map_or("", |name| self.text(name));
        if !word::is_name(name.split('[').next().unwrap_or_default()) {
            return None;
        }
        let assignment = Word::new(text);
        let leads = node.parent().is_some_and(|parent| parent.kind() == "command");
        let base = name.split('[').next().unwrap_or_default();
        if expansions::is_integer(base) {
            self.push(Step::Unknown)?;
        }
        if assignments::is_decisive(base) || (leads && !assignments::is_harmless(&assignment)) {
            self.push(Step::Assignment(assignment))?;
        }
        let value = node.child_by_field_name("value").map(|value| self.text(value));
        let plain = text.strip_prefix(name).and_then(|rest| rest.strip_prefix('='));
        let known = plain.filter(|_| value.is_none_or(|value| !value.starts_with('(')));
        self.push(Step::Assign(base.to_owned(), known.map(Word::new)))?;
        if node
            .child_by_field_name("value")
            .is_some_and(|value| !self.has_literal_subscripts(value))
        {
            self.push(Step::Unknown)?;
        }
        self.children(node, depth)
    }

    /// Whether no element of an array value has a subscript that the shell would evaluate.
    fn has_literal_subscripts(&self, value: Node<'a>) -> bool {
        value.kind() != "array"
            || children(value).iter().all(|element| {
                let text = self.text(*element).trim_start_matches(['"', '\'']);
                match text.strip_prefix('[') {
                    Some(rest) => rest
                        .split_once("]=")
                        .or_else(|| rest.split_once("]+="))
                        .is_some_and(|(index, _)| expansions::is_literal_subscript(index)),
                    None => !text.starts_with(['$', '`', '\\']) || !text.contains("]="),
                }
            })
    }

    /// `[` is a command, `[[` is none.
    fn test(&mut self, node: Node<'a>, depth: usize) -> Option<()> {
        let text = self.text(node);
        if text.starts_with("[[") {
            self.evaluated(expansions::is_plain_test(text))?;
        } else if text.starts_with('[') {
            let words: Vec<Word> = text.split_whitespace().map(Word::new).collect();
            let plain = words.iter().all(|word| word.is_whole());
            self.push(Step::Run(Run::new(words.clone())))?;
            if !plain || !builtins::effects(&words, false).is_empty() {
                self.push(Step::Unknown)?;
            }
        } else {
            let inner = inside(text, &[("((", "))")]);
            self.evaluated(inner.is_some_and(expansions::is_literal_arithmetic))?;
        }
        self.children(node, depth)
    }

    fn redirect(&mut self, node: Node<'a>, depth: usize) -> Option<()> {
        let (operator, target) = redirection(node);
        if self.line[..node.start_byte()].ends_with('}') {
            // `{NAME}>file` assigns, and evaluates a subscript in NAME
            self.push(Step::Unknown)?;
        }
        if let Some(target) = target {
            let to = Word::new(self.text(target));
            let duplicates = operator.ends_with('&') && is_descriptor(self.text(target));
            let network = |text: String| {
                let text = text.replace("//", "/");
                text.starts_with("/dev/tcp") || text.starts_with("/dev/udp")
            };
            if to.literal().is_some_and(network) {
                self.push(Step::Unknown)?;
            }
            if !duplicates {
                self.push(Step::Redirect { to, writes: operator.contains('>') })?;
            }
        }
        self.children(node, depth)
    }

    /// A command with the redirections that belong to it.
    fn redirected(&mut self, node: Node<'a>, depth: usize) -> Option<()> {
        let all = children(node);
        let Some(body) = node.child_by_field_name("body") else {
            return self.children(node, depth);
        };
        let redirects: Vec<_> = all.into_iter().filter(|child| *child != body).collect();
        if matches!(body.kind(), "command" | "declaration_command" | "unset_command") {
            let mut group = vec![body];
            group.extend(&redirects);
            self.command(body, &group, depth)?;
        } else {
            self.node(body, depth + 1)?;
        }
        redirects.into_iter().try_for_each(|child| self.node(child, depth + 1))
    }

    /// `group`: the command itself, and redirections after it.
    fn command(&mut self, node: Node<'a>, group: &[Node<'a>], depth: usize) -> Option<()> {
        let mut pieces: Vec<Range<usize>> = Vec::new();
        let (mut redirects, mut stdin, mut given) = (Vec::new(), None, String::new());
        let parts = group.iter().flat_map(|part| match part.kind() {
            "file_redirect" | "herestring_redirect" => vec![*part],
            _ => children(*part),
        });
        for part in parts {
            match part.kind() {
                "file_redirect" => redirects.push(self.text(part).to_owned()),
                "herestring_redirect" => {
                    stdin = self.herestring(part);
                    given += self.text(part);
                }
                "heredoc_body" => {
                    stdin = self.heredoc(part);
                    given += self.text(part);
                }
                kind if is_argument(kind, &pieces, node) => match pieces.last_mut() {
                    // no blank between them: one word
                    Some(last) if last.end == part.start_byte() => last.end = part.end_byte(),
                    _ => pieces.push(part.byte_range()),
                },
                _ => {}
            }
        }
        let assignments: Vec<Word> = children(node)
            .into_iter()
            .take_while(|child| child.kind() == "variable_assignment" && node.kind() == "command")
            .map(|child| Word::new(self.text(child)))
            .collect();
        let assigns = !assignments.is_empty();
        let word = |piece: Range<usize>| self.line.get(piece).map(Word::new);
        let words: Vec<Word> = pieces.into_iter().filter_map(word).collect();
        if assigns && words.first().is_some_and(|word| matches!(word.0.as_str(), "time" | "!")) {
            // after an assignment these are names of programs
            return None;
        }
        let judged = assignments.iter().any(|word| !assignments::is_harmless(word));
        let declares = node.kind() == "declaration_command";
        let run = Run { redirects, given, assigns: judged, ..Run::new(words) };
        self.run(run, &CommandContext { stdin: stdin.as_deref(), declares, placeholder: None }, 0)?;
        self.children(node, depth)
    }

    fn herestring(&self, node: Node<'a>) -> Option<String> {
        Word::new(
            self.text(node).trim_start_matches(|c: char| c == '<' || c.is_ascii_digit()).trim(),
        )
        .literal()
    }

    /// The text, if nothing is put into it.
    fn heredoc(&self, node: Node<'a>) -> Option<String> {
        let text = self.text(node);
        (!text.contains(['$', '`', '\\'])).then(|| text.to_owned())
    }

    /// A command, and what it runs besides itself.
    fn run(&mut self, run: Run, context: &CommandContext<'_>, depth: usize) -> Option<()> {
        let Some(first) = run.words.first() else { return Some(()) };
        match first.0.as_str() {
            // words of the shell itself
            "time" | "!" if depth == 0 => {
                let rest = run.words.iter().skip(1);
                let rest = rest.skip_while(|word| {
                    matches!(word.0.as_str(), "-p" | "--") || is_assignment(&word.0)
                });
                let skipped = run.words[1..].iter().filter(|word| is_assignment(&word.0));
                for assignment in skipped.filter(|word| !assignments::is_harmless(word)) {
                    self.push(Step::Assignment(assignment.clone()))?;
                }
                let run = Run { words: rest.cloned().collect(), ..run.clone() };
                return self.run(run, context, depth);
            }
            // after a wrapper, it is a program
            "time" => {}
            word if check::RESERVED.contains(&word) => return None,
            _ => {}
        }
        if let (Some(placeholder), Some(name)) = (context.placeholder, run.name())
            && name.contains(placeholder)
        {
            self.push(Step::Unreadable)?;
        }
        for effect in builtins::effects(&run.words, context.declares) {
            match effect {
                Effect::Unknown => self.push(Step::Unknown)?,
                Effect::Assigns(word) => {
                    if expansions::is_integer(word.0.split(['=', '+']).next().unwrap_or_default()) {
                        self.push(Step::Unknown)?;
                    }
                    self.push(Step::Assignment(word))?;
                }
            }
        }
        let inner = wrappers::inner(&run.words, context.stdin, run.fed);
        let outer = Run { words: Vec::new(), ..run.clone() };
        let is_fed = run.fed;
        self.push(Step::Run(run))?;
        for inner in inner {
            let (words, fed, placeholder) = match inner {
                _ if depth >= MAX_LINES => return None,
                Inner::Command(words) => (words, is_fed, context.placeholder.map(str::to_owned)),
                Inner::Fed { words, appended, placeholder } => {
                    if context.placeholder.is_some() && placeholder.is_some() {
                        self.push(Step::Unknown)?;
                    }
                    (
                        words,
                        appended || is_fed,
                        placeholder.or_else(|| context.placeholder.map(str::to_owned)),
                    )
                }
                Inner::Line(line) => {
                    if context.placeholder.is_some_and(|placeholder| line.contains(placeholder)) {
                        self.push(Step::Unknown)?;
                    }
                    self.line(&line)?;
                    continue;
                }
                Inner::Assigns(word) => {
                    self.push(Step::Assignment(word))?;
                    continue;
                }
                Inner::Unreadable => {
                    self.push(Step::Unreadable)?;
                    continue;
                }
                Inner::Unknown => {
                    self.push(Step::Unknown)?;
                    continue;
                }
            };
            if words.is_empty() {
                continue;
            }
            let stdin = context.stdin.filter(|_| !fed);
            let context =
                CommandContext { stdin, declares: false, placeholder: placeholder.as_deref() };
            let is_replaced = |text: &String| words.iter().any(|word| word.shown().contains(text));
            let replaced = placeholder.clone().filter(is_replaced);
            let run = Run { words, fed, replaced, ..outer.clone() };
            self.run(run, &context, depth + 1)?;
        }
        Some(())
    }

    /// A line within this one.
    fn line(&mut self, line: &str) -> Option<()> {
        if self.nested >= MAX_LINES {
            return None;
        }
        self.push(Step::Enter)?;
        read(line, self.nested + 1, self.limit, self.steps)?;
        self.push(Step::Leave)
    }

    /// Backslashes within backticks belong to the outer line first.
    fn backticks(&mut self, node: Node<'a>, depth: usize) -> Option<()> {
        let text = self.text(node);
        if !text.contains('\\') {
            return self.within(Step::Enter, Step::Leave, node, depth);
        }
        let text = text.strip_prefix('`')?.strip_suffix('`')?;
        let mut line = String::new();
        let mut chars = text.chars().peekable();
        while let Some(c) = chars.next() {
            match chars.peek() {
                Some('\\' | '`' | '$') if c == '\\' => line.extend(chars.next()),
                _ => line.push(c),
            }
        }
        self.line(&line)
    }
}

fn children(node: Node<'_>) -> Vec<Node<'_>> {
    let mut cursor = node.walk();
    node.children(&mut cursor).collect()
}

/// Kinds of children of a command that are no words of it.
const NO_ARGUMENTS: &[&str] = &[
    "comment", "heredoc_start", "heredoc_end", "heredoc_redirect", "pipeline", "list", "command",
    "redirected_statement", "<<", "<<-", "|", "|&", "&&", "||", ";", "&", "\n", "file_descriptor",
];

/// Whether a child of a command is a word of it, or a piece of one. Assignments are, after the name.
fn is_argument(kind: &str, before: &[Range<usize>], node: Node<'_>) -> bool {
    match kind {
        "variable_assignment" => !before.is_empty() || node.kind() != "command",
        _ => !NO_ARGUMENTS.contains(&kind),
    }
}

/// `2`, `2-` or `-`. Everything else is the name of a file.
fn is_descriptor(target: &str) -> bool {
    let number = target.strip_suffix('-').unwrap_or(target);
    !target.is_empty() && number.bytes().all(|c| c.is_ascii_digit())
}

/// Operator and target.
fn redirection<'a>(node: Node<'a>) -> (&'a str, Option<Node<'a>>) {
    let operator = children(node).into_iter().find(|child| !child.is_named());
    (operator.map_or("", |operator| operator.kind()), node.child_by_field_name("destination"))
}

/// The text between one of these pairs.
fn inside<'a>(text: &'a str, pairs: &[(&str, &str)]) -> Option<&'a str> {
    pairs.iter().find_map(|(open, close)| text.strip_prefix(open)?.strip_suffix(close))
}

/// Whether the head of `for ((…))` consists of literals.
fn is_literal_loop(node: Node<'_>, line: &str) -> bool {
    let body = node.child_by_field_name("body").map_or(node.end_byte(), |body| body.start_byte());
    let head = line.get(node.start_byte()..body).unwrap_or_default();
    let head = head.trim_end().trim_end_matches("do").trim_end().trim_end_matches(';');
    let head = head.strip_prefix("for").map(str::trim_start);
    head.and_then(|head| inside(head.trim_end(), &[("((", "))")]))
        .is_some_and(|head| head.split(';').all(expansions::is_literal_arithmetic))
}
