//! A provider's statement beside our books: each way to differ is seen, and nothing is changed.

use anyhow::Result;
use serde_json::Value;
use testkit::Ended;

use crate::support::{Merchant, Shop, accepted, cluster, created, id, merchant, ok, payment, uuid};

async fn compared(merchant: &Merchant) -> Result<Ended> {
    compared_days_ago(merchant, 0).await
}

async fn compared_days_ago(merchant: &Merchant, days: i32) -> Result<Ended> {
    let day: String = sqlx::query_scalar("SELECT to_char((now() AT TIME ZONE 'UTC')::date - $1, 'YYYY-MM-DD')")
        .bind(days)
        .fetch_one(&merchant.books.db)
        .await?;
    let arguments = ["reconcile", "--account", &merchant.account.id, "--day", &day, "--json"];
    cluster().await?.ctl_to_its_end(&arguments).await
}

fn differences(ended: &Ended) -> Vec<(String, String)> {
    let printed = ended.json();
    let providers = printed["providers"].as_array().unwrap_or_else(|| panic!("{ended:?}"));
    let rows = providers.iter().flat_map(|one| one["differences"].as_array().into_iter().flatten());
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    rows.map(|row| (text(&row["difference"]), text(&row["reference"]))).collect()
}

/// The operation of a payment's charge.
async fn charge_of(merchant: &Merchant, payment: &str) -> Result<String> {
    let reference = "SELECT reference FROM operations WHERE payment_id = $1 AND kind IN ('sale', 'authorize')";
    Ok(sqlx::query_scalar(reference).bind(uuid(payment)?).fetch_one(&merchant.books.db).await?)
}

#[tokio::test]
async fn the_mock_and_we_agree_until_somebody_changes_a_book() -> Result<()> {
    let merchant = merchant().await?;
    let (sold, held) = (merchant.sold(1000).await?, merchant.hold(1000).await?);
    accepted(&merchant.refund(&sold, Some(300)).await?);
    merchant.becomes(&sold, "partially_refunded").await?;
    merchant.capture(&held, Some(400)).await?;
    created(&merchant.api.post("/v1/payments", payment(900, "tok_insufficient")).await?);
    created(&merchant.api.post("/v1/payments", payment(900, "tok_partial")).await?);
    let agree = compared(&merchant).await?;
    assert_eq!((agree.code, differences(&agree)), (0, vec![]), "{agree:?}");
    assert_eq!(
        (&agree.json()["providers"][0]["lines"], &agree.json()["providers"][0]["operations"]),
        (&5.into(), &5.into())
    );

    let (gone, dearer) = (merchant.sold(501).await?, merchant.sold(502).await?);
    let (gone, dearer) = (charge_of(&merchant, &gone).await?, charge_of(&merchant, &dearer).await?);
    let book = async |statement: &'static str, reference: &str| {
        sqlx::query(statement).bind(reference).execute(&merchant.books.db).await.map(drop)
    };
    book("DELETE FROM mock.transactions WHERE reference = $1", &gone).await?;
    book("UPDATE mock.transactions SET amount = amount + 1 WHERE reference = $1", &dearer).await?;
    book(
        "INSERT INTO mock.transactions (id, account, kind, reference, approved, amount, currency, nature, occurred_at, unique_reference)
         SELECT 'mock_stray', account, kind, 'stray', true, 5, currency, nature, occurred_at, 'stray'
         FROM mock.transactions WHERE reference = $1",
        &dearer,
    )
    .await?;
    let renamed = charge_of(&merchant, &sold).await?;
    book("UPDATE operations SET provider_ref = 'mock_other' WHERE reference = $1", &renamed).await?;
    let differ = compared(&merchant).await?;
    assert_eq!(differ.code, 1, "{differ:?}");
    let mut expected = vec![
        ("missing_at_provider".to_owned(), gone),
        ("amount".to_owned(), dearer),
        ("missing_with_us".to_owned(), "stray".to_owned()),
        ("status".to_owned(), renamed),
    ];
    expected.sort_by(|a, b| a.1.cmp(&b.1));
    assert_eq!(differences(&differ), expected);
    assert_eq!(differences(&compared(&merchant).await?), expected, "it changes nothing");
    Ok(())
}

#[tokio::test]
async fn what_cannot_be_compared_is_said_to_be_so() -> Result<()> {
    let merchant = merchant().await?;
    merchant.mock(cluster().await?, &["--class", "C"]).await?;
    let ended = compared(&merchant).await?;
    assert_eq!(ended.code, 2, "{ended:?}");
    assert!(ended.printed.contains("class C"), "{ended:?}");
    for (account, day) in [("acct_00000000000000000000000000", "2026-11-21"), (&*merchant.account.id, "2026-02-30")] {
        let ended = cluster().await?.ctl_to_its_end(&["reconcile", "--account", account, "--day", day]).await?;
        assert_eq!(ended.code, 2, "1 is that they differ: {ended:?}");
    }
    Ok(())
}

#[tokio::test]
async fn what_was_booked_on_another_day_than_it_was_sent_is_not_missing() -> Result<()> {
    let merchant = merchant().await?;
    let sold = charge_of(&merchant, &merchant.sold(1000).await?).await?;
    sqlx::query("UPDATE operations SET first_sent_at = first_sent_at - interval '2 days' WHERE reference = $1")
        .bind(&sold)
        .execute(&merchant.books.db)
        .await?;
    let agree = compared_days_ago(&merchant, 2).await?;
    assert_eq!((agree.code, differences(&agree)), (0, vec![]), "{agree:?}");
    assert_eq!(agree.json()["providers"][0]["operations"], 1, "{agree:?}");
    sqlx::query("DELETE FROM mock.transactions WHERE reference = $1").bind(&sold).execute(&merchant.books.db).await?;
    let differ = compared_days_ago(&merchant, 2).await?;
    assert_eq!((differ.code, differences(&differ)), (1, vec![("missing_at_provider".to_owned(), sold)]), "{differ:?}");
    Ok(())
}

