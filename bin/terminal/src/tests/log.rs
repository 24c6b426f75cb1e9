//! Logs for tests, written by hand.

use leftfold_events::event::{
    Answer, CallKind, CallSpec, Class, EndReason, Ended, Event, Finished, Model, ModelRef,
    PartKind, Permission, PromptPart, Purpose, Resolution, StreamedPart, Subagent, Tool, Turn,
    Usage,
};
use leftfold_events::{Envelope, Json, Notes, Seq, SessionId, Sha256, Time};
use serde_json::Value;

use std::sync::Arc;

use crate::blocks::Blocks;
use crate::look::Look;
use crate::theme::{ColorDepth, Theme, ThemeName};

/// A log that grows by one event a second.
#[derive(Default)]
pub(super) struct Log {
    pub(super) events: Vec<Envelope>,
}

impl Log {
    pub(super) fn add(&mut self, of: Option<Seq>, event: impl Into<Event>) -> Seq {
        let seq = self.events.len() as Seq + 1;
        let (session, at) = (SessionId::default(), Time::from_millis(seq * 1000));
        let until = Some(at.plus(30_000));
        self.events.push(Envelope {
            session,
            seq,
            at,
            of,
            until,
            event: event.into(),
            notes: Notes::default(),
        });
        seq
    }

    pub(super) fn prompted(&mut self, text: &str, by: &str) -> Seq {
        let parts = vec![PromptPart::text(text)];
        let (agent, model) = ("build".to_owned(), ModelRef::default());
        self.add(None, Turn::Prompted { parts, agent, model, by: by.to_owned() })
    }

    pub(super) fn requested(&mut self) -> Seq {
        let (model, purpose) = (ModelRef::default(), Purpose::Turn);
        let request_sha256 = Sha256::digest(b"");
        self.add(None, Model::Requested { model, step: 1, attempt: 1, purpose, request_sha256 })
    }

    pub(super) fn streamed(&mut self, of: Seq, text: &str) {
        self.streamed_as(of, PartKind::Text, text);
    }

    pub(super) fn streamed_as(&mut self, of: Seq, kind: PartKind, text: &str) {
        let part = StreamedPart {
            id: "0".to_owned(),
            kind,
            text: text.to_owned(),
            signature: None,
            redacted: false,
        };
        self.add(Some(of), Model::Streamed { parts: vec![part] });
    }

    /// A subagent that works for a call of `parent`, with the events of `begin`.
    pub(super) fn spawned(
        &mut self,
        parent: SessionId,
        call: Seq,
        agent: &str,
        begin: impl FnOnce(&mut Self),
    ) -> SessionId {
        let place = self.events.len();
        let session = SessionId::default().child(place as Seq, Time::from_millis(place as u64));
        let (id, agent) = ("c".to_owned(), agent.to_owned());
        self.add(Some(call), Subagent::Spawned { call: id, session, agent, max_cost: None });
        self.events[place].session = parent;
        let place = self.events.len();
        begin(self);
        self.events[place..].iter_mut().for_each(|event| event.session = session);
        session
    }

    /// Adds the events of a call up to its resolution; answers the seq of `tool.called`.
    pub(super) fn called(
        &mut self,
        of: Seq,
        name: &str,
        input: &Value,
        error: Option<&str>,
    ) -> Seq {
        let input = Json::from_value(input);
        let (id, name) = ("c".to_owned(), name.to_owned());
        let call = CallSpec { id: id.clone(), name: name.clone(), input: input.clone() };
        let called = self.add(Some(of), Tool::Called { call });
        let checked = self.add(Some(called), Tool::ResolveStarted { call: id });
        let reads = matches!(name.as_str(), "read" | "grep" | "glob" | "lsp");
        let resolution = Resolution {
            name,
            input,
            class: if reads { Class::Read } else { Class::Command },
            access: Vec::new(),
            paths: if reads { vec!["/p/a".to_owned()] } else { Vec::new() },
            timeout: 1000,
            error: error.map(str::to_owned),
            kind: CallKind::Plain,
        };
        self.add(Some(checked), Tool::Resolved(Box::new(resolution)));
        called
    }

    pub(super) fn started(&mut self, called: Seq) -> Seq {
        let (call, name) = ("c".to_owned(), "bash".to_owned());
        self.add(Some(called), Tool::Started { call, name, class: Class::Command, attempt: 1 })
    }

    pub(super) fn finished(
        &mut self,
        started: Seq,
        output: &str,
        metadata: &Value,
        is_error: bool,
    ) {
        let finished = Finished {
            call: "c".to_owned(),
            title: String::new(),
            output: output.into(),
            is_error,
            metadata: Json::from_value(metadata),
            spill: None,
            attachments: Vec::new(),
        };
        self.add(Some(started), Tool::Finished(Box::new(finished)));
    }

    pub(super) fn asked(&mut self, called: Seq, permission: &str, patterns: &[&str]) -> Seq {
        let asked = Permission::Asked {
            call: "c".to_owned(),
            permission: permission.to_owned(),
            patterns: patterns.iter().map(|&pattern| pattern.to_owned()).collect(),
            always: vec!["git *".to_owned()],
        };
        self.add(Some(called), asked)
    }

    pub(super) fn answered(&mut self, of: Seq, reply: Answer, feedback: Option<&str>, by: &str) {
        let (feedback, by) = (feedback.map(str::to_owned), by.to_owned());
        self.add(Some(of), Permission::Answered { reply, feedback, by });
    }

    pub(super) fn ended(&mut self, reason: EndReason, error: Option<&str>) {
        let usage = Usage { input: 1_200, output: 30, cache_read: 5_000, ..Usage::default() };
        self.ended_after(usage, reason, error);
    }

    pub(super) fn ended_after(&mut self, usage: Usage, reason: EndReason, error: Option<&str>) {
        self.add(
            None,
            Turn::Ended(Box::new(Ended {
                reason,
                text: String::new(),
                usage,
                cost: 0.0123,
                steps: 1,
                permission_denials: Vec::new(),
                error: error.map(str::to_owned),
            })),
        );
    }

    /// The text that is left on the screen.
    pub(super) fn shown(&self, width: usize) -> String {
        let mut blocks = Blocks::new(look(width), SessionId::default());
        self.events.iter().for_each(|event| drop(blocks.apply(event)));
        blocks.ends();
        blocks.take().iter().map(|line| format!("{line}\n")).collect()
    }
}

pub(super) fn look(width: usize) -> Look {
    let theme = Theme::new(ThemeName::Auto, ColorDepth::Ansi16, None);
    Look { theme: Arc::new(theme), width, unicode: true, keys: Arc::default() }
}
