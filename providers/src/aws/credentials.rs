//! Finds the region and the keys for AWS, where other programs for AWS look for them: settings, variables,
//! the files of profiles.
//!
//! It does no I/O of its own: callers pass in variables and files.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use leftfold_events::Time;

use super::profile::{self, Kind, Profiles};

/// The keys that sign requests.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Keys {
    pub(super) access_key_id: String,
    pub(super) secret_access_key: String,
    pub(super) session_token: Option<String>,
}

/// Shows no values.
impl fmt::Debug for Keys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Keys").finish_non_exhaustive()
    }
}

/// Keys, and where they come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Found {
    pub(super) keys: Keys,
    /// For people.
    pub(super) source: String,
    pub(super) expires: Option<Time>,
}

/// What settings say about AWS.
#[derive(Clone, Default, PartialEq, Eq)]
pub(super) struct Given {
    pub(super) region: Option<String>,
    pub(super) profile: Option<String>,
    pub(super) access_key_id: Option<String>,
    pub(super) secret_access_key: Option<String>,
    pub(super) session_token: Option<String>,
}

/// Shows no keys.
impl fmt::Debug for Given {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { region, profile, .. } = self;
        f.debug_struct("Given")
            .field("region", region)
            .field("profile", profile)
            .finish_non_exhaustive()
    }
}

/// The variables and files of the machine.
#[derive(Clone, Copy)]
pub(super) struct Machine<'a> {
    pub(super) env: &'a dyn Fn(&str) -> Option<String>,
    pub(super) read: &'a dyn Fn(&Path) -> io::Result<String>,
}

impl fmt::Debug for Machine<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Machine").finish_non_exhaustive()
    }
}

/// Why there are no keys. Messages say what to do, and have no values.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Missing {
    #[error(
        "no AWS credentials: set AWS_BEARER_TOKEN_BEDROCK, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or name a profile of {files} in AWS_PROFILE"
    )]
    Nothing { files: String },
    #[error("{given} is set, but {lacking} is not: set both, or neither")]
    Half { given: &'static str, lacking: &'static str },
    #[error("the AWS profile `{profile}` is neither in {config} nor in {credentials}{known}")]
    NoProfile { profile: String, config: String, credentials: String, known: String },
    #[error(
        "the AWS profile `{profile}` has no keys but {has}, which Leftfold does not use: run `eval \"$(aws configure export-credentials --profile {profile} --format env)\"`, which sets AWS_ACCESS_KEY_ID and the other variables"
    )]
    OtherMeans { profile: String, has: &'static str },
    #[error(
        "the AWS profile `{profile}` has no aws_access_key_id and aws_secret_access_key in {credentials}"
    )]
    NoKeys { profile: String, credentials: String },
    #[error("{file} cannot be read: {reason}")]
    Unreadable { file: String, reason: String },
}

/// Settings of a profile by which other programs get keys.
const OTHER_MEANS: [(&str, &str); 6] = [
    ("sso_session", "an SSO session"),
    ("sso_start_url", "an SSO session"),
    ("role_arn", "a role to assume"),
    ("credential_process", "a `credential_process`"),
    ("login_session", "a login session"),
    ("credential_source", "a `credential_source`"),
];

