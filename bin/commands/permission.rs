//! `leftfold permission`: checks rules, answers open questions, and lists and takes back what "always" has allowed.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::bail;
use leftfold_events::rules::{self, Action, LEFTFOLD, Rule};
use leftfold_events::sandbox;
use leftfold_events::{Seq, fold};
use leftfold_store::Reader;
use serde_json::json;

use crate::cli::{Format, PermissionAnswer, PermissionCheck, PermissionCommand, PermissionForget};
use leftfold_runtime::Usage;
use leftfold_runtime::agents::{self, Agents};
use leftfold_runtime::approvals;
use leftfold_runtime::client::is_leaving;
use leftfold_runtime::remote::client;
use leftfold_runtime::resolved_settings;
use leftfold_runtime::session_paths::SessionPlace;
use leftfold_runtime::socket::RpcError;
use leftfold_runtime::socket::question::{Search, Which};
use leftfold_view::clean::visible_line;

const ANSWER: &str = "_leftfold/answer";

/// The permission for questions of the model.
const QUESTION: &str = "question";

pub(crate) fn permission(command: &PermissionCommand) -> anyhow::Result<ExitCode> {
    match command {
        PermissionCommand::Answer(args) => answer(args),
        PermissionCommand::Check(args) => check(args),
        PermissionCommand::List { format } => list(*format),
        PermissionCommand::Forget(args) => forget(args),
    }
}

/// The root of the project around the current folder.
fn worktree() -> anyhow::Result<PathBuf> {
    Ok(leftfold_config::worktree_of(&std::env::current_dir()?))
}

fn list(format: Format) -> anyhow::Result<ExitCode> {
    let approved = approvals::stored(&worktree()?)?.approved;
    let line = |rule: &Rule| {
        let (id, Rule { permission, pattern, .. }) = (approvals::id(rule), rule);
        match format {
            Format::Json => {
                json!({ "id": id, "permission": permission, "pattern": pattern }).to_string()
            }
            Format::Text => visible_line(&format!("{id} {permission}: {pattern}")),
        }
    };
    if approved.is_empty() {
        leftfold_runtime::note("leftfold: no \"always\" has allowed anything in this project");
    }
    let lines: String = approved.iter().map(|rule| line(rule) + "\n").collect();
    super::print_as(format, &lines)
}

fn forget(args: &PermissionForget) -> anyhow::Result<ExitCode> {
    let worktree = worktree()?;
    let known: Vec<String> =
        approvals::stored(&worktree)?.approved.iter().map(approvals::id).collect();
    if let Some(unknown) = args.ids.iter().find(|id| !known.contains(id)) {
        let way = "`leftfold permission list` prints those of this project";
        return Err(Usage(format!("there is no approval `{unknown}`: {way}")).into());
    }
    let wanted = |rule: &Rule| args.all || args.ids.contains(&approvals::id(rule));
    let forgotten = approvals::forget(&worktree, wanted)?;
    let line = |Rule { permission, pattern, .. }: &Rule| {
        visible_line(&format!("asks again: {permission}: {pattern}")) + "\n"
    };
    super::print(&forgotten.iter().map(line).collect::<String>())
}

fn answer(args: &PermissionAnswer) -> anyhow::Result<ExitCode> {
    let place = super::place_to_change(&args.session)?;
    let session = place.session;
    let mut params = json!({
        "session": session,
        "call": args.call,
        "reply": args.reply.name(),
        "by": "leftfold permission answer",
    });
    if let Some(feedback) = &args.feedback {
        params["feedback"] = json!(feedback);
    }
    if !args.patterns.is_empty() {
        params["always"] = json!(args.patterns);
    }
    let asked = match client::connect(&place.store) {
        Ok(mut node) => node.call(ANSWER, &params).map(Some),
        Err(_) => client::ask_owner(&place, ANSWER, params),
    };
    let answered = match asked {
        Ok(Some(answered)) => answered,
        Err(error) if error.is::<RpcError>() && !is_leaving(&error) => return Err(error),
        // The node ended or was killed in between.
        Ok(None) | Err(_) => return answer_without_node(&place, &args.call),
    };
    if answered["accepted"] == true {
        return Ok(ExitCode::SUCCESS);
    }
    if let Some(why) = answered["refused"].as_str() {
        return Err(Usage(format!("the question is still open: {why}")).into());
    }
    bail!(closed(answered["of"].as_u64(), answered["by"].as_str(), &args.call))
}

