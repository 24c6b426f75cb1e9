//! Ways to start the server, and the protocols that it speaks.

use std::net::TcpListener;
use std::os::fd::AsRawFd;
use std::process::{Command, Stdio};

use common::peers::Peers;
use common::{Site, program, script, skipped};
use serde_json::json;

use crate::client::Served;

fn site() -> Site {
    Site::scripted(&script(json!([{ "parts": [{ "text": "Hello." }] }])))
        .setting("provider/double/options/script/on_end", json!("repeat"))
}

/// The command that another one runs, in its environment.
fn like(site: &Site, program: &str, args: &[&str]) -> Command {
    let known = site.command(&[]);
    let mut command = Command::new(program);
    command.args(args).env_clear().current_dir(site.project()).stdin(Stdio::null());
    command.envs(known.get_envs().filter_map(|(name, value)| Some((name, value?))));
    command
}

/// The SDK's `createOpencodeServer` starts the program `opencode` so, and waits for its line.
#[test]
fn a_link_named_opencode_starts_the_server() {
    let site = site();
    let link = site.path("bin").join("opencode");
    std::fs::create_dir_all(link.parent().unwrap()).unwrap();
    std::os::unix::fs::symlink(program(), &link).unwrap();
    let args = ["serve", "--hostname=127.0.0.1", "--port=0", "--log-level=INFO"];
    let mut command = like(&site, link.to_str().unwrap(), &args);
    command.env("OPENCODE_CONFIG_CONTENT", json!({ "default_agent": "plan" }).to_string());
    let mut live = common::Live::start(command);
    let line = live.line().unwrap();
    assert!(line.starts_with("opencode server listening on http://127.0.0.1:"), "{line}");
    live.signal(rustix::process::Signal::TERM);
    assert_eq!(live.wait().code, 0);
}

/// The SDK itself: it starts the server, asks it, and ends it.
#[test]
fn the_sdk_starts_the_server() {
    let Some(peers) = Peers::with_opencode() else { return };
    let site = site();
    let bin = site.path("bin");
    std::fs::create_dir_all(&bin).unwrap();
    std::os::unix::fs::symlink(program(), bin.join("opencode")).unwrap();
    let steps = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/peers/opencode/start.mjs");
    for version in ["v1", "v2"] {
        let folder = peers.folder().display().to_string();
        let mut command = like(&site, peers.node().to_str().unwrap(), &[steps, &folder, version]);
        let others = std::env::var_os("PATH").unwrap_or_default();
        let path = std::iter::once(bin.clone()).chain(std::env::split_paths(&others));
        command.env("PATH", std::env::join_paths(path).unwrap());
        let ran = command.output().unwrap();
        let said = String::from_utf8_lossy(&ran.stdout);
        assert_eq!(said.trim(), "plan: Hello.", "{version}: {ran:?}");
    }
    // it has the store for itself again
    let server = Served::start(&site);
    assert_eq!(server.sessions().len(), 2);
    server.end();
}

/// systemd opens the socket; the address of the command line does not count then.
#[test]
fn a_socket_of_systemd_is_used() {
    let site = site();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    rustix::io::fcntl_setfd(&listener, rustix::io::FdFlags::empty()).unwrap();
    let line =
        format!("exec 3<&{}; export LISTEN_FDS=1 LISTEN_PID=$$; exec \"$@\"", listener.as_raw_fd());
    let program = program().display().to_string();
    let args = ["-c", &line, "bash", &program, "serve", "--hostname", "0.0.0.0", "--port", "1"];
    let server = Served::from_command(like(&site, "bash", &args));
    assert_eq!(server.port, listener.local_addr().unwrap().port());
    assert_eq!(server.get("/global/health").ok()["healthy"], true);
    server.end();

    let line = "exec 3</dev/null; export LISTEN_FDS=1 LISTEN_PID=$$; exec \"$@\"";
    let live = common::Live::start(like(&site, "bash", &["-c", line, "bash", &program, "serve"]));
    let ran = live.wait();
    assert_eq!(ran.code, 2, "{ran:?}");
    assert!(ran.stderr.contains("LISTEN_FDS"), "{ran:?}");
}

/// HTTP/2 without TLS, by prior knowledge: requests, a feed, and the checks of hosts and origins.
#[test]
fn http_2_is_spoken_without_tls() {
    let knows = Command::new("curl").arg("--version").output();
    if !knows.is_ok_and(|known| String::from_utf8_lossy(&known.stdout).contains("HTTP2")) {
        skipped("curl with HTTP/2 is missing");
        return;
    }
    let site = site();
    let server = Served::start(&site);
    let url = |path: &str| format!("http://127.0.0.1:{}{path}", server.port);
    let curl = |args: &[&str]| {
        let mut command = Command::new("curl");
        command.args([
            "-s", "--noproxy", "*", "--http2-prior-knowledge", "-w",
            " %{http_version} %{http_code}",
        ]);
        let ran = command.args(args).output().unwrap();
        String::from_utf8_lossy(&ran.stdout).into_owned()
    };
    let body = ["-H", "content-type: application/json", "-d", "{}"];
    let made = curl(&[&[url("/session").as_str()], &body[..]].concat());
    assert!(made.contains("\"id\":\"ses_") && made.ends_with(" 2 200"), "{made}");
    let feed = curl(&["-N", "--max-time", "2", &url("/global/event")]);
    assert!(feed.contains("server.connected") && feed.contains("session.updated"), "{feed}");
    let foreign = curl(&["-H", "host: evil.example", &url("/session")]);
    assert!(foreign.ends_with(" 2 403"), "{foreign}");
    let foreign = curl(&["-H", "origin: http://evil.example", &url("/session")]);
    assert!(foreign.ends_with(" 2 403"), "{foreign}");
    let large = format!("x: {}", "a".repeat(100_000));
    let large = curl(&["-H", &large, &url("/session")]);
    assert!(!large.ends_with(" 200"), "{large}");
    let missing = curl(&[&url("/nothing")]);
    assert!(missing.contains("NotFoundError") && missing.ends_with(" 2 404"), "{missing}");
    server.end();
}
