//! `ctl reconcile` compares a provider's statement with our records: it reports each difference and changes nothing.

use anyhow::Result;
use serde_json::{Value, json};
use testkit::CommandOutput;

use crate::support::{Merchant, Shop, accepted, cluster, created, id, merchant, ok, payment, uuid};

async fn reconcile(merchant: &Merchant) -> Result<CommandOutput> {
    reconcile_days_ago(merchant, 0).await
}

async fn reconcile_days_ago(merchant: &Merchant, days: i32) -> Result<CommandOutput> {
    let day: String = sqlx::query_scalar("SELECT to_char((now() AT TIME ZONE 'UTC')::date - $1, 'YYYY-MM-DD')")
        .bind(days)
        .fetch_one(&merchant.books.db)
        .await?;
    let arguments = ["reconcile", "--account", &merchant.account.id, "--day", &day, "--json"];
    cluster().await?.ctl_output(&arguments).await
}

fn differences(output: &CommandOutput) -> Vec<(String, String)> {
    let report = output.json();
    let providers = report["providers"].as_array().unwrap_or_else(|| panic!("{output:?}"));
    let rows = providers.iter().flat_map(|provider| provider["differences"].as_array().into_iter().flatten());
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    rows.map(|row| (text(&row["difference"]), text(&row["reference"]))).collect()
}

/// The reference of a payment's charge.
async fn charge_reference(merchant: &Merchant, payment: &str) -> Result<String> {
    let reference = "SELECT reference FROM operations WHERE payment_id = $1 AND kind IN ('sale', 'authorize')";
    Ok(sqlx::query_scalar(reference).bind(uuid(payment)?).fetch_one(&merchant.books.db).await?)
}

#[tokio::test]
async fn differences_with_the_mock_are_reported() -> Result<()> {
    let merchant = merchant().await?;
    let (captured, held) = (merchant.charge(1000).await?, merchant.hold(1000).await?);
    accepted(&merchant.refund(&captured, Some(300)).await?);
    merchant.wait_for_status(&captured, "partially_refunded").await?;
    merchant.capture(&held, Some(400)).await?;
    created(&merchant.api.post("/v1/payments", payment(900, "tok_insufficient")).await?);
    created(&merchant.api.post("/v1/payments", payment(900, "tok_partial")).await?);
    let matching = reconcile(&merchant).await?;
    assert_eq!((matching.code, differences(&matching)), (0, vec![]), "{matching:?}");
    assert_eq!(
        (&matching.json()["providers"][0]["lines"], &matching.json()["providers"][0]["operations"]),
        (&5.into(), &5.into())
    );

    let (missing, wrong_amount) = (merchant.charge(501).await?, merchant.charge(502).await?);
    let (missing, wrong_amount) =
        (charge_reference(&merchant, &missing).await?, charge_reference(&merchant, &wrong_amount).await?);
    let execute = async |statement: &'static str, reference: &str| {
        sqlx::query(statement).bind(reference).execute(&merchant.books.db).await.map(drop)
    };
    execute("DELETE FROM mock.transactions WHERE reference = $1", &missing).await?;
    execute("UPDATE mock.transactions SET amount = amount + 1 WHERE reference = $1", &wrong_amount).await?;
    execute(
        "INSERT INTO mock.transactions (id, account, kind, reference, approved, amount, currency, nature, occurred_at, unique_reference)
         SELECT 'mock_stray', account, kind, 'stray', true, 5, currency, nature, occurred_at, 'stray'
         FROM mock.transactions WHERE reference = $1",
        &wrong_amount,
    )
    .await?;
    let wrong_reference = charge_reference(&merchant, &captured).await?;
    execute("UPDATE operations SET provider_ref = 'mock_other' WHERE reference = $1", &wrong_reference).await?;
    let differing = reconcile(&merchant).await?;
    assert_eq!(differing.code, 1, "{differing:?}");
    let mut expected = vec![
        ("missing_at_provider".to_owned(), missing),
        ("amount".to_owned(), wrong_amount),
        ("missing_with_us".to_owned(), "stray".to_owned()),
        ("status".to_owned(), wrong_reference),
    ];
    expected.sort_by(|a, b| a.1.cmp(&b.1));
    assert_eq!(differences(&differing), expected);
    assert_eq!(differences(&reconcile(&merchant).await?), expected, "reconcile changes nothing");
    Ok(())
}

