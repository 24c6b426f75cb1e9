//! The sandbox in the core: the profile of a call, the rules about leaving it, and its record in the log.

use crate::common::*;
use leftfold_events::event::{
    Access, Answer::*, CallKind, Class, Event, Finish, Resolution, Tool, Turn,
};
use leftfold_events::line::{self, Line};
use leftfold_events::rules::{self, Action, Rule};
use leftfold_events::sandbox::{self, Backend, Profile, SandboxOptions, WorktreeAccess};
use leftfold_events::turn_config::Options;
use leftfold_events::{Fact, Json, TurnConfig, fold, judge, verify};

const CONFINING: [Backend; 4] =
    [Backend::Namespaces, Backend::Bwrap, Backend::Landlock, Backend::Seatbelt];
const OPEN: [Backend; 3] = [Backend::External, Backend::Off, Backend::None];

fn sandboxed(backend: Backend) -> SandboxOptions {
    SandboxOptions { backend, ..SandboxOptions::default() }
}

/// A command with these accesses besides `bash`: each a permission and a pattern.
fn command(line: &str, accesses: &[(&str, &str)]) -> Resolution {
    let all = [("bash", line)].into_iter().chain(accesses.iter().copied());
    let access = |(permission, pattern): (&str, &str)| Access {
        permission: permission.into(),
        patterns: vec![pattern.into()],
        always: vec![pattern.into()],
    };
    Resolution {
        name: "bash".into(),
        input: Json::object(),
        class: Class::Command,
        access: all.map(access).collect(),
        paths: Vec::new(),
        timeout: 5_000,
        error: None,
        kind: CallKind::Shell,
    }
}

fn profile(options: &Options, line: &str, accesses: &[(&str, &str)]) -> Option<Profile> {
    sandbox::profile(options, "/p", &command(line, accesses))
}

#[test]
fn files_of_variables_are_shown_if_rules_allow_to_read_them() {
    let shown = |rules: &[Rule]| {
        sandbox::shows_env_files(&TurnConfig { rules: rules.to_vec(), ..TurnConfig::default() })
    };
    assert!(!shown(&[]));
    assert!(!shown(&rules::defaults()));
    assert!(shown(&[Rule::new("read", "*", Action::Allow)]));
}

#[test]
fn only_commands_have_a_profile_and_only_if_a_sandbox_is_known() {
    let options = Options { sandbox: Some(sandboxed(Backend::Namespaces)), ..Options::default() };
    assert!(profile(&options, "ls", &[]).is_some());
    assert_eq!(profile(&Options::default(), "ls", &[]), None);
    for kind in [CallKind::Plain, CallKind::ShowsFiles, CallKind::Lasting] {
        let call = Resolution { kind, ..command("ls", &[]) };
        assert_eq!(sandbox::profile(&options, "/p", &call), None);
    }
}

