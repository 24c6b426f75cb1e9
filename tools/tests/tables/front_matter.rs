//! Front matter of Markdown files, as skills, agents and commands have it.

use leftfold_front_matter::{Document, read};
use serde::Deserialize;

#[derive(Debug, Default, PartialEq, Deserialize)]
struct Front {
    name: Option<String>,
    description: Option<String>,
    steps: Option<u32>,
}

fn front(text: &str) -> (Option<String>, Option<String>, String) {
    let read: Document<'_, Front> = read(text).unwrap();
    (read.front.name, read.front.description, read.body.to_owned())
}

#[test]
fn heads_and_bodies() {
    for (text, name, description, body) in [
        ("---\nname: a\ndescription: b\n---\nbody\n", "a", "b", "body\n"),
        ("---\r\nname: a\r\ndescription: b\r\n---\r\nbody", "a", "b", "body"),
        ("\u{feff}---\nname: \"a\"\ndescription: 'it''s'\n---  \n", "a", "it's", ""),
        ("---\nname: a\ndescription: |\n  one\n  two\n---\n---\nx", "a", "one\ntwo\n", "---\nx"),
        ("---\nname: a\ndescription: >-\n  one\n  two\nother: [1, 2]\n---", "a", "one two", ""),
        ("---\n# only this\nname: a\ndescription: b # why\n---\n", "a", "b", ""),
        // lenient
        ("---\nname: a\ndescription: Use when: always\n---\n", "a", "Use when: always", ""),
        ("---\nname: a\ndescription: it's: so\n---\n", "a", "it's: so", ""),
        ("---\nname: a\ndescription: `code` first\n---\n", "a", "`code` first", ""),
    ] {
        let expected = (Some(name.to_owned()), Some(description.to_owned()), body.to_owned());
        assert_eq!(front(text), expected, "{text:?}");
    }
    for (text, body) in [("body", "body"), ("", ""), ("---\n---\nx", "x"), ("----\n", "----\n")] {
        assert_eq!(front(text), (None, None, body.to_owned()), "{text:?}");
    }
}

#[test]
fn what_is_broken_has_a_line() {
    let deep = format!("---\nx: {}\n---\n", "[".repeat(100_000));
    let many = |name: &str| vec![name; 30].join(", ");
    let (a, b) = (many("*a"), many("*b"));
    let bomb = format!(
        "---\na: &a [{}]\nb: &b [{a}]\nc: &c [{b}]\nd: [{}]\ne: [{}]\n---\n",
        many("x"),
        many("*c"),
        many("*c")
    );
    for (text, line, said) in [
        ("---\nname: a\n", 1, "`---`"),
        ("---\nname: a\nsteps: many\n---\n", 3, "u32"),
        ("---\nname: [a\n---\n", 2, ""),
        ("---\nname: a\nname: b\n---\n", 3, "duplicate"),
        ("---\n- a\n---\n", 2, ""),
        ("---\nname: a\n\tdescription: b\n---\n", 2, "tab"),
        ("---\na: 1\nb: [*none]\n---\n", 3, ""),
        (&deep, 2, ""),
        (&bomb, 5, ""),
    ] {
        let broken = read::<Front>(text).unwrap_err();
        assert_eq!(broken.line, line, "{text:?}: {broken}");
        assert!(broken.problem.contains(said) && !broken.problem.contains('\n'), "{broken}");
    }
}
