//! Slow clients: their connections are closed after a limit, and other clients are not affected.

use std::time::Duration;

use anyhow::{Context, Result};
use testkit::{Client, ProcessKind};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpSocket, TcpStream},
    time::{sleep, timeout},
};

use crate::support::{Merchant, cluster, concurrently, ids, merchant, ok};

/// Longer than any of the server's client timeouts.
const TIMEOUT: Duration = Duration::from_secs(110);

async fn connect(api: &Client) -> Result<TcpStream> {
    let address = api.base().strip_prefix("http://").context("an address")?;
    Ok(TcpStream::connect(address).await?)
}

/// Everything that the server sends until it closes the connection.
async fn until_closed(stream: &mut (impl AsyncReadExt + Unpin)) -> Result<String> {
    let mut received = Vec::new();
    let read = timeout(TIMEOUT, stream.read_to_end(&mut received)).await.context("the connection was not closed")?;
    // A reset also counts as closed.
    drop(read);
    Ok(String::from_utf8_lossy(&received).into_owned())
}

/// Sends `start`, then `byte` once a second until the server closes the connection. Returns the response.
async fn trickle(api: &Client, start: String, byte: &[u8]) -> Result<String> {
    let (mut reading, mut writing) = connect(api).await?.into_split();
    writing.write_all(start.as_bytes()).await?;
    let sending = async {
        while writing.write_all(byte).await.is_ok() {
            sleep(Duration::from_secs(1)).await;
        }
        // The reading half detects that the connection is closed.
        std::future::pending::<()>().await;
    };
    tokio::select! {
        received = until_closed(&mut reading) => received,
        () = sending => unreachable!("sending never ends"),
    }
}

fn head(key: &str, request: &str, length: usize) -> String {
    format!(
        "{request} HTTP/1.1\r\nHost: api\r\nAuthorization: Bearer {key}\r\nContent-Type: application/json\r\n\
         Content-Length: {length}\r\n\r\n"
    )
}

#[tokio::test]
async fn unfinished_bodies_return_408() -> Result<()> {
    let merchant = merchant().await?;
    let post = || head(&merchant.account.secret_key, "POST /v1/payments", 1000) + "{\"amount\":";
    let (silent, slow) = tokio::try_join!(trickle(&merchant.api, post(), b""), trickle(&merchant.api, post(), b" "))?;
    for received in [silent, slow] {
        assert!(received.starts_with("HTTP/1.1 408 "), "{received}");
        assert!(
            received.contains("request-id: ") && received.contains(r#"{"error":{"code":"invalid_request","#),
            "{received}"
        );
    }
    assert!(ids(&merchant.api.get("/v1/payments").await?).is_empty(), "no payment was created");
    Ok(())
}

#[tokio::test]
async fn rejected_requests_do_not_wait_for_the_body() -> Result<()> {
    let merchant = merchant().await?;
    let live = Merchant::with(cluster().await?, &["--mode", "live", "--provider", "mock", "--allow-mock"]).await?;
    let key = &merchant.account.secret_key;
    let (unknown, filtered, refused, unsigned) = tokio::try_join!(
        trickle(&merchant.api, head(key, "POST /v1/nonsense", 1000), b" "),
        trickle(&merchant.api, head(key, "GET /v1/payments?page=2", 1000), b" "),
        trickle(&merchant.api, head("nonsense", "POST /v1/payments", 1000), b" "),
        // The signature is checked before the body is read.
        trickle(&merchant.api, head(&live.account.secret_key, "POST /v1/payments", 1000), b" "),
    )?;
    for (received, status) in [(unknown, "404"), (filtered, "422"), (refused, "401"), (unsigned, "401")] {
        assert!(received.starts_with(&format!("HTTP/1.1 {status} ")), "{received}");
    }
    Ok(())
}

/// A client of each listener: the API, the gateway, and the metrics.
async fn listeners(api: &Client) -> Result<[Client; 3]> {
    let cluster = cluster().await?;
    Ok([api.clone(), Client::new(&cluster.gateway_url(0))?, Client::new(&cluster.metrics_url(ProcessKind::Api, 0))?])
}

#[tokio::test]
#[ignore = "waits for a limit of 75 seconds"]
async fn unfinished_heads_are_disconnected() -> Result<()> {
    let merchant = merchant().await?;
    let unfinished = "GET /v1/payments HTTP/1.1\r\nHost: api\r\nX-Slow: ";
    let listeners = listeners(&merchant.api).await?;
    let heads = concurrently(6, async |i| match i % 2 {
        0 => trickle(&listeners[i / 2], String::new(), b"").await,
        _ => trickle(&listeners[i / 2], unfinished.to_owned(), b"x").await,
    });
    let (heads, ()) = tokio::try_join!(heads, async {
        ok(&merchant.api.get("/v1/payments").await?);
        Ok(())
    })?;
    for received in heads {
        assert!(!received.starts_with("HTTP/1.1 2"), "{received}");
    }
    Ok(())
}

/// Sends requests without reading until the server closes the connection.
async fn send_without_reading(api: &Client, path: &str) -> Result<()> {
    let address = api.base().strip_prefix("http://").context("an address")?.parse()?;
    let socket = TcpSocket::new_v4()?;
    socket.set_recv_buffer_size(4096)?;
    let mut stream = socket.connect(address).await?;
    let request = format!("GET {path} HTTP/1.1\r\nHost: api\r\n\r\n").repeat(16);
    let sending = async { while stream.write_all(request.as_bytes()).await.is_ok() {} };
    timeout(TIMEOUT, sending).await.context("the connection was not closed")
}

#[tokio::test]
#[ignore = "waits for a limit of a minute"]
async fn clients_that_never_read_are_disconnected() -> Result<()> {
    let merchant = merchant().await?;
    let [api, gateway, internal] = listeners(&merchant.api).await?;
    let (_, _, _) = tokio::try_join!(
        send_without_reading(&api, "/openapi.json"),
        send_without_reading(&gateway, "/services/proxynization_api.js"),
        send_without_reading(&internal, "/metrics"),
    )?;
    Ok(())
}
