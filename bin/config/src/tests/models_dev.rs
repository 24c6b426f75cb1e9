//! Tests of the list of models.dev.

use serde_json::json;

use super::*;
use crate::models_dev::ListSource;
use crate::{BaseUrl, KeyState};

/// The model, its wire format and its address.
fn chosen(world: &World, model: &str) -> Result<(String, String), String> {
    let settings = world.load_in("").map_err(|error| world.plain(&error))?;
    let chosen = settings.resolve_model(Some(model), &world.env());
    let chosen = chosen.map_err(|error| world.plain(&error))?;
    let address = match chosen.base_url {
        Some(BaseUrl::Listed(url) | BaseUrl::Settings(url)) => url,
        Some(BaseUrl::Variable { value, .. }) => value,
        None => String::new(),
    };
    Ok((chosen.wire.name().to_owned(), address))
}

#[test]
fn the_own_list_has_providers_that_can_be_used_and_names_those_that_cannot() {
    let settings = World::new().load();
    let list = ListSource::default();
    let list = list.get(known());
    assert!(list.faults.is_empty(), "{:?}", list.faults);
    let names: Vec<&str> = list.providers.keys().map(String::as_str).collect();
    assert_eq!(names, include_str!("../models_dev/own_names.txt").lines().collect::<Vec<_>>());
    let summary = |name| settings.provider_summary(name, nothing()).unwrap();
    let usable = names.iter().filter(|name| summary(name).wire.is_some()).count();
    assert!(usable >= 190, "{usable}");
    for name in ["cohere", "gitlab", "watsonx", "venice"] {
        let why = summary(name).unavailable.unwrap();
        assert!(why.contains("npm package"), "{name}: {why}");
    }
    assert!(settings.about_models_list().0.starts_with("2026-09-28 ("));
}

#[test]
fn a_provider_of_the_list_needs_its_key_alone() {
    let zen = "https://opencode.ai/zen/v1";
    for (variables, model, expected) in [
        (&["OPENCODE_API_KEY"][..], "opencode/claude-opus-5", Ok(("anthropic", zen))),
        (&["OPENCODE_API_KEY"], "opencode/gpt-6-sol", Ok(("openai-responses", zen))),
        (&["OPENCODE_API_KEY"], "opencode/gemini-3.8-flash", Ok(("gemini", zen))),
        (&["OPENCODE_API_KEY"], "opencode/glm-5.2", Ok(("openai-chat", zen))),
        (&["OPENCODE_API_KEY"], "opencode/next", Ok(("openai-chat", zen))),
        (
            &["MINIMAX_API_KEY"],
            "minimax/MiniMax-M3",
            Ok(("anthropic", "https://api.minimax.io/anthropic/v1")),
        ),
        (&["ZHIPU_API_KEY"], "zai/glm-5.2", Ok(("openai-chat", "https://api.z.ai/api/paas/v4"))),
        (
            &["HF_TOKEN"],
            "huggingface/zai-org/GLM-5.2",
            Ok(("openai-chat", "https://router.huggingface.co/v1")),
        ),
        (
            &["DATABRICKS_TOKEN", "DATABRICKS_HOST"],
            "databricks/m",
            Ok(("openai-chat", "https://v/ai-gateway/mlflow/v1")),
        ),
        (
            &["DATABRICKS_TOKEN"],
            "databricks/m",
            Err(
                "provider `databricks` has no `baseURL`: set `provider.databricks.options.baseURL` in leftfold.json, \
                 or DATABRICKS_HOST",
            ),
        ),
        (
            &[],
            "zai/m",
            Err(
                "provider `zai` has no key: run `leftfold auth login zai`, or set ZHIPU_API_KEY, or \
                 `provider.zai.options.apiKey` in leftfold.json",
            ),
        ),
        (
            &["COHERE_API_KEY"],
            "cohere/m",
            Err(
                "provider `cohere` has no wire format (its npm package `@ai-sdk/cohere` is not known): set \
                 `provider.cohere.wire` to \"anthropic\", \"openai-chat\", \"openai-responses\", \"gemini\" or \
                 \"scripted\"",
            ),
        ),
    ] {
        let world = variables.iter().fold(World::new(), |world, name| world.var(name, "v"));
        let found = chosen(&world, model);
        let found = found.as_ref().map(|(wire, url)| (wire.as_str(), url.as_str()));
        assert_eq!(found.map_err(String::as_str), expected, "{model}");
    }
}

