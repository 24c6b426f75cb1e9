//! Instruction files: in the system prompt sent to the model, and attached to files that are read.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::time::{Duration, Instant};

use common::{Answer, Block, Server, Site, Split, all, message, only};
use serde_json::{Value, json};

fn says() -> Answer {
    Answer::Stream(message(&[Block::Text("Done.")]), Split::Whole)
}

fn reads(paths: &[&'static str]) -> Answer {
    let call =
        |path: &&'static str| Block::Call(path, "read", json!({ "filePath": path }).to_string());
    let calls: Vec<Block> = paths.iter().map(call).collect();
    Answer::Stream(message(&calls), Split::Whole)
}

/// The blocks of the system prompt of each request.
fn systems(server: &Server) -> Vec<Vec<String>> {
    let blocks = |body: &Value| {
        let blocks = body["system"].as_array().unwrap().iter();
        blocks.map(|block| block["text"].as_str().unwrap().to_owned()).collect()
    };
    server.requests().iter().map(|request| blocks(&request.body)).collect()
}

/// A server that answers every request with `text`. Returns its address.
fn page(text: &'static str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}/rules.md", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let lines = BufReader::new(&stream).lines().map_while(Result::ok);
            lines.take_while(|line| !line.is_empty()).for_each(drop);
            let length = text.len();
            let head = "HTTP/1.1 200 OK\r\ncontent-type: text/markdown\r\nconnection: close";
            // a client may hang up at any time
            let _ = write!(stream, "{head}\r\ncontent-length: {length}\r\n\r\n{text}");
        }
    });
    address
}

#[test]
fn the_system_prompt_has_two_blocks_that_stay_the_same() {
    let server = Server::start(vec![says(), says()]);
    let url = page("Rules of the web.");
    let site = Site::served(&server)
        .setting("instructions", json!(["docs/*.md", "~/own.md", url]))
        .setting("webfetch", json!({ "private": true }));
    site.file("AGENTS.md", "Rules of the project.\n");
    site.file("docs/one.md", "Rules of docs.\n");
    site.file(".leftfold/skills/tidy/SKILL.md", "---\ndescription: Tidying.\n---\nTidy.\n");
    for (name, text) in [("user/own.md", "My own."), ("config/leftfold/AGENTS.md", "Global.")] {
        let path = site.path(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    let ran = site.prompt("one").ok();
    assert_eq!(ran.stderr, "");
    assert_eq!(only(&ran.events(), "turn.configured")["data"]["prompt"], "default");
    let again = site.run(&["run", "--format", "json", "--continue", "two"]).ok().events();
    let systems = systems(&server);
    let [first, second] = systems.as_slice() else { panic!("{systems:?}") };
    assert_eq!(first, second);
    // nothing has changed, so nothing was logged
    assert_eq!(all(&again, "turn.configured").len(), 0);
    let [base, rest] = first.as_slice() else { panic!("{first:?}") };
    assert!(base.starts_with("You are Leftfold"), "{base}");
    let marks = [
        "<environment>\nModel: local/m\n",
        &format!("from: {}\nGlobal.", site.path("config/leftfold/AGENTS.md").display()),
        &format!("from: {}\nRules of the project.", site.project().join("AGENTS.md").display()),
        &format!("from: {}\nRules of docs.", site.project().join("docs/one.md").display()),
        &format!("from: {}\nMy own.", site.path("user/own.md").display()),
        &format!("from: {url}\nRules of the web."),
        "\n- tidy: Tidying.\n</skills>",
    ];
    let places: Vec<usize> = marks
        .iter()
        .map(|mark| rest.find(mark).unwrap_or_else(|| panic!("{mark}: {rest}")))
        .collect();
    assert!(places.is_sorted(), "{rest}");
    site.assert_sound();
}

#[test]
fn what_is_wrong_is_said_and_left_out() {
    let server = Server::start(vec![says()]);
    let site = Site::served(&server)
        .setting("instructions", json!(["gone.md", "http://127.0.0.1:9/rules"]));
    site.file("AGENTS.md", b"\xff\xff");
    site.file(".leftfold/skills/broken/SKILL.md", "no head\n");
    let ran = site.prompt("go").ok();
    for said in [
        "AGENTS.md: it is not UTF-8 text", "there is no file \"gone.md\"",
        "http://127.0.0.1:9/rules: ", "broken/SKILL.md:1: ",
    ] {
        assert_eq!(ran.stderr.matches(said).count(), 1, "{said}: {}", ran.stderr);
    }
    assert!(!systems(&server)[0][1].contains("<instructions>"));
}

#[test]
fn a_page_that_does_not_answer_is_left_out_after_five_seconds() {
    // connections are made, and nobody answers
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/rules", silent.local_addr().unwrap());
    let server = Server::start(vec![says()]);
    let site = Site::served(&server)
        .setting("instructions", json!([url, page("Rules of the web.")]))
        .setting("webfetch", json!({ "private": true }));
    let began = Instant::now();
    let ran = site.prompt("go").ok();
    assert!(ran.stderr.contains(&format!("{url}: no answer within 5 s")), "{}", ran.stderr);
    assert!(began.elapsed() >= Duration::from_secs(5), "{:?}", began.elapsed());
    let rest = &systems(&server)[0][1];
    assert!(rest.contains("Rules of the web.") && !rest.contains(&url), "{rest}");
}

#[test]
fn a_folders_instructions_come_with_the_first_file_read_there_and_once() {
    let server = Server::start(vec![
        reads(&["sub/a.txt", "sub/b.txt", "top.txt"]),
        reads(&["sub/deep/c.txt"]),
        says(),
        reads(&["sub/a.txt"]),
        says(),
    ]);
    let site = Site::served(&server).setting("instructions", json!(["sub/deep/AGENTS.md"]));
    site.file("AGENTS.md", "Rules of the project.\n");
    site.file("sub/AGENTS.md", "Rules of sub.\n");
    site.file("sub/deep/AGENTS.md", "Rules of deep.\n");
    for name in ["sub/a.txt", "sub/b.txt", "top.txt", "sub/deep/c.txt"] {
        site.file(name, "text\n");
    }
    site.prompt("one").ok();
    site.run(&["run", "--format", "json", "--continue", "two"]).ok();
    let events = site.exported();
    let finished = all(&events, "tool.finished");
    let told: Vec<&Value> =
        finished.iter().map(|event| &event["data"]["metadata"]["instructions"]).collect();
    let sub = site.project().join("sub/AGENTS.md").display().to_string();
    assert_eq!(told.len(), 5);
    assert_eq!(told.iter().filter(|told| **told == &json!([sub])).count(), 1, "{told:?}");
    assert_eq!(told.iter().filter(|told| told.is_null()).count(), 4, "{told:?}");
    let last = server.requests().pop().unwrap().body["messages"].to_string();
    assert_eq!(last.matches("Rules of sub.").count(), 1, "{last}");
    assert_eq!(last.matches("Rules of deep.").count() + last.matches("of the project").count(), 0);
    site.assert_sound();
}
