//! The account that is paid on a hosted payment page.

use sqlx::PgConnection;

use super::Mode;
use super::logo::Logo;
use super::settlement::is_supported;
use foundation::calendar::TimeZone;
use foundation::color::Color;
use foundation::error::{Error, Result};
use foundation::id::{AccountId, ProviderAccountId};
use providers::ProviderKind;
use providers::capabilities::Permission;

#[derive(Clone, Debug)]
pub struct Payee {
    pub account_id: AccountId,
    /// The name that the merchant chose.
    pub name: String,
    /// The merchant's contact for questions of cardholders.
    pub support_contact: Option<String>,
    /// The lines of the merchant's address.
    pub address: Option<String>,
    /// The merchant's number for tax.
    pub tax_number: Option<String>,
    /// The colour of buttons and links.
    pub color: Option<Color>,
    pub logo: Option<Logo>,
    pub mode: Mode,
    /// The time zone of its billing days.
    pub timezone: TimeZone,
    /// The provider account for new payments.
    pub provider_account_id: ProviderAccountId,
    pub provider: ProviderKind,
    /// The account's public key at the provider, if it has one.
    pub field_key: Option<String>,
    /// The configured surcharge, tax and tip.
    pub modifiers: serde_json::Value,
    /// Whether the provider account supports payments at all.
    pub accepts_payments: bool,
    /// Whether it supports saving cards.
    pub saves_cards: bool,
}

/// Returns the payee for an account.
///
/// # Errors
/// Database errors; [`Error::Internal`] for a time zone that this machine does not know.
pub async fn payee(db: &mut PgConnection, account: AccountId) -> Result<Payee> {
    let row = sqlx::query!(
        r#"SELECT a.name, a.support_contact, a.address, a.tax_number, a.color, a.mode, a.timezone, a.provider_account_id,
                  a.modifiers, p.provider, p.unsupported, p.field_key,
                  l.id AS "logo_id?", l.width AS "logo_width?", l.height AS "logo_height?"
           FROM accounts a JOIN provider_accounts p ON p.id = a.provider_account_id
           LEFT JOIN logos l ON l.account_id = a.id WHERE a.id = $1"#,
        account.uuid(),
    )
    .fetch_one(db)
    .await?;
    let zone = &row.timezone;
    let timezone =
        zone.parse().map_err(|error| Error::internal(format!("time zone {zone:?} of {account}: {error}")))?;
    let supports = |operation| is_supported(row.provider, &row.unsupported, operation);
    let (accepts_payments, saves_cards) =
        (supports(Permission::PaymentsCreate), supports(Permission::PaymentMethodsCreate));
    let logo = match (row.logo_id, row.logo_width, row.logo_height) {
        (Some(id), Some(width), Some(height)) => Some(Logo { id, width, height }),
        (_, _, _) => None,
    };
    Ok(Payee {
        account_id: account,
        name: row.name,
        support_contact: row.support_contact,
        address: row.address,
        tax_number: row.tax_number,
        color: row.color.and_then(|color| color.parse().ok()),
        logo,
        mode: row.mode,
        timezone,
        provider_account_id: row.provider_account_id,
        provider: row.provider,
        field_key: row.field_key,
        modifiers: row.modifiers,
        accepts_payments,
        saves_cards,
    })
}
