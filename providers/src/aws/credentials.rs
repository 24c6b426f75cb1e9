//! Finds the region and the source of the keys for AWS, where other programs for AWS look for them: settings, variables,
//! the files of profiles, the container, the machine. The order is that of Amazon's own clients.
//!
//! It does no I/O of its own: callers pass in variables and files. It never takes an address from a file: only variables of
//! the user replace Amazon's.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use leftfold_events::Time;
use reqwest::Url;
use sha1::{Digest, Sha1};

use super::profile::{self, ProfileFile, Section, Sections};
use crate::http::is_loopback;
use crate::regions;

/// The keys that sign requests.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Keys {
    pub(super) access_key_id: String,
    pub(super) secret_access_key: String,
    pub(super) session_token: Option<String>,
}

// Shows no values.
leftfold_events::debug_fields!(Keys {});

/// Keys, and where they come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct FoundKeys {
    pub(super) keys: Keys,
    /// For people.
    pub(super) source: String,
    pub(super) expires: Option<Time>,
}

/// Where keys come from. All but [`Source::Keys`] have to be asked for them.
#[derive(Clone, PartialEq, Eq)]
pub(super) enum Source {
    Keys(FoundKeys),
    /// A role, which the keys of another source assume.
    Role {
        role: Role,
        by: Box<Self>,
    },
    /// A role, for which a token in a file stands.
    WebIdentity {
        role: Role,
        token_file: PathBuf,
    },
    Sso(Sso),
    /// A program of the user's.
    Process {
        command: String,
        profile: String,
        home: PathBuf,
    },
    Container {
        url: Url,
        token: ContainerToken,
    },
    /// The metadata server of this machine.
    Instance {
        url: Url,
    },
}

#[derive(Clone, PartialEq, Eq)]
pub(super) struct Role {
    pub(super) arn: String,
    pub(super) session_name: Option<String>,
    pub(super) external_id: Option<String>,
    /// In seconds.
    pub(super) duration: Option<u32>,
    pub(super) sts: Api,
}

/// An account and a role that an SSO session has access to.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Sso {
    pub(super) profile: String,
    pub(super) account: String,
    pub(super) role: String,
    /// The file with the token of `aws sso login`.
    pub(super) cache: PathBuf,
    pub(super) portal: Api,
    pub(super) oidc: Api,
}

/// A service of AWS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Api {
    pub(super) url: Url,
    pub(super) region: String,
}

/// The authorization that a container's credential server requires.
#[derive(Clone, PartialEq, Eq)]
pub(super) enum ContainerToken {
    Unneeded,
    Given(String),
    InFile(PathBuf),
}

/// For people.
impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Keys(found) => f.write_str(&found.source),
            Self::Role { role, by } => write!(f, "the role {}, assumed with {by}", role.arn),
            Self::WebIdentity { role, token_file } => {
                write!(f, "the role {}, with the token in {}", role.arn, token_file.display())
            }
            Self::Sso(sso) => {
                let Sso { profile, account, role, .. } = sso;
                write!(f, "SSO of the profile `{profile}` (account {account}, role {role})")
            }
            Self::Process { profile, .. } => {
                write!(f, "the `credential_process` of the profile `{profile}`")
            }
            Self::Container { url, .. } => write!(f, "the container's server at {}", host(url)),
            Self::Instance { url } => write!(f, "the role of this machine, from {}", host(url)),
        }
    }
}

/// As for people: it has no secrets.
impl fmt::Debug for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Source({self})")
    }
}

/// Host and port.
fn host(url: &Url) -> String {
    let host = url.host_str().unwrap_or_default();
    url.port().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"))
}

/// The settings for AWS.
#[derive(Clone, Default, PartialEq, Eq)]
pub(super) struct Given {
    pub(super) region: Option<String>,
    pub(super) profile: Option<String>,
    pub(super) access_key_id: Option<String>,
    pub(super) secret_access_key: Option<String>,
    pub(super) session_token: Option<String>,
}

// Shows no keys.
leftfold_events::debug_fields!(Given { region, profile });

/// The variables and files of the machine.
#[derive(Clone, Copy)]
pub(super) struct Machine<'a> {
    pub(super) env: &'a dyn Fn(&str) -> Option<String>,
    pub(super) read: &'a dyn Fn(&Path) -> io::Result<String>,
}

