//! Prompts of MCP servers, called as `/SERVER:PROMPT ARGUMENTS`.

use leftfold_events::event::{PromptKind, PromptPart};

use super::{Call, template};
use crate::Usage;
use crate::project::{Project, added_names};
use crate::session_setup::SessionSetup;
use leftfold_config::Settings;

/// The call in `word`, if it begins with the name of a known server.
pub(super) fn call(
    word: &str,
    arguments: &str,
    settings: &Settings,
    project: &Project,
) -> Option<Call> {
    let known = settings.mcp.keys().map(String::as_str);
    let handed = project.servers.iter().map(|server| server.name.as_str());
    let added = added_names(&project.directory);
    let added = added.iter().map(String::as_str);
    let (server, prompt) = known.chain(handed).chain(added).find_map(|server| {
        let prompt = word.strip_prefix(server)?.strip_prefix(':')?;
        (!prompt.is_empty()).then_some((server, prompt))
    })?;
    Some(Call {
        name: word.to_owned(),
        template: String::new(),
        arguments: arguments.to_owned(),
        subtask: None,
        remote: Some((server.to_owned(), prompt.to_owned())),
        skill: false,
    })
}

/// The parts that the server supplies for the prompt.
pub(super) async fn parts(
    call: &Call,
    (server, prompt): &(String, String),
    setup: &SessionSetup,
    mut parts: Vec<PromptPart>,
) -> anyhow::Result<Vec<PromptPart>> {
    let words = template::words(call.arguments.trim());
    let said = setup.extensions.mcp.prompt(server, prompt, &words).await;
    let said = said.map_err(|why| Usage(format!("the command `/{}`: {why}", call.name)))?;
    if said.text.trim().is_empty() && said.media.is_empty() {
        return Err(Usage(format!("the prompt of the command `/{}` is empty", call.name)).into());
    }
    let text = Some(said.text).filter(|text| !text.trim().is_empty()).map(PromptPart::text);
    let media = said.media.into_iter().map(|media| PromptPart {
        kind: PromptKind::Media,
        text: media.base64,
        mime: Some(media.mime),
        name: Some(media.name),
    });
    let rest = parts.split_off(1.min(parts.len()));
    Ok(text.into_iter().chain(media).chain(rest).collect())
}
