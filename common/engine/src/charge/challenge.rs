//! A 3-D Secure challenge: where to send the cardholder, and what to do on return.
//!
//! The return itself proves nothing: the operation is looked up at the provider (docs/architecture.md).

use sqlx::PgPool;

use crate::pay_page::PageKind;
use domain::payments::{self, Payment};
use foundation::error::{Error, Result};
use foundation::id::OperationId;
use providers::ProviderKind;

/// A payment whose cardholder has or had a challenge.
#[derive(Debug)]
pub struct Challenge {
    pub payment: Payment,
    /// The operation that charges for it, to wake when the cardholder returns.
    pub operation: OperationId,
    /// The provider that challenges.
    pub provider: ProviderKind,
    /// Where to send the cardholder afterwards.
    pub return_to: ReturnTo,
    /// The code of the language that the payer chose on the page, if one was chosen.
    pub language: Option<String>,
}

/// Where a cardholder came from and is sent back to.
#[derive(Clone, Debug)]
pub enum ReturnTo {
    /// One of our payment pages, by its kind and page token.
    Page(PageKind, String),
    /// The merchant's return URL.
    Merchant(String),
    /// No return URL was given.
    Unspecified,
}

/// Finds a challenge by its action token.
///
/// # Errors
/// [`Error::NotFound`] for an unknown token.
pub async fn challenge(db: &PgPool, action_token: &str) -> Result<Challenge> {
    let row = sqlx::query!(
        r#"SELECT o.id, o.account_id, p.id AS payment_id, p.return_url, p.payer_language, s.provider,
                  i.page_token AS "invoice?", l.page_token AS "link?"
           FROM operations o JOIN payments p ON p.account_id = o.account_id AND p.id = o.payment_id
           JOIN provider_accounts s ON s.id = o.provider_account_id
           LEFT JOIN invoices i ON i.account_id = p.account_id AND i.id = p.invoice_id
           LEFT JOIN payment_links l ON l.account_id = p.account_id AND l.id = p.payment_link_id
           WHERE o.action_token = $1"#,
        action_token,
    )
    .fetch_optional(db)
    .await?
    .ok_or_else(|| Error::no_such("challenge", ""))?;
    let return_to = match (row.invoice, row.link, row.return_url) {
        (Some(token), _, _) => ReturnTo::Page(PageKind::Invoice, token),
        (None, Some(token), _) => ReturnTo::Page(PageKind::Link, token),
        (None, None, Some(url)) => ReturnTo::Merchant(url),
        (None, None, None) => ReturnTo::Unspecified,
    };
    let payment = payments::retrieve(db, row.account_id, row.payment_id).await?;
    Ok(Challenge { payment, operation: row.id, provider: row.provider, return_to, language: row.payer_language })
}
