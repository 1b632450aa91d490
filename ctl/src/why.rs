//! `ctl why X`: identifies the object that an id, reference or card number belongs to.

use anyhow::{Result, bail};
use clap::Args;
use foundation::id::{AccountId, InvoiceId};
use foundation::time::Timestamp;
use operator::find::{self, Findings, Within};
use serde_json::json;

use crate::inspect::{self, Invoices, Payments};
use crate::output::Output;
use crate::{Ctl, timestamp};

#[derive(Args)]
pub(crate) struct Why {
    /// Any id (pay_…, ref_…, dp_…, op_…, inv_…, key_…, evt_…), a provider's transaction id or our reference for it, a
    /// Request-Id (req_…), an e-mail address, or the last four digits of a card.
    what: String,
    /// Only in this account (acct_…). A search by card digits then reaches further back.
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

pub(crate) async fn run(ctl: &Ctl, args: Why) -> Result<Output> {
    let within = Within { account: args.account, before: args.before };
    let Findings { found, searched_back_to } = find::find(&ctl.db, &args.what, within).await?;
    if found.is_empty() {
        let range = searched_back_to
            .map(|at| format!(" in payments since {at}; use --account or --before to search older payments"));
        bail!("nothing matches{}", range.unwrap_or_default());
    }
    let output = Output::rows("found", &found, &COLUMNS)?.and(vec![("searched_back_to", json!(searched_back_to))]);
    // Add the details if everything found belongs to one payment, or is one invoice.
    let payment = found[0].payment.filter(|id| found.iter().all(|row| row.payment == Some(*id)));
    let invoice = found[0].id.parse::<InvoiceId>().ok().filter(|_| found.len() == 1);
    Ok(match (invoice, payment) {
        (Some(id), _) => output.and(inspect::invoices(ctl, Invoices::Why { id }).await?.into_fields()),
        (None, Some(id)) => output.and(inspect::payments(ctl, Payments::Show { id }).await?.into_fields()),
        (None, None) => output,
    })
}
