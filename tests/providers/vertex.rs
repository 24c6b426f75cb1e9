//! Turns at Google Vertex AI: servers of this machine stand for the API, for the endpoint of tokens and for the metadata
//! server.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD as BASE64;
use common::{Answer, Block, Recorded, Server, Site, Split, all, end, message, only};
use ring::signature::{RSA_PKCS1_2048_8192_SHA256, UnparsedPublicKey};
use serde_json::{Value, json};

use super::{ARRIVALS, AT_ONCE, Arrival};

const KEY: &str = include_str!("../../providers/tests/google_cloud/key.pem");
const PUBLIC_KEY: &[u8] = include_bytes!("../../providers/tests/google_cloud/public_key.der");
pub(super) const EMAIL: &str = "robot@shop.iam.gserviceaccount.com";
const PROJECT: &str = "projects/shop/locations/eu/publishers";

/// An endpoint of tokens. Each request gets another token: `ya29.test-token-1`, `ya29.test-token-2`, …
struct Tokens {
    server: Server,
}

impl Tokens {
    fn start(lifetime: u64) -> Self {
        let count = AtomicUsize::new(0);
        let server = Server::answering(move |request| {
            if let Err(why) = check(request) {
                let error = json!({ "error": "invalid_request", "error_description": why });
                return Answer::Status(400, Vec::new(), error.to_string());
            }
            let number = count.fetch_add(1, Ordering::Relaxed) + 1;
            let token = json!({ "access_token": token(number), "expires_in": lifetime,
                "token_type": "Bearer" });
            Answer::Status(200, Vec::new(), token.to_string())
        });
        Self { server }
    }

    fn uri(&self) -> String {
        format!("http://{}/token", self.server.address())
    }

    fn asked(&self) -> usize {
        self.server.requests().len()
    }
}

fn token(number: usize) -> String {
    format!("ya29.test-token-{number}")
}

/// Whether a request for a token is one that Google would answer.
fn check(request: &Recorded) -> Result<(), String> {
    let has = |header: &str| request.headers.iter().any(|known| known == header);
    if request.line == "GET /computeMetadata/v1/instance/service-accounts/default/token HTTP/1.1" {
        return if has("metadata-flavor: Google") { Ok(()) } else { Err("no flavor".to_owned()) };
    }
    if request.line != "POST /token HTTP/1.1"
        || !has("content-type: application/x-www-form-urlencoded")
    {
        return Err(format!("unexpected: {}", request.line));
    }
    let form = String::from_utf8(request.bytes.clone()).unwrap().replace("%3A", ":");
    let form = form.replace("%2F", "/");
    let claim = "grant_type=urn:ietf:params:oauth:grant-type:jwt-bearer&assertion=";
    if let Some(assertion) = form.strip_prefix(claim) {
        return check_claim(assertion, &request.headers);
    }
    let expected = "grant_type=refresh_token&client_id=c.apps.googleusercontent.com&\
                    client_secret=client-secret-1&refresh_token=1//refresh-token-1";
    if form == expected { Ok(()) } else { Err("wrong form".to_owned()) }
}

fn check_claim(assertion: &str, headers: &[String]) -> Result<(), String> {
    let (signed, signature) = assertion.rsplit_once('.').ok_or("no signature")?;
    let signature = BASE64.decode(signature).map_err(|error| error.to_string())?;
    UnparsedPublicKey::new(&RSA_PKCS1_2048_8192_SHA256, PUBLIC_KEY)
        .verify(signed.as_bytes(), &signature)
        .map_err(|_| "wrong signature")?;
    let json = |part: &str| -> Value {
        serde_json::from_slice(&BASE64.decode(part).unwrap_or_default()).unwrap_or_default()
    };
    let (header, claims) = signed.split_once('.').ok_or("no claims")?;
    if json(header) != json!({ "alg": "RS256", "typ": "JWT", "kid": "key-1" }) {
        return Err(format!("header {}", json(header)));
    }
    let claims = json(claims);
    let host = headers.iter().find_map(|header| header.strip_prefix("host: ")).unwrap_or_default();
    let from = claims["iat"].as_u64().unwrap_or_default();
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs();
    let is_right = claims["iss"] == EMAIL
        && claims["scope"] == "https://www.googleapis.com/auth/cloud-platform"
        && claims["aud"] == format!("http://{host}/token")
        && claims["exp"] == from + 3_600
        && from.abs_diff(now) < 300;
    if is_right { Ok(()) } else { Err(format!("claims {claims}")) }
}

