//! Tests of the model that settings and variables lead to.

use super::*;
use crate::provider::TIMEOUT;
use crate::{BaseUrl, Chosen, KeyState, NEVER};

const PROVIDERS: &str = r#"{
  "provider": {
    "local": {
      "wire": "openai-chat", "vendor": "deepseek",
      "options": { "baseURL": "http://127.0.0.1:8080/v1", "apiKey": "{env:KEY}", "timeout": 1000,
                   "chunkTimeout": 50, "headers": { "x-a": "1", "X-B": "2" }, "setCacheKey": true },
      "models": {
        "m": { "limit": { "context": 8192, "output": 1024 }, "cost": { "input": 1.5 },
               "headers": { "x-b": "3" }, "options": { "temperature": 0 },
               "variants": { "high": { "effort": "high" } } },
        "org/large": { "id": "org/large-2" } } },
    "script": { "wire": "scripted", "options": { "script": "s.json", "apiKey": "{env:KEY}", "timeout": false } }
  }
}"#;

impl World {
    fn choose(&self, wanted: Option<&str>) -> Result<Chosen, String> {
        self.load().resolve_model(wanted, &self.env()).map_err(|error| self.plain(&error))
    }
}

#[test]
fn a_model_comes_with_all_that_is_known() {
    let world = World::with(PROVIDERS).var("KEY", "k");
    let chosen = world.choose(Some("local/m")).unwrap();
    assert_eq!(chosen.wire.name(), "openai-chat");
    assert_eq!((chosen.provider.as_str(), chosen.model.as_str()), ("local", "m"));
    assert_eq!(chosen.model_id, "m");
    assert_eq!(chosen.vendor.as_deref(), Some("deepseek"));
    assert_eq!(chosen.base_url, Some(BaseUrl::Settings("http://127.0.0.1:8080/v1".into())));
    assert_eq!(chosen.api_key.unwrap().reveal(), "k");
    assert_eq!((chosen.timeout, chosen.stall), (1000, Some(50)));
    let headers: Vec<_> = chosen.headers.iter().map(|(n, v)| (n.as_str(), v.reveal())).collect();
    assert_eq!(headers, [("x-a", "1"), ("x-b", "3")]);
    let known = leftfold_events::turn_config::Limit { context: 1, input: 2, output: 3 };
    let limit = chosen.limit.over(known);
    assert_eq!((limit.context, limit.input, limit.output), (8192, 2, 1024));
    let cost = chosen
        .cost
        .over(leftfold_events::turn_config::Prices { output: 9.0, ..Default::default() });
    assert_eq!((cost.input, cost.output), (1.5, 9.0));
    assert_eq!(chosen.options["temperature"], 0);
    assert_eq!(chosen.provider_options["setCacheKey"], true);
    assert_eq!(chosen.provider_options.len(), 1);
    assert_eq!(chosen.variants["high"]["effort"], "high");

    let chosen = world.choose(Some("local/org/large")).unwrap();
    assert_eq!((chosen.model.as_str(), chosen.model_id.as_str()), ("org/large", "org/large-2"));
    let chosen = world.choose(Some("script/anything/at/all")).unwrap();
    assert_eq!((chosen.model.as_str(), chosen.timeout), ("anything/at/all", NEVER));
}

