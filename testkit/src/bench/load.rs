//! A closed loop of clients: each sends its next request when it has the answer to the last.
//!
//! It speaks HTTP/1.1 by hand over a connection of its own each: a client library would take a good part of the two
//! processors that are to be measured.

use std::time::{Duration, Instant};

use super::hop::percentile;
use anyhow::{Context, Result, ensure};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    task::JoinSet,
};

/// What a load measured.
pub(super) struct Measured {
    /// Answers per second.
    pub(super) per_second: f64,
    /// Answers in all.
    pub(super) count: usize,
    sorted_ms: Vec<f64>,
}

impl Measured {
    /// The latency that so many percent of the answers did not exceed, in milliseconds.
    pub(super) fn percentile(&self, percent: usize) -> f64 {
        percentile(&self.sorted_ms, percent)
    }
}

/// What every client sends, and what the answer must hold to count.
#[derive(Clone)]
pub(super) struct Exchange {
    pub(super) address: String,
    pub(super) request: Vec<u8>,
    pub(super) expected: &'static str,
}

impl Exchange {
    /// A POST of a JSON body.
    pub(super) fn post(url: &str, path: &str, key: &str, body: &str, expected: &'static str) -> Self {
        let address = url.trim_start_matches("http://").to_owned();
        let request = format!(
            "POST {path} HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {key}\r\n\
             Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        );
        Self { address, request: request.into_bytes(), expected }
    }

    /// A GET.
    pub(super) fn get(url: &str, path: &str, key: &str, expected: &'static str) -> Self {
        let address = url.trim_start_matches("http://").to_owned();
        let request = format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {key}\r\n\r\n");
        Self { address, request: request.into_bytes(), expected }
    }

    async fn once<'a>(&self, stream: &mut TcpStream, buffer: &'a mut Vec<u8>) -> Result<&'a str> {
        stream.write_all(&self.request).await?;
        buffer.clear();
        loop {
            ensure!(stream.read_buf(buffer).await? > 0, "the server closed the connection");
            if whole(buffer)?.is_some() {
                break;
            }
        }
        let answer = whole(buffer)?.context("an answer that was whole")?;
        ensure!(answer.contains(self.expected), "answered {answer}");
        Ok(answer)
    }
}

/// The message, once all of it is there: its length stands in its head.
pub(super) fn whole(buffer: &[u8]) -> Result<Option<&str>> {
    let text = std::str::from_utf8(buffer).context("an answer that is no text")?;
    let Some((head, body)) = text.split_once("\r\n\r\n") else { return Ok(None) };
    let length = head.lines().find_map(|line| {
        let (name, value) = line.split_once(": ")?;
        name.eq_ignore_ascii_case("content-length").then_some(value)
    });
    let length: usize = length.context("a message without a length")?.parse()?;
    Ok((body.len() >= length).then_some(text))
}

/// Lets `clients` work for `duration`.
pub(super) async fn closed_loop(clients: usize, duration: Duration, exchange: &Exchange) -> Result<Measured> {
    closed_loop_with(clients, duration, exchange, Duration::ZERO, |_, _| {}).await
}

/// The same with a pause after each answer; `heard` is told each answer, and when its request was sent.
pub(super) async fn closed_loop_with(
    clients: usize,
    duration: Duration,
    exchange: &Exchange,
    pause: Duration,
    heard: impl Fn(&str, Instant) + Clone + Send + 'static,
) -> Result<Measured> {
    let began = Instant::now();
    let mut tasks = JoinSet::new();
    for _ in 0..clients {
        let (exchange, heard) = (exchange.clone(), heard.clone());
        tasks.spawn(async move {
            let mut stream = TcpStream::connect(&exchange.address).await?;
            stream.set_nodelay(true)?;
            let (mut latencies, mut buffer) = (Vec::new(), Vec::with_capacity(4096));
            while began.elapsed() < duration {
                let sent = Instant::now();
                let answer = exchange.once(&mut stream, &mut buffer).await?;
                latencies.push(sent.elapsed().as_secs_f64() * 1000.0);
                heard(answer, sent);
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
    Ok(Measured { per_second: sorted_ms.len() as f64 / elapsed, count: sorted_ms.len(), sorted_ms })
}
