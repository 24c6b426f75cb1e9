//! The choices of a client for a session: agent (the protocol's mode), model and variant.

use leftfold_runtime::session_setup::SessionSetup;
use std::sync::Arc;

use agent_client_protocol::v1::schema::{
    AvailableCommand, AvailableCommandInput, AvailableCommandsUpdate, ConfigOptionUpdate,
    CurrentModeUpdate, SessionConfigOption, SessionConfigOptionCategory, SessionConfigSelectGroup,
    SessionConfigSelectOption, SessionMode, SessionModeState, SessionUpdate,
    UnstructuredCommandInput,
};
use leftfold_runtime::gather::Agent;

use leftfold_events::event::{ModelRef, SessionChoices};
use leftfold_runtime::Usage;
use leftfold_runtime::agents::Agents;
use leftfold_runtime::model_list;
use leftfold_runtime::project::Project;
use leftfold_runtime::resolved_settings;
use leftfold_runtime::session_paths::SessionPlace;
use leftfold_runtime::slash;
use leftfold_runtime::turn_config::Overrides;

/// The ids of the options.
pub(super) const MODE: &str = "mode";
const MODEL: &str = "model";
const VARIANT: &str = "thought_level";

/// The value for no variant.
const PLAIN: &str = "default";

/// Sets the option `id` to `value` and keeps the other choices of `before`.
///
/// # Errors
/// There is no such option or value; the error lists the ones that exist.
pub(super) fn choose(
    before: &SessionChoices,
    available: &AvailableChoices,
    id: &str,
    value: &str,
) -> Result<SessionChoices, Usage> {
    let mut chosen = before.clone();
    match id {
        MODE => {
            known(value, "mode", available.agents.iter().map(|agent| agent.name.as_str()))?;
            chosen.agent = Some(value.to_owned());
        }
        MODEL => {
            let models = available.models.iter().flat_map(|(_, models)| models);
            known(value, "model", models.map(|model| model.name.as_str()))?;
            let (provider, id) = value.split_once('/').unwrap_or((value, ""));
            chosen.model = Some(ModelRef { provider: provider.to_owned(), id: id.to_owned() });
            // Another model may not have the variant.
            chosen.variant = None;
        }
        VARIANT => {
            let variants = available.variants.iter().map(String::as_str);
            known(value, "variant of this model", variants.chain([PLAIN]))?;
            chosen.variant = Some(value.to_owned()).filter(|value| value != PLAIN);
        }
        _ => known(id, "option", [MODE, MODEL, VARIANT])?,
    }
    Ok(chosen)
}

fn known<'a>(
    value: &str,
    what: &str,
    known: impl IntoIterator<Item = &'a str>,
) -> Result<(), Usage> {
    let known: Vec<&str> = known.into_iter().collect();
    if known.contains(&value) {
        return Ok(());
    }
    Err(Usage(format!("there is no {what} `{value}`: choose one of {}", known.join(", "))))
}

/// The possible choices in a project, and the ones in force.
#[derive(Debug)]
pub(super) struct AvailableChoices {
    agents: Vec<Agent>,
    agent: String,
    /// The usable providers with their models.
    models: Vec<(String, Vec<model_list::Row>)>,
    model: String,
    variants: Vec<String>,
    variant: Option<String>,
    /// Names and descriptions.
    commands: Vec<(String, String)>,
}

impl AvailableChoices {
    /// # Errors
    /// The settings are wrong or not sufficient for a prompt.
    pub(super) fn for_project(place: &SessionPlace, project: &Project) -> anyhow::Result<Self> {
        let setup = SessionSetup::new(place.clone(), project, &Overrides::interactive(), false)?;
        let settings = resolved_settings::settings(&project.directory, &setup.extensions.plugins)?;
        let agents = Agents::from_settings(&settings);
        let primary = agents
            .iter()
            .filter(|known| !known.agent.hidden && agents.to_prompt(&known.agent.name).is_ok());
        let models = model_list::usable(&settings);
        let model = setup.turn_settings.model.name().to_string();
        let mut rows = models.iter().flat_map(|(_, models)| models);
        let row = rows.find(|row| row.name == model);
        Ok(Self {
            agents: primary.map(|known| known.agent.clone()).collect(),
            agent: setup.turn_settings.agent.name.clone(),
            variants: row.map(|row| row.variants.clone()).unwrap_or_default(),
            variant: setup.turn_settings.options.variant.clone(),
            model,
            models,
            commands: slash::list(&project.directory, &setup.extensions)?,
        })
    }

