//! The program runs its commands in the sandbox: what the log says, what a command is denied, and what people can open.

use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener};

use common::{Site, all, bash, end, only, says, script, skipped};
use serde_json::{Value, json};

use crate::confined::has_bwrap;

/// A site whose commands run in the sandbox, and whose rules allow every command.
fn site(replies: &[Value]) -> Site {
    let replies: Vec<Value> = replies.iter().cloned().chain([says("Done.")]).collect();
    let site = Site::scripted(&script(json!(replies))).sandboxed();
    let site = site.setting("/permission", json!({ "bash": "allow" }));
    let git = std::process::Command::new("git").args(["init", "-q"]).arg(site.project()).status();
    assert!(git.unwrap().success());
    site
}

/// A site whose model runs the shell script `lines`, with further arguments. The rules see only the name of the script.
fn running(lines: &str, more: &Value) -> Site {
    let mut input = json!({ "command": "bash job.sh" });
    input.as_object_mut().unwrap().extend(more.as_object().cloned().unwrap_or_default());
    let site = site(&[common::call("bash", input)]);
    site.file("job.sh", lines);
    site
}

/// The result of the only command.
fn finished(events: &[Value]) -> &Value {
    &only(events, "tool.finished")["data"]
}

#[test]
fn a_command_that_the_sandbox_stops_says_what_was_denied_and_runs_once() {
    for (line, what, path) in [
        ("git config a.b c", "write", "project/.git/config"),
        ("echo x > .git/hooks/post-commit", "write", "project/.git/hooks/post-commit"),
        ("echo x > .git/info/attributes", "write", "project/.git/info/attributes"),
        ("cat $HOME/.unknown", "read", "user/.unknown"),
        ("cat .env", "read", "project/.env"),
        ("cat $HOME/.ssh/id_ed25519", "read", "user/.ssh/id_ed25519"),
    ] {
        let site = running(&format!("echo ran >> runs\n{line}"), &json!({}));
        site.file(".env", "KEY=1\n");
        site.file(".git/info/attributes", "");
        std::fs::write(site.path("user/.unknown"), "PRIVATE\n").unwrap();
        std::fs::create_dir(site.path("user/.ssh")).unwrap();
        std::fs::write(site.path("user/.ssh/id_ed25519"), "PRIVATE\n").unwrap();
        let ran = site.prompt("go").ok();
        let events = ran.events();
        let result = finished(&events);
        let denied =
            result["metadata"]["sandbox"]["denied"].as_array().cloned().unwrap_or_default();
        let ends = |it: &Value| it.as_str().is_some_and(|it| it.ends_with(path));
        assert!(
            denied.iter().any(|it| it["what"] == what && ends(&it["path"])),
            "{line}: {result}"
        );
        assert_eq!(result["metadata"]["error_kind"], "sandbox_denied", "{line}");
        assert!(result["output"].as_str().unwrap().contains("The sandbox denied"), "{line}");
        assert!(!ran.stdout.contains("PRIVATE") && !ran.stdout.contains("KEY=1"), "{line}");
        assert_eq!(site.text("runs"), "ran\n", "{line}");
        assert!(!site.project().join(".git/hooks/post-commit").exists());
        site.assert_sound();
    }
}

#[test]
fn the_profile_is_in_the_log_and_nothing_else_needs_it() {
    let site = site(&[bash("echo made > made; echo $$")]);
    let events = site.prompt("go").ok().events();
    let sandbox = &only(&events, "tool.started")["data"]["sandbox"];
    assert_eq!(sandbox["network"], false);
    assert_eq!(sandbox["worktree"], "write");
    assert_eq!(finished(&events)["metadata"]["exit"], 0);
    assert_eq!(site.text("made"), "made\n");
    site.assert_sound();
    for arguments in [["replay", "last"], ["rerun", "last"]] {
        let mut command = site.command(&arguments);
        // no sandbox can be made
        command.env("LEFTFOLD_SANDBOX", "off");
        let output = command.output().unwrap();
        assert!(output.status.success(), "{arguments:?}: {output:?}");
    }
}

