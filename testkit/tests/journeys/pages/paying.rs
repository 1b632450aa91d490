//! Paying on a page: one payment, told everywhere in one transaction; what pays nothing leaves everything open.

use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::{becomes, invoice, ledgers, link, shown, told};
use crate::support::{Browser, Merchant, Payer, cluster, eventually, id, merchant, ok, payment_made, uuid};

/// A link and an invoice of this amount, each with its payer.
async fn both(merchant: &Merchant, amount: i64) -> Result<[(Value, Payer); 2]> {
    Ok([link(merchant, amount).await?, invoice(merchant, amount).await?])
}

#[tokio::test]
async fn it_is_paid_and_everyone_is_told_at_once() -> Result<()> {
    let merchant = merchant().await?;
    for (made, payer) in both(&merchant, 500).await? {
        assert!(payer.open().await?.can_be_paid());
        let answer = payer.submit("tok_ok").await?;
        let payment = payment_made(&answer).context("a payment")?;
        let page = payer.follow(&answer).await?;
        page.shows(200, &["Paid on", "Thank you"]);
        assert!(!page.can_be_paid() && page.answer.header("refresh").is_none());

        let paid = shown(&merchant, &made).await?;
        assert_eq!((&paid["status"], &paid["paymentId"]), (&json!("paid"), &json!(payment)));
        assert!(paid["paidAt"].is_string(), "{paid}");
        let shows = merchant.all_agree(&payment, "sale 500", &["payment.captured"]).await?;
        assert_eq!((&shows["amount"], &shows["status"]), (&json!(500), &json!("pending_settlement")));
        let names = if made["object"] == "invoice" { "invoiceId" } else { "paymentLinkId" };
        assert_eq!((&shows[names], &shows["customerId"]), (&made["id"], &made["customerId"]));
        let (kind, object) = merchant.books.events(&id(&made)?).await?.pop().context("an event")?;
        assert_eq!((kind, &object), (format!("{}.paid", made["object"].as_str().unwrap_or_default()), &paid));
        let at_once: i64 = sqlx::query_scalar(
            "SELECT count(DISTINCT xmin::text) FROM events WHERE account_id = $1 AND (payload::json -> 'data' -> 'object' ->> 'id' = $2
             OR (payload::json -> 'data' -> 'object' ->> 'id' = $3 AND type LIKE '%.paid'))",
        )
        .bind(merchant.books.account)
        .bind(&payment)
        .bind(id(&made)?)
        .fetch_one(&merchant.books.db)
        .await?;
        assert_eq!(at_once, 1, "one transaction told of the payment and of what it paid");

        // Whoever comes later, or again, finds it paid.
        let again = payer.submit("tok_ok").await?;
        assert_eq!(payment_made(&again), None);
        payer.follow(&again).await?.shows(200, &["Paid on"]);
        assert_eq!(ledgers(&merchant, &made).await?, ["sale 500"]);
    }
    merchant.books.audit().await
}

#[tokio::test]
async fn a_decline_says_why_and_may_be_followed_by_another_card() -> Result<()> {
    let merchant = merchant().await?;
    for (made, payer) in both(&merchant, 500).await? {
        let before = shown(&merchant, &made).await?;
        for _ in 0..2 {
            let answer = payer.submit("tok_insufficient").await?;
            let page = payer.follow(&answer).await?;
            page.shows(200, &["role=\"alert\"", "not enough money", "try again"]);
            assert!(page.can_be_paid());
            let payment = merchant.payment(&payment_made(&answer).context("a payment")?).await?;
            assert_eq!(payment["status"], "declined");
        }
        assert_eq!(shown(&merchant, &made).await?, before, "nothing has changed");
        assert!(!payer.open().await?.html.contains("not enough money"), "that was told to who has paid");
        payer.pay("tok_ok").await?.shows(200, &["Paid on"]);
        assert_eq!(shown(&merchant, &made).await?["status"], "paid");
        assert_eq!(ledgers(&merchant, &made).await?, ["sale 500"]);
    }
    Ok(())
}

#[tokio::test]
async fn what_the_provider_would_not_process_leaves_it_open() -> Result<()> {
    let merchant = merchant().await?;
    let (made, payer) = link(&merchant, 500).await?;
    merchant.mock(cluster().await?, &["--refuse"]).await?;
    let page = payer.pay("tok_ok").await?;
    page.shows(200, &["could not be made", "Nothing was charged"]);
    assert!(page.can_be_paid());
    assert_eq!(shown(&merchant, &made).await?["status"], "open");
    assert!(ledgers(&merchant, &made).await?.is_empty());
    Ok(())
}

#[tokio::test]
async fn a_part_pays_nothing_and_goes_back() -> Result<()> {
    let merchant = merchant().await?;
    for (made, payer) in both(&merchant, 501).await? {
        let answer = payer.submit("tok_partial").await?;
        let payment = payment_made(&answer).context("a payment")?;
        payer.follow(&answer).await?.shows(200, &["only a part"]);
        merchant.becomes(&payment, "cancelled").await?;
        let page = payer.follow(&answer).await?;
        page.shows(200, &["only a part", "was given back"]);
        assert!(page.can_be_paid(), "as soon as it went back another may pay");
        assert_eq!(ledgers(&merchant, &made).await?, ["sale 250 voided, void 250"]);
        assert_eq!(shown(&merchant, &made).await?["status"], "open");
        payer.pay("tok_ok").await?.shows(200, &["Paid on"]);
        assert_eq!(ledgers(&merchant, &made).await?, ["sale 250 voided, void 250", "sale 501"]);
        let paid = shown(&merchant, &made).await?;
        assert_eq!((&paid["status"], &paid["amount"]), (&json!("paid"), &json!(501)));
    }
    Ok(())
}

