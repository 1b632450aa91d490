//! Capture, void, settlement and expiry meet: whoever is first at the provider wins, and everyone tells the same story.

use std::time::Duration;

use anyhow::Result;
use testkit::{Answer, Client, Cluster};
use tokio::time::sleep;

use super::{AUTHORIZED, CANCELLED, CAPTURE_FAILED, CAPTURED, EXPIRED, SETTLED, VOID_FAILED};
use crate::support::{Merchant, eventually, together, uuid};

const ROUNDS: usize = 200;
const AT_ONCE: usize = 20;

/// Two of each process, so that those who race do not even share one.
async fn rivals() -> Result<(Cluster, Merchant, Client)> {
    let cluster = Cluster::builder().api(2).worker(2).scheduler(2).start().await?;
    let merchant = Merchant::new(&cluster).await?;
    let other = Client::new(&cluster.api_url(1))?.bearer(&merchant.account.secret_key)?;
    merchant.mock(&cluster, &["--latency-ms", "30"]).await?;
    Ok((cluster, merchant, other))
}

/// A number that looks like chance and is the same in each run.
fn jitter(round: usize, salt: usize, below_ms: usize) -> Duration {
    let mixed = (round * 7919 + salt * 104_729).wrapping_mul(2_654_435_761) >> 7;
    Duration::from_millis((mixed % below_ms) as u64)
}

/// This charge's time is up, at the mock and for us to ask.
async fn time_is_up(merchant: &Merchant, payment: &str, age: &str) -> Result<()> {
    let passing = "UPDATE mock.transactions t SET occurred_at = occurred_at - $2::text::interval FROM payments p
                   WHERE p.id = $1 AND p.provider_ref = t.id";
    sqlx::query(passing).bind(uuid(payment)?).bind(age).execute(&merchant.books.db).await?;
    let due = "UPDATE payments SET inquiry_at = now() WHERE id = $1 AND inquiry_at IS NOT NULL";
    sqlx::query(due).bind(uuid(payment)?).execute(&merchant.books.db).await?;
    Ok(())
}

/// A change was done or refused, and nothing else. Another that began right after it may show.
#[track_caller]
fn won(answer: &Answer, change: &str) -> bool {
    assert!([200, 409].contains(&answer.status), "{}", answer.body);
    assert_ne!(answer.body["pendingOperation"], change, "nothing was lost here: {}", answer.body);
    answer.status == 200
}

/// What the four witnesses must say, by who won.
struct Story {
    status: &'static str,
    ledger: String,
    events: Vec<&'static str>,
}

impl Story {
    async fn is_told(&self, merchant: &Merchant, payment: &str) -> Result<()> {
        let Self { status, ledger, events } = self;
        eventually("the end of a race", async || {
            Ok((merchant.payment(payment).await?["status"] == *status).then_some(()))
        })
        .await?;
        // Who comes second is refused, which is an event too.
        let refusals = [CAPTURE_FAILED, VOID_FAILED];
        let shown = merchant.all_agree_but_for(&refusals, payment, ledger, events).await?;
        assert!(shown.get("pendingOperation").is_none(), "{shown}");
        Ok(())
    }
}

#[tokio::test]
async fn capture_against_void_against_expiry() -> Result<()> {
    let (_cluster, merchant, other) = rivals().await?;
    let mut stories = Vec::new();
    for batch in 0..ROUNDS / AT_ONCE {
        stories.extend(together(AT_ONCE, async |i| hold_race(&merchant, &other, batch * AT_ONCE + i).await).await?);
    }
    for chunk in stories.chunks(AT_ONCE) {
        together(chunk.len(), async |i| chunk[i].1.is_told(&merchant, &chunk[i].0).await).await?;
    }
    let of = |status: &str| stories.iter().filter(|(_, story)| story.status == status).count();
    eprintln!("captured {}, voided {}, expired {}", of("pending_settlement"), of("cancelled"), of("expired"));
    assert_eq!(merchant.books.operations().await? - i64::try_from(ROUNDS)?, changes(&merchant).await?);
    Ok(())
}

/// Captures and voids that were begun; every one has ended.
async fn changes(merchant: &Merchant) -> Result<i64> {
    let query = "SELECT count(*) FROM operations WHERE account_id = $1 AND kind IN ('capture', 'void')
                 AND state IN ('succeeded', 'failed')";
    Ok(sqlx::query_scalar(query).bind(merchant.books.account).fetch_one(&merchant.books.db).await?)
}

async fn hold_race(merchant: &Merchant, other: &Client, round: usize) -> Result<(String, Story)> {
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
        time_is_up(merchant, &held, "7 days").await
    };
    let (captured, voided, ()) = tokio::try_join!(capturing, voiding, expiring)?;
    let story = match (won(&captured, "capture"), won(&voided, "void")) {
        // A captured payment may be voided until it settles, so both may be done: one after the other, and never reversed.
        (true, true) => Story {
            status: "cancelled",
            ledger: "authorize 1000 voided, capture 1000, void 1000".into(),
            events: vec![AUTHORIZED, CAPTURED, CANCELLED],
        },
        (true, false) => Story {
            status: "pending_settlement",
            ledger: "authorize 1000, capture 1000".into(),
            events: vec![AUTHORIZED, CAPTURED],
        },
        (false, true) => Story {
            status: "cancelled",
            ledger: "authorize 1000 voided, void 1000".into(),
            events: vec![AUTHORIZED, CANCELLED],
        },
        (false, false) => {
            Story { status: "expired", ledger: "authorize 1000 expired".into(), events: vec![AUTHORIZED, EXPIRED] }
        }
    };
    Ok((held, story))
}

#[tokio::test]
async fn void_against_settlement() -> Result<()> {
    let (_cluster, merchant, other) = rivals().await?;
    let mut stories = Vec::new();
    for batch in 0..ROUNDS / AT_ONCE {
        stories.extend(together(AT_ONCE, async |i| sale_race(&merchant, &other, batch * AT_ONCE + i).await).await?);
    }
    for chunk in stories.chunks(AT_ONCE) {
        together(chunk.len(), async |i| chunk[i].1.is_told(&merchant, &chunk[i].0).await).await?;
    }
    let of = |status: &str| stories.iter().filter(|(_, story)| story.status == status).count();
    eprintln!("voided {}, settled {}", of("cancelled"), of("settled"));
    Ok(())
}

async fn sale_race(merchant: &Merchant, other: &Client, round: usize) -> Result<(String, Story)> {
    let sold = merchant.sold(1000).await?;
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
        time_is_up(merchant, &sold, "61 seconds").await
    };
    let (first, second, ()) = tokio::try_join!(voiding(merchant.api.clone(), 1), voiding(other.clone(), 2), settling)?;
    let (first, second) = (won(&first, "void"), won(&second, "void"));
    assert!(!(first && second), "one void at most");
    let story = if first || second {
        Story { status: "cancelled", ledger: "sale 1000 voided, void 1000".into(), events: vec![CAPTURED, CANCELLED] }
    } else {
        Story { status: "settled", ledger: "sale 1000 settled".into(), events: vec![CAPTURED, SETTLED] }
    };
    Ok((sold, story))
}
