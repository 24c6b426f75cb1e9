//! Gets keys that end after some time: of a role (STS), of an SSO session, from a program, from the server of a container
//! or of the machine.

use std::process::Stdio;
use std::time::{Duration, SystemTime};

use futures::FutureExt;
use futures::future::BoxFuture;
use leftfold_events::Time;
use reqwest::header::HeaderValue;
use reqwest::{Client, RequestBuilder, Url};
use serde::Deserialize;
use tokio::process::Command;

use super::answer::{Answer, TIMEOUT, Temporary, WHAT, auth, checked, named, refused, usable};
use super::credentials::{ContainerToken, Keys, Role, Source, parsed};
use super::sigv4::{self, Scope, Unsigned};
use super::sso;
use crate::errors::{Failure, Mask};
use crate::http;
use crate::vendors;

/// A server of the machine or the container answers at once, or it is not there.
const LOCAL_TIMEOUT: Duration = Duration::from_secs(3);
/// How long a program is waited for. Some ask a person.
const PROGRAM_TIMEOUT: Duration = Duration::from_secs(60);
/// The most bytes of a program's output.
const LARGEST_OUTPUT: u64 = 64 * 1024;

/// Keys of a source, now.
pub(super) fn get(source: &Source) -> BoxFuture<'_, Result<Temporary, Failure>> {
    async move {
        match source {
            Source::Keys(found) => {
                if let Some(why) = super::expired(found, SystemTime::now().into()) {
                    return Err(auth(why));
                }
                let (keys, expires) = (found.keys.clone(), found.expires);
                Ok(Temporary { keys, expires, secrets: Vec::new() })
            }
            Source::Role { role, by } => assume(role, get(by).await?).await,
            Source::WebIdentity { role, token_file } => {
                let token = in_file(token_file).await?;
                let more = [("WebIdentityToken", token.as_str())];
                let keys = ask_sts(role, "AssumeRoleWithWebIdentity", &more, None).await?;
                let secrets = vec![("aws.webIdentityToken".to_owned(), token)];
                Ok(Temporary { secrets, ..keys })
            }
            Source::Sso(sso) => sso::keys(sso).await,
            Source::Process { command, home, .. } => {
                run(command, home).await.map_err(|why| auth(format!("{WHAT}: {source} {why}")))
            }
            Source::Container { url, token } => of_container(url, token).await,
            Source::Instance { url } => of_instance(url).await,
        }
    }
    .boxed()
}

/// The first line of a file with a token.
async fn in_file(path: &std::path::Path) -> Result<String, Failure> {
    let owned = path.to_owned();
    let read = tokio::task::spawn_blocking(move || super::read(&owned)).await;
    let read = read.map_err(|error| error.to_string());
    let text = read.and_then(|read| read.map_err(|error| error.to_string()));
    let text =
        text.map_err(|error| auth(format!("{WHAT}: {} cannot be read: {error}", path.display())))?;
    match text.trim() {
        "" => Err(auth(format!("{WHAT}: {} is empty", path.display()))),
        token => Ok(token.to_owned()),
    }
}

/// Keys of a role, which other keys assume.
async fn assume(role: &Role, by: Temporary) -> Result<Temporary, Failure> {
    let external = role.external_id.as_deref().map(|id| ("ExternalId", id));
    let more: Vec<_> = external.into_iter().collect();
    let keys = ask_sts(role, "AssumeRole", &more, Some(&by.keys)).await?;
    let mut secrets = by.secrets;
    let of_source = named(&by.keys).into_iter();
    secrets.extend(of_source.map(|(name, value)| (format!("{name}.source"), value)));
    Ok(Temporary { secrets, ..keys })
}

