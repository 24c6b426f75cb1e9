//! How commands start and end: reports, signals, the end of the node, and failures before the start.

use std::process::Stdio;
use std::time::{Duration, Instant};

use leftfold_sandbox::{Backend, Message, Probe, Profile, command, probe};

use crate::confined::{Background, Confined, User, backends, not_run};

/// Each backend of this machine for each user.
fn each(check: impl Fn(&Confined, &Profile)) {
    for user in User::all() {
        let site = Confined::new(*user);
        for backend in backends(*user) {
            check(&site, &site.profile(backend));
        }
    }
}

/// Whether a process with this word in its arguments runs.
pub(crate) fn runs(word: &str) -> bool {
    let processes = std::fs::read_dir("/proc").unwrap().filter_map(Result::ok);
    let lines = processes.filter_map(|entry| std::fs::read(entry.path().join("cmdline")).ok());
    let word = word.as_bytes();
    lines.into_iter().any(|line| {
        // the test's own shells name it in a longer line
        line.split(|byte| *byte == 0).any(|argument| argument == word)
    })
}

pub(crate) fn wait_until_gone(word: &str) -> bool {
    let start = Instant::now();
    while runs(word) {
        if start.elapsed() > Duration::from_secs(5) {
            return false;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    true
}

#[test]
fn the_report_names_the_exit_code_or_the_signal() {
    each(|site, profile| {
        for (line, code, signal) in [
            ("exit 3", Some(3), None),
            ("true", Some(0), None),
            ("kill -9 $$", None, Some(9)),
            ("kill -15 $$", None, Some(15)),
        ] {
            let ran = site.run(profile, line);
            assert_eq!((ran.report.code, ran.report.signal), (code, signal), "{line}: {ran:?}");
            assert_eq!(ran.ready.backend, profile.backend);
        }
    });
}

#[test]
fn a_term_reaches_the_command_and_its_children() {
    each(|site, profile| {
        let line = "trap 'echo caught; exit 7' TERM; echo up; sleep 100 & wait";
        let mut running = site.start(profile, line, &[]);
        assert!(matches!(running.channel.receive().unwrap(), Some(Message::Ready(_))));
        let mut up = [0; 3];
        std::io::Read::read_exact(&mut running.output, &mut up).unwrap();
        running.channel.term().unwrap();
        let report = running.channel.receive().unwrap();
        assert!(matches!(report, Some(Message::Report(report)) if report.code == Some(7)));
    });
}

#[test]
fn nothing_survives_the_end_of_the_channel() {
    for user in User::all() {
        let site = Confined::new(*user);
        let own = backends(*user).into_iter().filter(|backend| backend.has_namespaces());
        for backend in own {
            let number = format!("100.{}{}", std::process::id(), site.user as u8);
            let line =
                format!("env -i setsid sleep {number} & nohup sleep {number} & echo up; wait");
            let mut running = site.start(&site.profile(backend), &line, &[]);
            let mut up = [0; 3];
            std::io::Read::read_exact(&mut running.output, &mut up).unwrap();
            while !runs(&number) {
                std::thread::sleep(Duration::from_millis(5));
            }
            drop(running.channel);
            running.child.wait().unwrap();
            assert!(wait_until_gone(&number), "{backend:?} as {}", user.kind());
        }
    }
}

#[test]
fn background_processes_run_on_after_the_report() {
    each(|site, profile| {
        let mut running = site.start(profile, "(sleep 0.3; echo late) & echo first", &[]);
        let messages = [running.channel.receive().unwrap(), running.channel.receive().unwrap()];
        assert!(matches!(messages[1], Some(Message::Report(report)) if report.code == Some(0)));
        let mut output = String::new();
        std::io::Read::read_to_string(&mut running.output, &mut output).unwrap();
        assert_eq!(output, "first\nlate\n");
        running.child.wait().unwrap();
    });
}

#[test]
fn packets_without_a_route_are_counted() {
    for user in User::all() {
        let site = Confined::new(*user);
        let own = backends(*user).into_iter().filter(|backend| backend.has_namespaces());
        for backend in own {
            let profile = site.profile(backend);
            let local = site.run(&profile, "echo > /dev/tcp/127.0.0.1/9; true");
            assert_eq!(local.report.no_route, 0, "{local:?}");
            let remote = site.run(&profile, "echo > /dev/tcp/192.0.2.1/80");
            assert!(remote.report.no_route > 0, "{remote:?}");
            assert!(remote.output.contains("Network is unreachable"), "{remote:?}");
        }
    }
}

#[test]
fn a_command_that_cannot_start_is_reported_with_its_step() {
    each(|site, profile| {
        let (mut missing, mut channel) =
            command(&site.helper, profile, "/no/such/program", ["-x"]).unwrap();
        let mut child =
            missing.current_dir(site.path("project")).stdout(Stdio::null()).spawn().unwrap();
        drop(missing);
        assert!(matches!(channel.receive().unwrap(), Some(Message::Ready(_))));
        let Some(Message::Failed(failure)) = channel.receive().unwrap() else { panic!() };
        assert_eq!(failure.errno, Some(2));
        assert!(failure.to_string().starts_with("start /no/such/program: No such file"));
        assert_eq!(child.wait().unwrap().code(), Some(125));
    });
}

#[test]
fn a_link_in_the_profile_stands_for_its_target() {
    for user in User::all() {
        let site = Confined::new(*user);
        let Some(backend) = backends(*user).into_iter().find(|own| own.has_namespaces()) else {
            continue;
        };
        let mut profile = site.profile(backend);
        profile.write.push(site.path("link"));
        std::os::unix::fs::symlink(site.path("home"), site.path("link")).unwrap();
        let ran = site.run(&profile, "touch ../link/x && rm ../link/x");
        assert_eq!(ran.report.code, Some(0), "{ran:?}");
        // a command could have made this one
        std::os::unix::fs::symlink(site.path("home"), site.path("project/link")).unwrap();
        profile.write.push(site.path("project/link"));
        let mut refused = site.start(&profile, "true", &[]);
        let message = refused.channel.receive().unwrap();
        let is_refused =
            matches!(&message, Some(Message::Failed(failure)) if failure.step == "resolve");
        assert!(is_refused, "{message:?}");
        refused.child.wait().unwrap();
    }
}

/// A helper that runs in a user namespace, at the end of the shell line `before`.
fn limited(site: &Confined, before: &str) -> std::path::PathBuf {
    let script = site.path("limited");
    let line = format!(
        "#!/bin/sh\nexec unshare -r -m sh -c '{before} {} \"$@\"' sh \"$@\"\n",
        common::program().display()
    );
    std::fs::write(&script, line).unwrap();
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(&script, mode).unwrap();
    script
}

fn rejected(probe: &Probe) -> Vec<Backend> {
    probe.rejected.iter().map(|rejected| rejected.backend).collect()
}

#[test]
fn without_user_namespaces_landlock_is_left() {
    let site = Confined::new(User::Tester);
    if backends(User::Tester).len() < 2 {
        return not_run("the way back to Landlock", "one backend works here");
    }
    let none =
        "echo 0 > /proc/sys/user/max_user_namespaces; exec setpriv --bounding-set=-sys_admin";
    let helper = limited(&site, none);
    let found = probe(&helper, &site.profile(Backend::Namespaces));
    let stronger = [Backend::Namespaces, Backend::NamespacesSharedProc, Backend::Bwrap];
    assert_eq!(rejected(&found), stronger, "{found:?}");
    let (unshare, bwrap) = found.rejected.split_at(2);
    for rejected in unshare {
        let why = rejected.why.to_string();
        assert!(why.starts_with("unshare"), "{why}");
        assert!(rejected.why.help().unwrap().contains("user.max_user_namespaces"), "{why}");
        assert_eq!(rejected.why.errno, Some(28), "{why}");
    }
    // bwrap says why itself
    let why = bwrap[0].why.to_string();
    assert!(why.starts_with("bwrap: ") && !why.contains("it ended"), "{why}");
    assert!(bwrap[0].why.help().unwrap().contains("bubblewrap"), "{why}");
    assert_eq!(found.ready.unwrap().backend, Backend::Landlock);
}

/// Root needs no user namespace to make the others, and `bwrap` makes none then.
#[test]
fn without_user_namespaces_bwrap_is_left_to_root() {
    let mut site = Confined::new(User::Tester);
    let backends = backends(User::Tester);
    if site.user.kind() != "root" || !backends.contains(&Backend::Bwrap) || backends.len() < 3 {
        return not_run("the way back to bwrap", "this is not root, or there is no bwrap");
    }
    site.helper = limited(&site, "echo 0 > /proc/sys/user/max_user_namespaces; exec");
    let found = probe(&site.helper, &site.profile(Backend::Namespaces));
    let stronger = [Backend::Namespaces, Backend::NamespacesSharedProc];
    assert_eq!(rejected(&found), stronger, "{found:?}");
    assert_eq!(found.ready.unwrap().backend, Backend::Bwrap);
    let line =
        "! : >> /etc/passwd && ! cat .env && ! ls ../home/.ssh/id && echo x > made && echo done";
    let ran = site.run(&site.profile(Backend::Bwrap), line);
    assert!(ran.output.ends_with("done\n") && !ran.output.contains("secret"), "{ran:?}");
}

/// As in a container: the kernel refuses a new `/proc` without the masks of the old one.
#[test]
fn with_masks_over_proc_the_proc_of_the_machine_is_used() {
    let mut site = Confined::new(User::Tester);
    if backends(User::Tester).len() < 2 {
        return not_run("masks over /proc", "one backend works here");
    }
    // nobody can take a mask away in a namespace below the one that made it
    site.helper = limited(&site, "mount -t tmpfs mask /proc/irq; exec unshare -r -m");
    let found = probe(&site.helper, &site.profile(Backend::Namespaces));
    assert_eq!(rejected(&found), [Backend::Namespaces], "{found:?}");
    assert!(found.rejected[0].why.to_string().starts_with("mount proc /proc: "), "{found:?}");
    let ready = found.ready.unwrap();
    assert_eq!(ready.backend, Backend::NamespacesSharedProc);
    let mut outside = site.unconfined("exec sleep 100");
    let outside = Background::start({
        outside.env("LEFTFOLD_KEY", "secret");
        outside
    });
    let line = format!(
        "diff <(echo a) <(echo a) && ! cat /proc/{0}/environ && ! kill -0 {0} && ! : >> /etc/passwd \
         && ! : >> /proc/sys/kernel/core_pattern && ls -d /proc/{0} && echo done",
        outside.0.id()
    );
    let ran = site.run(&site.profile(ready.backend), &line);
    assert!(ran.output.ends_with("done\n") && !ran.output.contains("secret"), "{ran:?}");
}
