//! `todoread`: shows the session's list of todos.

use std::path::PathBuf;

use leftfold_events::event::Class;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::tool::{ToolKind, Typed};
use crate::{Context, Error, Output, Plan, Workspace, todowrite};

#[derive(Debug)]
pub(crate) struct TodoRead;

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub(crate) struct Args {}

impl Typed for TodoRead {
    type Args = Args;
    const NAME: &'static str = "todoread";
    const DESCRIPTION: &'static str = include_str!("../../prompts/tools/todoread.md");
    const KIND: ToolKind = ToolKind::Think;

    fn plan(_: &Args, _: &Workspace) -> Result<Plan, Error> {
        Ok(Plan::new(Class::Read).allowed_by("todoread"))
    }

    async fn run(_: Args, _: Vec<PathBuf>, cx: Context) -> Result<Output, Error> {
        Ok(todowrite::listed(&cx.todos))
    }
}

#[cfg(test)]
mod tests {
    use leftfold_events::event::{TodoItem, TodoPriority, TodoStatus};
    use serde_json::{Value, json};

    use super::*;
    use crate::testing::Site;

    #[tokio::test]
    async fn prints_the_list_it_is_given() {
        let site = Site::new();
        let resolved = site.resolve("todoread", &Value::Null);
        assert_eq!(resolved.error, None);
        let item = TodoItem {
            content: "ship".to_owned(),
            status: TodoStatus::Pending,
            priority: TodoPriority::Low,
        };
        let cx = Context { todos: vec![item], ..site.context() };
        let output = crate::run(&resolved, cx).await;
        let read: Value = serde_json::from_str(&output.output).unwrap();
        assert_eq!(read, json!([{ "content": "ship", "status": "pending", "priority": "low" }]));
        assert_eq!(output.todos, None);
    }
}
