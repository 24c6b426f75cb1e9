//! Decides which addresses the tools for the web may reach: public ones and, with a setting, those of this
//! machine and its networks.
//!
//! A name does not show where it leads, and may lead elsewhere a moment later. So [`check`] judges
//! only the text of a URL. The addresses of a name are judged when a connection is made
//! (`webfetch/client.rs`).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use reqwest::Url;

use crate::Error;

/// The kind of host behind an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AddressKind {
    Public,
    /// This machine, its networks, or a reserved range (IANA's special-purpose registries).
    Private,
    /// A metadata service, which gives credentials to any program on a machine. Never reached.
    Metadata,
}

/// Addresses where clouds and container platforms answer with credentials.
const METADATA: [IpAddr; 7] = [
    v4(169, 254, 169, 254),
    v4(169, 254, 170, 2),
    v4(169, 254, 170, 23),
    v4(100, 100, 100, 200),
    v4(192, 0, 0, 192),
    v4(168, 63, 129, 16),
    IpAddr::V6(Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254)),
];

const fn v4(a: u8, b: u8, c: u8, d: u8) -> IpAddr {
    IpAddr::V4(Ipv4Addr::new(a, b, c, d))
}

impl AddressKind {
    pub(crate) fn from_address(address: IpAddr) -> Self {
        if METADATA.contains(&address) {
            return Self::Metadata;
        }
        match address {
            IpAddr::V4(address) if is_special(address) => Self::Private,
            IpAddr::V4(_) => Self::Public,
            IpAddr::V6(address) => match embedded(address) {
                Some(inner) => Self::from_address(IpAddr::V4(inner)),
                None if is_global(address) => Self::Public,
                None => Self::Private,
            },
        }
    }

    /// Whether it may be reached. `private` is the setting that allows addresses that are not
    /// public.
    pub(crate) fn allowed(self, private: bool) -> bool {
        match self {
            Self::Public => true,
            Self::Private => private,
            Self::Metadata => false,
        }
    }
}

fn is_special(address: Ipv4Addr) -> bool {
    let [a, b, c, _] = address.octets();
    match (a, b, c) {
        // this network, private, loopback, multicast, reserved and broadcast
        (0 | 10 | 127 | 224.., ..) => true,
        // shared by the customers of a provider (carrier-grade NAT)
        (100, 64..128, _) => true,
        // link-local, private, benchmarks
        (169, 254, _) | (172, 16..32, _) | (192, 168, _) | (198, 18 | 19, _) => true,
        // protocol assignments, documentation, relays
        (192, 0, 0 | 2) | (192, 88, 99) | (198, 51, 100) | (203, 0, 113) => true,
        _ => false,
    }
}

/// The IPv4 address inside an IPv6 address: mapped, compatible, 6to4, or NAT64.
fn embedded(address: Ipv6Addr) -> Option<Ipv4Addr> {
    let [a, b, c, d, e, f, g, h] = address.segments();
    let (high, low) = match (a, b, c, d, e, f) {
        // `::` and `::1` are IPv6 addresses of their own
        (0, 0, 0, 0, 0, 0) if (g, h) == (0, 0) || (g, h) == (0, 1) => return None,
        (0, 0, 0, 0, 0, 0 | 0xffff) | (0, 0, 0, 0, 0xffff, 0) | (0x64, 0xff9b, 0, 0, 0, 0) => {
            (g, h)
        }
        (0x2002, high, low, ..) => (high, low),
        _ => return None,
    };
    let [[a, b], [c, d]] = [high.to_be_bytes(), low.to_be_bytes()];
    Some(Ipv4Addr::new(a, b, c, d))
}

/// Global unicast, without its reserved ranges.
fn is_global(address: Ipv6Addr) -> bool {
    let [a, b, ..] = address.segments();
    let unicast = a & 0xe000 == 0x2000;
    // protocol assignments (tunnels among them), documentation
    let apart = (a == 0x2001 && (b < 0x200 || b == 0xdb8)) || (a == 0x3fff && b < 0x1000);
    unicast && !apart
}

