//! Trust in projects, remembered approvals, changed texts and secrets.

pub mod approvals;
pub mod only_people;
pub mod secrets;
pub mod texts;
pub mod trust;
