//! Shows a server's consent page to the user.

use crate::cli::Consent;
use std::io::{BufRead, IsTerminal, Write};

use leftfold_mcp::AutoConsent;
use leftfold_runtime::note;
use leftfold_runtime::sign_in::{OPENER, open_browser};
use leftfold_view::clean::visible_line;

/// The longest accepted answer, in bytes.
const LONGEST: usize = 64 * 1024;

impl Consent {
    /// Opens a page in a browser, if that is the way.
    pub(super) fn open(self, page: &str) {
        if self == Self::Browser {
            open(page);
        }
    }

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
        self.open(page);
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

/// Opens a page in a browser; people have its address too.
fn open(page: &str) {
    if let Err(error) = open_browser(page) {
        note(&format!("leftfold: `{OPENER}` opens no browser: {error}"));
    }
}
