//! Ids of calls as they are sent: in the form that the API accepts, each used once.

use std::collections::{HashMap, HashSet, VecDeque};

use leftfold_events::Sha256;

use crate::shape::restricted;

/// Length of [`IdForm::Short`] ids, in characters.
pub(crate) const SHORT: usize = 40;
/// Length of [`IdForm::Nine`] ids, in characters.
const NINE: usize = 9;

/// The required form of call ids.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum IdForm {
    /// 1 to 40 printable characters.
    Short,
    /// 1 to this many (at least 40) characters of `[A-Za-z0-9_-]`.
    Plain(usize),
    /// Exactly nine letters and digits.
    Nine,
}

#[derive(Clone, Debug)]
pub(crate) struct SentIds {
    form: IdForm,
    used: HashSet<String>,
    /// For each id as the model wrote it, the sent ids of its calls that have no result yet.
    pending: HashMap<String, VecDeque<String>>,
}

impl SentIds {
    pub(crate) fn new(form: IdForm) -> Self {
        Self { form, used: HashSet::new(), pending: HashMap::new() }
    }

    /// The id for a call. It depends only on the calls before it, so that a growing history begins
    /// with equal bytes.
    pub(crate) fn call(&mut self, id: &str) -> String {
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
    pub(crate) fn result(&mut self, id: &str) -> String {
        let sent = self.pending.get_mut(id).and_then(VecDeque::pop_front);
        sent.unwrap_or_else(|| self.shaped(id))
    }

    /// Forgets older calls without a result: their results can no longer come.
    pub(crate) fn forget(&mut self) {
        self.pending.clear();
    }

    fn shaped(&self, id: &str) -> String {
        let printable = |c: char| if c.is_ascii_graphic() { c } else { '_' };
        match self.form {
            IdForm::Nine if id.len() == NINE && id.bytes().all(|b| b.is_ascii_alphanumeric()) => {
                id.to_owned()
            }
            IdForm::Nine => hash(id, NINE),
            IdForm::Short => within(id, SHORT, || id.chars().map(printable).collect()),
            IdForm::Plain(longest) => within(id, longest, || restricted(id, longest)),
        }
    }
}

fn within(id: &str, longest: usize, shaped: impl Fn() -> String) -> String {
    match id.chars().count() {
        0 => "call".to_owned(),
        count if count > longest => format!("call_{}", hash(id, 32)),
        _ => shaped(),
    }
}

/// A text of `digits` hexadecimal digits that depends on the id.
fn hash(id: &str, digits: usize) -> String {
    Sha256::digest(id.as_bytes()).to_string().chars().take(digits).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_have_the_form_that_the_api_takes() {
        for (form, id, expected) in [
            (IdForm::Short, "call_1", "call_1"),
            (IdForm::Short, "functions.read:0", "functions.read:0"),
            (IdForm::Plain(SHORT), "functions.read:0", "functions_read_0"),
            (IdForm::Short, "", "call"),
            (IdForm::Plain(64), "", "call"),
            (IdForm::Short, "a b\né", "a_b__"),
            (IdForm::Plain(64), "a b\né", "a_b__"),
            (IdForm::Nine, "AbC123xyz", "AbC123xyz"),
        ] {
            assert_eq!(SentIds::new(form).call(id), expected, "{form:?} {id}");
        }
        for (form, longest) in [(IdForm::Short, SHORT), (IdForm::Plain(64), 64)] {
            let fits = "x".repeat(longest);
            assert_eq!(SentIds::new(form).call(&fits), fits);
            let short = SentIds::new(form).call(&format!("{fits}x"));
            assert!(short.starts_with("call_") && short.len() <= longest, "{short}");
        }
        for id in ["call_1", "", "ünïcödé99", &"x".repeat(41)] {
            let nine = SentIds::new(IdForm::Nine).call(id);
            assert!(
                nine.len() == NINE && nine.bytes().all(|b| b.is_ascii_alphanumeric()),
                "{nine}"
            );
        }
    }

    #[test]
    fn ids_that_repeat_keep_their_results() {
        for form in [IdForm::Short, IdForm::Plain(64), IdForm::Nine] {
            let mut ids = SentIds::new(form);
            let calls = [ids.call("x"), ids.call("x"), ids.call("x_2")];
            let unique: HashSet<&String> = calls.iter().collect();
            assert_eq!(unique.len(), 3, "{calls:?}");
            assert_eq!([ids.result("x"), ids.result("x"), ids.result("x_2")], calls);
        }
    }
}
