//! `ctl operations …`: what has not come to its end, and what a person has found out at the provider.

use std::time::Duration;

use anyhow::{Context, Result};
use clap::{Args, Subcommand, ValueEnum};
use common::flows::{self, Entering, Resolution};
use common::id::{AccountId, OperationId};
use common::operations::admin::{self, Filter, OperationRow};
use common::operations::{Kind, State};
use common::providers::DeclineType;
use common::public_url;
use serde_json::json;

use crate::output::Output;
use crate::{Ctl, entry, span};

#[derive(Subcommand)]
pub(crate) enum Command {
    /// What has not come to its end, oldest first.
    List(List),
    /// Why operations failed of late, the most frequent reason first: among the newest 2,000 of all, or of one account.
    Failures(Failures),
    /// Keep an operation from being handed out for a while. It stays due, and a worker that has it goes on.
    Hold(Hold),
    /// Take an operation from the workers for good: its outcome counts as unknown and waits for `operations resolve`. For what may have
    /// been done in the interval that a restore has lost.
    Withhold {
        /// The operation (op_…).
        id: OperationId,
        /// Why, for the audit log.
        #[arg(long)]
        reason: String,
    },
    /// Enter what the provider has said of an operation that waits for a person. It is written as if a worker had heard it.
    Resolve(Resolve),
}

#[derive(Args)]
pub(crate) struct List {
    /// Those alone whose outcome is unknown.
    #[arg(long)]
    unknown: bool,
    /// Of this account alone (acct_…).
    #[arg(long)]
    account: Option<AccountId>,
    /// Of this kind alone: sale, authorize, capture, void, refund, store_card, reverse.
    #[arg(long, value_parser = kind)]
    kind: Option<Kind>,
    /// In this state alone: ready, claimed, sending, unknown.
    #[arg(long, value_parser = state)]
    state: Option<State>,
    /// Those first that were handed out most often without coming to an end.
    #[arg(long, conflicts_with = "unknown")]
    most_handed_out: bool,
    /// So many at most.
    #[arg(long, default_value_t = 200, value_parser = clap::value_parser!(i64).range(1..=10_000))]
    limit: i64,
}

fn kind(text: &str) -> Result<Kind, String> {
    let found = Kind::ALL.into_iter().find(|kind| kind.name().eq_ignore_ascii_case(text));
    found.ok_or_else(|| format!("not one of {}", Kind::ALL.map(Kind::name).join(", ")))
}

fn state(text: &str) -> Result<State, String> {
    const UNFINISHED: [State; 4] = [State::Ready, State::Claimed, State::Sending, State::Unknown];
    let found = UNFINISHED.into_iter().find(|state| state.name().eq_ignore_ascii_case(text));
    found.ok_or_else(|| format!("not one of {}", UNFINISHED.map(State::name).join(", ")))
}

#[derive(Args)]
pub(crate) struct Failures {
    /// Of this account alone (acct_…).
    #[arg(long)]
    account: Option<AccountId>,
    /// So many reasons at most.
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(i64).range(1..=1_000))]
    limit: i64,
}

#[derive(Args)]
pub(crate) struct Hold {
    /// The operation (op_…).
    id: OperationId,
    /// For how long, such as 30m or 1h; a day at most.
    #[arg(long = "for", default_value = "1h", value_parser = a_day_at_most)]
    last: Duration,
    /// Why, for the audit log.
    #[arg(long)]
    reason: String,
}

fn a_day_at_most(text: &str) -> Result<Duration, &'static str> {
    span(text).and_then(|span| if span <= Duration::from_secs(86_400) { Ok(span) } else { Err("longer than a day") })
}

#[derive(Args)]
pub(crate) struct Resolve {
    /// The operation (op_…), which is its reference at the provider too.
    id: OperationId,
    /// What the provider has said.
    #[arg(long, value_enum)]
    outcome: Outcome,
    /// The provider's name for what it did; of charged and done.
    #[arg(long, required_if_eq_any([("outcome", "charged"), ("outcome", "done")]))]
    provider_ref: Option<String>,
    /// How much was approved, in minor units; of charged, all by default.
    #[arg(long)]
    amount: Option<i64>,
    /// Why it was declined, such as insufficient_funds; of declined.
    #[arg(long, required_if_eq("outcome", "declined"))]
    code: Option<String>,
    /// Whether a later try may succeed; of a code that is none of ours.
    #[arg(long, value_enum)]
    decline_type: Option<DeclineTypeArg>,
    /// How it is known that nothing was done; of failed.
    #[arg(long, required_if_eq("outcome", "failed"))]
    reason: Option<String>,
    /// Also one that the provider is still asked about, if it was first sent an hour ago or more: nobody asks any more then.
    #[arg(long)]
    stop_asking: bool,
    /// Enter it although the provider cannot be asked whether it is so. The audit log says that it is unverified.
    #[arg(long)]
    unverified: bool,
    /// Try it, and take it back.
    #[arg(long)]
    dry_run: bool,
}

