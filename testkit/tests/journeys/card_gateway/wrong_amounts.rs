//! The gateway charges another amount than requested, because a fee was configured after the account was connected.
//! Until that charge is returned, nothing else is charged for its invoice or link.

use std::sync::Arc;

use anyhow::{Context, Result};
use reqwest::Method;
use serde_json::{Value, json};
use testkit::Cluster;

use super::APPROVES;
use super::pages::link_at;
use super::payments::collected_from;
use crate::support::{Lease, Shop, eventually, id, ok, uuid};

/// A void is refused, because the charge settles as it is approved.
const SETTLES_AT_ONCE: &str = "NEW.settles_at := clock_timestamp() - interval '1 second';";
/// A refund is refused too.
const IS_NOT_RETURNED: &str = "NEW.refunded := NEW.captured;";

/// A cluster in which approved sales are changed, so that no other test waits for the locks that this takes.
async fn cluster() -> Result<Arc<Cluster>> {
    static SHARED: Lease = Lease::new();
    SHARED.or_start(Cluster::builder().api(1).worker(1).scheduler(1).gateway(1).start()).await
}

async fn set_fee(cluster: &Cluster, shop: &Shop, fee: &str) -> Result<()> {
    let username = shop.gateway_account.username.as_str();
    cluster.run_gateway(&["account", "set", "--username", username, "--convenience-fee-fixed", fee]).await?;
    Ok(())
}

/// Changes approved sales of this shop at the gateway.
async fn on_approval(shop: &Shop, statements: &[&str]) -> Result<()> {
    let username = shop.gateway_account.username.as_str();
    let account = sqlx::query_scalar("SELECT id FROM gateway.accounts WHERE username = $1").bind(username);
    let account: uuid::Uuid = account.fetch_one(&shop.merchant.books.db).await?;
    let statements = format!(
        "CREATE FUNCTION gateway.\"{username}\"() RETURNS trigger LANGUAGE plpgsql AS $$
         BEGIN {} RETURN NEW; END $$;
         CREATE TRIGGER \"{username}\" BEFORE UPDATE ON gateway.transactions FOR EACH ROW
             WHEN (NEW.account_id = '{account}' AND NEW.kind = 'sale' AND NEW.state = 'approved' AND OLD.state <> 'approved')
             EXECUTE FUNCTION gateway.\"{username}\"()",
        statements.concat()
    );
    sqlx::raw_sql(sqlx::AssertSqlSafe(statements)).execute(&shop.merchant.books.db).await?;
    Ok(())
}

/// The reversal, refused by the gateway, of the shop's only charge that is not returned.
async fn refused_reversal(cluster: &Cluster, shop: &Shop) -> Result<String> {
    let list = ["anomalies", "list", "--refused", "--account", &shop.merchant.account.id];
    let refused = cluster.ctl(&list).await?;
    Ok(refused["anomalies"][0]["reversed_by"].as_str().context("a reversal")?.to_owned())
}

async fn wait_for_records(shop: &Shop, expected: &str) -> Result<()> {
    eventually("the gateway's records", async || {
        let records = shop.records().await?;
        anyhow::ensure!(records == expected, "{records}");
        Ok(Some(()))
    })
    .await
}

async fn wait_for_failure_message(shop: &Shop, payment: &str, part: &str) -> Result<()> {
    eventually("the payment's message", async || {
        let payment = shop.merchant.payment(payment).await?;
        anyhow::ensure!(payment["failureMessage"].as_str().unwrap_or_default().contains(part), "{payment}");
        Ok(Some(()))
    })
    .await
}

/// The id of the only payment for an invoice or link.
async fn only_payment(shop: &Shop, paid_for: &str) -> Result<String> {
    let page = shop.merchant.api.get("/v1/payments").await?.body;
    let payments = page["data"].as_array().context("a list")?;
    let mut of = payments.iter().filter(|one| [&one["invoiceId"], &one["paymentLinkId"]].contains(&&json!(paid_for)));
    let payment = of.next().context("a payment")?;
    assert!(of.next().is_none(), "{page}");
    id(payment)
}

#[tokio::test]
async fn a_wrong_charge_that_has_settled_is_refunded() -> Result<()> {
    let cluster = cluster().await?;
    let shop = Shop::new(&cluster, &[]).await?;
    set_fee(&cluster, &shop, "0.50").await?;
    on_approval(&shop, &[SETTLES_AT_ONCE]).await?;
    let (path, payer) = link_at(&cluster, &shop).await?;
    let page = payer.pay(&shop.upstream_token(APPROVES).await?).await?;
    page.assert_shows(200, &["charged a different amount than shown"]);
    wait_for_records(&shop, "sale 850 approved, refund 850 approved").await?;
    let payment = only_payment(&shop, path.rsplit('/').next().context("an id")?).await?;
    wait_for_failure_message(&shop, &payment, "The charge was returned.").await?;
    set_fee(&cluster, &shop, "0").await?;
    let page = eventually("the form", async || {
        let page = payer.open().await?;
        Ok(page.has_pay_button().then_some(page))
    });
    page.await?.assert_shows(200, &["<button"]);
    payer.pay(&shop.upstream_token(APPROVES).await?).await?.assert_shows(200, &["Paid on"]);
    Ok(())
}

