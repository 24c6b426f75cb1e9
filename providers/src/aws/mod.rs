//! Signs requests to Amazon Web Services with the keys that other programs for AWS use on this machine.
//!
//! Keys are looked for when a request is sent, and never kept: variables and files are read anew for each
//! request, so that keys which another program has renewed are found. It never runs a program and asks no
//! server for keys.

mod credentials;
mod profile;
mod sigv4;

use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use futures::FutureExt;
use futures::future::BoxFuture;
use leftfold_events::Time;
use leftfold_events::event::FailureClass;

use crate::authorization::{Authorization, Authorize, Credentials, Outgoing};
use crate::errors::Failure;
use crate::regions;
use credentials::{Found, Given, Machine, Missing};
use sigv4::{Scope, Unsigned};

/// The most bytes that are read of a file of profiles.
const LARGEST_FILE: u64 = 1 << 20;

/// The name of Bedrock in signatures.
const SERVICE: &str = "bedrock";

/// The advice if no region is known.
pub(crate) const NO_REGION: &str =
    "no AWS region: set `options.region`, AWS_REGION, or `region` in the profile of ~/.aws/config";

/// Values by name, from settings.
pub(crate) type Parameters = [(String, String)];

fn given(parameters: &Parameters) -> Given {
    let value = |name: &str| {
        let found = parameters.iter().find(|(known, value)| known == name && !value.is_empty());
        found.map(|(_, value)| value.clone())
    };
    Given {
        region: value("region"),
        profile: value("profile"),
        access_key_id: value("accessKeyId"),
        secret_access_key: value("secretAccessKey"),
        session_token: value("sessionToken"),
    }
}

/// Looks at the variables and files of this process.
fn on_this_machine<T>(look: impl FnOnce(Machine<'_>) -> T) -> T {
    look(Machine { env: &|name| std::env::var(name).ok(), read: &read })
}

fn read(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    File::open(path)?.take(LARGEST_FILE).read_to_string(&mut text)?;
    Ok(text)
}

/// The region that settings, variables or files name.
pub(crate) fn region(parameters: &Parameters) -> Option<String> {
    on_this_machine(|machine| machine.region(&given(parameters)))
}

/// The region and the source of the keys, for people. Uses no network.
///
/// # Errors
/// There are no keys, they have expired, or there is no region: what to do.
pub(crate) fn describe(parameters: &Parameters) -> Result<String, String> {
    let region = region(parameters).ok_or_else(|| NO_REGION.to_owned())?;
    let found = on_this_machine(|machine| machine.keys(&given(parameters)));
    let found = found.map_err(|missing| missing.to_string())?;
    match expired(&found, SystemTime::now().into()) {
        Some(why) => Err(why),
        None => Ok(format!("{}; region {region}", found.source)),
    }
}

/// The files in which keys may be.
pub(crate) fn files() -> Vec<PathBuf> {
    on_this_machine(|machine| machine.files())
}

fn expired(found: &Found, now: Time) -> Option<String> {
    let expires = found.expires.filter(|expires| *expires <= now)?;
    let source = &found.source;
    Some(format!("the AWS keys of {source} have expired at {expires}: get new ones, and set them"))
}

/// The way to sign requests with this machine's keys. If keys are not `required`, a request is sent without
/// a signature if there are none.
pub(crate) fn authorization(parameters: &Parameters, required: bool) -> Authorization {
    let given = given(parameters);
    // the values of keys do not become part of a name
    let hash = leftfold_events::Sha256::of(format!("{parameters:?}").as_bytes());
    let identity = format!("aws {hash} {required}");
    Authorization::new(Signer { given, required, identity })
}

struct Signer {
    given: Given,
    required: bool,
    identity: String,
}

impl fmt::Debug for Signer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Signer").field("given", &self.given).finish_non_exhaustive()
    }
}

impl Authorize for Signer {
    fn identity(&self) -> &str {
        &self.identity
    }

    fn authorize<'a>(
        &'a self,
        request: &'a mut Outgoing,
    ) -> BoxFuture<'a, Result<Credentials, Failure>> {
        // small local files, once for each request
        let now = Time::from(SystemTime::now());
        let signed = on_this_machine(|machine| self.sign(machine, request, now));
        futures::future::ready(signed).boxed()
    }
}

