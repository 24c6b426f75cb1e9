//! The interface to language servers. The crate `leftfold-lsp` implements it.

use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Instant;

use futures::future::BoxFuture;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The language servers of a turn.
pub trait LanguageServers: fmt::Debug + Send + Sync {
    /// Starts the servers for this file, so that they are ready when it is changed. Does not wait.
    fn prepare(&self, path: &Path);

    /// Brings the servers up to date with files that a call has written, and waits for their diagnostics until `end` at
    /// the latest.
    fn check<'a>(
        &'a self,
        files: &'a [WrittenFile],
        end: Instant,
    ) -> BoxFuture<'a, FoundDiagnostics>;

    /// Answers a question about code, until `end` at the latest: lines for the model.
    ///
    /// # Errors
    /// The reason why there is no answer, in words for the model.
    fn ask<'a>(
        &'a self,
        question: &'a CodeQuestion,
        end: Instant,
    ) -> BoxFuture<'a, Result<Vec<String>, String>>;
}

/// A file that a call has written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WrittenFile {
    /// Absolute, with links resolved.
    pub path: PathBuf,
    /// `None`: it is gone.
    pub text: Option<String>,
}

/// The diagnostics of written files.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FoundDiagnostics {
    /// The written files for which a server has an answer, and files of earlier calls whose answers were late.
    pub files: Vec<FileDiagnostics>,
    /// Other files of the project that have errors, with their number.
    pub others: Vec<(PathBuf, usize)>,
    /// Sentences about servers that did not answer.
    pub notes: Vec<String>,
}

/// The diagnostics of one file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FileDiagnostics {
    pub path: PathBuf,
    /// Errors first. Not all, if there are many.
    pub items: Vec<Diagnostic>,
    /// The number of all errors, and of all others.
    pub errors: usize,
    pub rest: usize,
}

/// One diagnostic. Its texts come from a server and may contain anything.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    /// Start and end: line and UTF-16 unit in the line, both from 0. Within the file.
    pub range: [(u32, u32); 2],
    /// The character in the line, from 0, at which it starts.
    pub column: u32,
    pub severity: Severity,
    pub message: String,
    /// The program that has found it, and its code for it.
    pub source: Option<String>,
    pub code: Option<String>,
}

leftfold_events::named! {
    /// In the order of the protocol, whose first is 1.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
    pub enum Severity {
        Error = "error",
        Warning = "warning",
        Information = "information",
        Hint = "hint",
    }
}

impl Severity {
    /// Its number in the protocol.
    pub fn number(self) -> u8 {
        self as u8 + 1
    }
}

/// A question about code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CodeQuestion {
    pub operation: CodeOperation,
    pub path: PathBuf,
    /// Line and character in the line, both from 0.
    pub line: u32,
    pub character: u32,
    /// The symbol that `workspaceSymbol` looks for.
    pub query: String,
}

leftfold_events::named! {
    /// The kind of a question about code. The names are those of OpenCode.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
    #[serde(rename_all = "camelCase")]
    pub enum CodeOperation {
        GoToDefinition = "goToDefinition",
        FindReferences = "findReferences",
        Hover = "hover",
        DocumentSymbol = "documentSymbol",
        WorkspaceSymbol = "workspaceSymbol",
        GoToImplementation = "goToImplementation",
        PrepareCallHierarchy = "prepareCallHierarchy",
        IncomingCalls = "incomingCalls",
        OutgoingCalls = "outgoingCalls",
    }
}

impl CodeOperation {
    /// Whether it is about a place in the file, and not about the file or project.
    pub fn needs_place(self) -> bool {
        !matches!(self, Self::DocumentSymbol | Self::WorkspaceSymbol)
    }
}
