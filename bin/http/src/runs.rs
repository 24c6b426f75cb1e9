//! The runs that pages show: a run is built from its logs when a page asks for it, and gets their new events as
//! long as pages are there. The fold of `leftfold-page` is that of an exported page.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use leftfold_events::{Envelope, SessionId};
use leftfold_page::Run;
use serde_json::Value;

use crate::feed::Feed;

/// Runs in memory. Of more, the one that was asked for the longest time ago is built again when it is needed.
const KEPT: usize = 4;
/// How long a request waits for events of a long log. The page gets the others when they are there.
const READ_TIMEOUT: Duration = Duration::from_millis(700);

/// The sessions that a page shows: a root session, and maybe another one to compare it with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RunKey {
    pub(crate) root: SessionId,
    pub(crate) other: Option<SessionId>,
}

#[derive(Debug, Default)]
pub(crate) struct Runs(Mutex<Vec<Arc<OpenRun>>>);

impl Runs {
    /// The run, used last.
    pub(crate) fn get(&self, key: RunKey) -> anyhow::Result<Arc<OpenRun>> {
        let mut runs = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let known = runs.iter().position(|run| run.key == key);
        let run = match known {
            Some(at) => runs.remove(at),
            None => Arc::new(OpenRun::new(key)?),
        };
        runs.truncate(KEPT - 1);
        runs.insert(0, Arc::clone(&run));
        Ok(run)
    }

    /// Builds the run again when it is asked for.
    fn forget(&self, run: &OpenRun) {
        let mut runs = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        runs.retain(|known| known.epoch != run.epoch);
    }
}

#[derive(Debug)]
pub(crate) struct OpenRun {
    key: RunKey,
    /// Pages that know another one know other numbers of blocks and texts.
    pub(crate) epoch: String,
    filling: Mutex<Filling>,
}

#[derive(Debug, Default)]
struct Filling {
    run: Run,
    /// Events that were read and are not yet in the run.
    waiting: VecDeque<(SessionId, Envelope)>,
}

/// The part of a run that a page does not have yet.
#[derive(Debug)]
pub(crate) struct News {
    pub(crate) data: Value,
    /// The numbers of events with which it is known.
    pub(crate) counts: Vec<usize>,
    /// Whether it is all that the logs have.
    pub(crate) is_all: bool,
}

impl OpenRun {
    fn new(key: RunKey) -> anyhow::Result<Self> {
        let mut filling = Filling::default();
        filling.run.add_log(key.root)?;
        if let Some(other) = key.other {
            filling.run.add_log(other)?;
            filling.run.set_other(other);
        }
        let epoch = leftfold_runtime::project::new_id().to_string();
        Ok(Self { key, epoch, filling: Mutex::new(filling) })
    }

    fn filling(&self) -> MutexGuard<'_, Filling> {
        self.filling.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads from the disk the events of the logs beyond the first `counts`.
    ///
    /// # Errors
    /// A log cannot be read, or its patches do not lead to its state. The run is then built again.
    pub(crate) fn news(&self, runs: &Runs, feed: &Feed, counts: &[usize]) -> anyhow::Result<News> {
        let mut filling = self.filling();
        let filled = filling.fill(feed, Instant::now() + READ_TIMEOUT);
        let is_all = filled.inspect_err(|_| runs.forget(self))?;
        let run = &filling.run;
        Ok(News { data: run.since(counts)?, counts: run.counts(), is_all })
    }

    /// A block of data as JSON.
    pub(crate) fn block(&self, name: &str) -> Option<String> {
        self.filling().run.block(name)
    }
}

impl Filling {
    /// Adds events until all are there or it is `late`. False: more are to come.
    fn fill(&mut self, feed: &Feed, late: Instant) -> anyhow::Result<bool> {
        loop {
            while let Some((log, event)) = self.waiting.pop_front() {
                if let Some(child) = event.spawned() {
                    self.run.add_log(child)?;
                }
                self.run.push(log, event)?;
                if Instant::now() > late {
                    return Ok(false);
                }
            }
            let logs: Vec<SessionId> = self.run.sessions().collect();
            for log in logs {
                let known = self.run.seq(log).unwrap_or_default();
                let more = feed.events_after(log, known)?;
                self.waiting.extend(more.into_iter().map(|event| (log, event)));
            }
            if self.waiting.is_empty() {
                return Ok(true);
            }
        }
    }
}
