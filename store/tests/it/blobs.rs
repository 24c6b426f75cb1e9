//! sled moves large pages to files that it never syncs. No record of ours may become so large.

use std::fs;

use crate::common::{configured, envelope, id, text};
use leftfold_events::Payload;
use leftfold_events::event::{Turn, TurnConfigPayloads};
use leftfold_store::{Store, check};

#[test]
fn blobs_stay_empty_after_2000_mixed_appends() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path()).unwrap();
    let mut logs: Vec<_> = (1..=10).map(|n| store.log(id(n), None).unwrap()).collect();
    let (done, results) = std::sync::mpsc::channel();
    for round in 0..200 {
        for (log, n) in logs.iter_mut().zip(1_u64..) {
            let (session, seq) = (log.session(), log.head() + 1);
            let size =
                [10, 300, 2_900, 3_050, 9_000, 65_000][usize::try_from(round + n).unwrap() % 6];
            let mut event = envelope(session, seq, text(seq, size));
            if (round + n) % 50 == 0 {
                let system = Payload::new(format!("{round} {n} ").repeat(2_000));
                event.event =
                    Turn::Configured(TurnConfigPayloads { system, ..configured() }).into();
            }
            let done = done.clone();
            log.append(&[event], move |result| done.send(result).unwrap());
        }
    }
    drop((logs, store));
    drop(done);
    assert_eq!(results.iter().filter(Result::is_ok).count(), 2_000);
    assert_eq!(fs::read_dir(dir.path().join("blobs")).unwrap().count(), 0);
    let report = check(dir.path()).unwrap();
    assert_eq!((report.events, report.damage), (2_000, vec![]));
}
