//! `leftfold check --salvage`: a damaged session becomes readable and resumable, and nothing
//! readable is lost. `sessions prune`: removes files that nothing refers to.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use common::{Live, Ran, Site, bash, says, script};
use serde_json::{Value, json};

/// A session of many events whose files look as if it was killed before it was closed.
fn written() -> (Site, PathBuf) {
    let mut replies: Vec<Value> = (0..12).map(|n| bash(&format!("echo number {n}"))).collect();
    replies.push(says("done"));
    replies.push(says("more"));
    let site = Site::scripted(&script(json!(replies)));
    site.prompt("go").ok();
    let folder = site.session();
    (site, folder)
}

/// All files below a folder, with their contents.
pub(crate) fn files(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                found.insert(path.clone(), fs::read(path).unwrap());
            }
        }
    }
    found
}

fn on(site: &Site, args: &[&str]) -> Ran {
    Live::start(site.command(args)).wait()
}

/// Flips a byte in the middle of the used part of the database.
fn damage(folder: &Path) {
    let path = folder.join("db");
    let mut bytes = fs::read(&path).unwrap();
    let used = bytes.iter().rposition(|byte| *byte != 0).unwrap();
    bytes[used / 2] ^= 0x55;
    fs::write(path, bytes).unwrap();
}

fn seqs(ran: &Ran) -> Vec<u64> {
    ran.events().iter().filter_map(|event| event["seq"].as_u64()).collect()
}

#[test]
fn a_damaged_session_is_salvaged_and_goes_on() {
    let (site, folder) = written();
    let whole = seqs(&on(&site, &["export", folder.to_str().unwrap()]));
    damage(&folder);
    let before = files(&folder);
    let (out, name) = (site.path("out"), folder.file_name().unwrap().to_str().unwrap());
    let ran = on(&site, &["check", folder.to_str().unwrap(), "--salvage", out.to_str().unwrap()]);
    assert_eq!(ran.code, 1, "{ran:?}");
    let damage: Vec<Value> =
        ran.stdout.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    assert!(damage.iter().any(|damage| damage["offset"].is_u64()), "its place is told: {ran:?}");
    assert!(ran.stdout.contains("salvaged into"), "{ran:?}");
    assert!(files(&folder) == before, "the damaged store has changed");
    let out = out.to_str().unwrap();
    on(&site, &["check", out]).ok();
    on(&site, &["verify", out]).ok();
    on(&site, &["replay", out]).ok();
    let log = seqs(&on(&site, &["export", out]).ok());
    assert!(whole.starts_with(&log), "{log:?}");
    let beside = fs::read_to_string(Path::new(out).join(format!("lost+found/{name}.jsonl")));
    let beside = beside.unwrap_or_default();
    let beside = beside.lines().filter(|line| line.contains("\"seq\":")).count();
    let bad = on(&site, &["export", folder.to_str().unwrap()]);
    assert!(log.len() + beside >= seqs(&bad).len(), "{} and {beside}", log.len());
    on(&site, &["run", "--session", out, "go on"]).ok();
    on(&site, &["check", out]).ok();
}

#[test]
fn what_is_salvaged_can_be_read_by_a_program() {
    let (site, folder) = written();
    fs::remove_file(folder.join("conf")).unwrap();
    let (session, out) = (folder.to_str().unwrap(), site.path("out"));
    fs::create_dir(&out).unwrap();
    let ran =
        on(&site, &["check", session, "--format", "json", "--salvage", out.to_str().unwrap()]);
    let ran = ran.ok();
    let told: Value = serde_json::from_str(ran.stdout.lines().last().unwrap()).unwrap();
    assert_eq!((&told["beside"], &told["lost"]), (&json!([]), &json!([])), "{told}");
    assert_eq!(told["kept"][0], 1);
    let lines = |folder: &str| on(&site, &["export", folder]).ok().stdout;
    assert_eq!(lines(session), lines(out.to_str().unwrap()));
}

#[test]
fn a_database_that_cannot_be_opened_and_a_folder_that_is_full_are_refused() {
    let (site, folder) = written();
    let (session, out) = (folder.to_str().unwrap(), site.path("out"));
    let full = site.file("full/thesis.txt", "years");
    let full = full.parent().unwrap().to_str().unwrap();
    on(&site, &["check", session, "--salvage", full]).with(2).saying(&["not empty"]);
    let within = folder.join("new");
    on(&site, &["check", session, "--salvage", within.to_str().unwrap()]).with(2);
    fs::write(folder.join("db"), vec![0xa5; 300_000]).unwrap();
    let ran = on(&site, &["check", session, "--salvage", out.to_str().unwrap()]).with(1);
    ran.saying(&["nothing to salvage"]);
    assert!(!out.exists());
    let left = fs::read_dir(site.path("")).unwrap().map(|entry| entry.unwrap().file_name());
    assert!(!left.into_iter().any(|name| name.to_string_lossy().starts_with(".salvage-")));
}

#[test]
fn several_stores_get_a_folder_each() {
    let (site, first) = written();
    site.prompt("again").ok();
    let sessions = site.sessions();
    assert_eq!(sessions.len(), 2);
    let out = site.path("out");
    let args: Vec<&str> = sessions.iter().map(|path| path.to_str().unwrap()).collect();
    on(&site, &[&["check"], &args[..], &["--salvage", out.to_str().unwrap()]].concat()).ok();
    for session in &sessions {
        let new = out.join(session.file_name().unwrap());
        on(&site, &["check", new.to_str().unwrap()]).ok();
    }
    assert!(first.exists());
}

#[test]
fn prune_removes_what_nothing_refers_to() {
    let site = Site::scripted(&script(json!([bash("seq 1 5000"), says("Done.")])));
    site.prompt("go").ok();
    let folder = site.session();
    let spill = fs::read_dir(folder.join("spill")).unwrap().next().unwrap().unwrap().path();
    fs::write(folder.join("spill/lost.txt"), "of a call that nobody knows").unwrap();
    fs::create_dir_all(folder.join("payloads")).unwrap();
    fs::write(folder.join("payloads/.tmpXyZ"), "half").unwrap();
    let dry = site.run(&["sessions", "prune", "--unused", "--dry-run"]).ok();
    assert!(
        dry.stdout.contains("1 full texts") && dry.stdout.contains("1 half-written"),
        "{dry:?}"
    );
    assert!(folder.join("spill/lost.txt").exists());
    let done = site.run(&["sessions", "prune", "--unused"]).ok();
    assert!(done.stdout.contains("removed"), "{done:?}");
    assert!(spill.exists() && !folder.join("spill/lost.txt").exists());
    assert!(!folder.join("payloads/.tmpXyZ").exists());
    assert_eq!(site.run(&["sessions", "prune", "--unused"]).ok().stdout, "0 bytes freed\n");
    let check = site.run(&["check", "last"]).ok();
    assert!(!format!("{check:?}").contains("note"), "{check:?}");
}