#[test]
fn the_network_is_a_permission_of_its_own() {
    let connect = "exec 3<>/dev/udp/192.0.2.1/9 && echo connected";
    for (more, settings, allowed) in [
        (json!({}), json!({}), false),
        (json!({ "network": true }), json!({}), false),
        (json!({ "network": true }), json!({ "network": "allow" }), true),
        (json!({ "network": true }), json!({ "network": "deny" }), false),
    ] {
        let mut rules = json!({ "bash": "allow" });
        rules.as_object_mut().unwrap().extend(settings.as_object().cloned().unwrap());
        let site = running(connect, &more).setting("/permission", rules);
        let events = site.prompt("go").ok().events();
        let started = all(&events, "tool.started");
        if more == json!({}) || allowed {
            assert_eq!(started[0]["data"]["sandbox"]["network"], allowed, "{more} {settings}");
        } else {
            assert!(started.is_empty(), "{more} {settings}");
        }
        let has_network = events.iter().any(|event| event.to_string().contains("\"connected\\n"));
        // a machine without any route cannot connect either
        assert!(!has_network || allowed, "{more} {settings}");
    }
}

#[test]
fn leaving_the_sandbox_takes_a_permission_that_no_rule_for_everything_gives() {
    let outside = |settings: Value, arguments: &[&str]| {
        let site = running("echo x > ../outside", &json!({ "unsandboxed": true }));
        let site = site.setting("/permission", settings);
        let events = site.run(&[&["run", "--format", "json"], arguments, &["go"]].concat());
        let started = all(&events.ok().events(), "tool.started").len();
        (started, site.path("outside").exists())
    };
    assert_eq!(outside(json!("allow"), &[]), (0, false));
    assert_eq!(outside(json!({ "bash": "allow" }), &["--yes"]), (1, true));
}

#[test]
fn a_planning_agent_changes_nothing() {
    let site = running("echo x > made; git status --short", &json!({}));
    let run = ["run", "--format", "json", "--agent", "plan", "go"];
    let events = site.run(&run).ok().events();
    let started = all(&events, "tool.started");
    assert_eq!(started[0]["data"]["sandbox"]["worktree"], "read", "{events:?}");
    assert!(!site.project().join("made").exists());
    assert!(finished(&events)["output"].as_str().unwrap().contains("?? job.sh"));
}

/// A home folder in which everything but `keys` and `startup` is ordinary, and the events of a session in it.
fn at_home(site: &Site, arguments: &[&str]) -> Vec<Value> {
    for name in [".ssh/id", ".bashrc", ".local/bin/tool", "notes.txt", "code/a.txt"] {
        site.file_of_stranger(name, "before\n");
    }
    let mut command = site.command(&[&["run", "--format", "json"], arguments, &["go"]].concat());
    command.env("HOME", site.project()).env_remove("XDG_CONFIG_HOME");
    common::Live::start(command).wait().ok().events()
}

