//! Language servers, in sessions: what the model, clients and people learn from them, and what a bad one can do.

use common::language_server::{double, serve_if_asked};
use common::peers::Peers;
use common::{Site, all, bash, call, says, script, skipped, sleeping, wait_until};
use rustix::process::Signal;
use serde_json::{Value, json};

const SERVER: &str = "language_servers::serves";

/// The server that settings of these tests start.
#[test]
fn serves() {
    serve_if_asked();
}

/// A trusted project with a server of this manner.
fn served(site: Site, manner: &str) -> Site {
    let settings = json!({ "lsp": { "stub": double(SERVER, manner) } });
    site.file("leftfold.json", settings.to_string());
    site
}

fn written(site: &Site, name: &str, text: &str) -> Value {
    let args = json!({ "filePath": name, "content": text }).to_string();
    let ran = site.run(&["tool", "write", "--args", &args]).ok();
    serde_json::from_str(&ran.stdout).unwrap()
}

fn write(name: &str, text: &str) -> Value {
    call("write", json!({ "filePath": name, "content": text }))
}

#[test]
fn the_model_learns_of_the_errors_that_it_has_made_and_mends_them() {
    let mend = json!({ "filePath": "a.x", "oldString": "ERROR one", "newString": "one" });
    let turn = json!([
        write("a.x", "fine\nERROR one\nWARN two\n"),
        { "match": { "result": "2:1 ERROR one [stub]" }, "parts": call("edit", mend)["parts"] },
        { "match": { "result": "1 line added, 1 removed." }, "parts": says("Done.")["parts"] },
    ]);
    // one that publishes nothing of use, and is asked through its commands
    for (sandboxed, manner) in [(false, ""), (true, ""), (false, "typescript")] {
        let site = Site::scripted(&script(&turn));
        let site = served(if sandboxed { site.sandboxed() } else { site.unsandboxed() }, manner);
        let events = site.prompt("go").ok().events();
        let finished = all(&events, "tool.finished");
        let [first, second] = [0, 1].map(|at| &finished[at]["data"]);
        let path = site.project().join("a.x").display().to_string();
        let output = first["output"].as_str().unwrap();
        assert!(
            output.contains(&format!("<diagnostics file={path:?}>\n2:1 ERROR one [stub]\n")),
            "{output}"
        );
        assert!(output.ends_with("(1 warning or hint not shown.)"), "{output}");
        let errors = &first["metadata"]["diagnostics"][&path];
        assert_eq!(errors[0]["range"]["start"], json!({ "line": 1, "character": 0 }));
        assert_eq!((&errors[0]["severity"], errors.as_array().unwrap().len()), (&json!(1), 1));
        assert_eq!(second["metadata"]["diagnostics"][&path], json!([]), "{second}");
        assert!(!second["output"].as_str().unwrap().contains("<diagnostics"), "{second}");
        assert_eq!(
            site.text("language-server").lines().next(),
            Some(&*format!("started {manner}"))
        );
        // a replay needs no server
        std::fs::remove_file(site.project().join("language-server")).unwrap();
        site.assert_sound();
        assert_eq!(site.text("language-server"), "");
    }
}

#[test]
fn every_tool_that_writes_is_followed_by_diagnostics() {
    let site = served(Site::bare(), "pull");
    site.file("a.x", "one\n");
    site.file("b.x", "one\n");
    let patch = "*** Begin Patch\n*** Update File: a.x\n@@\n-one\n+ERROR p\n*** Add File: c.x\n+ERROR c\n*** Delete File: b.x\n*** End Patch";
    for (tool, args, said) in [
        ("write", json!({ "filePath": "a.x", "content": "ERROR w\n" }), &["1:1 ERROR w"][..]),
        (
            "edit",
            json!({ "filePath": "a.x", "oldString": "ERROR w", "newString": "ERROR e" }),
            &["ERROR e"],
        ),
        (
            "multiedit",
            json!({ "filePath": "a.x", "edits": [{ "oldString": "ERROR e", "newString": "one" }, { "oldString": "one", "newString": "one\nERROR m" }] }),
            &["2:1 ERROR m"],
        ),
        ("write", json!({ "filePath": "a.x", "content": "one\n" }), &[]),
        ("apply_patch", json!({ "patchText": patch }), &["ERROR p", "ERROR c"]),
    ] {
        let ran = site.run(&["tool", tool, "--args", &args.to_string()]).ok();
        let output: Value = serde_json::from_str(&ran.stdout).unwrap();
        for said in said {
            assert!(output["output"].as_str().unwrap().contains(said), "{tool}: {output}");
        }
        assert!(output["metadata"]["diagnostics"].is_object(), "{tool}: {output}");
    }
}

