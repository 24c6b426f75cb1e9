//! The work of an operator on a database, which is no node: it owns no sessions and appends to no log.

use std::fmt;
use std::sync::Arc;

use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

use crate::address::Address;
use crate::columns::get;
use crate::connection::{Connector, Purpose, Slot};
use crate::engine::EngineThread;
use crate::error::Error;
use crate::hints::{Announcer, Hint};
use crate::inspect::{self, NodeStatus};

/// `$1` is the beginning of an id.
const NAMED: &str = "select id::text, until > clock_timestamp(), \
        coalesce(nullif(array_to_string(labels, ', '), ''), id::text) \
    from node where starts_with(id::text, $1) order by id limit 2";

const DRAIN: &str = "update node set draining = true \
    where id = $1::text::uuid and until > clock_timestamp() returning id";

/// Changes what nodes do, and what the database keeps.
pub struct Operator {
    thread: EngineThread,
    slot: Arc<Slot>,
    announcer: Arc<Announcer>,
}

impl fmt::Debug for Operator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Operator").field(&self.slot.connector.address).finish()
    }
}

impl Operator {
    /// # Errors
    /// Everything that keeps it from the database or is wrong there. A standby is refused.
    pub fn open(address: &Address) -> Result<Self, Error> {
        let connector = Arc::new(Connector::new(address.clone())?);
        let thread = EngineThread::start()?;
        let slot = Arc::new(Slot::new(&connector, Purpose::Control));
        let first = Arc::clone(&slot);
        thread.run(async move { first.get().await.map(drop) })?;
        Ok(Self { thread, slot, announcer: Arc::new(Announcer::new()) })
    }

    /// Asks a living node to give its sessions back and end. `node` is the beginning of its id. The answer is the id.
    /// To ask again is harmless.
    ///
    /// # Errors
    /// [`Error::NoNode`], [`Error::SeveralNodes`], [`Error::DeadNode`], or the database fails.
    pub fn drain(&self, node: &str) -> Result<String, Error> {
        let (slot, announcer, node) =
            (Arc::clone(&self.slot), Arc::clone(&self.announcer), node.to_lowercase());
        self.thread.run(async move {
            let found = query(&slot, NAMED, &[&node]).await?;
            let [row] = found.as_slice() else {
                return Err(if found.is_empty() {
                    Error::NoNode { node }
                } else {
                    Error::SeveralNodes { node }
                });
            };
            let (id, lives, name): (String, bool, String) =
                (get(row, 0)?, get(row, 1)?, get(row, 2)?);
            if !lives || query(&slot, DRAIN, &[&id]).await?.is_empty() {
                return Err(Error::DeadNode { node: name });
            }
            announcer.spread(&[Hint::Nodes]);
            announcer.send(&slot).await;
            Ok(id)
        })
    }

    /// The node with this id; `None` once it has ended in good order.
    ///
    /// # Errors
    /// The database fails.
    pub fn node(&self, id: &str) -> Result<Option<NodeStatus>, Error> {
        let (slot, id) = (Arc::clone(&self.slot), id.to_owned());
        self.thread.run(async move {
            let nodes = inspect::nodes(&slot).await?;
            Ok(nodes.into_iter().find(|node| node.id == id))
        })
    }
}

async fn query(
    slot: &Slot,
    sql: &'static str,
    parameters: &[&(dyn ToSql + Sync)],
) -> Result<Vec<Row>, Error> {
    let open = slot.get().await?;
    open.query(sql, parameters).await.map_err(|error| slot.error(&error))
}