fn key_file(site: &Site, token_uri: &str) -> String {
    let key = json!({ "type": "service_account", "project_id": "shop", "private_key_id": "key-1",
        "private_key": KEY, "client_email": EMAIL, "token_uri": token_uri });
    let path = site.path("key.json");
    std::fs::write(&path, key.to_string()).unwrap();
    path.display().to_string()
}

/// A site with both providers of Vertex AI at `server`, and without credentials.
pub(super) fn site(server: &Server) -> Site {
    let base = format!("http://{}/v1/{PROJECT}", server.address());
    Site::bare()
        .setting("title", json!(false))
        .setting("retry", json!({ "attempts": 1 }))
        .setting("model", json!("google-vertex/gemini-3.8-flash"))
        .setting(
            "provider/google-vertex/options",
            json!({ "project": "shop", "location": "eu", "baseURL": format!("{base}/google") }),
        )
        .setting(
            "provider/google-vertex-anthropic/options",
            json!({ "baseURL": format!("{base}/anthropic/models") }),
        )
}

fn site_with_key(server: &Server, token_uri: &str) -> Site {
    let site = site(server);
    let path = key_file(&site, token_uri);
    site.env("GOOGLE_APPLICATION_CREDENTIALS", path)
}

fn gemini(parts: &Value) -> String {
    let usage = json!({ "promptTokenCount": 11, "candidatesTokenCount": 5, "totalTokenCount": 16,
        "trafficType": "ON_DEMAND" });
    let content = json!({ "role": "model", "parts": parts });
    let first = json!({ "candidates": [{ "content": content }],
        "usageMetadata": { "trafficType": "ON_DEMAND" } });
    let last = json!({ "candidates": [{ "finishReason": "STOP" }], "usageMetadata": usage });
    format!("data: {first}\n\ndata: {last}\n\n")
}

pub(super) fn says(text: &str) -> Answer {
    Answer::Stream(gemini(&json!([{ "text": text }])), Split::Whole)
}

pub(super) fn reads(path: &str) -> Answer {
    let call = json!({ "name": "read", "args": { "filePath": path } });
    Answer::Stream(gemini(&json!([{ "functionCall": call }])), Split::Whole)
}

fn failing(code: u16, status: &str, message: &str) -> Answer {
    let error = json!([{ "error": { "code": code, "status": status, "message": message } }]);
    Answer::Status(code, Vec::new(), error.to_string())
}

pub(super) fn bearers(server: &Server) -> Vec<String> {
    let bearer = |request: Recorded| {
        let found =
            request.headers.iter().find_map(|header| header.strip_prefix("authorization: "));
        found.unwrap_or("none").to_owned()
    };
    server.requests().into_iter().map(bearer).collect()
}

/// A turn with a call, at one of the two providers.
fn tool_turn(
    model: &str,
    replies: &[String; 2],
    (ending, split): Arrival,
) -> (Site, Server, Tokens) {
    let answers = replies.iter().map(|reply| Answer::Stream(ending(reply), split)).collect();
    let (server, tokens) = (Server::start(answers), Tokens::start(3_600));
    let site = site_with_key(&server, &tokens.uri());
    site.file("größe.txt", "Sie ist klein 🐁.\n");
    let ran = site.run(&["run", "--format", "json", "--model", model, "Mach sie größer"]).ok();
    let events = ran.events();
    assert_eq!(end(&events)["text"], "Fertig 🐘", "{split:?}");
    let read = all(&events, "tool.finished")[0];
    assert!(read["data"]["output"].as_str().unwrap().contains("klein 🐁"), "{split:?}");
    assert_eq!(tokens.asked(), 1);
    let bearer = format!("Bearer {}", token(1));
    assert_eq!(bearers(&server), [bearer.clone(), bearer]);
    site.assert_sound();
    (site, server, tokens)
}

