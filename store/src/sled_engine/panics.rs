//! sled panics where it finds damage, and in threads of its own. Panics become errors here.

use std::cell::Cell;
use std::panic::{self, AssertUnwindSafe};
use std::sync::Once;
use std::thread;

use crate::sled_engine::pending;

thread_local! {
    static QUIET: Cell<bool> = const { Cell::new(false) };
}

/// Runs code that may panic inside sled. `Err` is the panic's message. The message goes to the
/// trace, not to stderr.
pub(crate) fn catch_panic<T>(run: impl FnOnce() -> T) -> Result<T, String> {
    install_hook();
    let before = QUIET.replace(true);
    let result = panic::catch_unwind(AssertUnwindSafe(run));
    QUIET.set(before);
    result.map_err(|panic| message(&*panic))
}

fn message(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("it panicked");
    // some of sled's messages contain whole pages
    text.chars().take(300).collect()
}

/// Installs a panic hook that keeps panics inside sled off stderr: they become error values. The
/// hook recognizes sled's own threads by their names.
fn install_hook() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let outer = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            let thread = thread::current();
            let name = thread.name().unwrap_or_default();
            if name.starts_with("sled-io-") || name == "log flusher" {
                tracing::error!(thread = name, "panic inside sled: {info}");
                pending::thread_died(info.to_string());
            } else if QUIET.get() {
                tracing::debug!("panic inside sled: {info}");
            } else {
                outer(info);
            }
        }));
    });
}
