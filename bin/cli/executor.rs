//! Arguments of `leftfold executor`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::examples;

#[derive(Debug, Args)]
#[command(after_help = examples::EXECUTOR)]
pub(crate) struct Executor {
    /// The address to listen at; port 0 chooses a free one
    #[arg(long, value_name = "HOST:PORT")]
    pub(crate) listen: String,
    /// The certificate for that host, followed by those that sign it, in PEM
    #[arg(long, value_name = "FILE")]
    pub(crate) tls_cert: PathBuf,
    /// The key of the certificate, in PEM
    #[arg(long, value_name = "FILE")]
    pub(crate) tls_key: PathBuf,
    /// The file with the token that nodes have to know, of at least 16 characters
    #[arg(long, value_name = "FILE")]
    pub(crate) token_file: PathBuf,
    /// The folder where calls work [default: the current one]
    #[arg(long, value_name = "DIR")]
    pub(crate) workspace: Option<PathBuf>,
    /// The folder for epochs and outcomes, which must survive a restart [default: `executor` in the data folder]
    #[arg(long, value_name = "DIR")]
    pub(crate) state: Option<PathBuf>,
    /// The sandbox of commands; `external` says that a container around the executor is one
    #[arg(long, value_enum, default_value_t, value_name = "MODE")]
    pub(crate) sandbox: ExecutorSandbox,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum ExecutorSandbox {
    #[default]
    On,
    Off,
    External,
}
