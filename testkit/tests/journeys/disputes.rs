//! Disputes: opened when a payment settles, decided ten days later, shown by lists, events and settlements.

use anyhow::{Context, Result};
use serde_json::{Value, json};
use testkit::{Cluster, TempDir};

use crate::settlements::{entry, settled_on};
use crate::support::{
    Merchant, accepted, cluster, conflict, created, eventually, failpoint_hits, id, ids, invalid, list_all, merchant,
    not_found, ok, payment, with,
};

const LOST: &str = "tok_disputed";
const WON: &str = "tok_disputed_won";

async fn pay(merchant: &Merchant, amount: i64, token: &str) -> Result<String> {
    id(created(&merchant.api.post("/v1/payments", payment(amount, token)).await?))
}

/// The only dispute of a payment.
async fn dispute_of(merchant: &Merchant, payment: &str) -> Result<Value> {
    let found = ok(&merchant.api.get(&format!("/v1/disputes?paymentId={payment}")).await?)["data"].clone();
    assert_eq!(found.as_array().map(Vec::len), Some(1), "{found}");
    Ok(found[0].clone())
}

/// Asserts what a payment shows as disputed, and returns it.
async fn assert_disputed(merchant: &Merchant, payment: &str, amount: i64) -> Result<Value> {
    let shown = merchant.payment(payment).await?;
    assert_eq!((&shown["amountDisputed"], &shown["settled"]), (&json!(amount), &json!(true)), "{shown}");
    Ok(shown)
}

#[tokio::test]
async fn a_dispute_is_opened_at_settlement_and_lost_ten_days_later() -> Result<()> {
    let merchant = merchant().await?;
    let payment = pay(&merchant, 1250, LOST).await?;
    assert_eq!(merchant.payment(&payment).await?["amountDisputed"], 0);
    assert!(ids(&merchant.api.get("/v1/disputes").await?).is_empty());
    merchant.advance("2 minutes").await?;
    assert_eq!(assert_disputed(&merchant, &payment, 1250).await?["status"], "settled");
    let opened = dispute_of(&merchant, &payment).await?;
    let dispute = id(&opened)?;
    assert!(dispute.starts_with("dp_"), "{dispute}");
    let at = opened["createdAt"].as_str().context("a time")?.to_owned();
    let expected = json!({"id": dispute, "object": "dispute", "livemode": false, "createdAt": at, "version": 1,
        "paymentId": payment, "amount": 1250, "currency": "USD", "reason": "fraudulent", "status": "needs_response",
        "respondBy": merchant.later(&at, "7 days").await?});
    assert_eq!(opened, expected);
    assert_eq!(ok(&merchant.api.get(&format!("/v1/disputes/{dispute}")).await?), &expected);
    conflict(&merchant.refund(&payment, None).await?);
    conflict(&merchant.refund(&payment, Some(1)).await?);

    merchant.advance("9 days").await?;
    assert_eq!(dispute_of(&merchant, &payment).await?, opened, "not decided yet");
    merchant.advance("2 days").await?;
    let lost = with(with(opened.clone(), "status", "lost"), "version", 2);
    assert_eq!(dispute_of(&merchant, &payment).await?, lost);
    assert_disputed(&merchant, &payment, 1250).await?;
    conflict(&merchant.refund(&payment, None).await?);
    merchant.advance("30 days").await?;

    let closed_at = merchant.later(&at, "10 days").await?;
    let history = merchant.event_history(&dispute).await?;
    assert_eq!(history, [("dispute.created".to_owned(), at.clone()), ("dispute.closed".to_owned(), closed_at.clone())]);
    let shown: Vec<Value> = merchant.books.events(&dispute).await?.into_iter().map(|(_, object)| object).collect();
    assert_eq!(shown, [opened, lost]);
    let of_payment: Vec<_> = merchant.event_history(&payment).await?.into_iter().map(|(kind, _)| kind).collect();
    assert_eq!(of_payment, ["payment.captured", "payment.settled"]);

    let day = json!([entry("USD", [1, 1250], [0, 0], [1, 1250])]);
    assert_eq!(settled_on(&merchant, &at[..10]).await?, day);
    assert_eq!(settled_on(&merchant, &closed_at[..10]).await?, json!([]), "the money was withdrawn before");
    Ok(())
}

