//! Facts of the file system that a layout depends on: the mounts, and where the paths of a profile
//! lead.

use std::collections::BTreeMap;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use crate::failure::{Failure, RESOLVE};
use crate::profile::Profile;

/// Parts of `/proc` that a process with user id 0 may write, namespaces or not.
pub(crate) const PROC_SETTINGS: [&str; 7] = [
    "/proc/acpi", "/proc/bus", "/proc/fs", "/proc/irq", "/proc/scsi", "/proc/sys",
    "/proc/sysrq-trigger",
];

/// Folders for temporary files of all users.
pub(crate) const TEMP: [&str; 2] = ["/tmp", "/var/tmp"];

const FOLDERS: [&str; 4] = ["/", "/dev", "/proc", "/sys"];

/// Facts of the file system.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Facts {
    /// In the order of mounting. A later mount covers an earlier one at the same point.
    pub mounts: Vec<Mount>,
    /// The paths that exist.
    pub found: BTreeMap<PathBuf, FoundPath>,
}

/// One line of `/proc/self/mountinfo`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mount {
    pub point: PathBuf,
    /// For example `rw,nosuid,relatime`.
    pub options: String,
}

/// A path that exists.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundPath {
    /// The path with all links resolved.
    pub path: PathBuf,
    /// Files, sockets and devices are no folders.
    pub is_folder: bool,
}

impl Facts {
    /// Collects the facts that the layout of `profile` needs. Skips paths that do not exist or that
    /// this user cannot reach: the command could not open them either.
    ///
    /// # Errors
    /// `/proc/self/mountinfo` cannot be read, or a path below a writable one leads through a link.
    pub fn read(profile: &Profile) -> Result<Self, Failure> {
        const MOUNTS: &str = "/proc/self/mountinfo";
        let mut facts = Self::default();
        if cfg!(target_os = "linux") {
            let mounts = std::fs::read(MOUNTS)
                .map_err(|error| Failure::of_system("read", Some(Path::new(MOUNTS)), &error))?;
            facts.mounts = parse_mounts(&mounts);
        }
        let fixed = FOLDERS.iter().chain(&TEMP).chain(&PROC_SETTINGS).map(Path::new);
        let lists = [&profile.write, &profile.read_only, &profile.hidden, &profile.discarded];
        let named = lists.into_iter().flatten().chain(&profile.temp).map(PathBuf::as_path);
        for path in fixed.chain(named) {
            if let Ok(target) = path.canonicalize()
                && let Ok(metadata) = target.symlink_metadata()
            {
                let found = FoundPath { path: target, is_folder: metadata.is_dir() };
                facts.found.insert(path.to_owned(), found);
            }
        }
        let opened = profile.write.iter().chain(&profile.read_only);
        match opened.clone().find(|path| facts.is_replaced(path, &profile.write)) {
            Some(path) => {
                let mut failure = Failure::new(RESOLVE, "it leads through a link");
                failure.path = Some(path.clone());
                Err(failure)
            }
            None => Ok(facts),
        }
    }

    /// Whether a path below a writable one leads through a link, which a command could have made.
    fn is_replaced(&self, path: &Path, write: &[PathBuf]) -> bool {
        let Some(found) = self.found.get(path) else { return false };
        // a program that may change everything is the user's own
        write.iter().filter(|path| path.as_path() != "/").any(|writable| {
            let rest = path.strip_prefix(writable).ok().filter(|rest| *rest != Path::new(""));
            let real = self.found.get(writable).zip(rest).map(|(real, rest)| real.path.join(rest));
            real.is_some_and(|real| real != found.path)
        })
    }

    /// The profile with the paths that exist, links resolved.
    #[cfg(target_os = "linux")]
    pub(crate) fn resolve(&self, profile: &Profile) -> Profile {
        let path = |path: &PathBuf| Some(self.found.get(path)?.path.clone());
        let list = |paths: &[PathBuf]| paths.iter().filter_map(path).collect();
        Profile {
            write: list(&profile.write),
            read_only: list(&profile.read_only),
            hidden: list(&profile.hidden),
            discarded: list(&profile.discarded),
            temp: profile.temp.as_ref().and_then(path),
            ..*profile
        }
    }

