//! Hook calls of plugins, and their answers. All of them are in the log, so folding and deciding
//! need no plugin.

use std::collections::BTreeSet;

use serde::Serialize;
use serde_json::Value;

use super::{ModelStatus, State, Wait};
use crate::event::{Envelope, Hook, HookOutcome, HookPoint};
use crate::id::Seq;
use crate::json::Json;

#[derive(Clone, Debug, PartialEq, Default, Serialize)]
pub struct Plugins {
    /// In the order of the calls.
    pub asked: Vec<PendingHook>,
    /// The plugins that the turn continues without.
    pub cut_off: BTreeSet<String>,
    /// The request that the current one follows: see [`State::round`].
    #[serde(skip)]
    sent: Seq,
    /// The last request to a model. It contains all earlier prompts.
    #[serde(skip)]
    pub(crate) last: Seq,
}

/// One hook call to one plugin.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PendingHook {
    pub hook: HookPoint,
    /// The event that it concerns: see [`Hook::Called`]; for requests, the one before.
    pub about: Seq,
    pub plugin: String,
    /// The wait for its answer.
    pub wait: Option<Wait>,
    /// The answer, while it is in force.
    pub output: Option<Json>,
}

impl Plugins {
    pub(crate) fn is_empty(&self) -> bool {
        self.asked.is_empty() && self.cut_off.is_empty()
    }

    pub(super) fn open(&self) -> impl Iterator<Item = Wait> {
        self.asked.iter().filter_map(|consulted| consulted.wait)
    }

    /// The hook call of the intent `of`, if it waits for its answer.
    pub fn waiting(&self, of: Seq) -> Option<&PendingHook> {
        self.asked.iter().find(|c| c.wait.is_some_and(|wait| wait.intent == of))
    }

    /// Answers about a call's last question do not apply to its next one.
    pub(super) fn forget_question(&mut self, call: Option<Seq>) {
        self.asked.retain(|c| c.hook != HookPoint::PermissionAsk || Some(c.about) != call);
    }

    /// Forgets answers about tools, because the tools have changed.
    pub(super) fn configured(&mut self) {
        self.asked.retain(|c| c.hook != HookPoint::ToolDefinition);
    }

    /// A model request is made at `seq`, the first one since `before`.
    pub(super) fn requested(&mut self, before: Seq, seq: Seq) {
        (self.sent, self.last) = (before, seq);
        self.asked.retain(|c| match c.hook {
            HookPoint::ChatMessage => c.about > seq,
            HookPoint::ChatParams
            | HookPoint::ChatHeaders
            | HookPoint::System
            | HookPoint::Auth => c.about == before,
            HookPoint::ShellEnv
            | HookPoint::ToolBefore
            | HookPoint::ToolAfter
            | HookPoint::ToolDefinition
            | HookPoint::PermissionAsk
            | HookPoint::Compacting => true,
        });
    }

    /// Keeps answers about prompts that no model has seen yet.
    pub(super) fn turn_ended(&mut self) {
        let last = self.last;
        self.cut_off.clear();
        self.asked.retain(|c| {
            let kept = c.hook == HookPoint::ToolDefinition || c.hook == HookPoint::ChatMessage;
            c.wait.is_none() && kept && (c.about == 0 || c.about > last)
        });
    }

    /// The log is imported: the answers in it may be anybody's.
    pub(super) fn distrust(&mut self) {
        self.cut_off.clear();
        self.asked.clear();
    }

    /// A node has died, with its plugins and the values that it had only in memory.
    pub(super) fn forget(&mut self) {
        self.cut_off.clear();
        self.asked.retain(|c| c.wait.is_none() && !c.hook.is_secret());
    }
}

impl State {
    pub(super) fn apply_plugin(&mut self, envelope: &Envelope, event: &Hook) {
        match event {
            Hook::Called { plugin, hook } => {
                let about = envelope.of.unwrap_or_else(|| self.about_request(*hook));
                let (plugin, wait) = (plugin.clone(), Some(Wait::for_event(envelope)));
                let consulted = PendingHook { hook: *hook, about, plugin, wait, output: None };
                self.plugins.asked.push(consulted);
            }
            Hook::Returned { outcome, output, .. } => self.heard(envelope.of, *outcome, output),
        }
    }

    /// The `about` of a hook that concerns no event.
    pub(crate) fn about_request(&self, hook: HookPoint) -> Seq {
        // tools belong to the turn configuration
        let turn = self.turn.as_ref().filter(|_| hook != HookPoint::ToolDefinition);
        turn.map_or(0, |turn| turn.asked)
    }

    /// The request before the current or next one. Plugins' answers since then concern the current
    /// or next request.
    fn round(&self) -> Seq {
        match &self.turn {
            Some(turn) if matches!(&turn.model_status, ModelStatus::Waiting(_)) => {
                self.plugins.sent
            }
            Some(turn) => turn.asked,
            None => 0,
        }
    }

    /// The answers in force, oldest first.
    pub(crate) fn said(&self, hook: HookPoint, about: Option<Seq>) -> impl Iterator<Item = Value> {
        let round = if hook == HookPoint::ToolDefinition { 0 } else { self.round() };
        let about = about.unwrap_or(round);
        let of = self.plugins.asked.iter().filter(move |c| c.hook == hook && c.about == about);
        of.filter_map(|c| Some(c.output.as_ref()?.value()))
    }

    /// Whether any available plugin has this hook.
    pub(crate) fn has_hook(&self, hook: HookPoint) -> bool {
        let of = self.config.options.plugins.iter().filter(|p| p.hooks.contains(&hook));
        of.clone().any(|p| !self.plugins.cut_off.contains(&p.name))
    }

    pub(super) fn plugin_elapsed(&mut self, of: Seq) -> bool {
        let known = self.plugins.waiting(of).is_some();
        if known {
            self.heard(Some(of), HookOutcome::TimedOut, &Json::object());
        }
        known
    }

    fn heard(&mut self, of: Option<Seq>, outcome: HookOutcome, output: &Json) {
        let waits = |c: &&mut PendingHook| c.wait.is_some_and(|wait| Some(wait.intent) == of);
        let Some(consulted) = self.plugins.asked.iter_mut().find(waits) else { return };
        consulted.wait = None;
        if outcome == HookOutcome::Returned {
            consulted.output = Some(output.clone());
            let PendingHook { hook, about, plugin, .. } = consulted.clone();
            self.take_in(hook, about, plugin, &output.value());
        } else if outcome.cuts_off() {
            self.plugins.cut_off.insert(consulted.plugin.clone());
        }
    }
}
