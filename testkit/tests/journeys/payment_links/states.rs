//! Where a link stands: it ends once, and never anywhere that the constraints refuse.

use anyhow::Result;

use super::{UNKNOWN, cancel, link, link_id, set, shown, time_is_up, told};
use crate::support::{conflict, id, merchant, ok, together, uuid, with, without};

#[tokio::test]
async fn a_link_is_cancelled_once() -> Result<()> {
    let merchant = merchant().await?;
    let made = link(&merchant).await?;
    let link = id(&made)?;
    let answer = cancel(&merchant, &link).await?;
    assert!(ok(&answer)["cancelledAt"].is_string());
    assert_eq!(without(answer.body.clone(), "cancelledAt"), with(made, "status", "cancelled"), "nothing else changes");
    for again in together(10, async |_| cancel(&merchant, &link).await).await? {
        assert_eq!(ok(&again), &answer.body, "a cancelled one is answered as it is");
    }
    assert_eq!(shown(&merchant, &link).await?, answer.body);
    let events = merchant.books.events(&link).await?;
    assert_eq!(events, [("payment_link.cancelled".to_owned(), answer.body)], "told once, as the API shows it");
    Ok(())
}

#[tokio::test]
async fn what_is_paid_or_has_expired_is_not_cancelled() -> Result<()> {
    let merchant = merchant().await?;
    let paid = link_id(&merchant).await?;
    let payment = uuid(&merchant.sold(500).await?)?;
    let pays = format!("status = 'paid', paid_at = now(), payment_id = '{payment}', expiry_due_at = NULL");
    set(&merchant, &paid, &pays).await?;
    conflict(&cancel(&merchant, &paid).await?);
    assert_eq!(shown(&merchant, &paid).await?["status"], "paid");
    let expired = link_id(&merchant).await?;
    time_is_up(&merchant, &expired).await?;
    conflict(&cancel(&merchant, &expired).await?);
    assert_eq!(shown(&merchant, &expired).await?["status"], "expired");
    assert!(told(&merchant, &expired).await?.iter().all(|kind| kind == "payment_link.expired"));
    Ok(())
}

#[tokio::test]
async fn the_schema_refuses_what_no_link_is() -> Result<()> {
    let (merchant, stranger) = (merchant().await?, merchant().await?);
    let made = link_id(&merchant).await?;
    let payment = uuid(&merchant.sold(500).await?)?;
    let foreign = uuid(&stranger.sold(500).await?)?;
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
        let refused = set(&merchant, &made, &columns).await.expect_err(&columns);
        let named = refused.as_database_error().and_then(|error| error.constraint());
        assert_eq!(named, Some(constraint), "{columns}: {refused}");
    }
    // Nor may a payment name what is no link of its account.
    for no_link in [UNKNOWN, &link_id(&stranger).await?] {
        let refused = sqlx::query("UPDATE payments SET payment_link_id = $2 WHERE id = $1")
            .bind(payment)
            .bind(uuid(no_link)?)
            .execute(&merchant.books.db)
            .await
            .expect_err("no such link");
        assert!(refused.to_string().contains("payments_payment_link"), "{refused}");
    }
    assert_eq!(shown(&merchant, &made).await?["status"], "open");
    Ok(())
}
