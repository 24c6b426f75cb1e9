use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::process::{Pid, Signal};

use super::*;

/// A store name that no other test uses.
fn store() -> String {
    static STORES: AtomicU32 = AtomicU32::new(0);
    format!("{}-{}", std::process::id(), STORES.fetch_add(1, Ordering::Relaxed))
}

/// A process that ends with its test.
struct Started(Child);

impl Drop for Started {
    fn drop(&mut self) {
        // the test may have ended it already
        if let Ok(Some(pid)) = self.0.id().try_into().map(Pid::from_raw) {
            let _ = rustix::process::kill_process_group(pid, Signal::KILL);
        }
        let _ = self.0.wait();
    }
}

/// Starts a shell for a call of `store`. Returns the line that the shell prints when it is ready.
fn start(store: &str, script: &str) -> (Started, String) {
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
    (Started(child), line.trim().to_owned())
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
        // in a session whose leader had the variable and has exited
        "setsid sh -c 'sleep 1000 & env -i sleep 1000 & echo $!; exit' & exit",
        "trap '' TERM; echo $$; while :; do sleep 1; done",
    ] {
        let store = store();
        let (mut child, pid) = start(&store, script);
        assert!(runs(&pid), "{script}");
        assert!(end_strays(&store) >= 1, "{script}");
        assert!(!runs(&pid), "{script}");
        child.0.wait().unwrap();
        assert_eq!(end_strays(&store), 0, "{script}");
    }
}

#[test]
fn only_ours() {
    let (ours, theirs) = (store(), store());
    let (mut one, _) = start(&ours, "echo; exec sleep 1000");
    let (_other, other_pid) = start(&theirs, "echo $$; exec sleep 1000");
    // the name of one store may begin with that of another
    let longer = format!("{ours}0");
    let (_third, third_pid) = start(&longer, "echo $$; exec sleep 1000");
    // an unmarked process in the session of the marked one
    let bystander = Command::new("sleep").arg("1000").process_group(0).spawn().unwrap();
    let bystander = Started(bystander);
    assert_eq!(end_strays(&ours), 1);
    one.0.wait().unwrap();
    assert!(runs(&other_pid) && runs(&third_pid) && runs(&bystander.0.id().to_string()));
    assert_eq!(end_strays(""), 0);
}

/// As if a node had died and the next one started in another terminal: session and group of the
/// first node are the user's, even where a stray process is still in them.
#[test]
fn the_session_and_group_of_a_dead_node_are_spared() {
    let site = tempfile::tempdir().unwrap();
    let store = store();
    let call = format!("{store}:S:1:1");
    // a "terminal" with a user's process in it, and a node that starts a call in its own group
    let script = format!(
        "sleep 1000 & echo $! > bystander
         IFS=' ' read -r _ _ _ _ group session _ < /proc/$$/stat
         export LEFTFOLD_CALL={call} LEFTFOLD_NODE=$session:$group
         sh -c 'echo $$ > stray; exec sleep 1000' &
         while ! [ -s stray ]; do :; done
         echo $$ > leader
         echo; unset LEFTFOLD_CALL; exec sleep 1000"
    );
    let mut terminal = Command::new("setsid")
        .args(["sh", "-c", &script])
        .current_dir(site.path())
        .stdout(Stdio::piped())
        .spawn()
        .map(Started)
        .unwrap();
    std::io::Read::read_exact(terminal.0.stdout.as_mut().unwrap(), &mut [0]).unwrap();
    let pid =
        |name: &str| std::fs::read_to_string(site.path().join(name)).unwrap().trim().to_owned();
    assert_eq!(end_strays(&store), 1);
    assert!(!runs(&pid("stray")));
    assert!(runs(&pid("bystander")) && runs(&pid("leader")));
}

/// In a process of its own, because it ends all children of that process.
#[test]
fn descendants_end_even_without_a_mark() {
    const ALONE: &str = "LEFTFOLD_TEST_DESCENDANTS";
    if std::env::var_os(ALONE).is_none() {
        let name = "tests::descendants_end_even_without_a_mark";
        let test = std::env::current_exe().unwrap();
        let output = Command::new(test).args(["--exact", name]).env(ALONE, "1").output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success() && said.contains("1 passed"), "{said}");
        return;
    }
    become_subreaper().unwrap();
    let script = "(env -i setsid sh -c 'echo $$; exec sleep 1000' &) &";
    let (mut child, pid) = start(&store(), script);
    child.0.wait().unwrap();
    assert!(runs(&pid));
    assert_eq!(end_descendants(), 1);
    assert!(!runs(&pid));
}
