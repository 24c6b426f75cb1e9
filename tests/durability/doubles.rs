//! The plugin and the MCP server of the corpus: this test program, started again for one of these
//! tests alone. Started as a test, each checks that its double is found and answers.

use common::corpus::scenario;
use common::{mcp, plugin};

#[test]
fn the_plugin_answers() {
    plugin::serve_if_asked();
    let listed = scenario("plugins").site.run(&["plugins", "--format", "json"]).ok();
    assert!(listed.stdout.contains("running"), "{}", listed.stdout);
}

#[test]
fn the_server_answers() {
    mcp::serve_if_asked();
    let listed = scenario("mcp").site.run(&["mcp", "--format", "json"]).ok();
    assert!(listed.stdout.contains("connected"), "{}", listed.stdout);
}
