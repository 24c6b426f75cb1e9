//! Which patterns rules see of a line.

use crate::commands::DYNAMIC;
use crate::seen as judged;

fn patterns(line: &str) -> Vec<String> {
    judged(line).0
}

fn always(line: &str) -> Vec<String> {
    judged(line).1
}

#[test]
fn rules_see_each_command_of_a_line() {
    for (line, expected) in [
        ("git status", &["git status"][..]),
        ("git status && rm -rf x", &["git status", "rm -rf x"]),
        ("a; b | c &", &["a", "b", "c"]),
        ("a || b |& c", &["a", "b", "c"]),
        ("git log\nrm x", &["git log", "rm x"]),
        ("x; x", &["x"]),
        ("ü; é", &["ü", "é"]),
        ("echo 'a; b'", &["echo a; b"]),
        ("echo $(curl x) `id`", &["echo $(curl x) `id`", "curl x", "id"]),
        ("echo `echo \\`rm x\\``", &["echo `echo \\`rm x\\``", "echo `rm x`", "rm x"]),
        ("echo \"$(rm x)\" \"`rm y`\"", &["echo \"$(rm x)\" \"`rm y`\"", "rm x", "rm y"]),
        ("echo '$(rm x)'", &["echo $(rm x)"]),
        ("cat <(rm x) > >(rm y)", &["cat <(rm x) > >(rm y)", "rm x", "rm y"]),
        ("(rm x; ls)", &["rm x", "ls"]),
        ("{ rm x; ls; }", &["rm x", "ls"]),
        ("f() { rm x; }; function g { ls; }; f", &["rm x", "ls", "f"]),
        ("if a; then b; elif c; then d; else e; fi", &["a", "b", "c", "d", "e"]),
        ("while a; do b; done; until c; do d; done", &["a", "b", "c", "d"]),
        ("for i in $(a); do rm $i; done", &["a", "rm $i"]),
        ("for ((i=0;i<$(a);i++)); do b; done", &[DYNAMIC, "a", "b"]),
        ("select x in $(a); do b; done", &["a", "b"]),
        ("case x in (a) rm b;; *) c; esac", &["rm b", "c"]),
        ("time git status", &["git status"]),
        ("time -p rm x", &["rm x"]),
        ("! rm x", &["rm x"]),
        ("! ! rm x", &["rm x"]),
        ("[[ -f $(a) ]] && (( $(b) ))", &["a", DYNAMIC, "b"]),
        ("echo $(( $(c) ))", &["echo $(( $(c) ))", DYNAMIC, "c"]),
        ("[ -f x ] && a", &["[ -f x ]", "a"]),
        ("echo ${x:-$(a)} ${x[$(b)]}", &["echo ${x:-$(a)} ${x[$(b)]}", DYNAMIC, "a", "b"]),
        ("X=$(a) Y=`b`", &["a", "b"]),
        ("X=(1 $(a)); a[$(b)]=3", &["a", DYNAMIC, "b"]),
        ("cat <<E | sh -e x && b\n$(rm x)\nE\nc", &["cat", "rm x", "sh -e x", "b", "c"]),
        ("cat <<'E'\n$(rm x)\nE\nc", &["cat", "c"]),
        ("cat <<-E\n\tx\n\tE\nc", &["cat", "c"]),
        ("rm <<E x\nE\n", &["rm x"]),
        (
            "git commit -m \"$(cat <<'E'\nmsg `x`\nE\n)\"",
            &["git commit -m \"$(cat <<'E'\nmsg `x`\nE\n)\"", "cat"],
        ),
        ("export A=$(a); unset b", &["export A=$(a)", "a", "unset b"]),
        ("echo a # rm x", &["echo a"]),
        ("echo a#b; # c\nrm x", &["echo a#b", "rm x"]),
        ("cargo \\\n  test", &["cargo test"]),
        ("true && ! time rm x", &["true", "rm x"]),
        ("a & b & wait", &["a", "b", "wait"]),
    ] {
        let mut found = patterns(line);
        let mut expected: Vec<_> = expected.iter().map(|&text| text.to_owned()).collect();
        found.sort();
        expected.sort();
        assert_eq!(found, expected, "{line}");
    }
}

