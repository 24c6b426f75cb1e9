//! Keys for Amazon Bedrock from the places that have to be asked for them: a role, an SSO session, a program, a container,
//! a machine. A server of this machine stands for each.

use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use common::{Answer, Ran, Recorded, Server, Site, Split, all, only};
use leftfold_events::Time;
use serde_json::{Value, json};

use super::wire_bedrock::{ReplyPart, bare, good, header, is_signed_for, refused, reply};

const REGION: &str = "eu-central-1";
const ROLE: &str = "arn:aws:iam::123456789012:role/dev";
const BASE_ID: &str = "AKIABASEEXAMPLE";
const BASE_SECRET: &str = "base-secret-0123456789";
const JWT: &str = "eyJhbGciOiJSUzI1NiJ9.web-identity-token";
const SSO_TOKEN: &str = "sso-access-token-0123456789";
const REFRESH: &str = "sso-refresh-token-0123456789";
const CLIENT_SECRET: &str = "sso-client-secret-0123456789";
const CONTAINER_TOKEN: &str = "container-token-0123456789";
const MACHINE_TOKEN: &str = "machine-token-0123456789==";

fn id(number: usize) -> String {
    format!("ASIATEMPORARY{number}")
}

fn secret(number: usize) -> String {
    format!("temporary-secret-0123456789-{number}")
}

fn token(number: usize) -> String {
    format!("temporary-token-0123456789-{number}")
}

/// A time such as `2026-11-25T20:00:00Z`, in this many seconds from now.
fn in_seconds(seconds: i64) -> String {
    let now = Time::from(std::time::SystemTime::now()).millis();
    let time = Time::from_millis(now.saturating_add_signed(seconds * 1_000)).to_string();
    format!("{}Z", time.split('.').next().unwrap())
}

/// Everything that gives keys. Each time they are others: see [`id`].
struct Amazon {
    server: Server,
}

impl Amazon {
    /// `lifetime`: of the keys, in seconds.
    fn start(lifetime: i64) -> Self {
        let count = AtomicUsize::new(0);
        let server = Server::answering(move |request| {
            let next = || count.fetch_add(1, Ordering::Relaxed) + 1;
            match answer(request, &next, lifetime) {
                Ok(answer) => answer,
                Err(why) => Answer::Status(
                    400,
                    Vec::new(),
                    json!({ "message": format!("unexpected: {why}") }).to_string(),
                ),
            }
        });
        Self { server }
    }

    fn url(&self) -> String {
        format!("http://{}", self.server.address())
    }

    fn lines(&self) -> Vec<String> {
        self.server.requests().into_iter().map(|request| request.line).collect()
    }
}

