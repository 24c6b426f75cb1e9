//! Folds plugins' answers: they change calls, questions and prompts. Answers about requests are
//! kept until the requests are made.

use serde_json::{Map, Value};

use super::call::{Call, CallDisplay, Phase, Veto};
use super::message::Message;
use super::{State, words};
use crate::event::{Access, Denial, DenialClass, HookPoint, PromptKind, PromptPart};
use crate::id::Seq;
use crate::json::{Json, merge};
use crate::rules::Action;

impl State {
    /// Applies an answer. Members that the hook does not know, or of a wrong type, are ignored.
    pub(super) fn take_in(&mut self, hook: HookPoint, about: Seq, plugin: String, said: &Value) {
        match hook {
            HookPoint::ToolBefore => self.judged_beforehand(about, plugin, said),
            HookPoint::ToolAfter => self.revised(about, said),
            HookPoint::PermissionAsk => self.permitted(about, plugin, said),
            HookPoint::ChatMessage => self.reworded(about, said),
            HookPoint::ChatParams
            | HookPoint::ChatHeaders
            | HookPoint::ShellEnv
            | HookPoint::ToolDefinition
            | HookPoint::System
            | HookPoint::Compacting
            | HookPoint::Auth => {}
        }
    }

    fn judged_beforehand(&mut self, call: Seq, plugin: String, said: &Value) {
        let Some(call) = self.call_mut(Some(call)) else { return };
        if let Some(reason) = said["deny"].as_str() {
            let (hook, reason) = (HookPoint::ToolBefore, reason.to_owned());
            call.vetoed = Some(Veto { plugin, hook, reason });
        } else if said["args"].is_object() {
            call.changed = Some(Json::from_value(&said["args"]));
        }
    }

    /// Changes an outcome, only of the last reply's calls: the model has received the others.
    fn revised(&mut self, call: Seq, said: &Value) {
        let (output, title) = (said["output"].as_str(), said["title"].as_str());
        let metadata = Some(&said["metadata"]).filter(|metadata| metadata.is_object());
        let calls = self.last_reply_mut().into_iter().flat_map(super::Reply::calls_mut);
        for call in calls.filter(|c| c.seq == call) {
            if let Phase::Done(outcome) = &mut call.phase {
                if let Some(output) = output {
                    outcome.output = output.into();
                }
                if title.is_some() || metadata.is_some() {
                    outcome.shown.get_or_insert_default().revise(title, metadata);
                }
            }
        }
    }

    fn permitted(&mut self, call: Seq, plugin: String, said: &Value) {
        let questioned = self.calls().find(|c| c.seq == call).and_then(|c| self.questioned(c));
        let Some(access) = questioned.map(|(access, _)| access) else { return };
        let Some(call) = self.call_mut(Some(call)) else { return };
        match said["status"].as_str() {
            Some("allow") => {
                let of = Some(call.seq);
                call.phase = Phase::MustAsk { access: access + 1 };
                call.answers.push(String::new());
                self.plugins.forget_question(of);
            }
            Some("deny") => {
                let reason = said["reason"].as_str().unwrap_or("no reason is given").to_owned();
                call.vetoed = Some(Veto { plugin, hook: HookPoint::PermissionAsk, reason });
            }
            _ => {}
        }
    }

    /// The first access of a call that a person would be asked about, whether or not a person is
    /// there.
    pub(crate) fn questioned<'a>(&self, c: &'a Call) -> Option<(usize, &'a Access)> {
        let Phase::MustAsk { access: from } = c.phase else { return None };
        let mut accesses = c.access().iter().enumerate().skip(from);
        accesses.find(|(_, access)| {
            self.rules_in_force().verdict_on_access(access, c.access()).0 != Action::Allow
        })
    }

    /// Replaces or adds texts of a prompt; files and tasks stay.
    fn reworded(&mut self, prompt: Seq, said: &Value) {
        let parts = said["parts"].as_array();
        let text = |part: &Value| part["text"].as_str().map(PromptPart::text);
        let texts: Option<Vec<PromptPart>> = parts.map(|p| p.iter().filter_map(text).collect());
        let more = said["append"].as_str().map(PromptPart::text);
        if texts.is_none() && more.is_none() {
            return;
        }
        let wanted = |m: &Message| m.prompt().is_some_and(|p| p.seq == prompt);
        for prompt in self.messages.change(wanted).filter_map(Message::prompt_mut) {
            if let Some(texts) = &texts {
                prompt.parts.retain(|part| part.kind != PromptKind::Text);
                prompt.parts.splice(0..0, texts.iter().cloned());
            }
            prompt.parts.extend(more.clone());
        }
    }

    /// Ends a call that a plugin vetoes, when the veto is ruled.
    pub(super) fn is_vetoed(&mut self, of: Option<Seq>, action: Action) -> bool {
        let Some(call) = self.call_mut(of) else { return false };
        let Some(Veto { plugin, hook, reason }) = call.vetoed.clone() else { return false };
        if action != Action::Deny {
            return false;
        }
        let access = Access {
            permission: hook.name().to_owned(),
            patterns: vec![plugin.clone()],
            always: Vec::new(),
        };
        let denial = call.denial(&access, &reason);
        call.done(words::vetoed(&plugin, &reason), true);
        self.note(denial, DenialClass::Plugin);
        true
    }
}

impl CallDisplay {
    fn revise(&mut self, title: Option<&str>, metadata: Option<&Value>) {
        if let Some(title) = title {
            title.clone_into(&mut self.title);
        }
        if let Some(more) = metadata {
            let known = Some(self.metadata.value()).filter(Value::is_object);
            let mut all = known.unwrap_or_else(|| Value::Object(Map::new()));
            merge(&mut all, more);
            self.metadata = Json::from_value(&all);
        }
    }
}

impl Call {
    pub(super) fn denial(&self, access: &Access, reason: &str) -> Denial {
        Denial {
            call: self.id.clone(),
            tool: self.resolved.as_ref().map_or(&self.name, |resolved| &resolved.name).clone(),
            permission: access.permission.clone(),
            patterns: access.patterns.clone(),
            reason: reason.to_owned(),
        }
    }

    /// The model's arguments, or the arguments as plugins have changed them.
    pub fn arguments(&self) -> &Json {
        self.changed.as_ref().unwrap_or(&self.input)
    }
}
