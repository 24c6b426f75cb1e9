//! Signs requests to Amazon Web Services with the keys that other programs for AWS use on this machine.
//!
//! The source of the keys is looked for when a request is sent: variables and files are read anew for each request, so that
//! keys which another program has renewed are found. Keys of a role, an SSO session, a program, a container or a machine
//! are kept in memory until shortly before they end.

mod answer;
mod credentials;
mod profile;
mod sigv4;
mod sso;
mod temporary;

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use futures::FutureExt;
use futures::future::BoxFuture;
use leftfold_events::Time;
use leftfold_events::event::FailureClass;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use reqwest::Url;
use serde_json::{Value, json};

use crate::authorization::{Authorization, Authorize, Credentials, Outgoing};
use crate::errors::Failure;
use crate::regions;
use crate::short_lived::Shared;
use answer::{Temporary, auth};
use credentials::{FoundKeys, Given, Machine, Missing, Source};
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
    let source = on_this_machine(|machine| machine.source(&given(parameters)));
    let source = source.map_err(|missing| missing.to_string())?;
    let standing = standing(&source, SystemTime::now().into())?;
    Ok(format!("{source}{standing}; region {region}"))
}

/// How long the keys of a source or the token for them last, if this machine knows it.
fn standing(source: &Source, now: Time) -> Result<String, String> {
    match source {
        Source::Keys(found) => expired(found, now).map_or_else(|| Ok(String::new()), Err),
        Source::Role { by, .. } => standing(by, now),
        Source::WebIdentity { token_file, .. } if !token_file.is_file() => {
            Err(format!("{source}, but there is no such file"))
        }
        Source::Sso(sso) => sso::standing(sso, now).map(|until| format!(", {until}")),
        Source::WebIdentity { .. }
        | Source::Process { .. }
        | Source::Container { .. }
        | Source::Instance { .. } => Ok(String::new()),
    }
}

/// The keys of each source that has to be asked for them, for all requests of the process.
static TEMPORARY: Mutex<Vec<(Source, Arc<Shared<Temporary>>)>> = Mutex::new(Vec::new());

/// The most sources whose keys are kept.
const MAX_SOURCES: usize = 16;

fn shared(source: &Source) -> Arc<Shared<Temporary>> {
    let mut known = TEMPORARY.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((_, shared)) = known.iter().find(|(known, _)| known == source) {
        return Arc::clone(shared);
    }
    if known.len() == MAX_SOURCES {
        known.remove(0);
    }
    let shared = Arc::new(Shared::default());
    known.push((source.clone(), Arc::clone(&shared)));
    shared
}

async fn keys(source: &Source) -> Result<Temporary, Failure> {
    if let Source::Keys(_) = source {
        return temporary::get(source).await;
    }
    let fetched = async {
        let keys = temporary::get(source).await?;
        let lifetime = keys.lifetime();
        Ok(Some((keys, lifetime)))
    };
    let keys = shared(source).get(fetched).await?;
    keys.ok_or_else(|| Failure::fatal(FailureClass::Auth, "no AWS keys"))
}

/// A proof for another cloud of whose keys this machine has: a signed request to the address `url`, which is not sent. It has
/// the header `named`, and `{region}` in the address becomes the region. Also returns the values that must not become known.
///
/// # Errors
/// There are no keys, or there is no region.
pub(crate) async fn identity_proof(
    url: &str,
    named: (&str, &str),
) -> Result<(String, Vec<(String, String)>), Failure> {
    let given = Given::default();
    let (source, region) =
        on_this_machine(|machine| (machine.source(&given), machine.region(&given)));
    let source = source.map_err(|missing| auth(missing.to_string()))?;
    let keys = keys(&source).await?;
    let region = match (region, &source) {
        (Some(region), _) => region,
        (None, Source::Instance { url }) => temporary::region_of_instance(url).await?,
        (None, _) => return Err(auth("no AWS region: set AWS_REGION")),
    };
    if !regions::is_valid(&region) {
        return Err(auth(Missing::BadRegion { region }.to_string()));
    }
    let url = Url::parse(&url.replace("{region}", &region))
        .map_err(|error| auth(format!("the address of AWS to sign for: {error}")))?;
    let host = host_header(&url);
    let own = [("host", host.as_str()), named];
    let unsigned = Unsigned {
        method: "POST",
        path: url.path(),
        query: url.query().unwrap_or_default(),
        headers: own.to_vec(),
        body: b"",
    };
    let scope = Scope { region: &region, service: "sts" };
    let signed = sigv4::sign(&unsigned, &keys.keys, scope, SystemTime::now().into());
    let own = own.map(|(name, value)| (name, value.to_owned()));
    let headers = own.into_iter().chain(signed);
    let headers: Vec<Value> =
        headers.map(|(name, value)| json!({ "key": name, "value": value })).collect();
    let proof = json!({ "url": url.as_str(), "method": "POST", "headers": headers }).to_string();
    let mut secrets = answer::named(&keys.keys);
    secrets.extend(keys.secrets);
    Ok((utf8_percent_encode(&proof, NON_ALPHANUMERIC).to_string(), secrets))
}

