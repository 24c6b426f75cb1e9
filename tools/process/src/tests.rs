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
    table::Process::from_pid(pid.parse().unwrap()).is_some_and(|process| !process.ended)
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

#[test]
fn only_earlier_owners_of_one_family() {
    let store = store();
    let (mut earlier, _) = start(&format!("{store}:F:9"), "echo; exec sleep 1000");
    let others = [":F:10", ":F:11", ":G:9", ":FF:9", ":F", ":F:x"];
    let others = others.map(|other| start(&format!("{store}{other}"), "echo $$; exec sleep 1000"));
    assert_eq!(end_earlier(&format!("{store}:F"), 10), 1);
    earlier.0.wait().unwrap();
    assert!(others.iter().all(|(_, pid)| runs(pid)));
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

/// Runs the test `name` in a process of its own. True in that process.
fn alone(name: &str) -> bool {
    const ALONE: &str = "LEFTFOLD_TEST_ALONE";
    if std::env::var_os(ALONE).is_some() {
        return true;
    }
    let test = std::env::current_exe().unwrap();
    let arguments = ["--exact".to_owned(), format!("tests::{name}")];
    let output = Command::new(test).args(arguments).env(ALONE, "1").output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success() && said.contains("1 passed"), "{said}");
    false
}

#[test]
fn descendants_end_even_without_a_mark() {
    if !alone("descendants_end_even_without_a_mark") {
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

/// Starts `script` as a call of its own. Returns its processes and the line that it prints.
async fn call(script: &str) -> (tokio::process::Child, CallProcesses, String) {
    use tokio::io::{AsyncBufReadExt, BufReader};
    let call = format!("{}:S:1:1", store());
    let mut shell = tokio::process::Command::new("bash");
    shell.args(["-c", script]).envs(marks(&call));
    shell.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let (mut child, processes) = spawn_isolated(shell, &call).unwrap();
    let mut line = String::new();
    let stdout = child.stdout.take().unwrap();
    BufReader::new(stdout).read_line(&mut line).await.unwrap();
    (child, processes, line.trim().to_owned())
}

#[test]
fn what_left_its_call_ends_with_it_and_no_other() {
    if !alone("what_left_its_call_ends_with_it_and_no_other") {
        return;
    }
    become_subreaper().unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        // a child of this process for itself
        let mut own = Command::new("sleep").arg("1000").spawn().unwrap();
        let left = "env -i setsid sh -c 'echo $$; exec sleep 1000' & sleep 0.2";
        let lowered = "ulimit -q 4; env -i setsid sh -c 'echo $$; exec sleep 1000' & sleep 0.2";
        for script in [left, lowered] {
            let (mut first, processes, pid) = call(&format!("{left}; sleep 1000")).await;
            let (mut second, others, other) = call(script).await;
            second.wait().await.unwrap();
            assert!(runs(&pid) && runs(&other), "{script}");
            others.end().await;
            assert!(runs(&pid) && !runs(&other), "{script}");
            processes.end().await;
            assert!(!runs(&pid), "{script}");
            first.wait().await.unwrap();
        }
        assert!(own.try_wait().unwrap().is_none());
        own.kill().unwrap();
        own.wait().unwrap();
    });
}

#[test]
fn commands_get_limits_and_die_first_when_memory_runs_out() {
    if !alone("commands_get_limits_and_die_first_when_memory_runs_out") {
        return;
    }
    hide_memory();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let said = runtime.block_on(async {
        let script = "sleep 0.2; echo $(ulimit -Hc) $(ulimit -Hf) $(cat /proc/self/oom_score_adj)";
        let (_child, processes, said) = call(script).await;
        processes.end().await;
        said
    });
    assert_eq!(said, "0 16777216 500");
    let hidden = rustix::process::DumpableBehavior::NotDumpable;
    assert_eq!(rustix::process::dumpable_behavior().unwrap(), hidden);
    let own = table::Process::from_pid(std::process::id().try_into().unwrap()).unwrap();
    assert_eq!(own.mark_kind(), table::MarkKind::None);
}
