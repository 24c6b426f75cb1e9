use proptest::prelude::*;

use super::*;

/// Pattern, text, whether it matches.
const WILDCARDS: &[(&str, &str, bool)] = &[
    // any run of characters
    ("*", "", true),
    ("*", "a", true),
    ("*", "a/b", true),
    ("*", "a\nb", true),
    ("*", "a b", true),
    ("*", "\u{0}", true),
    ("**", "", true),
    ("**", "x/y", true),
    ("***", "a", true),
    ("src/*", "src/a", true),
    ("src/*", "src/a/b/c.rs", true),
    ("src/*", "src/", true),
    ("src/*", "src", false),
    ("src/*", "lib/src/a", false),
    ("src/**", "src/a/b", true),
    ("src/**/x", "src/a/b/x", true),
    ("src/**/x", "src/x", false),
    ("*.rs", "a.rs", true),
    ("*.rs", "a/b.rs", true),
    ("*.rs", ".rs", true),
    ("*.rs", "a.rs.bak", false),
    ("*/a", "/a", true),
    ("*/a", "a", false),
    ("a*", "a", true),
    ("a*", "abc", true),
    ("a*", "ba", false),
    ("*a", "ba", true),
    ("*a", "ab", false),
    ("a*b", "ab", true),
    ("a*b", "a\n\nb", true),
    ("a*b", "abc", false),
    ("a*b*c", "a--b--b--c", true),
    ("a*b*c", "a--b--b--", false),
    ("*a*", "bab", true),
    ("*a*", "bb", false),
    ("*ab", "aab", true),
    ("*aab", "aaab", true),
    ("a*a", "a", false),
    ("a*a", "aa", true),
    // exactly one
    ("?", "a", true),
    ("?", "é", true),
    ("?", "/", true),
    ("?", "\n", true),
    ("?", "", false),
    ("?", "ab", false),
    ("a?c", "abc", true),
    ("a?c", "ac", false),
    ("a?c", "abbc", false),
    ("??", "ab", true),
    ("??", "a", false),
    ("*?", "", false),
    ("*?", "a", true),
    ("?*", "abc", true),
    ("?*?", "a", false),
    ("?*?", "ab", true),
    ("?", "👍", true),
    // everything else is itself
    ("", "", true),
    ("", "a", false),
    ("a", "", false),
    ("a.c", "abc", false),
    ("a.c", "a.c", true),
    ("[ab]", "a", false),
    ("[ab]", "[ab]", true),
    ("[!a]", "b", false),
    ("{a,b}", "a", false),
    ("{a,b}", "{a,b}", true),
    ("a+", "aa", false),
    ("a+", "a+", true),
    ("^a$", "a", false),
    ("^a$", "^a$", true),
    ("(a|b)", "a", false),
    ("(a|b)", "(a|b)", true),
    ("a|b", "a", false),
    ("\\*", "*", false),
    ("\\*", "\\", true),
    ("\\*", "\\x", true),
    ("\\?", "?", false),
    ("\\?", "\\x", true),
    ("\\", "\\", true),
    ("C:\\x\\*", "C:\\x\\y", true),
    ("\\d", "1", false),
    ("!a", "b", false),
    ("!a", "!a", true),
    ("#a", "#a", true),
    ("~/x", "~/x", true),
    ("$HOME/*", "$HOME/x", true),
    ("a-z", "b", false),
    ("%", "%", true),
    ("a\tb", "a b", false),
    // case counts
    ("Src/*", "src/x", false),
    ("GIT *", "git log", false),
    ("git *", "Git log", false),
    ("É", "é", false),
    ("README*", "readme.md", false),
    // a trailing ` *` may be missing
    ("git *", "git", true),
    ("git *", "git ", true),
    ("git *", "git status", true),
    ("git *", "git status -s", true),
    ("git *", "gitk", false),
    ("git *", "git\tstatus", false),
    ("git *", " git", false),
    ("git status *", "git status", true),
    ("git status *", "git", false),
    ("git status *", "git status -s", true),
    ("git status *", "git statuses", false),
    ("git*", "gitk", true),
    ("git *", "git\nrm", false),
    ("git * *", "git", false),
    ("git * *", "git x", true),
    ("git * *", "git x y", true),
    (" *", "", true),
    (" *", " a", true),
    ("* *", "", true),
    ("* *", "a", true),
    ("git * --all", "git log --all", true),
    ("git * --all", "git --all", false),
    ("a *b", "a", false),
    ("a ?", "a", false),
    ("ls  *", "ls ", true),
    ("ls  *", "ls", false),
    ("* x *", "rm x", true),
    // files of secrets
    ("*.env", ".env", true),
    ("*.env", "dir/.env", true),
    ("*.env", ".env.local", false),
    ("*.env.*", ".env.local", true),
    ("*.env.*", ".env", false),
    ("*.env.example", "a/.env.example", true),
    ("*.env", "x.environment", false),
    ("*.env", "prod.env", true),
];

