//! A refund's request that is held up on its way, at a gateway whose clock is behind: what is late by the right clock is not late
//! there, and has been sent again meanwhile.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::Result;
use testkit::{Cluster, Kind};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::sleep;

use super::APPROVES;
use crate::support::{Shop, accepted, created, eventually, id};

/// How long the first refund is on its way.
const HELD: Duration = Duration::from_secs(45);
/// So far the gateway's clock is behind. To it `valid_until` is as much later.
const BEHIND_MS: i64 = 50_000;
const VALID_UNTIL: &str = "valid_until=";

/// Passes everything on to the gateway, but for the first refund, which it holds. It goes on with that though the caller hangs up.
async fn proxy(gateway: u16, held: Arc<AtomicBool>, listener: TcpListener) -> Result<()> {
    let mut connections = JoinSet::new();
    loop {
        let (client, _) = listener.accept().await?;
        let (from_client, to_client) = client.into_split();
        let (from_gateway, to_gateway) = TcpStream::connect(("127.0.0.1", gateway)).await?.into_split();
        connections.spawn(requests(from_client, to_gateway, Arc::clone(&held)));
        connections.spawn(answers(from_gateway, to_client));
    }
}

async fn requests(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, held: Arc<AtomicBool>) {
    let mut buffer = vec![0; 64 * 1024];
    while let Ok(count @ 1..) = from.read(&mut buffer).await {
        let bytes = delayed_clock(&buffer[..count]);
        let is_refund = bytes.windows(16).any(|window| window == b"/apis/refund.php");
        if is_refund && !held.swap(true, Ordering::SeqCst) {
            sleep(HELD).await;
        }
        if to.write_all(&bytes).await.is_err() {
            return;
        }
    }
    // The answer to what has been passed on is still to come.
    sleep(HELD).await;
}

async fn answers(mut from: OwnedReadHalf, mut to: OwnedWriteHalf) {
    let mut buffer = vec![0; 64 * 1024];
    while let Ok(count @ 1..) = from.read(&mut buffer).await {
        // Nobody may be there any more.
        let _ = to.write_all(&buffer[..count]).await;
    }
}

/// What a gateway whose clock is behind would make of the deadline. It has as many digits.
fn delayed_clock(bytes: &[u8]) -> Vec<u8> {
    let mut text = String::from_utf8_lossy(bytes).into_owned();
    if let Some(at) = text.find(VALID_UNTIL).map(|at| at + VALID_UNTIL.len()) {
        let digits = text[at..].bytes().take_while(u8::is_ascii_digit).count();
        let until: i64 = text[at..at + digits].parse().expect("milliseconds");
        text.replace_range(at..at + digits, &(until + BEHIND_MS).to_string());
    }
    text.into_bytes()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refund_that_was_held_up_is_made_once() -> Result<()> {
    let mut cluster = Cluster::builder().api(1).scheduler(1).gateway(1).start().await?;
    let gateway: u16 = cluster.gateway_url(0).rsplit(':').next().unwrap_or_default().parse()?;
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let by_proxy = format!("http://{}", listener.local_addr()?);
    let held = Arc::new(AtomicBool::new(false));
    let mut serving = JoinSet::new();
    serving.spawn(proxy(gateway, Arc::clone(&held), listener));
    cluster.set_env("CARD_GATEWAY_URL", &by_proxy);
    cluster.add(Kind::Worker).await?;
    cluster.set_env("CARD_GATEWAY_URL", &cluster.gateway_url(0));
    let shop = Shop::new(&cluster, &[]).await?;

    let payment = id(created(&shop.pay(APPROVES, 10_000).await?))?;
    accepted(&shop.merchant.refund(&payment, Some(3_000)).await?);
    let refunded = async || Ok((shop.merchant.payment(&payment).await?["amountRefunded"] == 3_000).then_some(()));
    eventually("the refund", refunded).await?;
    assert!(held.load(Ordering::SeqCst), "the first request was held");
    // Until the first request has arrived, and a moment.
    sleep(HELD).await;
    assert_eq!(shop.records().await?, "sale 10000 approved, refund 3000 approved");
    shop.merchant.becomes(&payment, "partially_refunded").await?;
    Ok(())
}
