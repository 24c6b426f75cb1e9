mod outside;

use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::*;
use crate::testing::{Site, eventually, kind};
use crate::{OutputLimits, run_alone};

/// The pid that a command has written to `name`, once it has.
async fn pid(site: &Site, name: &str) -> i32 {
    let path = site.path(name);
    let read = || std::fs::read_to_string(&path).ok()?.trim().parse::<i32>().ok();
    eventually(name, || read().is_some()).await;
    read().unwrap()
}

/// Whether a process is there and has not ended.
fn runs(pid: i32) -> bool {
    std::fs::read_to_string(format!("/proc/{pid}/stat"))
        .is_ok_and(|stat| !stat.rsplit_once(") ").unwrap().1.starts_with('Z'))
}

/// Starts `line` and cancels it when `ready` says so; the output, and how long that took to come.
async fn cancelled(site: &Site, line: &str, ready: impl AsyncFnOnce()) -> (Output, Duration) {
    let resolved = site.resolve("bash", &json!({ "command": line }));
    let cx = site.context();
    let cancel = cx.cancel.clone();
    let running = tokio::spawn(async move { crate::run(&resolved, cx).await });
    ready().await;
    let start = Instant::now();
    cancel.cancel();
    (running.await.unwrap(), start.elapsed())
}

#[test]
fn resolution() {
    let site = Site::new();
    let resolved = site.resolve("bash", &json!({ "command": "cargo test -q", "timeout": 900_000 }));
    assert_eq!((resolved.class, resolved.timeout), (Class::Command, 600_000));
    assert_eq!(resolved.paths, [""; 0]);
    let [access] = resolved.access.as_slice() else { panic!("{resolved:?}") };
    assert_eq!(access.permission, "bash");
    assert_eq!((&access.patterns[0][..], &access.always[0][..]), ("cargo test -q", "cargo test *"));
    assert_eq!(site.resolve("bash", &json!({ "command": "ls" })).timeout, 120_000);
    let out = site.outside("");
    let resolved = site.resolve("bash", &json!({ "command": "ls", "workdir": out }));
    assert_eq!(resolved.access[0].permission, "external_directory");
    assert_eq!(resolved.access[0].patterns, [site.outside("*").to_string_lossy()]);
    assert_eq!(resolved.access[1].permission, "bash");
    assert_eq!(resolved.paths, [out.to_string_lossy().trim_end_matches('/')]);
}

/// The judge reads lines as bash does.
#[test]
fn a_line_that_the_shell_may_read_otherwise_is_unknown_too() {
    let site = Site::new();
    for (shell, line, is_unknown) in [
        (None, "[[ -f a ]] && ls", false),
        (Some("/usr/bin/bash"), "[[ -f a ]] && ls", false),
        (Some("/bin/dash"), "ls a", false),
        (Some("/bin/dash"), "[[ -f a ]] && ls", true),
        (Some("/usr/bin/zsh"), "ls a", true),
        (Some("/opt/fish/bin/fish"), "ls a", true),
    ] {
        let shell = shell.map(str::to_owned);
        let workspace = Workspace { shell: shell.clone(), ..site.workspace() };
        let input = leftfold_events::Json::from_value(&json!({ "command": line }));
        let call = leftfold_events::event::CallSpec { id: "c".into(), name: "bash".into(), input };
        let resolved = crate::resolve(&call, &workspace);
        let seen = resolved.access.iter().find(|it| it.permission == "bash").unwrap();
        assert_eq!(seen.patterns.contains(&"<dynamic>".to_owned()), is_unknown, "{shell:?} {line}");
        assert!(seen.patterns.iter().any(|pattern| pattern.starts_with("ls")), "{shell:?} {line}");
        assert!(!is_unknown || seen.always.is_empty(), "{shell:?} {line}");
    }
}