leftfold_events::debug_fields!(Machine<'_> {});

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
        "the AWS profile `{profile}` has {has}, which Leftfold does not use: run `eval \"$(aws configure export-credentials --profile {profile} --format env)\"`, which sets AWS_ACCESS_KEY_ID and the other variables"
    )]
    OtherMeans { profile: String, has: &'static str },
    #[error(
        "the AWS profile `{profile}` has no keys, no role, no SSO session and no `credential_process`: add them in {config} or {credentials}"
    )]
    NoKeys { profile: String, config: String, credentials: String },
    #[error("the AWS profile `{profile}`: {lacking}")]
    Incomplete { profile: String, lacking: String },
    #[error(
        "the `credential_process` of the AWS profile `{profile}` stands in {file}: Leftfold runs only one in ~/.aws/config or ~/.aws/credentials"
    )]
    ForeignProcess { profile: String, file: String },
    #[error("`{region}` is no region of AWS")]
    BadRegion { region: String },
    #[error("{variable}: expected {expected}")]
    BadVariable { variable: &'static str, expected: &'static str },
    #[error("{file} cannot be read: {reason}")]
    Unreadable { file: String, reason: String },
}

/// Settings of a profile by which only other programs get keys.
const OTHER_MEANS: [(&str, &str); 2] = [
    ("mfa_serial", "a role that asks for a code (`mfa_serial`)"),
    ("login_session", "a session of `aws login`"),
];

/// Files that say on a machine of Amazon's that it is one, and how their text begins there.
const SIGNS: [(&str, &str); 2] =
    [("/sys/class/dmi/id/sys_vendor", "Amazon EC2"), ("/sys/hypervisor/uuid", "ec2")];

/// The region of roles if there is no other. It knows all of them.
const STS_REGION: &str = "us-east-1";

/// The server of credentials for containers of ECS.
const CONTAINER_HOST: &str = "169.254.170.2";

/// Other servers of credentials for containers: those of EKS.
const OTHER_CONTAINER_HOSTS: [&str; 2] = ["169.254.170.23", "[fd00:ec2::23]"];

/// The files of profiles, as they are now.
struct Files {
    config: Sections,
    credentials: Sections,
    config_file: PathBuf,
    credentials_file: PathBuf,
}

impl Files {
    /// A profile's settings in each file, with the file. Those that count more are first.
    fn sections(&self, profile: &str) -> impl Iterator<Item = (&Section, &PathBuf)> {
        let files =
            [(&self.credentials, &self.credentials_file), (&self.config, &self.config_file)];
        let profile = profile.to_owned();
        files.into_iter().filter_map(move |(file, path)| Some((file.profiles.get(&profile)?, path)))
    }

    fn has(&self, profile: &str) -> bool {
        self.sections(profile).next().is_some()
    }

    /// A setting, and the file that it is in.
    fn found(&self, profile: &str, key: &str) -> Option<(String, &PathBuf)> {
        self.sections(profile)
            .find_map(|(section, path)| Some((filled(section.get(key).cloned())?, path)))
    }

    fn value(&self, profile: &str, key: &str) -> Option<String> {
        self.found(profile, key).map(|(value, _)| value)
    }

    /// The keys that stand in a profile.
    fn keys(&self, profile: &str) -> Result<Option<FoundKeys>, Missing> {
        for (section, file) in self.sections(profile) {
            let value = |key: &str| filled(section.get(key).cloned());
            let keys = (value("aws_access_key_id"), value("aws_secret_access_key"));
            let names = ("aws_access_key_id", "aws_secret_access_key");
            if let Some((access_key_id, secret_access_key)) = both(keys, names)? {
                let session_token = value("aws_session_token");
                return Ok(Some(FoundKeys {
                    keys: Keys { access_key_id, secret_access_key, session_token },
                    source: format!("the profile `{profile}` in {}", file.display()),
                    expires: value("aws_session_expiration").and_then(|time| parsed(&time)),
                }));
            }
        }
        Ok(None)
    }

    fn both_names(&self) -> (String, String) {
        (self.config_file.display().to_string(), self.credentials_file.display().to_string())
    }

    fn no_profile(&self, profile: &str) -> Missing {
        let files = [&self.config, &self.credentials];
        let mut known: Vec<&str> =
            files.iter().flat_map(|file| file.profiles.keys()).map(String::as_str).collect();
        known.sort_unstable();
        known.dedup();
        let known = match known.as_slice() {
            [] => String::new(),
            known => format!("; they have `{}`", known.join("`, `")),
        };
        let (config, credentials) = self.both_names();
        Missing::NoProfile { profile: profile.to_owned(), config, credentials, known }
    }

    fn no_keys(&self, profile: &str) -> Missing {
        let (config, credentials) = self.both_names();
        Missing::NoKeys { profile: profile.to_owned(), config, credentials }
    }
}

