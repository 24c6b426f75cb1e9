//! `leftfold executor`: runs calls beside a workspace, for nodes on other machines.

use std::io::Read;
use std::path::Path;
use std::process::ExitCode;

use anyhow::Context;
use leftfold_config::SandboxMode;
use leftfold_executor::{Options, Server};
use leftfold_runtime::signals::Signals;
use leftfold_runtime::{Usage, end_all, sandbox, session_paths};
use tokio::net::TcpListener;

use crate::cli::{self, ExecutorSandbox};

/// The fewest characters of a token, and the most bytes of its file.
const SHORTEST_TOKEN: usize = 16;
const MAX_TOKEN: u64 = 4 << 10;

pub(crate) fn executor(args: &cli::Executor) -> anyhow::Result<ExitCode> {
    let options = options(args)?;
    leftfold_runtime::run_async(serve(options, &args.listen))??;
    Ok(ExitCode::SUCCESS)
}

fn options(args: &cli::Executor) -> anyhow::Result<Options> {
    let directory = match &args.workspace {
        Some(folder) => folder.clone(),
        None => std::env::current_dir().context("the current directory")?,
    };
    let unusable = |error| Usage(format!("--workspace {}: {error}", directory.display()));
    let directory = directory.canonicalize().map_err(unusable)?;
    let worktree = leftfold_config::worktree_of(&directory);
    let state = match &args.state {
        Some(folder) => std::path::absolute(folder)?,
        None => session_paths::data_dir()?.join("executor"),
    };
    if state.starts_with(&worktree) {
        let state = state.display();
        return Err(Usage(format!("--state {state}: it must not be in the workspace")).into());
    }
    let mode = match args.sandbox {
        ExecutorSandbox::On => SandboxMode::On,
        ExecutorSandbox::Off => SandboxMode::Off,
        ExecutorSandbox::External => SandboxMode::External,
    };
    let (backend, why) = sandbox::of_executor(mode);
    if !why.is_empty() {
        let remedy = sandbox::remedy();
        leftfold_runtime::note(&format!(
            "leftfold: the sandbox is weaker than usual here: {why}{remedy}"
        ));
    }
    Ok(Options {
        certificate: args.tls_cert.clone(),
        key: std::path::absolute(&args.tls_key)?,
        token: token(&args.token_file)?,
        token_file: std::path::absolute(&args.token_file)?,
        directory,
        home: leftfold_config::is_home(&worktree),
        worktree,
        state,
        backend,
        why,
    })
}

fn token(file: &Path) -> Result<String, Usage> {
    let wrong = |why: String| Usage(format!("--token-file {}: {why}", file.display()));
    let mut text = String::new();
    std::fs::File::open(file)
        .and_then(|file| file.take(MAX_TOKEN).read_to_string(&mut text))
        .map_err(|error| wrong(error.to_string()))?;
    let token = text.trim();
    if token.chars().count() < SHORTEST_TOKEN {
        return Err(wrong(format!("the token has fewer than {SHORTEST_TOKEN} characters")));
    }
    Ok(token.to_owned())
}

async fn serve(options: Options, listen: &str) -> anyhow::Result<()> {
    let mut signals = Signals::new()?;
    let workspace = options.directory.clone();
    let server = tokio::task::spawn_blocking(move || Server::new(options)).await??;
    let listener = TcpListener::bind(listen).await.with_context(|| format!("--listen {listen}"))?;
    let address = listener.local_addr()?;
    super::print(&format!("the executor of {} listens at {address}\n", workspace.display()))?;
    let end = async move {
        let signal = signals.next().await;
        tracing::info!("{signal}: the executor ends");
    };
    server.serve(listener, end).await;
    end_all(true).await?;
    Ok(())
}
