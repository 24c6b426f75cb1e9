//! A slot in a state or a request for a cached computation. It does not know the type of its content, and is not
//! part of the value.

use std::any::Any;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

/// Shared by all clones. It does not affect equality.
#[derive(Clone, Default)]
pub struct Memo(Arc<Mutex<Option<Box<dyn Any + Send>>>>);

impl Memo {
    /// Takes out the last content, if it has this type.
    pub fn take<T: Any>(&self) -> Option<T> {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner).take()?;
        kept.downcast().ok().map(|kept| *kept)
    }

    pub fn keep(&self, value: impl Any + Send) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(Box::new(value));
    }
}

impl PartialEq for Memo {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl fmt::Debug for Memo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Memo")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_gives_back_once_what_was_kept_last() {
        let memo = Memo::default();
        assert_eq!(memo.take::<u8>(), None);
        memo.keep(1_u8);
        memo.clone().keep(2_u8);
        assert_eq!((memo.take::<u8>(), memo.take::<u8>()), (Some(2), None));
    }
}
