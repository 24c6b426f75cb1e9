//! Signed-in accounts of vendors, and their models.

pub mod account_models;
pub(crate) mod plugin_credentials;
pub mod sign_in;
