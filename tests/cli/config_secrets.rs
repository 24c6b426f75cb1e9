//! `leftfold config` shows whether secrets are set, and never their values.

use common::Site;
use serde_json::{Value, json};

fn config(site: &Site, args: &[&str]) -> Value {
    let ran = site.run(&[&["config", "--format", "json"], args].concat()).ok();
    assert!(ran.stderr.is_empty() && ran.stdout.ends_with("}\n"), "{ran:?}");
    serde_json::from_str(&ran.stdout).unwrap()
}

/// The only value of a key.
fn value<'a>(config: &'a Value, key: &str) -> &'a Value {
    let values = config["values"].as_array().unwrap();
    let found: Vec<&Value> = values.iter().filter(|value| value["key"] == key).collect();
    assert_eq!(found.len(), 1, "{key}: {found:?}");
    found[0]
}

fn keys(config: &Value) -> Vec<&str> {
    config["values"].as_array().unwrap().iter().map(|v| v["key"].as_str().unwrap()).collect()
}

const SECRETS: &str = r#"{
  "model": "p/m",
  "secrets": { "PLAIN": "hidden-1", "FROM": "{env:TOKEN}", "GONE": "{env:GONE}", "FILE": "{file:~/key}" },
  "provider": { "p": { "wire": "openai-chat",
    "options": { "apiKey": "{env:TOKEN}", "baseURL": "http://me:hidden-2@127.0.0.1/v1?api_key=hidden-3&v=1",
      "headers": { "Authorization": "Bearer {env:GONE}", "x-own": "hidden-4", "User-Agent": "me" },
      "secretAccessKey": "hidden-5", "organization": "{env:TOKEN}", "project": "{env:GONE}-x" },
    "models": { "m": { "headers": { "x-api-key": "hidden-6" }, "options": { "auth": { "a": ["hidden-7", 77177] } } } } } },
  "mcp": { "github-token": { "type": "local", "enabled": true,
    "command": ["serve", "--token", "hidden-8", "--key=hidden-9", "PASSWORD=hidden-10", "{env:TOKEN}"],
    "environment": { "PLAIN": "hidden-11" }, "url": "https://x/?token=hidden-12", "headers": { "h": "hidden-13" } } },
  "agent": { "a": { "prompt": "Say Bearer hidden-14-0123456 and {file:~/key}" } },
  "command": { "c": { "template": "curl --password hidden-15 sk-hidden-0123456789" } },
  "plugin": [["x", { "token": "hidden-16" }]],
  "server": { "password": "{file:~/key}" },
  "username": "{env:TOKEN}"
}"#;

fn with_secrets() -> Site {
    let site = Site::bare()
        .env("TOKEN", "hidden-t")
        .env("ANTHROPIC_API_KEY", "hidden-a")
        .env("ANTHROPIC_BASE_URL", "https://me:hidden-b@host");
    site.file("leftfold.json", SECRETS);
    std::fs::write(site.path("user/key"), "hidden-f\n").unwrap();
    site
}

#[test]
fn no_secret_is_ever_shown() {
    let site = with_secrets();
    let all = config(&site, &[]);
    let mut asked: Vec<&str> = keys(&all);
    asked.extend(["secrets", "provider", "mcp", "agent", "command", "plugin", "server", "zzz"]);
    for args in [&["config"][..], &["config", "--format", "json"]] {
        let ran = site.run(args).ok();
        assert!(!ran.stdout.contains("hidden") && !ran.stdout.contains("77177"), "{ran:?}");
    }
    for key in asked {
        let ran = site.run(&["config", key]);
        assert!(!ran.stdout.contains("hidden") && !ran.stderr.contains("hidden"), "{ran:?}");
    }
}

#[test]
fn whether_a_secret_is_set_and_where_it_comes_from_is_told() {
    let site = with_secrets();
    let all = config(&site, &[]);
    for (key, set, references) in [
        ("secrets.PLAIN", true, Value::Null),
        ("secrets.FROM", true, json!([{ "env": "TOKEN", "set": true }])),
        ("secrets.GONE", false, json!([{ "env": "GONE", "set": false }])),
        ("secrets.FILE", true, json!([{ "file": "~/key" }])),
        ("provider.p.options.apiKey", true, json!([{ "env": "TOKEN", "set": true }])),
        (
            "provider.p.options.headers.Authorization",
            false,
            json!([{ "env": "GONE", "set": false }]),
        ),
        ("provider.p.options.headers.x-own", true, Value::Null),
        ("provider.p.models.m.options.auth.a[1]", true, Value::Null),
        (
            "provider.anthropic.options.apiKey",
            true,
            json!([{ "env": "ANTHROPIC_API_KEY", "set": true }]),
        ),
        ("mcp.github-token.command[2]", true, Value::Null),
        ("mcp.github-token.environment.PLAIN", true, Value::Null),
        ("agent.a.prompt", true, json!([{ "file": "~/key" }])),
    ] {
        let found = value(&all, key);
        assert_eq!(
            (&found["value"], &found["secret"]["set"]),
            (&Value::Null, &json!(set)),
            "{key}"
        );
        assert_eq!(found["references"], references, "{key}");
    }
    for (key, expected) in [
        ("provider.p.options.baseURL", "http://***@127.0.0.1/v1?api_key=***&v=1"),
        ("provider.p.options.headers.User-Agent", "me"),
        ("provider.p.options.organization", "{env:TOKEN}"),
        ("provider.anthropic.options.baseURL", "https://***@host"),
        ("mcp.github-token.command[0]", "serve"),
        ("mcp.github-token.command[3]", "--key=***"),
        ("mcp.github-token.command[4]", "PASSWORD=***"),
        ("mcp.github-token.url", "https://x/?token=***"),
        ("username", "{env:TOKEN}"),
    ] {
        assert_eq!(value(&all, key)["value"], expected, "{key}");
    }
    let line = |key: &str| site.run(&["config", key]).ok().stdout;
    assert!(line("secrets.FROM").contains("  (set, from TOKEN)  leftfold.json:3:45\n"));
    assert!(line("secrets.GONE").contains("  (not set, from GONE)  leftfold.json:3:"));
    assert!(line("provider.p.options.project").contains("  \"{env:GONE}-x\" (GONE is not set)  "));
    assert!(
        line("provider.anthropic.options.apiKey")
            .contains("  (set, from ANTHROPIC_API_KEY)  ANTHROPIC_API_KEY\n")
    );
}
