//! The figures of the first page.

use anyhow::Result;
use futures_util::future::try_join_all;
use serde_json::json;

use super::Visitor;
use crate::support::{created, eventually, id, merchant, payment, sale};

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