fn answer(request: &Recorded, next: &dyn Fn() -> usize, lifetime: i64) -> Result<Answer, String> {
    let fine = |body: String| Ok(Answer::Status(200, Vec::new(), body));
    let expect = |name: &str, value: &str| match header(request, name) {
        Some(found) if found == value => Ok(()),
        found => Err(format!("{name}: {found:?}")),
    };
    let text = String::from_utf8_lossy(&request.bytes).into_owned();
    let keys = |token_name: &str| {
        let number = next();
        json!({ "Code": "Success", "Type": "AWS-HMAC", "AccessKeyId": id(number),
            "SecretAccessKey": secret(number), token_name: token(number),
            "Expiration": in_seconds(lifetime) })
        .to_string()
    };
    let role = "arn%3Aaws%3Aiam%3A%3A123456789012%3Arole%2Fdev";
    match request.line.trim_end_matches(" HTTP/1.1") {
        "POST /" => {
            let (action, session) = ("Action=AssumeRole", "&RoleSessionName=leftfold");
            let signed =
                format!("{action}&Version=2011-06-15&RoleArn={role}{session}&ExternalId=e-1");
            let by_token = format!(
                "{action}WithWebIdentity&Version=2011-06-15&RoleArn={role}&RoleSessionName=robot&\
                 WebIdentityToken={JWT}"
            );
            if text == signed {
                if !is_signed_for("sts", request, BASE_SECRET, REGION) {
                    return Err("wrong signature".to_owned());
                }
            } else if text != by_token || header(request, "authorization").is_some() {
                return Err(text);
            }
            let number = next();
            let (id, secret, token) = (id(number), secret(number), token(number));
            let expires = in_seconds(lifetime);
            let keys = format!(
                "<Credentials><AccessKeyId>{id}</AccessKeyId><SecretAccessKey>{secret}</SecretAccessKey>\
                 <SessionToken>{token}</SessionToken><Expiration>{expires}</Expiration></Credentials>"
            );
            fine(format!(
                "<AssumeRoleResponse xmlns=\"https://sts.amazonaws.com/doc/2011-06-15/\">\n\
                 <AssumeRoleResult><AssumedRoleUser><Arn>a</Arn></AssumedRoleUser>{keys}\
                 </AssumeRoleResult></AssumeRoleResponse>"
            ))
        }
        "POST /token" => {
            let expected = json!({ "clientId": "client-1", "clientSecret": CLIENT_SECRET,
                "grantType": "refresh_token", "refreshToken": REFRESH });
            if request.body != expected {
                return Err(text);
            }
            fine(
                json!({ "accessToken": SSO_TOKEN, "expiresIn": 3_600, "tokenType": "Bearer",
                    "refreshToken": "sso-refresh-token-next" })
                .to_string(),
            )
        }
        "GET /federation/credentials?role_name=Dev&account_id=123456789012" => {
            expect("x-amz-sso_bearer_token", SSO_TOKEN)?;
            let number = next();
            let now = Time::from(std::time::SystemTime::now()).millis();
            let expires = now.saturating_add_signed(lifetime * 1_000);
            let keys = json!({ "accessKeyId": id(number), "secretAccessKey": secret(number),
                "sessionToken": token(number), "expiration": expires });
            fine(json!({ "roleCredentials": keys }).to_string())
        }
        "GET /container?x=1" => {
            expect("authorization", CONTAINER_TOKEN)?;
            fine(keys("Token"))
        }
        "PUT /latest/api/token" => {
            expect("x-aws-ec2-metadata-token-ttl-seconds", "300")?;
            fine(MACHINE_TOKEN.to_owned())
        }
        "GET /latest/meta-data/iam/security-credentials/" => {
            expect("x-aws-ec2-metadata-token", MACHINE_TOKEN)?;
            fine("machine role\n".to_owned())
        }
        "GET /latest/meta-data/iam/security-credentials/machine%20role" => {
            expect("x-aws-ec2-metadata-token", MACHINE_TOKEN)?;
            fine(keys("Token"))
        }
        line => Err(line.to_owned()),
    }
}

/// Bedrock, which accepts the keys of [`Amazon`]. The keys of each request are known by their number afterwards.
struct Bedrock {
    server: Server,
}

impl Bedrock {
    /// It gives `answers` in their order.
    fn start(answers: Vec<Answer>) -> Self {
        let answers = std::sync::Mutex::new(answers.into_iter());
        let server = Server::answering(move |request| {
            let number = number(request);
            if !is_signed_for("bedrock", request, &secret(number), REGION) {
                return refused(403, "InvalidSignatureException", "The signature does not match");
            }
            answers.lock().unwrap().next().expect("an answer")
        });
        Self { server }
    }

    fn numbers(&self) -> Vec<usize> {
        self.server.requests().iter().map(number).collect()
    }
}

fn number(request: &Recorded) -> usize {
    let token = header(request, "x-amz-security-token").unwrap_or_default();
    token.rsplit('-').next().unwrap().parse().unwrap_or_default()
}

fn reads() -> Answer {
    Answer::Bytes(reply(&[ReplyPart::Read("t1", "a.txt")]), Split::Whole)
}

