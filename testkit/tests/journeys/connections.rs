//! Keep-alive connections: a request that is rejected before its body has arrived does not break the next one.

use std::pin::Pin;
use std::task::{Context as Task, Poll, ready};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use hyper::body::{Body, Bytes, Frame, SizeHint};
use serde_json::Value;
use testkit::{Client, Cluster};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::{Sleep, sleep, timeout};

use crate::support::{Merchant, ORIGIN, cluster, concurrently, merchant, sale};

/// Longer than any time-out of the servers.
const TIMEOUT: Duration = Duration::from_secs(60);
/// The delay between the head of a request and its body.
const PAUSE: Duration = Duration::from_millis(50);

/// A raw HTTP/1.1 connection.
struct Wire(TcpStream);

struct Response {
    status: u16,
    closes: bool,
    text: String,
}

impl Wire {
    async fn to(base: &str) -> Result<Self> {
        let stream = TcpStream::connect(base.strip_prefix("http://").context("an address")?).await?;
        stream.set_nodelay(true)?;
        Ok(Self(stream))
    }

    /// Sends the head, pauses, sends the body and reads the response.
    async fn request(&mut self, head: &str, body: &str) -> Result<Response> {
        let length = format!("Content-Length: {}\r\n\r\n", body.len());
        self.0.write_all(format!("{head}{length}").as_bytes()).await.context("the head")?;
        sleep(PAUSE).await;
        self.0.write_all(body.as_bytes()).await.context("the body")?;
        self.read_response().await
    }

    async fn read_response(&mut self) -> Result<Response> {
        timeout(TIMEOUT, async {
            let mut head = Vec::new();
            while !head.ends_with(b"\r\n\r\n") {
                head.push(self.0.read_u8().await.context("the response is incomplete")?);
            }
            let head = String::from_utf8(head)?.to_ascii_lowercase();
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
            let mut body = vec![0; length.context("a length")?.parse()?];
            self.0.read_exact(&mut body).await?;
            let status = head.split(' ').nth(1).context("a status")?.parse()?;
            Ok(Response { status, closes: head.contains("\r\nconnection: close\r\n"), text: String::from_utf8(body)? })
        })
        .await
        .context("no response in time")?
    }
}

/// A request head, to which the caller adds a length and the final blank line.
fn head(request: &str, key: &str) -> String {
    let kind = if request.contains(" /v1/") { "application/json" } else { "application/x-www-form-urlencoded" };
    format!(
        "{request} HTTP/1.1\r\nHost: here\r\nOrigin: {ORIGIN}\r\nAuthorization: Bearer {key}\r\n\
         Content-Type: {kind}\r\n"
    )
}

/// A key with a rate limit of one request.
async fn key_with_one_request(cluster: &Cluster) -> Result<String> {
    let options = ["--mode", "test", "--provider", "mock", "--rate-limit", "1", "--burst", "1"];
    let account = cluster.account_with(&options).await?;
    Ok(account.secret_key)
}

#[tokio::test]
async fn a_rejected_request_keeps_its_connection_usable() -> Result<()> {
    let (cluster, merchant) = (cluster().await?, merchant().await?);
    let (secret, publishable) = (&merchant.account.secret_key, &merchant.account.publishable_key);
    let body = format!("{:5000}", sale(100).to_string());
    let plain = head("POST /v1/payments", secret).replace("application/json", "text/plain");
    let limited = key_with_one_request(cluster).await?;
    for (status, request, body) in [
        (401, head("POST /v1/payments", "nonsense"), body.clone()),
        (403, head("POST /v1/payments", publishable), body.clone()),
        (403, head("POST /v1/tokens", secret), body.clone()),
        (404, head("POST /v1/nonsense", secret), body.clone()),
        (405, head("PUT /v1/payments", secret), body.clone()),
        (422, head("GET /v1/payments", secret), body.clone()),
        (413, head("POST /v1/payments", secret), "x".repeat(70_000)),
        (413, head("POST /pay/l/nonsense", secret), "x".repeat(20_000)),
        (422, plain, body.clone()),
        (429, head("POST /v1/payments", &limited), body.clone()),
    ] {
        let mut wire = Wire::to(&cluster.api_url(0)).await?;
        let mut refused = wire.request(&request, &body).await.with_context(|| format!("{status} {request}"))?;
        while status == 429 && refused.status != 429 {
            refused = wire.request(&request, &body).await?;
        }
        if request.contains("/pay/l/") {
            // Either the oversized form or the invalid path is reported, whichever is checked first.
            assert!([404, 413, 422].contains(&refused.status), "{}", refused.text);
        } else {
            assert_eq!(refused.status, status, "{}", refused.text);
        }
        assert!(!refused.closes, "{status}: {request}");
        let second = wire.request(&head("POST /v1/payments", secret), &sale(100).to_string()).await;
        let second = second.with_context(|| format!("after {status}: {request}"))?;
        assert_eq!((second.status, second.closes), (201, false), "after {status}: {}", second.text);
    }
    Ok(())
}

