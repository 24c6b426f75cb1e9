//! Regions of AWS: the host of Bedrock in each, and the profiles that share a model among them.

use std::borrow::Cow;

/// The prefixes of models that several regions share.
const SHARED: [&str; 7] = ["global.", "us.", "eu.", "jp.", "apac.", "au.", "us-gov."];

/// Whether it can be part of a host name.
pub(crate) fn is_valid(region: &str) -> bool {
    let letters = |c: u8| c.is_ascii_lowercase() || c.is_ascii_digit() || c == b'-';
    !region.is_empty() && region.len() <= 63 && region.bytes().all(letters)
}

/// The host of Bedrock's models.
pub(crate) fn host(region: &str) -> String {
    host_of("bedrock-runtime", region)
}

/// The host of a service of AWS in a region.
pub(crate) fn host_of(service: &str, region: &str) -> String {
    let domain = if region.starts_with("cn-") { "amazonaws.com.cn" } else { "amazonaws.com" };
    format!("{service}.{region}.{domain}")
}

/// The region in an address of AWS, such as `https://bedrock-runtime.eu-west-1.amazonaws.com`, also of an
/// endpoint of a VPC.
pub(crate) fn of_address(address: &str) -> Option<&str> {
    let (_, rest) = address.split_once("://")?;
    let host = rest.split(['/', ':', '?']).next()?;
    let (_, rest) = host.split_once("bedrock-runtime")?;
    let rest = rest.strip_prefix("-fips").unwrap_or(rest).strip_prefix('.')?;
    let (region, domain) = rest.split_once('.')?;
    (domain.contains("amazonaws.com") && is_valid(region)).then_some(region)
}

/// A model's id without the prefix of the regions that share it. Of an ARN, the end is the id.
pub(crate) fn own_id(id: &str) -> &str {
    let id = if id.starts_with("arn:") { id.rsplit('/').next().unwrap_or(id) } else { id };
    SHARED.iter().find_map(|prefix| id.strip_prefix(prefix)).unwrap_or(id)
}

/// The id by which a model can be called in a region. Newer models are not in one region alone: they need
/// the prefix of a group of regions. The choice is OpenCode's.
pub(crate) fn shared_id<'a>(region: &str, id: &'a str) -> Cow<'a, str> {
    if id.starts_with("arn:") || SHARED.iter().any(|prefix| id.starts_with(prefix)) {
        return Cow::Borrowed(id);
    }
    let is_one_of = |names: &[&str]| names.iter().any(|name| id.contains(name));
    let prefix = match region.split('-').next().unwrap_or_default() {
        "us" if !region.starts_with("us-gov") => {
            const US: [&str; 7] = [
                "nova-micro", "nova-lite", "nova-pro", "nova-premier", "nova-2", "claude",
                "deepseek.r1",
            ];
            is_one_of(&US).then_some("us")
        }
        "eu" => {
            const REGIONS: [&str; 7] = [
                "eu-west-1", "eu-west-2", "eu-west-3", "eu-north-1", "eu-central-1", "eu-south-1",
                "eu-south-2",
            ];
            let is_shared = is_one_of(&["claude", "nova-lite", "nova-micro", "llama3", "pixtral"]);
            (is_shared && REGIONS.contains(&region)).then_some("eu")
        }
        "ap" => {
            const AUSTRALIA: [&str; 2] = ["ap-southeast-2", "ap-southeast-4"];
            let is_shared = is_one_of(&["claude", "nova-lite", "nova-micro", "nova-pro"]);
            if AUSTRALIA.contains(&region) {
                const AUSTRALIAN: [&str; 2] =
                    ["anthropic.claude-sonnet-4-5", "anthropic.claude-haiku"];
                if is_one_of(&AUSTRALIAN) { Some("au") } else { is_shared.then_some("apac") }
            } else if region == "ap-northeast-1" {
                is_shared.then_some("jp")
            } else {
                is_shared.then_some("apac")
            }
        }
        _ => None,
    };
    prefix.map_or(Cow::Borrowed(id), |prefix| Cow::Owned(format!("{prefix}.{id}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn models_get_the_prefix_of_their_region() {
        let claude = "anthropic.claude-sonnet-4-5-20250929-v1:0";
        for (region, id, expected) in [
            ("us-east-1", claude, "us."),
            ("us-west-2", "amazon.nova-2-lite-v1:0", "us."),
            ("us-east-1", "deepseek.r1-v1:0", "us."),
            ("us-east-1", "openai.gpt-oss-120b-1:0", ""),
            ("us-gov-west-1", claude, ""),
            ("eu-central-1", claude, "eu."),
            ("eu-central-2", claude, ""),
            ("eu-west-1", "amazon.nova-pro-v1:0", ""),
            ("eu-west-3", "meta.llama3-2-3b-instruct-v1:0", "eu."),
            ("ap-southeast-2", claude, "au."),
            ("ap-southeast-4", "anthropic.claude-haiku-4-5-20251001-v1:0", "au."),
            ("ap-southeast-2", "anthropic.claude-opus-5", "apac."),
            ("ap-northeast-1", claude, "jp."),
            ("ap-south-1", claude, "apac."),
            ("ap-northeast-1", "mistral.mistral-large-2402-v1:0", ""),
            ("ca-central-1", claude, ""),
            ("sa-east-1", claude, ""),
        ] {
            assert_eq!(shared_id(region, id), format!("{expected}{id}"), "{region} {id}");
        }
        for id in
            ["global.anthropic.claude-opus-5", "us.amazon.nova-pro-v1:0", "arn:aws:bedrock:x/y"]
        {
            assert_eq!(shared_id("eu-west-1", id), id);
        }
    }

    #[test]
    fn the_own_id_of_a_model() {
        for (id, expected) in [
            ("us.anthropic.claude-opus-5", "anthropic.claude-opus-5"),
            ("us-gov.anthropic.claude-opus-5", "anthropic.claude-opus-5"),
            ("anthropic.claude-opus-5", "anthropic.claude-opus-5"),
            (
                "arn:aws:bedrock:us-east-1:1:inference-profile/us.amazon.nova-pro-v1:0",
                "amazon.nova-pro-v1:0",
            ),
            ("arn:aws:bedrock:us-east-1:1:application-inference-profile/a1b2", "a1b2"),
        ] {
            assert_eq!(own_id(id), expected);
        }
    }

    #[test]
    fn addresses_and_their_regions() {
        assert_eq!(host("eu-west-1"), "bedrock-runtime.eu-west-1.amazonaws.com");
        assert_eq!(host("cn-north-1"), "bedrock-runtime.cn-north-1.amazonaws.com.cn");
        for (address, region) in [
            ("https://bedrock-runtime.eu-west-1.amazonaws.com", Some("eu-west-1")),
            ("https://bedrock-runtime-fips.us-east-1.amazonaws.com/", Some("us-east-1")),
            (
                "https://vpce-1-a.bedrock-runtime.us-east-1.vpce.amazonaws.com:443/x",
                Some("us-east-1"),
            ),
            ("https://gateway.example.com/bedrock-runtime.us-east-1.amazonaws.com", None),
            ("http://127.0.0.1:1", None),
        ] {
            assert_eq!(of_address(address), region, "{address}");
        }
        for (region, expected) in [("eu-west-1", true), ("", false), ("a.b", false), ("x/y", false)]
        {
            assert_eq!(is_valid(region), expected, "{region}");
        }
    }
}