/// A site whose profile `dev` has these settings.
fn site(bedrock: &Server, amazon: &Amazon, profile: &str) -> Site {
    let site = bare(bedrock)
        .setting("provider/amazon-bedrock/options/region", json!(REGION))
        .env("AWS_ENDPOINT_URL_STS", amazon.url())
        .env("AWS_ENDPOINT_URL_SSO", amazon.url())
        .env("AWS_ENDPOINT_URL_SSO_OIDC", amazon.url());
    site.file("a.txt", "text of a\n");
    let folder = site.path("user/.aws");
    std::fs::create_dir_all(&folder).unwrap();
    let config = format!(
        "[profile dev]\n{profile}\n[profile base]\naws_access_key_id = {BASE_ID}\n\
         aws_secret_access_key = {BASE_SECRET}\n[sso-session corp]\nsso_region = {REGION}\n\
         sso_start_url = https://corp.example/start\n"
    );
    std::fs::write(folder.join("config"), config).unwrap();
    site
}

fn assumes() -> String {
    format!("role_arn = {ROLE}\nsource_profile = base\nexternal_id = e-1")
}

const OF_SSO: &str = "sso_session = corp\nsso_account_id = 123456789012\nsso_role_name = Dev";

/// The file with the token of the session `corp`.
fn sso_file(site: &Site) -> PathBuf {
    site.path("user/.aws/sso/cache/ee0bfd2552fbd840c02cc48b6e823320543c450f.json")
}

fn sign_in(site: &Site, expires: &str, more: &Value) {
    let mut token = json!({ "startUrl": "https://corp.example/start", "region": REGION,
        "accessToken": SSO_TOKEN, "expiresAt": expires });
    token.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    let path = sso_file(site);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, token.to_string()).unwrap();
}

fn refreshable() -> Value {
    json!({ "clientId": "client-1", "clientSecret": CLIENT_SECRET, "refreshToken": REFRESH,
        "registrationExpiresAt": in_seconds(86_400) })
}

/// Nothing that a turn leaves has one of the keys or tokens.
fn assert_hidden(site: &Site, ran: &Ran) {
    let secrets = [BASE_ID, BASE_SECRET, JWT, SSO_TOKEN, REFRESH, CLIENT_SECRET, CONTAINER_TOKEN]
        .map(str::to_owned);
    let temporary =
        [1, 2].into_iter().flat_map(|number| [id(number), secret(number), token(number)]);
    let secrets: Vec<String> = secrets.into_iter().chain(temporary).collect();
    let found = |text: &str| secrets.iter().find(|secret| text.contains(secret.as_str()));
    for text in [&ran.stdout, &ran.stderr] {
        assert_eq!(found(text), None, "{text}");
    }
    let mut rest = vec![site.path("home")];
    while let Some(path) = rest.pop() {
        if path.is_dir() {
            rest.extend(std::fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path()));
            continue;
        }
        let bytes = std::fs::read(&path).unwrap();
        assert_eq!(found(&String::from_utf8_lossy(&bytes)), None, "{}", path.display());
    }
}

/// A turn with two requests; the keys are got once. Returns what `doctor` says.
fn turn(site: &Site, amazon: &Amazon, bedrock: &Bedrock, asked: &[&str]) -> String {
    let ran = site.prompt("Read it").ok();
    assert_eq!(bedrock.numbers(), [1, 1]);
    assert_eq!(
        amazon.lines(),
        asked.iter().map(|line| format!("{line} HTTP/1.1")).collect::<Vec<_>>()
    );
    assert_hidden(site, &ran);
    site.assert_sound();
    let doctor = site.run(&["doctor"]).stdout;
    assert_eq!(amazon.lines().len(), asked.len(), "doctor asks nobody");
    doctor
}

fn start(lifetime: i64) -> (Amazon, Bedrock) {
    (Amazon::start(lifetime), Bedrock::start(vec![reads(), good("Done.")]))
}

