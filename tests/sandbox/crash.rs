//! A crash of the helper or of init at any moment leaves no mount, no process and no file.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::time::Duration;

use leftfold_sandbox::Backend;
#[cfg(debug_assertions)]
use leftfold_sandbox::Message;

use crate::confined::{Confined, Running, User, backends};
use crate::ends::wait_until_gone;

/// All files and folders below a folder.
fn files(folder: &Path) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for entry in fs::read_dir(folder).unwrap().map(Result::unwrap) {
        found.insert(entry.path().display().to_string());
        if entry.file_type().unwrap().is_dir() {
            found.extend(files(&entry.path()));
        }
    }
    found
}

fn mounts() -> String {
    fs::read_to_string("/proc/self/mountinfo").unwrap()
}

/// A line that runs until it is ended, in sessions of its own. `number` tells its processes.
fn line(number: &str) -> String {
    format!("env -i setsid sleep {number} & sleep {number}")
}

fn with_namespaces(user: User) -> impl Iterator<Item = Backend> {
    backends(user).into_iter().filter(|backend| backend.has_namespaces())
}

/// Debug builds stop at any step: `LEFTFOLD_SANDBOX_CRASH`.
#[test]
#[cfg(debug_assertions)]
fn a_crash_at_each_step_leaves_nothing() {
    for user in User::all() {
        for backend in with_namespaces(*user) {
            let site = Confined::new(*user);
            // bwrap does the steps of the mounts
            let least_of_init = if backend == Backend::Bwrap { 10 } else { 40 };
            crash_at_each_step(&site, backend, "helper", 3);
            crash_at_each_step(&site, backend, "init", least_of_init);
        }
    }
}

/// A process of this `role` has at least so many steps.
#[cfg(debug_assertions)]
fn crash_at_each_step(site: &Confined, backend: Backend, role: &str, least: u32) {
    let (before, all) = (mounts(), files(&site.path("")));
    let mut step = 0;
    loop {
        step += 1;
        let at = format!("{role}:{step} of {backend:?}");
        let number = format!("200.{}{step}", std::process::id());
        let crash = format!("{role}:{step}");
        let env = [("LEFTFOLD_SANDBOX_CRASH", crash.as_str())];
        let mut running = site.start(&site.profile(backend), &line(&number), &env);
        let first = running.channel.receive().unwrap();
        let is_up = matches!(first, Some(Message::Ready(_)));
        if !is_up {
            let status = running.child.wait().unwrap();
            assert!(!status.success(), "{at}");
            // the helper sees that bwrap has ended
            let is_told = matches!(&first, Some(Message::Failed(why)) if why.step == "bwrap");
            assert!(first.is_none() || is_told && backend == Backend::Bwrap, "{at}: {first:?}");
        }
        drop(running.channel);
        running.child.wait().unwrap();
        assert!(wait_until_gone(&number), "{at}");
        assert_eq!(mounts(), before, "{at}");
        assert_eq!(files(&site.path("")), all, "{at}");
        if is_up && step > least {
            break;
        }
        assert!(step < 200, "{at}");
    }
}

/// The child of the helper: init, or bwrap.
fn init_of(running: &Running) -> Option<i32> {
    let helper = running.child.id();
    let children = fs::read_to_string(format!("/proc/{helper}/task/{helper}/children")).ok()?;
    children.split_whitespace().next()?.parse().ok()
}

#[test]
fn a_kill_at_any_moment_leaves_nothing() {
    let each = User::all().iter().flat_map(|user| with_namespaces(*user).map(|it| (*user, it)));
    for (user, backend) in each {
        let site = Confined::new(user);
        let (before, all) = (mounts(), files(&site.path("")));
        for round in 0..50u32 {
            let number = format!("300.{}{round}", std::process::id());
            let mut running = site.start(&site.profile(backend), &line(&number), &[]);
            std::thread::sleep(Duration::from_micros(u64::from(round / 2) * 800));
            match init_of(&running).filter(|_| round % 2 == 0) {
                Some(init) => {
                    let init = rustix::process::Pid::from_raw(init).unwrap();
                    let _ = rustix::process::kill_process(init, rustix::process::Signal::KILL);
                }
                None => running.child.kill().unwrap(),
            }
            running.child.wait().unwrap();
            assert!(wait_until_gone(&number), "round {round}");
            assert_eq!(mounts(), before, "round {round}");
            assert_eq!(files(&site.path("")), all, "round {round}");
        }
    }
}
