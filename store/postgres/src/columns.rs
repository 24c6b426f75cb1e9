//! Values of columns.

use leftfold_events::{MessageId, Seq, SessionId};
use leftfold_store::Link;
use tokio_postgres::Row;
use uuid::Uuid;

use crate::error::{Error, full};

/// The value of a column.
pub(crate) fn get<'a, T: tokio_postgres::types::FromSql<'a>>(
    row: &'a Row,
    column: usize,
) -> Result<T, Error> {
    row.try_get(column).map_err(|error| Error::Failed { why: full(&error) })
}

pub(crate) fn uuid(session: SessionId) -> Uuid {
    Uuid::from_bytes(session.to_bytes())
}

pub(crate) fn session(id: Uuid) -> SessionId {
    SessionId::from_bytes(id.into_bytes())
}

pub(crate) fn message_uuid(message: MessageId) -> Uuid {
    Uuid::from_bytes(message.to_bytes())
}

pub(crate) fn message(id: Uuid) -> MessageId {
    MessageId::from_bytes(id.into_bytes())
}

pub(crate) fn seq(column: i64) -> Seq {
    Seq::try_from(column).unwrap_or_default()
}

pub(crate) fn link(column: &[u8]) -> Result<Link, Error> {
    let wrong = |_| Error::Failed { why: "a link has not 16 bytes".into() };
    column.try_into().map_err(wrong)
}
