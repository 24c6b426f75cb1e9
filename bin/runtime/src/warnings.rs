//! Prints each warning once per process, because every prompt finds the same problems again.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

/// Prints the problems that were not printed before to standard error.
pub fn print_once(problems: &[String]) {
    static PRINTED: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());
    for problem in problems {
        let is_new = PRINTED.lock().unwrap_or_else(PoisonError::into_inner).insert(problem.clone());
        if is_new {
            crate::note(&format!("leftfold: {problem}"));
        }
    }
}
