//! What a person enters is compared with what the provider has, and refused where it differs.

use std::time::Duration;

use anyhow::{Context, Result};
use serde_json::{Value, json};
use testkit::Cluster;
use tokio::join;

use super::{answers_are_lost, at_provider, nothing_may_arrive, refused, text, the_waiting, waiting};
use crate::support::{Merchant, Shop, cluster, created, id, merchant, uuid};

/// A transaction of the mock's like the one that it did, but for one column.
async fn other_at_mock(merchant: &Merchant, charge: &str, number: usize, own: &str) -> Result<String> {
    let other = format!("mock_{number:024x}");
    let copy = format!(
        "INSERT INTO mock.transactions
         SELECT (jsonb_populate_record(NULL::mock.transactions, to_jsonb(t) || jsonb_build_object(
             'id', $2::text, 'unique_reference', null, {own}))).* FROM mock.transactions t WHERE t.id = $1"
    );
    let copy = sqlx::query(sqlx::AssertSqlSafe(copy)).bind(charge).bind(&other);
    copy.execute(&merchant.books.db).await?;
    Ok(other)
}

/// The last record of an operator's act.
async fn record(cluster: &Cluster, merchant: &Merchant) -> Result<Value> {
    let listed = cluster.ctl(&["audit", "list", "--account", &merchant.account.id, "--limit", "1"]).await?;
    Ok(listed["audit"][0]["detail"].clone())
}

