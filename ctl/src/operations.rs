//! `ctl operations …`: unfinished operations, and outcomes entered after manual review.

use std::time::Duration;

use anyhow::{Context, Result};
use clap::{Args, Subcommand, ValueEnum};
use domain::charges;
use domain::operations::admin::{self, Filter, OperationRow};
use domain::operations::{OperationKind, State};
use foundation::id::{AccountId, OperationId};
use foundation::public_url;
use operator::Resolution;
use operator::ResolveOptions;
use providers::DeclineType;
use serde_json::json;

use crate::output::Output;
use crate::{Ctl, duration, entry};

#[derive(Subcommand)]
pub(crate) enum Command {
    /// List unfinished operations, oldest first.
    List(List),
    /// Show why operations failed recently, most frequent reason first, among the newest 2,000 of all accounts or of
    /// one.
    Failures(Failures),
    /// Delay when an operation is enqueued. A worker that already has it continues.
    Hold(Hold),
    /// Take an operation from the workers for good: its outcome counts as unknown until `operations resolve`. For
    /// operations that may have been executed in the interval that a restore lost.
    Withhold {
        /// The operation (op_…).
        id: OperationId,
        /// The reason, for the audit log.
        #[arg(long)]
        reason: String,
    },
    /// Enter the provider's outcome of an operation in manual review. It is recorded as if a worker had received it.
    Resolve(Resolve),
}

#[derive(Args)]
pub(crate) struct List {
    /// Only operations with an unknown outcome.
    #[arg(long)]
    unknown: bool,
    /// Only operations of this account (acct_…).
    #[arg(long)]
    account: Option<AccountId>,
    /// Only this kind: sale, authorize, capture, void, refund, store_card, reverse.
    #[arg(long, value_parser = kind)]
    kind: Option<OperationKind>,
    /// Only this state: ready, sending, unknown.
    #[arg(long, value_parser = state)]
    state: Option<State>,
    /// Sort by how often an operation was enqueued without finishing, most often first.
    #[arg(long, conflicts_with = "unknown")]
    most_handed_out: bool,
    /// Maximum number of operations.
    #[arg(long, default_value_t = 200, value_parser = clap::value_parser!(i64).range(1..=10_000))]
    limit: i64,
}

fn kind(text: &str) -> Result<OperationKind, String> {
    let found = OperationKind::ALL.into_iter().find(|kind| kind.name().eq_ignore_ascii_case(text));
    found.ok_or_else(|| format!("not one of {}", OperationKind::ALL.map(OperationKind::name).join(", ")))
}

fn state(text: &str) -> Result<State, String> {
    const UNFINISHED: [State; 3] = [State::Ready, State::Sending, State::Unknown];
    let found = UNFINISHED.into_iter().find(|state| state.name().eq_ignore_ascii_case(text));
    found.ok_or_else(|| format!("not one of {}", UNFINISHED.map(State::name).join(", ")))
}

#[derive(Args)]
pub(crate) struct Failures {
    /// Only operations of this account (acct_…).
    #[arg(long)]
    account: Option<AccountId>,
    /// Maximum number of reasons.
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(i64).range(1..=1_000))]
    limit: i64,
}

#[derive(Args)]
pub(crate) struct Hold {
    /// The operation (op_…).
    id: OperationId,
    /// How long, such as 30m or 1h; at most a day.
    #[arg(long = "for", value_name = "DURATION", default_value = "1h", value_parser = hold_duration)]
    length: Duration,
    /// The reason, for the audit log.
    #[arg(long)]
    reason: String,
}

fn hold_duration(text: &str) -> Result<Duration, &'static str> {
    duration(text)
        .and_then(|time| if time <= Duration::from_secs(86_400) { Ok(time) } else { Err("longer than a day") })
}

