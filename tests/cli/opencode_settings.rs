//! OpenCode settings are accepted unchanged, with old and new names.

use common::{ASK, Site, all, asking, call, end, only, says, script};
use serde_json::{Value, json};

/// Settings of a user who has tried every option.
const ALL_ABOUT: &str = r#"{
  "$schema": "https://opencode.ai/config.json",
  "model": "anthropic/claude-sonnet-4-5",
  "small_model": "anthropic/claude-haiku-4-5",
  "theme": "gruvbox", "username": "grace", "autoupdate": "notify", "share": "disabled",
  "logLevel": "WARN", "snapshot": true, "layout": "stretch", "autoshare": false,
  "keybinds": { "leader": "ctrl+g", "session_list": "<leader>s" },
  "tui": { "scroll_speed": 2, "scroll_acceleration": { "enabled": false }, "diff_style": "stacked" },
  "server": { "port": 4711, "hostname": "127.0.0.1", "mdns": false, "cors": ["http://localhost:3000"] },
  "watcher": { "ignore": ["target/**"] },
  "compaction": { "auto": true, "prune": false, "reserved": 12000, "tail_turns": 2 },
  "tool_output": { "max_lines": 800, "max_bytes": 30000 },
  "enterprise": { "url": "https://share.example.org" },
  "experimental": { "batch_tool": true, "mcp_timeout": 9000, "primary_tools": ["edit"],
    "hook": { "session_completed": [{ "command": ["notify-send", "done"] }] } },
  "disabled_providers": ["groq"]
}"#;

/// Settings of a team with its own models.
const PROVIDERS: &str = r#"{
  // the proxy is for everybody
  "model": "anthropic/claude-sonnet-4-5",
  "enabled_providers": ["anthropic", "local", "openrouter", "azure"],
  "provider": {
    "anthropic": {
      "options": { "apiKey": "{env:ANTHROPIC_API_KEY}", "timeout": 900000, "chunkTimeout": 60000, "setCacheKey": true },
      "models": { "claude-sonnet-4-5": {
        "options": { "thinking": { "type": "enabled", "budgetTokens": 8000 } },
        "variants": { "slow": { "thinking": { "type": "enabled", "budgetTokens": 30000 } }, "high": { "disabled": true } }
      } }
    },
    "local": {
      "npm": "@ai-sdk/openai-compatible", "name": "On this desk",
      "options": { "baseURL": "http://127.0.0.1:11434/v1", "headers": { "X-Team": "tools" } },
      "models": { "qwen3-coder:30b": { "name": "Qwen", "limit": { "context": 64000, "output": 8000 }, "tool_call": true,
        "modalities": { "input": ["text"], "output": ["text"] }, "cost": { "input": 0, "output": 0 }, "status": "beta" } },
    },
    "openrouter": { "models": { "z-ai/glm-4.6": { "options": { "provider": { "only": ["z-ai"] } } } } },
    "azure": { "npm": "@ai-sdk/azure", "options": { "resourceName": "r", "apiVersion": "2025-01-01" }, "blacklist": ["o1"] },
    "amazon-bedrock": { "options": { "region": "eu-central-1", "profile": "work" } },
  },
}"#;

/// Settings of a user with strict permissions.
const RULES: &str = r#"{
  "model": "anthropic/claude-sonnet-4-5",
  "permission": {
    "*": "ask", "read": { "*": "allow", "*.pem": "deny" }, "edit": { "*": "ask", "docs/*": "allow" },
    "bash": { "*": "ask", "cargo *": "allow", "git push *": "deny" }, "webfetch": "deny", "websearch": "deny",
    "external_directory": { "~/scratch/**": "allow" }, "doom_loop": "deny", "task": { "general": "deny" },
    "skill": { "internal-*": "deny" }, "tracker_*": "ask", "todowrite": "allow", "lsp": "allow", "list": "allow"
  },
  "tools": { "write": false, "patch": false, "tracker_delete": false, "glob": true },
  "mcp": {
    "files": { "type": "local", "command": ["npx", "-y", "files-server", "."], "environment": { "DEPTH": "2" },
      "timeout": 20000, "enabled": false },
    "tracker": { "type": "remote", "url": "https://tracker.example.org/mcp", "headers": { "Authorization": "Bearer {env:TRACKER}" },
      "enabled": false },
    "signed": { "type": "remote", "url": "https://signed.example.org/mcp", "enabled": false,
      "oauth": { "clientId": "id", "clientSecret": "{env:SIGNED}", "scope": "read" } },
    "open": { "type": "remote", "url": "https://open.example.org/mcp", "oauth": false, "enabled": false },
    "elsewhere": { "enabled": false }
  }
}"#;

