use leftfold_events::Event;
use leftfold_events::event::{Consent, Permission, Tool, Wanted};

use super::json;

/// What running tools ask people.
pub(super) fn inquiry_events() -> Vec<Event> {
    let inquired = |wanted| Tool::Inquired {
        inquiry: 1,
        from: "tickets".into(),
        message: "Which day?".into(),
        wanted,
    };
    let replied = |consent, content| Tool::Replied {
        call: "c1".into(),
        inquiry: 1,
        consent,
        content: json(content),
    };
    let schema = json(r#"{"type":"object","properties":{"day":{"type":"string"}}}"#);
    [
        inquired(Wanted::Form { schema }),
        inquired(Wanted::Visit { url: "https://tickets.example/pay".into() }),
        replied(Consent::Accepted, r#"{"day":"Monday"}"#),
        replied(Consent::Declined, "{}"),
        replied(Consent::Cancelled, "{}"),
    ]
    .map(Into::into)
    .into()
}

/// Whether a call may run is asked, too.
pub(super) fn asked() -> Event {
    Permission::Asked {
        call: "c1".into(),
        permission: "bash".into(),
        patterns: vec!["git push".into()],
        always: vec!["git *".into()],
    }
    .into()
}
