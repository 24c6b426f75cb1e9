//! Permission rules from settings. Their order is that of the file: the last match wins.

use leftfold_events::rules::{Action, Rule, permission_of};
use serde_json::Value;

use super::view::View;
use super::{Error, Place};

const ACTIONS: [(&str, Action); 3] =
    [("allow", Action::Allow), ("ask", Action::Ask), ("deny", Action::Deny)];

/// A rule, and how and where settings say so.
#[derive(Clone, Debug)]
pub(super) struct Said {
    pub(super) rule: Rule,
    pub(super) path: Vec<String>,
    pub(super) value: Value,
    pub(super) place: Place,
}

impl Said {
    fn new(rule: Rule, path: &[&str], view: &View<'_>) -> Self {
        let path = path.iter().map(|key| (*key).to_owned()).collect();
        Self { rule, path, value: view.value(), place: view.at().clone() }
    }
}

/// The rules of one source, or of one agent in it: those of the older key `tools` (a boolean for
/// each tool) come before those of `permission`. `path` is the holder's.
pub(super) fn rules(holder: &View<'_>, path: &[&str]) -> Result<Vec<Said>, Error> {
    let mut said = Vec::new();
    if let Some(tools) = holder.get("tools")? {
        for (tool, view) in tools.entries()? {
            let action = if view.boolean()? { Action::Allow } else { Action::Deny };
            let rule = Rule::new(permission_of(tool), "*", action);
            said.push(Said::new(rule, &[path, &["tools", tool]].concat(), &view));
        }
    }
    if let Some(permission) = holder.get("permission")? {
        let path = [path, &["permission"]].concat();
        if permission.is_map() {
            for (name, view) in permission.entries()? {
                one(name, &view, &path, &mut said)?;
            }
        } else {
            said.push(Said::new(Rule::new("*", "*", action(&permission)?), &path, &permission));
        }
    }
    Ok(said)
}

/// Rules that nothing is ever judged by, with what was meant: calls that change files need `edit`,
/// whichever tool they are for (SPEC Q7).
pub(super) fn without_effect(said: &[Said]) -> impl Iterator<Item = String> {
    said.iter().filter_map(|Said { rule, path, place, .. }| {
        let meant = permission_of(&rule.permission);
        (meant != rule.permission).then(|| {
            let path = path.join(".");
            format!("{place}: `{path}` has no effect: the permission of this tool is `{meant}`")
        })
    })
}

/// The rules of every agent under `agent`.
pub(super) fn agents(root: &View<'_>) -> Result<Vec<(String, Vec<Said>)>, Error> {
    let Some(agents) = root.get("agent")? else { return Ok(Vec::new()) };
    let entries = agents.entries()?.into_iter();
    entries.map(|(name, view)| Ok((name.to_owned(), of_agent(name, &view)?))).collect()
}

/// An agent may have any keys, but rules that are lost to a slip would be missed too late.
fn of_agent(name: &str, agent: &View<'_>) -> Result<Vec<Said>, Error> {
    const KEYS: [&str; 2] = ["permission", "tools"];
    for (key, view) in agent.entries()?.iter().filter(|(key, _)| !KEYS.contains(key)) {
        view.no_slip_of(key, &KEYS)?;
    }
    rules(agent, &["agent", name])
}

/// A bare action stands for every pattern.
fn one(
    permission: &str,
    view: &View<'_>,
    path: &[&str],
    said: &mut Vec<Said>,
) -> Result<(), Error> {
    let path = [path, &[permission]].concat();
    if !view.is_map() {
        said.push(Said::new(Rule::new(permission, "*", action(view)?), &path, view));
        return Ok(());
    }
    for (pattern, view) in view.entries()? {
        let full = view.at().source.at_home(pattern);
        let rule = Rule::new(permission, full, action(&view)?);
        said.push(Said::new(rule, &[path.as_slice(), &[pattern]].concat(), &view));
    }
    Ok(())
}

fn action(view: &View<'_>) -> Result<Action, Error> {
    view.one_of(&ACTIONS)
}