impl Signer {
    fn sign(
        &self,
        machine: Machine<'_>,
        request: &mut Outgoing,
        now: Time,
    ) -> Result<Credentials, Failure> {
        let auth = |why: String| Failure::fatal(FailureClass::Auth, why);
        let found = match machine.keys(&self.given) {
            Err(Missing::Nothing { .. }) if !self.required => return Ok(Credentials::default()),
            found => found.map_err(|missing| auth(missing.to_string()))?,
        };
        if let Some(why) = expired(&found, now) {
            return Err(auth(why));
        }
        let in_address = regions::of_address(request.url.as_str()).map(str::to_owned);
        let region = in_address.or_else(|| machine.region(&self.given));
        let region = region.ok_or_else(|| auth(NO_REGION.to_owned()))?;
        let host = match (request.url.host_str().unwrap_or_default(), request.url.port()) {
            (host, Some(port)) => format!("{host}:{port}"),
            (host, None) => host.to_owned(),
        };
        // every header of AWS has to be signed
        let is_signed = |name: &str| name == "content-type" || name.starts_with("x-amz-");
        let own = request.headers.iter().filter(|(name, _)| is_signed(name.as_str()));
        let own = own.filter_map(|(name, value)| Some((name.as_str(), value.to_str().ok()?)));
        let unsigned = Unsigned {
            method: "POST",
            path: request.url.path(),
            query: request.url.query().unwrap_or_default(),
            headers: own.chain([("host", host.as_str())]).collect(),
            body: &request.body,
        };
        let scope = Scope { region: &region, service: SERVICE };
        for (name, value) in sigv4::sign(&unsigned, &found.keys, scope, now) {
            request.set(name, &value)?;
        }
        let credentials::Keys { access_key_id, secret_access_key, session_token } = found.keys;
        let token = session_token.map(|token| ("aws.sessionToken".to_owned(), token));
        let keys = [
            ("aws.accessKeyId".to_owned(), access_key_id),
            ("aws.secretAccessKey".to_owned(), secret_access_key),
        ];
        Ok(Credentials(keys.into_iter().chain(token).collect()))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use reqwest::Url;
    use reqwest::header::{HeaderMap, HeaderValue};

    use super::*;

    const NOW: Time = Time::from_millis(1_440_938_160_000);

    fn outgoing(url: &str) -> Outgoing {
        let mut headers = HeaderMap::new();
        headers.insert("content-type", HeaderValue::from_static("application/json"));
        headers.insert("accept", HeaderValue::from_static("x"));
        headers.insert("x-amzn-bedrock-a", HeaderValue::from_static("b"));
        headers.insert("x-amz-c", HeaderValue::from_static("d"));
        Outgoing { url: Url::parse(url).unwrap(), headers, body: b"{}".to_vec() }
    }

    fn sign(
        parameters: &[(&str, &str)],
        env: &[(&str, &str)],
        required: bool,
        request: &mut Outgoing,
    ) -> Result<Credentials, Failure> {
        let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        let parameters: Vec<(String, String)> = parameters.iter().map(owned).collect();
        let signer = Signer { given: given(&parameters), required, identity: String::new() };
        let env: HashMap<&str, &str> = env.iter().copied().collect();
        let env = |name: &str| env.get(name).map(|value| (*value).to_owned());
        let read = |_: &Path| Err(io::ErrorKind::NotFound.into());
        signer.sign(Machine { env: &env, read: &read }, request, NOW)
    }

    const KEYS: [(&str, &str); 3] = [
        ("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE"),
        ("AWS_SECRET_ACCESS_KEY", "secret"),
        ("AWS_REGION", "eu-west-1"),
    ];

    #[test]
    fn a_request_carries_its_signature() {
        let url = "https://bedrock-runtime.us-east-1.amazonaws.com/model/m%3A0/converse-stream";
        let mut request = outgoing(url);
        let env = [&KEYS[..], &[("AWS_SESSION_TOKEN", "token")]].concat();
        let Credentials(hidden) = sign(&[], &env, true, &mut request).unwrap();
        let hidden: Vec<&str> = hidden.iter().map(|(_, value)| value.as_str()).collect();
        assert_eq!(hidden, ["AKIDEXAMPLE", "secret", "token"]);
        let header = |name: &str| request.headers[name].to_str().unwrap().to_owned();
        assert_eq!(header("x-amz-date"), "20150830T123600Z");
        assert_eq!(header("x-amz-security-token"), "token");
        // the region is that of the address
        let begin = "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/us-east-1/bedrock/aws4_request, \
            SignedHeaders=content-type;host;x-amz-c;x-amz-date;x-amz-security-token, Signature=";
        assert!(header("authorization").starts_with(begin), "{}", header("authorization"));
    }

    #[test]
    fn the_region_of_another_address_is_that_of_settings_or_variables() {
        let region = |parameters: &[(&str, &str)]| {
            let mut request = outgoing("http://127.0.0.1:9/model/m/converse-stream");
            sign(parameters, &KEYS, true, &mut request).unwrap();
            let authorization = request.headers["authorization"].to_str().unwrap().to_owned();
            authorization.split('/').nth(2).unwrap().to_owned()
        };
        assert_eq!(region(&[]), "eu-west-1");
        assert_eq!(region(&[("region", "ap-south-1")]), "ap-south-1");
    }

    #[test]
    fn without_keys_or_a_region_nothing_is_sent() {
        let url = "http://127.0.0.1:9/model/m/converse-stream";
        let past = [&KEYS[..], &[("AWS_CREDENTIAL_EXPIRATION", "2015-08-30T12:36:00Z")]].concat();
        for (env, words) in [
            (&[][..], "no AWS credentials"),
            (&KEYS[..1], "AWS_SECRET_ACCESS_KEY is not"),
            (&KEYS[..2], "no AWS region"),
            (&past[..], "have expired at 2015-08-30T12:36:00.000Z"),
        ] {
            let failure = sign(&[], env, true, &mut outgoing(url)).unwrap_err();
            assert_eq!((failure.class, failure.retryable), (FailureClass::Auth, false));
            assert!(failure.message.contains(words), "{}", failure.message);
        }
        let mut request = outgoing(url);
        assert_eq!(sign(&[], &[], false, &mut request), Ok(Credentials::default()));
        assert!(!request.headers.contains_key("authorization"));
        sign(&[], &KEYS[..1], false, &mut request).unwrap_err();
    }

    #[test]
    fn debug_output_has_no_keys() {
        let parameters = [("secretAccessKey".to_owned(), "SECRET-KEY".to_owned())];
        let text = format!("{:?}", authorization(&parameters, true));
        assert!(!text.contains("SECRET-KEY"), "{text}");
    }
}