/// The files in which keys may be.
pub(crate) fn files() -> Vec<PathBuf> {
    on_this_machine(|machine| machine.files())
}

fn expired(found: &FoundKeys, now: Time) -> Option<String> {
    let expires = found.expires.filter(|expires| *expires <= now)?;
    let source = &found.source;
    Some(format!("the AWS keys of {source} have expired at {expires}: get new ones, and set them"))
}

/// The way to sign requests with this machine's keys. If keys are not `required`, a request is sent without
/// a signature if there are none.
pub(crate) fn authorization(parameters: &Parameters, required: bool) -> Authorization {
    let given = given(parameters);
    // the values of keys do not become part of a name
    let hash = leftfold_events::Sha256::digest(format!("{parameters:?}").as_bytes());
    let identity = format!("aws {hash} {required}");
    Authorization::new(Signer { given, required, identity })
}

struct Signer {
    given: Given,
    required: bool,
    identity: String,
}

leftfold_events::debug_fields!(Signer { given });

impl Authorize for Signer {
    fn identity(&self) -> &str {
        &self.identity
    }

    fn authorize<'a>(
        &'a self,
        request: &'a mut Outgoing,
    ) -> BoxFuture<'a, Result<Credentials, Failure>> {
        async move {
            // small local files, once for each request
            let Some(source) = on_this_machine(|machine| self.source(machine))? else {
                return Ok(Credentials::default());
            };
            let keys = keys(&source).await?;
            let now = Time::from(SystemTime::now());
            on_this_machine(|machine| self.sign(machine, keys, request, now))
        }
        .boxed()
    }

    /// Keys that end may have been revoked: others may be accepted if these were accepted before.
    fn refused(&self, used: &Credentials) -> bool {
        let is_used =
            |keys: &Temporary| answer::named(&keys.keys).iter().all(|one| used.0.contains(one));
        let known = TEMPORARY.lock().unwrap_or_else(PoisonError::into_inner);
        known.iter().find_map(|(_, shared)| shared.refused(is_used)).unwrap_or(false)
    }
}

/// The host of a request, with its port.
fn host_header(url: &Url) -> String {
    match (url.host_str().unwrap_or_default(), url.port()) {
        (host, Some(port)) => format!("{host}:{port}"),
        (host, None) => host.to_owned(),
    }
}

impl Signer {
    /// The source of keys; `None`: there is none, and none is required.
    fn source(&self, machine: Machine<'_>) -> Result<Option<Source>, Failure> {
        match machine.source(&self.given) {
            Err(Missing::Nothing { .. }) if !self.required => Ok(None),
            source => source.map(Some).map_err(|missing| auth(missing.to_string())),
        }
    }

    fn sign(
        &self,
        machine: Machine<'_>,
        keys: Temporary,
        request: &mut Outgoing,
        now: Time,
    ) -> Result<Credentials, Failure> {
        let in_address = regions::of_address(request.url.as_str()).map(str::to_owned);
        let region = in_address.or_else(|| machine.region(&self.given));
        let region = region.ok_or_else(|| auth(NO_REGION.to_owned()))?;
        let host = host_header(&request.url);
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
        for (name, value) in sigv4::sign(&unsigned, &keys.keys, scope, now) {
            request.set(name, &value)?;
        }
        let mut credentials = answer::named(&keys.keys);
        credentials.extend(keys.secrets);
        Ok(Credentials(credentials))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

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
        let machine = Machine { env: &env, read: &read };
        let Some(source) = signer.source(machine)? else { return Ok(Credentials::default()) };
        let Source::Keys(found) = source else { panic!("not keys: {source}") };
        if let Some(why) = expired(&found, NOW) {
            return Err(auth(why));
        }
        let keys = Temporary { keys: found.keys, expires: None, secrets: Vec::new() };
        signer.sign(machine, keys, request, NOW)
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
