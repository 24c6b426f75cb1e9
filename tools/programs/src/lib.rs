//! Finds the programs that the node itself starts, such as `git`, `sh` or the user's MCP servers, and makes commands of
//! them.
//!
//! A project and the commands of a session must not be able to choose what the node runs. So a program is looked for in
//! those folders of `PATH` alone that neither can write, and each start looks for it anew: nothing is kept that could
//! become outdated. Commands in the sandbox keep the user's `PATH` as it is.
//!
//! | module | task |
//! | --- | --- |
//! | `search` | the folders of `PATH` that count, and those that are left out |
//! | `git` | git in a project's repository, which is untrusted |
//!
//! No other module of the product starts a program by a bare name: `tests/tidy` holds that.

mod git;
mod search;

use std::ffi::OsString;
use std::io;
use std::path::Path;
use std::process::Command;

use leftfold_events::secrets::is_credential;

pub use git::{git_in, limit_memory, limited_output};
pub use search::{LeftOut, Reason, counts, distrust, find, find_in, folders, is_program, left_out};

/// The value of `cwd` in settings that stands for the project's folder.
pub const PROJECT: &str = "{project}";

/// Variables that a helper of the node gets, besides `PATH`.
const NEEDED: &[&str] = &["HOME", "LANG", "LC_ALL", "LOGNAME", "TZ", "USER", "XDG_CONFIG_HOME"];

/// Lists of folders and files that interpreters and loaders run code from. A relative entry would be looked for in the
/// current folder.
const CODE: &[&str] =
    &["DYLD_LIBRARY_PATH", "GEM_HOME", "GEM_PATH", "LD_LIBRARY_PATH", "NODE_PATH", "PYTHONPATH"];

/// A command of a program that helps the node. Of the environment it gets only [`NEEDED`] and the safe part of `PATH`.
///
/// # Errors
/// There is no such program outside of projects. The kind is [`io::ErrorKind::NotFound`].
pub fn helper(name: &str) -> io::Result<Command> {
    let mut command = Command::new(find(name)?);
    command.env_clear().env("PATH", search::path());
    command.envs(NEEDED.iter().filter_map(|name| Some((name, std::env::var_os(name)?))));
    Ok(command)
}

/// A command of a program for the person at this machine, such as a pager, an editor or a browser. It gets the person's
/// environment without keys and tokens, and with the safe part of `PATH`.
///
/// # Errors
/// As [`helper`].
pub fn for_person(name: &str) -> io::Result<Command> {
    let mut command = Command::new(find(name)?);
    command.env_clear().envs(guarded(std::env::vars_os().filter(|(name, _)| {
        let name = name.to_string_lossy();
        // the agent keeps the keys: the variable only names its socket
        let is_key = is_credential(&name) && name != "SSH_AUTH_SOCK";
        !is_key && !name.starts_with("LEFTFOLD_")
    })));
    Ok(command)
}

/// The variables without the parts that lead into a project: a program that gets them runs nothing of a project by them.
/// `PATH` and lists of code lose relative parts too.
pub fn guarded(
    variables: impl IntoIterator<Item = (OsString, OsString)>,
) -> Vec<(OsString, OsString)> {
    let keep = |(name, value): (OsString, OsString)| {
        if name == "PATH" {
            return Some((name, search::path()));
        }
        let is_code = CODE.iter().any(|code| name == *code);
        let is_safe = |part: &Path| match part.is_absolute() {
            true => search::reason(part).is_none(),
            false => !is_code,
        };
        let parts: Vec<_> = std::env::split_paths(&value).collect();
        if parts.iter().all(|part| is_safe(part)) {
            return Some((name, value));
        }
        let safe: Vec<_> = parts.into_iter().filter(|part| is_safe(part)).collect();
        let value = std::env::join_paths(safe).ok().filter(|value| !value.is_empty())?;
        Some((name, value))
    };
    variables.into_iter().filter_map(keep).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_lose_what_leads_into_a_project() {
        let folder = tempfile::tempdir().unwrap();
        let project = folder.path().canonicalize().unwrap().join("project");
        std::fs::create_dir_all(project.join("lib")).unwrap();
        distrust(&project);
        let inside = project.join("lib").display().to_string();
        for (name, value, expected) in [
            ("PYTHONPATH", format!("{inside}:/usr/lib/x"), Some("/usr/lib/x")),
            ("PYTHONPATH", ".:lib:/usr/lib/x".to_owned(), Some("/usr/lib/x")),
            ("NODE_PATH", inside.clone(), None),
            ("LD_LIBRARY_PATH", ":/usr/lib/x".to_owned(), Some("/usr/lib/x")),
            ("VIRTUAL_ENV", inside.clone(), None),
            ("LANG", "C.UTF-8".to_owned(), Some("C.UTF-8")),
            ("MY_LIST", "a:b".to_owned(), Some("a:b")),
            ("EMPTY", String::new(), Some("")),
        ] {
            let kept = guarded([(name.into(), value.clone().into())]);
            let kept = kept.first().map(|(_, value)| value.to_str().unwrap());
            assert_eq!(kept, expected, "{name}={value}");
        }
    }
}
