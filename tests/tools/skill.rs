//! `skill`: finds skills in the project and in the user's own places, and loads them by name.

use common::{Site, call, only, says, script};
use serde_json::{Value, json};

fn skill(site: &Site, folder: &str, body: &str) {
    let folder = site.path(folder);
    std::fs::create_dir_all(&folder).unwrap();
    let text = format!("---\ndescription: Use when: needed.\n---\n{body}\n");
    std::fs::write(folder.join("SKILL.md"), text).unwrap();
}

fn load(site: &Site, name: &str) -> Value {
    let args = json!({ "name": name }).to_string();
    let ran = site.run(&["tool", "skill", "--args", &args]);
    let output: Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!(ran.code, i32::from(output["is_error"] == true), "{ran:?}");
    output
}

#[test]
fn skills_are_found_in_every_place() {
    let site = Site::bare();
    let places = [
        "project/.leftfold/skills/a", "project/.opencode/skill/b", "project/.opencode/skills/c",
        "project/.claude/skills/group/d", "project/.agents/skills/e", "config/leftfold/skills/f",
        "config/opencode/skills/g", "user/.claude/skills/h", "user/.agents/skills/i",
    ];
    for folder in places {
        skill(&site, folder, &format!("I am {folder}."));
    }
    // farther skills with these names
    for name in ["a", "d", "f"] {
        skill(&site, &format!("user/.agents/skills/{name}"), "Too far.");
    }
    for folder in places {
        let name = folder.rsplit('/').next().unwrap();
        let output = load(&site, name);
        let text = output["output"].as_str().unwrap();
        assert!(text.ends_with(&format!("\n\nI am {folder}.")), "{text}");
        assert!(text.contains(&site.path(folder).display().to_string()), "{text}");
        assert_eq!(output["metadata"]["directory"], site.path(folder).display().to_string());
    }
    let output = load(&site, "z");
    assert_eq!(output["metadata"]["error_kind"], "not_found");
    assert!(
        output["output"].as_str().unwrap().ends_with("The skills are: a, b, c, d, e, f, g, h, i.")
    );
}

#[test]
fn a_model_loads_the_users_own_skill_and_reads_beside_it() {
    let read = |path: &str| call("read", json!({ "filePath": path }));
    let turn = json!([
        call("skill", json!({ "name": "own" })),
        read("~/.claude/skills/own/more.md"),
        read("~/.claude/secret.md"),
        says("Done."),
    ]);
    let site = Site::scripted(&script(&turn));
    skill(&site, "user/.claude/skills/own", "See more.md.");
    for name in ["skills/own/more.md", "secret.md"] {
        std::fs::write(site.path("user/.claude").join(name), "More of it.\n").unwrap();
    }
    let events = site.prompt("go").ok().events();
    let finished: Vec<&str> = common::all(&events, "tool.finished")
        .iter()
        .map(|event| event["data"]["output"].as_str().unwrap())
        .collect();
    assert_eq!(finished.len(), 2, "the file outside is not read: {finished:?}");
    assert!(finished[0].contains("- more.md\n\nSee more.md."), "{finished:?}");
    assert!(finished[1].contains("More of it."), "{finished:?}");
}

#[test]
fn a_skill_may_be_denied() {
    let turn = json!([call("skill", json!({ "name": "risky" })), says("Done.")]);
    let site = Site::scripted(&script(&turn))
        .setting("permission", json!({ "skill": { "*": "allow", "risky": "deny" } }));
    skill(&site, "project/.claude/skills/risky", "Do it.");
    let events = site.prompt("go").ok().events();
    assert_eq!(common::all(&events, "tool.started").len(), 0);
    let access = &only(&events, "tool.resolved")["data"]["access"];
    assert_eq!(
        *access,
        json!([{ "permission": "skill", "patterns": ["risky"], "always": ["risky"] }])
    );
}
