//! The list of models: built-in ones, and those that settings add, change and hide.

use common::{Answer, Block, Server, Site, Split, end, message, script};
use serde_json::{Value, json};

fn listed(site: &Site, args: &[&str]) -> Vec<Value> {
    let args = [&["models", "--format", "json"], args].concat();
    let ran = site.run(&args).ok();
    ran.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn of<'a>(models: &'a [Value], name: &str) -> &'a Value {
    let found = models.iter().find(|model| model["model"] == name);
    found.unwrap_or_else(|| panic!("no {name} among {}", models.len()))
}

fn has(models: &[Value], name: &str) -> bool {
    models.iter().any(|model| model["model"] == name)
}

#[test]
fn without_settings_the_built_in_ones_are_listed_and_what_to_do_is_said() {
    let site = Site::bare();
    let models = listed(&site, &[]);
    for name in ["anthropic/claude-opus-5-5", "openai/gpt-6.2-sol", "google/gemini-3.8-flash"] {
        let model = of(&models, name);
        assert_eq!((&model["key"], &model["source"]), (&Value::Null, &json!("built-in")));
        assert!(model["limit"]["context"].as_u64().unwrap() >= 1_000_000, "{model}");
        assert!(model["cost"]["input"].as_f64().unwrap() > 0.0, "{model}");
        assert_eq!(model["default"], false);
    }
    let text = site.run(&["models"]).ok();
    assert!(text.stdout.starts_with("No model is set"), "{text:?}");
    assert!(text.stdout.contains("leftfold auth login anthropic"), "{text:?}");
    let count = models.iter().filter(|model| model["provider"] == "anthropic").count();
    let rows = text.stdout.lines().filter(|line| line.starts_with("    anthropic "));
    let rows: Vec<&str> = rows.collect();
    assert!(rows.len() == 1 && rows[0].contains(&format!(" {count} models ")), "{rows:?}");
    assert!(rows[0].ends_with(" ANTHROPIC_API_KEY"), "{rows:?}");
    assert!(!text.stdout.contains("anthropic/claude"), "{text:?}");
}

#[test]
fn a_key_makes_a_default_and_abilities_differ() {
    let site = Site::bare().env("OPENAI_API_KEY", "sk-test-0123456789");
    let models = listed(&site, &["openai"]);
    assert!(models.iter().all(|model| model["provider"] == "openai"));
    assert_eq!(of(&models, "openai/gpt-6.2-sol")["default"], true);
    assert_eq!(models.iter().filter(|model| model["default"] == true).count(), 1);
    let newest = of(&models, "openai/gpt-6.2-sol");
    assert_eq!(newest["key"], json!({ "env": "OPENAI_API_KEY" }));
    assert_eq!(newest["variants"], json!(["low", "medium", "high", "xhigh", "max"]));
    assert_eq!((&newest["reasoning"], &newest["temperature"]), (&json!(true), &json!(false)));
    let older = of(&models, "openai/gpt-4.1");
    assert_eq!((&older["reasoning"], &older["temperature"]), (&json!(false), &json!(true)));
    let text = site.run(&["models", "openai"]).ok().stdout;
    assert!(text.contains("  * openai/gpt-6.2-sol "), "{text}");
    assert!(!text.contains("sk-test"), "{text}");
}

#[test]
fn settings_add_models_and_change_those_that_are_built_in() {
    let site = Site::bare();
    site.file(
        "leftfold.json",
        json!({ "model": "mine/m", "provider": {
            "mine": { "wire": "openai-chat", "options": { "baseURL": "http://127.0.0.1:1/v1" },
                "models": { "m": { "limit": { "context": 8_192, "output": 1_024 },
                    "reasoning": true, "attachment": false, "temperature": false,
                    "tool_call": false, "family": "tiny", "variants": { "calm": {} } } } },
            "anthropic": { "models": {
                "claude-opus-5-5": { "cost": { "input": 1 }, "limit": { "output": 9 } } } },
        } })
        .to_string(),
    );
    let models = listed(&site, &[]);
    let mine = of(&models, "mine/m");
    assert_eq!(mine["limit"], json!({ "context": 8_192, "input": 0, "output": 1_024 }));
    assert_eq!((&mine["key"], &mine["default"]), (&json!("unneeded"), &json!(true)));
    assert_eq!((&mine["family"], &mine["wire"]), (&json!("tiny"), &json!("openai-chat")));
    assert_eq!(mine["variants"], json!(["calm"]));
    for (ability, is) in
        [("tools", false), ("images", false), ("reasoning", true), ("temperature", false)]
    {
        assert_eq!(mine[ability], is, "{ability}");
    }
    assert!(mine["source"]["file"].as_str().unwrap().ends_with("leftfold.json"), "{mine}");
    let changed = of(&models, "anthropic/claude-opus-5-5");
    assert_eq!(
        (&changed["cost"]["input"], &changed["cost"]["output"]),
        (&json!(1.0), &json!(20.0))
    );
    assert_eq!(changed["limit"], json!({ "context": 1_000_000, "input": 0, "output": 9 }));
    assert_eq!(changed["source"]["line"], 1);
    let text = site.run(&["models", "mine"]).ok().stdout;
    assert!(text.contains("* mine/m") && text.contains("none needed"), "{text}");
}