#[test]
fn wildcards() {
    for (pattern, text, expected) in WILDCARDS {
        assert_eq!(matches(pattern, text), *expected, "{pattern:?} on {text:?}");
    }
}

#[test]
fn what_holds_where_nobody_has_set_anything() {
    use Action::{Allow, Ask, Deny};
    for (permission, pattern, action) in [
        ("read", "src/main.rs", Allow),
        ("read", ".env", Ask),
        ("read", "a/b/.env", Ask),
        ("read", "prod.env", Ask),
        ("read", ".env.local", Ask),
        ("read", "a/.env.production", Ask),
        ("read", ".env.example", Allow),
        ("read", "a/x.env.example", Allow),
        ("read", ".env.example.bak", Ask),
        ("read", ".environment", Allow),
        ("read", ".ENV", Allow),
        ("edit", ".env", Allow),
        ("edit", "src/main.rs", Allow),
        ("bash", "rm -rf /", Allow),
        ("bash", "<dynamic>", Allow),
        ("grep", "*", Allow),
        ("webfetch", "http://x/", Allow),
        ("task", "*", Allow),
        ("never-heard-of", "", Allow),
        ("doom_loop", "read", Ask),
        ("external_directory", "/etc/*", Ask),
        ("external_directory", "<dynamic>/*", Ask),
        ("question", "*", Deny),
        ("plan_enter", "*", Deny),
        ("plan_exit", "*", Deny),
    ] {
        let found = evaluate(&defaults(), permission, pattern).map(|rule| rule.action);
        assert_eq!(found, Some(action), "{permission} {pattern}");
        assert!(evaluate(&[], permission, pattern).is_none(), "no rule is to ask");
    }
}

/// `ACTION PERMISSION PATTERN`.
fn rule(text: &str) -> Rule {
    let words: Vec<&str> = text.splitn(3, ' ').collect();
    let action = match words[0] {
        "allow" => Action::Allow,
        "ask" => Action::Ask,
        _ => Action::Deny,
    };
    Rule::new(words[1], words[2], action)
}

/// The last match wins, wherever it comes from.
#[test]
fn the_last_match_wins() {
    for (rules, permission, pattern, decides) in [
        (&["deny bash *", "allow bash git *"][..], "bash", "git log", Some(1)),
        (&["allow bash git *", "deny bash *"], "bash", "git log", Some(1)),
        (&["allow bash git *", "deny bash rm *"], "bash", "git log", Some(0)),
        (&["allow bash git *", "deny bash rm *"], "bash", "ls", None),
        (&["allow bash *", "deny bash *", "allow bash *"], "bash", "x", Some(2)),
        (&["deny * *", "allow read *"], "read", "x", Some(1)),
        (&["deny * *", "allow read *"], "edit", "x", Some(0)),
        (&["allow read *", "deny * *"], "read", "x", Some(1)),
        (&["allow read *", "deny * *.key"], "read", "a.key", Some(1)),
        (&["deny re* *"], "read", "x", Some(0)),
        (&["deny r?ad *"], "read", "x", Some(0)),
        (&["deny mcp_* *"], "mcp_files_read", "x", Some(0)),
        (&["deny Read *"], "read", "x", None),
        (&["deny read *"], "reader", "x", None),
        (&["deny read x"], "read", "xy", None),
        (&["ask bash git push *", "allow bash git *"], "bash", "git push", Some(1)),
        (&["allow bash git *", "ask bash git push *"], "bash", "git push -f", Some(1)),
        (&["allow bash git *", "ask bash git push *"], "bash", "git pushx", Some(0)),
        (&["allow bash *", "deny bash rm *"], "bash", "<dynamic>", Some(0)),
        (&["deny bash *", "allow bash git *"], "bash", "<dynamic>", Some(0)),
    ] {
        let rules: Vec<Rule> = rules.iter().map(|text| rule(text)).collect();
        let found = evaluate(&rules, permission, pattern);
        assert_eq!(found, decides.map(|at: usize| &rules[at]), "{permission} {pattern}: {rules:?}");
    }
}

