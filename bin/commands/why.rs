//! `leftfold why`: shows what a session waits for, who has to act, since when and until when.

use std::process::ExitCode;

use leftfold_runtime::remote::Remote;
use leftfold_runtime::why::{report, text};

use super::pages;
use crate::cli::{Format, Why};

pub(crate) fn why(args: &Why) -> anyhow::Result<ExitCode> {
    let place = super::place(&args.session)?;
    let holder =
        || leftfold_runtime::run_async(async { Remote::holder(&place.store) }).ok().flatten();
    if args.format == Format::Json {
        return super::print_json(&format!("{}\n", report(&place, holder)?));
    }
    pages::page_text(&args.page, &text(&place, holder)?, pages::grouped_line)
}
