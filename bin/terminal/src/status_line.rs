//! The data of the status line (the last row of the screen), such as agent, model and size of the context. `live.rs` draws the
//! line (`status_item`).

use leftfold_config::StatusItem;
use leftfold_events::rules::{self, Action};
use leftfold_events::turn_config::AskMode;
use leftfold_runtime::session_setup::SessionSetup;
use ratatui::style::Style;

use super::theme::Theme;

/// Everything that the transcript does not have.
#[derive(Clone, Debug)]
pub(super) struct StatusLine {
    /// In this order; empty: there is no status line.
    pub(super) items: Vec<StatusItem>,
    pub(super) agent: String,
    pub(super) model: String,
    pub(super) variant: Option<String>,
    /// The calls that need an answer first, in words.
    pub(super) permissions: &'static str,
    mode: Mode,
    /// The rules deny all edits, as those of the agent `plan` do.
    denies_edits: bool,
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

/// How much goes on without a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    Asks,
    DeniesEdits,
    AcceptsEdits,
    Sandbox,
    AllowsAll,
    Denies,
}

impl Default for StatusLine {
    fn default() -> Self {
        Self {
            items: StatusItem::ALL.to_vec(),
            agent: String::new(),
            model: String::new(),
            variant: None,
            permissions: "",
            mode: Mode::Asks,
            denies_edits: false,
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
        let (rules, _) = setup.rules();
        let verdict = |permission| {
            let restrictions = settings.options.restricting();
            rules::evaluate_restricted(&rules, restrictions, permission, "*").0
        };
        let [edit, bash, outside] = ["edit", "bash", "external_directory"].map(verdict);
        let sandbox = settings.options.sandbox.as_ref();
        self.denies_edits = edit == Action::Deny;
        (self.mode, self.permissions) = match settings.options.ask {
            AskMode::Deny => (Mode::Denies, "denies instead of asking"),
            AskMode::Allow => (Mode::AllowsAll, "says yes to everything"),
            AskMode::Ask if self.denies_edits => (Mode::DeniesEdits, "denies edits"),
            AskMode::Ask if settings.options.accept_edits => (Mode::AcceptsEdits, "accepts edits"),
            AskMode::Ask if sandbox.is_some_and(|it| it.allow) => {
                (Mode::Sandbox, "allows all in the sandbox")
            }
            AskMode::Ask => (Mode::Asks, asks(edit, bash, outside)),
        };
        self.branch = leftfold_files::branch(&settings.worktree);
    }

    /// The style of a part: modes in which other things happen than usual stand out.
    pub(super) fn style(&self, item: StatusItem, theme: &Theme) -> Style {
        match (item, self.mode) {
            (StatusItem::Agent, _) if self.denies_edits => theme.heading,
            (StatusItem::Permissions, Mode::DeniesEdits) => theme.heading,
            (StatusItem::Permissions, Mode::AcceptsEdits) => theme.accent,
            (StatusItem::Permissions, Mode::Sandbox) => theme.success,
            (StatusItem::Permissions, Mode::AllowsAll) => theme.error,
            (StatusItem::Permissions, Mode::Denies) => theme.warning,
            _ => theme.dim,
        }
    }
}

/// The calls that need an answer first, by the verdicts of the rules on edits, on commands and on paths outside the project.
fn asks(edit: Action, bash: Action, outside: Action) -> &'static str {
    match (edit, bash, outside) {
        (Action::Ask, Action::Ask, _) => "asks before edits and commands",
        (Action::Ask, _, _) => "asks before edits",
        (_, Action::Ask, _) => "asks before commands",
        (_, _, Action::Ask) => "asks outside the project",
        _ => "asks as the rules say",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_questions_are_named_that_the_rules_ask() {
        use Action::{Allow, Ask, Deny};
        for (verdicts, expected) in [
            ([Ask, Ask, Ask], "asks before edits and commands"),
            ([Ask, Allow, Ask], "asks before edits"),
            ([Allow, Ask, Ask], "asks before commands"),
            ([Allow, Allow, Ask], "asks outside the project"),
            ([Allow, Deny, Allow], "asks as the rules say"),
        ] {
            let [edit, bash, outside] = verdicts;
            assert_eq!(asks(edit, bash, outside), expected);
        }
    }

    #[test]
    fn unusual_modes_stand_out() {
        let theme = crate::render::tests::theme();
        let style = |mode: Mode, item: StatusItem| {
            let denies_edits = mode == Mode::DeniesEdits;
            StatusLine { mode, denies_edits, ..StatusLine::default() }.style(item, &theme)
        };
        let modes =
            [Mode::DeniesEdits, Mode::AcceptsEdits, Mode::Sandbox, Mode::AllowsAll, Mode::Denies];
        let styles = modes.map(|mode| style(mode, StatusItem::Permissions));
        let others = styles
            .iter()
            .enumerate()
            .flat_map(|(n, one)| styles[..n].iter().map(move |other| (one, other)));
        for (one, other) in others {
            assert_ne!(one, other);
        }
        assert!(!styles.contains(&theme.dim));
        assert_eq!(style(Mode::Asks, StatusItem::Permissions), theme.dim);
        assert_eq!(style(Mode::DeniesEdits, StatusItem::Agent), theme.heading);
        assert_eq!(style(Mode::Asks, StatusItem::Agent), theme.dim);
        assert_eq!(style(Mode::AllowsAll, StatusItem::Model), theme.dim);
    }
}
