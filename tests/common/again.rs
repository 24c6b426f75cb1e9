//! Reruns the sessions of a site with the real actors.

use serde_json::Value;

use super::{Live, Site};

/// Reruns all sessions of the site, children too, without settings and without the project.
pub fn rerun_all(site: &Site) {
    let of = |events: Vec<Value>| -> Vec<String> {
        let mut ids: Vec<_> =
            events.iter().filter_map(|e| e["session"].as_str().map(str::to_owned)).collect();
        ids.sort();
        ids.dedup();
        ids
    };
    let roots = site.sessions();
    let ids = roots
        .iter()
        .flat_map(|root| of(site.run(&["export", root.to_str().unwrap()]).ok().events()));
    let ids: Vec<String> = ids.collect();
    std::fs::rename(site.project(), site.path("away")).unwrap();
    std::fs::create_dir(site.project()).unwrap();
    let args = ["rerun"].into_iter().chain(ids.iter().map(String::as_str)).collect::<Vec<_>>();
    let mut command = site.command(&args);
    command.env_remove("LEFTFOLD_CONFIG_CONTENT");
    let ran = Live::start(command).wait();
    assert_eq!(ran.code, 0, "{ran:?}");
    assert_eq!(ran.stdout.matches("all the same").count(), ids.len(), "{ran:?}");
    assert_eq!(std::fs::read_dir(site.project()).unwrap().count(), 0, "it touched the project");
}
