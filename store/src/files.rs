//! Files beside the logs. No log needs them: they are kept for some days.

use std::path::{Path, PathBuf};

use leftfold_events::{Seq, SessionId};

/// The subfolder of the store for the full texts of tool outputs.
pub(crate) const SPILLS: &str = "spill";

/// The subfolder of the store for recorded exchanges with providers.
pub(crate) const WIRE: &str = "wire";

/// The file with the recorded exchange of the request `requested` of a session in the store `dir`.
pub fn wire_record(dir: &Path, session: SessionId, requested: Seq) -> PathBuf {
    dir.join(WIRE).join(format!("{session}-{requested}.jsonl"))
}
