//! Capture, void, settlement and expiry race: the first to reach the provider wins, and API, ledger and events agree on
//! it.

use std::sync::Arc;

use anyhow::Result;
use testkit::{Client, Cluster, Response};
use tokio::time::sleep;

use super::{AUTHORIZED, CANCELLED, CAPTURE_FAILED, CAPTURED, EXPIRED, SETTLED, VOID_FAILED};
use crate::support::{Merchant, concurrently, eventually, jitter, redundant_cluster, uuid};

const ROUNDS: usize = 40;
const AT_ONCE: usize = 20;

/// A new merchant, whose provider takes a while, and its client of another api process. The cluster runs as long as it is held.
async fn racing_merchant() -> Result<(Arc<Cluster>, Merchant, Client)> {
    let cluster = redundant_cluster().await?;
    let merchant = Merchant::new(&cluster).await?;
    let other = Client::new(&cluster.api_url(1))?.bearer(&merchant.account.secret_key)?;
    merchant.mock(&cluster, &["--latency-ms", "30"]).await?;
    Ok((cluster, merchant, other))
}

/// Makes this charge older at the mock, and its inquiry due.
async fn age_charge(merchant: &Merchant, payment: &str, age: &str) -> Result<()> {
    let older = "UPDATE mock.transactions t SET occurred_at = occurred_at - $2::text::interval FROM payments p
                   WHERE p.id = $1 AND p.provider_ref = t.id";
    sqlx::query(older).bind(uuid(payment)?).bind(age).execute(&merchant.books.db).await?;
    let due = "UPDATE payments SET inquiry_at = now() WHERE id = $1 AND inquiry_at IS NOT NULL";
    sqlx::query(due).bind(uuid(payment)?).execute(&merchant.books.db).await?;
    Ok(())
}

/// Whether a change succeeded; otherwise it was refused. It must not be pending, though a later change may be.
#[track_caller]
fn succeeded(response: &Response, change: &str) -> bool {
    assert!([200, 409].contains(&response.status), "{}", response.body);
    assert_ne!(
        response.body["pendingOperation"], change,
        "no response was lost, so the change must not be pending: {}",
        response.body
    );
    response.status == 200
}

/// The expected result of a race, by the change that won.
struct Expected {
    status: &'static str,
    ledger: String,
    events: Vec<&'static str>,
}

impl Expected {
    async fn check(&self, merchant: &Merchant, payment: &str) -> Result<()> {
        let Self { status, ledger, events } = self;
        eventually("the end of a race", async || {
            Ok((merchant.payment(payment).await?["status"] == *status).then_some(()))
        })
        .await?;
        // The change that loses is refused, which writes an event.
        let refusals = [CAPTURE_FAILED, VOID_FAILED];
        let current = merchant.assert_consistent_ignoring(&refusals, payment, ledger, events).await?;
        assert!(current.get("pendingOperation").is_none(), "{current}");
        Ok(())
    }
}

#[tokio::test]
async fn capture_void_and_expiry_race_to_one_result() -> Result<()> {
    let (_cluster, merchant, other) = racing_merchant().await?;
    let mut races = Vec::new();
    for batch in 0..ROUNDS / AT_ONCE {
        races.extend(concurrently(AT_ONCE, async |i| hold_race(&merchant, &other, batch * AT_ONCE + i).await).await?);
    }
    for chunk in races.chunks(AT_ONCE) {
        concurrently(chunk.len(), async |i| chunk[i].1.check(&merchant, &chunk[i].0).await).await?;
    }
    let count = |status: &str| races.iter().filter(|(_, expected)| expected.status == status).count();
    eprintln!("captured {}, voided {}, expired {}", count("pending_settlement"), count("cancelled"), count("expired"));
    assert_eq!(merchant.books.operations().await? - i64::try_from(ROUNDS)?, changes(&merchant).await?);
    Ok(())
}

