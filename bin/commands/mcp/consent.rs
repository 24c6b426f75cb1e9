//! Shows a server's consent page to the user.

use crate::cli::Consent;
use std::io::{BufRead, IsTerminal, Write};
use std::process::{Command, Stdio};

use leftfold_mcp::AutoConsent;
use leftfold_view::clean::visible_line;

/// The longest accepted answer, in bytes.
const LONGEST: usize = 64 * 1024;

impl Consent {
    /// The way that suits this terminal, without `--consent`.
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
        // Not masked: a page with a masked address could not be opened.
        let _ = writeln!(
            std::io::stderr(),
            "leftfold: open this page to sign in:\n\n{}\n\nIf the browser is on another machine, \
             paste the final address of the page here.",
            visible_line(page)
        );
        if *self == Self::Browser {
            open(page);
        }
        match line().await {
            Some(line) => Ok(line),
            // Without standard input nobody can paste, but the browser may return by itself.
            None => std::future::pending().await,
        }
    }
}

/// The next line of standard input that is not empty. The reading thread may block forever, so
/// nothing waits for it.
async fn line() -> Option<String> {
    let (sender, receiver) = tokio::sync::oneshot::channel();
    let thread = std::thread::Builder::new().name("input".into());
    // without a thread nobody can paste here
    let _ = thread.spawn(move || {
        let lines = std::io::stdin().lock().lines();
        let line = lines.map_while(Result::ok).find(|line| !line.trim().is_empty());
        sender.send(line.filter(|line| line.len() <= LONGEST))
    });
    receiver.await.ok().flatten()
}

fn open(page: &str) {
    let program = if cfg!(target_os = "macos") { "open" } else { "xdg-open" };
    let mut browser = Command::new(program);
    browser.arg(page).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    match browser.spawn() {
        // The opener ends once the browser has the address.
        Ok(mut browser) => drop(std::thread::Builder::new().spawn(move || browser.wait())),
        Err(error) => {
            leftfold_runtime::note(&format!("leftfold: `{program}` opens no browser: {error}"));
        }
    }
}
