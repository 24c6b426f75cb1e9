//! The imports among the modules of one crate, read from its sources.
//!
//! Finds paths that begin with `crate`, `self`, `super` or the name of a child module. A
//! re-exported name counts as an import of the module that defines it; the re-export itself does
//! not count. Ignores code under `#[cfg(test)]`. Does not see names imported by a glob or code made
//! by macros.

use std::collections::{BTreeMap, BTreeSet};

type Path = Vec<String>;
/// The modules that each module imports, each with a file that does so.
pub(crate) type Arrows = BTreeMap<String, BTreeMap<String, String>>;

#[derive(Default)]
struct Module {
    file: String,
    tokens: Vec<String>,
    uses: Vec<Use>,
    /// Paths in expressions and types.
    paths: Vec<Path>,
    defines: BTreeSet<String>,
}

/// One name of a `use` statement; `*` for a glob.
struct Use {
    path: Path,
    name: String,
    public: bool,
}

pub(crate) struct Modules(BTreeMap<Path, Module>);

impl Modules {
    /// Reads the modules from file paths (relative to the root file's folder, without `.rs`) and
    /// their texts.
    pub(crate) fn read(root: &str, sources: &[(String, &str)]) -> Self {
        let mut modules = BTreeMap::new();
        let mut tests = BTreeSet::new();
        for (file, text) in sources {
            let mut path: Path = file.split('/').map(str::to_owned).collect();
            let last = path.pop().unwrap();
            if last != "mod" && file != root {
                path.push(last);
            }
            let (tokens, test_modules) = without_tests(&tokens(text));
            tests.extend(test_modules.into_iter().map(|name| [path.clone(), vec![name]].concat()));
            modules.insert(path, Module { file: file.clone(), tokens, ..Module::default() });
        }
        modules.retain(|path, _| !(1..=path.len()).any(|end| tests.contains(&path[..end])));
        let known: BTreeSet<Path> = modules.keys().cloned().collect();
        for (path, module) in &mut modules {
            Parser { known: &known, at: path.clone(), inline: Vec::new() }.run(module);
        }
        Self(modules)
    }

    /// For each module with child modules in files of their own: its folder, and the imports among
    /// them. The crate itself is the empty path.
    pub(crate) fn child_arrows(&self) -> impl Iterator<Item = (&[String], Arrows)> {
        let parents: BTreeSet<&[String]> =
            self.0.keys().filter_map(|path| Some(path.split_last()?.1)).collect();
        parents.into_iter().map(|parent| (parent, self.arrows_below(parent)))
    }

    /// The imports among the child modules of `parent`.
    pub(crate) fn arrows_below(&self, parent: &[String]) -> Arrows {
        self.arrows(|path| path.strip_prefix(parent)?.first().cloned())
    }

    fn arrows(&self, node: impl Fn(&Path) -> Option<String>) -> Arrows {
        let mut arrows = Arrows::new();
        for (path, module) in &self.0 {
            let Some(from) = node(path) else { continue };
            let private = module.uses.iter().filter(|used| !used.public).map(|used| &used.path);
            for used in private.chain(&module.paths) {
                let Some(to) = node(&self.definer(used, 8)) else { continue };
                if from != to {
                    let found = arrows.entry(from.clone()).or_default();
                    found.entry(to).or_insert_with(|| module.file.clone());
                }
            }
        }
        arrows
    }

    /// The module that defines the name at this path.
    fn definer(&self, path: &[String], fuel: u8) -> Path {
        let inside = |end: &usize| self.0.contains_key(&path[..*end]);
        let end = (0..=path.len()).rev().find(inside).unwrap_or(0);
        let (at, rest) = path.split_at(end);
        let (Some(name), true) = (rest.first(), fuel > 0) else { return at.to_vec() };
        let module = &self.0[at];
        if module.defines.contains(name) {
            return at.to_vec();
        }
        if let Some(used) = module.uses.iter().find(|used| used.name == *name) {
            return self.definer(&[&used.path, &rest[1..]].concat(), fuel - 1);
        }
        let globs = module.uses.iter().filter(|used| used.name == "*");
        let through = globs.map(|glob| self.definer(&[&glob.path, rest].concat(), fuel - 1));
        let mut through = through.filter(|found| self.0[found].defines.contains(name));
        through.next().unwrap_or_else(|| at.to_vec())
    }
}

