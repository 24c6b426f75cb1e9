use leftfold_events::Event;
use leftfold_events::event::{Consent, Permission, Tool, Wanted};

use super::json;

/// The questions that running tools ask people.
pub(super) fn inquiry_events() -> Vec<Event> {
    let elicited = |wanted| Tool::ElicitationRequested {
        elicitation: 1,
        from: "tickets".into(),
        message: "Which day?".into(),
        wanted,
    };
    let replied = |consent, content| Tool::ElicitationAnswered {
        call: "c1".into(),
        elicitation: 1,
        consent,
        content: json(content),
    };
    let schema = json(r#"{"type":"object","properties":{"day":{"type":"string"}}}"#);
    [
        elicited(Wanted::Form { schema }),
        elicited(Wanted::Visit { url: "https://tickets.example/pay".into() }),
        replied(Consent::Accepted, r#"{"day":"Monday"}"#),
        replied(Consent::Declined, "{}"),
        replied(Consent::Cancelled, "{}"),
    ]
    .map(Into::into)
    .into()
}

/// A permission question.
pub(super) fn asked() -> Event {
    Permission::Asked {
        call: "c1".into(),
        permission: "bash".into(),
        patterns: vec!["git push".into()],
        always: vec!["git *".into()],
    }
    .into()
}

/// A permission that a running tool asks for.
pub(super) fn wanted_permission() -> Event {
    let wanted = Wanted::Permission {
        permission: "deploy".into(),
        patterns: vec!["shop".into()],
        always: vec!["*".into()],
    };
    let (from, message) = ("shop".into(), "Deploy the shop?".into());
    Tool::ElicitationRequested { elicitation: 1, from, message, wanted }.into()
}
