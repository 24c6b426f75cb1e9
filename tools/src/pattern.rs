//! Globs over paths, with the rules that models know from ignore files and shells.

use globset::{GlobBuilder, GlobSet, GlobSetBuilder};
use std::path::{Component, Path};

pub(crate) const WILD: [char; 5] = ['*', '?', '[', '{', '\\'];

/// Selects paths below a folder.
#[derive(Clone, Debug)]
pub(crate) struct Pattern {
    set: GlobSet,
    /// Whether it selects the paths that do not match (`!*.lock`).
    negated: bool,
}

impl Pattern {
    /// A pattern without a slash matches names in every folder; a pattern with a slash matches
    /// paths from the top; `folder/` matches everything in the folder. `*` does not match a slash,
    /// `**` does. A leading `!` inverts the pattern.
    ///
    /// # Errors
    /// The reason why the pattern is invalid.
    pub(crate) fn new(text: &str) -> Result<Self, String> {
        let (text, negated) = match text.strip_prefix('!') {
            Some(rest) => (rest, true),
            None => (text, false),
        };
        let body = text.trim_start_matches("./");
        let rooted = body.trim_start_matches('/');
        let anchored = rooted.len() < body.len() || rooted.trim_end_matches('/').contains('/');
        Ok(Self { set: compile(rooted, anchored)?, negated })
    }

    /// A pattern that matches paths from the top, even without a slash.
    ///
    /// # Errors
    /// The reason why the pattern is invalid.
    pub(crate) fn from_top(text: &str) -> Result<Self, String> {
        Ok(Self { set: compile(text, true)?, negated: false })
    }

    /// Whether the pattern selects `path`, which is relative to the folder.
    pub(crate) fn matches(&self, path: &Path) -> bool {
        self.set.is_match(path) != self.negated
    }
}

fn compile(text: &str, anchored: bool) -> Result<GlobSet, String> {
    if text.is_empty() {
        return Err("it is empty".to_owned());
    }
    let start = if anchored { "" } else { "**/" };
    let end = if text.ends_with('/') { "**" } else { "" };
    // the error quotes the given text, not the compiled pattern
    let wrong = |error: globset::Error| format!("{text:?} is not a glob: {}", error.kind());
    let glob = GlobBuilder::new(&format!("{start}{text}{end}"))
        .literal_separator(true)
        .backslash_escape(true)
        .empty_alternates(true)
        .build()
        .map_err(wrong)?;
    GlobSetBuilder::new().add(glob).build().map_err(wrong)
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
            ("[z-a]", "'z' > 'a'"),
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
