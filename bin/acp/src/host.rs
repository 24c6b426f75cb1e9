//! The client's files and terminals as the `Host` of the sessions that it has open. Tools use it
//! like the disk, with the same checks of paths and of files that the model has seen, and its
//! answers become part of `tool.finished`, so a log replays without the client.
//!
//! A command in a client's terminal runs through this program (`leftfold in-terminal`), which
//! becomes the shell. It takes only the allowed variables of the editor's environment, and carries
//! the call's mark, by which its processes are ended with the call or by the next node. After a
//! crash the call is lost like any other.
//!
//! Invariant: text that would be masked on its way out is never sent to the client as a file or a
//! command; such a call does not use the client.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use agent_client_protocol::v1::SentRequest;
use agent_client_protocol::v1::schema::{
    CreateTerminalRequest, EnvVariable, KillTerminalRequest, ReadTextFileRequest,
    ReleaseTerminalRequest, SessionId, TerminalExitStatus, TerminalId, TerminalOutputRequest,
    WaitForTerminalExitRequest, WriteTextFileRequest,
};
use agent_client_protocol::{
    Error, JsonRpcResponse, is_connection_terminated, is_incoming_transport_closed,
};
use leftfold_events::{Seq, SessionId as Session};
use leftfold_process::CALL;
use leftfold_tools::BoxFuture;
use leftfold_tools::host::{
    Exit, Host, HostCommand, HostError, Starting, Terminal, TerminalOutput,
};

use super::shared::Shared;
use leftfold_runtime::IN_TERMINAL;
use leftfold_runtime::redact_output;

/// The client, for the calls of one session and of its children.
pub(super) struct ClientHost {
    pub(super) session: Session,
    /// The session, while the client has it open.
    pub(super) open: Box<dyn Fn() -> Option<Arc<Shared>> + Send + Sync>,
}

leftfold_events::debug_fields!(ClientHost { session });

impl Host for ClientHost {
    fn read(&self, path: &Path) -> Option<BoxFuture<'static, Result<String, HostError>>> {
        let shared = (self.open)().filter(|shared| shared.abilities.fs.read_text_file)?;
        let request = ReadTextFileRequest::new(shared.id.clone(), path);
        let asked = shared.connection.send_request(request);
        Some(Box::pin(async move { Ok(answer(asked).await?.content) }))
    }

    fn write(&self, path: &Path, text: &str) -> Option<BoxFuture<'static, Result<(), HostError>>> {
        let shared = (self.open)().filter(|shared| shared.abilities.fs.write_text_file)?;
        if is_masked(text) {
            return None;
        }
        let request = WriteTextFileRequest::new(shared.id.clone(), path, text);
        let asked = shared.connection.send_request(request);
        Some(Box::pin(async move { answer(asked).await.map(drop) }))
    }

    fn start(&self, command: &HostCommand<'_>) -> Option<Starting> {
        let shared = (self.open)().filter(|shared| shared.abilities.terminal)?;
        let call = call_of(command.call_env, self.session)?;
        let program = std::env::current_exe().ok().filter(|program| program.is_file())?;
        let request = request(&shared.id, &program, command)?;
        Some(Box::pin(async move {
            let asked = shared.connection.send_request(request);
            let terminal = answer(asked).await?.terminal_id;
            shared.shows(call, terminal.clone()).await;
            let shown = ClientTerminal { shared, terminal };
            Ok(Arc::new(shown) as Arc<dyn Terminal>)
        }))
    }
}

fn is_masked(text: &str) -> bool {
    redact_output::masked(text) != text
}

/// The session's own call that `call_env` names. Calls of children are unknown to the client, so it
/// cannot show a terminal in them.
fn call_of(call_env: &str, session: Session) -> Option<Seq> {
    let mut parts = call_env.rsplitn(4, ':');
    let (_attempt, call, of) = (parts.next()?, parts.next()?, parts.next()?);
    call.parse().ok().filter(|_| of == session.to_string())
}

