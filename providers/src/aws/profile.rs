//! Reads the files `~/.aws/config` and `~/.aws/credentials`, which all programs for AWS share.

use std::collections::BTreeMap;

/// Settings by name. Names are in lower case.
pub(super) type Section = BTreeMap<String, String>;

/// The settings of each profile and of each SSO session, by their names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Sections {
    pub(super) profiles: BTreeMap<String, Section>,
    pub(super) sso_sessions: BTreeMap<String, Section>,
}

/// Which of the two files it is: the names of their sections differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ProfileFile {
    /// Sections are called `default`, `profile NAME` and `sso-session NAME`. Others are not read.
    Config,
    /// Sections have the names of profiles.
    Credentials,
}

/// The sections of a file. Lines that cannot be read are skipped, as other programs do.
pub(super) fn parse(text: &str, kind: ProfileFile) -> Sections {
    let mut sections = Sections::default();
    let mut current: Option<&mut Section> = None;
    for line in text.trim_start_matches('\u{feff}').lines() {
        // settings below another setting are indented
        if line.starts_with([' ', '\t', '#', ';']) || line.trim().is_empty() {
            continue;
        }
        if let Some(section) = line.strip_prefix('[') {
            let name = section.split(']').next().unwrap_or(section).trim();
            current = sections.section(name, kind);
            continue;
        }
        if let (Some((key, value)), Some(section)) = (line.split_once('='), &mut current) {
            section.insert(key.trim().to_lowercase(), without_comment(value).to_owned());
        }
    }
    sections
}

impl Sections {
    fn section(&mut self, title: &str, kind: ProfileFile) -> Option<&mut Section> {
        let unquoted = |name: &str| name.trim().trim_matches(['"', '\'']).to_owned();
        let (all, name) = match (kind, title.split_once(char::is_whitespace)) {
            (ProfileFile::Credentials, _) => (&mut self.profiles, unquoted(title)),
            (ProfileFile::Config, None) if title == "default" => {
                (&mut self.profiles, unquoted(title))
            }
            (ProfileFile::Config, Some(("profile", name))) => (&mut self.profiles, unquoted(name)),
            (ProfileFile::Config, Some(("sso-session", name))) => {
                (&mut self.sso_sessions, unquoted(name))
            }
            (ProfileFile::Config, _) => return None,
        };
        Some(all.entry(name).or_default())
    }
}

/// A value without the comment after it, which white space precedes.
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
        let Sections { profiles: found, sso_sessions } = parse(config, ProfileFile::Config);
        assert_eq!(found.keys().collect::<Vec<_>>(), ["default", "dev", "two words"]);
        assert_eq!(found["default"]["region"], "eu-west-1");
        assert_eq!(found["dev"]["region"], "us-west-2");
        assert_eq!(found["dev"].get("max_concurrent_requests"), None);
        assert_eq!(sso_sessions["corp"]["sso_region"], "us-east-1");
        assert_eq!(sso_sessions.len(), 1);
        let credentials = "orphan = 1\n[default]\naws_access_key_id = A\naws_secret_access_key = a+b/c=#d\n\
            [dev ]\naws_session_token=t #x\n[profile odd]\na = b\n";
        let found = parse(credentials, ProfileFile::Credentials).profiles;
        assert_eq!(found.keys().collect::<Vec<_>>(), ["default", "dev", "profile odd"]);
        assert_eq!(found["default"]["aws_secret_access_key"], "a+b/c=#d");
        assert_eq!(found["dev"]["aws_session_token"], "t");
        assert_eq!(
            parse("[unclosed\na=b", ProfileFile::Credentials).profiles["unclosed"]["a"],
            "b"
        );
    }
}
