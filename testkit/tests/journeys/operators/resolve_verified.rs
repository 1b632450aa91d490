//! A manual resolution is compared with the provider's records, and rejected if it differs.

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};
use testkit::Cluster;
use tokio::join;

use super::{backdate_last_request, ctl_error, lose_responses, manual_review, manual_reviews, provider_ref, text};
use crate::support::{Merchant, Shop, cluster, copies, created, eventually, id, merchant, uuid};

/// A copy of the mock's transaction with other values of the columns in `own`.
async fn copy_at_mock(merchant: &Merchant, charge: &str, number: usize, own: &str) -> Result<String> {
    let other = format!("mock_{number:024x}");
    let own = format!("'id', $2::text, 'unique_reference', null, {own}");
    let copy = copies("mock.transactions", "(SELECT * FROM mock.transactions WHERE id = $1) t", &own);
    sqlx::query(copy).bind(charge).bind(&other).execute(&merchant.books.db).await?;
    Ok(other)
}

/// The detail of the last audit record.
async fn last_record(cluster: &Cluster, merchant: &Merchant) -> Result<Value> {
    let listed = cluster.ctl(&["audit", "list", "--account", &merchant.account.id, "--limit", "1"]).await?;
    Ok(listed["audit"][0]["detail"].clone())
}

