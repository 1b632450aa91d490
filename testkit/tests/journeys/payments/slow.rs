//! Clients that are slow, or never finish: none holds a connection for ever, and others do not notice.

use std::time::Duration;

use anyhow::{Context, Result};
use testkit::{Client, Kind};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpSocket, TcpStream},
    time::{sleep, timeout},
};

use crate::support::{Merchant, cluster, ids, merchant, ok, together};

/// Longer than any limit for clients.
const PATIENCE: Duration = Duration::from_secs(110);

async fn connect(api: &Client) -> Result<TcpStream> {
    let address = api.base().strip_prefix("http://").context("an address")?;
    Ok(TcpStream::connect(address).await?)
}

/// All that the server says until it closes the connection, whoever has the last word.
async fn until_closed(stream: &mut (impl AsyncReadExt + Unpin)) -> Result<String> {
    let mut said = Vec::new();
    let read = timeout(PATIENCE, stream.read_to_end(&mut said)).await.context("the connection was held for ever")?;
    // A reset is as good as an end.
    drop(read);
    Ok(String::from_utf8_lossy(&said).into_owned())
}

/// Sends a start, and then one byte a second for as long as it is let.
async fn trickle(api: &Client, start: String, byte: &[u8]) -> Result<String> {
    let (mut reading, mut writing) = connect(api).await?.into_split();
    writing.write_all(start.as_bytes()).await?;
    let sending = async {
        while writing.write_all(byte).await.is_ok() {
            sleep(Duration::from_secs(1)).await;
        }
        // A closed connection is seen by who reads.
        std::future::pending::<()>().await;
    };
    tokio::select! {
        said = until_closed(&mut reading) => said,
        () = sending => unreachable!("it never ends"),
    }
}

fn head(key: &str, request: &str, length: usize) -> String {
    format!(
        "{request} HTTP/1.1\r\nHost: api\r\nAuthorization: Bearer {key}\r\nContent-Type: application/json\r\n\
         Content-Length: {length}\r\n\r\n"
    )
}

#[tokio::test]
async fn a_body_that_never_ends_is_408() -> Result<()> {
    let merchant = merchant().await?;
    let live = Merchant::with(cluster().await?, &["--mode", "live", "--provider", "mock"]).await?;
    let (test_key, live_key) = (&merchant.account.secret_key, &live.account.secret_key);
    let post = |key: &str| head(key, "POST /v1/payments", 1000) + "{\"amount\":";
    // Of a live key the body is read before the signature can be checked.
    let (silent, slow, unsigned) = tokio::try_join!(
        trickle(&merchant.api, post(test_key), b""),
        trickle(&merchant.api, post(test_key), b" "),
        trickle(&merchant.api, post(live_key), b" "),
    )?;
    for said in [silent, slow, unsigned] {
        assert!(said.starts_with("HTTP/1.1 408 "), "{said}");
        assert!(said.contains("request-id: ") && said.contains(r#"{"error":{"code":"invalid_request","#), "{said}");
    }
    assert!(ids(&merchant.api.get("/v1/payments").await?).is_empty(), "nothing was done");
    Ok(())
}

#[tokio::test]
async fn a_body_that_nobody_reads_is_not_waited_for() -> Result<()> {
    let merchant = merchant().await?;
    let key = &merchant.account.secret_key;
    let (unknown, filtered, refused) = tokio::try_join!(
        trickle(&merchant.api, head(key, "POST /v1/nonsense", 1000), b" "),
        trickle(&merchant.api, head(key, "GET /v1/payments?page=2", 1000), b" "),
        trickle(&merchant.api, head("nonsense", "POST /v1/payments", 1000), b" "),
    )?;
    for (said, status) in [(unknown, "404"), (filtered, "422"), (refused, "401")] {
        assert!(said.starts_with(&format!("HTTP/1.1 {status} ")), "{said}");
    }
    Ok(())
}

/// Of every listener: what merchants reach, what browsers reach of the gateway, and what watches a process.
async fn listeners(api: &Client) -> Result<[Client; 3]> {
    let cluster = cluster().await?;
    Ok([api.clone(), Client::new(&cluster.gateway_url(0))?, Client::new(&cluster.metrics_url(Kind::Api, 0))?])
}

#[tokio::test]
async fn a_head_that_never_ends_is_cut_off() -> Result<()> {
    let merchant = merchant().await?;
    let begun = "GET /v1/payments HTTP/1.1\r\nHost: api\r\nX-Slow: ";
    let listeners = listeners(&merchant.api).await?;
    let heads = together(6, async |i| match i % 2 {
        0 => trickle(&listeners[i / 2], String::new(), b"").await,
        _ => trickle(&listeners[i / 2], begun.to_owned(), b"x").await,
    });
    let (heads, ()) = tokio::try_join!(heads, async {
        ok(&merchant.api.get("/v1/payments").await?);
        Ok(())
    })?;
    for said in heads {
        assert!(!said.starts_with("HTTP/1.1 2"), "{said}");
    }
    Ok(())
}

/// Asks and asks and reads nothing, until the server has enough of it.
async fn never_reads(api: &Client, path: &str) -> Result<()> {
    let address = api.base().strip_prefix("http://").context("an address")?.parse()?;
    let socket = TcpSocket::new_v4()?;
    socket.set_recv_buffer_size(4096)?;
    let mut stream = socket.connect(address).await?;
    let request = format!("GET {path} HTTP/1.1\r\nHost: api\r\n\r\n").repeat(16);
    let asking = async { while stream.write_all(request.as_bytes()).await.is_ok() {} };
    timeout(PATIENCE, asking).await.context("the answers were held for ever")
}

#[tokio::test]
async fn whoever_never_reads_an_answer_is_cut_off() -> Result<()> {
    let merchant = merchant().await?;
    let [api, gateway, internal] = listeners(&merchant.api).await?;
    let (_, _, _) = tokio::try_join!(
        never_reads(&api, "/openapi.json"),
        never_reads(&gateway, "/services/proxynization_api.js"),
        never_reads(&internal, "/metrics"),
    )?;
    Ok(())
}
