//! The file: markup, style and script of the front end, and the data as blocks of JSON.
//!
//! Nothing in the data can become markup or code: each `<` in it is written as an escape of JSON (a packed block has
//! none), and the page's policy allows exactly one script and one style, by their hashes, and no connection.

use std::fmt::Write;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use miniz_oxide::deflate::compress_to_vec_zlib;
use sha2::{Digest, Sha256};

use crate::Run;

/// The bytes of data in which everything can be read and searched with other programs. More is packed: the
/// data has many words for each byte of a short event.
const LARGE: usize = 1 << 20;
/// How hard to pack, from 0 to 10.
const LEVEL: u8 = 6;

const MARKUP: &str = include_str!("../web/page.html");
const STYLE: &str = include_str!("../web/page.css");

/// The name of the page that a server shows, for [`file`].
pub const LIVE: &str = "live.html";

/// The modules that an exported page has, each after those that it imports.
const MODULES: [(&str, &str); 20] = [
    ("dom.js", include_str!("../web/dom.js")),
    ("text.js", include_str!("../web/text.js")),
    ("patch.js", include_str!("../web/patch.js")),
    ("source.js", include_str!("../web/source.js")),
    ("run.js", include_str!("../web/run.js")),
    ("time_scale.js", include_str!("../web/time_scale.js")),
    ("lanes.js", include_str!("../web/lanes.js")),
    ("virtual_list.js", include_str!("../web/virtual_list.js")),
    ("timeline.js", include_str!("../web/timeline.js")),
    ("diff.js", include_str!("../web/diff.js")),
    ("event_list.js", include_str!("../web/event_list.js")),
    ("event_panel.js", include_str!("../web/event_panel.js")),
    ("request_panel.js", include_str!("../web/request_panel.js")),
    ("state_panel.js", include_str!("../web/state_panel.js")),
    ("decisions_panel.js", include_str!("../web/decisions_panel.js")),
    ("context_panel.js", include_str!("../web/context_panel.js")),
    ("compare_panel.js", include_str!("../web/compare_panel.js")),
    ("summary_panel.js", include_str!("../web/summary_panel.js")),
    ("page.js", include_str!("../web/page.js")),
    ("main.js", include_str!("../web/main.js")),
];

/// Files that only a server has.
const OF_SERVER: [(&str, &str); 6] = [
    (LIVE, include_str!("../web/live.html")),
    ("page.css", STYLE),
    ("server_source.js", include_str!("../web/server_source.js")),
    ("operations.js", include_str!("../web/operations.js")),
    ("overview.js", include_str!("../web/overview.js")),
    ("live.js", include_str!("../web/live.js")),
];

/// A file of the page that a server shows: the same modules, which read from the server.
pub fn file(name: &str) -> Option<&'static str> {
    let mut files = OF_SERVER.iter().chain(&MODULES);
    files.find(|(known, _)| *known == name).map(|(_, text)| *text)
}

/// The page of a run as one file.
pub fn page(run: &Run) -> String {
    let script = joined();
    let mut page =
        String::from("<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n");
    let _ = writeln!(
        page,
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; script-src {}; \
         style-src {}; img-src data:; base-uri 'none'; form-action 'none'\">",
        source(&script),
        source(STYLE)
    );
    let _ = write!(page, "<style>{STYLE}</style>\n{MARKUP}");
    let block = |name: String| run.block(&name).map(|json| (name, json));
    let blocks: Vec<(String, String)> = run.names().into_iter().filter_map(block).collect();
    let is_large = blocks.iter().map(|(_, json)| json.len()).sum::<usize>() > LARGE;
    for (name, json) in blocks {
        let _ = writeln!(page, "{}", element(&name, &json, is_large));
    }
    let _ = write!(page, "<script type=\"module\">{script}</script>\n</body>\n</html>\n");
    page
}

/// A block of data as an element, which is no script for the browser.
fn element(name: &str, json: &str, is_packed: bool) -> String {
    if !is_packed {
        let json = json.replace('<', "\\u003c");
        return format!("<script type=\"application/json\" id=\"{name}\">{json}</script>");
    }
    let packed = BASE64_STANDARD.encode(compress_to_vec_zlib(json.as_bytes(), LEVEL));
    format!("<script type=\"application/zlib\" id=\"{name}\">{packed}</script>")
}

/// The modules as one script. A file opened from a disk cannot import others, so the lines that
/// import are left out, and names are exported to nobody. Names of a module are unique in all.
fn joined() -> String {
    let mut script = String::new();
    for (name, module) in MODULES {
        let _ = writeln!(script, "\n// {name}");
        for line in module.lines().filter(|line| !line.starts_with("import ")) {
            let _ = writeln!(script, "{}", line.strip_prefix("export ").unwrap_or(line));
        }
    }
    script
}

/// An inline script or style as the policy names it.
fn source(text: &str) -> String {
    format!("'sha256-{}'", BASE64_STANDARD.encode(Sha256::digest(text)))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// A script that ends early would end in the middle of the file.
    #[test]
    fn nothing_in_the_front_end_ends_its_element() {
        for text in [STYLE, &joined()] {
            for end in ["</script", "</style", "<!--"] {
                assert!(!text.contains(end), "{end}");
            }
        }
    }

    #[test]
    fn modules_come_after_those_that_they_import() {
        let mut known = BTreeSet::new();
        for (name, module) in MODULES {
            for line in module.lines().filter(|line| line.starts_with("import ")) {
                let from = line.split("\"./").nth(1).and_then(|from| from.strip_suffix('"'));
                let from = from.unwrap_or_else(|| panic!("{name}: {line}"));
                assert!(known.contains(from), "{name} imports {from} before it is there");
            }
            known.insert(name);
        }
    }
}
