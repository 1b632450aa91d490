//! Charges: entered in one transaction, then the acquirer, then the end. What has been entered is never denied: whatever goes
//! wrong from the commit on, the caller is told that the outcome is unknown, and the report tells it.

use common::time::Timestamp;
use sqlx::{PgConnection, Postgres, Transaction};

use super::outcome::{self, Ending};
use super::{NewCharge, State, reason, store};
use crate::accounts::Account;
use crate::acquirer::cards;
use crate::app::{App, Lifetime, OPEN_AT_MOST, WAITS_AT_MOST};
use crate::cards::vault;
use crate::failure::{Code, Failure, Result};
use crate::id::TransactionId;
use crate::limits::{self, Period};
use crate::proxy;
use crate::threeds::{self, Challenge, Wish};

/// Of a wallet's token, which is good once.
const USED_BEFORE: &str = "the wallet's token was used before";

/// What came of a charge that was not declined.
#[derive(Debug)]
pub enum Charged {
    /// The acquirer has approved it.
    Approved(TransactionId),
    /// Its cardholder has thirty seconds to confirm it at this address.
    Challenged(TransactionId, String),
}

/// Enters a sale, an authorization or a credit, and asks the acquirer.
///
/// # Errors
/// Codes 17 to 20 and 26, A1 where a challenge has nowhere to return to, and F.
pub async fn charge(app: &App, account: &Account, new: NewCharge, lifetime: Lifetime) -> Result<Charged> {
    let wish = threeds::wish(account, &new)?;
    let now = app.clock.now();
    let id = TransactionId::new(now);
    let challenge = (wish == Wish::Challenge).then(|| threeds::new_challenge(app, id, &new.funding.number));
    enter(app, account, id, &new, challenge.as_ref(), now, lifetime).await?;
    if let Some(challenge) = challenge {
        return Ok(Charged::Challenged(id, challenge.url));
    }
    let ending = match wish {
        Wish::Decline(why, auth_code) => Ending::declined(why, auth_code),
        Wish::None | Wish::Challenge => ask(app, id, &new).await.ok_or(Failure::Unknown)?,
    };
    let ended = outcome::end(app, id, &ending).await.map_err(|error| outcome::unknown(id, &error))?;
    match ended.state {
        State::Approved => {
            if let Some(proxy) = &new.funding.proxy {
                proxy::bind(&app.db, account.id, proxy).await;
            }
            Ok(Charged::Approved(id))
        }
        State::Declined | State::Failed | State::Challenged | State::InProgress => Err(declined(&ended.reason)),
    }
}

/// F, with the reason's words.
pub fn declined(why: &str) -> Failure {
    Code::Declined.because(why)
}

async fn ask(app: &App, id: TransactionId, new: &NewCharge) -> Option<Ending> {
    let funding = &new.funding;
    match app.acquirer.charge(id.uuid(), &funding.number).await {
        Ok(answer) => {
            let cvv = cards::cvv_response(&funding.number, funding.security_code.as_ref());
            Some(Ending::of(&answer, Some(cards::avs_response(&new.details.billing.zip_code)), cvv))
        }
        Err(error) => {
            tracing::error!(transaction = %id, %error, "no answer from the acquirer; recovery will ask");
            None
        }
    }
}

/// Begins a transaction that cannot stay open: one that a paused process left behind is ended by the database, so that it
/// cannot be committed when the process goes on.
pub(super) async fn begin(app: &App) -> Result<Transaction<'static, Postgres>> {
    let mut tx = common::db::begin(&app.db).await?;
    store::bound(&mut tx, OPEN_AT_MOST, WAITS_AT_MOST).await?;
    Ok(tx)
}

/// Commits, if it is still time. A commit that is not answered may have happened.
pub(super) async fn commit(tx: Transaction<'static, Postgres>, lifetime: Lifetime) -> Result<()> {
    lifetime.check()?;
    tx.commit().await.map_err(|error| {
        tracing::error!(%error, "a commit was not answered");
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
    lifetime: Lifetime,
) -> Result<()> {
    let period = Period::at(account, now);
    let fingerprint = limits::fingerprint(&app.vaulting, new);
    let mut tx = begin(app).await?;
    // From here on no other entry of the account is under way, so what is asked stays true. A repeated reference is told first:
    // a caller that repeats itself must not hear of a limit instead.
    let count = limits::turn(&mut tx, account.id, period).await?;
    not_used(&mut tx, account, new).await?;
    limits::check(&mut tx, account, new, count, period, now).await?;
    if new.reference_id.is_none() {
        limits::guard(&mut tx, account.id, &fingerprint, id, now).await?;
    }
    if let Some(token) = new.funding.spends {
        vault::spend(&mut tx, account.id, token).await?;
    }
    let month = new.kind.is_charge().then_some(period.month);
    let entry = store::Entry { id, account: account.id, new, fingerprint: &fingerprint, challenge, month, now };
    store::insert_charge(&mut tx, &entry).await.map_err(taken)?;
    commit(tx, lifetime).await
}

async fn not_used(db: &mut PgConnection, account: &Account, new: &NewCharge) -> Result<()> {
    if let Some(reference) = &new.reference_id
        && store::reference_is_used(db, account.id, reference).await?
    {
        return Err(Code::Duplicate.refuse());
    }
    match new.wallet_token {
        Some(token) if store::wallet_token_is_used(db, token).await? => Err(declined(USED_BEFORE)),
        Some(_) | None => Ok(()),
    }
}

/// The constraints have the last word.
fn taken(error: sqlx::Error) -> Failure {
    match common::db::violated(&error) {
        Some("transactions_reference") => Code::Duplicate.refuse(),
        Some("transactions_wallet_token") => declined(USED_BEFORE),
        Some(_) | None => error.into(),
    }
}

/// Whether a reference is used up: the first that a repetition should hear, before anything else is looked at.
///
/// # Errors
/// 26
pub async fn check_reference(app: &App, account: &Account, reference: &str) -> Result<()> {
    let mut db = app.db.acquire().await?;
    match store::reference_is_used(&mut db, account.id, reference).await? {
        true => Err(Code::Duplicate.refuse()),
        false => Ok(()),
    }
}

/// Goes on with a charge that its cardholder has confirmed.
///
/// # Errors
/// [`Failure::Unknown`] if the acquirer gives no answer.
pub async fn confirm(app: &App, id: TransactionId) -> Result<outcome::Ended> {
    let Some(confirmed) = store::confirm(&app.db, id).await? else {
        // Refused, confirmed or expired before.
        return Ok(outcome::read(app, id).await?);
    };
    let number = threeds::open_number(app, id, &confirmed.number);
    let ending = match number {
        Some(number) => {
            let answer = app.acquirer.charge(id.uuid(), &number).await.map_err(|error| outcome::unknown(id, &error))?;
            Ending::of(&answer, Some(cards::avs_response(&confirmed.zip_code)), None)
        }
        None => Ending::failed(reason::NOT_PROCESSED),
    };
    outcome::end(app, id, &ending).await.map_err(|error| outcome::unknown(id, &error))
}
