//! Settings of Claude Code in a project and of the user, as commands show them.

use common::Site;
use serde_json::Value;

const SERVERS: &str = r#"{
  "mcpServers": {
    "files": { "command": "sh", "args": ["-c", "exit 1"], "env": { "KEY": "${CANARY}" } }
  }
}"#;
const RULES: &str = r#"{
  "permissions": {
    "allow": ["Bash(npm run test:*)", "Edit(src/*.ts)"],
    "deny": ["Read(./key)"]
  },
  "hooks": { "PreToolUse": [] }
}"#;

fn findings(site: &Site) -> Vec<Value> {
    let found = site.run(&["doctor", "--format", "json"]).ok().stdout;
    found.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// The verdict, and the end of the place of the rule that decides.
fn verdict(site: &Site, permission: &str, pattern: &str) -> (String, String) {
    let said = site.run(&["permission", "check", permission, pattern]).ok().stdout;
    let said: Value = serde_json::from_str(&said).unwrap();
    let text = |key: &str| said[key].as_str().unwrap().to_owned();
    let place = text("source");
    let place = place.strip_prefix(site.path("").to_str().unwrap()).unwrap().to_owned();
    (text("action"), place)
}

#[test]
fn each_setting_has_its_file_and_line_and_counts_once_it_is_trusted() {
    let site = Site::bare().env("CANARY", "canary-0123456789");
    let site = site.env("ANTHROPIC_API_KEY", "sk-test-0123456789");
    let user = site.path("user/.claude/settings.json");
    std::fs::create_dir_all(user.parent().unwrap()).unwrap();
    std::fs::write(&user, r#"{"permissions": {"ask": ["Bash"]}}"#).unwrap();
    let servers = site.file_of_stranger(".mcp.json", SERVERS).display().to_string();
    let rules = site.file_of_stranger(".claude/settings.json", RULES).display().to_string();
    let check = |permission, pattern, action: &str, place: &str| {
        assert_eq!(verdict(&site, permission, pattern), (action.to_owned(), place.to_owned()));
    };
    let (of_user, of_project) = ("user/.claude/settings.json", "project/.claude/settings.json");
    check("bash", "npm run test unit", "ask", &format!("{of_user}:1:26"));
    check("read", "key", "deny", &format!("{of_project}:4:14"));
    let shown = site.run(&["trust", "--show"]).ok().stdout;
    for told in ["starts `sh` as an MCP server", "allows calls without asking", ".mcp.json:3:5"] {
        assert!(shown.contains(told), "{told}: {shown}");
    }
    site.trust(&site.project());
    check("bash", "npm run test unit", "allow", &format!("{of_project}:3:15"));
    check("bash", "npm run build", "ask", &format!("{of_user}:1:26"));
    check("read", "key", "deny", &format!("{of_project}:4:14"));
    let config = site.run(&["config", "--format", "json"]).ok().stdout;
    assert!(!config.contains("canary"), "{config}");
    let config: Value = serde_json::from_str(&config).unwrap();
    let source = |key: &str| {
        let values = config["values"].as_array().unwrap();
        let value = values.iter().find(|value| value["key"] == key);
        value.unwrap_or_else(|| panic!("{key}: {config:#}"))["source"].clone()
    };
    for (key, file, line) in [
        ("permission.bash[\"*\"]", user.to_str().unwrap(), 1),
        ("permission.bash[\"npm run test *\"]", &rules, 3),
        ("permission.edit.key", &rules, 4),
        ("mcp.files.command[2]", &servers, 3),
    ] {
        let source = source(key);
        assert_eq!((&source["file"], &source["line"]), (&file.into(), &line.into()), "{key}");
    }
    let found = findings(&site);
    for (status, told) in [
        ("ok", format!("{servers} (written for Claude Code)")),
        ("note", format!("{rules}: Leftfold does not use `hooks` (line 6)")),
        ("warning", format!("{rules}:3:39: the rule `Edit(src/*.ts)` is left out")),
    ] {
        let is_it = |finding: &&Value| {
            finding["status"] == status && finding["what"].as_str().unwrap().starts_with(&told)
        };
        assert!(found.iter().any(|finding| is_it(&finding)), "{told}: {found:#?}");
    }
}
