//! Permission rules from settings. Their order is that of the file: the last match wins.

use indexmap::IndexMap;
use leftfold_events::rules::{self, Rule};
use leftfold_tools::permission_of;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::error::{Error, Hint, is_slip};
use crate::source::SettingPlace;
use crate::typed::At;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
pub(crate) enum Action {
    Allow,
    Ask,
    Deny,
}

impl From<Action> for rules::Action {
    fn from(action: Action) -> Self {
        match action {
            Action::Allow => Self::Allow,
            Action::Ask => Self::Ask,
            Action::Deny => Self::Deny,
        }
    }
}

/// One action for everything, or one for each name.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(rename = "@\"allow\", \"ask\" or \"deny\"")]
#[schemars(untagged, inline)]
pub(crate) enum OneOrEach<T> {
    #[serde(rename = "a string")]
    One(Action),
    #[serde(rename = "an object")]
    Each(IndexMap<String, At<T>>),
}

/// The setting that is a rule and stands elsewhere.
pub(crate) const NETWORK_PATH: [&str; 2] = ["sandbox", "network"];

/// By permission, and then by pattern.
pub(crate) type Permission = OneOrEach<OneOrEach<Action>>;

/// A rule, with its place and text in settings.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct PlacedRule {
    pub(crate) rule: Rule,
    pub(crate) path: Vec<String>,
    pub(crate) value: Value,
    pub(crate) place: SettingPlace,
}

impl PlacedRule {
    pub(crate) fn is_of_project(&self) -> bool {
        self.place.source.of_project
    }
}

/// The rules of one source, or of one agent in it. The rules of the older key `tools` (a boolean
/// for each tool) come before those of `permission`. `holder` is the path of the object with these
/// keys.
pub(crate) fn rules(
    holder: &[&str],
    tools: &IndexMap<String, At<bool>>,
    permission: Option<&At<Permission>>,
) -> Vec<PlacedRule> {
    let placed = |path: &[&str], rule: Rule, value: Value, place: &SettingPlace| PlacedRule {
        rule,
        path: [holder, path].concat().into_iter().map(str::to_owned).collect(),
        value,
        place: place.clone(),
    };
    let one =
        |path: &[&str], permission: &str, pattern: &str, action: Action, place: &SettingPlace| {
            let action = rules::Action::from(action);
            placed(path, Rule::new(permission, pattern, action), json!(action), place)
        };
    let mut all = Vec::new();
    for (tool, is_allowed) in tools {
        let action = if **is_allowed { rules::Action::Allow } else { rules::Action::Deny };
        let rule = Rule::new(permission_of(tool), "*", action);
        all.push(placed(&["tools", tool], rule, json!(**is_allowed), is_allowed.place()));
    }
    let Some(permission) = permission else { return all };
    let names = match &**permission {
        OneOrEach::One(action) => {
            all.push(one(&["permission"], "*", "*", *action, permission.place()));
            return all;
        }
        OneOrEach::Each(names) => names,
    };
    for (name, patterns) in names {
        match &**patterns {
            OneOrEach::One(action) => {
                all.push(one(&["permission", name], name, "*", *action, patterns.place()));
            }
            OneOrEach::Each(patterns) => all.extend(patterns.iter().map(|(pattern, action)| {
                let full = action.place().source.at_home(pattern);
                one(&["permission", name, pattern], name, &full, **action, action.place())
            })),
        }
    }
    all
}

/// The rule of the setting `sandbox.network`.
pub(crate) fn of_network(action: &At<Action>) -> PlacedRule {
    let (place, action) = (action.place().clone(), rules::Action::from(**action));
    PlacedRule {
        rule: Rule::new(rules::NETWORK, "*", action),
        path: NETWORK_PATH.map(str::to_owned).to_vec(),
        value: json!(action),
        place,
    }
}

/// A warning for each rule with a permission that nothing here needs. `of_server` says whether a tool of this name may be one
/// of an MCP server; with `plugins` it may be one of theirs.
///
/// # Errors
/// In a file of Leftfold, the name is one typing mistake away from a known one: the rule would be thought to be in force.
pub(crate) fn unknown<'a>(
    rules: impl Iterator<Item = &'a PlacedRule>,
    of_server: impl Fn(&str) -> bool,
    plugins: bool,
) -> Result<Vec<String>, Error> {
    let known = || {
        leftfold_tools::TOOLS
            .iter()
            .map(|tool| tool.name())
            .chain(leftfold_tools::external::PERMISSIONS)
    };
    let mut warnings = Vec::new();
    for PlacedRule { rule, path, place, .. } in rules {
        let name = rule.permission.as_str();
        if name.contains(['*', '?']) || known().any(|known| known == name) || of_server(name) {
            continue;
        }
        let key = path.join(".");
        let right = known().find(|known| is_slip(name, known));
        if right.is_none() && plugins {
            continue;
        }
        let hint = right.map(Hint::exactly).unwrap_or_default();
        if right.is_some() && place.source.own && !plugins {
            return Err(Error::UnknownKey { place: place.clone(), key, hint });
        }
        let warning = format!(
            "{place}: `{key}` has no effect: no tool here needs the permission `{name}`{hint}"
        );
        if !warnings.contains(&warning) {
            warnings.push(warning);
        }
    }
    Ok(warnings)
}

/// A warning for each rule with the name of a tool that has another permission: calls that change
/// files need `edit`, whichever tool makes them. Also for each rule about hosts that names none.
pub(crate) fn without_effect(rules: &[PlacedRule]) -> impl Iterator<Item = String> {
    rules.iter().filter_map(|PlacedRule { rule, path, place, .. }| {
        if rule.permission == rules::HOST && !rules::host::is_pattern(&rule.pattern) {
            let path = path.join(".");
            return Some(format!(
                "{place}: `{path}` has no effect: write the name of a host, such as `example.org`, `*.example.org` \
                 or `example.org:8443`"
            ));
        }
        let meant = permission_of(&rule.permission);
        (meant != rule.permission).then(|| {
            let path = path.join(".");
            format!("{place}: `{path}` has no effect: the permission of this tool is `{meant}`")
        })
    })
}
