//! A server that answers requests in the order that a test gives.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use serde_json::Value;

/// The answer to one request.
pub enum Answer {
    /// A stream of events, to its end.
    Stream(String, Split),
    /// A stream that is no text, to its end.
    Bytes(Vec<u8>, Split),
    /// The beginning of a stream, and then the connection is closed.
    Cut(String),
    /// The beginning of a stream that is no text, and then the connection is closed.
    CutBytes(Vec<u8>),
    /// The beginning of a stream, and then nothing until the client leaves.
    Stall(String),
    /// The beginning of a stream that is no text, and then nothing until the client leaves.
    StallBytes(Vec<u8>),
    /// The beginning of a stream, and then one piece again and again, while the client is there.
    Endless(String, String),
    /// A status with headers (`name: value`) and body.
    Status(u16, Vec<String>, String),
    /// Nothing until the client leaves.
    Silence,
}

/// How a stream is split into chunks; each arrives separately.
#[derive(Clone, Copy, Debug)]
pub enum Split {
    Whole,
    EveryByte,
    /// Only at difficult places: within a character, and within the blank line after an event.
    Awkward,
}

/// A received request.
#[derive(Clone, Debug)]
pub struct Recorded {
    /// Method and path.
    pub line: String,
    /// Headers with names in lower case.
    pub headers: Vec<String>,
    /// Null if it is not JSON.
    pub body: Value,
    /// The bytes of the body.
    pub bytes: Vec<u8>,
}

/// Makes an answer to a request.
type Answering = dyn Fn(&Recorded) -> Answer + Send + Sync;

pub struct Server {
    address: SocketAddr,
    requests: Arc<Mutex<Vec<Recorded>>>,
}

impl Server {
    /// Gives `answers` in their order.
    pub fn start(answers: Vec<Answer>) -> Self {
        let answers = Mutex::new(answers.into_iter());
        Self::answering(move |_| {
            let spent = || Answer::Status(400, vec![], "the test has no more answers".into());
            answers.lock().unwrap().next().unwrap_or_else(spent)
        })
    }

    /// Answers each request by what it says.
    pub fn answering(answer: impl Fn(&Recorded) -> Answer + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let requests = Arc::new(Mutex::new(Vec::new()));
        let recorded = Arc::clone(&requests);
        let answer: Arc<Answering> = Arc::new(answer);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let recorded = Arc::clone(&recorded);
                let answer = Arc::clone(&answer);
                let stream = stream.unwrap();
                std::thread::spawn(move || {
                    let Some(request) = read(&stream) else { return };
                    // in this order a request is recorded by the time that its answer is chosen
                    recorded.lock().unwrap().push(request.clone());
                    // a client may hang up at any time
                    let _ = answer(&request).give(&stream);
                });
            }
        });
        Self { address, requests }
    }

    /// Host and port.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The `baseURL` for settings.
    pub fn url(&self) -> String {
        format!("http://{}/v1", self.address)
    }

    pub fn requests(&self) -> Vec<Recorded> {
        self.requests.lock().unwrap().clone()
    }
}

fn read(stream: &TcpStream) -> Option<Recorded> {
    let mut reader = BufReader::new(stream);
    let mut head = Vec::new();
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).ok()? == 0 {
            return None;
        }
        match line.trim_end() {
            "" => break,
            line => head.push(line.to_owned()),
        }
    }
    let line = head.remove(0);
    let headers: Vec<String> = head
        .iter()
        .filter_map(|header| header.split_once(':'))
        .map(|(name, value)| format!("{}: {}", name.to_lowercase(), value.trim()))
        .collect();
    let length = headers.iter().find_map(|header| header.strip_prefix("content-length: "));
    let mut body = vec![0; length.map_or(Some(0), |length| length.parse().ok())?];
    reader.read_exact(&mut body).ok()?;
    let json = serde_json::from_slice(&body).unwrap_or_default();
    Some(Recorded { line, headers, body: json, bytes: body })
}

impl Answer {
    fn give(self, mut stream: &TcpStream) -> std::io::Result<()> {
        stream.set_nodelay(true)?;
        match self {
            Self::Stream(text, split) => Self::Bytes(text.into_bytes(), split).give(stream),
            Self::Bytes(bytes, split) => {
                begin(stream)?;
                for chunk in split.chunks(&bytes) {
                    send(stream, chunk)?;
                }
                stream.write_all(b"0\r\n\r\n")
            }
            Self::Cut(text) => Self::CutBytes(text.into_bytes()).give(stream),
            Self::CutBytes(bytes) => {
                begin(stream)?;
                send(stream, &bytes)
            }
            Self::Stall(text) => Self::StallBytes(text.into_bytes()).give(stream),
            Self::StallBytes(bytes) => {
                begin(stream)?;
                send(stream, &bytes)?;
                until_gone(stream)
            }
            Self::Endless(text, piece) => {
                begin(stream)?;
                send(stream, text.as_bytes())?;
                let pieces = piece.repeat(64 * 1_024 / piece.len().max(1) + 1);
                loop {
                    send(stream, pieces.as_bytes())?;
                }
            }
            Self::Status(status, headers, body) => {
                let headers: String = headers.iter().map(|h| format!("{h}\r\n")).collect();
                let length = body.len();
                write!(
                    stream,
                    "HTTP/1.1 {status} No\r\ncontent-length: {length}\r\nconnection: close\r\n{headers}\r\n{body}"
                )
            }
            Self::Silence => until_gone(stream),
        }
    }
}

fn begin(mut stream: &TcpStream) -> std::io::Result<()> {
    stream.write_all(
        b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\
          transfer-encoding: chunked\r\n\r\n",
    )
}

fn send(mut stream: &TcpStream, chunk: &[u8]) -> std::io::Result<()> {
    if chunk.is_empty() {
        return Ok(()); // an empty chunk would be the end
    }
    write!(stream, "{:x}\r\n", chunk.len())?;
    stream.write_all(chunk)?;
    stream.write_all(b"\r\n")
}

/// Waits for the client to hang up.
fn until_gone(mut stream: &TcpStream) -> std::io::Result<()> {
    while stream.read(&mut [0; 64])? > 0 {}
    Ok(())
}

impl Split {
    fn chunks(self, bytes: &[u8]) -> Vec<&[u8]> {
        let cuts: Vec<usize> = match self {
            Self::Whole => Vec::new(),
            Self::EveryByte => (1..bytes.len()).collect(),
            Self::Awkward => (1..bytes.len()).filter(|at| hurts(bytes, *at)).collect(),
        };
        let ends = cuts.iter().copied().chain([bytes.len()]);
        let mut start = 0;
        ends.map(|end| &bytes[std::mem::replace(&mut start, end)..end]).collect()
    }
}

fn hurts(bytes: &[u8], at: usize) -> bool {
    let within_character = bytes[at] & 0b1100_0000 == 0b1000_0000;
    let line_end = |byte: u8| byte == b'\n' || byte == b'\r';
    within_character || (line_end(bytes[at - 1]) && line_end(bytes[at]))
}
