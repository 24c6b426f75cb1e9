//! Texts for models: about calls that did not run to their end, and the fixed texts of requests.
//! They are in one place, so that their tone and advice agree.

use crate::event::PromptPart;
use crate::rules::{Action, HOST, Rule, host};
use crate::time::Time;
use crate::verdict::QUESTION;

/// The result of a call that has none yet.
pub(crate) const INTERRUPTED: &str = "[Tool execution was interrupted]";
pub(crate) const ABORTED: &str = "Tool execution aborted";
pub(crate) const CLEARED: &str = "[Old tool result content cleared]";
pub(crate) const NO_OUTPUT: &str = "(no output)";

pub(crate) const LOST: &str = "The outcome of this call is unknown: the program stopped while it \
    was running. It may have taken effect fully, partly or not at all. Look at the current state \
    before you run it again.";

pub(crate) const NEVER_STARTED: &str =
    "This call was not started: the program stopped before it could run.";

pub(crate) const IMPORTED_SECRET: &str = "This call was not started: it comes from an imported \
    session and names a secret.";

/// A prompt without any text still needs a block that is not empty.
pub(crate) const EMPTY_PROMPT: &str = "(empty prompt)";

/// Ends the request for the last allowed step of the turn.
pub(crate) const LAST_STEP: &str = "This is the last step of this turn: the limit of steps is \
    reached. Use no tools now, because you would not see their results. Answer in plain text: say \
    what is done, what is left to do, and what should come next.";

/// Follows a reply whose text the output limit has cut off.
pub(crate) const CUT_TEXT: &str = "Your reply was cut off: it reached the limit of output tokens. \
    Continue exactly where it ended, even within a word. Do not repeat or introduce anything.";

/// Follows the results of a reply with calls that the output limit has cut off.
pub(crate) const CUT_CALLS: &str = "Your reply was cut off: it reached the limit of output tokens. A \
    call that was not complete did not run. Make it again in smaller pieces, for example by writing a \
    long file in several calls.";

/// Follows a reply that ended for an unknown reason.
pub(crate) const UNKNOWN_END: &str = "Your reply ended for an unknown reason. If it is cut off, \
    continue exactly where it ended and do not repeat anything. If it is complete, say so in one \
    sentence on a new line.";

/// Follows a reply without text that ended for an unknown reason.
pub(crate) const EMPTY_REPLY: &str = "Your last reply was empty. Answer now.";

/// Follows a reply that is text where the turn asks for a structured answer.
pub(crate) const NO_STRUCTURED_OUTPUT: &str = "Your reply is not an answer yet: it was text. Call the \
    tool StructuredOutput with the answer as its arguments. They must fit its schema.";

/// The error of a turn that got no valid structured answer in `tries` tries; `refused` is the reason why the last
/// one was not valid.
pub(crate) fn invalid_output(refused: Option<&str>, tries: u32) -> String {
    let tries = if tries == 1 { "1 try".to_owned() } else { format!("{tries} tries") };
    match refused {
        Some(why) => format!("the model gave no answer that fits the schema in {tries}: {why}"),
        None => format!("the model gave no structured answer in {tries}: its last reply was text"),
    }
}

/// Follows the text of a reply that was interrupted.
pub(crate) const INTERRUPTED_REPLY: &str =
    "Your reply was interrupted here, before its end. The user has seen the text above.";

/// Replaces a subtask in a prompt.
pub(crate) fn subtask(agent: &str) -> String {
    format!("The agent `{agent}` does this first; its task and what came of it follow.")
}

/// Replaces the output of a command that was interrupted before it ran.
pub(crate) fn not_run(line: &str) -> String {
    format!("[`{line}` was not run]")
}

/// Follows the result of a subtask.
pub(crate) const TELL_OF_IT: &str = "Tell what came of that, as an answer to what was asked, and go on with what else is to be done.";

/// Begins the work of an agent that takes over with a person's agreement.
pub(crate) const PLAN_APPROVED: &str =
    "The plan has been approved. You are the agent `build` now: carry it out.";
pub(crate) const PLANNING_APPROVED: &str =
    "Planning has been approved. You are the agent `plan` now: plan before anything is changed.";

/// The result of a call of the last allowed step: no model would see its real result.
pub(crate) const NO_STEP_LEFT: &str = "This call was not run: it was made in the last step of the turn, whose limit of steps is reached.";

pub(crate) fn overspent(max: f64, cost: f64) -> String {
    format!("the limit of cost is {}, and the turn has cost {}", dollars(max), dollars(cost))
}

pub(crate) fn out_of_time(max: u64, taken: u64) -> String {
    format!("{OF_TIME} is {}, and the turn has taken {}", duration(max), duration(taken))
}

/// Begins the error of a turn that has reached its limit of time.
pub(crate) const OF_TIME: &str = "the limit of time";

pub(crate) fn summary(text: &str) -> String {
    format!("What has happened in this conversation so far, in summary:\n\n{text}")
}

/// Follows a summary that started automatically.
pub(crate) const GO_ON: &str =
    "Go on with the next steps if there are any; stop and ask if it is not clear how to proceed.";

/// Replaces media.
pub(crate) fn media(mime: &str, name: &str) -> String {
    let space = if name.is_empty() { "" } else { " " };
    format!("[{mime}{space}{name} was attached here; it is no longer shown]")
}

pub(crate) fn media_part(part: &PromptPart) -> PromptPart {
    let (mime, name) = (part.mime.as_deref(), part.name.as_deref());
    PromptPart::text(media(mime.unwrap_or("a file"), name.unwrap_or_default()))
}

