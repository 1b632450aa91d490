//! `ctl webhooks …`

use anyhow::Result;
use clap::Subcommand;
use common::id::{AccountId, WebhookEndpointId};
use common::webhooks::admin;
use serde_json::{Value, json};

use crate::{Ctl, entry};
use crate::output::Output;

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Every endpoint that is not deleted, newest first, without its secret.
    List {
        /// Of this account alone (acct_…).
        #[arg(long)]
        account: Option<AccountId>,
    },
    /// Give an endpoint a new secret, which is shown this once; the former one signs too for 24 hours.
    RotateSecret {
        /// The endpoint (we_…).
        id: WebhookEndpointId,
    },
}

pub(crate) async fn run(ctl: &Ctl, command: Command) -> Result<Output> {
    match command {
        Command::List { account } => {
            let rows = admin::list(&ctl.db, account).await?;
            let rows = rows.iter().map(|row| endpoint(row).into_json()).collect();
            Ok(Output::new(vec![("endpoints", Value::Array(rows))]))
        }
        Command::RotateSecret { id } => {
            let mut act = ctl.act().await?;
            let (account, made) = admin::rotate_secret(&mut act, &ctl.encryption, id).await?;
            act.commit(&entry("webhooks.rotate_secret", account, id, json!({}))).await?;
            Ok(Output::new(vec![("id", json!(id)), ("secret", json!(made.secret.expose()))]))
        }
    }
}

fn endpoint(row: &admin::EndpointRow) -> Output {
    Output::new(vec![
        ("id", json!(row.id)),
        ("account", json!(row.account_id)),
        ("url", json!(row.url)),
        ("enabled_events", json!(row.enabled_events)),
        ("status", json!(row.status)),
        ("disabled_reason", json!(row.disabled_reason)),
        ("failing_since", json!(row.failing_since)),
        ("paused_until", json!(row.paused_until)),
        ("former_secret_until", json!(row.previous_secret_until)),
        ("created_at", json!(row.created_at)),
    ])
}