#[tokio::test]
async fn resolutions_that_differ_from_the_provider_are_rejected() -> Result<()> {
    let (cluster, merchant) = (cluster().await?, merchant().await?);
    lose_responses(&merchant, cluster, "1").await?;
    let review = async {
        let operation = manual_review(cluster, &merchant).await?;
        let charge = provider_ref(&merchant, &operation).await?;
        // In class B the provider supports look-ups.
        merchant.mock(cluster, &["--class", "B"]).await?;
        let resolve = ["operations", "resolve", &operation, "--outcome", "charged", "--provider-ref"];
        for (number, (own, expected)) in [
            ("'amount', 1400", "amount 1400 instead of 1500"),
            ("'currency', 'EUR'", "currency EUR instead of USD"),
            ("'kind', 'authorize'", "kind authorize instead of sale"),
            ("'reference', 'op_another'", "reference op_another instead of"),
            ("'approved', false, 'decline_code', 'declined'", "state failed instead of approved"),
        ]
        .into_iter()
        .enumerate()
        {
            let other = copy_at_mock(&merchant, &charge, number + 1, own).await?;
            for unverified in [&[][..], &["--unverified"]] {
                let stderr = ctl_error(cluster, &[&resolve[..], &[&other], unverified].concat()).await?;
                assert!(stderr.contains(expected) && stderr.contains(r#""amount":1500"#), "{expected}: {stderr}");
            }
        }
        let unknown = ctl_error(cluster, &[&resolve[..], &["mock_ffffffffffffffffffffffff"]].concat()).await?;
        assert!(unknown.contains("has no such transaction"), "{unknown}");
        let half = ctl_error(cluster, &[&resolve[..], &[&charge, "--amount", "700"]].concat()).await?;
        assert!(half.contains("amount 1500 instead of 700"), "{half}");
        assert_eq!(manual_reviews(cluster, &merchant, 1).await?.len(), 1, "rejected resolutions change nothing");

        let dry_run = cluster.ctl(&[&resolve[..], &[&charge, "--dry-run"]].concat()).await?;
        let provider_record = json!({"kind": "sale", "state": "approved", "amount": 1500, "currency": "USD",
            "reference": operation, "charge": null});
        assert_eq!((&dry_run["at_provider"], &dry_run["unverified"]), (&provider_record, &Value::Null), "{dry_run}");
        assert_eq!(
            (&dry_run["requested"]["kind"], &dry_run["requested"]["amount"]),
            (&json!("sale"), &json!(1500)),
            "{dry_run}"
        );
        cluster.ctl(&[&resolve[..], &[&charge]].concat()).await?;
        let record = last_record(cluster, &merchant).await?;
        assert_eq!((&record["verified"], &record["unverified"]), (&json!(true), &Value::Null), "{record}");
        anyhow::Ok(())
    };
    let (response, done) = join!(merchant.pay(1500), review);
    done?;
    assert_eq!(created(&response?)["status"], "pending_settlement");
    Ok(())
}

#[tokio::test]
async fn unverifiable_resolutions_need_the_unverified_flag() -> Result<()> {
    let (cluster, merchant) = (cluster().await?, merchant().await?);
    lose_responses(&merchant, cluster, "1").await?;
    let review = async {
        let operation = manual_review(cluster, &merchant).await?;
        let charge = provider_ref(&merchant, &operation).await?;
        let resolve = ["operations", "resolve", &operation, "--outcome", "charged", "--provider-ref", &charge];
        let stderr = ctl_error(cluster, &resolve).await?;
        assert!(
            stderr.contains("cannot be queried (its recovery class is C)") && stderr.contains("--unverified"),
            "{stderr}"
        );
        let done = cluster.ctl(&[&resolve[..], &["--unverified"]].concat()).await?;
        assert_eq!(done["unverified"], "its recovery class is C", "{done}");
        let record = last_record(cluster, &merchant).await?;
        assert_eq!((&record["verified"], &record["unverified"]), (&json!(false), &done["unverified"]), "{record}");
        anyhow::Ok(())
    };
    let (response, done) = join!(merchant.pay(1500), review);
    done?;
    assert_eq!(created(&response?)["status"], "pending_settlement");
    Ok(())
}

#[tokio::test]
async fn executed_operations_cannot_be_resolved_as_failed() -> Result<()> {
    let (cluster, merchant) = (cluster().await?, merchant().await?);
    lose_responses(&merchant, cluster, "1").await?;
    let review = async {
        let operation = manual_review(cluster, &merchant).await?;
        backdate_last_request(&merchant, &operation).await?;
        merchant.mock(cluster, &["--class", "B"]).await?;
        let make_findable = "UPDATE mock.transactions SET unique_reference = reference WHERE reference = $1";
        sqlx::query(make_findable).bind(&operation).execute(&merchant.books.db).await?;
        let resolve = ["operations", "resolve", &operation, "--outcome", "failed", "--reason", "not in their books"];
        let stderr = ctl_error(cluster, &resolve).await?;
        assert!(stderr.contains("the provider has executed it") && stderr.contains(r#""amount":1500"#), "{stderr}");
        let done = cluster.ctl(&[&resolve[..], &["--unverified"]].concat()).await?;
        assert_eq!(done["unverified"], "the provider has executed it", "{done}");
        anyhow::Ok(())
    };
    let (response, done) = join!(merchant.pay(1500), review);
    done?;
    assert_eq!(created(&response?)["status"], "failed");
    Ok(())
}

#[tokio::test]
async fn resolutions_are_verified_at_the_card_gateway() -> Result<()> {
    // Without a worker, only the test itself sends the charge.
    let mut cluster = Cluster::builder().api(1).gateway(1).start().await?;
    let shop = Shop::new(&cluster, &[]).await?;
    let token = shop.token("4242424242424242").await?;
    let body = json!({"paymentToken": token, "amount": 1500, "currency": "USD"});
    let merchant = &shop.merchant;
    // The request would wait for a worker, so it is abandoned.
    tokio::select! {
        response = shop.pay_with(body) => bail!("a response without a worker: {response:?}"),
        written = eventually("the operation", async || {
            Ok((merchant.books.operations().await? == 1).then_some(()))
        }) => written?,
    }
    let listed = cluster.ctl(&["operations", "list", "--account", &merchant.account.id]).await?;
    let operation = text(&listed["operations"][0], "id");
    let lost = "UPDATE operations SET state = 'unknown', next_push_at = NULL, lease_until = NULL,
                    first_sent_at = now() - interval '2 hours', last_sent_at = now() - interval '2 hours' WHERE id = $1";
    sqlx::query(lost).bind(uuid(&operation)?).execute(&merchant.books.db).await?;
    let charged = async |amount: &str, reference: &str| {
        let card = [("creditcard_number", "4242424242424242"), ("expire_month", "12"), ("expire_year", "2034")];
        let payer = [("first_name", "Jane"), ("last_name", "Doe"), ("email", "jane@example.com"), ("cvv", "917")];
        let rest = [("country_code", "US"), ("zip_code", "10001"), ("ship_address_as_bill_address", "Y")];
        let money = [("amount", amount), ("currency", "USD"), ("reference_id", reference)];
        let sale = shop.gateway_request("sale", &[&card[..], &payer, &rest, &money].concat()).await?;
        let id = sale["response"]["transaction_id"].as_str();
        id.map(str::to_owned).with_context(|| format!("no sale: {sale}"))
    };
    let (other, charge) = (charged("14.00", "another").await?, charged("15.00", &operation).await?);

    let resolve = ["operations", "resolve", &operation, "--outcome", "charged", "--provider-ref"];
    let stderr = ctl_error(&cluster, &[&resolve[..], &[&other]].concat()).await?;
    assert!(
        stderr.contains("amount 1400 instead of 1500") && stderr.contains("reference another instead of"),
        "{stderr}"
    );
    let stderr = ctl_error(&cluster, &[&resolve[..], &["01ARZ3NDEKTSV4RRFFQ69G5FAV"]].concat()).await?;
    assert!(stderr.contains("has no such transaction"), "{stderr}");
    let failed = ["operations", "resolve", &operation, "--outcome", "failed", "--reason", "not in their report"];
    let stderr = ctl_error(&cluster, &failed).await?;
    assert!(stderr.contains("the provider has executed it"), "{stderr}");

    // An unreachable gateway, or one without a URL, cannot verify.
    let address = cluster.gateway_url(0);
    for (url, expected) in [("http://127.0.0.1:9", "cannot be queried"), ("", "CARD_GATEWAY_URL is not set")] {
        cluster.set_env("CARD_GATEWAY_URL", url);
        let stderr = ctl_error(&cluster, &[&resolve[..], &[&charge]].concat()).await?;
        assert!(stderr.contains(expected) && stderr.contains("--unverified"), "{stderr}");
    }
    cluster.set_env("CARD_GATEWAY_URL", &address);

    let done = cluster.ctl(&[&resolve[..], &[&charge]].concat()).await?;
    assert_eq!((&done["changed"], &done["at_provider"]["reference"]), (&json!(true), &json!(operation)), "{done}");
    let payment = merchant.only_payment().await?;
    assert_eq!((&payment["status"], id(&payment)?.is_empty()), (&json!("pending_settlement"), false));
    Ok(())
}
