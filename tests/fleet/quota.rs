//! Quotas of projects count the sessions of all nodes of a database.

use common::postgres::shared;
use common::{Editor, Live, Ran, Site, says, script};
use serde_json::json;

use crate::http_client::Served;
use crate::url;

#[test]
fn a_quota_counts_the_sessions_of_all_nodes() {
    let Some(cluster) = shared() else { return };
    let paid = |text: &str| {
        let mut reply = says(text);
        reply["usage"] = json!({ "input": 1_000 });
        reply
    };
    let url = url(cluster);
    let site = Site::scripted(&script(json!([paid("One."), paid("Two.")])))
        .setting("provider/double/models/m/cost", json!({ "input": 1_000 }))
        .setting("quota", json!({ "*": { "sessions_per_day": 3, "cost_per_day": 2 } }))
        .env("LEFTFOLD_STORE", url.clone());
    site.run(&["fleet", "init"]).ok();
    let command = |home: &str, args: &[&str]| {
        let mut command = site.command(args);
        command.env("LEFTFOLD_HOME", site.path(home));
        command
    };
    let run = |home: &str, args: &[&str]| -> Ran { Live::start(command(home, args)).wait() };

    let mut owner = Editor::from_command(command("a", &["node"]));
    let initialized = owner.ask("initialize", json!({ "protocolVersion": 1 }));
    owner.result(initialized);
    let owned = owner.session(&site);
    let prompt = owner.prompt(&owned, "First.");
    assert_eq!(owner.stop_reason(prompt), "end_turn");
    let other = run("b", &["run", "--format", "json", "Second."]).ok();
    let other = crate::session_of(&other);

    // each node knows what the other one has used; the owner of a session refuses what comes through its inbox
    let used = "cost $2.00 of $2.00 (`quota.*.cost_per_day` in LEFTFOLD_CONFIG_CONTENT";
    run("b", &["run", "Third."]).with(4).saying(&[used]);
    run("b", &["run", "--session", &owned, "Third."]).with(4).saying(&[used]);
    let prompt = owner.prompt(&owned, "Third.");
    assert_eq!(owner.error(prompt)["code"], -32602);
    let server = Served::from_command(command("c", &["serve", "--port", "0"]));
    let session = server.session();
    let parts = json!({ "parts": [{ "type": "text", "text": "Third." }] });
    let answered = server.post(&format!("/session/{session}/message"), parts);
    assert_eq!(answered.status, 429);
    let body = answered.json();
    assert_eq!(body["name"], "QuotaReached");
    assert!(body["data"]["message"].as_str().unwrap().contains(used), "{body}");

    // a command of a person costs nothing
    let shell = json!({ "agent": "build", "command": "echo it runs" });
    let ran = server.post(&format!("/session/{session}/shell"), shell);
    assert_eq!(ran.status, 200, "{ran:?}");
    assert!(ran.body.contains("it runs"), "{ran:?}");

    // to remove a session gives nothing back
    run("b", &["sessions", "rm", &other]).ok();
    run("b", &["run", "Third."]).with(4).saying(&["3 of 3 sessions of today have begun"]);
    // on the next day
    let schema = url.rsplit_once("schema=").unwrap().1;
    cluster.logs(&format!(
        "update {schema}.session set last_day = last_day - 1, first_prompt = first_prompt - 1"
    ));
    run("b", &["run", "Third."]).ok();
    owner.leave();
    server.end();
}
