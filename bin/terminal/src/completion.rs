//! The menu above the composer: slash commands and their arguments, and what can be named with `@`.
//! It is a function of the text before the cursor and of what there is to choose from.

use std::ops::Range;

use leftfold_view::clean::{clean_line, visible_line};
use ratatui::text::Line;

use crate::entered::Argument;
use crate::file_search::{FoundFiles, ends_mention};
use crate::fuzzy::Query;
use crate::render::wrap::{clip, span, width, width_of};
use crate::theme::Theme;

/// Rows of the menu.
const MAX_ROWS: usize = 8;
/// Entries that are kept of a search.
const KEPT: usize = 100;
/// Columns of the screen for the names, if there are descriptions.
const WIDEST_NAME: usize = 40;

/// Something to complete to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Entry {
    /// The text to insert, without its mark (`/`, `@`).
    pub(crate) name: String,
    pub(crate) about: String,
}

/// A command that begins a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Command {
    pub(crate) entry: Entry,
    /// The values that its argument can have, if they are known.
    pub(crate) arguments: Vec<Entry>,
    pub(crate) argument: Argument,
}

/// The kind of word at the cursor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Context<'a> {
    /// The name of a command, after its slash.
    Command(&'a str),
    /// The argument of a command.
    Argument { command: &'a str, query: &'a str },
    /// A name after `@`.
    Mention(&'a str),
}

impl<'a> Context<'a> {
    /// By the text before the cursor.
    pub(crate) fn from_text(before: &'a str) -> Option<Self> {
        if let Some(line) = before.strip_prefix('/').filter(|line| !line.contains('\n')) {
            match line.split_once(' ') {
                None if !line.contains('/') => return Some(Self::Command(line)),
                Some((command, query)) if !command.contains('/') && !query.contains('@') => {
                    return Some(Self::Argument { command, query: query.trim_start() });
                }
                None | Some(_) => {}
            }
        }
        let at = before.rfind('@')?;
        let query = &before[at + 1..];
        // as prompts are read: not inside a word, and up to a blank or a bracket
        let joined = |c: char| c.is_alphanumeric() || matches!(c, '_' | '`' | '.');
        let is_mention = !before[..at].ends_with(joined) && !query.contains(ends_mention);
        is_mention.then_some(Self::Mention(query))
    }

    fn query(&self) -> &'a str {
        match self {
            Self::Command(query) | Self::Mention(query) | Self::Argument { query, .. } => query,
        }
    }
}

/// The replacement of the text before the cursor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Replacement {
    /// The bytes before the cursor that are replaced.
    pub(crate) range: Range<usize>,
    pub(crate) text: String,
    /// Whether the line is a whole command now, which can be carried out.
    pub(crate) is_complete: bool,
}

/// The menu, while it is open.
#[derive(Debug, Default)]
pub(crate) struct Menu {
    /// The text before the cursor for which the entries were found.
    before: String,
    mark: &'static str,
    query: String,
    /// Each with what can follow it.
    entries: Vec<(Entry, Argument)>,
    selected: usize,
    /// Whether the user has selected it.
    is_moved: bool,
    /// The text for which the user has closed the menu.
    closed: Option<String>,
}

