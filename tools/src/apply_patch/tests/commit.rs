//! Writes that fail half-way.

use std::fs::Metadata;
use std::path::{Path, PathBuf};

use crate::apply_patch::commit::{Stage, Write};
use crate::testing::Site;

/// A path and its new text. `None` removes the file.
type Wanted<'a> = (&'a str, Option<&'a str>);

fn staged(site: &Site, wanted: &[Wanted<'_>]) -> Result<Stage, crate::Error> {
    let paths: Vec<PathBuf> = wanted.iter().map(|(name, _)| site.path(name)).collect();
    let found: Vec<Option<Metadata>> = paths.iter().map(|path| path.metadata().ok()).collect();
    let writes: Vec<Write<'_>> = (0..wanted.len())
        .map(|at| Write {
            path: &paths[at],
            before: found[at].as_ref(),
            bytes: wanted[at].1.map(str::as_bytes),
            mode_of: found[at].as_ref(),
        })
        .collect();
    Stage::new(&writes)
}

fn names(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn what_has_been_written_is_put_back() {
    // the last file cannot be put in place, because of a change made in between
    for (wanted, trouble) in [
        (&[("a", Some("A")), ("new/n", Some("N")), ("b", Some("B"))][..], "b"),
        (&[("a", Some("A")), ("new/n", Some("N")), ("b", None)], "b"),
        (&[("a", Some("A")), ("new/n", Some("N")), ("c", Some("C"))], "c"),
        (&[("a", None), ("d", None), ("new/n", Some("N")), ("b", None)], "b"),
    ] {
        let site = Site::new();
        for name in ["a", "b", "d"] {
            site.file(name, name);
        }
        let stage = staged(&site, wanted).unwrap();
        // another program puts a folder there
        let _ = std::fs::remove_file(site.path(trouble));
        std::fs::create_dir(site.path(trouble)).unwrap();
        let error = stage.commit().unwrap_err();
        assert_eq!(error.kind(), "not_written", "{error}");
        assert!(error.to_string().ends_with("all files are unchanged."), "{error}");
        let mut expected = vec!["a", "b", "d", trouble];
        expected.sort_unstable();
        expected.dedup();
        assert_eq!(names(&site.path("")), expected, "{wanted:?}");
        assert_eq!((site.text("a"), site.text("d")), ("a".to_owned(), "d".to_owned()));
        assert!(site.path(trouble).is_dir());
    }
}

#[test]
fn a_stage_that_is_not_committed_leaves_nothing() {
    let site = Site::new();
    site.file("a", "a");
    drop(staged(&site, &[("a", Some("A")), ("x/y/z", Some("Z")), ("n", Some("N"))]).unwrap());
    assert_eq!(names(&site.path("")), ["a"]);
    assert_eq!(site.text("a"), "a");
}

#[test]
fn what_cannot_be_staged_changes_nothing() {
    let site = Site::new();
    site.file("a", "a");
    let wanted = [("a", Some("A")), ("n/m", Some("M")), ("a/below", Some("B"))];
    let Err(error) = staged(&site, &wanted) else { panic!("a file in a file") };
    assert_eq!(error.kind(), "not_written");
    assert!(error.to_string().contains("a/below"), "{error}");
    assert_eq!(names(&site.path("")), ["a"]);
    assert_eq!(site.text("a"), "a");
}

#[test]
fn what_another_program_changes_meanwhile_is_kept() {
    for wanted in [&[("a", Some("A")), ("b", Some("B"))][..], &[("a", Some("A")), ("b", None)]] {
        let site = Site::new();
        for name in ["a", "b"] {
            site.file(name, name);
        }
        let stage = staged(&site, wanted).unwrap();
        site.file("b", "changed");
        let error = stage.commit().unwrap_err();
        assert!(error.to_string().contains("another program"), "{error}");
        assert_eq!((site.text("a"), site.text("b")), ("a".to_owned(), "changed".to_owned()));
        assert_eq!(names(&site.path("")), ["a", "b"]);
    }
}

#[test]
fn what_cannot_be_put_back_is_told() {
    let site = Site::new();
    site.file("a", "a");
    site.file("b", "b");
    let mut stage = staged(&site, &[("a", Some("A")), ("b", Some("B"))]).unwrap();
    assert!(stage.step().unwrap());
    // the files set aside disappear, so nothing can be restored
    for name in names(&site.path("")) {
        let path = site.path(&name);
        if name.starts_with(".leftfold-") && std::fs::read(&path).unwrap() == b"a" {
            std::fs::remove_file(path).unwrap();
        }
    }
    site.file("b", "changed");
    let error = stage.commit().unwrap_err();
    assert_eq!(error.kind(), "half_written");
    let (text, path) = (error.to_string(), site.path("a").display().to_string());
    assert!(text.contains(&format!("\n{path}: the old file is now ")), "{text}");
    assert_eq!((site.text("a"), site.text("b")), ("A".to_owned(), "changed".to_owned()));
}
