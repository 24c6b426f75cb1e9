//! Finding all processes of a call (or a store, or this process), and ending them.

use std::collections::{HashMap, HashSet};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, WaitOptions, getpid, waitpid};

use super::mark::{MERCY, live};
use super::table::{self, Process};

/// Pause between looks.
const PAUSE: Duration = Duration::from_millis(4);

/// How long a process may take to die of SIGKILL, which it cannot refuse; only the kernel can be
/// busy with it.
const PATIENCE: Duration = Duration::from_secs(3);

/// Grows while it looks: what has been found once is remembered, because those by which it was found
/// may be gone at the next look.
pub(crate) struct Hunt {
    /// Which marks in a process's environment make it prey.
    prey: Box<dyn Fn(&str) -> bool>,
    /// Whether children of this process are prey.
    children: bool,
    /// Whether some child of this process may have somebody here who waits for it.
    awaited: bool,
    /// Children of this process at the first look, if `awaited`.
    direct: Option<HashSet<i32>>,
    found: HashMap<i32, Process>,
    groups: HashSet<i32>,
    sessions: HashSet<i32>,
}

/// This process as the table has it. It, its group and its session are never prey.
fn own(table: &[Process]) -> Process {
    let pid = getpid().as_raw_nonzero().get();
    let nobody = Process { pid, parent: 0, group: 0, session: 0, start: 0, ended: false };
    table.iter().find(|process| process.pid == pid).copied().unwrap_or(nobody)
}

impl Hunt {
    /// For processes whose call is prey.
    pub(crate) fn of_calls(prey: impl Fn(&str) -> bool + 'static) -> Self {
        Self {
            prey: Box::new(prey),
            children: false,
            awaited: true,
            direct: None,
            found: HashMap::new(),
            groups: HashSet::new(),
            sessions: HashSet::new(),
        }
    }

    /// For everything that descends from this process.
    pub(crate) fn of_children() -> Self {
        Self { children: true, ..Self::of_calls(|_| false) }
    }

    /// Also for the group that `leader` leads, which is the one child of this process among them.
    pub(crate) fn and_group(mut self, leader: Pid) -> Self {
        self.awaited = false;
        self.groups.insert(leader.as_raw_nonzero().get());
        self
    }

    /// Ends all prey: SIGTERM, a moment to obey, SIGKILL until nothing is left. Answers how many
    /// there were. Blocks the thread.
    pub(crate) fn end(mut self) -> usize {
        let mut asked: HashSet<i32> = HashSet::new();
        let start = Instant::now();
        loop {
            let prey = self.look();
            if prey.is_empty() {
                break;
            }
            let force = start.elapsed() >= MERCY;
            for process in &prey {
                let first = asked.insert(process.pid);
                if force {
                    process.signal(Signal::KILL);
                } else if first {
                    process.signal(Signal::TERM);
                }
            }
            if start.elapsed() > MERCY + PATIENCE {
                tracing::warn!(left = prey.len(), "processes do not end");
                break;
            }
            std::thread::sleep(PAUSE);
        }
        self.bury();
        asked.len()
    }

    /// The prey that runs.
    fn look(&mut self) -> Vec<Process> {
        let table = table::all();
        let own = own(&table);
        self.marked(&table, &own);
        while self.spread(&table, &own) {}
        if self.awaited && self.direct.is_none() {
            let child = |process: &&Process| process.parent == own.pid;
            self.direct = Some(table.iter().filter(child).map(|process| process.pid).collect());
        }
        let is_prey = |process: &&Process| self.found.get(&process.pid) == Some(process);
        table.iter().filter(is_prey).filter(|process| !process.ended).copied().collect()
    }

    /// Takes in whoever's environment says so, with the groups and sessions that are the call's own.
    fn marked(&mut self, table: &[Process], own: &Process) {
        let others = table.iter().filter(|process| process.pid != own.pid);
        let mut nodes = Vec::new();
        for process in others {
            let Some(marks) = process.marks().filter(|marks| (self.prey)(&marks.call)) else {
                continue;
            };
            self.found.insert(process.pid, *process);
            nodes.push((process, marks.node));
        }
        for (process, node) in nodes {
            // what the node was in itself is the user's, unless the call leads it by now
            let leads = |id: i32| table.iter().any(|p| p.pid == id && self.found.contains_key(&id));
            let (session, group) = (process.session, process.group);
            if node.is_some_and(|(_, node)| node != group) || leads(group) {
                self.groups.insert(group);
            }
            if node.is_some_and(|(node, _)| node != session) || leads(session) {
                self.sessions.insert(session);
            }
        }
        // 0 stands for whatever is outside this container
        for (ids, own) in [(&mut self.groups, own.group), (&mut self.sessions, own.session)] {
            ids.remove(&own);
            ids.remove(&0);
        }
    }

    /// Takes in members of groups and sessions, and children. Answers whether there were any new.
    fn spread(&mut self, table: &[Process], own: &Process) -> bool {
        let mut new = false;
        let same = |process: &&Process| {
            self.found.get(&process.pid).is_some_and(|k| k.start == process.start)
        };
        let parents: HashSet<i32> = table.iter().filter(same).map(|process| process.pid).collect();
        for process in table.iter().filter(|process| process.pid != own.pid) {
            let belongs = self.groups.contains(&process.group)
                || self.sessions.contains(&process.session)
                || parents.contains(&process.parent)
                || (self.children && process.parent == own.pid);
            let known = self.found.get(&process.pid).map(|known| known.start);
            if belongs && known != Some(process.start) {
                self.found.insert(process.pid, *process);
                new = true;
            } else if known == Some(process.start) {
                // parent and group may have changed; it is the same process
                self.found.insert(process.pid, *process);
            }
        }
        new
    }

    /// Orphans are given to this process if it is their subreaper, and stay in the table until it
    /// takes note of their end. Those that somebody else here waits for are left alone.
    fn bury(&self) {
        let direct = self.direct.clone().unwrap_or_default();
        let waited_for = live(|live| live.clone());
        let own = getpid().as_raw_nonzero().get();
        for process in self.found.values().filter(|found| !direct.contains(&found.pid)) {
            let Some(pid) = Pid::from_raw(process.pid).filter(|pid| !waited_for.contains(pid))
            else {
                continue;
            };
            let adopted = Process::of(process.pid)
                .is_some_and(|now| now.start == process.start && now.ended && now.parent == own);
            if adopted {
                // whoever was quicker has buried it
                let _ = waitpid(Some(pid), WaitOptions::NOHANG);
            }
        }
    }
}
