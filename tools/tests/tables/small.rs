//! `todowrite` and `todoread`, and calls of no tool (`invalid`).

use leftfold_events::event::TodoItem;
use serde_json::{Value, json};

use crate::site::{Site, kind, meta};

fn item(content: &str, status: &str, priority: &str) -> Value {
    json!({ "content": content, "status": status, "priority": priority })
}

fn kept(todos: Option<Vec<TodoItem>>) -> Value {
    serde_json::to_value(todos.unwrap()).unwrap()
}

#[tokio::test]
async fn the_list_is_replaced_as_a_whole() {
    let site = Site::new();
    for (given, expected, open) in [
        (json!([]), json!([]), 0),
        (json!([item("a", "pending", "high")]), json!([item("a", "pending", "high")]), 1),
        (json!([item("a", "in_progress", "low")]), json!([item("a", "in_progress", "low")]), 1),
        (json!([item("a", "completed", "medium")]), json!([item("a", "completed", "medium")]), 0),
        (json!([item("a", "cancelled", "medium")]), json!([item("a", "cancelled", "medium")]), 0),
        // the priority is optional, and unknown fields are dropped
        (
            json!([{ "content": "a", "status": "pending" }]),
            json!([item("a", "pending", "medium")]),
            1,
        ),
        (
            json!([{ "id": "7", "content": "a", "status": "pending", "priority": "low" }]),
            json!([item("a", "pending", "low")]),
            1,
        ),
        // in order, with duplicates
        (
            json!([
                item("b", "pending", "low"),
                item("a", "completed", "low"),
                item("b", "pending", "low")
            ]),
            json!([
                item("b", "pending", "low"),
                item("a", "completed", "low"),
                item("b", "pending", "low")
            ]),
            2,
        ),
        (json!([item("", "pending", "low")]), json!([item("", "pending", "low")]), 1),
        (json!([item("ü\n\0", "pending", "low")]), json!([item("ü\n\0", "pending", "low")]), 1),
    ] {
        let output = site.run("todowrite", &json!({ "todos": given })).await;
        assert_eq!((kept(output.todos.clone()), kind(&output).as_str()), (expected.clone(), ""));
        assert_eq!(
            (meta(&output, "todos"), meta(&output, "open")),
            (expected.clone(), json!(open))
        );
        assert_eq!(output.title, format!("{open} todos open"));
        let mut cx = site.context();
        cx.todos = output.todos.unwrap();
        let read = leftfold_tools::run(&site.resolve("todoread", &json!({})), cx).await;
        assert_eq!(serde_json::from_str::<Value>(&read.output).unwrap(), expected);
        assert_eq!((meta(&read, "open"), read.todos), (json!(open), None));
    }
}

#[tokio::test]
async fn a_list_that_is_none_changes_nothing() {
    let site = Site::new();
    for (given, said) in [
        (json!({}), "missing field `todos`"),
        (json!({ "todos": null }), "`todos`"),
        (json!({ "todos": {} }), "`todos`"),
        (json!({ "todos": ["a"] }), "`todos[0]`"),
        (json!({ "todos": [{ "content": "a" }] }), "`todos[0]`: missing field `status`"),
        (json!({ "todos": [{ "status": "pending" }] }), "`todos[0]`: missing field `content`"),
        (json!({ "todos": [item("a", "done", "low")] }), "unknown variant `done`"),
        (json!({ "todos": [item("a", "Pending", "low")] }), "unknown variant `Pending`"),
        (json!({ "todos": [item("a", "", "low")] }), "`todos[0].status`"),
        (json!({ "todos": [item("a", "pending", "urgent")] }), "`todos[0].priority`"),
        (
            json!({ "todos": [item("a", "pending", "low"), { "content": 7, "status": "pending" }] }),
            "`todos[1].content`",
        ),
    ] {
        let output = site.run("todowrite", &given).await;
        assert_eq!((kind(&output).as_str(), output.todos.is_none()), ("invalid_arguments", true));
        assert!(output.output.contains(said), "{given}: {}", output.output);
    }
}

#[tokio::test]
async fn a_call_of_no_tool_names_the_tools_there_are() {
    let site = Site::new();
    for name in
        ["raed", "", "read_file", "invalid", "read\0", "../read", "读", &"x".repeat(100_000)]
    {
        let output = site.run(name, &json!({ "filePath": "f" })).await;
        assert_eq!(kind(&output), "unknown_tool", "{name:.20}");
        assert!(output.output.contains("The tools are: read, write, edit,"), "{}", output.output);
        assert!(!output.output.contains(", invalid"), "it is no tool for models");
        assert!(site.resolve(name, &json!({})).access.is_empty());
    }
    let said = site.run(&"x".repeat(100_000), &json!({})).await.output;
    assert!(said.len() < 2_000, "{}", said.len());
    for (name, meant) in [("Read", "read"), (" GREP\n", "grep"), ("TodoRead", "todoread")] {
        assert_eq!(site.resolve(name, &json!({})).name, meant);
    }
}