#[tokio::test]
async fn disputed_money_is_compared_with_the_mock() -> Result<()> {
    let merchant = merchant().await?;
    for (amount, token) in [(700, "tok_disputed"), (800, "tok_disputed_won")] {
        created(&merchant.api.post("/v1/payments", payment(amount, token)).await?);
    }
    merchant.advance("2 minutes").await?;
    merchant.advance("11 days").await?;
    let matching = reconcile(&merchant).await?;
    assert_eq!((matching.code, differences(&matching)), (0, vec![]), "{matching:?}");
    let totals = matching.json()["providers"][0]["totals"].clone();
    let total = |kind: &str, count: i64, amount: i64| {
        json!({"kind": kind, "currency": "USD", "their_count": count, "their_amount": amount, "our_count": count,
            "our_amount": amount})
    };
    let expected = [total("charge", 2, 1500), total("dispute_reinstated", 1, 800), total("dispute_withdrawn", 2, 1500)];
    assert_eq!(totals, json!(expected));

    let db = &merchant.books.db;
    let ours = "UPDATE disputes SET amount = amount - 1 WHERE amount = 700 AND account_id = $1";
    sqlx::query(ours).bind(merchant.books.account).execute(db).await?;
    let theirs = "UPDATE mock.disputes d SET reinstated_at = NULL FROM provider_accounts p
                  WHERE p.id = d.account AND p.account_id = $1 AND d.amount = 800";
    sqlx::query(theirs).bind(merchant.books.account).execute(db).await?;
    let differing = reconcile(&merchant).await?;
    let rows = differing.json()["providers"][0]["differences"].clone();
    let rows = rows.as_array().into_iter().flatten();
    let mut found: Vec<_> = rows.map(|row| format!("{} {}", row["difference"], row["kind"]).replace('"', "")).collect();
    found.sort();
    let expected = ["amount dispute_withdrawn", "missing_at_provider dispute_reinstated"];
    assert_eq!((differing.code, found), (1, expected.map(str::to_owned).to_vec()), "{differing:?}");
    Ok(())
}

#[tokio::test]
async fn impossible_comparisons_exit_with_2() -> Result<()> {
    let merchant = merchant().await?;
    merchant.mock(cluster().await?, &["--class", "C"]).await?;
    let output = reconcile(&merchant).await?;
    assert_eq!(output.code, 2, "{output:?}");
    assert!(output.stdout.contains("class C"), "{output:?}");
    for (account, day) in [("acct_00000000000000000000000000", "2026-11-21"), (&*merchant.account.id, "2026-02-30")] {
        let output = cluster().await?.ctl_output(&["reconcile", "--account", account, "--day", day]).await?;
        assert_eq!(output.code, 2, "exit code 1 means differences: {output:?}");
    }
    Ok(())
}

#[tokio::test]
async fn transactions_booked_on_another_day_are_not_missing() -> Result<()> {
    let merchant = merchant().await?;
    let captured = charge_reference(&merchant, &merchant.charge(1000).await?).await?;
    sqlx::query("UPDATE operations SET first_sent_at = first_sent_at - interval '2 days' WHERE reference = $1")
        .bind(&captured)
        .execute(&merchant.books.db)
        .await?;
    let matching = reconcile_days_ago(&merchant, 2).await?;
    assert_eq!((matching.code, differences(&matching)), (0, vec![]), "{matching:?}");
    assert_eq!(matching.json()["providers"][0]["operations"], 1, "{matching:?}");
    sqlx::query("DELETE FROM mock.transactions WHERE reference = $1")
        .bind(&captured)
        .execute(&merchant.books.db)
        .await?;
    let differing = reconcile_days_ago(&merchant, 2).await?;
    assert_eq!(
        (differing.code, differences(&differing)),
        (1, vec![("missing_at_provider".to_owned(), captured)]),
        "{differing:?}"
    );
    Ok(())
}

