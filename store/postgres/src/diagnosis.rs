//! Sorts the errors of the connection's library into ours.

use tokio_postgres::error::SqlState;

use crate::address::Address;
use crate::error::{Error, full};

/// Sorts what went wrong while connecting.
pub(crate) fn connecting(address: &Address, error: &tokio_postgres::Error) -> Error {
    let server = address.server();
    let user = address.user().to_owned();
    if let Some(error) = error.as_db_error() {
        let why = error.message().to_owned();
        return match *error.code() {
            SqlState::INVALID_PASSWORD | SqlState::INVALID_AUTHORIZATION_SPECIFICATION => {
                Error::Login { server, user, why }
            }
            SqlState::INVALID_CATALOG_NAME => {
                Error::NoDatabase { server, database: address.database().to_owned() }
            }
            SqlState::INSUFFICIENT_PRIVILEGE => Error::Rights { user, why },
            _ => Error::Unreachable { server, why },
        };
    }
    let why = full(error);
    if certificate_fault(error) {
        Error::Certificate { server, why }
    } else if why.contains("does not support TLS") {
        Error::NoTls { server }
    } else if why.contains("database does not allow writes") {
        Error::ReadOnly { server }
    } else if why.contains("password missing") {
        Error::Login { server, user, why: "it wants a password, and there is none".into() }
    } else {
        Error::Unreachable { server, why }
    }
}

/// Sorts what went wrong with a statement.
pub(crate) fn statement(address: &Address, error: &tokio_postgres::Error) -> Error {
    let Some(error) = error.as_db_error() else {
        return if error.is_closed() || is_io(error) {
            Error::Lost { why: full(error) }
        } else {
            Error::Failed { why: full(error) }
        };
    };
    let why = error.message().to_owned();
    match *error.code() {
        SqlState::DISK_FULL => Error::Full { what: why },
        SqlState::INSUFFICIENT_PRIVILEGE => Error::Rights { user: address.user().to_owned(), why },
        SqlState::READ_ONLY_SQL_TRANSACTION => Error::ReadOnly { server: address.server() },
        // a statement that this connection has prepared has gone to another one of the server
        SqlState::DUPLICATE_PSTATEMENT | SqlState::INVALID_SQL_STATEMENT_NAME => {
            Error::Pooler { server: address.server() }
        }
        SqlState::UNDEFINED_TABLE | SqlState::INVALID_SCHEMA_NAME => {
            Error::NoSchema { schema: address.schema.clone() }
        }
        SqlState::ADMIN_SHUTDOWN
        | SqlState::CRASH_SHUTDOWN
        | SqlState::CANNOT_CONNECT_NOW
        | SqlState::IDLE_SESSION_TIMEOUT => Error::Lost { why },
        SqlState::QUERY_CANCELED => {
            Error::Failed { why: format!("it took too long, or somebody stopped it: {why}") }
        }
        _ => Error::Failed { why: format!("{why} ({})", error.code().code()) },
    }
}

fn certificate_fault(error: &tokio_postgres::Error) -> bool {
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        let tls = cause.downcast_ref::<rustls::Error>().or_else(|| {
            cause.downcast_ref::<std::io::Error>()?.get_ref()?.downcast_ref::<rustls::Error>()
        });
        if matches!(tls, Some(rustls::Error::InvalidCertificate(_))) {
            return true;
        }
        source = cause.source();
    }
    false
}

fn is_io(error: &tokio_postgres::Error) -> bool {
    std::error::Error::source(error).is_some_and(|cause| cause.is::<std::io::Error>())
}