/// The command line that starts this program, which then becomes the shell, so that the command
/// gets no more of the client's environment than it would get of this process's.
fn request(
    session: &SessionId,
    program: &Path,
    command: &HostCommand<'_>,
) -> Option<CreateTerminalRequest> {
    let kept = command.environment.iter().flat_map(|name| ["--keep".to_owned(), name.clone()]);
    let sandbox = match command.sandbox {
        Some(file) => vec!["--sandbox".to_owned(), file.to_str()?.to_owned()],
        None => Vec::new(),
    };
    let shell = command.shell.map(|shell| ["--shell".to_owned(), shell.to_owned()]);
    let args: Vec<String> = [IN_TERMINAL.to_owned()]
        .into_iter()
        .chain(shell.into_iter().flatten())
        .chain(sandbox)
        .chain(kept)
        .chain(["--".to_owned(), command.line.to_owned()])
        .collect();
    if args.iter().any(|arg| is_masked(arg)) {
        return None;
    }
    let program = program.to_str()?.to_owned();
    let limit = u64::try_from(command.limit).ok()?;
    Some(
        CreateTerminalRequest::new(session.clone(), program)
            .args(args)
            .env(vec![EnvVariable::new(CALL, command.call_env)])
            .cwd(PathBuf::from(command.folder))
            .output_byte_limit(limit),
    )
}

/// A client that is gone never answers. The node is then about to end too, and this must not reach
/// a log. The call is interrupted, or ends at its deadline.
async fn answer<T: JsonRpcResponse + Send>(asked: SentRequest<T>) -> Result<T, HostError> {
    match asked.block_task().await {
        Ok(answer) => Ok(answer),
        Err(error) if has_gone(&error) => std::future::pending().await,
        Err(error) => Err(HostError::Refused(error.message)),
    }
}

fn has_gone(error: &Error) -> bool {
    is_incoming_transport_closed(error) || is_connection_terminated(error)
}

/// A command in one of the client's terminals.
struct ClientTerminal {
    shared: Arc<Shared>,
    terminal: TerminalId,
}

impl ClientTerminal {
    fn ids(&self) -> (SessionId, TerminalId) {
        (self.shared.id.clone(), self.terminal.clone())
    }
}

impl Terminal for ClientTerminal {
    fn output(&self) -> BoxFuture<'static, Result<TerminalOutput, HostError>> {
        let (session, terminal) = self.ids();
        let asked =
            self.shared.connection.send_request(TerminalOutputRequest::new(session, terminal));
        Box::pin(async move {
            let output = answer(asked).await?;
            Ok(TerminalOutput { text: output.output, cut: output.truncated })
        })
    }

    fn ended(&self) -> BoxFuture<'static, Result<Exit, HostError>> {
        let (session, terminal) = self.ids();
        let asked =
            self.shared.connection.send_request(WaitForTerminalExitRequest::new(session, terminal));
        Box::pin(async move {
            let TerminalExitStatus { exit_code, signal, .. } = answer(asked).await?.exit_status;
            Ok(Exit { code: exit_code, signal })
        })
    }

    fn kill(&self) -> BoxFuture<'static, Result<(), HostError>> {
        let (session, terminal) = self.ids();
        let asked =
            self.shared.connection.send_request(KillTerminalRequest::new(session, terminal));
        Box::pin(async move { answer(asked).await.map(drop) })
    }

    fn release(&self) -> BoxFuture<'static, Result<(), HostError>> {
        let (session, terminal) = self.ids();
        let asked =
            self.shared.connection.send_request(ReleaseTerminalRequest::new(session, terminal));
        Box::pin(async move { answer(asked).await.map(drop) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn terminals_are_for_the_calls_of_the_session_itself() {
        let session: Session = "01ARZ3NDEKTSV4RRFFQ69G5FAV".parse().unwrap();
        assert_eq!(call_of("7:12:01ARZ3NDEKTSV4RRFFQ69G5FAV:31:1", session), Some(31));
        assert_eq!(call_of("7:12:01BX5ZZKBKACTAV9WEVGEMMVRZ:31:1", session), None);
        assert_eq!(call_of("", session), None);
    }

    #[test]
    fn what_is_masked_on_its_way_out_runs_here() {
        let command = |line| HostCommand {
            sandbox: None,
            shell: None,
            line,
            folder: Path::new("/p"),
            call_env: "s:1:2:1",
            environment: &[],
            limit: 10,
        };
        let request = |line| request(&SessionId::new("s"), Path::new("/bin/x"), &command(line));
        let asked = request("echo hi").unwrap();
        assert_eq!(asked.args, [IN_TERMINAL, "--", "echo hi"]);
        let token = format!("curl -H 'Authorization: Bearer sk-ant-api03-{}'", "a".repeat(90));
        assert!(request(&token).is_none());
    }
}
