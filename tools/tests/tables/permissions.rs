//! The accesses that each kind of call asks rules about before it runs:
//! permission, patterns, and the patterns that "always" would allow.

use std::os::unix::fs::symlink;

use serde_json::{Value, json};

use crate::arguments::site;

const PATCH: &str =
    "*** Begin Patch\n*** Update File: f\n@@\n-a\n+b\n*** Add File: g/h\n+x\n*** End Patch";

/// Tool, arguments, and for each access `permission patterns > always`. `OUT` is a folder outside.
const ROWS: &[(&str, &str, &[&str])] = &[
    ("read", r#"{"filePath":"f"}"#, &["read f > f"]),
    ("read", r#"{"filePath":"./x/../f"}"#, &["read f > f"]),
    ("read", r#"{"filePath":"."}"#, &["read . > ."]),
    ("read", r#"{"filePath":"a/.env"}"#, &["read a/.env > a/.env"]),
    ("read", r#"{"filePath":"link"}"#, &["read f > f"]),
    (
        "read",
        r#"{"filePath":"OUT/x"}"#,
        &["external_directory OUT/* > OUT/*", "read OUT/x > OUT/x"],
    ),
    (
        "read",
        r#"{"filePath":"away/x"}"#,
        &["external_directory OUT/* > OUT/*", "read OUT/x > OUT/x"],
    ),
    ("read", r#"{"filePath":"OUT"}"#, &["external_directory OUT/* > OUT/*", "read OUT > OUT"]),
    ("write", r#"{"filePath":"f","content":""}"#, &["edit f > f"]),
    ("write", r#"{"filePath":"new/x","content":""}"#, &["edit new/x > new/x"]),
    (
        "write",
        r#"{"filePath":"OUT/x","content":""}"#,
        &["external_directory OUT/* > OUT/*", "edit OUT/x > OUT/x"],
    ),
    ("edit", r#"{"filePath":"f","oldString":"a","newString":"b"}"#, &["edit f > f"]),
    (
        "multiedit",
        r#"{"filePath":"f","edits":[{"oldString":"a","newString":"b"}]}"#,
        &["edit f > f"],
    ),
    // a name that would match other files as a rule
    ("read", r#"{"filePath":"a*b"}"#, &["read a*b > "]),
    ("read", r#"{"filePath":"a?b"}"#, &["read a?b > "]),
    ("write", r#"{"filePath":"*","content":""}"#, &["edit * > "]),
    (
        "write",
        r#"{"filePath":"OUT/d*/x","content":""}"#,
        &["external_directory OUT/d*/* > ", "edit OUT/d*/x > "],
    ),
    (
        "read",
        r#"{"filePath":"/no-such-file"}"#,
        &["external_directory /* > ", "read /no-such-file > /no-such-file"],
    ),
    ("glob", r#"{"pattern":"src/*.rs"}"#, &["glob src/*.rs > "]),
    ("glob", r#"{"pattern":"*.rs","path":"a"}"#, &["glob *.rs > "]),
    ("glob", r#"{"pattern":"*"}"#, &["glob * > *"]),
    ("grep", r#"{"pattern":"a","path":"a"}"#, &["grep a > "]),
    ("glob", r#"{"pattern":"**/*.rs"}"#, &["glob **/*.rs > **/*.rs"]),
    ("glob", r#"{"pattern":"*","path":"OUT"}"#, &["external_directory OUT/* > OUT/*", "glob * > "]),
    ("glob", r#"{"pattern":"OUT/*"}"#, &["external_directory OUT/* > OUT/*", "glob OUT/* > "]),
    ("grep", r#"{"pattern":"a"}"#, &["grep a > *"]),
    ("grep", r#"{"pattern":"a","path":".env"}"#, &["read .env > .env", "grep a > "]),
    ("grep", r#"{"pattern":"a","path":"OUT"}"#, &["external_directory OUT/* > OUT/*", "grep a > "]),
    ("bash", r#"{"command":"git status -s"}"#, &["bash git status -s > git status -s"]),
    ("bash", r#"{"command":"ls && rm x"}"#, &["bash ls, rm x > ls *, rm *", "edit x > x"]),
    (
        "bash",
        r#"{"command":"cat OUT/x"}"#,
        &["external_directory OUT/* > OUT/*", "bash cat OUT/x > cat *", "read OUT/x > OUT/x"],
    ),
    (
        "bash",
        r#"{"command":"ls","workdir":"OUT"}"#,
        &["external_directory OUT/* > OUT/*", "bash ls > ls *"],
    ),
    ("bash", r#"{"command":"$x"}"#, &["bash <dynamic> > ", "unreadable <dynamic> > "]),
    ("todowrite", r#"{"todos":[]}"#, &["todowrite * > *"]),
    ("todoread", "{}", &["todoread * > *"]),
    (
        "webfetch",
        r#"{"url":"https://example.com/a"}"#,
        &[
            "webfetch https://example.com/a > https://example.com/*",
            "host https://example.com/a > example.com",
        ],
    ),
    ("websearch", r#"{"query":" rust 2 * "}"#, &["websearch rust 2 * > *"]),
    ("codesearch", r#"{"query":"a"}"#, &["codesearch a > *"]),
    (
        "lsp",
        r#"{"operation":"hover","filePath":"f","line":1,"character":1}"#,
        &["read f > f", "lsp * > *"],
    ),
    ("skill", r#"{"name":"s"}"#, &["skill s > s"]),
    ("task", r#"{"prompt":"x","subagentType":"general"}"#, &["task general > general"]),
    (
        "question",
        r#"{"questions":[{"question":"A?"},{"question":"B?"}]}"#,
        &["question A? > ", "question B? > "],
    ),
    (
        "plan_enter",
        "{}",
        &[
            "plan_enter * > *",
            "question Switch to the agent `plan`, to plan before anything is changed? > ",
        ],
    ),
    (
        "plan_exit",
        "{}",
        &[
            "plan_exit * > *",
            "question The plan is ready. Switch to the agent `build`, and have it carried out? > ",
        ],
    ),
    // each entry is judged as a call of its own
    ("batch", r#"{"toolCalls":[{"tool":"bash","parameters":{"command":"rm x"}}]}"#, &[]),
];

#[test]
fn every_kind_of_call() {
    let site = site();
    symlink("f", site.path("link")).unwrap();
    symlink(site.outside(""), site.path("away")).unwrap();
    let out = site.outside("").to_string_lossy().trim_end_matches('/').to_owned();
    let mut wrong = Vec::new();
    for (tool, args, expected) in ROWS {
        let args: Value = serde_json::from_str(&args.replace("OUT", &out)).unwrap();
        let resolved = site.resolve(tool, &args);
        assert_eq!(resolved.error, None, "{tool} {args}");
        let access = resolved.access.iter().map(|access| {
            let [patterns, always] = [&access.patterns, &access.always].map(|list| list.join(", "));
            format!("{} {patterns} > {always}", access.permission).replace(&out, "OUT")
        });
        let access: Vec<String> = access.collect();
        if access != *expected {
            wrong.push(format!("{tool} {args}: {access:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    let patch = site.resolve("apply_patch", &json!({ "patchText": PATCH }));
    let [one] = patch.access.as_slice() else { panic!("one permission for all files: {patch:?}") };
    assert_eq!(
        (one.permission.as_str(), &one.patterns[..]),
        ("edit", &["f".into(), "g/h".into()][..])
    );
    assert_eq!(one.always, one.patterns, "the files of the patch and no others");
    // finds tools that this table has forgotten
    for tool in leftfold_tools::model_tools() {
        let there = ROWS.iter().any(|(name, ..)| *name == tool.name());
        assert!(there || tool.name() == "apply_patch", "no row for {}", tool.name());
    }
}