/// Captures and voids that have ended.
async fn changes(merchant: &Merchant) -> Result<i64> {
    let query = "SELECT count(*) FROM operations WHERE account_id = $1 AND kind IN ('capture', 'void')
                 AND state IN ('succeeded', 'failed')";
    Ok(sqlx::query_scalar(query).bind(merchant.books.account).fetch_one(&merchant.books.db).await?)
}

async fn hold_race(merchant: &Merchant, other: &Client, round: usize) -> Result<(String, Expected)> {
    let held = merchant.hold(1000).await?;
    let capturing = async {
        sleep(jitter(round, 1, 60)).await;
        merchant.capture(&held, None).await
    };
    let voiding = async {
        sleep(jitter(round, 2, 60)).await;
        other.send(reqwest::Method::POST, &format!("/v1/payments/{held}/void"), None).await
    };
    let expiring = async {
        sleep(jitter(round, 3, 90)).await;
        age_charge(merchant, &held, "7 days").await
    };
    let (captured, voided, ()) = tokio::try_join!(capturing, voiding, expiring)?;
    let expected = match (succeeded(&captured, "capture"), succeeded(&voided, "void")) {
        // A captured payment may be voided until it settles, so both may succeed: the capture first, then the void.
        (true, true) => Expected {
            status: "cancelled",
            ledger: "authorize 1000 voided, capture 1000, void 1000".into(),
            events: vec![AUTHORIZED, CAPTURED, CANCELLED],
        },
        (true, false) => Expected {
            status: "pending_settlement",
            ledger: "authorize 1000, capture 1000".into(),
            events: vec![AUTHORIZED, CAPTURED],
        },
        (false, true) => Expected {
            status: "cancelled",
            ledger: "authorize 1000 voided, void 1000".into(),
            events: vec![AUTHORIZED, CANCELLED],
        },
        (false, false) => {
            Expected { status: "expired", ledger: "authorize 1000 expired".into(), events: vec![AUTHORIZED, EXPIRED] }
        }
    };
    Ok((held, expected))
}

#[tokio::test]
async fn void_and_settlement_race_to_one_result() -> Result<()> {
    let (_cluster, merchant, other) = racing_merchant().await?;
    let mut races = Vec::new();
    for batch in 0..ROUNDS / AT_ONCE {
        races.extend(concurrently(AT_ONCE, async |i| sale_race(&merchant, &other, batch * AT_ONCE + i).await).await?);
    }
    for chunk in races.chunks(AT_ONCE) {
        concurrently(chunk.len(), async |i| chunk[i].1.check(&merchant, &chunk[i].0).await).await?;
    }
    let count = |status: &str| races.iter().filter(|(_, expected)| expected.status == status).count();
    eprintln!("voided {}, settled {}", count("cancelled"), count("settled"));
    Ok(())
}

async fn sale_race(merchant: &Merchant, other: &Client, round: usize) -> Result<(String, Expected)> {
    let sold = merchant.charge(1000).await?;
    let path = format!("/v1/payments/{sold}/void");
    let voiding = |client: Client, salt: usize| {
        let path = path.clone();
        async move {
            sleep(jitter(round, salt, 60)).await;
            client.send(reqwest::Method::POST, &path, None).await
        }
    };
    let settling = async {
        sleep(jitter(round, 3, 90)).await;
        age_charge(merchant, &sold, "61 seconds").await
    };
    let (first, second, ()) = tokio::try_join!(voiding(merchant.api.clone(), 1), voiding(other.clone(), 2), settling)?;
    let (first, second) = (succeeded(&first, "void"), succeeded(&second, "void"));
    assert!(!(first && second), "at most one void succeeds");
    let expected = if first || second {
        Expected {
            status: "cancelled",
            ledger: "sale 1000 voided, void 1000".into(),
            events: vec![CAPTURED, CANCELLED],
        }
    } else {
        Expected { status: "settled", ledger: "sale 1000 settled".into(), events: vec![CAPTURED, SETTLED] }
    };
    Ok((sold, expected))
}
