//! Tests of the settings that plugins add and see.

use serde_json::{Value, json};

use super::{World, kept, known};
use crate::{Layers, Settings, load_with, redacted_view};

const PLACE: &str = "leftfold.json:1:2";

impl World {
    /// Asks the plugin `g`, which gives that answer.
    fn advised(&self, layers: &mut Layers, answer: impl FnOnce(Value) -> Value) {
        let ask = |settings| Ok(answer(settings));
        layers.add((&self.path(""), &self.env()), ("g", PLACE), ask).unwrap();
    }

    fn with_layers(&self, layers: &Layers) -> Settings {
        load_with(&self.path(""), &self.env(), layers).unwrap()
    }
}

#[test]
fn plugins_come_after_files_and_before_variables() {
    let world =
        World::with(r#"{"model": "file/m", "title": false, "permission": {"edit": "ask"}}"#)
            .var("LEFTFOLD_CONFIG_CONTENT", r#"{"small_model": "variable/m"}"#);
    world.trust("");
    let mut layers = Layers::new(known());
    world.advised(&mut layers, |told| {
        assert_eq!(
            (&told["model"], &told["small_model"]),
            (&json!("file/m"), &json!("variable/m"))
        );
        json!({ "model": "plugin/m", "small_model": "plugin/m", "permission": { "edit": "deny" } })
    });
    let settings = world.with_layers(&layers);
    assert_eq!(settings.model_name(), Some("plugin/m"));
    assert_eq!(settings.small_model.as_ref().map(|model| model.as_str()), Some("variable/m"));
    assert!(!settings.title());
    assert_eq!(super::rules(&settings), ["edit * Ask", "edit * Deny"]);
    // The next plugin sees the addition.
    world.advised(&mut layers, |told| {
        assert_eq!(told["model"], "plugin/m");
        Value::Null
    });
    assert!(layers.warnings().is_empty(), "{:?}", layers.warnings());
}

#[test]
fn what_is_wrong_counts_for_nothing_and_is_told() {
    let world = World::with(r#"{"model": "file/m"}"#);
    world.trust("");
    let deep = (0..120).fold(json!(1), |inner, _| json!([inner]));
    for (answer, told) in [
        (json!({ "model": "plugin/m", "title": 1 }), "plugin g: `title`: expected a boolean"),
        (json!({ "model": "plugin/m", "modle": 1 }), "did you mean `model`?"),
        (json!({ "model": "plugin/m", "tui": { "a": deep } }), "nested more than 100 deep"),
        (json!("x"), "plugin g: the settings as a whole: expected an object, found a string"),
    ] {
        let mut layers = Layers::new(known());
        world.advised(&mut layers, |_| answer);
        let settings = world.with_layers(&layers);
        assert_eq!(settings.model_name(), Some("file/m"));
        let [warning] = &settings.warnings[..] else { panic!("{:?}", settings.warnings) };
        assert!(warning.contains(told), "{warning}");
        assert!(warning.ends_with("All settings that this plugin adds are ignored"));
    }
    // `plugin` alone is left out.
    let mut layers = Layers::new(known());
    world.advised(&mut layers, |_| json!({ "plugin": [["sh"]], "model": "plugin/m" }));
    let settings = world.with_layers(&layers);
    assert_eq!((settings.model_name(), settings.plugins.len()), (Some("plugin/m"), 0));
    assert_eq!(settings.warnings, ["plugin g: plugins cannot set `plugin`, so it is left out"]);
}

#[test]
fn whoever_says_again_what_it_was_told_changes_nothing() {
    let world = World::with(
        r#"{
            "model": "p/m",
            "provider": { "p": {
                "wire": "openai-chat",
                "options": {
                    "baseURL": "http://me:hidden@host/v1", "apiKey": "hidden", "timeout": 7,
                    "headers": { "x-a": "hidden", "user-agent": "u" }
                },
                "models": { "m": {} }
            } },
            "mcp": {
                "a": { "type": "local", "command": ["s", "--token", "hidden"], "environment": { "A": "hidden" } },
                "b": { "type": "remote", "url": "https://{env:HOST}/mcp" }
            },
            "agent": { "a": { "prompt": "Use Bearer hidden-0123456789.", "description": "d" } },
            "secrets": { "S": "hidden-secret" }
        }"#,
    )
    .var("HOST", "hidden-host");
    world.trust("");
    let mut layers = Layers::new(known());
    world.advised(&mut layers, |told| {
        assert!(!told.to_string().contains("hidden"), "{told}");
        assert_eq!(told["mcp"]["b"]["url"], "https://{env:HOST}/mcp");
        assert_eq!(told["provider"]["p"]["options"]["timeout"], 7);
        told
    });
    assert!(layers.warnings().is_empty(), "{:?}", layers.warnings());
    let (before, after) = (world.load(), world.with_layers(&layers));
    let chosen = |settings: &Settings| settings.resolve_model(None, &world.env()).unwrap();
    assert!(chosen(&before) == chosen(&after));
    assert!(before.secrets == after.secrets && kept(&before) == kept(&after));
    let list = redacted_view(&world.path(""), "build", &world.env(), &layers).unwrap();
    let place = |key: &str| {
        let item = list.items.iter().find(|item| item.key == key).unwrap();
        format!("{:?}", item.origin)
    };
    assert!(place("model").contains("plugin g") && !place("secrets.S").contains("plugin g"));
}

#[test]
fn agents_of_the_users_plugins_are_the_users() {
    let project = r#"{"agent": {"helper": {"prompt": "theirs", "color": "red"}, "new": {"prompt": "theirs"}}}"#;
    let world = World::with(project);
    let place = world.home().join(".config/leftfold/leftfold.json").display().to_string();
    let mut layers = Layers::new(known());
    let ask = |_| Ok(json!({ "agent": { "helper": { "description": "mine" } } }));
    layers.add((&world.path(""), &world.env()), ("g", &place), ask).unwrap();
    let settings = world.with_layers(&layers);
    assert_eq!(settings.agents["helper"].prompt, None);
    assert_eq!(settings.agents["new"].prompt.as_deref(), Some("theirs"));
    let warnings = settings.warnings.join("\n");
    assert!(
        warnings.contains("`agent.helper.prompt` is left out: it replaces the prompt of your agent `helper`, which a plugin of yours defines"),
        "{warnings}"
    );
}
