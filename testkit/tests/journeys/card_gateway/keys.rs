//! The keys of an account at the gateway are rotated as docs/rotation.md has it, and no payment fails by it.

use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::{Result, ensure};
use serde_json::json;

use super::{APPROVES, shop};
use crate::support::{Shop, cluster, created, eventually};

/// Payments at each moment of the rotation, at least.
const SOME: usize = 10;

/// Payments by a saved card, one after another, until there are so many.
async fn pay(shop: &Shop, card: &str, done: &AtomicUsize, enough: &AtomicUsize) -> Result<()> {
    while done.load(Ordering::Relaxed) < enough.load(Ordering::Relaxed) {
        let amount = 100 + done.fetch_add(1, Ordering::Relaxed);
        let answer = shop.pay_with(json!({"amount": amount, "currency": "USD", "paymentMethodId": card})).await?;
        ensure!(answer.body["status"] == "pending_settlement", "payment of {amount}: {}", answer.body);
    }
    Ok(())
}

#[tokio::test]
async fn no_payment_fails_while_the_keys_of_an_account_are_rotated() -> Result<()> {
    let cluster = cluster().await?;
    let shop = shop().await?;
    let (_, card) = shop.saved(APPROVES).await?;
    let (done, enough) = (AtomicUsize::new(0), AtomicUsize::new(usize::MAX));
    let some_more = async || {
        let now = done.load(Ordering::Relaxed);
        eventually("more payments", async || Ok((done.load(Ordering::Relaxed) >= now + SOME).then_some(()))).await
    };
    let steps = async {
        some_more().await?;
        let rotate = ["account", "rotate-keys", "--username", &shop.known.username];
        let new = serde_json::from_value(cluster.run_gateway(&rotate).await?)?;
        some_more().await?;
        // A card that is entered between the two, and one that is entered there and paid with later.
        assert_eq!(created(&shop.pay(APPROVES, 5_000).await?)["status"], "pending_settlement");
        let former = shop.app_key().await?;
        let entered = shop.upstream(APPROVES).await?;
        cluster.connect(&shop.merchant.account, &new, &[]).await?;
        some_more().await?;
        assert_ne!(shop.app_key().await?, former);
        assert_eq!(created(&shop.pay(APPROVES, 6_000).await?)["status"], "pending_settlement");
        // A page that still names the former `app_key`.
        let later = shop.upstream_under(&former, APPROVES).await?;
        for upstream in [entered, later] {
            let body =
                json!({"paymentToken": shop.browser.token(&upstream).await?, "amount": 7_000, "currency": "USD"});
            assert_eq!(created(&shop.pay_with(body).await?)["status"], "pending_settlement");
        }
        // A worker believes what it has read for 5 s. After that nobody needs the former ones.
        eventually("payments later than that", async || {
            let later = "SELECT count(*) FROM gateway.transactions t JOIN gateway.accounts a ON a.id = t.account_id
                         WHERE a.username = $1 AND t.created_at > (SELECT created_at + interval '6 seconds'
                             FROM gateway.transactions WHERE account_id = a.id AND amount = 6000)";
            let later = sqlx::query_scalar::<_, i64>(later).bind(&shop.known.username);
            Ok((later.fetch_one(&shop.merchant.books.db).await? > 0).then_some(()))
        })
        .await?;
        let ended = "UPDATE gateway.former_keys f SET until = clock_timestamp() FROM gateway.accounts a
                     WHERE a.id = f.account_id AND a.username = $1 AND f.until > clock_timestamp()";
        let ended = sqlx::query(ended).bind(&shop.known.username).execute(&shop.merchant.books.db).await?;
        assert_eq!(ended.rows_affected(), 1);
        assert!(shop.upstream_under(&former, APPROVES).await.is_err(), "the gateway gives nothing under them");
        some_more().await?;
        enough.store(0, Ordering::Relaxed);
        anyhow::Ok(())
    };
    tokio::try_join!(pay(&shop, &card, &done, &enough), steps)?;
    Ok(())
}
