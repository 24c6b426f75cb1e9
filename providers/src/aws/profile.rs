//! Reads the files `~/.aws/config` and `~/.aws/credentials`, which all programs for AWS share.

use std::collections::BTreeMap;

/// The settings of each profile, by the profile's name. Names of settings are in lower case.
pub(super) type Profiles = BTreeMap<String, BTreeMap<String, String>>;

/// Which of the two files it is: the names of their sections differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Sections are called `default` and `profile NAME`. Other sections are no profiles.
    Config,
    /// Sections have the names of profiles.
    Credentials,
}

/// The profiles of a file. Lines that cannot be read are skipped, as other programs do.
pub(super) fn parse(text: &str, kind: Kind) -> Profiles {
    let mut profiles = Profiles::new();
    let mut current: Option<String> = None;
    for line in text.trim_start_matches('\u{feff}').lines() {
        // settings below another setting are indented
        if line.starts_with([' ', '\t', '#', ';']) || line.trim().is_empty() {
            continue;
        }
        if let Some(section) = line.strip_prefix('[') {
            let name = section.split(']').next().unwrap_or(section).trim();
            current = profile(name, kind);
            if let Some(name) = &current {
                profiles.entry(name.clone()).or_default();
            }
            continue;
        }
        let Some((key, value)) = line.split_once('=') else { continue };
        if let Some(profile) = current.as_ref().and_then(|name| profiles.get_mut(name)) {
            profile.insert(key.trim().to_lowercase(), without_comment(value).to_owned());
        }
    }
    profiles
}

/// The name of the profile that a section is for.
fn profile(section: &str, kind: Kind) -> Option<String> {
    let unquoted = |name: &str| name.trim().trim_matches(['"', '\'']).to_owned();
    match kind {
        Kind::Credentials => Some(unquoted(section)),
        Kind::Config if section == "default" => Some(section.to_owned()),
        Kind::Config => {
            let (word, name) = section.split_once(char::is_whitespace)?;
            (word == "profile").then(|| unquoted(name))
        }
    }
}

/// A value without the comment behind it, which white space precedes.
fn without_comment(value: &str) -> &str {
    let comments = [" #", " ;", "\t#", "\t;"];
    let end = comments.iter().filter_map(|sign| value.find(sign)).min().unwrap_or(value.len());
    value[..end].trim()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn profiles_of_both_files() {
        let config = "\u{feff}# a comment\n[default]\nregion = eu-west-1 ; mine\n\n[profile dev]\r\n\
            Region=us-west-2\r\ns3 =\n  max_concurrent_requests = 20\noutput = json\n\
            [sso-session corp]\nsso_region = us-east-1\n[profile \"two words\"]\nregion = r\nnonsense\n";
        let found = parse(config, Kind::Config);
        assert_eq!(found.keys().collect::<Vec<_>>(), ["default", "dev", "two words"]);
        assert_eq!(found["default"]["region"], "eu-west-1");
        assert_eq!(found["dev"]["region"], "us-west-2");
        assert_eq!(found["dev"].get("max_concurrent_requests"), None);
        let credentials = "orphan = 1\n[default]\naws_access_key_id = A\naws_secret_access_key = a+b/c=#d\n\
            [dev ]\naws_session_token=t #x\n[profile odd]\na = b\n";
        let found = parse(credentials, Kind::Credentials);
        assert_eq!(found.keys().collect::<Vec<_>>(), ["default", "dev", "profile odd"]);
        assert_eq!(found["default"]["aws_secret_access_key"], "a+b/c=#d");
        assert_eq!(found["dev"]["aws_session_token"], "t");
        assert_eq!(parse("[unclosed\na=b", Kind::Credentials)["unclosed"]["a"], "b");
    }
}
