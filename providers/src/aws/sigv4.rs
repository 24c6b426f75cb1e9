//! Signs requests with Signature Version 4, as Amazon's reference describes it. It does no I/O and knows
//! no clock.
//!
//! Services other than S3 expect every path segment to be encoded twice. A path as it is sent is
//! encoded once already, so this module encodes it once more.

use std::fmt::Write;

use hmac::{Hmac, Mac};
use leftfold_events::{Sha256, Time};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};

use super::credentials::Keys;

const ALGORITHM: &str = "AWS4-HMAC-SHA256";

/// Everything but letters, digits, `-`, `.`, `_` and `~`.
const RESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');
const RESERVED_IN_PATH: &AsciiSet = &RESERVED.remove(b'/');

/// The scope of a signature.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scope<'a> {
    pub(super) region: &'a str,
    pub(super) service: &'a str,
}

/// The parts of a request that are signed.
#[derive(Clone, Debug)]
pub(super) struct Unsigned<'a> {
    pub(super) method: &'a str,
    /// As it is sent.
    pub(super) path: &'a str,
    /// As it is sent, without the question mark.
    pub(super) query: &'a str,
    /// In any order. `x-amz-date` and `x-amz-security-token` are added.
    pub(super) headers: Vec<(&'a str, &'a str)>,
    pub(super) body: &'a [u8],
}

/// The headers that sign a request at the time `at`, with their names in lower case.
pub(super) fn sign(
    request: &Unsigned<'_>,
    keys: &Keys,
    scope: Scope<'_>,
    at: Time,
) -> Vec<(&'static str, String)> {
    let stamp = stamp(at);
    let mut added = vec![("x-amz-date", stamp.clone())];
    added.extend(keys.session_token.iter().map(|token| ("x-amz-security-token", token.clone())));
    let mut request = request.clone();
    request.headers.extend(added.iter().map(|(name, value)| (*name, value.as_str())));
    let authorization = authorization(&request, keys, scope, &stamp);
    added.push(("authorization", authorization));
    added
}

/// A time in the form `20150830T123600Z`.
fn stamp(at: Time) -> String {
    let text = at.to_string();
    let seconds = text.split('.').next().unwrap_or(&text);
    let stamp: String = seconds.chars().filter(|c| c.is_ascii_alphanumeric()).collect();
    if stamp.ends_with('Z') { stamp } else { stamp + "Z" }
}

fn authorization(
    request: &Unsigned<'_>,
    keys: &Keys,
    Scope { region, service }: Scope<'_>,
    stamp: &str,
) -> String {
    let (headers, signed) = canonical_headers(&request.headers);
    let canonical = format!(
        "{}\n{}\n{}\n{headers}\n{signed}\n{}",
        request.method,
        utf8_percent_encode(request.path, RESERVED_IN_PATH),
        canonical_query(request.query),
        Sha256::digest(request.body),
    );
    let date = stamp.split('T').next().unwrap_or(stamp);
    let scope = format!("{date}/{region}/{service}/aws4_request");
    let to_sign =
        format!("{ALGORITHM}\n{stamp}\n{scope}\n{}", Sha256::digest(canonical.as_bytes()));
    let secret = format!("AWS4{}", keys.secret_access_key);
    let steps = [date, region, service, "aws4_request", &to_sign];
    let signature = steps.iter().fold(secret.into_bytes(), |key, step| hmac(&key, step.as_bytes()));
    format!(
        "{ALGORITHM} Credential={}/{scope}, SignedHeaders={signed}, Signature={}",
        keys.access_key_id,
        hex(&signature)
    )
}

/// The lines of the headers, and their names.
fn canonical_headers(headers: &[(&str, &str)]) -> (String, String) {
    let mut headers: Vec<(String, String)> = headers
        .iter()
        .map(|(name, value)| {
            let value: Vec<&str> = value.split_ascii_whitespace().collect();
            (name.to_ascii_lowercase(), value.join(" "))
        })
        .collect();
    headers.sort();
    let lines = headers.iter().map(|(name, value)| format!("{name}:{value}\n")).collect();
    let names: Vec<&str> = headers.iter().map(|(name, _)| name.as_str()).collect();
    (lines, names.join(";"))
}

fn canonical_query(query: &str) -> String {
    let encoded = |text: &str| {
        let text = percent_decode_str(text).decode_utf8_lossy();
        utf8_percent_encode(&text, RESERVED).to_string()
    };
    let pairs = query.split('&').filter(|pair| !pair.is_empty());
    let mut pairs: Vec<(String, String)> = pairs
        .map(|pair| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            (encoded(name), encoded(value))
        })
        .collect();
    pairs.sort();
    let pairs: Vec<String> = pairs.iter().map(|(name, value)| format!("{name}={value}")).collect();
    pairs.join("&")
}

fn hmac(key: &[u8], text: &[u8]) -> Vec<u8> {
    // keys of every length are accepted
    let Ok(mut mac) = Hmac::<sha2::Sha256>::new_from_slice(key) else { return Vec::new() };
    mac.update(text);
    mac.finalize().into_bytes().to_vec()
}

