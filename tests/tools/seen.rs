//! An edit of a file that has changed since the model saw it is refused until the file is read
//! again, even across a restart of the node.

use common::{Site, all, bash, call, end, exists, says, script, wait_until};
use rustix::process::Signal;
use serde_json::{Value, json};

fn read() -> Value {
    call("read", json!({ "filePath": "f" }))
}

fn edit() -> Value {
    call("edit", json!({ "filePath": "f", "oldString": "two", "newString": "2" }))
}

/// For each edit the reason for its refusal, or null.
fn edits(events: &[Value]) -> Vec<Value> {
    let finished = all(events, "tool.finished").into_iter();
    let ours = finished.filter(|event| {
        let metadata = &event["data"]["metadata"];
        metadata["strategy"].is_string() || metadata["error_kind"] == "changed_on_disk"
    });
    ours.map(|event| event["data"]["metadata"]["error_kind"].clone()).collect()
}

#[test]
fn a_file_that_changed_has_to_be_read_again() {
    let theirs = bash("printf 'one\ntwo\nthree and theirs\n' > f");
    let site =
        Site::scripted(&script(json!([read(), theirs, edit(), read(), edit(), says("done")])));
    site.file("f", "one\ntwo\n");
    let events = site.prompt("go").ok().events();
    assert_eq!(end(&events)["text"], "done");
    assert_eq!(edits(&events), [json!("changed_on_disk"), Value::Null]);
    assert_eq!(site.text("f"), "one\n2\nthree and theirs\n");
    site.assert_sound();
}

#[test]
fn what_was_read_is_known_after_a_kill() {
    let wait = bash("touch ready; sleep 1000");
    let site = Site::scripted(&script(json!([read(), wait, edit(), read(), edit(), says("done")])));
    site.file("f", "one\ntwo\n");
    let live = site.start(&["run", "--format", "json", "go"]);
    wait_until("the command runs", || exists(&site.project().join("ready")));
    live.signal(Signal::KILL);
    live.wait();
    site.file("f", "one\ntwo\nthree and theirs\n");
    let resumed = site.run(&["resume", "--format", "json", "last"]).ok().events();
    assert_eq!(end(&resumed)["text"], "done");
    assert_eq!(edits(&resumed), [json!("changed_on_disk"), Value::Null]);
    assert_eq!(site.text("f"), "one\n2\nthree and theirs\n");
    site.assert_sound();
}
