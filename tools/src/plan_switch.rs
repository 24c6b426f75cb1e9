//! `plan_enter` and `plan_exit`: the model asks to begin or end planning. A person is asked through
//! the permission `question`. After a yes the session switches the agent; this module only defines
//! the question and its answers.

use std::path::PathBuf;

use leftfold_events::event::{Access, CallKind, Class};
use leftfold_events::state::switch::{NO, YES};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::tool::Typed;
use crate::{Context, Error, Output, Plan, Workspace};

/// Their names, and the agents that take over.
pub const PLAN_ENTER: &str = "plan_enter";
pub const PLAN_EXIT: &str = "plan_exit";
const PLAN: &str = "plan";
const BUILD: &str = "build";

#[derive(Debug)]
pub(crate) struct PlanEnter;

#[derive(Debug)]
pub(crate) struct PlanExit;

// The question stands in the logged arguments, as for the tool `question`, so that every client can
// show it. The description is part of the schema that models see, and golden files hold it.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(
    description = "What is asked stands among the arguments in the log, as that of `question` does: so every client\ncan show it."
)]
pub(crate) struct EnterArgs {
    #[serde(skip_deserializing, default = "whether_to_plan")]
    #[schemars(skip)]
    questions: [Item; 1],
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub(crate) struct ExitArgs {
    #[serde(skip_deserializing, default = "whether_to_build")]
    #[schemars(skip)]
    questions: [Item; 1],
}

#[derive(Debug, Serialize)]
struct Item {
    question: &'static str,
    header: &'static str,
    options: [Choice; 2],
}

#[derive(Debug, Serialize)]
struct Choice {
    label: &'static str,
    description: &'static str,
}

fn whether_to_plan() -> [Item; 1] {
    [Item {
        question: "Switch to the agent `plan`, to plan before anything is changed?",
        header: "Planning",
        options: [
            Choice { label: YES, description: "plan first, without changing anything" },
            Choice { label: NO, description: "stop here" },
        ],
    }]
}

fn whether_to_build() -> [Item; 1] {
    [Item {
        question: "The plan is ready. Switch to the agent `build`, and have it carried out?",
        header: "Plan",
        options: [
            Choice { label: YES, description: "carry the plan out" },
            Choice { label: NO, description: "stop here, still planning" },
        ],
    }]
}

/// Has no effect of its own, so it is safe to repeat after a crash.
fn plan(name: &str, agent: &str, [item]: &[Item; 1]) -> Plan {
    let asked = Access {
        permission: "question".to_owned(),
        patterns: vec![item.question.to_owned()],
        always: Vec::new(),
    };
    let kind = CallKind::SwitchAgent { agent: agent.to_owned() };
    let mut plan = Plan { kind, ..Plan::new(Class::Read) }.allowed_by(name);
    plan.access.push(asked);
    plan
}

fn elsewhere() -> Result<Output, Error> {
    Err(Error::Refused("The agent can only be changed in a session.".to_owned()))
}

impl Typed for PlanEnter {
    type Args = EnterArgs;
    const NAME: &'static str = PLAN_ENTER;
    const DESCRIPTION: &'static str = include_str!("../../prompts/tools/plan_enter.md");

    fn plan(args: &EnterArgs, _: &Workspace) -> Result<Plan, Error> {
        Ok(plan(Self::NAME, PLAN, &args.questions))
    }

    async fn run(_: EnterArgs, _: Vec<PathBuf>, _: Context) -> Result<Output, Error> {
        elsewhere()
    }
}

impl Typed for PlanExit {
    type Args = ExitArgs;
    const NAME: &'static str = PLAN_EXIT;
    const DESCRIPTION: &'static str = include_str!("../../prompts/tools/plan_exit.md");

    fn plan(args: &ExitArgs, _: &Workspace) -> Result<Plan, Error> {
        Ok(plan(Self::NAME, BUILD, &args.questions))
    }

    async fn run(_: ExitArgs, _: Vec<PathBuf>, _: Context) -> Result<Output, Error> {
        elsewhere()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::testing::{Site, kind};

    #[tokio::test]
    async fn they_take_nothing_and_ask_one_question_with_two_answers() {
        let site = Site::new();
        for name in [PLAN_ENTER, PLAN_EXIT] {
            let schema = crate::find(name).unwrap().schema().value();
            assert_eq!(schema["properties"], json!({}), "{name}");
            for input in [json!({}), Value::Null, json!({ "questions": "?" })] {
                let resolved = site.resolve(name, &input);
                assert_eq!((&resolved.error, resolved.class), (&None, Class::Read), "{name}");
                let asked = &resolved.input.value()["questions"][0];
                let labels = [&asked["options"][0]["label"], &asked["options"][1]["label"]];
                assert_eq!(labels, [YES, NO], "{name}");
                let access: Vec<_> = resolved
                    .access
                    .iter()
                    .map(|a| (a.permission.as_str(), &a.patterns[0]))
                    .collect();
                let question = asked["question"].as_str().unwrap().to_owned();
                assert_eq!(access, [(name, &"*".to_owned()), ("question", &question)]);
                let output = crate::run(&resolved, site.context()).await;
                assert_eq!(kind(&output), "refused");
            }
        }
    }
}