#[test]
fn patterns_are_normal() {
    for (line, pattern) in [
        ("CI=1 git status", "git status"),
        ("LANG=C LC_ALL='C.UTF-8' git status", "git status"),
        ("\"rm\" -rf x", "rm -rf x"),
        ("'rm' -rf x", "rm -rf x"),
        ("r\\m -rf x", "rm -rf x"),
        ("\\rm -rf x", "rm -rf x"),
        ("r''m -r\"f\" x", "rm -rf x"),
        ("$'rm' -rf x", "rm -rf x"),
        (">x rm -rf y", "rm -rf y >x"),
        ("rm  -rf\tx", "rm -rf x"),
        ("echo \"a b\" 'c'", "echo a b c"),
        ("echo \"$X\" b", "echo \"$X\" b"),
        ("rm *", "rm *"),
        ("cargo test 2>&1", "cargo test 2>&1"),
        ("make &>log", "make &>log"),
        ("a 'b'\"c\"$d\\ e", "a 'b'\"c\"$d\\ e"),
        ("ls ~/x {a,b}", "ls ~/x {a,b}"),
    ] {
        assert_eq!(patterns(line), [pattern], "{line}");
    }
    assert_eq!(patterns(";"), [DYNAMIC]);
    assert_eq!(patterns("X=1"), ["X=1"]);
    assert_eq!(patterns("# nothing"), ["# nothing"]);
}

/// No rule narrower than `*` may let these through.
#[test]
fn what_is_not_known_beforehand_has_a_pattern_of_its_own() {
    for line in [
        "$CMD x", "${CMD} x", "$(echo rm) x", "`echo rm` x", "\"$CMD\" x", "r$X x", "/bin/r? x",
        "r* x", "r{m,x} y", "{rm,-rf,x}", "'' x", "'git status' x", "$1 x", "\"$@\"", "eval $X",
        "eval \"rm $X\"", "bash -c \"$X\"", "bash -c", "sh", "curl x | sh", "curl x | sudo bash -",
        "bash <(curl x)", "source <(curl x)", ". /dev/stdin", "bash /dev/stdin", "env -S 'rm x'",
        "find . -exec $X {} \\;", "xargs $X", "trap \"$X\" EXIT", "su -c $X",
        "sudo --unheard rm x", "parallel", "~root/x", "if", "echo 'open", "rm x )", "coproc rm x",
        "coproc N { rm x; }", "cat <<E <<F\nE\nF", "cat <<E\n`rm x`\nE\n",
        "cat <<E\n${x:-`rm x`}\nE\n", "echo ${x/a/`rm x`}", "echo \"${x:-'$(rm x)'}\"", "r\\\nm x",
        "!$\"$\"", "a\n\\\nrm", "\u{0}", "sh <<E\n$X\nE\n", "echo x\r\nrm y",
    ] {
        let found = patterns(line);
        assert!(found.iter().any(|pattern| pattern == DYNAMIC), "{line}: {found:?}");
        assert!(always(line).is_empty(), "{line}: {:?}", always(line));
    }
}

/// All of these run `rm x`.
const WRAPPED: &[&str] = &[
    "sudo rm x",
    "sudo -u root -n rm x",
    "sudo -- rm x",
    "sudo FOO=1 rm x",
    "doas rm x",
    "env rm x",
    "env FOO=1 -u BAR rm x",
    "env -i rm x",
    "nohup rm x &",
    "nice rm x",
    "nice -n 5 rm x",
    "nice -5 rm x",
    "ionice -c 3 rm x",
    "timeout 5 rm x",
    "timeout -k 1 5s rm x",
    "timeout --signal=KILL 5 rm x",
    "stdbuf -oL rm x",
    "setsid rm x",
    "xargs rm x",
    "xargs -0 -n 1 rm x",
    "xargs -n1 -P4 rm x",
    "xargs -I {} rm x",
    "command rm x",
    "builtin rm x",
    "exec rm x",
    "exec -a y rm x",
    "/usr/bin/env rm x",
    "/usr/bin/time -v rm x",
    "busybox rm x",
    "flock /l rm x",
    "flock /l -c 'rm x'",
    "strace -f rm x",
    "chroot /r rm x",
    "watch -n 1 rm x",
    "watch 'rm x'",
    "parallel rm x",
    "find . -exec rm x \\;",
    "find . -name a -execdir rm x +",
    "find . -exec a \\; -ok rm x ';'",
    "fd a -x rm x",
    "bash -c 'rm x'",
    "bash -lc \"rm x\"",
    "sh -ec 'a; rm x'",
    "bash -o pipefail -c 'rm x'",
    "bash --norc -c 'rm x'",
    "/bin/sh -c 'rm x'",
    "zsh -c 'rm x'",
    "bash -c 'bash -c \"rm x\"'",
    "eval rm x",
    "eval 'rm x'",
    "eval \"rm\" x",
    "bash <<< 'rm x'",
    "bash <<'E'\nrm x\nE\n",
    "sh -s <<E\nrm x\nE\n",
    "trap 'rm x' EXIT",
    "su root -c 'rm x'",
    "sudo env A=1 nice timeout 5 bash -c 'nohup rm x'",
    "time sudo rm x",
    "time A=1 rm x",
    "/bin/rm x",
    "../../bin/rm x",
    "~/bin/rm x",
    "sudo /bin/rm x",
    "bash -c \"rm x; $X\"",
    "script -qc 'rm x' /dev/null",
    "coproc rm x",
    "coproc N { rm x; }",
    "sudo --unheard rm x",
    "echo 'open; rm x",
    "cat <<E\n`rm x`\nE\n",
];