impl Menu {
    /// Finds what fits the text before the cursor. `mentions` are agents and resources; `files` are the paths that a search has
    /// found last, the best first.
    pub(crate) fn update(
        &mut self,
        before: &str,
        commands: &[Command],
        mentions: &[Entry],
        files: &FoundFiles,
    ) {
        if self.closed.as_deref().is_some_and(|closed| !before.starts_with(closed)) {
            self.closed = None;
        }
        let selected = self.entries.get(self.selected).map(|(entry, _)| entry.clone());
        let same = self.before == before;
        let was_moved = self.is_moved;
        self.entries.clear();
        (self.selected, self.is_moved) = (0, false);
        let Some(context) = Context::from_text(before).filter(|_| self.closed.is_none()) else {
            self.before.clear();
            return;
        };
        before.clone_into(&mut self.before);
        context.query().clone_into(&mut self.query);
        match context {
            Context::Command(query) => {
                self.mark = "/";
                let entries = commands.iter().map(|command| (&command.entry, command.argument));
                self.entries = found(query, entries);
            }
            Context::Argument { command, query } => {
                self.mark = "";
                let command = commands.iter().find(|known| known.entry.name == command);
                let arguments =
                    command.map(|command| command.arguments.as_slice()).unwrap_or_default();
                self.entries =
                    found(query, arguments.iter().map(|entry| (entry, Argument::Nothing)));
                // nothing is left to complete
                if matches!(self.entries.as_slice(), [(only, _)] if only.name == query) {
                    self.entries.clear();
                }
            }
            Context::Mention(query) => {
                self.mark = "@";
                // text goes on after a name
                let follows = Argument::Required;
                self.entries = found(query, mentions.iter().map(|entry| (entry, follows)));
                let file = |path: &String| Entry { name: path.clone(), about: String::new() };
                let mut paths: Vec<&String> = files.paths.iter().collect();
                if files.query != query {
                    // of an earlier text: what does not fit this one is not offered
                    let hits = Query::new(query).search(&paths);
                    paths = hits.iter().map(|hit| paths[hit.index]).collect();
                }
                self.entries.extend(paths.into_iter().take(KEPT).map(|path| (file(path), follows)));
            }
        }
        if same
            && was_moved
            && let Some(selected) = selected
            && let Some(place) = self.entries.iter().position(|(entry, _)| *entry == selected)
        {
            (self.selected, self.is_moved) = (place, true);
        }
    }

    pub(crate) fn is_open(&self) -> bool {
        !self.entries.is_empty()
    }

    /// Moves to another entry.
    pub(crate) fn move_by(&mut self, rows: isize) {
        let count = self.entries.len();
        if count > 0 {
            let count = isize::try_from(count).unwrap_or(isize::MAX);
            let selected = isize::try_from(self.selected).unwrap_or(0);
            self.selected = usize::try_from((selected + rows).rem_euclid(count)).unwrap_or(0);
            self.is_moved |= rows != 0;
        }
    }

    /// Whether the user has selected an entry.
    pub(crate) fn is_moved(&self) -> bool {
        self.is_moved
    }

    /// Closes the menu until another text is written.
    pub(crate) fn close(&mut self) {
        self.closed = Some(self.before.clone());
        self.entries.clear();
    }

    /// The text that the selected entry replaces. After a folder its files can follow.
    pub(crate) fn replacement(&self) -> Option<Replacement> {
        let (entry, argument) = self.entries.get(self.selected)?;
        let start = self.before.len() - self.query.len() - self.mark.len();
        let is_folder = self.mark == "@" && entry.name.ends_with('/');
        let blank = if is_folder || *argument == Argument::Nothing { "" } else { " " };
        Some(Replacement {
            range: start..self.before.len(),
            text: format!("{}{}{blank}", self.mark, entry.name),
            is_complete: *argument != Argument::Required,
        })
    }

    /// Whether Enter should choose rather than send: the text is not an entry already.
    pub(crate) fn is_partial(&self) -> bool {
        let is_written = |(entry, _): &(Entry, Argument)| entry.name == self.query;
        let Some(selected) = self.entries.get(self.selected) else { return false };
        !is_written(selected) && (self.is_moved || !self.entries.iter().any(is_written))
    }

