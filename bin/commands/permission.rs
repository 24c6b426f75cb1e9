//! `leftfold permission`: checks rules, answers open questions, and lists and takes back what "always" has allowed.

use std::io::IsTerminal;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::bail;
use leftfold_events::event::{Access, CallSpec};
use leftfold_events::rules::{self, Action, Rule};
use leftfold_events::sandbox;
use leftfold_events::turn_config::{Options, RuleSource, Sources};
use leftfold_events::{Json, Seq, TurnConfig, fold, judge};
use leftfold_store::Reader;
use leftfold_tools::Workspace;
use serde_json::json;

use crate::cli::{Format, PermissionAnswer, PermissionCheck, PermissionCommand, PermissionForget};
use leftfold_runtime::Usage;
use leftfold_runtime::agents::{self, Agents};
use leftfold_runtime::approvals;
use leftfold_runtime::client::is_leaving;
use leftfold_runtime::remote::client;
use leftfold_runtime::resolved_settings;
use leftfold_runtime::session_paths::{self, SessionPlace};
use leftfold_runtime::socket::RpcError;
use leftfold_runtime::socket::question::{Search, Which};
use leftfold_view::clean::visible_line;
use leftfold_view::configuration;

const ANSWER: &str = "_leftfold/answer";

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
    let directory = std::env::current_dir()?;
    let mut workspace = Workspace::new(&directory, worktree()?, session_paths::data_dir()?);
    let config = match &args.rules {
        Some(rules) => TurnConfig { rules: given(rules)?, ..TurnConfig::default() },
        None => in_force(args, &mut workspace)?,
    };
    let call = accesses(args, &config, workspace)?;
    let mut verdict = (Action::Allow, None, &call[0]);
    for access in &call {
        let (action, rule) = judge(&config, access, &call);
        if action > verdict.0 || verdict.1.is_none() && action == verdict.0 {
            verdict = (action, rule, access);
        }
    }
    let (action, rule, access) = verdict;
    let is_read = std::io::stdout().is_terminal();
    if args.format.unwrap_or(if is_read { Format::Text } else { Format::Json }) == Format::Text {
        return super::print(&in_words(args, &config, (action, rule.as_ref(), access)));
    }
    let mut said = json!({ "action": action, "rule": rule });
    if access.permission != args.permission {
        said["permission"] = json!(access.permission);
        said["patterns"] = json!(access.patterns);
    }
    let source = rule.as_ref().and_then(|rule| configuration::of_rule(&config, rule));
    if let Some(source) = source {
        said["source"] = json!(source);
    }
    if rule.is_some_and(|rule| config.options.approved.contains(&rule)) {
        said["approved"] = json!(true);
    }
    super::print_json(&format!("{said}\n"))
}

/// The verdict for people: what would happen, and because of which rule.
fn in_words(
    args: &PermissionCheck,
    config: &TurnConfig,
    (action, rule, access): (Action, Option<&Rule>, &Access),
) -> String {
    let PermissionCheck { permission, pattern, .. } = args;
    let what = match action {
        Action::Allow => "allowed: it would run without a question",
        Action::Ask => "ask: a person would be asked, and where nobody can answer it is denied",
        Action::Deny => "denied: it would not run",
    };
    let mut text = format!("{} {}\n  {what}\n", visible_line(permission), visible_line(pattern));
    if access.permission != *permission {
        let patterns = access.patterns.join(", ");
        let of = visible_line(&format!("{} {patterns}", access.permission));
        text += &format!("  because the call also needs: {of}\n");
    }
    match rule {
        Some(rule) => {
            let source = configuration::of_rule(config, rule);
            let source = source.map(|source| format!(" ({source})")).unwrap_or_default();
            let is_approved = config.options.approved.contains(rule);
            let kind = if is_approved { "what \"always\" has allowed" } else { "the rule" };
            let action = json!(rule.action);
            let action = action.as_str().unwrap_or_default();
            let said = format!("{} {}: {action}{source}", rule.permission, rule.pattern);
            text += &format!("  by {kind} {}\n", visible_line(&said));
        }
        None => text += "  by no rule\n",
    }
    text
}

