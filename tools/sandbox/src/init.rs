//! Init, the first process in the sandbox: confines itself and runs the command. Nothing that the command does can reach the node through it: it reads only
//! the channel, and the command can neither trace it nor open its descriptors.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::process::ExitCode;

use caps::{CapSet, Capability, CapsHashSet};
use rustix::process::{
    DumpableBehavior, Signal, fchdir, set_dumpable_behavior, set_parent_process_death_signal,
    setsid,
};
use rustix::stdio::{dup2_stderr, dup2_stdout};
use rustix::thread::set_no_new_privs;

use crate::channel::{Lines, Ready};
use crate::facts::Facts;
use crate::failure::{Failure, step, step_on};
use crate::namespaces::Mounts;
use crate::profile::Profile;
use crate::{NOT_CONFINED, filter, landlock, layout, namespaces, supervise};

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
    /// The ids that `bwrap` leaves, which made the namespaces and mounts: all for root, otherwise the user's own.
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
    let ready = confine(ids, &mut channel, profile);
    supervise::run(channel, ready, profile, (command, input))
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
    let mut mounts = Mounts::default();
    if has_namespaces && ids != Ids::LeftByBwrap {
        let temp = profile.temp.as_ref().and_then(|temp| facts.found.get(temp));
        let steps = layout::steps(profile, &facts);
        mounts = namespaces::perform(&steps, temp.map(|temp| temp.path.as_path()))?;
        if !profile.network {
            namespaces::start_loopback()?;
        }
        // the folder that is open lies below the new mounts
        step_on("chdir", &folder, |folder| fchdir(mounts.open(folder)?))?;
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
    let landlock = landlock::restrict(profile, &facts, |path| mounts.open(path))?;
    drop(mounts);
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
    supervise::limit(profile)
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
