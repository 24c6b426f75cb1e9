//! Arguments against the schemas: every tool refuses wrong arguments in equal words that
//! name the field, and does nothing.

use serde_json::{Value, json};

use crate::site::{Site, kind};

/// Valid arguments, with every field.
pub(crate) fn right(tool: &str) -> Value {
    match tool {
        "read" => json!({ "filePath": "f", "offset": 1, "limit": 1 }),
        "write" => json!({ "filePath": "f", "content": "x" }),
        "edit" => {
            json!({ "filePath": "f", "oldString": "a", "newString": "b", "replaceAll": false })
        }
        "multiedit" => json!({ "filePath": "f", "edits": [
            { "oldString": "a", "newString": "b", "replaceAll": true }
        ] }),
        "apply_patch" => {
            json!({ "patchText": "*** Begin Patch\n*** Delete File: f\n*** End Patch" })
        }
        "glob" => json!({ "pattern": "*", "path": "." }),
        "grep" => json!({ "pattern": "a", "path": ".", "include": "*", "ignoreCase": false }),
        "bash" => {
            json!({ "command": "true", "timeout": 1000, "workdir": ".", "description": "none" })
        }
        "batch" => json!({ "tool_calls": [{ "tool": "read", "parameters": { "filePath": "f" } }] }),
        "question" => json!({ "questions": [{
            "question": "Which?", "header": "A choice", "multiple": false,
            "options": [{ "label": "this", "description": "or that" }],
        }] }),
        "todowrite" => {
            json!({ "todos": [{ "content": "a", "status": "pending", "priority": "low" }] })
        }
        "webfetch" => json!({ "url": "https://example.com/", "format": "text", "timeout": 1 }),
        "websearch" | "codesearch" => json!({ "query": "a", "numResults": 1 }),
        "skill" => json!({ "name": "s" }),
        "task" => json!({
            "description": "Look", "prompt": "Look around.", "subagent_type": "general", "task_id": "t",
        }),
        "lsp" => json!({
            "operation": "documentSymbol", "filePath": "f", "line": 1, "character": 1, "query": "a",
        }),
        "todoread" | "plan_enter" | "plan_exit" => json!({}),
        other => panic!("what are right arguments of {other}?"),
    }
}

pub(crate) fn site() -> Site {
    let site = Site::with(&[("f", b"a\n")]);
    site.file(".leftfold/skills/s/SKILL.md", "---\nname: s\ndescription: A skill.\n---\nBody.\n");
    site
}

/// Places in arguments (JSON pointers), each with its schema and whether it is required.
pub(crate) fn fields(schema: &Value, at: &str, found: &mut Vec<(String, Value, bool)>) {
    let required: Vec<&str> =
        schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    for (name, of) in schema["properties"].as_object().into_iter().flatten() {
        let place = format!("{at}/{name}");
        found.push((place.clone(), of.clone(), required.contains(&name.as_str())));
        match of["type"].as_str() {
            Some("array") => fields(&of["items"], &format!("{place}/0"), found),
            _ => fields(of, &place, found),
        }
    }
}

fn unfit(schema: &Value, required: bool) -> Vec<Value> {
    let mut unfit = match schema["type"].as_str() {
        Some("integer") => vec![
            json!("x"),
            json!(""),
            json!(-1),
            json!(1.5),
            json!(1e300),
            json!("-1"),
            json!(true),
            json!([]),
            json!({}),
        ],
        Some("boolean") => vec![json!("x"), json!(7), json!([]), json!({})],
        Some("array") => {
            vec![json!("x"), json!(7), json!(true), json!({}), json!([7]), json!([[]])]
        }
        Some("object") => vec![json!("x"), json!(7), json!(true), json!([1])],
        _ => vec![
            json!(7),
            json!(1e300),
            json!(true),
            json!([]),
            json!(["x"]),
            json!({}),
            json!({ "x": 1 }),
        ],
    };
    if schema.get("enum").is_some() || schema.get("oneOf").is_some() {
        unfit.extend([json!("x"), json!("")]);
    }
    if required {
        unfit.push(Value::Null);
    }
    unfit
}

/// Checks that the tool refuses the wrong `args` and names `field`.
async fn assert_refused(site: &Site, tool: &str, args: &Value, field: &str) {
    let resolved = site.resolve(tool, args);
    let Some(error) = resolved.error else { panic!("{tool} takes {args}") };
    let start = format!("The {tool} tool was called with invalid arguments: ");
    assert!(error.starts_with(&start), "{tool} {args}: {error}");
    assert!(
        error.ends_with(". Rewrite the input so it satisfies the expected schema."),
        "{tool} {args}: {error}"
    );
    assert!(error.contains(field), "{tool} {args}: no {field} in {error}");
    assert!(resolved.access.is_empty() && resolved.paths.is_empty());
    let output = site.run(tool, args).await;
    assert_eq!((kind(&output).as_str(), output.output), ("invalid_arguments", error));
}

#[tokio::test]
async fn every_field_of_every_schema() {
    let site = site();
    let (before, mut rows) = (site.tree(), 0);
    for tool in leftfold_tools::model_tools() {
        let (name, right) = (tool.name(), right(tool.name()));
        assert_eq!(site.resolve(name, &right).error, None, "{name}");
        let mut found = Vec::new();
        fields(&tool.schema().value(), "", &mut found);
        for (place, schema, required) in found {
            let (parent, field) = place.rsplit_once('/').unwrap();
            assert!(right.pointer(&place).is_some(), "{name}: right arguments lack {place}");
            for value in unfit(&schema, required) {
                let mut args = right.clone();
                *args.pointer_mut(&place).unwrap() = value;
                assert_refused(&site, name, &args, field).await;
                rows += 1;
            }
            let mut args = right.clone();
            args.pointer_mut(parent).unwrap().as_object_mut().unwrap().remove(field);
            if required {
                assert_refused(&site, name, &args, &format!("missing field `{field}`")).await;
            } else {
                assert_eq!(site.resolve(name, &args).error, None, "{name} without {place}");
            }
        }
    }
    assert!(rows > 200, "{rows}");
    assert_eq!(site.tree(), before);
}

#[tokio::test]
async fn what_is_no_object_and_what_nobody_asked_for() {
    let site = site();
    let deep = (0..40).fold(json!(0), |inner, _| json!({ "a": [inner] }));
    for tool in leftfold_tools::model_tools() {
        let (name, right) = (tool.name(), right(tool.name()));
        for args in
            [json!([]), json!([right]), json!(7), json!(true), json!("{"), json!("[]"), json!("7")]
        {
            assert_refused(&site, name, &args, "").await;
        }
        let plain = site.resolve(name, &right);
        let mut more = right.clone();
        more.as_object_mut().unwrap().insert("nobody_asked".to_owned(), deep.clone());
        assert_eq!(site.resolve(name, &more), plain, "{name}");
        // an object in a string is that object
        assert_eq!(site.resolve(name, &json!(right.to_string())), plain, "{name}");
    }
}
