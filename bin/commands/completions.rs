//! `leftfold completions` and `leftfold man`: generated from the definitions of the commands.

use std::process::ExitCode;

use clap::CommandFactory;

use crate::cli::{Cli, Completions, Man};

pub(crate) fn completions(args: &Completions) -> anyhow::Result<ExitCode> {
    let mut text = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "leftfold", &mut text);
    super::print_exact(&String::from_utf8(text)?)
}

pub(crate) fn man(args: &Man) -> anyhow::Result<ExitCode> {
    let mut command = Cli::command();
    command.build();
    let mut name = "leftfold".to_owned();
    for part in &args.command {
        let inner = command.find_subcommand(part).cloned();
        command = inner.ok_or_else(|| {
            leftfold_runtime::Usage(format!(
                "`{name}` has no command `{part}`: `{name} --help` lists them"
            ))
        })?;
        name = format!("{name} {}", command.get_name());
    }
    let page = command.display_name(name.replace(' ', "-")).bin_name(name);
    let mut text = Vec::new();
    let source = concat!("leftfold ", env!("CARGO_PKG_VERSION"));
    clap_mangen::Man::new(page).source(source).render(&mut text)?;
    super::print_exact(&String::from_utf8(text)?)
}
