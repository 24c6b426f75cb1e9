//! Quotes, lists, code and tables.

use std::mem::take;

use super::{Container, ElementKind, Pre, Table, Writer};

/// Most open quotes within an item that its end closes. More were never closed.
const LOOK_FOR_ITEM: usize = 32;

/// Containers.
impl Writer {
    fn enter(&mut self, kind: ElementKind, first: Option<String>, indent: String) {
        self.open[kind.index()] += 1;
        self.containers.push(Container { kind, first, indent });
    }

    /// Closes the innermost container of this kind and all within it.
    fn leave(&mut self, kind: ElementKind) {
        while self.open[kind.index()] > 0 {
            let Some(left) = self.containers.pop() else { break };
            self.open[left.kind.index()] -= 1;
            if left.kind.index() == kind.index() {
                break;
            }
        }
    }

    pub(crate) fn quote(&mut self) {
        self.block(2);
        let indent = if self.markdown { "> " } else { "  " };
        self.enter(ElementKind::Quote, None, indent.to_owned());
    }

    pub(crate) fn end_quote(&mut self) {
        self.block(2);
        self.leave(ElementKind::Quote);
        self.block(2);
    }

    /// Opens a list. `first` is the number of its first item, for an ordered list.
    pub(crate) fn list(&mut self, first: Option<u64>) {
        let within = self.open[ElementKind::Item.index()] > 0;
        self.block(if within { 1 } else { 2 });
        self.enter(ElementKind::List(first), None, String::new());
    }

    pub(crate) fn end_list(&mut self) {
        self.leave(ElementKind::List(None));
        let within = self.open[ElementKind::Item.index()] > 0;
        self.block(if within { 1 } else { 2 });
    }

    pub(crate) fn item(&mut self) {
        self.end_item();
        let marker = match self.containers.last_mut().map(|container| &mut container.kind) {
            Some(ElementKind::List(Some(number))) => {
                let marker = format!("{number}. ");
                *number = number.saturating_add(1);
                marker
            }
            _ => "- ".to_owned(),
        };
        let indent = " ".repeat(marker.len());
        self.enter(ElementKind::Item, Some(marker), indent);
    }

    /// Closes the item of the innermost list, if one is open.
    pub(crate) fn end_item(&mut self) {
        self.block(1);
        let mut inner = self.containers.iter().rev().take(LOOK_FOR_ITEM).map(|inner| inner.kind);
        if inner.find(|kind| *kind != ElementKind::Quote) == Some(ElementKind::Item) {
            self.leave(ElementKind::Item);
        }
    }
}

/// Code.
impl Writer {
    pub(crate) fn pre(&mut self) {
        self.block(2);
        if self.pre.is_none() {
            self.pre = Some(Pre::default());
        }
    }

    /// Sets the language of the open code block, unless it has one.
    pub(crate) fn language(&mut self, language: Option<&str>) {
        if let (Some(pre), Some(language)) = (&mut self.pre, language) {
            language.clone_into(&mut pre.language);
        }
    }

    pub(crate) fn end_pre(&mut self) {
        let Some(Pre { text, language }) = self.pre.take() else { return };
        let text = text.strip_prefix('\n').unwrap_or(&text).trim_end();
        if text.is_empty() {
            return;
        }
        if self.in_cell() {
            return self.text(text);
        }
        let fence = "`".repeat(longest_run(text).max(2) + 1);
        if self.markdown {
            self.raw(&format!("{fence}{language}"));
            self.delay_breaks(1);
        }
        for line in text.lines() {
            self.raw(line);
            self.delay_breaks(1);
        }
        if self.markdown {
            self.raw(&fence);
        }
        self.block(2);
    }
}

/// The longest run of backticks.
fn longest_run(text: &str) -> usize {
    text.split(|c| c != '`').map(str::len).max().unwrap_or(0)
}

/// Tables.
impl Writer {
    /// Whether the output must stay in one line.
    pub(super) fn in_cell(&self) -> bool {
        self.tables.last().is_some_and(|table| table.cells > 0 && !table.layout)
    }

    pub(crate) fn table(&mut self) {
        // the tables around that one have been marked already
        if let Some(outer) = self.tables.last_mut() {
            outer.layout = true;
        }
        self.block(2);
        self.tables.push(Table::default());
    }

    pub(crate) fn row(&mut self) {
        self.end_row();
        self.block(1);
    }

    pub(crate) fn cell(&mut self) {
        let Some(table) = self.tables.last_mut().filter(|table| !table.layout) else {
            return self.block(1);
        };
        table.cells += 1;
        let first = table.cells == 1;
        self.close_marks(..);
        match (self.markdown, first) {
            (true, true) => self.raw("|"),
            (true, false) => self.raw(" |"),
            (false, true) => {}
            (false, false) => self.raw("\t"),
        }
        self.space = self.markdown;
    }

    pub(crate) fn end_row(&mut self) {
        let Some(table) = self.tables.last_mut() else { return };
        let (cells, first) = (take(&mut table.cells), table.rows == 0);
        if cells == 0 || table.layout {
            return;
        }
        table.rows += 1;
        self.close_marks(..);
        if self.markdown {
            self.raw(" |");
            self.delay_breaks(1);
        }
        if self.markdown && first {
            self.raw(&format!("|{}", " --- |".repeat(cells)));
        }
        self.delay_breaks(1);
    }

    pub(crate) fn end_table(&mut self) {
        self.end_row();
        self.tables.pop();
        self.block(2);
    }
}
