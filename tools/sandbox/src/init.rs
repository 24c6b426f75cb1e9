//! Init, the first process in the sandbox: confines itself, starts the command, reaps its processes
//! and reports its end. Nothing that the command does can reach the node through it: it reads only
//! the channel, and the command can neither trace it nor open its descriptors.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::sync::{Arc, Mutex, PoisonError};

use caps::{CapSet, Capability, CapsHashSet};
use nix::sys::signal::SigSet;
use rustix::process::{
    DumpableBehavior, Pid, Resource, Rlimit, Signal, WaitOptions, WaitStatus, getrlimit,
    kill_process_group, set_dumpable_behavior, set_parent_process_death_signal, setrlimit, setsid,
    wait,
};
use rustix::stdio::{dup2_stderr, dup2_stdout};
use rustix::thread::set_no_new_privs;

use crate::channel::{Lines, Message, Ready, Report, TERM};
use crate::facts::Facts;
use crate::failure::{Failure, step, step_on};
use crate::profile::Profile;
use crate::{NOT_CONFINED, filter, landlock, layout, namespaces};

/// Init asks the helper to map the ids of its user namespace, and the answer.
pub(crate) const MAP: &str = "\"map\"";
pub(crate) const MAPPED: &str = "\"mapped\"";

/// The user ids that the sandbox knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ids {
    /// All, for root.
    All,
    /// The user's own.
    Own,
    /// There is no user namespace.
    Unmapped,
    /// Those that `bwrap` leaves, which has made namespaces and mounts: all for root, otherwise the
    /// user's own.
    LeftByBwrap,
}

impl Ids {
    /// The argument with which the helper starts init.
    pub(crate) fn role(self) -> &'static str {
        match self {
            Self::All => "init-all-ids",
            Self::Own => "init-own-id",
            Self::Unmapped => crate::HELPER,
            Self::LeftByBwrap => "init-in-bwrap",
        }
    }

    pub(crate) fn of_role(role: &str) -> Option<Self> {
        [Self::All, Self::Own, Self::LeftByBwrap].into_iter().find(|ids| ids.role() == role)
    }
}

/// Does the work of init in namespaces that the helper or `bwrap` has made.
pub(crate) fn run(ids: Ids, command: &[OsString]) -> ExitCode {
    let Ok(mut helper) = Lines::of_standard_input() else { return ExitCode::from(NOT_CONFINED) };
    match helper.receive_with() {
        Ok(Some((line, mut files))) => {
            if ids == Ids::LeftByBwrap && take_output(&mut files).is_err() {
                return ExitCode::from(NOT_CONFINED);
            }
            let Ok(profile) = Profile::parse(&line) else { return ExitCode::from(NOT_CONFINED) };
            confine_and_run(ids, helper, &profile, (command, files.pop()))
        }
        Ok(None) | Err(_) => ExitCode::from(NOT_CONFINED),
    }
}

/// Confines this process, runs the command with its standard input and reports its end. `channel` leads to the node,
/// maybe through the helper.
pub(crate) fn confine_and_run(
    ids: Ids,
    mut channel: Lines,
    profile: &Profile,
    (command, input): (&[OsString], Option<OwnedFd>),
) -> ExitCode {
    let started = confine(ids, &mut channel, profile)
        .and_then(|ready| start(&mut channel, ready, profile, (command, input)));
    let shell = match started {
        Ok(shell) => shell,
        Err(failure) => {
            // without the node nobody wants to know
            let _ = channel.send_message(&Message::Failed(failure));
            return ExitCode::from(NOT_CONFINED);
        }
    };
    let code = shell.reap(&mut channel, profile);
    ExitCode::from(code)
}

/// Keeps the capabilities that init needs over its `exec`, which drops those of every user but
/// root.
pub(crate) fn keep_capabilities() -> Result<(), Failure> {
    use Capability::{CAP_NET_ADMIN, CAP_SETPCAP, CAP_SYS_ADMIN};
    for capability in [CAP_SYS_ADMIN, CAP_NET_ADMIN, CAP_SETPCAP] {
        for set in [CapSet::Inheritable, CapSet::Ambient] {
            capability_step(|| caps::raise(None, set, capability))?;
        }
    }
    Ok(())
}