#[tokio::test]
async fn a_rejection_by_the_gateway_keeps_its_connection_usable() -> Result<()> {
    let cluster = cluster().await?;
    let form = format!("username=nobody&memo={}", "x".repeat(5_000));
    for (status, request, body) in [
        (404, "POST /apis/nonsense.php", form.clone()),
        (404, "POST /nowhere", form.clone()),
        (405, "PUT /apis/sale.php", form.clone()),
        (405, "POST /services/field", form.clone()),
        (200, "POST /apis/sale.php", form.clone()),
        (413, "POST /apis/sale.php", "x".repeat(70_000)),
        (413, "POST /services/proxynization", "x".repeat(70_000)),
    ] {
        let mut wire = Wire::to(&cluster.gateway_url(0)).await?;
        let refused = wire.request(&head(request, "none"), &body).await.context(request)?;
        assert_eq!((refused.status, refused.closes), (status, false), "{request}: {}", refused.text);
        let second = wire.request(&head("POST /apis/sale.php", "none"), "username=nobody").await;
        let second = second.with_context(|| format!("after {request}"))?;
        assert_eq!((second.status, second.closes), (200, false), "after {request}: {}", second.text);
    }
    Ok(())
}

#[tokio::test]
async fn a_stalled_body_closes_its_connection_after_the_response() -> Result<()> {
    let cluster = cluster().await?;
    for (base, status, request) in [
        (cluster.api_url(0), 401, head("POST /v1/payments", "nonsense")),
        (cluster.gateway_url(0), 404, head("POST /apis/nonsense.php", "none")),
    ] {
        for length in ["Content-Length: 1000\r\n\r\n", "Transfer-Encoding: chunked\r\n\r\n4\r\nhalf"] {
            let mut wire = Wire::to(&base).await?;
            wire.0.write_all(format!("{request}{length}").as_bytes()).await?;
            let refused = wire.read_response().await?;
            assert_eq!((refused.status, refused.closes), (status, true), "{}", refused.text);
            assert_eq!(wire.0.read(&mut [0; 1]).await?, 0, "the connection must be closed without a reset");
        }
    }
    Ok(())
}

#[tokio::test]
async fn a_key_that_is_revoked_before_the_body_has_arrived_is_refused() -> Result<()> {
    let (cluster, merchant) = (cluster().await?, merchant().await?);
    let (secret, publishable) = (&merchant.account.secret_key, &merchant.account.publishable_key);
    let mut requests = Vec::new();
    for (head, body) in [
        (head("POST /v1/payments", secret), sale(100).to_string()),
        (head("POST /v1/checkout_sessions", publishable), "{}".to_owned()),
    ] {
        let mut wire = Wire::to(&cluster.api_url(0)).await?;
        let (first, last) = body.split_at(body.len() - 1);
        wire.0.write_all(format!("{head}Content-Length: {}\r\n\r\n{first}", body.len()).as_bytes()).await?;
        requests.push((wire, last.to_owned()));
    }
    // Until both wait for the last byte.
    sleep(Duration::from_millis(300)).await;
    cluster.ctl(&["keys", "revoke", "--account", &merchant.account.id]).await?;
    for (mut wire, last) in requests {
        wire.0.write_all(last.as_bytes()).await?;
        let response = wire.read_response().await?;
        assert_eq!(response.status, 401, "{}", response.text);
    }
    assert_eq!(merchant.books.operations().await?, 0);
    Ok(())
}

/// A body of ASCII in chunks of this many bytes.
fn in_chunks(body: &str, length: usize) -> String {
    let chunks = body
        .as_bytes()
        .chunks(length)
        .map(|chunk| format!("{:x}\r\n{}\r\n", chunk.len(), String::from_utf8_lossy(chunk)));
    chunks.collect::<String>() + "0\r\n\r\n"
}