#[test]
fn which_model_is_taken() {
    let key = ("ANTHROPIC_API_KEY", "k");
    let one = r#"{ "provider": { "p": { "wire": "scripted", "models": { "only": {} } } } }"#;
    for (settings, variables, wanted, expected) in [
        ("{}", &[key][..], None, "anthropic/claude-sonnet-5-5"),
        ("{}", &[key], Some("anthropic/other"), "anthropic/other"),
        (r#"{ "model": "anthropic/named" }"#, &[key], None, "anthropic/named"),
        (r#"{ "model": "anthropic/named" }"#, &[key], Some("anthropic/x"), "anthropic/x"),
        (r#"{ "model": "{env:NONE}" }"#, &[key], None, "anthropic/claude-sonnet-5-5"),
        (r#"{ "model": "{env:M}" }"#, &[key, ("M", "anthropic/m")], None, "anthropic/m"),
        (
            r#"{ "provider": { "anthropic": { "options": { "apiKey": "k" } } } }"#,
            &[],
            None,
            "anthropic/claude-sonnet-5-5",
        ),
        // Settings for one model of a built-in provider keep the others.
        (
            r#"{ "provider": { "anthropic": { "models": { "a": {} } } } }"#,
            &[key],
            Some("anthropic/b"),
            "anthropic/b",
        ),
        (one, &[], None, "p/only"),
        // A key may be meant for other programs; settings are for this one.
        (one, &[key], None, "p/only"),
    ] {
        let mut world = World::with(settings);
        for (name, value) in variables {
            world = world.var(name, value);
        }
        let chosen = world.choose(wanted).unwrap_or_else(|error| panic!("{settings}: {error}"));
        assert_eq!(format!("{}/{}", chosen.provider, chosen.model), expected, "{settings}");
    }
}

#[test]
fn addresses_and_keys_of_the_built_in_provider() {
    let env =
        || World::new().var("ANTHROPIC_API_KEY", " k\n").var("ANTHROPIC_BASE_URL", "http://v");
    let chosen = env().choose(None).unwrap();
    assert_eq!(chosen.wire.name(), "anthropic");
    assert_eq!(chosen.api_key.unwrap().reveal(), "k");
    assert_eq!(chosen.timeout, TIMEOUT);
    let (name, value) = ("ANTHROPIC_BASE_URL", "http://v".to_owned());
    assert_eq!(chosen.base_url, Some(BaseUrl::Variable { name, value }));

    let settings = r#"{ "provider": { "anthropic": { "options": { "apiKey": "s", "baseURL": "http://s" } } } }"#;
    let chosen = env().file("opencode.json", settings).choose(None).unwrap();
    assert_eq!(chosen.api_key.unwrap().reveal(), "s");
    assert_eq!(chosen.base_url, Some(BaseUrl::Settings("http://s".into())));
}

#[test]
fn openai_needs_no_settings_but_a_model() {
    let env = || World::new().var("OPENAI_API_KEY", "k").var("OPENAI_BASE_URL", "http://v/v1");
    let chosen = env().choose(Some("openai/m")).unwrap();
    assert_eq!((chosen.wire.name(), chosen.model_id.as_str()), ("openai-responses", "m"));
    assert_eq!(chosen.api_key.unwrap().reveal(), "k");
    let (name, value) = ("OPENAI_BASE_URL", "http://v/v1".to_owned());
    assert_eq!(chosen.base_url, Some(BaseUrl::Variable { name, value }));
    // A key may be meant for other programs; settings are for this one.
    let one = r#"{ "provider": { "p": { "wire": "scripted", "models": { "only": {} } } } }"#;
    let chosen = env().file("opencode.json", one).choose(None).unwrap();
    assert_eq!(chosen.provider, "p");
    assert_eq!(env().choose(None).unwrap().provider, "openai");
}

#[test]
fn google_needs_no_settings_but_a_key() {
    for variable in ["GEMINI_API_KEY", "GOOGLE_GENERATIVE_AI_API_KEY"] {
        let world = World::new().var(variable, "k").var("GEMINI_BASE_URL", "http://v");
        let chosen = world.choose(None).unwrap();
        assert_eq!((chosen.provider.as_str(), chosen.wire.name()), ("google", "gemini"));
        assert_eq!(chosen.api_key.unwrap().reveal(), "k");
        let (name, value) = ("GEMINI_BASE_URL", "http://v".to_owned());
        assert_eq!(chosen.base_url, Some(BaseUrl::Variable { name, value }));
    }
}

/// The state of the provider's key.
fn key_of(world: &World, provider: &str) -> KeyState {
    let settings = world.load();
    let summaries = settings.provider_summaries(&world.env());
    let found = summaries.into_iter().find(|summary| summary.name == provider);
    found.unwrap().key
}

#[test]
fn an_address_can_have_parts_that_the_user_chooses() {
    let model = "google-vertex/gemini-3.8-flash";
    let parts = |world: &World, wanted| -> Vec<(&'static str, String)> {
        world.choose(Some(wanted)).unwrap().parameters
    };
    let part = |name, value: &str| (name, value.to_owned());
    let world = World::with("{}").var("GOOGLE_CLOUD_PROJECT", "shop");
    assert_eq!(parts(&world, model), [part("project", "shop"), part("location", "global")]);
    assert_eq!(key_of(&world, "google-vertex"), KeyState::Credentials);
    let world = world.var("GOOGLE_VERTEX_PROJECT", "other").var("GOOGLE_VERTEX_LOCATION", "eu");
    assert_eq!(parts(&world, model), [part("project", "other"), part("location", "eu")]);

    // settings come first, and a provider of another name can have the address by its npm package or its vendor
    let options = r#""options": { "project": "mine", "location": " us " }"#;
    for kind in
        [r#""npm": "@ai-sdk/google-vertex""#, r#""wire": "gemini", "vendor": "google-vertex""#]
    {
        let text = format!(r#"{{ "provider": {{ "work": {{ {kind}, {options} }} }} }}"#);
        let world = World::with(&text).var("GOOGLE_VERTEX_PROJECT", "other");
        let chosen = world.choose(Some("work/m")).unwrap();
        assert_eq!(chosen.parameters, [part("project", "mine"), part("location", "us")]);
        assert_eq!(
            (chosen.wire.name(), chosen.vendor.as_deref()),
            ("gemini", Some("google-vertex"))
        );
        assert_eq!(key_of(&world, "work"), KeyState::Credentials);
    }
}

#[test]
fn a_part_that_is_missing_is_named_unless_a_key_or_an_address_makes_it_needless() {
    let model = "google-vertex/gemini-3.8-flash";
    let error = World::with("{}").choose(Some(model)).unwrap_err();
    assert_eq!(
        error,
        "provider `google-vertex` has no `project`: set `provider.google-vertex.options.project` in leftfold.json, or \
         GOOGLE_VERTEX_PROJECT or GOOGLE_CLOUD_PROJECT"
    );
    let names = ["GOOGLE_VERTEX_API_KEY", "GOOGLE_VERTEX_PROJECT", "GOOGLE_CLOUD_PROJECT"];
    let missing = KeyState::Missing(names.map(str::to_owned).to_vec());
    assert_eq!(key_of(&World::with("{}"), "google-vertex"), missing);
    let with_key = World::with("{}").var("GOOGLE_VERTEX_API_KEY", "k");
    assert!(with_key.choose(Some(model)).is_ok());
    let elsewhere = World::with(
        r#"{ "provider": { "google-vertex": { "options": { "baseURL": "http://127.0.0.1:9" } } } }"#,
    );
    assert!(elsewhere.choose(Some(model)).is_ok());
    assert_eq!(key_of(&elsewhere, "google-vertex"), KeyState::Credentials);
}

#[test]
fn the_wire_follows_from_what_is_said() {
    for (provider, expected) in [
        (r#""x": { "wire": "gemini", "npm": "@ai-sdk/anthropic" }"#, "gemini"),
        (r#""x": { "npm": "@ai-sdk/anthropic" }"#, "anthropic"),
        (r#""x": { "npm": "@ai-sdk/openai" }"#, "openai-responses"),
        (r#""x": { "npm": "@ai-sdk/openai-compatible" }"#, "openai-chat"),
        (r#""x": { "npm": "@ai-sdk/google" }"#, "gemini"),
        (r#""x": { "api": "http://a/v1" }"#, "openai-chat"),
        (r#""openai": { "options": { "apiKey": "k" } }"#, "openai-responses"),
        (r#""openai": { "options": { "baseURL": "http://a/v1" } }"#, "openai-responses"),
        (r#""openai": { "wire": "openai-chat", "options": { "apiKey": "k" } }"#, "openai-chat"),
        (
            r#""openai": { "npm": "@ai-sdk/openai-compatible", "options": { "apiKey": "k" } }"#,
            "openai-chat",
        ),
        (r#""mine": { "options": { "baseURL": "http://a/v1" } }"#, "openai-chat"),
        (r#""google": { "options": { "apiKey": "k" } }"#, "gemini"),
    ] {
        let world = World::with(&format!(r#"{{ "provider": {{ {provider} }} }}"#));
        let name = provider.split('"').nth(1).unwrap();
        let chosen = world.choose(Some(&format!("{name}/m"))).unwrap();
        assert_eq!(chosen.wire.name(), expected, "{provider}");
    }
}

#[test]
fn the_key_can_be_in_any_of_the_named_variables() {
    let settings = r#"{ "provider": { "x": { "wire": "gemini", "env": ["ONE", "TWO"] } } }"#;
    let chosen = World::with(settings).var("TWO", "2").choose(Some("x/m")).unwrap();
    assert_eq!(chosen.api_key.unwrap().reveal(), "2");
    assert_eq!(
        World::with(settings).choose(Some("x/m")).unwrap_err(),
        "provider `x` has no key: run `leftfold auth login x`, or set ONE or TWO, or `provider.x.options.apiKey` in leftfold.json"
    );
}

#[test]
fn errors_name_what_is_missing_and_what_is_near() {
    let none = "no model is set, and no provider has a key\n  \
                leftfold auth login anthropic  stores a key; another provider has another name\n  \
                ANTHROPIC_API_KEY              is a variable that may hold the key\n  \
                leftfold models                lists providers and models\n  \
                leftfold demo                  works without a model";
    let listed = "no model is set, and settings list `local/m`, `local/org/large`: choose one\n  \
                  leftfold -m local/m\n  \
                  \"model\": \"local/m\"  in ~/.config/leftfold/leftfold.json, to keep it";
    for (settings, wanted, expected) in [
        ("{}", None, none),
        (PROVIDERS, None, listed),
        (
            PROVIDERS,
            Some("locl/m"),
            "model `locl/m`: there is no provider `locl`; did you mean `local`?",
        ),
        (
            "{\n\"model\": \"zzz/m\" }",
            None,
            "model `zzz/m` (leftfold.json:2:10): there is no provider `zzz`; valid names are `anthropic`, `openai`, `google`, `google-vertex`, `xai`, `deepseek`, `mistral`, `groq`, `moonshotai`, `alibaba`, `openrouter`, `ollama`, `lmstudio`",
        ),
        (
            PROVIDERS,
            Some("local/org/lage"),
            "model `local/org/lage`: provider `local` lists no model `org/lage`; did you mean `org/large`? Valid names are `m`, `org/large`",
        ),
        (PROVIDERS, Some("m"), "model `m`: expected PROVIDER/MODEL; did you mean `local/m`?"),
        (
            PROVIDERS,
            Some("local/"),
            "model `local/`: expected PROVIDER/MODEL; did you mean `local/m`? Valid names are `local/m`, `local/org/large`",
        ),
        ("{}", Some("gpt"), "model `gpt`: expected PROVIDER/MODEL"),
        (
            PROVIDERS,
            Some("local/m"),
            "leftfold.json:5:69: `provider.local.options.apiKey` needs the environment variable KEY, which is not set: set it, or write the value itself",
        ),
        (
            r#"{ "provider": { "p": { "wire": "gemini", "options": { "headers": { "a": "B {env:H}" } } } } }"#,
            Some("p/m"),
            "leftfold.json:1:73: `provider.p.options.headers.a` needs the environment variable H, which is not set: set it, or write the value itself",
        ),
        (
            "{}",
            Some("anthropic/x"),
            "provider `anthropic` has no key: run `leftfold auth login anthropic`, or set ANTHROPIC_API_KEY, or `provider.anthropic.options.apiKey` in leftfold.json",
        ),
        (
            r#"{ "provider": { "p": { "npm": "some-package" } } }"#,
            Some("p/m"),
            r#"provider `p` has no wire format (its npm package `some-package` is not known): set `provider.p.wire` to "anthropic", "openai-chat", "openai-responses", "gemini" or "scripted""#,
        ),
        (
            r#"{ "disabled_providers": ["anthropic"] }"#,
            Some("anthropic/x"),
            "model `anthropic/x`: provider `anthropic` is turned off by `disabled_providers`",
        ),
        (
            r#"{ "enabled_providers": ["p"] }"#,
            Some("anthropic/x"),
            "model `anthropic/x`: provider `anthropic` is turned off by `enabled_providers`",
        ),
    ] {
        let error = World::with(settings).choose(wanted).unwrap_err();
        assert_eq!(error, expected, "{settings} {wanted:?}");
    }
}
