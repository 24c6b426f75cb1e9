//! How many connections a long run uses.

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use common::{Block, Server, Site, all, end, message};
use serde_json::{Value, json};

/// Steps of the turn.
const STEPS: usize = 50;

/// A server that keeps its connections open.
struct StoreListener {
    address: SocketAddr,
    connections: Arc<AtomicUsize>,
    requests: Arc<Mutex<usize>>,
}

impl StoreListener {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let connections = Arc::new(AtomicUsize::new(0));
        let requests = Arc::new(Mutex::new(0));
        let (seen, asked) = (Arc::clone(&connections), Arc::clone(&requests));
        std::thread::spawn(move || {
            let steps = Arc::new(AtomicUsize::new(0));
            for stream in listener.incoming() {
                seen.fetch_add(1, Ordering::SeqCst);
                let (asked, steps) = (Arc::clone(&asked), Arc::clone(&steps));
                std::thread::spawn(move || serve(&stream.unwrap(), &asked, &steps));
            }
        });
        Self { address, connections, requests }
    }
}

fn serve(mut stream: &TcpStream, asked: &Mutex<usize>, steps: &AtomicUsize) {
    let mut reader = BufReader::new(stream);
    while let Some(body) = read(&mut reader) {
        *asked.lock().unwrap() += 1;
        // only the turn's own requests have tools
        let answer = match body.get("tools") {
            None => chunked(&message(&[Block::Text("A title")])),
            Some(_) => step(steps.fetch_add(1, Ordering::SeqCst)),
        };
        if stream.write_all(answer.as_bytes()).is_err() {
            return;
        }
    }
}

/// Every tenth request gets an overloaded error.
fn step(n: usize) -> String {
    if n % 10 == 9 {
        let head = "HTTP/1.1 529 Busy\r\nretry-after-ms: 1\r\ncontent-length: 4\r\n\r\n";
        return format!("{head}busy");
    }
    if n >= STEPS {
        return chunked(&message(&[Block::Text("Done.")]));
    }
    let id: &'static str = Box::leak(format!("toolu_{n}").into_boxed_str());
    // three identical calls in a row would need permission
    let todos = json!([{ "id": "1", "content": format!("step {n}"), "status": "pending", "priority": "low" }]);
    let input = json!({ "todos": todos }).to_string();
    chunked(&message(&[Block::Call(id, "todowrite", input)]))
}

fn chunked(body: &str) -> String {
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked";
    format!("{head}\r\n\r\n{:x}\r\n{body}\r\n0\r\n\r\n", body.len())
}

fn read(reader: &mut impl BufRead) -> Option<Value> {
    let mut length = 0;
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).ok()? == 0 {
            return None;
        }
        let line = line.trim_end().to_lowercase();
        if line.is_empty() {
            break;
        }
        if let Some(value) = line.strip_prefix("content-length: ") {
            length = value.parse().unwrap();
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    serde_json::from_slice(&body).ok()
}

/// Retries and titles use the pool too. A request made before the client's pool has the last
/// connection back opens a new one, so a few are allowed.
#[test]
fn a_long_run_uses_its_connections_again() {
    let listener = StoreListener::start();
    let site = Site::served(&Server::start(vec![]))
        .setting("provider/local/options/baseURL", json!(format!("http://{}/v1", listener.address)))
        .setting("title", json!(true));
    let events = site.prompt("go").ok().events();
    assert_eq!(end(&events)["text"], "Done.");
    let requests = *listener.requests.lock().unwrap();
    assert_eq!(requests, all(&events, "model.requested").len());
    assert!(requests > STEPS, "{requests}");
    let connections = listener.connections.load(Ordering::SeqCst);
    assert!(connections <= STEPS / 5, "{connections} connections for {requests} requests");
}