#[test]
fn no_server_of_a_project_starts_without_trust() {
    let settings = json!({ "lsp": { "stub": double(SERVER, "") } });
    let site = Site::bare();
    site.file_of_stranger("leftfold.json", settings.to_string());
    // the user's own settings turn servers on, but say nothing about this project
    let own = Site::bare().setting("/lsp", settings["lsp"].clone());
    for site in [&site, &own] {
        let output = written(site, "a.x", "ERROR one\n");
        assert_eq!(output["metadata"]["diagnostics"], Value::Null, "{output}");
        let found = site.run(&["lsp"]).ok().stdout;
        assert!(found.starts_with("all language servers are off: "), "{found}");
        let refused = site.run(&["lsp", "check", "a.x"]).with(2).stderr;
        assert!(refused.contains("no language server checks files here"), "{refused}");
        assert_eq!(site.text("language-server"), "", "it was started");
        let asked = json!({ "operation": "hover", "filePath": "a.x", "line": 1, "character": 1 });
        let ran = site.run(&["tool", "lsp", "--args", &asked.to_string()]).with(1);
        assert!(ran.stdout.contains("No language server is in force here"), "{}", ran.stdout);
    }
    let found = own.run(&["doctor"]).stdout;
    assert!(
        found.contains("they need an `lsp` in the project's own settings that you trust"),
        "{found}"
    );
    let found = site.run(&["doctor"]).stdout;
    assert!(
        found.contains("`lsp` of the project is left out: it starts language servers"),
        "{found}"
    );
    site.trust(&site.project());
    let output = written(&site, "b.x", "ERROR one\n");
    assert!(output["output"].as_str().unwrap().contains("1:1 ERROR one"), "{output}");
}

#[test]
fn a_bad_server_is_named_and_costs_a_turn_two_seconds_at_most() {
    for (manner, said) in [
        ("hung", "has not checked everything yet"),
        ("silent", "has not checked everything yet"),
        ("crash", "cannot be used: it has ended"),
        ("flood", "has"),
        ("huge", "cannot be used: it has written a message of more than 16777216 bytes"),
        (
            "junk",
            "cannot be used: it has written something else than a message: \"this is a log, not a message\"",
        ),
    ] {
        let turn = json!([
            write("a.x", "ERROR one\n"),
            write("b.x", "ERROR two\n"),
            write("c.x", "ERROR three\n"),
            says("Done."),
        ]);
        let site = served(Site::scripted(&script(&turn)).unsandboxed(), manner);
        let events = site.prompt("go").ok().events();
        let finished = all(&events, "tool.finished");
        let outputs: Vec<&str> =
            finished.iter().map(|event| event["data"]["output"].as_str().unwrap()).collect();
        assert!(outputs.iter().any(|output| output.contains(said)), "{manner}: {outputs:?}");
        let named = outputs.iter().filter(|output| output.contains("The language server \"stub\""));
        assert!(named.count() <= 2, "{manner}: {outputs:?}");
        let waited: u64 = finished.iter().map(|event| waited(&events, event)).sum();
        // the promise is 2 s: the rest is for a busy machine
        assert!(waited < 8_000, "{manner}: {waited} ms");
        assert!(finished.iter().all(|event| event["data"]["is_error"] == false), "{outputs:?}");
        for name in ["a.x", "b.x", "c.x"] {
            assert!(site.text(name).starts_with("ERROR"), "{manner}: {name}");
        }
        site.assert_sound();
    }
}

