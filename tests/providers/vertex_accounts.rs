//! Tokens of Google for the identity of another cloud, and for a service account that other credentials act for. One server
//! stands for Google and for the other cloud, and checks every parameter.

use std::sync::Mutex;

use common::authorization::{decoded, form};
use common::{Answer, Recorded, Server, Site, all, only};
use leftfold_events::Time;
use serde_json::{Value, json};

use super::vertex::{EMAIL, bearers, reads, says, site};
use super::wire_bedrock::{header, is_signed_for};

const AUDIENCE: &str =
    "//iam.googleapis.com/projects/1/locations/global/workloadIdentityPools/p/providers/q";
const JWT: &str = "urn:ietf:params:oauth:token-type:jwt";
const AWS: &str = "urn:ietf:params:aws:token-type:aws4_request";
const SUBJECT: &str = "subject-token-0123456789";
const CLOUD: &str = "https://www.googleapis.com/auth/cloud-platform";
const AWS_SECRET: &str = "aws-secret-0123456789";
const VERIFICATION: &str =
    "https://sts.{region}.amazonaws.com?Action=GetCallerIdentity&Version=2011-06-15";

/// A server for both clouds.
struct Clouds {
    server: Server,
}

impl Clouds {
    /// It refuses requests to the last part of this path, as Google does.
    fn refusing(part: &'static str) -> Self {
        let given = Mutex::new(0);
        let server = Server::answering(move |request| {
            let mut given = given.lock().unwrap();
            let path = request.line.split(' ').nth(1).unwrap_or_default();
            if !part.is_empty() && path.ends_with(part) {
                return refusal(part);
            }
            match answer(request, *given) {
                Ok(answer) => {
                    *given += usize::from(request.line.starts_with("POST"));
                    Answer::Status(200, Vec::new(), answer.to_string())
                }
                Err(why) => {
                    let error = json!({ "error": "invalid_request", "error_description": why });
                    Answer::Status(400, Vec::new(), error.to_string())
                }
            }
        });
        Self { server }
    }

    fn start() -> Self {
        Self::refusing("")
    }

    fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.server.address())
    }

    fn impersonation(&self) -> String {
        self.url(&format!("/v1/projects/-/serviceAccounts/{EMAIL}:generateAccessToken"))
    }

    fn lines(&self) -> Vec<String> {
        let lines = self.server.requests().into_iter().map(|request| request.line);
        lines.map(|line| line.trim_end_matches(" HTTP/1.1").to_owned()).collect()
    }

    /// An identity of another cloud, for itself.
    fn federation(&self, token_type: &str, source: &Value) -> Value {
        json!({ "type": "external_account", "audience": AUDIENCE, "subject_token_type": token_type,
            "token_url": self.url("/v1/token"), "credential_source": source,
            "universe_domain": "googleapis.com" })
    }

    /// The same, for a service account.
    fn acting(&self, token_type: &str, source: &Value) -> Value {
        let mut json = self.federation(token_type, source);
        json["service_account_impersonation_url"] = self.impersonation().into();
        json["service_account_impersonation"] = json!({ "token_lifetime_seconds": 1_800 });
        json
    }
}

fn refusal(part: &str) -> Answer {
    let (status, body) = match part {
        "/v1/token" => {
            let said = "The audience in ID Token does not match the expected audience.";
            (400, json!({ "error": "invalid_grant", "error_description": said }))
        }
        _ => {
            let said = "Permission 'iam.serviceAccounts.getAccessToken' denied";
            let error = json!({ "code": 403, "message": said, "status": "PERMISSION_DENIED" });
            (403, json!({ "error": error }))
        }
    };
    Answer::Status(status, Vec::new(), body.to_string())
}

fn token(number: usize) -> String {
    format!("ya29.cloud-token-0123456789-{number}")
}

