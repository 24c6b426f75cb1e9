//! Whether the commands and options that a page shows exist, by what `--help` says.

use std::collections::BTreeMap;

/// The headings above commands; the help of `leftfold` itself has them in groups.
const LISTS: [&str; 4] = ["Commands:", "Sessions:", "Debugging:", "Settings and setup:"];

/// The options of each command, by the words that call it: `""` is `leftfold` itself.
pub(super) struct Known(BTreeMap<String, Vec<String>>);

impl Known {
    pub(super) fn ask(help: &dyn Fn(&[&str]) -> String) -> Self {
        let mut known = Self(BTreeMap::new());
        known.add("", help);
        known
    }

    fn add(&mut self, path: &str, help: &dyn Fn(&[&str]) -> String) {
        let mut args: Vec<&str> = path.split_whitespace().collect();
        args.push("--help");
        let text = help(&args);
        let mut part = "";
        let (mut options, mut commands) = (Vec::new(), Vec::new());
        for line in text.lines() {
            if !line.starts_with(' ') && line.ends_with(':') {
                part = line;
            } else if part == "Options:" && line.trim_start().starts_with('-') {
                let words = line.split([' ', ',', '=']).filter(|word| word.starts_with('-'));
                options.extend(words.map(|word| word.trim_end_matches("...").to_owned()));
            } else if LISTS.contains(&part) && line.starts_with("  ") && !line.starts_with("   ") {
                commands.extend(line.split_whitespace().next().map(str::to_owned));
                let alias = line.split_once("[alias: ").or_else(|| line.split_once("[aliases: "));
                if let Some((_, aliases)) = alias {
                    let aliases = aliases.trim_end_matches(']').split(", ");
                    commands.extend(aliases.map(str::to_owned));
                }
            }
        }
        self.0.insert(path.to_owned(), options);
        for command in commands.iter().filter(|command| *command != "help") {
            self.add(format!("{path} {command}").trim(), help);
        }
    }

    /// The names of all commands, `auth` as well as `auth login`.
    pub(super) fn commands(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str).filter(|path| !path.is_empty())
    }

    /// Whether any command has this option.
    pub(super) fn has(&self, option: &str) -> bool {
        self.0.values().flatten().any(|known| known == option)
    }

    /// The problems of the calls of `leftfold` in a shell line.
    pub(super) fn mistake(&self, line: &str) -> Option<String> {
        simple_commands(line).iter().find_map(|words| self.mistake_of(words))
    }

    fn mistake_of(&self, words: &[String]) -> Option<String> {
        let assignment = |word: &&String| word.contains('=') && !word.starts_with('-');
        let mut words = words.iter().skip_while(assignment);
        if words.next()? != "leftfold" {
            return None;
        }
        let mut path = String::new();
        // a word after an option may be its value
        let mut certain = true;
        for word in words.take_while(|word| *word != "--") {
            let longer = format!("{path} {word}").trim().to_owned();
            let deeper = self.0.keys().any(|known| known.starts_with(&format!("{path} ")));
            if self.0.contains_key(&longer) {
                path = longer;
            } else if word.starts_with('-') && word.len() > 1 {
                certain = false;
                let option = word.split('=').next().unwrap_or(word);
                if !self.0[&path].iter().any(|known| known == option) {
                    return Some(format!("`leftfold {path}` has no option `{option}`"));
                }
            } else if certain
                && path.is_empty()
                && word.chars().all(|c| c.is_ascii_lowercase() || c == '-')
            {
                return Some(format!("there is no command `leftfold {word}`"));
            } else if certain && deeper && word.chars().all(char::is_lowercase) {
                return Some(format!("there is no command `leftfold {path} {word}`"));
            }
        }
        None
    }
}

/// The words of each simple command of a shell line. Quoted text is one word; comments are left out.
fn simple_commands(line: &str) -> Vec<Vec<String>> {
    let mut commands = vec![Vec::new()];
    let mut word: Option<String> = None;
    let mut quote = None;
    let mut chars = line.chars().peekable();
    while let Some(c) = chars.next() {
        match (quote, c) {
            (Some(open), _) if c == open => quote = None,
            (Some(_), _) => word.get_or_insert_default().push(c),
            (None, '\'' | '"') => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            (None, '#') if word.is_none() => break,
            (None, '\\') => {
                chars.next();
            }
            (None, '|' | '&' | ';' | '(' | ')' | '`') => {
                commands.last_mut().unwrap().extend(word.take());
                commands.push(Vec::new());
            }
            (None, '<' | '>') => commands.last_mut().unwrap().extend(word.take()),
            (None, c) if c.is_whitespace() => commands.last_mut().unwrap().extend(word.take()),
            (None, c) => word.get_or_insert_default().push(c),
        }
    }
    commands.last_mut().unwrap().extend(word);
    commands
}
