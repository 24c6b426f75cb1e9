//! The menu above the composer: slash commands and their arguments, and what can be named with `@`.
//! It is a function of the text before the cursor and of what there is to choose from.

use std::ops::Range;

use leftfold_config::KeyAction;
use leftfold_view::clean::{clean_line, visible_line};
use ratatui::text::Line;

use crate::entered::{Argument, BuiltinCommand, Group};
use crate::file_search::{FoundFiles, ends_mention};
use crate::fuzzy::Query;
use crate::render::wrap::{clip, span, width, width_of};
use crate::theme::Theme;

/// Rows of the menu.
const MAX_ROWS: usize = 12;
/// Entries that are kept of a search.
const KEPT: usize = 100;
/// Columns of the screen for the names, if there are descriptions.
const WIDEST_NAME: usize = 40;

/// Columns of the screen from which on other names of commands are shown.
const ALIAS_COLUMNS: usize = 60;

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
    /// Its row, if it is one of the conversation.
    pub(crate) builtin: Option<&'static BuiltinCommand>,
}

/// An entry of the menu, and what can follow it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Offer {
    entry: Entry,
    argument: Argument,
    builtin: Option<&'static BuiltinCommand>,
}

impl Offer {
    fn aliases(&self) -> &'static [&'static str] {
        self.builtin.map_or(&[], |row| row.aliases)
    }

    fn group(&self) -> Group {
        self.builtin.map_or(Group::Others, |row| row.group)
    }

    /// Whether this is what is written already.
    fn has_name(&self, query: &str) -> bool {
        self.entry.name == query || self.aliases().contains(&query)
    }
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
    entries: Vec<Offer>,
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
        let selected = self.entries.get(self.selected).cloned();
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
                let offers = commands.iter().map(|command| Offer {
                    entry: command.entry.clone(),
                    argument: command.argument,
                    builtin: command.builtin,
                });
                self.entries = found(query, offers);
            }
            Context::Argument { command, query } => {
                self.mark = "";
                let is_named = |known: &&Command| known.entry.name == command;
                let is_alias = |known: &&Command| {
                    known.builtin.is_some_and(|row| row.aliases.contains(&command))
                };
                let named = commands.iter().find(is_named).or(commands.iter().find(is_alias));
                let arguments =
                    named.map(|command| command.arguments.as_slice()).unwrap_or_default();
                self.entries = found(query, offers_of(arguments, Argument::Nothing));
                // nothing is left to complete
                if matches!(self.entries.as_slice(), [only] if only.has_name(query)) {
                    self.entries.clear();
                }
            }
            Context::Mention(query) => {
                self.mark = "@";
                // text goes on after a name
                let follows = Argument::Required;
                self.entries = found(query, offers_of(mentions, follows));
                let file = |path: &String| Offer {
                    entry: Entry { name: path.clone(), about: String::new() },
                    argument: follows,
                    builtin: None,
                };
                let mut paths: Vec<&String> = files.paths.iter().collect();
                if files.query != query {
                    // of an earlier text: what does not fit this one is not offered
                    let hits = Query::new(query).search(&paths);
                    paths = hits.iter().map(|hit| paths[hit.index]).collect();
                }
                self.entries.extend(paths.into_iter().take(KEPT).map(file));
            }
        }
        if same
            && was_moved
            && let Some(selected) = selected
            && let Some(place) = self.entries.iter().position(|offer| *offer == selected)
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
        let Offer { entry, argument, .. } = self.entries.get(self.selected)?;
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
        let Some(selected) = self.entries.get(self.selected) else { return false };
        let is_written = || self.entries.iter().any(|offer| offer.has_name(&self.query));
        !selected.has_name(&self.query) && (self.is_moved || !is_written())
    }

    /// The heading above an entry: its group begins there, and all commands are shown.
    fn heading(&self, at: usize) -> Option<Group> {
        let is_whole = self.mark == "/" && self.query.is_empty();
        let group = self.entries.get(at).filter(|_| is_whole)?.group();
        let before = at.checked_sub(1).map(|before| self.entries[before].group());
        (before != Some(group)).then_some(group)
    }

    /// The menu in at most `height` lines, none wider than `columns`; none while it is closed. `key` names the key of an
    /// action.
    pub(crate) fn lines(
        &self,
        columns: u16,
        height: u16,
        theme: &Theme,
        key: &dyn Fn(KeyAction) -> Option<String>,
    ) -> Vec<Line<'static>> {
        let columns = usize::from(columns).max(1);
        let most = MAX_ROWS.min(usize::from(height));
        // a row is an entry, or else the heading of a group
        let rows: Vec<Result<usize, Group>> = (0..self.entries.len())
            .flat_map(|at| self.heading(at).map(Err).into_iter().chain([Ok(at)]))
            .collect();
        let place = rows.iter().position(|row| *row == Ok(self.selected)).unwrap_or(0);
        let first = place.saturating_sub(most / 2).min(rows.len().saturating_sub(most));
        let shown: Vec<_> = rows.into_iter().skip(first).take(most).collect();
        let name =
            |at: usize| format!("{}{}", self.mark, visible_line(&self.entries[at].entry.name));
        // names of other agents stand beside the one that does it here
        let aliases = |at: usize| match self.entries[at].aliases() {
            [] => String::new(),
            _ if columns < ALIAS_COLUMNS => String::new(),
            aliases => format!("  {}", aliases.join(" ")),
        };
        let ats = || shown.iter().filter_map(|row| row.ok());
        let widest = ats().map(|at| width(&name(at)) + width(&aliases(at))).max().unwrap_or(0);
        let has_about = ats().any(|at| !self.entries[at].entry.about.is_empty());
        let name_columns = if has_about { widest.min(WIDEST_NAME) } else { widest };
        let mut query = Query::new(&self.query);
        let mut lines: Vec<Line<'static>> = Vec::new();
        for row in &shown {
            let at = match row {
                Ok(at) => *at,
                Err(group) => {
                    let heading = [span("  ", theme.text), span(group.name(), theme.heading)];
                    lines.push(Line::from(clip(&heading, columns)));
                    continue;
                }
            };
            let is_selected = at == self.selected;
            let (mark, style) = if is_selected { ("> ", theme.accent) } else { ("  ", theme.text) };
            let mut names = query.marked(&name(at), theme.text, theme.matched);
            names.extend(query.marked(&aliases(at), theme.dim, theme.matched));
            let mut spans = vec![span(mark, style)];
            spans.extend(clip(&names, name_columns));
            let Offer { entry, builtin, .. } = &self.entries[at];
            let label = builtin.and_then(|row| key(row.key?)).map(|label| format!(" · {label}"));
            if !entry.about.is_empty() {
                let used = width_of(&spans);
                let blank = (name_columns + 4).saturating_sub(used);
                spans.push(span(&" ".repeat(blank), theme.text));
                spans.push(span(&clean_line(&entry.about), theme.dim));
                spans.extend(label.map(|label| span(&label, theme.accent)));
            }
            let mut spans = clip(&spans, columns);
            if is_selected {
                for span in &mut spans {
                    span.style = span.style.patch(theme.selection);
                }
            }
            lines.push(Line::from(spans));
        }
        let hidden = self.entries.len().saturating_sub(ats().count());
        if hidden > 0 && lines.len() < usize::from(height) {
            let more = span(&format!("  … {hidden} more"), theme.dim);
            lines.push(Line::from(clip(&[more], columns)));
        }
        lines
    }
}