impl Machine<'_> {
    fn set(&self, name: &str) -> Option<String> {
        filled((self.env)(name))
    }

    /// A file in the folder of AWS; empty without a home.
    fn at_home(&self, name: &str) -> PathBuf {
        let home = self.set("HOME").map(PathBuf::from).filter(|home| home.is_absolute());
        home.map(|home| home.join(".aws").join(name)).unwrap_or_default()
    }

    fn config_file(&self) -> PathBuf {
        self.set("AWS_CONFIG_FILE").map_or_else(|| self.at_home("config"), PathBuf::from)
    }

    fn credentials_file(&self) -> PathBuf {
        let named = self.set("AWS_SHARED_CREDENTIALS_FILE");
        named.map_or_else(|| self.at_home("credentials"), PathBuf::from)
    }

    /// The files of profiles and of tokens, if they are named by a full path.
    pub(super) fn files(&self) -> Vec<PathBuf> {
        let tokens = ["AWS_WEB_IDENTITY_TOKEN_FILE", "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE"];
        let tokens = tokens.iter().filter_map(|name| self.set(name)).map(PathBuf::from);
        let files = [self.config_file(), self.credentials_file()];
        files.into_iter().chain(tokens).filter(|path| path.is_absolute()).collect()
    }

    /// The sections of a file; none if there is no such file. A relative path would be one of the project.
    fn sections(&self, path: &Path, kind: ProfileFile) -> Result<Sections, Missing> {
        let unreadable = |reason: &str| Missing::Unreadable {
            file: path.display().to_string(),
            reason: reason.to_owned(),
        };
        if path.as_os_str().is_empty() {
            return Ok(Sections::default());
        }
        if !path.is_absolute() {
            return Err(unreadable("the variable does not have its full path"));
        }
        match (self.read)(path) {
            Ok(text) => Ok(profile::parse(&text, kind)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Sections::default()),
            Err(error) => Err(unreadable(&error.to_string())),
        }
    }

    fn profile_files(&self) -> Result<Files, Missing> {
        let (config_file, credentials_file) = (self.config_file(), self.credentials_file());
        Ok(Files {
            config: self.sections(&config_file, ProfileFile::Config)?,
            credentials: self.sections(&credentials_file, ProfileFile::Credentials)?,
            config_file,
            credentials_file,
        })
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
            let files = [
                (self.config_file(), ProfileFile::Config),
                (self.credentials_file(), ProfileFile::Credentials),
            ];
            files.iter().find_map(|(path, kind)| {
                let sections = self.sections(path, *kind).ok()?;
                filled(sections.profiles.get(&name)?.get("region").cloned())
            })
        })
    }

    /// The first source of keys that there is: settings, the profile that settings name, variables, the profile that
    /// AWS_PROFILE names or that is called `default`, the container, the machine.
    pub(super) fn source(&self, given: &Given) -> Result<Source, Missing> {
        let own = (given.access_key_id.clone(), given.secret_access_key.clone());
        let names = ("`options.accessKeyId`", "`options.secretAccessKey`");
        if let Some((access_key_id, secret_access_key)) = both(own, names)? {
            let session_token = given.session_token.clone();
            return Ok(Source::Keys(FoundKeys {
                keys: Keys { access_key_id, secret_access_key, session_token },
                source: "settings".to_owned(),
                expires: None,
            }));
        }
        let region = self.region(given).unwrap_or_else(|| STS_REGION.to_owned());
        if given.profile.is_none() {
            if let Some(keys) = self.of_variables()? {
                return Ok(keys);
            }
            if let Some(token_file) = self.set("AWS_WEB_IDENTITY_TOKEN_FILE") {
                let names = ("AWS_WEB_IDENTITY_TOKEN_FILE", "AWS_ROLE_ARN");
                let set = (Some(token_file), self.set(names.1));
                if let Some((token_file, arn)) = both(set, names)? {
                    let session_name = self.set("AWS_ROLE_SESSION_NAME");
                    let sts = self.api("sts", "AWS_ENDPOINT_URL_STS", &region)?;
                    let (external_id, duration) = (None, None);
                    let role = Role { arn, session_name, external_id, duration, sts };
                    return Ok(Source::WebIdentity { role, token_file: full(token_file)? });
                }
            }
        }
        let files = self.profile_files()?;
        let (name, is_named) = self.profile(given);
        if is_named || files.has(&name) {
            if let Some(source) = self.of_profile(&files, &name, &region, &[])? {
                return Ok(source);
            }
            if given.profile.is_some() {
                return Err(files.no_keys(&name));
            }
        }
        if let Some(container) = self.container()? {
            return Ok(container);
        }
        let is_amazons = || {
            SIGNS.iter().any(|(file, begin)| {
                (self.read)(Path::new(file)).is_ok_and(|text| text.trim().starts_with(begin))
            })
        };
        let is_off = self
            .set("AWS_EC2_METADATA_DISABLED")
            .is_some_and(|value| value.eq_ignore_ascii_case("true"));
        if !is_off && (self.set(METADATA_ENDPOINT).is_some() || is_amazons()) {
            return self.instance();
        }
        if is_named {
            return Err(files.no_keys(&name));
        }
        let (config, credentials) = files.both_names();
        Err(Missing::Nothing { files: format!("{credentials} or {config}") })
    }

    fn of_variables(&self) -> Result<Option<Source>, Missing> {
        let names = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY");
        let keys = both((self.set(names.0), self.set(names.1)), names)?;
        Ok(keys.map(|(access_key_id, secret_access_key)| {
            let session_token = self.set("AWS_SESSION_TOKEN");
            let expires = self.set("AWS_CREDENTIAL_EXPIRATION");
            Source::Keys(FoundKeys {
                keys: Keys { access_key_id, secret_access_key, session_token },
                source: "AWS_ACCESS_KEY_ID".to_owned(),
                expires: expires.and_then(|time| parsed(&time)),
            })
        }))
    }

    /// The source of keys that a profile names; `None`: it names none. `above` are the profiles whose role it is to
    /// assume: keys that stand in it count more than a role of its own then.
    fn of_profile(
        &self,
        files: &Files,
        name: &str,
        region: &str,
        above: &[&str],
    ) -> Result<Option<Source>, Missing> {
        if !files.has(name) {
            return Err(files.no_profile(name));
        }
        let value = |key: &str| files.value(name, key);
        let keys = files.keys(name)?.map(Source::Keys);
        if keys.is_some() && !above.is_empty() {
            return Ok(keys);
        }
        if above.contains(&name) {
            let lacking = "it is its own `source_profile`".to_owned();
            return Err(Missing::Incomplete { profile: name.to_owned(), lacking });
        }
        if let Some((_, has)) = OTHER_MEANS.iter().find(|(key, _)| value(key).is_some()) {
            return match keys {
                Some(keys) if value("role_arn").is_none() => Ok(Some(keys)),
                _ => Err(Missing::OtherMeans { profile: name.to_owned(), has }),
            };
        }
        if let Some(arn) = value("role_arn") {
            return self.of_role(files, name, arn, region, above).map(Some);
        }
        if keys.is_some() {
            return Ok(keys);
        }
        if value("sso_session").is_some() || value("sso_start_url").is_some() {
            return self.sso(files, name).map(Some);
        }
        let Some((command, file)) = files.found(name, "credential_process") else {
            return Ok(None);
        };
        // a file that a variable names may be one of the project, which a model can write
        if ![self.at_home("config"), self.at_home("credentials")].contains(file) {
            let (profile, file) = (name.to_owned(), file.display().to_string());
            return Err(Missing::ForeignProcess { profile, file });
        }
        let home = PathBuf::from(self.set("HOME").unwrap_or_default());
        Ok(Some(Source::Process { command, profile: name.to_owned(), home }))
    }

    fn of_role(
        &self,
        files: &Files,
        name: &str,
        arn: String,
        region: &str,
        above: &[&str],
    ) -> Result<Source, Missing> {
        let value = |key: &str| files.value(name, key);
        let incomplete = |lacking: &str| Missing::Incomplete {
            profile: name.to_owned(),
            lacking: lacking.to_owned(),
        };
        let role = Role {
            arn,
            session_name: value("role_session_name"),
            external_id: value("external_id"),
            duration: value("duration_seconds").and_then(|seconds| seconds.parse().ok()),
            sts: self.api("sts", "AWS_ENDPOINT_URL_STS", region)?,
        };
        if let Some(token_file) = value("web_identity_token_file") {
            return Ok(Source::WebIdentity { role, token_file: full(token_file)? });
        }
        let by = match (value("source_profile"), value("credential_source")) {
            (Some(source), None) => {
                let above = [above, &[name]].concat();
                let found = self.of_profile(files, &source, region, &above)?;
                found.ok_or_else(|| files.no_keys(&source))?
            }
            (None, Some(source)) => match source.as_str() {
                "Environment" => {
                    let lacking = "its role needs AWS_ACCESS_KEY_ID, which is not set";
                    self.of_variables()?.ok_or_else(|| incomplete(lacking))?
                }
                "EcsContainer" => {
                    let lacking =
                        "its role needs AWS_CONTAINER_CREDENTIALS_RELATIVE_URI, which is not set";
                    self.container()?.ok_or_else(|| incomplete(lacking))?
                }
                "Ec2InstanceMetadata" => self.instance()?,
                _ => {
                    let expected = "`credential_source`: expected Environment, \
                        Ec2InstanceMetadata or EcsContainer";
                    return Err(incomplete(expected));
                }
            },
            (Some(_), Some(_)) => {
                return Err(incomplete("it has both `source_profile` and `credential_source`"));
            }
            (None, None) => {
                let lacking = "its role needs a `source_profile` or a `credential_source`";
                return Err(incomplete(lacking));
            }
        };
        Ok(Source::Role { role, by: Box::new(by) })
    }

    fn sso(&self, files: &Files, name: &str) -> Result<Source, Missing> {
        let incomplete =
            |lacking: String| Missing::Incomplete { profile: name.to_owned(), lacking };
        let session = files.value(name, "sso_session");
        let section = match &session {
            None => None,
            Some(session) => {
                let found = files.config.sso_sessions.get(session);
                let lacking = || incomplete(format!("there is no section `sso-session {session}`"));
                Some(found.ok_or_else(lacking)?)
            }
        };
        let needed = |key: &str| {
            let of_session = section.and_then(|section| filled(section.get(key).cloned()));
            let found = of_session.or_else(|| files.value(name, key));
            found.ok_or_else(|| incomplete(format!("`{key}` is missing")))
        };
        let region = needed("sso_region")?;
        let start = needed("sso_start_url")?;
        let cache = cache_file(session.as_deref().unwrap_or(&start));
        Ok(Source::Sso(Sso {
            profile: name.to_owned(),
            account: needed("sso_account_id")?,
            role: needed("sso_role_name")?,
            cache: self.at_home("sso").join("cache").join(cache),
            portal: self.api("portal.sso", "AWS_ENDPOINT_URL_SSO", &region)?,
            oidc: self.api("oidc", "AWS_ENDPOINT_URL_SSO_OIDC", &region)?,
        }))
    }

    /// A service of AWS in a region, at Amazon's address unless a variable names another one.
    fn api(&self, service: &str, variable: &'static str, region: &str) -> Result<Api, Missing> {
        let region = region.to_owned();
        if !regions::is_valid(&region) {
            return Err(Missing::BadRegion { region });
        }
        let address = self.set(variable);
        let address =
            address.unwrap_or_else(|| format!("https://{}", regions::host_of(service, &region)));
        let expected = "an https address, or one of this machine";
        let bad = || Missing::BadVariable { variable, expected };
        let url = Url::parse(&address).map_err(|_| bad())?;
        let is_safe = url.scheme() == "https" || url.scheme() == "http" && is_loopback(&url);
        if is_safe && is_plain(&url) { Ok(Api { url, region }) } else { Err(bad()) }
    }

    fn container(&self) -> Result<Option<Source>, Missing> {
        let names =
            ["AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", "AWS_CONTAINER_CREDENTIALS_FULL_URI"];
        let (variable, address) = match (self.set(names[0]), self.set(names[1])) {
            (Some(path), _) => (names[0], format!("http://{CONTAINER_HOST}{path}")),
            (None, Some(address)) => (names[1], address),
            (None, None) => return Ok(None),
        };
        let expected = "an https address, or one of this machine or of a container's server";
        let bad = || Missing::BadVariable { variable, expected };
        let url = Url::parse(&address).map_err(|_| bad())?;
        let host = url.host_str().unwrap_or_default();
        let is_known = host == CONTAINER_HOST
            || variable == names[1]
                && (is_loopback(&url)
                    || host == "localhost"
                    || OTHER_CONTAINER_HOSTS.contains(&host));
        let is_safe = match url.scheme() {
            "https" => variable == names[1],
            scheme => scheme == "http" && is_known,
        };
        if !is_safe || !is_plain(&url) {
            return Err(bad());
        }
        let file = self.set("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE");
        let given = self.set("AWS_CONTAINER_AUTHORIZATION_TOKEN");
        let token = match (file, given) {
            (Some(file), _) => ContainerToken::InFile(full(file)?),
            (None, Some(token)) => ContainerToken::Given(token),
            (None, None) => ContainerToken::Unneeded,
        };
        Ok(Some(Source::Container { url, token }))
    }

    fn instance(&self) -> Result<Source, Missing> {
        let mode = self.set("AWS_EC2_METADATA_SERVICE_ENDPOINT_MODE");
        let is_v6 = mode.is_some_and(|mode| mode.eq_ignore_ascii_case("ipv6"));
        let own = if is_v6 { "http://[fd00:ec2::254]" } else { "http://169.254.169.254" };
        let address = self.set(METADATA_ENDPOINT).unwrap_or_else(|| own.to_owned());
        let url = Url::parse(&address).ok().filter(|url| url.scheme() == "http" && is_plain(url));
        let expected = "an http address";
        let bad = Missing::BadVariable { variable: METADATA_ENDPOINT, expected };
        url.map(|url| Source::Instance { url }).ok_or(bad)
    }
}