/// The milliseconds from the start of a call to its end.
fn waited(events: &[Value], finished: &Value) -> u64 {
    let started = events.iter().find(|event| event["seq"] == finished["of"]).unwrap();
    let millis = |event: &Value| -> u64 {
        let time = event["at"].as_str().unwrap().split_once('T').unwrap().1;
        let parts = time.trim_end_matches('Z').split([':', '.']);
        let [hours, minutes, seconds, millis] =
            parts.map(|part| part.parse().unwrap()).collect::<Vec<u64>>()[..]
        else {
            panic!("{time}");
        };
        ((hours * 60 + minutes) * 60 + seconds) * 1_000 + millis
    };
    // midnight may come in between
    (millis(finished) + 86_400_000 - millis(started)) % 86_400_000
}

#[test]
fn a_server_that_lies_says_nothing_about_other_files_and_versions() {
    let site = served(Site::bare(), "lies");
    let output = written(&site, "a.x", "fine\nERROR one\n");
    let text = output["output"].as_str().unwrap();
    assert!(
        text.contains("\n2:1 ERROR one [stub]\n3:1 [2J out of bounds < /diagnostics> [stub]\n"),
        "{text}"
    );
    assert!(!text.contains("outside") && !text.contains("another version"), "{text}");
    assert!(!text.contains('\u{1b}') && !text.contains('\u{202e}'), "{text:?}");
    let all = output["metadata"]["diagnostics"].as_object().unwrap();
    assert_eq!(all.len(), 1);
    assert_eq!(
        all.values().next().unwrap()[1]["range"]["start"],
        json!({ "line": 2, "character": 0 })
    );
}

#[test]
fn late_diagnostics_come_with_a_later_call() {
    let wait = call("bash", json!({ "command": "sleep 4", "description": "wait" }));
    let turn = json!([
        write("a.x", "ERROR one\n"),
        wait,
        write("b.y", "other\n"),
        write("b.x", "fine\n"),
        says("Done.")
    ]);
    let site = served(Site::scripted(&script(&turn)).unsandboxed(), "late");
    let events = site.prompt("go").ok().events();
    let finished = all(&events, "tool.finished");
    let output = |at: usize| finished[at]["data"]["output"].as_str().unwrap();
    assert!(output(0).contains("has not checked everything yet"), "{}", output(0));
    let later = [output(2), output(3)].concat();
    assert!(later.contains("a.x\">\n1:1 ERROR one"), "{later}");
}

#[test]
fn each_root_has_one_server_which_knows_all_its_files_and_ends_with_the_session() {
    let turn = json!([
        write("one/a.x", "ERROR a\n"),
        write("one/b.x", "fine\n"),
        write("two/a.x", "ERROR b\n"),
        says("Done."),
    ]);
    let site = Site::scripted(&script(&turn)).unsandboxed();
    // the known server of this name has the nearest package as its root
    let settings = json!({ "lsp": { "rust": double(SERVER, "") } });
    site.file("leftfold.json", settings.to_string());
    for folder in ["one", "two"] {
        site.file(&format!("{folder}/Cargo.toml"), "[package]\nname = \"a\"\n");
    }
    let events = site.prompt("go").ok().events();
    let finished = all(&events, "tool.finished");
    let [_, second, third] = [0, 1, 2].map(|at| finished[at]["data"]["output"].as_str().unwrap());
    let other = site.project().join("one/a.x").display().to_string();
    let said = format!("(Errors in other files: 1, in 1 of them: {other}.)");
    assert!(second.contains(&said), "{second}");
    assert!(third.contains("1:1 ERROR b") && !third.contains("other files"), "{third}");
    for folder in ["one", "two"] {
        let notes = site.text(&format!("{folder}/language-server"));
        assert_eq!(notes, "started \nended\n", "{folder}");
    }
}

