//! Signing in with a plugin.

use std::fs;

use common::plugin::{DOOR, has_python, with_door};
use common::{Answer, Block, Live, Ran, Server, Site, Split, message};
use serde_json::{Value, json};

fn server() -> Server {
    Server::answering(|_| Answer::Stream(message(&[Block::Text("Hello.")]), Split::Whole))
}

fn login(site: &Site, input: &str) -> Ran {
    let command = site.command(&["auth", "login", "acme", "--method", "plugin"]);
    Live::piped(command, input)
}

fn stored(site: &Site) -> Value {
    let bytes = fs::read(site.path("home/auth.json")).unwrap();
    serde_json::from_slice::<Value>(&bytes).unwrap()["acme"].clone()
}

/// The last value of a header that the server got.
fn header(server: &Server, name: &str) -> Option<String> {
    let request = server.requests().pop().unwrap();
    let found = request.headers.iter().find_map(|it| it.strip_prefix(&format!("{name}: ")));
    found.map(str::to_owned)
}

#[test]
fn a_plugin_signs_in_with_a_code_and_renews_its_tokens() {
    if !has_python() {
        return;
    }
    let server = server();
    let site = with_door(&server);
    site.prompt("go").with(2).saying(&["ACME_KEY"]);
    login(&site, "1\n2\nblue\nwrong\n").with(1).saying(&["plugin `door`: the code is wrong"]);
    let done = login(&site, "1\n2\nblue\nright\n").ok();
    assert_eq!(done.stdout, "You are signed in at acme with the plugin door.\n");
    done.saying(&["https://acme.test/team/blue", "Look at the page"]);
    let entry = stored(&site);
    let door = site.path("user/door.py").display().to_string();
    assert_eq!(entry["plugin"]["program"], json!(["python3", door]), "{entry}");
    assert_eq!((&entry["type"], &entry["plugin"]["name"]), (&json!("oauth"), &json!("door")));
    let listed = site.run(&["auth", "list"]).ok().stdout;
    assert!(listed.contains("signed in with the plugin door; token refreshed"), "{listed}");
    for _ in 0..2 {
        site.prompt("go").ok();
        let key = header(&server, "x-api-key");
        assert_eq!(key.as_deref(), Some("canary-second-access-0123456789"));
        assert_eq!(header(&server, "x-acme-had").as_deref(), Some("True"));
    }
    let entry = stored(&site);
    assert_eq!(entry["refresh"], "canary-second-refresh-0123456789");
    assert_eq!(entry["plugin"]["name"], "door");
    let told = site.run(&["export", "last"]).ok().stdout + &listed;
    assert!(told.contains("hook.returned") && !told.contains("canary"), "{told}");

    // another plugin of the user's own gets nothing of it
    let other = site.path("user/other.py");
    fs::write(&other, DOOR).unwrap();
    let site = site.setting("plugin", json!([["python3", other]]));
    site.prompt("go").with(2).saying(&["ACME_KEY"]);
    let site = site.env("ACME_KEY", "sk-own-0123456789");
    site.prompt("go").ok();
    assert_eq!(header(&server, "x-acme-had").as_deref(), Some("False"));
    assert_eq!(header(&server, "x-acme-set").as_deref(), Some("error"));
    assert_eq!(stored(&site), entry);
    let out = site.run(&["auth", "logout", "acme"]).ok().stdout;
    assert_eq!(out, "You are signed out of acme: the tokens of the plugin door are removed.\n");
    assert_eq!(stored(&site), Value::Null);
}

#[test]
fn a_plugin_signs_in_by_itself_or_with_a_key() {
    if !has_python() {
        return;
    }
    let server = server();
    let site = with_door(&server);
    login(&site, "2\n").ok();
    site.prompt("go").ok();
    assert_eq!(header(&server, "x-api-key").as_deref(), Some("canary-page-access-0123456789"));
    login(&site, "3\nbad-key-0123456789\n").with(1).saying(&["plugin `door`: a bad key"]);
    login(&site, "3\ngood-key-0123456789\n").ok();
    assert_eq!(stored(&site)["key"], "good-key-0123456789");
    site.prompt("go").ok();
    assert_eq!(header(&server, "x-api-key").as_deref(), Some("good-key-0123456789"));
    // without the plugin a key is still one
    let site = site.setting("plugin", json!([]));
    site.prompt("go").ok();
    assert_eq!(header(&server, "x-api-key").as_deref(), Some("good-key-0123456789"));
}

#[test]
fn a_plugin_of_a_project_offers_no_sign_in_and_gets_no_credential() {
    if !has_python() {
        return;
    }
    let server = server();
    let site = with_door(&server);
    login(&site, "2\n").ok();
    let entry = stored(&site);
    // by the project's settings, and by the user's, which name a file of any project
    let command = json!({ "command": ["python3", site.path("user/door.py")] });
    let relative = json!({ "command": ["python3", "door.py"], "cwd": "{project}" });
    let site = site.setting("plugin", json!([])).env("ACME_KEY", "sk-own-0123456789");
    site.file("door.py", DOOR);
    site.file("leftfold.json", json!({ "plugin": [command] }).to_string());
    let refused = |site: &Site| {
        let listed = site.run(&["plugins"]).ok().stdout;
        assert!(listed.contains("warning: its sign-ins are left out"), "{listed}");
        let wrong = login(site, "").with(2);
        wrong.saying(&[
            "no plugin of your settings offers a sign-in at acme",
            "sign-ins are left out",
        ]);
        site.prompt("go").ok();
        assert_eq!(header(&server, "x-api-key").as_deref(), Some("sk-own-0123456789"));
        assert_eq!(header(&server, "x-acme-had").as_deref(), Some("False"));
        assert_eq!(header(&server, "x-acme-set").as_deref(), Some("error"));
        assert_eq!(stored(site), entry);
    };
    refused(&site);
    site.file("leftfold.json", "{}");
    refused(&site.setting("plugin", json!([relative])));
}
