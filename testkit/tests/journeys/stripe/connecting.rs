//! `ctl accounts connect --provider stripe` checks the keys at Stripe and says what is missing.

use anyhow::Result;
use testkit::stripe::StripeKeys;
use testkit::{Account, Cluster};

use super::{Shared, shared};

async fn account(cluster: &Cluster) -> Result<Account> {
    cluster.account_with(&["--mode", "test", "--provider", "stripe"]).await
}

async fn error(cluster: &Cluster, account: &Account, keys: &StripeKeys) -> String {
    let error = cluster.connect_stripe(account, keys).await.expect_err("connecting must fail");
    let error = format!("{error:#}");
    assert!(!error.contains(&keys.secret_key) && !error.contains(&keys.webhook_secret), "{error}");
    error
}

#[tokio::test]
async fn a_key_without_a_permission_is_refused_and_the_permission_named() -> Result<()> {
    let Shared { stripe, cluster } = shared().await?;
    let (account, keys) = (account(cluster).await?, stripe.account());
    stripe.forbid(&keys, "Refunds: write");
    stripe.forbid(&keys, "Disputes: read");
    let error = error(cluster, &account, &keys).await;
    assert!(error.contains("Disputes: read, Refunds: write") && !error.contains("Customers"), "{error}");
    assert!(stripe.objects(&keys, "payment_intent").is_empty() && stripe.objects(&keys, "customer").is_empty());
    Ok(())
}

#[tokio::test]
async fn wrong_keys_and_second_connections_are_refused() -> Result<()> {
    let Shared { stripe, cluster } = shared().await?;
    let (first, second, keys) = (account(cluster).await?, account(cluster).await?, stripe.account());
    let unknown = StripeKeys { secret_key: "rk_test_unknown".to_owned(), ..keys.clone() };
    assert!(error(cluster, &first, &unknown).await.contains("secret_key: Stripe does not accept it"));
    let mixed = StripeKeys { publishable_key: "pk_live_1".to_owned(), ..keys.clone() };
    assert!(error(cluster, &first, &mixed).await.contains("keys of the same mode"));
    cluster.connect_stripe(&first, &keys).await?;
    cluster.connect_stripe(&first, &keys).await?;
    let other = stripe.account();
    assert!(error(cluster, &first, &other).await.contains("another account at Stripe"));
    assert!(error(cluster, &second, &keys).await.contains("another account is connected to this account at Stripe"));
    Ok(())
}
