//! Rotating the keys of an account at the gateway as docs/rotation.md describes fails no payment.

use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::{Result, ensure};
use serde_json::json;

use super::{APPROVES, shop};
use crate::support::{Shop, cluster, created, eventually};

/// The minimum number of payments at each step of the rotation.
const PAYMENTS_PER_STEP: usize = 10;

/// Makes payments with a saved card, in sequence, until `done` reaches `enough`.
async fn pay(shop: &Shop, card: &str, done: &AtomicUsize, enough: &AtomicUsize) -> Result<()> {
    while done.load(Ordering::Relaxed) < enough.load(Ordering::Relaxed) {
        let amount = 100 + done.fetch_add(1, Ordering::Relaxed);
        let response = shop.pay_with(json!({"amount": amount, "currency": "USD", "paymentMethodId": card})).await?;
        ensure!(response.body["status"] == "pending_settlement", "payment of {amount}: {}", response.body);
    }
    Ok(())
}

#[tokio::test]
async fn key_rotation_at_the_gateway_fails_no_payment() -> Result<()> {
    let cluster = cluster().await?;
    let shop = shop().await?;
    let (_, card) = shop.saved_card(APPROVES).await?;
    let (done, enough) = (AtomicUsize::new(0), AtomicUsize::new(usize::MAX));
    let more_payments = async || {
        let before = done.load(Ordering::Relaxed);
        eventually("more payments", async || {
            Ok((done.load(Ordering::Relaxed) >= before + PAYMENTS_PER_STEP).then_some(()))
        })
        .await
    };
    let steps = async {
        more_payments().await?;
        let rotate = ["account", "rotate-keys", "--username", &shop.gateway_account.username];
        let new = serde_json::from_value(cluster.run_gateway(&rotate).await?)?;
        more_payments().await?;
        // A card entered between rotating and connecting, and one entered there and charged later.
        assert_eq!(created(&shop.pay(APPROVES, 5_000).await?)["status"], "pending_settlement");
        let previous = shop.app_key().await?;
        let entered = shop.upstream_token(APPROVES).await?;
        cluster.connect(&shop.merchant.account, &new, &[]).await?;
        more_payments().await?;
        assert_ne!(shop.app_key().await?, previous);
        assert_eq!(created(&shop.pay(APPROVES, 6_000).await?)["status"], "pending_settlement");
        // A page that still has the previous `app_key`.
        let later = shop.upstream_token_for(&previous, APPROVES).await?;
        for upstream in [entered, later] {
            let body =
                json!({"paymentToken": shop.browser.token(&upstream).await?, "amount": 7_000, "currency": "USD"});
            assert_eq!(created(&shop.pay_with(body).await?)["status"], "pending_settlement");
        }
        // Workers cache credentials for 5 s. After that the previous keys are unused.
        eventually("payments after the caches expired", async || {
            let later = "SELECT count(*) FROM gateway.transactions t JOIN gateway.accounts a ON a.id = t.account_id
                         WHERE a.username = $1 AND t.created_at > (SELECT created_at + interval '6 seconds'
                             FROM gateway.transactions WHERE account_id = a.id AND amount = 6000)";
            let later = sqlx::query_scalar::<_, i64>(later).bind(&shop.gateway_account.username);
            Ok((later.fetch_one(&shop.merchant.books.db).await? > 0).then_some(()))
        })
        .await?;
        let ended = "UPDATE gateway.former_keys f SET until = clock_timestamp() FROM gateway.accounts a
                     WHERE a.id = f.account_id AND a.username = $1 AND f.until > clock_timestamp()";
        let ended = sqlx::query(ended).bind(&shop.gateway_account.username).execute(&shop.merchant.books.db).await?;
        assert_eq!(ended.rows_affected(), 1);
        assert!(
            shop.upstream_token_for(&previous, APPROVES).await.is_err(),
            "the gateway must not tokenize with ended keys"
        );
        more_payments().await?;
        enough.store(0, Ordering::Relaxed);
        anyhow::Ok(())
    };
    tokio::try_join!(pay(&shop, &card, &done, &enough), steps)?;
    Ok(())
}
