//! Reads settings and builds configurations beside the runtime's own threads.

use std::sync::LazyLock;
use std::thread::available_parallelism;
use std::time::Duration;

use tokio::sync::Semaphore;

/// How much of it is done at a time: as much as there are processors. A thread for each of a thousand prompts that come
/// at once would leave the runtime's two only a thousandth of the time.
static ROOM: LazyLock<Semaphore> =
    LazyLock::new(|| Semaphore::new(available_parallelism().map_or(2, usize::from).max(2)));

/// How long to wait for room. Some of the work waits itself, for a plugin that starts.
const ROOM_TIMEOUT: Duration = Duration::from_millis(200);

/// Runs work that reads settings or builds a configuration, which computes and may block.
///
/// # Errors
/// It panicked.
pub async fn gathering<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> anyhow::Result<T> {
    // without room after that time, it shares the processors
    let room = tokio::time::timeout(ROOM_TIMEOUT, ROOM.acquire()).await;
    let work = move || {
        let _room = room;
        work()
    };
    Ok(tokio::task::spawn_blocking(work).await?)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::mpsc;

    use super::*;

    #[tokio::test]
    async fn little_is_done_at_a_time_and_work_that_waits_makes_room() {
        static BUSY: AtomicUsize = AtomicUsize::new(0);
        static MOST: AtomicUsize = AtomicUsize::new(0);
        let room = ROOM.available_permits();
        let short = || {
            MOST.fetch_max(BUSY.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            std::thread::sleep(Duration::from_millis(1));
            BUSY.fetch_sub(1, Ordering::SeqCst);
        };
        let all = futures::future::join_all((0..10 * room).map(|_| gathering(short)));
        assert!(all.await.iter().all(Result::is_ok));
        assert!((1..=room).contains(&MOST.load(Ordering::SeqCst)), "{MOST:?} of {room}");
        let (senders, waiting): (Vec<_>, Vec<_>) = (0..room).map(|_| mpsc::channel::<()>()).unzip();
        let waiting: Vec<_> = waiting
            .into_iter()
            .map(|waits| tokio::spawn(gathering(move || waits.recv().is_err())))
            .collect();
        while ROOM.available_permits() > 0 {
            tokio::task::yield_now().await;
        }
        assert_eq!(gathering(|| 7).await.unwrap(), 7);
        drop(senders);
        for waited in waiting {
            assert!(waited.await.unwrap().unwrap());
        }
    }
}
