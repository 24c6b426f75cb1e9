//! How many words of a command say what it does: `git status`, `npm run dev`, `ls`. "Always" allows
//! those words with any arguments after them.

use std::collections::HashMap;
use std::sync::LazyLock;

use crate::wrappers::is_wrapper;

/// The longest prefix of a command that stands in the table counts; a command that does not stand there is one word long.
static ARITY: LazyLock<HashMap<&str, usize>> = LazyLock::new(|| {
    let rows = include_str!("arity.txt").lines().filter_map(|row| row.split_once(": "));
    let rows = rows.filter_map(|(count, prefixes)| Some((count.parse().ok()?, prefixes)));
    rows.flat_map(|(count, prefixes)| prefixes.split(", ").map(move |it| (it, count))).collect()
});

/// Programs that neither run others nor write files by an option or an argument, apart from the files that they name.
/// "Always" allows them with any arguments. For every other program it allows the line that was asked about.
const PLAIN: &str = "[ arch b2sum base32 basename basenc bzcat cal cat chattr chgrp chmod chown cksum clear cmp \
    colordiff column comm cp cut df diff diff3 dir dirname du echo egrep exit expand expr false fgrep fmt fold free \
    grep groups head hexdump hexyl hostname id join jq kill ln locale logname look ls lsblk lscpu lsof lspci lsusb \
    md5sum mkdir mkfifo mv nl nproc od paste pgrep popd pr printenv printf ps pushd pwd readlink realpath rev rm \
    rmdir seq sha1sum sha224sum sha256sum sha384sum sha512sum shred sleep stat strings sum tac tail tee test touch \
    tr trash true truncate tsort tty type ul uname unexpand uptime users vmstat w wc which who whoami xzcat zcat \
    zgrep zstdcat";

/// Programs that "always" allows with any arguments after a subcommand. They run files of the project in any case.
const BUILDERS: &str = "cargo";

/// Programs that change texts, and may run others by an argument, which the judge finds.
const FILTERS: &str = "awk base64 gawk gunzip gzip sed sort tar uniq xxd";

/// Programs that reach other machines, and run no file of the project.
const CLIENTS: &str = "curl dig gh glab host nslookup ping traceroute wget whois";

/// Subcommands of git that reach other machines, and run no hook and no driver.
const GIT_CLIENTS: &str = "clone fetch ls-remote";

fn is_in(list: &str, name: &str) -> bool {
    list.split(' ').any(|known| known == name)
}

/// Whether "always" allows `name` only with the arguments that it has. A path may lead to a file of the project.
pub(crate) fn is_exact(name: &str) -> bool {
    let installed = name.strip_prefix("/usr/bin/").or_else(|| name.strip_prefix("/bin/"));
    let name = installed.unwrap_or(name);
    !is_in(PLAIN, name) && !is_in(BUILDERS, name)
}

/// Whether a program is certain to run no file of the project with these arguments, apart from commands among them,
/// which are judged by themselves.
pub(crate) fn runs_no_file(name: &str, arguments: &[String]) -> bool {
    let program = || is_in(PLAIN, name) || is_in(FILTERS, name) || is_in(CLIENTS, name);
    let asks_program = |text: &String| text.contains("askpass");
    match name {
        "git" => arguments.first().is_some_and(|name| is_in(GIT_CLIENTS, name)),
        "wget" => !arguments.iter().any(asks_program),
        name => program() || is_wrapper(name),
    }
}

/// How many words of `words`, at least one, say what it does. It may be more than there are.
pub(crate) fn for_words(words: &[String]) -> usize {
    let longest = words.len().min(2);
    let known = |count: usize| ARITY.get(words[..count].join(" ").as_str()).copied();
    (1..=longest).rev().find_map(known).unwrap_or(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wrappers::wraps;

    #[test]
    fn the_table_is_sorted_and_long_enough() {
        let rows: Vec<&str> = include_str!("arity.txt").lines().collect();
        assert!(rows.is_sorted());
        assert!(rows.iter().all(|row| row[3..].split(", ").is_sorted_by(|a, b| a < b)));
        assert_eq!(rows.iter().map(|row| row.split(", ").count()).sum::<usize>(), ARITY.len());
        for list in [PLAIN, BUILDERS, FILTERS, CLIENTS, GIT_CLIENTS] {
            assert!(list.split(' ').is_sorted(), "{list}");
        }
        assert!(ARITY.len() >= 140, "{}", ARITY.len());
        assert!(ARITY.iter().all(|(prefix, count)| prefix.split(' ').count() <= *count));
        assert!(ARITY.keys().all(|prefix| !wraps(prefix)));
        assert!(PLAIN.split(' ').all(|name| !wraps(name)));
    }
}
