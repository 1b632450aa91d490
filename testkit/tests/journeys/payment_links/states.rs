//! Link states: each link ends once, and stays consistent by database constraints.

use anyhow::Result;

use super::{UNKNOWN, cancel, current, event_types, expire, link, link_id, set};
use crate::support::{concurrently, conflict, id, merchant, ok, uuid, with, without};

#[tokio::test]
async fn links_are_cancelled_once() -> Result<()> {
    let merchant = merchant().await?;
    let made = link(&merchant).await?;
    let link = id(&made)?;
    let response = cancel(&merchant, &link).await?;
    assert!(ok(&response)["cancelledAt"].is_string());
    assert_eq!(
        without(response.body.clone(), "cancelledAt"),
        with(with(made, "status", "cancelled"), "version", 2),
        "cancelling changes nothing else"
    );
    for again in concurrently(10, async |_| cancel(&merchant, &link).await).await? {
        assert_eq!(ok(&again), &response.body, "cancelling again returns the cancelled link");
    }
    assert_eq!(current(&merchant, &link).await?, response.body);
    let events = merchant.books.events(&link).await?;
    assert_eq!(
        events,
        [("payment_link.cancelled".to_owned(), response.body)],
        "one event, with the object as the API returns it"
    );
    Ok(())
}

#[tokio::test]
async fn paid_and_expired_links_cannot_be_cancelled() -> Result<()> {
    let merchant = merchant().await?;
    let paid = link_id(&merchant).await?;
    let payment = uuid(&merchant.charge(500).await?)?;
    let paid_columns = format!("status = 'paid', paid_at = now(), payment_id = '{payment}', expiry_due_at = NULL");
    set(&merchant, &paid, &paid_columns).await?;
    conflict(&cancel(&merchant, &paid).await?);
    assert_eq!(current(&merchant, &paid).await?["status"], "paid");
    let expired = link_id(&merchant).await?;
    expire(&merchant, &expired).await?;
    conflict(&cancel(&merchant, &expired).await?);
    assert_eq!(current(&merchant, &expired).await?["status"], "expired");
    assert!(event_types(&merchant, &expired).await?.iter().all(|kind| kind == "payment_link.expired"));
    Ok(())
}

#[tokio::test]
async fn constraints_reject_inconsistent_links() -> Result<()> {
    let (merchant, other_merchant) = (merchant().await?, merchant().await?);
    let made = link_id(&merchant).await?;
    let payment = uuid(&merchant.charge(500).await?)?;
    let foreign = uuid(&other_merchant.charge(500).await?)?;
    let ends = "expiry_due_at = NULL";
    for (columns, constraint) in [
        ("expires_at = created_at, expiry_due_at = created_at".to_owned(), "payment_links_expires_later"),
        ("expiry_due_at = now()".to_owned(), "payment_links_only_open_expires"),
        ("status = 'expired'".to_owned(), "payment_links_only_open_expires"),
        (format!("status = 'paid', {ends}"), "payment_links_paid_is_paid"),
        (format!("status = 'paid', paid_at = now(), {ends}"), "payment_links_paid_is_paid"),
        (format!("paid_at = now(), payment_id = '{payment}'"), "payment_links_paid_is_paid"),
        (format!("status = 'paid', paid_at = now(), payment_id = '{foreign}', {ends}"), "payment_links_payment"),
        (format!("status = 'cancelled', {ends}"), "payment_links_cancelled_at"),
        ("cancelled_at = now()".to_owned(), "payment_links_cancelled_at"),
        ("page_token = 'short'".to_owned(), "payment_links_page_token_check"),
        ("amount = 0".to_owned(), "payment_links_amount_check"),
    ] {
        let error = set(&merchant, &made, &columns).await.expect_err(&columns);
        let violated = error.as_database_error().and_then(|error| error.constraint());
        assert_eq!(violated, Some(constraint), "{columns}: {error}");
    }
    // A payment cannot refer to a link of another account.
    for not_a_link in [UNKNOWN, &link_id(&other_merchant).await?] {
        let error = sqlx::query("UPDATE payments SET payment_link_id = $2 WHERE id = $1")
            .bind(payment)
            .bind(uuid(not_a_link)?)
            .execute(&merchant.books.db)
            .await
            .expect_err("no such link");
        assert!(error.to_string().contains("payments_payment_link"), "{error}");
    }
    assert_eq!(current(&merchant, &made).await?["status"], "open");
    Ok(())
}
