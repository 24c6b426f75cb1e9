//! An MCP server that requires its users to sign in, and the authorization server that it trusts.
//! Both run in a thread that speaks HTTP.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

use super::mcp;

const ID: &str = "client-1";
const SECRET: &str = "secret-0123456789";

/// Lifetime of a token in seconds. Below half a minute it is refreshed at every start.
pub const SHORT: u64 = 5;
pub const LONG: u64 = 3_600;

#[derive(Clone)]
pub struct Guarded {
    pub url: String,
    state: Arc<Mutex<State>>,
    lifetime: u64,
}

#[derive(Default)]
struct State {
    /// The requests and their credentials, in order: `GET /authorize?…`, `POST /token …`.
    asked: Vec<String>,
    /// The valid token, and its scopes.
    token: String,
    scopes: String,
    /// Number of tokens granted, and the refresh token.
    grants: usize,
}

struct Request {
    line: String,
    authorization: String,
    body: String,
}

impl Guarded {
    pub fn start(lifetime: u64) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/mcp", listener.local_addr().unwrap());
        let guarded = Self { url, state: Arc::default(), lifetime };
        let serving = guarded.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let (stream, serving) = (stream.unwrap(), serving.clone());
                // a client may hang up at any time
                std::thread::spawn(move || drop(serving.converse(&stream)));
            }
        });
        guarded
    }

    fn base(&self) -> &str {
        self.url.trim_end_matches("/mcp")
    }

    /// The requests so far with this prefix.
    pub fn asked(&self, beginning: &str) -> Vec<String> {
        let state = self.state.lock().unwrap();
        state.asked.iter().filter(|asked| asked.starts_with(beginning)).cloned().collect()
    }

    pub fn token(&self) -> String {
        self.state.lock().unwrap().token.clone()
    }

    fn converse(&self, stream: &TcpStream) -> std::io::Result<()> {
        let request = read(stream)?;
        let (status, head, body) = self.answer(&request);
        let length = body.len();
        let head = format!("content-type: application/json\r\nconnection: close\r\n{head}");
        write!(&*stream, "HTTP/1.1 {status}\r\n{head}content-length: {length}\r\n\r\n{body}")
    }

    fn answer(&self, request: &Request) -> (&'static str, String, String) {
        let Request { line, authorization, body } = request;
        let said = format!("{line} {authorization} {body}");
        let mut state = self.state.lock().unwrap();
        state.asked.push(said);
        let ok = |value: Value| ("200 OK", String::new(), value.to_string());
        let path = line.split([' ', '?']).nth(1).unwrap_or_default();
        match path {
            "/.well-known/oauth-protected-resource/mcp" => ok(json!({
                "resource": self.url, "authorization_servers": [self.base()],
                "scopes_supported": ["read"],
            })),
            "/.well-known/oauth-authorization-server" => ok(json!({
                "issuer": self.base(),
                "authorization_endpoint": format!("{}/authorize", self.base()),
                "token_endpoint": format!("{}/token", self.base()),
                "registration_endpoint": format!("{}/register", self.base()),
                "response_types_supported": ["code"],
                "code_challenge_methods_supported": ["S256"],
                "token_endpoint_auth_methods_supported": ["client_secret_basic"],
            })),
            "/register" => {
                let mut client: Value = serde_json::from_str(body).unwrap();
                client["client_id"] = ID.into();
                client["client_secret"] = SECRET.into();
                ("201 Created", String::new(), client.to_string())
            }
            "/authorize" => {
                let query = line.split(['?', ' ']).nth(2).unwrap_or_default();
                let of = |name: &str| value(query, name);
                state.scopes = of("scope");
                let to = format!("{}?code=code-1&state={}", of("redirect_uri"), of("state"));
                ("302 Found", format!("location: {to}\r\n"), String::new())
            }
            "/token" => {
                state.grants += 1;
                state.token = format!("token-{}", state.grants);
                ok(json!({
                    "access_token": state.token, "token_type": "Bearer",
                    "expires_in": self.lifetime, "scope": state.scopes,
                    "refresh_token": format!("refresh-{}", state.grants),
                }))
            }
            "/mcp" => self.protected(&state, request),
            _ => ("404 Not Found", String::new(), String::new()),
        }
    }

    fn protected(&self, state: &State, request: &Request) -> (&'static str, String, String) {
        let metadata = format!("{}/.well-known/oauth-protected-resource/mcp", self.base());
        let challenge = |more: &str| {
            format!("www-authenticate: Bearer resource_metadata=\"{metadata}\"{more}\r\n")
        };
        let known = request.authorization == format!("Bearer {}", state.token);
        if state.token.is_empty() || !known {
            return ("401 Unauthorized", challenge(""), String::new());
        }
        if !request.line.starts_with("POST") {
            return ("405 Method Not Allowed", String::new(), String::new());
        }
        let message: Value = serde_json::from_str(&request.body).unwrap_or_default();
        let more = message["method"] == "tools/call" && message["params"]["name"] == "fail";
        if more && !state.scopes.contains("admin") {
            let wanted = challenge(", error=\"insufficient_scope\", scope=\"admin\"");
            return ("403 Forbidden", wanted, String::new());
        }
        match mcp::answer(&message) {
            Some(reply) => ("200 OK", String::new(), reply.to_string()),
            None => ("202 Accepted", String::new(), String::new()),
        }
    }
}

fn read(stream: &TcpStream) -> std::io::Result<Request> {
    let mut reader = BufReader::new(stream);
    let (mut length, mut first, mut authorization) = (0, String::new(), String::new());
    reader.read_line(&mut first)?;
    loop {
        let mut line = String::new();
        reader.read_line(&mut line)?;
        match line.trim().split_once(": ") {
            Some((name, value)) if name.eq_ignore_ascii_case("content-length") => {
                length = value.parse().unwrap();
            }
            Some((name, value)) if name.eq_ignore_ascii_case("authorization") => {
                value.clone_into(&mut authorization);
            }
            Some(_) => {}
            None => break,
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body)?;
    let body = String::from_utf8(body).unwrap();
    Ok(Request { line: first.trim().to_owned(), authorization, body })
}

/// A value of a query, decoded as far as these tests need.
pub fn value(query: &str, name: &str) -> String {
    let mut pairs = query.split('&').filter_map(|pair| pair.split_once('='));
    let value = pairs.find(|(known, _)| *known == name).map(|(_, value)| value).unwrap_or_default();
    value.replace("%3A", ":").replace("%2F", "/").replace('+', " ")
}

/// Requests an address of this machine without following redirects. Returns head and body of the
/// answer.
pub fn get(url: &str) -> String {
    let rest = url.strip_prefix("http://").unwrap();
    let (host, target) = rest.split_once('/').unwrap();
    let mut stream = TcpStream::connect(host).unwrap();
    write!(stream, "GET /{target} HTTP/1.1\r\nhost: {host}\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

/// The target of a redirect.
pub fn location(answer: &str) -> String {
    let line = answer.lines().find_map(|line| line.strip_prefix("location: "));
    line.unwrap_or_else(|| panic!("it leads nowhere: {answer}")).to_owned()
}