/// Lets go of the output, so that its readers see the end when the command's processes have ended.
pub(crate) fn close_output() -> io::Result<()> {
    let null = fs::File::options().write(true).open("/dev/null")?;
    dup2_stdout(&null)?;
    Ok(dup2_stderr(&null)?)
}

/// Takes the output, which the helper sends past `bwrap`, from the files that came with the profile. Keeps this
/// program's own file, from which `bwrap` has started it, from the command.
fn take_output(files: &mut Vec<OwnedFd>) -> io::Result<()> {
    close_fds::set_fds_cloexec(3, &[]);
    let input = files.split_off(files.len().min(2));
    let [output, errors] = files.as_slice() else {
        return Err(io::Error::other("there is no output"));
    };
    dup2_stdout(output)?;
    dup2_stderr(errors)?;
    *files = input;
    Ok(())
}

fn capability_step<T>(
    work: impl FnOnce() -> Result<T, caps::errors::CapsError>,
) -> Result<T, Failure> {
    step("capset", || work().map_err(io::Error::other))
}

/// Confines this process for ever, in the order that the kernel needs: mounts before Landlock,
/// which refuses them, and the user namespace before capabilities are dropped.
fn confine(ids: Ids, channel: &mut Lines, profile: &Profile) -> Result<Ready, Failure> {
    let folder = step("getcwd", std::env::current_dir)?;
    limit(profile)?;
    let has_namespaces = profile.backend.has_namespaces();
    if profile.has_own_processes() {
        // the only thread of the helper or of `bwrap` starts init, so this is not too early
        let end = Some(Signal::KILL);
        step("PR_SET_PDEATHSIG", || set_parent_process_death_signal(end))?;
        step("setsid", setsid)?;
    }
    if ids == Ids::All {
        namespaces::enter_as_root(profile)?;
    }
    let facts = Facts::read(profile)?;
    if has_namespaces && ids != Ids::LeftByBwrap {
        let temp = profile.temp.as_ref().and_then(|temp| facts.found.get(temp));
        let steps = layout::steps(profile, &facts);
        namespaces::perform(&steps, temp.map(|temp| temp.path.as_path()))?;
        if !profile.network {
            namespaces::start_loopback()?;
        }
        // the folder that is open lies below the new mounts
        step_on("chdir", &folder, |folder| std::env::set_current_dir(folder))?;
    }
    if ids == Ids::All {
        namespaces::leave_root()?;
        step("send map", || channel.send(MAP))?;
        let answer = step("wait for map", || channel.receive())?;
        if answer.as_deref() != Some(MAPPED) {
            return Err(Failure::new("wait for map", "the ids could not be mapped"));
        }
    }
    drop_capabilities(ids)?;
    step("PR_SET_NO_NEW_PRIVS", || set_no_new_privs(true))?;
    step("PR_SET_DUMPABLE", || set_dumpable_behavior(DumpableBehavior::NotDumpable))?;
    let landlock = landlock::restrict(profile, &facts)?;
    filter::apply(profile)?;
    let all_ids = match ids {
        Ids::All => true,
        Ids::LeftByBwrap => rustix::process::geteuid().is_root(),
        Ids::Own | Ids::Unmapped => false,
    };
    Ok(Ready { backend: profile.backend, all_ids, landlock })
}

/// Resource limits, and a high score for the kernel's choice when memory runs out.
fn limit(profile: &Profile) -> Result<(), Failure> {
    const SCORE: i32 = 500;
    const FILE: &str = "/proc/self/oom_score_adj";
    let own = step_on("read", FILE, |file| fs::read_to_string(file))?;
    if own.trim().parse().is_ok_and(|own: i32| own < SCORE) {
        step_on("write", FILE, |file| fs::write(file, SCORE.to_string()))?;
    }
    for (name, resource, limit) in [
        ("setrlimit core", Resource::Core, Some(0)),
        ("setrlimit nproc", Resource::Nproc, profile.limits.processes),
        ("setrlimit fsize", Resource::Fsize, profile.limits.file_size),
    ] {
        let Some(limit) = limit else { continue };
        let now = getrlimit(resource);
        let lower = |value: Option<u64>| Some(value.map_or(limit, |value| value.min(limit)));
        let lowered = Rlimit { current: lower(now.current), maximum: lower(now.maximum) };
        step(name, || setrlimit(resource, lowered))?;
    }
    Ok(())
}

