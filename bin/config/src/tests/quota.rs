//! Quotas of projects: which limit is for which folder, and whose settings count.

use std::path::Path;

use super::{Settings, World, known, load};

const USER: &str = "../.config/leftfold/leftfold.json";

/// The limits of a project, and where they are from.
fn quota(settings: &Settings, worktree: &str) -> (Option<u64>, Option<f64>) {
    let quota = settings.quota_of(Path::new(worktree));
    (quota.sessions.map(|limit| limit.most), quota.cost.map(|limit| limit.most))
}

#[test]
fn the_last_matching_pattern_counts_for_each_limit() {
    let text = r#"{ "quota": {
        "*": { "sessions_per_day": 40, "cost_per_day": 20 },
        "/code/app": { "cost_per_day": 50.5 },
        "/code/*-test": { "sessions_per_day": 0 },
        "~/own": { "cost_per_day": 1 }
    } }"#;
    let world = World::new().file(USER, text);
    let settings = world.load();
    let own = world.home().join("own/tool");
    for (worktree, expected) in [
        ("/else", (Some(40), Some(20.0))),
        ("/code/app", (Some(40), Some(50.5))),
        ("/code/app/below", (Some(40), Some(50.5))),
        ("/code/app2", (Some(40), Some(20.0))),
        ("/code/my-test", (Some(0), Some(20.0))),
        ("/code/my-test/below", (Some(40), Some(20.0))),
        (own.to_str().unwrap(), (Some(40), Some(1.0))),
    ] {
        assert_eq!(quota(&settings, worktree), expected, "{worktree}");
    }
    let limit = settings.quota_of(Path::new("/code/app")).cost.unwrap().to_string();
    let file = world.home().join(".config/leftfold/leftfold.json");
    let place = format!("`quota./code/app.cost_per_day` in {}:3:40", file.display());
    assert_eq!(limit, place);
    assert!(settings.warnings.is_empty(), "{:?}", settings.warnings);
}

#[test]
fn a_stronger_source_counts_whatever_the_order_of_the_keys() {
    let user = r#"{ "quota": { "*": { "cost_per_day": 5 }, "/p": { "cost_per_day": 100, "sessions_per_day": 3 } } }"#;
    let world = World::new()
        .file(USER, user)
        .var("LEFTFOLD_CONFIG_CONTENT", r#"{ "quota": { "*": { "cost_per_day": 9 } } }"#);
    let settings = world.load();
    assert_eq!(quota(&settings, "/p"), (Some(3), Some(9.0)));
    assert_eq!(quota(&settings, "/q"), (None, Some(9.0)));
}

/// With trust and without: a project neither loosens the user's limits nor adds any.
#[test]
fn a_project_sets_no_quota() {
    let text = r#"{ "quota": { "*": { "cost_per_day": 1000, "sessions_per_day": 0 } } }"#;
    let user = r#"{ "quota": { "*": { "cost_per_day": 5 } } }"#;
    for is_trusted in [true, false] {
        let world = World::with(text).file(USER, user);
        let settings = match is_trusted {
            true => world.load(),
            false => load(&world.path("."), &world.env(), known()).unwrap(),
        };
        assert_eq!(quota(&settings, "/p"), (None, Some(5.0)), "{is_trusted}");
        let warning = settings.warnings.join("\n");
        assert!(warning.contains("leftfold.json:1:3: `quota` counts only"), "{warning}");
        let shown = settings.tree.unwrap().value();
        assert_eq!(shown["quota"]["*"]["cost_per_day"], 5);
    }
}

#[test]
fn wrong_limits_are_errors_with_their_place() {
    for (quota, expected) in [
        (r#"{ "*": { "cost_per_day": -1 } }"#, "not negative"),
        (r#"{ "*": { "cost_per_day": "much" } }"#, "cost_per_day"),
        (r#"{ "*": { "sessions_per_day": 1.5 } }"#, "sessions_per_day"),
        (r#"{ "*": { "sessions": 1 } }"#, "sessions"),
    ] {
        let world = World::new().file(USER, &format!(r#"{{ "quota": {quota} }}"#));
        let error = load(&world.path("."), &world.env(), known()).unwrap_err().to_string();
        assert!(error.contains(expected) && error.contains(":1:"), "{quota}: {error}");
    }
}
