//! A damaged log: `check` says where, reading returns the good part, and nobody may write.

use std::path::{Path, PathBuf};

use common::{Live, Ran, Site, bash, says, script};
use serde_json::{Value, json};

/// A session of many events, the folder of its store, and its output.
fn written() -> (Site, PathBuf, String) {
    let mut replies: Vec<Value> = (0..12).map(|n| bash(&format!("echo number {n}"))).collect();
    replies.push(says("done"));
    let site = Site::scripted(&script(json!(replies)));
    let stdout = site.prompt("go").ok().stdout;
    let folder = site.session();
    (site, folder, stdout)
}

/// A copy of the store under its own name, so that it contains the session of that name.
fn copy(site: &Site, folder: &Path, name: &str) -> PathBuf {
    let under = site.path(name);
    std::fs::create_dir(&under).unwrap();
    let copied = std::process::Command::new("cp").arg("-r").args([folder, &under]).status();
    assert!(copied.unwrap().success());
    under.join(folder.file_name().unwrap())
}

fn named(site: &Site, command: &str, folder: &Path) -> Ran {
    Live::start(site.command(&[command, folder.to_str().unwrap()])).wait()
}

/// Checks that `check` has found damage and reports it in JSON.
fn assert_told(ran: &Ran) {
    assert_eq!(ran.code, 1, "{ran:?}");
    let mut count = 0;
    for line in ran.stdout.lines().filter(|line| line.starts_with('{')) {
        let damage: Value = serde_json::from_str(line).unwrap();
        let keys: Vec<&String> = damage.as_object().unwrap().keys().collect();
        assert_eq!(keys, ["file", "offset", "session", "seq", "what"]);
        assert!(damage["file"].is_string() && damage["what"].is_string());
        count += 1;
    }
    assert_ne!(count, 0, "{ran:?}");
}

/// Checks that the readable part of the damaged log is a prefix of the printed lines.
fn assert_prefix(export: &Ran, printed: &str) {
    let lines = export.stdout.lines().filter(|line| !line.starts_with(r#"{"v":1,"payload""#));
    assert!(lines.zip(printed.lines()).all(|(found, printed)| found == printed));
    assert!(!export.stderr.contains("panicked"), "{export:?}");
}

#[test]
fn flipped_bytes_are_found_or_harmless() {
    let (site, folder, printed) = written();
    let length = std::fs::read(folder.join("db")).unwrap().len();
    let mut found = 0;
    for n in 0..10 {
        let damaged = copy(&site, &folder, &format!("flip{n}"));
        let mut bytes = std::fs::read(damaged.join("db")).unwrap();
        // skips zeros to a byte that is in use
        let at = (n * length / 10..length).find(|at| bytes[*at] != 0).unwrap_or(0);
        bytes[at] ^= 0x55;
        std::fs::write(damaged.join("db"), bytes).unwrap();
        let (check, export) = (named(&site, "check", &damaged), named(&site, "export", &damaged));
        assert_prefix(&export, &printed);
        if check.code == 0 {
            assert_eq!(export.code, 0, "byte {at}: {export:?}");
            assert!(
                export.stdout.ends_with(printed.lines().last().unwrap().trim_end())
                    || export.stdout.ends_with('\n')
            );
            assert_eq!(export.stdout.lines().last(), printed.lines().last(), "byte {at}");
        } else {
            assert_told(&check);
            assert_eq!(export.code, 1, "byte {at}: {export:?}");
            found += 1;
        }
    }
    assert!(found > 0);
}

#[test]
fn a_log_that_is_cut_short_of_what_was_told_is_damaged() {
    let (site, folder, printed) = written();
    let length = std::fs::read(folder.join("db")).unwrap().len();
    for part in 1..4 {
        let damaged = copy(&site, &folder, &format!("cut{part}"));
        let file = std::fs::OpenOptions::new().write(true).open(damaged.join("db")).unwrap();
        file.set_len((length * part / 4) as u64).unwrap();
        let (check, export) = (named(&site, "check", &damaged), named(&site, "export", &damaged));
        assert_prefix(&export, &printed);
        if check.code == 0 {
            assert_eq!(export.stdout.lines().last(), printed.lines().last(), "cut at {part}/4");
        } else {
            assert_told(&check);
        }
    }
    let emptied = copy(&site, &folder, "emptied");
    std::fs::write(emptied.join("db"), "").unwrap();
    assert_told(&named(&site, "check", &emptied));
    assert_eq!(named(&site, "replay", &emptied).code, 1);
}

#[test]
fn nobody_goes_on_with_a_damaged_log() {
    let (site, folder, _) = written();
    std::fs::write(folder.join("db"), "").unwrap();
    let session = folder.to_str().unwrap();
    for args in [&["run", "--session", session, "more"][..], &["resume", session]] {
        let ran = site.run(args).with(1);
        ran.saying(&["damaged"]);
    }
}

#[test]
fn a_folder_that_is_no_store_is_named() {
    let site = Site::scripted(&script(json!([says("never")])));
    let folder = site.path("user");
    for command in ["check", "export", "replay", "verify", "resume"] {
        let ran = named(&site, command, &folder);
        assert_ne!(ran.code, 0, "{command}: {ran:?}");
        ran.saying(&[folder.to_str().unwrap()]);
    }
    assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 0, "something was made in there");
}

#[test]
fn a_head_that_is_missing_is_no_damage() {
    let (site, folder, printed) = written();
    std::fs::remove_dir_all(folder.join("heads")).unwrap();
    let check = named(&site, "check", &folder);
    assert_eq!(check.code, 0, "{check:?}");
    assert_prefix(&named(&site, "export", &folder), &printed);
}
