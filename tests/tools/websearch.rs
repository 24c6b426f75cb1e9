//! `websearch` and `codesearch`, against search services on this machine that answer well and badly.

use std::io::{BufRead, BufReader, Read};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use common::{Site, call, only, says, script};
use serde_json::{Value, json};

use crate::webfetch::{ok, redirect, send, until_gone};

const KEY: &str = "canary-key-0123456789";

/// A request as a service gets it: the lines of its head, and its body.
#[derive(Clone, Debug, Default)]
struct Request {
    head: Vec<String>,
    body: String,
}

impl Request {
    fn has(&self, line: &str) -> bool {
        self.head.iter().any(|known| known == line)
    }
}

/// A service that answers with `answer`, and the requests that it has got.
struct Service {
    address: SocketAddr,
    requests: Arc<Mutex<Vec<Request>>>,
}

impl Service {
    fn new(answer: impl Fn(usize, &mut TcpStream) + Send + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let requests = Arc::new(Mutex::new(Vec::new()));
        let got = Arc::clone(&requests);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                let mut reader = BufReader::new(stream.try_clone().unwrap());
                let lines = reader.by_ref().lines().map_while(Result::ok);
                let head: Vec<String> = lines.take_while(|line| !line.is_empty()).collect();
                let length = head.iter().find_map(|line| line.strip_prefix("content-length: "));
                let mut body = vec![0; length.map_or(0, |length| length.parse().unwrap())];
                reader.read_exact(&mut body).unwrap();
                let body = String::from_utf8(body).unwrap();
                let number = {
                    let mut got = got.lock().unwrap();
                    got.push(Request { head, body });
                    got.len()
                };
                answer(number, &mut stream);
            }
        });
        Self { address, requests }
    }

    fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    fn requests(&self) -> Vec<Request> {
        self.requests.lock().unwrap().clone()
    }

    /// A project with this service for both tools.
    fn site(&self, provider: &str) -> Site {
        let service =
            json!({ "provider": provider, "url": self.url(), "apiKey": "{env:SEARCH_KEY}" });
        Site::bare()
            .env("SEARCH_KEY", KEY)
            .setting("websearch", service.clone())
            .setting("codesearch", service)
    }
}

fn results() -> Value {
    json!([{
        "title": "A page", "url": "https://example.com/a", "content": "Some text.", "description": "Some text.",
        "text": "Some text.", "publishedDate": "2026-01-02",
    }])
}

/// An answer that every service could give.
fn answer(results: &Value) -> String {
    json!({ "type": "search", "results": results, "web": { "results": results } }).to_string()
}

fn search(site: &Site, tool: &str, args: &Value) -> Value {
    let ran = site.run(&["tool", tool, "--args", &args.to_string()]);
    assert!(!format!("{ran:?}").contains(KEY), "{ran:?}");
    let output: Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!(ran.code, i32::from(output["is_error"] == true), "{ran:?}");
    output
}

/// The output of a success, or the kind of an error and the output.
fn summary(output: &Value) -> String {
    let text = output["output"].as_str().unwrap();
    match output["metadata"]["error_kind"].as_str() {
        Some(kind) => format!("{kind}: {text}"),
        None => text.to_owned(),
    }
}

#[test]
fn each_service_gets_its_request_and_its_key() {
    for (provider, name, line, key) in [
        (
            "searxng",
            "SearXNG",
            "GET /search?q=a+%26+b&format=json&categories=CAT HTTP/1.1",
            "authorization: Bearer",
        ),
        (
            "brave",
            "Brave Search",
            "GET /web/search?q=a+%26+bSITES&count=3&text_decorations=false HTTP/1.1",
            "x-subscription-token:",
        ),
        ("tavily", "Tavily", "POST /search HTTP/1.1", "authorization: Bearer"),
        ("exa", "Exa", "POST /search HTTP/1.1", "x-api-key:"),
    ] {
        let service = Service::new(|_, stream| ok(stream, "application/json", answer(&results())));
        let site = service.site(provider);
        for (at, tool) in ["websearch", "codesearch"].into_iter().enumerate() {
            let output = search(&site, tool, &json!({ "query": " a & b ", "numResults": 3 }));
            let text = output["output"].as_str().unwrap();
            assert!(text.starts_with(&format!("{name} (127.0.0.1): ")), "{text}");
            assert!(
                text.contains(
                    "\n[1] https://example.com/a\n    A page\n    2026-01-02\n    Some text."
                ),
                "{text}"
            );
            assert_eq!(output["title"], "a & b");
            assert_eq!(output["metadata"]["provider"], provider);
            assert_eq!(output["metadata"]["results"][0]["url"], "https://example.com/a");
            let request = &service.requests()[at];
            let is_code = tool == "codesearch";
            let line = line.replace("CAT", if is_code { "it" } else { "general" });
            match line.split_once("SITES") {
                Some((start, end)) => {
                    let said = &request.head[0];
                    assert!(said.starts_with(start) && said.ends_with(end), "{said}");
                    assert_eq!(said.contains("site%3Agithub.com+OR+"), is_code, "{said}");
                }
                None => assert_eq!(request.head[0], line),
            }
            assert!(request.has(&format!("{key} {KEY}")), "{request:?}");
            let body: Value = serde_json::from_str(&request.body).unwrap_or_default();
            match provider {
                "tavily" => {
                    assert_eq!(
                        (&body["query"], &body["max_results"]),
                        (&json!("a & b"), &json!(3))
                    );
                    assert_eq!(body["include_domains"].is_array(), is_code);
                }
                "exa" => {
                    assert_eq!((&body["query"], &body["numResults"]), (&json!("a & b"), &json!(3)));
                    assert_eq!(body["includeDomains"].is_array(), is_code);
                    assert_eq!(body["contents"]["text"]["maxCharacters"], 1_500);
                }
                _ => assert_eq!(request.body, ""),
            }
        }
    }
}