#[test]
fn a_confined_line_needs_no_permission_for_its_own_temporary_files() {
    use leftfold_events::sandbox::{Backend, SandboxOptions};
    let site = Site::new();
    std::fs::create_dir_all(site.outside("others")).unwrap();
    let others = std::fs::canonicalize(site.outside("others")).unwrap();
    let folder = others.to_str().unwrap().to_owned();
    for (backend, line, more, asks) in [
        (
            Backend::Namespaces,
            "echo x > /tmp/no-such-x; cat /var/tmp/no-such-y".to_owned(),
            json!({}),
            false,
        ),
        (
            Backend::Namespaces,
            "mkdir /tmp/none-such; touch /tmp/none-such/x".into(),
            json!({}),
            false,
        ),
        (Backend::Namespaces, format!("touch {folder}/x"), json!({}), true),
        (Backend::Namespaces, "touch /srv/x".into(), json!({}), true),
        (Backend::Namespaces, "touch /tmp/x".into(), json!({ "unsandboxed": true }), true),
        (Backend::Landlock, "touch /tmp/x".into(), json!({}), true),
        (Backend::Off, "touch /tmp/x".into(), json!({}), true),
    ] {
        let sandbox = Some(SandboxOptions { backend, ..SandboxOptions::default() });
        let workspace = Workspace { sandbox, ..site.workspace() };
        let mut input = json!({ "command": line });
        input.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let input = leftfold_events::Json::from_value(&input);
        let call = leftfold_events::event::CallSpec { id: "c".into(), name: "bash".into(), input };
        let resolved = crate::resolve(&call, &workspace);
        let found = resolved.access.iter().any(|it| it.permission == "external_directory");
        assert_eq!(found, asks, "{backend:?} {line}");
    }
}

#[test]
fn a_confined_line_asks_for_the_network_and_for_leaving_the_sandbox() {
    use leftfold_events::sandbox::Backend::{
        self, Bwrap, External, Landlock, Namespaces, Off, Seatbelt,
    };
    use leftfold_events::sandbox::SandboxOptions;
    let site = Site::new();
    let resolve = |sandbox: Option<Backend>, input: Value| {
        let sandbox =
            sandbox.map(|backend| SandboxOptions { backend, ..SandboxOptions::default() });
        let workspace = Workspace { sandbox, ..site.workspace() };
        let input = leftfold_events::Json::from_value(&input);
        let call = leftfold_events::event::CallSpec { id: "c".into(), name: "bash".into(), input };
        crate::resolve(&call, &workspace)
    };
    let line = |flags: &Value| {
        let mut input = json!({ "command": "npm ci && echo done" });
        input.as_object_mut().unwrap().extend(flags.as_object().unwrap().clone());
        input
    };
    let none = json!({});
    let confining = [Namespaces, Bwrap, Landlock, Seatbelt];
    for (sandboxes, flags, added, kept) in [
        (&confining[..], none.clone(), None, none.clone()),
        (&confining, json!({ "network": true }), Some("network"), json!({ "network": true })),
        (&confining, json!({ "network": "true" }), Some("network"), json!({ "network": true })),
        (&confining, json!({ "network": false, "unsandboxed": null }), None, none.clone()),
        (
            &confining,
            json!({ "unsandboxed": true }),
            Some("unsandboxed"),
            json!({ "unsandboxed": true }),
        ),
        (
            &confining,
            json!({ "network": true, "unsandboxed": true }),
            Some("unsandboxed"),
            json!({ "network": true, "unsandboxed": true }),
        ),
        (&[Off, External], json!({ "network": true, "unsandboxed": true }), None, none.clone()),
        (&[Backend::None], none.clone(), Some("unsandboxed"), none.clone()),
        (&[Backend::None], json!({ "network": true }), Some("unsandboxed"), none.clone()),
    ] {
        for sandbox in sandboxes {
            let resolved = resolve(Some(*sandbox), line(&flags));
            let (bash, more) = resolved.access.split_first().unwrap();
            let found: Vec<&str> = more.iter().map(|access| access.permission.as_str()).collect();
            assert_eq!(found, added.into_iter().collect::<Vec<_>>(), "{sandbox:?} {flags}");
            for access in more {
                assert_eq!((&access.patterns, &access.always), (&bash.patterns, &Vec::new()));
            }
            assert_eq!(resolved.input.value(), line(&kept), "{sandbox:?} {flags}");
        }
    }
    // a turn that knows no sandbox
    let flags = json!({ "network": true, "unsandboxed": true });
    assert_eq!(resolve(None, line(&flags)), resolve(None, line(&none)));
    let wrong = resolve(Some(Namespaces), line(&json!({ "network": "perhaps" })));
    assert!(wrong.error.unwrap().contains("`network`: expected true or false"));
}