/// The answer to a request, after this many tokens.
fn answer(request: &Recorded, given: usize) -> Result<Value, String> {
    let expect = |name: &str, value: &str| match header(request, name) {
        Some(found) if found == value => Ok(()),
        found => Err(format!("{name}: {found:?}")),
    };
    let text = String::from_utf8_lossy(&request.bytes).into_owned();
    let next = json!({ "access_token": token(given + 1), "token_type": "Bearer",
        "issued_token_type": "urn:ietf:params:oauth:token-type:access_token", "expires_in": 3_600 });
    match request.line.trim_end_matches(" HTTP/1.1") {
        "GET /identity?resource=1" => {
            expect("metadata", "true")?;
            expect("x-identity-header", "identity-header-0123456789")?;
            Ok(json!({ "expires_on": "1", "value": SUBJECT }))
        }
        "POST /v1/token" => {
            expect("content-type", "application/x-www-form-urlencoded")?;
            let mut form = form(&text);
            let mut take = |name: &str| form.remove(name).unwrap_or_default();
            let fixed = [
                ("grant_type", "urn:ietf:params:oauth:grant-type:token-exchange"),
                ("audience", AUDIENCE),
                ("scope", CLOUD),
                ("requested_token_type", "urn:ietf:params:oauth:token-type:access_token"),
            ];
            for (name, value) in fixed {
                let found = take(name);
                if found != value {
                    return Err(format!("{name}: {found}"));
                }
            }
            let (kind, subject) = (take("subject_token_type"), take("subject_token"));
            match kind.as_str() {
                JWT if subject == SUBJECT => {}
                AWS => check_proof(&subject)?,
                _ => return Err(format!("{kind}: {subject}")),
            }
            match header(request, "authorization") {
                // `client:client-secret-0123456789`
                Some("Basic Y2xpZW50OmNsaWVudC1zZWNyZXQtMDEyMzQ1Njc4OQ==") => {}
                None if form.remove("options").is_none_or(|it| it == r#"{"userProject":"77"}"#) => {
                }
                _ => return Err("wrong client or options".to_owned()),
            }
            if form.is_empty() { Ok(next) } else { Err(format!("also {form:?}")) }
        }
        "POST /v1/oauthtoken" => {
            expect("authorization", "Basic Y2xpZW50OmNsaWVudC1zZWNyZXQtMDEyMzQ1Njc4OQ==")?;
            match text == "grant_type=refresh_token&refresh_token=workforce-refresh-0123456789" {
                true => Ok(next),
                false => Err(text),
            }
        }
        "POST /token" => {
            match text.contains("refresh_token=user-refresh-0123456789")
                && text.contains("client_secret=client-secret-0123456789")
            {
                true => Ok(next),
                false => Err(text),
            }
        }
        line if line.starts_with("POST /v1/projects/-/serviceAccounts/")
            && line.ends_with(":generateAccessToken") =>
        {
            expect("authorization", &format!("Bearer {}", token(given)))?;
            expect("content-type", "application/json")?;
            let mut expected = json!({ "scope": [CLOUD], "lifetime": "1800s" });
            if request.body["lifetime"] == "3600s" {
                expected["lifetime"] = "3600s".into();
                expected["delegates"] = json!(["projects/-/serviceAccounts/between@shop"]);
            }
            if request.body != expected {
                return Err(format!("{}", request.body));
            }
            let end = Time::from(std::time::SystemTime::now()).plus(1_800_000).to_string();
            Ok(json!({ "accessToken": token(given + 1), "expireTime": end }))
        }
        line => Err(format!("nobody asks {line}")),
    }
}

/// Whether this is a request for the caller's identity at AWS, signed with the keys of the machine, as Google sends it on.
fn check_proof(subject: &str) -> Result<(), String> {
    let proof: Value =
        serde_json::from_str(&decoded(subject)).map_err(|error| error.to_string())?;
    let headers = proof["headers"].as_array().ok_or("no headers")?.iter();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let headers: Vec<String> = headers
        .map(|pair| format!("{}: {}", text(&pair["key"]).to_lowercase(), text(&pair["value"])))
        .collect();
    let host = "sts.eu-central-1.amazonaws.com";
    let query = "Action=GetCallerIdentity&Version=2011-06-15";
    let is_named = proof["url"] == format!("https://{host}/?{query}")
        && proof["method"] == "POST"
        && headers.contains(&format!("host: {host}"))
        && headers.contains(&format!("x-goog-cloud-target-resource: {AUDIENCE}"))
        && headers.contains(&"x-amz-security-token: aws-session-token-0123456789".to_owned());
    let line = format!("POST /?{query} HTTP/1.1");
    let request = Recorded { line, headers, body: Value::Null, bytes: Vec::new() };
    let is_bound = header(&request, "authorization")
        .is_some_and(|value| value.contains("x-goog-cloud-target-resource"));
    let is_signed = is_signed_for("sts", &request, AWS_SECRET, "eu-central-1");
    if is_named && is_bound && is_signed { Ok(()) } else { Err(format!("{proof}")) }
}

