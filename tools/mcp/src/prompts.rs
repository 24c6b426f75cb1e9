//! Prompts of servers, which people call as commands: `/SERVER:PROMPT ARGUMENTS`.

use std::time::Duration;

use leftfold_events::event::Attachment;
use rmcp::model::{GetPromptRequestParams, JsonObject, Prompt, PromptMessage, Role};

use super::content::{self, Rendered};
use super::servers::Servers;
use super::spec::STARTUP;

/// The messages of a prompt.
#[derive(Clone, Debug, Default)]
pub struct PromptResult {
    pub text: String,
    /// Images and other attachments.
    pub media: Vec<Attachment>,
}

impl Servers {
    /// The prompts of all connected servers: `SERVER:PROMPT`, and its description.
    pub fn prompts(&self) -> Vec<(String, String)> {
        let links = self.members().filter_map(|server| Some((server, server.connection()?)));
        let named = links.flat_map(|(server, link)| {
            let name = |prompt: Prompt| {
                let about = prompt.description.or(prompt.title).unwrap_or_default();
                (format!("{}:{}", server.service().spec.name, prompt.name), about)
            };
            link.prompts().into_iter().map(name).collect::<Vec<_>>()
        });
        named.collect()
    }

    /// Gets a prompt from a server. The words become the prompt's arguments in the order in which
    /// it names them; the last argument takes all remaining words. Waits for the server to start.
    ///
    /// # Errors
    /// No such server exists, it cannot be used, it has no such prompt, or the prompt rejects the
    /// arguments. In words for people.
    pub async fn prompt(
        &self,
        server: &str,
        prompt: &str,
        words: &[String],
    ) -> Result<PromptResult, String> {
        let (found, link) = self.connected(server).await?;
        let known = link.prompts();
        let Some(wanted) = known.iter().find(|known| known.name == prompt) else {
            let known: Vec<&str> = known.iter().map(|prompt| prompt.name.as_str()).collect();
            let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
            return Err(format!(
                "the MCP server `{server}` has no prompt `{prompt}`; it has {known}"
            ));
        };
        let params = GetPromptRequestParams::new(prompt);
        let params = params.with_arguments(arguments(wanted, words)?);
        let limit = found.service().spec.timeout.unwrap_or(STARTUP);
        let asked = tokio::time::timeout(limit, link.get_prompt(params)).await;
        Ok(prompt_result(asked.map_err(|_| late(limit))??))
    }
}

fn late(limit: Duration) -> String {
    format!("its server did not answer within {} ms", limit.as_millis())
}

fn arguments(prompt: &Prompt, words: &[String]) -> Result<JsonObject, String> {
    let known = prompt.arguments.as_deref().unwrap_or_default();
    let required = known.iter().filter(|argument| argument.required.unwrap_or(false));
    let shown = |names: Vec<&str>| names.join(", ");
    if known.is_empty() && !words.is_empty() {
        return Err("it takes no arguments".to_owned());
    }
    let mut given = JsonObject::new();
    for (at, argument) in known.iter().enumerate().take(words.len()) {
        let is_last = at + 1 == known.len();
        let value = if is_last { words[at..].join(" ") } else { words[at].clone() };
        given.insert(argument.name.clone(), value.into());
    }
    let missing = required.map(|argument| argument.name.as_str());
    let missing: Vec<&str> = missing.filter(|name| !given.contains_key(*name)).collect();
    if missing.is_empty() {
        return Ok(given);
    }
    let all = known.iter().map(|argument| argument.name.as_str()).collect();
    Err(format!("it needs {}; its arguments are, in this order: {}", shown(missing), shown(all)))
}

/// Joins the messages. If several speakers appear, each message names its speaker.
fn prompt_result(messages: Vec<PromptMessage>) -> PromptResult {
    let several = messages.iter().any(|message| message.role == Role::Assistant);
    let mut prompted = PromptResult::default();
    let mut parts = Vec::new();
    for PromptMessage { role, content, .. } in messages {
        let speaker = if role == Role::Assistant { "Assistant" } else { "User" };
        match content::render(content) {
            Rendered::Text(text) if several => parts.push(format!("{speaker}: {text}")),
            Rendered::Text(text) => parts.push(text),
            Rendered::Media(media) => prompted.media.push(media),
        }
    }
    prompted.text = parts.join("\n\n");
    prompted
}

#[cfg(test)]
mod tests {
    use rmcp::model::PromptArgument;
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn arguments_are_named_in_their_order_and_the_last_takes_the_rest() {
        let argument = |name: &str, required| PromptArgument::new(name).with_required(required);
        let prompt = Prompt::new(
            "weather",
            None::<String>,
            Some(vec![argument("city", true), argument("state", false)]),
        );
        for (words, expected) in [
            (vec!["Rome"], Ok(json!({ "city": "Rome" }))),
            (vec!["Rome", "New", "York"], Ok(json!({ "city": "Rome", "state": "New York" }))),
            (vec![], Err("it needs city; its arguments are, in this order: city, state")),
        ] {
            let words: Vec<String> = words.into_iter().map(str::to_owned).collect();
            let given = arguments(&prompt, &words).map(Value::Object);
            assert_eq!(given, expected.map_err(str::to_owned));
        }
        let none = Prompt::new("plain", None::<String>, None);
        assert_eq!(arguments(&none, &["x".to_owned()]).unwrap_err(), "it takes no arguments");
    }

    #[test]
    fn several_speakers_are_told_apart() {
        let message = |role, text: &str| PromptMessage::new_text(role, text);
        assert_eq!(
            prompt_result(vec![message(Role::User, "a"), message(Role::User, "b")]).text,
            "a\n\nb"
        );
        let both =
            prompt_result(vec![message(Role::User, "a"), message(Role::Assistant, "b")]).text;
        assert_eq!(both, "User: a\n\nAssistant: b");
    }
}
