//! The figures of the first page.

use anyhow::{Context, Result};
use futures_util::future::try_join_all;
use serde_json::json;

use super::Visitor;
use crate::support::{created, eventually, id, merchant, ok, payment, sale};

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
