//! Finds all processes of a call, a store or this process, and ends them.

use std::collections::{HashMap, HashSet};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, WaitOptions, getpid, waitpid};

use super::limits;
use super::mark::{Live, TERM_GRACE, with_live};
use super::table::{self, Process};

/// Pause between two looks at the process table.
const SEARCH_INTERVAL: Duration = Duration::from_millis(4);

/// How long a process may take to die of SIGKILL. It cannot refuse the signal; only the kernel can
/// delay its end.
const KILL_TIMEOUT: Duration = Duration::from_secs(3);

/// A search for processes. It remembers every process found, because the parents that led to it may
/// be gone at the next look.
pub(crate) struct ProcessSearch {
    /// Selects processes by the mark in their environment.
    selects: Box<dyn Fn(&str) -> bool>,
    /// Whether children of this process are searched for.
    children: bool,
    /// Whether another task of this process may wait for one of its children.
    awaited: bool,
    /// Whether children of this process that no running call has started are searched for.
    orphans: bool,
    /// Children of this process at the first look, if `awaited`.
    direct: Option<HashSet<i32>>,
    found: HashMap<i32, Process>,
    groups: HashSet<i32>,
    sessions: HashSet<i32>,
}

/// The entry of this process. The process, its group and its session are never ended.
fn own(table: &[Process]) -> Process {
    let pid = getpid().as_raw_nonzero().get();
    let nobody = Process { pid, parent: 0, group: 0, session: 0, start: 0, ended: false };
    table.iter().find(|process| process.pid == pid).copied().unwrap_or(nobody)
}

impl ProcessSearch {
    /// Searches for processes whose mark satisfies the predicate.
    pub(crate) fn of_calls(selects: impl Fn(&str) -> bool + 'static) -> Self {
        Self {
            selects: Box::new(selects),
            children: false,
            awaited: true,
            orphans: false,
            direct: None,
            found: HashMap::new(),
            groups: HashSet::new(),
            sessions: HashSet::new(),
        }
    }

    /// Searches for all descendants of this process.
    pub(crate) fn of_children() -> Self {
        Self { children: true, ..Self::of_calls(|_| false) }
    }

    /// Also searches the group that `leader` leads, and processes that this one has adopted from `leader` or from
    /// calls that have ended. The leader is the only result that this process has started itself.
    pub(crate) fn and_group(mut self, leader: Pid) -> Self {
        self.awaited = false;
        self.orphans = true;
        self.groups.insert(leader.as_raw_nonzero().get());
        self
    }

    /// Ends all processes found: SIGTERM, a short wait, then SIGKILL until none is left. Returns
    /// how many there were. Blocks the thread.
    pub(crate) fn end(mut self) -> usize {
        let mut asked: HashSet<i32> = HashSet::new();
        let start = Instant::now();
        loop {
            let remaining = self.find();
            if remaining.is_empty() {
                break;
            }
            let force = start.elapsed() >= TERM_GRACE;
            for process in &remaining {
                let first = asked.insert(process.pid);
                if force {
                    process.signal(Signal::KILL);
                } else if first {
                    process.signal(Signal::TERM);
                }
            }
            if start.elapsed() > TERM_GRACE + KILL_TIMEOUT {
                tracing::warn!(left = remaining.len(), "processes do not end");
                break;
            }
            std::thread::sleep(SEARCH_INTERVAL);
        }
        self.collect_exit_statuses();
        asked.len()
    }

    /// The matching processes that still run.
    fn find(&mut self) -> Vec<Process> {
        let table = table::all();
        let own = own(&table);
        self.add_marked(&table, &own);
        if self.orphans {
            self.add_orphans(&table, &own);
        }
        while self.add_related(&table, &own) {}
        if self.awaited && self.direct.is_none() {
            let child = |process: &&Process| process.parent == own.pid;
            self.direct = Some(table.iter().filter(child).map(|process| process.pid).collect());
        }
        let is_found = |process: &&Process| self.found.get(&process.pid) == Some(process);
        table.iter().filter(is_found).filter(|process| !process.ended).copied().collect()
    }

    /// Adds the processes whose mark matches, and the groups and sessions that belong to the call.
    fn add_marked(&mut self, table: &[Process], own: &Process) {
        let others = table.iter().filter(|process| process.pid != own.pid);
        let mut nodes = Vec::new();
        for process in others {
            let Some(marks) = process.marks().filter(|marks| (self.selects)(&marks.call)) else {
                continue;
            };
            self.found.insert(process.pid, *process);
            nodes.push((process, marks.node));
        }
        for (process, node) in nodes {
            // the node's own group and session are the user's, unless a process of the call leads
            // them by now
            let leads = |id: i32| table.iter().any(|p| p.pid == id && self.found.contains_key(&id));
            let (session, group) = (process.session, process.group);
            if node.is_some_and(|(_, node)| node != group) || leads(group) {
                self.groups.insert(group);
            }
            if node.is_some_and(|(node, _)| node != session) || leads(session) {
                self.sessions.insert(session);
            }
        }
        // 0 stands for a group or session outside this container
        for (ids, own) in [(&mut self.groups, own.group), (&mut self.sessions, own.session)] {
            ids.remove(&own);
            ids.remove(&0);
        }
    }

    /// Adds children of this process that are leaders or members of sessions of their own, without those that it has
    /// started and those that their number gives to another running process. They have left the session of their call
    /// and cleared their environment.
    fn add_orphans(&mut self, table: &[Process], own: &Process) {
        // read after the table, so that every process in the table is in it
        let mut others: Vec<Live> = with_live(|live| live.clone());
        let ours = |live: &Live| self.groups.contains(&live.leader.as_raw_nonzero().get());
        others.retain(|live| !ours(live));
        let is_orphan = |process: &&Process| {
            process.parent == own.pid
                && process.session != own.session
                && !others.iter().any(|live| live.leader.as_raw_nonzero().get() == process.pid)
                && limits::for_process(process.pid)
                    .is_some_and(|number| !others.iter().any(|live| live.number == number))
        };
        self.found.extend(table.iter().filter(is_orphan).map(|orphan| (orphan.pid, *orphan)));
    }

    /// Adds members of the groups and sessions, and children. Returns whether it found a new
    /// process.
    fn add_related(&mut self, table: &[Process], own: &Process) -> bool {
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
                // parent and group may have changed, the process is unchanged
                self.found.insert(process.pid, *process);
            }
        }
        new
    }

    /// Collects the exit status of orphans. Orphans become children of this process if it is their
    /// subreaper, and stay in the table until their status is collected. Children that another task
    /// waits for are left alone.
    fn collect_exit_statuses(&self) {
        let direct = self.direct.clone().unwrap_or_default();
        let waited_for = with_live(|live| live.iter().map(|it| it.leader).collect::<Vec<_>>());
        let own = getpid().as_raw_nonzero().get();
        for process in self.found.values().filter(|found| !direct.contains(&found.pid)) {
            let Some(pid) = Pid::from_raw(process.pid).filter(|pid| !waited_for.contains(pid))
            else {
                continue;
            };
            let adopted = Process::from_pid(process.pid)
                .is_some_and(|now| now.start == process.start && now.ended && now.parent == own);
            if adopted {
                // another task may have collected the status first
                let _ = waitpid(Some(pid), WaitOptions::NOHANG);
            }
        }
    }
}