/// An "always" for the network is the line alone, and there is none if a file of the project may be what runs: it can be
/// changed afterwards. There is none for a line that leaves the sandbox.
#[test]
fn an_always_for_the_network_runs_no_file_of_the_project() {
    use leftfold_events::sandbox::{Backend, SandboxOptions};
    let site = Site::new();
    site.file("x.sh", "");
    let always = |backend: Backend, input: Value| {
        let sandbox = Some(SandboxOptions { backend, ..SandboxOptions::default() });
        let workspace = Workspace { sandbox, ..site.workspace() };
        let input = leftfold_events::Json::from_value(&input);
        let call = leftfold_events::event::CallSpec { id: "c".into(), name: "bash".into(), input };
        let mut access = crate::resolve(&call, &workspace).access.into_iter();
        access.find(|it| matches!(it.permission.as_str(), NETWORK | UNSANDBOXED)).unwrap().always
    };
    for (line, offered) in [
        ("curl -s https://example.com", &["curl -s https://example.com"][..]),
        ("dig x.example.com", &["dig x.example.com"]),
        ("git fetch origin", &["git fetch origin"]),
        ("curl -s https://a.example | jq .a", &["curl -s https://a.example", "jq .a"]),
        ("timeout 5 ping -c 1 a", &["timeout 5 ping -c 1 a", "ping -c 1 a"]),
        ("sh -c 'curl https://a.example'", &[]),
        ("./x.sh", &[]),
        ("./curl a", &[]),
        ("/usr/../usr/bin/curl a && x.sh", &[]),
        ("bash x.sh", &[]),
        (". ./x.sh", &[]),
        ("python x.py", &[]),
        ("python3 -m http.server", &[]),
        ("make", &[]),
        ("cargo test", &[]),
        ("cargo fetch", &[]),
        ("npm run build", &[]),
        ("npm ci", &[]),
        ("go generate ./...", &[]),
        ("tox", &[]),
        ("unlisted-program --help", &[]),
        ("git push", &[]),
        ("git pull", &[]),
        ("wget --use-askpass=./x.sh https://a.example", &[]),
        ("rsync -e ./x.sh a b:", &[]),
        ("git -c core.sshCommand=./x.sh fetch", &[]),
        ("PATH=. curl a", &[]),
        ("LD_PRELOAD=./x.so curl a", &[]),
        ("curl $URL", &[]),
        ("curl \"$(cat list)\"", &[]),
        ("xargs curl < list", &[]),
        ("curl a | sh", &[]),
        ("curl() { ./x.sh; }; curl a", &[]),
        ("python3 - <<'E'\nx\nE", &[]),
    ] {
        let input = json!({ "command": line, "network": true });
        assert_eq!(always(Backend::Namespaces, input.clone()), offered, "{line}");
        // without a sandbox each line leaves it
        assert_eq!(always(Backend::None, input), offered, "{line}");
        let input = json!({ "command": line, "unsandboxed": true });
        assert_eq!(always(Backend::Namespaces, input), [""; 0], "{line}");
    }
}