async fn ask_sts(
    role: &Role,
    action: &str,
    more: &[(&str, &str)],
    keys: Option<&Keys>,
) -> Result<Temporary, Failure> {
    let url = &role.sts.url;
    let duration = role.duration.map(|seconds| seconds.to_string());
    let duration = duration.as_deref().map(|seconds| ("DurationSeconds", seconds));
    let session = role.session_name.as_deref().unwrap_or("leftfold");
    let form = [
        ("Action", action),
        ("Version", "2011-06-15"),
        ("RoleArn", role.arn.as_str()),
        ("RoleSessionName", session),
    ];
    let mut body = url.clone();
    body.query_pairs_mut().clear().extend_pairs(form.iter().chain(more).chain(&duration));
    let body = body.query().unwrap_or_default().to_owned();
    const FORM: &str = "application/x-www-form-urlencoded";
    let mut request = http::client(url).await?.post(url.clone()).header("content-type", FORM);
    if let Some(keys) = keys {
        let host = super::host_header(url);
        let unsigned = Unsigned {
            method: "POST",
            path: url.path(),
            query: "",
            headers: vec![("content-type", FORM), ("host", &host)],
            body: body.as_bytes(),
        };
        let scope = Scope { region: &role.sts.region, service: "sts" };
        let signed = sigv4::sign(&unsigned, keys, scope, SystemTime::now().into());
        for (name, value) in signed {
            request = request.header(name, secret(&value)?);
        }
    }
    let (status, answer) = http::ask(WHAT, request.body(body), url, TIMEOUT).await?;
    let secrets = more.iter().map(|(_, value)| *value);
    let of_keys = keys.map(named).unwrap_or_default();
    let mask = Mask::new(secrets.chain(of_keys.iter().map(|(_, value)| value.as_str())));
    let answer = Answer::from_body(&answer);
    if !status.is_success() {
        return Err(refused(url, status, &answer, &mask));
    }
    let expires = answer.element("Expiration").and_then(|time| parsed(&time));
    let parts = ["AccessKeyId", "SecretAccessKey", "SessionToken"];
    checked(parts.map(|name| answer.element(name)), expires, url)
}

fn secret(value: &str) -> Result<HeaderValue, Failure> {
    let mut value = HeaderValue::from_str(value)
        .map_err(|_| auth(format!("{WHAT}: a token cannot be sent in a header")))?;
    value.set_sensitive(true);
    Ok(value)
}

/// Keys in JSON, as programs, containers and machines say them.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
struct Json {
    version: Option<u32>,
    access_key_id: Option<String>,
    secret_access_key: Option<String>,
    #[serde(alias = "SessionToken")]
    token: Option<String>,
    expiration: Option<String>,
}

impl Json {
    fn expires(&self) -> Option<Time> {
        self.expiration.as_deref().and_then(parsed)
    }

    fn parts(self) -> [Option<String>; 3] {
        [self.access_key_id, self.secret_access_key, self.token]
    }
}

/// Runs a program of the user's. It starts at the user's home, so that no name in it is one of the project, and does not get
/// the keys of other vendors.
async fn run(command: &str, home: &std::path::Path) -> Result<Temporary, String> {
    let shell = leftfold_programs::find("sh").map_err(|error| error.to_string())?;
    let mut program = Command::new(shell);
    program.env_clear().envs(leftfold_programs::guarded(std::env::vars_os()));
    program.arg("-c").arg(command).current_dir(home).kill_on_drop(true);
    program.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    for builtin in vendors::builtin() {
        for name in builtin.keys.iter().chain(builtin.hidden) {
            if !name.starts_with("AWS_") {
                program.env_remove(name);
            }
        }
    }
    let output = async {
        use tokio::io::AsyncReadExt;
        let mut child = program.spawn()?;
        let mut output = Vec::new();
        if let Some(stdout) = child.stdout.take() {
            stdout.take(LARGEST_OUTPUT).read_to_end(&mut output).await?;
        }
        Ok::<_, std::io::Error>((child.wait().await?, output))
    };
    let waited = tokio::time::timeout(PROGRAM_TIMEOUT, output).await;
    let waited =
        waited.map_err(|_| format!("did not end within {} s", PROGRAM_TIMEOUT.as_secs()))?;
    let (status, output) = waited.map_err(|error| format!("cannot be run: {error}"))?;
    if !status.success() {
        return Err(format!("failed ({status}): run it by hand to see why"));
    }
    let json: Json = serde_json::from_slice(&output).unwrap_or_default();
    if json.version != Some(1) {
        return Err("did not print JSON with \"Version\": 1".to_owned());
    }
    let expires = json.expires();
    if expires.is_some_and(|expires| expires <= SystemTime::now().into()) {
        return Err("gave keys that have expired".to_owned());
    }
    let keys = usable(json.parts()).ok_or("gave no keys that can be used")?;
    Ok(Temporary { keys, expires, secrets: Vec::new() })
}

