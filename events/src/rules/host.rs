//! Hosts in permission rules: matches names by labels, and finds the hosts that a prompt names.

use super::glob;

/// The ports that a host without a port stands for.
const WEB_PORTS: [u16; 2] = [443, 80];

/// Endings of names that count as hosts in a prompt without `https://`. Files have other endings, such as `README.md`
/// and `build.rs`; with [`SHORT`] names of three labels and more also count.
const ENDINGS: [&str; 5] = ["com", "net", "dev", "edu", "gov"];
const SHORT: [&str; 2] = ["org", "io"];

/// A host as an address or a pattern has it.
#[derive(Debug, PartialEq, Eq)]
struct Host {
    /// In lower case, without a dot at the end.
    name: String,
    /// `None`: every port.
    ports: Option<Vec<u16>>,
}

impl Host {
    /// The host of a web address, or of `NAME`, `NAME:PORT` or `[ADDRESS]:PORT`. An address with a user name has none:
    /// `https://docs.rs@evil.example` leads to `evil.example`.
    fn parse(text: &str) -> Option<Self> {
        let (authority, usual): (&str, &[u16]) = match text.split_once("://") {
            Some((scheme, rest)) => {
                let usual = match scheme.to_ascii_lowercase().as_str() {
                    "https" => &WEB_PORTS[..1],
                    "http" => &WEB_PORTS[1..],
                    _ => return None,
                };
                (rest.split(['/', '\\', '?', '#']).next().unwrap_or_default(), usual)
            }
            None => (text, &WEB_PORTS),
        };
        let (name, port) = match authority.rsplit_once(':') {
            Some((name, port)) if !port.ends_with(']') => (name, Some(port)),
            Some(_) | None => (authority, None),
        };
        let ports = match port {
            None => Some(usual.to_vec()),
            Some("*") => None,
            Some(port) => Some(vec![port.parse().ok()?]),
        };
        let name = name.strip_suffix('.').unwrap_or(name).to_ascii_lowercase();
        let is_name = match name.strip_prefix('[').and_then(|name| name.strip_suffix(']')) {
            Some(address) => {
                let is_part = |byte: u8| byte.is_ascii_hexdigit() || matches!(byte, b':' | b'.');
                address.contains(':') && address.bytes().all(is_part)
            }
            None => name.split('.').all(is_label),
        };
        is_name.then_some(Self { name, ports })
    }

    fn is_address(&self) -> bool {
        self.name.starts_with('[')
            || self.name.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.')
    }

    /// As a rule names it.
    fn pattern(&self) -> String {
        match self.ports.as_deref() {
            Some([port]) if !WEB_PORTS.contains(port) => format!("{}:{port}", self.name),
            Some(_) => self.name.clone(),
            None => format!("{}:*", self.name),
        }
    }

    /// As a prompt names it. `www.` makes no difference: both names have one owner.
    fn key(mut self) -> String {
        if let Some(short) = self.name.strip_prefix("www.") {
            self.name = short.to_owned();
        }
        self.pattern()
    }
}

fn is_label(label: &str) -> bool {
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'*');
    !label.is_empty() && label.bytes().all(is_part)
}

/// Whether a pattern is a host name, an address or a name with `*`, each also with a port.
pub fn is_pattern(pattern: &str) -> bool {
    pattern == "*" || !pattern.contains("://") && Host::parse(pattern).is_some()
}

/// Whether `pattern` matches the host of `text`, a web address or a host. `*` matches every host, `*.example.org` each
/// name below `example.org`, and a `*` elsewhere a part of one label. Without a port, a pattern means the ports 443 and
/// 80; a port of `*` means all. The numbers of an address are no labels.
pub fn matches(pattern: &str, text: &str) -> bool {
    if pattern == "*" {
        return true;
    }
    let (true, Some(of_rule), Some(host)) =
        (is_pattern(pattern), Host::parse(pattern), Host::parse(text))
    else {
        return false;
    };
    let fits_port = match (&of_rule.ports, &host.ports) {
        (None, _) => true,
        (Some(allowed), Some(ports)) => ports.iter().any(|port| allowed.contains(port)),
        (Some(_), None) => false,
    };
    fits_port && fits_name(&of_rule.name, &host)
}

