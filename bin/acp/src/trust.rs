//! Asks the client whether the user trusts the project's settings, before the first prompt of a session that needs
//! them. The question is no event of the session: it is about the project, and the session may not exist yet.

use std::sync::Arc;

use agent_client_protocol::v1::schema::{
    PermissionOption, PermissionOptionKind, RequestPermissionOutcome, RequestPermissionRequest,
    SessionUpdate, ToolCall, ToolCallStatus, ToolCallUpdate, ToolCallUpdateFields,
};
use leftfold_config::Trust;
use leftfold_runtime::trust;

use super::calls;
use super::errors::report;
use super::shared::Shared;

const TRUST: &str = "trust";
const LEAVE_OUT: &str = "leave_out";

/// Asks, if there is something to ask that is not in `asked`, the settings that the client was asked about before.
/// After a yes the settings are trusted. A cancel of the prompt `ticket` withdraws the question.
///
/// # Errors
/// The answer cannot be stored.
pub(super) async fn ask(
    shared: &Arc<Shared>,
    ticket: u64,
    asked: &mut Option<Trust>,
) -> anyhow::Result<()> {
    // whoever reads the settings reports what is wrong with them
    let Ok(review) = trust::review(&shared.project().directory) else { return Ok(()) };
    if review.is_whole() || asked.as_ref() == Some(&review) {
        return Ok(());
    }
    let id = format!("trust-{ticket}");
    let call = ToolCall::new(id.clone(), "Trust the settings of this project?")
        .status(ToolCallStatus::Pending)
        .content(calls::text(&trust::question(&review)));
    shared.update(SessionUpdate::ToolCall(call.clone()));
    let fields = ToolCallUpdateFields::new().title(call.title).content(call.content);
    let request = RequestPermissionRequest::new(
        shared.id.clone(),
        ToolCallUpdate::new(id.clone(), fields.status(ToolCallStatus::Pending)),
        vec![
            PermissionOption::new(TRUST, "Trust these settings", PermissionOptionKind::AllowAlways),
            PermissionOption::new(LEAVE_OUT, "Leave them out", PermissionOptionKind::RejectOnce),
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
    let trusted = answer.is_some_and(|answer| match answer.outcome {
        RequestPermissionOutcome::Selected(selected) => &*selected.option_id.0 == TRUST,
        RequestPermissionOutcome::Cancelled | _ => false,
    });
    let status = if trusted { ToolCallStatus::Completed } else { ToolCallStatus::Failed };
    let fields = ToolCallUpdateFields::new().status(status);
    shared.update(SessionUpdate::ToolCallUpdate(ToolCallUpdate::new(id, fields)));
    if trusted {
        trust::grant(&review)?;
    }
    *asked = Some(review);
    Ok(())
}
