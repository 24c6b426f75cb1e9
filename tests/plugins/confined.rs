//! Plugins in the sandbox: they keep the processes and files of the user, and do not see Leftfold's data.
#![cfg(target_os = "linux")]

use std::fs;
use std::os::unix::fs::PermissionsExt;

use common::{Site, call, says, script, skipped, sleeping, wait_until};
use rustix::process::Signal;
use serde_json::{Value, json};

/// A plugin with the tool `job`, which runs the lines of `jobs` and says which of them succeed.
const PLUGIN: &str = r#"
while IFS= read -r line; do
    id=${line#*'"id":'}
    id=${id%%,*}
    case $line in
    *'"method":"initialize"'*) said='{"name":"p","tools":[{"name":"job"}]}' ;;
    *'"method":"tool"'*)
        while IFS= read -r job; do
            if bash -c "$job" >> out 2>&1 < /dev/null; then echo yes; else echo no; fi
        done < jobs > results
        said='"done"'
        ;;
    *) continue ;;
    esac
    printf '{"jsonrpc":"2.0","id":%s,"result":%s}\n' "$id" "$said"
done
"#;

fn site(sandbox: &str, jobs: &[&str]) -> Site {
    let replies = json!([call("p_job", json!({})), says("Done.")]);
    let site = Site::scripted(&script(replies)).sandboxed();
    let site = site.setting("/permission", json!({ "p_*": "allow" }));
    let plugin = site.file("plugin.sh", PLUGIN);
    site.file("jobs", jobs.join("\n") + "\n");
    let other = site.path("home/sessions/01ARZ3NDEKTSV4RRFFQ69G5FAV");
    fs::create_dir_all(&other).unwrap();
    fs::write(other.join("log"), "PRIVATE").unwrap();
    fs::write(site.path("home/auth.json"), r#"{ "x": { "type": "api", "key": "PRIVATE" } }"#)
        .unwrap();
    fs::set_permissions(site.path("home/auth.json"), fs::Permissions::from_mode(0o600)).unwrap();
    site.setting(
        "/plugin",
        json!([{ "command": ["sh", plugin], "cwd": "{project}", "sandbox": sandbox }]),
    )
}

/// Runs the jobs in the plugin, and compares whether they succeed.
fn check(site: &Site, jobs: &[(&str, bool)]) {
    let lines: Vec<&str> = jobs.iter().map(|(line, _)| *line).collect();
    site.file("jobs", lines.join("\n") + "\n");
    site.prompt("go").ok();
    let results = site.text("results");
    let results: Vec<bool> = results.lines().map(|line| line == "yes").collect();
    assert_eq!(results.len(), jobs.len(), "{results:?}");
    for ((line, works), worked) in jobs.iter().zip(results) {
        assert_eq!(worked, *works, "{line}: {}", site.text("out"));
    }
    site.assert_sound();
}

#[test]
fn a_plugin_sees_everything_but_the_data_of_leftfold() {
    let pid = std::process::id();
    check(
        &site("on", &[]),
        &[
            ("echo x > made && echo x > ../made && echo x > ~/.made", true),
            (&format!("kill -0 {pid} && test -e /proc/{pid}/comm"), true),
            ("test -e /dev/null && test -e /dev/ptmx && test ! -e /dev/hidden", true),
            // its session's socket is there, although the session was opened after the plugin
            ("test -S ../home/sessions/*/socket", true),
            ("cat ../home/auth.json", false),
            ("cat ../home/sessions/01ARZ3NDEKTSV4RRFFQ69G5FAV/log", false),
            ("cd ../home/sessions/* && touch new", false),
            ("echo x > ../home/new", false),
        ],
    );
}

#[test]
fn its_settings_turn_the_sandbox_off() {
    check(&site("off", &[]), &[("cat ../home/auth.json", true)]);
}

#[test]
fn a_plugin_ends_with_its_node_and_no_folder_stays_without_a_session() {
    let number = format!("4567.{}", std::process::id());
    let job = format!("echo > up; exec sleep {number}");
    let site = site("on", &[&job]);
    let before = sessions(&site);
    site.run(&["plugins"]).ok();
    // the model is unknown, so the session is never opened
    assert!(!site.run(&["run", "--model", "no/model", "go"]).stderr.is_empty());
    assert_eq!(sessions(&site), before);
    let mut live = site.start(&["run", "--format", "json", "go"]);
    live.until("tool.started");
    wait_until("the job", || site.project().join("up").exists() && sleeping(&number) == 1);
    live.signal(Signal::KILL);
    live.wait();
    wait_until("its end", || sleeping(&number) == 0);
}

fn sessions(site: &Site) -> usize {
    fs::read_dir(site.path("home/sessions")).unwrap().count()
}

#[test]
fn one_that_cannot_start_in_the_sandbox_is_told_of_with_the_setting_that_opts_out() {
    let plugins = json!([["no-such-program-anywhere"], ["sh", "-c", "echo broken >&2; exit 7"]]);
    let site = site("on", &[]).setting("/plugin", plugins);
    site.run(&["run", "go"]).saying(&[
        "cannot start `no-such-program-anywhere` in ",
        "it ended at once (exit status: 7) in the sandbox, which `\"sandbox\": \"off\"` in its settings turns off; it \
         said: broken",
    ]);
}

#[test]
fn without_namespaces_a_plugin_starts_and_landlock_hides_the_data() {
    let site = site("on", &["cat ../home/auth.json", "echo x > made"]);
    let inner = site.command(&["run", "--format", "json", "go"]);
    // root could still make the other namespaces
    let none = "echo 0 > /proc/sys/user/max_user_namespaces && exec setpriv --bounding-set=-sys_admin \"$@\"";
    let mut command = std::process::Command::new("unshare");
    command.args(["-r", "sh", "-c", none, "sh"]).arg(inner.get_program()).args(inner.get_args());
    command.env_clear().current_dir(site.project());
    command.envs(inner.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let output = command.output().unwrap();
    if String::from_utf8_lossy(&output.stderr).contains("unshare: ") && output.stdout.is_empty() {
        skipped("this machine has no user namespaces");
        return;
    }
    assert_eq!(site.text("results"), "no\nyes\n", "{output:?}{}", site.text("out"));
    assert!(site.text("out").contains("Permission denied"));
    let events: Vec<Value> = String::from_utf8_lossy(&output.stdout)
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(common::end(&events)["reason"], "completed");
}
