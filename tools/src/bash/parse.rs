//! A line as a tree, and the steps in it.
//!
//! The tree is the work of a grammar that is not bash's own, so `check` holds it against the text; a
//! line that is doubtful in any way is not understood here, and is cut instead (`cut`).

use std::ops::{ControlFlow, Range};
use std::time::{Duration, Instant};

use tree_sitter::{Node, ParseOptions, ParseState, Parser, Tree};

use super::check;
use super::step::{Run, Step};
use super::word::{self, Word};
use super::wrappers::{self, Inner, is_assignment};

/// How deep commands may be in one another.
const MAX_DEPTH: usize = 100;

/// How deep lines may be in lines (`bash -c`), and commands in wrappers.
const MAX_LINES: usize = 8;

/// Most steps of one line.
const MAX_STEPS: usize = 2_000;

const MAX_TIME: Duration = Duration::from_millis(500);

/// Assigning to these decides what runs.
const DECISIVE: &[&str] = &[
    "BASHOPTS",
    "BASH_ENV",
    "CDPATH",
    "EDITOR",
    "ENV",
    "IFS",
    "PAGER",
    "PATH",
    "PROMPT_COMMAND",
    "PS4",
    "PERL5LIB",
    "PERL5OPT",
    "PYTHONPATH",
    "PYTHONSTARTUP",
    "NODE_OPTIONS",
    "RUBYOPT",
    "RUSTC_WRAPPER",
    "SHELL",
    "SHELLOPTS",
    "VISUAL",
    "HOME",
];

/// The steps of `line` in the order in which they stand; `None` if it is not understood.
pub(super) fn steps(line: &str) -> Option<Vec<Step>> {
    let mut steps = Vec::new();
    let limit = Instant::now() + MAX_TIME;
    read(line, 0, limit, &mut steps)?;
    Some(steps)
}

fn read(line: &str, nested: usize, limit: Instant, steps: &mut Vec<Step>) -> Option<()> {
    let tree = tree(line, limit)?;
    check::agrees(&tree, line)?;
    Reader { line, steps, nested, limit }.node(tree.root_node(), 0)
}

fn tree(line: &str, limit: Instant) -> Option<Tree> {
    let mut parser = Parser::new();
    parser.set_language(&tree_sitter_bash::LANGUAGE.into()).ok()?;
    let mut late = |_: &ParseState| match Instant::now() > limit {
        true => ControlFlow::Break(()),
        false => ControlFlow::Continue(()),
    };
    let options = ParseOptions::new().progress_callback(&mut late);
    let bytes = line.as_bytes();
    let mut text = |at: usize, _| bytes.get(at..).unwrap_or_default();
    parser.parse_with_options(&mut text, None, Some(options))
}

/// More steps than can be taken in, or deeper ones, are not understood.
struct Reader<'a, 's> {
    line: &'a str,
    steps: &'s mut Vec<Step>,
    nested: usize,
    limit: Instant,
}

