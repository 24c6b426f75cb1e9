//! Proxies from the environment, and the TLS handshake behind them.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};

use common::{Answer, Block, STEP_TIMEOUT, Server, Site, Split, all, end, message};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use serde_json::json;

/// A host that cannot be resolved, so that only a proxy can reach it.
const HOST: &str = "api.example.test";

fn good() -> Answer {
    Answer::Stream(message(&[Block::Text("Hello.")]), Split::Whole)
}

/// A site whose provider is at [`HOST`].
fn far(scheme: &str) -> Site {
    let server = Server::start(vec![]);
    Site::served(&server)
        .setting("provider/local/options/baseURL", json!(format!("{scheme}://{HOST}/v1")))
        .setting("retry/attempts", json!(0))
}

fn proxy(server: &Server) -> String {
    server.url().trim_end_matches("/v1").to_owned()
}

#[test]
fn plain_requests_go_through_the_proxy_that_is_set() {
    for variable in ["HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"] {
        let server = Server::start(vec![good()]);
        let site = far("http").env(variable, proxy(&server));
        let events = site.prompt("go").ok().events();
        assert_eq!(end(&events)["text"], "Hello.", "{variable}");
        let line = format!("POST http://{HOST}/v1/messages HTTP/1.1");
        assert_eq!(server.requests()[0].line, line, "{variable}");
    }
}

#[test]
fn hosts_that_are_excepted_are_reached_without_it() {
    for except in ["127.0.0.1", "127.0.0.0/8", "*"] {
        let (server, other) = (Server::start(vec![good()]), Server::start(vec![]));
        let site = Site::served(&server).env("HTTP_PROXY", proxy(&other)).env("NO_PROXY", except);
        let events = site.prompt("go").ok().events();
        assert_eq!(end(&events)["text"], "Hello.", "{except}");
        assert_eq!(other.requests().len(), 0, "{except}");
    }
}

/// The observations of a proxy for TLS.
struct Tunnel {
    address: SocketAddr,
    heads: Receiver<Vec<String>>,
    /// The negotiated protocol, and the first bytes after the handshake.
    spoken: Receiver<(Option<Vec<u8>>, Vec<u8>)>,
}

impl Tunnel {
    /// A proxy that also acts as the host, or refuses every client with `refusal`.
    fn start(refusal: Option<&'static str>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (head, heads) = channel();
        let (word, spoken) = channel();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                // a refused client may be gone already
                let _ = serve(&stream.unwrap(), refusal, &head, &word);
            }
        });
        Self { address, heads, spoken }
    }
}

fn serve(
    mut stream: &TcpStream,
    refusal: Option<&str>,
    head: &Sender<Vec<String>>,
    word: &Sender<(Option<Vec<u8>>, Vec<u8>)>,
) -> std::io::Result<()> {
    let lines = BufReader::new(stream).lines().map_while(Result::ok);
    let lines: Vec<String> = lines.take_while(|line| !line.is_empty()).collect();
    let _ = head.send(lines);
    if let Some(refusal) = refusal {
        return write!(stream, "HTTP/1.1 {refusal}\r\ncontent-length: 0\r\n\r\n");
    }
    write!(stream, "HTTP/1.1 200 Connection established\r\n\r\n")?;
    let connection = ServerConnection::new(Arc::new(tls())).unwrap();
    let mut stream = StreamOwned::new(connection, stream);
    let mut bytes = vec![0; 24];
    stream.read_exact(&mut bytes)?;
    let _ = word.send((stream.conn.alpn_protocol().map(<[u8]>::to_vec), bytes));
    Ok(())
}

fn pem(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/common/tls").join(name)
}

/// A certificate for [`HOST`] that only tests trust.
fn tls() -> ServerConfig {
    let certificate = CertificateDer::from_pem_file(pem("cert.pem")).unwrap();
    let key = PrivateKeyDer::from_pem_file(pem("key.pem")).unwrap();
    let ring = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ServerConfig::builder_with_provider(ring)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key)
        .unwrap();
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    config
}

#[test]
fn encrypted_requests_are_tunnelled_and_speak_http_2_where_it_is_offered() {
    let tunnel = Tunnel::start(None);
    let site = far("https")
        .env("HTTPS_PROXY", format!("http://user:hush-hush@{}", tunnel.address))
        .env("SSL_CERT_FILE", pem("cert.pem").to_str().unwrap());
    let ran = site.prompt("go").with(1);
    let head = tunnel.heads.recv_timeout(STEP_TIMEOUT).unwrap();
    assert_eq!(head[0], format!("CONNECT {HOST}:443 HTTP/1.1"));
    let authorised = "proxy-authorization: Basic dXNlcjpodXNoLWh1c2g=";
    assert!(head.iter().any(|line| line.eq_ignore_ascii_case(authorised)), "{head:?}");
    let (protocol, first) = tunnel.spoken.recv_timeout(STEP_TIMEOUT).unwrap();
    assert_eq!(protocol.as_deref(), Some(&b"h2"[..]));
    assert_eq!(first, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
    // there was no answer
    let failed = &all(&ran.events(), "model.failed")[0]["data"].clone();
    assert_eq!((&failed["class"], &failed["retryable"]), (&json!("network"), &json!(true)));
    assert!(!ran.stdout.contains("hush-hush") && !ran.stderr.contains("hush-hush"), "{ran:?}");
}

#[test]
fn a_proxy_that_refuses_is_named_by_its_variable() {
    let tunnel = Tunnel::start(Some("407 Proxy Authentication Required"));
    let site = far("https")
        .env("HTTPS_PROXY", format!("http://u:hush-hush@{}", tunnel.address))
        .env("SSL_CERT_FILE", pem("cert.pem").to_str().unwrap());
    let ran = site.prompt("go").with(1);
    let error = end(&ran.events())["error"].as_str().unwrap().to_owned();
    for part in [HOST, "HTTPS_PROXY"] {
        assert!(error.contains(part), "no {part} in {error}");
    }
    assert!(!ran.stdout.contains("hush-hush") && !ran.stderr.contains("hush-hush"), "{ran:?}");
}
