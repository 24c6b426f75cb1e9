//! Paths in JSON: text, or the list of their bytes if they are not UTF-8. A path that is lost would not be hidden.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Deserializer, Serialize, Serializer};

#[derive(Serialize)]
#[serde(untagged)]
enum Written<'a> {
    Text(&'a str),
    Bytes(&'a [u8]),
}

#[derive(Deserialize)]
#[serde(untagged, expecting = "a path must be text or a list of bytes")]
enum Read {
    Text(String),
    Bytes(Vec<u8>),
}

fn written(path: &Path) -> Written<'_> {
    path.to_str().map_or_else(|| Written::Bytes(path.as_os_str().as_bytes()), Written::Text)
}

fn path(read: Read) -> PathBuf {
    match read {
        Read::Text(text) => text.into(),
        Read::Bytes(bytes) => OsString::from_vec(bytes).into(),
    }
}

/// For fields of the type `Vec<PathBuf>`.
pub(crate) mod list {
    use super::*;

    pub(crate) fn serialize<S: Serializer>(paths: &[PathBuf], to: S) -> Result<S::Ok, S::Error> {
        to.collect_seq(paths.iter().map(|path| written(path)))
    }

    pub(crate) fn deserialize<'a, D: Deserializer<'a>>(from: D) -> Result<Vec<PathBuf>, D::Error> {
        let paths = Vec::<Read>::deserialize(from)?;
        Ok(paths.into_iter().map(path).collect())
    }
}

/// For fields of the type `Option<PathBuf>`.
pub(crate) mod option {
    use super::*;

    #[expect(clippy::ref_option, reason = "the signature is serde's")]
    pub(crate) fn serialize<S: Serializer>(
        path: &Option<PathBuf>,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        path.as_deref().map(written).serialize(to)
    }

    pub(crate) fn deserialize<'a, D: Deserializer<'a>>(
        from: D,
    ) -> Result<Option<PathBuf>, D::Error> {
        Ok(Option::<Read>::deserialize(from)?.map(path))
    }
}
