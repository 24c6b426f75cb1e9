//! What is said of plugins: what they were asked, what they have said, and what went wrong with one.

use leftfold_events::event::{Event, Heard, Plugin};

use crate::changes;
use crate::words::{first_line, shorten};

/// In a line.
pub fn detail(event: &Plugin) -> String {
    match event {
        Plugin::Asked { plugin, hook } => format!("{plugin}, {}", hook.name()),
        Plugin::Answered { outcome: Heard::Answered, output, .. } => match output.as_str() {
            "{}" => "nothing to say".to_owned(),
            said => shorten(said, 120),
        },
        Plugin::Answered { message, .. } => {
            first_line(message.as_deref().unwrap_or("no answer")).to_owned()
        }
    }
}

/// What people are told at once, of files and of plugins without which things go on.
pub fn lines(event: &Event) -> Vec<String> {
    if let Event::Files(files) = event {
        return changes::lines(files);
    }
    let Event::Plugin(Plugin::Answered { outcome, message: Some(message), .. }) = event else {
        return Vec::new();
    };
    let without = if outcome.cuts_off() { "; the turn goes on without it" } else { "" };
    vec![format!("[warning: {}{without}]", first_line(message))]
}
