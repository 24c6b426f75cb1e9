//! A user's message on its way to a session, in this process's node or in another one.

use leftfold_events::Notes;
use leftfold_events::event::PromptPart;

use crate::Usage;

/// A user's message to a session.
#[derive(Clone, Debug)]
pub struct UserMessage {
    pub parts: Vec<PromptPart>,
    pub by: String,
    /// Whether it asks for no answer, and starts no turn. The next request to the model has it.
    pub quiet: bool,
    pub notes: Notes,
}

impl UserMessage {
    pub fn prompt(parts: Vec<PromptPart>, by: &str) -> Self {
        Self { parts, by: by.to_owned(), quiet: false, notes: Notes::default() }
    }

    /// Gives the message the client's id.
    ///
    /// # Errors
    /// The id is too long.
    pub fn with_id(mut self, id: Option<String>) -> Result<Self, Usage> {
        if id.is_some() {
            let checked = Notes::of_client(id, None).map_err(|why| Usage(why.to_string()))?;
            self.notes.client.clone_from(&checked.client);
        }
        Ok(self)
    }
}