/// Settings of a team with agents and commands, some in an old format.
const AGENTS: &str = r##"{
  "model": "anthropic/claude-sonnet-4-5",
  "default_agent": "plan",
  "agent": {
    "build": { "prompt": "{file:./words/build.txt}", "steps": 40, "tools": { "webfetch": false } },
    "plan": { "temperature": 0.2, "permission": { "bash": { "*": "deny", "ls *": "allow" } } },
    "auditor": { "description": "Looks for holes", "mode": "subagent", "prompt": "Find holes.", "maxSteps": 8, "top_p": 0.8,
      "color": "#224466", "hidden": true, "tools": { "write": false, "edit": false, "tracker_*": false } },
    "thinker": { "description": "Takes its time", "mode": "all", "reasoningEffort": "high", "options": { "store": false },
      "variant": "high", "color": "warning" },
    "explore": { "disable": true },
    "title": { "model": "anthropic/claude-haiku-4-5" }
  },
  "mode": {
    "build": { "temperature": 0.4 },
    "scribe": { "prompt": "Write prose.", "mode": "subagent", "tools": { "bash": false, "edit": true } }
  },
  "command": {
    "ship": { "template": "Ship $1 with $ARGUMENTS", "description": "Ships", "agent": "build", "model": "anthropic/claude-haiku-4-5" },
    "audit": { "template": "Audit !`git diff --stat` and @README.md", "agent": "auditor", "subtask": true }
  },
  "skills": { "paths": ["./team", "~/nowhere"], "urls": ["https://skills.example.org/"] }
}"##;

/// Settings with plugins and tools that Leftfold does not have, and an unknown key.
const PLUGINS: &str = r#"{
  "model": "anthropic/claude-sonnet-4-5",
  "plugin": ["some-plugin@2.1.0", ["with-options", { "loud": true }], "file:///opt/plugin.ts"],
  "formatter": { "gofmt": { "disabled": true }, "mine": { "command": ["fmt", "$FILE"], "extensions": [".x"] } },
  "lsp": { "rust": { "disabled": true }, "mine": { "command": ["x-lsp"], "extensions": [".x"], "initialization": {} } },
  "instructions": ["docs/*.md", "https://rules.example.org/style.md", "~/mine.md"],
  "shell": "/bin/bash", "attachment": { "image": { "auto_resize": true } }, "permission": "ask",
  "novelty": { "of": "tomorrow" },
  "compaction": { "later": 1 }
}"#;

fn findings(site: &Site) -> Vec<Value> {
    let ran = site.run(&["doctor", "--format", "json"]).ok();
    ran.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// The one finding whose words contain `part`.
fn about<'a>(found: &'a [Value], part: &str) -> &'a Value {
    let has = |finding: &&Value| finding["what"].as_str().unwrap().contains(part);
    let all: Vec<&Value> = found.iter().filter(has).collect();
    assert_eq!(all.len(), 1, "{part}: {found:#?}");
    all[0]
}

fn site(settings: &str) -> Site {
    let site = Site::bare().env("ANTHROPIC_API_KEY", "sk-ant-0123456789abcdef");
    site.file("words/build.txt", "Build it well.");
    site.file("docs/style.md", "Be brief.");
    site.file("team/tidy/SKILL.md", "---\ndescription: Tidies up\n---\nSweep every corner.\n");
    site.file("opencode.json", settings);
    site
}

#[test]
fn what_a_user_of_opencode_may_have_is_taken_without_an_error() {
    let warnings = [
        (ALL_ABOUT, &[][..]),
        (PROVIDERS, &[]),
        (RULES, &[]),
        (AGENTS, &["opencode.json:22:35: the skills folder", "opencode.json:22:57: `skills.urls`"]),
        (
            PLUGINS,
            &[
                "opencode.json:8:3: `novelty` is not a setting of Leftfold",
                "opencode.json:9:19: `compaction.later`",
                "\"some-plugin@2.1.0\" is left out",
                "\"with-options\" is left out",
                "\"file:///opt/plugin.ts\" is left out",
                "no file \"~/mine.md\"",
            ],
        ),
    ];
    for (settings, expected) in warnings {
        let site = site(settings);
        let found = findings(&site);
        assert!(found.iter().all(|finding| finding["status"] != "error"), "{found:#?}");
        assert_eq!(about(&found, "opencode.json (written for")["status"], "ok");
        for part in expected {
            assert_eq!(about(&found, part)["status"], "warning");
        }
        let of_settings = |finding: &&Value| {
            finding["status"] == "warning"
                && finding["what"].as_str().unwrap().contains("opencode.json")
        };
        let count = expected.iter().filter(|part| !part.contains("no file")).count();
        assert_eq!(found.iter().filter(of_settings).count(), count, "{found:#?}");
        let config = site.run(&["config"]).ok();
        assert!(config.stdout.contains("anthropic/claude-sonnet-4-5"), "{}", config.stdout);
    }
}

