//! The snapshots of a session, on this machine or beside an executor.

use std::collections::HashMap;
use std::sync::Arc;

use leftfold_executor::Client;
use leftfold_snapshots::{FileVersions, Objects, Snapshots, Version};

use crate::executors;

/// Where the snapshots are.
pub(super) enum Kept {
    Here(Snapshots),
    There(Arc<Client>),
}

impl Kept {
    /// As [`Snapshots::compare`].
    pub(super) fn compare(
        &self,
        pairs: &[(&str, &str)],
    ) -> anyhow::Result<Vec<Option<Vec<FileVersions>>>> {
        match self {
            Self::Here(snapshots) => Ok(snapshots.compare(pairs)?),
            Self::There(_) if pairs.is_empty() => Ok(Vec::new()),
            Self::There(client) => executors::ask(async move || Ok(client.compare(pairs).await?)),
        }
    }

    /// The contents of these files.
    pub(super) fn contents<'a>(
        &self,
        versions: impl Iterator<Item = &'a Version>,
    ) -> anyhow::Result<Contents> {
        match self {
            Self::Here(snapshots) => Ok(Contents::Here(snapshots.objects()?)),
            Self::There(client) => {
                let mut objects: Vec<String> =
                    versions.map(|version| version.object.clone()).collect();
                objects.sort_unstable();
                objects.dedup();
                let read = executors::ask(async move || Ok(client.contents(&objects).await?));
                Ok(Contents::Read(read?))
            }
        }
    }
}

/// Contents of files, by their objects.
pub(super) enum Contents {
    /// They are read one after the other.
    Here(Objects),
    Read(HashMap<String, Vec<u8>>),
}

impl Contents {
    /// `None`: it is not kept any more.
    pub(super) fn for_version(&mut self, version: &Version) -> Option<Vec<u8>> {
        match self {
            Self::Here(objects) => objects.read(version).ok(),
            Self::Read(contents) => contents.get(&version.object).cloned(),
        }
    }
}