    pub(super) fn modes(&self) -> SessionModeState {
        let mode = |agent: &Agent| {
            SessionMode::new(Arc::<str>::from(agent.name.as_str()), agent.name.clone())
                .description(agent.description.clone())
        };
        SessionModeState::new(
            Arc::<str>::from(self.agent.as_str()),
            self.agents.iter().map(mode).collect(),
        )
    }

    pub(super) fn options(&self) -> Vec<SessionConfigOption> {
        let agents = self
            .agents
            .iter()
            .map(|agent| choice(&agent.name, &agent.name).description(agent.description.clone()));
        let agents: Vec<_> = agents.collect();
        let mode = SessionConfigOption::select(
            MODE,
            "Agent",
            Arc::<str>::from(self.agent.as_str()),
            agents,
        )
        .category(SessionConfigOptionCategory::Mode);
        let model = SessionConfigOption::select(
            MODEL,
            "Model",
            Arc::<str>::from(self.model.as_str()),
            self.groups(),
        )
        .category(SessionConfigOptionCategory::Model);
        let mut options = vec![mode, model];
        if !self.variants.is_empty() {
            let current = Arc::<str>::from(self.variant.as_deref().unwrap_or(PLAIN));
            let names = [PLAIN].into_iter().chain(self.variants.iter().map(String::as_str));
            let names: Vec<_> = names.map(|name| choice(name, name)).collect();
            options.push(
                SessionConfigOption::select(VARIANT, "Variant", current, names)
                    .category(SessionConfigOptionCategory::ThoughtLevel),
            );
        }
        options
    }

    /// The models by provider. The model in force is included even if it is not listed.
    fn groups(&self) -> Vec<SessionConfigSelectGroup> {
        let group = |(provider, models): &(String, Vec<model_list::Row>)| {
            let models = models.iter().map(|row| choice(&row.name, short(&row.name)));
            let id = Arc::<str>::from(provider.as_str());
            SessionConfigSelectGroup::new(id, provider.clone(), models.collect())
        };
        let mut groups: Vec<_> = self.models.iter().map(group).collect();
        let mut rows = self.models.iter().flat_map(|(_, models)| models);
        if !rows.any(|row| row.name == self.model) {
            let only = vec![choice(&self.model, short(&self.model))];
            groups.push(SessionConfigSelectGroup::new("current", "In use", only));
        }
        groups
    }

    /// The updates for a client after somebody else has changed a choice.
    pub(super) fn updates(&self) -> [SessionUpdate; 2] {
        let mode = CurrentModeUpdate::new(Arc::<str>::from(self.agent.as_str()));
        let options = ConfigOptionUpdate::new(self.options());
        [SessionUpdate::CurrentModeUpdate(mode), SessionUpdate::ConfigOptionUpdate(options)]
    }

    pub(super) fn commands(&self) -> SessionUpdate {
        let command = |(name, description): &(String, String)| {
            let hint = UnstructuredCommandInput::new("arguments of the command");
            AvailableCommand::new(name.clone(), description.clone())
                .input(AvailableCommandInput::Unstructured(hint))
        };
        let commands = self.commands.iter().map(command).collect();
        SessionUpdate::AvailableCommandsUpdate(AvailableCommandsUpdate::new(commands))
    }
}

fn choice(value: &str, name: &str) -> SessionConfigSelectOption {
    SessionConfigSelectOption::new(Arc::<str>::from(value), name.to_owned())
}

/// A model's name without its provider's.
fn short(name: &str) -> &str {
    name.split_once('/').map_or(name, |(_, id)| id)
}
