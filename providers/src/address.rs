//! The own address of a vendor, whose parts (a project, a region) may differ from user to user.
//!
//! [`Vendor::base`] names such a part in braces: `https://host/projects/{project}`. The values come
//! from settings or variables and are checked here, so that none of them leads to another host.

use crate::aws;
use crate::config::{Config, Error};
use crate::regions;
use crate::vendors::Vendor;

/// A name in [`Vendor::base`] that stands for the host of Google's `{location}`.
const GOOGLE_HOST: &str = "google-host";

/// A name in [`Vendor::base`] that stands for the host of Amazon's `{region}`.
const AWS_HOST: &str = "aws-host";

/// The address of `vendor` without `baseURL`.
///
/// # Errors
/// Only the user knows it, or a part of it is missing or not usable.
pub(crate) fn own(vendor: &Vendor, config: &Config) -> Result<String, Error> {
    let with_key = vendor.base_with_key.filter(|_| config.key().is_some());
    let Some(base) = with_key.or(vendor.base) else {
        return Err(Error::MissingBaseUrl { provider: config.name.clone() });
    };
    let mut address = String::new();
    let mut rest = base;
    while let Some((before, (name, after))) =
        rest.split_once('{').and_then(|(before, after)| Some((before, after.split_once('}')?)))
    {
        address += before;
        address += &match name {
            GOOGLE_HOST => google_host(part(config, "location")?),
            AWS_HOST => aws_host(config)?,
            name => part(config, name)?.to_owned(),
        };
        rest = after;
    }
    Ok(address + rest)
}

fn part<'a>(config: &'a Config, name: &str) -> Result<&'a str, Error> {
    let (provider, parameter) = (config.name.clone(), name.to_owned());
    let Some((_, value)) = config.parameters.iter().find(|(known, _)| known == name) else {
        return Err(Error::MissingParameter { provider, parameter });
    };
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    // a project of an organisation's domain: `example.com:shop`
    let is_mark = |byte: u8| matches!(byte, b'.' | b':') && name == "project";
    let starts_well = value.starts_with(|c: char| c.is_ascii_alphanumeric());
    if starts_well && value.bytes().all(|byte| is_plain(byte) || is_mark(byte)) {
        return Ok(value);
    }
    let expected = "only letters, digits, hyphens and underscores";
    Err(Error::BadParameter { provider, parameter, expected })
}

/// The host of Google Cloud's AI Platform that serves `location`: a region, `global`, or one of the
/// multi-regions, which have a domain of their own.
fn google_host(location: &str) -> String {
    match location {
        "global" => "aiplatform.googleapis.com".to_owned(),
        "us" | "eu" => format!("aiplatform.{location}.rep.googleapis.com"),
        region => format!("{region}-aiplatform.googleapis.com"),
    }
}

/// The host of Bedrock in the region of settings, of variables, or of the profile of AWS.
fn aws_host(config: &Config) -> Result<String, Error> {
    let provider = config.name.clone();
    let Some(value) = aws::region(&config.parameters) else {
        return Err(Error::MissingRegion { provider });
    };
    if regions::is_valid(&value) {
        return Ok(regions::host(&value));
    }
    let expected = "only small letters, digits and hyphens, such as `us-east-1`";
    Err(Error::BadParameter { provider, parameter: "region".to_owned(), expected })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Wire;
    use crate::vendors::{VENDORS, named};

    fn address(vendor: &str, parts: &[(&str, &str)], key: Option<&str>) -> Result<String, Error> {
        let mut config = Config::new("p", Wire::GEMINI);
        config.parameters =
            parts.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect();
        config.api_key = key.map(str::to_owned);
        own(named(vendor).unwrap(), &config)
    }

    #[test]
    fn the_location_decides_about_the_host() {
        for (location, host) in [
            ("global", "aiplatform.googleapis.com"),
            ("us", "aiplatform.us.rep.googleapis.com"),
            ("eu", "aiplatform.eu.rep.googleapis.com"),
            ("us-east5", "us-east5-aiplatform.googleapis.com"),
        ] {
            let parts = [("project", "shop-1"), ("location", location)];
            let gemini = address("google-vertex", &parts, None).unwrap();
            let path = format!("https://{host}/v1/projects/shop-1/locations/{location}/publishers");
            assert_eq!(gemini, format!("{path}/google"));
            let claude = address("google-vertex-anthropic", &parts, None).unwrap();
            assert_eq!(claude, format!("{path}/anthropic/models"));
        }
    }

    #[test]
    fn a_key_leads_to_express_mode() {
        let express = "https://aiplatform.googleapis.com/v1/publishers/google";
        assert_eq!(address("google-vertex", &[], Some("k")).as_deref(), Ok(express));
        let missing = address("google-vertex", &[], Some(" ")).unwrap_err();
        assert!(missing.to_string().contains("`provider.p.options.location`"), "{missing}");
    }

    #[test]
    fn each_name_in_braces_is_a_parameter() {
        for vendor in VENDORS {
            let base = vendor.base.unwrap_or_default();
            if base.contains(AWS_HOST) {
                continue;
            }
            let parameters = vendor.builtin.map_or(&[] as &[_], |builtin| builtin.parameters);
            let mut known: Vec<&str> = parameters.iter().map(|one| one.option).collect();
            known.push(GOOGLE_HOST);
            let named = base.split('{').skip(1).map(|rest| rest.split('}').next().unwrap());
            assert!(named.clone().all(|name| known.contains(&name)), "{base}");
            assert_eq!(named.count() > 0, !parameters.is_empty(), "{base}");
        }
        let azure = "https://shop-1.openai.azure.com/openai/v1";
        assert_eq!(
            address("azure", &[("resourceName", "shop-1")], Some("k")).as_deref(),
            Ok(azure)
        );
        let address = address("cloudflare-workers-ai", &[("accountId", "a1")], Some("k"));
        let expected = "https://api.cloudflare.com/client/v4/accounts/a1/ai/v1";
        assert_eq!(address.as_deref(), Ok(expected));
    }

    #[test]
    fn the_region_decides_about_the_host() {
        let region = |region| address("amazon-bedrock", &[("region", region)], None);
        let host = "https://bedrock-runtime.eu-west-1.amazonaws.com";
        assert_eq!(region("eu-west-1").as_deref(), Ok(host));
        for bad in ["evil.example/x", "eu-west-1.evil.example#", "EU", "a b", "user@evil"] {
            let error = region(bad).unwrap_err();
            assert!(matches!(error, Error::BadParameter { .. }), "{bad}: {error}");
        }
    }

    #[test]
    fn no_part_leads_to_another_host() {
        for location in [
            "", "-a", "evil.example/x", "evil.example#", "evil.example?", "evil.example:1",
            "user@evil", "a\\b", "a b", "ä", "..", "{project}", "a%2f",
        ] {
            let parts = [("project", "shop"), ("location", location)];
            let error = address("google-vertex", &parts, None).unwrap_err();
            assert!(matches!(error, Error::BadParameter { .. }), "{location}: {error}");
        }
        let of_domain = [("project", "example.com:shop"), ("location", "eu")];
        assert!(address("google-vertex", &of_domain, None).is_ok());
        for project in ["../x", "a/b", "a?b"] {
            let parts = [("project", project), ("location", "eu")];
            assert!(address("google-vertex", &parts, None).is_err(), "{project}");
        }
    }
}
