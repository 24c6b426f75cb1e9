//! A page of the documentation: its code blocks, notes to the test, code spans, links and headings.

use std::path::{Path, PathBuf};

/// The page, as a path from the repository's root with `/`.
pub(super) struct Page {
    pub(super) name: String,
    path: PathBuf,
    text: String,
}

/// The parts of a page that the test acts on, in order. Lines count from 1.
#[derive(Debug)]
pub(super) enum Item {
    Block(Block),
    /// `<!-- test: WORDS -->` on a line of its own.
    Note {
        line: usize,
        words: String,
    },
}

#[derive(Debug)]
pub(super) struct Block {
    /// Where the fence stands.
    pub(super) line: usize,
    pub(super) language: String,
    /// The rest of the info string.
    pub(super) mark: String,
    /// Ends with a line feed.
    pub(super) text: String,
}

impl Page {
    pub(super) fn read(name: &str) -> Self {
        let text = std::fs::read_to_string(common::root().join(name));
        Self::from_text(name, &text.unwrap_or_else(|e| panic!("{name}: {e}")))
    }

    /// A page with this text.
    pub(super) fn from_text(name: &str, text: &str) -> Self {
        Self { name: name.to_owned(), path: common::root().join(name), text: text.to_owned() }
    }

    /// README.md and every page of `docs/`.
    pub(super) fn all() -> Vec<Self> {
        let mut names = vec!["README.md".to_owned()];
        let mut folders = vec!["docs".to_owned()];
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(common::root().join(&folder)).unwrap() {
                let entry = entry.unwrap();
                let name = format!("{folder}/{}", entry.file_name().to_str().unwrap());
                if entry.path().is_dir() {
                    folders.push(name);
                } else if Path::new(&name).extension().is_some_and(|end| end == "md") {
                    names.push(name);
                }
            }
        }
        names.sort();
        names.iter().map(|name| Self::read(name)).collect()
    }

    /// Whether it starts programs in Python: plugins, and the server that stands in for those of `npx`.
    pub(super) fn needs_python(&self) -> bool {
        self.blocks()
            .iter()
            .any(|block| block.text.contains("\"python3\"") || block.text.contains("\"npx\""))
    }

    pub(super) fn items(&self) -> Vec<Item> {
        let mut items = Vec::new();
        let mut open: Option<Block> = None;
        for (line, text) in (1..).zip(self.text.lines()) {
            let fence = text.trim_start().strip_prefix("```");
            match (open.take(), fence) {
                (None, Some(info)) => open = Some(Block::begin(line, info)),
                (Some(block), Some("")) => items.push(Item::Block(block)),
                (Some(mut block), _) => {
                    block.text.push_str(text);
                    block.text.push('\n');
                    open = Some(block);
                }
                (None, None) => {
                    let note = text.strip_prefix("<!-- test: ");
                    if let Some(words) = note.and_then(|note| note.strip_suffix(" -->")) {
                        items.push(Item::Note { line, words: words.to_owned() });
                    }
                }
            }
        }
        assert!(open.is_none(), "{}: a code block without an end", self.name);
        items
    }

    pub(super) fn blocks(&self) -> Vec<Block> {
        let block = |item| match item {
            Item::Block(block) => Some(block),
            Item::Note { .. } => None,
        };
        self.items().into_iter().filter_map(block).collect()
    }

    /// The lines outside code blocks, each with its number.
    fn prose(&self) -> Vec<(usize, &str)> {
        let mut fenced = false;
        let prose = (1..).zip(self.text.lines()).filter(|(_, line)| {
            let fence = line.trim_start().starts_with("```");
            fenced ^= fence;
            !fenced && !fence
        });
        prose.collect()
    }

    /// The code spans of the text, which may go on in the next line of a paragraph.
    pub(super) fn spans(&self) -> Vec<(usize, String)> {
        let mut spans = Vec::new();
        let mut open: Option<(usize, String)> = None;
        for (number, line) in self.prose() {
            if line.trim().is_empty() {
                open = None; // a paragraph ends, and a backtick that opened nothing with it
            }
            // a pair of two holds a single one
            let line = line.replace("``", "\u{1}");
            for (index, piece) in line.split('`').enumerate() {
                if index > 0 {
                    match open.take() {
                        Some(span) => spans.push(span),
                        None => open = Some((number, String::new())),
                    }
                }
                if let Some((_, text)) = &mut open {
                    if index == 0 {
                        text.push(' ');
                    }
                    text.push_str(piece);
                }
            }
        }
        spans
    }

    /// The targets of links to other places of the repository.
    pub(super) fn links(&self) -> Vec<(usize, String)> {
        let mut links = Vec::new();
        for (number, line) in self.prose() {
            for rest in line.split("](").skip(1) {
                let target = rest.split(')').next().unwrap_or_default();
                if !target.contains("://") && !target.starts_with("mailto:") {
                    links.push((number, target.to_owned()));
                }
            }
        }
        links
    }

    /// Whether a link's target exists: a file or folder, and a heading if it names one.
    pub(super) fn leads_to(&self, target: &str) -> bool {
        let (file, anchor) = target.split_once('#').unwrap_or((target, ""));
        let path = if file.is_empty() {
            self.path.clone()
        } else {
            self.path.parent().unwrap().join(file)
        };
        if anchor.is_empty() {
            return path.exists();
        }
        let Ok(text) = std::fs::read_to_string(&path) else { return false };
        let other = Self { name: String::new(), path, text };
        other.anchors().iter().any(|heading| heading == anchor)
    }

    /// The anchors of all headings, as GitHub makes them.
    fn anchors(&self) -> Vec<String> {
        let headings = self.prose().into_iter().filter_map(|(_, line)| {
            let title = line.trim_start_matches('#');
            (title.len() < line.len() && title.starts_with(' ')).then(|| title.trim())
        });
        let mut anchors: Vec<String> = Vec::new();
        for heading in headings {
            let kept = |c: &char| c.is_alphanumeric() || " -_".contains(*c);
            let slug: String = heading.to_lowercase().chars().filter(kept).collect();
            let slug = slug.replace(' ', "-");
            let before = anchors.iter().filter(|anchor| **anchor == slug).count();
            anchors.push(if before == 0 { slug } else { format!("{slug}-{before}") });
        }
        anchors
    }
}

impl Block {
    fn begin(line: usize, info: &str) -> Self {
        let (language, mark) = info.split_once(' ').unwrap_or((info, ""));
        Self {
            line,
            language: language.to_owned(),
            mark: mark.trim().to_owned(),
            text: String::new(),
        }
    }

    /// Each line of code with its number, but for blank lines and comments. A line that ends with `\` goes on.
    pub(super) fn commands(&self) -> Vec<(usize, String)> {
        let mut commands: Vec<(usize, String)> = Vec::new();
        let mut goes_on = false;
        for (number, line) in (self.line + 1..).zip(self.text.lines()) {
            match commands.last_mut() {
                Some((_, command)) if goes_on => {
                    command.push('\n');
                    command.push_str(line);
                }
                _ if line.trim().is_empty() || line.trim_start().starts_with('#') => {}
                _ => commands.push((number, line.to_owned())),
            }
            goes_on = line.ends_with('\\');
        }
        commands
    }
}