    /// The menu in at most `height` lines, none wider than `columns`; none while it is closed.
    pub(crate) fn lines(&self, columns: u16, height: u16, theme: &Theme) -> Vec<Line<'static>> {
        let columns = usize::from(columns).max(1);
        let most = MAX_ROWS.min(usize::from(height));
        let first = self.selected.saturating_sub(most / 2);
        let first = first.min(self.entries.len().saturating_sub(most));
        let shown = self.entries.iter().enumerate().skip(first).take(most);
        let names: Vec<(usize, String, String)> = shown
            .map(|(at, (entry, _))| {
                let name = format!("{}{}", self.mark, visible_line(&entry.name));
                (at, name, clean_line(&entry.about))
            })
            .collect();
        let widest = names.iter().map(|(_, name, _)| width(name)).max().unwrap_or(0);
        let has_about = names.iter().any(|(_, _, about)| !about.is_empty());
        let name_columns = if has_about { widest.min(WIDEST_NAME) } else { widest };
        let mut query = Query::new(&self.query);
        let mut lines: Vec<Line<'static>> = Vec::new();
        for (at, name, about) in names {
            let is_selected = at == self.selected;
            let (mark, style) = if is_selected { ("> ", theme.accent) } else { ("  ", theme.text) };
            let mut spans = vec![span(mark, style)];
            spans.extend(clip(&query.marked(&name, theme.text, theme.matched), name_columns));
            if !about.is_empty() {
                let used = width_of(&spans);
                let blank = (name_columns + 4).saturating_sub(used);
                spans.push(span(&" ".repeat(blank), theme.text));
                spans.push(span(&about, theme.dim));
            }
            let mut spans = clip(&spans, columns);
            if is_selected {
                for span in &mut spans {
                    span.style = span.style.patch(theme.selection);
                }
            }
            lines.push(Line::from(spans));
        }
        let hidden = self.entries.len().saturating_sub(most);
        if hidden > 0 && lines.len() < usize::from(height) {
            let more = span(&format!("  … {hidden} more"), theme.dim);
            lines.push(Line::from(clip(&[more], columns)));
        }
        lines
    }
}

