//! A server on this machine that receives the browser's redirect after consent. It accepts one
//! answer.

use std::time::Duration;

use reqwest::Url;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

/// Limits of one HTTP request: bytes, and time to arrive.
const LONGEST: usize = 16 * 1_024;
const PATIENCE: Duration = Duration::from_secs(10);

const PATH: &str = "/callback";

pub(super) struct Callback {
    listener: TcpListener,
    address: String,
}

impl Callback {
    /// Listens on this port, or on any free port. Only this machine can reach it.
    pub(super) async fn open(port: Option<u16>) -> Result<Self, String> {
        let listener = TcpListener::bind(("127.0.0.1", port.unwrap_or(0))).await;
        let bound = listener.and_then(|listener| Ok((listener.local_addr()?.port(), listener)));
        let (port, listener) = bound.map_err(|error| {
            format!("cannot listen on the port for the browser's redirect: {error}")
        })?;
        Ok(Self { listener, address: format!("http://127.0.0.1:{port}{PATH}") })
    }

    /// The redirect address for the browser.
    pub(super) fn address(&self) -> &str {
        &self.address
    }

    /// Waits for the first request with this `state`. Other requests are answered meanwhile.
    pub(super) async fn answer(&self, state: &str) -> Url {
        let mut asked = JoinSet::new();
        loop {
            tokio::select! {
                accepted = self.listener.accept() => {
                    if let Ok((stream, _)) = accepted {
                        let (address, state) = (self.address.clone(), state.to_owned());
                        asked.spawn(async move {
                            let serving = serve(stream, &address, &state);
                            tokio::time::timeout(PATIENCE, serving).await.ok().flatten()
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

/// Answers one request. Returns its address if it has the expected path and state.
async fn serve(mut stream: TcpStream, address: &str, state: &str) -> Option<Url> {
    let head = head(&mut stream).await?;
    let target = head.strip_prefix("GET ")?.split(' ').next()?;
    let asked = Url::parse(address).ok()?.join(target).ok()?;
    let (status, said, url) = if asked.path() != PATH {
        ("404 Not Found", "There is nothing here.", None)
    } else if of(&asked, "state").as_deref() != Some(state) {
        ("400 Bad Request", "This is not an answer to Leftfold's request.", None)
    } else if of(&asked, "code").is_none() {
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

async fn head(stream: &mut TcpStream) -> Option<String> {
    let mut bytes = Vec::new();
    while !bytes.windows(4).any(|end| end == b"\r\n\r\n") {
        if bytes.len() > LONGEST || stream.read_buf(&mut bytes).await.ok()? == 0 {
            return None;
        }
    }
    String::from_utf8(bytes).ok()
}

/// The value of a query parameter.
pub(super) fn of(url: &Url, name: &str) -> Option<String> {
    url.query_pairs().find(|(known, _)| known == name).map(|(_, value)| value.into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn get(address: &str, target: &str) -> String {
        let host = address.trim_start_matches("http://").trim_end_matches(PATH);
        let mut stream = TcpStream::connect(host).await.unwrap();
        stream.write_all(format!("GET {target} HTTP/1.1\r\n\r\n").as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        answer
    }

    #[tokio::test]
    async fn only_the_answer_with_the_right_state_counts() {
        let callback = Callback::open(None).await.unwrap();
        let address = callback.address().to_owned();
        // somebody who has connected and says nothing holds up nobody
        let silent =
            TcpStream::connect(address.trim_start_matches("http://").trim_end_matches(PATH));
        let _silent = silent.await.unwrap();
        let asking = async {
            let favicon = get(&address, "/favicon.ico").await;
            assert!(favicon.starts_with("HTTP/1.1 404"), "{favicon}");
            for wrong in ["/callback", "/callback?code=evil", "/callback?code=evil&state=other"] {
                let answer = get(&address, wrong).await;
                assert!(answer.starts_with("HTTP/1.1 400"), "{answer}");
            }
            let answer = get(&address, "/callback?code=c%201&state=right&iss=i").await;
            assert!(answer.starts_with("HTTP/1.1 200") && answer.contains("continues"), "{answer}");
        };
        let (url, ()) = tokio::join!(callback.answer("right"), asking);
        assert_eq!(of(&url, "code").as_deref(), Some("c 1"));
        assert_eq!(of(&url, "iss").as_deref(), Some("i"));
    }

    #[tokio::test]
    async fn a_refusal_is_an_answer_too() {
        let callback = Callback::open(None).await.unwrap();
        let asking = get(callback.address(), "/callback?error=access_denied&state=s");
        let (url, answer) = tokio::join!(callback.answer("s"), asking);
        assert_eq!(of(&url, "error").as_deref(), Some("access_denied"));
        assert!(answer.contains("not signed in"), "{answer}");
    }
}
