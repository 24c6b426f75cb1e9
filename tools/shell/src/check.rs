//! Whether a tree can be what the shell will make of the text.
//!
//! A grammar that overlooks a command would let it past the rules. So whatever is in the text and
//! could begin a command has to be in the tree as one: no text between the leaves, no leaf with a
//! substitution in it, here-documents that end where the shell ends them.

use tree_sitter::{Node, Tree};

/// Words that begin or end something where a command could stand.
pub(crate) const RESERVED: &[&str] = &[
    "if", "then", "else", "elif", "fi", "case", "esac", "for", "select", "while", "until", "do",
    "done", "in", "function", "time", "{", "}", "!", "[[", "]]", "coproc",
];

/// How deep the tree is looked at.
const MAX_DEPTH: usize = 400;

/// `None` if it is doubtful.
pub(crate) fn agrees(tree: &Tree, line: &str) -> Option<()> {
    let root = tree.root_node();
    if root.has_error() || line.contains('\r') || line.contains('\0') {
        return None;
    }
    let mut check = Check { line, end: 0, heredoc_row: None };
    check.node(root, Around::default(), 0)?;
    check.gap(line.len())
}

/// The surroundings of a node.
#[derive(Clone, Copy, Default)]
struct Around {
    /// Double quotes.
    string: bool,
    backticks: bool,
    /// A here-document into which the shell puts nothing.
    raw_heredoc: bool,
}

struct Check<'a> {
    line: &'a str,
    /// Where the last leaf ended.
    end: usize,
    /// Where the last here-document was announced.
    heredoc_row: Option<usize>,
}