fn hex(bytes: &[u8]) -> String {
    let mut hex = String::new();
    for byte in bytes {
        // writing to a string cannot fail
        let _ = write!(hex, "{byte:02x}");
    }
    hex
}

#[cfg(test)]
mod tests {
    use super::*;

    const SCOPE: Scope<'_> = Scope { region: "us-east-1", service: "service" };
    /// 2015-08-30 12:36:00 UTC
    const AT: Time = Time::from_millis(1_440_938_160_000);
    const TOKEN: &str = "AQoDYXdzEPT//////////wEXAMPLEtc764bNrC9SAPBSM22wDOk4x4HIZ8j4FZTwdQWLWsKWHGBuFqwAeMicRXmxfpSPfIeoIYRqTflfKD8YUuwthAx7mSEI/qkPpKPi/kMcGdQrmGdeehM4IC1NtBmUpp2wUE8phUZampKsburEDy0KPkyQDYwT7WZ0wq5VSXDvp75YU9HFvlRd8Tx6q6fE8YQcHNVXAkiY9q6d+xo0rKwT38xVqr7ZD0u0iPPkUL64lIZbqBAz+scqKmlzm8FDrypNC9Yjc8fPOLn9FX9KSYvKTr4rvx3iSIlTJabIQwj2ICCR/oLxBA==";

    fn keys(session_token: Option<&str>) -> Keys {
        Keys {
            access_key_id: "AKIDEXAMPLE".into(),
            secret_access_key: "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY".into(),
            session_token: session_token.map(str::to_owned),
        }
    }

