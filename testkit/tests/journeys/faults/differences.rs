//! Differences between a provider's books and ours are recorded once, counted, and listed until an operator resolves
//! them.

use std::sync::Arc;

use anyhow::Result;
use serde_json::Value;
use testkit::{Cluster, ProcessKind};

use super::cluster_of_faulty_accounts;
use crate::support::{Merchant, Shop, accepted, created, eventually, id, metric, ok, uuid};

const CARD: &str = "4242424242424242";

pub(super) struct Setup {
    shop: Shop,
    cluster: Arc<Cluster>,
}

impl Setup {
    async fn new() -> Result<Self> {
        let cluster = cluster_of_faulty_accounts().await?;
        let shop = Shop::new(&cluster, &[]).await?;
        Ok(Self { shop, cluster })
    }

    /// With an account whose provider is the mock.
    pub(super) async fn at_the_mock() -> Result<Self> {
        let mut setup = Self::new().await?;
        setup.shop.merchant = Merchant::new(&setup.cluster).await?;
        Ok(setup)
    }

    pub(super) fn merchant(&self) -> &Merchant {
        &self.shop.merchant
    }

    /// Changes rows of the merchant's account, which is `$1`.
    pub(super) async fn execute(&self, statement: &'static str) -> Result<()> {
        let done = sqlx::query(statement).bind(self.merchant().books.account);
        assert!(done.execute(&self.merchant().books.db).await?.rows_affected() > 0, "{statement}");
        Ok(())
    }

    async fn charge_of(&self, payment: &str) -> Result<String> {
        let name = "SELECT provider_ref FROM payments WHERE id = $1";
        Ok(sqlx::query_scalar(name).bind(uuid(payment)?).fetch_one(&self.merchant().books.db).await?)
    }

    /// Makes the whole statement and all our operations be compared now, and waits for the end.
    pub(super) async fn reconcile(&self) -> Result<()> {
        // Operations must be old enough to be compared.
        self.execute(
            "UPDATE operations SET created_at = created_at - interval '5 minutes', finished_at = finished_at - interval '5 minutes'
             WHERE account_id = $1",
        )
        .await?;
        let due = "UPDATE provider_accounts
                   SET reconcile_at = now(), reconciled_until = created_at, books_until = now() - interval '1 day'
                   WHERE account_id = $1";
        self.execute(due).await?;
        let read = "SELECT count(*) FROM provider_accounts
                    WHERE reconcile_at > now() AND books_until > now() - interval '1 hour' AND account_id = $1";
        eventually("the reconciliation", async || {
            let finished: i64 = sqlx::query_scalar(read)
                .bind(self.merchant().books.account)
                .fetch_one(&self.merchant().books.db)
                .await?;
            Ok((finished == 1).then_some(()))
        })
        .await
    }

    /// The differences of the merchant's account.
    pub(super) async fn listed(&self, more: &[&str]) -> Result<Vec<Value>> {
        let list = ["differences", "list", "--account", &self.merchant().account.id];
        let listed = self.cluster.ctl(&[&list[..], more].concat()).await?;
        Ok(listed["differences"].as_array().cloned().unwrap_or_default())
    }

    pub(super) async fn kinds(&self) -> Result<Vec<String>> {
        let text = |row: &Value, name: &str| row[name].as_str().unwrap_or_default().to_owned();
        let rows = self.listed(&[]).await?;
        let mut kinds: Vec<_> =
            rows.iter().map(|row| format!("{} {}", text(row, "difference"), text(row, "kind"))).collect();
        kinds.sort();
        Ok(kinds)
    }

    /// Waits until the metric counts the differences that are not resolved, which are those of other tests, too.
    pub(super) async fn wait_for_metric(&self, difference: &str) -> Result<()> {
        let name = format!("payments_book_differences_unresolved{{mode=\"test\",difference=\"{difference}\"}}");
        let open = "SELECT count(*) FROM book_differences WHERE resolved_at IS NULL AND difference = $1";
        eventually(&name, async || {
            let shown = metric(&self.cluster, ProcessKind::Scheduler, &name).await?;
            let open: i64 = sqlx::query_scalar(open).bind(difference).fetch_one(&self.merchant().books.db).await?;
            Ok((shown == open as f64).then_some(()))
        })
        .await
    }
}

