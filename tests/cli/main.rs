//! The commands themselves, from outside: settings, prompts, exit codes and error messages.
#![cfg(test)]

mod auth;
mod bad_input;
mod claude_settings;
mod commands;
mod completions;
mod config;
mod config_secrets;
mod demo;
mod docs;
mod doctor;
mod exit_codes;
mod hostile_text;
mod install;
mod instructions;
mod limits;
mod mentions;
mod models;
mod opencode_settings;
mod output_schema;
mod pages;
mod quota;
mod report;
mod run;
mod run_input;
mod start;
mod story;
mod texts;
mod trust;