#[test]
fn a_role_is_assumed_with_the_keys_of_another_profile() {
    let (amazon, bedrock) = start(3_600);
    let site = site(&bedrock.server, &amazon, &assumes()).env("AWS_PROFILE", "dev");
    let doctor = turn(&site, &amazon, &bedrock, &["POST /"]);
    let words = format!("amazon-bedrock: the role {ROLE}, assumed with the profile `base` in ");
    assert!(doctor.contains(&words), "{doctor}");
}

#[test]
fn a_token_in_a_file_stands_for_a_role() {
    let (amazon, bedrock) = start(3_600);
    let site = site(&bedrock.server, &amazon, "");
    let path = site.path("token");
    std::fs::write(&path, format!("{JWT}\n")).unwrap();
    let site = site
        .env("AWS_ROLE_ARN", ROLE)
        .env("AWS_ROLE_SESSION_NAME", "robot")
        .env("AWS_WEB_IDENTITY_TOKEN_FILE", path.display().to_string());
    let doctor = turn(&site, &amazon, &bedrock, &["POST /"]);
    assert!(doctor.contains(&format!("the role {ROLE}, with the token in ")), "{doctor}");
}

#[test]
fn an_sso_session_gives_keys() {
    let (amazon, bedrock) = start(3_600);
    let site = site(&bedrock.server, &amazon, OF_SSO).env("AWS_PROFILE", "dev");
    sign_in(&site, &in_seconds(3_600), &json!({}));
    let portal = "GET /federation/credentials?role_name=Dev&account_id=123456789012";
    let doctor = turn(&site, &amazon, &bedrock, &[portal]);
    let words = "SSO of the profile `dev` (account 123456789012, role Dev), until 2";
    assert!(doctor.contains(words), "{doctor}");
}

#[test]
fn the_token_of_an_sso_session_is_refreshed_where_others_find_it() {
    let (amazon, bedrock) = start(3_600);
    let site = site(&bedrock.server, &amazon, OF_SSO).env("AWS_PROFILE", "dev");
    sign_in(&site, &in_seconds(-60), &refreshable());
    let doctor = site.run(&["doctor"]).stdout;
    assert!(doctor.contains("role Dev), to be refreshed;"), "{doctor}");
    let file = sso_file(&site);
    let portal = "GET /federation/credentials?role_name=Dev&account_id=123456789012";
    let ran = site.prompt("Read it").ok();
    assert_eq!(amazon.lines(), ["POST /token HTTP/1.1".to_owned(), format!("{portal} HTTP/1.1")]);
    assert_hidden(&site, &ran);
    let stored: Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
    assert_eq!(stored["accessToken"], SSO_TOKEN);
    assert_eq!(stored["refreshToken"], "sso-refresh-token-next");
    assert_eq!(stored["startUrl"], "https://corp.example/start");
    assert!(stored["expiresAt"].as_str().unwrap() > in_seconds(3_000).as_str(), "{stored}");
    assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(std::fs::read_dir(file.parent().unwrap()).unwrap().count(), 1);
}

#[test]
fn a_session_that_is_over_says_how_to_sign_in_again() {
    let (amazon, bedrock) = start(3_600);
    let over = |site: Site, why: &str| {
        let words = format!(
            "the SSO session of the AWS profile `dev` {why}: run `aws sso login --profile dev`"
        );
        let events = site.prompt("Hi").with(1).events();
        let failed = &only(&events, "model.failed")["data"];
        assert_eq!(failed["class"], "auth");
        assert!(failed["message"].as_str().unwrap().contains(&words), "{failed}");
        words
    };
    let of_sso = || site(&bedrock.server, &amazon, OF_SSO).env("AWS_PROFILE", "dev");
    over(of_sso(), "has no token on this machine");
    let ended = in_seconds(-60);
    let said = ended.replace('Z', ".000Z");
    let with = |more: &Value| {
        let site = of_sso();
        sign_in(&site, &ended, more);
        site
    };
    let words = over(with(&json!({})), &format!("has ended at {said}"));
    let doctor = with(&json!({})).run(&["doctor"]).stdout;
    assert!(doctor.contains(&words), "{doctor}");
    // the server refuses the refresh token
    let mut wrong = refreshable();
    wrong["refreshToken"] = json!("sso-refresh-token-of-another");
    over(with(&wrong), &format!("has ended at {said}"));
    assert_eq!(amazon.lines(), ["POST /token HTTP/1.1"]);
    assert!(bedrock.server.requests().is_empty());
}