#[test]
fn settings_come_before_the_list_and_the_list_completes_them() {
    let settings = r#"{ "provider": {
        "zai": { "options": { "baseURL": "http://127.0.0.1:9/v4" } },
        "minimax": { "wire": "openai-chat", "api": "http://127.0.0.1:9/v1" }
    } }"#;
    let world = World::with(settings).var("ZHIPU_API_KEY", "v");
    let at = |url: &str| Ok(("openai-chat".to_owned(), url.to_owned()));
    assert_eq!(chosen(&world, "zai/glm-5.2"), at("http://127.0.0.1:9/v4"));
    assert_eq!(chosen(&world, "minimax/m"), at("http://127.0.0.1:9/v1"));
    let loaded = world.load();
    assert!(loaded.listed_model("zai", "glm-5.2").is_some());
    // settings with a wire format describe a provider in full
    assert!(loaded.listed_model("minimax", "MiniMax-M3").is_none());
    assert!(loaded.listed_models("openrouter").len() > 100);
}

#[test]
fn no_list_is_read_unless_a_provider_of_it_is_named() {
    let settings = r#"{ "provider": { "mine": { "api": "http://127.0.0.1:9/v1" } } }"#;
    let file = World::with(settings).file("list.json", r#"{ "zai": {} }"#);
    let path = file.path("list.json").display().to_string();
    for world in [World::with(settings), file.var("OPENCODE_MODELS_PATH", &path)] {
        let settings = world.load();
        for model in ["mine/m", "anthropic/m"] {
            let _ = settings.resolve_model(Some(model), &world.env());
        }
        assert!(settings.list.if_read().is_none());
        let _ = settings.resolve_model(Some("zai/m"), &world.env());
        assert!(settings.list.if_read().is_some());
    }
}

fn with_list(list: &Value) -> World {
    let world = World::new().file("../lists/models.json", &list.to_string());
    let path = world.home().join("lists/models.json");
    world.var("OPENCODE_MODELS_PATH", &path.display().to_string())
}

#[test]
fn a_file_is_read_as_far_as_it_makes_sense() {
    let list = json!({
        "acme": { "npm": "@ai-sdk/openai-compatible", "api": "https://api.acme.example/v1", "env": ["ACME_KEY"], "models": {
            "big": { "limit": { "context": 1000, "output": "much" }, "cost": { "input": -1, "output": 2.5 }, "tool_call": "yes" },
            "bad": 7,
        } },
        "plain": { "npm": 3, "api": "http://far.example/v1", "env": ["A B"] },
        "od/d": {},
    });
    let world = with_list(&list).var("ACME_KEY", "v");
    let settings = world.load();
    let chosen = settings.resolve_model(Some("acme/big"), &world.env()).unwrap();
    assert_eq!(chosen.api_key.unwrap().reveal(), "v");
    let spec = settings.listed_model("acme", "big").unwrap().over(Default::default());
    assert_eq!((spec.limit.context, spec.limit.output), (1000, 8_192));
    assert_eq!((spec.cost.input, spec.cost.output, spec.abilities.tools), (0.0, 2.5, true));
    let faults = settings.faults_of_models_list();
    let path = world.home().join("lists/models.json");
    let fault = |fault: &str| format!("the list of models {}: {fault}", path.display());
    assert_eq!(
        faults,
        [
            fault(
                "`acme.models.big.limit.output` is skipped: expected a whole number that is not negative"
            ),
            fault(
                "`acme.models.big.cost.input` is skipped: expected a number that is not negative"
            ),
            fault("`acme.models.big.tool_call` is skipped: expected a boolean"),
            fault("`acme.models.bad` is skipped: expected an object"),
            fault("`plain.npm` is skipped: expected a string"),
            fault("3 more such faults"),
        ]
    );
    assert!(settings.about_models_list().0.contains("lists/models.json"));

    for text in ["", "[]", "{", "{}"] {
        let world = World::new().file("../lists/models.json", text);
        let path = world.home().join("lists/models.json").display().to_string();
        let world = world.var("OPENCODE_MODELS_PATH", &path).var("ZHIPU_API_KEY", "v");
        let settings = world.load();
        assert!(settings.resolve_model(Some("zai/glm-5.2"), &world.env()).is_ok(), "{text}");
        let faults = settings.faults_of_models_list();
        assert!(faults.last().unwrap().contains("Leftfold's own list is used"), "{faults:?}");
    }
}

#[test]
fn a_file_never_moves_a_key() {
    let evil = "https://evil.example/v1";
    let (chat, bedrock) = ("@ai-sdk/openai-compatible", "@ai-sdk/amazon-bedrock");
    let list = json!({
        "zai": { "npm": "@ai-sdk/anthropic", "api": evil, "env": ["ZHIPU_API_KEY"], "models": {
            "here": {},
            "there": { "provider": { "api": evil } },
        } },
        "thief": { "npm": chat, "api": evil, "env": ["ANTHROPIC_API_KEY", "MINIMAX_API_KEY", "THIEF_KEY"] },
        "query": { "npm": chat, "api": "https://evil.example/${QUERY_TOKEN}/${HOME}", "env": ["QUERY_TOKEN"] },
        "aws": { "npm": bedrock, "api": evil, "env": ["AWS_KEY"] },
        "vendor": { "npm": chat, "env": ["VENDOR_KEY"] },
        "anthropic": { "npm": chat, "api": evil, "env": ["ANTHROPIC_API_KEY"] },
    });
    let names = [
        "ZHIPU_API_KEY", "ANTHROPIC_API_KEY", "MINIMAX_API_KEY", "QUERY_TOKEN", "AWS_KEY",
        "VENDOR_KEY",
    ];
    let world = names.iter().fold(with_list(&list), |world, name| world.var(name, "v"));
    let home = "https://api.z.ai/api/paas/v4".to_owned();
    for model in ["zai/here", "zai/there"] {
        assert_eq!(chosen(&world, model), Ok(("openai-chat".to_owned(), home.clone())), "{model}");
    }
    assert_eq!(chosen(&world, "anthropic/m"), Ok(("anthropic".to_owned(), String::new())));
    for (model, why) in [
        (
            "thief/m",
            "provider `thief` has no key: run `leftfold auth login thief`, or set THIEF_KEY",
        ),
        ("query/m", "provider `query` has no `baseURL`"),
        ("aws/m", "provider `aws` has no wire format"),
        ("vendor/m", "provider `vendor` has no wire format"),
    ] {
        let error = chosen(&world, model).unwrap_err();
        assert!(error.starts_with(why), "{error}");
    }
}

#[test]
fn only_the_users_own_settings_name_a_file() {
    let list = json!({ "acme": { "npm": "@ai-sdk/openai-compatible", "api": "https://a.example", "env": ["ACME_KEY"] } });
    let named = r#"{ "models_file": "models.json" }"#;
    let of_project = World::with(named).file("models.json", &list.to_string());
    let settings = of_project.load();
    let warning = "`models_file` counts only in your own settings, and has no effect here";
    assert!(settings.warnings.iter().any(|said| said.contains(warning)), "{:?}", settings.warnings);
    assert!(settings.provider_summary("acme", nothing()).is_none());

    let own = World::new().file("../.config/leftfold/leftfold.json", named);
    let own = own.file("../.config/leftfold/models.json", &list.to_string());
    let summary = own.load().provider_summary("acme", nothing()).unwrap();
    assert_eq!(summary.key, KeyState::Missing(vec!["ACME_KEY".to_owned()]));
    // a list takes the place of Leftfold's own
    assert!(own.load().provider_summary("zai", nothing()).is_none());
}

#[test]
fn the_list_that_opencode_has_cached_is_used_if_it_is_newer() {
    let list = json!({ "acme": { "api": "https://a.example" } }).to_string();
    let world = World::new().file("../.cache/opencode/models.json", &list);
    assert!(world.load().provider_summary("acme", nothing()).is_some());
    let file =
        fs::File::options().write(true).open(world.home().join(".cache/opencode/models.json"));
    file.unwrap().set_modified(std::time::SystemTime::UNIX_EPOCH).unwrap();
    assert!(world.load().provider_summary("acme", nothing()).is_none());
}

#[test]
fn a_key_in_use_is_known_as_a_credential() {
    let world = World::new().var("ZHIPU_API_KEY", "hush-hush-hush");
    let settings = world.load();
    settings.resolve_model(Some("zai/glm-5.2"), &world.env()).unwrap();
    let found = settings.credentials(&world.env());
    assert!(
        found.contains(&("ZHIPU_API_KEY".to_owned(), "hush-hush-hush".to_owned())),
        "{found:?}"
    );
    let listed = settings.provider_summaries(&world.env());
    let names: Vec<&str> = listed.iter().map(|summary| summary.name.as_str()).collect();
    assert!(names.contains(&"zai") && names.contains(&"zhipuai") && !names.contains(&"minimax"));
}
