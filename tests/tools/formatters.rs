//! Formatters after edits, in sessions and in the sandbox.

use common::{Site, all, call, says, script};
use serde_json::{Value, json};

const WRITTEN: &str = "fn  main( ) { println!(\"a\") ; }\n";
const FORMATTED: &str = "fn main() {\n    println!(\"a\");\n}\n";

fn write(site: &Site, name: &str, text: &str) -> Value {
    let args = json!({ "filePath": name, "content": text }).to_string();
    let ran = site.run(&["tool", "write", "--args", &args]).ok();
    serde_json::from_str(&ran.stdout).unwrap()
}

/// A formatter of `.x` files by a shell script that gets the path as `$0`.
fn stub(script: &str) -> Value {
    json!({ "stub": { "command": ["sh", "-c", script, "$FILE"], "extensions": [".x"] } })
}

#[test]
fn the_model_learns_of_the_form_and_its_next_edit_fits() {
    let edit = json!({ "filePath": "a.rs", "oldString": "    println!(\"a\");", "newString": "    println!(  \"b\");" });
    let turn = json!([
        call("write", json!({ "filePath": "a.rs", "content": WRITTEN })),
        call("edit", edit),
        says("Done."),
    ]);
    // rustup keeps its settings in the home folder of the user who runs the tests
    let home = std::env::var("HOME").unwrap();
    let rustup = std::env::var("RUSTUP_HOME").unwrap_or(format!("{home}/.rustup"));
    let site = Site::scripted(&script(&turn))
        .sandboxed()
        .env("RUSTUP_HOME", &rustup)
        .setting("environment", json!(["RUSTUP_HOME"]))
        .setting("formatter", json!(true));
    let events = site.prompt("go").ok().events();
    let finished = all(&events, "tool.finished");
    let data = |at: usize| &finished[at]["data"];
    let [first, second] = [0, 1].map(|at| data(at)["output"].as_str().unwrap());
    assert!(
        first.contains("rustfmt has formatted ") && first.contains("\n+fn main() {\n"),
        "{first}"
    );
    assert!(second.contains("rustfmt has formatted "), "{second}");
    assert_eq!(data(1)["is_error"], false, "{second}");
    assert_eq!(site.text("a.rs"), FORMATTED.replace("\"a\"", "\"b\""));
    site.assert_sound();
}

#[test]
fn without_the_setting_files_stay_as_they_are_written() {
    let off = [json!(false), json!({ "rustfmt": { "disabled": true } })];
    let off = off.map(|value| Site::bare().setting("formatter", value));
    for site in off.into_iter().chain([Site::bare()]) {
        let output = write(&site, "a.rs", WRITTEN);
        assert_eq!(site.text("a.rs"), WRITTEN, "{output}");
        assert_eq!(output["metadata"]["formatted_by"], Value::Null);
    }
}

#[test]
fn a_formatter_of_the_user_runs_in_the_sandbox() {
    let home = Site::bare();
    let outside = home.path("outside");
    std::fs::create_dir(&outside).unwrap();
    let script = format!(
        "echo x > {0}/made; echo $NAMED $HIDDEN >> \"$0\"; echo \"${{SECRET_KEY-none}}\" >> \"$0\"",
        outside.display()
    );
    let mut formatter = stub(&script);
    formatter["stub"]["environment"] = json!({ "NAMED": "named-value" });
    let site = Site::bare()
        .sandboxed()
        .env("SECRET_KEY", "canary-0123456789")
        .setting("formatter", formatter);
    let output = write(&site, "a.x", "one\n");
    assert!(site.text("a.x").starts_with("one\nnamed-value"), "{output}");
    assert!(site.text("a.x").ends_with("\nnone\n"), "{}", site.text("a.x"));
    assert_eq!(output["metadata"]["formatted_by"], json!(["stub"]));
    assert_eq!(std::fs::read_dir(&outside).unwrap().count(), 0, "it has written outside");
}

#[test]
fn a_strangers_formatters_run_only_if_they_are_trusted() {
    let site = Site::bare();
    let settings = json!({ "formatter": stub("echo more >> \"$0\"") }).to_string();
    site.file_of_stranger("leftfold.json", settings);
    write(&site, "a.x", "one\n");
    assert_eq!(site.text("a.x"), "one\n");
    let found = site.run(&["doctor"]).stdout;
    assert!(found.contains("`formatter` of the project is left out: it runs programs"), "{found}");
    site.trust(&site.project());
    write(&site, "b.x", "one\n");
    assert_eq!(site.text("b.x"), "one\nmore\n");
    let found = site.run(&["doctor"]).stdout;
    assert!(found.contains("stub (.x)"), "{found}");
    // turning formatters off needs no trust
    let site = Site::bare();
    site.file_of_stranger("leftfold.json", r#"{ "formatter": false }"#);
    let config = site.run(&["config", "formatter"]).ok().stdout;
    assert!(config.contains("false") && config.contains("leftfold.json"), "{config}");
}

#[test]
fn the_settings_of_a_formatter_are_checked() {
    for (settings, parts) in [
        (json!("x"), &["`formatter`", "an object or a boolean"][..]),
        (json!({ "a": { "command": [] } }), &["`formatter.a.command`", "the program"]),
        (json!({ "a": { "comand": ["x"] } }), &["`formatter.a.comand`", "`command`"]),
    ] {
        let site = Site::bare().setting("formatter", settings);
        site.run(&["tool", "read", "--args", "{}"]).with(2).saying(parts);
    }
    for (settings, said) in [
        (json!({ "mine": { "extensions": [".x"] } }), "`formatter.mine` has no `command`"),
        (json!({ "mine": { "command": ["x"] } }), "`formatter.mine` has no `extensions`"),
        (
            json!({ "mine": { "command": ["sh", "{env:NOT_SET_ANYWHERE}"], "extensions": [".x"] } }),
            "NOT_SET_ANYWHERE",
        ),
        (json!({}), "rustfmt (.rs)"),
    ] {
        let found = Site::bare().setting("formatter", settings).run(&["doctor"]).stdout;
        assert!(found.contains(said), "{found}");
    }
    let found = Site::bare().run(&["doctor"]).stdout;
    assert!(found.contains("off, because settings do not turn them on"), "{found}");
}
