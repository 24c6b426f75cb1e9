//! Two servers behind a plain load balancer, and OpenCode's own client at it: its requests go to one server, and the
//! events that it prints come from the other.

use std::io::copy;
use std::net::{Shutdown, TcpListener, TcpStream};
use std::thread;

use common::peers::Peers;
use common::postgres::{free_port, shared};
use common::{Live, Site, number, script, wait_until};
use serde_json::{Value, json};

use crate::http_client::Served;
use crate::url;

/// Prompts between which a server is killed.
const ROUND: usize = 3;

/// Sessions beside which one that is not used rests after two seconds.
const OTHERS: usize = 20;

/// The port of a load balancer: each connection goes to the next server, or to the other one if that is gone.
fn balancer(servers: [u16; 2]) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    thread::spawn(move || {
        for (count, client) in listener.incoming().flatten().enumerate() {
            let mut turn = servers.iter().cycle().skip(count % 2).take(2);
            let Some(server) = turn.find_map(|port| TcpStream::connect(("127.0.0.1", *port)).ok())
            else {
                continue;
            };
            for (from, to) in [(&client, &server), (&server, &client)] {
                let (mut from, mut to) = (from.try_clone().unwrap(), to.try_clone().unwrap());
                thread::spawn(move || {
                    // either side may end first
                    let _ = copy(&mut from, &mut to);
                    let _ = to.shutdown(Shutdown::Write);
                });
            }
        }
    });
    port
}

/// What a client printed: the session, and the text of the answer.
fn answer(stdout: &str) -> Option<(String, String)> {
    let mut events = stdout.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let text = events.find(|event| event["type"] == "text")?;
    let session = text["sessionID"].as_str()?.to_owned();
    Some((session, text["part"]["text"].as_str()?.to_owned()))
}

fn messages(server: &Served, session: &str) -> Value {
    server.get(&format!("/session/{session}/message")).ok()
}

#[test]
fn clients_behind_a_load_balancer_get_every_answer() {
    let Some(cluster) = shared() else { return };
    let Some(peers) = Peers::with_opencode() else { return };
    // the client asks for events and sends its prompt at once: no model has answered before it hears of events
    let parts = json!([{ "delay_ms": 200 }, { "text": "Answered." }]);
    let reply = json!([{ "match": { "prompt": "say" }, "parts": parts }]);
    let site =
        Site::scripted(&script(reply)).env("LEFTFOLD_STORE", format!("{}&lease=2", url(cluster)));
    site.run(&["fleet", "init"]).ok();
    let ports = [free_port(), free_port()];
    let serve = |at: usize| {
        let mut command = site.command(&["serve", "--port", &ports[at].to_string()]);
        command.env("LEFTFOLD_HOME", site.path(&format!("node-{at}")));
        Served::from_command(command)
    };
    let mut servers = vec![serve(0), serve(1)];
    let attached = format!("http://127.0.0.1:{}", balancer(ports));
    let mut sessions: [Option<String>; 2] = [None, None];
    let prompts = number("LEFTFOLD_PROMPTS", 3);
    for count in 0..prompts {
        if count % ROUND == ROUND - 1 {
            let at = count / ROUND % 2;
            servers.remove(at).kill();
            servers.insert(at, serve(at));
            for _ in 0..OTHERS {
                let other = servers[at].session();
                servers[at].prompt(&other, "say");
            }
        }
        let prompt = format!("say {count}.");
        let clients = [0, 1].map(|at: usize| {
            let session = &sessions[at];
            let mut args = vec!["run", "--attach", &attached, "--format", "json"];
            args.extend(session.iter().flat_map(|session| ["--session", session.as_str()]));
            args.push(&prompt);
            let mut client = peers.run_opencode(&site, &args);
            // the client locks a database of its own
            client.env("XDG_DATA_HOME", site.path(&format!("client-{at}")));
            Live::start(client)
        });
        sessions = clients.map(|client| {
            let ran = client.wait();
            let (session, text) =
                answer(&ran.stdout).unwrap_or_else(|| panic!("prompt {count}: {ran:?}"));
            assert_eq!(text, "Answered.", "prompt {count}: {ran:?}");
            Some(session)
        });
    }
    for session in sessions.iter().flatten() {
        wait_until("both servers show the same messages", || {
            let shown = [0, 1].map(|at: usize| messages(&servers[at], session));
            shown[0] == shown[1] && shown[0].as_array().unwrap().len() == 2 * prompts
        });
    }
    let mut verify = vec!["verify"];
    verify.extend(sessions.iter().flatten().map(String::as_str));
    site.run(&verify).ok();
}