/// Groups of two or more nodes in which each reaches every other.
pub(crate) fn cycles(arrows: &Arrows) -> BTreeSet<Vec<String>> {
    let reach = |from: &String| {
        let mut seen: BTreeSet<&String> = BTreeSet::new();
        let mut next: Vec<&String> =
            arrows.get(from).into_iter().flat_map(|to| to.keys()).collect();
        while let Some(node) = next.pop() {
            if seen.insert(node) {
                next.extend(arrows.get(node).into_iter().flat_map(|to| to.keys()));
            }
        }
        seen
    };
    let reached: BTreeMap<_, _> = arrows.keys().map(|from| (from, reach(from))).collect();
    let looped = reached.iter().filter(|(from, seen)| seen.contains(*from));
    let group = |(from, seen): (&&String, &BTreeSet<&String>)| {
        let back = |to: &&&String| reached.get(*to).is_some_and(|seen| seen.contains(*from));
        seen.iter().filter(back).map(|to| (*to).clone()).collect::<Vec<_>>()
    };
    looped.map(group).collect()
}

/// A shortest cycle through a node, each arrow with a file that contains it.
pub(crate) fn one_way_round(start: &str, arrows: &Arrows) -> Vec<String> {
    let mut came_from: BTreeMap<&str, &str> = BTreeMap::new();
    let mut next = vec![start];
    while !next.is_empty() && !came_from.contains_key(start) {
        let mut reached = Vec::new();
        for from in next {
            for to in arrows.get(from).into_iter().flat_map(|to| to.keys()) {
                if !came_from.contains_key(to.as_str()) {
                    came_from.insert(to, from);
                    reached.push(to.as_str());
                }
            }
        }
        next = reached;
    }
    let (mut way, mut to) = (Vec::new(), start);
    while let Some(from) = came_from.get(to) {
        way.push(format!("{from} -> {to} ({}.rs)", arrows[*from][to]));
        to = from;
        if to == start {
            break;
        }
    }
    way.reverse();
    way
}

struct Parser<'a> {
    known: &'a BTreeSet<Path>,
    at: Path,
    /// Modules within the file, with the depth of braces at which each ends.
    inline: Vec<(String, usize)>,
}

