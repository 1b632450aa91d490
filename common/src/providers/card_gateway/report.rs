//! The report: what became of a transaction, and of what followed it.

use serde::Deserialize;

use super::wire::{self, Reply, Wire};
use super::{Credentials, card};
use crate::money::Money;
use crate::providers::{Answer, Card, Fault, Found};
use crate::time::Timestamp;

/// All days that there are: a reference or an id narrows enough, and the gateway reads along its index.
const ALWAYS: [(&str, &str); 2] = [("start_date", "2000-01-01"), ("end_date", "9999-12-31")];
/// A transaction, as far as we look at it.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Record {
    #[serde(deserialize_with = "wire::name")]
    pub(super) transaction_id: String,
    pub(super) parent_transaction_id: String,
    pub(super) transaction_type: String,
    pub(super) transaction_status: String,
    pub(super) decline_reason: String,
    pub(super) time_zone: String,
    pub(super) gmt_time: String,
    pub(super) card_type: String,
    pub(super) credit_card_number: String,
    pub(super) card_expiry_date: String,
    pub(super) currency: String,
    pub(super) amount: String,
    pub(super) reference_id: String,
}

/// A page of the report.
#[derive(Debug, Deserialize)]
pub(super) struct Page {
    pub(super) total_pages: u32,
    pub(super) transactions: Vec<Record>,
}

impl Record {
    pub(super) fn is_charge(&self) -> bool {
        self.parent_transaction_id.is_empty() && matches!(self.transaction_type.as_str(), "SALE" | "AUTHORIZE")
    }

    pub(super) fn succeeded(&self) -> bool {
        self.transaction_status == "SUCCESS"
    }

    /// Whether it has not come to its end.
    pub(super) fn is_pending(&self) -> bool {
        matches!(self.decline_reason.as_str(), "in progress" | "pending cardholder authentication")
    }

    pub(super) fn card(&self) -> Option<Card> {
        let (month, year) = self.card_expiry_date.split_once('/')?;
        card(&self.card_type, &self.credit_card_number, month, year)
    }

    /// When it was entered.
    pub(super) fn at(&self) -> Option<Timestamp> {
        Timestamp::parse(&format!("{}Z", self.gmt_time.replacen(' ', "T", 1)))
    }

    /// What was asked, in minor units.
    pub(super) fn money(&self) -> Option<Money> {
        Money::from_decimal(&self.amount, self.currency.parse().ok()?)
    }

    /// What became of a charge.
    ///
    /// # Errors
    /// [`Fault::Unknown`] for a record that makes no sense.
    pub(super) fn found(&self) -> Result<Found, Fault> {
        if self.succeeded() {
            let money = self.money().ok_or_else(|| Fault::Unknown(format!("the amount of {}", self.transaction_id)))?;
            let (provider_ref, card) = (self.transaction_id.clone(), self.card());
            return Ok(Found::Answer(Answer::Charged { provider_ref, amount: money.minor, card }));
        }
        if self.is_pending() {
            return Ok(Found::Pending);
        }
        Ok(Found::Answer(match super::decline::of_reason(&self.decline_reason) {
            Some(decline) => Answer::Declined { decline, card: self.card() },
            None => Answer::Refused { reason: self.decline_reason.clone() },
        }))
    }
}

/// A transaction and what followed it, newest first.
pub(super) async fn by_reference(wire: &Wire, account: &Credentials, reference: &str) -> Result<Vec<Record>, Fault> {
    let mut records = Vec::new();
    for page in 1u32.. {
        let number = page.to_string();
        let narrow = [ALWAYS[0], ALWAYS[1], ("reference_id", reference), ("page_no", &number)];
        let read = page_of(wire, account, &narrow).await?;
        // A page that is empty is the last, whatever it says.
        let is_last = page >= read.total_pages || read.transactions.is_empty();
        records.extend(read.transactions);
        if is_last {
            break;
        }
    }
    Ok(records)
}

/// The one transaction; none if the account has none of this id.
pub(super) async fn by_id(wire: &Wire, account: &Credentials, id: &str) -> Result<Option<Record>, Fault> {
    let narrow = [ALWAYS[0], ALWAYS[1], ("transaction_id", id)];
    Ok(page_of(wire, account, &narrow).await?.transactions.into_iter().next())
}

/// A page.
///
/// # Errors
/// [`Fault::Unknown`]: nothing is known, of whatever was asked for.
pub(super) async fn page_of(wire: &Wire, account: &Credentials, narrow: &[(&str, &str)]) -> Result<Page, Fault> {
    match wire.post::<Page>("report", account, narrow).await {
        Ok(Reply::Success(page)) => Ok(page),
        Ok(Reply::Refusal(refusal)) => Err(Fault::Unknown(format!("the report: {}", refusal.reason()))),
        Err(fault) => Err(Fault::Unknown(format!("the report: {fault}"))),
    }
}
