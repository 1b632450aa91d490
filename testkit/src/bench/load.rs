//! A closed loop of clients: each sends its next request when it has the response to the previous one.
//!
//! Each client speaks HTTP/1.1 by hand over its own connection: a client library would use a good part of the two
//! processors that are to be measured.

use std::time::{Duration, Instant};

use super::hop::percentile;
use anyhow::{Context, Result, ensure};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    task::JoinSet,
};

/// The result of a load.
pub(super) struct Measurement {
    /// Responses per second.
    pub(super) per_second: f64,
    /// The number of responses.
    pub(super) count: usize,
    sorted_ms: Vec<f64>,
}

impl Measurement {
    /// The latency in milliseconds that `percent` percent of the responses did not exceed.
    pub(super) fn percentile(&self, percent: usize) -> f64 {
        percentile(&self.sorted_ms, percent)
    }
}

/// The request of every client, and the text that a response must contain.
#[derive(Clone)]
pub(super) struct Exchange {
    pub(super) address: String,
    pub(super) request: Vec<u8>,
    pub(super) expected: &'static str,
}

impl Exchange {
    /// A POST with a JSON body.
    pub(super) fn post(url: &str, path: &str, key: &str, body: &str, expected: &'static str) -> Self {
        let address = url.trim_start_matches("http://").to_owned();
        let request = format!(
            "POST {path} HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {key}\r\n\
             Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        );
        Self { address, request: request.into_bytes(), expected }
    }

    pub(super) fn get(url: &str, path: &str, key: &str, expected: &'static str) -> Self {
        Self::get_as(url, path, &format!("Authorization: Bearer {key}"), expected)
    }

    /// A page of the portal, in a session.
    pub(super) fn page(url: &str, path: &str, cookie: &str, expected: &'static str) -> Self {
        Self::get_as(url, path, &format!("Cookie: {cookie}"), expected)
    }

    fn get_as(url: &str, path: &str, header: &str, expected: &'static str) -> Self {
        let address = url.trim_start_matches("http://").to_owned();
        let request = format!("GET {path} HTTP/1.1\r\nHost: {address}\r\n{header}\r\n\r\n");
        Self { address, request: request.into_bytes(), expected }
    }

    async fn once<'a>(&self, stream: &mut TcpStream, buffer: &'a mut Vec<u8>) -> Result<&'a str> {
        stream.write_all(&self.request).await?;
        buffer.clear();
        loop {
            ensure!(stream.read_buf(buffer).await? > 0, "the server closed the connection");
            if complete_message(buffer)?.is_some() {
                break;
            }
        }
        let response = complete_message(buffer)?.context("incomplete response")?;
        ensure!(response.contains(self.expected), "unexpected response: {response}");
        Ok(response)
    }
}

/// The message as text once it is complete according to its `Content-Length`.
fn complete_message(buffer: &[u8]) -> Result<Option<&str>> {
    let Some(end) = buffer.windows(4).position(|window| window == b"\r\n\r\n") else { return Ok(None) };
    let head = std::str::from_utf8(&buffer[..end]).context("the head is not UTF-8")?;
    let length = head.lines().find_map(|line| {
        let (name, value) = line.split_once(": ")?;
        name.eq_ignore_ascii_case("content-length").then_some(value)
    });
    let length: usize = length.context("the message has no Content-Length")?.parse()?;
    // What has arrived of the body may end within a character.
    let is_complete = buffer.len() - (end + 4) >= length;
    is_complete.then(|| std::str::from_utf8(buffer).context("the message is not UTF-8")).transpose()
}

/// Runs `clients` for `duration`.
pub(super) async fn closed_loop(clients: usize, duration: Duration, exchange: &Exchange) -> Result<Measurement> {
    closed_loop_with(clients, duration, exchange, Duration::ZERO, |_, _| {}).await
}

/// As [`closed_loop`], with a pause after each response. `on_response` gets each response and the time at which its
/// request was sent.
pub(super) async fn closed_loop_with(
    clients: usize,
    duration: Duration,
    exchange: &Exchange,
    pause: Duration,
    on_response: impl Fn(&str, Instant) + Clone + Send + 'static,
) -> Result<Measurement> {
    let began = Instant::now();
    let mut tasks = JoinSet::new();
    for _ in 0..clients {
        let (exchange, on_response) = (exchange.clone(), on_response.clone());
        tasks.spawn(async move {
            let mut stream = TcpStream::connect(&exchange.address).await?;
            stream.set_nodelay(true)?;
            let (mut latencies, mut buffer) = (Vec::new(), Vec::with_capacity(4096));
            while began.elapsed() < duration {
                let sent = Instant::now();
                let response = exchange.once(&mut stream, &mut buffer).await?;
                latencies.push(sent.elapsed().as_secs_f64() * 1000.0);
                on_response(response, sent);
                if !pause.is_zero() {
                    tokio::time::sleep(pause).await;
                }
            }
            anyhow::Ok(latencies)
        });
    }
    let mut sorted_ms = Vec::new();
    while let Some(latencies) = tasks.join_next().await {
        sorted_ms.extend(latencies??);
    }
    let elapsed = began.elapsed().as_secs_f64();
    sorted_ms.sort_by(f64::total_cmp);
    Ok(Measurement { per_second: sorted_ms.len() as f64 / elapsed, count: sorted_ms.len(), sorted_ms })
}