#[tokio::test]
async fn the_card_gateway_and_we_agree_until_somebody_changes_a_book() -> Result<()> {
    let shop = Shop::new(cluster().await?, &[]).await?;
    let merchant = &shop.merchant;
    let sold = id(created(&shop.pay("4242424242424242", 1_234).await?))?;
    let voided = id(created(&shop.pay("4242424242424242", 1_235).await?))?;
    created(&shop.pay("4000000000000002", 500).await?);
    accepted(&merchant.refund(&sold, Some(200)).await?);
    merchant.becomes(&sold, "partially_refunded").await?;
    ok(&merchant.void(&voided).await?);
    let agree = compared(merchant).await?;
    assert_eq!((agree.code, differences(&agree)), (0, vec![]), "{agree:?}");
    assert_eq!(agree.json()["providers"][0]["lines"], 4, "two charges, a refund and a void: {agree:?}");
    // Our row says that nothing was done, and theirs that it was.
    let operation = charge_of(merchant, &sold).await?;
    sqlx::query("UPDATE operations SET state = 'failed', provider_ref = NULL WHERE reference = $1")
        .bind(&operation)
        .execute(&merchant.books.db)
        .await?;
    let differ = compared(merchant).await?;
    assert_eq!((differ.code, differences(&differ)), (1, vec![("status".to_owned(), operation)]), "{differ:?}");
    assert!(!differ.printed.contains("4242424242424242"), "no card number");
    Ok(())
}

/// The provider's name for a payment's charge.
async fn charge_name(merchant: &Merchant, payment: &str) -> Result<String> {
    let name = "SELECT provider_ref FROM payments WHERE id = $1";
    Ok(sqlx::query_scalar(name).bind(uuid(payment)?).fetch_one(&merchant.books.db).await?)
}

#[tokio::test]
async fn what_is_done_at_the_card_gateway_past_us_differs() -> Result<()> {
    let shop = Shop::new(cluster().await?, &[]).await?;
    let merchant = &shop.merchant;
    let sold = id(created(&shop.pay("4242424242424242", 10_000).await?))?;
    accepted(&merchant.refund(&sold, Some(3_000)).await?);
    merchant.becomes(&sold, "partially_refunded").await?;
    let agree = compared(merchant).await?;
    assert_eq!((agree.code, differences(&agree)), (0, vec![]), "{agree:?}");

    let charge = charge_name(merchant, &sold).await?;
    let second = [("transaction_id", charge.as_str()), ("amount", "30.00")];
    assert_eq!(shop.at_gateway("refund", &second).await?["response"]["code"], "00");
    let differ = compared(merchant).await?;
    assert_eq!(
        (differ.code, differences(&differ)),
        (1, vec![("missing_with_us".to_owned(), String::new())]),
        "{differ:?}"
    );
    let totals = differ.json()["providers"][0]["totals"].clone();
    let refunds = totals.as_array().into_iter().flatten().find(|total| total["kind"] == "refund").cloned();
    let refunds = refunds.unwrap_or_else(|| panic!("{totals}"));
    assert_eq!((&refunds["their_amount"], &refunds["our_amount"]), (&6_000.into(), &3_000.into()), "{totals}");
    Ok(())
}

#[tokio::test]
async fn a_refund_that_the_card_gateway_lacks_or_has_with_another_amount_differs() -> Result<()> {
    let shop = Shop::new(cluster().await?, &[]).await?;
    let merchant = &shop.merchant;
    let sold = id(created(&shop.pay("4242424242424242", 10_000).await?))?;
    for amount in [1_000, 2_000] {
        accepted(&merchant.refund(&sold, Some(amount)).await?);
    }
    crate::support::eventually("both", async || {
        Ok((merchant.payment(&sold).await?["amountRefunded"] == 3_000).then_some(()))
    })
    .await?;
    let book = async |statement: &'static str| -> Result<String> {
        Ok(sqlx::query_scalar(statement).bind(uuid(&sold)?).fetch_one(&merchant.books.db).await?)
    };
    let dearer = book(
        "UPDATE gateway.transactions t SET amount = t.amount + 1 FROM operations o, gateway.child_references c
         WHERE o.payment_id = $1 AND o.kind = 'refund' AND o.amount = 1000 AND c.reference_id = o.reference
           AND c.transaction_id = t.id RETURNING o.reference",
    )
    .await?;
    let gone = book(
        "UPDATE gateway.transactions t SET state = 'failed', reason = 'not processed' FROM operations o, gateway.child_references c
         WHERE o.payment_id = $1 AND o.kind = 'refund' AND o.amount = 2000 AND c.reference_id = o.reference
           AND c.transaction_id = t.id RETURNING o.reference",
    )
    .await?;
    let mut expected = vec![("amount".to_owned(), dearer), ("missing_at_provider".to_owned(), gone)];
    expected.sort_by(|a, b| a.1.cmp(&b.1));
    let differ = compared(merchant).await?;
    assert_eq!((differ.code, differences(&differ)), (1, expected), "{differ:?}");
    Ok(())
}