#[test]
fn keys_without_a_use_are_named_with_their_lines() {
    let found = findings(&site(ALL_ABOUT));
    let idle = about(&found, "Leftfold does not use")["what"].as_str().unwrap();
    for part in ["`theme` (line 5)", "`keybinds` (line 7)", "`experimental.hook` (line 15)"] {
        assert!(idle.contains(part), "{part}: {idle}");
    }
}

#[test]
fn experiments_take_tools_away_and_time_servers() {
    let site = site(ALL_ABOUT);
    let shown = site.run(&["config", "experimental"]).ok().stdout;
    for part in ["batch_tool", "mcp_timeout", "9000", "primary_tools"] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    let task = json!({ "description": "d", "prompt": "look at a.txt", "subagentType": "general" });
    let write = json!({ "filePath": "a.txt", "content": "one" });
    let replies = json!([
        call("batch", json!({ "calls": [] })),
        call("task", task),
        says("The parent has heard."),
        { "match": { "prompt": "look at a.txt", "answers": 0 },
          "parts": [{ "call": { "name": "write", "input": write } }] },
        { "match": { "prompt": "look at a.txt", "answers": 1 }, "parts": [{ "text": "Denied." }] },
    ]);
    let said = json!({ "batch_tool": false, "primary_tools": ["edit"] });
    let site = Site::scripted(&script(replies)).setting("/experimental", said);
    let events = site.prompt("go").ok().events();
    assert!(!site.project().join("a.txt").exists());
    let configured = all(&events, "turn.configured");
    let config = |at: usize| {
        let seq = configured[at]["seq"].to_string();
        let session = configured[at]["session"].as_str().unwrap();
        site.run(&["explain", session, &seq]).ok().stdout
    };
    let offers = |shown: &str, tool: &str| {
        let line = shown.lines().find(|line| line.contains("read"));
        line.is_some_and(|line| line.split([' ', ',']).any(|word| word == tool))
    };
    let (parent, child) = (config(0), config(1));
    assert!(!offers(&parent, "batch") && offers(&parent, "write"), "{parent}");
    assert!(!offers(&child, "batch") && !offers(&child, "write"), "{child}");
    site.assert_sound();
}

#[test]
fn a_rejection_ends_the_turn_unless_the_experiment_says_otherwise() {
    for (goes_on, code, reason) in [(false, 3, "blocked"), (true, 0, "completed")] {
        let said = json!({ "continue_loop_on_deny": goes_on });
        let site = asking().setting("/experimental", said);
        let mut live = site.start(&ASK);
        let seq = live.until("permission.asked")["seq"].to_string();
        site.run(&["permission", "answer", "last", &seq, "reject"]).ok();
        let events = live.wait().with(code).events();
        assert_eq!(end(&events)["reason"], reason);
        let denied = end(&events)["permission_denials"].as_array().unwrap();
        assert_eq!((denied.len(), &denied[0]["class"]), (1, &json!("person")));
        assert!(all(&events, "tool.started").is_empty());
        site.assert_sound();
    }
}

#[test]
fn a_session_is_not_shared_where_sharing_is_disabled() {
    for (share, refuses) in [("manual", false), ("auto", false), ("disabled", true)] {
        let site = Site::scripted(&script(json!([says("Done.")])));
        site.prompt("go").ok();
        // a project may forbid it without being trusted
        site.file_of_stranger("opencode.json", format!("{{ \"share\": \"{share}\" }}"));
        let ran = site.run(&["share", "last"]);
        if refuses {
            ran.with(1).saying(&["opencode.json:1:12", "sessions are not shared"]);
            site.run(&["export", "last"]).ok();
        } else {
            ran.ok();
        }
    }
}

#[test]
fn what_was_a_mode_is_an_agent_that_takes_prompts() {
    let site = site(AGENTS);
    site.file(".opencode/modes/critic.md", "---\ntools: { edit: false }\n---\nCriticise.\n");
    site.file(".opencode/agent/named.md", "---\nname: herald\ndescription: Tells\n---\nTell it.\n");
    let listed = site.run(&["agents", "--format", "json"]).ok().stdout;
    let listed: Vec<Value> =
        listed.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let mode = |name: &str| {
        let agent = listed.iter().find(|agent| agent["name"] == name);
        agent.map_or("none", |agent| agent["mode"].as_str().unwrap())
    };
    for (name, expected) in [
        ("build", "primary"),
        ("scribe", "primary"),
        ("critic", "primary"),
        ("auditor", "subagent"),
        ("thinker", "all"),
        ("herald", "all"),
        ("named", "none"),
        ("explore", "none"),
    ] {
        assert_eq!(mode(name), expected, "{name}: {listed:#?}");
    }
    let config = site.run(&["config"]).ok().stdout;
    for (key, value) in [
        ("agent.build.temperature", "0.4"),
        ("agent.build.steps", "40"),
        ("agent.scribe.tools.bash", "false"),
        ("agent.critic.tools.edit", "false"),
    ] {
        let line = config.lines().find(|line| line.contains(key));
        assert!(line.is_some_and(|line| line.contains(value)), "{key}: {config}");
    }
}

