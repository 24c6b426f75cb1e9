//! Concurrent calls: they run at the same time, but writers of one file take turns.

use std::time::Duration;

use futures::future::join_all;
use serde_json::json;

use crate::site::{Site, kind};

#[tokio::test(flavor = "multi_thread")]
async fn calls_run_at_the_same_time() {
    let site = Site::new();
    // each waits for all others, so running them in sequence would never end
    let command = |n: usize| {
        format!("touch at{n}; until [ -e at0 -a -e at1 -a -e at2 -a -e at3 ]; do sleep 0.01; done")
    };
    let calls = (0..4).map(|n| {
        let args = json!({ "command": command(n), "timeout": 60_000 });
        let site = &site;
        async move { site.run("bash", &args).await }
    });
    let outputs = tokio::time::timeout(Duration::from_secs(60), join_all(calls)).await;
    for output in outputs.expect("they wait for each other") {
        assert_eq!((kind(&output).as_str(), output.output.as_str()), ("", "(no output)"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn writers_of_one_file_lose_nothing() {
    let slots: String = (0..40).map(|n| format!("slot {n:02} empty\n")).collect();
    let site = Site::with(&[("f", slots.as_bytes())]);
    let calls = (0..40).map(|n| {
        let (old, new) = (format!("slot {n:02} empty"), format!("slot {n:02} taken"));
        let args = match n % 3 {
            0 => json!({ "filePath": "f", "oldString": old, "newString": new }),
            1 => json!({ "filePath": "./f", "edits": [{ "oldString": old, "newString": new }] }),
            _ => json!({ "patchText": format!(
                "*** Begin Patch\n*** Update File: f\n@@\n-{old}\n+{new}\n*** End Patch"
            ) }),
        };
        let name = ["edit", "multiedit", "apply_patch"][n % 3];
        let site = &site;
        async move { site.run(name, &args).await }
    });
    for output in join_all(calls).await {
        assert_eq!(kind(&output), "", "{}", output.output);
    }
    let text = site.text("f");
    assert_eq!((text.matches("taken").count(), text.matches("empty").count()), (40, 0), "{text}");
}