fn gemini_turn(arrival: Arrival) -> (Site, Server, Tokens) {
    let call = json!({ "name": "read", "args": { "filePath": "größe.txt" } });
    let replies = [
        gemini(&json!([{ "text": "Ich lese: «ä€𝄞»." }, { "functionCall": call }])),
        gemini(&json!([{ "text": "Fertig 🐘" }])),
    ];
    tool_turn("google-vertex/gemini-3.8-flash", &replies, arrival)
}

fn claude_turn(arrival: Arrival) -> (Site, Server, Tokens) {
    let replies = [
        message(&[
            Block::Thinking("Zuerst lesen – 👀", "c2lnbmF0dXJl"),
            Block::Call("toolu_vrtx_1", "read", json!({ "filePath": "größe.txt" }).to_string()),
        ]),
        message(&[Block::Text("Fertig 🐘")]),
    ];
    let unknown = "event: vertex_event\ndata: {\"type\":\"vertex_event\",\"n\":1}\n\n";
    let replies = replies.map(|reply| format!("{unknown}{reply}"));
    tool_turn("google-vertex-anthropic/claude-sonnet-4-5@20250929", &replies, arrival)
}

#[test]
fn a_tool_turn_with_gemini_is_the_same_however_the_bytes_arrive() {
    for arrival in ARRIVALS {
        gemini_turn(arrival);
    }
}

#[test]
fn a_tool_turn_with_claude_is_the_same_however_the_bytes_arrive() {
    for arrival in ARRIVALS {
        claude_turn(arrival);
    }
}

#[test]
fn requests_have_the_shape_that_vertex_accepts() {
    let (_site, server, _tokens) = gemini_turn(AT_ONCE);
    for request in server.requests() {
        let path = "google/models/gemini-3.8-flash:streamGenerateContent?alt=sse";
        assert_eq!(request.line, format!("POST /v1/{PROJECT}/{path} HTTP/1.1"));
        assert!(request.body["contents"][0]["role"] == "user", "{}", request.body);
        assert!(!request.headers.iter().any(|header| header.starts_with("x-goog-api-key")));
    }
    let (site, server, _tokens) = claude_turn(AT_ONCE);
    for request in server.requests() {
        let path = "anthropic/models/claude-sonnet-4-5@20250929:streamRawPredict";
        assert_eq!(request.line, format!("POST /v1/{PROJECT}/{path} HTTP/1.1"));
        let body = &request.body;
        assert_eq!(
            (&body["anthropic_version"], &body["stream"]),
            (&json!("vertex-2023-10-16"), &json!(true))
        );
        assert_eq!(body.get("model"), None);
        assert!(!request.headers.iter().any(|header| header.starts_with("anthropic-version")));
        assert!(!request.headers.iter().any(|header| header.starts_with("x-api-key")));
    }
    // a log is enough to make the body again
    let session = site.session().file_name().unwrap().to_string_lossy().into_owned();
    let requested = only_first(&site, "model.requested");
    let shown = site.run(&["explain", &session, "--request", &requested, "--wire"]).ok();
    assert!(shown.stdout.contains("vertex-2023-10-16"), "{}", shown.stdout);
}

/// The number of the first event of this kind.
fn only_first(site: &Site, kind: &str) -> String {
    let events = site.exported();
    all(&events, kind)[0]["seq"].to_string()
}

#[test]
fn no_token_and_no_key_of_an_account_gets_into_a_log() {
    let server = Server::start(vec![reads("leak.txt"), says("Done.")]);
    let tokens = Tokens::start(3_600);
    let site = site_with_key(&server, &tokens.uri());
    let body: String = KEY.lines().skip(1).take(20).collect::<Vec<_>>().join("\n");
    site.file("leak.txt", format!("{}\n{body}\n", token(1)));
    let ran = site.prompt("Read it").ok();
    let sent = server.requests()[1].body.to_string();
    let line = KEY.lines().nth(5).unwrap();
    for text in
        [ran.stdout.as_str(), ran.stderr.as_str(), &sent, &json!(site.exported()).to_string()]
    {
        assert!(!text.contains(&token(1)), "{text}");
        assert!(!text.contains(line), "{text}");
    }
    assert!(ran.stdout.contains("{{secret:"), "{}", ran.stdout);
}

