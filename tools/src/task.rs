//! `task`: gives a task to another agent in a session of its own. This module only resolves the
//! call; the session that makes it starts the child.

use std::path::PathBuf;

use leftfold_events::event::{Access, Class};
use leftfold_events::turn_config::ToolSpec;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::tool::Typed;
use crate::{Context, Error, Output, Plan, Workspace, text};

#[derive(Debug)]
pub(crate) struct Task;

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub(crate) struct Args {
    #[schemars(description = "The topic of the task, in three to five words.")]
    #[serde(default)]
    description: String,
    /// The whole task.
    prompt: String,
    /// The agent that does the task.
    #[serde(alias = "subagentType", alias = "agent")]
    subagent_type: String,
    /// The `task_id` of an earlier result, to continue that task.
    #[serde(default, alias = "taskId", skip_serializing_if = "Option::is_none")]
    task_id: Option<String>,
}

impl Typed for Task {
    type Args = Args;
    const NAME: &'static str = "task";
    const DESCRIPTION: &'static str = include_str!("../../prompts/tools/task.md");

    fn plan(args: &Args, cx: &Workspace) -> Result<Plan, Error> {
        let invalid = |problem: String| Err(Error::InvalidArguments { tool: Self::NAME, problem });
        if args.prompt.trim().is_empty() {
            return invalid("`prompt` is empty; write the whole task".to_owned());
        }
        if !cx.subagents.contains(&args.subagent_type) {
            let known = cx.subagents.join(", ");
            let wanted = text::clip(args.subagent_type.clone(), 200);
            return invalid(format!(
                "`subagent_type`: there is no subagent `{wanted}`; there are: {known}"
            ));
        }
        let pattern = vec![args.subagent_type.clone()];
        let access = Access {
            permission: Self::NAME.to_owned(),
            patterns: pattern.clone(),
            always: pattern,
        };
        Ok(Plan { access: vec![access], timeout: cx.task_timeout, ..Plan::new(Class::Child) })
    }

    async fn run(_: Args, _: Vec<PathBuf>, _: Context) -> Result<Output, Error> {
        Err(Error::Refused("A task can only run in a session.".to_owned()))
    }
}

/// The agents that `task` may name with these tools; `None`: the tools do not say.
pub fn subagents(tools: &[ToolSpec]) -> Option<Vec<String>> {
    let Some(task) = tools.iter().find(|tool| tool.name == Task::NAME) else {
        return Some(Vec::new());
    };
    let schema = task.schema.value();
    let properties = &schema["properties"];
    // tools in logs of earlier versions have the second name
    let agent = properties.get("subagent_type").or_else(|| properties.get("subagentType"));
    let names = agent?["enum"].as_array()?;
    Some(names.iter().filter_map(|name| name.as_str().map(str::to_owned)).collect())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::testing::Site;

    #[test]
    fn the_tools_say_which_agents_take_tasks() {
        let tool = |name: &str, agents: serde_json::Value| ToolSpec {
            name: name.to_owned(),
            description: String::new(),
            schema: leftfold_events::Json::from_value(
                &json!({ "properties": { "subagent_type": agents } }),
            ),
        };
        let named = tool("task", json!({ "enum": ["general", "explore"] }));
        assert_eq!(subagents(&[named]).unwrap(), ["general", "explore"]);
        assert_eq!(subagents(&[tool("task", json!({ "type": "string" }))]), None);
        assert_eq!(subagents(&[tool("read", json!({}))]), Some(Vec::new()));
    }

    #[test]
    fn a_task_is_for_an_agent_that_there_is() {
        let site = Site::new();
        let mut workspace = site.workspace();
        workspace.subagents = vec!["general".to_owned()];
        workspace.task_timeout = 7_000;
        for (input, problem) in [
            (json!({ "prompt": "look", "subagent_type": "general" }), None),
            (json!({ "prompt": " ", "subagentType": "general" }), Some("`prompt` is empty")),
            (json!({ "prompt": "look", "subagentType": "nobody" }), Some("there are: general")),
            (json!({ "prompt": "look" }), Some("missing field `subagent_type`")),
        ] {
            let resolved = crate::find("task")
                .unwrap()
                .resolve(&leftfold_events::Json::from_value(&input), &workspace);
            match problem {
                Some(problem) => {
                    let error = resolved.error.unwrap();
                    assert!(error.contains(problem), "{error}");
                }
                None => {
                    assert_eq!((resolved.class, resolved.error.clone()), (Class::Child, None));
                    assert_eq!(resolved.access[0].patterns, ["general"]);
                    assert_eq!(resolved.timeout, 7_000);
                }
            }
        }
    }
}
