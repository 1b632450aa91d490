//! A delayed refund request at a gateway whose clock is slow: the gateway still accepts the request after its deadline,
//! when it has already been sent again.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::Result;
use testkit::{Cluster, ProcessKind};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::sleep;

use super::APPROVES;
use crate::support::{Shop, accepted, created, eventually, id};

/// The delay of the first refund.
const DELAY: Duration = Duration::from_secs(45);
/// How far the gateway's clock is behind. From its view `valid_until` is this much later.
const BEHIND_MS: i64 = 50_000;
const VALID_UNTIL: &str = "valid_until=";

/// Forwards everything to the gateway and delays the first refund, which it forwards even if the client disconnects.
async fn proxy(gateway: u16, delayed: Arc<AtomicBool>, listener: TcpListener) -> Result<()> {
    let mut connections = JoinSet::new();
    loop {
        let (client, _) = listener.accept().await?;
        let (from_client, to_client) = client.into_split();
        let (from_gateway, to_gateway) = TcpStream::connect(("127.0.0.1", gateway)).await?.into_split();
        connections.spawn(forward_requests(from_client, to_gateway, Arc::clone(&delayed)));
        connections.spawn(forward_responses(from_gateway, to_client));
    }
}

async fn forward_requests(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, delayed: Arc<AtomicBool>) {
    let mut buffer = vec![0; 64 * 1024];
    while let Ok(count @ 1..) = from.read(&mut buffer).await {
        let bytes = shift_deadline(&buffer[..count]);
        let is_refund = bytes.windows(16).any(|window| window == b"/apis/refund.php");
        if is_refund && !delayed.swap(true, Ordering::SeqCst) {
            sleep(DELAY).await;
        }
        if to.write_all(&bytes).await.is_err() {
            return;
        }
    }
    // Keep the connection open for the response.
    sleep(DELAY).await;
}

async fn forward_responses(mut from: OwnedReadHalf, mut to: OwnedWriteHalf) {
    let mut buffer = vec![0; 64 * 1024];
    while let Ok(count @ 1..) = from.read(&mut buffer).await {
        // The client may have disconnected.
        let _ = to.write_all(&buffer[..count]).await;
    }
}

/// Moves the deadline, which is equivalent to a slow clock of the gateway. The number of digits does not change.
fn shift_deadline(bytes: &[u8]) -> Vec<u8> {
    let mut text = String::from_utf8_lossy(bytes).into_owned();
    if let Some(at) = text.find(VALID_UNTIL).map(|at| at + VALID_UNTIL.len()) {
        let digits = text[at..].bytes().take_while(u8::is_ascii_digit).count();
        let until: i64 = text[at..at + digits].parse().expect("milliseconds");
        text.replace_range(at..at + digits, &(until + BEHIND_MS).to_string());
    }
    text.into_bytes()
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "delays a request by 45 seconds"]
async fn a_delayed_refund_is_made_once() -> Result<()> {
    let mut cluster = Cluster::builder().api(1).scheduler(1).gateway(1).start().await?;
    let gateway: u16 = cluster.gateway_url(0).rsplit(':').next().unwrap_or_default().parse()?;
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let proxy_url = format!("http://{}", listener.local_addr()?);
    let delayed = Arc::new(AtomicBool::new(false));
    let mut proxies = JoinSet::new();
    proxies.spawn(proxy(gateway, Arc::clone(&delayed), listener));
    cluster.set_env("CARD_GATEWAY_URL", &proxy_url);
    cluster.add(ProcessKind::Worker).await?;
    cluster.set_env("CARD_GATEWAY_URL", &cluster.gateway_url(0));
    let shop = Shop::new(&cluster, &[]).await?;

    let payment = id(created(&shop.pay(APPROVES, 10_000).await?))?;
    accepted(&shop.merchant.refund(&payment, Some(3_000)).await?);
    let refunded = async || Ok((shop.merchant.payment(&payment).await?["amountRefunded"] == 3_000).then_some(()));
    eventually("the refund", refunded).await?;
    assert!(delayed.load(Ordering::SeqCst), "the first request must have been delayed");
    // Long enough for the first request to arrive.
    sleep(DELAY).await;
    assert_eq!(shop.records().await?, "sale 10000 approved, refund 3000 approved");
    shop.merchant.wait_for_status(&payment, "partially_refunded").await?;
    Ok(())
}