#[test]
fn a_token_is_replaced_when_it_ends_and_when_it_is_revoked() {
    // a token that is over at once is used for one request
    let server = Server::start(vec![reads("b.txt"), says("Done.")]);
    let tokens = Tokens::start(0);
    let site = site_with_key(&server, &tokens.uri());
    site.file("b.txt", "b\n");
    site.prompt("Read it").ok();
    assert_eq!(bearers(&server), [1, 2].map(|number| format!("Bearer {}", token(number))));

    let revoked =
        || failing(401, "UNAUTHENTICATED", "Request had invalid authentication credentials.");
    let server = Server::start(vec![reads("b.txt"), revoked(), says("Done.")]);
    let tokens = Tokens::start(3_600);
    let site = site_with_key(&server, &tokens.uri());
    site.file("b.txt", "b\n");
    let events = site.prompt("Read it").ok().events();
    assert_eq!(only(&events, "model.failed")["data"]["class"], "auth");
    assert_eq!(bearers(&server), [1, 1, 2].map(|number| format!("Bearer {}", token(number))));

    // one that was never accepted is not asked for again
    let server = Server::start(vec![revoked(), says("never")]);
    let tokens = Tokens::start(3_600);
    let ran = site_with_key(&server, &tokens.uri()).prompt("Hi").with(1);
    let events = ran.events();
    let failed = only(&events, "model.failed");
    let message = failed["data"]["message"].as_str().unwrap();
    assert!(message.contains("`leftfold doctor` says where they come from"), "{message}");
    assert_eq!(server.requests().len(), 1);
}