impl Check<'_> {
    fn node(&mut self, node: Node<'_>, around: Around, depth: usize) -> Option<()> {
        if depth > MAX_DEPTH || node.is_missing() {
            return None;
        }
        let mut around = around;
        match node.kind() {
            // quotes in a here-document quote nothing either
            "string" | "heredoc_body" => around.string = true,
            "command_substitution" | "process_substitution" => {
                around.string = false;
                around.backticks |= self.text(node).starts_with('`');
            }
            "heredoc_redirect" => around.raw_heredoc = self.heredoc(node)?,
            _ => {}
        }
        let mut cursor = node.walk();
        let children: Vec<Node<'_>> = node.children(&mut cursor).collect();
        if children.is_empty() {
            return self.leaf(node, around);
        }
        // the text of a here-document stands between its substitutions
        let loose = node.kind() == "heredoc_body";
        for child in children {
            if loose {
                self.plain(child.start_byte(), around)?;
            }
            self.node(child, around, depth + 1)?;
        }
        if loose { self.plain(node.end_byte(), around) } else { Some(()) }
    }

    fn text(&self, node: Node<'_>) -> &str {
        self.line.get(node.byte_range()).unwrap_or_default()
    }

    /// Only blanks may stand between leaves. A line that goes on after a backslash must not have gone
    /// on within a word, which the grammar takes for two.
    fn gap(&self, to: usize) -> Option<()> {
        let gap = self.line.get(self.end..to).unwrap_or_default();
        let blank = gap.chars().all(|c| matches!(c, ' ' | '\t' | '\n' | '\\'));
        let continues = gap.matches('\\').count() == gap.matches("\\\n").count();
        let rest = gap.replace("\\\n", "");
        let parts = rest.is_empty() && !gap.is_empty() && self.end > 0;
        // an end of line beside one that is none: the grammar may have overlooked it
        let both = rest.len() < gap.len() && rest.contains('\n');
        (blank && continues && !parts && !both).then_some(())
    }

    /// Whether a word begins here.
    fn begins(&self, at: usize) -> bool {
        let before = self.line[..at].chars().next_back();
        before.is_none_or(|c| c.is_whitespace() || ";&|()".contains(c))
    }

    /// Text of a here-document up to `to`, which is no leaf.
    fn plain(&mut self, to: usize, around: Around) -> Option<()> {
        let text = self.line.get(self.end..to).unwrap_or_default();
        self.end = self.end.max(to);
        (around.raw_heredoc || !substitutes(text, true)).then_some(())
    }

    fn leaf(&mut self, node: Node<'_>, around: Around) -> Option<()> {
        let (text, start) = (self.text(node), node.start_byte());
        let inside = around.string || around.raw_heredoc;
        if !around.string && !node.kind().starts_with("heredoc") {
            self.gap(start)?;
        } else if substitutes(self.line.get(self.end..start).unwrap_or_default(), true) {
            return None;
        }
        let sound = match node.kind() {
            "comment" => {
                self.begins(start) && !around.backticks && !self.line[..start].ends_with("\\\n")
            }
            // single quotes within double ones quote nothing
            "raw_string" | "ansi_c_string" => !around.string || !substitutes(text, true),
            "heredoc_body" | "heredoc_content" => around.raw_heredoc || !substitutes(text, true),
            "word" => !substitutes(text, inside) && !has_operator(text),
            "file_descriptor" => {
                text.bytes().all(|byte| byte.is_ascii_digit()) && self.begins(start)
            }
            // two substitutions in one line may be taken for one
            "`" => node.parent().is_some_and(|parent| parent.kind() == "command_substitution"),
            // without a blank after it, it belongs to a word
            "!" if node.parent().is_some_and(|parent| parent.kind() == "negated_command") => {
                self.line[node.end_byte()..].starts_with([' ', '\t', '\n', '('])
            }
            _ if node.is_named() => !substitutes(text, inside || node.kind() == "string_content"),
            _ => true,
        };
        self.end = self.end.max(node.end_byte());
        sound.then_some(())
    }

    /// Whether nothing is put into the here-document; `None` if it may end elsewhere.
    fn heredoc(&mut self, node: Node<'_>) -> Option<bool> {
        let row = node.start_position().row;
        if self.heredoc_row.replace(row) == Some(row) {
            return None;
        }
        let mut cursor = node.walk();
        let children: Vec<Node<'_>> = node.children(&mut cursor).collect();
        let part = |kind: &str| children.iter().find(|child| child.kind() == kind).copied();
        let (start, end) = (part("heredoc_start")?, part("heredoc_end")?);
        let given = self.text(start);
        if !given.chars().all(|c| c.is_alphanumeric() || "_-.+'\"\\".contains(c)) {
            return None;
        }
        let quoted = given.contains(['\'', '"', '\\']);
        let delimiter: String = given.chars().filter(|c| !"'\"\\".contains(*c)).collect();
        let stripped = |line: &str| match part("<<-") {
            Some(_) => line.trim_start_matches('\t').to_owned(),
            None => line.to_owned(),
        };
        let behind = self.line.get(start.end_byte()..)?;
        let from = start.end_byte() + behind.find('\n')? + 1;
        let last = self.line.get(..end.end_byte())?.rfind('\n')? + 1;
        let whole = self.line.get(last..)?.split('\n').next()?;
        let before = self.line.get(from..last)?;
        let ends_once = !before.lines().any(|line| stripped(line) == delimiter);
        // a line that goes on may hide the end
        let joined = !quoted && before.contains("\\\n");
        let sound = stripped(whole) == delimiter && ends_once && !joined && !delimiter.is_empty();
        sound.then_some(quoted)
    }
}

/// Whether the shell would find a substitution in `text`: in double quotes and here-documents none of
/// processes.
fn substitutes(text: &str, inside: bool) -> bool {
    let mut before = ' ';
    let mut escaped = false;
    for c in text.chars() {
        match c {
            _ if escaped => {
                (escaped, before) = (false, ' ');
                continue;
            }
            '\\' => escaped = true,
            '`' => return true,
            '(' | '{' | '[' if before == '$' => return true,
            '(' if !inside && matches!(before, '<' | '>') => return true,
            _ => {}
        }
        before = c;
    }
    false
}

/// Whether an unquoted word has something in it that would end it.
fn has_operator(word: &str) -> bool {
    let mut escaped = false;
    word.chars().any(|c| {
        let found = !escaped && " \t\n;|&()<>\"'".contains(c);
        escaped = !escaped && c == '\\';
        found
    })
}
