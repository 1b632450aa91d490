//! `ctl payments …` and `ctl invoices …`: the state of a payment or an invoice, and the reason for it.

use anyhow::Result;
use clap::Subcommand;
use domain::invoices::InvoiceView;
use foundation::id::{InvoiceId, PaymentId};
use foundation::public_url;
use operator::TimelineEntry;
use serde_json::{Map, Value, json};

use crate::Ctl;
use crate::output::Output;

#[derive(Subcommand)]
pub(crate) enum Payments {
    /// Show a payment's complete history, its current state, and what happens next.
    #[command(visible_alias = "why")]
    Show {
        /// The payment (pay_…).
        id: PaymentId,
    },
}

#[derive(Subcommand)]
pub(crate) enum Invoices {
    /// Explain why an invoice is not collected.
    Why {
        /// The invoice (inv_…).
        id: InvoiceId,
    },
}

pub(crate) async fn payments(ctl: &Ctl, command: Payments) -> Result<Output> {
    let Payments::Show { id } = command;
    // The payment may contain the URL of a cardholder authentication page.
    public_url::set(foundation::config::public_url()?);
    let history = operator::payment_history(&ctl.db, id).await?;
    let incomplete = (!history.complete).then_some("the account has too many events since then; some may be missing");
    Ok(Output::new(vec![
        ("id", json!(id)),
        ("account", json!(history.account)),
        ("payment", history.payment),
        ("story", history.timeline.iter().map(entry).collect::<Value>()),
        ("incomplete", json!(incomplete)),
        ("verdict", json!(history.verdict)),
    ]))
}

fn entry(entry: &TimelineEntry) -> Value {
    let mut row = Map::from_iter([("at".to_owned(), json!(entry.at)), ("what".to_owned(), json!(entry.label))]);
    let detail = entry.detail.as_object().into_iter().flatten();
    row.extend(detail.filter(|(_, value)| !value.is_null()).map(|(name, value)| (name.clone(), value.clone())));
    Value::Object(row)
}

pub(crate) async fn invoices(ctl: &Ctl, command: Invoices) -> Result<Output> {
    // The invoice contains the URL of its payment page.
    public_url::set(foundation::config::public_url()?);
    let Invoices::Why { id } = command;
    let result = operator::why_invoice(&ctl.db, &ctl.clock, id).await?;
    Ok(Output::new(vec![
        ("id", json!(id)),
        ("account", json!(result.invoice.account_id)),
        ("status", json!(result.invoice.status.name())),
        ("next_attempt_at", json!(result.invoice.next_attempt_at)),
        ("attempts", json!(result.invoice.attempt_count)),
        ("invoice", json!(InvoiceView::new(&result.invoice))),
        ("why", json!(result.why)),
    ]))
}
