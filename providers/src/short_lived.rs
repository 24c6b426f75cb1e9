//! Credentials that end after some time: each is got once for all requests of the process, used until shortly before its
//! end, and forgotten when a server refuses it.
//!
//! Amazon's and Google's clouds have such credentials. Tokens of sign-ins are refreshed in
//! `bin/runtime/src/account/sign_in.rs`.

use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use crate::errors::Failure;

/// How long before its end a credential is replaced.
const REFRESH_MARGIN: Duration = Duration::from_secs(4 * 60);

/// From when on, and how long, a credential is valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Lifetime {
    got: SystemTime,
    length: Duration,
}

impl Lifetime {
    pub(crate) fn new(got: SystemTime, length: Duration) -> Self {
        Self { got, length }
    }

    /// Whether it lasts long enough for a request that starts now.
    fn is_fresh(self, now: SystemTime) -> bool {
        let margin = REFRESH_MARGIN.min(self.length / 4);
        self.got + self.length.saturating_sub(margin) > now
    }

    fn is_valid(self, now: SystemTime) -> bool {
        self.got + self.length > now
    }
}

/// A credential for all requests of the process.
pub(crate) struct Shared<T> {
    current: Mutex<Option<Current<T>>>,
    /// Held while a credential is on its way: other requests wait for it instead of asking too.
    asking: tokio::sync::Mutex<()>,
}

#[derive(Clone)]
struct Current<T> {
    value: T,
    lifetime: Lifetime,
    /// The number of requests that it was given to.
    uses: u32,
}

impl<T> Default for Shared<T> {
    fn default() -> Self {
        Self { current: Mutex::default(), asking: tokio::sync::Mutex::default() }
    }
}

/// Shows the lifetime only.
impl<T> fmt::Debug for Shared<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lifetime = self.current().as_ref().map(|current| current.lifetime);
        f.debug_struct("Shared").field("lifetime", &lifetime).finish_non_exhaustive()
    }
}

impl<T: Clone> Shared<T> {
    /// The credential for a request: the current one, or the one that `fetch` gets. If it gets none because a server does
    /// not answer, the current one is used to its end.
    ///
    /// # Errors
    /// The errors of `fetch`.
    pub(crate) async fn get(
        &self,
        fetch: impl Future<Output = Result<Option<(T, Lifetime)>, Failure>>,
    ) -> Result<Option<T>, Failure> {
        if let Some(value) = self.used(Lifetime::is_fresh) {
            return Ok(Some(value));
        }
        let _asking = self.asking.lock().await;
        if let Some(value) = self.used(Lifetime::is_fresh) {
            return Ok(Some(value));
        }
        match fetch.await {
            Ok(Some((value, lifetime))) => {
                *self.current() = Some(Current { value: value.clone(), lifetime, uses: 1 });
                Ok(Some(value))
            }
            Ok(None) => Ok(None),
            Err(failure) if failure.retryable => match self.used(Lifetime::is_valid) {
                Some(value) => Ok(Some(value)),
                None => Err(failure),
            },
            Err(failure) => Err(failure),
        }
    }

    fn used(&self, lasts: impl Fn(Lifetime, SystemTime) -> bool) -> Option<T> {
        let mut current = self.current();
        let lasting = |current: &&mut Current<T>| lasts(current.lifetime, SystemTime::now());
        let current = current.as_mut().filter(lasting)?;
        current.uses = current.uses.saturating_add(1);
        Some(current.value.clone())
    }
}

impl<T> Shared<T> {
    /// A server has refused a credential: it is forgotten if it is the current one, and then the result says whether
    /// another may be accepted, because this one was accepted before.
    pub(crate) fn refused(&self, is_it: impl Fn(&T) -> bool) -> Option<bool> {
        let mut current = self.current();
        let refused = current.take_if(|current| is_it(&current.value))?;
        Some(refused.uses > 1)
    }

    fn current(&self) -> MutexGuard<'_, Option<Current<T>>> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::time::UNIX_EPOCH;

    use leftfold_events::event::FailureClass;

    use super::*;

    #[test]
    fn a_credential_is_replaced_before_it_ends() {
        let at = |seconds| UNIX_EPOCH + Duration::from_secs(seconds);
        for (length, last) in [(3_600, 4_359), (400, 1_299), (1, 1_000)] {
            let lifetime = Lifetime::new(at(1_000), Duration::from_secs(length));
            assert!(lifetime.is_fresh(at(last)), "{length}");
            assert!(!lifetime.is_fresh(at(last + 1)), "{length}");
        }
        assert!(!Lifetime::new(at(1_000), Duration::ZERO).is_fresh(at(1_000)));
    }

    #[tokio::test]
    async fn a_credential_is_used_to_its_end_if_no_server_answers() {
        let down = || async { Err(Failure::new(FailureClass::Network, "down")) };
        let refuses = || async { Err(Failure::fatal(FailureClass::Auth, "no")) };
        let shared = Shared::default();
        shared.get(down()).await.unwrap_err();
        // in the last quarter of its time
        let got = SystemTime::now() - Duration::from_secs(90);
        let first = (1, Lifetime::new(got, Duration::from_secs(100)));
        assert_eq!(shared.get(async { Ok(Some(first)) }).await, Ok(Some(1)));
        assert_eq!(shared.get(down()).await, Ok(Some(1)));
        shared.get(refuses()).await.unwrap_err();
        let second = (2, Lifetime::new(got, Duration::from_secs(1_000)));
        assert_eq!(shared.get(async { Ok(Some(second)) }).await, Ok(Some(2)));
        assert_eq!(shared.get(refuses()).await, Ok(Some(2)));
        assert_eq!(shared.refused(|known| *known == 1), None);
        assert_eq!(shared.refused(|known| *known == 2), Some(true));
        assert_eq!(shared.refused(|known| *known == 2), None);
        shared.get(down()).await.unwrap_err();
    }
}