    /// The options of the mount that `path` is on.
    pub(crate) fn options_of(&self, path: &Path) -> &str {
        let on = path.ancestors().find_map(|above| {
            // the last mount at a point is the visible one
            self.mounts.iter().rev().find(|mount| mount.point == above)
        });
        on.map_or("", |mount| mount.options.as_str())
    }
}

/// Mount points are bytes, with spaces, tabs, line ends and backslashes as three octal digits.
fn parse_mounts(text: &[u8]) -> Vec<Mount> {
    let lines = text.split(|byte| *byte == b'\n');
    let mounts = lines.filter_map(|line| {
        let mut fields = line.split(|byte| *byte == b' ');
        let point = fields.nth(4)?;
        let options = String::from_utf8(fields.next()?.to_vec()).ok()?;
        Some(Mount { point: unescape(point), options })
    });
    mounts.collect()
}

fn unescape(bytes: &[u8]) -> PathBuf {
    let mut path = Vec::with_capacity(bytes.len());
    let mut rest = bytes;
    while let Some((first, after)) = rest.split_first() {
        let digits = after.get(..3).and_then(|digits| std::str::from_utf8(digits).ok());
        let code = digits.and_then(|digits| u8::from_str_radix(digits, 8).ok());
        match code.filter(|_| *first == b'\\') {
            Some(code) => {
                path.push(code);
                rest = after.get(3..).unwrap_or_default();
            }
            None => {
                path.push(*first);
                rest = after;
            }
        }
    }
    PathBuf::from(std::ffi::OsString::from_vec(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mount_points_are_unescaped() {
        let text = b"22 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw\n\
            30 22 0:26 / /mnt/a\\040b\\134\\011 ro,nosuid - tmpfs tmpfs rw\n\nbroken\n";
        let mounts = parse_mounts(text);
        let points: Vec<&Path> = mounts.iter().map(|mount| mount.point.as_path()).collect();
        assert_eq!(points, [Path::new("/"), Path::new("/mnt/a b\\\t")]);
        assert_eq!(mounts[1].options, "ro,nosuid");
    }

    #[test]
    fn a_link_below_a_writable_path_opens_nothing() {
        use crate::profile::Backend;
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        for folder in ["project/web", "keys", "linked"] {
            std::fs::create_dir_all(root.join(folder)).unwrap();
        }
        std::os::unix::fs::symlink(root.join("keys"), root.join("project/web/link")).unwrap();
        std::os::unix::fs::symlink(root.join("project"), root.join("linked/project")).unwrap();
        let profile = |write: &[&str], read_only: &[&str], hidden: &[&str]| {
            let paths = |names: &[&str]| names.iter().map(|name| root.join(name)).collect();
            let mut profile = Profile::new(Backend::Namespaces);
            (profile.write, profile.read_only) = (paths(write), paths(read_only));
            profile.hidden = paths(hidden);
            Facts::read(&profile)
        };
        assert!(profile(&["project"], &["project/web"], &[]).is_ok());
        // nothing that hides is lost
        assert!(profile(&["project"], &[], &["project/web/link"]).is_ok());
        assert!(profile(&["linked/project"], &["linked/project/web"], &[]).is_ok());
        for (write, read_only) in [
            (&["project"][..], &["project/web/link"][..]),
            (&["project", "project/web/link"], &[]),
            (&["linked/project"], &["linked/project/web/link"]),
        ] {
            let failure = profile(write, read_only, &[]).unwrap_err();
            assert!(failure.is_change(), "{failure}");
        }
    }

    #[test]
    fn the_visible_mount_of_a_path_is_the_last_one_at_the_nearest_point() {
        let mount =
            |point: &str, options: &str| Mount { point: point.into(), options: options.to_owned() };
        let mounts = vec![mount("/", "rw"), mount("/a", "nosuid"), mount("/a", "nodev")];
        let facts = Facts { mounts, found: BTreeMap::new() };
        assert_eq!(facts.options_of(Path::new("/a/b")), "nodev");
        assert_eq!(facts.options_of(Path::new("/ab")), "rw");
    }
}
