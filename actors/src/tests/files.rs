use std::fs::File;

use leftfold_events::event::Files;
use leftfold_snapshots::Snapshots;
use tokio_util::sync::CancellationToken;

use super::supervise::{Worker, completed, has, kill};
use super::*;

fn config(site: &Site) -> TurnConfig {
    let mut config = site.config();
    config.options.snapshot = true;
    config
}

/// Keeps the store of the project's snapshots busy.
fn occupy(site: &Site) -> File {
    let snapshots = Snapshots::new(&site.data(), &site.project());
    snapshots.take(None, &CancellationToken::new()).expect("a snapshot");
    let mut stores = std::fs::read_dir(site.data().join("snapshots")).expect("a folder");
    let store = stores.next().expect("a store").expect("a store").path();
    let lock = File::options().write(true).open(store.join("leftfold-lock")).expect("a lock");
    lock.lock().expect("locked");
    lock
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_dies_over_a_snapshot_costs_no_more_than_that() {
    let site = Site::new(json!({ "replies": [bash("echo ran >> marks.txt"), text("well")] }));
    let lock = occupy(&site);
    let mut live = site.start().await;
    live.prompt_with(config(&site), "hi");
    live.until(|e| matches!(e, Event::Files(Files::SnapshotStarted {}))).await;
    kill(&live, Worker::Last).await;
    let log = completed(&site, live).await;
    drop(lock);
    assert!(has(&log, |e| matches!(e, Event::Files(Files::SnapshotFailedAs { .. }))));
    assert_eq!(site.read("marks.txt"), "ran\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_interrupt_does_not_wait_for_a_snapshot() {
    let site = Site::new(json!({ "replies": [bash("echo ran >> marks.txt"), text("well")] }));
    let lock = occupy(&site);
    let mut live = site.start().await;
    live.prompt_with(config(&site), "hi");
    live.until(|e| matches!(e, Event::Files(Files::SnapshotStarted {}))).await;
    live.interrupt();
    let ended = live.until_ended().await;
    drop(lock);
    let Event::Turn(Turn::Ended(ended)) = ended.event else { panic!("{ended:?}") };
    assert_eq!(ended.reason, leftfold_events::event::EndReason::Aborted);
    assert_eq!(site.read("marks.txt"), "");
    live.stop().await;
}