/// Why an answer is not accepted.
fn closed(of: Option<Seq>, by: Option<&str>, call: &str) -> String {
    match (of, by) {
        (Some(of), Some(by)) => format!("the question at seq {of} was already answered by {by}"),
        (Some(of), None) => format!("the question at seq {of} is closed: nobody answered it"),
        (None, _) => format!("call `{call}` has no open question and never had one"),
    }
}

/// Without a node: reads from the log how the question stands.
fn answer_without_node(place: &SessionPlace, call: &str) -> anyhow::Result<ExitCode> {
    let reader = Reader::open(&place.store)?;
    let (mut sessions, mut looked) = (vec![place.session], 0);
    while let Some(session) = sessions.get(looked).copied() {
        looked += 1;
        let (events, mut search) =
            (reader.read(session, 1)?, Search::new(Which::Call(call.to_owned())));
        events.iter().for_each(|event| search.take(event));
        let state = fold(&events);
        match search.found {
            Some((of, by)) if by.is_some() || state.turn.is_none() => {
                bail!(closed(Some(of), by.as_deref(), call))
            }
            Some(_) => break,
            None => {}
        }
        let new = state.children.iter().map(|child| child.session);
        let new: Vec<_> = new.filter(|child| !sessions.contains(child)).collect();
        sessions.extend(new);
    }
    bail!(
        "no node runs session {0}, so nobody takes an answer: resume it with its open questions by \
             `leftfold resume {0} --permission-mode ask`",
        place.session
    )
}

fn check(args: &PermissionCheck) -> anyhow::Result<ExitCode> {
    let (rules, restrictions) = match &args.rules {
        Some(rules) => (given(rules)?, Vec::new()),
        None => in_force(args.agent.as_deref())?,
    };
    let lists = restrictions.iter().map(Vec::as_slice);
    let (action, rule) = rules::evaluate_restricted(&rules, lists, &args.permission, &args.pattern);
    if action == Action::Ask && args.rules.is_none() {
        let approved = approvals::of(&worktree()?).approved;
        if let Some(rule) = approval(&approved, args) {
            let verdict = json!({ "action": rule.action, "rule": rule, "approved": true });
            return super::print_json(&format!("{verdict}\n"));
        }
    }
    super::print_json(&format!("{}\n", json!({ "action": action, "rule": rule })))
}

/// The approval that answers the question, if one does.
fn approval<'a>(approved: &'a [Rule], args: &PermissionCheck) -> Option<&'a Rule> {
    // only a person answers these
    let is_for_people = [QUESTION, LEFTFOLD].contains(&args.permission.as_str());
    let found = rules::evaluate(approved, &args.permission, &args.pattern);
    found.filter(|_| !is_for_people)
}

fn given(rules: &str) -> anyhow::Result<Vec<Rule>> {
    let deserializer = &mut serde_json::Deserializer::from_str(rules);
    serde_path_to_error::deserialize(deserializer).map_err(|error| {
        let form = r#"[{"permission": "bash", "pattern": "git *", "action": "allow|deny|ask"}]"#;
        let (at, why) = (error.path().to_string(), error.into_inner());
        Usage(format!("--rules: at `{at}`: {why}; expected a list such as {form}")).into()
    })
}

/// Defaults, what the agent is built with, settings, and what they say of the agent.
fn in_force(agent: Option<&str>) -> anyhow::Result<(Vec<Rule>, Vec<Vec<Rule>>)> {
    let directory = std::env::current_dir()?;
    let settings = resolved_settings::shown(&directory)?;
    let agents = Agents::of(&settings);
    let mut rules = rules::defaults();
    let of_machine = leftfold_runtime::sandbox::options(&settings);
    rules.extend(sandbox::default_rules(Some(&of_machine)));
    rules.extend(sandbox::home_rules(Some(&of_machine)));
    let agent = match agent {
        Some(name) => {
            let agent = agents.find(name)?;
            rules.extend(agent.rules.iter().cloned());
            agent
        }
        None => agents.default(&settings)?,
    };
    rules.extend(agents::rules(&settings, agent, &[]));
    let restrictions = agents.restrictions(&settings, agent);
    Ok((rules, restrictions))
}
