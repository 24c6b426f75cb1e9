//! Bringing a consent page before whoever sits here.

use crate::cli::Consent;
use std::io::{BufRead, IsTerminal, Write};
use std::process::{Command, Stdio};

use leftfold_mcp::AutoConsent;

/// The longest line that is taken for an answer, in bytes.
const LONGEST: usize = 64 * 1024;

impl Consent {
    /// What suits this place, if nobody has said otherwise.
    pub(super) fn usual() -> Self {
        let shows = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
        let screen = cfg!(target_os = "macos") || shows("DISPLAY") || shows("WAYLAND_DISPLAY");
        let here = std::io::stderr().is_terminal() && !shows("SSH_CONNECTION");
        if screen && here { Self::Browser } else { Self::Print }
    }
}

impl leftfold_mcp::Consent for Consent {
    async fn ask(&self, page: &str) -> Result<String, String> {
        if *self == Self::Follow {
            return AutoConsent.ask(page).await;
        }
        // as it is: a page whose address is masked could not be opened
        let mut stderr = std::io::stderr();
        let _ = writeln!(
            stderr,
            "leftfold: open this page to sign in:\n\n{page}\n\nIf the browser is on another machine, \
             paste the address here that the page leads to in the end."
        );
        if *self == Self::Browser {
            open(page);
        }
        match line().await {
            Some(line) => Ok(line),
            // nobody can paste here, but the browser may come back by itself
            None => std::future::pending().await,
        }
    }
}

/// The next line of standard input that says something. Its thread may wait for ever, and is not
/// waited for itself.
async fn line() -> Option<String> {
    let (told, tell) = tokio::sync::oneshot::channel();
    let thread = std::thread::Builder::new().name("input".into());
    // without a thread nobody can paste here
    let _ = thread.spawn(move || {
        let lines = std::io::stdin().lock().lines();
        let line = lines.map_while(Result::ok).find(|line| !line.trim().is_empty());
        told.send(line.filter(|line| line.len() <= LONGEST))
    });
    tell.await.ok().flatten()
}

fn open(page: &str) {
    let program = if cfg!(target_os = "macos") { "open" } else { "xdg-open" };
    let mut browser = Command::new(program);
    browser.arg(page).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    match browser.spawn() {
        // it ends when it has told the browser
        Ok(mut browser) => drop(std::thread::Builder::new().spawn(move || browser.wait())),
        Err(error) => {
            leftfold_runtime::note(&format!("leftfold: `{program}` opens no browser: {error}"));
        }
    }
}
