//! The tasks of an actor: the only place in this crate that starts any. A task belongs to an actor and
//! ends with it. A task that panics is an outcome like any other, so nothing waits for it in vain.

use std::panic::AssertUnwindSafe;

use futures::FutureExt;
use tokio::task::{AbortHandle, JoinError, JoinSet};

/// The tasks that an actor runs beside its handler. Dropping the actor's state aborts them.
#[derive(Debug, Default)]
pub(crate) struct Tasks(JoinSet<()>);

impl Tasks {
    /// Runs `work`, and then `then` with what came of it; `None` if it panicked. An abort ends both.
    #[expect(clippy::disallowed_methods, reason = "the set belongs to an actor")]
    pub(crate) fn spawn<T: Send + 'static>(
        &mut self,
        work: impl Future<Output = T> + Send + 'static,
        then: impl FnOnce(Option<T>) + Send + 'static,
    ) -> AbortHandle {
        self.reap();
        self.0.spawn(async move { then(AssertUnwindSafe(work).catch_unwind().await.ok()) })
    }

    /// Runs `work` where it may block, and then `then`. Once it has begun, an abort does not stop it.
    #[expect(clippy::disallowed_methods, reason = "the set belongs to an actor")]
    pub(crate) fn spawn_blocking<T: 'static>(
        &mut self,
        work: impl FnOnce() -> T + Send + 'static,
        then: impl FnOnce(Option<T>) + Send + 'static,
    ) -> AbortHandle {
        self.reap();
        self.0.spawn_blocking(move || then(std::panic::catch_unwind(AssertUnwindSafe(work)).ok()))
    }

    pub(crate) fn abort_all(&mut self) {
        self.0.abort_all();
    }

    /// Lets those that were told to stop end in good order when the actor ends.
    pub(crate) fn let_go(&mut self) {
        self.0.detach_all();
    }

    fn reap(&mut self) {
        while let Some(ended) = self.0.try_join_next() {
            if let Err(error) = ended
                && error.is_panic()
            {
                tracing::error!("a task's end could not be told: {error}");
            }
        }
    }
}

/// Runs `work` where it may block; the actor waits for it.
///
/// # Errors
/// It panicked.
#[expect(clippy::disallowed_methods, reason = "whoever calls it waits for its end")]
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, JoinError> {
    tokio::task::spawn_blocking(work).await
}

#[cfg(test)]
mod tests {
    use tokio::sync::mpsc;

    use super::Tasks;

    #[tokio::test]
    async fn a_panic_is_told_and_the_end_of_the_actor_ends_its_tasks() {
        let (told, mut outcomes) = mpsc::unbounded_channel();
        let mut tasks = Tasks::default();
        let tell = || {
            let told = told.clone();
            move |outcome: Option<u8>| told.send(outcome).expect("somebody listens")
        };
        tasks.spawn(async { panic!("it breaks") }, tell());
        assert_eq!(outcomes.recv().await, Some(None));
        tasks.spawn_blocking(|| panic!("it breaks"), tell());
        assert_eq!(outcomes.recv().await, Some(None));
        tasks.spawn(async { 7 }, tell());
        assert_eq!(outcomes.recv().await, Some(Some(7)));
        tasks.spawn(std::future::pending(), tell());
        drop((tasks, told));
        assert_eq!(outcomes.recv().await, None);
    }
}
