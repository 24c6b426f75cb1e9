//! Permission rules from settings. Their order is that of the file: the last match wins.

use leftfold_events::rules::{Action, Rule, permission_of};

use super::Error;
use super::view::View;

const ACTIONS: [(&str, Action); 3] =
    [("allow", Action::Allow), ("ask", Action::Ask), ("deny", Action::Deny)];

/// The rules of one source, or of one agent in it: those of the older key `tools` (a boolean for
/// each tool) come before those of `permission`.
pub(super) fn rules(holder: &View<'_>) -> Result<Vec<Rule>, Error> {
    let mut rules = Vec::new();
    if let Some(tools) = holder.get("tools")? {
        for (tool, enabled) in tools.entries()? {
            let action = if enabled.boolean()? { Action::Allow } else { Action::Deny };
            rules.push(Rule::new(permission_of(tool), "*", action));
        }
    }
    if let Some(permission) = holder.get("permission")? {
        if permission.is_map() {
            for (name, view) in permission.entries()? {
                one(name, &view, &mut rules)?;
            }
        } else {
            rules.push(Rule::new("*", "*", action(&permission)?));
        }
    }
    Ok(rules)
}

/// The rules of every agent under `agent`.
pub(super) fn agents(root: &View<'_>) -> Result<Vec<(String, Vec<Rule>)>, Error> {
    let Some(agents) = root.get("agent")? else { return Ok(Vec::new()) };
    let entries = agents.entries()?.into_iter();
    entries.map(|(name, view)| Ok((name.to_owned(), rules(&view)?))).collect()
}

/// A bare action stands for every pattern.
fn one(permission: &str, view: &View<'_>, rules: &mut Vec<Rule>) -> Result<(), Error> {
    if !view.is_map() {
        rules.push(Rule::new(permission, "*", action(view)?));
        return Ok(());
    }
    for (pattern, view) in view.entries()? {
        let pattern = view.at().source.at_home(pattern);
        rules.push(Rule::new(permission, pattern, action(&view)?));
    }
    Ok(())
}

fn action(view: &View<'_>) -> Result<Action, Error> {
    view.one_of(&ACTIONS)
}
