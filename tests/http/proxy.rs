//! A connection that can be cut: it passes bytes on to a server, as a tunnel does.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::json;

use crate::client::Served;

/// A client has all its answers if it has neither asked nor got anything for this long.
const QUIET: Duration = Duration::from_secs(1);

pub(crate) struct Proxy {
    pub(crate) port: u16,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    is_cut: bool,
    open: Vec<TcpStream>,
    /// When the last bytes were passed on.
    passed: Option<Instant>,
}

impl Proxy {
    /// Passes connections on to this port, until the test ends.
    pub(crate) fn to(server: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let state = Arc::new(Mutex::new(State::default()));
        let shared = Arc::clone(&state);
        thread::spawn(move || {
            for client in listener.incoming().map(Result::unwrap) {
                let mut state = shared.lock().unwrap();
                // a server that was killed has no connections either
                let Some(server) = TcpStream::connect(("127.0.0.1", server)).ok() else { continue };
                if state.is_cut {
                    continue;
                }
                for (from, to) in [(&client, &server), (&server, &client)] {
                    let (mut from, mut to) = (from.try_clone().unwrap(), to.try_clone().unwrap());
                    let shared = Arc::clone(&shared);
                    thread::spawn(move || {
                        let mut bytes = vec![0; 1 << 16];
                        // either end may go at any time
                        while let Ok(count @ 1..) = from.read(&mut bytes) {
                            shared.lock().unwrap().passed = Some(Instant::now());
                            if to.write_all(&bytes[..count]).is_err() {
                                break;
                            }
                        }
                        let _ = to.shutdown(Shutdown::Write);
                    });
                }
                state.open.extend([client, server]);
            }
        });
        Self { port, state }
    }

    /// Cuts all connections, and refuses others until [`Proxy::mend`].
    pub(crate) fn cut(&self) {
        let mut state = self.state.lock().unwrap();
        state.is_cut = true;
        for stream in state.open.drain(..) {
            // it may be closed
            let _ = stream.shutdown(Shutdown::Both);
        }
    }

    pub(crate) fn mend(&self) {
        self.state.lock().unwrap().is_cut = false;
    }

    fn is_quiet(&self) -> bool {
        self.state.lock().unwrap().passed.is_none_or(|passed| passed.elapsed() >= QUIET)
    }

    /// Cuts the connections while somebody else allows the open call, and the turn goes on to its end. The client has
    /// read the session by then: OpenCode's terminal leaves a session that it cannot read.
    pub(crate) fn cut_while_the_turn_ends(&self, server: &Served) {
        common::wait_until("the client has read the session", || self.is_quiet());
        self.cut();
        let asked = server.get("/permission").ok();
        let request = asked[0]["id"].as_str().unwrap();
        let allows = json!({ "reply": "once" });
        server.post(&format!("/permission/{request}/reply"), allows).ok();
        common::wait_until("the turn ends", || server.get("/session/status").ok() == json!({}));
        self.mend();
    }
}
