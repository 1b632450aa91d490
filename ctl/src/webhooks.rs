//! `ctl webhooks …`

use anyhow::{Context, Result};
use clap::{Args, Subcommand, ValueEnum};
use common::error::Error;
use common::events::EventType;
use common::id::{AccountId, WebhookDeliveryId, WebhookEndpointId};
use common::queues;
use common::time::Timestamp;
use common::webhooks::replays::{Wanted, replayable};
use common::webhooks::{EndpointStatus, admin, deliveries};
use serde_json::json;

use crate::output::Output;
use crate::{Ctl, entry, instant};

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Every endpoint that is not deleted, newest first, without its secret.
    List(List),
    /// The endpoints with most before them that is due.
    Backlog {
        /// Of this account alone (acct_…).
        #[arg(long)]
        account: Option<AccountId>,
        /// So many at most.
        #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(i64).range(1..=1_000))]
        limit: i64,
    },
    /// Give an endpoint a new secret, which is shown this once; the former one signs too for 24 hours.
    RotateSecret {
        /// The endpoint (we_…).
        id: WebhookEndpointId,
        /// Though a former secret still signs: that one ends at once.
        #[arg(long)]
        again: bool,
    },
    /// Send events to an endpoint once more: one delivery for each, beside the retries that go on.
    Replay(Replay),
}

#[derive(Args)]
pub(crate) struct List {
    /// Of this account alone (acct_…).
    #[arg(long)]
    account: Option<AccountId>,
    /// Of this status alone.
    #[arg(long, value_enum, ignore_case = true)]
    status: Option<StatusArg>,
    /// Those alone whose attempts fail.
    #[arg(long)]
    failing: bool,
    /// Those alone whose deliveries are held because they cannot be signed.
    #[arg(long)]
    unsigned: bool,
}

#[derive(Clone, Copy, ValueEnum)]
enum StatusArg {
    Enabled,
    Disabled,
}

impl List {
    fn shows(&self, row: &admin::EndpointRow) -> bool {
        let has_status = |status| match status {
            StatusArg::Enabled => row.status == EndpointStatus::Enabled,
            StatusArg::Disabled => row.status == EndpointStatus::Disabled,
        };
        self.status.is_none_or(has_status)
            && (!self.failing || row.failing_since.is_some())
            && (!self.unsigned || row.signing_failed_since.is_some())
    }
}

/// Deliveries that are written in one transaction.
const BATCH: usize = 100;

#[derive(Args)]
pub(crate) struct Replay {
    /// The endpoint (we_…).
    #[arg(long)]
    endpoint: WebhookEndpointId,
    /// Events that happened then or later, such as 2026-11-21T00:00:00Z.
    #[arg(long, value_parser = instant)]
    since: Timestamp,
    /// And before this.
    #[arg(long, value_parser = instant)]
    until: Option<Timestamp>,
    /// Of these types alone, such as payment.captured,invoice.paid.
    #[arg(long, value_delimiter = ',', value_parser = event_type)]
    events: Vec<EventType>,
    /// Those alone that the endpoint has never taken, and that are not tried any more.
    #[arg(long)]
    failed_only: bool,
    /// Go on after this delivery (whd_…), where an earlier run was broken off.
    #[arg(long)]
    after: Option<WebhookDeliveryId>,
    /// Count them, and send nothing.
    #[arg(long)]
    dry_run: bool,
}

fn event_type(text: &str) -> Result<EventType, String> {
    EventType::ALL.iter().copied().find(|event| event.name() == text).ok_or_else(|| format!("{text} is no event"))
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
            let shown = rows.iter().filter(|row| list.shows(row)).map(endpoint);
            Ok(Output::list("endpoints", shown, &COLUMNS))
        }
        Command::Backlog { account, limit } => {
            let rows = admin::backlog(&ctl.db, account, limit).await?;
            Ok(Output::rows("endpoints", &rows, &BACKLOG_COLUMNS)?)
        }
        Command::Replay(args) => replay(ctl, args).await,
        Command::RotateSecret { id, again } => rotate_secret(ctl, id, again).await,
    }
}

/// What the merchant hears of it is this answer alone, so nobody may rotate again by mistake after it was lost.
async fn rotate_secret(ctl: &Ctl, id: WebhookEndpointId, again: bool) -> Result<Output> {
    let encryption = ctl.fitting_keys().await?.encryption;
    let mut act = ctl.act().await?;
    let rotated = admin::rotate_secret(&mut act, encryption, id, again).await;
    let refused = matches!(rotated, Err(Error::Conflict(_)));
    let (account, made) = rotated.map_err(|error| {
        let error = anyhow::Error::new(error);
        if refused { error.context("not rotated; --again rotates all the same") } else { error }
    })?;
    let committed = act.commit(&entry("webhooks.rotate_secret", account, id, json!({}))).await;
    committed.with_context(|| {
        format!(
            "{id} may have been rotated, to a secret that nobody knows; `ctl webhooks list` shows whether a former one signs. Running \
             this again, with --again, then ends the merchant's present secret at once"
        )
    })?;
    Ok(Output::new(vec![("id", json!(id)), ("secret", json!(made.secret.expose()))]))
}

/// In batches, each with its record. What was written stays when a later batch fails; a second run goes on after it.
async fn replay(ctl: &Ctl, args: Replay) -> Result<Output> {
    let wanted = Wanted {
        since: args.since,
        until: args.until,
        events: args.events,
        failed_only: args.failed_only,
        after: args.after,
    };
    let (account, found) = replayable(&ctl.db, args.endpoint, &wanted).await?;
    let mut last = args.after;
    let batches = found.chunks(if args.dry_run { usize::MAX } else { BATCH });
    for batch in batches.filter(|_| !args.dry_run) {
        replay_batch(ctl, account, args.endpoint, batch).await.with_context(|| match last {
            Some(last) => format!("broken off; go on with --after {last}"),
            None => "nothing was sent".to_owned(),
        })?;
        last = batch.last().copied();
    }
    Ok(Output::new(vec![
        ("endpoint", json!(args.endpoint)),
        ("account", json!(account)),
        ("events", json!(found.len())),
        ("replayed", json!(if args.dry_run { 0 } else { found.len() })),
        ("first", json!(found.first())),
        ("last", json!(found.last())),
    ]))
}

async fn replay_batch(
    ctl: &Ctl,
    account: AccountId,
    endpoint: WebhookEndpointId,
    batch: &[WebhookDeliveryId],
) -> Result<()> {
    let mut act = ctl.act().await?;
    for id in batch {
        deliveries::replay_within(&mut act, account, *id, ctl.clock.now()).await?;
    }
    act.wake(queues::WEBHOOKS, endpoint.uuid());
    let detail = json!({"deliveries": batch.len(), "first": batch.first(), "last": batch.last()});
    act.commit(&entry("webhooks.replay", account, endpoint, detail)).await?;
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
