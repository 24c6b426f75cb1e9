//! Sessions of other data folders and of other agents.
#![cfg(test)]

mod bundle;
mod children;
mod claude;
mod codex;
mod doctor;
mod hostile;
mod leftfold;
mod opencode;
mod parts;
