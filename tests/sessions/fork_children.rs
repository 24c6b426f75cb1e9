//! Children in the shared part of a fork: the fork's calls continue with forks of them.

use common::{Site, all, bash, call, end, only, rerun_all, says, script, wait_until};
use rustix::process::Signal;
use serde_json::{Value, json};

fn on(prompt: &str, answers: usize, mut reply: Value) -> Value {
    reply["match"] = json!({ "prompt": prompt, "answers": answers });
    reply
}

fn task(prompt: &str, id: Option<&str>) -> Value {
    let mut input = json!({ "description": "Look", "prompt": prompt, "subagentType": "general" });
    if let Some(id) = id {
        input["taskId"] = json!(id);
    }
    call("task", input)
}

struct ParentAndChild {
    site: Site,
    root: String,
    child: String,
    /// Seq of the end of the root's first turn.
    at: u64,
}

/// A root whose child has answered once, and again in its second turn. A fork begins after the
/// first turn. Its model calls the child with the prompt `go on`, and the child gives `replies`.
fn parent_and_child(replies: &[Value]) -> ParentAndChild {
    let looks = || on("look closely", 0, says("I see."));
    let first =
        json!([looks(), on("go", 0, task("look closely", None)), on("go", 1, says("Heard."))]);
    let site = Site::scripted(&script(first));
    let events = site.prompt("go").ok().events();
    let child = only(&events, "subagent.spawned")["data"]["session"].as_str().unwrap().to_owned();
    let root = events[0]["session"].as_str().unwrap().to_owned();
    let at = events.last().unwrap()["seq"].as_u64().unwrap();
    let mut all = vec![
        on("more", 2, task("look further", Some(&child))),
        on("more", 3, says("Heard more.")),
        on("look further", 1, says("I see more.")),
        on("other", 2, task("look elsewhere", Some(&child))),
        on("other", 3, task("look once more", Some(&child))),
        on("other", 4, says("Heard of others.")),
    ];
    all.extend(replies.iter().cloned());
    let site = site.setting("/provider/double/options/script/replies", json!(all));
    site.run(&["run", "--continue", "more"]).ok();
    ParentAndChild { site, root, child, at }
}

/// The replies of the fork's child.
fn sees() -> Vec<Value> {
    vec![on("look elsewhere", 1, says("Not here.")), on("look once more", 2, says("Nor there."))]
}

impl ParentAndChild {
    fn fork(&self) -> String {
        let ran = self.site.run(&["fork", &self.root, "--at", &self.at.to_string()]).ok();
        ran.stdout.trim().to_owned()
    }

    /// The events of a session that are its own.
    fn log(&self, session: &str) -> Vec<Value> {
        let mut events = self.site.run(&["export", session]).ok().events();
        events.retain(|event| event["session"] == session);
        events
    }

    /// Checks the store with every command that can check it.
    fn assert_sound(&self, sessions: &[&str]) {
        self.site.run(&["check", &self.root]).ok();
        self.site.run(&[&["verify"], sessions].concat()).ok();
    }
}

#[test]
fn a_forks_call_goes_on_with_a_fork_of_the_child_as_it_stood_there() {
    let family = parent_and_child(&sees());
    let ParentAndChild { site, root, child, .. } = &family;
    let before = family.log(child);
    let fork = family.fork();
    let events = site.run(&["run", "--session", &fork, "--format", "json", "other"]).ok().events();
    assert_eq!(end(&events)["text"], "Heard of others.");
    // two calls, one forked child, whose export is only its own part
    let spawned = all(&events, "subagent.spawned");
    let heir = spawned[0]["data"]["session"].as_str().unwrap();
    assert_eq!((spawned.len(), &spawned[1]["data"]["session"]), (2, &json!(heir)));
    assert_ne!(heir, child);
    assert!(events.iter().all(|event| [json!(fork), json!(heir)].contains(&event["session"])));
    let own: Vec<Value> = events.iter().filter(|e| e["session"] == heir).cloned().collect();
    assert_eq!(own, family.log(heir));
    let at = all(&before, "turn.ended")[0]["seq"].as_u64().unwrap();
    assert_eq!((&own[0]["type"], &own[0]["seq"]), (&json!("session.forked"), &json!(at + 1)));
    assert_eq!(own[0]["data"], json!({ "from": child, "at": at }));
    assert_eq!(
        (&own[1]["type"], &own[1]["data"]),
        (&json!("session.adopted"), &json!({ "parent": fork }))
    );
    // the child's model knows the first turn, and nothing of the second
    let asked = all(&own, "model.requested")[0]["seq"].to_string();
    let request = site.run(&["explain", heir, &asked, "--request"]).ok().stdout;
    assert!(request.contains("I see.") && !request.contains("I see more."), "{request}");
    assert_eq!(family.log(child), before, "the child itself is as it was");
    family.assert_sound(&[root, child, &fork, heir]);
    assert!(site.run(&["why", &fork]).ok().stdout.contains("idle; last turn"));
    rerun_all(site);
}

