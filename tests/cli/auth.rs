//! Stored keys: typed without echo, unreadable for others, in no log.

use std::os::unix::fs::{PermissionsExt, symlink};

use common::{Answer, Block, Live, Ran, Server, Site, Split, end, message};
use serde_json::{Value, json};

const KEY: &str = "sk-ant-0123456789-stored";

fn login(site: &Site, provider: &str, key: &str) -> Ran {
    Live::piped(site.command(&["auth", "login", provider]), key)
}

fn mode(site: &Site) -> u32 {
    std::fs::metadata(site.path("home/auth.json")).unwrap().permissions().mode() & 0o777
}

fn stored(site: &Site) -> Value {
    serde_json::from_slice(&std::fs::read(site.path("home/auth.json")).unwrap()).unwrap()
}

/// A provider `local` whose key can only come from the store.
fn keyless(server: &Server) -> Site {
    Site::served(server).setting("provider/local/options", json!({ "baseURL": server.url() }))
}

#[test]
fn a_piped_key_is_stored_for_its_owner_alone_and_used() {
    let answer = || Answer::Stream(message(&[Block::Text("Hello.")]), Split::Whole);
    let server = Server::start(vec![answer(), answer()]);
    let site = keyless(&server);
    let ran = login(&site, "local", &format!("{KEY}\n")).ok();
    assert!(!ran.stdout.contains(KEY) && !ran.stderr.contains(KEY), "{ran:?}");
    assert_eq!(mode(&site), 0o600);
    assert_eq!(stored(&site), json!({ "local": { "type": "api", "key": KEY } }));
    let ran = site.prompt("go").ok();
    assert_eq!(end(&ran.events())["text"], "Hello.");
    let sent = format!("x-api-key: {KEY}");
    assert!(server.requests()[0].headers.contains(&sent), "{:?}", server.requests()[0].headers);
    let exported = site.run(&["export", "last"]).ok();
    assert!(!ran.stdout.contains(KEY) && !exported.stdout.contains(KEY));
}

#[test]
fn settings_and_variables_come_before_what_is_stored() {
    let server = Server::start(vec![]);
    let site = Site::served(&server).env("ANTHROPIC_API_KEY", "sk-of-the-environment");
    for (provider, first) in [("local", "settings"), ("anthropic", "ANTHROPIC_API_KEY")] {
        login(&site, provider, KEY).ok().saying(&[first, "takes precedence"]);
    }
    let shown = site.run(&["auth", "list", "--format", "json"]).ok();
    let lines: Vec<Value> =
        shown.stdout.lines().map(|l| serde_json::from_str(l).unwrap()).collect();
    let of = |name: &str| lines.iter().find(|line| line["provider"] == name).unwrap();
    assert_eq!(of("local")["key"], "settings");
    assert_eq!(of("anthropic")["key"], json!({ "env": "ANTHROPIC_API_KEY" }));
    assert_eq!(of("anthropic")["stored"], "****ored");
    assert_eq!(of("openai")["key"], Value::Null);
    site.run(&["run", "--format", "json", "go"]).with(1);
    let headers = &server.requests()[0].headers;
    assert!(headers.contains(&"x-api-key: sk-test-0123456789".to_owned()), "{headers:?}");
}

#[test]
fn who_has_a_key_from_where_is_shown_without_it() {
    let site = Site::bare();
    login(&site, "anthropic", KEY).ok();
    let all = ["auth list", "config", "config provider", "models anthropic", "models"];
    for command in all {
        let args: Vec<&str> = command.split(' ').collect();
        let ran = site.run(&args).ok();
        assert!(ran.stdout.contains("leftfold auth login"), "{command}: {ran:?}");
        assert!(!ran.stdout.contains(KEY), "{command}");
    }
    // a stored key makes its provider the default
    site.run(&["config", "model"]).ok();
    let config = site.run(&["config", "model"]).ok();
    assert!(config.stdout.contains("anthropic/"), "{config:?}");
}

#[test]
fn a_key_is_typed_unseen() {
    let site = Site::bare();
    let mut terminal = site.terminal(&["auth", "login", "openai"], 100);
    // two ways to sign in come first
    terminal.until("with [1]: ");
    terminal.press("9\r");
    terminal.until("3  API key");
    terminal.press("3\r");
    terminal.until("it is not shown");
    terminal.press("wrong\u{15}").press(KEY).press("\r");
    assert_eq!(terminal.wait(), 0, "{}", terminal.shown());
    assert!(!terminal.raw.contains("sk-ant") && !terminal.raw.contains("wrong"));
    assert_eq!(stored(&site)["openai"]["key"], KEY);
    let mut terminal = site.terminal(&["auth", "login", "openai", "--method", "key"], 100);
    terminal.until("it is not shown");
    terminal.press("other\u{3}");
    assert_eq!(terminal.wait(), 130, "{}", terminal.shown());
    assert_eq!(stored(&site)["openai"]["key"], KEY);
}