#[tokio::test]
async fn changes_made_at_the_gateway_are_recorded_once_until_resolved() -> Result<()> {
    let setup = Setup::new().await?;
    let (shop, merchant) = (&setup.shop, setup.merchant());
    let sold = id(created(&shop.pay(CARD, 10_000).await?))?;
    accepted(&merchant.refund(&sold, Some(3_000)).await?);
    merchant.wait_for_status(&sold, "partially_refunded").await?;
    setup.reconcile().await?;
    assert_eq!(setup.kinds().await?, [""; 0], "the books agree");
    setup.wait_for_metric("missing_with_us").await?;

    let charge = setup.charge_of(&sold).await?;
    let of = |amount: &'static str| [("transaction_id", charge.as_str()), ("amount", amount)];
    assert_eq!(shop.gateway_request("refund", &of("30.00")).await?["response"]["code"], "00");
    for _ in 0..2 {
        setup.reconcile().await?;
        assert_eq!(setup.kinds().await?, ["missing_with_us refund"]);
    }
    setup.wait_for_metric("missing_with_us").await?;
    let row = setup.listed(&[]).await?.remove(0);
    assert_eq!(
        (&row["payment"], &row["theirs"]["amount"], &row["ours"]),
        (&sold.clone().into(), &3_000.into(), &Value::Null)
    );
    assert_eq!(merchant.payment(&sold).await?["amountRefunded"], 3_000, "our books contain only our own operations");

    let diff = row["id"].as_str().unwrap_or_default();
    let resolve = async |reason: &str| setup.cluster.ctl(&["differences", "resolve", diff, "--reason", reason]).await;
    assert!(resolve("their card 4242 4242 4242 4242").await.is_err(), "a reason with a card number is rejected");
    assert_eq!(resolve("the merchant refunded it by hand").await?["changed"], true);
    assert_eq!(resolve("again").await?["changed"], false);
    setup.wait_for_metric("missing_with_us").await?;
    setup.reconcile().await?;
    assert_eq!(setup.kinds().await?, [""; 0], "a resolved difference is not reported again");
    assert_eq!(setup.listed(&["--all"]).await?[0]["resolution"], "the merchant refunded it by hand");
    let audit = setup.cluster.ctl(&["audit", "list", "--account", &merchant.account.id]).await?;
    let records = audit["audit"].as_array().into_iter().flatten();
    let resolved: Vec<_> = records.filter(|record| record["action"] == "differences.resolve").collect();
    assert_eq!((resolved.len(), &resolved[0]["object"]), (1, &diff.into()));
    Ok(())
}

#[tokio::test]
async fn operations_missing_at_the_gateway_are_recorded() -> Result<()> {
    let setup = Setup::new().await?;
    let (shop, merchant) = (&setup.shop, setup.merchant());
    let sold = id(created(&shop.pay(CARD, 10_000).await?))?;
    for amount in [1_000, 2_000] {
        accepted(&merchant.refund(&sold, Some(amount)).await?);
    }
    eventually("both refunds", async || Ok((merchant.payment(&sold).await?["amountRefunded"] == 3_000).then_some(())))
        .await?;
    let voided = id(created(&shop.pay(CARD, 500).await?))?;
    ok(&merchant.void(&voided).await?);
    setup.reconcile().await?;
    assert_eq!(setup.kinds().await?, [""; 0]);
    // A gateway clock that is off by hours, or a window that ends between two operations, causes no difference.
    let earlier = "UPDATE gateway.transactions SET created_at = created_at - interval '3 hours'
                   WHERE account_id = (SELECT g.id FROM gateway.accounts g JOIN provider_accounts p ON p.gateway_account = g.username
                                       WHERE p.account_id = $1)";
    setup.execute(earlier).await?;
    setup.reconcile().await?;
    assert_eq!(setup.kinds().await?, [""; 0]);
    for change in [
        "UPDATE gateway.transactions SET state = 'failed', reason = 'not processed' WHERE kind = 'refund' AND amount = 2000
         AND account_id = (SELECT g.id FROM gateway.accounts g JOIN provider_accounts p ON p.gateway_account = g.username
                           WHERE p.account_id = $1)",
        "UPDATE gateway.transactions SET amount = 900 WHERE kind = 'refund' AND amount = 1000
         AND account_id = (SELECT g.id FROM gateway.accounts g JOIN provider_accounts p ON p.gateway_account = g.username
                           WHERE p.account_id = $1)",
    ] {
        setup.execute(change).await?;
    }
    setup.reconcile().await?;
    assert_eq!(setup.kinds().await?, ["amount refund", "missing_at_provider refund"]);
    setup.wait_for_metric("missing_at_provider").await?;
    setup.wait_for_metric("amount").await
}

