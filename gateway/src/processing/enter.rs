//! Charges: entered in one transaction, sent to the acquirer, then finished. Once a charge is entered, every failure is
//! reported as an unknown outcome; the report shows the actual one.

use foundation::calendar::Date;
use foundation::db::Transaction;
use foundation::rule_enabled;
use foundation::time::Timestamp;
use sqlx::types::Json;
use sqlx::{PgConnection, PgPool};
use uuid::Uuid;

use super::Processor;
use super::finish::unresolved;
use super::outcome::Outcome;
use crate::accounts::Account;
use crate::acquirer::cards;
use crate::cards::funding::Source;
use crate::cards::{Brand, vault};
use crate::deadline::{Deadline, IDLE_TIMEOUT, LOCK_TIMEOUT};
use crate::failure::{Code, Failure, Result};
use crate::id::{AccountId, TransactionId};
use crate::limits::{self, Period};
use crate::proxy;
use crate::threeds::{self, Authentication, Challenge};
use crate::transactions::{NewCharge, State, TransactionKind};

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

impl Processor {
    /// Enters a sale, an authorization or a credit, and sends it to the acquirer.
    ///
    /// # Errors
    /// Codes 17 to 20 and 26, A1 if a challenge has no return URL, and F.
    pub async fn charge(&self, account: &Account, new: NewCharge, deadline: Deadline) -> Result<ChargeResult> {
        let authentication = threeds::authentication(account, &new)?;
        let now = self.clock.now();
        let id = TransactionId::new(now);
        let challenge = (authentication == Authentication::Challenge && rule_enabled!(Challenge))
            .then(|| Challenge::new(&self.crypto.card_keys, &self.public_url, id, &new.funding.number));
        self.enter(account, id, &new, challenge.as_ref(), now, deadline).await?;
        if let Some(challenge) = challenge {
            return Ok(ChargeResult::Challenged(id, challenge.url));
        }
        let outcome = match authentication {
            Authentication::Decline(why, auth_code) => Outcome::declined(why, auth_code),
            Authentication::NotRequired | Authentication::Challenge => self.submit(id, &new).await?,
        };
        let status = self.finish_request(account.id, id, &outcome).await?;
        match status.state {
            State::Approved => {
                if let Some(proxy) = &new.funding.proxy {
                    proxy::bind(&self.db, account.id, proxy).await;
                }
                Ok(ChargeResult::Approved(id))
            }
            State::Declined | State::Failed | State::Challenged | State::InProgress => {
                Err(Code::Declined.because(&status.reason))
            }
        }
    }

    /// Checked before any other field, so that a repeated request gets 26 and no other code.
    ///
    /// # Errors
    /// 26 if the reference was used before.
    pub async fn check_reference(&self, account: AccountId, reference: &str) -> Result<()> {
        let mut db = self.db.acquire().await?;
        match reference_is_used(&mut db, account, reference).await? {
            true => Err(Code::Duplicate.refuse()),
            false => Ok(()),
        }
    }

    async fn enter(
        &self,
        account: &Account,
        id: TransactionId,
        new: &NewCharge,
        challenge: Option<&Challenge>,
        now: Timestamp,
        deadline: Deadline,
    ) -> Result<()> {
        let period = Period::at(account, now);
        let fingerprint = limits::fingerprint(&self.crypto, new);
        let _permit = self.connections.acquire(account.id).await?;
        let mut tx = begin(&self.db).await?;
        // The usage row is locked from here on, so no other charge of the account can be entered and the checks stay
        // valid. Check the reference first: a repeated request must get 26, not the code of a limit.
        let count = limits::lock_usage(&mut tx, account.id, period.day).await?;
        check_unused(&mut tx, account, new).await?;
        limits::check(&mut tx, account, new, count, period, now).await?;
        if new.reference_id.is_none() {
            limits::acquire_guard(&mut tx, account.id, &fingerprint, id, now).await?;
        }
        if let Some(token) = new.funding.field_token {
            vault::spend(&mut tx, account.id, token).await?;
        }
        let month = new.kind.is_charge().then_some(period.month);
        let entry = Entry { id, account: account.id, new, fingerprint: &fingerprint, challenge, month, now };
        insert_charge(&mut tx, &entry).await.map_err(map_violation)?;
        commit(tx, deadline).await
    }

    async fn submit(&self, id: TransactionId, new: &NewCharge) -> Result<Outcome> {
        let funding = &new.funding;
        let response = self.acquirer.charge(id.uuid(), &funding.number).await;
        let response = response.map_err(|error| unresolved(id, &error))?;
        let cvv = cards::cvv_response(&funding.number, funding.security_code.as_ref());
        Ok(Outcome::of(&response, Some(cards::avs_response(&new.details.billing.zip_code)), cvv))
    }
}