impl Parser<'_> {
    fn run(mut self, module: &mut Module) {
        let tokens = std::mem::take(&mut module.tokens);
        let is = |at: usize, text: &str| tokens.get(at).is_some_and(|token| token == text);
        let (mut at, mut depth) = (0, 0);
        while at < tokens.len() {
            let (token, before) =
                (tokens[at].as_str(), at.checked_sub(1).map_or("", |at| &tokens[at]));
            match token {
                "{" => depth += 1,
                "}" => {
                    depth -= 1;
                    self.inline.retain(|(_, end)| *end != depth);
                }
                "mod" if is(at + 2, "{") => self.inline.push((tokens[at + 1].clone(), depth)),
                "use" => {
                    let public = before == "pub" || before == ")";
                    at = self.tree(&tokens, at + 1, &[], &mut |path, name| {
                        module.uses.push(Use { path, name, public });
                    });
                    continue;
                }
                "fn" | "struct" | "enum" | "trait" | "type" | "const" | "static" | "union" => {
                    module.defines.extend(tokens.get(at + 1).cloned());
                }
                _ if is(at + 1, "::") && !["::", ".", "in"].contains(&before) => {
                    let start = at;
                    while is(at + 1, "::") && tokens.get(at + 2).is_some_and(|next| is_name(next)) {
                        at += 2;
                    }
                    let path: Vec<_> = tokens[start..=at].iter().step_by(2).cloned().collect();
                    module.paths.extend(self.absolute(&path));
                }
                _ => {}
            }
            at += 1;
        }
    }

    /// All names of a `use` tree, and the position after it.
    fn tree(
        &self,
        tokens: &[String],
        mut at: usize,
        prefix: &[String],
        found: &mut impl FnMut(Path, String),
    ) -> usize {
        let mut path = prefix.to_vec();
        loop {
            match tokens[at].as_str() {
                "{" => {
                    at += 1;
                    while tokens[at] != "}" {
                        at = self.tree(tokens, at, &path, found);
                        at += usize::from(tokens[at] == ",");
                    }
                    return at + 1;
                }
                "::" => at += 1,
                "*" => {
                    if let Some(path) = self.absolute(&path) {
                        found(path, "*".to_owned());
                    }
                    return at + 1;
                }
                name if is_name(name) && name != "as" => {
                    if name != "self" || path.is_empty() {
                        path.push(name.to_owned());
                    }
                    at += 1;
                }
                end => {
                    let named = path.last().cloned().unwrap_or_default();
                    let (name, behind) =
                        if end == "as" { (tokens[at + 1].clone(), at + 2) } else { (named, at) };
                    if let Some(path) = self.absolute(&path) {
                        found(path, name);
                    }
                    return behind;
                }
            }
        }
    }

    /// The path from the root of the crate. `None` if it begins in another crate or with a local
    /// name.
    fn absolute(&self, path: &[String]) -> Option<Path> {
        let mut here = self.at.clone();
        here.extend(self.inline.iter().map(|(name, _)| name.clone()));
        let (first, mut rest) = path.split_first()?;
        match first.as_str() {
            "crate" => here.clear(),
            "self" => {}
            "super" => {
                here.pop();
                while let Some(("super", more)) = rest.split_first().map(|(a, b)| (a.as_str(), b)) {
                    here.pop();
                    rest = more;
                }
            }
            child => {
                here.push(child.to_owned());
                if !self.known.contains(&here) {
                    return None;
                }
            }
        }
        here.extend(rest.iter().cloned());
        Some(here)
    }
}

fn is_name(token: &str) -> bool {
    token.starts_with(|c: char| c.is_alphanumeric() || c == '_')
}

/// Names, `::` and single characters, without comments, lifetimes and the contents of literals.
fn tokens(text: &str) -> Vec<String> {
    let mut tokens = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let length = if rest.starts_with("//") {
            rest.find('\n').unwrap_or(rest.len())
        } else if rest.starts_with("/*") {
            rest.find("*/").map_or(rest.len(), |end| end + 2)
        } else if let Some(length) = raw_string(rest) {
            length
        } else if first == '"' {
            quoted(rest, '"')
        } else if first == '\'' {
            // a lifetime has no second quote
            let mut after = rest[1..].chars();
            match (after.next(), after.next()) {
                (Some('\\'), _) => quoted(rest, '\''),
                (Some(c), Some('\'')) => c.len_utf8() + 2,
                _ => 1 + name_length(&rest[1..]),
            }
        } else if is_name(rest) {
            tokens.push(rest[..name_length(rest)].to_owned());
            name_length(rest)
        } else if rest.starts_with("::") {
            tokens.push("::".to_owned());
            2
        } else {
            if !first.is_whitespace() {
                tokens.push(first.to_string());
            }
            first.len_utf8()
        };
        rest = &rest[length..];
    }
    tokens
}

fn name_length(text: &str) -> usize {
    text.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(text.len())
}

fn quoted(text: &str, quote: char) -> usize {
    let mut escaped = false;
    for (at, c) in text.char_indices().skip(1) {
        if c == quote && !escaped {
            return at + 1;
        }
        escaped = c == '\\' && !escaped;
    }
    text.len()
}

fn raw_string(text: &str) -> Option<usize> {
    let start = text.strip_prefix("br").or_else(|| text.strip_prefix('r'))?;
    let hashes = start.find(|c| c != '#')?;
    start[hashes..].starts_with('"').then_some(())?;
    let end = format!("\"{}", "#".repeat(hashes));
    let body = text.len() - start.len() + hashes + 1;
    Some(text[body..].find(&end).map_or(text.len(), |at| body + at + end.len()))
}

