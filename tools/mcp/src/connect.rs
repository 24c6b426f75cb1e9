//! Connects to servers.

use std::path::PathBuf;
use std::time::Duration;

use leftfold_process::{Connection as _, End, OPT_OUT, Program, Started};
use leftfold_tools::{Launch, ProgramSandbox};
use rmcp::serve_client;
use rmcp::service::ClientInitializeError;

use super::client_handler::ClientHandler;
use super::failure::{Failure, innermost};
use super::link::{ConnectionParts, Link};
use super::spec::{Endpoint, STARTUP, ServerSpec};
use super::stdio::Pipes;
use super::{lists, remote};

/// How long to wait for the exit status of a server that has closed its connection.
const EXIT_TIMEOUT: Duration = Duration::from_secs(1);

/// Where and with which environment local servers are started.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct LaunchContext {
    pub(super) directory: PathBuf,
    /// Variables that servers get in addition to the usual ones.
    pub(super) environment: Vec<String>,
}

/// Connects and asks for the list of tools.
///
/// # Errors
/// The reason why no connection exists, or that the time limit is over.
pub(super) async fn connect(
    spec: &ServerSpec,
    root: &LaunchContext,
    handler: ClientHandler,
) -> Result<Link, Failure> {
    let limit = spec.timeout.unwrap_or(STARTUP);
    match tokio::time::timeout(limit, open(spec, root, handler, limit)).await {
        Ok(opened) => opened,
        Err(_) => Err(format!("it did not start within {} ms", limit.as_millis()).into()),
    }
}

async fn open(
    spec: &ServerSpec,
    root: &LaunchContext,
    handler: ClientHandler,
    limit: Duration,
) -> Result<Link, Failure> {
    let life = match &spec.endpoint {
        Endpoint::Local { command, environment, launch, sandbox } => {
            let program = Local { command, environment, launch, sandbox: sandbox.as_deref() };
            let started = local(&spec.name, program, root, &handler).await;
            started.map_err(|why| launch.explain(why))?
        }
        Endpoint::Remote { url, headers, oauth } => {
            let service = remote::connect(url, headers, oauth, &handler).await?;
            ConnectionParts { service, process: None }
        }
        Endpoint::Unusable(why) => return Err(why.clone().into()),
        Endpoint::Disabled => return Err("it is disabled".to_owned().into()),
    };
    let link = Link::new(life, handler.clone());
    match link.list_tools().await {
        Ok(tools) => {
            handler.set_tools(tools);
            // the tools work even if the server cannot list its prompts
            let timeout = lists::LIST_TIMEOUT.min(limit / 2);
            let prompts = tokio::time::timeout(timeout, link.list_prompts()).await;
            handler.set_prompts(prompts.unwrap_or_default());
        }
        Err(failure) => {
            link.close().await;
            return Err(failure);
        }
    }
    Ok(link)
}

/// A server on this machine.
struct Local<'a> {
    command: &'a [String],
    environment: &'a [(String, String)],
    launch: &'a Launch,
    sandbox: Option<&'a ProgramSandbox>,
}

async fn local(
    name: &str,
    server: Local<'_>,
    root: &LaunchContext,
    handler: &ClientHandler,
) -> Result<ConnectionParts, String> {
    let Local { command, environment, launch, sandbox } = server;
    let directory = launch.folder(&root.directory)?;
    launch.check().await?;
    let confinement = match sandbox {
        Some(sandbox) => sandbox.of_started(command, &directory, None).await?,
        None => None,
    };
    let own = confinement.as_ref().map(|it| it.variables.as_slice()).unwrap_or_default();
    let program = Program {
        name,
        command,
        directory: &directory,
        passed: &root.environment,
        variables: &[own, environment].concat(),
        is_guarded: launch.is_of_user(),
        acts_for_user: false,
        profile: confinement.as_ref().map(|it| &it.profile),
    };
    let Started { stdin, stdout, mut process, stderr_tail } = program.start().await?;
    handler.set_project(&root.directory);
    match serve_client(handler.clone(), Pipes::new(stdout, stdin)).await {
        Ok(service) => Ok(ConnectionParts { service, process: Some(process) }),
        Err(error @ ClientInitializeError::JsonRpcError(_)) => Err(stderr_tail
            .append_to(&format!("it refused `initialize`: {}", innermost(&error)))
            .await),
        Err(ClientInitializeError::ExpectedInitResult(_)) => {
            Err(stderr_tail.append_to("its answer to `initialize` is not valid MCP").await)
        }
        Err(error) => {
            let why = match process.wait(EXIT_TIMEOUT).await {
                Some(end @ End::Exited(_)) if confinement.is_some() => {
                    format!("{end} in the sandbox, {OPT_OUT}")
                }
                Some(end) => end.to_string(),
                None => innermost(&error),
            };
            Err(stderr_tail.append_to(&why).await)
        }
    }
}