/// A site with these credentials.
fn with(server: &Server, credentials: &Value) -> Site {
    let site = site(server);
    let path = site.path("credentials.json");
    std::fs::write(&path, credentials.to_string()).unwrap();
    site.env("GOOGLE_APPLICATION_CREDENTIALS", path.display().to_string())
}

fn user(clouds: &Clouds) -> Value {
    json!({ "type": "authorized_user", "client_id": "client", "token_uri": clouds.url("/token"),
        "client_secret": "client-secret-0123456789", "refresh_token": "user-refresh-0123456789" })
}

#[test]
fn tokens_of_other_clouds_and_of_acting_accounts_are_exchanged() {
    let clouds = Clouds::start();
    let folder = tempfile::tempdir().unwrap();
    let plain = folder.path().join("token");
    std::fs::write(&plain, format!("{SUBJECT}\n")).unwrap();
    let json = folder.path().join("token.json");
    std::fs::write(&json, json!({ "id_token": SUBJECT }).to_string()).unwrap();
    let format = |member: &str| json!({ "type": "json", "subject_token_field_name": member });
    let by_url = json!({ "url": clouds.url("/identity?resource=1"), "format": format("value"),
        "headers": { "Metadata": "true", "X-Identity-Header": "identity-header-0123456789" } });
    let aws = json!({ "environment_id": "aws1", "regional_cred_verification_url": VERIFICATION,
        "region_url": "http://169.254.169.254/latest/meta-data/placement/availability-zone" });
    let mut workforce = clouds.federation(JWT, &json!({ "file": plain }));
    workforce["workforce_pool_user_project"] = "77".into();
    let mut of_client = clouds.federation(JWT, &json!({ "file": plain }));
    of_client["client_id"] = "client".into();
    of_client["client_secret"] = "client-secret-0123456789".into();
    let signed_in = json!({ "type": "external_account_authorized_user", "client_id": "client",
        "client_secret": "client-secret-0123456789", "token_url": clouds.url("/v1/oauthtoken"),
        "refresh_token": "workforce-refresh-0123456789", "audience": AUDIENCE });
    let acting_user = json!({ "type": "impersonated_service_account",
        "service_account_impersonation_url": clouds.impersonation(),
        "delegates": ["projects/-/serviceAccounts/between@shop"],
        "source_credentials": user(&clouds) });
    let act = format!("POST /v1/projects/-/serviceAccounts/{EMAIL}:generateAccessToken");
    let exchange = "POST /v1/token";
    let mut seen = (0, 0);
    for (credentials, expected, described) in [
        (
            clouds.federation(JWT, &json!({ "file": plain })),
            &[exchange][..],
            format!("the identity in {}", plain.display()),
        ),
        (workforce, &[exchange], "the identity in ".to_owned()),
        (of_client, &[exchange], "the identity in ".to_owned()),
        (
            clouds.acting(JWT, &json!({ "file": json, "format": format("id_token") })),
            &[exchange, &act],
            format!("service account {EMAIL}, by the identity in {}", json.display()),
        ),
        (
            clouds.acting(JWT, &by_url),
            &["GET /identity?resource=1", exchange, &act],
            format!("service account {EMAIL}, by the identity at {}", clouds.url("/identity")),
        ),
        (
            clouds.acting(AWS, &aws),
            &[exchange, &act],
            format!("service account {EMAIL}, by the identity at AWS"),
        ),
        (signed_in, &["POST /v1/oauthtoken"], "sign-in of a workforce".to_owned()),
        (
            acting_user,
            &["POST /token", &act],
            format!("service account {EMAIL}, by sign-in of gcloud"),
        ),
    ] {
        let server = Server::start(vec![says("Hi.")]);
        let site = with(&server, &credentials)
            .env("AWS_ACCESS_KEY_ID", "AKIAEXAMPLE")
            .env("AWS_SECRET_ACCESS_KEY", AWS_SECRET)
            .env("AWS_SESSION_TOKEN", "aws-session-token-0123456789")
            .env("AWS_REGION", "eu-central-1");
        site.prompt("Hi").ok();
        let lines = clouds.lines();
        assert_eq!(lines[seen.0..], *expected, "{credentials}");
        let tokens = seen.1 + expected.iter().filter(|line| line.starts_with("POST")).count();
        seen = (lines.len(), tokens);
        assert_eq!(bearers(&server), [format!("Bearer {}", token(tokens))], "{credentials}");
        let doctor = site.run(&["doctor"]).stdout;
        assert!(doctor.contains(&described), "{described}: {doctor}");
    }
    assert_eq!(clouds.lines().len(), seen.0, "`doctor` asks no server");
}

