//! Ids of calls as they are sent: in the form that the API takes, each used once.

use std::collections::{HashMap, HashSet, VecDeque};

use leftfold_events::Sha256;

use super::quirks::{Ids, Quirks, is_claude};
use crate::shape::restricted;

/// Characters that OpenAI takes.
const LONGEST: usize = 40;
/// Characters that Mistral takes, and wants.
const NINE: usize = 9;

#[derive(Debug)]
pub(super) struct Sent {
    form: Ids,
    /// Whether only `[A-Za-z0-9_-]` will do.
    plain: bool,
    used: HashSet<String>,
    /// For each id as the model wrote it, the ids as sent of the calls without a result yet.
    pending: HashMap<String, VecDeque<String>>,
}

impl Sent {
    pub(super) fn new(quirks: &Quirks, model: &str) -> Self {
        Self {
            form: quirks.ids,
            plain: is_claude(model),
            used: HashSet::new(),
            pending: HashMap::new(),
        }
    }

    /// The id for a call. It depends on the calls before it only, so that a history that grows
    /// begins with the same bytes.
    pub(super) fn call(&mut self, id: &str) -> String {
        let mut sent = self.shaped(id);
        let mut count = 1;
        while !self.used.insert(sent.clone()) {
            count += 1;
            sent = self.shaped(&format!("{id}_{count}"));
        }
        self.pending.entry(id.to_owned()).or_default().push_back(sent.clone());
        sent
    }

    /// The id for the result of a call.
    pub(super) fn result(&mut self, id: &str) -> String {
        let sent = self.pending.get_mut(id).and_then(VecDeque::pop_front);
        sent.unwrap_or_else(|| self.shaped(id))
    }

    /// The results of older calls are not to come any more.
    pub(super) fn forget(&mut self) {
        self.pending.clear();
    }

    fn shaped(&self, id: &str) -> String {
        match self.form {
            Ids::Nine if id.len() == NINE && id.bytes().all(|b| b.is_ascii_alphanumeric()) => {
                id.to_owned()
            }
            Ids::Nine => hash(id, NINE),
            Ids::Short if id.is_empty() => "call".to_owned(),
            Ids::Short if id.chars().count() > LONGEST => format!("call_{}", hash(id, 32)),
            Ids::Short if self.plain => restricted(id, LONGEST),
            Ids::Short => id.chars().map(|c| if c.is_ascii_graphic() { c } else { '_' }).collect(),
        }
    }
}

/// Another text of so many hexadecimal digits for each id.
fn hash(id: &str, digits: usize) -> String {
    Sha256::of(id.as_bytes()).to_string().chars().take(digits).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::openai_chat::quirks;
    use crate::{Config, Wire};

    fn sent(vendor: &str, model: &str) -> Sent {
        let mut config = Config::new("p", Wire::OpenaiChat);
        config.vendor = Some(vendor.to_owned());
        Sent::new(quirks::of(&config), model)
    }

    #[test]
    fn ids_have_the_form_that_the_api_takes() {
        let long = "x".repeat(41);
        for (vendor, model, id, expected) in [
            ("openai", "m", "call_1", "call_1"),
            ("moonshot", "m", "functions.read:0", "functions.read:0"),
            ("openrouter", "anthropic/claude-x", "functions.read:0", "functions_read_0"),
            ("openai", "m", "", "call"),
            ("openai", "m", "a b\né", "a_b__"),
            ("mistral", "m", "AbC123xyz", "AbC123xyz"),
        ] {
            assert_eq!(sent(vendor, model).call(id), expected, "{vendor} {id}");
        }
        let short = sent("openai", "m").call(&long);
        assert!(short.starts_with("call_") && short.len() <= LONGEST, "{short}");
        for id in ["call_1", "", "ünïcödé99", &long] {
            let nine = sent("mistral", "m").call(id);
            assert!(
                nine.len() == NINE && nine.bytes().all(|b| b.is_ascii_alphanumeric()),
                "{nine}"
            );
        }
    }

    #[test]
    fn ids_that_repeat_keep_their_results() {
        for vendor in ["openai", "mistral"] {
            let mut ids = sent(vendor, "m");
            let calls = [ids.call("x"), ids.call("x"), ids.call("x_2")];
            let unique: HashSet<&String> = calls.iter().collect();
            assert_eq!(unique.len(), 3, "{calls:?}");
            assert_eq!([ids.result("x"), ids.result("x"), ids.result("x_2")], calls);
        }
    }
}