#[test]
fn a_wrapper_is_judged_and_what_it_runs_too() {
    for line in WRAPPED {
        let found = patterns(line);
        assert!(found.iter().any(|pattern| pattern == "rm x"), "{line}: {found:?}");
        assert!(found.len() > 1 || line.starts_with("time"), "{line}: {found:?}");
    }
    for line in ["command -v rm", "bash script.sh", "find . -name rm", "trap - EXIT", "sudo -k"] {
        assert_eq!(patterns(line), [line]);
    }
}

#[test]
fn an_assignment_that_decides_what_runs_is_judged() {
    for (line, pattern) in [
        ("PATH=/evil git status", "PATH=/evil"),
        ("export PATH=x:$PATH", "PATH=x:$PATH"),
        ("LD_PRELOAD=./x.so git status", "LD_PRELOAD=./x.so"),
        ("GIT_SSH_COMMAND='rm x' git fetch", "GIT_SSH_COMMAND=rm x"),
        ("BASH_ENV=x; bash y", "BASH_ENV=x"),
    ] {
        let found = patterns(line);
        assert!(found.iter().any(|found| found == pattern), "{line}: {found:?}");
    }
}

#[test]
fn an_always_is_no_wider_than_the_command() {
    for (line, offered) in [
        ("ls -la", &["ls *"][..]),
        ("ls", &["ls *"]),
        ("rm -rf x", &["rm *"]),
        ("cargo test -p x", &["cargo test *"]),
        ("git status", &["git status"]),
        ("git stash pop 1", &["git stash pop 1"]),
        ("git -C /x status", &["git -C /x status", "git status"]),
        ("npm run dev -- -x", &["npm run dev -- -x"]),
        ("npm run", &["npm run"]),
        ("docker ps", &["docker ps"]),
        ("python -c 'x'", &["python -c x"]),
        ("python3.12 a.py b", &["python3.12 a.py b"]),
        ("/usr/bin/sed -n 1p a", &["/usr/bin/sed -n 1p a", "sed -n 1p a"]),
        ("sort a", &["sort a"]),
        ("tar tf a", &["tar tf a"]),
        ("curl x", &["curl x"]),
        ("make", &["make"]),
        ("ssh a b", &["ssh a b"]),
        ("leftfold sessions", &["leftfold sessions"]),
        ("head a && rm -rf x", &["head *", "rm *"]),
        ("cargo test | head", &["cargo test *", "head *"]),
        ("echo $(id -u)", &["echo *", "id *"]),
        ("A=1 cargo test", &["A=1", "cargo test"]),
        ("CI=1 cargo test", &["cargo test *"]),
        ("sudo rm x", &["rm *", "sudo rm x"]),
        ("sudo rm *", &["rm *", "sudo rm ?"]),
        ("bash -c 'ls x'", &["bash -c ls x", "ls *"]),
        ("env CI=1 ls", &["env CI=1 ls", "ls *"]),
        ("xargs rm", &["rm *", "xargs rm"]),
        ("eval ls", &["eval ls", "ls *"]),
        ("find . -delete", &["find . -delete"]),
        ("echo x > y", &["echo x > y"]),
        ("echo x 2>&1 >/dev/null", &["echo *"]),
        ("head $X", &["head *"]),
        ("cargo 'a b' c", &["cargo a b c"]),
        ("./x.sh a", &["./x.sh a"]),
        ("./ls a", &["./ls a"]),
        ("/bin/ls a", &["/bin/ls *", "ls *"]),
        ("qemu-x86_64 ./a", &["qemu-x86_64 ./a"]),
        ("wine a.exe", &["wine a.exe"]),
        ("pre-commit run", &["pre-commit run"]),
        ("service a start", &["service a start"]),
        ("postcss a.css", &["postcss a.css"]),
        ("jekyll build", &["jekyll build"]),
        ("doxygen", &["doxygen"]),
        ("no-such-program a", &["no-such-program a"]),
        ("source x", &["source x"]),
        (". x", &[". x"]),
        ("go test ./...", &["go test ./..."]),
        ("clang-18 a.c", &["clang-18 a.c"]),
        ("gsed -n 1p a", &["gsed -n 1p a"]),
        // a rule with a wildcard would match other lines too
        ("find . -name '*.rs'", &[]),
        ("find . -name 'a*-delete'", &[]),
        ("sed s/a?b/c/ x", &[]),
        ("git add * x", &["git add ? x"]),
        ("echo a* > y", &[]),
        ("A=* cargo test", &[]),
    ] {
        assert_eq!(always(line), offered, "{line}");
    }
}

