//! The profile of one command: what it may write, read and reach. Every path is absolute, so two
//! processes read a profile alike. Nothing here looks at the file system.

use std::path::{Component, Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::json_path;

/// The profile of one command. A path that does not exist is skipped: the sandbox creates no file.
///
/// Links are resolved, except below a writable path: the command, or one that runs beside it, could make
/// a link there that leads into a hidden folder. A profile with such a path fails. A caller resolves
/// links itself before, and checks where they lead.
///
/// A path that lies below another path overrides it. A folder can be writable, a folder in it
/// read-only, and a file in that hidden. If one path is named twice, `hidden` wins over
/// `read_only`, and `read_only` over `write`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Profile {
    pub backend: Backend,
    /// Files and folders that the command may change. Everything else is read-only.
    #[serde(default, with = "json_path::list")]
    pub write: Vec<PathBuf>,
    /// Files and folders that stay read-only inside a writable one, or visible inside a hidden one.
    #[serde(default, with = "json_path::list")]
    pub read_only: Vec<PathBuf>,
    /// Files, folders and sockets that the command cannot open.
    #[serde(default, with = "json_path::list")]
    pub hidden: Vec<PathBuf>,
    /// Folders that the command may change, but whose changes are lost at its end. They are read-only where the kernel
    /// has no overlay for them, and with [`Backend::Bwrap`], [`Backend::Landlock`] and [`Backend::Seatbelt`].
    #[serde(default, with = "json_path::list")]
    pub discarded: Vec<PathBuf>,
    /// Whether the command reaches networks. Without, it reaches only its own loopback interface,
    /// that of the machine ([`Backend::Seatbelt`]), or has no IP sockets at all ([`Backend::Landlock`]).
    pub network: bool,
    /// A folder that takes the place of `/tmp` and `/var/tmp`. With [`Backend::Landlock`] and
    /// [`Backend::Seatbelt`] only `TMPDIR` points to it.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "json_path::option")]
    pub temp: Option<PathBuf>,
    /// Whether the command may change everything that no list names. With [`Backend::Landlock`] it makes no new files
    /// directly in a folder that holds a read-only or hidden path: such a folder cannot be granted as a whole.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub everything: bool,
    /// Whether the command sees the processes, devices and message queues of the machine and may send signals. Its own
    /// processes then do not all end with it. A hidden file looks empty: no device of the sandbox can cover it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub shares_processes: bool,
    #[serde(default)]
    pub limits: Limits,
}

/// The mechanism that confines the command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Backend {
    /// Own namespaces, with their own `/proc`, then Landlock and seccomp.
    Namespaces,
    /// Namespaces that share the `/proc` of the machine: a container whose `/proc` has masks over it allows
    /// no new one. The command sees other processes, and Landlock keeps it out of them.
    NamespacesSharedProc,
    /// The program `bwrap` makes the namespaces: some systems let no other program make them. Then
    /// Landlock and seccomp. Hidden files fail with `EACCES`, and nothing is laid over
    /// [`Profile::discarded`].
    Bwrap,
    /// Landlock and seccomp alone. Paths in a writable folder cannot be excepted, names in hidden
    /// folders stay visible, and sockets and metadata of other files stay reachable.
    Landlock,
    /// `sandbox-exec` of macOS. The command sees the machine's processes, and those that left its
    /// process group do not end with it.
    Seatbelt,
}

impl Backend {
    pub fn has_namespaces(self) -> bool {
        match self {
            Self::Namespaces | Self::NamespacesSharedProc | Self::Bwrap => true,
            Self::Landlock | Self::Seatbelt => false,
        }
    }

    /// Whether the command sees its own processes alone.
    pub(crate) fn has_own_proc(self) -> bool {
        match self {
            Self::Namespaces | Self::Bwrap => true,
            Self::NamespacesSharedProc | Self::Landlock | Self::Seatbelt => false,
        }
    }

    /// Whether [`Profile::discarded`] can be changed.
    pub(crate) fn has_overlays(self) -> bool {
        match self {
            Self::Namespaces | Self::NamespacesSharedProc => true,
            Self::Bwrap | Self::Landlock | Self::Seatbelt => false,
        }
    }
}