#[test]
fn only_a_model_with_confined_commands_is_told_of_the_sandbox() {
    let schema = crate::find("bash").unwrap().schema().value();
    let confined = schema_in_sandbox().value();
    let properties = |schema: &Value| -> Vec<String> {
        schema["properties"].as_object().unwrap().keys().cloned().collect()
    };
    let more = ["network", "unsandboxed"].map(str::to_owned);
    assert_eq!(properties(&confined), [properties(&schema), more.to_vec()].concat());
    assert_eq!(confined["required"], schema["required"]);
}

#[tokio::test]
async fn outputs_and_exits() {
    let site = Site::new();
    for (line, text, code) in [
        ("echo out; echo err >&2; echo again", "out\nerr\nagain\n", 0),
        ("true", "(no output)", 0),
        ("printf x; exit 3", "x\n(exit code 3)", 3),
        ("exit 4", "(exit code 4)", 4),
        ("cat; echo read", "read\n", 0),
        ("printf 'a\\377b'", "a\u{fffd}b", 0),
        ("no-such-program 2>/dev/null", "(exit code 127)", 127),
    ] {
        let output = site.run("bash", &json!({ "command": line })).await;
        assert_eq!((output.output.as_str(), output.is_error), (text, false), "{line}");
        assert_eq!(output.meta()["exit"], code, "{line}");
        assert_eq!(output.meta()["truncated"], false);
    }
    let output = site.run("bash", &json!({ "command": "kill -9 $$" })).await;
    assert_eq!((kind(&output).as_str(), &output.meta()["signal"]), ("killed", &json!(9)));
    assert_eq!(output.meta()["exit"], Value::Null);
}

#[tokio::test]
async fn place_and_environment() {
    let site = Site::new();
    std::fs::create_dir(site.path("sub")).unwrap();
    let input = json!({ "command": "pwd", "workdir": "sub", "description": "Where am I" });
    let output = site.run("bash", &input).await;
    assert_eq!(output.output.trim(), site.path("sub").to_string_lossy());
    assert_eq!(
        (output.title.as_str(), &output.meta()["description"]),
        ("Where am I", &json!("Where am I"))
    );
    let resolved = site.resolve("bash", &json!({ "command": "echo $LEFTFOLD_CALL; env" }));
    let cx = site.context();
    let call = cx.call_env.clone();
    let output = crate::run(&resolved, cx).await;
    assert!(output.output.starts_with(&format!("{call}\n")), "{}", output.output);
    assert!(
        !output.output.contains("CARGO_MANIFEST_DIR"),
        "cargo sets it for tests; nobody passes it on"
    );
    for (folder, expected) in [("nowhere", "not_found"), ("file", "not_directory")] {
        site.file("file", "");
        let output = site.run("bash", &json!({ "command": "ls", "workdir": folder })).await;
        assert_eq!(kind(&output), expected);
    }
}

/// A node that has lost its lease starts no command, and a command that it has started by then does not begin.
#[tokio::test]
async fn a_command_begins_in_time_or_not_at_all() {
    let site = Site::new();
    let resolved =
        site.resolve("bash", &json!({ "command": "echo \"$0 has run\" >> ran; exit 3" }));
    let now = std::time::Instant::now();
    let later = now + std::time::Duration::from_secs(60);
    let output = crate::run(&resolved, Context { begin_by: Some(later), ..site.context() }).await;
    assert_eq!(output.meta()["exit"], 3, "{output:?}");
    assert_eq!(std::fs::read_to_string(site.path("ran")).unwrap().lines().count(), 1);
    let output = crate::run(&resolved, Context { begin_by: Some(now), ..site.context() }).await;
    assert!(output.is_error && output.output.contains("does not own"), "{output:?}");
    // the clock is looked at by the command itself
    let gated = crate::command::gate(later, "sh", &["-c", "echo >> ran"]).unwrap();
    let shut: Vec<&str> =
        gated.iter().enumerate().map(|(at, text)| if at == 4 { "1" } else { text }).collect();
    let mut command = std::process::Command::new(shut[0]);
    let output = command.args(&shut[1..]).current_dir(site.path("")).output().unwrap();
    assert_eq!(output.status.code(), Some(125), "{output:?}");
    assert_eq!(std::fs::read_to_string(site.path("ran")).unwrap().lines().count(), 1);
}

