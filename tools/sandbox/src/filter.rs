//! The seccomp filters: system calls that a command has no use for and that reach past the sandbox
//! or into little tested parts of the kernel. Every other system call is allowed.

use std::collections::BTreeMap;

use nix::libc::{
    self, SYS_acct, SYS_add_key, SYS_bpf, SYS_chroot, SYS_clock_settime, SYS_clone, SYS_clone3,
    SYS_delete_module, SYS_fanotify_init, SYS_finit_module, SYS_fsconfig, SYS_fsmount, SYS_fsopen,
    SYS_fspick, SYS_init_module, SYS_io_uring_enter, SYS_io_uring_register, SYS_io_uring_setup,
    SYS_ioctl, SYS_ioprio_set, SYS_kcmp, SYS_kexec_load, SYS_keyctl, SYS_mount, SYS_mount_setattr,
    SYS_move_mount, SYS_open_by_handle_at, SYS_open_tree, SYS_perf_event_open, SYS_pidfd_getfd,
    SYS_pivot_root, SYS_prlimit64, SYS_process_vm_readv, SYS_process_vm_writev, SYS_ptrace,
    SYS_quotactl, SYS_quotactl_fd, SYS_reboot, SYS_request_key, SYS_sched_setaffinity,
    SYS_sched_setattr, SYS_sched_setparam, SYS_sched_setscheduler, SYS_setns, SYS_setpriority,
    SYS_settimeofday, SYS_socket, SYS_socketpair, SYS_swapoff, SYS_swapon, SYS_syslog, SYS_umount2,
    SYS_unshare, SYS_userfaultfd, SYS_vhangup,
};
use seccompiler::{
    BackendError, BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition,
    SeccompFilter, SeccompRule, TargetArch, apply_filter,
};

use crate::failure::{Failure, step};
use crate::profile::Profile;

type Rules = BTreeMap<i64, Vec<SeccompRule>>;

/// System calls that fail with `EPERM`, whatever their arguments are.
const DENIED: &[&[i64]] = &[
    // other processes
    &[SYS_kcmp, SYS_pidfd_getfd, SYS_process_vm_readv, SYS_process_vm_writev, SYS_ptrace],
    // mounts and namespaces
    &[
        SYS_chroot, SYS_fsconfig, SYS_fsmount, SYS_fsopen, SYS_fspick, SYS_mount,
        SYS_mount_setattr, SYS_move_mount, SYS_open_by_handle_at, SYS_open_tree, OPEN_TREE_ATTR,
        SYS_pivot_root, SYS_setns, SYS_umount2,
    ],
    // keys of the user, which belong to no namespace
    &[SYS_add_key, SYS_keyctl, SYS_request_key],
    // parts of the kernel with a history of holes
    &[SYS_bpf, SYS_fanotify_init, SYS_perf_event_open, SYS_userfaultfd],
    // the machine
    &[
        SYS_acct, SYS_clock_settime, SYS_delete_module, SYS_finit_module, SYS_init_module,
        SYS_kexec_load, SYS_quotactl, SYS_quotactl_fd, SYS_reboot, SYS_settimeofday, SYS_swapoff,
        SYS_swapon, SYS_syslog, SYS_vhangup,
    ],
];

/// Newer than the crate `libc`. The number is the same on all architectures.
const OPEN_TREE_ATTR: i64 = 467;

#[cfg(target_arch = "x86_64")]
const DENIED_HERE: &[i64] = &[libc::SYS_ioperm, libc::SYS_iopl, libc::SYS_kexec_file_load];
/// `kexec_file_load`, whose number the crate `libc` does not know with musl.
#[cfg(target_arch = "aarch64")]
const DENIED_HERE: &[i64] = &[294];
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
const DENIED_HERE: &[i64] = &[];

/// System calls that fail with `ENOSYS`, so that callers fall back to an older one: arguments of
/// `clone3` are in memory, where no filter sees them, and io_uring passes by all filters.
const MISSING: &[i64] =
    &[SYS_clone3, SYS_io_uring_enter, SYS_io_uring_register, SYS_io_uring_setup];

/// Programs of the x32 interface use the same numbers with this bit.
#[cfg(target_arch = "x86_64")]
const X32: Option<i64> = Some(0x4000_0000);
#[cfg(not(target_arch = "x86_64"))]
const X32: Option<i64> = None;

/// Flags of `clone` and `unshare` that make namespaces.
const NAMESPACES: libc::c_int = libc::CLONE_NEWNS
    | libc::CLONE_NEWCGROUP
    | libc::CLONE_NEWUTS
    | libc::CLONE_NEWIPC
    | libc::CLONE_NEWUSER
    | libc::CLONE_NEWPID
    | libc::CLONE_NEWNET;

/// `CLONE_NEWTIME`, for `unshare` alone: in `clone` it is part of the exit signal.
const NEWTIME: libc::c_int = 0x80;

const AF_UNIX: u64 = libc::AF_UNIX as u64;
const AF_INET: u64 = libc::AF_INET as u64;
const AF_INET6: u64 = libc::AF_INET6 as u64;
const AF_NETLINK: u64 = libc::AF_NETLINK as u64;
const NETLINK_ROUTE: u64 = libc::NETLINK_ROUTE as u64;
const TIOCSTI: u64 = 0x5412;
const TIOCLINUX: u64 = 0x541c;

