//! Plugins: the user's own programs. They are asked before something is decided or sent, receive
//! events, and offer tools. They speak JSON-RPC 2.0 over standard input and output,
//! one message a line.
//!
//! A project has one [`Plugins`] in a process, with one process for each plugin, shared by all
//! sessions that work in the project. The turn configuration lists the running plugins and their
//! hooks.
//!
//! - `next` decides `hook.called` before the point of the hook, one plugin after the other: before
//!   a call's check, question, start and result, before the request of a prompt or summary, and
//!   before any other request. The actor `Hooks` then calls [`Plugins::ask`]. The answer is a fact
//!   in the log, so only the hook call itself needs the plugin.
//! - The values of headers, variables and keys stay out of the log: they come back beside the fact,
//!   and the fact holds keyed_hash hashes. After a crash the plugin is asked for them again.
//! - The hook `config` is called before a session exists, once per start of the plugin. Its answer
//!   is kept with the process, so reading the settings again asks nobody.
//! - A plugin that does not answer within its limit is ended and not started again for a while.
//!
//! This crate decides nothing about a turn and never appends to a log.

mod answer;
mod call;
mod config_plugin;
mod credentials;
mod handshake;
mod javascript;
mod keyed_hash;
mod link;
mod plugin;
mod plugins;
mod sign_in;
mod spec;
mod watcher;

pub use config_plugin::ConfigPlugin;
pub use credentials::{CredentialStore, Credentials, OpenCredential};
pub use handshake::{SignInKind, SignInMethod};
pub use javascript::{JAVASCRIPT_TIMEOUT, JavaScript};
pub use plugins::{Plugins, close, dispose};
pub use sign_in::{SignInOffer, StartedSignIn};
pub use spec::{
    HookAnswer, LaunchContext, PluginCode, PluginProgram, PluginReport, PluginStatus, TIMEOUT,
};
pub use watcher::Watcher;
