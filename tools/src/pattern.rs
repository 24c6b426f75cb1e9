//! Globs over paths, with the rules that models know from ignore files and shells.

use std::path::{Component, Path, PathBuf};

use globset::{ErrorKind, Glob, GlobBuilder, GlobSet, GlobSetBuilder};
use unicode_normalization::UnicodeNormalization;

use crate::paths;

pub(crate) const WILD: [char; 5] = ['*', '?', '[', '{', '\\'];

/// Longest text, in bytes, that is read in more than one way. No path is longer.
const MAX_READ: usize = 4_096;

/// Selects paths below a folder.
#[derive(Clone, Debug)]
pub(crate) struct Pattern {
    /// The globs of which one must match. Empty: every path is selected.
    chosen: GlobSet,
    /// The globs of which none may match (`!*.lock`).
    left_out: GlobSet,
    /// The texts of `chosen`, relative to the folder.
    texts: Vec<String>,
}

impl Pattern {
    /// A pattern without a slash matches names in every folder; a pattern with a slash matches
    /// paths from the top; `folder/` matches everything in the folder. `*` does not match a slash,
    /// `**` does. A leading `!` inverts the pattern. Brackets and braces also match themselves, because folders of routes
    /// have them in their names (`app/[id]/page.tsx`).
    ///
    /// # Errors
    /// The reason why the pattern is invalid.
    pub(crate) fn new(text: &str) -> Result<Self, String> {
        Self::of(&[text.to_owned()])
    }

    /// A pattern that matches paths from the top, even without a slash.
    ///
    /// # Errors
    /// The reason why the pattern is invalid.
    pub(crate) fn from_top(text: &str) -> Result<Self, String> {
        Self::of(&[format!("/{text}")])
    }

    /// A filter for the files below `root`, as people mean it. Besides a glob it may be a list (`*.py,*.ts`), an extension
    /// (`.py`), a folder (`tests`) or an absolute path.
    ///
    /// # Errors
    /// The reason why the filter is invalid.
    pub(crate) fn filter(text: &str, root: &Path) -> Result<Self, String> {
        let mut texts = Vec::new();
        for part in listed(text) {
            let (mark, body) = part.strip_prefix('!').map_or(("", part), |body| ("!", body));
            let body = below(body, root).unwrap_or_else(|| body.to_owned());
            texts.push(format!("{mark}{body}"));
            if body.is_empty() || body.contains(WILD) {
                continue;
            }
            texts.push(format!("{mark}{}/", body.trim_end_matches('/')));
            if body.starts_with('.') && !body.contains('/') {
                texts.push(format!("{mark}*{body}"));
            }
        }
        Self::of(&texts)
    }

    fn of(texts: &[String]) -> Result<Self, String> {
        let (mut chosen, mut left_out) = (GlobSetBuilder::new(), GlobSetBuilder::new());
        let mut positive = Vec::new();
        for text in texts {
            let body = text.strip_prefix('!').unwrap_or(text);
            let path = body.trim_start_matches("./");
            let rooted = path.trim_start_matches('/');
            let anchored = rooted.len() < path.len() || rooted.trim_end_matches('/').contains('/');
            let set = if body.len() < text.len() { &mut left_out } else { &mut chosen };
            for glob in globs(rooted, anchored)? {
                set.add(glob);
            }
            if body.len() == text.len() {
                positive.push(rooted.to_owned());
            }
        }
        let built = |set: GlobSetBuilder| set.build().map_err(|error| error.to_string());
        Ok(Self { chosen: built(chosen)?, left_out: built(left_out)?, texts: positive })
    }

    /// Whether the pattern selects `path`, which is relative to the folder.
    pub(crate) fn matches(&self, path: &Path) -> bool {
        (self.chosen.is_empty() || self.chosen.is_match(path)) && !self.left_out.is_match(path)
    }