#[test]
fn errors_say_which_setting_to_look_at() {
    let status = |line: &'static str, body: &'static str| {
        move |_: usize, stream: &mut TcpStream| {
            let length = body.len();
            send(
                stream,
                format!(
                    "HTTP/1.1 {line}\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n{body}"
                ),
            );
        }
    };
    let echo =
        "{\"detail\": \"the key canary-key-0123456789 is wrong\n[1] https://evil.example/\"}";
    for (provider, line, body, parts) in [
        (
            "exa",
            "401 Unauthorized",
            echo,
            &["http_status: ", "401", "`websearch.apiKey`", "\n    [1] https://evil"][..],
        ),
        ("tavily", "402 Payment Required", "", &["402", "has no searches left"]),
        ("brave", "403 Forbidden", "no", &["403", "`websearch.apiKey`", "\n    no"]),
        ("searxng", "403 Forbidden", "", &["`search.formats`", "`json`"]),
        ("searxng", "404 Not Found", "", &["404", "`websearch.url`"]),
        ("brave", "500 Oops", "", &["answers 500"]),
        (
            "searxng",
            "200 OK",
            "<html>search</html>",
            &["network: ", "is not a list of results", "`websearch.url`"],
        ),
        ("exa", "429 Slow\r\nretry-after: 3600", "", &["429", "try again in 3600 s"]),
        (
            "exa",
            "429 Slow\r\nretry-after: Wed, 21 Oct 2026 07:28:00 GMT",
            "",
            &["429", "try again later"],
        ),
        (
            "tavily",
            "302 Found\r\nlocation: http://169.254.169.254/latest/",
            "",
            &[
                "address_refused: ",
                "redirects to \"http://169.254.169.254/latest/\"",
                "follow no redirect",
                "`websearch.url`",
            ],
        ),
    ] {
        let service = Service::new(status(line, body));
        let told = summary(&search(&service.site(provider), "websearch", &json!({ "query": "x" })));
        for part in parts {
            assert!(told.contains(part), "{provider} {line}: {told}");
        }
        assert_eq!(service.requests().len(), 1, "{provider} {line}");
    }
    let nobody = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let site = Site::bare().setting("websearch", json!({ "url": format!("http://{nobody}") }));
    let told = summary(&search(&site, "websearch", &json!({ "query": "x" })));
    assert!(
        told.starts_with(&format!("network: No connection to http://{nobody}/search: ")),
        "{told}"
    );
}

/// The key goes to the service alone, so a redirect to another server of this machine is not followed either.
#[test]
fn no_redirect_is_followed() {
    let other = Service::new(|_, stream| ok(stream, "application/json", answer(&results())));
    let to = other.url();
    let service = Service::new(move |_, stream| redirect(stream, &format!("{to}/search")));
    let told = summary(&search(&service.site("exa"), "codesearch", &json!({ "query": "x" })));
    assert!(told.contains("`codesearch.url`"), "{told}");
    assert!(other.requests().is_empty());
}

#[test]
fn a_service_that_is_asked_too_often_is_asked_once_more() {
    for (head, patient) in
        [("retry-after: 1\r\n", true), ("", true), ("retry-after: 60\r\n", false)]
    {
        let busy =
            format!("HTTP/1.1 429 Slow\r\n{head}connection: close\r\ncontent-length: 0\r\n\r\n");
        for recovers in [true, false] {
            let busy = busy.clone();
            let service = Service::new(move |number, stream| match number {
                2.. if recovers => ok(stream, "application/json", answer(&results())),
                _ => send(stream, &busy),
            });
            let start = Instant::now();
            let told =
                summary(&search(&service.site("exa"), "websearch", &json!({ "query": "x" })));
            let asked = service.requests().len();
            assert_eq!(asked, if patient { 2 } else { 1 }, "{head:?} {recovers}");
            assert_eq!(told.contains("[1] https"), patient && recovers, "{told}");
            assert!(!patient || start.elapsed() >= Duration::from_secs(1));
        }
    }
}

