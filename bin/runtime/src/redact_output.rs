//! Masks text as it leaves the process. Tokens are recognized by their shape and masked everywhere.
//! Known secrets are masked in text for people; events need only the former, as the log never holds
//! a known secret.

use std::borrow::Cow;
use std::sync::{PoisonError, RwLock};

use leftfold_events::{Secrets, mask};

/// The secrets of every project that this process works in.
static KNOWN: RwLock<Vec<Secrets>> = RwLock::new(Vec::new());

/// Adds secrets to the masked ones.
pub fn learn(secrets: &Secrets) {
    let known = |known: &Vec<Secrets>| secrets.is_empty() || known.contains(secrets);
    if !known(&KNOWN.read().unwrap_or_else(PoisonError::into_inner)) {
        KNOWN.write().unwrap_or_else(PoisonError::into_inner).push(secrets.clone());
    }
}

/// All masked ones.
pub(crate) fn known() -> Secrets {
    let known = KNOWN.read().unwrap_or_else(PoisonError::into_inner);
    let all = |all: Secrets, more: &Secrets| all.with_all_of(more).unwrap_or(all);
    known.iter().fold(Secrets::default(), all)
}

/// Masks the tokens in `text`, which may be JSON.
pub fn masked(text: &str) -> Cow<'_, str> {
    mask::mask(text).map_or(Cow::Borrowed(text), Cow::Owned)
}

/// Masks tokens and known secrets in text for people.
pub fn clean(text: &str) -> Cow<'_, str> {
    let mut text = Cow::Borrowed(text);
    for secrets in KNOWN.read().unwrap_or_else(PoisonError::into_inner).iter() {
        if let Some(hidden) = secrets.hide(&text) {
            text = Cow::Owned(hidden);
        }
    }
    match mask::mask(&text) {
        Some(masked) => Cow::Owned(masked),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use leftfold_events::secrets::Secret;

    use super::*;

    #[test]
    fn words_for_people_have_neither_secrets_nor_tokens() {
        let known = |name: &str, value: &str| {
            let (name, value) = (name.to_owned(), value.to_owned());
            Secrets::new([Secret { name, value, usable: true }]).unwrap()
        };
        learn(&known("ONE", "redact_output-secret-one"));
        learn(&known("TWO", "redact_output-secret-two"));
        learn(&known("TWO", "redact_output-secret-two"));
        assert_eq!(KNOWN.read().unwrap().len(), 2);
        let token = format!("ghp_{}", "a1B2".repeat(9));
        let told = clean("redact_output-secret-two redact_output-secret-one").into_owned();
        assert_eq!(told, "{{secret:TWO}} {{secret:ONE}}");
        assert_eq!(clean(&format!("x {token}")), "x ghp_…[masked]");
        assert!(matches!(clean("nothing"), Cow::Borrowed("nothing")));
    }
}
