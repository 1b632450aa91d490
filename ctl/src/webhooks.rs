//! `ctl webhooks …`

use anyhow::{Context, Result};
use clap::{Args, Subcommand, ValueEnum};
use domain::events::EventType;
use domain::webhooks::replays::{ReplayFilter, replayable};
use domain::webhooks::{EndpointStatus, admin, deliveries};
use foundation::error::Error;
use foundation::id::{AccountId, WebhookDeliveryId, WebhookEndpointId};
use foundation::queues;
use foundation::time::Timestamp;
use serde_json::json;

use crate::output::Output;
use crate::{Ctl, entry, timestamp};

#[derive(Subcommand)]
pub(crate) enum Command {
    /// List endpoints that are not deleted, newest first, without their secrets.
    List(List),
    /// List the endpoints with the most due deliveries.
    Backlog {
        /// Only endpoints of this account (acct_…).
        #[arg(long)]
        account: Option<AccountId>,
        /// Maximum number of endpoints.
        #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(i64).range(1..=1_000))]
        limit: i64,
    },
    /// Rotate the secret of an endpoint. The new secret is printed only once; the old one also signs for 24 hours.
    RotateSecret {
        /// The endpoint (we_…).
        id: WebhookEndpointId,
        /// Rotate although an earlier secret still signs; that one expires at once.
        #[arg(long)]
        again: bool,
    },
    /// Send events to an endpoint again: one new delivery for each event, independent of pending retries.
    Replay(Replay),
}

#[derive(Args)]
pub(crate) struct List {
    /// Only endpoints of this account (acct_…).
    #[arg(long)]
    account: Option<AccountId>,
    /// Only endpoints with this status.
    #[arg(long, value_enum, ignore_case = true)]
    status: Option<StatusArg>,
    /// Only endpoints whose attempts fail.
    #[arg(long)]
    failing: bool,
    /// Only endpoints whose deliveries are held because they cannot be signed.
    #[arg(long)]
    unsigned: bool,
}

#[derive(Clone, Copy, ValueEnum)]
enum StatusArg {
    Enabled,
    Disabled,
}

impl List {
    fn matches(&self, row: &admin::EndpointRow) -> bool {
        let has_status = |status| match status {
            StatusArg::Enabled => row.status == EndpointStatus::Enabled,
            StatusArg::Disabled => row.status == EndpointStatus::Disabled,
        };
        self.status.is_none_or(has_status)
            && (!self.failing || row.failing_since.is_some())
            && (!self.unsigned || row.signing_failed_since.is_some())
    }
}

/// Deliveries written in one transaction.
const BATCH: usize = 100;

#[derive(Args)]
pub(crate) struct Replay {
    /// The endpoint (we_…).
    #[arg(long)]
    endpoint: WebhookEndpointId,
    /// Only events since this time, such as 2026-11-21T00:00:00Z.
    #[arg(long, value_parser = timestamp)]
    since: Timestamp,
    /// Only events before this time.
    #[arg(long, value_parser = timestamp)]
    until: Option<Timestamp>,
    /// Only these event types, such as payment.captured,invoice.paid.
    #[arg(long, value_delimiter = ',', value_parser = event_type)]
    events: Vec<EventType>,
    /// Only events that the endpoint never accepted and that are no longer retried.
    #[arg(long)]
    failed_only: bool,
    /// Continue after this delivery (whd_…), where an earlier run was interrupted.
    #[arg(long)]
    after: Option<WebhookDeliveryId>,
    /// Count the events without sending.
    #[arg(long)]
    dry_run: bool,
}

fn event_type(text: &str) -> Result<EventType, String> {
    let event = EventType::ALL.iter().copied().find(|event| event.name() == text);
    event.ok_or_else(|| format!("{text} is not an event type"))
}

const COLUMNS: [&str; 9] = [
    "id",
    "account",
    "url",
    "status",
    "disabled_reason",
    "failing_since",
    "paused_until",
    "signing_failed_since",
    "former_secret_until",
];
const BACKLOG_COLUMNS: [&str; 9] =
    ["id", "account", "account_name", "url", "due", "under_way", "oldest", "failing_since", "paused_until"];

