//! Suggests names similar to one that does not exist.

use std::path::Path;

use similar::TextDiff;

/// Most entries of a folder that are compared.
const LOOK_AT: usize = 5_000;

/// The message for a missing `path`, with up to three similar names in its folder.
pub(crate) fn missing(path: &Path) -> String {
    let shown = path.display();
    let (Some(folder), Some(name)) = (path.parent(), path.file_name().and_then(|n| n.to_str()))
    else {
        return format!("{shown} does not exist.");
    };
    if !folder.is_dir() {
        return format!("{shown} does not exist: there is no folder {}.", folder.display());
    }
    let similar = alike(folder, name);
    if similar.is_empty() {
        return format!("{shown} does not exist.");
    }
    let list: Vec<String> =
        similar.iter().map(|name| folder.join(name).display().to_string()).collect();
    format!("{shown} does not exist. Did you mean one of these?\n{}", list.join("\n"))
}

/// The similar names, best first.
fn alike(folder: &Path, name: &str) -> Vec<String> {
    let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
    let wanted = name.to_lowercase();
    let mut found: Vec<(f32, String)> = entries
        .take(LOOK_AT)
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .map(|entry| (likeness(&wanted, &entry.to_lowercase()), entry))
        .filter(|(likeness, _)| *likeness >= 0.6)
        .collect();
    found.sort_by(|(a, x), (b, y)| b.total_cmp(a).then_with(|| x.cmp(y)));
    found.into_iter().take(3).map(|(_, name)| name).collect()
}

/// The one of `names` that is similar enough to `wanted`.
pub(crate) fn nearest<'a>(wanted: &str, names: &[&'a str]) -> Option<&'a str> {
    // file names are at most this long, and comparing takes time
    let wanted = wanted.chars().take(255).collect::<String>().to_lowercase();
    let like = names.iter().map(|name| (likeness(&wanted, &name.to_lowercase()), *name));
    let best =
        like.filter(|(likeness, _)| *likeness >= 0.6).max_by(|(a, _), (b, _)| a.total_cmp(b));
    best.map(|(_, name)| name)
}

/// Similarity from 0 to 1.
fn likeness(wanted: &str, name: &str) -> f32 {
    let ratio = TextDiff::from_chars(wanted, name).ratio();
    let within = wanted.len() >= 3 && (name.contains(wanted) || wanted.contains(name));
    if within && name.len() >= 3 { ratio.max(0.8) } else { ratio }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Site;

    #[test]
    fn similar_names_are_suggested_best_first() {
        let site = Site::new();
        for name in ["README.md", "parser.rs", "parse.rs", "Cargo.toml", "z"] {
            site.file(name, "");
        }
        assert_eq!(alike(&site.path(""), "parsr.rs"), ["parser.rs", "parse.rs"]);
        assert_eq!(alike(&site.path(""), "readme"), ["README.md"]);
        assert!(alike(&site.path(""), "unlike-anything").is_empty());
        let text = missing(&site.path("no/such/file"));
        assert!(text.contains("there is no folder"), "{text}");
    }
}