#[tokio::test]
async fn a_flood_is_bounded_and_its_end_kept() {
    let site = Site::new();
    let line = "yes 0123456789abcde | head -c 104857600; echo the end";
    // of other tests in this process
    let before = peak_memory().unwrap_or_default();
    let output = site.run("bash", &json!({ "command": line })).await;
    assert!(output.output.len() < 52_000);
    assert!(output.output.starts_with("(Output cut: the last "), "{}", &output.output[..200]);
    assert!(output.output.ends_with("\n0123456789abcde\nthe end\n"));
    let spill = output.spill.unwrap();
    assert_eq!(spill.bytes, 32 * 1024 * 1024);
    assert_eq!(std::fs::metadata(&spill.path).unwrap().len(), spill.bytes);
    assert!(output.output.contains(&spill.path));
    if let Some(peak) = peak_memory() {
        assert!(peak < before + 80 * 1024, "{before} KiB, then {peak} KiB at most");
    }
}

/// KiB that this process has had in memory at most.
fn peak_memory() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.trim().strip_suffix(" kB")?.parse().ok()
}

#[tokio::test]
async fn a_process_in_the_background_ends_with_the_call() {
    let site = Site::new();
    for line in [
        "sleep 1000 & echo $! > pid; echo done",
        "nohup sleep 1000 > /dev/null 2>&1 & echo $! > pid; echo done",
        "setsid sh -c 'echo $$ > pid; exec sleep 1000' & while ! [ -s pid ]; do :; done; echo done",
        "(trap '' TERM; echo $BASHPID > pid; while :; do sleep 1; done) & while ! [ -s pid ]; do :; done; echo done",
        "(setsid sh -c '(echo $$ > pid; exec sleep 1000) &' &) ; while ! [ -s pid ]; do :; done; echo done",
    ] {
        let start = Instant::now();
        let output = site.run("bash", &json!({ "command": line })).await;
        assert_eq!(output.output, "done\n", "{line}");
        assert!(start.elapsed() < Duration::from_secs(5), "{line}");
        assert!(!runs(pid(&site, "pid").await), "{line}");
        std::fs::remove_file(site.path("pid")).unwrap();
    }
}

#[tokio::test]
async fn cancelling_answers_at_once_and_leaves_nothing() {
    let site = Site::new();
    for line in [
        "echo begun; echo $$ > pid; sleep 1000",
        "echo begun; sh -c 'echo $$ > pid; sleep 1000; true'; true",
        "echo begun; setsid sh -c 'echo $$ > pid; sleep 1000; true'; true",
        "echo begun; trap '' TERM; echo $$ > pid; while :; do sleep 1; done",
        "echo begun; setsid sh -c \"trap '' TERM; (echo \\$\\$ > pid; sleep 1000; true) & wait\" & wait",
    ] {
        // the quickest of some: a machine with other work may hold up any one of them
        let mut quickest = Duration::MAX;
        for _ in 0..10 {
            let (output, took) = cancelled(&site, line, async || {
                pid(&site, "pid").await;
            })
            .await;
            assert_eq!(kind(&output), "cancelled", "{line}");
            assert!(output.output.starts_with("begun\n("), "{line}: {}", output.output);
            let pid = pid(&site, "pid").await;
            eventually("the process is gone", || !runs(pid)).await;
            std::fs::remove_file(site.path("pid")).unwrap();
            quickest = quickest.min(took);
            if quickest < Duration::from_millis(100) {
                break;
            }
        }
        assert!(quickest < Duration::from_millis(100), "{line}: {quickest:?}");
    }
    leftfold_process::settled().await;
}

