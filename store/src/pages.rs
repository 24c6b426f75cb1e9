//! What stands in the messages of sled's log: pages and changes of pages, as far as they hold records.
//!
//! | what | fields (numbers of 1 to 9 bytes; `key` and `value` are a length and so many bytes) |
//! |---|---|
//! | page | `next ‖ merging child ‖ merging (1) ‖ prefix length (1) ‖ low ‖ high ‖ kind (1) ‖ count ‖ keys ‖ values` |
//! | change | `kind (1) ‖ key ‖ value` |
//!
//! The keys of a page, and of its changes, are without the first bytes of `low` that its prefix length
//! counts. Kind 0 of a page is a leaf, kind 0 of a change sets a record.

use crate::frames::varint;

/// A key without its page's prefix, and a value.
type Pair<'a> = (&'a [u8], &'a [u8]);

/// A leaf, and where its records are.
#[derive(Debug)]
pub(crate) struct Leaf<'a> {
    /// What all of its keys begin with.
    pub(crate) prefix: &'a [u8],
    keys: Fields<'a>,
    values: Fields<'a>,
    left: u64,
}

/// Takes a page apart. `Ok(None)`: it is not a leaf. `Err`: it is not what sled writes.
pub(crate) fn leaf(body: &[u8]) -> Result<Option<Leaf<'_>>, ()> {
    let mut fields = Fields(body);
    let mut head = || {
        let _ = (fields.number()?, fields.number()?, fields.byte()?);
        let length = usize::from(fields.byte()?);
        let prefix = fields.bytes()?.get(..length)?;
        fields.bytes()?;
        Some((prefix, fields.byte()?, fields.number()?))
    };
    let (prefix, kind, left) = head().ok_or(())?;
    if kind != 0 {
        return Ok(None);
    }
    let mut values = fields;
    (0..left).try_for_each(|_| values.bytes().map(|_| ())).ok_or(())?;
    Ok(Some(Leaf { prefix, keys: fields, values, left }))
}

impl<'a> Iterator for Leaf<'a> {
    /// `Err` where the page ends too early.
    type Item = Result<Pair<'a>, ()>;

    fn next(&mut self) -> Option<Self::Item> {
        self.left = self.left.checked_sub(1)?;
        Some(self.keys.bytes().zip(self.values.bytes()).ok_or(()))
    }
}

/// The record that a change sets; `Ok(None)` if it does something else.
pub(crate) fn set(body: &[u8]) -> Result<Option<Pair<'_>>, ()> {
    let mut fields = Fields(body);
    match fields.byte() {
        Some(0) => fields.bytes().zip(fields.bytes()).map(Some).ok_or(()),
        Some(_) => Ok(None),
        None => Err(()),
    }
}

#[derive(Clone, Copy, Debug)]
struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (field, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(field)
    }

    fn byte(&mut self) -> Option<u8> {
        self.take(1)?.first().copied()
    }

    fn number(&mut self) -> Option<u64> {
        let (value, size) = varint(self.0)?;
        self.take(size)?;
        Some(value)
    }

    fn bytes(&mut self) -> Option<&'a [u8]> {
        let length = self.number()?;
        self.take(usize::try_from(length).ok()?)
    }
}
