//! Shows calls that run in the client's own terminals: the terminal takes the place of their output
//! as text.

use std::collections::HashMap;

use agent_client_protocol::v1::schema::{
    SessionUpdate, Terminal, TerminalId, ToolCallContent, ToolCallId, ToolCallStatus,
    ToolCallUpdateFields,
};

#[derive(Debug, Default)]
pub(super) struct Terminals(HashMap<ToolCallId, TerminalId>);

impl Terminals {
    /// `call`: the call's id for the client.
    pub(super) fn add(&mut self, call: String, terminal: TerminalId) {
        self.0.insert(ToolCallId::new(call), terminal);
    }

    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    /// Puts the call's terminal into the update; `None` if the update only has progress that the
    /// terminal shows.
    pub(super) fn with(&self, update: SessionUpdate) -> Option<SessionUpdate> {
        let SessionUpdate::ToolCallUpdate(mut about) = update else { return Some(update) };
        if let Some(terminal) = self.0.get(&about.tool_call_id) {
            let ToolCallUpdateFields { status, content, .. } = &mut about.fields;
            if status.is_none() && content.is_some() {
                return None;
            }
            let why = content.take().filter(|_| *status == Some(ToolCallStatus::Failed));
            let mut all = vec![shown(terminal.clone())];
            all.extend(why.into_iter().flatten());
            *content = Some(all);
        }
        Some(SessionUpdate::ToolCallUpdate(about))
    }
}

pub(super) fn shown(terminal: TerminalId) -> ToolCallContent {
    ToolCallContent::Terminal(Terminal::new(terminal))
}

#[cfg(test)]
mod tests {
    use agent_client_protocol::v1::schema::ToolCallUpdate;

    use super::*;

    #[test]
    fn the_terminal_stands_for_the_output() {
        let mut terminals = Terminals::default();
        terminals.add("call-7".to_owned(), TerminalId::new("t"));
        let update = |call: &str, fields: ToolCallUpdateFields| {
            terminals
                .with(SessionUpdate::ToolCallUpdate(ToolCallUpdate::new(call.to_owned(), fields)))
        };
        let text = || ToolCallUpdateFields::new().content(vec!["out".into()]);
        let content = |update: Option<SessionUpdate>| {
            let Some(SessionUpdate::ToolCallUpdate(update)) = update else { return None };
            update.fields.content
        };
        assert_eq!(content(update("call-8", text())), Some(vec!["out".into()]));
        assert_eq!(update("call-7", text()), None);
        let terminal = shown(TerminalId::new("t"));
        let done = text().status(ToolCallStatus::Completed);
        assert_eq!(content(update("call-7", done)), Some(vec![terminal.clone()]));
        let failed = text().status(ToolCallStatus::Failed);
        assert_eq!(content(update("call-7", failed)), Some(vec![terminal, "out".into()]));
    }
}