#[tokio::test]
async fn a_page_takes_no_payment_while_a_wrong_charge_is_not_returned() -> Result<()> {
    let cluster = cluster().await?;
    let shop = Shop::new(&cluster, &[]).await?;
    set_fee(&cluster, &shop, "0.50").await?;
    on_approval(&shop, &[SETTLES_AT_ONCE, IS_NOT_RETURNED]).await?;
    let (path, payer) = link_at(&cluster, &shop).await?;
    for _ in 0..3 {
        let page = payer.pay(&shop.upstream_token(APPROVES).await?).await?;
        page.assert_shows(200, &["An earlier charge is being returned"]);
        assert!(!page.has_pay_button() && !page.html.contains("Nothing was charged"), "{}", page.html);
    }
    let payment = only_payment(&shop, path.rsplit('/').next().context("an id")?).await?;
    wait_for_failure_message(&shop, &payment, "refused to return it").await?;
    assert_eq!(shop.records().await?, "sale 850 approved");

    let reversal = refused_reversal(&cluster, &shop).await?;
    let returned = cluster.ctl(&["anomalies", "returned", &reversal, "--reason", "refunded in the portal"]).await?;
    assert_eq!((&returned["payment"], &returned["amount"]), (&json!(payment), &json!(850)));
    let again = cluster.ctl_output(&["anomalies", "returned", &reversal, "--reason", "again"]).await?;
    assert!(again.code != 0 && again.stderr.contains(&reversal), "{again:?}");
    wait_for_failure_message(&shop, &payment, "The charge was returned.").await?;
    set_fee(&cluster, &shop, "0").await?;
    payer.pay(&shop.upstream_token(APPROVES).await?).await?.assert_shows(200, &["Paid on"]);
    Ok(())
}

#[tokio::test]
async fn an_invoice_is_not_collected_while_a_wrong_charge_is_not_returned() -> Result<()> {
    let cluster = cluster().await?;
    let shop = Shop::new(&cluster, &[]).await?;
    let (customer, _) = shop.saved_card(APPROVES).await?;
    set_fee(&cluster, &shop, "0.50").await?;
    on_approval(&shop, &[SETTLES_AT_ONCE, IS_NOT_RETURNED]).await?;
    let (invoice, attempt) = collected_from(&shop, &customer).await?;
    assert_eq!((&attempt["status"], &attempt["declineCode"]), (&json!("failed"), &json!("amount_mismatch")));
    let (merchant, invoice) = (&shop.merchant, id(&invoice)?);
    let due = "UPDATE invoices SET next_attempt_at = now() - interval '1 day' WHERE id = $1";
    sqlx::query(due).bind(uuid(&invoice)?).execute(&merchant.books.db).await?;
    for _ in 0..3 {
        let run = merchant.api.send(Method::POST, "/v1/invoices/scheduler/run", None).await?;
        assert_eq!(ok(&run)["claimed"], json!(0));
    }
    assert_eq!(shop.records().await?, "sale 750 approved");
    // Nor can anything that does not check: a constraint refuses the payment.
    let copy = "INSERT INTO payments (id, account_id, provider_account_id, invoice_id, status, capture, currency,
                                      amount_requested, amount, created_at)
                SELECT gen_random_uuid(), account_id, provider_account_id, invoice_id, 'processing', true, currency,
                       amount_requested, amount, created_at FROM payments WHERE invoice_id = $1";
    let mut db = merchant.books.db.acquire().await?;
    sqlx::query("SET unified_payments.one_charge = 'on'").execute(&mut *db).await?;
    let refused = sqlx::query(copy).bind(uuid(&invoice)?).execute(&mut *db).await.expect_err("a second payment");
    let constraint = refused.as_database_error().and_then(|error| error.constraint());
    assert_eq!(constraint, Some("payments_one_live_per_invoice"), "{refused}");

    let why = cluster.ctl(&["why", &invoice]).await?;
    assert!(why.to_string().contains("has not been returned"), "{why}");
    let payment = only_payment(&shop, &invoice).await?;
    wait_for_failure_message(&shop, &payment, "refused to return it").await?;
    set_fee(&cluster, &shop, "0").await?;
    let reversal = refused_reversal(&cluster, &shop).await?;
    cluster.ctl(&["anomalies", "returned", &reversal, "--reason", "refunded in the portal"]).await?;
    let paid: Value = eventually("the invoice to be paid", async || {
        let invoice = merchant.api.get(&format!("/v1/invoices/{invoice}")).await?.body;
        Ok((invoice["status"] == "paid").then_some(invoice))
    })
    .await?;
    assert_eq!(paid["amountPaid"], json!(700));
    Ok(())
}
