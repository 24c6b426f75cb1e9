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

use leftfold_view::FileDiff;
use ratatui::text::Line;

use crate::theme::Theme;

pub(crate) use context::context;
pub(crate) use diff::{DiffOptions, diff, lines_of as diff_lines};
pub(crate) use markdown::markdown;
pub(crate) use stream::MarkdownStream;

/// A text with most colours of a theme.
const SAMPLE: &str = "A **heading**, some `code` and a [link](https://example.org).\n\n\
    ```rust\n// the area of a circle\nfn area(radius: f64) -> f64 {\n    radius.powi(2) * 3.14\n}\n```\n";
/// A change of one word.
const SAMPLE_DIFF: &str = "--- a/area.rs\n+++ b/area.rs\n@@ -3,1 +3,1 @@\n\
    -    radius.powi(2) * 3.14\n+    radius.powi(2) * PI\n";

/// How texts, code and changes look in a theme.
pub(crate) fn sample(width: u16, theme: &Theme) -> Vec<Line<'static>> {
    let mut lines = markdown(SAMPLE, width, theme);
    lines.extend(diff(&FileDiff::parse(SAMPLE_DIFF), DiffOptions::WHOLE, width, theme));
    lines
}