#[tokio::test]
async fn an_inquiry_compares_the_whole_charge() -> Result<()> {
    let setup = Setup::new().await?;
    let (shop, merchant) = (&setup.shop, setup.merchant());
    let payments = [id(created(&shop.pay(CARD, 10_000).await?))?, id(created(&shop.pay(CARD, 20_000).await?))?];
    let inquire = async || {
        let due = "UPDATE payments SET inquiry_at = now() - interval '1 second'
                   WHERE inquiry_at IS NOT NULL AND account_id = $1";
        setup.execute(due).await?;
        let left = "SELECT count(*) FROM payments WHERE inquiry_at <= now() AND account_id = $1";
        eventually("the inquiries", async || {
            let left: i64 = sqlx::query_scalar(left).bind(merchant.books.account).fetch_one(&merchant.books.db).await?;
            Ok((left == 0).then_some(()))
        })
        .await
    };
    // Prevents reading the statement, so that only inquiries compare.
    setup.execute("UPDATE provider_accounts SET reconcile_at = 'infinity' WHERE account_id = $1").await?;
    inquire().await?;
    assert_eq!(setup.kinds().await?, [""; 0]);
    let charge = setup.charge_of(&payments[0]).await?;
    let refund = [("transaction_id", charge.as_str()), ("amount", "30.00"), ("reference_id", "by hand")];
    assert_eq!(shop.gateway_request("refund", &refund).await?["response"]["code"], "00");
    inquire().await?;
    eventually("the difference", async || Ok((setup.kinds().await? == ["missing_with_us refund"]).then_some(())))
        .await?;
    // Our totals no longer match our own operations.
    setup.execute("UPDATE payments SET amount_refunded = 700 WHERE amount = 20000 AND account_id = $1").await?;
    inquire().await?;
    let both = ["missing_with_us refund", "totals charge"];
    eventually("the totals", async || Ok((setup.kinds().await? == both).then_some(()))).await
}

#[tokio::test]
async fn captures_and_refunds_at_the_mock_are_compared() -> Result<()> {
    let setup = Setup::at_the_mock().await?;
    let merchant = setup.merchant();
    let (sold, held) = (merchant.charge(1_000).await?, merchant.hold(1_000).await?);
    accepted(&merchant.refund(&sold, Some(300)).await?);
    merchant.wait_for_status(&sold, "partially_refunded").await?;
    merchant.capture(&held, Some(400)).await?;
    setup.reconcile().await?;
    assert_eq!(setup.kinds().await?, [""; 0]);
    setup
        .execute(
            "INSERT INTO mock.transactions (id, account, kind, parent, reference, approved, amount, currency, nature, occurred_at, unique_reference)
             SELECT 'mock_by_hand', account, 'refund', parent, 'by hand', true, 5, currency, nature, occurred_at, 'by hand'
             FROM mock.transactions WHERE kind = 'refund' AND account = (SELECT id FROM provider_accounts WHERE account_id = $1)",
        )
        .await?;
    for change in [
        "UPDATE mock.transactions SET amount = 399
         WHERE kind = 'capture' AND account = (SELECT id FROM provider_accounts WHERE account_id = $1)",
        "DELETE FROM mock.transactions WHERE kind = 'refund' AND amount = 300
         AND account = (SELECT id FROM provider_accounts WHERE account_id = $1)",
    ] {
        setup.execute(change).await?;
    }
    setup.reconcile().await?;
    assert_eq!(setup.kinds().await?, ["amount capture", "missing_at_provider refund", "missing_with_us refund"]);
    Ok(())
}