#[tokio::test]
async fn differences_with_the_card_gateway_are_reported() -> Result<()> {
    let shop = Shop::new(cluster().await?, &[]).await?;
    let merchant = &shop.merchant;
    let captured = id(created(&shop.pay("4242424242424242", 1_234).await?))?;
    let voided = id(created(&shop.pay("4242424242424242", 1_235).await?))?;
    created(&shop.pay("4000000000000002", 500).await?);
    accepted(&merchant.refund(&captured, Some(200)).await?);
    merchant.wait_for_status(&captured, "partially_refunded").await?;
    ok(&merchant.void(&voided).await?);
    let matching = reconcile(merchant).await?;
    assert_eq!((matching.code, differences(&matching)), (0, vec![]), "{matching:?}");
    assert_eq!(matching.json()["providers"][0]["lines"], 4, "two charges, a refund and a void: {matching:?}");
    // Our row says failed, the provider's says approved.
    let operation = charge_reference(merchant, &captured).await?;
    sqlx::query("UPDATE operations SET state = 'failed', provider_ref = NULL WHERE reference = $1")
        .bind(&operation)
        .execute(&merchant.books.db)
        .await?;
    let differing = reconcile(merchant).await?;
    assert_eq!((differing.code, differences(&differing)), (1, vec![("status".to_owned(), operation)]), "{differing:?}");
    assert!(!differing.stdout.contains("4242424242424242"), "no card number");
    Ok(())
}

/// The provider's reference of a payment's charge.
async fn provider_reference(merchant: &Merchant, payment: &str) -> Result<String> {
    let name = "SELECT provider_ref FROM payments WHERE id = $1";
    Ok(sqlx::query_scalar(name).bind(uuid(payment)?).fetch_one(&merchant.books.db).await?)
}

#[tokio::test]
async fn refunds_made_outside_the_api_are_reported() -> Result<()> {
    let shop = Shop::new(cluster().await?, &[]).await?;
    let merchant = &shop.merchant;
    let captured = id(created(&shop.pay("4242424242424242", 10_000).await?))?;
    accepted(&merchant.refund(&captured, Some(3_000)).await?);
    merchant.wait_for_status(&captured, "partially_refunded").await?;
    let matching = reconcile(merchant).await?;
    assert_eq!((matching.code, differences(&matching)), (0, vec![]), "{matching:?}");

    let charge = provider_reference(merchant, &captured).await?;
    let second = [("transaction_id", charge.as_str()), ("amount", "30.00")];
    assert_eq!(shop.gateway_request("refund", &second).await?["response"]["code"], "00");
    let differing = reconcile(merchant).await?;
    assert_eq!(
        (differing.code, differences(&differing)),
        (1, vec![("missing_with_us".to_owned(), String::new())]),
        "{differing:?}"
    );
    let totals = differing.json()["providers"][0]["totals"].clone();
    let refunds = totals.as_array().into_iter().flatten().find(|total| total["kind"] == "refund").cloned();
    let refunds = refunds.unwrap_or_else(|| panic!("{totals}"));
    assert_eq!((&refunds["their_amount"], &refunds["our_amount"]), (&6_000.into(), &3_000.into()), "{totals}");
    Ok(())
}

#[tokio::test]
async fn refunds_with_another_amount_or_missing_at_the_gateway_are_reported() -> Result<()> {
    let shop = Shop::new(cluster().await?, &[]).await?;
    let merchant = &shop.merchant;
    let captured = id(created(&shop.pay("4242424242424242", 10_000).await?))?;
    for amount in [1_000, 2_000] {
        accepted(&merchant.refund(&captured, Some(amount)).await?);
    }
    crate::support::eventually("both refunds", async || {
        Ok((merchant.payment(&captured).await?["amountRefunded"] == 3_000).then_some(()))
    })
    .await?;
    let execute = async |statement: &'static str| -> Result<String> {
        Ok(sqlx::query_scalar(statement).bind(uuid(&captured)?).fetch_one(&merchant.books.db).await?)
    };
    let wrong_amount = execute(
        "UPDATE gateway.transactions t SET amount = t.amount + 1 FROM operations o, gateway.child_references c
         WHERE o.payment_id = $1 AND o.kind = 'refund' AND o.amount = 1000 AND c.reference_id = o.reference
           AND c.transaction_id = t.id RETURNING o.reference",
    )
    .await?;
    let missing = execute(
        "UPDATE gateway.transactions t SET state = 'failed', reason = 'not processed' FROM operations o, gateway.child_references c
         WHERE o.payment_id = $1 AND o.kind = 'refund' AND o.amount = 2000 AND c.reference_id = o.reference
           AND c.transaction_id = t.id RETURNING o.reference",
    )
    .await?;
    let mut expected = vec![("amount".to_owned(), wrong_amount), ("missing_at_provider".to_owned(), missing)];
    expected.sort_by(|a, b| a.1.cmp(&b.1));
    let differing = reconcile(merchant).await?;
    assert_eq!((differing.code, differences(&differing)), (1, expected), "{differing:?}");
    Ok(())
}
