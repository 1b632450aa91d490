//! The figures of the first page.

use anyhow::{Context, Result};
use futures_util::future::try_join_all;
use serde_json::json;
use testkit::receiver::Reply;

use super::Visitor;
use crate::support::{Receiver, created, eventually, id, merchant, ok, payment, sale};

/// The figures, recounted from payments and refunds: kind, currency, count, amount.
const RECOUNT: &str = "
    SELECT 'approved', currency, count(*), sum(amount)::bigint FROM payments
    WHERE account_id = $1 AND status NOT IN ('processing', 'requires_action', 'declined', 'failed') GROUP BY currency
    UNION ALL SELECT 'captured', currency, count(*), sum(amount_captured)::bigint FROM payments
    WHERE account_id = $1 AND captured_at IS NOT NULL GROUP BY currency
    UNION ALL SELECT 'declined', currency, count(*), sum(amount_requested)::bigint FROM payments
    WHERE account_id = $1 AND status = 'declined' GROUP BY currency
    UNION ALL SELECT 'refunded', p.currency, count(*), sum(r.amount)::bigint
    FROM refunds r JOIN payments p ON p.account_id = $1 AND p.id = r.payment_id
    WHERE r.account_id = $1 AND r.status = 'succeeded' GROUP BY p.currency
    UNION ALL SELECT 'voided', currency, count(*), sum(amount_captured)::bigint FROM payments
    WHERE account_id = $1 AND status = 'cancelled' AND amount_captured > 0 GROUP BY currency
    ORDER BY 1, 2";

const FIGURES: &str = "
    SELECT kind, currency, sum(count)::bigint, sum(amount)::bigint FROM figures WHERE account_id = $1
    GROUP BY kind, currency ORDER BY 1, 2";

/// What there is at present, recounted from the objects.
const STANDING_RECOUNT: &str = "
    SELECT 'disputes', currency, count(*), sum(amount)::bigint FROM disputes
    WHERE account_id = $1 AND status = 'needs_response' GROUP BY currency
    UNION ALL SELECT 'invoices', currency, count(*), sum(amount)::bigint FROM invoices
    WHERE account_id = $1 AND status IN ('open', 'scheduled') GROUP BY currency
    UNION ALL SELECT 'subscriptions', p.currency, count(*), sum(round(p.amount / 12.0))::bigint
    FROM subscriptions s JOIN plans p ON p.id = s.plan_id WHERE s.account_id = $1 AND s.status = 'active' GROUP BY p.currency
    ORDER BY 1, 2";

const STANDING_FIGURES: &str = "
    SELECT kind, currency, sum(count)::bigint, sum(amount)::bigint FROM (
        SELECT kind, currency, count, amount FROM standing_figures WHERE account_id = $1
        UNION ALL SELECT kind, currency, count, amount FROM standing_figure_changes WHERE account_id = $1) f
    GROUP BY kind, currency HAVING sum(count) <> 0 ORDER BY 1, 2";

type Sums = Vec<(String, String, i64, i64)>;

