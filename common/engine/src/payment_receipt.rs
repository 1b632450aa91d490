//! The receipt of a payment of no invoice and no link, which has no page, and the page on which its customer stops receipts.

use sqlx::PgPool;

use domain::accounts::{self, Payee};
use domain::customers;
use domain::mails;
use domain::payments::{self, Payment};
use foundation::error::Result;
use foundation::id::{AccountId, CustomerId, PaymentId};

/// What the receipt says.
#[derive(Debug)]
pub struct PaymentReceipt {
    pub payee: Payee,
    pub payment: Payment,
    /// The name of the customer.
    pub billed_to: Option<String>,
    /// The token of the page on which the customer stops receipts.
    pub page_token: String,
}

/// Reads what the receipt of a payment says.
///
/// # Errors
/// [`foundation::error::Error::NotFound`] for an unknown payment.
pub async fn payment_receipt(
    db: &PgPool,
    account: AccountId,
    payment: PaymentId,
    customer: CustomerId,
) -> Result<PaymentReceipt> {
    let page_token = mails::customer_page(db, account, customer).await?;
    let payment = payments::retrieve(db, account, payment).await?;
    let customer = customers::find(db, account, customer).await?;
    let payee = accounts::payee(&mut *db.acquire().await?, account).await?;
    Ok(PaymentReceipt { payee, payment, billed_to: customer.map(|customer| customer.name), page_token })
}

/// The customer of the page on which receipts are stopped, and the merchant.
///
/// # Errors
/// [`foundation::error::Error::NotFound`] for an unknown token.
pub async fn customer_page(db: &PgPool, token: &str) -> Result<(Payee, CustomerId)> {
    let (account, customer) = mails::customer_of_page(db, token).await?;
    Ok((accounts::payee(&mut *db.acquire().await?, account).await?, customer))
}
