//! Clients that generators make from `/doc`, in TypeScript and in Python.

use std::process::{Command, Stdio};

use common::peers::Peers;
use common::{Site, script};
use serde_json::{Value, json};

use crate::client::Served;

fn served() -> (Site, Served) {
    let usage = json!({ "input": 10, "output": 5 });
    let site =
        Site::scripted(&script(json!([{ "parts": [{ "text": "Hello." }], "usage": usage }])));
    let server = Served::start(&site);
    std::fs::write(site.path("api.json"), server.get("/doc").ok().to_string()).unwrap();
    (site, server)
}

/// The output of a command in the site's folder.
fn said(command: &mut Command, site: &Site) -> String {
    let ran = command.current_dir(site.path("")).stdin(Stdio::null()).output().unwrap();
    let text = String::from_utf8_lossy(&ran.stdout).into_owned();
    assert!(ran.status.success(), "{command:?}: {text}{}", String::from_utf8_lossy(&ran.stderr));
    text
}

/// Checks the report of a script that has used a client.
fn check(report: &str) {
    let report: Value = serde_json::from_str(report).unwrap_or_else(|_| panic!("{report}"));
    let expected = json!({
        "first": "server.connected",
        "title": "Typed",
        "reply": ["Hello."],
        "streamed": "Hello.",
        "messages": [["user", "go"], ["assistant", "Hello."]],
        "tokens": [0, 5],
        "missing": "there is no session `ses_x`",
    });
    assert_eq!(report, expected);
}

fn source(name: &str) -> std::path::PathBuf {
    common::root().join("tests/peers/openapi").join(name)
}

#[test]
fn a_client_in_typescript() {
    let Some(peers) = Peers::with_generator() else { return };
    let (site, server) = served();
    for name in ["use.ts", "tsconfig.json"] {
        std::fs::copy(source(name), site.path(name)).unwrap();
    }
    std::fs::write(site.path("package.json"), r#"{ "type": "module" }"#).unwrap();
    let config = json!({
        "input": "api.json",
        "output": { "path": "client", "importFileExtension": ".js" },
        "plugins": ["@hey-api/client-fetch", "@hey-api/typescript", "@hey-api/sdk"],
    });
    let config = format!("export default {config}");
    std::fs::write(site.path("generate.mjs"), config).unwrap();
    said(peers.command("openapi-ts").args(["--file", "generate.mjs"]), &site);
    said(&mut peers.command("tsc"), &site);
    let url = format!("http://127.0.0.1:{}", server.port);
    check(&said(Command::new(peers.node()).args(["use.js", &url]), &site));
    server.end();
}

#[test]
fn a_client_in_python() {
    let Some(python) = common::python::installed("tests/peers/openapi") else { return };
    let (site, server) = served();
    std::fs::write(site.path("generate.yml"), "post_hooks: []\n").unwrap();
    let mut generate = Command::new(&python);
    generate.args([
        "-m", "openapi_python_client", "generate", "--path", "api.json", "--meta", "none",
        "--fail-on-warning",
    ]);
    said(generate.args(["--config", "generate.yml", "--output-path", "client"]), &site);
    let url = format!("http://127.0.0.1:{}", server.port);
    let mut using = Command::new(&python);
    using.env("PYTHONPATH", site.path("")).arg(source("use.py")).arg(url);
    check(&said(&mut using, &site));
    server.end();
}
