//! `leftfold trust`: shows the settings of the project that need trust, and stores the user's decision.

use std::io::IsTerminal;
use std::process::ExitCode;

use crate::cli::Trust;
use leftfold_config::environment;
use leftfold_runtime::{Usage, trust};

pub(crate) fn trust(args: &Trust) -> anyhow::Result<ExitCode> {
    let directory = std::env::current_dir()?;
    let review = trust::review(&directory)?;
    let worktree = review.worktree.display();
    if args.revoke {
        let revoked = review.revoke(&environment)?;
        let text = if revoked { "is no longer trusted" } else { "was not trusted" };
        return super::print(&format!("{worktree} {text}\n"));
    }
    if review.items.is_empty() {
        return super::print(&format!("{worktree} has no settings that need trust\n"));
    }
    if args.show || review.is_whole() {
        return super::print(&trust::listing(&review));
    }
    if args.yes {
        trust::grant(&review)?;
        return super::print(&format!("{}{worktree} is trusted\n", trust::listing(&review)));
    }
    if !std::io::stdin().is_terminal() {
        super::print(&trust::listing(&review))?;
        let way = "nobody is here to answer: `leftfold trust --yes` trusts these settings";
        return Err(Usage(way.to_owned()).into());
    }
    leftfold_terminal::trust::ask(&directory)?;
    let trusted = trust::review(&directory)?.is_whole();
    super::print(&format!("{worktree} is {}trusted\n", if trusted { "" } else { "not " }))
}
