//! `ctl why X`: what an operator has in hand, and what it is.

use anyhow::{Result, bail};
use clap::Args;
use common::flows::find::{self, Findings, Within};
use common::id::{AccountId, InvoiceId};
use common::time::Timestamp;
use serde_json::json;

use crate::inspect::{self, Invoices, Payments};
use crate::output::Output;
use crate::{Ctl, instant};

#[derive(Args)]
pub(crate) struct Why {
    /// An id of ours (pay_…, ref_…, op_…, inv_…, key_…, evt_…), a provider's name for a transaction or our reference for it, a Request-Id
    /// (req_…), an e-mail address, or the last four digits of a card.
    what: String,
    /// In this account alone (acct_…): a search by the digits of a card then reaches further back.
    #[arg(long)]
    account: Option<AccountId>,
    /// Of a card: in payments from before this, such as 2026-11-21T00:00:00Z.
    #[arg(long, value_parser = instant)]
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
        let reached =
            searched_back_to.map(|at| format!(" in payments since {at}; --account or --before search others"));
        bail!("nothing is known by that{}", reached.unwrap_or_default());
    }
    let output = Output::rows("found", &found, &COLUMNS)?.and(vec![("searched_back_to", json!(searched_back_to))]);
    // Of one payment, or of one invoice, all there is to say.
    let payment = found[0].payment.filter(|id| found.iter().all(|one| one.payment == Some(*id)));
    let invoice = found[0].id.parse::<InvoiceId>().ok().filter(|_| found.len() == 1);
    Ok(match (invoice, payment) {
        (Some(id), _) => output.and(inspect::invoices(ctl, Invoices::Why { id }).await?.into_facts()),
        (None, Some(id)) => output.and(inspect::payments(ctl, Payments::Show { id }).await?.into_facts()),
        (None, None) => output,
    })
}