    /// Amazon's published test suite for this algorithm: name, method, path, query, headers and body of the
    /// request, names of the signed headers, signature. Its requests for a normalized path are not here,
    /// because an address is normalized before it is signed.
    #[test]
    fn the_published_suite() {
        type Case = (
            &'static str,
            &'static str,
            &'static str,
            &'static str,
            &'static [(&'static str, &'static str)],
            &'static str,
            &'static str,
            &'static str,
        );
        const PLAIN: &str = "host;x-amz-date";
        const UNRESERVED: &str =
            "-._~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
        const UNRESERVED_PATH: &str =
            "/-._~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
        let unreserved_query = format!("{UNRESERVED}={UNRESERVED}");
        let unreserved_query: &'static str = unreserved_query.leak();
        let table: [Case; 20] = [
            (
                "get-vanilla",
                "GET",
                "/",
                "",
                &[],
                "",
                PLAIN,
                "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31",
            ),
            (
                "get-unreserved",
                "GET",
                UNRESERVED_PATH,
                "",
                &[],
                "",
                PLAIN,
                "07ef7494c76fa4850883e2b006601f940f8a34d404d0cfa977f52a65bbf5f24f",
            ),
            (
                "get-utf8",
                "GET",
                "/ሴ",
                "",
                &[],
                "",
                PLAIN,
                "8318018e0b0f223aa2bbf98705b62bb787dc9c0e678f255a891fd03141be5d85",
            ),
            (
                "get-vanilla-empty-query-key",
                "GET",
                "/",
                "Param1=value1",
                &[],
                "",
                PLAIN,
                "a67d582fa61cc504c4bae71f336f98b97f1ea3c7a6bfe1b6e45aec72011b9aeb",
            ),
            (
                "get-vanilla-query-order-key-case",
                "GET",
                "/",
                "Param2=value2&Param1=value1",
                &[],
                "",
                PLAIN,
                "b97d918cfa904a5beff61c982a1b6f458b799221646efd99d3219ec94cdf2500",
            ),
            (
                "get-vanilla-query-unreserved",
                "GET",
                "/",
                unreserved_query,
                &[],
                "",
                PLAIN,
                "9c3e54bfcdf0b19771a7f523ee5669cdf59bc7cc0884027167c21bb143a40197",
            ),
            (
                "get-vanilla-utf8-query",
                "GET",
                "/",
                "ሴ=bar",
                &[],
                "",
                PLAIN,
                "2cdec8eed098649ff3a119c94853b13c643bcf08f8b0a1d91e12c9027818dd04",
            ),
            (
                "the same, encoded",
                "GET",
                "/",
                "%E1%88%B4=bar",
                &[],
                "",
                PLAIN,
                "2cdec8eed098649ff3a119c94853b13c643bcf08f8b0a1d91e12c9027818dd04",
            ),
            (
                "get-header-key-duplicate",
                "GET",
                "/",
                "",
                &[("My-Header1", "value2,value2,value1")],
                "",
                "host;my-header1;x-amz-date",
                "c9d5ea9f3f72853aea855b47ea873832890dbdd183b4468f858259531a5138ea",
            ),
            (
                "get-header-value-order",
                "GET",
                "/",
                "",
                &[("My-Header1", "value4,value1,value3,value2")],
                "",
                "host;my-header1;x-amz-date",
                "08c7e5a9acfcfeb3ab6b2185e75ce8b1deb5e634ec47601a50643f830c755c01",
            ),
            (
                "get-header-value-trim",
                "GET",
                "/",
                "",
                &[("My-Header1", " value1"), ("My-Header2", " \"a   b   c\"")],
                "",
                "host;my-header1;my-header2;x-amz-date",
                "acc3ed3afb60bb290fc8d2dd0098b9911fcaa05412b367055dee359757a9c736",
            ),
            (
                "post-vanilla",
                "POST",
                "/",
                "",
                &[],
                "",
                PLAIN,
                "5da7c1a2acd57cee7505fc6676e4e544621c30862966e37dddb68e92efbe5d6b",
            ),
            (
                "post-header-key-sort",
                "POST",
                "/",
                "",
                &[("My-Header1", "value1")],
                "",
                "host;my-header1;x-amz-date",
                "c5410059b04c1ee005303aed430f6e6645f61f4dc9e1461ec8f8916fdf18852c",
            ),
            (
                "post-header-value-case",
                "POST",
                "/",
                "",
                &[("My-Header1", "VALUE1")],
                "",
                "host;my-header1;x-amz-date",
                "cdbc9802e29d2942e5e10b5bccfdd67c5f22c7c4e8ae67b53629efa58b974b7d",
            ),
            (
                "post-vanilla-query",
                "POST",
                "/",
                "Param1=value1",
                &[],
                "",
                PLAIN,
                "28038455d6de14eafc1f9222cf5aa6f1a96197d7deb8263271d420d138af7f11",
            ),
            (
                "post-vanilla-query-nonunreserved",
                "POST",
                "/",
                "@%23$%25^=&%2B=/,?><`\";:\\|][{}",
                &[],
                "",
                PLAIN,
                "66c82657c86e26fb25238d0e69f011edc4c6df5ae71119d7cb98ed9b87393c1e",
            ),
            (
                "post-vanilla-query-space",
                "POST",
                "/",
                "p=",
                &[],
                "",
                PLAIN,
                "e71688addb58a26418614085fb730ba3faa623b461c17f48f2fbdb9361b94a9b",
            ),
            (
                "post-sts-header-after",
                "POST",
                "/",
                "",
                &[],
                "",
                PLAIN,
                "5da7c1a2acd57cee7505fc6676e4e544621c30862966e37dddb68e92efbe5d6b",
            ),
            (
                "post-x-www-form-urlencoded",
                "POST",
                "/",
                "",
                &[("Content-Type", "application/x-www-form-urlencoded")],
                "Param1=value1",
                "content-type;host;x-amz-date",
                "ff11897932ad3f4e8b18135d722051e5ac45fc38421b1da7b9d196a0fe09473a",
            ),
            (
                "post-x-www-form-urlencoded-parameters",
                "POST",
                "/",
                "",
                &[("Content-Type", "application/x-www-form-urlencoded; charset=utf8")],
                "Param1=value1",
                "content-type;host;x-amz-date",
                "1a72ec8f64bd914b0e42e42607c7fbce7fb2c7465f63e3092b3b0d39fa77a6fe",
            ),
        ];
        for (name, method, path, query, headers, body, signed, signature) in table {
            let mut headers = headers.to_vec();
            headers.insert(0, ("Host", "example.amazonaws.com"));
            let request = Unsigned { method, path, query, headers, body: body.as_bytes() };
            let found = sign(&request, &keys(None), SCOPE, AT);
            let authorization = format!(
                "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/us-east-1/service/aws4_request, \
                 SignedHeaders={signed}, Signature={signature}"
            );
            let expected =
                [("x-amz-date", "20150830T123600Z".to_owned()), ("authorization", authorization)];
            assert_eq!(found, expected, "{name}");
        }
    }

    /// The suite's `post-sts-header-before`.
    #[test]
    fn a_session_token_is_signed_too() {
        let request = Unsigned {
            method: "POST",
            path: "/",
            query: "",
            headers: vec![("host", "example.amazonaws.com")],
            body: b"",
        };
        let found = sign(&request, &keys(Some(TOKEN)), SCOPE, AT);
        let names: Vec<&str> = found.iter().map(|(name, _)| *name).collect();
        assert_eq!(names, ["x-amz-date", "x-amz-security-token", "authorization"]);
        assert_eq!(found[1].1, TOKEN);
        let end = "SignedHeaders=host;x-amz-date;x-amz-security-token, \
            Signature=85d96828115b5dc0cfc3bd16ad9e210dd772bbebba041836c64533a82be05ead";
        assert!(found[2].1.ends_with(end), "{}", found[2].1);
    }

    #[test]
    fn an_encoded_path_is_encoded_again() {
        let path = "/model/anthropic.claude-v1%3A0/converse-stream";
        let canonical = utf8_percent_encode(path, RESERVED_IN_PATH).to_string();
        assert_eq!(canonical, "/model/anthropic.claude-v1%253A0/converse-stream");
    }
}
