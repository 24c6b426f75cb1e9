//! The tools and their permissions, through the program.
#![cfg(test)]

mod apply_patch;
mod asking;
mod bash;
mod batch;
mod concurrency;
mod edit;
mod formatters;
mod language_servers;
mod odd_files;
mod permission;
mod permission_answer;
mod permission_modes;
mod preview;
mod question;
mod seen;
mod skill;
mod tool;
mod webfetch;
mod websearch;