/// Drops the capabilities. Root keeps those over files and processes that it owns by its ids: they
/// let it unpack archives and end its own services.
fn drop_capabilities(ids: Ids) -> Result<(), Failure> {
    use Capability::{
        CAP_CHOWN, CAP_DAC_OVERRIDE, CAP_FOWNER, CAP_FSETID, CAP_KILL, CAP_SETGID, CAP_SETUID,
    };
    let kept: CapsHashSet = match ids {
        Ids::Own => CapsHashSet::new(),
        Ids::All | Ids::Unmapped | Ids::LeftByBwrap => {
            [CAP_CHOWN, CAP_DAC_OVERRIDE, CAP_FOWNER, CAP_FSETID, CAP_KILL, CAP_SETGID, CAP_SETUID]
                .into()
        }
    };
    let permitted = capability_step(|| caps::read(None, CapSet::Permitted))?;
    if permitted.contains(&Capability::CAP_SETPCAP) {
        let bounding = capability_step(|| caps::read(None, CapSet::Bounding))?;
        for capability in bounding.difference(&kept) {
            capability_step(|| caps::drop(None, CapSet::Bounding, *capability))?;
        }
    }
    let rest: CapsHashSet = permitted.intersection(&kept).copied().collect();
    for set in [CapSet::Ambient, CapSet::Inheritable] {
        capability_step(|| caps::clear(None, set))?;
    }
    for set in [CapSet::Effective, CapSet::Permitted] {
        capability_step(|| caps::set(None, set, &rest))?;
    }
    Ok(())
}

/// Keeps SIGTERM from ending this process, from this thread on, or lets it end the children that are started next. The
/// node sends it to all processes of a call: the command decides what it does then, and its helper lives as long as the
/// command.
pub(crate) fn ignore_term(ignore: bool) {
    let term = SigSet::from_iter([nix::sys::signal::Signal::SIGTERM]);
    // the calls fail for wrong arguments alone
    let _ = if ignore { term.thread_block() } else { term.thread_unblock() };
}

/// The running command.
struct Shell {
    pid: Pid,
    /// Its process group, as long as the command runs.
    group: Arc<Mutex<Option<Pid>>>,
    oom_kills: u64,
}

/// Starts the command in a process group of its own, and the thread that reads the channel.
fn start(
    channel: &mut Lines,
    ready: Ready,
    profile: &Profile,
    (command, input): (&[OsString], Option<OwnedFd>),
) -> Result<Shell, Failure> {
    let Some((program, arguments)) = command.split_first() else {
        return Err(Failure::new("start", "there is no command"));
    };
    let group = Arc::new(Mutex::new(None));
    let stream = step("dup", || channel.stream.try_clone())?;
    let (reader, ends) = (Arc::clone(&group), profile.has_own_processes());
    let rest = channel.take_rest();
    // the thread must ignore it too
    ignore_term(true);
    step("start thread", || {
        let read = move || read_channel(Lines::with_rest(stream, rest), &reader, ends);
        std::thread::Builder::new().name("leftfold-channel".into()).spawn(read)
    })?;
    let oom_kills = oom_kills();
    step("send ready", || channel.send_message(&Message::Ready(ready)))?;
    let mut shell = Command::new(program);
    shell.args(arguments).stdin(input.map_or_else(Stdio::null, Stdio::from)).process_group(0);
    set_variables(&mut shell, profile);
    // locked until its group is known
    let mut led = group.lock().unwrap_or_else(PoisonError::into_inner);
    ignore_term(false);
    let started = step_on("start", program, |_| shell.spawn());
    ignore_term(true);
    let child = started?;
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    let pid = pid.ok_or_else(|| Failure::new("start", "the process has no number"))?;
    *led = Some(pid);
    drop(led);
    // only the command holds its input and output open
    drop(shell);
    step("close output", close_output)?;
    Ok(Shell { pid, group, oom_kills })
}

/// Variables that must fit the sandbox.
fn set_variables(shell: &mut Command, profile: &Profile) {
    if let Some(temp) = &profile.temp {
        for name in ["TMPDIR", "TMP", "TEMP"] {
            shell.env_remove(name);
        }
        if !profile.backend.has_namespaces() {
            shell.env("TMPDIR", temp);
        }
    }
    // the leak checker of compilers needs ptrace, and fails without
    if std::env::var_os("LSAN_OPTIONS").is_none() {
        shell.env("LSAN_OPTIONS", "detect_leaks=0");
    }
}