#[tokio::test]
async fn figures_are_those_of_a_recount() -> Result<()> {
    let merchant = merchant().await?;
    let visitor = Visitor::signed_in(&merchant, "viewer").await?;
    let empty = visitor.open("/test").await?;
    assert!(empty.html.contains("Nothing yet."), "{}", empty.html);
    let euros = json!({"amount": 700, "currency": "EUR", "paymentToken": "tok_ok"});
    let mut held = sale(2_000);
    held["capture"] = false.into();
    for body in [sale(5_000), euros, payment(900, "tok_insufficient"), payment(901, "tok_lost"), held.clone()] {
        // A declined payment is created as well.
        created(&merchant.api.post("/v1/payments", body).await?);
    }
    let refunded = id(created(&merchant.api.post("/v1/payments", sale(4_000)).await?))?;
    merchant.refund(&refunded, Some(1_500)).await?;
    merchant.refund(&refunded, None).await?;
    merchant.wait_for_status(&refunded, "refunded").await?;
    let voided = id(created(&merchant.api.post("/v1/payments", sale(3_000)).await?))?;
    merchant.api.post(&format!("/v1/payments/{voided}/void"), json!({})).await?;
    merchant.wait_for_status(&voided, "cancelled").await?;
    let captured = id(created(&merchant.api.post("/v1/payments", held).await?))?;
    merchant.api.post(&format!("/v1/payments/{captured}/capture"), json!({"amount": 1_250})).await?;
    merchant.wait_for_status(&captured, "pending_settlement").await?;

    let account = sqlx::types::Uuid::from_u128(
        ulid::Ulid::from_string(&merchant.account.id[5..]).map_err(|error| anyhow::anyhow!("{error:?}"))?.0,
    );
    let read = async |query: &'static str| -> Result<Sums> {
        Ok(sqlx::query_as(query).bind(account).fetch_all(&merchant.books.db).await?)
    };
    let expected = read(RECOUNT).await?;
    assert_eq!(expected.len(), 7, "{expected:?}");
    let is_complete = async || {
        try_join_all((0..5).map(|_| visitor.open("/test"))).await?;
        let counted = read(FIGURES).await?;
        Ok((counted == expected).then_some(()))
    };
    if let Err(error) = eventually("the figures are complete", is_complete).await {
        anyhow::bail!("{error}: {:?} instead of {expected:?}", read(FIGURES).await?);
    }
    try_join_all((0..5).map(|_| visitor.open("/test"))).await?;
    assert_eq!(read(FIGURES).await?, expected, "each event counts once");
    let page = visitor.open("/test").await?;
    // 5,000 + 4,000 + 3,000 - 3,000 + 1,250; five of seven were approved.
    for part in ["USD 102.50", "EUR 7.00", "71.4%", "USD 40.00", "Insufficient funds 1", "Lost card 1", "<rect"] {
        assert!(page.html.contains(part), "{part} in {}", page.html);
    }
    Ok(())
}

#[tokio::test]
async fn figures_of_the_present_are_those_of_a_recount() -> Result<()> {
    let merchant = merchant().await?;
    let visitor = Visitor::signed_in(&merchant, "viewer").await?;
    let read = async |query: &'static str| -> Result<Sums> {
        Ok(sqlx::query_as(query).bind(merchant.books.account).fetch_all(&merchant.books.db).await?)
    };
    let assert_shown = async |parts: &[&str]| {
        let (counted, expected) = (read(STANDING_FIGURES).await?, read(STANDING_RECOUNT).await?);
        assert_eq!(counted, expected);
        let html = visitor.open("/test").await?.html;
        for part in parts {
            assert!(html.contains(part), "{part} in {html}");
        }
        anyhow::Ok(())
    };
    assert_shown(&["Invoices due (0)", "Active subscriptions (0)", "Failing endpoints (0)"]).await?;
    let customer = merchant.customer().await?;
    created(&merchant.save_card(&customer, "tok_ok").await?);
    let mut invoices = Vec::new();
    for (currency, amount) in [("USD", 500), ("USD", 700), ("EUR", 900)] {
        let body =
            json!({"customerId": customer, "currency": currency, "amount": amount, "dueAt": "2020-01-01T00:00:00Z"});
        invoices.push(id(created(&merchant.api.post("/v1/invoices", body).await?))?);
    }
    let plan = json!({"name": "Gold", "amount": 12_000, "currency": "USD", "interval": "year"});
    let plan = id(created(&merchant.api.post("/v1/plans", plan).await?))?;
    let body = json!({"customerId": customer, "planId": plan});
    let subscription = id(created(&merchant.api.post("/v1/subscriptions", body).await?))?;
    let disputed = merchant.charge(400).await?;
    merchant.dispute(&disputed).await?;
    let parts =
        ["Invoices overdue (3)", "USD 12.00", "EUR 9.00", "Active subscriptions (1)", "USD 10.00", "response (1)"];
    assert_shown(&parts).await?;
    ok(&merchant.api.post(&format!("/v1/invoices/{}/void", invoices[0]), json!({})).await?);
    let later = json!({"collectAt": "2090-01-01T00:00:00Z"});
    ok(&merchant.api.post(&format!("/v1/invoices/{}/schedule", invoices[1]), later).await?);
    ok(&merchant.api.post(&format!("/v1/subscriptions/{subscription}/cancel"), json!({})).await?);
    assert_shown(&["Invoices due (2)", "USD 7.00", "Active subscriptions (0)"]).await?;
    // The scheduler adds the changes up, and forgets what is zero.
    eventually("the changes are added up", async || {
        let left = "SELECT (SELECT count(*) FROM standing_figure_changes WHERE account_id = $1)
                        + (SELECT count(*) FROM standing_figures WHERE account_id = $1 AND count = 0)";
        Ok((merchant.books.count(left).await? == 0).then_some(()))
    })
    .await?;
    assert_shown(&["Invoices due (2)", "USD 7.00", "EUR 9.00", "Active subscriptions (0)", "response (1)"]).await
}

