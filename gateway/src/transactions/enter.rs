//! Charges: entered in one transaction, sent to the acquirer, then finished. Once a charge is entered, every failure is
//! reported as an unknown outcome; the report shows the actual one.

use foundation::time::Timestamp;
use sqlx::{PgConnection, Postgres, Transaction};

use super::outcome::{self, Outcome};
use super::{NewCharge, State, reason, store};
use crate::accounts::Account;
use crate::acquirer::cards;
use crate::app::{App, Deadline, IDLE_TIMEOUT, LOCK_TIMEOUT};
use crate::cards::vault;
use crate::failure::{Code, Failure, Result};
use crate::id::TransactionId;
use crate::limits::{self, Period};
use crate::proxy;
use crate::threeds::{self, Authentication, Challenge};

/// A wallet token can be used once.
const TOKEN_USED: &str = "the wallet's token was used before";

/// The result of a charge that was not declined.
#[derive(Debug)]
pub enum ChargeResult {
    /// Approved by the acquirer.
    Approved(TransactionId),
    /// The cardholder has thirty seconds to confirm it at this URL.
    Challenged(TransactionId, String),
}

/// Enters a sale, an authorization or a credit, and sends it to the acquirer.
///
/// # Errors
/// Codes 17 to 20 and 26, A1 if a challenge has no return URL, and F.
pub async fn charge(app: &App, account: &Account, new: NewCharge, deadline: Deadline) -> Result<ChargeResult> {
    let authentication = threeds::authentication(account, &new)?;
    let now = app.clock.now();
    let id = TransactionId::new(now);
    let challenge =
        (authentication == Authentication::Challenge).then(|| threeds::new_challenge(app, id, &new.funding.number));
    enter(app, account, id, &new, challenge.as_ref(), now, deadline).await?;
    if let Some(challenge) = challenge {
        return Ok(ChargeResult::Challenged(id, challenge.url));
    }
    let outcome = match authentication {
        Authentication::Decline(why, auth_code) => Outcome::declined(why, auth_code),
        Authentication::NotRequired | Authentication::Challenge => {
            submit(app, id, &new).await.ok_or(Failure::Unknown)?
        }
    };
    let status = outcome::finish(app, id, &outcome).await.map_err(|error| outcome::unresolved(id, &error))?;
    match status.state {
        State::Approved => {
            if let Some(proxy) = &new.funding.proxy {
                proxy::bind(&app.db, account.id, proxy).await;
            }
            Ok(ChargeResult::Approved(id))
        }
        State::Declined | State::Failed | State::Challenged | State::InProgress => Err(declined(&status.reason)),
    }
}

/// F with the decline reason.
pub fn declined(why: &str) -> Failure {
    Code::Declined.because(why)
}

async fn submit(app: &App, id: TransactionId, new: &NewCharge) -> Option<Outcome> {
    let funding = &new.funding;
    match app.acquirer.charge(id.uuid(), &funding.number).await {
        Ok(response) => {
            let cvv = cards::cvv_response(&funding.number, funding.security_code.as_ref());
            Some(Outcome::of(&response, Some(cards::avs_response(&new.details.billing.zip_code)), cvv))
        }
        Err(error) => {
            tracing::error!(transaction = %id, %error, "the acquirer did not respond; recovery will resolve the transaction");
            None
        }
    }
}

/// Begins a transaction with an idle timeout: Postgres aborts it if the process is suspended, so that the process
/// cannot commit it when it resumes.
pub(super) async fn begin(app: &App) -> Result<Transaction<'static, Postgres>> {
    let mut tx = foundation::db::begin(&app.db).await?;
    store::set_timeouts(&mut tx, IDLE_TIMEOUT, LOCK_TIMEOUT).await?;
    Ok(tx)
}

/// Commits if the deadline has not passed. A commit without a response may have succeeded.
pub(super) async fn commit(tx: Transaction<'static, Postgres>, deadline: Deadline) -> Result<()> {
    deadline.check()?;
    tx.commit().await.map_err(|error| {
        tracing::error!(%error, "a commit got no response; its outcome is unknown");
        Failure::Unknown
    })
}

async fn enter(
    app: &App,
    account: &Account,
    id: TransactionId,
    new: &NewCharge,
    challenge: Option<&Challenge>,
    now: Timestamp,
    deadline: Deadline,
) -> Result<()> {
    let period = Period::at(account, now);
    let fingerprint = limits::fingerprint(&app.crypto, new);
    let mut tx = begin(app).await?;
    // The usage row is now locked, so no other charge of the account can be entered and the checks stay valid. Check
    // the reference first: a repeated request must get 26, not the code of a limit.
    let count = limits::lock_usage(&mut tx, account.id, period).await?;
    check_unused(&mut tx, account, new).await?;
    limits::check(&mut tx, account, new, count, period, now).await?;
    if new.reference_id.is_none() {
        limits::acquire_guard(&mut tx, account.id, &fingerprint, id, now).await?;
    }
    if let Some(token) = new.funding.field_token {
        vault::spend(&mut tx, account.id, token).await?;
    }
    let month = new.kind.is_charge().then_some(period.month);
    let entry = store::Entry { id, account: account.id, new, fingerprint: &fingerprint, challenge, month, now };
    store::insert_charge(&mut tx, &entry).await.map_err(map_violation)?;
    commit(tx, deadline).await
}

async fn check_unused(db: &mut PgConnection, account: &Account, new: &NewCharge) -> Result<()> {
    if let Some(reference) = &new.reference_id
        && store::reference_is_used(db, account.id, reference).await?
    {
        return Err(Code::Duplicate.refuse());
    }
    match new.wallet_token {
        Some(token) if store::wallet_token_is_used(db, token).await? => Err(declined(TOKEN_USED)),
        Some(_) | None => Ok(()),
    }
}

/// Concurrent requests pass the earlier checks together; the constraints decide between them.
fn map_violation(error: sqlx::Error) -> Failure {
    match foundation::db::violated_constraint(&error) {
        Some("transactions_reference") => Code::Duplicate.refuse(),
        Some("transactions_wallet_token") => declined(TOKEN_USED),
        Some(_) | None => error.into(),
    }
}

/// Checked before any other field, so that a repeated request gets 26 and no other code.
///
/// # Errors
/// 26 if the reference was used before.
pub async fn check_reference(app: &App, account: &Account, reference: &str) -> Result<()> {
    let mut db = app.db.acquire().await?;
    match store::reference_is_used(&mut db, account.id, reference).await? {
        true => Err(Code::Duplicate.refuse()),
        false => Ok(()),
    }
}

/// Continues a charge that its cardholder has confirmed.
///
/// # Errors
/// [`Failure::Unknown`] if the acquirer does not respond.
pub async fn confirm(app: &App, id: TransactionId) -> Result<outcome::TransactionStatus> {
    let Some(confirmed) = store::confirm(&app.db, id).await? else {
        // It was confirmed, refused or expired earlier.
        return Ok(outcome::status(app, id).await?);
    };
    let number = threeds::open_number(app, id, &confirmed.number);
    let outcome = match number {
        Some(number) => {
            let response =
                app.acquirer.charge(id.uuid(), &number).await.map_err(|error| outcome::unresolved(id, &error))?;
            Outcome::of(&response, Some(cards::avs_response(&confirmed.zip_code)), None)
        }
        None => Outcome::failed(reason::NOT_PROCESSED),
    };
    outcome::finish(app, id, &outcome).await.map_err(|error| outcome::unresolved(id, &error))
}