/// Obeys the node until the channel closes. Then ends this process, and with it, if it is the first
/// one of a PID namespace, all others there.
fn read_channel(mut channel: Lines, group: &Mutex<Option<Pid>>, ends: bool) {
    while let Ok(Some(line)) = channel.receive() {
        let group = group.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(group) = group.filter(|_| line == TERM) {
            // an error means that the group is empty
            let _ = kill_process_group(group, Signal::TERM);
        }
    }
    if !ends {
        let group = group.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(group) = *group {
            let _ = kill_process_group(group, Signal::KILL);
        }
    }
    std::process::exit(NOT_CONFINED.into());
}

impl Shell {
    /// Reaps processes until none is left. Reports the end of the command as soon as it ends;
    /// others may still run. Returns the exit code.
    fn reap(self, channel: &mut Lines, profile: &Profile) -> u8 {
        let mut code = NOT_CONFINED;
        loop {
            match wait(WaitOptions::empty()) {
                Ok(Some((pid, status))) if pid == self.pid => {
                    *self.group.lock().unwrap_or_else(PoisonError::into_inner) = None;
                    let report = self.report(status, profile);
                    code = exit_code(report);
                    // without the node nobody wants to know
                    let _ = channel.send_message(&Message::Report(report));
                }
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                // no child is left
                Err(_) => return code,
            }
        }
    }

    fn report(&self, status: WaitStatus, profile: &Profile) -> Report {
        let has_own_network = profile.backend.has_namespaces() && !profile.network;
        let (no_route, no_ports) = if has_own_network { unreachable_packets() } else { (0, 0) };
        Report {
            code: status.exit_status(),
            signal: status.terminating_signal(),
            no_route,
            no_ports,
            oom_kills: oom_kills().saturating_sub(self.oom_kills),
        }
    }
}

fn exit_code(report: Report) -> u8 {
    let code = report.code.or_else(|| Some(128 + report.signal?));
    code.and_then(|code| u8::try_from(code).ok()).unwrap_or(NOT_CONFINED)
}

/// Packets without a route, and UDP packets to ports that nobody reads.
fn unreachable_packets() -> (u64, u64) {
    let v4 = fs::read_to_string("/proc/net/snmp").unwrap_or_default();
    let v6 = fs::read_to_string("/proc/net/snmp6").unwrap_or_default();
    let no_route = column(&v4, "Ip:", "OutNoRoutes") + value(&v6, "Ip6OutNoRoutes");
    (no_route, column(&v4, "Udp:", "NoPorts") + value(&v6, "Udp6NoPorts"))
}

/// A number of `/proc/net/snmp`: a line of names, then a line of values.
fn column(text: &str, protocol: &str, name: &str) -> u64 {
    let mut lines = text.lines().filter(|line| line.starts_with(protocol));
    let (Some(names), Some(values)) = (lines.next(), lines.next()) else { return 0 };
    let mut columns = names.split_whitespace().zip(values.split_whitespace());
    let found = columns.find(|(other, _)| *other == name);
    found.and_then(|(_, value)| value.parse().ok()).unwrap_or(0)
}

/// A number of a file with one name and value a line.
fn value(text: &str, name: &str) -> u64 {
    let mut lines = text.lines().filter_map(|line| line.split_once(char::is_whitespace));
    let found = lines.find(|(other, _)| *other == name);
    found.and_then(|(_, value)| value.trim().parse().ok()).unwrap_or(0)
}

/// Processes that the kernel has killed since its start because memory ran out.
fn oom_kills() -> u64 {
    value(&fs::read_to_string(Path::new("/proc/vmstat")).unwrap_or_default(), "oom_kill")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_found_by_name() {
        let v4 = "Ip: Forwarding OutNoRoutes\nIp: 2 6\nUdp: InDatagrams NoPorts\nUdp: 1 3\n";
        assert_eq!(column(v4, "Ip:", "OutNoRoutes"), 6);
        assert_eq!(column(v4, "Udp:", "NoPorts"), 3);
        assert_eq!(column(v4, "Tcp:", "NoPorts"), 0);
        let v6 = "Ip6InReceives                   \t0\nIp6OutNoRoutes                  \t4\n";
        assert_eq!(value(v6, "Ip6OutNoRoutes"), 4);
        assert_eq!(value("oom_kill 2\n", "oom_kill"), 2);
    }
}