/// The entries that match, those that begin with the query first.
fn found<'a>(
    query: &str,
    entries: impl Iterator<Item = (&'a Entry, Argument)>,
) -> Vec<(Entry, Argument)> {
    let entries: Vec<(&Entry, Argument)> = entries.collect();
    let names: Vec<&str> = entries.iter().map(|(entry, _)| entry.name.as_str()).collect();
    let mut hits = Query::new(query).search(&names);
    hits.sort_by_key(|hit| !names[hit.index].starts_with(query));
    hits.truncate(KEPT);
    let entry = |index: usize| (entries[index].0.clone(), entries[index].1);
    hits.into_iter().map(|hit| entry(hit.index)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::render::tests::{assert_fits, marked, theme};

    fn entry(name: &str, about: &str) -> Entry {
        Entry { name: name.to_owned(), about: about.to_owned() }
    }

    fn commands() -> Vec<Command> {
        let command = |name, about, argument, arguments: &[&str]| Command {
            entry: entry(name, about),
            arguments: arguments.iter().map(|name| entry(name, "")).collect(),
            argument,
        };
        let models = ["anthropic/a", "openai/b"];
        vec![
            command("model", "Use another model", Argument::Optional, &models),
            command("compact", "Replace the conversation with a summary", Argument::Nothing, &[]),
            command("commit", "Write a commit", Argument::Required, &[]),
            command("exit", "Leave", Argument::Nothing, &[]),
        ]
    }

    fn files(query: &str, paths: &[&str]) -> FoundFiles {
        let paths = paths.iter().map(|path| (*path).to_owned()).collect();
        FoundFiles { query: query.to_owned(), paths, is_complete: true }
    }

    fn menu(before: &str) -> Menu {
        let mut menu = Menu::default();
        let agents = [entry("explore", "Reads much")];
        menu.update(before, &commands(), &agents, &files("s", &["src/", "src/main.rs"]));
        menu
    }

    #[test]
    fn the_text_before_the_cursor_says_what_is_written() {
        for (before, expected) in [
            ("/", Some(Context::Command(""))),
            ("/mod", Some(Context::Command("mod"))),
            ("/model a", Some(Context::Argument { command: "model", query: "a" })),
            ("/model  ", Some(Context::Argument { command: "model", query: "" })),
            ("/etc/hosts", None),
            ("/etc/hosts @a", Some(Context::Mention("a"))),
            ("/commit see @src/m", Some(Context::Mention("src/m"))),
            ("/model\n@", Some(Context::Mention(""))),
            (" /model", None),
            ("see @", Some(Context::Mention(""))),
            ("see (@src/m", Some(Context::Mention("src/m"))),
            ("me@example", None),
            ("see @src done", None),
            ("ö@ä", None),
            ("", None),
        ] {
            assert_eq!(Context::from_text(before), expected, "{before:?}");
        }
    }

    #[test]
    fn an_entry_replaces_what_was_written() {
        for (before, down, range, text, is_complete) in [
            ("/mod", 0, 0..4, "/model ", true),
            ("/com", 0, 0..4, "/compact", true),
            ("/com", 1, 0..4, "/commit ", false),
            ("/com", -1, 0..4, "/commit ", false),
            ("/model op", 0, 7..9, "openai/b", true),
            ("ö @exp", 0, 3..7, "@explore ", false),
            ("see @s", 1, 4..6, "@src/main.rs ", false),
            ("see @s", 0, 4..6, "@src/", false),
        ] {
            let mut menu = menu(before);
            menu.move_by(down);
            let replacement = Replacement { range, text: text.to_owned(), is_complete };
            assert_eq!(menu.replacement(), Some(replacement), "{before:?} {down}");
        }
    }

    #[test]
    fn the_menu_closes_and_opens_with_the_text() {
        assert!(!menu("hello").is_open());
        assert!(!menu("/nonsense").is_open());
        // nothing is left to complete
        assert!(!menu("/model openai/b").is_open());
        assert!(menu("/model").is_open() && !menu("/model").is_partial());
        let mut closed = menu("/m");
        closed.close();
        assert!(!closed.is_open());
        let none = FoundFiles::default();
        closed.update("/mo", &commands(), &[], &none);
        assert!(!closed.is_open());
        closed.update("", &commands(), &[], &none);
        closed.update("/m", &commands(), &[], &none);
        assert!(closed.is_open());
    }

    #[test]
    fn entries_have_descriptions_and_fit() {
        assert_eq!(
            marked(&menu("/com").lines(44, 20, &theme())),
            [
                "{selection:> }{selection:/}{selection:com}{selection:pact  }\
                 {selection:Replace the conversation with a…}",
                "  /{matched:com}mit   {dim:Write a commit}",
            ]
        );
        let mut many = Menu::default();
        let paths = (0..50).map(|n| format!("src/漢字/\u{1b}[31m{n}.rs")).collect();
        let files = FoundFiles { paths, ..FoundFiles::default() };
        many.update("@", &[], &[], &files);
        many.move_by(-1);
        let lines = marked(&many.lines(80, 20, &theme()));
        assert_eq!(lines.len(), MAX_ROWS + 1);
        assert!(lines[MAX_ROWS - 1].contains("\\x1b[31m49.rs"), "{lines:?}");
        for columns in 1..60 {
            assert_fits(&many.lines(columns, 20, &theme()), columns);
            assert_fits(&menu("/com").lines(columns, 20, &theme()), columns);
        }
        for height in 0..12 {
            assert!(many.lines(40, height, &theme()).len() <= usize::from(height));
        }
    }

    #[test]
    fn enter_takes_no_entry_of_an_earlier_text_and_none_beside_the_written_one() {
        let mut menu = Menu::default();
        let found = files("s", &["src/", "src/main.rs", "docs/"]);
        let mut partial = |before: &str, down: isize, found: &FoundFiles| {
            menu.update(before, &[], &[], found);
            menu.move_by(down);
            menu.is_open().then(|| menu.is_partial())
        };
        assert_eq!(partial("@s", 0, &found), Some(true));
        // the search has not answered yet
        assert_eq!(partial("@src/lib.rs", 0, &found), None);
        assert_eq!(partial("@docs/", 0, &found), Some(false));
        let both = files("src/main.rs", &["src/main.rs.orig", "src/main.rs"]);
        assert_eq!(partial("@src/main.rs", 0, &both), Some(false));
        assert_eq!(partial("@src/main.rs", 2, &both), Some(true));
    }
}
