//! Git in the repository of a project. The repository is untrusted: none of its hooks, monitors or transports runs, its
//! files are no reason to wait for ever, and git cannot take all memory.

use std::io::{self, Read};
use std::os::fd::AsFd;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::helper;

/// Bytes of data that git may keep in memory: an ignore file without an end must not take all there is. Packs do not
/// count, since they are mapped.
const MAX_MEMORY: u64 = 1 << 30;

/// The command of git in a folder of a project, without its arguments.
///
/// # Errors
/// There is no git outside of projects.
pub fn git_in(folder: &Path) -> io::Result<Command> {
    let mut git = helper("git")?;
    git.current_dir(folder).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    git.envs([
        // nothing is fetched, also no object that a partial clone lacks
        ("GIT_ALLOW_PROTOCOL", "none"),
        ("GIT_NO_LAZY_FETCH", "1"),
        ("GIT_OPTIONAL_LOCKS", "0"),
        ("GIT_TERMINAL_PROMPT", "0"),
        ("LC_ALL", "C"),
    ]);
    git.args(["-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null"]);
    Ok(git)
}

/// Limits the memory of a git process that was just started.
pub fn limit_memory(pid: u32) {
    #[cfg(target_os = "linux")]
    {
        use rustix::process::{Pid, Resource, Rlimit, prlimit};
        let limit = Rlimit { current: Some(MAX_MEMORY), maximum: Some(MAX_MEMORY) };
        let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
        if let Some(pid) = pid {
            // it has ended, or is limited more strictly
            let _ = prlimit(Some(pid), Resource::Data, limit);
        }
    }
    #[cfg(not(target_os = "linux"))]
    let _ = (pid, MAX_MEMORY);
}

/// The output of a git command that succeeds within `time` and prints at most `max` bytes. Blocks until then.
///
/// # Errors
/// It fails, prints more, or takes longer, for example because it waits at a pipe.
pub fn limited_output(mut git: Command, max: usize, time: Duration) -> io::Result<Vec<u8>> {
    let mut child = git.spawn()?;
    limit_memory(child.id());
    let output = read(&mut child, max, Instant::now() + time);
    if output.is_err() {
        let _ = child.kill();
    }
    let status = child.wait()?;
    match output {
        Ok(_) if !status.success() => Err(io::Error::other(format!("git failed ({status})"))),
        output => output,
    }
}

fn read(child: &mut Child, max: usize, end: Instant) -> io::Result<Vec<u8>> {
    let mut stdout = child.stdout.take().ok_or(io::ErrorKind::BrokenPipe)?;
    let (mut output, mut part) = (Vec::new(), vec![0; 1 << 16]);
    loop {
        let left = end.saturating_duration_since(Instant::now());
        let left = Timespec::try_from(left).map_err(io::Error::other)?;
        if poll(&mut [PollFd::from_borrowed_fd(stdout.as_fd(), PollFlags::IN)], Some(&left))? == 0 {
            return Err(io::Error::new(io::ErrorKind::TimedOut, "git took too long"));
        }
        match stdout.read(&mut part)? {
            0 => return Ok(output),
            n => output.extend(part.iter().take(n)),
        }
        if output.len() > max {
            return Err(io::Error::other("git printed too much"));
        }
    }
}

#[cfg(test)]
mod tests {
    use rustix::fs::{CWD, FileType, Mode};

    use super::*;

    #[test]
    fn git_neither_waits_for_ever_nor_takes_all_memory() {
        let site = tempfile::tempdir().unwrap();
        let root = site.path();
        let run = |arguments: &[&str], time| {
            let mut git = git_in(root).unwrap();
            git.args(arguments);
            limited_output(git, 1 << 20, time)
        };
        let long = Duration::from_secs(30);
        run(&["init", "--quiet"], long).unwrap();
        std::fs::write(root.join("a"), "").unwrap();
        let list = ["ls-files", "--others", "--exclude-standard"];
        assert_eq!(run(&list, long).unwrap(), b"a\n");
        // a line without an end
        std::os::unix::fs::symlink("/dev/zero", root.join(".git/info/attributes")).unwrap();
        let told = run(&["check-attr", "--all", "a"], long).unwrap_err();
        assert_ne!(told.kind(), io::ErrorKind::TimedOut, "git takes all memory: {told}");
        // a pipe that nobody writes
        let pipe = root.join(".git/info/exclude");
        std::fs::remove_file(&pipe).unwrap();
        rustix::fs::mknodat(CWD, &pipe, FileType::Fifo, Mode::RWXU, 0).unwrap();
        let begin = Instant::now();
        let waited = run(&list, Duration::from_millis(500)).unwrap_err();
        assert_eq!(waited.kind(), io::ErrorKind::TimedOut);
        assert!(begin.elapsed() < long);
    }
}