#[test]
fn lists_of_a_provider_hide_models_and_forbid_them() {
    let site = Site::scripted(&script(json!([])))
        .env("ANTHROPIC_API_KEY", "sk-test-0123456789")
        .setting("provider/anthropic/blacklist", json!(["claude-opus-5"]))
        .setting("provider/openai/whitelist", json!(["gpt-6.2-sol"]))
        .setting("provider/double/blacklist", json!(["m"]));
    let models = listed(&site, &[]);
    assert!(!has(&models, "anthropic/claude-opus-5") && has(&models, "anthropic/claude-opus-5-5"));
    let of_openai = models.iter().filter(|model| model["provider"] == "openai");
    assert_eq!(of_openai.map(|model| &model["id"]).collect::<Vec<_>>(), [&json!("gpt-6.2-sol")]);
    assert!(!has(&models, "double/m"));
    for (model, by) in [
        ("double/m", "provider.double.blacklist"),
        ("anthropic/claude-opus-5", "provider.anthropic.blacklist"),
        ("openai/gpt-5.1", "provider.openai.whitelist"),
    ] {
        site.run(&["run", "--model", model, "go"]).with(2).saying(&[model, by]);
    }
}

#[test]
fn providers_that_are_turned_off_are_not_listed_unless_asked_for() {
    let site = Site::bare().setting("disabled_providers", json!(["google"]));
    assert!(listed(&site, &[]).iter().all(|model| model["provider"] != "google"));
    let text = site.run(&["models", "google"]).ok().stdout;
    assert!(text.contains("turned off by `disabled_providers`"), "{text}");
    let site = Site::bare().setting("enabled_providers", json!(["google"]));
    assert!(listed(&site, &[]).iter().all(|model| model["provider"] == "google"));
}

#[test]
fn a_provider_that_is_not_there_is_told_which_is_near() {
    let site = Site::bare();
    site.run(&["models", "antropic"]).with(2).saying(&["did you mean `anthropic`?"]);
}

#[test]
fn a_model_that_nobody_lists_works_with_the_defaults() {
    let answer = Answer::Stream(message(&[Block::Text("Hello.")]), Split::Whole);
    let server = Server::start(vec![answer]);
    let site = Site::served(&server)
        .setting("provider/local/models", json!({}))
        .setting("model", json!("local/brand-new"));
    let events = site.prompt("go").ok().events();
    assert_eq!(end(&events)["text"], "Hello.");
    assert_eq!(server.requests()[0].body["max_tokens"], 8_192);
    let models = listed(&site, &["local"]);
    let model = of(&models, "local/brand-new");
    assert_eq!(model["limit"], json!({ "context": 0, "input": 0, "output": 8_192 }));
    assert_eq!(model["default"], true);
}

#[test]
fn a_provider_of_models_dev_is_listed_with_its_key_or_if_it_is_named() {
    let site = Site::bare();
    let text = site.run(&["models", "zai"]).ok().stdout;
    for part in
        ["zai (openai-chat; ", "ZHIPU_API_KEY is not set", "    zai/glm-5.2 ", " models.dev\n"]
    {
        assert!(text.contains(part), "no {part} in {text}");
    }
    let about = "The list of models.dev is of 2026-09-28 (Leftfold's own copy): 225 providers";
    let all = site.run(&["models"]).ok().stdout;
    assert!(text.contains(about) && all.contains(about), "{text}");
    assert!(all.lines().any(|line| line.starts_with("    openrouter ")), "{all}");
    assert!(!all.contains("zai/") && !all.contains("openrouter/"), "{all}");
    let gone = site.run(&["models", "cohere"]).ok().stdout;
    assert!(gone.contains("not available: ") && gone.contains("`@ai-sdk/cohere`"), "{gone}");
    let found = site.run(&["doctor"]);
    assert!(found.stdout.contains("the list of models.dev is of 2026-09-28"), "{found:?}");
    let models = listed(&site.env("ZHIPU_API_KEY", "key-0123456789"), &[]);
    let model = of(&models, "zai/glm-5.2");
    assert_eq!(model["key"], json!({ "env": "ZHIPU_API_KEY" }));
    assert_eq!(model["source"], "models.dev");
    assert!(model["limit"]["context"].as_u64().unwrap() > 100_000, "{model}");
}

/// Its options are checked, too: those of other APIs are named and not sent.
#[test]
fn a_provider_of_a_file_gets_its_key_and_the_options_of_its_api() {
    let answer = || Answer::Stream(message(&[Block::Text("key-0123456789")]), Split::Whole);
    let server = Server::start(vec![answer()]);
    let options = json!({ "reasoningEffort": "high", "top_k": 5 });
    let site = Site::served(&server)
        .setting("provider/acme/models/m/options", options)
        .setting("model", json!("acme/m"));
    let list = json!({ "acme": {
        "npm": "@ai-sdk/anthropic", "api": server.url(), "env": ["ACME_API_KEY"],
        "models": { "m": { "limit": { "context": 90_000, "output": 700 } }, "n": 1 }
    } });
    let file = site.file("models.json", list.to_string());
    let site = site.env("OPENCODE_MODELS_PATH", file.display().to_string());
    let site = site.env("ACME_API_KEY", "key-0123456789");
    let ran = site.prompt("go").ok().saying(&[
        "LEFTFOLD_CONFIG_CONTENT:1:",
        "the option `reasoningEffort` is none of the API of acme/m (anthropic), and is not sent",
        "`acme.models.n` is skipped: expected an object",
    ]);
    let asked = &server.requests()[0];
    assert!(asked.headers.contains(&"x-api-key: key-0123456789".to_owned()), "{asked:?}");
    assert_eq!((&asked.body["max_tokens"], &asked.body["top_k"]), (&json!(700), &json!(5)));
    assert!(asked.body.get("reasoningEffort").is_none(), "{asked:?}");
    assert!(!ran.stdout.contains("key-0123456789"), "{ran:?}");
}