#[derive(Clone, Copy, ValueEnum)]
enum Outcome {
    /// The card was charged, or the money is held.
    Charged,
    /// The capture, void or refund was made.
    Done,
    /// The issuer said no.
    Declined,
    /// It certainly did nothing.
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
            let rows = flows::incidents::failures_of_late(&ctl.db, account, limit).await?;
            let columns =
                &["latest", "count", "account", "account_name", "mode", "provider", "kind", "code", "failure"];
            Ok(Output::rows("failures", &rows, columns)?)
        }
        Command::Hold(Hold { id, last, reason }) => {
            let (reason, mut act) = (flows::typed("reason", &reason)?, ctl.act().await?);
            let account = admin::hold(&mut act, id, last).await?;
            let detail = json!({"seconds": last.as_secs(), "reason": reason});
            act.commit(&entry("operations.hold", account, id, detail)).await?;
            Ok(Output::new(vec![
                ("id", json!(id)),
                ("account", json!(account)),
                ("held_for_seconds", json!(last.as_secs())),
            ]))
        }
        Command::Withhold { id, reason } => {
            let (reason, mut act) = (flows::typed("reason", &reason)?, ctl.act().await?);
            let account = admin::withhold(&mut act, id).await?;
            act.commit(&entry("operations.withhold", account, id, json!({"reason": reason}))).await?;
            Ok(Output::new(vec![("id", json!(id)), ("account", json!(account)), ("waits_for", json!("a person"))]))
        }
        Command::Resolve(args) => resolve(ctl, args).await,
    }
}

impl Resolve {
    fn resolution(&self) -> Result<Resolution> {
        let foreign = |given: bool, name: &str| -> Result<()> {
            anyhow::ensure!(!given, "--{name} does not go with this outcome");
            Ok(())
        };
        let (named, code) = (self.provider_ref.clone(), self.code.clone());
        foreign(self.amount.is_some() && !matches!(self.outcome, Outcome::Charged), "amount")?;
        foreign(self.reason.is_some() && !matches!(self.outcome, Outcome::Failed), "reason")?;
        let is_decline = matches!(self.outcome, Outcome::Declined);
        foreign((code.is_some() || self.decline_type.is_some()) && !is_decline, "code")?;
        foreign(named.is_some() && !matches!(self.outcome, Outcome::Charged | Outcome::Done), "provider-ref")?;
        let kind = self.decline_type.map(|kind| match kind {
            DeclineTypeArg::Soft => DeclineType::Soft,
            DeclineTypeArg::Hard => DeclineType::Hard,
        });
        Ok(match self.outcome {
            Outcome::Charged => {
                Resolution::Charged { provider_ref: named.context("--provider-ref")?, amount: self.amount }
            }
            Outcome::Done => Resolution::Done { provider_ref: named.context("--provider-ref")? },
            Outcome::Declined => Resolution::Declined { code: code.context("--code")?, kind },
            Outcome::Failed => Resolution::Failed { reason: self.reason.clone().context("--reason")? },
        })
    }
}

async fn resolve(ctl: &Ctl, args: Resolve) -> Result<Output> {
    public_url::set(common::config::public_url()?);
    let resolution = args.resolution()?;
    let entering = Entering { dry_run: args.dry_run, stop_asking: args.stop_asking, unverified: args.unverified };
    let providers = ctl.providers()?;
    let done = flows::resolve(&ctl.db, &providers, &ctl.clock, &ctl.actor, args.id, &resolution, entering).await?;
    if let (Some(_), Some(publisher), Some(channel)) = (done.record, ctl.db.publisher(), &done.performed.reply_to) {
        // Whoever does not hear it looks for itself.
        let _ = publisher.reply(channel, done.performed.reply_id).await;
    }
    let result = match (done.was_so, done.record) {
        (true, _) => "it had ended so before; nothing was changed",
        (false, Some(_)) => "written",
        (false, None) => "it would be written; nothing was changed",
    };
    Ok(Output::new(vec![
        ("id", json!(args.id)),
        ("result", json!(result)),
        ("changed", json!(done.record.is_some())),
        ("kind", json!(done.operation.kind.name())),
        ("account", json!(done.operation.account_id)),
        ("payment", json!(done.operation.payment_id)),
        ("asked", json!(done.sides.as_ref().map(|sides| &sides.asked))),
        ("provider_has", json!(done.sides.as_ref().map(|sides| &sides.provider_has))),
        ("unverified", json!(done.sides.as_ref().and_then(|sides| sides.unverified.as_ref()))),
        ("audit", json!(done.record)),
    ]))
}

pub(crate) fn operation(row: &OperationRow) -> Output {
    let waits = match (row.waits_for_a_person(), row.finished_at) {
        (true, _) => Some("a person"),
        (false, None) => Some("the next turn"),
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
        ("payment", json!(row.payment_id)),
        ("payment_method", json!(row.payment_method_id)),
        ("refund", json!(row.refund_id)),
        ("charge", json!(row.target_ref)),
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