#[test]
fn people_see_which_servers_are_in_force_and_can_check_a_file() {
    let site = Site::bare();
    let mut all = json!({ "lsp": { "stub": double(SERVER, "") } });
    all["lsp"]["rust"] = json!({ "disabled": true });
    all["lsp"]["gone"] = json!({ "command": ["no-such-server"], "extensions": [".g"] });
    all["lsp"]["mine"] = json!({ "command": ["sh"] });
    all["lsp"]["none"] = json!({ "extensions": [".n"] });
    site.file("leftfold.json", all.to_string());
    let found = site.run(&["lsp"]).ok().stdout;
    for said in [
        "rust  off: settings disable it  (.rs)",
        "gone  off: no-such-server is not installed  (.g)",
        "`lsp.mine` has no `extensions`",
        "`lsp.none` has no `command`",
        "stub  in force",
    ] {
        assert!(found.contains(said), "{said}: {found}");
    }
    let json = site.run(&["lsp", "--format", "json"]).ok().stdout;
    let stub = json.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let stub = stub.into_iter().find(|server| server["id"] == "stub").unwrap();
    assert_eq!((&stub["status"], &stub["extensions"]), (&json!("in force"), &json!([".x"])));
    let found = site.run(&["doctor"]).stdout;
    for said in [
        "gone: off, because no-such-server is not installed",
        "rust: off, because settings disable it",
        "off, because they are not installed: ",
    ] {
        assert!(found.contains(said), "{said}: {found}");
    }
    site.file("a.x", "fine\nERROR one\nWARN two\n");
    let path = site.project().join("a.x").display().to_string();
    let ran = site.run(&["lsp", "check", "a.x"]).with(1);
    assert_eq!(
        ran.stdout,
        format!("{path}:2:1 error: ERROR one [stub]\n{path}:3:1 warning: WARN two [stub]\n")
    );
    let ran = site.run(&["lsp", "check", "--format", "json", "a.x"]).with(1);
    let checked: Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!((&checked["errors"], &checked["others"]), (&json!(1), &json!(1)));
    assert_eq!(checked["diagnostics"][0]["line"], 2);
    site.file("b.x", "fine\n");
    let ran = site.run(&["lsp", "check", "b.x"]).ok();
    assert!(ran.stdout.ends_with("b.x has no errors\n"), "{}", ran.stdout);
    site.file("c.y", "");
    site.run(&["lsp", "check", "c.y"]).with(2).saying(&["no language server is in force for"]);
    site.run(&["lsp", "check", "no"]).with(2);
}

#[test]
fn the_settings_of_a_server_are_checked() {
    for (settings, parts) in [
        (json!("x"), &["`lsp`", "an object or a boolean"][..]),
        (json!({ "a": { "command": [] } }), &["`lsp.a.command`", "the program"]),
        (json!({ "a": { "comand": ["x"] } }), &["`lsp.a.comand`", "`command`"]),
    ] {
        let site = Site::bare().setting("/lsp", settings);
        site.run(&["lsp"]).with(2).saying(parts);
    }
}

#[test]
fn the_model_can_ask_a_server_about_code() {
    let ask = |operation: &str| {
        call("lsp", json!({ "operation": operation, "filePath": "a.x", "line": 1, "character": 3 }))
    };
    let turn = json!([
        ask("hover"),
        ask("goToDefinition"),
        ask("documentSymbol"),
        ask("findReferences"),
        says("Done."),
    ]);
    let site = served(Site::scripted(&script(&turn)), "");
    site.file("a.x", "😀b\n tail\n");
    let events = site.prompt("go").ok().events();
    let finished = all(&events, "tool.finished");
    let output = |at: usize| finished[at]["data"]["output"].as_str().unwrap();
    let path = site.project().join("a.x").display().to_string();
    // the third character begins at the fourth unit of UTF-16
    assert_eq!(output(0), "type at 0:3");
    assert_eq!(output(1), format!("{path}:2:2"));
    assert_eq!(output(2), "The language server finds nothing for documentSymbol.");
    assert!(output(3).contains("stub does not offer findReferences"), "{}", output(3));
}

