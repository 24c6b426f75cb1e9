//! Decides which effects may begin before their intents are durable.
//!
//! A crash can take back an intent that is not durable yet. So its effect may begin only if a reader of the log
//! cannot tell that it did: the effect changes nothing and tells nobody.

use crate::event::{CallKind, Class, Envelope, Event, Tool};
use crate::id::Seq;
use crate::state::{Call, State};

/// The permissions of calls that only read files of this machine, and that of files outside the worktree.
const READING: [&str; 4] = ["read", "glob", "grep", "external_directory"];

/// An intent whose effect changes nothing outside the log. The effect may begin while the intent is being written;
/// its outcome is a fact like any other and follows the intent in the log.
#[derive(Clone, Copy, Debug)]
pub struct Repeatable<'a>(&'a Envelope);

impl<'a> Repeatable<'a> {
    /// `None`: the event is no intent, or its effect must wait until it is durable. Every event about calls is named
    /// here, so that a new one does not compile before it is decided.
    pub fn for_intent(envelope: &'a Envelope, s: &State) -> Option<Self> {
        let is_repeatable = match &envelope.event {
            Event::Tool(event) => match event {
                Tool::ResolveStarted { .. } => true,
                Tool::Started { class: Class::Read, .. } => {
                    called(s, envelope.of).is_some_and(reads_files)
                }
                Tool::Started {
                    class: Class::Write | Class::Command | Class::Child | Class::Ask,
                    ..
                }
                | Tool::StartedSandboxed(_)
                | Tool::Called { .. }
                | Tool::Resolved(_)
                | Tool::Progressed { .. }
                | Tool::Finished(_)
                | Tool::Lost { .. }
                | Tool::Cancelled { .. }
                | Tool::Batched { .. }
                | Tool::ElicitationRequested { .. }
                | Tool::ElicitationAnswered { .. }
                | Tool::InputStreamed { .. } => false,
            },
            // models, people, plugins, sessions and the project's files
            Event::Session(_)
            | Event::Turn(_)
            | Event::Model(_)
            | Event::Permission(_)
            | Event::Compaction(_)
            | Event::Subagent(_)
            | Event::Todo(_)
            | Event::Files(_)
            | Event::Hook(_) => false,
        };
        is_repeatable.then_some(Self(envelope))
    }

    pub fn intent(self) -> &'a Envelope {
        self.0
    }

    /// Whether it runs a call, rather than working out what one would do.
    pub fn runs(self) -> bool {
        matches!(&self.0.event, Event::Tool(tool) if tool.started().is_some())
    }
}

fn called(s: &State, of: Option<Seq>) -> Option<&Call> {
    s.calls().find(|call| Some(call.seq) == of)
}

/// Whether all that a call does is to read files of this machine. Tools of MCP servers and plugins have permissions
/// with their own names, as have tools that reach the network.
fn reads_files(call: &Call) -> bool {
    let kind = match call.kind() {
        CallKind::Plain | CallKind::ShowsFiles => true,
        CallKind::Shell
        | CallKind::Lasting
        | CallKind::Batch { .. }
        | CallKind::SwitchAgent { .. }
        | CallKind::StructuredOutput => false,
    };
    let mut permissions = call.access().iter().map(|access| access.permission.as_str());
    let reads = !call.access().is_empty() && permissions.all(|name| READING.contains(&name));
    kind && call.class() == Class::Read && reads
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::event::{Access, Resolution};
    use crate::json::Json;
    use crate::state::Phase;

    fn call(class: Class, kind: CallKind, permissions: &[&str]) -> Call {
        let access = |name: &&str| Access {
            permission: (*name).to_owned(),
            patterns: vec!["x".to_owned()],
            always: Vec::new(),
        };
        let resolution = Resolution {
            name: "read".to_owned(),
            input: Json::object(),
            class,
            access: permissions.iter().map(access).collect(),
            paths: Vec::new(),
            timeout: 1,
            error: None,
            kind,
        };
        Call {
            seq: 1,
            id: "c".to_owned(),
            name: "read".to_owned(),
            input: Json::object(),
            resolved: Some(Box::new(resolution)),
            phase: Phase::Allowed,
            tail: String::new(),
            pruned: false,
            within: None,
            answers: Vec::new(),
            changed: None,
            vetoed: None,
            elicitations: Vec::new(),
            elicited: BTreeSet::new(),
            started: None,
            ended: None,
            ran: false,
        }
    }

    #[test]
    fn only_calls_that_read_files_of_this_machine_may_begin_early() {
        use CallKind::{Lasting, Plain, Shell, ShowsFiles};
        use Class::{Ask, Command, Read, Write};
        for (class, kind, permissions, expected) in [
            (Read, ShowsFiles, &["read"][..], true),
            (Read, ShowsFiles, &["external_directory", "read"], true),
            (Read, Plain, &["glob"], true),
            (Read, Plain, &["read", "grep"], true),
            (Read, Plain, &[], false),
            (Read, Plain, &["webfetch"], false),
            (Read, Plain, &["read", "webfetch"], false),
            (Read, Plain, &["server_look"], false),
            (Read, Plain, &["list"], false),
            (Read, ShowsFiles, &["read", "protected_file"], false),
            (Read, Lasting, &["read"], false),
            (Read, Shell, &["read"], false),
            (Write, Plain, &["read"], false),
            (Command, Plain, &["read"], false),
            (Ask, Plain, &["read"], false),
        ] {
            let call = call(class, kind, permissions);
            assert_eq!(reads_files(&call), expected, "{class:?} {permissions:?} {call:?}");
        }
        let unresolved = Call { resolved: None, ..call(Read, ShowsFiles, &["read"]) };
        assert!(!reads_files(&unresolved));
    }
}