impl Machine<'_> {
    fn set(&self, name: &str) -> Option<String> {
        filled((self.env)(name))
    }

    fn file(&self, variable: &str, name: &str) -> PathBuf {
        match self.set(variable) {
            Some(path) => PathBuf::from(path),
            None => Path::new(&self.set("HOME").unwrap_or_default()).join(".aws").join(name),
        }
    }

    fn config_file(&self) -> PathBuf {
        self.file("AWS_CONFIG_FILE", "config")
    }

    fn credentials_file(&self) -> PathBuf {
        self.file("AWS_SHARED_CREDENTIALS_FILE", "credentials")
    }

    /// The files of profiles, if they are named by a full path.
    pub(super) fn files(&self) -> Vec<PathBuf> {
        let files = [self.config_file(), self.credentials_file()];
        files.into_iter().filter(|path| path.is_absolute()).collect()
    }

    /// The profiles of a file; none if there is no such file.
    fn profiles(&self, path: &Path, kind: Kind) -> Result<Profiles, Missing> {
        match (self.read)(path) {
            Ok(text) => Ok(profile::parse(&text, kind)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Profiles::new()),
            Err(error) => Err(Missing::Unreadable {
                file: path.display().to_string(),
                reason: error.to_string(),
            }),
        }
    }

    /// The name of the profile in use, and whether somebody named it.
    fn profile(&self, given: &Given) -> (String, bool) {
        let named = given.profile.clone().or_else(|| self.set("AWS_PROFILE"));
        let named = named.or_else(|| self.set("AWS_DEFAULT_PROFILE"));
        let is_named = named.is_some();
        (named.unwrap_or_else(|| "default".to_owned()), is_named)
    }

    /// The region: that of settings, of AWS_REGION, of AWS_DEFAULT_REGION, or of the profile.
    pub(super) fn region(&self, given: &Given) -> Option<String> {
        let named = given.region.clone().or_else(|| self.set("AWS_REGION"));
        named.or_else(|| self.set("AWS_DEFAULT_REGION")).or_else(|| {
            let (name, _) = self.profile(given);
            let files =
                [(self.config_file(), Kind::Config), (self.credentials_file(), Kind::Credentials)];
            files.iter().find_map(|(path, kind)| {
                let profiles = self.profiles(path, *kind).ok()?;
                filled(profiles.get(&name)?.get("region").cloned())
            })
        })
    }

    /// The keys: those of settings, of the profile that settings name, of variables, or of the profile
    /// that AWS_PROFILE names or that is called `default`.
    pub(super) fn keys(&self, given: &Given) -> Result<Found, Missing> {
        let own = (given.access_key_id.clone(), given.secret_access_key.clone());
        let names = ("`options.accessKeyId`", "`options.secretAccessKey`");
        if let Some((access_key_id, secret_access_key)) = both(own, names)? {
            let session_token = given.session_token.clone();
            return Ok(Found {
                keys: Keys { access_key_id, secret_access_key, session_token },
                source: "settings".to_owned(),
                expires: None,
            });
        }
        if given.profile.is_none() {
            let names = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY");
            let set = (self.set(names.0), self.set(names.1));
            if let Some((access_key_id, secret_access_key)) = both(set, names)? {
                let session_token = self.set("AWS_SESSION_TOKEN");
                let expires = self.set("AWS_CREDENTIAL_EXPIRATION");
                return Ok(Found {
                    keys: Keys { access_key_id, secret_access_key, session_token },
                    source: "AWS_ACCESS_KEY_ID".to_owned(),
                    expires: expires.and_then(|time| parsed(&time)),
                });
            }
        }
        self.of_profile(given)
    }

    fn of_profile(&self, given: &Given) -> Result<Found, Missing> {
        let (name, is_named) = self.profile(given);
        let (config_file, credentials_file) = (self.config_file(), self.credentials_file());
        let config = self.profiles(&config_file, Kind::Config)?;
        let credentials = self.profiles(&credentials_file, Kind::Credentials)?;
        let (in_config, in_credentials) = (config.get(&name), credentials.get(&name));
        for (profile, file) in [(in_credentials, &credentials_file), (in_config, &config_file)] {
            let value = |key: &str| filled(profile?.get(key).cloned());
            let keys = (value("aws_access_key_id"), value("aws_secret_access_key"));
            let names = ("aws_access_key_id", "aws_secret_access_key");
            if let Some((access_key_id, secret_access_key)) = both(keys, names)? {
                let session_token = value("aws_session_token");
                return Ok(Found {
                    keys: Keys { access_key_id, secret_access_key, session_token },
                    source: format!("the profile `{name}` in {}", file.display()),
                    expires: value("aws_session_expiration").and_then(|time| parsed(&time)),
                });
            }
        }
        let files = || format!("{} or {}", credentials_file.display(), config_file.display());
        if in_config.is_none() && in_credentials.is_none() {
            if !is_named {
                return Err(Missing::Nothing { files: files() });
            }
            let mut known: Vec<&str> =
                config.keys().chain(credentials.keys()).map(String::as_str).collect();
            known.sort_unstable();
            known.dedup();
            let known = match known.as_slice() {
                [] => String::new(),
                known => format!("; they have `{}`", known.join("`, `")),
            };
            return Err(Missing::NoProfile {
                profile: name,
                config: config_file.display().to_string(),
                credentials: credentials_file.display().to_string(),
                known,
            });
        }
        let has = |key: &str| {
            [in_config, in_credentials]
                .into_iter()
                .flatten()
                .any(|profile| profile.contains_key(key))
        };
        Err(match OTHER_MEANS.iter().find(|(key, _)| has(key)) {
            Some((_, has)) => Missing::OtherMeans { profile: name, has },
            None if !is_named => Missing::Nothing { files: files() },
            None => Missing::NoKeys {
                profile: name,
                credentials: credentials_file.display().to_string(),
            },
        })
    }
}