#[test]
fn a_killed_node_leaves_no_server_behind() {
    for is_sandboxed in [false, true] {
        let nap = format!("{}.77{}", 200_000 + std::process::id(), u8::from(is_sandboxed));
        let turn = json!([
            { "match": { "prompt": "next" }, "parts": says("The end.")["parts"] },
            write("a.x", "one\n"),
            call("bash", json!({ "command": "sleep 50", "description": "wait" })),
        ]);
        let site = Site::scripted(&script(&turn));
        let site = if is_sandboxed { site.sandboxed() } else { site.unsandboxed() };
        let site = served(site, &format!("deaf {nap}"));
        let live = site.start(&["run", "--yes", "--format", "json", "go"]);
        wait_until("the server runs", || sleeping(&nap) == 1);
        live.signal(Signal::KILL);
        live.wait();
        if !is_sandboxed {
            assert_eq!(sleeping(&nap), 1, "it ends neither with its input nor by itself");
            site.run(&["run", "--yes", "next"]).ok();
        }
        wait_until("the server is gone", || sleeping(&nap) == 0);
    }
}

/// Checks a project with a server that others have made.
fn checks(site: &Site, file: &str, broken: &str, right: &str, said: &str) {
    site.file(file, broken);
    let ran = site.run(&["lsp", "check", file]).with(1);
    assert!(ran.stdout.contains(said), "{}", ran.stdout);
    site.file(file, right);
    let ran = site.run(&["lsp", "check", file]).ok();
    assert!(ran.stdout.contains("has no errors"), "{}", ran.stdout);
}

/// A model that asks a server about `file`, breaks it, and mends it only once a result names the error.
fn mending(file: &str, right: &str, broken: &str, said: &str) -> Value {
    let question = json!({ "operation": "documentSymbol", "filePath": file });
    let edit = |from: &str, to: &str| {
        call("edit", json!({ "filePath": file, "oldString": from, "newString": to }))
    };
    script(json!([
        { "match": { "result": said }, "parts": edit(broken, right)["parts"] },
        // a server that is late on a busy machine shows the error with the next file that is written
        { "match": { "result": "has not checked everything yet" },
          "parts": bash("sleep 10; echo waited")["parts"] },
        { "match": { "result": "waited" }, "parts": write("notes.txt", "waited\n")["parts"] },
        { "match": { "result": "1 line added, 1 removed." }, "parts": says("Done.")["parts"] },
        call("read", json!({ "filePath": file })),
        call("lsp", question),
        edit(right, broken),
    ]))
}

/// Runs that model in the project, and expects that it has mended the file in the step after the error.
fn mends(site: &Site, file: &str, said: &str) {
    let right = site.text(file);
    let events = site.prompt("go").ok().events();
    let finished = all(&events, "tool.finished");
    let outputs: Vec<&str> =
        finished.iter().map(|event| event["data"]["output"].as_str().unwrap()).collect();
    let path = site.project().join(file).display().to_string();
    let [.., reported, mended] = outputs[..] else { panic!("{outputs:?}") };
    assert!(
        reported.contains(&format!("<diagnostics file={path:?}>")) && reported.contains(said),
        "{outputs:?}"
    );
    assert!(!mended.contains("<diagnostics"), "{outputs:?}");
    assert_eq!(site.text(file), right);
    let last = &finished.last().unwrap()["data"]["metadata"]["diagnostics"];
    assert!(last[&path].is_null() || last[&path] == json!([]), "{last}");
    // a replay needs no server
    site.assert_sound();
}

/// A trusted project in which programs from npm are found.
fn with_npm(site: Site, setting: &Value) -> Option<Site> {
    let peers = Peers::with_language_servers()?;
    let site = site.sandboxed();
    std::os::unix::fs::symlink(
        peers.folder().join("node_modules"),
        site.project().join("node_modules"),
    )
    .unwrap();
    // the packages may stand below `/tmp`, which the sandbox hides
    let site = site.setting("sandbox/show", json!([peers.folder().parent()]));
    let path = peers.path().into_string().unwrap();
    let site = site.env("PATH", path);
    site.file("leftfold.json", json!({ "lsp": setting }).to_string());
    Some(site)
}

#[test]
fn pyright_checks_files_in_the_sandbox() {
    let Some(site) = with_npm(Site::bare(), &json!(true)) else { return };
    let right = "count: int = 1\n";
    checks(
        &site,
        "a.py",
        "count: int = \"one\"\n",
        right,
        "a.py:1:14 error: Type \"Literal['one']\" is not assignable",
    );
}

