//! Which folders outside the worktree a line is said to touch.

use leftfold_events::rules::DYNAMIC;
use serde_json::json;

use crate::testing::Site;

/// The patterns of `external_directory` that `line` asks for.
fn asked(site: &Site, line: &str) -> Vec<String> {
    let resolved = site.resolve("bash", &json!({ "command": line }));
    assert_eq!(resolved.error, None, "{line}");
    let outside = resolved.access.iter().filter(|a| a.permission == "external_directory");
    outside.flat_map(|access| access.patterns.clone()).collect()
}

#[test]
fn folders_outside_are_asked_for() {
    let site = Site::new();
    site.file("sub/deep/x", "");
    std::os::unix::fs::symlink(site.outside(""), site.path("link")).unwrap();
    std::fs::write(site.outside("f"), "").unwrap();
    let out = site.outside("");
    let out = out.to_string_lossy().trim_end_matches('/').to_owned();
    let outside = format!("{out}/*");
    let root = format!("{}/*", site.root().display());
    for (line, expected) in [
        ("cat sub/deep/x", None),
        ("cat OUT/f", Some(&outside)),
        ("cat ../outside/f", Some(&outside)),
        ("cat link/f", Some(&outside)),
        ("cat 'OUT/f'", Some(&outside)),
        ("rm -rf OUT", Some(&outside)),
        ("rm -rf OUT/*", Some(&outside)),
        ("rm OUT/{f,g}", Some(&outside)),
        ("cp x OUT", Some(&outside)),
        ("mv x link", Some(&outside)),
        ("mkdir -p ../outside/new", Some(&outside)),
        ("touch ../new", Some(&root)),
        ("ls ..", Some(&root)),
        ("tee -a OUT/f", Some(&outside)),
        ("ln -s OUT/f here", Some(&outside)),
        ("echo x > OUT/f", Some(&outside)),
        ("echo x >>link/f", Some(&outside)),
        ("make &> OUT/log", Some(&outside)),
        ("cat <<E > OUT/f\nx\nE\n", Some(&outside)),
        ("(echo x; ls) > OUT/f", Some(&outside)),
        ("cd OUT", Some(&outside)),
        ("cd OUT && rm f", Some(&outside)),
        ("cd sub && cat ../x", None),
        ("cd sub/deep; cat ../../x", None),
        ("cd sub && cat ../../outside/f", Some(&outside)),
        ("(cd sub); cat ../outside/f", Some(&outside)),
        ("cd sub | cat x; cat ../outside/f", Some(&outside)),
        ("cd nowhere; cat ../outside/f", Some(&outside)),
        ("if a; then cd sub; fi; cat ../outside/f", Some(&outside)),
        ("cd sub; cd -; cat ../outside/f", Some(&outside)),
        ("pushd sub; popd; cat ../outside/f", Some(&outside)),
        ("D=OUT; rm $D/f", Some(&outside)),
        ("D=OUT; E=\"$D/f\"; cat ${E}", Some(&outside)),
        ("for f in sub OUT; do cat \"$f/f\"; done", Some(&outside)),
        ("for f in *.rs; do rm \"$f\"; done", None),
        ("sudo rm OUT/f", Some(&outside)),
        ("bash -c 'rm OUT/f'", Some(&outside)),
        ("find OUT -name x", Some(&outside)),
        ("find . -exec rm OUT/f \\;", Some(&outside)),
        ("find . -name x -exec rm {} +", None),
        ("grep -r OUT/ .", None),
        ("grep x OUT/f", Some(&outside)),
        ("git -C OUT status", Some(&outside)),
        ("sort --output=OUT/f x", Some(&outside)),
        ("dd if=x of=OUT/f", Some(&outside)),
        ("echo OUT/f", None),
        ("curl -s x 2>/dev/null >/dev/null < /dev/null", None),
        ("mkdir -p sub/{a,b}/c", None),
        ("cat $PWD/sub/deep/x", None),
        ("rm sub/*/x", None),
        ("coproc rm OUT/f", Some(&outside)),
    ] {
        let line = line.replace("OUT", &out);
        let found: Vec<_> =
            asked(&site, &line).into_iter().filter(|p| !p.starts_with('<')).collect();
        assert_eq!(found, expected.into_iter().cloned().collect::<Vec<_>>(), "{line}");
    }
}

#[test]
fn home_is_known() {
    let site = Site::new();
    let home = std::env::var("HOME").unwrap();
    let home = std::fs::canonicalize(home).unwrap();
    let pattern = format!("{}/*", home.display());
    for line in ["ls ~", "cd", "cd ~", "ls $HOME", "cat \"${HOME}/no-such-x\"", "touch ~/no-such-x"]
    {
        assert_eq!(asked(&site, line), std::slice::from_ref(&pattern), "{line}");
    }
}

/// A change in a place that is not known may be anywhere; reading is let pass.
#[test]
fn changes_in_places_that_are_not_known_are_asked_for() {
    let site = Site::new();
    let unknown = format!("{DYNAMIC}/*");
    for (line, asks) in [
        ("rm -rf \"$D\"", true),
        ("rm -rf $D/x", true),
        ("rm sub/$D", true),
        ("echo x > $F", true),
        ("echo x > \"$(mktemp)\"", true),
        ("cd $D", true),
        ("cd \"$(git rev-parse --show-toplevel)\" && ls", true),
        ("rm */../../x", true),
        ("ls | xargs rm", true),
        ("rm ~root/x", true),
        ("D=a; read D; rm $D", true),
        ("D=a; D=$D/..; rm $D", true),
        ("rm a{1,2}{3,4}{5,6}{7,8}{1,2}{3,4}{5,6}{7,8}", true),
        ("cat $F", false),
        ("cat $(git ls-files)", false),
        ("ls | xargs cat", false),
        ("D=sub; rm $D/x", false),
        ("rm '$D'", false),
        ("echo $X", false),
        ("echo x 2>&1 >&2 2>&-", false),
        ("chown $(id -u) x", false),
    ] {
        assert_eq!(asked(&site, line).contains(&unknown), asks, "{line}");
    }
}

#[test]
fn a_path_that_moved_is_refused_in_a_line_too() {
    let site = Site::new();
    site.file("a", "");
    std::os::unix::fs::symlink("a", site.path("link")).unwrap();
    let resolved = site.resolve("bash", &json!({ "command": "rm link" }));
    assert_eq!(resolved.paths, [site.path("a").to_string_lossy()]);
    std::fs::remove_file(site.path("link")).unwrap();
    std::os::unix::fs::symlink(site.outside("x"), site.path("link")).unwrap();
    let output = tokio::runtime::Runtime::new()
        .unwrap()
        .block_on(async { crate::run(&resolved, site.context()).await });
    assert_eq!(crate::testing::kind(&output), "paths_changed");
}

#[test]
fn one_question_for_all_folders() {
    let site = Site::new();
    let input = json!({ "command": "cat /usr/x /etc/x", "workdir": site.outside("") });
    let resolved = site.resolve("bash", &input);
    assert_eq!(resolved.access.len(), 3);
    assert_eq!(resolved.access[0].patterns.len(), 3);
    assert_eq!(resolved.access[0].patterns, resolved.access[0].always);
    assert_eq!(resolved.access[1].permission, "bash");
    assert_eq!(resolved.access[2].permission, "read");
}