fn offers_of(entries: &[Entry], argument: Argument) -> impl Iterator<Item = Offer> {
    entries.iter().map(move |entry| Offer { entry: entry.clone(), argument, builtin: None })
}

/// The entries that match by a name, those that begin with the query first.
fn found(query: &str, offers: impl Iterator<Item = Offer>) -> Vec<Offer> {
    let offers: Vec<Offer> = offers.collect();
    let names: Vec<(usize, &str)> = offers
        .iter()
        .enumerate()
        .flat_map(|(at, offer)| {
            let aliases = offer.aliases().iter().copied();
            [offer.entry.name.as_str()].into_iter().chain(aliases).map(move |name| (at, name))
        })
        .collect();
    let texts: Vec<&str> = names.iter().map(|(_, name)| *name).collect();
    let mut hits = Query::new(query).search(&texts);
    hits.sort_by_key(|hit| !texts[hit.index].starts_with(query));
    let mut is_known = vec![false; offers.len()];
    let hits = hits.into_iter().map(|hit| names[hit.index].0);
    let first = hits.filter(|at| !std::mem::replace(&mut is_known[*at], true));
    first.take(KEPT).map(|at| offers[at].clone()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entered;
    use crate::render::tests::{assert_fits, marked, theme};

    fn entry(name: &str, about: &str) -> Entry {
        Entry { name: name.to_owned(), about: about.to_owned() }
    }

    fn commands() -> Vec<Command> {
        let command = |name, about, argument, arguments: &[&str]| Command {
            entry: entry(name, about),
            arguments: arguments.iter().map(|name| entry(name, "")).collect(),
            argument,
            builtin: entered::builtin(name),
        };
        let models = ["anthropic/a", "openai/b"];
        vec![
            command("model", "Use another model", Argument::Optional, &models),
            command("compact", "Replace the conversation with a summary", Argument::Nothing, &[]),
            command("commit", "Write a commit", Argument::Required, &[]),
            command("exit", "Leave", Argument::Nothing, &[]),
        ]
    }

    fn lines(menu: &Menu, columns: u16, height: u16) -> Vec<Line<'static>> {
        let key = |action| (action == KeyAction::Leave).then(|| "Ctrl-D".to_owned());
        menu.lines(columns, height, &theme(), &key)
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
            ("/qui", 0, 0..4, "/exit", true),
            ("/summ", 0, 0..5, "/compact", true),
            ("/model op", 0, 7..9, "openai/b", true),
            ("/models op", 0, 8..10, "openai/b", true),
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
        assert!(menu("/quit").is_open() && !menu("/quit").is_partial());
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
            marked(&lines(&menu("/com"), 44, 20)),
            [
                "{selection:> }{selection:/}{selection:com}{selection:pact  }\
                 {selection:Replace the conversation with a…}",
                "  /{matched:com}mit   {dim:Write a commit}",
            ]
        );
        assert_eq!(
            marked(&lines(&menu("/"), 60, 20)),
            [
                "  {heading:Model and agent}",
                "{selection:> }{selection:/model}{selection:  models}{selection:       }\
                 {selection:Use another model}",
                "  /compact{dim:  summarize}  {dim:Replace the conversation with a summ…}",
                "  {heading:Prompts and skills}",
                "  /commit              {dim:Write a commit}",
                "  {heading:Sessions}",
                "  /exit{dim:  quit q}        {dim:Leave}{accent: · Ctrl-D}",
            ]
        );
        let mut many = Menu::default();
        let paths = (0..50).map(|n| format!("src/漢字/\u{1b}[31m{n}.rs")).collect();
        let files = FoundFiles { paths, ..FoundFiles::default() };
        many.update("@", &[], &[], &files);
        many.move_by(-1);
        let shown = marked(&lines(&many, 80, 20));
        assert_eq!(shown.len(), MAX_ROWS + 1);
        assert!(shown[MAX_ROWS - 1].contains("\\x1b[31m49.rs"), "{shown:?}");
        for columns in 1..60 {
            assert_fits(&lines(&many, columns, 20), columns);
            assert_fits(&lines(&menu("/"), columns, 20), columns);
        }
        for height in 0..12 {
            assert!(lines(&many, 40, height).len() <= usize::from(height));
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
