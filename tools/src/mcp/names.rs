//! What models call the tools of servers: `SERVER_TOOL` (SPEC X6).

use leftfold_events::Sha256;

/// Bytes in a name at most; no API takes longer ones.
const LONGEST: usize = 64;

/// Digits of the hash that tells names apart which would be the same.
const DIGITS: usize = 8;

/// The name for `tool` of `server`. What is `taken`, or is too long, ends in a hash of both.
pub(crate) fn of(server: &str, tool: &str, taken: impl Fn(&str) -> bool) -> String {
    let mut name = beginning(server) + &plain(tool);
    if name.len() <= LONGEST && !taken(&name) {
        return name;
    }
    let hash = Sha256::of(format!("{server}\0{tool}").as_bytes()).to_string();
    name.truncate(LONGEST - DIGITS - 1);
    name.push('_');
    name.extend(hash.chars().take(DIGITS));
    name
}

/// The beginning of the names of all tools of `server`.
pub(super) fn beginning(server: &str) -> String {
    let mut name = plain(server) + "_";
    // some APIs want a letter or an underscore first
    if !name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') {
        name.insert(0, '_');
    }
    name
}

fn plain(text: &str) -> String {
    let fits = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    text.chars().map(|c| if fits(c) { c } else { '_' }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_what_every_api_takes() {
        for (server, tool, name) in [
            ("files", "read_file", "files_read_file"),
            ("my files", "list/all", "my_files_list_all"),
            ("a.b", "größe", "a_b_gr__e"),
            ("2nd", "x", "_2nd_x"),
            ("s", "x-y", "s_x-y"),
            ("", "", "_"),
        ] {
            assert_eq!(of(server, tool, |_| false), name);
        }
        let long = of("server", &"x".repeat(100), |_| false);
        assert_eq!(long.len(), LONGEST);
        assert_ne!(long, of("server", &"x".repeat(101), |_| false));
    }

    #[test]
    fn what_is_taken_is_told_apart_by_a_hash_that_stays_the_same() {
        let first = of("plan", "enter", |name| name == "plan_enter");
        assert!(first.starts_with("plan_enter_") && first.len() == 19, "{first}");
        assert_eq!(first, of("plan", "enter", |name| name == "plan_enter"));
        assert_ne!(first, of("plan", "enter!", |_| true));
    }
}