#[tokio::test]
async fn a_part_that_settled_before_it_could_be_voided_is_refunded() -> Result<()> {
    let merchant = merchant().await?;
    let (made, payer) = link(&merchant, 500).await?;
    // Slow enough to settle the charge at the mock while the void is on its way.
    merchant.mock(cluster().await?, &["--latency-ms", "2000"]).await?;
    let answer = payer.submit("tok_partial").await?;
    let payment = payment_made(&answer).context("a payment")?;
    sqlx::query(
        "UPDATE mock.transactions t SET occurred_at = occurred_at - interval '1 hour', settled_at = now()
         FROM payments p WHERE p.id = $1 AND t.id = p.provider_ref AND t.voided_at IS NULL",
    )
    .bind(uuid(&payment)?)
    .execute(&merchant.books.db)
    .await?;
    assert_eq!(payment_made(&payer.submit("tok_ok").await?), None, "while it goes back nobody else can pay");
    let refunded = merchant.becomes(&payment, "refunded").await?;
    assert_eq!((&refunded["amountRefunded"], &refunded["settled"]), (&json!(250), &json!(true)));
    assert_eq!(ledgers(&merchant, &made).await?, ["sale 250 settled, refund 250"]);
    merchant.mock(cluster().await?, &["--latency-ms", "0"]).await?;
    payer.pay("tok_ok").await?.shows(200, &["Paid on"]);
    assert_eq!(shown(&merchant, &made).await?["status"], "paid");
    Ok(())
}

#[tokio::test]
async fn a_token_of_the_card_field_pays_once() -> Result<()> {
    let merchant = merchant().await?;
    let token = Browser::of(cluster().await?, &merchant.account)?.token("tok_ok").await?;
    let [(first, payer), (second, other)] = both(&merchant, 500).await?;
    payer.pay(&token).await?.shows(200, &["Paid on"]);
    let answer = other.submit(&token).await?;
    assert_eq!(answer.status, 409, "it was spent before");
    assert_eq!(shown(&merchant, &first).await?["status"], "paid");
    assert_eq!(shown(&merchant, &second).await?["status"], "open");
    assert!(ledgers(&merchant, &second).await?.is_empty());
    other.pay("tok_ok").await?.shows(200, &["Paid on"]);
    Ok(())
}

#[tokio::test]
async fn a_lost_answer_is_looked_for_and_the_page_waits_for_it() -> Result<()> {
    let merchant = merchant().await?;
    for class in ["A", "B"] {
        for (made, payer) in both(&merchant, 500).await? {
            merchant.mock(cluster().await?, &["--class", class, "--lose-answer", "1"]).await?;
            let paying = async { payer.pay("tok_ok").await };
            let looking = async {
                eventually("the page to say that it is being paid", async || {
                    let page = payer.open().await?;
                    let waits = page.html.contains("being processed") && page.answer.header("refresh") == Some("3");
                    Ok((waits && !page.can_be_paid()).then_some(()))
                })
                .await?;
                assert_eq!(payment_made(&payer.submit("tok_ok").await?), None);
                anyhow::Ok(())
            };
            tokio::try_join!(paying, looking)?;
            becomes(&merchant, &made, "paid").await?;
            assert_eq!(ledgers(&merchant, &made).await?, ["sale 500"], "class {class}");
        }
    }
    merchant.books.audit().await
}

#[tokio::test]
async fn a_scheduled_invoice_may_be_paid_before_it_is_collected() -> Result<()> {
    let merchant = merchant().await?;
    let (made, payer) = invoice(&merchant, 500).await?;
    let schedule = format!("{}/{}/schedule", super::INVOICES, id(&made)?);
    ok(&merchant.api.post(&schedule, json!({"collectAt": "2031-01-01T00:00:00Z"})).await?);
    payer.pay("tok_ok").await?.shows(200, &["Paid on"]);
    let paid = shown(&merchant, &made).await?;
    assert_eq!((&paid["status"], &paid["amountPaid"]), (&json!("paid"), &json!(500)));
    assert!(paid.get("nextAttemptAt").is_none(), "{paid}");
    assert_eq!(told(&merchant, &made).await?, ["invoice.issued", "invoice.scheduled", "invoice.paid"]);
    Ok(())
}

#[tokio::test]
async fn a_payment_of_something_else_is_not_talked_about() -> Result<()> {
    let merchant = merchant().await?;
    let [(_, payer), (_, other)] = both(&merchant, 500).await?;
    let declined = payment_made(&payer.submit("tok_insufficient").await?).context("a payment")?;
    let sold = merchant.sold(500).await?;
    for named in [declined.as_str(), &sold, "pay_01ARZ3NDEKTSV4RRFFQ69G5FAV", "nonsense", "%00", ""] {
        let page = other.at(&format!("{}?payment={named}", other.path())).open().await?;
        page.shows(200, &["$5.00"]);
        assert!(page.can_be_paid() && !page.html.contains("role=\"alert\"><p>"), "{named}");
    }
    Ok(())
}

#[tokio::test]
async fn a_paid_link_stays_paid_when_its_payment_goes_back() -> Result<()> {
    let merchant = merchant().await?;
    let (made, payer) = link(&merchant, 500).await?;
    let payment = payment_made(&payer.submit("tok_ok").await?).context("a payment")?;
    ok(&merchant.void(&payment).await?);
    assert_eq!(shown(&merchant, &made).await?["status"], "paid");
    assert_eq!(payment_made(&payer.submit("tok_ok").await?), None);
    payer.open().await?.shows(200, &["Paid on"]);
    assert_eq!(told(&merchant, &made).await?, ["payment_link.paid"]);
    Ok(())
}
