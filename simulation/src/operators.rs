//! Operators, who use the library behind `ctl`.

use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use domain::accounts::{self, AccountSettings, Mode};
use domain::operations::OperationKind;
use domain::operations::admin::{self, Filter, OperationRow};
use foundation::actor::Actor;
use foundation::calendar::TimeZone;
use foundation::clock::Clock;
use foundation::config;
use foundation::crypto::{EncryptionKey, KeyRing};
use foundation::db::{self, Db};
use foundation::error::Error;
use foundation::id::AccountId;
use foundation::time::Timestamp;
use operator::{Resolution, ResolveOptions};
use providers::card_gateway::{self, CardGateway};
use providers::credentials::Stored as _;
use providers::mock::Mock;
use providers::stripe::Stripe;
use providers::{ProviderKind, Providers};
use queue::Publisher;
use serde_json::{Value, json};
use sqlx::PgPool;
use tokio::time::sleep;

use crate::check::Line;
use crate::shop::{self, Shop};
use crate::system::NEXT_ENCRYPTION_KEY;
use crate::{clock, stripe};

const ALL: Filter =
    Filter { unknown: true, account: None, kind: None, state: None, most_handed_out: false, limit: 1_000 };

/// How long a request may still arrive.
const REQUEST_LIFETIME: Duration = Duration::from_secs(30);

/// What an operator works with.
struct Desk {
    db: Db,
    providers: Providers,
    clock: Clock,
}

impl Desk {
    async fn open() -> Result<Self> {
        let (url, encryption) = (config::database_url()?, config::encryption_keys()?);
        let pool = db::pool(&url, 2, "ctl")?;
        let clock = Clock::system();
        clock.synchronize(&mut *pool.acquire().await?).await?;
        let gateway = config::card_gateway_url()?.map(|url| CardGateway::new(url, pool.clone(), encryption.clone()));
        let stripe = Stripe::new(config::stripe_url()?, pool.clone(), encryption);
        let providers = Providers::new(Mock::new(db::pool(&url, 1, "ctl")?), gateway, Some(stripe));
        Ok(Self { db: Db::new(pool, Publisher::connect(&config::redis()?)), providers, clock })
    }
}

/// Looks up each operation that waits for a manual review in the ledger of its provider, and enters its outcome. Returns
/// why one could not be entered.
///
/// # Errors
/// If Postgres fails.
pub async fn resolve(shop: Shop) -> Result<Vec<String>> {
    let (desk, actor) = (Desk::open().await?, Actor::new("operator")?);
    let options = ResolveOptions { unverified: true, ..ResolveOptions::default() };
    let mut refused = Vec::new();
    let waiting = admin::list(&desk.db, ALL).await?;
    if !waiting.is_empty() {
        sleep(REQUEST_LIFETIME).await;
    }
    for operation in waiting.iter().filter(|operation| operation.needs_manual_review()) {
        let outcome = match operation.provider {
            ProviderKind::Stripe => at_stripe(&shop, operation),
            ProviderKind::Mock | ProviderKind::CardGateway => outcome(&desk.db, operation).await?,
        };
        let Desk { db, providers, clock } = &desk;
        if let Err(error) = operator::resolve(db, providers, clock, &actor, operation.id, &outcome, options).await {
            refused.push(format!("{outcome:?} of {} cannot be entered: {error}", operation.id));
        }
    }
    if let Some(publisher) = desk.db.publisher() {
        publisher.flush().await;
    }
    Ok(refused)
}

/// What Stripe did.
fn at_stripe(shop: &Shop, operation: &OperationRow) -> Resolution {
    let lines = stripe::ledger(shop);
    let none = || Resolution::Failed { reason: "the provider has no such request".to_owned() };
    let line =
        |found: &dyn Fn(&str, &Line) -> bool| lines.iter().find(|(of, line)| found(of, line)).map(|(_, line)| line);
    match (line(&|of, _| of == operation.reference), operation.target_ref.as_deref()) {
        (Some(Line { decline_code: Some(code), .. }), _) => Resolution::Declined { code: code.clone(), kind: None },
        (Some(Line { id, amount, .. }), None) => {
            Resolution::Charged { provider_ref: id.clone(), amount: Some(*amount) }
        }
        (Some(Line { id, .. }), Some(_)) => Resolution::Done { provider_ref: id.clone() },
        // A cancellation has no reference of ours.
        (None, Some(target)) if operation.kind == OperationKind::Void => {
            let is_voided = line(&|_, line| line.id == target && line.voided).is_some();
            if is_voided { Resolution::Done { provider_ref: format!("{target}:void") } } else { none() }
        }
        (None, _) => none(),
    }
}

