//! Signing in at remote MCP servers, and the stored tokens.

use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::process::Stdio;

use common::guarded::{Guarded, LONG, SHORT, get, location};
use common::{Live, Site, all, call, end, says, script, wait_until};
use serde_json::{Value, json};

/// A site with the server `far`, and a model that makes these calls.
fn site(guarded: &Guarded, calls: &[(&str, Value)]) -> Site {
    let mut replies: Vec<Value> = calls.iter().map(|(name, input)| call(name, input)).collect();
    replies.push(says("So be it."));
    let site = Site::scripted(&script(json!(replies)));
    site.setting("/mcp", json!({ "far": { "type": "remote", "url": guarded.url } }))
}

fn echo() -> (&'static str, Value) {
    ("far_echo", json!({ "text": "hello" }))
}

/// The stored tokens of all servers.
fn kept(site: &Site) -> Value {
    let path = site.path("home/mcp-auth.json");
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

#[test]
fn whoever_has_signed_in_can_use_the_server_until_it_is_forgotten() {
    let guarded = Guarded::start(LONG);
    let site = site(&guarded, &[echo()]);
    let ran = site.prompt("go").ok().saying(&["MCP server `far`: it requires you to sign in"]);
    assert_eq!(end(&ran.events())["text"], "So be it.");
    let login = site.run(&["mcp", "login", "far", "--consent", "follow"]).ok();
    assert!(login.stdout.starts_with("double 1.5, protocol 2025-11-25\n"), "{login:?}");
    let pages = guarded.asked("GET /authorize");
    assert_eq!(pages.len(), 1);
    for part in ["code_challenge_method=S256", "state=", "resource=", "scope=read", "client_id="] {
        assert!(pages[0].contains(part), "{}", pages[0]);
    }
    let bought = &guarded.asked("POST /token")[0];
    // the client's id and secret, in the only form that the server accepts
    assert!(bought.contains("Basic ") && bought.contains("code_verifier="), "{bought}");
    let grant = &kept(&site)[&guarded.url];
    assert_eq!(grant["client_secret"], "secret-0123456789");
    let events = site.prompt("go").ok().events();
    assert_eq!(all(&events, "tool.finished")[0]["data"]["output"], "You said hello.");
    let exported = site.run(&["export", "last"]).ok().stdout;
    assert!(!exported.contains(&guarded.token()), "{exported}");
    let logout = site.run(&["mcp", "logout", &guarded.url]).ok();
    assert_eq!(logout.stdout, "The stored tokens are removed: far\n");
    assert_eq!(kept(&site), json!({}));
    site.prompt("go").ok().saying(&["it requires you to sign in"]);
}

#[test]
fn the_browser_comes_back_to_the_port_in_settings() {
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = free.local_addr().unwrap().port();
    let guarded = Guarded::start(LONG);
    let site = site(&guarded, &[]).setting("/mcp/far/oauth", json!({ "callbackPort": port }));
    let login = ["mcp", "login", "far", "--consent", "follow"];
    site.run(&login).with(1).saying(&["cannot listen on the port for the browser's redirect"]);
    drop(free);
    site.run(&login).ok();
    let pages = guarded.asked("GET /authorize");
    let address = format!("redirect_uri=http%3A%2F%2F127.0.0.1%3A{port}%2Fcallback");
    assert!(pages.len() == 1 && pages[0].contains(&address), "{pages:?}");
}

#[test]
fn a_token_is_refreshed_when_it_is_about_to_expire() {
    let guarded = Guarded::start(SHORT);
    let site = site(&guarded, &[echo()]);
    site.run(&["mcp", "login", "far", "--consent", "follow"]).ok();
    let before = guarded.asked("POST /token").len();
    let events = site.prompt("go").ok().events();
    assert_eq!(all(&events, "tool.finished")[0]["data"]["output"], "You said hello.");
    let bought = guarded.asked("POST /token");
    let refreshed = &bought[before..];
    assert!(!refreshed.is_empty(), "{bought:?}");
    for asked in refreshed {
        assert!(asked.contains("grant_type=refresh_token") && asked.contains("Basic "), "{asked}");
    }
    // each refresh token is good once, and the last is stored
    let tokens: Vec<&str> =
        refreshed.iter().filter_map(|a| a.split("refresh_token=").nth(1)).collect();
    assert_eq!(guarded.asked("GET /authorize").len(), 1);
    let last = &kept(&site)[&guarded.url]["credentials"]["token_response"];
    assert_eq!(last["access_token"], guarded.token().as_str());
    assert_eq!(tokens.len(), refreshed.len());
}

#[test]
fn more_rights_are_asked_for_when_a_call_wants_them() {
    let guarded = Guarded::start(LONG);
    let site = site(&guarded, &[("far_fail", json!({}))]);
    site.run(&["mcp", "login", "far", "--consent", "follow"]).ok();
    let events = site.prompt("go").ok().events();
    let said = all(&events, "tool.finished")[0]["data"]["output"].as_str().unwrap().to_owned();
    assert!(said.contains("leftfold mcp login"), "{said}");
    let probe =
        ["mcp", "probe", "far", "--consent", "follow", "--call", "fail={\"text\":\"luck\"}"];
    let probed = site.run(&probe).with(1);
    assert!(probed.stdout.contains("failed: No luck here."), "{probed:?}");
    let pages = guarded.asked("GET /authorize");
    assert_eq!(pages.len(), 2);
    assert!(pages[1].contains("scope=read+admin"), "{}", pages[1]);
}

/// A site whose browser writes down the address of its page.
fn with_browser(guarded: &Guarded) -> Site {
    let site = site(guarded, &[]);
    let browser = site.path("bin/xdg-open");
    std::fs::create_dir(site.path("bin")).unwrap();
    let page = site.path("page");
    let script =
        format!("#!/bin/sh\nprintf %s \"$1\" > {0}.new && mv {0}.new {0}\n", page.display());
    std::fs::write(&browser, script).unwrap();
    std::fs::set_permissions(&browser, PermissionsExt::from_mode(0o755)).unwrap();
    let path = format!("{}:{}", site.path("bin").display(), std::env::var("PATH").unwrap());
    site.env("PATH", path)
}

/// The address that the browser was given.
fn page(site: &Site) -> String {
    let mut page = String::new();
    wait_until("a browser has a page", || {
        page = std::fs::read_to_string(site.path("page")).unwrap_or_default();
        !page.is_empty()
    });
    page
}

#[test]
fn a_browser_comes_back_by_itself() {
    let guarded = Guarded::start(LONG);
    let site = with_browser(&guarded);
    let live = site.start(&["mcp", "login", &guarded.url, "--consent", "browser"]);
    let to = location(&get(&page(&site)));
    // another program that knows the port but not the state
    let other = get(&to.replace("state=", "state=x"));
    assert!(other.starts_with("HTTP/1.1 400"), "{other}");
    let shown = get(&to);
    assert!(shown.starts_with("HTTP/1.1 200") && shown.contains("Leftfold continues"), "{shown}");
    let ran = live.wait().ok().saying(&["open this page to sign in:", "/authorize?"]);
    assert!(ran.stdout.contains("\n  echo  The tool echo of a double.\n"), "{ran:?}");
}

#[test]
fn what_the_page_leads_to_can_be_pasted() {
    let guarded = Guarded::start(LONG);
    let site = with_browser(&guarded);
    let mut command = site.command(&["mcp", "login", "far", "--consent", "browser"]);
    command.stdin(Stdio::piped());
    let mut live = Live::start(command);
    let mut input = live.input();
    let to = location(&get(&page(&site)));
    writeln!(input, "\n{to}").unwrap();
    live.wait().ok();
    assert!(kept(&site)[&guarded.url]["credentials"]["token_response"].is_object());
}

#[test]
fn a_refusal_is_told_and_what_was_granted_before_stays() {
    let guarded = Guarded::start(LONG);
    let site = with_browser(&guarded);
    site.run(&["mcp", "login", "far", "--consent", "follow"]).ok();
    let before = kept(&site);
    let live = site.start(&["mcp", "login", "far", "--consent", "browser"]);
    let to = location(&get(&page(&site)));
    let shown = get(&to.replace("code=code-1", "error=access_denied"));
    assert!(shown.contains("You have not signed in"), "{shown}");
    live.wait().with(1).saying(&["MCP server `far`: there was no consent: access_denied"]);
    assert_eq!(kept(&site), before);
}

#[test]
fn only_servers_elsewhere_are_signed_in_at() {
    let site = Site::bare().setting("/mcp", json!({ "m": { "command": ["true"] } }));
    let why = "MCP server `m`: it is a local server, so there is no sign-in";
    site.run(&["mcp", "login", "m"]).with(1).saying(&[why]);
    let unknown = site.run(&["mcp", "login", "far"]).with(2);
    unknown.saying(&[
        "there is no MCP server `far`; valid names are `m`; give a name from settings or a URL",
    ]);
    let nobody = Site::bare().run(&["mcp", "logout", "https://mcp.example.com/mcp"]).ok();
    assert_eq!(nobody.stdout, "No tokens were stored: https://mcp.example.com/mcp\n");
}
