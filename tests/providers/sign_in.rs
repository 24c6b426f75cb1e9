//! Signing in at vendors, and requests with tokens that expire, against an authorization server that checks every
//! parameter.

use std::os::unix::fs::PermissionsExt;

use common::authorization::{ACCOUNT, Authorization, Mood};
use common::{Answer, Editor, Live, Ran, Server, Site, all, end};
use serde_json::{Value, json};

const CHATGPT: &str = "openai/gpt-6.2-sol";
/// The newer models of OpenAI are served over Responses, all others over Chat Completions.
const COPILOT: &str = "github-copilot/gpt-5.6";
const OVER_CHAT: &str = "github-copilot/claude-sonnet-4.6";

/// Far longer than a test, and shorter than the time before its end at which a token is refreshed.
const LONG: u64 = 3_600;
const SHORT: u64 = 30;

fn site(server: &Authorization, model: &str) -> Site {
    let off = json!(false);
    let site = Site::bare().setting("model", json!(model)).setting("title", off.clone());
    let site = site.setting("summary", off.clone()).setting("snapshot", off);
    server.variables().into_iter().fold(site, |site, (name, value)| site.env(name, value))
}

fn in_browser(site: &Site) -> Ran {
    site.run(&["auth", "login", "openai", "--method", "browser", "--consent", "follow"])
}

fn with_code(site: &Site, provider: &str) -> Ran {
    site.run(&["auth", "login", provider, "--method", "code", "--consent", "print"])
}

/// A site at which ChatGPT is signed in.
fn signed_in(server: &Authorization) -> Site {
    let site = site(server, CHATGPT);
    in_browser(&site).ok();
    site
}