/// What the mock did.
async fn outcome(db: &PgPool, operation: &OperationRow) -> Result<Resolution> {
    const LINE: &str = "SELECT id, approved, decline_code, amount FROM mock.transactions WHERE reference = $1";
    let line: Option<(String, bool, Option<String>, i64)> =
        sqlx::query_as(LINE).bind(&operation.reference).fetch_optional(db).await?;
    let is_charge = matches!(operation.kind, OperationKind::Sale | OperationKind::Authorize);
    Ok(match line {
        Some((provider_ref, true, _, amount)) if is_charge => {
            Resolution::Charged { provider_ref, amount: Some(amount) }
        }
        Some((provider_ref, true, ..)) => Resolution::Done { provider_ref },
        Some((.., Some(code), _)) => Resolution::Declined { code, kind: None },
        Some(line) => bail!("{} cannot be read", line.0),
        None => Resolution::Failed { reason: "the provider has no such request".to_owned() },
    })
}

/// Compares the provider's statement of each day since the beginning with our books. Returns the differences, except
/// charges that are recorded as anomalies. A provider that does not support references cannot be compared.
///
/// # Errors
/// If Postgres fails.
pub async fn compare(account: AccountId, supports_references: bool) -> Result<Vec<String>> {
    const ANOMALIES: &str = "SELECT provider_ref FROM charge_anomalies";
    let desk = Desk::open().await?;
    let anomalies: Vec<String> = sqlx::query_scalar(ANOMALIES).fetch_all(&*desk.db).await?;
    let utc: TimeZone = "UTC".parse().ok().context("UTC")?;
    let mut day = utc.date_at(Timestamp::from_microsecond(clock::BEGIN_US.cast_signed()));
    let mut differences = Vec::new();
    while utc.beginning_of(day) <= desk.clock.now() {
        for compared in operator::compare_books(&desk.db, &desk.providers, account, day).await? {
            let is_known = |provider_ref: &Value| anomalies.iter().any(|anomaly| provider_ref == anomaly.as_str());
            let unknown = compared.mismatches.iter().filter(|mismatch| !is_known(&mismatch.theirs["provider_ref"]));
            differences.extend(unknown.map(|mismatch| format!("{mismatch:?}")));
            differences.extend(compared.not_compared.filter(|_| supports_references));
        }
        day = day.plus_days(1).context("a next day")?;
    }
    Ok(differences)
}

/// Moves all stored secrets to the next key, one at a time. Meanwhile somebody tries to connect another merchant's account
/// to the accounts of the shop at the providers, before and after the rollout of the next key.
///
/// # Errors
/// If Postgres fails.
pub async fn rotate_key(shop: Shop) -> Result<()> {
    let (desk, actor) = (Desk::open().await?, Actor::new("operator")?);
    let former = config::encryption_keys()?;
    let next = EncryptionKey::from_hex(NEXT_ENCRYPTION_KEY).context("a key")?;
    let next = KeyRing::new(next, vec![former.current().clone()]);
    let settings = AccountSettings {
        name: Some("Another shop".to_owned()),
        timezone: Some("UTC".to_owned()),
        provider: Some(ProviderKind::Mock),
        ..AccountSettings::default()
    };
    let other = accounts::create(&*desk.db, desk.clock.now(), None, Mode::Test, &settings).await?;
    let connecting = async {
        for encryption in [&former, &next, &former, &next] {
            connect_again(&desk, encryption, &shop, other).await?;
        }
        anyhow::Ok(())
    };
    let (moved, connected) = tokio::join!(engine::reencrypt(&desk.db, &actor, &next, 1), connecting);
    moved?;
    connected
}

/// Tries to connect another account to those of the shop, with keys that they have got there since.
async fn connect_again(desk: &Desk, encryption: &KeyRing, shop: &Shop, other: AccountId) -> Result<()> {
    let now = desk.clock.now();
    if shop.app_key.is_some() {
        let keys = json!({"username": shop::USERNAME, "api_key": "another", "secret_key": "another16letters"});
        let credentials = card_gateway::Credentials::parse(&keys.to_string()).context("credentials")?;
        tried(accounts::connect(&*desk.db, encryption, now, other, credentials, None).await)?;
    }
    if let Some((at_stripe, _)) = &shop.stripe {
        let keys = at_stripe.account().json();
        let credentials = providers::stripe::Credentials::parse(&keys).context("credentials")?;
        let connection = (&credentials, shop::AT_STRIPE);
        tried(accounts::connect_stripe(&*desk.db, encryption, now, other, connection).await)?;
    }
    Ok(())
}

/// It must be refused. If it is not, the account is found by the checks.
fn tried<T>(connected: Result<T, Error>) -> Result<()> {
    match connected {
        Ok(_) | Err(Error::Conflict(_)) => Ok(()),
        Err(error) => Err(error.into()),
    }
}
