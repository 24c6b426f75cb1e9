//! A plugin of OpenCode behind the server: its `client` reaches the server that runs it. Skipped if npm cannot install
//! OpenCode's SDK or a Node that runs the plugin.

use std::fs;

use common::peers::{Peers, with_node};
use common::{Site, bash, says, script, wait_until};
use serde_json::{Value, json};

use crate::client::Served;

/// Writes down the messages of each session that has come to rest, and the kinds of events.
const PLUGIN: &str = r#"
import fs from "node:fs"
const kinds = new Set<string>()
export const Clerk = async ({ client, directory }: any) => ({
  event: async ({ event }: any) => {
    kinds.add(event.type)
    if (event.type !== "session.idle") return
    const { data } = await client.session.messages({ path: { id: event.properties.sessionID } })
    const texts = data.map(({ info, parts }: any) => [info.role, parts.find((it: any) => it.type === "text")?.text])
    fs.writeFileSync(`${directory}/new`, JSON.stringify({ texts, kinds: [...kinds] }))
    fs.renameSync(`${directory}/new`, `${directory}/heard`)
  },
})
"#;

#[test]
fn a_plugin_of_opencode_uses_the_server_that_runs_it() {
    let Some(peers) = Peers::with_opencode_plugins() else { return };
    let site = Site::scripted(&script(json!([bash("echo one"), says("Hello.")])));
    let site = with_node(site, peers.node());
    let folder = site.path("config/opencode");
    fs::create_dir_all(folder.join("plugin")).unwrap();
    std::os::unix::fs::symlink(peers.folder().join("node_modules"), folder.join("node_modules"))
        .unwrap();
    fs::write(folder.join("plugin/clerk.ts"), PLUGIN).unwrap();
    let served = Served::start(&site);
    let session = served.session();
    served.prompt(&session, "go");
    wait_until("the plugin has asked", || site.project().join("heard").exists());
    let heard: Value = serde_json::from_str(&site.text("heard")).unwrap();
    assert_eq!(heard["texts"][0], json!(["user", "go"]));
    assert_eq!(heard["texts"].as_array().unwrap().last().unwrap()[1], "Hello.");
    let kinds = heard["kinds"].to_string();
    for kind in ["session.created", "message.updated", "message.part.updated", "session.idle"] {
        assert!(kinds.contains(kind), "{kind}: {kinds}");
    }
    served.end();
}