#[derive(Args)]
pub(crate) struct Resolve {
    /// The operation (op_…). Its id is also its reference at the provider.
    id: OperationId,
    /// The outcome at the provider.
    #[arg(long, value_enum)]
    outcome: Outcome,
    /// The provider's transaction id. For charged and done.
    #[arg(long, required_if_eq_any([("outcome", "charged"), ("outcome", "done")]))]
    provider_ref: Option<String>,
    /// The approved amount in minor units. For charged. Default: the full amount.
    #[arg(long)]
    amount: Option<i64>,
    /// The decline code, such as insufficient_funds. For declined.
    #[arg(long, required_if_eq("outcome", "declined"))]
    code: Option<String>,
    /// Whether a later attempt may succeed. For a decline code that is not one of ours.
    #[arg(long, value_enum)]
    decline_type: Option<DeclineTypeArg>,
    /// How it is known that the operation had no effect. For failed.
    #[arg(long, required_if_eq("outcome", "failed"))]
    reason: Option<String>,
    /// Also resolve an operation whose recovery still queries the provider, if it was first sent an hour ago or more.
    /// Recovery then stops.
    #[arg(long)]
    stop_asking: bool,
    /// Enter the outcome although the provider cannot confirm it. The audit log marks it as unverified.
    #[arg(long)]
    unverified: bool,
    /// Execute everything and roll back.
    #[arg(long)]
    dry_run: bool,
}

#[derive(Clone, Copy, ValueEnum)]
enum Outcome {
    /// The card was charged or authorized.
    Charged,
    /// The capture, void or refund was executed.
    Done,
    /// The issuer declined it.
    Declined,
    /// It certainly had no effect.
    Failed,
}

#[derive(Clone, Copy, ValueEnum)]
enum DeclineTypeArg {
    Soft,
    Hard,
}

const COLUMNS: [&str; 13] = [
    "id",
    "kind",
    "state",
    "waits_for",
    "age_seconds",
    "account",
    "provider",
    "amount",
    "currency",
    "payment",
    "charge",
    "requested_by",
    "request_id",
];

pub(crate) async fn run(ctl: &Ctl, command: Command) -> Result<Output> {
    match command {
        Command::List(list) => {
            let filter = Filter {
                unknown: list.unknown,
                account: list.account,
                kind: list.kind,
                state: list.state,
                most_handed_out: list.most_handed_out,
                limit: list.limit,
            };
            let rows = admin::list(&ctl.db, filter).await?;
            Ok(Output::list("operations", rows.iter().map(operation), &COLUMNS))
        }
        Command::Failures(Failures { account, limit }) => {
            let rows = operator::incidents::recent_failures(&ctl.db, account, limit).await?;
            let columns =
                &["latest", "count", "account", "account_name", "mode", "provider", "kind", "code", "failure"];
            Ok(Output::rows("failures", &rows, columns)?)
        }
        Command::Hold(Hold { id, length, reason }) => {
            let (reason, mut tx) = (operator::operator_text("reason", &reason)?, ctl.begin().await?);
            let account = charges::hold(&mut tx, id, length).await?;
            let detail = json!({"seconds": length.as_secs(), "reason": reason});
            tx.commit(&entry("operations.hold", account, id, detail)).await?;
            Ok(Output::new(vec![
                ("id", json!(id)),
                ("account", json!(account)),
                ("held_for_seconds", json!(length.as_secs())),
            ]))
        }
        Command::Withhold { id, reason } => {
            let (reason, mut tx) = (operator::operator_text("reason", &reason)?, ctl.begin().await?);
            let account = charges::require_manual_review(&mut tx, id).await?;
            tx.commit(&entry("operations.withhold", account, id, json!({"reason": reason}))).await?;
            Ok(Output::new(vec![("id", json!(id)), ("account", json!(account)), ("waits_for", json!("an operator"))]))
        }
        Command::Resolve(args) => resolve(ctl, args).await,
    }
}

