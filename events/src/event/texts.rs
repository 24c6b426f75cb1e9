//! The texts within the values of events.

use super::model::{CallSpec, StreamedPart};
use super::notes::Notes;
use super::todo::TodoItem;
use super::tool::{
    Access, BatchCall, CallKind, Finished, Resolution, StartedSandboxed, StreamedInput, Wanted,
};
use super::turn::{Denial, Ended, PromptKind, PromptPart};
use crate::rewrite::{Rewrite, Texts};
use crate::rules::Rule;

/// Changes the texts of these fields.
macro_rules! texts {
    ($($name:ident { $($field:ident $(. $below:ident)?),+ })+) => {$(
        impl Texts for $name {
            fn rewrite(&mut self, how: &impl Rewrite) {
                $( self.$field$(.$below)?.rewrite(how); )+
            }
        }
    )+};
}

texts! {
    Access { patterns, always }
    BatchCall { name, input }
    CallSpec { name, input }
    Denial { patterns, reason }
    Ended { text, error, permission_denials }
    Resolution { input, kind, access, paths, error }
    Rule { pattern }
    StartedSandboxed { sandbox.write, sandbox.shown }
    StreamedInput { name }
    TodoItem { content }
}

impl Texts for PromptPart {
    fn rewrite(&mut self, how: &impl Rewrite) {
        match self.kind {
            PromptKind::Text | PromptKind::Task | PromptKind::Command => self.text.rewrite(how),
            PromptKind::Media => self.name.rewrite(how),
        }
    }
}

impl Texts for StreamedPart {
    fn rewrite(&mut self, how: &impl Rewrite) {
        if !self.redacted {
            self.text.rewrite(how);
        }
    }
}

impl Texts for CallKind {
    fn rewrite(&mut self, how: &impl Rewrite) {
        if let Self::Batch { calls } = self {
            calls.rewrite(how);
        }
    }
}

impl Texts for Finished {
    fn rewrite(&mut self, how: &impl Rewrite) {
        let Self { title, output, metadata, attachments, .. } = self;
        title.rewrite(how);
        output.rewrite(how);
        metadata.rewrite(how);
        attachments.iter_mut().for_each(|media| media.name.rewrite(how));
    }
}

impl Texts for Wanted {
    fn rewrite(&mut self, how: &impl Rewrite) {
        match self {
            Self::Form { schema } => schema.rewrite(how),
            Self::Visit { url } => url.rewrite(how),
            Self::Permission { patterns, always, .. } => {
                patterns.rewrite(how);
                always.rewrite(how);
            }
        }
    }
}

impl Texts for Notes {
    fn rewrite(&mut self, how: &impl Rewrite) {
        if self.is_empty() {
            return;
        }
        self.client.rewrite(how);
        self.parts.rewrite(how);
        if let Some(command) = &mut self.command {
            command.name.rewrite(how);
            command.arguments.rewrite(how);
        }
        if let Some(owner) = &mut self.owner {
            owner.node.rewrite(how);
        }
        self.executor.rewrite(how);
        if let Some(exchange) = &mut self.exchange {
            exchange.request_id.rewrite(how);
        }
        self.reason.rewrite(how);
        self.denials.rewrite(how);
        self.structured.rewrite(how);
        self.other.values_mut().for_each(|member| member.rewrite(how));
    }
}
