//! A proxy between a program and PostgreSQL that knows the protocol well enough to cut a connection
//! right before or after the answer to an append, and to delay answers.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

/// The fault that hits the next append.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cut {
    /// The server never gets it.
    Before,
    /// The server answers it, and the engine does not get the answer.
    After,
    /// The server has it when the connection ends, and may or may not have begun.
    During,
}

#[derive(Default)]
struct Plan {
    cut: Mutex<Option<Cut>>,
    /// Whether new connections are refused.
    shut: AtomicBool,
    /// Whether notifications are swallowed.
    deaf: AtomicBool,
    /// Milliseconds by which each answer is late.
    late: AtomicU64,
    /// Whether nothing that the server sends comes through.
    silent: AtomicBool,
    cuts: AtomicUsize,
}

pub struct Proxy {
    port: u16,
    plan: Arc<Plan>,
    /// The open connections to both sides.
    streams: Arc<Mutex<Vec<TcpStream>>>,
}

impl Proxy {
    pub fn before(server: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let (plan, streams) = (Arc::new(Plan::default()), Arc::new(Mutex::new(Vec::new())));
        let (planned, known) = (Arc::clone(&plan), Arc::clone(&streams));
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let server = TcpStream::connect(("127.0.0.1", server));
                let (false, Ok(server)) = (planned.shut.load(Ordering::SeqCst), server) else {
                    continue;
                };
                for stream in [&client, &server] {
                    stream.set_nodelay(true).unwrap();
                    known.lock().unwrap().push(stream.try_clone().unwrap());
                }
                begin(client, server, &planned);
            }
        });
        Self { port, plan, streams }
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    /// The next append is cut.
    pub fn cut(&self, cut: Cut) {
        *self.plan.cut.lock().unwrap() = Some(cut);
    }

    /// How many appends were cut.
    pub fn cuts(&self) -> usize {
        self.plan.cuts.load(Ordering::SeqCst)
    }

    pub fn refuse_connections(&self, shut: bool) {
        self.plan.shut.store(shut, Ordering::SeqCst);
    }

    pub fn swallow_notifications(&self) {
        self.plan.deaf.store(true, Ordering::SeqCst);
    }

    /// Each answer of the server comes later by this.
    pub fn delay_answers(&self, by: Duration) {
        self.plan.late.store(by.as_millis().try_into().unwrap(), Ordering::SeqCst);
    }

    /// Whether answers are held back.
    pub fn hold_answers(&self, hold: bool) {
        self.plan.silent.store(hold, Ordering::SeqCst);
    }

    /// Ends all connections.
    pub fn disconnect(&self) {
        for stream in self.streams.lock().unwrap().drain(..) {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }
}

fn begin(client: TcpStream, server: TcpStream, plan: &Arc<Plan>) {
    let swallow = Arc::new(AtomicBool::new(false));
    let (up, down) = (Arc::clone(plan), Arc::clone(plan));
    let (swallows, swallowed) = (Arc::clone(&swallow), swallow);
    let (client2, server2) = (client.try_clone().unwrap(), server.try_clone().unwrap());
    thread::spawn(move || {
        let _ = upwards(&client2, &server2, &up, &swallows);
        let _ = server2.shutdown(Shutdown::Both);
        let _ = client2.shutdown(Shutdown::Both);
    });
    thread::spawn(move || {
        let _ = downwards(&client, &server, &down, &swallowed);
        let _ = server.shutdown(Shutdown::Both);
        let _ = client.shutdown(Shutdown::Both);
    });
}

/// A message: its kind, and all its bytes.
fn message(mut from: &TcpStream, has_kind: bool) -> std::io::Result<(u8, Vec<u8>)> {
    let mut bytes = vec![0; if has_kind { 5 } else { 4 }];
    from.read_exact(&mut bytes)?;
    let length = u32::from_be_bytes(*bytes.last_chunk().unwrap());
    let start = bytes.len();
    bytes.resize(start + usize::try_from(length).unwrap() - 4, 0);
    from.read_exact(&mut bytes[start..])?;
    Ok((if has_kind { bytes[0] } else { 0 }, bytes))
}

fn upwards(
    client: &TcpStream,
    mut server: &TcpStream,
    plan: &Plan,
    swallow: &AtomicBool,
) -> std::io::Result<()> {
    server.write_all(&message(client, false)?.1)?;
    let (mut appends, mut sync) = (false, None);
    loop {
        let (kind, bytes) = message(client, true)?;
        appends |= kind == b'P' && String::from_utf8_lossy(&bytes).contains("insert into batch");
        if kind == b'B' && appends {
            sync = plan.cut.lock().unwrap().take();
            plan.cuts.fetch_add(usize::from(sync.is_some()), Ordering::SeqCst);
            if sync == Some(Cut::Before) {
                return Ok(());
            }
            swallow.store(sync.is_some(), Ordering::SeqCst);
        }
        server.write_all(&bytes)?;
        // the last message of a request
        if kind == b'S' && sync == Some(Cut::During) {
            return Ok(());
        }
    }
}

fn downwards(
    mut client: &TcpStream,
    server: &TcpStream,
    plan: &Plan,
    swallow: &AtomicBool,
) -> std::io::Result<()> {
    loop {
        let (kind, bytes) = message(server, true)?;
        // an answer ends with this message
        if kind == b'Z' {
            thread::sleep(Duration::from_millis(plan.late.load(Ordering::SeqCst)));
        }
        while plan.silent.load(Ordering::SeqCst) {
            thread::sleep(Duration::from_millis(10));
        }
        if swallow.load(Ordering::SeqCst) {
            // the server is ready for the next request
            if kind == b'Z' {
                return Ok(());
            }
        } else if kind != b'A' || !plan.deaf.load(Ordering::SeqCst) {
            client.write_all(&bytes)?;
        }
    }
}

/// Cuts that come one after the other.
pub const CUTS: [Cut; 3] = [Cut::Before, Cut::After, Cut::During];

pub const CUT_TIME: Duration = Duration::from_millis(300);