#[tokio::test]
async fn a_won_dispute_gives_the_money_of_a_captured_hold_by_a_saved_card_back() -> Result<()> {
    let merchant = merchant().await?;
    let customer = merchant.customer().await?;
    let card = id(created(&merchant.save_card(&customer, WON).await?))?;
    let body = json!({"amount": 1000, "currency": "EUR", "paymentMethodId": card, "capture": false});
    let payment = id(created(&merchant.api.post("/v1/payments", body).await?))?;
    ok(&merchant.capture(&payment, Some(700)).await?);
    merchant.advance("2 minutes").await?;
    let opened = dispute_of(&merchant, &payment).await?;
    assert_eq!(
        (&opened["amount"], &opened["currency"], &opened["reason"]),
        (&json!(700), &json!("EUR"), &json!("product_not_received"))
    );
    assert_disputed(&merchant, &payment, 700).await?;
    conflict(&merchant.refund(&payment, Some(700)).await?);

    merchant.advance("11 days").await?;
    assert_eq!(dispute_of(&merchant, &payment).await?["status"], "won");
    let before = assert_disputed(&merchant, &payment, 0).await?;
    let at = opened["createdAt"].as_str().context("a time")?;
    let won_on = merchant.later(at, "10 days").await?;
    assert_eq!(settled_on(&merchant, &at[..10]).await?, json!([entry("EUR", [1, 700], [0, 0], [1, 700])]));
    assert_eq!(settled_on(&merchant, &won_on[..10]).await?, json!([entry("EUR", [0, 0], [0, 0], [1, -700])]));

    accepted(&merchant.refund(&payment, None).await?);
    let after = merchant.wait_for_status(&payment, "refunded").await?;
    assert!(after["version"].as_i64() > before["version"].as_i64() && after["amountRefunded"] == 700, "{after}");
    Ok(())
}

#[tokio::test]
async fn only_what_is_left_at_settlement_is_disputed_and_never_refunded_as_well() -> Result<()> {
    let merchant = merchant().await?;
    let (part, all) = (pay(&merchant, 1000, LOST).await?, pay(&merchant, 300, LOST).await?);
    accepted(&merchant.refund(&part, Some(400)).await?);
    accepted(&merchant.refund(&all, None).await?);
    merchant.wait_for_status(&part, "partially_refunded").await?;
    merchant.wait_for_status(&all, "refunded").await?;
    merchant.advance("2 minutes").await?;
    assert_disputed(&merchant, &all, 0).await?;
    assert_eq!(assert_disputed(&merchant, &part, 600).await?["status"], "partially_refunded");
    assert_eq!(dispute_of(&merchant, &part).await?["amount"], 600);
    assert_eq!(ids(&merchant.api.get("/v1/disputes").await?).len(), 1);
    for amount in [Some(1), Some(600), None] {
        conflict(&merchant.refund(&part, amount).await?);
    }
    // The provider refuses it, too: our row is behind its books.
    let behind = "UPDATE payments SET amount_disputed = 0 WHERE account_id = $1";
    sqlx::query(behind).bind(merchant.books.account).execute(&merchant.books.db).await?;
    let refund = id(accepted(&merchant.refund(&part, Some(600)).await?))?;
    eventually("the refusal", async || {
        let found = merchant.api.get(&format!("/v1/refunds/{refund}")).await?;
        Ok((found.body["status"] == "failed").then_some(()))
    })
    .await
}