#[test]
fn in_a_home_folder_edits_ask_and_commands_only_read() {
    let site = running("echo x > notes.txt; cat notes.txt .ssh/id; echo x >> .bashrc", &json!({}));
    let events = at_home(&site, &[]);
    assert_eq!(only(&events, "tool.started")["data"]["sandbox"]["worktree"], "read");
    let result = finished(&events).to_string();
    assert!(result.contains("start Leftfold in a project's folder"), "{result}");
    // the key is hidden and the note is readable
    assert_eq!(result.matches("before").count(), 1, "{result}");
    for name in ["notes.txt", ".bashrc"] {
        assert_eq!(site.text(name), "before\n", "{name}");
    }
    let write =
        |path: &str| common::call("write", json!({ "filePath": path, "content": "after\n" }));
    for (reply, arguments, file, expected) in [
        (write("new.txt"), &[][..], "new.txt", ""),
        (write("new.txt"), &["--permission-mode", "accept-edits"], "new.txt", "after\n"),
        (write("new.txt"), &["--yes"], "new.txt", "after\n"),
        (write(".zshenv"), &["--permission-mode", "accept-edits"], ".zshenv", ""),
        (bash("echo after > notes.txt"), &[], "notes.txt", "before\n"),
        (
            bash("echo after > notes.txt"),
            &["--permission-mode", "accept-edits"],
            "notes.txt",
            "after\n",
        ),
        (
            bash("echo after > .bashrc"),
            &["--permission-mode", "accept-edits"],
            ".bashrc",
            "before\n",
        ),
        (bash("echo after > .bashrc"), &["--yes"], ".bashrc", "after\n"),
    ] {
        let site = self::site(&[reply]);
        at_home(&site, arguments);
        assert_eq!(site.text(file), expected, "{file} {arguments:?}");
    }
    for (call, file) in [("read", "filePath"), ("grep", "path")] {
        let mut input = json!({ "pattern": "before" });
        input[file] = json!(".ssh/id");
        let site = self::site(&[common::call(call, input)]);
        let events = at_home(&site, &[]);
        assert!(all(&events, "tool.started").is_empty(), "{call}: {events:?}");
    }
}

#[test]
fn a_command_that_may_change_the_home_folder_changes_no_start_up_file() {
    let lines = "echo x > notes.txt\necho x >> .bashrc\necho x > .local/bin/git\n\
        mv .local .old && mkdir -p .local/bin && echo x > .local/bin/tool\n\
        cat .ssh/id\necho x > .zshenv\necho x > .cargo/registry/x\n";
    let site = running(lines, &json!({}));
    let site = site.setting("/sandbox/write", json!(["~"]));
    site.file_of_stranger(".cargo/registry/y", "");
    let events = at_home(&site, &[]);
    let result = finished(&events);
    for (name, expected) in [
        ("notes.txt", "x\n"),
        (".cargo/registry/x", "x\n"),
        (".bashrc", "before\n"),
        (".local/bin/tool", "before\n"),
        (".local/bin/git", ""),
    ] {
        assert_eq!(site.text(name), expected, "{name}: {result}");
    }
    assert!(!result["output"].as_str().unwrap().contains("before"), "{result}");
    // no mount can stand where nothing is
    let made = result["metadata"]["sandbox"]["made"].to_string();
    assert!(made.contains(".zshenv"), "{result}");
}

#[test]
fn an_approved_file_is_opened() {
    for (line, path) in [("cat .env", ".env"), ("git config a.b c", ".git/config")] {
        let site = site(&[bash(line)]);
        site.file(".env", "KEY=1\n");
        let events = site.run(&["run", "--yes", "--format", "json", "go"]).ok().events();
        let result = finished(&events);
        assert_eq!(result["metadata"]["exit"], 0, "{path}: {result}");
    }
}

#[test]
fn a_link_of_the_project_shows_nothing_that_is_hidden() {
    const PRIVATE: &str = "PRIVATE-0123456789";
    let names = ["web/leftfold.json", ".git/modules/m/config", "web/.opencode", ".git/hooks"];
    let script_of = names.map(|name| format!("cat {name} {name}/id 2>/dev/null\n")).concat();
    let site = Site::scripted(&script(json!([bash("bash job.sh"), says("Done.")]))).sandboxed();
    std::fs::create_dir_all(site.path("user/.ssh")).unwrap();
    std::fs::write(site.path("user/.ssh/id"), PRIVATE).unwrap();
    site.file("job.sh", format!("{script_of}cat vault/leftfold.json vault/.git/HEAD\n"));
    for name in ["web/x", ".git/modules/m/HEAD", "vault/leftfold.json", "vault/.git/HEAD"] {
        site.file_of_stranger(name, PRIVATE);
    }
    for (name, target) in names.iter().zip([".ssh/id", ".ssh/id", ".ssh", ".ssh"]) {
        std::os::unix::fs::symlink(site.path("user").join(target), site.project().join(name))
            .unwrap();
    }
    let hide = json!({ "hide": [site.project().join("vault")] });
    let site = site.setting("/sandbox", hide);
    let events = site.prompt("go").ok().events();
    let result = &only(&events, "tool.finished")["data"];
    assert!(!result.to_string().contains(PRIVATE), "{result}");
    assert_ne!(result["metadata"]["error_kind"], "sandbox_failed", "{result}");
}

