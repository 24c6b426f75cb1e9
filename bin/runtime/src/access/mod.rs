//! What a person has allowed, and what must not be shown: trust, approvals, changed texts, secrets.

pub mod approvals;
pub mod only_people;
pub mod secrets;
pub mod texts;
pub mod trust;