    /// The files that the pattern names exactly, and else the folders that it begins with. They exist below `root`, and
    /// no link leads to them.
    pub(crate) fn named(&self, root: &Path) -> Vec<PathBuf> {
        let is_plain = |path: &PathBuf| {
            path != root
                && path.symlink_metadata().is_ok()
                && paths::real(path).is_ok_and(|real| real == *path && real.starts_with(root))
        };
        let named = |text: &String| {
            let wild = text.find(WILD).unwrap_or(text.len());
            let folder = text[..wild].rfind('/').map_or("", |end| &text[..end]);
            [text.trim_end_matches('/'), folder]
                .into_iter()
                .map(|name| root.join(name))
                .find(is_plain)
        };
        let mut named: Vec<PathBuf> = self.texts.iter().filter_map(named).collect();
        named.sort();
        named.dedup();
        named
    }
}

/// The globs of a text: in brackets and braces as a shell reads them, and as characters.
fn globs(text: &str, anchored: bool) -> Result<Vec<Glob>, String> {
    if text.is_empty() {
        return Err("it is empty".to_owned());
    }
    let start = if anchored { "" } else { "**/" };
    let end = if text.ends_with('/') { "**" } else { "" };
    let glob = |text: &str| {
        GlobBuilder::new(&format!("{start}{text}{end}"))
            .literal_separator(true)
            .backslash_escape(true)
            .empty_alternates(true)
            .build()
    };
    let first = match glob(text) {
        Ok(glob) => Some(glob),
        // a name such as `[user-id]`
        Err(error) if matches!(error.kind(), ErrorKind::InvalidRange(..)) => None,
        // the error quotes the given text, not the compiled pattern
        Err(error) => return Err(format!("{text:?} is not a glob: {}", error.kind())),
    };
    let mut readings = if text.len() > MAX_READ { Vec::new() } else { literal_readings(text) };
    if !text.is_ascii() && text.len() <= MAX_READ {
        // names have either normalization
        readings.push(text.to_owned());
        let forms = readings.iter().flat_map(|text| [text.nfc().collect(), text.nfd().collect()]);
        let forms: Vec<String> = forms.collect();
        readings.extend(forms);
    }
    Ok(first.into_iter().chain(readings.iter().filter_map(|text| glob(text).ok())).collect())
}

/// The text with its brackets, its braces or both as characters. Braces without a comma are characters in shells, too.
fn literal_readings(text: &str) -> Vec<String> {
    let is_choice = |at: usize| {
        let start = text[..=at].rfind('{').map_or(0, |start| start + 1);
        text[start..].split('}').next().is_some_and(|inside| inside.contains(','))
    };
    let reading = |brackets: bool, braces: bool, choices: bool| {
        let (mut reading, mut is_escaped) = (String::new(), false);
        for (at, c) in text.char_indices() {
            let is_literal = match c {
                '[' | ']' => brackets,
                '{' | '}' => braces && (choices || !is_choice(at)),
                _ => false,
            };
            if is_literal && !is_escaped {
                reading.push('\\');
            }
            is_escaped = c == '\\' && !is_escaped;
            reading.push(c);
        }
        reading
    };
    let all = [(true, false, false), (false, true, false), (true, true, false)];
    let whole = [(false, true, true), (true, true, true)];
    let mut readings: Vec<String> = Vec::new();
    for (brackets, braces, choices) in all.into_iter().chain(whole) {
        let reading = reading(brackets, braces, choices);
        if reading != text && !readings.contains(&reading) {
            readings.push(reading);
        }
    }
    readings
}

/// The parts of a list that commas, semicolons, bars or blanks separate outside of brackets and braces; and the whole text,
/// which may be a name with such a character.
fn listed(text: &str) -> Vec<&str> {
    if text.len() > MAX_READ {
        return vec![text];
    }
    let mut depth = 0_i32;
    let parts = text.split(|c: char| {
        depth += i32::from(matches!(c, '[' | '{')) - i32::from(matches!(c, ']' | '}'));
        depth <= 0 && (matches!(c, ',' | ';' | '|') || c.is_whitespace())
    });
    let mut parts: Vec<&str> = parts.filter(|part| !part.is_empty()).collect();
    if parts != [text] && !text.starts_with('!') {
        parts.push(text);
    }
    parts
}

