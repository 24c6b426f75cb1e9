//! The hostile repository in a server: what clients and the page ask of it starts nothing of the project.

use common::Live;
use common::hostile::{site, untouched};
use rustix::process::Signal;
use serde_json::json;

use crate::client::Served;

#[test]
fn a_server_and_a_page_start_nothing_of_a_strangers_repository() {
    let (site, listener) = site();
    let server = Served::start(&site);
    let session = server.session();
    let answer = server.prompt(&session, "Hello").to_string();
    untouched(&site, &listener, &answer);
    for path in [
        "/vcs",
        "/vcs/status",
        "/vcs/diff",
        "/file?path=.",
        "/file/status",
        "/find?pattern=KEY",
        "/find/file?query=srv",
        "/mcp",
        "/agent",
        "/command",
        "/config",
        "/lsp",
        "/formatter",
        &format!("/session/{session}/message"),
        &format!("/session/{session}/diff"),
    ] {
        let answered = server.get(path);
        assert!(answered.status < 500, "{path}: {answered:?}");
        untouched(&site, &listener, &answered.body);
    }
    let shell = json!({ "agent": "build", "command": "ls" });
    let ran = server.post(&format!("/session/{session}/shell"), shell);
    untouched(&site, &listener, &ran.body);
    server.end();
    let mut page: Live = site.start(&["view", "last", "--no-open"]);
    let address = page.line().unwrap();
    page.signal(Signal::TERM);
    page.wait();
    untouched(&site, &listener, &address);
}
