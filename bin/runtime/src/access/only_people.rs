//! Refuses what only people may do when this process acts for a call: answer a question, approve,
//! trust, or change a session that exists. The socket asks the same of its clients.

use leftfold_process::Origin;

use crate::Usage;

/// Succeeds if a person started this process. `what` is the command or method, for the message.
///
/// # Errors
/// A [`Usage`] error: a call, an MCP server or a plugin started this process.
pub fn require(what: &str) -> Result<(), Usage> {
    match Origin::of_this_process() {
        Origin::Person => Ok(()),
        Origin::Call => Err(Usage(format!(
            "a command of a session cannot answer its own questions: run `{what}` yourself, in a \
             terminal that Leftfold did not start"
        ))),
    }
}

/// The message for a client that acts for a call.
pub(crate) fn refusal(method: &str) -> String {
    format!(
        "a command of this session cannot answer its own questions: only a person may send \
         `{method}`, from a process that Leftfold did not start"
    )
}