impl<'a> Reader<'a, '_> {
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
                self.within(Step::Enter, Step::Leave, node, depth)
            }
            "pipeline" => self.pipeline(node, depth),
            "list" => self.list(node, depth),
            "function_definition"
            | "if_statement"
            | "while_statement"
            | "case_statement"
            | "c_style_for_statement" => self.within(Step::Perhaps, Step::Joined, node, depth),
            _ => self.children(node, depth),
        }
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
        if is_decisive(name) {
            self.push(Step::Decides(Word::new(text)))?;
        }
        let value = node.child_by_field_name("value").map(|value| self.text(value));
        let plain = text.strip_prefix(name).and_then(|rest| rest.strip_prefix('='));
        let known = plain.filter(|_| value.is_none_or(|value| !value.starts_with('(')));
        self.push(Step::Assign(name.to_owned(), known.map(Word::new)))?;
        self.children(node, depth)
    }

    /// `[` is a command, `[[` is none.
    fn test(&mut self, node: Node<'a>, depth: usize) -> Option<()> {
        let text = self.text(node);
        if !text.starts_with("[[") && text.starts_with('[') {
            let words = text.split_whitespace().map(Word::new).collect();
            self.push(Step::Run(Run::new(words)))?;
        }
        self.children(node, depth)
    }

    fn redirect(&mut self, node: Node<'a>, depth: usize) -> Option<()> {
        let (operator, target) = redirection(node);
        if let Some(target) = target {
            let to = Word::new(self.text(target));
            let duplicates =
                operator.ends_with('&') && self.text(target).bytes().all(is_descriptor);
            if !duplicates {
                self.push(Step::Redirect { to, writes: operator.contains('>') })?;
            }
        }
        self.children(node, depth)
    }

    /// What runs, with all that belongs to it but does not stand beside it.
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

    /// `group`: the command itself, and redirections behind it.
    fn command(&mut self, node: Node<'a>, group: &[Node<'a>], depth: usize) -> Option<()> {
        let mut pieces: Vec<Range<usize>> = Vec::new();
        let (mut redirects, mut stdin) = (Vec::new(), None);
        let parts = group.iter().flat_map(|part| match part.kind() {
            "file_redirect" | "herestring_redirect" => vec![*part],
            _ => children(*part),
        });
        for part in parts {
            match part.kind() {
                "file_redirect" => redirects.push(self.text(part).to_owned()),
                "herestring_redirect" => stdin = self.herestring(part),
                "heredoc_body" => stdin = self.heredoc(part),
                kind if is_argument(kind, &pieces, node) => match pieces.last_mut() {
                    // no blank between them: one word
                    Some(last) if last.end == part.start_byte() => last.end = part.end_byte(),
                    _ => pieces.push(part.byte_range()),
                },
                _ => {}
            }
        }
        let assigns = node.child(0).is_some_and(|first| first.kind() == "variable_assignment");
        let word = |piece: Range<usize>| self.line.get(piece).map(Word::new);
        let words: Vec<Word> = pieces.into_iter().filter_map(word).collect();
        if assigns && words.first().is_some_and(|word| matches!(word.0.as_str(), "time" | "!")) {
            // behind an assignment these are names of programs
            return None;
        }
        let run = Run { words, redirects, fed: false };
        self.run(run, stdin.as_deref(), 0)?;
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
    fn run(&mut self, run: Run, stdin: Option<&str>, depth: usize) -> Option<()> {
        let Some(first) = run.words.first() else { return Some(()) };
        match first.0.as_str() {
            // words of the shell itself
            "time" | "!" => {
                let rest = run.words.iter().skip(1);
                let rest = rest.skip_while(|word| word.0 == "-p" || is_assignment(&word.0));
                let run = Run { words: rest.cloned().collect(), ..run.clone() };
                return self.run(run, stdin, depth);
            }
            word if check::RESERVED.contains(&word) => return None,
            _ => {}
        }
        let inner = wrappers::inner(&run.words, stdin);
        let redirects = run.redirects.clone();
        self.push(Step::Run(run))?;
        for inner in inner {
            match inner {
                _ if depth >= MAX_LINES => return None,
                Inner::Command(words) | Inner::Fed(words) if words.is_empty() => {}
                Inner::Command(words) => {
                    let run = Run { words, redirects: redirects.clone(), fed: false };
                    self.run(run, stdin, depth + 1)?;
                }
                Inner::Fed(words) => {
                    let run = Run { words, redirects: redirects.clone(), fed: true };
                    self.run(run, None, depth + 1)?;
                }
                Inner::Line(line) => self.line(&line)?,
                Inner::Unknown => self.push(Step::Unknown)?,
            }
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

/// Whether a child of a command is a word of it, or a piece of one. Assignments are, behind the name.
fn is_argument(kind: &str, before: &[Range<usize>], node: Node<'_>) -> bool {
    match kind {
        "variable_assignment" => !before.is_empty() || node.kind() != "command",
        "comment"
        | "heredoc_start"
        | "heredoc_end"
        | "heredoc_redirect"
        | "pipeline"
        | "list"
        | "command"
        | "redirected_statement"
        | "<<"
        | "<<-"
        | "|"
        | "|&"
        | "&&"
        | "||"
        | ";"
        | "&"
        | "\n"
        | "file_descriptor" => false,
        _ => true,
    }
}

fn is_descriptor(byte: u8) -> bool {
    byte.is_ascii_digit() || byte == b'-'
}

/// Operator and target.
fn redirection<'a>(node: Node<'a>) -> (&'a str, Option<Node<'a>>) {
    let operator = children(node).into_iter().find(|child| !child.is_named());
    (operator.map_or("", |operator| operator.kind()), node.child_by_field_name("destination"))
}

fn is_decisive(name: &str) -> bool {
    DECISIVE.contains(&name)
        || ["LD_", "DYLD_", "GIT_", "BASH_FUNC_"].iter().any(|start| name.starts_with(start))
}