/// Both values, or none. One of them alone is an error.
fn both<T>(
    values: (Option<T>, Option<T>),
    (first, second): (&'static str, &'static str),
) -> Result<Option<(T, T)>, Missing> {
    match values {
        (Some(id), Some(secret)) => Ok(Some((id, secret))),
        (None, None) => Ok(None),
        (Some(_), None) => Err(Missing::Half { given: first, lacking: second }),
        (None, Some(_)) => Err(Missing::Half { given: second, lacking: first }),
    }
}

fn filled(value: Option<String>) -> Option<String> {
    value.map(|value| value.trim().to_owned()).filter(|value| !value.is_empty())
}

/// A time such as `2026-11-25T20:00:00Z` or `2026-11-25T20:00:00+00:00`.
fn parsed(text: &str) -> Option<Time> {
    let utc = text.strip_suffix("+00:00").map(|time| format!("{time}Z"));
    let text = utc.as_deref().unwrap_or(text);
    serde_json::from_value(text.into()).ok()
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    const CREDENTIALS: &str = "[default]\naws_access_key_id = AKD\naws_secret_access_key = SD\n\
        [dev]\naws_access_key_id = AKV\naws_secret_access_key = SV\naws_session_token = TV\n\
        region = sa-east-1\n[half]\naws_access_key_id = AKH\n";
    const CONFIG: &str = "[default]\nregion = eu-west-1\n[profile dev]\nregion = us-west-2\n\
        [profile corp]\nsso_session = corp\nsso_account_id = 1\n[profile admin]\nrole_arn = arn:x\n\
        source_profile = dev\n[profile bare]\nregion = ap-south-1\n[profile inline]\n\
        aws_access_key_id = AKI\naws_secret_access_key = SI\n";

    /// Looks with these variables, in the files above if `has_files`.
    fn with<T>(env: &[(&str, &str)], has_files: bool, look: impl Fn(Machine<'_>) -> T) -> T {
        let env: HashMap<&str, &str> = env.iter().copied().chain([("HOME", "/h")]).collect();
        let read = |path: &Path| match path.to_str() {
            Some("/h/.aws/credentials") if has_files => Ok(CREDENTIALS.to_owned()),
            Some("/h/.aws/config" | "/elsewhere") if has_files => Ok(CONFIG.to_owned()),
            Some("/locked") => Err(io::ErrorKind::PermissionDenied.into()),
            Some(_) | None => Err(io::ErrorKind::NotFound.into()),
        };
        look(Machine { env: &|name| env.get(name).map(|value| (*value).to_owned()), read: &read })
    }

    fn of_profile(profile: &str) -> Given {
        Given { profile: Some(profile.to_owned()), ..Given::default() }
    }

    const IN_ENV: [(&str, &str); 3] = [
        ("AWS_ACCESS_KEY_ID", " AKE "),
        ("AWS_SECRET_ACCESS_KEY", "SE"),
        ("AWS_SESSION_TOKEN", "TE"),
    ];

    #[test]
    fn keys_come_from_the_first_place_that_has_them() {
        let own = Given {
            access_key_id: Some("AKO".into()),
            secret_access_key: Some("SO".into()),
            ..Given::default()
        };
        let (none, dev) = (Given::default(), of_profile("dev"));
        type Case<'a> = (&'a [(&'a str, &'a str)], &'a Given, (&'a str, &'a str, Option<&'a str>));
        let table: [Case<'_>; 8] = [
            (&IN_ENV, &own, ("AKO", "SO", None)),
            (&IN_ENV, &none, ("AKE", "SE", Some("TE"))),
            (&IN_ENV, &dev, ("AKV", "SV", Some("TV"))),
            (&[], &none, ("AKD", "SD", None)),
            (&[], &dev, ("AKV", "SV", Some("TV"))),
            (&[("AWS_PROFILE", "dev")], &none, ("AKV", "SV", Some("TV"))),
            (&[("AWS_DEFAULT_PROFILE", "dev")], &none, ("AKV", "SV", Some("TV"))),
            (&[("AWS_PROFILE", "inline")], &none, ("AKI", "SI", None)),
        ];
        for (env, given, (id, secret, token)) in table {
            let found = with(env, true, |machine| machine.keys(given)).unwrap();
            let Keys { access_key_id, secret_access_key, session_token } = found.keys;
            let found =
                (access_key_id.as_str(), secret_access_key.as_str(), session_token.as_deref());
            assert_eq!(found, (id, secret, token), "{env:?} {given:?}");
        }
    }

    #[test]
    fn what_is_missing_is_named() {
        let none = Given::default();
        type Case<'a> = (&'a [(&'a str, &'a str)], bool, &'a Given, &'a str);
        let table: [Case<'_>; 11] = [
            (&[], false, &none, "set AWS_BEARER_TOKEN_BEDROCK, or AWS_ACCESS_KEY_ID and"),
            (
                &[],
                false,
                &none,
                "a profile of /h/.aws/credentials or /h/.aws/config in AWS_PROFILE",
            ),
            (
                &IN_ENV[..1],
                true,
                &none,
                "AWS_ACCESS_KEY_ID is set, but AWS_SECRET_ACCESS_KEY is not",
            ),
            (
                &IN_ENV[1..],
                true,
                &none,
                "AWS_SECRET_ACCESS_KEY is set, but AWS_ACCESS_KEY_ID is not",
            ),
            (&[], true, &of_profile("half"), "aws_access_key_id is set, but aws_secret_access_key"),
            (&[], true, &of_profile("dve"), "`dve` is neither in /h/.aws/config nor in"),
            (&[], true, &of_profile("dve"), "they have `admin`, `bare`, `corp`, `default`, `dev`"),
            (&[], true, &of_profile("corp"), "an SSO session, which Leftfold does not use"),
            (&[], true, &of_profile("admin"), "export-credentials --profile admin --format env"),
            (&[], true, &of_profile("bare"), "has no aws_access_key_id and aws_secret_access_key"),
            (&[("AWS_CONFIG_FILE", "/locked")], true, &none, "/locked cannot be read"),
        ];
        for (env, has_files, given, words) in table {
            let missing = with(env, has_files, |machine| machine.keys(given)).unwrap_err();
            assert!(missing.to_string().contains(words), "{missing}");
        }
    }

    #[test]
    fn the_region_comes_from_the_first_place_that_has_it() {
        let own = Given { region: Some("us-gov-west-1".into()), ..Given::default() };
        let none = Given::default();
        type Case<'a> = (&'a [(&'a str, &'a str)], &'a Given, Option<&'a str>);
        let table: [Case<'_>; 7] = [
            (&[("AWS_REGION", "eu-north-1")], &own, Some("us-gov-west-1")),
            (&[("AWS_REGION", "a"), ("AWS_DEFAULT_REGION", "b")], &none, Some("a")),
            (&[("AWS_REGION", " "), ("AWS_DEFAULT_REGION", "b")], &none, Some("b")),
            (&[], &none, Some("eu-west-1")),
            (&[("AWS_PROFILE", "dev")], &none, Some("us-west-2")),
            (&[("AWS_CONFIG_FILE", "/none")], &of_profile("dev"), Some("sa-east-1")),
            (&[], &of_profile("corp"), None),
        ];
        for (env, given, region) in table {
            let found = with(env, true, |machine| machine.region(given));
            assert_eq!(found.as_deref(), region, "{env:?} {given:?}");
        }
        let elsewhere = [("AWS_CONFIG_FILE", "/elsewhere"), ("AWS_PROFILE", "bare")];
        let found = with(&elsewhere, true, |machine| machine.region(&none));
        assert_eq!(found.as_deref(), Some("ap-south-1"));
    }

    #[test]
    fn the_time_of_expiry_is_known_if_a_variable_has_it() {
        for (text, is_known) in
            [("2026-11-25T20:00:00Z", true), ("2026-11-25T20:00:00+00:00", true), ("soon", false)]
        {
            let env = [&IN_ENV[..], &[("AWS_CREDENTIAL_EXPIRATION", text)]].concat();
            let found = with(&env, false, |machine| machine.keys(&Given::default())).unwrap();
            assert_eq!(found.expires.is_some(), is_known, "{text}");
        }
    }

    #[test]
    fn debug_output_has_no_keys() {
        let found = with(&IN_ENV, false, |machine| machine.keys(&Given::default())).unwrap();
        let own = Given { secret_access_key: Some("SE".into()), ..Given::default() };
        let text = format!("{found:?} {own:?}");
        assert!(!text.contains("AKE") && !text.contains("SE") && !text.contains("TE"), "{text}");
    }
}
