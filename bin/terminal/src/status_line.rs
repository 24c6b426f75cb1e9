//! The data of the status line (the last row of the screen), such as agent, model and size of the context. `live.rs` draws the
//! line (`status_item`).

use leftfold_config::StatusItem;
use leftfold_events::turn_config::AskMode;
use leftfold_runtime::session_setup::SessionSetup;

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
    /// The MCP servers that are being started.
    pub(super) starting: Vec<String>,
    /// The number of the question on the screen, since none was open.
    pub(super) asked: usize,
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
            starting: Vec::new(),
            asked: 0,
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
            AskMode::Ask if settings.options.sandbox.as_ref().is_some_and(|it| it.allow) => {
                "allows in the sandbox"
            }
            AskMode::Ask => "asks",
        };
        self.branch = leftfold_files::branch(&settings.worktree);
    }
}
