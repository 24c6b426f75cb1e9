//! Names and texts of credentials. When in doubt, a value is hidden: a value hidden by mistake costs a look into the
//! file, a value shown by mistake costs a key.

use schemars::JsonSchema;
use serde::Deserialize;

/// A value that is never shown.
#[derive(Clone, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(transparent)]
#[schemars(inline, extend("x-secret" = true))]
pub struct Secret(String);

impl Secret {
    pub fn new(value: impl Into<String>) -> Self {
        Self(value.into())
    }

    pub fn reveal(&self) -> &str {
        &self.0
    }

    pub(crate) fn is_blank(&self) -> bool {
        self.0.trim().is_empty()
    }
}

leftfold_events::debug_fields!(Secret {});

/// Words in names of credentials.
const WORDS: [&str; 12] = [
    "key", "auth", "token", "tokens", "pat", "pass", "pwd", "cookie", "jwt", "signature", "sig",
    "login",
];
/// Parts of names that mark a credential anywhere in the name.
const PARTS: [&str; 9] = [
    "password", "passwd", "passphrase", "secret", "apikey", "credential", "authorization",
    "privatekey", "accesskey",
];
/// The prefixes of well-known services' credentials.
const BEGINNINGS: [&str; 17] = [
    "sk-", "sk_", "pk_", "rk_", "gsk_", "xai-", "ghp_", "gho_", "ghs_", "ghu_", "github_pat_",
    "glpat-", "xox", "AKIA", "AIza", "eyJ", "-----BEGIN",
];
const HIDDEN: &str = "***";

/// Whether a name is that of a credential: `apiKey`, `GITHUB_TOKEN`, `--password`.
pub(crate) fn is_credential(name: &str) -> bool {
    let words = words(name);
    let whole = words.concat();
    words.iter().any(|word| WORDS.contains(&word.as_str()))
        || PARTS.iter().any(|part| whole.contains(part))
        || whole.ends_with("token")
}

/// The words of a name in lower case; a capital after a small letter begins one.
fn words(name: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut small = false;
    for c in name.chars() {
        if !c.is_alphanumeric() || (c.is_uppercase() && small) {
            words.push(String::new());
        }
        small = c.is_lowercase() || c.is_numeric();
        if let Some(word) = words.last_mut().filter(|_| c.is_alphanumeric()) {
            word.extend(c.to_lowercase());
        }
    }
    words
}

/// Whether a text contains a credential.
pub fn has_credential(text: &str) -> bool {
    const SHORTEST: usize = 12;
    let mut words = text.split(|c: char| c.is_whitespace() || "\"'=:,;()".contains(c)).peekable();
    while let Some(word) = words.next() {
        let scheme = ["bearer", "basic"].iter().any(|scheme| word.eq_ignore_ascii_case(scheme));
        let follows = words.peek().is_some_and(|next| next.len() >= SHORTEST && !is_prose(next));
        let begins = BEGINNINGS.iter().any(|beginning| word.starts_with(beginning));
        if (scheme && follows) || (begins && word.len() >= SHORTEST) {
            return true;
        }
    }
    false
}

/// Lower-case letters, perhaps after a capital.
fn is_prose(word: &str) -> bool {
    word.chars().skip(1).all(|c| c.is_lowercase() || c == '-')
}

/// The text with credentials masked: `--token X`, `KEY=X`, `?api_key=X`, and the user of a URL.
pub fn masked(text: &str) -> String {
    let mut masked = String::with_capacity(text.len());
    let mut after_flag = false;
    for word in text.split_inclusive(char::is_whitespace) {
        let bare = word.trim_end();
        if after_flag && !bare.is_empty() && !bare.starts_with('-') {
            masked.push_str(HIDDEN);
        } else {
            without_user(bare)
                .split_inclusive(['?', '&', ';', '#'])
                .for_each(|part| assignment(part, &mut masked));
        }
        masked.push_str(&word[bare.len()..]);
        after_flag = is_flag(bare) || (after_flag && (bare.is_empty() || is_scheme(bare)));
    }
    masked
}

/// `--token` or `Token:`, followed by its value.
pub(crate) fn is_flag(word: &str) -> bool {
    let open = word.starts_with('-') && !word.contains(['=', ':']);
    (open || word.ends_with(':')) && is_credential(word)
}

/// The first word of a header's value.
fn is_scheme(word: &str) -> bool {
    ["bearer", "basic", "token"].iter().any(|scheme| word.eq_ignore_ascii_case(scheme))
}

fn assignment(part: &str, masked: &mut String) {
    let named = part.match_indices(['=', ':']).find(|(at, sign)| {
        let name = &part[..*at];
        // The colon of a URL precedes a port.
        is_credential(name) && (*sign == "=" || !name.contains("://"))
    });
    let Some((at, _)) = named.filter(|(at, _)| at + 1 < part.len()) else {
        return masked.push_str(part);
    };
    let (name, value) = part.split_at(at + 1);
    let end = value.trim_start_matches(|c| !matches!(c, '?' | '&' | ';' | '#'));
    masked.extend([name, HIDDEN, end]);
}

/// `http://user:password@host` without the part before the `@`.
fn without_user(word: &str) -> String {
    let Some((scheme, rest)) = word.split_once("://") else { return word.to_owned() };
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    match rest[..end].rfind('@') {
        Some(at) => format!("{scheme}://{HIDDEN}{}", &rest[at..]),
        None => word.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_credentials_are_known() {
        for name in [
            "apiKey", "api_key", "APIKEY", "x-api-key", "token", "GITHUB_TOKEN", "accessToken",
            "authToken", "clientSecret", "PGPASSWORD", "--password", "secretAccessKey",
            "Authorization", "cookie", "GITHUBTOKEN", "private_key", "x2ApiKey",
        ] {
            assert!(is_credential(name), "{name}");
        }
        for name in
            ["author", "keyboard", "monkey", "baseURL", "timeout", "command", "path", "url", ""]
        {
            assert!(!is_credential(name), "{name}");
        }
    }

    #[test]
    fn texts_are_shown_without_credentials() {
        for (text, expected) in [
            ("http://me:hidden@host/v1?x=1", "http://***@host/v1?x=1"),
            ("https://host/mcp?api_key=hidden&x=1", "https://host/mcp?api_key=***&x=1"),
            ("server --token hidden --port 1", "server --token *** --port 1"),
            ("server --token=hidden", "server --token=***"),
            ("env DEPLOY_KEY=hidden run", "env DEPLOY_KEY=*** run"),
            ("curl -H X-Key:hidden u", "curl -H X-Key:*** u"),
            ("curl -H 'X-Auth: Basic hidden' u", "curl -H 'X-Auth: *** *** u"),
            ("http://token-service:8080/v1", "http://token-service:8080/v1"),
            ("--token --port", "--token --port"),
            ("a=1 b  c\n", "a=1 b  c\n"),
            ("mail@host http://host/@x", "mail@host http://host/@x"),
        ] {
            assert_eq!(masked(text), expected);
        }
        for text in [
            "Bearer 0123456789abc", "x: basic dXNlcjpwYXNz", "sk-ant-0123456789",
            "KEY=ghp_0123456789",
        ] {
            assert!(has_credential(text), "{text}");
        }
        for text in [
            "bearer of news", "a basic idea", "Basic authentication", "sk-", "task-0123456789",
            "Be brief.",
        ] {
            assert!(!has_credential(text), "{text}");
        }
    }
}