const METADATA_ENDPOINT: &str = "AWS_EC2_METADATA_SERVICE_ENDPOINT";

/// The name of the file with the token of a session, or of a start URL.
fn cache_file(name: &str) -> String {
    let digest = Sha1::digest(name.as_bytes());
    let hex: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("{hex}.json")
}

/// Whether an address has a host and no user.
fn is_plain(url: &Url) -> bool {
    url.has_host() && url.username().is_empty() && url.password().is_none()
}

/// A path that is not one of the folder that Leftfold runs in.
fn full(path: String) -> Result<PathBuf, Missing> {
    let reason = "expected its full path".to_owned();
    let is_full = Path::new(&path).is_absolute();
    if is_full { Ok(path.into()) } else { Err(Missing::Unreadable { file: path, reason }) }
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
pub(super) fn parsed(text: &str) -> Option<Time> {
    let ends = ["+00:00", "+0000", "UTC"];
    let utc = ends.iter().find_map(|end| text.strip_suffix(end)).map(|time| format!("{time}Z"));
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
        [profile corp]\nsso_session = corp\nsso_account_id = 1\nsso_role_name = Dev\n\
        [sso-session corp]\nsso_region = us-east-2\nsso_start_url = https://corp.example/start\n\
        [profile old]\nsso_region = eu-west-3\nsso_start_url = https://old.example/start\n\
        sso_account_id = 2\nsso_role_name = Old\n[profile lost]\nsso_session = none\n\
        [profile admin]\nrole_arn = arn:x\nsource_profile = dev\nexternal_id = e\n\
        duration_seconds = 900\nrole_session_name = me\n[profile root]\nrole_arn = arn:r\n\
        source_profile = admin\n[profile self]\nrole_arn = arn:s\nsource_profile = self\n\
        aws_access_key_id = AKS\naws_secret_access_key = SS\n[profile a]\nrole_arn = arn:a\n\
        source_profile = b\n[profile b]\nrole_arn = arn:b\nsource_profile = a\n[profile lone]\n\
        role_arn = arn:l\n[profile two]\nrole_arn = arn:t\nsource_profile = dev\n\
        credential_source = Environment\n[profile odd]\nrole_arn = arn:o\ncredential_source = Moon\n\
        [profile env]\nrole_arn = arn:e\ncredential_source = Environment\n[profile ec2]\n\
        role_arn = arn:m\ncredential_source = Ec2InstanceMetadata\n[profile ecs]\nrole_arn = arn:c\n\
        credential_source = EcsContainer\n[profile web]\nrole_arn = arn:w\n\
        web_identity_token_file = /token\n[profile code]\nrole_arn = arn:y\nsource_profile = dev\n\
        mfa_serial = arn:mfa\n[profile run]\ncredential_process = keys --all\n[profile bare]\n\
        region = ap-south-1\n[profile bad]\nregion = evil.example/\nrole_arn = arn:x\n\
        source_profile = dev\n[profile inline]\naws_access_key_id = AKI\n\
        aws_secret_access_key = SI\n";

    /// Looks with these variables, in the files above if `has_files`.
    fn with<T>(env: &[(&str, &str)], has_files: bool, look: impl Fn(Machine<'_>) -> T) -> T {
        let env: HashMap<&str, &str> = env.iter().copied().chain([("HOME", "/h")]).collect();
        let read = |path: &Path| match path.to_str() {
            Some("/h/.aws/credentials") if has_files => Ok(CREDENTIALS.to_owned()),
            Some("/h/.aws/config" | "/elsewhere") if has_files => Ok(CONFIG.to_owned()),
            Some("/sys/class/dmi/id/sys_vendor") => Ok("Dell Inc.\n".to_owned()),
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

    /// The keys that are in a source.
    fn keys(source: &Source) -> Keys {
        let Source::Keys(found) = source else { panic!("no keys: {source}") };
        found.keys.clone()
    }

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
            let Keys { access_key_id, secret_access_key, session_token } =
                keys(&with(env, true, |machine| machine.source(given)).unwrap());
            let found =
                (access_key_id.as_str(), secret_access_key.as_str(), session_token.as_deref());
            assert_eq!(found, (id, secret, token), "{env:?} {given:?}");
        }
    }

    #[test]
    fn what_is_missing_is_named() {
        let none = Given::default();
        type Case<'a> = (&'a [(&'a str, &'a str)], bool, &'a Given, &'a str);
        let table: [Case<'_>; 22] = [
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
            (
                &[],
                true,
                &of_profile("dve"),
                "they have `a`, `admin`, `b`, `bad`, `bare`, `code`, `corp`",
            ),
            (&[], true, &of_profile("code"), "export-credentials --profile code --format env"),
            (&[], true, &of_profile("code"), "a role that asks for a code (`mfa_serial`), which"),
            (&[], true, &of_profile("bare"), "has no keys, no role, no SSO session"),
            (&[("AWS_CONFIG_FILE", "/locked")], true, &none, "/locked cannot be read"),
            (&[("AWS_CONFIG_FILE", "aws/config")], true, &none, "does not have its full path"),
            (&[], true, &of_profile("a"), "`a`: it is its own `source_profile`"),
            (&[], true, &of_profile("lone"), "needs a `source_profile` or a `credential_source`"),
            (&[], true, &of_profile("two"), "both `source_profile` and `credential_source`"),
            (&[], true, &of_profile("odd"), "expected Environment, Ec2InstanceMetadata or"),
            (&[], true, &of_profile("env"), "needs AWS_ACCESS_KEY_ID, which is not set"),
            (&[], true, &of_profile("ecs"), "needs AWS_CONTAINER_CREDENTIALS_RELATIVE_URI"),
            (&[], true, &of_profile("lost"), "there is no section `sso-session none`"),
            (&[], true, &of_profile("bad"), "`evil.example/` is no region of AWS"),
            (
                &[("AWS_CONFIG_FILE", "/elsewhere")],
                true,
                &of_profile("run"),
                "stands in /elsewhere: Leftfold runs only one in ~/.aws/config",
            ),
            (
                &[("AWS_WEB_IDENTITY_TOKEN_FILE", "/t"), ("AWS_REGION", "r")],
                true,
                &none,
                "AWS_WEB_IDENTITY_TOKEN_FILE is set, but AWS_ROLE_ARN is not",
            ),
        ];
        for (env, has_files, given, words) in table {
            let missing = with(env, has_files, |machine| machine.source(given)).unwrap_err();
            assert!(missing.to_string().contains(words), "{missing}");
        }
    }

    #[test]
    fn other_sources_are_those_of_amazons_clients() {
        let none = Given::default();
        let container = ("AWS_CONTAINER_CREDENTIALS_FULL_URI", "http://127.0.0.1:9/keys?a=b");
        let token = ("AWS_WEB_IDENTITY_TOKEN_FILE", "/token");
        type Case<'a> = (&'a [(&'a str, &'a str)], &'a Given, &'a str);
        let table: [Case<'_>; 16] = [
            (
                &[],
                &of_profile("admin"),
                "the role arn:x, assumed with the profile `dev` in /h/.aws/",
            ),
            (
                &[],
                &of_profile("root"),
                "the role arn:r, assumed with the role arn:x, assumed with the profile `dev`",
            ),
            (&[], &of_profile("self"), "the role arn:s, assumed with the profile `self` in /h"),
            (&IN_ENV, &of_profile("env"), "the role arn:e, assumed with AWS_ACCESS_KEY_ID"),
            (
                &[],
                &of_profile("ec2"),
                "arn:m, assumed with the role of this machine, from 169.254.",
            ),
            (&[container], &of_profile("ecs"), "arn:c, assumed with the container's server at"),
            (&[], &of_profile("web"), "the role arn:w, with the token in /token"),
            (&[token, ("AWS_ROLE_ARN", "arn:i")], &none, "the role arn:i, with the token in"),
            (&[], &of_profile("corp"), "SSO of the profile `corp` (account 1, role Dev)"),
            (&[], &of_profile("old"), "SSO of the profile `old` (account 2, role Old)"),
            (&[("AWS_PROFILE", "run")], &none, "the `credential_process` of the profile `run`"),
            // a default profile with keys comes before these, one that has only a region does not
            (&[container], &none, "the profile `default`"),
            (&[("AWS_PROFILE", "bare"), container], &none, "the container's server at 127.0.0.1:9"),
            (
                &[
                    ("AWS_PROFILE", "bare"),
                    ("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", "/v2/x"),
                    container,
                ],
                &none,
                "the container's server at 169.254.170.2",
            ),
            (
                &[("AWS_PROFILE", "bare"), (METADATA_ENDPOINT, "http://127.0.0.1:9")],
                &none,
                "the role of this machine, from 127.0.0.1:9",
            ),
            (
                &[(METADATA_ENDPOINT, "http://127.0.0.1:9"), ("AWS_CONFIG_FILE", "/none")],
                &none,
                "the profile `default` in /h/.aws/credentials",
            ),
        ];
        for (env, given, words) in table {
            let env = [env, &[("AWS_REGION", "eu-west-1")]].concat();
            let source = with(&env, true, |machine| machine.source(given)).unwrap();
            assert!(source.to_string().contains(words), "{source}");
        }
        let region = [("AWS_REGION", "eu-west-1")];
        let source = with(&region, true, |machine| machine.source(&of_profile("admin"))).unwrap();
        let Source::Role { role, .. } = source else { panic!("no role: {source}") };
        let Role { session_name, external_id, duration, sts, .. } = role;
        assert_eq!((session_name.as_deref(), external_id.as_deref()), (Some("me"), Some("e")));
        assert_eq!((duration, sts.region.as_str()), (Some(900), "eu-west-1"));
        assert_eq!(sts.url.as_str(), "https://sts.eu-west-1.amazonaws.com/");
        let source = with(&[], true, |machine| machine.source(&of_profile("corp"))).unwrap();
        let Source::Sso(sso) = source else { panic!("no session: {source}") };
        assert_eq!(sso.portal.url.as_str(), "https://portal.sso.us-east-2.amazonaws.com/");
        let name = cache_file("corp");
        assert_eq!(sso.cache, Path::new("/h/.aws/sso/cache").join(name));
    }

    #[test]
    fn the_file_is_named_after_the_hash_of_the_session() {
        assert_eq!(cache_file("my-sso"), "0ad374308c5a4e22f723adf10145eafad7c4031c.json");
    }

    #[test]
    fn the_machine_is_asked_only_if_it_is_amazons() {
        let vendor = |vendor: &'static str| {
            move |path: &Path| match path.to_str() {
                Some("/sys/class/dmi/id/sys_vendor") => Ok(format!("{vendor}\n")),
                Some(_) | None => Err(io::Error::from(io::ErrorKind::NotFound)),
            }
        };
        let look = |vendor: &dyn Fn(&Path) -> io::Result<String>, env: &[(&str, &str)]| {
            let get = |name: &str| {
                env.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
            };
            Machine { env: &get, read: vendor }.source(&Given::default()).is_ok()
        };
        assert!(look(&vendor("Amazon EC2"), &[]));
        assert!(!look(&vendor("Amazon EC2"), &[("AWS_EC2_METADATA_DISABLED", "True")]));
        assert!(!look(&vendor("Dell"), &[]));
    }

    #[test]
    fn no_variable_sends_a_token_to_a_stranger() {
        let admin = of_profile("admin");
        let none = Given::default();
        let bare = ("AWS_PROFILE", "bare");
        for (variable, value, given) in [
            ("AWS_ENDPOINT_URL_STS", "http://evil.example", &admin),
            ("AWS_ENDPOINT_URL_STS", "https://a@evil.example", &admin),
            ("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", "@evil.example/", &none),
            ("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", ".evil.example/", &none),
            ("AWS_CONTAINER_CREDENTIALS_FULL_URI", "http://evil.example/", &none),
            ("AWS_CONTAINER_CREDENTIALS_FULL_URI", "file:///etc/passwd", &none),
            (METADATA_ENDPOINT, "file:///etc/passwd", &none),
        ] {
            let env = [(variable, value), bare];
            let missing = with(&env, true, |machine| machine.source(given)).unwrap_err();
            assert!(matches!(missing, Missing::BadVariable { .. }), "{value}: {missing}");
            assert!(!missing.to_string().contains("evil"), "{missing}");
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
            let found = with(&env, false, |machine| machine.source(&Given::default())).unwrap();
            let Source::Keys(found) = found else { panic!("no keys: {found}") };
            assert_eq!(found.expires.is_some(), is_known, "{text}");
        }
    }

    #[test]
    fn debug_output_has_no_keys() {
        let found = with(&IN_ENV, false, |machine| machine.source(&Given::default())).unwrap();
        let own = Given { secret_access_key: Some("SE".into()), ..Given::default() };
        let text = format!("{found:?} {own:?}");
        assert!(!text.contains("AKE") && !text.contains("SE") && !text.contains("TE"), "{text}");
    }
}