/// A program that prints keys, in the folder of AWS.
fn keys_program(site: &Site, more: &str) {
    let keys = json!({ "Version": 1, "AccessKeyId": id(1), "SecretAccessKey": secret(1),
        "SessionToken": token(1), "Expiration": in_seconds(3_600) });
    let script = format!("{more}\ncat <<'E'\n{keys}\nE\n");
    std::fs::write(site.path("user/.aws/keys.sh"), script).unwrap();
}

#[test]
fn a_program_of_the_users_gives_keys() {
    let (amazon, bedrock) = start(3_600);
    let process = "credential_process = sh .aws/keys.sh \"a b\" # comment";
    let site = site(&bedrock.server, &amazon, process)
        .env("AWS_PROFILE", "dev")
        .env("ANTHROPIC_API_KEY", "sk-ant-0123456789");
    keys_program(&site, "test \"$1\" = 'a b' && test -z \"$ANTHROPIC_API_KEY\" || exit 3");
    // a file of the project with the same name is not meant
    site.file_of_stranger(".aws/keys.sh", "exit 9");
    let doctor = turn(&site, &amazon, &bedrock, &[]);
    assert!(doctor.contains("the `credential_process` of the profile `dev`; region"), "{doctor}");
}

#[test]
fn a_program_that_fails_is_named_without_its_output() {
    let (amazon, bedrock) = start(3_600);
    for (script, words) in [
        ("echo temporary-secret-0123456789-1 >&2; exit 7", "failed (exit status: 7): run it"),
        ("echo '{\"Version\":2}'; exit", "did not print JSON with \"Version\": 1"),
        ("echo '{\"Version\":1}'; exit", "gave no keys that can be used"),
        ("head -c 100000000 /dev/zero; exit", "the `credential_process` of the profile `dev`"),
    ] {
        let site = site(&bedrock.server, &amazon, "credential_process = sh .aws/keys.sh")
            .env("AWS_PROFILE", "dev");
        keys_program(&site, script);
        let ran = site.prompt("Hi").with(1);
        let events = ran.events();
        let message = only(&events, "model.failed")["data"]["message"].as_str().unwrap().to_owned();
        assert!(message.contains(words), "{message}");
        assert_hidden(&site, &ran);
    }
    assert!(bedrock.server.requests().is_empty());
}

/// A model can write a file of the project, also one that a variable names.
#[test]
fn a_program_that_another_file_names_does_not_run() {
    let (amazon, bedrock) = start(3_600);
    let site = site(&bedrock.server, &amazon, "");
    let config = "[profile dev]\ncredential_process = touch hacked\n";
    let path = site.file_of_stranger("aws-config", config).display().to_string();
    let site = site.env("AWS_PROFILE", "dev").env("AWS_CONFIG_FILE", path);
    let events = site.prompt("Hi").with(1).events();
    let failed = &only(&events, "model.failed")["data"];
    let message = failed["message"].as_str().unwrap();
    assert!(message.contains("Leftfold runs only one in ~/.aws/config"), "{message}");
    for folder in [site.project(), site.path("user")] {
        assert!(!folder.join("hacked").exists());
    }
    let doctor = site.run(&["doctor"]).stdout;
    assert!(doctor.contains("Leftfold runs only one in ~/.aws/config"), "{doctor}");
}

