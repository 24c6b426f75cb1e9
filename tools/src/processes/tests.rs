use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use super::*;
use crate::testing::Site;

/// A name for a store that no other test has.
fn store() -> String {
    static STORES: AtomicU32 = AtomicU32::new(0);
    format!("{}-{}", std::process::id(), STORES.fetch_add(1, Ordering::Relaxed))
}

/// Starts a shell for a call of `store`, which answers with a line once it is ready.
fn start(store: &str, script: &str) -> (Child, String) {
    use std::io::{BufRead, BufReader};
    let mut child = Command::new("sh")
        .args(["-c", script])
        .envs(marks(&format!("{store}:S:1:1")))
        .process_group(0)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    (child, line.trim().to_owned())
}

fn runs(pid: &str) -> bool {
    table::Process::of(pid.parse().unwrap()).is_some_and(|process| !process.ended)
}

#[test]
fn strays_of_one_store_are_found_wherever_they_went() {
    for script in [
        "echo $$; exec sleep 1000",
        "sleep 1000 & echo $!; wait",
        "setsid sh -c 'echo $$; exec sleep 1000'",
        "setsid sh -c 'sleep 1000 & echo $!; wait' & exit",
        // without the variable, but in the group of one that has it
        "env -i sleep 1000 & echo $!; wait",
        // in a session that its leader, who has the variable, has left
        "setsid sh -c 'sleep 1000 & env -i sleep 1000 & echo $!; exit' & exit",
        "trap '' TERM; echo $$; while :; do sleep 1; done",
    ] {
        let store = store();
        let (mut child, pid) = start(&store, script);
        assert!(runs(&pid), "{script}");
        assert!(end_strays(&store) >= 1, "{script}");
        assert!(!runs(&pid), "{script}");
        child.wait().unwrap();
        assert_eq!(end_strays(&store), 0, "{script}");
    }
}

#[test]
fn only_ours() {
    let (ours, theirs) = (store(), store());
    let (mut one, _) = start(&ours, "echo; exec sleep 1000");
    let (mut other, other_pid) = start(&theirs, "echo $$; exec sleep 1000");
    // the name of one store may begin with that of another
    let longer = format!("{ours}0");
    let (mut third, third_pid) = start(&longer, "echo $$; exec sleep 1000");
    // a process without any mark, in the session that ours is in, too
    let mut bystander = Command::new("sleep").arg("1000").process_group(0).spawn().unwrap();
    assert_eq!(end_strays(&ours), 1);
    one.wait().unwrap();
    assert!(runs(&other_pid) && runs(&third_pid) && runs(&bystander.id().to_string()));
    assert_eq!(end_strays(""), 0);
    for child in [&mut other, &mut third, &mut bystander] {
        child.kill().unwrap();
        child.wait().unwrap();
    }
}

/// As when a node has died and the next one starts in another terminal: the first one's session and
/// group, where the stray may still be, are the user's.
#[test]
fn the_session_and_group_of_a_dead_node_are_spared() {
    let site = Site::new();
    let store = store();
    let call = format!("{store}:S:1:1");
    // a "terminal" with a user's process in it, and a node that starts a call in its own group
    let script = format!(
        "sleep 1000 & echo $! > bystander
         IFS=' ' read -r _ _ _ _ group session _ < /proc/$$/stat
         export LEFTFOLD_CALL={call} LEFTFOLD_NODE=$session:$group
         sleep 1000 & echo $! > stray
         echo $$ > leader
         echo; unset LEFTFOLD_CALL; exec sleep 1000"
    );
    let mut terminal = Command::new("setsid")
        .args(["sh", "-c", &script])
        .current_dir(site.path(""))
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    std::io::Read::read_exact(terminal.stdout.as_mut().unwrap(), &mut [0]).unwrap();
    let pid = |name: &str| site.text(name).trim().to_owned();
    assert_eq!(end_strays(&store), 1);
    assert!(!runs(&pid("stray")));
    assert!(runs(&pid("bystander")) && runs(&pid("leader")));
    let leader = Pid::from_raw(pid("leader").parse().unwrap()).unwrap();
    rustix::process::kill_process_group(leader, Signal::KILL).unwrap();
    terminal.wait().unwrap();
}
