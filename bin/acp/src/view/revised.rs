//! What plugins make of what is shown of a call that has run.

use agent_client_protocol::v1::schema::ToolCallUpdateFields;
use leftfold_events::event::{Hook, Plugin};
use leftfold_events::{Envelope, Json, Seq, context};
use serde_json::json;

use super::{Told, View};

impl View {
    pub(super) fn plugin(&mut self, event: &Plugin, envelope: &Envelope) -> Vec<Told> {
        let of = envelope.of.unwrap_or_default();
        match event {
            Plugin::Asked { hook: Hook::ToolAfter, .. } => {
                self.of_call.insert(envelope.seq, of);
                Vec::new()
            }
            Plugin::Asked { .. } => Vec::new(),
            Plugin::Answered { output, .. } => self.revised(self.call_of(of), output),
        }
    }

    fn revised(&mut self, call: Seq, output: &Json) -> Vec<Told> {
        let said = output.value();
        let Some(shown) = self.calls.get_mut(&call) else { return Vec::new() };
        let mut fields = ToolCallUpdateFields::new();
        if let Some(title) = said["title"].as_str() {
            fields = fields.title(title.to_owned());
        }
        if said["metadata"].is_object() {
            let metadata = shown.fields.raw_output.get_or_insert_with(|| json!({}));
            context::merge(metadata, &said["metadata"]);
            fields = fields.raw_output(metadata.clone());
        }
        if fields == ToolCallUpdateFields::new() { Vec::new() } else { self.call(call, fields) }
    }
}