fn fits_name(pattern: &str, host: &Host) -> bool {
    if pattern == "*" || host.is_address() {
        return pattern == "*" || pattern == host.name;
    }
    let (labels, found): (Vec<&str>, Vec<&str>) =
        (pattern.split('.').collect(), host.name.split('.').collect());
    let (labels, below) = match labels.split_first() {
        Some((&"*", rest)) => (rest, found.len().checked_sub(rest.len()).filter(|more| *more > 0)),
        Some(_) | None => (labels.as_slice(), Some(0)),
    };
    let Some(rest) = below.and_then(|below| found.get(below..)) else { return false };
    labels.len() == rest.len() && labels.iter().zip(rest).all(|(label, found)| glob(label, found))
}

/// The pattern for the host of a web address.
pub fn pattern_of(address: &str) -> Option<String> {
    Some(Host::parse(address)?.pattern())
}

/// The host of a web address in the form that [`named`] returns.
pub fn key_of(address: &str) -> Option<String> {
    Some(Host::parse(address)?.key())
}

/// The hosts that a text names by an address (`https://example.org/x`), or by a name of some well-known endings
/// (`example.com`).
pub fn named(text: &str) -> impl Iterator<Item = String> {
    dotted(text).filter_map(|word| match word.find("://") {
        Some(at) => {
            let scheme = ["https", "http"].into_iter().find(|scheme| {
                word.get(..at).is_some_and(|before| before.to_ascii_lowercase().ends_with(scheme))
            })?;
            key_of(trimmed(&word[at - scheme.len()..]))
        }
        None => bare(word),
    })
}

/// The words with a dot or a colon. The others are passed over: prompts can be long, and each fold reads them again.
fn dotted(mut text: &str) -> impl Iterator<Item = &str> {
    let ends = |c: char| {
        c.is_whitespace()
            || matches!(c, '"' | '\'' | '`' | '<' | '>' | '(' | ')' | '{' | '}' | '|' | ',' | ';')
    };
    std::iter::from_fn(move || {
        let (before, after) = text.split_at(memchr::memchr2(b'.', b':', text.as_bytes())?);
        let start = before.len() - before.rsplit(ends).next().unwrap_or_default().len();
        let end = before.len() + after.find(ends).unwrap_or(after.len());
        let word = &text[start..end];
        text = &text[end..];
        Some(word)
    })
}

/// Without the marks that end a sentence, or that Markdown has.
fn trimmed(word: &str) -> &str {
    word.trim_end_matches(['.', ':', '!', '?', '*', '_', ']'])
}

