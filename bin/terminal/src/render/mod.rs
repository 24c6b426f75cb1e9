//! Turns texts and results into lines for the screen. Everything here is a function of its
//! arguments: nothing reads a terminal, a clock or the environment, and no line contains a control
//! character or is wider than asked.
//!
//! | module | purpose |
//! |---|---|
//! | `wrap` | lays pieces of styled text out in lines of a width |
//! | `markdown` | a complete Markdown text |
//! | `stream` | a Markdown text that arrives in pieces |
//! | `table` | the table of a Markdown text |
//! | `highlight` | colours of code |
//! | `diff` | changes to files |
//! | `context` | what fills the model's context |

mod context;
mod diff;
mod highlight;
mod markdown;
mod stream;
mod table;
#[cfg(test)]
pub(crate) mod tests;
pub(crate) mod wrap;

pub(crate) use context::context;
pub(crate) use diff::{DiffOptions, diff, lines_of as diff_lines};
pub(crate) use markdown::markdown;
pub(crate) use stream::MarkdownStream;
