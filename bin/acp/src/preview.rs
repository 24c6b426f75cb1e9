//! What a call would change, as the client shows it to whoever is asked.

use std::sync::Arc;

use agent_client_protocol::v1::schema::ToolCallContent;
use leftfold_tools::{FilePreview, Workspace};

use super::calls;
use super::view::Question;

/// The question with what would become of the files as they are now, where that can be said.
pub(super) async fn with_change(mut question: Question, workspace: &Arc<Workspace>) -> Question {
    let Some(change) = question.change.take() else { return question };
    let workspace = Arc::clone(workspace);
    let files = move || leftfold_tools::preview(&change, &workspace);
    // files are read; without an answer the question is as good as it was
    let files = tokio::task::spawn_blocking(files).await.ok().flatten();
    let changes = files.unwrap_or_default();
    let content = question.call.fields.content.get_or_insert_default();
    content.extend(changes.iter().flat_map(shown));
    question
}

fn shown(file: &FilePreview) -> Vec<ToolCallContent> {
    let mut shown = calls::changes(&file.diff, &file.path.to_string_lossy());
    if file.cut {
        let FilePreview { name, additions, deletions, .. } = file;
        let more =
            format!("{name}: +{additions} -{deletions}, which is too long to be shown whole");
        shown.extend(calls::text(&more));
    }
    shown
}
