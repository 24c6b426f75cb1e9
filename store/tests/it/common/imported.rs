//! A session that was imported from another agent.

use leftfold_events::Event;
use leftfold_events::event::Session;

pub fn imported() -> Event {
    Session::Imported {
        from: "Claude Code".into(),
        id: "0a1b".into(),
        version: "2.0.76".into(),
        through: 42,
    }
    .into()
}
