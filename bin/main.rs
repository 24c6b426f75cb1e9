//! The program: parses the command line and calls one command. It decides nothing.

mod cli;
mod commands;
mod logging;
mod memory;

use std::process::ExitCode;

use cli::{Cli, Command};
use leftfold_runtime::{Usage, client, note, only_people, session_paths};

fn main() -> ExitCode {
    leftfold_runtime::close_descriptors_on_exec();
    // before anything that starts a thread, takes time or hides this process from its own `/proc`
    if let Some(code) = leftfold_runtime::become_helper() {
        return code;
    }
    if let Some(code) = leftfold_terminal::become_restorer() {
        return code;
    }
    leftfold_runtime::hide_memory();
    let cli = match Cli::parse_arguments() {
        Ok(cli) => cli,
        Err(error) => return cli::refused(&error),
    };
    logging::start(cli.command.is_none());
    leftfold_runtime::raise_open_files();
    let code = dispatch(cli);
    code.unwrap_or_else(|error| {
        note(&format!("leftfold: {error:#}"));
        ExitCode::from(if error.is::<Usage>() {
            2
        } else if client::is_out_of_quota(&error) || error.is::<commands::run::InputTimeout>() {
            4
        } else {
            1
        })
    })
}

fn dispatch(cli: Cli) -> anyhow::Result<ExitCode> {
    if cli.version {
        return commands::version::version(cli.verbose);
    }
    if let Some(command) = cli.for_people() {
        only_people::require(command)?;
    }
    let database = commands::fleet::choose_store(cli.store.as_deref())?;
    let Some(command) = cli.command else {
        let start = cli.conversation.start()?;
        return match commands::first_start::choose_model(&start)? {
            Some(code) => Ok(code),
            None => leftfold_terminal::run_conversation(start),
        };
    };
    match command {
        Command::Run(args) => commands::run::run(args),
        Command::Resume(args) => commands::run::resume(&args),
        Command::Node => {
            memory::give_back();
            commands::fleet::send_metrics(database);
            leftfold_acp::serve(session_paths::chosen_store(), leftfold_http::register)
        }
        Command::Serve(args) => {
            memory::give_back();
            commands::fleet::send_metrics(database);
            leftfold_http::serve(&commands::serve::options(args)?, leftfold_acp::register)
        }
        Command::View(args) => {
            memory::give_back();
            leftfold_http::serve(&commands::serve::view(&args)?, leftfold_acp::register)
        }
        Command::Demo(args) => commands::demo::demo(args),
        Command::Replay(args) => commands::replay::replay(&args),
        Command::Verify(args) => commands::verify::verify(&args),
        Command::Rerun(args) => commands::rerun::rerun(&args),
        Command::Why(args) => commands::why::why(&args),
        Command::Explain(args) => commands::explain::explain(&args),
        Command::Check(args) => commands::check::check(&args),
        Command::Fork(args) => commands::run::fork(args),
        Command::Diff(args) => commands::diff::diff(&args),
        Command::Import(args) => commands::import::import(&args),
        Command::Stats(args) => commands::stats::stats(&args),
        Command::Compact(args) => commands::run::compact(args),
        Command::Export(args) => commands::export::export(&args),
        Command::Share(args) => commands::export::share(&args),
        Command::Unshare(args) => commands::export::unshare(&args),
        Command::Revert(args) => commands::run::revert(&args),
        Command::Unrevert(args) => commands::run::unrevert(&args),
        Command::Sessions(args) => commands::sessions::sessions(&args),
        Command::Observe(args) => commands::observe::observe(&args),
        Command::Permission(args) => commands::permission::permission(&args.command),
        Command::Models(args) => commands::models::models(&args),
        Command::Auth(args) => commands::auth::auth(&args),
        Command::Agents(args) => commands::agents::agents(&args),
        Command::Mcp(args) => commands::mcp::mcp(&args),
        Command::Lsp(args) => commands::lsp::lsp(&args),
        Command::Executor(args) => commands::executor::executor(&args),
        Command::Fleet(args) => commands::fleet::fleet(&args, cli.store.as_deref()),
        Command::Plugins(args) => commands::plugins::plugins(&args),
        Command::Config(args) => commands::config::config(&args),
        Command::Trust(args) => commands::trust::trust(&args),
        Command::Tool(args) => commands::tool::tool(&args),
        Command::Doctor(args) => commands::doctor::doctor(&args, cli.store.as_deref()),
        Command::Completions(args) => commands::completions::completions(&args),
        Command::Man(args) => commands::completions::man(&args),
        Command::InTerminal(args) => commands::in_terminal::become_shell(&args),
    }
}