/// Judges the text of a URL before any connection: the call's own URL and every redirect.
///
/// # Errors
/// The scheme is not http or https; the URL contains credentials; the host is not a name; the
/// address or name is known not to be public. The text says which, in a sentence.
pub(crate) fn check(url: &Url, private: bool) -> Result<(), Error> {
    let refused = |why: &str| Err(Error::AddressRefused(format!("{}: {why}", shown(url))));
    if !matches!(url.scheme(), "http" | "https") {
        return refused("only http and https addresses can be fetched.");
    }
    if !url.username().is_empty() || url.password().is_some() {
        return refused("an address with a user name or password in it is not fetched.");
    }
    let Some(host) = url.host_str().filter(|host| !host.is_empty()) else {
        return refused("there is no host in it.");
    };
    // in a permission rule a star would match any host
    if host.contains('*') {
        return refused("a host with a star in its name does not exist.");
    }
    match literal(host) {
        Some(kind) if !kind.allowed(private) => refused(reason(kind)),
        _ => Ok(()),
    }
}

/// The kind of a host that is known without a lookup.
fn literal(host: &str) -> Option<AddressKind> {
    if let Ok(address) = host.trim_matches(['[', ']']).parse() {
        return Some(AddressKind::from_address(address));
    }
    let name = host.trim_end_matches('.').to_ascii_lowercase();
    let below = |domain: &str| {
        name.strip_suffix(domain).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
    };
    match name.as_str() {
        "metadata.google.internal" | "metadata.goog" => Some(AddressKind::Metadata),
        "localhost.localdomain" | "localhost6" => Some(AddressKind::Private),
        _ if below("localhost") => Some(AddressKind::Private),
        _ => None,
    }
}

/// The reason why such an address is not fetched.
pub(crate) fn reason(kind: AddressKind) -> &'static str {
    match kind {
        AddressKind::Public | AddressKind::Private => {
            "it is not a public address. Addresses of this machine and of private networks are fetched only if the user's settings have \"webfetch\": {\"private\": true}."
        }
        AddressKind::Metadata => {
            "it is the address of a metadata service, which gives out credentials; it is never fetched."
        }
    }
}