#[test]
fn restrictions_only_make_verdicts_stricter() {
    let each = |rules: &[&str]| rules.iter().map(|text| rule(text)).collect::<Vec<_>>();
    for (rules, restrictions, permission, pattern, action) in [
        (&["allow bash *"][..], &[&["ask bash *"][..]][..], "bash", "ls", Action::Ask),
        (&["allow bash *"], &[&["deny bash rm *"]], "bash", "rm x", Action::Deny),
        (&["allow bash *"], &[&["deny bash rm *"]], "bash", "ls", Action::Allow),
        (&["deny bash *"], &[&["allow bash *"]], "bash", "ls", Action::Deny),
        (&["ask bash *"], &[&["allow * *"]], "bash", "ls", Action::Ask),
        (&["allow bash *"], &[&["ask bash *", "allow bash ls"]], "bash", "ls", Action::Allow),
        (&["allow bash *"], &[&["ask bash *"], &["deny bash *"]], "bash", "ls", Action::Deny),
        (&[], &[&["allow bash *"]], "bash", "ls", Action::Ask),
        (&["allow * *"], &[], PROTECTED_FILE, "AGENTS.md", Action::Ask),
        (&["allow protected_file *"], &[], PROTECTED_FILE, "AGENTS.md", Action::Allow),
        (&["allow prot* *"], &[], PROTECTED_FILE, "AGENTS.md", Action::Ask),
        (&["deny * *"], &[], PROTECTED_FILE, "AGENTS.md", Action::Deny),
    ] {
        let lists: Vec<Vec<Rule>> = restrictions.iter().map(|list| each(list)).collect();
        let (found, _) =
            evaluate_restricted(&each(rules), lists.iter().map(Vec::as_slice), permission, pattern);
        assert_eq!(found, action, "{permission} {pattern}: {rules:?}, {restrictions:?}");
    }
}

#[test]
fn patterns_made_to_be_slow_are_not() {
    for (pattern, text) in [
        ("*a".repeat(200) + "b", "a".repeat(5_000)),
        ("*a*a*a*a*a*a*a*a*a*a*a*a*a*a*b".to_owned(), "a".repeat(20_000)),
        ("*?".repeat(500) + "b", "a".repeat(2_000)),
        ("a*".repeat(500) + "b *", "a".repeat(5_000)),
    ] {
        // a matcher with naive backtracking would not end
        assert!(!matches(&pattern, &text));
    }
}

/// The definition, without regard to speed.
fn defined(pattern: &[char], text: &[char]) -> bool {
    match (pattern.split_first(), text.split_first()) {
        (None, None) => true,
        (Some(('*', rest)), Some((_, after))) => defined(rest, text) || defined(pattern, after),
        (Some(('*', rest)), None) => defined(rest, text),
        (Some((p, rest)), Some((t, after))) => (*p == '?' || p == t) && defined(rest, after),
        (None | Some(_), None | Some(_)) => false,
    }
}

proptest! {
    #[test]
    fn matching_is_as_defined(pattern in "[ab*? \\\\é]{0,8}", text in "[ab \\\\é\n]{0,8}") {
        let chars = |text: &str| text.chars().collect::<Vec<_>>();
        let optional = pattern.strip_suffix(" *");
        let expected = defined(&chars(&pattern), &chars(&text))
            || optional.is_some_and(|start| defined(&chars(start), &chars(&text)));
        prop_assert_eq!(matches(&pattern, &text), expected);
    }

    #[test]
    fn anything_is_evaluated(pattern in any::<String>(), text in any::<String>()) {
        let rules = [Rule::new("*", "*", Action::Ask), Rule::new("bash", pattern, Action::Deny)];
        prop_assert!(evaluate(&rules, "bash", &text).is_some());
    }
}

#[test]
fn paths_in_rules_are_named_as_calls_name_them() {
    for (pattern, expected) in [
        ("./src/*", "src/*"),
        ("src//./a/../b", "src/b"),
        ("/p/src/*", "src/*"),
        ("/p/*", "*"),
        ("/pages/*", "/pages/*"),
        ("../other/x", "/other/x"),
        ("src/", "src/*"),
        ("/etc/", "/etc/*"),
        ("*.env", "*.env"),
        ("**/x/*", "**/x/*"),
    ] {
        for permission in ["read", "edit", "list", "protected_file"] {
            let mut rule = Rule::new(permission, pattern, Action::Deny);
            rule.name_paths_as_calls_do("/p");
            assert_eq!(rule.pattern, expected, "{permission} {pattern}");
        }
        let mut rule = Rule::new("bash", pattern, Action::Deny);
        rule.name_paths_as_calls_do("/p");
        assert_eq!(rule.pattern, pattern);
    }
}
