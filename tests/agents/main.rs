//! Agents, plans and subagents.
#![cfg(test)]

mod definitions;
mod doom_loop;
mod loop_trouble;
mod plan;
mod subagent;
mod subagent_clients;
mod subagent_limits;
mod subtask;
mod turn_config;
