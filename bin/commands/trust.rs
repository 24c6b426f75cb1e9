//! `leftfold trust`: shows the settings of the project that need trust and the texts that calls have changed, and stores
//! the user's decision.

use std::io::IsTerminal;
use std::process::ExitCode;

use crate::cli::Trust;
use leftfold_config::environment;
use leftfold_runtime::{Usage, texts, trust};

pub(crate) fn trust(args: &Trust) -> anyhow::Result<ExitCode> {
    let directory = std::env::current_dir()?;
    let review = trust::review(&directory)?;
    let worktree = review.worktree.display();
    if args.revoke {
        let revoked = review.revoke(&environment)?;
        let text = if revoked { "is no longer trusted" } else { "was not trusted" };
        return super::print(&format!("{worktree} {text}\n"));
    }
    let held = texts::held(&directory)?;
    if review.items.is_empty() && held.is_empty() {
        return super::print(&format!("{worktree} has no settings that need trust\n"));
    }
    let mut listing = trust::listing(&review);
    if !held.is_empty() {
        listing += &format!("{}\n", texts::question(&held));
    }
    if args.show || review.is_whole() && held.is_empty() {
        return super::print(&listing);
    }
    if args.yes {
        trust::grant(&review)?;
        texts::answer(&directory, &held, true)?;
        return super::print(&format!("{listing}{worktree} is trusted\n"));
    }
    if !std::io::stdin().is_terminal() {
        super::print(&listing)?;
        let way = "nobody is here to answer: `leftfold trust --yes` trusts these settings and obeys these texts";
        return Err(Usage(way.to_owned()).into());
    }
    leftfold_terminal::trust::ask(&directory)?;
    leftfold_terminal::trust::ask_about_texts(&directory)?;
    let trusted = trust::review(&directory)?.is_whole();
    super::print(&format!("{worktree} is {}trusted\n", if trusted { "" } else { "not " }))
}
