//! What goes wrong with files that a prompt is made of: told once, for prompts are many.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

/// Says on standard error what has not been said yet.
pub fn tell(problems: &[String]) {
    static TOLD: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());
    for problem in problems {
        let is_new = TOLD.lock().unwrap_or_else(PoisonError::into_inner).insert(problem.clone());
        if is_new {
            crate::note(&format!("leftfold: {problem}"));
        }
    }
}
