//! `leftfold permission`: what the rules say, and answers to what they ask.

use std::process::ExitCode;

use anyhow::{Context, bail};
use leftfold_events::rules::{self, Action, Rule};
use serde_json::{Value, json};

use crate::Usage;
use crate::cli::{PermissionAnswer, PermissionCheck, PermissionCommand};
use crate::model;
use crate::settings;
use crate::socket::client;

pub(crate) fn permission(command: &PermissionCommand) -> anyhow::Result<ExitCode> {
    match command {
        PermissionCommand::Answer(args) => answer(args),
        PermissionCommand::Check(args) => check(args),
    }
}

fn answer(args: &PermissionAnswer) -> anyhow::Result<ExitCode> {
    let place = super::place(&args.session)?;
    let session = place.session;
    let mut node = client::connect(&place.store).map_err(|error| {
        tracing::debug!("no node to answer: {error}");
        anyhow::anyhow!(
            "no node runs session {session}, so nobody takes answers: \
             `leftfold resume {session} --permission-mode ask` asks again"
        )
    })?;
    let mut params = json!({
        "session": session,
        "call": args.call,
        "reply": args.reply.name(),
        "by": "leftfold permission answer",
    });
    if let Some(feedback) = &args.feedback {
        params["feedback"] = json!(feedback);
    }
    let answered = node.call("_leftfold/answer", &params);
    let answered =
        answered.with_context(|| format!("`leftfold resume {session}` if the node is gone"))?;
    if answered["accepted"] == true {
        return Ok(ExitCode::SUCCESS);
    }
    match (&answered["of"], answered["by"].as_str()) {
        (of, Some(by)) => bail!("the question at seq {of} was already answered by {by}"),
        (Value::Null, None) => bail!("call `{}` of session {session} has no question", args.call),
        (of, None) => bail!("the question at seq {of} is closed: nobody answered it in time"),
    }
}

fn check(args: &PermissionCheck) -> anyhow::Result<ExitCode> {
    let rules = match &args.rules {
        Some(rules) => given(rules)?,
        None => in_force(args.agent.as_deref())?,
    };
    let rule = rules::evaluate(&rules, &args.permission, &args.pattern);
    let action = rule.map_or(Action::Ask, |rule| rule.action);
    super::print(&format!("{}\n", json!({ "action": action, "rule": rule })))
}

fn given(rules: &str) -> anyhow::Result<Vec<Rule>> {
    let deserializer = &mut serde_json::Deserializer::from_str(rules);
    serde_path_to_error::deserialize(deserializer).map_err(|error| {
        let form = r#"[{"permission": "bash", "pattern": "git *", "action": "allow|deny|ask"}]"#;
        let (at, why) = (error.path().to_string(), error.into_inner());
        Usage(format!("--rules: at `{at}`: {why}; expected a list such as {form}")).into()
    })
}

/// Defaults, then settings, then what they say of the agent.
fn in_force(agent: Option<&str>) -> anyhow::Result<Vec<Rule>> {
    let directory = std::env::current_dir()?;
    let settings = settings::load(&directory, &model::environment).map_err(model::usage)?;
    let agent = agent.unwrap_or(super::run::AGENT);
    let known = || settings.agent_rules.iter().any(|(name, _)| name == agent);
    if agent != super::run::AGENT && !known() {
        return Err(Usage(format!("there is no agent `{agent}` in the settings")).into());
    }
    let mut rules = rules::defaults();
    rules.extend(settings.rules.iter().chain(settings.rules_of(agent)).cloned());
    Ok(rules)
}