/// Resource limits. `None` keeps the limit of the caller. A limit is never raised.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Limits {
    /// Processes and threads of the user, `RLIMIT_NPROC`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub processes: Option<u64>,
    /// Bytes of one file, `RLIMIT_FSIZE`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file_size: Option<u64>,
}

impl Profile {
    /// A profile that lets the command read everything, and write and reach nothing.
    pub fn new(backend: Backend) -> Self {
        Self {
            backend,
            write: Vec::new(),
            read_only: Vec::new(),
            hidden: Vec::new(),
            discarded: Vec::new(),
            network: false,
            temp: None,
            everything: false,
            shares_processes: false,
            limits: Limits::default(),
        }
    }

    /// Reads a profile from JSON.
    ///
    /// # Errors
    /// The text is not a profile, or a path is relative or contains `..`.
    pub fn parse(text: &str) -> Result<Self, String> {
        let profile: Self = serde_json::from_str(text).map_err(|error| error.to_string())?;
        let lists = [&profile.write, &profile.read_only, &profile.hidden, &profile.discarded];
        for path in lists.into_iter().flatten().chain(&profile.temp) {
            if !is_absolute(path) {
                return Err(format!("`{}` is not an absolute path without `..`", path.display()));
            }
        }
        Ok(profile)
    }

    /// Whether the command gets a PID namespace, in which every process ends with the first one.
    pub fn has_own_processes(&self) -> bool {
        self.backend.has_namespaces() && !self.shares_processes
    }

    /// The profile as one line of JSON.
    ///
    /// # Errors
    /// Errors of `serde_json`; none are known.
    pub fn to_line(&self) -> Result<String, String> {
        serde_json::to_string(self).map_err(|error| error.to_string())
    }
}

fn is_absolute(path: &Path) -> bool {
    let is_plain = |component| matches!(component, Component::RootDir | Component::Normal(_));
    path.is_absolute() && path.components().all(is_plain)
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;

    use super::*;

    #[test]
    fn a_profile_is_read_as_it_was_written() {
        let mut profile = Profile::new(Backend::NamespacesSharedProc);
        profile.write = vec!["/home/u/project".into()];
        profile.hidden = vec!["/home/u/.ssh".into()];
        profile.temp = Some("/tmp/leftfold-1/S".into());
        profile.limits.processes = Some(4096);
        let line = profile.to_line().unwrap();
        assert!(line.starts_with(r#"{"backend":"namespaces-shared-proc","write":["#), "{line}");
        assert_eq!(Profile::parse(&line).unwrap(), profile);
    }

    #[test]
    fn a_path_that_is_not_utf_8_is_not_lost() {
        let mut profile = Profile::new(Backend::Namespaces);
        profile.hidden = vec!["/a".into(), OsStr::from_bytes(b"/k\xff").into()];
        profile.temp = Some(OsStr::from_bytes(b"/\xfe").into());
        let line = profile.to_line().unwrap();
        assert!(line.contains(r#""hidden":["/a",[47,107,255]]"#), "{line}");
        assert!(line.contains(r#""temp":[47,254]"#), "{line}");
        assert_eq!(Profile::parse(&line).unwrap(), profile);
    }

    #[test]
    fn a_profile_is_strict() {
        for (text, error) in [
            (r#"{"backend":"landlock"}"#, "missing field `network`"),
            (r#"{"backend":"none","network":false}"#, "unknown variant `none`"),
            (r#"{"backend":"landlock","network":false,"hide":[]}"#, "unknown field `hide`"),
            (r#"{"backend":"landlock","network":false,"limits":{"x":1}}"#, "unknown field `x`"),
            (r#"{"backend":"landlock","network":false,"write":["a"]}"#, "`a` is not an absolute"),
            (r#"{"backend":"landlock","network":false,"hidden":["/a/../b"]}"#, "`/a/../b` is not"),
            (r#"{"backend":"landlock","network":false,"temp":"t"}"#, "`t` is not an absolute"),
        ] {
            let refused = Profile::parse(text).unwrap_err();
            assert!(refused.contains(error), "{text}: {refused}");
        }
    }
}
