use std::fmt;

/// The replacement of a secret.
const HIDDEN: &str = "[hidden]";

/// Secrets shorter than this are not hidden: that would hide ordinary words and protect nothing.
const SHORTEST_SECRET: usize = 4;

/// The secrets of one provider, to be removed from the server's messages.
#[derive(Clone, Default)]
pub(crate) struct Mask {
    /// Longest first, so that a secret that contains another one is hidden completely.
    secrets: Vec<String>,
}

impl Mask {
    pub(crate) fn new<'a>(secrets: impl IntoIterator<Item = &'a str>) -> Self {
        let mut mask = Self::default();
        mask.add(secrets);
        mask
    }

    pub(crate) fn add<'a>(&mut self, secrets: impl IntoIterator<Item = &'a str>) {
        let secrets = secrets
            .into_iter()
            .flat_map(|secret| [Some(secret), secret.split_once(' ').map(|(_, rest)| rest)])
            .flatten()
            .map(|secret| secret.trim().to_owned())
            .filter(|secret| secret.len() >= SHORTEST_SECRET);
        self.secrets.extend(secrets);
        self.secrets.sort_by_key(|secret| std::cmp::Reverse(secret.len()));
        self.secrets.dedup();
    }

    /// Whether `text` contains one of the secrets.
    pub(crate) fn finds(&self, text: &str) -> bool {
        self.secrets.iter().any(|secret| text.contains(secret.as_str()))
    }

    pub(crate) fn hide(&self, text: String) -> String {
        self.secrets.iter().fold(text, |text, secret| {
            if text.contains(secret.as_str()) {
                text.replace(secret.as_str(), HIDDEN)
            } else {
                text
            }
        })
    }
}

impl fmt::Debug for Mask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Mask({} secrets)", self.secrets.len())
    }
}