/// The part of an absolute path or glob that is below `root`, from the top.
fn below(text: &str, root: &Path) -> Option<String> {
    let (folder, rest) = elsewhere(text).filter(|_| text.starts_with('/'))?;
    let path = paths::real(Path::new(&folder)).ok()?.join(rest);
    let below = path.strip_prefix(root).ok()?.to_str()?;
    Some(if below.is_empty() { "**".to_owned() } else { format!("/{below}") })
}

/// Splits a pattern that starts elsewhere (`/etc/*.conf`, `~/x/*`, `../lib/**`) into its folder and
/// the pattern below it. `None` for a pattern that starts in the current folder.
pub(crate) fn elsewhere(text: &str) -> Option<(String, String)> {
    let leaves = |part: &str| Path::new(part).components().any(|c| c == Component::ParentDir);
    let wild = text.find(WILD).unwrap_or(text.len());
    // the last name belongs to the pattern even without a wildcard
    let split = text[..wild].rfind('/')?;
    let (folder, rest) = text.split_at(split + 1);
    let away = folder.starts_with(['/', '~']) || leaves(folder);
    let rest = if rest.is_empty() { "**" } else { rest };
    away.then(|| (folder.to_owned(), rest.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn globs() {
        for (pattern, yes, no) in [
            (
                "*.rs",
                &["a.rs", "src/deep/a.rs", ".rs", ".hidden.rs"][..],
                &["a.rs.bak", "a.RS"][..],
            ),
            ("**/*.rs", &["a.rs", "x/y/a.rs"], &["a.ts"]),
            ("src/*.rs", &["src/a.rs"], &["src/x/a.rs", "a/src/a.rs"]),
            ("./src/*.rs", &["src/a.rs"], &["x/src/a.rs"]),
            ("/a.rs", &["a.rs"], &["x/a.rs"]),
            ("src/**", &["src/a", "src/x/y"], &["src", "lib/src/a"]),
            ("src/", &["a/src/b", "src/a/b"], &["src", "srcs/a"]),
            ("src/**/test_*.py", &["src/test_a.py", "src/a/b/test_c.py"], &["src/a/xtest_c.py"]),
            ("**/src/**/*.c", &["src/a.c", "x/src/y/a.c"], &["a.c"]),
            ("**", &["a", "a/b/.c"], &[]),
            ("*", &["a", "a/b", ".x"], &[]),
            ("*.{ts,tsx}", &["a.ts", "x/a.tsx"], &["a.tsxx", "a.js"]),
            ("{src,tests}/**/*.{c,h}", &["src/a.c", "tests/x/b.h"], &["lib/a.c"]),
            ("a{,.min}.js", &["a.js", "a.min.js"], &["a..js"]),
            ("[a-c]?.txt", &["b1.txt"], &["d1.txt", "b.txt", "b12.txt"]),
            ("[!a]*.txt", &["b.txt"], &["a.txt"]),
            ("Makefile", &["Makefile", "sub/Makefile"], &["makefile", "Makefile.am"]),
            (".env*", &[".env", "a/.env.local"], &["x.env"]),
            ("**.md", &["a.md", "x/a.md"], &["a.mdx"]),
            (r"\*.c", &["*.c"], &["a.c"]),
            ("ä*.txt", &["ähre.txt"], &["a.txt"]),
            ("!*.lock", &["a.rs", "x/y"], &["Cargo.lock", "x/y.lock"]),
            // brackets and braces in names
            ("app/[id]/page.tsx", &["app/[id]/page.tsx", "app/i/page.tsx"], &["app/x/page.tsx"]),
            ("[user-id]/*.ts", &["[user-id]/a.ts"], &["u/a.ts"]),
            ("[[...slug]]/{a,b}.ts", &["[[...slug]]/a.ts", "[[...slug]]/{a,b}.ts"], &["s/a.ts"]),
            ("./{id}/[x].{ts,tsx}", &["{id}/[x].ts", "{id}/x.tsx", "id/[x].tsx"], &["{id}/y.ts"]),
            ("(auth)/[...all]/*", &["(auth)/[...all]/a"], &["auth/a/a"]),
            ("caf\u{e9}/*.md", &["caf\u{e9}/a.md", "cafe\u{301}/a.md"], &["cafe/a.md"]),
            ("[id].tsx", &["[id].tsx", "app/[id].tsx", "app/d.tsx"], &["app/[ix].tsx"]),
        ] {
            let compiled = Pattern::new(pattern).unwrap();
            for path in yes {
                assert!(compiled.matches(Path::new(path)), "{pattern} should match {path}");
            }
            for path in no {
                assert!(!compiled.matches(Path::new(path)), "{pattern} should not match {path}");
            }
        }
        assert!(!Pattern::from_top("*.rs").unwrap().matches(Path::new("x/a.rs")));
    }

    #[test]
    fn wrong_globs_are_quoted() {
        for (pattern, said) in [
            ("src/[a-", "\"src/[a-\""),
            ("*.{ts", "alternate group"),
            ("a\\", "dangling"),
            ("", "empty"),
            ("!", "empty"),
        ] {
            let error = Pattern::new(pattern).unwrap_err();
            assert!(error.contains(said), "{pattern}: {error}");
        }
    }

    #[test]
    fn filters_are_read_as_people_mean_them() {
        let root = Path::new("/nowhere/root");
        for (filter, yes, no) in [
            (
                "tests",
                &["tests/a.py", "x/tests/y/a.py", "tests"][..],
                &["test/a.py", "tests.py"][..],
            ),
            ("src/lib", &["src/lib/a.py"], &["x/src/lib/a.py", "src/a.py"]),
            ("./tests/", &["tests/a.py"], &["a.py"]),
            (".py", &["a.py", "x/b.py"], &["a.ts"]),
            (".env", &[".env", "x/.env"], &["env"]),
            ("*.py,*.ts", &["a.py", "x/a.ts"], &["a.js"]),
            ("*.py, *.ts", &["a.py", "x/a.ts"], &["a.js"]),
            ("*.py|*.ts *.c;*.h", &["a.py", "a.ts", "a.c", "a.h"], &["a.js"]),
            (".py,.ts", &["a.py", "x/a.ts"], &["a.js"]),
            ("*.{py,ts},src/*.c", &["a.py", "a.ts", "src/a.c"], &["a.c"]),
            ("*.ts,!*.d.ts", &["a.ts"], &["a.d.ts", "a.js"]),
            ("!tests", &["a.py"], &["tests/a.py"]),
            ("my file,x.txt", &["my file,x.txt"], &["y"]),
            ("/nowhere/root/src/*.py", &["src/a.py"], &["a.py", "x/src/a.py"]),
            ("/nowhere/root/src", &["src/a.py", "src/x/a.py"], &["a.py", "x/src/a.py"]),
            ("/nowhere/root/a.py", &["a.py"], &["x/a.py"]),
            ("/nowhere/root/", &["a.py", "x/a.py"], &[]),
            ("/nowhere/root/[id]/a.py", &["[id]/a.py"], &["a.py"]),
            ("/a.rs", &["a.rs"], &["x/a.rs"]),
        ] {
            let compiled = Pattern::filter(filter, root).unwrap();
            for path in yes {
                assert!(compiled.matches(Path::new(path)), "{filter} should match {path}");
            }
            for path in no {
                assert!(!compiled.matches(Path::new(path)), "{filter} should not match {path}");
            }
        }
        assert!(Pattern::filter("src/[ab,*.py", root).is_err());
    }

    #[test]
    fn patterns_that_start_elsewhere() {
        for (pattern, expected) in [
            ("*.rs", None),
            ("src/*.rs", None),
            ("src/../*.rs", Some(("src/../", "*.rs"))),
            ("/etc/*.conf", Some(("/etc/", "*.conf"))),
            ("/etc/hosts", Some(("/etc/", "hosts"))),
            ("/etc/", Some(("/etc/", "**"))),
            ("/*", Some(("/", "*"))),
            ("~/notes/**/*.md", Some(("~/notes/", "**/*.md"))),
            ("../lib/{a,b}/*", Some(("../lib/", "{a,b}/*"))),
            ("..", None),
            ("a..b/*.c", None),
        ] {
            let expected = expected.map(|(a, b): (&str, &str)| (a.to_owned(), b.to_owned()));
            assert_eq!(elsewhere(pattern), expected, "{pattern}");
        }
    }
}