#[test]
fn what_is_no_key_or_no_provider_is_refused_without_being_repeated() {
    let site = Site::bare();
    for text in ["", " \n", "two words", "k\u{e9}y", "line\nline"] {
        let ran = login(&site, "openai", text).with(2);
        assert!(text.trim().is_empty() || !ran.stderr.contains(text), "{ran:?}");
    }
    login(&site, "antropic", KEY).with(2).saying(&["did you mean `anthropic`?"]);
    let ran = site.run(&["auth", "login", "anthropic", KEY]).with(2);
    assert!(!ran.stderr.contains(KEY), "{ran:?}");
    ran.saying(&["command line"]);
    let ran = site.run(&["auth", "login", KEY]).with(2);
    assert!(!ran.stderr.contains(KEY), "{ran:?}");
    assert!(!site.path("home/auth.json").exists());
}

#[test]
fn a_key_is_forgotten() {
    let site = Site::bare().env("OPENAI_API_KEY", "sk-of-the-environment");
    login(&site, "openai", KEY).ok();
    login(&site, "xai", "xai-0123456789abcdef").ok();
    site.run(&["auth", "logout", "openai"]).ok().saying(&["from the variable OPENAI_API_KEY"]);
    assert_eq!(stored(&site).as_object().unwrap().keys().collect::<Vec<_>>(), ["xai"]);
    site.run(&["auth", "logout", "openai"])
        .with(2)
        .saying(&["no key is stored for `openai`", "`xai`"]);
}

#[test]
fn a_file_that_others_can_read_is_closed_to_them() {
    let site = Site::bare();
    login(&site, "openai", KEY).ok();
    let path = site.path("home/auth.json");
    std::fs::set_permissions(&path, PermissionsExt::from_mode(0o644)).unwrap();
    site.run(&["auth", "list"]).ok().saying(&["could be read by others", "644"]);
    assert_eq!(mode(&site), 0o600);
    let again = site.run(&["auth", "list"]).ok();
    assert_eq!(again.stderr, "");
}

#[test]
fn a_damaged_file_is_named_and_left_as_it_is() {
    let site = Site::bare();
    let path = site.path("home/auth.json");
    for text in ["{\"openai\": {\"key\": \"sk-ant-012345", "[]", ""] {
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o600)).unwrap();
        for ran in [login(&site, "openai", KEY), site.run(&["models"])] {
            let ran = ran.with(2);
            assert!(!ran.stderr.contains("012345"), "{ran:?}");
            ran.saying(&["auth.json:", "repair or remove"]);
        }
        assert_eq!(std::fs::read_to_string(&path).unwrap(), text);
    }
}

#[test]
fn what_others_keep_there_and_a_link_stay() {
    let site = Site::bare();
    let elsewhere = site.path("user/keys.json");
    let oauth = json!({ "type": "oauth", "refresh": "r" });
    std::fs::write(&elsewhere, json!({ "copilot": oauth }).to_string()).unwrap();
    std::fs::set_permissions(&elsewhere, PermissionsExt::from_mode(0o600)).unwrap();
    symlink(&elsewhere, site.path("home/auth.json")).unwrap();
    login(&site, "openai", KEY).ok();
    assert_eq!(stored(&site)["copilot"], oauth);
    assert!(site.path("home/auth.json").symlink_metadata().unwrap().is_symlink());
    assert_eq!(mode(&site), 0o600);
}

#[test]
fn logins_at_the_same_time_lose_nothing() {
    let site = Site::bare();
    let providers = ["anthropic", "openai", "google", "xai", "mistral", "groq"];
    std::thread::scope(|scope| {
        for provider in providers {
            let site = &site;
            scope.spawn(move || login(site, provider, KEY).ok());
        }
    });
    assert_eq!(stored(&site).as_object().unwrap().len(), providers.len());
}

#[test]
fn a_refused_key_is_told_with_what_to_do() {
    let body = json!({ "type": "error", "error": { "type": "authentication_error",
        "message": format!("invalid x-api-key: {KEY}") } });
    let server = Server::start(vec![Answer::Status(401, vec![], body.to_string())]);
    let site = keyless(&server);
    login(&site, "local", KEY).ok();
    let ran = site.prompt("go").with(1);
    let error = end(&ran.events())["error"].as_str().unwrap().to_owned();
    assert!(error.contains("leftfold auth login local"), "{error}");
    assert!(!ran.stdout.contains(KEY) && !ran.stderr.contains(KEY));
    assert_eq!(server.requests().len(), 1);
}
