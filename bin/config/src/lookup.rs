//! What is meant by a dotted path that a person types.

use super::error::{Hint, nearest};
use super::inventory::{Inventory, Item};
use super::tree::below;
use super::{keys, provider};

impl Inventory {
    /// The values at and under `wanted`, with or without brackets around odd names; none if it is
    /// a setting that nobody has set.
    ///
    /// # Errors
    /// There is no such setting; says which is nearest.
    pub fn find(&self, wanted: &str) -> Result<Vec<&Item>, String> {
        let steps = steps(wanted);
        let exact: Vec<&Item> =
            self.items.iter().filter(|item| item.path.starts_with(&steps)).collect();
        if !exact.is_empty() {
            return Ok(exact);
        }
        let plain = format!("{}.", steps.join("."));
        let under = |item: &&Item| format!("{}.", item.path.join(".")).starts_with(&plain);
        let loose: Vec<&Item> = self.items.iter().filter(under).collect();
        match self.unknown(wanted, &steps) {
            Some(error) if loose.is_empty() => Err(error),
            Some(_) | None => Ok(loose),
        }
    }

    /// What is wrong with the first step that leads nowhere.
    fn unknown(&self, wanted: &str, steps: &[String]) -> Option<String> {
        let (at, names) = (0..steps.len())
            .map(|at| (at, self.names(&steps[..at])))
            .find(|(at, names)| !names.contains(&steps[*at]))?;
        let parent = steps[..at].iter().fold(String::new(), |parent, key| below(&parent, key));
        let elsewhere = || {
            let last = steps.last()?;
            self.items
                .iter()
                .find(|item| item.path.last() == Some(last))
                .map(|item| item.key.clone())
        };
        let begun = || names.iter().find(|name| name.starts_with(&steps[at])).map(String::as_str);
        let near = nearest(&steps[at], &names).or_else(begun).map(|name| below(&parent, name));
        let hint = match near.or_else(elsewhere) {
            Some(near) => Hint::exactly(&near),
            None => Hint::toward(&steps[at], names.iter().map(|name| below(&parent, name))),
        };
        Some(format!("`{wanted}` is no setting here{hint}"))
    }

    /// The keys that there are, or could be, at a path.
    fn names(&self, parent: &[String]) -> Vec<String> {
        let path: Vec<&str> = parent.iter().map(String::as_str).collect();
        let known = match path[..] {
            ["provider", _, "options"] => provider::OPTIONS.to_vec(),
            _ => keys::at(&path).unwrap_or_default(),
        };
        let mut names: Vec<String> = known.into_iter().map(str::to_owned).collect();
        for item in self.items.iter().filter(|item| item.path.starts_with(parent)) {
            if let Some(name) = item.path.get(parent.len()).filter(|name| !names.contains(name)) {
                names.push(name.clone());
            }
        }
        names
    }
}

/// `a.b["c d"][0]` cut into its keys. What is not closed is part of a name.
fn steps(text: &str) -> Vec<String> {
    let mut steps = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        let (step, after) = bracket(rest).unwrap_or_else(|| {
            let rest = rest.strip_prefix('.').unwrap_or(rest);
            let bracket = rest.match_indices('[').map(|(at, _)| at);
            let bracket = bracket.filter(|at| self::bracket(&rest[*at..]).is_some()).min();
            let end = rest.find('.').into_iter().chain(bracket).min().unwrap_or(rest.len());
            (rest[..end].to_owned(), &rest[end..])
        });
        steps.push(step);
        rest = after;
    }
    steps.retain(|step| !step.is_empty());
    steps
}

/// `["name"]` or `[0]`, and what follows.
fn bracket(text: &str) -> Option<(String, &str)> {
    let inside = text.strip_prefix('[')?;
    if inside.starts_with('"') {
        let mut names = serde_json::Deserializer::from_str(inside).into_iter::<String>();
        let name = names.next()?.ok()?;
        return Some((name, inside[names.byte_offset()..].strip_prefix(']')?));
    }
    let (index, after) = inside.split_once(']')?;
    index.bytes().all(|byte| byte.is_ascii_digit()).then(|| (index.to_owned(), after))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_cut_into_keys() {
        for (text, expected) in [
            ("", &[][..]),
            ("retry", &["retry"]),
            ("retry.attempts", &["retry", "attempts"]),
            ("retry.", &["retry"]),
            (r#"permission.bash["git *"]"#, &["permission", "bash", "git *"]),
            (r#"a["b.c"].d"#, &["a", "b.c", "d"]),
            (r#"a["b\"]"].d"#, &["a", "b\"]", "d"]),
            ("plugin[1][0]", &["plugin", "1", "0"]),
            ("plugin.1", &["plugin", "1"]),
            ("a[b", &["a[b"]),
            ("a[\"b", &["a[\"b"]),
            ("permission.bash.git *", &["permission", "bash", "git *"]),
            ("é.ü", &["é", "ü"]),
        ] {
            assert_eq!(steps(text), expected, "{text}");
        }
    }
}