#[tokio::test]
async fn failing_endpoints_are_counted_and_named() -> Result<()> {
    let merchant = merchant().await?;
    let receiver = Receiver::start(|_| Reply::status(503)).await?;
    let url = receiver.url("/hook");
    created(&merchant.api.post("/v1/webhook_endpoints", json!({"url": url})).await?);
    created(&merchant.api.post("/v1/payments", sale(500)).await?);
    let visitor = Visitor::signed_in(&merchant, "viewer").await?;
    let part = "<a href=\"/test/webhooks\"><span>Failing endpoints (1)</span></a>";
    let is_counted = async || Ok(visitor.open("/test").await?.html.contains(part).then_some(()));
    eventually("the endpoint fails", is_counted).await?;
    let list = visitor.open("/test/webhooks").await?.html;
    let (_, failing) = list.split_once("<h2>Failing endpoints</h2>").context("a section")?;
    assert!(failing.contains(&url) && failing.contains("since <time"), "{failing}");
    Ok(())
}

#[tokio::test]
async fn figures_of_another_time_zone_lead_to_what_they_count() -> Result<()> {
    let merchant = merchant().await?;
    // There, today began up to 14 hours before it did in UTC; or it has begun in UTC only.
    let zone = "UPDATE accounts SET timezone = 'Pacific/Kiritimati' WHERE id = $1";
    sqlx::query(zone).bind(merchant.books.account).execute(&merchant.books.db).await?;
    let payment = id(created(&merchant.api.post("/v1/payments", sale(500)).await?))?;
    let visitor = Visitor::signed_in(&merchant, "viewer").await?;
    let link = eventually("the payment is counted", async || {
        let html = visitor.open("/test").await?.html;
        let today = html.split_once("<h2>Today</h2>").and_then(|(_, rest)| rest.split_once("<h2>30 days</h2>"));
        let link = today.and_then(|(today, _)| today.split_once("<a href=\"")?.1.split('"').next());
        Ok(link.map(|link| link.replace("&amp;", "&")))
    })
    .await?;
    assert!(link.starts_with("/test/payments?currency=USD&from=") && link.contains("T10:00:00.000Z"), "{link}");
    let list = visitor.open(&link).await?.html;
    assert!(list.contains(&payment) && list.contains("Created from: "), "{list}");
    Ok(())
}

#[tokio::test]
async fn the_number_of_overdue_invoices_leads_to_exactly_these() -> Result<()> {
    let merchant = merchant().await?;
    let customer = merchant.customer().await?;
    let mut body = json!({"customerId": customer, "currency": "USD", "amount": 500});
    // Due on receipt: not overdue before tomorrow.
    let today = created(&merchant.api.post("/v1/invoices", body.clone()).await?)["createdAt"].clone();
    let begin = format!("{}T00:00:00Z", today.as_str().and_then(|time| time.get(..10)).context("a day")?);
    let mut made = Vec::new();
    for due in ["2020-01-01T00:00:00Z", "2020-01-01T00:00:00Z", begin.as_str(), "2090-01-01T00:00:00Z"] {
        body["dueAt"] = due.into();
        made.push(id(created(&merchant.api.post("/v1/invoices", body.clone()).await?))?);
    }
    ok(&merchant.api.post(&format!("/v1/invoices/{}/void", made[1]), json!({})).await?);
    let visitor = Visitor::signed_in(&merchant, "viewer").await?;
    let home = visitor.open("/test").await?.html;
    let (_, link) = home.split_once("&amp;status=scheduled&amp;dueTo=").context("a link")?;
    let (yesterday, figure) = link.split_once('"').context("the end of the link")?;
    assert!(figure.starts_with("><span>Invoices overdue (1)</span>"), "{home}");
    let query = format!("status=open&status=scheduled&dueTo={yesterday}");
    let list = visitor.open(&format!("/test/invoices?{query}")).await?.html;
    assert!(list.contains(&made[0]) && list.matches("<tr>").count() == 1 + 1, "{list}");
    assert!(list.contains(&format!("name=\"dueTo\" value=\"{yesterday}\"")), "{list}");
    let csv = visitor.open(&format!("/test/invoices.csv?{query}")).await?.html;
    assert!(csv.contains(&made[0]) && csv.lines().count() == 1 + 1, "{csv}");
    Ok(())
}