/// The tokens without code under `#[cfg(test)]`, and the names of the modules in it.
fn without_tests(tokens: &[String]) -> (Vec<String>, Vec<String>) {
    let (mut kept, mut modules) = (Vec::new(), Vec::new());
    let mut at = 0;
    while at < tokens.len() {
        let ahead = |words: &[&str]| tokens[at..].iter().zip(words).filter(|(a, b)| a == b).count();
        let tested =
            [&["#", "[", "cfg", "(", "test"][..], &["#", "[", "cfg", "(", "all", "(", "test"]];
        if tested.iter().any(|words| ahead(words) == words.len()) {
            while tokens.get(at).is_some_and(|token| token == "#") {
                at = behind_group(tokens, at + 1);
            }
            let item = at;
            at = behind_item(tokens, at);
            if let [.., module, name, end] = &tokens[item..at]
                && module == "mod"
                && end == ";"
            {
                modules.push(name.clone());
            }
        } else {
            kept.push(tokens[at].clone());
            at += 1;
        }
    }
    (kept, modules)
}

/// The position after the bracket that closes the one at `at`.
fn behind_group(tokens: &[String], mut at: usize) -> usize {
    let mut depth = 0;
    while let Some(token) = tokens.get(at) {
        match token.as_str() {
            "(" | "[" | "{" => depth += 1,
            ")" | "]" | "}" => depth -= 1,
            _ => {}
        }
        at += 1;
        if depth == 0 {
            break;
        }
    }
    at
}

/// The position after an item, a statement, a field or a variant.
fn behind_item(tokens: &[String], mut at: usize) -> usize {
    let imports = tokens.get(at).is_some_and(|token| token == "use");
    while let Some(token) = tokens.get(at) {
        match token.as_str() {
            ";" => return at + 1,
            "}" | ")" => return at,
            "{" if !imports => return behind_group(tokens, at),
            "{" | "(" | "[" => at = behind_group(tokens, at),
            _ => at += 1,
        }
    }
    at
}

#[test]
fn paths_are_found_and_followed_to_what_they_name() {
    let sources = [
        ("lib".to_owned(), "mod a; mod b; mod c; mod tests; pub use b::{B, deep::Deep as D};"),
        ("a".to_owned(), "use crate::{B, c::{self, C}}; // crate::c\nfn f() { \"crate::c\"; }"),
        (
            "b".to_owned(),
            "pub mod deep; mod other; pub struct B; #[cfg(test)] mod tests { use crate::c; }",
        ),
        ("b/deep".to_owned(), "pub struct Deep; mod i { use super::super::super::a::f; }"),
        ("b/other".to_owned(), "use super::{B, deep::Deep};"),
        ("c/mod".to_owned(), "fn g<'a>(x: super::D) -> char { '\"' } #[cfg(test)]\nmod tests;"),
        ("c/tests".to_owned(), "use crate::a;"),
    ];
    let modules = Modules::read("lib", &sources);
    let arrows = modules.arrows_below(&[]);
    let to = |from: &str| arrows[from].keys().map(String::as_str).collect::<Vec<_>>();
    assert_eq!((to("a"), to("b"), to("c")), (vec!["b", "c"], vec!["a"], vec!["b"]));
    let all: Vec<String> = ["a", "b", "c"].map(str::to_owned).to_vec();
    assert_eq!(cycles(&arrows), BTreeSet::from([all]));
    let files = modules.arrows(|path| Some(modules.0[path].file.clone()));
    assert_eq!(files["c/mod"].keys().collect::<Vec<_>>(), ["b/deep"]);
    assert_eq!(files["b/deep"].keys().collect::<Vec<_>>(), ["a"]);
    let inside: Vec<_> =
        modules.child_arrows().map(|(parent, arrows)| (parent.join("/"), arrows.len())).collect();
    assert_eq!(inside, [(String::new(), 3), ("b".to_owned(), 1)]);
    assert!(modules.arrows_below(&["b".to_owned()])["other"].contains_key("deep"));
}