#[test]
fn paths_that_are_not_utf_8_are_protected_too() {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;
    let job = "cat .env d*/.env x*.env\necho x > d*/leftfold.json\necho x > .git/hooks/h\necho made > made";
    let site = Site::bare().sandboxed();
    let project = site.path("").join(OsStr::from_bytes(b"p\xff"));
    let folder = project.join(OsStr::from_bytes(b"d\xfe"));
    std::fs::create_dir_all(&folder).unwrap();
    let secret = OsStr::from_bytes(b"x\xff.env");
    for file in [project.join(".env"), folder.join(".env"), project.join(secret)] {
        std::fs::write(file, "KEY=1\n").unwrap();
    }
    std::fs::write(folder.join("leftfold.json"), "{}").unwrap();
    std::fs::write(project.join("job.sh"), job).unwrap();
    let git = std::process::Command::new("git").args(["init", "-q"]).arg(&project).status();
    assert!(git.unwrap().success());
    // settings of a session cannot be read in such a folder
    let mut command = site.command(&["tool", "bash", "--args", r#"{"command":"bash job.sh"}"#]);
    command.current_dir(&project);
    let result = common::Live::start(command).wait().ok().stdout;
    assert!(!result.contains("KEY=1"), "{result}");
    assert_eq!(std::fs::read_to_string(project.join("made")).unwrap(), "made\n", "{result}");
    assert_eq!(std::fs::read_to_string(folder.join("leftfold.json")).unwrap(), "{}");
    assert!(!project.join(".git/hooks/h").exists());
}

#[test]
fn with_a_home_folder_that_is_not_utf_8_nothing_that_settings_hide_is_shown() {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;
    let site = running("cat $HOME/keys/k; cat $HOME/.ssh/id; cat $HOME/open", &json!({}));
    let site = site.setting("/sandbox", json!({ "hide": ["~/keys"] }));
    let home = site.path("").join(OsStr::from_bytes(b"h\xff"));
    for name in ["keys/k", ".ssh/id", "open"] {
        std::fs::create_dir_all(home.join(name).parent().unwrap()).unwrap();
        std::fs::write(home.join(name), format!("text of {name}\n")).unwrap();
    }
    let mut command = site.command(&["run", "--format", "json", "go"]);
    command.env("HOME", &home);
    let events = common::Live::start(command).wait().ok().events();
    let result = finished(&events);
    assert_eq!(result["metadata"]["error_kind"], "sandbox_failed", "{result}");
    assert!(!result.to_string().contains("text of"), "{result}");
}

#[test]
fn a_project_in_a_home_folder_below_tmp_can_be_changed() {
    let site = running("echo x > made; cat $HOME/.profile; echo x > $HOME/outside", &json!({}));
    let home = site.project().parent().unwrap().to_str().unwrap().to_owned();
    let site = site.env("HOME", home);
    std::fs::write(site.path(".profile"), "the profile\n").unwrap();
    let events = site.prompt("go").ok().events();
    assert_eq!(site.text("made"), "x\n", "{}", finished(&events));
    assert!(finished(&events)["output"].as_str().unwrap().contains("the profile"));
    assert!(!site.path("outside").exists());
}

/// Abstract sockets of a hostile user. In the kernel's table of sockets their names look like paths that are in use.
fn names_like_paths(site: &Site) -> Vec<UnixListener> {
    let project = site.project().display().to_string();
    let paths = [format!("{project}/made"), project, "/usr".to_owned(), "/a/../b".to_owned()];
    let bind = |path: &String| {
        let name = format!("{} {path}", site.path("").display());
        UnixListener::bind_addr(&SocketAddr::from_abstract_name(name).unwrap()).unwrap()
    };
    paths.iter().map(bind).collect()
}

#[test]
fn names_of_sockets_of_other_users_hide_nothing() {
    let rights: [fn(Site) -> Option<Site>; 2] = [Some, Site::obeying_permissions];
    for with_rights in rights {
        let Some(site) = with_rights(running("echo x >> made; ls /usr", &json!({}))) else {
            continue;
        };
        site.file("made", "");
        let _names = names_like_paths(&site);
        let events = site.prompt("go").ok().events();
        assert_eq!(finished(&events)["metadata"]["exit"], 0, "{}", finished(&events));
        assert_eq!(site.text("made"), "x\n");
    }
}

/// Runs two commands where no user namespace can be made, with the words `before` the program, and checks that the
/// sandbox has this backend. Returns standard error. `None` if this machine has no user namespaces anyway.
fn without_user_namespaces(before: &str, backend: &str) -> Option<String> {
    let site = site(&[bash("bash job.sh"), bash("echo again")]);
    site.file("job.sh", "echo x > ../outside; echo x > made");
    let _names = names_like_paths(&site);
    let inner = site.command(&["run", "--format", "json", "go"]);
    let none = format!("echo 0 > /proc/sys/user/max_user_namespaces && exec {before} \"$@\"");
    let mut command = std::process::Command::new("unshare");
    command.args(["-r", "sh", "-c", &none, "sh"]).arg(inner.get_program()).args(inner.get_args());
    command.env_clear().current_dir(site.project());
    command.envs(inner.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let output = command.output().unwrap();
    let told = String::from_utf8(output.stderr).unwrap();
    if told.contains("unshare: ") && output.stdout.is_empty() {
        skipped("this machine has no user namespaces");
        return None;
    }
    let said = String::from_utf8(output.stdout).unwrap();
    let events: Vec<Value> = said.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(end(&events)["reason"], "completed", "{told}");
    for started in all(&events, "tool.started") {
        assert_eq!(started["data"]["sandbox"]["backend"], backend, "{told}");
    }
    assert!(!site.path("outside").exists());
    assert_eq!(site.text("made"), "x\n", "{said}");
    Some(told)
}

#[test]
fn without_namespaces_landlock_is_told_once_and_confines() {
    // root could still make the other namespaces
    let told = without_user_namespaces("setpriv --bounding-set=-sys_admin", "landlock");
    if let Some(told) = told {
        assert_eq!(told.matches("under Landlock").count(), 1, "{told}");
        let line = told.lines().find(|line| line.contains("under Landlock")).unwrap();
        assert!(["Allow user namespaces", "install bubblewrap"].iter().any(|it| line.contains(it)));
    }
}

#[test]
fn bwrap_confines_where_only_root_may_make_namespaces() {
    if !rustix::process::geteuid().is_root() || !has_bwrap() {
        return;
    }
    if let Some(told) = without_user_namespaces("", "bwrap") {
        assert!(!told.contains("under Landlock"), "{told}");
    }
}

#[test]
fn a_call_and_its_node_leave_no_process_behind() {
    let left = "env -i setsid sleep 1234.5 & env -i setsid sleep 1234.5 & sleep 0.1; echo up > up; sleep 60";
    let site = running(left, &json!({}));
    let mut live = site.start(&["run", "--format", "json", "go"]);
    live.until("tool.started");
    common::wait_until("the command", || site.project().join("up").exists());
    assert_eq!(sleeping(), 2);
    live.signal(rustix::process::Signal::KILL);
    live.wait();
    common::wait_until("their end", || sleeping() == 0);
}

/// Processes `sleep 1234.5`, whatever became of their environment.
fn sleeping() -> usize {
    let table = std::fs::read_dir("/proc").unwrap().filter_map(Result::ok);
    let lines = table.filter_map(|entry| std::fs::read(entry.path().join("cmdline")).ok());
    lines.filter(|line| line == b"sleep\x001234.5\x00").count()
}