/// Also where the runtime had no time to notice the output before the cancellation.
#[tokio::test]
async fn what_was_printed_before_a_cancellation_is_told() {
    let site = Site::new();
    let (output, _) =
        cancelled(&site, "read x < go; echo begun; touch done; sleep 1000", async || {
            let go = std::process::Command::new("mkfifo").arg(site.path("go")).status().unwrap();
            assert!(go.success());
            // lets the call start and wait
            tokio::time::sleep(Duration::from_millis(50)).await;
            // from here on the runtime's only thread is kept busy
            std::fs::write(site.path("go"), "go\n").unwrap();
            while !site.path("done").exists() {
                std::thread::sleep(Duration::from_millis(1));
            }
        })
        .await;
    assert!(output.output.starts_with("begun\n("), "{}", output.output);
    leftfold_process::settled().await;
}

#[tokio::test]
async fn a_call_that_is_dropped_ends_too() {
    let site = Site::new();
    let resolved = site.resolve("bash", &json!({ "command": "echo $$ > pid; sleep 1000" }));
    let cx = site.context();
    let running = tokio::spawn(async move { crate::run(&resolved, cx).await });
    let pid = pid(&site, "pid").await;
    running.abort();
    assert!(running.await.unwrap_err().is_cancelled());
    eventually("the process is gone", || !runs(pid)).await;
}

#[tokio::test]
async fn progress_is_told_within_bounds() {
    let site = Site::new();
    // stops by itself once progress has been seen twice
    let line = "for i in $(seq 100000); do echo line $i; [ -e stop ] && exit 0; sleep 0.01; done";
    let resolved = site.resolve("bash", &json!({ "command": line }));
    let told: Arc<Mutex<Vec<(Instant, String)>>> = Arc::default();
    let (sink, stop) = (Arc::clone(&told), site.path("stop"));
    let progress = move |tail: String| {
        let mut told = sink.lock().unwrap();
        told.push((Instant::now(), tail));
        if told.len() == 2 {
            std::fs::write(&stop, "").unwrap();
        }
    };
    let cx = Context { progress: Arc::new(progress), ..site.context() };
    let output = crate::run(&resolved, cx).await;
    assert!(!output.is_error, "{output:?}");
    let told = told.lock().unwrap();
    assert!(told.len() >= 2);
    for pair in told.windows(2) {
        assert!(pair[1].0 - pair[0].0 >= Duration::from_millis(450));
    }
    assert!(told.iter().all(|(_, tail)| tail.len() <= 1_024 && tail.contains("line ")));
}

#[tokio::test]
async fn alone_it_keeps_its_own_time_limit() {
    let site = Site::new();
    let args = json!({ "command": "echo begun; echo $$ > pid; sleep 1000", "timeout": 300 });
    let output = run_alone("bash", &args.to_string(), site.workspace()).await.unwrap();
    assert_eq!(kind(&output), "timeout");
    assert!(output.output.contains("within 300 ms") && output.output.contains("begun"));
    assert!(!runs(pid(&site, "pid").await), "it waits for the end of what it has started");
    let args = json!({ "command": "ls", "workdir": "/" }).to_string();
    let error = run_alone("bash", &args, site.workspace()).await.unwrap_err();
    assert_eq!(error.kind(), "outside_workspace");
}

#[tokio::test]
async fn limits_are_those_of_the_workspace() {
    let site = Site::new();
    let resolved = site.resolve("bash", &json!({ "command": "seq 10" }));
    let limits = OutputLimits { max_lines: 3, max_bytes: 1_000 };
    let workspace = Arc::new(Workspace { limits, ..site.workspace() });
    let output = crate::run(&resolved, Context { workspace, ..site.context() }).await;
    assert!(output.output.ends_with("\n\n8\n9\n10\n"), "{}", output.output);
    assert_eq!(output.meta()["truncated"], true);
    let full = std::fs::read_to_string(Path::new(&output.spill.unwrap().path)).unwrap();
    assert_eq!(full.lines().count(), 10);
}
