//! Notifications for clients that fold no events themselves: the session's status, its changed
//! files, and messages that are no longer part of the conversation. All of them follow from events;
//! none is an event itself.

use std::collections::BTreeMap;

use leftfold_events::event::{Change, Event, FileChange, Files, Model};
use leftfold_events::{Envelope, Seq, SessionId, State};

use crate::session::{Message, SessionView};
use crate::status::Status;

/// One notification, true after the event that it follows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Notification {
    Status(Status),
    /// The changes of calls that were not reverted, one for each file, by path.
    Diff(Vec<FileChange>),
    /// A revert hides these messages, or a request is made again and its reply is void. A message is
    /// named by its `turn.prompted` or `model.requested`.
    Removed(Vec<Seq>),
    /// An unrevert shows these messages again.
    Returned(Vec<Seq>),
}

/// Folds the events of one session.
#[derive(Debug)]
pub struct Derived {
    view: SessionView,
    /// `None`: only the status is wanted.
    state: Option<State>,
    /// The status and files that the client knows.
    status: Option<Status>,
    files: Vec<FileChange>,
}

impl Derived {
    /// Notifications of the status only.
    pub fn status(session: SessionId) -> Self {
        let view = SessionView::new(session, false);
        Self { view, state: None, status: None, files: Vec::new() }
    }

    /// All notifications.
    pub fn all(session: SessionId) -> Self {
        let view = SessionView::new(session, true);
        Self { view, state: Some(State::default()), status: None, files: Vec::new() }
    }

    pub fn session(&self) -> SessionId {
        self.view.id
    }

    /// The last event applied; 0 before the first.
    pub fn seq(&self) -> Seq {
        self.view.seq
    }

    /// The notifications for a client that knows nothing yet: the status, and changed files if there
    /// are any.
    pub fn begin(&mut self) -> Vec<Notification> {
        (self.status, self.files) = (None, Vec::new());
        self.news(true)
    }

    /// Applies an event of the session, also one that a fork shares.
    pub fn apply(&mut self, event: &Envelope) -> Vec<Notification> {
        let before = (self.state.is_some() && may_remove(event)).then(|| self.messages());
        self.view.apply(event);
        if let Some(state) = &mut self.state {
            state.apply(event);
        }
        let mut news = before.map_or_else(Vec::new, |before| self.moved(&before));
        // a resumed import takes its snapshots back
        news.extend(self.news(matches!(event.event, Event::Files(_) | Event::Session(_))));
        news
    }

    /// The messages of the conversation.
    fn messages(&self) -> Vec<Seq> {
        let counts = |message: &&Message| match message {
            Message::Assistant(reply) => !reply.void,
            Message::User(_) | Message::Summary { .. } => true,
        };
        self.view.messages().filter(counts).map(Message::seq).collect()
    }

    /// The messages that have gone or come back since `before`.
    fn moved(&self, before: &[Seq]) -> Vec<Notification> {
        let after = self.messages();
        let without = |all: &[Seq], others: &[Seq]| -> Vec<Seq> {
            all.iter().filter(|seq| !others.contains(seq)).copied().collect()
        };
        let removed = Some(without(before, &after)).filter(|seqs| !seqs.is_empty());
        let returned = Some(without(&after, before)).filter(|seqs| !seqs.is_empty());
        let removed = removed.map(Notification::Removed);
        removed.into_iter().chain(returned.map(Notification::Returned)).collect()
    }

    /// The status, and with `files` the files, if the client does not know them yet.
    fn news(&mut self, files: bool) -> Vec<Notification> {
        let mut news = Vec::new();
        let status = self.view.status();
        if self.status.as_ref() != Some(&status) {
            self.status = Some(status.clone());
            news.push(Notification::Status(status));
        }
        if let Some(state) = self.state.as_ref().filter(|_| files) {
            let files = changed_files(state);
            if self.files != files {
                self.files.clone_from(&files);
                news.push(Notification::Diff(files));
            }
        }
        news
    }
}

/// Whether messages may have gone or come back with this event.
fn may_remove(event: &Envelope) -> bool {
    matches!(
        event.event,
        Event::Files(Files::Restored { .. }) | Event::Model(Model::RetryScheduled { .. })
    )
}

/// The changes of calls that were not reverted, joined for each file, by path. A file that was made
/// and removed again is left out.
pub fn changed_files(state: &State) -> Vec<FileChange> {
    let mut files: BTreeMap<&str, FileChange> = BTreeMap::new();
    for change in state.files.changes.iter().flat_map(|changed| &changed.files) {
        let Some(known) = files.get_mut(change.path.as_str()) else {
            files.insert(&change.path, change.clone());
            continue;
        };
        // an imported log may claim any number
        known.additions = known.additions.saturating_add(change.additions);
        known.deletions = known.deletions.saturating_add(change.deletions);
        known.change = match (known.change, change.change) {
            (Change::Added, Change::Deleted) => {
                files.remove(change.path.as_str());
                continue;
            }
            (Change::Added, Change::Added | Change::Modified) => Change::Added,
            (Change::Modified | Change::Deleted, Change::Deleted) => Change::Deleted,
            (Change::Modified | Change::Deleted, Change::Added | Change::Modified) => {
                Change::Modified
            }
        };
    }
    files.into_values().collect()
}