async fn of_container(url: &Url, token: &ContainerToken) -> Result<Temporary, Failure> {
    let token = match token {
        ContainerToken::Unneeded => None,
        ContainerToken::Given(token) => Some(token.clone()),
        ContainerToken::InFile(path) => Some(in_file(path).await?),
    };
    let client =
        if url.scheme() == "http" { http::without_proxy()? } else { http::client(url).await? };
    let mut request = client.get(url.clone());
    if let Some(token) = &token {
        request = request.header("authorization", secret(token)?);
    }
    let mask = Mask::new(token.as_deref());
    let keys = of_local(request, url, &mask).await?;
    let secrets = token.map(|token| ("aws.containerToken".to_owned(), token));
    Ok(Temporary { secrets: secrets.into_iter().collect(), ..keys })
}

/// The metadata server of a machine, by the second version of its protocol, which needs a token. The first one has been
/// turned off on many machines, and lets any page that a server fetches read keys.
struct Metadata<'a> {
    client: Client,
    base: &'a Url,
    token: String,
}

impl<'a> Metadata<'a> {
    async fn open(base: &'a Url) -> Result<Self, Failure> {
        let mut metadata = Self { client: http::without_proxy()?, base, token: String::new() };
        let url = metadata.at(&["api", "token"]);
        let request = metadata.client.put(url.clone());
        let request = request.header("x-aws-ec2-metadata-token-ttl-seconds", "300");
        let (status, body) = http::ask(WHAT, request, &url, LOCAL_TIMEOUT).await?;
        if !status.is_success() {
            return Err(refused(&url, status, &Answer::from_body(&body), &Mask::default()));
        }
        metadata.token = String::from_utf8_lossy(&body).trim().to_owned();
        Ok(metadata)
    }

    fn at(&self, path: &[&str]) -> Url {
        let mut url = self.base.clone();
        if let Ok(mut segments) = url.path_segments_mut() {
            segments.pop_if_empty().extend(["latest"]).extend(path);
        }
        url
    }

    fn asked(&self, url: &Url) -> Result<RequestBuilder, Failure> {
        let request = self.client.get(url.clone());
        Ok(request.header("x-aws-ec2-metadata-token", secret(&self.token)?))
    }

    fn mask(&self) -> Mask {
        Mask::new([self.token.as_str()])
    }

    /// The first line at this path. `None`: there is nothing.
    async fn line(&self, path: &[&str]) -> Result<Option<String>, Failure> {
        let url = self.at(path);
        let (status, body) = http::ask(WHAT, self.asked(&url)?, &url, LOCAL_TIMEOUT).await?;
        let body = String::from_utf8_lossy(&body);
        let line = body.lines().next().unwrap_or_default().trim();
        if status.as_u16() == 404 || status.is_success() && line.is_empty() {
            return Ok(None);
        }
        if !status.is_success() {
            return Err(refused(&url, status, &Answer::from_body(body.as_bytes()), &self.mask()));
        }
        Ok(Some(line.to_owned()))
    }
}

async fn of_instance(base: &Url) -> Result<Temporary, Failure> {
    let metadata = Metadata::open(base).await?;
    let roles = ["meta-data", "iam", "security-credentials"];
    let role = metadata.line(&[&roles[..], &[""]].concat()).await?;
    let role = role.ok_or_else(|| auth(format!("{WHAT}: this machine has no role")))?;
    let url = metadata.at(&[&roles[..], &[role.as_str()]].concat());
    of_local(metadata.asked(&url)?, &url, &metadata.mask()).await
}

/// The region of this machine.
pub(super) async fn region_of_instance(base: &Url) -> Result<String, Failure> {
    let region = Metadata::open(base).await?.line(&["meta-data", "placement", "region"]).await?;
    region.ok_or_else(|| auth("no AWS region: this machine does not say its own; set AWS_REGION"))
}

async fn of_local(request: RequestBuilder, url: &Url, mask: &Mask) -> Result<Temporary, Failure> {
    let (status, body) = http::ask(WHAT, request, url, LOCAL_TIMEOUT).await?;
    if !status.is_success() {
        return Err(refused(url, status, &Answer::from_body(&body), mask));
    }
    let json: Json = serde_json::from_slice(&body).unwrap_or_default();
    let expires = json.expires();
    checked(json.parts(), expires, url)
}