fn stored(site: &Site) -> Value {
    let path = site.path("home/auth.json");
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

fn has(server: &Authorization, request: usize, header: &str) -> bool {
    server.requests()[request].0.iter().any(|known| known == header)
}

#[test]
fn who_has_signed_in_with_a_browser_uses_the_subscription_until_signing_out() {
    let server = Authorization::start(Mood::Good, LONG);
    let site = site(&server, CHATGPT);
    site.prompt("go").with(2).saying(&["no key", "leftfold auth login openai"]);
    let login = in_browser(&site).ok();
    assert_eq!(login.stdout, "You are signed in at openai with ChatGPT.\n");
    assert_eq!(server.faults(), [""; 0]);
    let entry = &stored(&site)["openai"];
    assert_eq!((&entry["type"], &entry["accountId"]), (&json!("oauth"), &json!(ACCOUNT)));
    let ran = site.prompt("go").ok();
    assert_eq!(end(&ran.events())["text"], "Hello.");
    assert_eq!(server.faults(), [""; 0]);
    let (headers, body) = &server.requests()[0];
    assert!(headers.contains(&"originator: leftfold".to_owned()), "{headers:?}");
    assert!(body["instructions"].as_str().is_some_and(|text| !text.is_empty()), "{body}");
    assert_eq!((&body["store"], body.get("max_output_tokens")), (&json!(false), None));
    assert!(body["input"].as_array().unwrap().iter().all(|item| item["role"] != "system"));
    site.run(&["auth", "list"])
        .ok()
        .saying(&[])
        .stdout
        .find("signed in with ChatGPT; token until")
        .unwrap();
    site.run(&["doctor"]).stdout.find("openai: signed in with ChatGPT; token until").unwrap();
    let logout = site.run(&["auth", "logout", "openai"]).ok();
    assert!(logout.stdout.starts_with("You are signed out of openai"), "{logout:?}");
    assert!(!logout.stderr.contains("may still accept"), "{logout:?}");
    assert_eq!((server.asked("POST /oauth/revoke"), server.faults()), (1, vec![]));
    assert_eq!(stored(&site), json!({}));
    site.prompt("go").with(2).saying(&["no key"]);
}

#[test]
fn a_code_is_enough_where_there_is_no_browser() {
    for (provider, label, model, code) in [
        ("openai", "ChatGPT", CHATGPT, "WXYZ-1234"),
        ("github-copilot", "GitHub Copilot", COPILOT, "ABCD-5678"),
        ("github-copilot", "GitHub Copilot", OVER_CHAT, "ABCD-5678"),
    ] {
        let server = Authorization::start(Mood::Pending(2), 0);
        let site = site(&server, model);
        let login = with_code(&site, provider).ok().saying(&[code, "Give the code to nobody else"]);
        assert_eq!(login.stdout, format!("You are signed in at {provider} with {label}.\n"));
        let ran = site.prompt("go").ok();
        assert_eq!(end(&ran.events())["text"], "Hello.", "{provider}");
        assert_eq!(server.faults(), [""; 0], "{provider}");
    }
}

/// The requests of one prompt with a call, of a subagent, and with an image.
#[test]
fn copilot_learns_who_asks_and_for_what() {
    for model in [COPILOT, OVER_CHAT] {
        learns_who_asks_and_for_what(model);
    }
}

fn learns_who_asks_and_for_what(model: &str) {
    let server = Authorization::start(Mood::Good, 0);
    let site = site(&server, model);
    with_code(&site, "github-copilot").ok();
    server.reply(&["$ echo one", "done", "an image"]);
    site.prompt("go").ok();
    site.file(
        "picture.png",
        b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x01\0\0\0\x01\x08\x02\0\0\0\x90wS\xde",
    );
    site.prompt("look at @picture.png").ok();
    for (request, initiator, has_image) in
        [(0, "user", false), (1, "agent", false), (2, "user", true)]
    {
        assert!(has(&server, request, &format!("x-initiator: {initiator}")), "{request}");
        assert!(has(&server, request, "openai-intent: conversation-edits"), "{request}");
        let vision = has(&server, request, "copilot-vision-request: true");
        assert_eq!(vision, has_image, "{request}: {:?}", server.requests()[request]);
        let body = &server.requests()[request].1;
        assert_eq!(body.get("input").is_some(), model == COPILOT, "{body}");
        assert_eq!(body.get("messages").is_some(), model == OVER_CHAT, "{body}");
    }
    let logout = site.run(&["auth", "logout", "github-copilot"]).ok();
    assert!(logout.stderr.contains("may still accept the tokens"), "{logout:?}");
}

#[test]
fn an_organization_has_a_host_of_its_own() {
    let site = Site::bare();
    let login = ["auth", "login", "github-copilot", "--host"];
    let wrong = site.run(&[&login[..], &["http://evil.test/x"]].concat());
    wrong.with(2).saying(&["is not a host"]);
    site.run(&["auth", "login", "openai", "--method", "code", "--host", "a.test"])
        .with(2)
        .saying(&["ChatGPT has no other hosts"]);
}

/// Failed sign-ins and their messages. Nothing is stored, and no token, code or verifier is shown.
#[test]
fn a_sign_in_that_fails_says_why() {
    type Login = fn(&Site) -> Ran;
    let browser: Login = in_browser;
    let chatgpt: Login = |site| with_code(site, "openai");
    let copilot: Login = |site| with_code(site, "github-copilot");
    for (mood, login, expected) in [
        (Mood::Denies, browser, "there was no consent: access_denied (not today)"),
        (Mood::Refuses("invalid_grant"), browser, "refused: invalid_grant"),
        (Mood::Garbage, browser, "its answer is not JSON"),
        (Mood::Empty, browser, "cannot be read"),
        (Mood::Status(503), browser, "it answered with status 503"),
        (Mood::Status(302), browser, "status 302"),
        (Mood::Denies, chatgpt, "access_denied"),
        (Mood::Status(404), chatgpt, "not enabled"),
        (Mood::Status(500), chatgpt, "status 500"),
        (Mood::Refuses("invalid_grant"), chatgpt, "refused: invalid_grant"),
        (Mood::Denies, copilot, "access_denied"),
        (Mood::Refuses("expired_token"), copilot, "expired_token"),
        (Mood::Garbage, copilot, "its answer is not JSON"),
        (Mood::Status(503), copilot, "status 503"),
    ] {
        let server = Authorization::start(mood, LONG);
        let site = site(&server, CHATGPT);
        let ran = login(&site).with(1).saying(&[expected]);
        assert_eq!(server.faults(), [""; 0], "{mood:?}");
        for secret in server.secrets() {
            assert!(!format!("{ran:?}").contains(&secret), "{mood:?} {ran:?}");
        }
        assert!(!site.path("home/auth.json").exists(), "{mood:?}");
    }
    let nobody = Site::bare().env("CHATGPT_AUTH_URL", "http://127.0.0.1:1");
    with_code(&nobody, "openai").with(1).saying(&["http://127.0.0.1:1", "no connection"]);
    let plain = Site::bare().env("CHATGPT_AUTH_URL", "http://gate.test");
    with_code(&plain, "openai").with(2).saying(&["CHATGPT_AUTH_URL", "expected `https://"]);
}

/// The server asks for five more seconds between two polls.
#[test]
fn a_server_that_is_polled_too_often_is_left_alone_for_longer() {
    let server = Authorization::start(Mood::SlowDown, 0);
    let site = site(&server, COPILOT);
    let before = std::time::Instant::now();
    with_code(&site, "github-copilot").ok();
    assert!(before.elapsed().as_secs() >= 5);
    assert_eq!(server.asked("POST /login/oauth/access_token"), 2);
}

#[test]
fn a_token_is_refreshed_before_its_end_and_rotated_tokens_are_kept() {
    for (mood, rotates) in [(Mood::Good, true), (Mood::Keeps, false)] {
        let server = Authorization::start(Mood::Good, SHORT);
        let site = signed_in(&server);
        server.set_mood(mood);
        let before = stored(&site);
        for refreshes in 1..=2 {
            assert_eq!(end(&site.prompt("go").ok().events())["text"], "Hello.");
            assert_eq!(server.refreshes(), refreshes);
        }
        let after = stored(&site);
        assert_eq!(after["openai"]["access"], server.access().as_str());
        assert_eq!(after["openai"]["refresh"] != before["openai"]["refresh"], rotates);
        assert_eq!(after["openai"]["accountId"], ACCOUNT);
        server.set_lifetime(LONG);
        site.prompt("go").ok();
        site.prompt("go").ok();
        assert_eq!(server.refreshes(), 3, "a token that lasts is not refreshed");
        assert_eq!(server.faults(), [""; 0]);
    }
}

/// Also in the middle of a turn.
#[test]
fn a_token_that_the_api_refuses_is_replaced_once() {
    let server = Authorization::start(Mood::Good, LONG);
    let site = signed_in(&server).setting("retry", json!({ "attempts": 2 }));
    server.set_mood(Mood::Revoked);
    let ran = site.prompt("go").ok();
    assert_eq!(end(&ran.events())["text"], "Hello.");
    assert_eq!((server.refreshes(), server.requests().len()), (1, 2));
    let text = format!("{ran:?}");
    assert!(server.secrets().iter().all(|secret| !text.contains(secret)), "{text}");
}

#[test]
fn a_refresh_that_fails_says_what_to_do() {
    for (mood, expected, requests) in [
        (
            Mood::Refuses("refresh_token_reused"),
            "sign in again with `leftfold auth login openai`",
            0,
        ),
        (Mood::Refuses("invalid_grant"), "sign in again with `leftfold auth login openai`", 0),
        // the old token still lasts for some seconds
        (Mood::Status(503), "Hello.", 1),
        (Mood::Garbage, "Hello.", 1),
    ] {
        let server = Authorization::start(Mood::Good, SHORT);
        let site = signed_in(&server).setting("retry", json!({ "attempts": 0 }));
        server.set_mood(mood);
        let ran = site.prompt("go");
        let text = format!("{}{}", ran.stdout, ran.stderr);
        assert!(text.contains(expected), "{mood:?}: {text}");
        assert_eq!(server.requests().len(), requests, "{mood:?}");
        assert!(server.secrets().iter().all(|secret| !text.contains(secret)), "{mood:?}: {text}");
        assert_eq!(stored(&site)["openai"]["access"], server.access().as_str(), "{mood:?}");
    }
}

#[test]
fn processes_that_refresh_at_once_make_one_refresh() {
    let server = Authorization::start(Mood::Good, SHORT);
    let site = signed_in(&server);
    server.set_lifetime(LONG);
    let running: Vec<Live> =
        (0..4).map(|_| site.start(&["run", "--format", "json", "go"])).collect();
    for live in running {
        assert_eq!(end(&live.wait().ok().events())["text"], "Hello.");
    }
    assert_eq!((server.refreshes(), server.faults()), (1, vec![]));
}

/// Tokens that are new in the middle of a turn, and a command that prints the file with them and its environment.
#[test]
fn no_token_gets_out() {
    let server = Authorization::start(Mood::Good, SHORT);
    let site = signed_in(&server).unsandboxed();
    let show =
        format!("$ cat '{}'; env; cat /proc/$PPID/environ", site.path("home/auth.json").display());
    server.reply(&[&show, &show, "done"]);
    let ran = site.run(&["run", "--yes", "--format", "json", "go"]).ok();
    assert_eq!(server.refreshes(), 3, "{ran:?}");
    let events = ran.events();
    let outputs = all(&events, "tool.finished");
    assert!(
        outputs.len() == 2 && outputs[1].to_string().contains("{{secret:auth.openai"),
        "{outputs:?}"
    );
    let mut texts = vec![format!("{ran:?}")];
    for command in [
        "export last --unmasked", "auth list", "auth list --format json", "config", "doctor",
        "why last",
    ] {
        let args: Vec<&str> = command.split(' ').collect();
        texts.push(format!("{:?}", site.run(&args)));
    }
    let mut folders = vec![site.path("home")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap().map(Result::unwrap) {
            let path = entry.path();
            if path.is_dir() {
                folders.push(path);
            } else if !path.ends_with("auth.json") {
                texts.push(String::from_utf8_lossy(&std::fs::read(path).unwrap()).into_owned());
            }
        }
    }
    assert!(server.secrets().len() > 6);
    for secret in server.secrets() {
        for text in &texts {
            assert!(!text.contains(&secret), "{secret} in {text}");
        }
    }
}

#[test]
fn an_editor_can_let_its_person_sign_in() {
    let server = Authorization::start(Mood::Good, LONG);
    let site = site(&server, CHATGPT);
    // the program that opens a browser: one that goes where the page leads
    let opener = site.path("user/bin/xdg-open");
    std::fs::create_dir_all(opener.parent().unwrap()).unwrap();
    std::fs::write(&opener, "#!/bin/sh\nexec curl -sL -o /dev/null \"$1\"\n").unwrap();
    std::fs::set_permissions(&opener, std::fs::Permissions::from_mode(0o755)).unwrap();
    let path = format!("{}:{}", opener.parent().unwrap().display(), std::env::var("PATH").unwrap());
    let site = site.env("PATH", path);
    let mut editor = Editor::raw(&site, &[]);
    let version = json!({ "protocolVersion": 1, "clientCapabilities": {} });
    let id = editor.ask("initialize", version);
    let methods = editor.result(id)["authMethods"].clone();
    assert_eq!(methods[0]["id"], "leftfold-sign-in-openai", "{methods}");
    let id = editor.ask("authenticate", json!({ "methodId": "leftfold-sign-in-openai" }));
    assert_eq!(editor.result(id), json!({}));
    assert_eq!(stored(&site)["openai"]["access"], server.access().as_str());
    let id = editor.ask("authenticate", json!({ "methodId": "leftfold-sign-in-nobody" }));
    assert_eq!(editor.error(id)["code"], -32602);
}

#[test]
fn the_models_of_an_account_are_listed_with_their_limits() {
    let server = Authorization::start(Mood::Good, 0);
    let site = site(&server, COPILOT);
    with_code(&site, "github-copilot").ok();
    assert_eq!(server.asked("GET /copilot-api/models"), 1);
    let rows = |site: &Site| -> Vec<Value> {
        let listed = site.run(&["models", "github-copilot", "--format", "json"]).ok().stdout;
        listed.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    };
    let listed = rows(&site);
    let names: Vec<&Value> = listed.iter().map(|row| &row["id"]).collect();
    assert_eq!(names, ["gpt-5.6", "claude-sonnet-4.6"]);
    let limit = json!({ "context": 400_000, "input": 272_000, "output": 128_000 });
    assert_eq!((&listed[0]["limit"], &listed[0]["images"]), (&limit, &json!(true)));
    assert_eq!(listed[0]["source"], "account");
    site.prompt("go").ok();
    let body = &server.requests()[0].1;
    // a reply of a model that nobody knows may have 8192
    assert_eq!(body["max_output_tokens"], 32_000, "{body}");
    assert_eq!(server.asked("GET /copilot-api/models"), 1, "a list lasts for a day");

    // an old list is replaced, or used on if the vendor does not answer
    let path = site.path("home/models/accounts.json");
    let text = std::fs::read_to_string(&path).unwrap();
    let mut lists: Value = serde_json::from_str(&text).unwrap();
    lists["github-copilot"]["at"] = json!(1);
    let make_old = || std::fs::write(&path, lists.to_string()).unwrap();
    make_old();
    server.set_mood(Mood::Status(503));
    let shown = site.run(&["models", "github-copilot"]).ok();
    assert!(shown.stdout.contains("github-copilot/gpt-5.6"), "{shown:?}");
    assert!(
        shown.stderr.contains("are as they were: ") && shown.stderr.contains("503"),
        "{shown:?}"
    );
    server.set_mood(Mood::Good);
    make_old();
    assert_eq!(rows(&site).len(), 2);
    assert_eq!(server.asked("GET /copilot-api/models"), 3);
    assert_eq!(rows(&site).len(), 2);
    assert_eq!((server.asked("GET /copilot-api/models"), server.faults()), (3, vec![]));

    site.run(&["auth", "logout", "github-copilot"]).ok();
    let listed = rows(&site);
    // the model in settings
    assert_eq!((listed.len(), &listed[0]["limit"]["context"]), (1, &json!(0)), "{listed:?}");
}

/// Settings name another address, as a trusted project could do by mistake.
#[test]
fn tokens_go_to_the_vendor_whatever_settings_say() {
    let server = Authorization::start(Mood::Good, LONG);
    let site = signed_in(&server);
    let stranger = Server::answering(|_| Answer::Status(400, vec![], "not the vendor".into()));
    let url = stranger.url();
    for openai in [
        json!({ "options": { "baseURL": url } }),
        json!({ "api": url }),
        json!({ "options": { "baseURL": url }, "npm": "@ai-sdk/openai-compatible" }),
        json!({ "options": { "baseURL": url }, "vendor": "openrouter", "wire": "openai-responses" }),
    ] {
        site.file("leftfold.json", json!({ "provider": { "openai": openai } }).to_string());
        let before = server.requests().len();
        site.prompt("go");
        assert!(stranger.requests().is_empty(), "{openai}: {:?}", stranger.requests());
        if openai == json!({ "options": { "baseURL": url } }) {
            assert!(server.requests().len() > before, "the vendor was not asked");
        }
    }
    // with a key of its own the address counts again, and no token goes there
    let key = json!({ "options": { "baseURL": url, "apiKey": "sk-own-0123456789" } });
    site.file("leftfold.json", json!({ "provider": { "openai": key } }).to_string());
    site.prompt("go").with(1);
    let headers: Vec<String> = stranger.requests().into_iter().flat_map(|it| it.headers).collect();
    assert!(headers.contains(&"authorization: Bearer sk-own-0123456789".to_owned()), "{headers:?}");
    for secret in server.secrets() {
        assert!(!headers.iter().any(|header| header.contains(&secret)), "{headers:?}");
    }
}
