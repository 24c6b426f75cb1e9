//! Runs the confined command: starts it in a process group of its own, passes SIGTERM on to it, reaps processes and
//! reports its end. The last part of init's work, and on macOS of the helper's. Confines nothing.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::sync::{Arc, Mutex, PoisonError};

use nix::sys::signal::SigSet;
use rustix::process::{
    Pid, Resource, Rlimit, Signal, WaitOptions, WaitStatus, getrlimit, kill_process_group,
    setrlimit, wait,
};
use rustix::stdio::{dup2_stderr, dup2_stdout};

use crate::NOT_CONFINED;
use crate::channel::{Lines, Message, Ready, Report, TERM};
use crate::failure::{Failure, step, step_on};
use crate::profile::Profile;

/// Runs the command with its standard input to its end, or reports the failure. `channel` leads to the node, maybe
/// through the helper.
pub(crate) fn run(
    mut channel: Lines,
    ready: Result<Ready, Failure>,
    profile: &Profile,
    command: (&[OsString], Option<OwnedFd>),
) -> ExitCode {
    match ready.and_then(|ready| start(&mut channel, ready, profile, command)) {
        Ok(shell) => ExitCode::from(shell.reap(&mut channel, profile)),
        Err(failure) => {
            // without the node nobody wants to know
            let _ = channel.send_message(&Message::Failed(failure));
            ExitCode::from(NOT_CONFINED)
        }
    }
}

/// Lowers the resource limits of this process and of what it starts.
pub(crate) fn limit(profile: &Profile) -> Result<(), Failure> {
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

/// Lets go of the output, so that its readers see the end when the command's processes have ended.
pub(crate) fn close_output() -> io::Result<()> {
    let null = fs::File::options().write(true).open("/dev/null")?;
    dup2_stdout(&null)?;
    Ok(dup2_stderr(&null)?)
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
