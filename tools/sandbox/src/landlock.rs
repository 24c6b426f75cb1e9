//! Landlock: grants the paths of [`Rules`] and refuses every other one, and cuts signals and
//! abstract Unix sockets to processes outside, unless the command shares the machine's processes.

use std::collections::BTreeSet;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use landlock::{
    ABI, Access, AccessFs, BitFlags, LandlockStatus, PathBeneath, Ruleset, RulesetAttr,
    RulesetCreated, RulesetCreatedAttr, RulesetError, Scope,
};

use rustix::fs::{FileType, fstat};

use crate::failure::{Failure, step};
use crate::layout::{Facts, Rules, rules};
use crate::profile::Profile;

/// The newest version of the interface whose rights are used.
const NEWEST: ABI = ABI::V6;

/// The oldest version that refuses every way to change a file: version 2 lets files be truncated.
const NEEDED: u8 = 3;

/// Confines this thread and what it starts, for ever. Returns the version of the interface in
/// force, 0 if the kernel has none. Needs `no_new_privs`.
///
/// Version 3 is needed unless the profile has namespaces with their own `/proc`, which keep other
/// files and processes out of reach by themselves.
///
/// `open` follows no link: a command that runs meanwhile in the same folder could make one to another place.
pub(crate) fn restrict(
    profile: &Profile,
    facts: &Facts,
    open: impl Fn(&Path) -> rustix::io::Result<OwnedFd>,
) -> Result<u8, Failure> {
    let rules = rules(profile, facts, children);
    let scopes = match profile.shares_processes {
        true => BitFlags::EMPTY,
        false => Scope::AbstractUnixSocket | Scope::Signal,
    };
    let restrict = || enforce(&rules, scopes, &open).map_err(std::io::Error::other);
    let version = match step("landlock_restrict_self", restrict)? {
        LandlockStatus::Available { effective_abi, .. } => effective_abi as u8,
        LandlockStatus::NotEnabled | LandlockStatus::NotImplemented => 0,
    };
    if version < NEEDED && !profile.backend.has_own_proc() {
        let why = format!("the kernel has version {version} of Landlock, and {NEEDED} is needed");
        return Err(Failure::new("landlock", why));
    }
    Ok(version)
}

/// Opens a path, as for [`restrict`].
type Open<'a> = &'a dyn Fn(&Path) -> rustix::io::Result<OwnedFd>;

fn enforce(
    rules: &Rules,
    scopes: BitFlags<Scope>,
    open: Open<'_>,
) -> Result<LandlockStatus, RulesetError> {
    let read = AccessFs::from_read(NEWEST);
    let mut ruleset = Ruleset::default().handle_access(AccessFs::from_all(NEWEST))?;
    if !scopes.is_empty() {
        ruleset = ruleset.scope(scopes)?;
    }
    let ruleset = ruleset.create()?;
    let ruleset = grant(ruleset, &rules.list, AccessFs::ReadDir.into(), open)?;
    let ruleset = grant(ruleset, &rules.read, read, open)?;
    let ruleset = grant(ruleset, &rules.devices, read | AccessFs::from_file(NEWEST), open)?;
    let ruleset = grant(ruleset, &rules.write, AccessFs::from_all(NEWEST), open)?;
    Ok(ruleset.restrict_self()?.landlock)
}

/// Skips paths that cannot be opened: the command could not open them either.
fn grant(
    mut ruleset: RulesetCreated,
    paths: &BTreeSet<PathBuf>,
    access: BitFlags<AccessFs>,
    open: Open<'_>,
) -> Result<RulesetCreated, RulesetError> {
    for path in paths {
        let Ok(file) = open(path) else { continue };
        let is_folder =
            fstat(&file).is_ok_and(|file| FileType::from_raw_mode(file.st_mode).is_dir());
        // the kernel refuses rights of folders for files
        let access = if is_folder { access } else { access & AccessFs::from_file(NEWEST) };
        ruleset = ruleset.add_rule(PathBeneath::new(file, access))?;
    }
    Ok(ruleset)
}

/// The files and folders in a folder. A link grants nothing: its target is a child of some folder.
fn children(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
    let entries = entries.filter_map(Result::ok);
    let is_link = |entry: &std::fs::DirEntry| entry.file_type().is_ok_and(|kind| kind.is_symlink());
    entries.filter(|entry| !is_link(entry)).map(|entry| entry.path()).collect()
}