fn bare(word: &str) -> Option<String> {
    let word = trimmed(word).trim_start_matches(['*', '_', '[']);
    let host = word.split(['/', '?', '#']).next().unwrap_or_default();
    let name = host.split(':').next().unwrap_or_default();
    let labels: Vec<&str> = name.split('.').collect();
    let end = labels.last().copied().unwrap_or_default();
    let is_host =
        labels.len() > 1 && ENDINGS.contains(&end) || labels.len() > 2 && SHORT.contains(&end);
    let is_plain = name
        .bytes()
        .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || matches!(b, b'-' | b'.'));
    if is_host && is_plain { key_of(host) } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_matched_by_labels() {
        for (pattern, text, expected) in [
            ("*", "https://example.org/", true),
            ("*", "http://10.0.0.1:8080/", true),
            ("*", "<dynamic>", true),
            ("example.org", "https://example.org/a?b=c", true),
            ("example.org", "http://example.org/", true),
            ("example.org", "example.org", true),
            ("Example.ORG.", "https://example.org/", true),
            ("example.org", "https://EXAMPLE.org./", true),
            ("example.org", "https://www.example.org/", false),
            ("example.org", "https://example.org.evil.test/", false),
            ("example.org", "https://evil.test/example.org", false),
            ("example.org", "https://evil.test/#example.org", false),
            ("example.org", "https://example.org@evil.test/", false),
            ("example.org", "https://evil.test\\example.org", false),
            ("example.org", "ftp://example.org/", false),
            // below a name
            ("*.example.org", "https://a.example.org/", true),
            ("*.example.org", "https://a.b.example.org/", true),
            ("*.example.org", "https://example.org/", false),
            ("*.example.org", "https://evilexample.org/", false),
            ("*.example.org", "evil.test #.example.org", false),
            ("*.example.org", "https://evil.test/.example.org", false),
            ("*.example.org", "https://evil.test?.example.org", false),
            ("*.org", "https://example.org/", true),
            ("*.org", "*.example.org", true),
            ("api-*.example.org", "https://api-1.example.org/", true),
            ("api-*.example.org", "https://api-1.evil.example.org/", false),
            ("api.*.org", "https://api.example.org/", true),
            ("api.*.org", "https://api.a.b.org/", false),
            ("**.example.org", "https://a.example.org/", true),
            ("?.example.org", "https://a.example.org/", false),
            // ports
            ("example.org", "https://example.org:8443/", false),
            ("example.org:8443", "https://example.org:8443/", true),
            ("example.org:443", "https://example.org/", true),
            ("example.org:443", "http://example.org/", false),
            ("example.org:*", "http://example.org:1/", true),
            ("*:8080", "http://example.org:8080/", true),
            ("*:8080", "http://example.org/", false),
            // addresses
            ("10.0.0.1", "https://10.0.0.1/", true),
            ("*.0.0.1", "https://10.0.0.1/", false),
            ("10.*.0.1", "https://10.0.0.1/", false),
            ("[::1]:8080", "http://[::1]:8080/", true),
            ("[::1]", "http://[::1]/", true),
            ("*.example.org", "http://[::1]/", false),
            // no hosts
            ("", "https://example.org/", false),
            ("https://example.org", "https://example.org/", false),
            ("https://example.org/*", "https://example.org/", false),
            ("example.org/*", "https://example.org/", false),
            ("exa mple.org", "https://example.org/", false),
        ] {
            assert_eq!(matches(pattern, text), expected, "{pattern:?} on {text:?}");
        }
    }

    #[test]
    fn prompts_name_hosts_by_addresses() {
        for (text, expected) in [
            ("Read https://example.org/a?b=c, please.", &["example.org"][..]),
            (
                "(https://www.Example.org) and <http://a.test:8080/x>",
                &["example.org", "a.test:8080"],
            ),
            ("url=https://example.org/", &["example.org"]),
            ("**https://example.org**", &["example.org"]),
            ("[docs](https://example.org/x)", &["example.org"]),
            (
                "What does docs.python.org say? And example.com/x:",
                &["docs.python.org", "example.com"],
            ),
            ("go.dev.", &["go.dev"]),
            // the host is the other one, or none
            ("https://docs.rs@evil.test/", &[]),
            ("https://good.test/?next=https://evil.test/", &["good.test"]),
            ("ftp://example.org xhttps:// https://", &[]),
            ("https://bücher.test/", &[]),
            // files, packages, people and versions
            ("Fix README.md, build.rs, src/evil.com, run.sh and test.py", &[]),
            ("todo.org socket.io System.Net asp.Net me@example.com ./a.com", &[]),
            ("a..com .com 1.2.3 ...", &[]),
        ] {
            assert_eq!(named(text).collect::<Vec<_>>(), expected, "{text}");
        }
    }

    #[test]
    fn a_host_is_offered_as_a_rule_names_it() {
        for (address, pattern) in [
            ("https://Example.org/a?b", Some("example.org")),
            ("http://example.org:8080/", Some("example.org:8080")),
            ("https://[::1]:1/", Some("[::1]:1")),
            ("https://www.example.org/", Some("www.example.org")),
            ("https://a@example.org/", None),
        ] {
            assert_eq!(pattern_of(address).as_deref(), pattern, "{address}");
            assert!(pattern.is_none_or(|pattern| matches(pattern, address)), "{address}");
        }
    }
}
