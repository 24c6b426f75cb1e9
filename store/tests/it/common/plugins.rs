//! Plugin events.

use leftfold_events::Json;
use leftfold_events::event::{Event, Hook, HookOutcome, HookPoint};

/// Each hook, and each kind of answer.
pub(super) fn plugin_events() -> Vec<Event> {
    let asked = |hook| Event::from(Hook::Called { plugin: "guard".into(), hook });
    let answered = |outcome, output: &str, message: Option<&str>| {
        let (output, message) = (Json::parse(output).unwrap(), message.map(str::to_owned));
        Event::from(Hook::Returned { outcome, output, message })
    };
    let mut events: Vec<Event> = HookPoint::ALL.into_iter().map(asked).collect();
    events.extend([
        answered(HookOutcome::Returned, r#"{"deny":"ünïcödé","args":{"b":1,"a":[]}}"#, None),
        answered(HookOutcome::Failed, "{}", Some("it broke")),
        answered(HookOutcome::TimedOut, "{}", Some("it did not answer")),
        answered(HookOutcome::Gone, "{}", Some("it has ended")),
    ]);
    events
}
