//! Plugins are asked before what they have a say in is decided: one after the other, in the order of
//! the settings, so that each knows what the one before has made of it.

use super::{about, intent};
use crate::event::{Access, CallKind, Envelope, Hook, HookPoint};
use crate::id::Seq;
use crate::rules::{Action, Rule};
use crate::state::{Call, Compacting, Message, State};

/// How long an answer is waited for that the plugin's own limit should have ended, in milliseconds.
const GRACE: u64 = 10_000;
/// What is asked about a request.
const OF_REQUESTS: [HookPoint; 5] = [
    HookPoint::ToolDefinition,
    HookPoint::ChatParams,
    HookPoint::System,
    HookPoint::Auth,
    HookPoint::ChatHeaders,
];

/// Goes on when everybody has been heard about a call.
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

/// Whether what came of a call is what the model will be told.
pub(super) fn is_settled(s: &State, c: &Call) -> bool {
    let heard = || matches!(hook_call(s, HookPoint::ToolAfter, c.seq), HookCall::Over);
    c.is_done() && (!may_be_revised(c) || heard())
}

/// Whether plugins may change what the model is told of a call: it has run, and nobody takes over.
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

/// A question that a person would be asked.
pub(super) fn permission(
    s: &State,
    c: &Call,
    go: impl FnOnce() -> Option<Envelope>,
) -> Option<Envelope> {
    if let HookCall::Waiting = hook_call(s, HookPoint::PermissionAsk, c.seq) {
        // also if other rules have come meanwhile
        return None;
    }
    let open = |(_, access): &(usize, &Access)| s.rules_in_force().leave_open(access);
    match s.questioned(c).filter(open).filter(|_| c.switches_to().is_none()) {
        Some(_) => then(s, c, HookPoint::PermissionAsk, go),
        None => go(),
    }
}

/// The verdict on a call: where nobody is there to be asked, a plugin is.
pub(super) fn verdict(s: &State, c: &Call) -> (Action, Option<Rule>) {
    let rules = s.rules_in_force();
    let (action, rule) = rules.all(c.access());
    // nothing denies it but that nobody is there to be asked
    let left_open =
        |access: &Access| rules.leave_open(access) || rules.access(access).0 == Action::Allow;
    let asks = action == Action::Deny
        && s.has_hook(HookPoint::PermissionAsk)
        && c.switches_to().is_none()
        && c.access().iter().all(left_open);
    if asks { (Action::Ask, rule) } else { (action, rule) }
}

/// A prompt that no model has seen yet.
pub(super) fn prompt(s: &State) -> Option<Envelope> {
    let prompts = s.messages.iter().filter_map(Message::prompt).map(|prompt| prompt.seq);
    let mut new = prompts.filter(|seq| *seq > s.plugins.last);
    new.find_map(|seq| due(s, HookPoint::ChatMessage, Some(seq)))
}

/// The request that is to be made next.
pub(super) fn request(s: &State) -> Option<Envelope> {
    OF_REQUESTS.into_iter().find_map(|hook| due(s, hook, None))
}

/// The request for a summary.
pub(super) fn summary(s: &State, c: &Compacting) -> Option<Envelope> {
    let hooks = [HookPoint::Compacting, HookPoint::Auth, HookPoint::ChatHeaders];
    hooks.into_iter().find_map(|hook| due(s, hook, Some(c.started.intent)))
}

/// How things stand with a hook.
enum HookCall {
    /// Every plugin has answered.
    Over,
    Waiting,
    /// This plugin is to be asked next, and may take so many milliseconds.
    Due(String, u64),
}

/// The plugin that is to be asked next, in the order of the settings.
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
    let wait = timeout.saturating_add(GRACE);
    intent(s, of, Some(wait), Hook::Called { plugin, hook })
}

/// The verdict that a plugin has spoken already.
pub(super) fn vetoed(s: &State, c: &Call) -> Option<Envelope> {
    c.vetoed.as_ref()?;
    let (action, rule) = (Action::Deny, None);
    let ruled = crate::event::Permission::Ruled { call: c.id.clone(), action, rule };
    Some(about(s, c, None, ruled))
}
