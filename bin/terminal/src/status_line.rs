//! The last row of the screen: which agent and model answer, how full the context is, and what it has cost.

use std::path::Path;
use std::time::Instant;

use leftfold_config::StatusItem;
use leftfold_events::Time;
use leftfold_events::turn_config::AskMode;
use leftfold_runtime::session_setup::SessionSetup;
use leftfold_view::clean::clean_line;

use super::app::App;
use super::blocks::tokens;
use super::calls::elapsed;

/// Everything that the transcript does not have.
#[derive(Clone, Debug)]
pub(super) struct StatusLine {
    /// In this order; empty: there is no status line.
    pub(super) items: Vec<StatusItem>,
    pub(super) agent: String,
    pub(super) model: String,
    pub(super) variant: Option<String>,
    /// How permission questions are treated.
    pub(super) permissions: &'static str,
    pub(super) branch: Option<String>,
    /// The context of the model in tokens; 0 if unknown.
    pub(super) context: u64,
    /// Whether the terminal has the focus, as far as it says.
    pub(super) focused: bool,
}

impl Default for StatusLine {
    fn default() -> Self {
        Self {
            items: StatusItem::ALL.to_vec(),
            agent: String::new(),
            model: String::new(),
            variant: None,
            permissions: "",
            branch: None,
            context: 0,
            focused: true,
        }
    }
}

impl StatusLine {
    /// Takes what the setup says of the next prompt.
    pub(super) fn take(&mut self, setup: &SessionSetup, variant: Option<String>) {
        let settings = &setup.turn_settings;
        self.agent.clone_from(&settings.agent.name);
        self.model = settings.model.name().to_string();
        self.variant = variant;
        self.context = settings.model.limit.context;
        self.permissions = match settings.options.ask {
            AskMode::Deny => "denies",
            AskMode::Allow => "allows all",
            AskMode::Ask if settings.options.accept_edits => "accepts edits",
            AskMode::Ask => "asks",
        };
        self.branch = branch(&settings.worktree);
    }
}

/// The branch that is checked out in a worktree. Only the file that names it is read.
fn branch(worktree: &Path) -> Option<String> {
    let git = worktree.join(".git");
    let directory = match std::fs::read_to_string(&git) {
        Ok(link) => worktree.join(link.trim().strip_prefix("gitdir: ")?),
        Err(_) => git,
    };
    let head = std::fs::read_to_string(directory.join("HEAD")).ok()?;
    head.trim().strip_prefix("ref: refs/heads/").map(str::to_owned)
}

impl App {
    /// The status in one line; empty if there is nothing to say.
    pub(super) fn status_text(&self, now: Time) -> String {
        let items = self.status.items.iter();
        items.filter_map(|item| self.status_item(*item, now)).collect::<Vec<_>>().join(" · ")
    }

    fn status_item(&self, item: StatusItem, now: Time) -> Option<String> {
        let status = &self.status;
        let root = self.blocks.transcript.root();
        let text = match item {
            StatusItem::Agent => clean_line(&status.agent),
            StatusItem::Model => match &status.variant {
                Some(variant) => clean_line(&format!("{} {variant}", status.model)),
                None => clean_line(&status.model),
            },
            StatusItem::Context => {
                let used = root?.context_used?;
                let size = root.map(|root| root.context_size).filter(|size| *size > 0);
                match used.saturating_mul(100).checked_div(size.unwrap_or(status.context)) {
                    Some(percent) => format!("{percent} % {}", tokens(used)),
                    None => format!("{} tokens", tokens(used)),
                }
            }
            StatusItem::Cost => {
                let cost = root?.cost + self.blocks.transcript.subagent_cost;
                if cost <= 0.0 {
                    return None;
                }
                format!("${cost:.4}")
            }
            StatusItem::Time => {
                elapsed(now.since(self.blocks.turn().filter(|_| self.is_working())?))
            }
            StatusItem::Queue => match self.queue.len() {
                0 => return None,
                queued => format!("{queued} queued"),
            },
            StatusItem::Permissions => status.permissions.to_owned(),
            StatusItem::Branch => clean_line(status.branch.as_deref()?),
        };
        Some(text).filter(|text| !text.is_empty())
    }

    /// How long the caller has been working on something, and on what.
    pub(super) fn job_text(&self, now: Instant) -> Option<String> {
        let (what, since) = self.job.as_ref()?;
        let millis = u64::try_from(now.saturating_duration_since(*since).as_millis()).ok()?;
        (millis >= 1_000).then(|| format!("{what} · {}", elapsed(millis)))
    }
}
