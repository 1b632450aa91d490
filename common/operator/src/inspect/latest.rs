//! The latest payments and invoices of customers.

use serde::Serialize;
use sqlx::PgPool;
use uuid::Uuid;

use super::find::Found;
use foundation::error::Result;
use foundation::id::{AccountId, CustomerId, InvoiceId, PaymentId};
use foundation::money::Currency;
use foundation::time::Timestamp;

/// Number of payments, and of invoices, shown of each customer.
const SHOWN: usize = 5;

/// A payment or invoice of a customer.
#[derive(Clone, Debug, Serialize)]
pub struct Latest<T> {
    pub id: T,
    pub customer: CustomerId,
    pub status: String,
    pub amount: i64,
    pub currency: Currency,
    pub created_at: Timestamp,
}

/// The latest payments and invoices of customers, of each customer the newest first.
#[derive(Debug)]
pub struct LatestOfCustomers {
    pub payments: Vec<Latest<PaymentId>>,
    pub invoices: Vec<Latest<InvoiceId>>,
    /// The customers that have more payments.
    pub more_payments_of: Vec<CustomerId>,
    /// The customers that have more invoices.
    pub more_invoices_of: Vec<CustomerId>,
}

/// Reads the latest of one table, one more than is shown of each customer. The index ends with the id.
macro_rules! latest {
    ($table:literal, $id:literal, $customers:expr) => {
        sqlx::query_as!(
            Latest,
            r#"SELECT t.id AS "id!: "#
                + $id
                + r#"", c.customer AS "customer!: CustomerId", t.status AS "status!", t.amount AS "amount!",
                      t.currency AS "currency!: Currency", t.created_at AS "created_at!"
               FROM unnest($1::uuid[], $2::uuid[]) c (account, customer)
               CROSS JOIN LATERAL (SELECT id, status::text AS status, amount, currency, created_at FROM "#
                + $table
                + r#"
                                   WHERE account_id = c.account AND customer_id = c.customer
                                   ORDER BY account_id DESC, customer_id DESC, id DESC LIMIT $3) t"#,
            &$customers.iter().map(|(account, _)| account.uuid()).collect::<Vec<Uuid>>(),
            &$customers.iter().map(|(_, customer)| customer.uuid()).collect::<Vec<Uuid>>(),
            SHOWN as i64 + 1,
        )
    };
}

/// Returns the latest payments and invoices of the customers among these rows; `None` if there is no customer.
///
/// # Errors
/// Database errors only.
pub async fn latest_of_customers(db: &PgPool, found: &[Found]) -> Result<Option<LatestOfCustomers>> {
    let customers: Vec<(AccountId, CustomerId)> =
        found.iter().filter_map(|row| row.account.zip(row.id.parse().ok())).collect();
    if customers.is_empty() {
        return Ok(None);
    }
    let payments = latest!("payments", "PaymentId", customers).fetch_all(db).await?;
    let invoices = latest!("invoices", "InvoiceId", customers).fetch_all(db).await?;
    let (payments, more_payments_of) = shown(payments);
    let (invoices, more_invoices_of) = shown(invoices);
    Ok(Some(LatestOfCustomers { payments, invoices, more_payments_of, more_invoices_of }))
}

/// Returns what is shown, and the customers that have more.
fn shown<T: Ord + Copy>(mut rows: Vec<Latest<T>>) -> (Vec<Latest<T>>, Vec<CustomerId>) {
    rows.sort_by_key(|row| (row.customer, std::cmp::Reverse(row.id)));
    let of_customers = || rows.chunk_by(|a, b| a.customer == b.customer);
    let shown = of_customers().flat_map(|rows| rows.iter().take(SHOWN).cloned()).collect();
    (shown, of_customers().filter_map(|rows| rows.get(SHOWN)).map(|row| row.customer).collect())
}
