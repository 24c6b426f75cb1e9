//! Why an event happened, and what a request was made of: the events, rules, files and lines that it
//! comes from. `explain` and the page show it.

mod event;
mod left_out;
mod links;
mod request;

pub use event::{EventLinks, EventReport, decided_on, then};
pub use left_out::{LeftOut, Omissions};
pub use links::Links;
pub use request::{MessageReport, RequestReport};
