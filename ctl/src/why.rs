//! `ctl why X`: identifies the object that an id, reference or card number belongs to.

use anyhow::{Result, bail};
use clap::Args;
use foundation::id::{AccountId, CustomerId, InvoiceId};
use foundation::time::Timestamp;
use operator::find::{self, Findings, Found, Within};
use operator::{LatestOfCustomers, latest_of_customers};
use serde_json::{Value, json};

use crate::inspect::{self, Invoices, Payments};
use crate::output::{Output, to_value};
use crate::{Ctl, timestamp};

#[derive(Args)]
pub(crate) struct Why {
    /// Any id (pay_…, ref_…, dp_…, op_…, inv_…, key_…, evt_…), a provider's transaction id or our reference for it, a
    /// Request-Id (req_…), an e-mail address, or the last four digits of a card.
    what: String,
    /// Only in this account (acct_…).
    #[arg(long)]
    account: Option<AccountId>,
    /// For card digits: only payments before this time, such as 2026-11-21T00:00:00Z.
    #[arg(long, value_parser = timestamp)]
    before: Option<Timestamp>,
}

const COLUMNS: [&str; 12] = [
    "what",
    "id",
    "account",
    "account_name",
    "mode",
    "status",
    "amount",
    "currency",
    "created_at",
    "payment",
    "requested_by",
    "request_id",
];

/// The columns of the latest payments and invoices of customers.
const LATEST_COLUMNS: [&str; 6] = ["id", "customer", "status", "amount", "currency", "created_at"];

pub(crate) async fn run(ctl: &Ctl, args: Why) -> Result<Output> {
    let within = Within { account: args.account, before: args.before };
    let Findings { found, searched_back_to } = find::find(&ctl.db, &args.what, within).await?;
    if found.is_empty() {
        bail!("nothing matches");
    }
    let output = Output::rows("found", &found, &COLUMNS)?.and(vec![("searched_back_to", json!(searched_back_to))]);
    // Add the details if everything found belongs to one payment, or is one invoice.
    let payment = found[0].payment.filter(|id| found.iter().all(|row| row.payment == Some(*id)));
    let invoice = found[0].id.parse::<InvoiceId>().ok().filter(|_| found.len() == 1);
    let output = with_latest(ctl, output, &found).await?;
    Ok(match (invoice, payment) {
        (Some(id), _) => output.and(inspect::invoices(ctl, Invoices::Why { id }).await?.into_fields()),
        (None, Some(id)) => output.and(inspect::payments(ctl, Payments::Show { id }).await?.into_fields()),
        (None, None) => output,
    })
}

/// Adds the latest payments and invoices of the customers that were found.
async fn with_latest(ctl: &Ctl, output: Output, found: &[Found]) -> Result<Output> {
    let Some(latest) = latest_of_customers(&ctl.db, found).await? else { return Ok(output) };
    let LatestOfCustomers { payments, invoices, more_payments_of, more_invoices_of } = latest;
    let fields = vec![
        ("payments", to_value(&payments)?),
        ("invoices", to_value(&invoices)?),
        ("more_payments_of", more(&more_payments_of)),
        ("more_invoices_of", more(&more_invoices_of)),
    ];
    Ok(output.and(fields).table("payments", &LATEST_COLUMNS).table("invoices", &LATEST_COLUMNS))
}

/// The customers that have more than is shown; null if there are none.
fn more(customers: &[CustomerId]) -> Value {
    let names: Vec<_> = customers.iter().map(ToString::to_string).collect();
    if names.is_empty() { Value::Null } else { json!(names.join(", ")) }
}
