//! An account as a cardholder meets it on a payment page: who is paid, and how.

use sqlx::PgConnection;

use super::Mode;
use crate::calendar::TimeZone;
use crate::capabilities::Operation;
use crate::error::{Error, Result};
use crate::id::{AccountId, ProviderAccountId};
use crate::providers::ProviderKind;

/// Who is paid.
#[derive(Clone, Debug)]
pub struct Payee {
    /// The account.
    pub account_id: AccountId,
    /// Its name, as the merchant chose it.
    pub name: String,
    /// Where cardholders may ask about a payment, if the merchant has said so.
    pub support_contact: Option<String>,
    /// Its mode.
    pub mode: Mode,
    /// The time zone in which it counts its days.
    pub timezone: TimeZone,
    /// Where its new money goes.
    pub provider_account_id: ProviderAccountId,
    /// Who settles it.
    pub provider: ProviderKind,
    /// By what the provider knows the account in a browser, if it has such a thing.
    pub field_key: Option<String>,
    /// Its surcharge, tax and tip, as configured.
    pub modifiers: serde_json::Value,
    /// Whether its provider takes payments at all.
    pub takes_payments: bool,
}

/// Who is paid by whoever pays this account.
///
/// # Errors
/// The database's; [`Error::Internal`] for a zone that this machine does not know.
pub async fn payee(db: &mut PgConnection, account: AccountId) -> Result<Payee> {
    let row = sqlx::query!(
        "SELECT a.name, a.support_contact, a.mode, a.timezone, a.provider_account_id, a.modifiers, p.provider, p.unsupported,
                p.field_key
         FROM accounts a JOIN provider_accounts p ON p.id = a.provider_account_id WHERE a.id = $1",
        account.uuid(),
    )
    .fetch_one(db)
    .await?;
    let zone = &row.timezone;
    let timezone = zone.parse().map_err(|error| Error::internal(format!("the zone {zone:?} of {account}: {error}")))?;
    let needed = Operation::PaymentsCreate;
    let lacking =
        row.provider.unsupported().contains(&needed) || row.unsupported.iter().any(|name| name == needed.name());
    Ok(Payee {
        account_id: account,
        name: row.name,
        support_contact: row.support_contact,
        mode: row.mode,
        timezone,
        provider_account_id: row.provider_account_id,
        provider: row.provider,
        field_key: row.field_key,
        modifiers: row.modifiers,
        takes_payments: !lacking,
    })
}