#[test]
fn typescript_checks_files_in_the_sandbox() {
    let Some(site) = with_npm(Site::bare(), &json!(true)) else { return };
    site.file("tsconfig.json", r#"{ "compilerOptions": { "strict": true, "types": [] } }"#);
    let right = "const count: number = 1;\nexport { count };\n";
    let broken = "const count: number = \"one\";\nexport { count };\n";
    checks(
        &site,
        "a.ts",
        broken,
        right,
        "a.ts:1:7 error: Type 'string' is not assignable to type 'number'",
    );
}

#[test]
fn a_model_mends_the_error_that_pyright_finds_in_its_change() {
    let said = "Type \"int\" is not assignable to declared type \"str\"";
    let [right, broken] = ["str(total([1, 2]))", "total([1, 2])  # shown"];
    let script = mending("shop.py", right, broken, said);
    let Some(site) = with_npm(Site::scripted(&script), &json!(true)) else { return };
    site.file("pyproject.toml", "[tool.pyright]\ntypeCheckingMode = \"strict\"\n");
    site.file("prices.py", "def total(prices: list[int]) -> int:\n    return sum(prices)\n");
    site.file("shop.py", "from prices import total\n\nshown: str = str(total([1, 2]))\n");
    mends(&site, "shop.py", said);
}

#[test]
fn a_model_mends_the_error_that_typescript_finds_in_its_change() {
    let said = "Type 'number' is not assignable to type 'string'";
    let [right, broken] = ["String(total([1, 2]))", "total([1, 2]) /* shown */"];
    let script = mending("shop.ts", right, broken, said);
    let Some(site) = with_npm(Site::scripted(&script), &json!(true)) else { return };
    site.file("tsconfig.json", r#"{ "compilerOptions": { "strict": true, "types": [] } }"#);
    let total = "prices.reduce((sum, price) => sum + price, 0)";
    let prices = format!("export const total = (prices: number[]): number => {total};\n");
    site.file("prices.ts", prices);
    let shop = "import { total } from \"./prices\";\n\nexport const shown: string = String(total([1, 2]));\n";
    site.file("shop.ts", shop);
    mends(&site, "shop.ts", said);
}

#[test]
fn rust_analyzer_checks_files_in_the_sandbox() {
    let home = std::env::var("HOME").unwrap();
    let rustup = std::env::var("RUSTUP_HOME").unwrap_or(format!("{home}/.rustup"));
    let works = std::process::Command::new("rust-analyzer").arg("--version").output();
    if !works.is_ok_and(|output| output.status.success()) {
        return skipped("the programs of Rust's toolchain are not installed: rust-analyzer");
    }
    let site = Site::bare()
        .sandboxed()
        .env("RUSTUP_HOME", &rustup)
        .setting("/environment", json!(["RUSTUP_HOME"]));
    site.file("leftfold.json", r#"{ "lsp": true }"#);
    site.file("Cargo.toml", "[package]\nname = \"a\"\nversion = \"0.1.0\"\nedition = \"2021\"\n");
    let right = "pub fn one() -> u32 {\n    1\n}\n";
    checks(
        &site,
        "src/lib.rs",
        "pub fn one() -> u32 {\n    \"one\"\n}\n",
        right,
        "lib.rs:2:5 error: ",
    );
}

#[test]
fn gopls_checks_files_in_the_sandbox() {
    let works = std::process::Command::new("gopls").arg("version").output();
    if !works.is_ok_and(|output| output.status.success()) {
        return skipped("the programs of Go's toolchain are not installed: gopls");
    }
    let site = Site::bare().sandboxed();
    site.file("leftfold.json", r#"{ "lsp": true }"#);
    site.file("go.mod", "module shop\n\ngo 1.19\n");
    site.file(
        "prices/prices.go",
        "package prices\n\nfunc Total(all []int) int { return len(all) }\n",
    );
    let main = |shown: &str| {
        format!(
            "package main\n\nimport \"shop/prices\"\n\nvar shown {shown} = prices.Total(nil)\n\nfunc main() {{ println(shown) }}\n"
        )
    };
    checks(
        &site,
        "main.go",
        &main("string"),
        &main("int"),
        "main.go:5:20 error: cannot use prices.Total",
    );
}
