//! The tables, as versions that follow each other.

use crate::error::Error;

/// The changes of each version, from version 1 on. A released one never changes.
pub(crate) const MIGRATIONS: [&str; 8] = [
    include_str!("schema/1.sql"),
    include_str!("schema/2.sql"),
    include_str!("schema/3.sql"),
    include_str!("schema/4.sql"),
    include_str!("schema/5.sql"),
    include_str!("schema/6.sql"),
    include_str!("schema/7.sql"),
    include_str!("schema/8.sql"),
];

/// The version that this crate works with.
pub(crate) const NEEDED: i32 = MIGRATIONS.len() as i32;

/// Makes the partition of each month, from this one up to `MONTHS` later, unless it is there. What
/// arrived before it, in the partition for all others, moves into it.
pub(crate) const PARTITIONS: &str = include_str!("schema/partitions.sql");

/// Refuses tables of another version.
pub(crate) fn check(schema: &str, found: i32) -> Result<(), Error> {
    let schema = schema.to_owned();
    match found {
        0 => Err(Error::NoSchema { schema }),
        _ if found < NEEDED => Err(Error::OlderSchema { schema, found, needed: NEEDED }),
        _ if found > NEEDED => Err(Error::NewerSchema { schema, found, known: NEEDED }),
        _ => Ok(()),
    }
}