/// Puts the filters on this thread and what it starts, for ever. Sets `no_new_privs`.
pub(crate) fn apply(profile: &Profile) -> Result<(), Failure> {
    let failed = |why| Failure::new("seccomp", why);
    let arch: TargetArch = std::env::consts::ARCH
        .try_into()
        .map_err(|error: BackendError| failed(error.to_string()))?;
    let missing: Rules = MISSING.iter().map(|number| (*number, Vec::new())).collect();
    let denied = denied(profile).map_err(|error| failed(error.to_string()))?;
    for (rules, errno) in [(missing, libc::ENOSYS), (denied, libc::EPERM)] {
        let action = SeccompAction::Errno(errno.unsigned_abs());
        let program: Result<BpfProgram, BackendError> =
            SeccompFilter::new(with_x32(rules), SeccompAction::Allow, action, arch)
                .and_then(TryInto::try_into);
        let program = program.map_err(|error| failed(error.to_string()))?;
        step("seccomp", || apply_filter(&program).map_err(std::io::Error::other))?;
    }
    Ok(())
}

fn with_x32(mut rules: Rules) -> Rules {
    if let Some(bit) = X32 {
        let twins: Rules =
            rules.iter().map(|(number, rule)| (number | bit, rule.clone())).collect();
        rules.extend(twins);
    }
    rules
}

fn denied(profile: &Profile) -> Result<Rules, BackendError> {
    let mut rules: Rules = DENIED
        .iter()
        .copied()
        .flatten()
        .chain(DENIED_HERE)
        .map(|number| (*number, Vec::new()))
        .collect();
    let of_clone = flags(NAMESPACES);
    let of_unshare = flags(NAMESPACES | NEWTIME);
    rules.insert(SYS_clone, any(of_clone)?);
    rules.insert(SYS_unshare, any(of_unshare)?);
    // characters typed into a terminal
    let typed = [TIOCSTI, TIOCLINUX].map(|number| vec![is(1, number)]);
    rules.insert(SYS_ioctl, any(typed)?);
    let mut families = vec![is_not(0, AF_UNIX), is_not(0, AF_NETLINK)];
    if profile.backend.has_namespaces() || profile.network {
        families.extend([is_not(0, AF_INET), is_not(0, AF_INET6)]);
    }
    // of netlink only routes: names and addresses of interfaces
    let netlink = vec![is(0, AF_NETLINK), is_not(2, NETLINK_ROUTE)];
    rules.insert(SYS_socket, any([families, netlink])?);
    rules.insert(SYS_socketpair, any([vec![is_not(0, AF_UNIX)]])?);
    if !profile.backend.has_namespaces() {
        // limits and priorities of other processes of the user; 0 is the own one
        for number in [
            SYS_prlimit64, SYS_sched_setaffinity, SYS_sched_setattr, SYS_sched_setparam,
            SYS_sched_setscheduler,
        ] {
            rules.insert(number, any([vec![is_not(0, 0)]])?);
        }
        for number in [SYS_ioprio_set, SYS_setpriority] {
            rules.insert(number, any([vec![is_not(1, 0)]])?);
        }
    }
    Ok(rules)
}

type Condition = Result<SeccompCondition, BackendError>;

/// Rules of which one must hold, each of conditions that must all hold.
fn any(rules: impl IntoIterator<Item = Vec<Condition>>) -> Result<Vec<SeccompRule>, BackendError> {
    let rule = |conditions: Vec<Condition>| {
        SeccompRule::new(conditions.into_iter().collect::<Result<Vec<_>, _>>()?)
    };
    rules.into_iter().map(rule).collect()
}

fn is(argument: u8, value: u64) -> Condition {
    compare(argument, SeccompCmpOp::Eq, value)
}

fn is_not(argument: u8, value: u64) -> Condition {
    compare(argument, SeccompCmpOp::Ne, value)
}

/// Compares the lower half: the kernel takes these arguments as 32 bits.
fn compare(argument: u8, op: SeccompCmpOp, value: u64) -> Condition {
    SeccompCondition::new(argument, SeccompCmpArgLen::Dword, op, value)
}

/// One rule for each of the flags in argument 0.
fn flags(flags: libc::c_int) -> Vec<Vec<Condition>> {
    let flags = u64::from(flags.cast_unsigned());
    let bits = (0..32).map(|bit| 1u64 << bit).filter(|bit| flags & bit != 0);
    let is_set =
        |bit| SeccompCondition::new(0, SeccompCmpArgLen::Qword, SeccompCmpOp::MaskedEq(bit), bit);
    bits.map(|bit| vec![is_set(bit)]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::Backend;

    #[test]
    fn each_profile_has_filters_that_compile() {
        for backend in [Backend::Namespaces, Backend::Landlock] {
            for network in [true, false] {
                let profile = Profile { network, ..Profile::new(backend) };
                let rules = with_x32(denied(&profile).unwrap());
                let arch = std::env::consts::ARCH.try_into().unwrap();
                let action = SeccompAction::Errno(1);
                let filter = SeccompFilter::new(rules, SeccompAction::Allow, action, arch).unwrap();
                let program = BpfProgram::try_from(filter).unwrap();
                // the kernel takes 4096 instructions
                assert!(program.len() < 2_000, "{} instructions", program.len());
            }
        }
    }
}