pub(crate) async fn run(ctl: &Ctl, command: Command) -> Result<Output> {
    match command {
        Command::List(list) => {
            let rows = admin::list(&ctl.db, list.account).await?;
            let rows = rows.iter().filter(|row| list.matches(row)).map(endpoint);
            Ok(Output::list("endpoints", rows, &COLUMNS))
        }
        Command::Backlog { account, limit } => {
            let rows = admin::backlog(&ctl.db, account, limit).await?;
            Ok(Output::rows("endpoints", &rows, &BACKLOG_COLUMNS)?)
        }
        Command::Replay(args) => replay(ctl, args).await,
        Command::RotateSecret { id, again } => rotate_secret(ctl, id, again).await,
    }
}

/// The secret is returned only here. If the output is lost, a careless second rotation would end the secret that the
/// merchant uses, so that needs `--again`.
async fn rotate_secret(ctl: &Ctl, id: WebhookEndpointId, again: bool) -> Result<Output> {
    let encryption = ctl.verified_keys().await?.encryption;
    let mut tx = ctl.begin().await?;
    let rotated = admin::rotate_secret(&mut tx, encryption, id, again).await;
    let still_signs = matches!(rotated, Err(Error::Conflict(_)));
    let (account, issued) = rotated.map_err(|error| {
        let error = anyhow::Error::new(error);
        if still_signs { error.context("not rotated; use --again to rotate anyway") } else { error }
    })?;
    let committed = tx.commit(&entry("webhooks.rotate_secret", account, id, json!({}))).await;
    committed.with_context(|| {
        format!(
            "{id} may have been rotated to a secret that was not printed; `ctl webhooks list` shows whether an earlier one signs. \
             Running this with --again then expires the merchant's current secret at once"
        )
    })?;
    Ok(Output::new(vec![("id", json!(id)), ("secret", json!(issued.secret.expose()))]))
}

/// Works in batches, each with its audit record. Committed batches remain if a later one fails; another run can
/// continue.
async fn replay(ctl: &Ctl, args: Replay) -> Result<Output> {
    let filter = ReplayFilter {
        since: args.since,
        until: args.until,
        events: args.events,
        failed_only: args.failed_only,
        after: args.after,
    };
    let (account, deliveries) = replayable(&ctl.db, args.endpoint, &filter).await?;
    let mut last = args.after;
    let batches = deliveries.chunks(if args.dry_run { usize::MAX } else { BATCH });
    for batch in batches.filter(|_| !args.dry_run) {
        replay_batch(ctl, account, args.endpoint, batch).await.with_context(|| match last {
            Some(last) => format!("interrupted; continue with --after {last}"),
            None => "nothing was sent".to_owned(),
        })?;
        last = batch.last().copied();
    }
    Ok(Output::new(vec![
        ("endpoint", json!(args.endpoint)),
        ("account", json!(account)),
        ("events", json!(deliveries.len())),
        ("replayed", json!(if args.dry_run { 0 } else { deliveries.len() })),
        ("first", json!(deliveries.first())),
        ("last", json!(deliveries.last())),
    ]))
}

async fn replay_batch(
    ctl: &Ctl,
    account: AccountId,
    endpoint: WebhookEndpointId,
    batch: &[WebhookDeliveryId],
) -> Result<()> {
    let mut tx = ctl.begin().await?;
    for id in batch {
        deliveries::replay_within(&mut tx, account, *id, ctl.clock.now()).await?;
    }
    tx.wake(queues::WEBHOOKS, endpoint.uuid());
    let detail = json!({"deliveries": batch.len(), "first": batch.first(), "last": batch.last()});
    tx.commit(&entry("webhooks.replay", account, endpoint, detail)).await?;
    Ok(())
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
        ("signing_failed_since", json!(row.signing_failed_since)),
        ("former_secret_until", json!(row.previous_secret_until)),
        ("created_at", json!(row.created_at)),
    ])
}
