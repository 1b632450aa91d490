//! `ctl payments …` and `ctl invoices …`: where something stands, and why.

use anyhow::Result;
use clap::Subcommand;
use common::flows::{self, Moment};
use common::id::{InvoiceId, PaymentId};
use common::invoices::InvoiceView;
use common::public_url;
use serde_json::{Map, Value, json};

use crate::Ctl;
use crate::output::Output;

#[derive(Subcommand)]
pub(crate) enum Payments {
    /// The whole story of one payment, in order of time, where it stands, and what happens next.
    #[command(visible_alias = "why")]
    Show {
        /// The payment (pay_…).
        id: PaymentId,
    },
}

#[derive(Subcommand)]
pub(crate) enum Invoices {
    /// Why an invoice is not collected.
    Why {
        /// The invoice (inv_…).
        id: InvoiceId,
    },
}

pub(crate) async fn payments(ctl: &Ctl, command: Payments) -> Result<Output> {
    let Payments::Show { id } = command;
    // The view shows where a cardholder who is asked is to go.
    public_url::set(common::config::public_url()?);
    let story = flows::story_of_payment(&ctl.db, id).await?;
    let incomplete = (!story.whole).then_some("the account has too many events since then; some may be missing here");
    Ok(Output::new(vec![
        ("id", json!(id)),
        ("account", json!(story.account)),
        ("payment", story.payment),
        ("story", story.moments.iter().map(moment).collect::<Value>()),
        ("incomplete", json!(incomplete)),
        ("verdict", json!(story.verdict)),
    ]))
}

fn moment(moment: &Moment) -> Value {
    let mut row = Map::from_iter([("at".to_owned(), json!(moment.at)), ("what".to_owned(), json!(moment.what))]);
    let detail = moment.detail.as_object().into_iter().flatten();
    row.extend(detail.filter(|(_, value)| !value.is_null()).map(|(name, value)| (name.clone(), value.clone())));
    Value::Object(row)
}

pub(crate) async fn invoices(ctl: &Ctl, command: Invoices) -> Result<Output> {
    // The view shows the address of its page.
    public_url::set(common::config::public_url()?);
    let Invoices::Why { id } = command;
    let found = flows::why_invoice(&ctl.db, &ctl.clock, id).await?;
    Ok(Output::new(vec![
        ("id", json!(id)),
        ("account", json!(found.invoice.account_id)),
        ("status", json!(found.invoice.status.name())),
        ("next_attempt_at", json!(found.invoice.next_attempt_at)),
        ("attempts", json!(found.invoice.attempt_count)),
        ("invoice", json!(InvoiceView::new(&found.invoice))),
        ("why", json!(found.why)),
    ]))
}
