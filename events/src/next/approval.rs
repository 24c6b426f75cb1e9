//! Decides which patterns a person may allow for good, instead of those that a question offers.

use crate::event::Answer;
use crate::id::Seq;
use crate::rules::{self, Action, Rule};
use crate::state::State;

/// The most patterns of one answer, and the most bytes of each.
const MAX_PATTERNS: usize = 50;
const MAX_BYTES: usize = 4 << 10;

/// Why patterns are refused. The question stays open.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ApprovalRefused {
    #[error("no such question is open")]
    NotOpen,
    #[error("this question can be allowed once only")]
    OnceOnly,
    #[error("only an answer `always` takes patterns")]
    NotAlways,
    #[error("there is no pattern to allow")]
    Empty,
    #[error("{0} patterns are over the limit of {MAX_PATTERNS}")]
    TooMany(usize),
    #[error("a pattern has {0} bytes, over the limit of {MAX_BYTES}")]
    TooLong(usize),
    #[error("`{0}` has a line end or another control character")]
    Control(String),
    #[error("`{pattern}` does not match `{asked}`, which is what the question is about")]
    Misses { pattern: String, asked: String },
    #[error(
        "`{pattern}` would also allow `{denied}`, which a rule denies: write a narrower pattern"
    )]
    CoversDenial { pattern: String, denied: String },
}

/// Whether an answer to the question `of` may allow these patterns. Those that the question offers
/// always may. Others must match something that the question is about, and cover no denial as a whole:
/// a denial would still win, but whoever writes such a pattern expects something else.
///
/// # Errors
/// Why not.
pub fn may_approve(
    s: &State,
    of: Seq,
    reply: Answer,
    patterns: &[String],
) -> Result<(), ApprovalRefused> {
    let question = s.questions().into_iter().find(|(asked, _)| *asked == of);
    let (_, access) = question.ok_or(ApprovalRefused::NotOpen)?;
    if reply != Answer::Always {
        return Err(ApprovalRefused::NotAlways);
    }
    if access.always.is_empty() {
        return Err(ApprovalRefused::OnceOnly);
    }
    if patterns.is_empty() {
        return Err(ApprovalRefused::Empty);
    }
    if patterns.len() > MAX_PATTERNS {
        return Err(ApprovalRefused::TooMany(patterns.len()));
    }
    for pattern in patterns.iter().filter(|pattern| !access.always.contains(pattern)) {
        is_written_well(pattern)?;
        if !access.patterns.iter().any(|asked| rules::fits(&access.permission, pattern, asked)) {
            let (pattern, asked) = (pattern.clone(), access.patterns.join("`, `"));
            return Err(ApprovalRefused::Misses { pattern, asked });
        }
        if let Some(denied) = denial_within(s, &access.permission, pattern) {
            let (pattern, denied) = (pattern.clone(), denied.pattern.clone());
            return Err(ApprovalRefused::CoversDenial { pattern, denied });
        }
    }
    Ok(())
}

fn is_written_well(pattern: &str) -> Result<(), ApprovalRefused> {
    if pattern.trim().is_empty() {
        return Err(ApprovalRefused::Empty);
    }
    if pattern.len() > MAX_BYTES {
        return Err(ApprovalRefused::TooLong(pattern.len()));
    }
    if pattern.contains(char::is_control) {
        return Err(ApprovalRefused::Control(pattern.escape_debug().to_string()));
    }
    Ok(())
}

/// A denial in force of everything that its rule names, all of which the pattern matches too.
fn denial_within<'a>(s: &'a State, permission: &str, pattern: &str) -> Option<&'a Rule> {
    let options = &s.config.options;
    let mut lists = std::iter::once(s.config.rules.as_slice()).chain(options.restricting());
    lists.find_map(|list| {
        list.iter().find(|rule| {
            let last = || rules::evaluate(list, permission, &rule.pattern);
            rule.action == Action::Deny
                && rules::matches(&rule.permission, permission)
                && rules::fits(permission, pattern, &rule.pattern)
                && last().is_some_and(|last| last.action == Action::Deny)
        })
    })
}