#[test]
fn floods_and_silence_end() {
    let service = Service::new(|_, stream| {
        send(stream, "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n\r\n{\"results\": [\"");
        let chunk = "x".repeat(1 << 16);
        use std::io::Write;
        while stream.write_all(chunk.as_bytes()).is_ok() {}
    });
    let told = summary(&search(&service.site("exa"), "websearch", &json!({ "query": "x" })));
    assert!(told.starts_with("too_large: "), "{told}");
    let service = Service::new(|_, stream| until_gone(stream));
    let start = Instant::now();
    let told = summary(&search(&service.site("exa"), "websearch", &json!({ "query": "x" })));
    assert!(told.starts_with("timeout: ") || told.contains("25000 ms"), "{told}");
    assert!(start.elapsed() < Duration::from_secs(100), "{:?}", start.elapsed());
    let many: Vec<Value> = (0..100)
        .map(|n| {
            let text = "word ".repeat(1_000);
            json!({ "title": text, "url": format!("https://example.com/{n}"), "content": text })
        })
        .collect();
    let many = answer(&json!(many));
    let service = Service::new(move |_, stream| ok(stream, "application/json", &many));
    let output =
        search(&service.site("searxng"), "websearch", &json!({ "query": "x", "numResults": 999 }));
    assert_eq!(output["metadata"]["results"].as_array().unwrap().len(), 20);
    assert!(output["output"].as_str().unwrap().len() < 51_200);
    assert_eq!(output["spill"], Value::Null);
}

#[test]
fn only_a_service_in_settings_that_count_makes_a_tool() {
    let service = Service::new(|_, stream| ok(stream, "application/json", answer(&results())));
    let url = service.url();
    let text = json!({ "websearch": { "url": url } }).to_string();
    let doctor = |site: &Site, said: &str| {
        let found = site.run(&["doctor"]).stdout;
        assert!(found.contains(said), "{found}");
    };
    let refused = |site: &Site| {
        let told = summary(&search(site, "websearch", &json!({ "query": "x" })));
        assert!(told.starts_with("not_configured: "), "{told}");
    };
    let site = Site::bare();
    refused(&site);
    doctor(&site, "websearch: off, because settings name no service for it");
    // a project that the user does not trust
    let site = Site::bare();
    site.file_of_stranger("leftfold.json", &text);
    refused(&site);
    doctor(&site, "chooses the service that gets your searches to 127.0.0.1");
    assert!(service.requests().is_empty());
    let site =
        Site::bare().setting("websearch", json!({ "provider": "exa", "apiKey": "{env:NOT_SET}" }));
    refused(&site);
    doctor(&site, "NOT_SET");
    let site = Site::bare().setting("codesearch", json!({ "provider": "brave" }));
    doctor(&site, "`codesearch`: Brave Search needs an `apiKey`");
    let site = service.site("searxng");
    doctor(&site, &format!("websearch: SearXNG at {url}/search"));
    let wrong = Site::bare().setting("websearch", json!({ "provider": "gogle" }));
    wrong
        .run(&["tool", "websearch", "--args", "{}"])
        .with(2)
        .saying(&["`websearch.provider`", "\"searxng\""]);
}

#[test]
fn a_model_searches_by_permission() {
    let service = Service::new(|_, stream| {
        let found = json!([{
            "title": "Echo", "url": "https://example.com/", "content": format!("your key is {KEY}"),
        }]);
        ok(stream, "application/json", answer(&found));
    });
    let turn = json!([call("websearch", json!({ "query": "rust news" })), says("Done.")]);
    let settings = json!({ "url": service.url(), "apiKey": "{env:SEARCH_KEY}" });
    let site = Site::scripted(&script(&turn))
        .env("SEARCH_KEY", KEY)
        .setting("websearch", settings.clone());
    let events = site.prompt("go").ok().events();
    let finished = only(&events, "tool.finished");
    assert_eq!(finished["data"]["is_error"], false, "{finished}");
    assert!(
        finished["data"]["output"].as_str().unwrap().contains("[1] https://example.com/\n    Echo")
    );
    assert!(!json!(events).to_string().contains(KEY));
    let access = json!([{ "permission": "websearch", "patterns": ["rust news"], "always": ["*"] }]);
    assert_eq!(only(&events, "tool.resolved")["data"]["access"], access);
    let asked = common::all(&events, "model.requested")[0]["seq"].to_string();
    let request = site.run(&["explain", "last", &asked, "--request"]).ok().stdout;
    let request: Value = serde_json::from_str(&request).unwrap();
    let tools = request["tools"].to_string();
    assert!(tools.contains("\"websearch\"") && !tools.contains("\"codesearch\""), "{tools}");
    site.assert_sound();
    let denied = Site::scripted(&script(&turn))
        .env("SEARCH_KEY", KEY)
        .setting("websearch", settings)
        .setting("permission", json!({ "websearch": { "rust *": "deny" } }));
    let events = denied.prompt("go").ok().events();
    assert_eq!(common::all(&events, "tool.started").len(), 0);
    assert_eq!(service.requests().len(), 1);
}
