//! Signed-in accounts of vendors, and servers on this machine, with their models.

pub mod account_models;
pub mod local_servers;
pub(crate) mod plugin_credentials;
pub mod sign_in;
