//! Decides when plugins' hooks are called. Plugins are called one after the other, in the order of
//! the settings, so that each sees the changes of the one before.
//!
//! Hooks run before a call's resolution, question, start and result, before a request that contains
//! a new prompt, before a summary's request, and before any other request.

use super::{about, intent};
use crate::event::{Access, CallKind, Envelope, Hook, HookPoint};
use crate::id::Seq;
use crate::rules::{Action, Rule};
use crate::state::{Call, Compacting, Message, State};

/// The additional time for an answer after the plugin's own limit, in milliseconds.
const ANSWER_GRACE_PERIOD: u64 = 10_000;
/// The hooks that concern a request.
const OF_REQUESTS: [HookPoint; 5] = [
    HookPoint::ToolDefinition,
    HookPoint::ChatParams,
    HookPoint::System,
    HookPoint::Auth,
    HookPoint::ChatHeaders,
];

/// Continues when all plugins have answered about a call.
pub(super) fn then(
    s: &State,
    c: &Call,
    hook: HookPoint,
    go: impl FnOnce() -> Option<Envelope>,
) -> Option<Envelope> {
    match hook_call(s, hook, c.seq) {
        HookCall::Over => go(),
        HookCall::Waiting => None,
        HookCall::Due(plugin, timeout) => Some(asked(s, Some(c.seq), hook, plugin, timeout)),
    }
}

/// Whether the outcome of a call can be sent to the model.
pub(super) fn is_settled(s: &State, c: &Call) -> bool {
    let heard = || matches!(hook_call(s, HookPoint::ToolAfter, c.seq), HookCall::Over);
    c.is_done() && (!may_be_revised(c) || heard())
}

/// Whether plugins may change the outcome for the model: the call has run, and does not switch
/// agents.
pub(super) fn may_be_revised(c: &Call) -> bool {
    c.ran && c.switches_to().is_none()
}

/// Variables for a command.
pub(super) fn variables(
    s: &State,
    c: &Call,
    go: impl FnOnce() -> Option<Envelope>,
) -> Option<Envelope> {
    if *c.kind() == CallKind::Shell { then(s, c, HookPoint::ShellEnv, go) } else { go() }
}

/// The hook for a question that would go to a person.
pub(super) fn permission(
    s: &State,
    c: &Call,
    go: impl FnOnce() -> Option<Envelope>,
) -> Option<Envelope> {
    if let HookCall::Waiting = hook_call(s, HookPoint::PermissionAsk, c.seq) {
        // also if the rules have changed meanwhile
        return None;
    }
    let open = |(_, access): &(usize, &Access)| s.rules_in_force().leave_open(access, c.access());
    match s.questioned(c).filter(open).filter(|_| c.switches_to().is_none()) {
        Some(_) => then(s, c, HookPoint::PermissionAsk, go),
        None => go(),
    }
}

/// The verdict on a call. If no person can be asked, a plugin is asked.
pub(super) fn verdict(s: &State, c: &Call) -> (Action, Option<Rule>) {
    let rules = s.rules_in_force();
    let (action, rule) = rules.verdict_on_call(c.access());
    // the call is denied only because no person can be asked
    let left_open = |access: &Access| {
        rules.leave_open(access, c.access())
            || rules.verdict_on_access(access, c.access()).0 == Action::Allow
    };
    let asks = action == Action::Deny
        && s.has_hook(HookPoint::PermissionAsk)
        && c.switches_to().is_none()
        && c.access().iter().all(left_open);
    if asks { (Action::Ask, rule) } else { (action, rule) }
}

/// The hook for a prompt that no model has seen yet.
pub(super) fn prompt(s: &State) -> Option<Envelope> {
    // without plugins the conversation need not be searched
    if s.config.options.plugins.is_empty() {
        return None;
    }
    let prompts = s.messages.iter().filter_map(Message::prompt).map(|prompt| prompt.seq);
    let mut new = prompts.filter(|seq| *seq > s.plugins.last);
    new.find_map(|seq| due(s, HookPoint::ChatMessage, Some(seq)))
}

/// The hooks for the next request.
pub(super) fn request(s: &State) -> Option<Envelope> {
    OF_REQUESTS.into_iter().find_map(|hook| due(s, hook, None))
}

/// The hooks for the request for a summary.
pub(super) fn summary(s: &State, c: &Compacting) -> Option<Envelope> {
    let hooks = [HookPoint::Compacting, HookPoint::Auth, HookPoint::ChatHeaders];
    hooks.into_iter().find_map(|hook| due(s, hook, Some(c.started.intent)))
}

/// The status of a hook.
enum HookCall {
    /// Every plugin has answered.
    Over,
    Waiting,
    /// This plugin is called next, with a time limit in milliseconds.
    Due(String, u64),
}

/// The plugin that is called next, in the order of the settings.
fn hook_call(s: &State, hook: HookPoint, about: Seq) -> HookCall {
    let asked = || s.plugins.asked.iter().filter(|c| c.hook == hook && c.about == about);
    if asked().any(|c| c.wait.is_some()) {
        return HookCall::Waiting;
    }
    let mut wanted = s.config.options.plugins.iter().filter(|p| p.hooks.contains(&hook));
    let next = wanted
        .find(|p| !s.plugins.cut_off.contains(&p.name) && asked().all(|c| c.plugin != p.name));
    next.map_or(HookCall::Over, |p| HookCall::Due(p.name.clone(), p.timeout))
}

fn due(s: &State, hook: HookPoint, of: Option<Seq>) -> Option<Envelope> {
    let subject = of.unwrap_or_else(|| s.about_request(hook));
    match hook_call(s, hook, subject) {
        HookCall::Due(plugin, timeout) => Some(asked(s, of, hook, plugin, timeout)),
        HookCall::Over | HookCall::Waiting => None,
    }
}

fn asked(s: &State, of: Option<Seq>, hook: HookPoint, plugin: String, timeout: u64) -> Envelope {
    let wait = timeout.saturating_add(ANSWER_GRACE_PERIOD);
    intent(s, of, Some(wait), Hook::Called { plugin, hook })
}

/// The verdict that follows from a plugin's answer.
pub(super) fn vetoed(s: &State, c: &Call) -> Option<Envelope> {
    c.vetoed.as_ref()?;
    let (action, rule) = (Action::Deny, None);
    let ruled = crate::event::Permission::Ruled { call: c.id.clone(), action, rule };
    Some(about(s, c, None, ruled))
}