/// Begins a transaction with an idle timeout: Postgres aborts it if the process is suspended, so that the process
/// cannot commit it when it resumes.
pub(super) async fn begin(db: &PgPool) -> Result<Transaction> {
    let mut tx = foundation::db::begin(db).await?;
    set_timeouts(&mut tx, IDLE_TIMEOUT, LOCK_TIMEOUT).await?;
    Ok(tx)
}

/// Commits if the deadline has not passed. A commit without a response may have succeeded.
pub(super) async fn commit(tx: Transaction, deadline: Deadline) -> Result<()> {
    deadline.check()?;
    tx.commit().await.map_err(|error| {
        tracing::error!(%error, "a commit got no response; its outcome is unknown");
        Failure::Unknown
    })
}

async fn check_unused(db: &mut PgConnection, account: &Account, new: &NewCharge) -> Result<()> {
    if let Some(reference) = &new.reference_id
        && reference_is_used(db, account.id, reference).await?
    {
        return Err(Code::Duplicate.refuse());
    }
    match new.wallet_token {
        Some(token) if wallet_token_is_used(db, token).await? => Err(Code::Declined.because(TOKEN_USED)),
        Some(_) | None => Ok(()),
    }
}

/// Concurrent requests pass the earlier checks together; the constraints decide between them.
fn map_violation(error: sqlx::Error) -> Failure {
    match foundation::db::violated_constraint(&error) {
        Some("transactions_reference") => Code::Duplicate.refuse(),
        Some("transactions_wallet_token") => Code::Declined.because(TOKEN_USED),
        Some(_) | None => error.into(),
    }
}

/// A charge to be inserted.
struct Entry<'a> {
    id: TransactionId,
    account: AccountId,
    new: &'a NewCharge,
    fingerprint: &'a [u8],
    challenge: Option<&'a Challenge>,
    month: Option<Date>,
    now: Timestamp,
}

/// Limits how long the transaction may stay idle and how long it waits for locks.
async fn set_timeouts(db: &mut PgConnection, idle: &str, lock: &str) -> Result<(), sqlx::Error> {
    sqlx::query!(
        "SELECT set_config('idle_in_transaction_session_timeout', $1, true) AS open,
                set_config('lock_timeout', $2, true) AS waits",
        idle,
        lock,
    )
    .fetch_one(db)
    .await?;
    Ok(())
}

async fn reference_is_used(db: &mut PgConnection, account: AccountId, reference: &str) -> Result<bool, sqlx::Error> {
    sqlx::query_scalar!(
        r#"SELECT EXISTS (SELECT 1 FROM gateway.transactions
                          WHERE account_id = $1 AND reference_id = $2 AND parent_id IS NULL) AS "used!""#,
        account.uuid(),
        reference,
    )
    .fetch_one(db)
    .await
}

async fn wallet_token_is_used(db: &mut PgConnection, token: Uuid) -> Result<bool, sqlx::Error> {
    sqlx::query_scalar!(
        r#"SELECT EXISTS (SELECT 1 FROM gateway.transactions WHERE wallet_token = $1) AS "used!""#,
        token,
    )
    .fetch_one(db)
    .await
}

async fn insert_charge(db: &mut PgConnection, entry: &Entry<'_>) -> Result<(), sqlx::Error> {
    let Entry { new, challenge, .. } = entry;
    let (funding, masked_card) = (&new.funding, &new.funding.masked_card);
    let state = if challenge.is_some() { State::Challenged } else { State::InProgress };
    // The security code is not stored during a challenge, so store the issuer's response to it.
    let cvv = challenge.and_then(|_| cards::cvv_response(&funding.number, funding.security_code.as_ref()));
    sqlx::query!(
        "INSERT INTO gateway.transactions (id, account_id, kind, state, source, amount, currency, reference_id, brand,
             masked, expiry, number, fingerprint, client_ip, details, cvv, challenge_hash, return_url, wallet_token,
             month, created_at, fee, receipt_cardholder, receipt_merchant, challenge_ends_at, recover_at)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21,
             $22, $23, $24,
             CASE WHEN $17::bytea IS NOT NULL THEN clock_timestamp() + interval '30 seconds' END,
             clock_timestamp() + CASE WHEN $17::bytea IS NOT NULL THEN interval '30 seconds' ELSE interval '15 seconds' END)",
        entry.id.uuid(),
        entry.account.uuid(),
        new.kind as TransactionKind,
        state as State,
        funding.source as Source,
        new.total().get(),
        new.currency,
        new.reference_id,
        masked_card.brand as Brand,
        masked_card.masked,
        masked_card.expiry.to_string(),
        challenge.map(|challenge| challenge.number.as_slice()),
        entry.fingerprint,
        new.client_ip.map(|ip| ip.to_string()),
        Json(&new.details) as _,
        cvv,
        challenge.map(|challenge| challenge.hash.bytes()),
        challenge.and(new.return_url.as_deref()),
        new.wallet_token,
        entry.month,
        entry.now,
        new.fee.get(),
        new.receipts.cardholder,
        new.receipts.merchant,
    )
    .execute(db)
    .await?;
    Ok(())
}