#[tokio::test]
async fn bodies_in_small_chunks_are_read_and_limited() -> Result<()> {
    let (cluster, merchant) = (cluster().await?, merchant().await?);
    for (base, request, body, status) in [
        (cluster.api_url(0), head("POST /v1/payments", &merchant.account.secret_key), sale(100).to_string(), 201),
        (cluster.gateway_url(0), head("POST /apis/sale.php", "none"), "username=nobody".to_owned(), 200),
    ] {
        let mut wire = Wire::to(&base).await?;
        for (body, length, status) in [(body, 1, status), ("x".repeat(64 * 1024 + 1), 64, 413)] {
            let sent = format!("{request}Transfer-Encoding: chunked\r\n\r\n{}", in_chunks(&body, length));
            wire.0.write_all(sent.as_bytes()).await?;
            let response = wire.read_response().await?;
            assert_eq!((response.status, response.closes), (status, false), "{request}: {}", response.text);
        }
    }
    Ok(())
}

/// A body whose announced length is too large is rejected before it is sent.
#[tokio::test]
async fn expect_continue_with_an_oversized_body_is_rejected_at_once() -> Result<()> {
    let (cluster, merchant) = (cluster().await?, merchant().await?);
    let expects = "Content-Length: 10000000\r\nExpect: 100-continue\r\n\r\n";
    for (base, request) in [
        (cluster.api_url(0), head("POST /v1/payments", &merchant.account.secret_key)),
        (cluster.gateway_url(0), head("POST /apis/sale.php", "none")),
    ] {
        let mut wire = Wire::to(&base).await?;
        wire.0.write_all(format!("{request}{expects}").as_bytes()).await?;
        let refused = wire.read_response().await?;
        assert_eq!((refused.status, refused.closes), (413, true), "{}", refused.text);
        assert_eq!(wire.0.read(&mut [0; 1]).await?, 0, "the connection must be closed without a reset");
    }
    Ok(())
}

/// A body that is sent with a delay after its head.
struct DelayedBody {
    bytes: Option<Bytes>,
    after: Pin<Box<Sleep>>,
}

impl Body for DelayedBody {
    type Data = Bytes;
    type Error = std::io::Error;

    fn poll_frame(mut self: Pin<&mut Self>, task: &mut Task<'_>) -> Poll<Option<std::io::Result<Frame<Bytes>>>> {
        ready!(self.after.as_mut().poll(task));
        Poll::Ready(self.bytes.take().map(|bytes| Ok(Frame::data(bytes))))
    }

    fn is_end_stream(&self) -> bool {
        self.bytes.is_none()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.bytes.as_ref().map_or(0, |bytes| bytes.len() as u64))
    }
}

/// A client that keeps reusing a few connections, also after error responses.
#[tokio::test]
async fn a_connection_pool_has_no_transport_errors() -> Result<()> {
    const AT_ONCE: usize = 8;
    const EACH: usize = 40;
    let merchant: Merchant = merchant().await?;
    let pool = reqwest::Client::builder().retry(reqwest::retry::never()).no_proxy().timeout(TIMEOUT).build()?;
    let (secret, publishable) = (&merchant.account.secret_key, &merchant.account.publishable_key);
    let requests: [(&str, &str, &str, u16); 7] = [
        ("POST", "/v1/customers", secret, 201),
        ("POST", "/v1/customers", "nonsense", 401),
        ("POST", "/v1/customers", publishable, 403),
        ("POST", "/v1/nowhere", secret, 404),
        ("PUT", "/v1/customers", secret, 405),
        ("GET", "/v1/customers", secret, 422),
        ("POST", "/v1/payments/pay_1/void", secret, 422),
    ];
    let base = merchant.api.base();
    let sent = concurrently(AT_ONCE, async |task| {
        for i in 0..EACH {
            let (method, path, key, status) = requests[(task + i) % requests.len()];
            let after = Box::pin(sleep(Duration::from_millis(10 * (i as u64 % 6))));
            let body = DelayedBody { bytes: Some(Bytes::from_static(b"{\"email\":\"ada@example.com\"}")), after };
            let request = pool.request(method.parse()?, format!("{base}{path}")).bearer_auth(key);
            let request = request.header("content-type", "application/json").body(reqwest::Body::wrap(body));
            let response = request.send().await.with_context(|| format!("{method} {path}, the {i}th of {task}"))?;
            ensure!(response.status() == status, "{method} {path}: {}", response.status());
            response.json::<Value>().await?;
        }
        Ok(EACH)
    })
    .await?;
    assert_eq!(sent.iter().sum::<usize>(), AT_ONCE * EACH);
    // A further request succeeds.
    Client::new(base)?.bearer(secret)?.get("/v1/payments").await?;
    Ok(())
}
