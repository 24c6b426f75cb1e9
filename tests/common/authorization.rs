//! An authorization server and the API behind it, for sign-ins of both kinds. It checks every parameter that it is sent
//! and answers a wrong one as a fault, which tests then see.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use leftfold_events::Sha256;
use serde_json::{Value, json};

/// The clients that are registered.
const CHATGPT: &str = "app_EMoamEEZ73f0CkXaXp7hrann";
const COPILOT: &str = "Ov23li8tweQw6odWQebz";

/// The account of the id token.
pub const ACCOUNT: &str = "account-0123";

/// A fault that the server has on purpose.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mood {
    #[default]
    Good,
    /// The person refuses.
    Denies,
    /// Tokens are refused with this code.
    Refuses(&'static str),
    /// Everything but consent pages is answered with this status.
    Status(u16),
    /// Tokens are answered with text that is no JSON.
    Garbage,
    /// Tokens are answered without one.
    Empty,
    /// Refreshing keeps the refresh token.
    Keeps,
    /// The code is asked for so often before the person has typed it.
    Pending(u32),
    /// The first poll is too early.
    SlowDown,
    /// The API does not accept the first token that it sees.
    Revoked,
}

#[derive(Default)]
struct State {
    mood: Mood,
    /// Seconds that tokens last; 0: it does not say.
    lifetime: u64,
    /// Errors that were found in requests.
    faults: Vec<String>,
    /// Method and path of each request.
    asked: Vec<String>,
    /// The challenge and the redirect of each code that was not exchanged yet.
    codes: HashMap<String, (String, String)>,
    grants: u32,
    refreshes: u32,
    polls: u32,
    access: String,
    refresh: String,
    refused: bool,
    /// Every token, code and verifier that was ever in use.
    secrets: Vec<String>,
    /// The requests to the API: headers and body.
    requests: Vec<(Vec<String>, Value)>,
    /// The texts of the API's replies; the last one repeats.
    replies: Vec<String>,
}

/// A request.
struct Request {
    method: String,
    path: String,
    query: String,
    headers: Vec<String>,
    body: String,
}

pub struct Authorization {
    address: String,
    state: Mutex<State>,
}

/// Status, headers and body.
type Answer = (u16, String, String);