#[test]
fn each_link_that_breaks_is_named() {
    let file = |site: &Site, text: &str| {
        let path = site.path("token");
        std::fs::write(&path, text).unwrap();
        json!({ "file": path })
    };
    let empty = |site: &Site, clouds: &Clouds| clouds.federation(JWT, &file(site, "\n"));
    let good = |site: &Site, clouds: &Clouds| clouds.acting(JWT, &file(site, SUBJECT));
    let gone = |_: &Site, clouds: &Clouds| clouds.federation(JWT, &json!({ "file": "/no/token" }));
    let nowhere = |_: &Site, clouds: &Clouds| {
        clouds.federation(JWT, &json!({ "url": clouds.url("/nowhere"), "headers": { "A": "b" } }))
    };
    let no_keys = |_: &Site, clouds: &Clouds| {
        let aws =
            json!({ "environment_id": "aws1", "regional_cred_verification_url": VERIFICATION });
        clouds.acting(AWS, &aws)
    };
    let other_file = |site: &Site, clouds: &Clouds| {
        clouds.federation(JWT, &file(site, "another-token-0123456789"))
    };
    type Make<'a> = &'a dyn Fn(&Site, &Clouds) -> Value;
    for (refuses, make, expected) in [
        ("", &empty as Make<'_>, "token has no token"),
        ("", &gone, "/no/token: it cannot be read"),
        ("", &nowhere, "answered 400 Bad Request instead of a token"),
        ("", &no_keys, "no AWS credentials"),
        ("", &other_file, "invalid_request: urn:ietf:params:oauth:token-type:jwt: [hidden]"),
        ("/v1/token", &good, "the provider of the pool does not accept it"),
        (":generateAccessToken", &good, "needs the role `roles/iam.serviceAccountTokenCreator`"),
    ] {
        let (server, clouds) = (Server::start(vec![says("never")]), Clouds::refusing(refuses));
        let site = site(&server).env("AWS_EC2_METADATA_DISABLED", "true");
        let path = site.path("credentials.json");
        std::fs::write(&path, make(&site, &clouds).to_string()).unwrap();
        let site = site.env("GOOGLE_APPLICATION_CREDENTIALS", path.display().to_string());
        let events = site.prompt("Hi").with(1).events();
        let data = &only(&events, "model.failed")["data"];
        let message = data["message"].as_str().unwrap();
        assert!(message.contains(expected), "{expected}: {message}");
        assert_eq!(data["class"], "auth", "{message}");
        assert!(server.requests().is_empty());
    }
}

#[test]
fn no_token_in_between_gets_into_a_log() {
    let server = Server::start(vec![reads("leak.txt"), says("Done.")]);
    let clouds = Clouds::start();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("token");
    std::fs::write(&path, SUBJECT).unwrap();
    let site = with(&server, &clouds.acting(JWT, &json!({ "file": path })));
    site.file("leak.txt", format!("{SUBJECT}\n{}\n{}\n", token(1), token(2)));
    let ran = site.prompt("Read it").ok();
    let sent = server.requests()[1].body.to_string();
    let log = json!(site.exported()).to_string();
    for text in [&ran.stdout, &ran.stderr, &sent, &log] {
        for secret in [SUBJECT, &token(1), &token(2)] {
            assert!(!text.contains(secret), "{secret}: {text}");
        }
    }
    let events = ran.events();
    let read = all(&events, "tool.finished")[0]["data"]["output"].as_str().unwrap().to_owned();
    assert_eq!(read.matches("{{secret:").count(), 3, "{read}");
}
