//! A server on this machine that receives the browser's redirect after consent. It accepts one
//! answer.

use std::time::Duration;

use reqwest::Url;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

/// Limits of one HTTP request: bytes, and time to arrive.
const MAX_REQUEST: usize = 16 * 1_024;
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);

/// Connections that are served at a time. More wait.
const MAX_CONNECTIONS: usize = 64;

/// The address that a browser is sent back to.
#[derive(Clone, Copy, Debug)]
pub struct Redirect<'a> {
    /// `127.0.0.1` or `localhost`, as it is registered.
    pub host: &'static str,
    /// The ports that may be used, in this order; empty: any free port.
    pub ports: &'a [u16],
    pub path: &'a str,
}

/// The server, from the moment on in which the browser may come back.
#[derive(Debug)]
pub struct Callback {
    listener: TcpListener,
    address: Url,
}

impl Callback {
    /// Listens on the first of the ports that is free. Only this machine can reach it.
    ///
    /// # Errors
    /// None of the ports is free, in words for people.
    pub async fn open(redirect: Redirect<'_>) -> Result<Self, String> {
        let ports = if redirect.ports.is_empty() { &[0] } else { redirect.ports };
        let mut error = String::new();
        for port in ports {
            match TcpListener::bind(("127.0.0.1", *port)).await {
                Ok(listener) => return Self::at(listener, redirect),
                Err(failed) => error = failed.to_string(),
            }
        }
        Err(format!("cannot listen on the port for the browser's redirect: {error}"))
    }

    fn at(listener: TcpListener, redirect: Redirect<'_>) -> Result<Self, String> {
        let port = listener.local_addr().map_err(|error| error.to_string())?.port();
        let address = Url::parse(&format!("http://{}:{port}{}", redirect.host, redirect.path));
        let address = address.map_err(|error| error.to_string())?;
        Ok(Self { listener, address })
    }

    /// The redirect address for the browser.
    pub fn address(&self) -> &str {
        self.address.as_str()
    }

    /// Waits for the first request with this `state`. Other requests are answered meanwhile.
    pub async fn answer(&self, state: &str) -> Url {
        let mut asked = JoinSet::new();
        loop {
            tokio::select! {
                accepted = self.listener.accept(), if asked.len() < MAX_CONNECTIONS => {
                    if let Ok((stream, _)) = accepted {
                        let (address, state) = (self.address.clone(), state.to_owned());
                        asked.spawn(async move {
                            let serving = serve(stream, &address, &state);
                            tokio::time::timeout(REQUEST_TIMEOUT, serving).await.ok().flatten()
                        });
                    }
                }
                Some(served) = asked.join_next() => {
                    if let Ok(Some(url)) = served {
                        return url;
                    }
                }
            }
        }
    }
}

/// Answers one request. Returns its address if a browser went there and it has the expected path and state.
async fn serve(mut stream: TcpStream, address: &Url, state: &str) -> Option<Url> {
    let head = head(&mut stream).await?;
    let target = head.strip_prefix("GET ")?.split(' ').next()?;
    let asked = address.join(target).ok()?;
    let (status, said, url) =
        if asked.origin() != address.origin() || asked.path() != address.path() {
            ("404 Not Found", "There is nothing here.", None)
        } else if !is_visit(&head, address) || query(&asked, "state").as_deref() != Some(state) {
            ("400 Bad Request", "This is not an answer to Leftfold's request.", None)
        } else if query(&asked, "code").is_none() {
            ("200 OK", "You have not signed in. You can close this page.", Some(asked))
        } else {
            ("200 OK", "Leftfold continues. You can close this page.", Some(asked))
        };
    let page = format!("<!doctype html><title>Leftfold</title><p>{said}</p>\n");
    let answer = format!(
        "HTTP/1.1 {status}\r\nContent-Type: text/html; charset=utf-8\r\nContent-Length: {}\r\n\
         Cache-Control: no-store\r\nReferrer-Policy: no-referrer\r\nConnection: close\r\n\r\n{page}",
        page.len()
    );
    // the request counts even if the browser is gone
    let _ = stream.write_all(answer.as_bytes()).await;
    let _ = stream.shutdown().await;
    url
}

/// Whether a browser goes to the page itself: a page of another site may only load it as its image, script or data, or
/// under a name that it has made to mean this machine.
fn is_visit(head: &str, address: &Url) -> bool {
    let header = |name: &str| {
        let lines = head.lines().skip(1).filter_map(|line| line.split_once(':'));
        let mut values = lines.filter(|(known, _)| known.trim().eq_ignore_ascii_case(name));
        values.next().map(|(_, value)| value.trim().to_lowercase())
    };
    let port = address.port_or_known_default().unwrap_or_default();
    let own = ["127.0.0.1", "localhost"].map(|name| format!("{name}:{port}"));
    header("host").is_some_and(|host| own.contains(&host))
        && header("sec-fetch-mode").is_none_or(|mode| mode == "navigate")
        && header("sec-fetch-dest").is_none_or(|dest| dest == "document")
}