impl Resolve {
    fn resolution(&self) -> Result<Resolution> {
        let reject_if = |misplaced: bool, name: &str| -> Result<()> {
            anyhow::ensure!(!misplaced, "--{name} cannot be used with this outcome");
            Ok(())
        };
        let (provider_ref, code) = (self.provider_ref.clone(), self.code.clone());
        reject_if(self.amount.is_some() && !matches!(self.outcome, Outcome::Charged), "amount")?;
        reject_if(self.reason.is_some() && !matches!(self.outcome, Outcome::Failed), "reason")?;
        let is_decline = matches!(self.outcome, Outcome::Declined);
        reject_if((code.is_some() || self.decline_type.is_some()) && !is_decline, "code")?;
        reject_if(provider_ref.is_some() && !matches!(self.outcome, Outcome::Charged | Outcome::Done), "provider-ref")?;
        let kind = self.decline_type.map(|kind| match kind {
            DeclineTypeArg::Soft => DeclineType::Soft,
            DeclineTypeArg::Hard => DeclineType::Hard,
        });
        Ok(match self.outcome {
            Outcome::Charged => {
                Resolution::Charged { provider_ref: provider_ref.context("--provider-ref")?, amount: self.amount }
            }
            Outcome::Done => Resolution::Done { provider_ref: provider_ref.context("--provider-ref")? },
            Outcome::Declined => Resolution::Declined { code: code.context("--code")?, kind },
            Outcome::Failed => Resolution::Failed { reason: self.reason.clone().context("--reason")? },
        })
    }
}

async fn resolve(ctl: &Ctl, args: Resolve) -> Result<Output> {
    public_url::set(foundation::config::public_url()?);
    let resolution = args.resolution()?;
    let options = ResolveOptions { dry_run: args.dry_run, stop_asking: args.stop_asking, unverified: args.unverified };
    let providers = ctl.providers()?;
    let resolved =
        operator::resolve(&ctl.db, &providers, &ctl.clock, &ctl.actor, args.id, &resolution, options).await?;
    if let (Some(performed), Some(publisher)) = (&resolved.performed, ctl.db.publisher())
        && let Some(channel) = &performed.reply_to
    {
        // If the notification is lost, the waiting process polls Postgres.
        let _ = publisher.reply(channel, performed.reply_id).await;
    }
    let result = match (resolved.already_resolved, resolved.record) {
        (true, _) => "it had already ended with this outcome; nothing was changed",
        (false, Some(_)) => "written",
        (false, None) => "it would be written; nothing was changed",
    };
    Ok(Output::new(vec![
        ("id", json!(args.id)),
        ("result", json!(result)),
        ("changed", json!(resolved.record.is_some())),
        ("kind", json!(resolved.operation.kind.name())),
        ("account", json!(resolved.operation.account_id)),
        ("payment", json!(resolved.operation.payment())),
        ("requested", json!(resolved.comparison.as_ref().map(|comparison| &comparison.requested))),
        ("at_provider", json!(resolved.comparison.as_ref().map(|comparison| &comparison.at_provider))),
        ("unverified", json!(resolved.comparison.as_ref().and_then(|comparison| comparison.unverified.as_ref()))),
        ("audit", json!(resolved.record)),
    ]))
}

pub(crate) fn operation(row: &OperationRow) -> Output {
    let waits = match (row.needs_manual_review(), row.finished_at) {
        (true, _) => Some("an operator"),
        (false, None) => Some("the next attempt"),
        (false, Some(_)) => None,
    };
    Output::new(vec![
        ("id", json!(row.id)),
        ("kind", json!(row.kind.name())),
        ("state", json!(row.state.name())),
        ("waits_for", json!(waits)),
        ("age_seconds", json!(row.age_seconds.round() as i64)),
        ("account", json!(row.account_id)),
        ("provider", json!(row.provider)),
        ("provider_account", json!(row.provider_account_id)),
        ("reference", json!(row.reference)),
        ("amount", json!(row.amount)),
        ("currency", json!(row.currency.map(|currency| currency.code()))),
        ("payment", json!(row.payment())),
        ("payment_method", json!(row.payment_method_id)),
        ("refund", json!(row.refund_id)),
        ("charge", json!(row.target_ref)),
        ("awaited_charge", json!(row.awaits_operation_id)),
        ("requested_by", json!(row.requested_by)),
        ("request_id", json!(row.request_id)),
        ("handed_out", json!(row.pushes)),
        ("fence", json!(row.fence)),
        ("first_sent_at", json!(row.first_sent_at)),
        ("last_sent_at", json!(row.last_sent_at)),
        ("lease_until", json!(row.lease_until)),
        ("next_push_at", json!(row.next_push_at)),
        ("provider_ref", json!(row.provider_ref)),
        ("failure", json!(row.failure)),
        ("created_at", json!(row.created_at)),
        ("finished_at", json!(row.finished_at)),
    ])
}
