use leftfold_events::turn_config::ModelSpec;
use leftfold_events::{Time, TurnConfig};

use super::*;
use crate::gather::{self, Sources};

struct TestProject {
    folder: tempfile::TempDir,
    agent: &'static str,
    ask: AskMode,
}

impl TestProject {
    fn new(git: bool) -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(folder.path().join("work")).unwrap();
        if git {
            std::fs::create_dir(folder.path().join("work/.git")).unwrap();
        }
        Self { folder, agent: PLAN, ask: AskMode::Ask }
    }

    fn work(&self) -> PathBuf {
        self.folder.path().canonicalize().unwrap().join("work")
    }

    fn plan(&self) -> PathBuf {
        let id: SessionId = "01ARZ3NDEKTSV4RRFFQ69G5FAV".parse().unwrap();
        file(&self.work(), &self.folder.path().join("home"), id)
    }

    fn config(&self) -> TurnConfig {
        let (work, plan) = (self.work(), Some(self.plan()));
        let agents = gather::agent::builtins();
        let turn_settings = TurnSettings {
            directory: work.clone(),
            worktree: work.clone(),
            model: ModelSpec::default(),
            agent: agents.into_iter().find(|agent| agent.name == self.agent).unwrap(),
            rules: Vec::new(),
            rule_sources: Vec::new(),
            agent_place: None,
            options: Options { ask: self.ask, ..Options::default() },
            subagents: vec![("explore".to_owned(), "looks".to_owned())],
            sources: Sources::default(),
            plan,
            reminds: true,
            workplace: None,
            missing_tools: Vec::new(),
            shell: None,
        };
        gather::gather(turn_settings, Time::from_millis(0)).0
    }
}

#[test]
fn the_plan_of_a_session_has_one_place() {
    let place = TestProject::new(true);
    let name = "1469922850259-q69g5fav.md";
    assert_eq!(place.plan(), place.work().join(".leftfold/plans").join(name));
    let place = TestProject::new(false);
    let root = place.folder.path().canonicalize().unwrap();
    assert_eq!(place.plan(), root.join("home/plans").join(name));
}

#[test]
fn each_of_the_two_is_offered_the_way_to_the_other_where_somebody_is_there() {
    let mut place = TestProject::new(true);
    for (agent, ask, offered) in [
        ("plan", AskMode::Ask, &["plan_exit"][..]),
        ("build", AskMode::Ask, &["plan_enter"]),
        ("general", AskMode::Ask, &[]),
        ("plan", AskMode::Deny, &[]),
        ("build", AskMode::Allow, &[]),
    ] {
        (place.agent, place.ask) = (agent, ask);
        let tools = place.config().tools;
        let names = tools.iter().map(|tool| tool.name.as_str());
        let found: Vec<_> = names.filter(|name| name.starts_with("plan_")).collect();
        assert_eq!(found, offered, "{agent} {ask:?}");
    }
}

#[test]
fn a_plan_outside_the_project_may_be_written_by_the_one_who_plans() {
    use leftfold_events::rules::evaluate;
    let mut place = TestProject::new(false);
    let plan = place.plan().display().to_string();
    let beside = plan.replace(".md", ".rs");
    let folder = place.plan().parent().unwrap().join("*").display().to_string();
    for (agent, edit) in [("plan", Action::Allow), ("build", Action::Allow)] {
        place.agent = agent;
        let rules = place.config().rules;
        let action =
            |permission: &str, pattern: &str| evaluate(&rules, permission, pattern).unwrap().action;
        assert_eq!(action("edit", &plan), edit);
        assert_eq!(action("edit", &beside) == Action::Allow, agent == "build");
        assert_eq!(action("external_directory", &folder), Action::Allow);
        assert_eq!(action("external_directory", "/etc/*"), Action::Ask);
    }
}

#[test]
fn what_is_said_names_the_plan_and_only_tools_that_there_are() {
    let mut place = TestProject::new(true);
    let path = place.plan();
    let config = place.config();
    let text = &config.options.reminder;
    assert!(config.options.plans && text.contains(&format!("write it to `{}`", path.display())));
    assert!(text.contains("`plan_exit`") && text.contains("`task`") && !text.contains("{plan}"));
    let phases = ["1. Understanding.", "2. Design.", "3. Review.", "4. Final plan.", "5. Exit."];
    let places = phases.map(|phase| text.find(phase));
    assert!(places.is_sorted() && places[0].is_some(), "{text}");
    assert!(text.contains("up to three `explore` agents"), "{text}");
    place.ask = AskMode::Deny;
    let text = place.config().options.reminder;
    assert!(!text.contains("`plan_exit`") && !text.contains("`question`"), "{text}");
    place.agent = "build";
    let config = place.config();
    assert!(!config.options.plans && !config.options.reminder.contains("plans/"));
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(&path, "# Plan").unwrap();
    assert!(place.config().options.reminder.contains(&format!("is in `{}`", path.display())));
    place.agent = "plan";
    assert!(place.config().options.reminder.contains("Read it first"));
}