async fn head(stream: &mut TcpStream) -> Option<String> {
    let mut bytes = Vec::new();
    while !bytes.windows(4).any(|end| end == b"\r\n\r\n") {
        if bytes.len() > MAX_REQUEST || stream.read_buf(&mut bytes).await.ok()? == 0 {
            return None;
        }
    }
    String::from_utf8(bytes).ok()
}

/// The value of a query parameter.
pub fn query(url: &Url, name: &str) -> Option<String> {
    url.query_pairs().find(|(known, _)| known == name).map(|(_, value)| value.into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    const ANY: Redirect<'static> = Redirect { host: "127.0.0.1", ports: &[], path: "/callback" };

    fn host(callback: &Callback) -> String {
        callback.address.authority().to_owned()
    }

    async fn send(host: &str, request: &str) -> String {
        let mut stream = TcpStream::connect(host).await.unwrap();
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        answer
    }

    async fn get(host: &str, target: &str) -> String {
        send(host, &format!("GET {target} HTTP/1.1\r\nHost: {host}\r\n\r\n")).await
    }

    #[tokio::test]
    async fn only_the_answer_with_the_right_state_counts() {
        let callback = Callback::open(ANY).await.unwrap();
        let at = host(&callback);
        // somebody who has connected and says nothing holds up nobody
        let _silent = TcpStream::connect(&at).await.unwrap();
        let asking = async {
            for absent in
                ["/favicon.ico", "//evil.test/callback?code=evil&state=right", "/callback/x"]
            {
                let answer = get(&at, absent).await;
                assert!(answer.starts_with("HTTP/1.1 404"), "{absent}: {answer}");
            }
            for wrong in ["/callback", "/callback?code=evil", "/callback?code=evil&state=other"] {
                let answer = get(&at, wrong).await;
                assert!(answer.starts_with("HTTP/1.1 400"), "{answer}");
            }
            let answer = get(&at, "/callback?code=c%201&state=right&iss=i").await;
            assert!(answer.starts_with("HTTP/1.1 200") && answer.contains("continues"), "{answer}");
        };
        let (url, ()) = tokio::join!(callback.answer("right"), asking);
        assert_eq!(query(&url, "code").as_deref(), Some("c 1"));
        assert_eq!(query(&url, "iss").as_deref(), Some("i"));
    }

    /// Even one that knows the state.
    #[tokio::test]
    async fn a_page_of_another_site_is_no_visitor() {
        let callback = Callback::open(ANY).await.unwrap();
        let at = host(&callback);
        let asking = async {
            let target = "GET /callback?code=evil&state=s HTTP/1.1\r\n";
            for headers in [
                String::new(),
                "Host: evil.test\r\n".to_owned(),
                "Host: 127.0.0.1\r\n".to_owned(),
                format!("Host: {at}\r\nSec-Fetch-Mode: no-cors\r\n"),
                format!("Host: {at}\r\nsec-fetch-mode: navigate\r\nSec-Fetch-Dest: iframe\r\n"),
            ] {
                let answer = send(&at, &format!("{target}{headers}\r\n")).await;
                assert!(answer.starts_with("HTTP/1.1 400"), "{headers}: {answer}");
            }
            // neither an endless request nor another method is answered
            let endless = format!("GET /callback?{} HTTP/1.1\r\n", "a".repeat(MAX_REQUEST));
            let mut stream = TcpStream::connect(&at).await.unwrap();
            let _ = stream.write_all(endless.as_bytes()).await;
            let mut nothing = Vec::new();
            let _ = stream.read_to_end(&mut nothing).await;
            assert!(nothing.is_empty());
            assert_eq!(
                send(
                    &at,
                    &format!("POST /callback?code=evil&state=s HTTP/1.1\r\nHost: {at}\r\n\r\n")
                )
                .await,
                ""
            );
            let visit = format!(
                "{target}Host: {at}\r\nSec-Fetch-Mode: navigate\r\nSec-Fetch-Dest: document\r\n\r\n"
            );
            send(&at, &visit.replace("evil", "good")).await
        };
        let (url, answer) = tokio::join!(callback.answer("s"), asking);
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        assert_eq!(query(&url, "code").as_deref(), Some("good"));
    }

    #[tokio::test]
    async fn a_refusal_is_an_answer_too() {
        let callback = Callback::open(ANY).await.unwrap();
        let at = host(&callback);
        let asking = get(&at, "/callback?error=access_denied&state=s");
        let (url, answer) = tokio::join!(callback.answer("s"), asking);
        assert_eq!(query(&url, "error").as_deref(), Some("access_denied"));
        assert!(answer.contains("not signed in"), "{answer}");
    }

    #[tokio::test]
    async fn the_first_free_port_is_used() {
        let taken = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let free = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let [taken_port, port] = [&taken, &free].map(|at| at.local_addr().unwrap().port());
        drop(free);
        let redirect =
            Redirect { host: "localhost", ports: &[taken_port, port], path: "/auth/callback" };
        let callback = Callback::open(redirect).await.unwrap();
        assert_eq!(callback.address(), format!("http://localhost:{port}/auth/callback"));
        let error =
            Callback::open(Redirect { ports: &[taken_port], ..redirect }).await.unwrap_err();
        assert!(error.contains("port for the browser's redirect"), "{error}");
    }
}