#[test]
fn a_container_and_a_machine_give_the_keys_of_their_role() {
    let (amazon, bedrock) = start(3_600);
    let site_of = |bedrock: &Bedrock, amazon: &Amazon| site(&bedrock.server, amazon, "");
    let site = site_of(&bedrock, &amazon);
    let path = site.path("container-token");
    std::fs::write(&path, CONTAINER_TOKEN).unwrap();
    let site = site
        .env("AWS_CONTAINER_CREDENTIALS_FULL_URI", format!("{}/container?x=1", amazon.url()))
        .env("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", path.display().to_string());
    let doctor = turn(&site, &amazon, &bedrock, &["GET /container?x=1"]);
    assert!(doctor.contains("the container's server at 127.0.0.1:"), "{doctor}");

    let (amazon, bedrock) = start(3_600);
    let site = site_of(&bedrock, &amazon).env("AWS_EC2_METADATA_SERVICE_ENDPOINT", amazon.url());
    let roles = "GET /latest/meta-data/iam/security-credentials/";
    let asked = ["PUT /latest/api/token", roles, &format!("{roles}machine%20role")];
    let doctor = turn(&site, &amazon, &bedrock, &asked);
    assert!(doctor.contains("the role of this machine, from 127.0.0.1:"), "{doctor}");
}

#[test]
fn keys_are_got_anew_when_they_end_and_when_they_are_revoked() {
    // keys that are over at once are used for one request
    let (amazon, bedrock) = start(0);
    let site_of = |bedrock: &Bedrock, amazon: &Amazon| {
        site(&bedrock.server, amazon, &assumes()).env("AWS_PROFILE", "dev")
    };
    site_of(&bedrock, &amazon).prompt("Read it").ok();
    assert_eq!(bedrock.numbers(), [1, 2]);

    let expired = || refused(403, "ExpiredTokenException", "The security token is expired");
    let amazon = Amazon::start(3_600);
    let bedrock = Bedrock::start(vec![reads(), expired(), good("Done.")]);
    let events = site_of(&bedrock, &amazon).prompt("Read it").ok().events();
    assert_eq!(only(&events, "model.failed")["data"]["class"], "auth");
    assert_eq!(bedrock.numbers(), [1, 1, 2]);

    // keys that were never accepted are not asked for again
    let amazon = Amazon::start(3_600);
    let bedrock = Bedrock::start(vec![expired()]);
    site_of(&bedrock, &amazon).prompt("Hi").with(1);
    assert_eq!(bedrock.numbers(), [1]);
}

#[test]
fn a_server_of_keys_that_refuses_or_is_down_fails_the_request() {
    let bedrock = Bedrock::start(vec![]);
    let denied = "<ErrorResponse xmlns=\"x\"><Error><Type>Sender</Type><Code>AccessDenied</Code>\
        <Message>User: arn:aws:iam::1:user/a is not &quot;authorized&quot; (base-secret-0123456789)\
        </Message></Error></ErrorResponse>";
    let entity = "<!DOCTYPE a [<!ENTITY b \"cc\">]><a><Code>&b;</Code></a>";
    for (status, body, class, requests, words) in [
        (403, denied, "auth", 1, "AccessDenied: User: arn:aws:iam::1:user/a is not \"authorized\""),
        (403, entity, "auth", 1, "403 Forbidden: a web page"),
        (200, "<a/>", "auth", 1, "has no keys that can be used"),
        (302, "", "auth", 1, "answered 302"),
        (503, "<html>down</html>", "overloaded", 4, "503 Service Unavailable: a web page"),
    ] {
        let count = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&count);
        let server = Server::answering(move |_| {
            counted.fetch_add(1, Ordering::Relaxed);
            Answer::Status(status, Vec::new(), body.to_owned())
        });
        let site = site(&bedrock.server, &Amazon { server }, &assumes()).env("AWS_PROFILE", "dev");
        let ran = site.prompt("Hi").with(1);
        let events = ran.events();
        let failed = all(&events, "model.failed");
        let data = &failed[0]["data"];
        let message = data["message"].as_str().unwrap();
        assert_eq!((&data["class"], failed.len()), (&json!(class), requests), "{message}");
        assert!(message.starts_with("no AWS keys: ") && message.contains(words), "{message}");
        assert_hidden(&site, &ran);
    }
    assert!(bedrock.server.requests().is_empty());
}