#[tokio::test]
async fn disputes_are_listed_filtered_exported_and_private() -> Result<()> {
    let merchant = merchant().await?;
    let mut payments = Vec::new();
    for (amount, token) in [(100, LOST), (200, WON), (300, LOST)] {
        payments.push(pay(&merchant, amount, token).await?);
    }
    pay(&merchant, 400, "tok_ok").await?;
    merchant.advance("11 days").await?;
    payments.push(pay(&merchant, 500, WON).await?);
    merchant.advance("2 minutes").await?;
    let all = ok(&merchant.api.get("/v1/disputes").await?)["data"].as_array().context("rows")?.clone();
    let of = |matches: &dyn Fn(&Value) -> bool| {
        all.iter()
            .filter(|row| matches(row))
            .map(|row| row["id"].as_str().unwrap_or_default().to_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!((all.len(), &all[0]["amount"]), (4, &json!(500)), "newest first");
    let newest = all[0]["createdAt"].as_str().context("a time")?;
    for limit in [1, 3, 100] {
        assert_eq!(list_all(&merchant.api, "/v1/disputes?", limit).await?, of(&|_| true));
        let lost = of(&|row| row["status"] == "lost");
        assert_eq!(list_all(&merchant.api, "/v1/disputes?status=lost&", limit).await?, lost);
        let decided = of(&|row| row["status"] != "needs_response");
        assert_eq!(list_all(&merchant.api, "/v1/disputes?status=lost&status=won&", limit).await?, decided);
        let from = list_all(&merchant.api, &format!("/v1/disputes?createdFrom={newest}&"), limit).await?;
        let before = list_all(&merchant.api, &format!("/v1/disputes?createdTo={newest}&"), limit).await?;
        assert_eq!((from.len(), [from, before].concat()), (1, of(&|_| true)));
    }
    let one = format!("paymentId={}", payments[1]);
    assert_eq!(
        ids(&merchant.api.get(&format!("/v1/disputes?{one}&status=won")).await?),
        of(&|row| row["amount"] == 200)
    );
    assert!(ids(&merchant.api.get(&format!("/v1/disputes?{one}&status=lost")).await?).is_empty());
    for (query, param) in [
        ("status=open", "status"),
        ("status=", "status"),
        ("paymentId=", "paymentId"),
        ("paymentId=dp_01ARZ3NDEKTSV4RRFFQ69G5FAV", "paymentId"),
        ("createdFrom=yesterday", "createdFrom"),
        ("payment=x", "payment"),
        ("limit=0", "limit"),
        ("startingAfter=dp_01ARZ3NDEKTSV4RRFFQ69G5FAV", "startingAfter"),
    ] {
        invalid(&merchant.api.get(&format!("/v1/disputes?{query}")).await?, param);
    }
    let csv = merchant.api.header("accept", "text/csv")?.get("/v1/disputes?status=won").await?;
    let text = String::from_utf8(csv.bytes)?;
    let header = "id,object,livemode,createdAt,version,paymentId,amount,currency,reason,status,respondBy\r\n";
    assert!(text.starts_with(header) && text.lines().count() == 2, "{text}");
    assert!(text.contains(&format!(",{},200,USD,product_not_received,won,", payments[1])), "{text}");

    let foreign = crate::support::merchant().await?;
    let dispute = id(&all[0])?;
    not_found(&foreign.api.get(&format!("/v1/disputes/{dispute}")).await?);
    not_found(&merchant.api.get("/v1/disputes/dp_01ARZ3NDEKTSV4RRFFQ69G5FAV").await?);
    assert!(ids(&foreign.api.get(&format!("/v1/disputes?{one}")).await?).is_empty());
    invalid(&foreign.api.get(&format!("/v1/disputes?startingAfter={dispute}")).await?, "startingAfter");

    let cluster = cluster().await?;
    let why = cluster.ctl(&["why", &dispute]).await?;
    assert_eq!((&why["found"][0]["what"], &why["found"][0]["payment"]), (&json!("dispute"), &json!(payments[3])));
    let why = cluster.ctl(&["payments", "why", &payments[0]]).await?;
    let story = why["story"].as_array().context("a timeline")?;
    let rows: Vec<_> = story.iter().filter(|row| row["amount"] == 100 && row["status"] == "lost").collect();
    assert_eq!(rows.iter().map(|row| &row["what"]).collect::<Vec<_>>(), ["dispute", "dispute closed"], "{why}");
    assert!(why.to_string().contains("withdrawn because of a dispute"), "{why}");
    Ok(())
}

/// Lets the mock decide the merchant's disputes, and makes every inquiry due.
async fn decide(merchant: &Merchant) -> Result<()> {
    let older = "UPDATE mock.disputes d SET opened_at = opened_at - interval '10 days' FROM provider_accounts p
                 WHERE p.id = d.account AND p.account_id = $1";
    sqlx::query(older).bind(merchant.books.account).execute(&merchant.books.db).await?;
    ask_again(merchant).await
}

/// Makes an inquiry about every settled payment due.
async fn ask_again(merchant: &Merchant) -> Result<()> {
    let due = "UPDATE payments SET inquiry_at = now() WHERE account_id = $1 AND captured_at IS NOT NULL";
    sqlx::query(due).bind(merchant.books.account).execute(&merchant.books.db).await?;
    Ok(())
}

async fn wait_for_dispute(merchant: &Merchant, status: &str) -> Result<String> {
    eventually("a dispute", async || Ok(ids(&merchant.api.get(&format!("/v1/disputes?status={status}")).await?).pop()))
        .await
}

/// Waits until no inquiry of the merchant is due.
async fn wait_for_inquiries(merchant: &Merchant) -> Result<()> {
    let due = "SELECT count(*) FROM payments WHERE account_id = $1 AND inquiry_at < now() + interval '1 minute'";
    eventually("no inquiry", async || {
        let due: i64 = sqlx::query_scalar(due).bind(merchant.books.account).fetch_one(&merchant.books.db).await?;
        Ok((due == 0).then_some(()))
    })
    .await
}

#[tokio::test]
async fn disputes_of_accounts_without_a_test_clock_are_found_and_recorded_once() -> Result<()> {
    let merchant = merchant().await?;
    let payment = pay(&merchant, 900, LOST).await?;
    merchant.age_charges("2 minutes").await?;
    let dispute = wait_for_dispute(&merchant, "needs_response").await?;
    for _ in 0..2 {
        ask_again(&merchant).await?;
        wait_for_inquiries(&merchant).await?;
    }
    decide(&merchant).await?;
    assert_eq!(wait_for_dispute(&merchant, "lost").await?, dispute);
    ask_again(&merchant).await?;
    wait_for_inquiries(&merchant).await?;
    let kinds = |rows: Vec<(String, Value)>| rows.into_iter().map(|(kind, _)| kind).collect::<Vec<_>>();
    assert_eq!(kinds(merchant.books.events(&dispute).await?), ["dispute.created", "dispute.closed"]);
    assert_eq!(kinds(merchant.books.events(&payment).await?), ["payment.captured", "payment.settled"]);
    assert_eq!(ids(&merchant.api.get("/v1/disputes").await?), [dispute]);
    Ok(())
}

#[tokio::test]
async fn a_worker_killed_while_it_records_a_dispute_records_it_once() -> Result<()> {
    let mut cluster = Cluster::builder().api(1).worker(1).scheduler(1).start().await?;
    let merchant = Merchant::new(&cluster).await?;
    let payment = pay(&merchant, 900, WON).await?;
    for (round, status) in [(1, "needs_response"), (2, "won")] {
        let folder = TempDir::new()?;
        let hold = format!("inquire.written=1*return(hold={})", folder.path().join("resume").display());
        cluster.worker(0).set_env("FAILPOINTS", &hold);
        cluster.worker(0).restart().await?;
        cluster.worker(0).set_env("FAILPOINTS", "");
        if round == 1 {
            merchant.age_charges("2 minutes").await?
        } else {
            decide(&merchant).await?
        }
        let log = cluster.worker(0).log_path().to_owned();
        failpoint_hits(&log, "inquire.written", round).await?;
        assert!(ids(&merchant.api.get(&format!("/v1/disputes?status={status}")).await?).is_empty(), "not committed");
        cluster.worker(0).kill9()?;
        cluster.worker(0).restart().await?;
        ask_again(&merchant).await?;
        wait_for_dispute(&merchant, status).await?;
        wait_for_inquiries(&merchant).await?;
    }
    let dispute = id(&dispute_of(&merchant, &payment).await?)?;
    assert_disputed(&merchant, &payment, 0).await?;
    let events = merchant.books.events(&dispute).await?;
    assert_eq!(events.iter().map(|(kind, _)| kind.as_str()).collect::<Vec<_>>(), ["dispute.created", "dispute.closed"]);
    let settled = merchant.books.events(&payment).await?;
    assert_eq!(settled.iter().filter(|(kind, _)| kind == "payment.settled").count(), 1);
    let booked: i64 = sqlx::query_scalar("SELECT count(*) FROM mock.disputes").fetch_one(&merchant.books.db).await?;
    assert_eq!(booked, 1);
    Ok(())
}