/// The error of a request whose server asks for a longer wait than a turn without a person accepts.
pub(crate) fn long_wait(error: &str, passes: Time) -> String {
    format!("{error}; the limit passes at {passes}, later than `retry.max_wait` lets a turn wait")
}

/// The error of a request whose image was refused.
pub(crate) fn refused_image(error: &str) -> String {
    format!("{error}; images are left out from here on")
}

/// Replaces an image that an API would refuse.
pub(crate) fn unfit(mime: &str, name: &str, why: &str) -> String {
    let space = if name.is_empty() { "" } else { " " };
    format!("[{mime}{space}{name} was attached here and is not shown: {why}]")
}

/// Characters of a prompt that a summary leaves: a longer one may be what fills the context.
const MAX_KEPT_PROMPT: usize = 20_000;

/// The text of a prompt that a summary leaves.
pub(crate) fn cut_prompt(text: &str) -> String {
    match text.char_indices().nth(MAX_KEPT_PROMPT) {
        Some((end, _)) => format!("{}\n[the rest of this prompt is left out here]", &text[..end]),
        None => text.to_owned(),
    }
}

/// Replaces a file that the model cannot read.
pub(crate) fn unreadable(mime: &str, name: &str) -> String {
    let space = if name.is_empty() { "" } else { " " };
    format!("[{mime}{space}{name} was attached here; you can not look at files of this kind]")
}

/// The beginning of a long result, for a second request for a summary.
pub(crate) fn shortened(output: &str, chars: usize) -> String {
    match output.char_indices().nth(chars) {
        Some((end, _)) => format!("{}\n[the rest of this result is left out here]", &output[..end]),
        None => output.to_owned(),
    }
}

/// Ends the request for a summary if a person has said what it is to contain.
pub(crate) fn summary_instructions(instructions: &str) -> String {
    format!("The user has asked for this summary and says about it:\n\n{instructions}")
}

/// Ends the second request for a summary if the first one was cut off.
pub(crate) fn shorter_summary(max_output: u64) -> String {
    let words = (max_output / 4).clamp(50, 1_000);
    format!("The first summary was too long and was cut off. Write at most {words} words.")
}

pub(crate) fn to_title(prompt: &str) -> String {
    format!("Write the title of a conversation that begins with this message:\n\n{prompt}")
}

pub(crate) fn to_sum_up(prompt: &str, answer: &str) -> String {
    format!(
        "Sum up a conversation that begins with this message:\n\n{prompt}\n\nIt ended its first turn \
         with this answer:\n\n{answer}"
    )
}

pub(crate) fn silent(millis: u64) -> String {
    format!("the provider was silent for {} s", seconds(millis))
}

pub(crate) fn timed_out(millis: u64, tail: &str) -> String {
    let told = format!("The call was stopped after {} s, its time limit.", seconds(millis));
    if tail.is_empty() { told } else { format!("{told} Its output until then:\n{tail}") }
}

pub(crate) fn check_timed_out() -> String {
    "The call was not run: working out what it would do took too long.".to_owned()
}

pub(crate) fn denied(rule: Option<&Rule>, permission: &str, patterns: &[String]) -> String {
    let what = format!("{permission} on {}", patterns.join(", "));
    let is_denied = rule.is_some_and(|rule| rule.action == Action::Deny);
    if permission == HOST
        && !is_denied
        && let Some(host) = patterns.first().and_then(|address| host::pattern_of(address))
    {
        return format!(
            "Permission denied: {what}. Nobody is there to be asked about this host. The user can allow it in the \
             settings: \"permission\": {{ \"host\": {{ \"{host}\": \"allow\" }} }}. Do not try to get round \
             it; go on without this page or say what you need."
        );
    }
    match rule {
        None if permission == QUESTION => format!(
            "Nobody is there to be asked: {}. Decide yourself if that is safe, or say in your answer \
             what you need to know.",
            patterns.join(", ")
        ),
        Some(rule) => format!(
            "Permission denied: {what}. The rule that decided is {} `{}`: {:?}. Do not try to get \
             round it; go on without this call or say what you need.",
            rule.permission, rule.pattern, rule.action
        ),
        None => format!("Permission denied: {what}. No rule allows it and nobody is there to ask."),
    }
}

pub(crate) fn vetoed(plugin: &str, reason: &str) -> String {
    format!(
        "The plugin `{plugin}` does not allow this call: {reason}\n\
         Do not try to get round it; go on without this call or say what you need."
    )
}

pub(crate) fn unanswered(permission: &str, patterns: &[String]) -> String {
    format!(
        "Permission denied: nobody answered in time whether {permission} on {} is allowed.",
        patterns.join(", ")
    )
}

pub(crate) fn rejected(feedback: Option<&str>) -> String {
    match feedback {
        Some(feedback) => format!("The user rejected this call and said: {feedback}"),
        None => "The user rejected this call.".to_owned(),
    }
}

pub(crate) fn rejected_with(feedback: &str) -> String {
    format!(
        "The user rejected another call of this reply, so this one was not run either. The user said: {feedback}"
    )
}

pub(crate) fn too_deep(max: u32) -> String {
    format!(
        "This subagent was not started: subagents may be nested {max} deep (`task.max_depth` in the \
         settings), and this session is that deep. Do the task yourself."
    )
}

/// Rounded to a millionth, without trailing zeros.
fn dollars(amount: f64) -> String {
    let text = format!("${amount:.6}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

fn duration(millis: u64) -> String {
    humantime::format_duration(std::time::Duration::from_millis(millis)).to_string()
}

fn seconds(millis: u64) -> String {
    if millis.is_multiple_of(1000) {
        (millis / 1000).to_string()
    } else {
        format!("{}.{:03}", millis / 1000, millis % 1000).trim_end_matches('0').to_owned()
    }
}