/// A URL for people, rules and models: without fragment and credentials.
pub(crate) fn shown(url: &Url) -> String {
    let mut url = url.clone();
    // these fail only for URLs that cannot have credentials
    let _ = url.set_username("");
    let _ = url.set_password(None);
    url.set_fragment(None);
    url.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The verdict on each URL: `+` is fetched, `p` only with the setting, `-` never, `x` is not a
    /// URL.
    const URLS: &[(&str, char)] = &[
        // public
        ("https://example.com/", '+'),
        ("http://example.com:8080/a?b=c#d", '+'),
        ("HTTPS://EXAMPLE.COM", '+'),
        ("https://93.184.216.34/", '+'),
        ("https://1.1.1.1:4443/", '+'),
        ("https://172.15.0.1/", '+'),
        ("https://172.32.0.1/", '+'),
        ("https://100.63.255.255/", '+'),
        ("https://100.128.0.1/", '+'),
        ("https://223.255.255.255/", '+'),
        ("https://[2606:4700:4700::1111]/", '+'),
        ("https://[::ffff:93.184.216.34]/", '+'),
        ("https://[64:ff9b::5db8:d822]/", '+'),
        ("https://[2002:5db8:d822::1]/", '+'),
        ("https://localhost.example.com/", '+'),
        ("https://notlocalhost/", '+'),
        ("https://bücher.example/", '+'),
        // this machine
        ("http://localhost/", 'p'),
        ("http://LOCALHOST./", 'p'),
        ("http://app.localhost:3000/", 'p'),
        ("http://localhost.localdomain/", 'p'),
        ("http://127.0.0.1:8000/", 'p'),
        ("http://127.8.9.10/", 'p'),
        ("http://0.0.0.0/", 'p'),
        ("http://0.1.2.3/", 'p'),
        ("http://[::1]/", 'p'),
        ("http://[::]/", 'p'),
        ("http://[0:0:0:0:0:0:0:1]/", 'p'),
        // spelt unusually
        ("http://127.1/", 'p'),
        ("http://2130706433/", 'p'),
        ("http://0x7f000001/", 'p'),
        ("http://0177.0.0.1/", 'p'),
        ("http://0x7f.1/", 'p'),
        ("http://0/", 'p'),
        ("http://127.0.0.1./", 'p'),
        ("http://%31%32%37.0.0.1/", 'p'),
        ("http://１２７.0.0.1/", 'p'),
        ("http:\\\\127.0.0.1\\x", 'p'),
        ("http:///127.0.0.1/", 'p'),
        ("http://[::ffff:127.0.0.1]/", 'p'),
        ("http://[::ffff:7f00:1]/", 'p'),
        ("http://[::127.0.0.1]/", 'p'),
        ("http://[::ffff:0:127.0.0.1]/", 'p'),
        ("http://[64:ff9b::127.0.0.1]/", 'p'),
        ("http://[64:ff9b::a00:1]/", 'p'),
        ("http://[2002:7f00:1::]/", 'p'),
        // private networks and unassigned ranges
        ("http://10.0.0.1/", 'p'),
        ("http://172.16.0.1/", 'p'),
        ("http://172.31.255.255/", 'p'),
        ("http://192.168.1.1/", 'p'),
        ("http://100.64.0.1/", 'p'),
        ("http://100.127.255.255/", 'p'),
        ("http://169.254.1.1/", 'p'),
        ("http://192.0.2.7/", 'p'),
        ("http://192.88.99.1/", 'p'),
        ("http://198.18.0.1/", 'p'),
        ("http://198.51.100.1/", 'p'),
        ("http://203.0.113.1/", 'p'),
        ("http://224.0.0.1/", 'p'),
        ("http://240.0.0.1/", 'p'),
        ("http://255.255.255.255/", 'p'),
        ("http://[fc00::1]/", 'p'),
        ("http://[fd12:3456::1]/", 'p'),
        ("http://[fe80::1]/", 'p'),
        ("http://[fec0::1]/", 'p'),
        ("http://[ff02::1]/", 'p'),
        ("http://[100::1]/", 'p'),
        ("http://[64:ff9b:1::1]/", 'p'),
        ("http://[2001::1]/", 'p'),
        ("http://[2001:db8::1]/", 'p'),
        ("http://[3fff::1]/", 'p'),
        ("http://[5f00::1]/", 'p'),
        // metadata services
        ("http://169.254.169.254/latest/meta-data/", '-'),
        ("http://2852039166/", '-'),
        ("http://0xa9fea9fe/", '-'),
        ("http://[::ffff:169.254.169.254]/", '-'),
        ("http://[64:ff9b::a9fe:a9fe]/", '-'),
        ("http://[fd00:ec2::254]/", '-'),
        ("http://100.100.100.200/", '-'),
        ("http://168.63.129.16/", '-'),
        ("http://metadata.google.internal/", '-'),
        // not to be fetched at all
        ("ftp://example.com/", '-'),
        ("file:///etc/passwd", '-'),
        ("data:text/plain,x", '-'),
        ("javascript:alert(1)", '-'),
        ("mailto:me@example.com", '-'),
        ("https://me@example.com/", '-'),
        ("https://me:pw@example.com/", '-'),
        ("https://:pw@example.com/", '-'),
        ("https://*/", '-'),
        ("https://*.example.com/", '-'),
        ("", 'x'),
        ("example.com", 'x'),
        ("//example.com/", 'x'),
        ("https://", 'x'),
        ("https://exa mple.com/", 'x'),
        ("https://[::1/", 'x'),
        ("https://256.1.1.1/", 'x'),
        ("https://1.2.3.4.5/", 'x'),
        ("https://example.com:65536/", 'x'),
    ];

    #[test]
    fn urls() {
        for (text, expected) in URLS {
            let found = match Url::parse(text) {
                Err(_) => 'x',
                Ok(url) if check(&url, false).is_ok() => '+',
                Ok(url) if check(&url, true).is_ok() => 'p',
                Ok(_) => '-',
            };
            assert_eq!(found, *expected, "{text}");
        }
    }

    #[test]
    fn a_password_is_not_shown() {
        let url = Url::parse("https://me:secret@example.com/a?b#c").unwrap();
        let error = check(&url, true).unwrap_err();
        assert_eq!(error.kind(), "address_refused");
        assert!(error.to_string().starts_with("https://example.com/a?b: an address"), "{error}");
    }
}
