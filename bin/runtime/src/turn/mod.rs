//! Makes the turn configuration of each prompt from settings and project.

pub mod demo;
pub mod project;
pub mod resolved_settings;
pub mod specs;
pub mod turn_config;
