//! OpenCode's web app in Chromium: `opencode serve` has its files, and `leftfold serve --web` forwards
//! to it. Skipped if npm cannot install OpenCode, or if there is no Chromium.

use std::path::Path;
use std::process::{Command, Stdio};

use common::Live;
use common::browser::chromium;
use common::peers::Peers;
use serde_json::{Value, json};

use crate::client::Served;
use crate::opencode;
use crate::proxy::Proxy;

#[test]
fn the_web_app() {
    let Some(chromium) = chromium() else { return };
    let Some(peers) = Peers::with_opencode() else { return };
    // the app offers agents only if there is one of the user's own
    let scout =
        json!({ "mode": "primary", "description": "Looks around", "prompt": "Look around." });
    let site = opencode::site().setting("/agent", json!({ "scout": scout }));
    let mut files = Live::start(peers.run_opencode(&site, &["serve", "--port", "0"]));
    // the first line is a warning
    let web = std::iter::from_fn(|| files.line())
        .find_map(|line| Some(line.split_once(" listening on ")?.1.trim().to_owned()))
        .expect("OpenCode says where it listens");
    let serve =
        |port: &str| Served::from_command(site.command(&["serve", "--port", port, "--web", &web]));
    let mut server = serve("0");
    let port = server.port.to_string();

    let folder = site.path("browser");
    std::fs::create_dir(&folder).unwrap();
    let steps = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/peers/opencode/web.mjs");
    let mut command = Command::new(peers.node());
    command.arg(steps).arg(chromium).arg(&folder);
    let proxy = Proxy::to(server.port);
    command.arg(format!("http://127.0.0.1:{}", proxy.port)).arg(site.project());
    command.env("HOME", &folder).stdin(Stdio::piped());
    let mut client = Live::start(command);
    let mut input = client.input();
    let (mut passed, mut failed, mut done) = (Vec::new(), Vec::new(), Value::Null);
    while let Some(line) = client.line() {
        let said: Value = serde_json::from_str(&line).unwrap_or_else(|_| panic!("{line}"));
        if said["restart"] == true {
            server.kill();
            server = serve(&port);
            std::io::Write::write_all(&mut input, b"go on\n").unwrap();
        } else if said["cut"] == true {
            proxy.cut_while_the_turn_ends(&server);
            std::io::Write::write_all(&mut input, b"go on\n").unwrap();
        } else if said["error"].is_string() {
            failed.push(said);
        } else if said["done"].is_boolean() {
            done = said;
        } else {
            passed.push(said["step"].clone());
        }
    }
    if let Some(keep) = std::env::var_os("LEFTFOLD_SCREENSHOTS") {
        for shot in std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()) {
            if shot.is_file() {
                std::fs::copy(&shot, Path::new(&keep).join(shot.file_name().unwrap())).unwrap();
            }
        }
    }
    assert!(failed.is_empty() && done["done"] == true, "passed: {passed:?}\n{failed:#?}\n{done:#}");
    assert_eq!(done["refused"], json!([]), "{done:#}");
    server.end();
}
