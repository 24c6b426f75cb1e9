//! `todowrite`: replaces the session's list of todos.

use std::path::PathBuf;

use leftfold_events::event::{Class, TodoItem, TodoPriority, TodoStatus};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::tool::{ToolKind, Typed};
use crate::{Context, Error, Output, Plan, Workspace};

#[derive(Debug)]
pub(crate) struct TodoWrite;

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub(crate) struct Args {
    /// The whole new list, in order. Items that are not in it are removed.
    todos: Vec<Item>,
}

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
struct Item {
    #[schemars(description = "The task, in one short sentence.")]
    content: String,
    /// The status of the task.
    status: Status,
    /// The priority of the task. Default: medium.
    #[serde(default)]
    priority: Priority,
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Status {
    Pending,
    InProgress,
    Completed,
    Cancelled,
}

#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Priority {
    High,
    #[default]
    Medium,
    Low,
}

impl From<Item> for TodoItem {
    fn from(item: Item) -> Self {
        let status = match item.status {
            Status::Pending => TodoStatus::Pending,
            Status::InProgress => TodoStatus::InProgress,
            Status::Completed => TodoStatus::Completed,
            Status::Cancelled => TodoStatus::Cancelled,
        };
        let priority = match item.priority {
            Priority::High => TodoPriority::High,
            Priority::Medium => TodoPriority::Medium,
            Priority::Low => TodoPriority::Low,
        };
        Self { content: item.content, status, priority }
    }
}

impl Typed for TodoWrite {
    type Args = Args;
    const NAME: &'static str = "todowrite";
    const DESCRIPTION: &'static str = include_str!("../../prompts/tools/todowrite.md");
    const KIND: ToolKind = ToolKind::Think;

    fn plan(_: &Args, _: &Workspace) -> Result<Plan, Error> {
        Ok(Plan::new(Class::Write).allowed_by("todowrite"))
    }

    async fn run(args: Args, _: Vec<PathBuf>, _: Context) -> Result<Output, Error> {
        let todos: Vec<TodoItem> = args.todos.into_iter().map(TodoItem::from).collect();
        Ok(Output { todos: Some(todos.clone()), ..listed(&todos) })
    }
}

/// The output for a list: JSON, with the number of open todos as title.
pub(crate) fn listed(todos: &[TodoItem]) -> Output {
    let done = |t: &&TodoItem| matches!(t.status, TodoStatus::Completed | TodoStatus::Cancelled);
    let open = todos.len() - todos.iter().filter(done).count();
    // serialising these types to memory cannot fail
    let text = serde_json::to_string_pretty(todos).unwrap_or_default();
    Output::new(format!("{open} todos open"), text, &json!({ "todos": todos, "open": open }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Site;

    #[tokio::test]
    async fn replaces_the_list() {
        let site = Site::new();
        let input = json!({ "todos": [
            { "content": "a", "status": "in_progress", "priority": "high" },
            { "content": "b", "status": "completed" },
        ]});
        let resolved = site.resolve("todowrite", &input);
        assert_eq!((resolved.class, resolved.paths.len()), (Class::Write, 0));
        assert_eq!(resolved.access[0].permission, "todowrite");
        assert_eq!(resolved.access[0].patterns, ["*"]);
        let output = crate::run(&resolved, site.context()).await;
        let todos = output.todos.unwrap();
        assert_eq!(todos[0].status, TodoStatus::InProgress);
        assert_eq!((todos[1].content.as_str(), todos[1].priority), ("b", TodoPriority::Medium));
        assert_eq!(output.title, "1 todos open");
        let emptied = site.run("todowrite", &json!({ "todos": [] })).await;
        assert_eq!(emptied.todos, Some(Vec::new()));
    }
}
