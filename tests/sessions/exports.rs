//! `leftfold export` in the formats of other tools.

use common::{Site, says, script};
use serde_json::json;

use super::page::{Shown, sessions};

fn exported(site: &Site, format: &str) -> String {
    site.run(&["export", "last", "--format", format]).ok().stdout
}

#[test]
fn a_transcript_has_what_happened_and_no_more_markup_than_its_own() {
    let words = [
        ("plain", "```diff\n--- a/notes.txt"),
        ("parallel", "bash sleep 0.2; echo a</code>"),
        ("subagents", "# Subagent `"),
        ("crashed", "_Resumed after an interruption._"),
        ("compacted", "Summary of everything before"),
        ("denied", "Denied by the permission rules."),
        ("huge", "Once more."),
        ("reverted", "Session `"),
        ("hostile", "ghp_…[masked]"),
    ];
    for Shown { name, site, hides, .. } in sessions() {
        let text = exported(&site, "md");
        let (_, words) = words.iter().find(|(known, _)| *known == name).unwrap();
        assert!(text.contains(words), "{name}: {text}");
        for hidden in hides {
            assert!(!text.contains(hidden), "{name}: {hidden}");
        }
        let opened = text.lines().filter(|line| *line == "<details>").count();
        assert_eq!(text.lines().filter(|line| *line == "</details>").count(), opened, "{name}");
        let is_control = |c: char| c.is_control() && c != '\n' && c != '\t';
        assert!(!text.contains(is_control) && !text.contains('\u{202e}'), "{name}");
        assert_eq!(text, exported(&site, "md"), "{name}");
        assert_eq!(text.contains("Repair the notes."), name == "plain", "{name}");
    }
}

#[test]
fn formats_of_other_tools_are_always_masked() {
    let site = Site::scripted(&script(json!([says("Hello.")])));
    site.prompt("hi").ok();
    for format in ["md"] {
        for option in ["--unmasked", "--bundle"] {
            let ran = site.run(&["export", "last", "--format", format, option]);
            ran.with(2).saying(&["always masked"]);
        }
        let file = site.path("run.out");
        site.run(&["export", "last", "--format", format, "-o", file.to_str().unwrap()]).ok();
        assert_eq!(std::fs::read_to_string(file).unwrap(), exported(&site, format));
    }
}
