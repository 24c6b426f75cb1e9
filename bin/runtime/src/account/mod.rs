//! Signed-in accounts of vendors, and their models.

pub mod account_models;
pub mod sign_in;