#[test]
fn older_words_for_tools_are_rules() {
    let site = site(
        r#"{ "tools": { "patch": false, "tracker_*": false, "webfetch": true },
             "agent": { "auditor": { "tools": { "bash": false, "tracker_read": true } } } }"#,
    );
    let action = |agent: &str, permission: &str| {
        let ran = site.run(&["permission", "check", "--agent", agent, permission, "x"]).ok();
        let said: Value = serde_json::from_str(&ran.stdout).unwrap();
        said["action"].as_str().unwrap().to_owned()
    };
    for (agent, permission, expected) in [
        ("build", "edit", "deny"),
        ("build", "tracker_read", "deny"),
        ("build", "bash", "allow"),
        ("build", "webfetch", "allow"),
        ("auditor", "edit", "deny"),
        ("auditor", "bash", "deny"),
        ("auditor", "tracker_read", "allow"),
        ("auditor", "tracker_write", "deny"),
    ] {
        assert_eq!(action(agent, permission), expected, "{agent} {permission}");
    }
}

#[test]
fn skills_in_named_folders_are_listed_loaded_and_called_as_commands() {
    let site = Site::scripted(&script(json!([says("Done.")])));
    let mine = site.path("user/mine");
    let site = site.setting("skills", json!({ "paths": [mine.display().to_string()] }));
    let skill = |body: &str| format!("---\ndescription: Tidies up\n---\n{body}\n");
    site.file(".opencode/opencode.json", r#"{ "skills": { "paths": ["never seen"] } }"#);
    let mine = site.path("user/mine/tidy");
    std::fs::create_dir_all(&mine).unwrap();
    std::fs::write(mine.join("SKILL.md"), skill("Sweep every corner.")).unwrap();
    site.file(".leftfold/skills/other/SKILL.md", skill("Another."));
    let ran = site.run(&["run", "--format", "json", "/tidy the attic"]).ok();
    let events = ran.events();
    let text = only(&events, "turn.prompted")["data"]["parts"][0]["text"].as_str().unwrap();
    assert!(text.contains("Sweep every corner.") && text.ends_with("\n\nthe attic"), "{text}");
    let exported = site.run(&["export", "last"]).ok().stdout;
    assert!(exported.contains("- tidy: Tidies up"), "{exported}");
    let denied = site.setting("permission", json!({ "skill": { "tidy": "deny" } }));
    let ran = denied.run(&["run", "/tidy"]).with(2);
    assert!(
        ran.stderr.contains("the command `/tidy`: the rules do not allow skill `tidy`"),
        "{ran:?}"
    );
}

#[test]
fn a_folder_that_only_the_project_names_is_as_strange_as_any_other() {
    let site = Site::scripted(&script(json!([says("Done.")])));
    let outside = site.path("user/private/tidy");
    std::fs::create_dir_all(&outside).unwrap();
    std::fs::write(outside.join("SKILL.md"), "---\ndescription: d\n---\nSecret.\n").unwrap();
    let named = json!({ "skills": { "paths": [site.path("user/private").display().to_string()] } });
    site.file("opencode.json", named.to_string());
    let ran = site.run(&["run", "/tidy"]).with(2);
    assert!(ran.stderr.contains("external_directory"), "{ran:?}");
}

#[test]
fn a_folder_of_settings_can_be_named_by_a_variable() {
    let folder = |site: &Site| site.path("user/theirs").display().to_string();
    let site = Site::bare();
    let path = folder(&site);
    let site = site.env("OPENCODE_CONFIG_DIR", path);
    std::fs::create_dir_all(site.path("user/theirs/commands")).unwrap();
    std::fs::write(site.path("user/theirs/opencode.json"), r#"{ "username": "x" }"#).unwrap();
    std::fs::write(site.path("user/theirs/commands/hail.md"), "Hail.").unwrap();
    let ran = site.run(&["doctor", "--format", "json"]);
    assert!(ran.stdout.contains("user/theirs/opencode.json (written for OpenCode)"), "{ran:?}");
    let config = site.run(&["config"]);
    assert!(config.stdout.contains("command.hail.template"), "{config:?}");
}
