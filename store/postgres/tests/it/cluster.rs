//! Tables of Leftfold on a server of PostgreSQL.

use std::sync::atomic::{AtomicU32, Ordering};

pub(crate) use common::postgres::{Cluster, PASSWORD, own, shared};
use leftfold_postgres::{Address, migrate};

/// Makes tables of its own for one test.
pub(crate) trait MakesTables {
    fn tables(&self) -> Tables<'_>;
}

impl MakesTables for Cluster {
    fn tables(&self) -> Tables<'_> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let schema = format!("test_{}", COUNT.fetch_add(1, Ordering::Relaxed));
        let tables = Tables { cluster: self, schema };
        migrate(&tables.address()).unwrap();
        tables
    }
}

/// A schema with the tables of Leftfold.
pub(crate) struct Tables<'a> {
    pub(crate) cluster: &'a Cluster,
    pub(crate) schema: String,
}

impl Tables<'_> {
    /// The address through a socket of the file system, without a password: checking one takes most of
    /// the time of opening in a debug build.
    pub(crate) fn address(&self) -> Address {
        let (port, schema) = (self.cluster.port(), &self.schema);
        let socket = self.cluster.folder().display().to_string().replace('/', "%2F");
        Address::parse(&format!("postgresql://app@{socket}:{port}/logs?schema={schema}")).unwrap()
    }

    /// The address through a proxy.
    pub(crate) fn through(&self, port: u16) -> Address {
        Address::parse(&self.cluster.url(port, &self.schema)).unwrap()
    }

    pub(crate) fn sql(&self, sql: &str) -> String {
        self.cluster.logs(&format!("set search_path to {}; {sql}", self.schema))
    }
}
