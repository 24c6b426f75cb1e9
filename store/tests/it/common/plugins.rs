//! Events of the concern `plugin`.

use leftfold_events::Json;
use leftfold_events::event::{Event, Heard, Hook, Plugin};

/// Each hook, and each way to answer.
pub(super) fn plugin_events() -> Vec<Event> {
    let asked = |hook| Event::from(Plugin::Asked { plugin: "guard".into(), hook });
    let answered = |outcome, output: &str, message: Option<&str>| {
        let (output, message) = (Json::parse(output).unwrap(), message.map(str::to_owned));
        Event::from(Plugin::Answered { outcome, output, message })
    };
    let mut events: Vec<Event> = Hook::ALL.into_iter().map(asked).collect();
    events.extend([
        answered(Heard::Answered, r#"{"deny":"ünïcödé","args":{"b":1,"a":[]}}"#, None),
        answered(Heard::Failed, "{}", Some("it broke")),
        answered(Heard::TimedOut, "{}", Some("it did not answer")),
        answered(Heard::Gone, "{}", Some("it has ended")),
    ]);
    events
}