#[tokio::test]
async fn a_transaction_that_the_provider_has_otherwise_is_refused() -> Result<()> {
    let (cluster, merchant) = (cluster().await?, merchant().await?);
    answers_are_lost(&merchant, cluster, "1").await?;
    let person = async {
        let operation = the_waiting(cluster, &merchant).await?;
        let charge = at_provider(&merchant, &operation).await?;
        // From now on it can be asked.
        merchant.mock(cluster, &["--class", "B"]).await?;
        let resolve = ["operations", "resolve", &operation, "--outcome", "charged", "--provider-ref"];
        for (number, (own, complaint)) in [
            ("'amount', 1400", "amount 1400 instead of 1500"),
            ("'currency', 'EUR'", "currency EUR instead of USD"),
            ("'kind', 'authorize'", "kind authorize instead of sale"),
            ("'reference', 'op_another'", "reference op_another instead of"),
            ("'approved', false, 'decline_code', 'declined'", "state failed instead of approved"),
        ]
        .into_iter()
        .enumerate()
        {
            let other = other_at_mock(&merchant, &charge, number + 1, own).await?;
            for unverified in [&[][..], &["--unverified"]] {
                let said = refused(cluster, &[&resolve[..], &[&other], unverified].concat()).await?;
                assert!(said.contains(complaint) && said.contains(r#""amount":1500"#), "{complaint}: {said}");
            }
        }
        let unknown = refused(cluster, &[&resolve[..], &["mock_ffffffffffffffffffffffff"]].concat()).await?;
        assert!(unknown.contains("has no such transaction"), "{unknown}");
        let half = refused(cluster, &[&resolve[..], &[&charge, "--amount", "700"]].concat()).await?;
        assert!(half.contains("amount 1500 instead of 700"), "{half}");
        assert_eq!(waiting(cluster, &merchant, 1).await?.len(), 1, "nothing was changed");

        let tried = cluster.ctl(&[&resolve[..], &[&charge, "--dry-run"]].concat()).await?;
        let theirs = json!({"kind": "sale", "state": "approved", "amount": 1500, "currency": "USD",
            "reference": operation, "charge": null});
        assert_eq!((&tried["provider_has"], &tried["unverified"]), (&theirs, &Value::Null), "{tried}");
        assert_eq!((&tried["asked"]["kind"], &tried["asked"]["amount"]), (&json!("sale"), &json!(1500)), "{tried}");
        cluster.ctl(&[&resolve[..], &[&charge]].concat()).await?;
        let record = record(cluster, &merchant).await?;
        assert_eq!((&record["verified"], &record["unverified"]), (&json!(true), &Value::Null), "{record}");
        anyhow::Ok(())
    };
    let (answer, done) = join!(merchant.pay(1500), person);
    done?;
    assert_eq!(created(&answer?)["status"], "pending_settlement");
    Ok(())
}

#[tokio::test]
async fn what_the_provider_cannot_be_asked_about_is_entered_unverified_or_not_at_all() -> Result<()> {
    let (cluster, merchant) = (cluster().await?, merchant().await?);
    answers_are_lost(&merchant, cluster, "1").await?;
    let person = async {
        let operation = the_waiting(cluster, &merchant).await?;
        let charge = at_provider(&merchant, &operation).await?;
        let resolve = ["operations", "resolve", &operation, "--outcome", "charged", "--provider-ref", &charge];
        let said = refused(cluster, &resolve).await?;
        assert!(said.contains("cannot be asked (its recovery class is C)") && said.contains("--unverified"), "{said}");
        let done = cluster.ctl(&[&resolve[..], &["--unverified"]].concat()).await?;
        assert_eq!(done["unverified"], "its recovery class is C", "{done}");
        let record = record(cluster, &merchant).await?;
        assert_eq!((&record["verified"], &record["unverified"]), (&json!(false), &done["unverified"]), "{record}");
        anyhow::Ok(())
    };
    let (answer, done) = join!(merchant.pay(1500), person);
    done?;
    assert_eq!(created(&answer?)["status"], "pending_settlement");
    Ok(())
}

#[tokio::test]
async fn that_nothing_was_done_is_not_entered_of_what_the_provider_has_done() -> Result<()> {
    let (cluster, merchant) = (cluster().await?, merchant().await?);
    answers_are_lost(&merchant, cluster, "1").await?;
    let person = async {
        let operation = the_waiting(cluster, &merchant).await?;
        nothing_may_arrive(&merchant, &operation).await?;
        merchant.mock(cluster, &["--class", "B"]).await?;
        let kept = "UPDATE mock.transactions SET unique_reference = reference WHERE reference = $1";
        sqlx::query(kept).bind(&operation).execute(&merchant.books.db).await?;
        let resolve = ["operations", "resolve", &operation, "--outcome", "failed", "--reason", "not in their books"];
        let said = refused(cluster, &resolve).await?;
        assert!(said.contains("the provider has done it") && said.contains(r#""amount":1500"#), "{said}");
        let done = cluster.ctl(&[&resolve[..], &["--unverified"]].concat()).await?;
        assert_eq!(done["unverified"], "the provider has done it", "{done}");
        anyhow::Ok(())
    };
    let (answer, done) = join!(merchant.pay(1500), person);
    done?;
    assert_eq!(created(&answer?)["status"], "failed");
    Ok(())
}

#[tokio::test]
async fn the_card_gateway_is_asked_by_its_own_name_for_a_transaction() -> Result<()> {
    // Without a worker nobody sends the charge but the test itself.
    let mut cluster = Cluster::builder().api(1).gateway(1).start().await?;
    let shop = Shop::new(&cluster, &[]).await?;
    let token = shop.token("4242424242424242").await?;
    let body = json!({"paymentToken": token, "amount": 1500, "currency": "USD"});
    // The answer waits for a worker, and is not waited for.
    let _ = tokio::time::timeout(Duration::from_secs(2), shop.pay_with(body)).await;
    let merchant = &shop.merchant;
    let listed = cluster.ctl(&["operations", "list", "--account", &merchant.account.id]).await?;
    let operation = text(&listed["operations"][0], "id");
    let lost = "UPDATE operations SET state = 'unknown', next_push_at = NULL, lease_until = NULL,
                    first_sent_at = now() - interval '2 hours', last_sent_at = now() - interval '2 hours' WHERE id = $1";
    sqlx::query(lost).bind(uuid(&operation)?).execute(&merchant.books.db).await?;
    let charged = async |amount: &str, reference: &str| {
        let card = [("creditcard_number", "4242424242424242"), ("expire_month", "12"), ("expire_year", "2034")];
        let who = [("first_name", "Jane"), ("last_name", "Doe"), ("email", "jane@example.com"), ("cvv", "917")];
        let rest = [("country_code", "US"), ("zip_code", "10001"), ("ship_address_as_bill_address", "Y")];
        let money = [("amount", amount), ("currency", "USD"), ("reference_id", reference)];
        let said = shop.at_gateway("sale", &[&card[..], &who, &rest, &money].concat()).await?;
        let named = said["response"]["transaction_id"].as_str();
        named.map(str::to_owned).with_context(|| format!("no sale: {said}"))
    };
    let (other, charge) = (charged("14.00", "another").await?, charged("15.00", &operation).await?);

    let resolve = ["operations", "resolve", &operation, "--outcome", "charged", "--provider-ref"];
    let said = refused(&cluster, &[&resolve[..], &[&other]].concat()).await?;
    assert!(said.contains("amount 1400 instead of 1500") && said.contains("reference another instead of"), "{said}");
    let said = refused(&cluster, &[&resolve[..], &["01ARZ3NDEKTSV4RRFFQ69G5FAV"]].concat()).await?;
    assert!(said.contains("has no such transaction"), "{said}");
    let failed = ["operations", "resolve", &operation, "--outcome", "failed", "--reason", "not in their report"];
    let said = refused(&cluster, &failed).await?;
    assert!(said.contains("the provider has done it"), "{said}");

    // Away, or not known where it is, it cannot be asked.
    let address = cluster.gateway_url(0);
    for (url, complaint) in [("http://127.0.0.1:9", "cannot be asked"), ("", "CARD_GATEWAY_URL is not set")] {
        cluster.set_env("CARD_GATEWAY_URL", url);
        let said = refused(&cluster, &[&resolve[..], &[&charge]].concat()).await?;
        assert!(said.contains(complaint) && said.contains("--unverified"), "{said}");
    }
    cluster.set_env("CARD_GATEWAY_URL", &address);

    let done = cluster.ctl(&[&resolve[..], &[&charge]].concat()).await?;
    assert_eq!((&done["changed"], &done["provider_has"]["reference"]), (&json!(true), &json!(operation)), "{done}");
    let payment = merchant.only_payment().await?;
    assert_eq!((&payment["status"], id(&payment)?.is_empty()), (&json!("pending_settlement"), false));
    Ok(())
}
