//! Programs that serve many calls: a standard input of their own, and profiles that let them change everything but a
//! few paths, or share the processes of the machine.

use std::io::{Read, Write};
use std::os::fd::AsFd;

use leftfold_sandbox::{Backend, Message, Profile, Report, command_with_input};

use crate::confined::{Background, Confined, User, backends};

/// The profile of a program that may change everything but keys, the store and hooks.
fn open_profile(site: &Confined, backend: Backend) -> Profile {
    let mut profile = site.profile(backend);
    profile.everything = true;
    profile.network = true;
    profile.temp = None;
    profile.read_only.push(site.path("home/.config"));
    profile
}

fn each(check: impl Fn(&Confined, Backend)) {
    for user in User::all() {
        for backend in backends(*user) {
            let site = Confined::new(*user);
            for name in ["home/.npm", "home/.config"] {
                std::fs::create_dir(site.path(name)).unwrap();
            }
            site.give_to_user();
            check(&site, backend);
        }
    }
}

/// Runs a shell line with `input` as its standard input. Returns the report and the output.
fn converse(site: &Confined, profile: &Profile, line: &str, input: &str) -> (Report, String) {
    let (reader, mut writer) = std::io::pipe().unwrap();
    let (mut command, mut channel) =
        command_with_input(&site.helper, profile, reader.as_fd(), "bash", ["-c", line]).unwrap();
    command.env_clear().env("PATH", std::env::var_os("PATH").unwrap());
    let (mut output, output_writer) = std::io::pipe().unwrap();
    command.current_dir(site.path("project")).stdout(output_writer);
    let mut child = command.spawn().unwrap();
    drop((command, reader));
    writer.write_all(input.as_bytes()).unwrap();
    drop(writer);
    let mut text = String::new();
    output.read_to_string(&mut text).unwrap();
    assert!(matches!(channel.receive().unwrap(), Some(Message::Ready(_))), "{text}");
    let Some(Message::Report(report)) = channel.receive().unwrap() else { panic!("{text}") };
    child.wait().unwrap();
    (report, text)
}

#[test]
fn a_program_reads_its_own_input_to_the_end() {
    each(|site, backend| {
        for shares_processes in [false, true] {
            let profile = Profile { shares_processes, ..open_profile(site, backend) };
            // by name too, but the pipe of these tests belongs to their own user
            let name = if site.user == User::Tester { "/dev/stdin" } else { "-" };
            // the end comes because nobody else holds the pipe open
            let line = &format!("read -r first; echo \"1 $first\"; sed 's/^/2 /' {name}; exit 4");
            let (report, text) = converse(site, &profile, line, "a\nb\nc\n");
            assert_eq!((report.code, text.as_str()), (Some(4), "1 a\n2 b\n2 c\n"), "{backend:?}");
        }
    });
}

#[test]
fn a_program_that_may_change_everything_is_kept_from_what_is_named() {
    each(|site, backend| {
        let home = site.path("home").display().to_string();
        let store = site.path("store").display().to_string();
        let tries = [
            (format!("echo x > {home}/.npm/new"), true),
            (format!("echo x >> {home}/.bashrc"), true),
            ("echo x > new".to_owned(), true),
            (format!("cat {home}/.ssh/id"), false),
            (format!("cat {store}/log"), false),
            (format!("echo x > {store}/log"), false),
            (format!("echo x > {home}/.config/new"), false),
            // Landlock knows no exception in a folder whose new files may be made
            ("echo x > .git/hooks/post-commit".to_owned(), backend == Backend::Landlock),
        ];
        for (line, works) in tries {
            let (report, text) = converse(site, &open_profile(site, backend), &line, "");
            assert_eq!(report.code == Some(0), works, "{backend:?} {line}: {text}");
        }
        assert_eq!(std::fs::read_to_string(site.path("store/log")).unwrap(), "secret\n");
    });
}

#[test]
fn a_program_that_shares_the_machine_sees_processes_and_devices_but_not_the_store() {
    each(|site, backend| {
        let profile = Profile { shares_processes: true, ..open_profile(site, backend) };
        let outside = Background::start(site.unconfined("exec sleep 100"));
        let pid = outside.0.id();
        let store = site.path("store").display().to_string();
        for (line, works) in [
            (format!("test -d /proc/{pid} && kill -0 {pid}"), true),
            (format!("cat /proc/{pid}/environ"), false),
            (format!("ls /proc/{pid}/root{store}"), false),
            (format!("cat {store}/log"), false),
            ("test -c /dev/ptmx".to_owned(), true),
            // the numbers of processes are those of the machine
            ("test $$ = \"$(readlink /proc/self)\" -o -d /proc/$$".to_owned(), true),
        ] {
            let (report, text) = converse(site, &profile, &line, "");
            assert_eq!(report.code == Some(0), works, "{backend:?} {line}: {text}");
        }
    });
}