impl Authorization {
    pub fn start(mood: Mood, lifetime: u64) -> Arc<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let state =
            State { mood, lifetime, replies: vec!["Hello.".to_owned()], ..State::default() };
        let server = Arc::new(Self { address, state: Mutex::new(state) });
        let serving = Arc::clone(&server);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let (stream, serving) = (stream.unwrap(), Arc::clone(&serving));
                // a client may hang up at any time
                std::thread::spawn(move || serving.converse(&stream).ok());
            }
        });
        server
    }

    /// The variables that lead the program here.
    pub fn variables(&self) -> [(&'static str, String); 4] {
        [
            ("CHATGPT_AUTH_URL", self.address.clone()),
            ("CHATGPT_BASE_URL", format!("{}/codex-api", self.address)),
            ("COPILOT_AUTH_URL", self.address.clone()),
            ("COPILOT_BASE_URL", format!("{}/copilot-api", self.address)),
        ]
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    pub fn set_mood(&self, mood: Mood) {
        self.state().mood = mood;
    }

    pub fn set_lifetime(&self, seconds: u64) {
        self.state().lifetime = seconds;
    }

    /// Later requests to the API get these texts.
    pub fn reply(&self, texts: &[&str]) {
        self.state().replies = texts.iter().rev().map(|text| (*text).to_owned()).collect();
    }

    pub fn faults(&self) -> Vec<String> {
        self.state().faults.clone()
    }

    pub fn asked(&self, path: &str) -> usize {
        self.state().asked.iter().filter(|asked| *asked == path).count()
    }

    pub fn refreshes(&self) -> u32 {
        self.state().refreshes
    }

    /// Every token, code and verifier so far.
    pub fn secrets(&self) -> Vec<String> {
        self.state().secrets.clone()
    }

    pub fn access(&self) -> String {
        self.state().access.clone()
    }

    pub fn requests(&self) -> Vec<(Vec<String>, Value)> {
        self.state().requests.clone()
    }

    fn converse(&self, stream: &TcpStream) -> std::io::Result<()> {
        let Some(request) = read(stream)? else { return Ok(()) };
        if request.path == "/oauth/token" {
            // two processes that refresh at once meet here
            std::thread::sleep(Duration::from_millis(50));
        }
        let (status, head, body) = self.answer(&request);
        write!(
            &*stream,
            "HTTP/1.1 {status} X\r\nconnection: close\r\n{head}content-length: {}\r\n\r\n{body}",
            body.len()
        )
    }

    fn answer(&self, request: &Request) -> Answer {
        let mut state = self.state();
        state.asked.push(format!("{} {}", request.method, request.path));
        let answered = match (request.method.as_str(), request.path.as_str()) {
            ("GET", "/oauth/authorize") => state.authorize(&request.query),
            ("POST", "/codex-api/responses") => state.api(request, true, responses),
            ("POST", "/copilot-api/responses") => state.api(request, false, responses),
            ("POST", "/copilot-api/chat/completions") => state.api(request, false, chat),
            ("GET", "/copilot-api/models") => state.models(request),
            (_, _) if matches!(state.mood, Mood::Status(_)) => {
                let Mood::Status(status) = state.mood else { unreachable!() };
                Ok((status, String::new(), "<html>down</html>".to_owned()))
            }
            ("POST", "/oauth/token") => state.token(&request.body),
            ("POST", "/oauth/revoke") => state.revoke(&request.body),
            ("POST", "/api/accounts/deviceauth/usercode") => state.user_code(&request.body),
            ("POST", "/api/accounts/deviceauth/token") => {
                state.poll_user_code(&request.body, &self.address)
            }
            ("POST", "/login/device/code") => state.device_code(&request.body, &self.address),
            ("POST", "/login/oauth/access_token") => state.poll_device_code(&request.body),
            (method, path) => Err(format!("nobody asks {method} {path}")),
        };
        answered.unwrap_or_else(|fault| {
            let body = json!({ "error": "invalid_request", "error_description": fault });
            state.faults.push(fault);
            (400, String::new(), body.to_string())
        })
    }
}

/// A fault unless it holds.
fn must(holds: bool, what: impl Into<String>) -> Result<(), String> {
    if holds { Ok(()) } else { Err(what.into()) }
}

fn same(form: &HashMap<String, String>, name: &str, expected: &str) -> Result<(), String> {
    let found = form.get(name).map_or("", String::as_str);
    must(found == expected, format!("`{name}` is `{found}` instead of `{expected}`"))
}

fn ok(body: &Value) -> Result<Answer, String> {
    Ok((200, "content-type: application/json\r\n".to_owned(), body.to_string()))
}

impl State {
    fn secret(&mut self, prefix: &str) -> String {
        self.grants += 1;
        let secret = format!("{prefix}-canary-{:08}-{}", self.grants, "z9".repeat(12));
        self.secrets.push(secret.clone());
        secret
    }

    fn authorize(&mut self, query: &str) -> Result<Answer, String> {
        let form = form(query);
        same(&form, "response_type", "code")?;
        same(&form, "client_id", CHATGPT)?;
        same(&form, "scope", "openid profile email offline_access")?;
        same(&form, "code_challenge_method", "S256")?;
        same(&form, "originator", "leftfold")?;
        let of = |name: &str| form.get(name).cloned().unwrap_or_default();
        let (redirect, state, challenge) = (of("redirect_uri"), of("state"), of("code_challenge"));
        let is_local =
            redirect.starts_with("http://localhost:") && redirect.ends_with("/auth/callback");
        must(is_local, format!("a redirect to `{redirect}`"))?;
        must(state.len() >= 16 && challenge.len() == 43, "a short state or challenge")?;
        let answer = if self.mood == Mood::Denies {
            format!("error=access_denied&error_description=not+today&state={state}")
        } else {
            let code = self.secret("code");
            self.codes.insert(code.clone(), (challenge, redirect.clone()));
            format!("code={code}&state={state}")
        };
        Ok((302, format!("location: {redirect}?{answer}\r\n"), String::new()))
    }

    fn token(&mut self, body: &str) -> Result<Answer, String> {
        let form = form(body);
        same(&form, "client_id", CHATGPT)?;
        let of = |name: &str| form.get(name).cloned().unwrap_or_default();
        match of("grant_type").as_str() {
            "authorization_code" => {
                let (code, verifier) = (of("code"), of("code_verifier"));
                self.secrets.push(verifier.clone());
                let known = self.codes.remove(&code).ok_or("a code that is unknown or used")?;
                must(known.0 == challenge(&verifier), "another verifier")?;
                must(known.1 == of("redirect_uri"), "another redirect")?;
            }
            "refresh_token" => {
                self.refreshes += 1;
                if let Mood::Good | Mood::Keeps = self.mood {
                    must(of("refresh_token") == self.refresh, "an old refresh token")?;
                }
            }
            other => return Err(format!("the grant `{other}`")),
        }
        self.grant(true)
    }

    fn grant(&mut self, has_refresh: bool) -> Result<Answer, String> {
        match self.mood {
            Mood::Refuses(code) => {
                // a server may repeat what it was sent
                let about = format!("the token {} is no good", self.refresh);
                let body = json!({ "error": { "code": code, "message": about } });
                return Ok((401, String::new(), body.to_string()));
            }
            Mood::Garbage => return Ok((200, String::new(), "<html>canary".to_owned())),
            Mood::Empty => return ok(&json!({ "token_type": "bearer" })),
            Mood::Good
            | Mood::Denies
            | Mood::Status(_)
            | Mood::Keeps
            | Mood::Pending(_)
            | Mood::SlowDown
            | Mood::Revoked => {}
        }
        self.access = self.secret("access");
        let mut granted = json!({ "access_token": self.access });
        if self.mood != Mood::Keeps && has_refresh {
            self.refresh = self.secret("refresh");
            granted["refresh_token"] = self.refresh.as_str().into();
        }
        if self.lifetime > 0 {
            granted["expires_in"] = self.lifetime.into();
        }
        if has_refresh {
            let claims =
                json!({ "https://api.openai.com/auth": { "chatgpt_account_id": ACCOUNT } });
            let claims = BASE64_URL_SAFE_NO_PAD.encode(claims.to_string());
            granted["id_token"] = format!("e30.{claims}.sig").into();
        }
        ok(&granted)
    }

    fn revoke(&mut self, body: &str) -> Result<Answer, String> {
        let body: Value = serde_json::from_str(body).map_err(|error| error.to_string())?;
        must(body["client_id"] == CHATGPT, "another client")?;
        must(body["token"] == self.refresh.as_str(), "another token")?;
        (self.access, self.refresh) = (String::new(), String::new());
        Ok((200, String::new(), String::new()))
    }

    fn user_code(&mut self, body: &str) -> Result<Answer, String> {
        let body: Value = serde_json::from_str(body).map_err(|error| error.to_string())?;
        must(body == json!({ "client_id": CHATGPT }), "another client")?;
        ok(&json!({ "device_auth_id": "device-1", "user_code": "WXYZ-1234", "interval": "0" }))
    }

    fn poll_user_code(&mut self, body: &str, address: &str) -> Result<Answer, String> {
        let body: Value = serde_json::from_str(body).map_err(|error| error.to_string())?;
        let expected = json!({ "device_auth_id": "device-1", "user_code": "WXYZ-1234" });
        must(body == expected, "another code")?;
        self.polls += 1;
        match self.mood {
            Mood::Pending(times) if self.polls <= times => {
                let body = json!({ "error": { "code": "deviceauth_authorization_unknown" } });
                return Ok((403, String::new(), body.to_string()));
            }
            Mood::Denies => {
                return Ok((403, String::new(), json!({ "error": "access_denied" }).to_string()));
            }
            Mood::Good
            | Mood::Pending(_)
            | Mood::Refuses(_)
            | Mood::Status(_)
            | Mood::Garbage
            | Mood::Empty
            | Mood::Keeps
            | Mood::SlowDown
            | Mood::Revoked => {}
        }
        let (code, verifier) = (self.secret("code"), self.secret("verifier"));
        let redirect = format!("{address}/deviceauth/callback");
        self.codes.insert(code.clone(), (challenge(&verifier), redirect));
        ok(&json!({
            "authorization_code": code, "code_verifier": verifier, "code_challenge": challenge(&verifier),
        }))
    }

    fn device_code(&mut self, body: &str, address: &str) -> Result<Answer, String> {
        let form = form(body);
        same(&form, "client_id", COPILOT)?;
        same(&form, "scope", "read:user")?;
        ok(&json!({
            "device_code": "device-2", "user_code": "ABCD-5678", "expires_in": 900, "interval": 0,
            "verification_uri": format!("{address}/login/device"),
        }))
    }

    fn poll_device_code(&mut self, body: &str) -> Result<Answer, String> {
        let form = form(body);
        same(&form, "client_id", COPILOT)?;
        same(&form, "grant_type", "urn:ietf:params:oauth:grant-type:device_code")?;
        same(&form, "device_code", "device-2")?;
        self.polls += 1;
        // GitHub answers errors with status 200
        let refused = |code: &str| ok(&json!({ "error": code, "error_description": "about it" }));
        match self.mood {
            Mood::Pending(times) if self.polls <= times => refused("authorization_pending"),
            Mood::SlowDown if self.polls == 1 => refused("slow_down"),
            Mood::Denies => refused("access_denied"),
            Mood::Refuses("expired_token") => refused("expired_token"),
            Mood::Good
            | Mood::Pending(_)
            | Mood::Refuses(_)
            | Mood::Status(_)
            | Mood::Garbage
            | Mood::Empty
            | Mood::Keeps
            | Mood::SlowDown
            | Mood::Revoked => self.grant(false),
        }
    }

    /// The models of the account: one for conversations, and some that are not or that are off.
    fn models(&self, request: &Request) -> Result<Answer, String> {
        let bearer = format!("authorization: Bearer {}", self.access);
        must(request.headers.contains(&bearer), "another token")?;
        if let Mood::Status(status) = self.mood {
            return Ok((status, String::new(), String::new()));
        }
        let model = |id: &str, kind: &str, is_on: bool| {
            json!({ "id": id, "name": id, "model_picker_enabled": is_on,
                "policy": { "state": "enabled" }, "capabilities": { "type": kind,
                    "limits": { "max_context_window_tokens": 400_000, "max_prompt_tokens": 272_000,
                        "max_output_tokens": 128_000 },
                    "supports": { "tool_calls": true, "vision": true } } })
        };
        let mut off = model("claude-off", "chat", true);
        off["policy"]["state"] = "disabled".into();
        ok(&json!({ "data": [
            model("gpt-5.6", "chat", true),
            model("claude-sonnet-4.6", "chat", true),
            model("text-embedding-3-small", "embeddings", true),
            model("gpt-hidden", "chat", false),
            off,
        ] }))
    }

    fn api(
        &mut self,
        request: &Request,
        is_chatgpt: bool,
        stream: fn(&str) -> String,
    ) -> Result<Answer, String> {
        let body: Value = serde_json::from_str(&request.body).map_err(|error| error.to_string())?;
        self.requests.push((request.headers.clone(), body));
        let has = |header: &str| request.headers.iter().any(|known| known == header);
        let known = has(&format!("authorization: Bearer {}", self.access));
        let is_first = !std::mem::replace(&mut self.refused, true);
        if !known || self.mood == Mood::Revoked && is_first {
            // a server may repeat what it was sent
            let body =
                json!({ "error": { "message": format!("no {}", request.headers.join("; ")) } });
            return Ok((401, String::new(), body.to_string()));
        }
        if is_chatgpt {
            must(has(&format!("chatgpt-account-id: {ACCOUNT}")), "no account")?;
        }
        let text = match self.replies.as_slice() {
            [last] => last.clone(),
            _ => self.replies.pop().unwrap(),
        };
        Ok((200, "content-type: text/event-stream\r\n".to_owned(), stream(&text)))
    }
}

fn challenge(verifier: &str) -> String {
    let hash = Sha256::digest(verifier.as_bytes()).to_string();
    let bytes =
        (0..hash.len()).step_by(2).map(|at| u8::from_str_radix(&hash[at..at + 2], 16).unwrap());
    BASE64_URL_SAFE_NO_PAD.encode(bytes.collect::<Vec<u8>>())
}

/// A reply of Responses. A text that begins with `$ ` is a command to run.
fn responses(text: &str) -> String {
    let item = match text.strip_prefix("$ ") {
        Some(command) => {
            json!({ "type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "bash",
            "arguments": json!({ "command": command, "description": "x" }).to_string() })
        }
        None => {
            json!({ "type": "message", "id": "msg_1", "role": "assistant", "status": "completed",
            "content": [{ "type": "output_text", "text": text, "annotations": [] }] })
        }
    };
    let done = json!({ "type": "response.output_item.done", "output_index": 0, "item": item });
    let usage = json!({ "input_tokens": 1, "output_tokens": 1 });
    let completed = json!({ "type": "response.completed",
        "response": { "id": "resp_1", "status": "completed", "usage": usage } });
    format!("data: {done}\n\ndata: {completed}\n\n")
}

/// A reply of Chat Completions. A text that begins with `$ ` is a command to run.
fn chat(text: &str) -> String {
    let (delta, reason) = match text.strip_prefix("$ ") {
        Some(command) => {
            let arguments = json!({ "command": command, "description": "x" }).to_string();
            let function = json!({ "name": "bash", "arguments": arguments });
            let call =
                json!({ "index": 0, "id": "call_1", "type": "function", "function": function });
            (json!({ "role": "assistant", "tool_calls": [call] }), "tool_calls")
        }
        None => (json!({ "role": "assistant", "content": text }), "stop"),
    };
    let chunk = json!({ "id": "c", "object": "chat.completion.chunk", "model": "m",
        "choices": [{ "index": 0, "delta": delta, "finish_reason": null }] });
    let end = json!({ "id": "c", "object": "chat.completion.chunk", "model": "m",
        "choices": [{ "index": 0, "delta": {}, "finish_reason": reason }] });
    format!("data: {chunk}\n\ndata: {end}\n\ndata: [DONE]\n\n")
}

/// The pairs of a form or a query.
pub fn form(text: &str) -> HashMap<String, String> {
    let pairs = text.split('&').filter_map(|pair| pair.split_once('='));
    pairs.map(|(name, value)| (decoded(name), decoded(value))).collect()
}

/// A text without its percent-encoding.
pub fn decoded(text: &str) -> String {
    let mut bytes = text.bytes();
    let mut decoded = Vec::new();
    while let Some(byte) = bytes.next() {
        let digits = (byte == b'%').then(|| [bytes.next(), bytes.next()]);
        let digits = digits.and_then(|[one, two]| {
            u8::from_str_radix(&format!("{}{}", char::from(one?), char::from(two?)), 16).ok()
        });
        decoded.push(digits.unwrap_or(if byte == b'+' { b' ' } else { byte }));
    }
    String::from_utf8(decoded).unwrap()
}

fn read(stream: &TcpStream) -> std::io::Result<Option<Request>> {
    let mut reader = BufReader::new(stream);
    let mut first = String::new();
    reader.read_line(&mut first)?;
    let mut headers = Vec::new();
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line)? == 0 || line.trim().is_empty() {
            break;
        }
        if let Some((name, value)) = line.trim().split_once(':') {
            headers.push(format!("{}: {}", name.to_lowercase(), value.trim()));
        }
    }
    let length = headers.iter().find_map(|header| header.strip_prefix("content-length: "));
    let mut body = vec![0; length.map_or(0, |length| length.parse().unwrap())];
    reader.read_exact(&mut body)?;
    let mut words = first.split(' ');
    let (Some(method), Some(target)) = (words.next(), words.next()) else { return Ok(None) };
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    Ok(Some(Request {
        method: method.to_owned(),
        path: path.to_owned(),
        query: query.to_owned(),
        headers,
        body: String::from_utf8(body).unwrap(),
    }))
}