#[test]
fn the_accesses_of_a_call_open_its_profile() {
    type Opened<'a> = (bool, &'a [&'a str], &'a [&'a str]);
    type Row<'a> = (&'a str, &'a [(&'a str, &'a str)], Opened<'a>);
    let mut given = sandboxed(Backend::Namespaces);
    given.write = vec!["/home/u/.m2".into()];
    let options = Options { sandbox: Some(given), ..Options::default() };
    let m2 = "/home/u/.m2";
    let table: [Row<'_>; 15] = [
        ("ls", &[], (false, &[m2], &[])),
        ("npm ci", &[("network", "npm ci")], (true, &[m2], &[])),
        // a folder that the line only reads
        ("ls", &[("external_directory", "/srv/a/*")], (false, &[m2], &["/srv/a"])),
        (
            "cp",
            &[("external_directory", "/srv/a/*"), ("edit", "/srv/a/x")],
            (false, &[m2, "/srv/a"], &[]),
        ),
        (
            "cp",
            &[("external_directory", "/srv/a/*"), ("edit", "/srv/ab/x")],
            (false, &[m2], &["/srv/a"]),
        ),
        // nobody knows what it changes there
        ("<dynamic>", &[("external_directory", "/srv/a/*")], (false, &[m2, "/srv/a"], &[])),
        ("cp", &[("external_directory", "<dynamic>/*")], (false, &[m2], &[])),
        ("ls", &[("external_directory", "/*")], (false, &[m2], &["/"])),
        ("<dynamic>", &[("external_directory", "/*"), ("edit", "/x")], (false, &[m2], &["/"])),
        (
            "tee",
            &[("edit", ".git/config"), ("protected_file", ".git/config")],
            (false, &[m2, "/p/.git/config"], &[]),
        ),
        ("cat", &[("protected_file", "/data/auth.json")], (false, &[m2], &["/data/auth.json"])),
        ("cat", &[("read", ".env")], (false, &[m2], &["/p/.env"])),
        ("cat", &[("read", "sub/.env.local")], (false, &[m2], &["/p/sub/.env.local"])),
        ("cat", &[("read", ".env.example")], (false, &[m2], &[])),
        ("cat", &[("read", "a.txt"), ("edit", "b.txt")], (false, &[m2], &[])),
    ];
    for (line, accesses, (network, write, shown)) in table {
        let found = profile(&options, line, accesses).unwrap();
        let expected = Profile {
            backend: Backend::Namespaces,
            network,
            worktree: WorktreeAccess::Write,
            write: write.iter().map(|&path| path.to_owned()).collect(),
            shown: shown.iter().map(|&path| path.to_owned()).collect(),
        };
        assert_eq!(found, expected, "{line} {accesses:?}");
    }
}

#[test]
fn a_call_outside_the_sandbox_is_recorded_as_such() {
    for backend in CONFINING.into_iter().chain(OPEN) {
        let options = Options { sandbox: Some(sandboxed(backend)), ..Options::default() };
        let inside = profile(&options, "ls", &[]).unwrap();
        let confines = CONFINING.contains(&backend);
        assert_eq!((inside.backend, inside.network), (backend, !confines), "{backend:?}");
        let outside = profile(&options, "ls", &[("unsandboxed", "ls")]).unwrap();
        let expected = if confines { Backend::Off } else { backend };
        assert_eq!((outside.backend, outside.network), (expected, true), "{backend:?}");
        assert_eq!(outside.worktree, WorktreeAccess::Write);
    }
}

#[test]
fn an_agent_that_plans_changes_nothing() {
    let mut given = sandboxed(Backend::Namespaces);
    given.write = vec!["/home/u/.m2".into()];
    let plans = Options { plans: true, sandbox: Some(given.clone()), ..Options::default() };
    given.worktree = WorktreeAccess::Read;
    let child_of_it = Options { sandbox: Some(given), ..Options::default() };
    for options in [plans, child_of_it] {
        let accesses = [("external_directory", "/srv/a/*"), ("edit", "/srv/a/x")];
        let found = profile(&options, "cp", &accesses).unwrap();
        assert_eq!(found.worktree, WorktreeAccess::Read);
        assert_eq!((found.write, found.shown), (Vec::new(), vec!["/srv/a".to_owned()]));
    }
}

#[test]
fn in_a_home_folder_edits_ask_and_commands_change_only_what_they_name() {
    let in_home = |home| SandboxOptions {
        write: vec!["/srv/build".into()],
        home,
        ..sandboxed(Backend::Namespaces)
    };
    let line = [("edit", "notes.txt"), ("edit", "<dynamic>"), ("external_directory", "/srv/a/*")];
    for (home, worktree, write) in [
        (true, WorktreeAccess::Read, &["/p/notes.txt", "/srv/a", "/srv/build"][..]),
        (false, WorktreeAccess::Write, &["/srv/a", "/srv/build"]),
    ] {
        let options = Options { sandbox: Some(in_home(home)), ..Options::default() };
        let found = profile(&options, "<dynamic>", &line).unwrap();
        assert_eq!(found.worktree, worktree, "{home}");
        assert_eq!(found.write, write);
        // a planning agent and its subagents change nothing at all
        let plans = Options { plans: true, ..options };
        let found = profile(&plans, "<dynamic>", &line).unwrap();
        assert_eq!((found.worktree, found.write), (WorktreeAccess::Read, Vec::new()), "{home}");
    }
    let parent = Options { sandbox: Some(in_home(true)), ..Options::default() };
    let parent = TurnConfig { options: parent, ..TurnConfig::default() };
    assert!(SandboxOptions::of_child(Some(in_home(false)), &parent).unwrap().home);

    use Action::{Allow, Ask, Deny};
    let edit = [Access {
        permission: "edit".into(),
        patterns: vec!["notes.txt".into()],
        always: Vec::new(),
    }];
    let own = |action| vec![Rule::new("edit", "*", action)];
    for (home, settings, accept_edits, expected) in [
        (true, vec![], false, Ask),
        (true, vec![], true, Allow),
        (true, own(Allow), false, Allow),
        (true, own(Deny), false, Deny),
        (true, vec![Rule::new("edit", "*.txt", Allow)], false, Allow),
        (false, vec![], false, Allow),
    ] {
        let sandbox = in_home(home);
        let rules = [rules::defaults(), sandbox::home_rules(Some(&sandbox)), settings.clone()];
        let options = Options { accept_edits, sandbox: Some(sandbox), ..Options::default() };
        let config = TurnConfig { rules: rules.concat(), options, ..TurnConfig::default() };
        assert_eq!(judge(&config, &edit[0], &edit).0, expected, "{home} {settings:?}");
        // leaving the sandbox is a question, and not denied as to an agent that plans
        let leaving = command("make", &[("unsandboxed", "make")]).access;
        assert_eq!(judge(&config, &leaving[1], &leaving).0, Ask, "{home} {settings:?}");
    }
}

#[test]
fn a_subagent_has_no_more_than_its_parent() {
    let parent = |options: Options| TurnConfig {
        rules: rules::defaults(),
        options,
        ..TurnConfig::default()
    };
    let texts = |paths: &[&str]| paths.iter().map(|&path| path.to_owned()).collect::<Vec<_>>();
    let own = SandboxOptions {
        allow: true,
        write: texts(&["/a", "/b/c", "/d"]),
        hide: texts(&["/x"]),
        show: texts(&["/s"]),
        ..sandboxed(Backend::Namespaces)
    };
    let theirs = SandboxOptions {
        write: texts(&["/a/sub", "/b", "/dd"]),
        hide: texts(&["/x", "/y"]),
        processes: Some(100),
        ..sandboxed(Backend::Namespaces)
    };
    let with =
        |sandbox: &SandboxOptions| Options { sandbox: Some(sandbox.clone()), ..Options::default() };
    let child = SandboxOptions::of_child(Some(own.clone()), &parent(with(&theirs))).unwrap();
    assert_eq!((child.allow, child.processes), (false, Some(100)));
    assert_eq!(child.write, ["/b/c", "/a/sub"]);
    assert_eq!(child.hide, ["/x", "/y"]);
    assert!(child.show.is_empty());
    assert_eq!((child.worktree, child.offline), (WorktreeAccess::Write, false));

    let plans = Options { plans: true, ..with(&theirs) };
    let child = SandboxOptions::of_child(Some(own.clone()), &parent(plans)).unwrap();
    assert_eq!(child.worktree, WorktreeAccess::Read);

    let mut denies = parent(with(&theirs));
    denies.rules.push(Rule::new("network", "*", Action::Deny));
    assert!(SandboxOptions::of_child(Some(own.clone()), &denies).unwrap().offline);
    assert!(SandboxOptions::of_child(None, &denies).unwrap().offline);
    let offline =
        Options { sandbox: SandboxOptions::of_child(None, &denies), ..Options::default() };
    assert!(!profile(&offline, "npm ci", &[("network", "npm ci")]).unwrap().network);

    // a subagent that goes on keeps its limits, and has today's settings otherwise
    let before = SandboxOptions { worktree: WorktreeAccess::Read, offline: true, ..theirs.clone() };
    let later = own.clone().within(&before);
    assert_eq!((later.worktree, later.offline), (WorktreeAccess::Read, true));
    assert_eq!((later.allow, &later.write), (true, &own.write));

    // settings that were changed meanwhile do not take the parent's sandbox away
    for open in OPEN {
        let child = SandboxOptions::of_child(Some(sandboxed(open)), &parent(with(&theirs)));
        assert_eq!(child.unwrap().backend, Backend::Namespaces);
    }
    let without = parent(Options::default());
    assert_eq!(SandboxOptions::of_child(Some(own.clone()), &without), Some(own));
    assert_eq!(SandboxOptions::of_child(None, &without), None);
}

/// The verdict of the rules on the access `permission` of a command.
fn verdict(
    sandbox: &SandboxOptions,
    settings: &[Rule],
    (line, accesses): (&str, &[(&str, &str)]),
    permission: &str,
) -> Action {
    let mut rules = rules::defaults();
    rules.extend(sandbox::default_rules(Some(sandbox)));
    rules.extend(settings.iter().cloned());
    let options = Options { sandbox: Some(sandbox.clone()), ..Options::default() };
    let config = TurnConfig { rules, options, ..TurnConfig::default() };
    let call = command(line, accesses).access;
    let access = call.iter().find(|access| access.permission == permission).unwrap();
    judge(&config, access, &call).0
}

#[test]
fn the_network_and_leaving_the_sandbox_are_asked_about() {
    use Action::{Allow, Ask, Deny};
    let all = Rule::new("*", "*", Allow);
    let network = |pattern, action| Rule::new("network", pattern, action);
    let leave = |pattern, action| Rule::new("unsandboxed", pattern, action);
    for (settings, of_network, of_leaving) in [
        (&[][..], Ask, Ask),
        // a rule for everything is not about leaving the sandbox
        (std::slice::from_ref(&all), Allow, Ask),
        (&[Rule::new("*", "*", Deny)], Deny, Deny),
        (&[network("npm ci", Allow)], Allow, Ask),
        (&[network("npm *", Allow)], Allow, Ask),
        (&[network("cargo *", Allow)], Ask, Ask),
        (&[leave("npm ci", Allow)], Ask, Allow),
        (&[leave("*", Allow)], Ask, Allow),
        (&[Rule::new("unsand*", "*", Allow)], Ask, Ask),
        (&[Rule::new("unsand*", "*", Deny)], Ask, Deny),
        // outside the sandbox a command has the network
        (&[network("*", Deny), leave("*", Allow)], Deny, Deny),
        (&[network("npm *", Deny), leave("*", Allow)], Deny, Deny),
        (&[network("cargo *", Deny), leave("*", Allow)], Ask, Allow),
    ] {
        for backend in CONFINING {
            let given = sandboxed(backend);
            let of = |permission| {
                let accesses = [(permission, "npm ci")];
                verdict(&given, settings, ("npm ci", &accesses), permission)
            };
            let found = (of("network"), of("unsandboxed"));
            assert_eq!(found, (of_network, of_leaving), "{backend:?} {settings:?}");
        }
    }
}

#[test]
fn a_line_that_is_not_known_does_not_leave_the_rules_about_files_behind() {
    use Action::{Allow, Ask, Deny};
    let leave = Rule::new("unsandboxed", "*", Allow);
    let rule = |permission, pattern, action| Rule::new(permission, pattern, action);
    for (settings, known, dynamic) in [
        (&[][..], Allow, Allow),
        (&[rule("read", "*.pem", Deny)], Allow, Deny),
        (&[rule("edit", "src/*", Deny)], Allow, Deny),
        (&[rule("edit", "*", Deny)], Allow, Deny),
        (&[rule("r*", "*.pem", Deny)], Allow, Deny),
        (&[rule("read", "*.pem", Ask)], Allow, Allow),
        (&[rule("grep", "*", Deny)], Allow, Allow),
        (&[rule("edit", "*", Deny), rule("edit", "*", Ask)], Allow, Allow),
        (&[rule("edit", "*", Deny), rule("edit", "src/*", Allow)], Allow, Deny),
    ] {
        let settings = [settings, std::slice::from_ref(&leave)].concat();
        for (line, expected) in [("npm ci", known), ("<dynamic>", dynamic)] {
            let accesses = [("unsandboxed", line)];
            let given = sandboxed(Backend::Namespaces);
            let found = verdict(&given, &settings, (line, &accesses), "unsandboxed");
            assert_eq!(found, expected, "{line} {settings:?}");
        }
    }
}

#[test]
fn a_session_that_may_not_change_the_worktree_stays_in_the_sandbox() {
    let settings = [Rule::new("unsandboxed", "*", Action::Allow)];
    let read = |backend| SandboxOptions { worktree: WorktreeAccess::Read, ..sandboxed(backend) };
    let offline = |backend| SandboxOptions { offline: true, ..sandboxed(backend) };
    let leaving = ("make", &[("unsandboxed", "make")][..]);
    let calling = ("make", &[("network", "make")][..]);
    for backend in CONFINING {
        assert_eq!(verdict(&read(backend), &settings, leaving, "unsandboxed"), Action::Deny);
        assert_eq!(verdict(&read(backend), &settings, calling, "network"), Action::Ask);
        assert_eq!(verdict(&offline(backend), &settings, leaving, "unsandboxed"), Action::Deny);
        assert_eq!(verdict(&offline(backend), &settings, calling, "network"), Action::Deny);
    }
    // without a sandbox every command has this access, and somebody decides
    assert_eq!(verdict(&read(Backend::None), &[], leaving, "unsandboxed"), Action::Ask);
}

#[test]
fn the_mode_answers_questions_about_commands_that_stay_inside() {
    use Action::{Allow, Ask, Deny};
    let rule = |permission, pattern, action| Rule::new(permission, pattern, action);
    let asks = rule("bash", "*", Ask);
    let push = rule("bash", "git push *", Ask);
    let leave = rule("unsandboxed", "*", Allow);
    let edits = rule("edit", "*", Ask);
    let outside = rule("external_directory", "*", Ask);
    type Line<'a> = (&'a str, &'a [(&'a str, &'a str)]);
    let table: [(&[&Rule], Line<'_>, &str, Action); 14] = [
        (&[&asks], ("make", &[]), "bash", Allow),
        (&[&asks], ("<dynamic>", &[]), "bash", Allow),
        (&[&asks, &push], ("git push", &[]), "bash", Ask),
        (&[&asks, &push], ("git pull", &[]), "bash", Allow),
        (&[&rule("bash", "*", Deny)], ("make", &[]), "bash", Deny),
        (&[&asks, &leave], ("make", &[("unsandboxed", "make")]), "bash", Ask),
        (&[&asks], ("make", &[("network", "make")]), "bash", Allow),
        (&[&asks], ("make", &[("network", "make")]), "network", Ask),
        (&[&asks, &edits], ("tee", &[("edit", "a.txt")]), "edit", Allow),
        (&[&asks, &edits], ("tee", &[("edit", "/srv/a.txt")]), "edit", Ask),
        (&[&asks], ("cat", &[("read", ".env")]), "read", Ask),
        (
            &[&asks, &outside],
            ("ls", &[("external_directory", "/srv/*")]),
            "external_directory",
            Ask,
        ),
        (&[&asks], ("tee", &[("protected_file", "AGENTS.md")]), "protected_file", Ask),
        (&[&asks], ("leftfold", &[("leftfold", "leftfold")]), "leftfold", Ask),
    ];
    for (settings, line, permission, expected) in table {
        let settings: Vec<Rule> = settings.iter().map(|&rule| rule.clone()).collect();
        for (backend, is_tight) in [
            (Backend::Namespaces, true),
            (Backend::Bwrap, true),
            (Backend::Landlock, false),
            (Backend::Seatbelt, false),
            (Backend::External, false),
            (Backend::Off, false),
            (Backend::None, false),
        ] {
            let off = verdict(&sandboxed(backend), &settings, line, permission);
            let on = SandboxOptions { allow: true, ..sandboxed(backend) };
            let found = verdict(&on, &settings, line, permission);
            let expected = if is_tight { expected } else { off };
            assert_eq!(found, expected, "{backend:?} {line:?} {permission}");
        }
    }
    // a file that no line names is not in the sandbox
    let options = SandboxOptions { allow: true, ..sandboxed(Backend::Namespaces) };
    let options = Options { sandbox: Some(options), ..Options::default() };
    let config = TurnConfig { rules: vec![edits], options, ..TurnConfig::default() };
    let access =
        Access { permission: "edit".into(), patterns: vec!["a".into()], always: Vec::new() };
    assert_eq!(judge(&config, &access, std::slice::from_ref(&access)).0, Ask);
}

#[test]
fn a_restriction_with_a_pattern_of_its_own_still_asks() {
    use Action::{Allow, Ask, Deny};
    let asks = Rule::new("bash", "*", Ask);
    let call = command("git push", &[]).access;
    for (restriction, expected) in [
        (Rule::new("bash", "git push *", Ask), Ask),
        (Rule::new("bash", "git push *", Deny), Deny),
        (Rule::new("bash", "git pull *", Ask), Allow),
        (Rule::new("bash", "*", Ask), Allow),
        (Rule::new("bash", "*", Deny), Deny),
    ] {
        let sandbox = SandboxOptions { allow: true, ..sandboxed(Backend::Namespaces) };
        let options = Options {
            sandbox: Some(sandbox),
            restrictions: vec![vec![restriction.clone()]],
            ..Options::default()
        };
        let config = TurnConfig { rules: vec![asks.clone()], options, ..TurnConfig::default() };
        assert_eq!(judge(&config, &call[0], &call).0, expected, "{restriction:?}");
    }
}

#[test]
fn a_denial_in_a_restriction_counts_outside_the_sandbox() {
    let access = [("unsandboxed", "<dynamic>")];
    let call = command("<dynamic>", &access).access;
    for (restriction, expected) in [
        (Rule::new("network", "*", Action::Deny), Action::Deny),
        (Rule::new("read", "*.pem", Action::Deny), Action::Deny),
        (Rule::new("read", "*.pem", Action::Ask), Action::Allow),
    ] {
        let options = Options {
            sandbox: Some(sandboxed(Backend::Namespaces)),
            restrictions: vec![vec![restriction.clone()]],
            ..Options::default()
        };
        let rules =
            vec![Rule::new("*", "*", Action::Allow), Rule::new("unsandboxed", "*", Action::Allow)];
        let config = TurnConfig { rules, options, ..TurnConfig::default() };
        assert_eq!(judge(&config, &call[1], &call).0, expected, "{restriction:?}");
    }
}

/// A run of the command `a` up to its verdict.
fn asked(sandbox: SandboxOptions, accesses: &[(&str, &str)]) -> Run {
    let mut config = config();
    config.rules.extend(sandbox::default_rules(Some(&sandbox)));
    config.options.sandbox = Some(sandbox);
    let mut run = Run::new(&config);
    for step in [Prompt("hi"), Call("a", "bash"), Reply(Finish::ToolCalls)] {
        run.step(&step);
    }
    let of = run.fact(&Resolve("a", Class::Command, READ, "")).of.expect("a check");
    run.tell(Fact::for_intent(of, Tool::Resolved(Box::new(command("npm ci", accesses)))));
    run
}

#[test]
fn the_profile_is_in_the_log_and_needs_no_machine() {
    for backend in CONFINING.into_iter().chain(OPEN) {
        let mut run = asked(sandboxed(backend), &[("network", "npm ci"), ("read", "src/a")]);
        if backend.confines() {
            assert_eq!(describe(run.log.last().unwrap()), "permission.asked a");
            run.step(&Answer("a", Once, None));
        }
        let started = run.log.last().unwrap().clone();
        assert_eq!(describe(&started), "tool.started a 1", "{backend:?}");
        let Event::Tool(tool @ Tool::StartedSandboxed(_)) = &started.event else {
            panic!("{started:?}");
        };
        let profile = tool.started().and_then(|started| started.sandbox).unwrap();
        assert_eq!((profile.backend, profile.network), (backend, true));
        run.step(&Done("a", "ok"));
        run.finish();
        assert_eq!(verify(&run.log), []);
        assert_eq!(fold(&run.log), run.state);
        for event in &run.log {
            let text = line::write(event);
            let Ok(Line::Event(back)) = line::read(&text) else { panic!("{text}") };
            if !matches!(event.event, Event::Turn(Turn::Configured(_))) {
                assert_eq!(*back, *event);
            }
        }
        let text = line::write(&started);
        let name = serde_json::to_value(backend).unwrap();
        let expected = format!(
            r#""type":"tool.started","of":{},"until":"{}","data":{{"call":"a","name":"bash","class":"command","attempt":1,"sandbox":{{"backend":{name},"network":true,"worktree":"write","write":[],"shown":[]}}}}}}"#,
            started.of.unwrap(),
            started.until.unwrap(),
        );
        assert!(text.ends_with(&expected), "{text}");
    }
}

#[test]
fn a_question_about_the_network_can_be_answered_for_good() {
    let mut run = asked(sandboxed(Backend::Namespaces), &[("network", "npm ci")]);
    run.step(&Answer("a", Always, None));
    assert_eq!(run.state.approved, [Rule::new("network", "npm ci", Action::Allow)]);
}

#[test]
fn a_yes_to_everything_includes_the_network_and_leaving() {
    use leftfold_events::turn_config::AskMode;
    for (mode, expected) in [
        (AskMode::Allow, "tool.started a 1"),
        (AskMode::Deny, "model.requested 2.1"),
        (AskMode::Ask, "permission.asked a"),
    ] {
        for permission in ["network", "unsandboxed"] {
            let mut config = config();
            let sandbox = sandboxed(Backend::Namespaces);
            config.rules.extend(sandbox::default_rules(Some(&sandbox)));
            config.options.sandbox = Some(sandbox);
            config.options.ask = mode;
            let mut run = Run::new(&config);
            for step in [Prompt("hi"), Call("a", "bash"), Reply(Finish::ToolCalls)] {
                run.step(&step);
            }
            let of = run.fact(&Resolve("a", Class::Command, READ, "")).of.expect("a check");
            let call = command("npm ci", &[(permission, "npm ci")]);
            run.tell(Fact::for_intent(of, Tool::Resolved(Box::new(call))));
            assert_eq!(describe(run.log.last().unwrap()), expected, "{permission}");
        }
    }
}

#[test]
fn a_crash_while_a_command_runs_does_not_run_it_again() {
    let run = asked(sandboxed(Backend::External), &[]);
    assert_eq!(describe(run.log.last().unwrap()), "tool.started a 1");
    let mut next = Run::folded(&run.log);
    let events = next.step(&Resume { close: false });
    let events: Vec<String> = events.iter().map(describe).collect();
    assert!(events.contains(&"tool.lost a 1".to_owned()), "{events:?}");
    assert!(!events.iter().any(|event| event.starts_with("tool.started")), "{events:?}");

    let mut next = Run::folded(&run.log);
    let events = next.step(&ResumeImported { close: false });
    let events: Vec<String> = events.iter().map(describe).collect();
    assert!(!events.iter().any(|event| event.starts_with("tool.started")), "{events:?}");
}

#[test]
fn options_of_an_older_log_have_no_sandbox_and_are_written_without_one() {
    let text = serde_json::to_string(&Options::default()).unwrap();
    assert!(!text.contains("sandbox"), "{text}");
    let options: Options = serde_json::from_str(r#"{"sandbox":{"backend":"bwrap"}}"#).unwrap();
    assert_eq!(options.sandbox, Some(sandboxed(Backend::Bwrap)));
    let text = serde_json::to_string(&options.sandbox).unwrap();
    assert_eq!(text, r#"{"backend":"bwrap"}"#);
}