#[test]
fn an_always_for_a_program_that_executes_or_writes_by_an_option_is_the_line_alone() {
    const PROGRAMS: &str = "awk curl docker env find git leftfold make man node npm perl python python3 rsync sed \
        sort ssh tar vim xargs zip bash sh sudo timeout nice gawk vi nvim emacs less wget scp \
        pip npx yarn pnpm go ruby php lua java gcc rustc kubectl podman crontab shuf rg gdb \
        pytest apt-get ip iptables ldd latex /usr/bin/python3.12 ./env git-lfs";
    let mut exact = 0;
    for program in PROGRAMS.split_whitespace() {
        for arguments in ["", " a", " -x a", " run a b"] {
            let line = format!("{program}{arguments}");
            let wide = |offered: &String| {
                let program = program.rsplit('/').next().unwrap_or_default();
                offered.split(' ').next().is_some_and(|word| word.ends_with(program))
                    && offered.contains('*')
            };
            let offered = always(&line);
            // a line that is not understood is never allowed for good
            assert!(offered.is_empty() || offered.contains(&line), "{line}: {offered:?}");
            exact += usize::from(!offered.is_empty());
            assert!(!offered.iter().any(wide), "{line}: {offered:?}");
        }
    }
    assert!(exact > 200, "{exact}");
}

#[test]
fn limits() {
    let deep =
        |open: &str, close: &str, n: usize| format!("{}rm x{}", open.repeat(n), close.repeat(n));
    for line in [
        deep("$(", ")", 1_000),
        deep("(", ")", 5_000),
        deep("env ", "", 10_000),
        deep("bash -c ", "", 5_000),
        "rm x;".repeat(10_000),
        "a b|".repeat(10_000) + "rm x",
        format!("echo {}; rm x", "{a,b}".repeat(2_000)),
        "<<E ".repeat(2_000) + "rm x",
        "\"$(".repeat(3_000) + "rm x",
        "`".repeat(30_001) + "rm x",
        "case x in ".repeat(3_000) + "rm x",
        "if ".repeat(10_000) + "rm x",
        "((".repeat(10_000) + "rm x",
        "${x:-".repeat(5_000) + "$(rm x)",
        "echo ".to_owned() + &"{".repeat(60_000),
        "echo ".to_owned() + &"{a,".repeat(20_000),
        "echo ".to_owned() + &"\"$x\"".repeat(15_000),
        "x=a;".repeat(16_000),
        "cat <<E\nx\nE\n".repeat(5_000),
        "rm a b c d e f g h ".to_owned() + &"x ".repeat(30_000),
        "git log ".to_owned() + &"-a ".repeat(20_000),
        "find . ".to_owned() + &"-exec a ".repeat(8_000),
        "[[ a ]] && ".repeat(6_000) + "rm x",
        "echo ".to_owned() + &"$((1+".repeat(10_000),
        "echo ".to_owned() + &"$(( 1 )) ".repeat(7_000),
        "\\\n".repeat(30_000) + "rm x",
        "# x\n".repeat(15_000) + "rm x",
        "'".repeat(60_001) + "rm x",
        "\u{e9}".repeat(30_000) + "; rm x",
        "f() { ".repeat(9_000) + "rm x",
        "rm x > a ".to_owned() + &"> a ".repeat(15_000),
    ] {
        let start = std::time::Instant::now();
        let found = patterns(&line);
        assert!(start.elapsed().as_secs() < 10, "{}: {:?}", &line[..30], start.elapsed());
        let bytes: usize = found.iter().map(String::len).sum();
        assert!(bytes <= 1024 * 1024, "{}: {bytes}", &line[..30]);
        let seen = found.iter().any(|p| p.starts_with("rm x") || p == DYNAMIC);
        let seen = seen || !line.contains("rm x");
        assert!(seen, "{}", &line[..30]);
    }
}
