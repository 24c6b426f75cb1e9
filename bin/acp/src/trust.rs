//! Asks the client whether the user trusts the project's settings, and obeys its changed texts, before a prompt of a
//! session that needs that. The questions are no events of the session: they are about the project, and the session may
//! not exist yet.

use std::sync::Arc;

use agent_client_protocol::v1::schema::{
    PermissionOption, PermissionOptionKind, RequestPermissionOutcome, RequestPermissionRequest,
    SessionUpdate, ToolCall, ToolCallStatus, ToolCallUpdate, ToolCallUpdateFields,
};
use leftfold_config::Trust;
use leftfold_runtime::{texts, trust};

use super::calls;
use super::errors::report;
use super::shared::Shared;

const YES: &str = "trust";
const NO: &str = "leave_out";

/// Asks about the settings, if there is something to ask that is not in `asked`, what the client was asked about before,
/// and about texts that calls have changed. A cancel of the prompt `ticket` withdraws the question.
///
/// # Errors
/// The answer cannot be stored.
pub(super) async fn ask(
    shared: &Arc<Shared>,
    ticket: u64,
    asked: &mut Option<Trust>,
) -> anyhow::Result<()> {
    let directory = shared.project().directory.clone();
    // whoever reads the settings reports what is wrong with them
    if let Ok(review) = trust::review(&directory)
        && !review.is_whole()
        && asked.as_ref() != Some(&review)
    {
        let title = "Trust the settings of this project?";
        let options = ["Trust these settings", "Leave them out"];
        if consent(shared, (ticket, "trust"), (title, options), &trust::question(&review)).await
            == Some(true)
        {
            trust::grant(&review)?;
        }
        *asked = Some(review);
    }
    let mut held = texts::held(&directory)?;
    held.retain(|text| !text.is_refused);
    if !held.is_empty() {
        let title = "Obey the texts that the agent has changed?";
        let options = ["Obey them", "Keep the texts from before"];
        let question = texts::question(&held);
        let answer = consent(shared, (ticket, "texts"), (title, options), &question).await;
        if let Some(is_accepted) = answer {
            texts::answer(&directory, &held, is_accepted)?;
        }
    }
    Ok(())
}

/// The person's answer. `None`: the question was withdrawn or cut off.
async fn consent(
    shared: &Arc<Shared>,
    (ticket, what): (u64, &str),
    (title, [yes, no]): (&str, [&str; 2]),
    question: &str,
) -> Option<bool> {
    let id = format!("{what}-{ticket}");
    let call = ToolCall::new(id.clone(), title)
        .status(ToolCallStatus::Pending)
        .content(calls::text(question));
    shared.update(SessionUpdate::ToolCall(call.clone()));
    let fields = ToolCallUpdateFields::new().title(call.title).content(call.content);
    let request = RequestPermissionRequest::new(
        shared.id.clone(),
        ToolCallUpdate::new(id.clone(), fields.status(ToolCallStatus::Pending)),
        vec![
            PermissionOption::new(YES, yes, PermissionOptionKind::AllowAlways),
            PermissionOption::new(NO, no, PermissionOptionKind::RejectOnce),
        ],
    );
    let sent = shared.connection.send_request(request);
    let withdraw = sent.cancellation_handle();
    let answer = tokio::select! {
        answer = sent.block_task() => answer.ok(),
        () = shared.prompts.taken_back(ticket) => {
            report(withdraw.cancel());
            None
        }
    };
    let answer = answer.and_then(|answer| match answer.outcome {
        RequestPermissionOutcome::Selected(selected) => Some(&*selected.option_id.0 == YES),
        RequestPermissionOutcome::Cancelled | _ => None,
    });
    let status =
        if answer == Some(true) { ToolCallStatus::Completed } else { ToolCallStatus::Failed };
    let fields = ToolCallUpdateFields::new().status(status);
    shared.update(SessionUpdate::ToolCallUpdate(ToolCallUpdate::new(id, fields)));
    answer
}
