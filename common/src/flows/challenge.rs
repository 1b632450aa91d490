//! A challenge of 3-D Secure: where the cardholder goes on, and what happens on the way back.
//!
//! Whoever comes back says nothing that counts: the operation is looked up at the provider (docs/architecture.md).

use sqlx::PgPool;

use super::PageKind;
use crate::error::{Error, Result};
use crate::id::OperationId;
use crate::payments::{self, Payment};

/// A payment whose cardholder is, or was, asked.
#[derive(Debug)]
pub struct Challenge {
    /// The payment as it stands.
    pub payment: Payment,
    /// What charges for it: to be woken when somebody comes back.
    pub operation: OperationId,
    /// Where the cardholder came from.
    pub from: From,
}

/// Where a cardholder came from, and is sent back to.
#[derive(Clone, Debug)]
pub enum From {
    /// A payment page of ours, by the end of its address.
    Page(PageKind, String),
    /// A page of the merchant.
    Merchant(String),
    /// Nowhere that was told.
    Nowhere,
}

/// Finds what a challenge is about, by what our address of it ends with.
///
/// # Errors
/// [`Error::NotFound`] for an address that is none.
pub async fn challenge(db: &PgPool, action_token: &str) -> Result<Challenge> {
    let row = sqlx::query!(
        r#"SELECT o.id, o.account_id, p.id AS payment_id, p.return_url, i.page_token AS "invoice?",
                  l.page_token AS "link?"
           FROM operations o JOIN payments p ON p.account_id = o.account_id AND p.id = o.payment_id
           LEFT JOIN invoices i ON i.account_id = p.account_id AND i.id = p.invoice_id
           LEFT JOIN payment_links l ON l.account_id = p.account_id AND l.id = p.payment_link_id
           WHERE o.action_token = $1"#,
        action_token,
    )
    .fetch_optional(db)
    .await?
    .ok_or_else(|| Error::no_such("challenge", ""))?;
    let from = match (row.invoice, row.link, row.return_url) {
        (Some(token), _, _) => From::Page(PageKind::Invoice, token),
        (None, Some(token), _) => From::Page(PageKind::Link, token),
        (None, None, Some(url)) => From::Merchant(url),
        (None, None, None) => From::Nowhere,
    };
    let payment = payments::retrieve(db, row.account_id, row.payment_id).await?;
    Ok(Challenge { payment, operation: row.id, from })
}