#[test]
fn an_endpoint_of_tokens_that_refuses_or_is_down_fails_the_request() {
    let refuse = |status, body: &str| {
        let body = body.to_owned();
        Server::answering(move |_| Answer::Status(status, Vec::new(), body.clone()))
    };
    let grant = r#"{"error":"invalid_grant","error_description":"Invalid JWT Signature."}"#;
    for (tokens, class, requests, words) in [
        (refuse(400, grant), "auth", 1, "invalid_grant: Invalid JWT Signature.; it has expired"),
        (refuse(200, r#"{"id_token":"x"}"#), "auth", 1, "answered 200 OK: no reason"),
        (refuse(503, "<html>down</html>"), "overloaded", 2, "503 Service Unavailable: a web page"),
        (refuse(302, ""), "auth", 1, "answered 302"),
    ] {
        let server = Server::start(vec![says("never")]);
        let uri = format!("http://{}/token", tokens.address());
        let events = site_with_key(&server, &uri).prompt("Hi").with(1).events();
        let failed = all(&events, "model.failed");
        let data = &failed[0]["data"];
        let message = data["message"].as_str().unwrap();
        assert_eq!(
            (&data["class"], tokens.requests().len()),
            (&json!(class), requests),
            "{message}"
        );
        assert!(message.contains(words), "{message}");
        assert!(server.requests().is_empty());
    }
    // nothing listens there
    let uri = "http://127.0.0.1:1/token";
    let server = Server::start(vec![says("never")]);
    let events = site_with_key(&server, uri).prompt("Hi").with(1).events();
    let failed = all(&events, "model.failed");
    assert_eq!((failed.len(), &failed[0]["data"]["class"]), (2, &json!("network")));
}

#[test]
fn a_sign_in_of_gcloud_and_the_metadata_server_work_too() {
    let (server, tokens) = (Server::start(vec![says("Hi.")]), Tokens::start(3_600));
    let site = site(&server);
    let folder = site.path("user/.config/gcloud");
    std::fs::create_dir_all(&folder).unwrap();
    let user = json!({ "type": "authorized_user", "client_id": "c.apps.googleusercontent.com",
        "client_secret": "client-secret-1", "refresh_token": "1//refresh-token-1",
        "quota_project_id": "shop", "token_uri": tokens.uri() });
    std::fs::write(folder.join("application_default_credentials.json"), user.to_string()).unwrap();
    site.prompt("Hi").ok();
    assert_eq!(bearers(&server), [format!("Bearer {}", token(1))]);

    let (server, tokens) = (Server::start(vec![says("Hi.")]), Tokens::start(3_600));
    let host = tokens.server.address().to_string();
    self::site(&server).env("GCE_METADATA_HOST", host).prompt("Hi").ok();
    assert_eq!(bearers(&server), [format!("Bearer {}", token(1))]);
}

#[test]
fn a_key_or_a_header_of_settings_is_used_instead() {
    let server = Server::start(vec![says("Hi."), says("Hi.")]);
    let express = site(&server).env("GOOGLE_VERTEX_API_KEY", "express-key-0123456789");
    express.prompt("Hi").ok();
    let headers = server.requests()[0].headers.clone();
    assert!(headers.contains(&"x-goog-api-key: express-key-0123456789".to_owned()), "{headers:?}");
    site(&server)
        .setting(
            "provider/google-vertex/options/headers",
            json!({ "Authorization": "Bearer by-settings-0123456789" }),
        )
        .env("GOOGLE_APPLICATION_CREDENTIALS", "/no/such/file")
        .prompt("Hi")
        .ok();
    assert_eq!(bearers(&server), ["none", "Bearer by-settings-0123456789"]);
}

/// The address that a request goes to, as a proxy sees it.
fn host_of(site: Site) -> String {
    let asked = Arc::new(std::sync::Mutex::new(String::new()));
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let proxy = format!("http://{}", listener.local_addr().unwrap());
    let heard = Arc::clone(&asked);
    std::thread::spawn(move || {
        use std::io::BufRead;
        for stream in listener.incoming() {
            let mut line = String::new();
            let _ = std::io::BufReader::new(stream.unwrap()).read_line(&mut line);
            *heard.lock().unwrap() = line;
        }
    });
    site.setting("retry", json!({ "attempts": 0 })).env("HTTPS_PROXY", proxy).prompt("Hi").with(1);
    asked.lock().unwrap().trim().to_owned()
}

#[test]
fn without_a_base_url_requests_go_to_the_host_of_the_location() {
    for (model, location, host) in [
        ("google-vertex/gemini-3.8-flash", None, "aiplatform.googleapis.com"),
        ("google-vertex/gemini-3.8-flash", Some("us"), "aiplatform.us.rep.googleapis.com"),
        (
            "google-vertex-anthropic/claude-opus-5",
            Some("europe-west1"),
            "europe-west1-aiplatform.googleapis.com",
        ),
    ] {
        let tokens = Tokens::start(3_600);
        let site = Site::bare().setting("model", json!(model)).setting("title", json!(false));
        let path = key_file(&site, &tokens.uri());
        let site = site.env("GOOGLE_APPLICATION_CREDENTIALS", path).env("GCLOUD_PROJECT", "shop");
        let site = match location {
            Some(location) => site.env("VERTEX_LOCATION", location),
            None => site,
        };
        assert_eq!(host_of(site), format!("CONNECT {host}:443 HTTP/1.1"));
    }
}

#[test]
fn what_is_missing_is_said() {
    let vertex = || Site::bare().setting("model", json!("google-vertex/gemini-3.8-flash"));
    let no_project = vertex().prompt("Hi").with(2);
    let words = "provider `google-vertex` has no `project`";
    assert!(no_project.stderr.contains(words), "{}", no_project.stderr);

    let site = vertex().setting("provider/google-vertex/options/location", json!("evil.example/x"));
    let ran = site.env("GOOGLE_CLOUD_PROJECT", "shop").prompt("Hi").with(2);
    assert!(
        ran.stderr.contains("options.location` cannot be part of an address"),
        "{}",
        ran.stderr
    );

    let site = vertex().env("GOOGLE_CLOUD_PROJECT", "shop").setting("title", json!(false));
    let events = site.prompt("Hi").with(1).events();
    let message = only(&events, "model.failed")["data"]["message"].as_str().unwrap().to_owned();
    assert!(message.contains("run `gcloud auth application-default login`"), "{message}");

    let doctor = |site: &Site| site.run(&["doctor"]).stdout;
    assert!(
        doctor(&site).contains("google-vertex: no credentials of Google Cloud"),
        "{}",
        doctor(&site)
    );
    let path = key_file(&site, "https://other.example/token");
    let site = site.env("GOOGLE_APPLICATION_CREDENTIALS", path);
    assert!(doctor(&site).contains("`token_uri`: expected an https address"), "{}", doctor(&site));
    key_file(&site, "https://oauth2.googleapis.com/token");
    assert!(doctor(&site).contains(&format!("service account {EMAIL}")), "{}", doctor(&site));
}