/// The accesses that rules judge: for a command line or a file those of a call that runs, reads or writes it.
fn accesses(
    args: &PermissionCheck,
    config: &TurnConfig,
    workspace: Workspace,
) -> anyhow::Result<Vec<Access>> {
    let PermissionCheck { permission, pattern, .. } = args;
    // the call of a tool that needs the permission
    let (name, input) = match permission.as_str() {
        "bash" => ("bash", json!({ "command": pattern })),
        "read" => ("read", json!({ "filePath": pattern })),
        "edit" => ("write", json!({ "filePath": pattern, "content": "" })),
        _ => {
            let (permission, patterns) = (permission.clone(), vec![pattern.clone()]);
            return Ok(vec![Access { permission, patterns, always: Vec::new() }]);
        }
    };
    let all = config.rules.iter().chain(config.options.restricting().flatten());
    let workspace = Workspace {
        guarded: leftfold_tools::guarded(all),
        sandbox: config.options.sandbox.clone(),
        ..workspace
    };
    let call =
        CallSpec { id: String::new(), name: name.to_owned(), input: Json::from_value(&input) };
    let resolved = leftfold_tools::resolve(&call, &workspace);
    match resolved.error {
        Some(error) => Err(Usage(error).into()),
        None => Ok(resolved.access),
    }
}

fn given(rules: &str) -> anyhow::Result<Vec<Rule>> {
    let deserializer = &mut serde_json::Deserializer::from_str(rules);
    serde_path_to_error::deserialize(deserializer).map_err(|error| {
        let form = r#"[{"permission": "bash", "pattern": "git *", "action": "allow|deny|ask"}]"#;
        let (at, why) = (error.path().to_string(), error.into_inner());
        Usage(format!("--rules: at `{at}`: {why}; expected a list such as {form}")).into()
    })
}

/// Defaults, what the agent is built with, settings, what they say of the agent, and approvals. The workspace gets what
/// settings say of it.
fn in_force(args: &PermissionCheck, workspace: &mut Workspace) -> anyhow::Result<TurnConfig> {
    let settings = resolved_settings::shown(&workspace.directory)?;
    workspace.user_folders = session_paths::user_folders(&settings);
    workspace.environment = settings.environment();
    workspace.shell.clone_from(&settings.shell_program);
    workspace.data = session_paths::data_dir().ok();
    let agents = Agents::from_settings(&settings);
    let mut rules = rules::defaults();
    let of_machine = leftfold_runtime::sandbox::options(&settings);
    rules.extend(sandbox::default_rules(Some(&of_machine)));
    rules.extend(sandbox::home_rules(Some(&of_machine)));
    let agent = match args.agent.as_deref() {
        Some(name) => {
            let agent = agents.find(name)?;
            rules.extend(agent.rules.iter().cloned());
            agent
        }
        None => agents.default(&settings)?,
    };
    let said = agents::rules(&settings, agent, &[]);
    let mut sources = Sources::default();
    let places = agents::rule_sources(&settings, agent, &[]).into_iter().map(|place| (1, place));
    sources.rules = RuleSource::all([(rules.len(), String::new())].into_iter().chain(places));
    let placed = agents.placed_restrictions(&settings, agent);
    let places = placed.iter().flatten().map(|(_, place)| (1, place.clone()));
    sources.restrictions = RuleSource::all(places);
    let mut restrictions: Vec<Vec<Rule>> =
        placed.into_iter().map(|list| list.into_iter().map(|(rule, _)| rule).collect()).collect();
    restrictions.extend(agents::about_tool(agent, &said, &args.permission).map(|rule| vec![rule]));
    rules.extend(said);
    let approved = approvals::for_worktree(&workspace.worktree).approved;
    let sandbox = Some(of_machine);
    let options = Options { restrictions, approved, sandbox, sources, ..Options::default() };
    Ok(TurnConfig { rules, options, ..TurnConfig::default() })
}