#[test]
fn it_belongs_to_the_fork_in_lists_counts_and_removals() {
    let family = parent_and_child(&sees());
    let ParentAndChild { site, root, .. } = &family;
    let stats = || -> Value {
        serde_json::from_str(&site.run(&["stats", "--format", "json"]).ok().stdout).unwrap()
    };
    let requests = stats()["total"]["requests"].as_u64().unwrap();
    let fork = family.fork();
    let events = site.run(&["run", "--session", &fork, "--format", "json", "other"]).ok().events();
    let heir = all(&events, "subagent.spawned")[0]["data"]["session"].as_str().unwrap();
    let made = all(&events, "model.requested").len() as u64;
    assert_eq!(stats()["total"]["requests"], requests + made, "what is shared is counted once");
    let listed = site.run(&["sessions", "list", "--format", "json"]).ok().events();
    let ids: Vec<&str> = listed.iter().map(|session| session["id"].as_str().unwrap()).collect();
    assert!(
        ids.len() == 2 && ids.contains(&root.as_str()) && ids.contains(&fork.as_str()),
        "{ids:?}"
    );
    site.run(&["sessions", "rm", heir]).with(1).saying(&["is a child of", &fork]);
    // a fork of the forked child stays with the fork that it belongs to
    let of_heir = site.run(&["fork", heir]).ok().stdout.trim().to_owned();
    site.run(&["sessions", "rm", &fork]).with(1).saying(&[&of_heir]);
    let refused = site.run(&["sessions", "rm", root]).with(1);
    assert!(!refused.stderr.contains(heir), "{refused:?}");
    site.run(&["sessions", "rm", &of_heir, &fork]).ok();
    let heads = std::fs::read_dir(site.session().join("heads")).unwrap();
    assert_eq!(heads.count(), 2, "root and child are left");
    family.assert_sound(&[root]);
    site.run(&["sessions", "rm", root]).ok();
    assert_eq!(site.sessions().len(), 0);
}

#[test]
fn export_and_import_of_it_all_keep_every_state() {
    let family = parent_and_child(&sees());
    let fork = family.fork();
    let ran = family.site.run(&["run", "--session", &fork, "--format", "json", "other"]).ok();
    let ran = ran.events();
    let heir = all(&ran, "subagent.spawned")[0]["data"]["session"].as_str().unwrap();
    let ParentAndChild { site, root, child, .. } = family;
    let exported = site.run(&["export", &fork]).ok().stdout;
    let file = site.file("fork.jsonl", &exported);
    let states = |site: &Site| {
        [&fork, heir, &child].map(|id| site.run(&["replay", id, "--state"]).ok().stdout)
    };
    let before = states(&site);
    let home = site.path("another-home");
    let site = site.env("LEFTFOLD_HOME", home.to_str().unwrap());
    // the shared part of the root comes first
    assert_eq!(site.run(&["import", file.to_str().unwrap()]).ok().stdout.trim(), root);
    assert_eq!(states(&site), before);
    assert_eq!(site.run(&["export", &fork]).ok().stdout, exported);
    site.run(&["check", &root]).ok();
    site.run(&["verify", &root, &fork, heir, &child]).ok();
    // and the fork can be continued
    let on = on("and now", 5, says("Still here."));
    let site = site.setting("/provider/double/options/script/replies", json!([on]));
    site.run(&["run", "--session", &fork, "and now"]).ok();
    site.run(&["verify", &fork]).ok();
}

#[test]
fn a_kill_in_the_middle_costs_nothing() {
    let waits = bash("touch started; while [ ! -e go ]; do sleep 0.05; done");
    let family = parent_and_child(&[
        on("look elsewhere", 1, waits),
        on("look elsewhere", 2, says("Not here.")),
        on("look once more", 3, says("Nor there.")),
    ]);
    let ParentAndChild { site, root, child, .. } = &family;
    let fork = family.fork();
    let mut live = site.start(&["run", "--session", &fork, "--format", "json", "other"]);
    let spawned = live.until("subagent.spawned");
    let heir = spawned["data"]["session"].as_str().unwrap();
    wait_until("the command runs", || site.project().join("started").exists());
    live.signal(Signal::KILL);
    live.wait();
    site.file("go", "");
    let events = site.run(&["resume", &fork, "--format", "json"]).ok().events();
    assert_eq!(end(&events)["text"], "Heard of others.");
    assert_eq!(only(&events, "tool.lost")["session"], heir);
    let log = family.log(heir);
    only(&log, "session.forked");
    only(&log, "session.adopted");
    family.assert_sound(&[root, child, &fork, heir]);
    rerun_all(site);
}

/// Kills the program at each group of appends in turn, before and after it.
#[test]
fn killed_at_every_append_it_is_forked_once() {
    if cfg!(not(debug_assertions)) {
        return common::skipped("only debug builds have faults to inject");
    }
    let family = parent_and_child(&sees());
    let (mut kills, mut made) = (0, Vec::new());
    let seed: usize =
        std::env::var("LEFTFOLD_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(0);
    for group in 1.. {
        let place = ["before", "synced", "headed"][(group + seed) % 3];
        let fork = family.fork();
        let mut command = family.site.command(&["run", "--session", &fork, "other"]);
        command.env("LEFTFOLD_CRASH_AT", format!("{group}:{place}"));
        let whole = command.output().unwrap().status.success();
        if !whole {
            kills += 1;
            family.site.run(&["resume", &fork]).ok();
        }
        let log = family.log(&fork);
        if all(&log, "turn.prompted").is_empty() {
            continue; // it died before it was told anything
        }
        assert_eq!(end(&log)["text"], "Heard of others.", "{group}:{place}");
        let spawned = all(&log, "subagent.spawned");
        let heir = spawned[0]["data"]["session"].as_str().unwrap();
        assert!(spawned.iter().all(|spawned| spawned["data"]["session"] == heir));
        let of_heir = family.log(heir);
        only(&of_heir, "session.adopted");
        assert_eq!(all(&of_heir, "turn.prompted").len(), 2, "{group}:{place}");
        made.extend([fork.clone(), heir.to_owned()]);
        if whole {
            break;
        }
    }
    family.assert_sound(&made.iter().map(String::as_str).collect::<Vec<_>>());
    assert!(kills > 5, "{kills} kills");
}
