//! The page that shows a run in a browser: as one file without network access, or as files and data of a server.
//!
//! | module | purpose |
//! |---|---|
//! | `html` | the file: markup, style, script and the data in blocks; and the files for a server |
//! | `run` | the blocks: all logs of a run, to which events can be added |
//! | `log_data` | one log: a summary with columns, and its chunks |
//! | `chunks` | events with the states around them, which are read when they are shown |
//! | `state_trace` | the state after each event, as patches between key frames |
//! | `patch` | differences of two JSON values |
//! | `spans` | the bars of the timeline |
//! | `requests` | what each request was made of |
//! | `pool` | texts and values that are stored once |
//!
//! The front end is in `web/`: ES modules without a build step. It renders and decides nothing; it has
//! no fold of its own. Everything that leaves this crate is masked as in every export.
//!
//! Invariant: nothing here does I/O or reads a clock.

mod chunks;
mod html;
mod log_data;
mod patch;
mod pool;
mod requests;
mod run;
mod spans;
mod state_trace;
#[cfg(test)]
mod tests;

use leftfold_events::{Seq, SessionId};

pub use html::{LIVE, file, page};
pub use run::Run;

#[derive(Debug, thiserror::Error)]
pub enum PageError {
    #[error("the patches do not lead to the state of session {session} after event {seq}")]
    Differs { session: SessionId, seq: Seq },
    #[error("a patch does not fit: {0}")]
    Patch(#[from] patch::Misfit),
    #[error("the data cannot be written as JSON")]
    Json(#[from] serde_json::Error),
}
