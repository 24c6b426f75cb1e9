//! Commands of one session start at the same moment, also beside one that changes all that they share.

use std::fs;

use leftfold_sandbox::{Backend, Profile};

use crate::confined::{Background, Confined, Running, User, backends};

/// Commands that start at once.
const AT_ONCE: usize = 8;

/// Checks `round` for each user and each kind of namespaces, with a home folder that the private /tmp covers.
/// `LEFTFOLD_ROUNDS` sets the number of rounds (3).
fn each_round(covers: impl Fn(Backend) -> bool, check: impl Fn(&Confined, &Profile, usize)) {
    for user in User::all() {
        for backend in backends(*user).into_iter().filter(|backend| covers(*backend)) {
            let site = Confined::in_temp(*user);
            fs::write(site.path("home/.ssh/id"), "PRIVATE\n").unwrap();
            for number in 0..SHOWN {
                fs::create_dir_all(site.path(&format!("shown/{number}/x"))).unwrap();
            }
            // on a machine that idles, the commands would start one after the other
            let busy = (0..2).map(|_| Background::start(site.unconfined("while :; do :; done")));
            let _busy: Vec<Background> = busy.collect();
            for round in 0..common::number("LEFTFOLD_ROUNDS", 3) {
                check(&site, &profile(&site, backend, round), round);
            }
        }
    }
}

/// Folders that are shown in the private /tmp: with more of them, more commands meet at the same one.
const SHOWN: usize = 30;

/// The profile of a command whose home folder is shown in a new `/tmp`.
fn profile(site: &Confined, backend: Backend, round: usize) -> Profile {
    let mut profile = site.profile(backend);
    profile.read_only.push(site.path("home"));
    profile.read_only.extend((0..SHOWN).map(|number| site.path(&format!("shown/{number}/x"))));
    profile.read_only.push(site.path("project/sub/leftfold.json"));
    let temp = site.path("temp").join(round.to_string());
    fs::create_dir(&temp).unwrap();
    profile.temp = Some(temp);
    site.give_to_user();
    profile
}

/// Runs a line many times at once. Returns all of its output.
fn at_once(site: &Confined, profile: &Profile, line: &str, round: usize) -> String {
    let running: Vec<Running> = std::thread::scope(|scope| {
        let start = || scope.spawn(|| site.start(profile, line, &[]));
        let started: Vec<_> = (0..AT_ONCE).map(|_| start()).collect();
        started.into_iter().map(|started| started.join().unwrap()).collect()
    });
    let outputs = running.into_iter().map(|running| {
        let ran = running.finish();
        let kind = site.user.kind();
        assert_eq!(
            ran.report.code,
            Some(0),
            "round {round} as {kind}: {profile:?}\n{}",
            ran.output
        );
        ran.output
    });
    outputs.collect()
}

#[test]
fn commands_that_start_at_once_do_not_break_each_other() {
    each_round(Backend::has_namespaces, |site, profile, round| {
        let line = "cat ../home/.bashrc && echo x >> written";
        let output = at_once(site, profile, line, round);
        assert_eq!(output, "secret\n".repeat(AT_ONCE));
    });
}

/// A process changes the session's /tmp and the project without an end: what it makes there is missing, of another kind, or
/// elsewhere, at each moment of the set-up. It ends by itself, with all that it has started, once there is a file `stop`.
const CHANGES: &str = r#"
cd "$BASE"
name=${PWD##*/}
while [ ! -e stop ]; do
    for temp in temp/*; do
        mv $temp/$name $temp/old.$RANDOM.$RANDOM
        ln -s /etc $temp/$name
        rm -f $temp/$name
        echo x > $temp/$name
        rm -f $temp/$name
        mkdir -p $temp/$name/home/.ssh $temp/$name/project
        chmod 0 $temp/$name
    done
    rm -f project/.env
    ln -s ../home/.ssh/id project/.env
    rm -f project/.env
    mkdir project/.env
    rmdir project/.env
    echo x > project/.env
    mv project/sub project/moved
    mkdir project/sub
    echo x > project/sub/leftfold.json
    rm -r project/sub
    mv project/moved project/sub
done
"#;

#[test]
fn whatever_another_command_changes_meanwhile_a_command_starts_and_sees_no_key() {
    // bwrap finds mount points by their paths, so a change can make it fail
    let covers = |backend: Backend| backend.has_namespaces() && backend != Backend::Bwrap;
    each_round(covers, |site, profile, round| {
        fs::create_dir_all(site.path("project/sub")).unwrap();
        fs::write(site.path("project/sub/leftfold.json"), "{}\n").unwrap();
        site.give_to_user();
        let mut changes = site.unconfined(CHANGES);
        changes.env("BASE", site.path(""));
        let mut changes = Background::start(changes);
        let line = "cat .env ../home/.ssh/id /tmp/*/home/.ssh/id /tmp/*/*/home/.ssh/id; echo end";
        let output = at_once(site, profile, line, round);
        fs::write(site.path("stop"), "").unwrap();
        changes.0.wait().unwrap();
        fs::remove_file(site.path("stop")).unwrap();
        // otherwise only root could remove them
        assert!(site.unconfined("chmod -R u+rwx ../temp").status().unwrap().success());
        assert!(!output.contains("PRIVATE"), "round {round}: {output}");
    });
}
