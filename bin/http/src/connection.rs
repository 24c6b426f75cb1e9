//! Connections with limits: what a client can hold without doing anything is bounded in time and in
//! memory.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use hyper_util::rt::{TokioExecutor, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Sleep, sleep};

/// Connections at a time. Another one is refused with 503.
pub(crate) const MAX_CONNECTIONS: usize = 1_024;
/// How long a client may take to send the headers of a request.
const HEADERS_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a client may take none of the bytes that are sent to it.
const STALL_TIMEOUT: Duration = Duration::from_secs(30);
/// The headers of a request, in bytes. With more the answer is 431.
const MAX_HEADERS: usize = 64 << 10;
/// Requests at a time on a connection of HTTP/2.
const MAX_STREAMS: u32 = 128;
/// How often a connection of HTTP/2 is asked whether it still lives.
const PING_INTERVAL: Duration = Duration::from_secs(20);
/// The first bytes of a client of HTTP/2.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// The answer to a connection too many.
pub(crate) const REFUSED: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\n\
    content-type: application/json\r\ncontent-length: 97\r\nconnection: close\r\n\r\n\
    {\"name\":\"ServiceUnavailable\",\"data\":{\"message\":\"too many connections: close some and try again\"}}";

/// HTTP/1.1 and HTTP/2 with these limits.
pub(crate) fn builder() -> Builder<TokioExecutor> {
    let mut builder = Builder::new(TokioExecutor::new());
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADERS_TIMEOUT)
        .max_buf_size(MAX_HEADERS);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(MAX_STREAMS)
        .max_header_list_size(u32::try_from(MAX_HEADERS).unwrap_or(u32::MAX))
        .keep_alive_interval(PING_INTERVAL);
    builder
}

/// A connection that ends if its client sends no beginning of a request, or takes nothing.
#[derive(Debug)]
pub(crate) struct LimitedStream {
    stream: TcpStream,
    /// Until it is known which HTTP the client speaks.
    opening: Option<Opening>,
    /// How long the client may take nothing.
    patience: Duration,
    /// Since when the client takes nothing.
    stalled: Option<Pin<Box<Sleep>>>,
}

#[derive(Debug)]
struct Opening {
    deadline: Pin<Box<Sleep>>,
    /// Bytes of the preface that were read.
    seen: usize,
}

impl Opening {
    /// Whether these bytes decide which HTTP it is. From then on the parsers have limits of their own.
    fn is_decided_by(&mut self, read: &[u8]) -> bool {
        let rest = PREFACE.get(self.seen..).unwrap_or_default();
        self.seen += read.len();
        read.is_empty() || self.seen >= PREFACE.len() || !rest.starts_with(read)
    }
}

impl LimitedStream {
    pub(crate) fn new(stream: TcpStream) -> Self {
        Self::with(stream, HEADERS_TIMEOUT, STALL_TIMEOUT)
    }

    fn with(stream: TcpStream, opening: Duration, patience: Duration) -> Self {
        let opening = Opening { deadline: Box::pin(sleep(opening)), seen: 0 };
        Self { stream, opening: Some(opening), patience, stalled: None }
    }

    /// Passes on what a write has come to, or an error if nothing could be written for too long.
    fn written<T>(
        &mut self,
        cx: &mut Context<'_>,
        outcome: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if outcome.is_ready() {
            self.stalled = None;
            return outcome;
        }
        let patience = self.patience;
        let stalled = self.stalled.get_or_insert_with(|| Box::pin(sleep(patience)));
        ready!(stalled.as_mut().poll(cx));
        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the client takes nothing")))
    }
}

impl AsyncRead for LimitedStream {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let before = buffer.filled().len();
        let outcome = Pin::new(&mut this.stream).poll_read(cx, buffer);
        let Some(opening) = &mut this.opening else { return outcome };
        if outcome.is_ready() {
            if opening.is_decided_by(buffer.filled().get(before..).unwrap_or_default()) {
                this.opening = None;
            }
            return outcome;
        }
        ready!(opening.deadline.as_mut().poll(cx));
        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the client sends no request")))
    }
}

impl AsyncWrite for LimitedStream {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let outcome = Pin::new(&mut this.stream).poll_write(cx, bytes);
        this.written(cx, outcome)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let outcome = Pin::new(&mut this.stream).poll_write_vectored(cx, bytes);
        this.written(cx, outcome)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    use super::*;

    #[test]
    fn the_refusal_has_the_length_that_it_names() {
        let text = std::str::from_utf8(REFUSED).unwrap();
        let (headers, body) = text.split_once("\r\n\r\n").unwrap();
        assert!(headers.contains(&format!("content-length: {}\r\n", body.len())), "{}", body.len());
        serde_json::from_str::<serde_json::Value>(body).unwrap();
    }

    const TEST_TIMEOUT: Duration = Duration::from_millis(50);

    async fn pair() -> (LimitedStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        (
            LimitedStream::with(listener.accept().await.unwrap().0, TEST_TIMEOUT, TEST_TIMEOUT),
            client,
        )
    }

    fn run(test: impl Future<Output = ()>) {
        let mut builder = tokio::runtime::Builder::new_current_thread();
        builder.enable_all().build().unwrap().block_on(test);
    }

    #[test]
    fn a_client_that_begins_nothing_is_cut_off() {
        for begun in [&b""[..], b"P", b"PRI * HTTP"] {
            run(async move {
                let (mut server, mut client) = pair().await;
                client.write_all(begun).await.unwrap();
                let mut read = vec![0; 64];
                let error = loop {
                    match server.read(&mut read).await {
                        Ok(count) => assert!(count > 0, "{begun:?}"),
                        Err(error) => break error,
                    }
                };
                assert_eq!(error.kind(), io::ErrorKind::TimedOut);
            });
        }
    }

    #[test]
    fn a_client_that_has_begun_may_take_its_time() {
        for begun in [&b"GET / HTTP/1.1\r\n"[..], b"POST", PREFACE] {
            run(async move {
                let (mut server, mut client) = pair().await;
                client.write_all(begun).await.unwrap();
                let mut read = vec![0; begun.len()];
                server.read_exact(&mut read).await.unwrap();
                let later = tokio::time::timeout(TEST_TIMEOUT * 4, server.read(&mut read)).await;
                assert!(later.is_err(), "{begun:?}");
            });
        }
    }

    #[test]
    fn a_client_that_takes_nothing_is_cut_off() {
        run(async {
            let (mut server, _client) = pair().await;
            let bytes = vec![0; 1 << 20];
            let error = loop {
                if let Err(error) = server.write_all(&bytes).await {
                    break error;
                }
            };
            assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        });
    }
}
