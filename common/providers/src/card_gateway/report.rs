//! The report: transactions and their follow-ups.

use std::collections::HashSet;

use serde::{Deserialize, Deserializer, de::Error as _};

use super::approval::approved;
use super::wire::{self, Reply, Wire};
use super::{Credentials, card, decline};
use crate::{Card, Decline, Found, ProviderError, ProviderResponse};
use foundation::money::Money;
use foundation::time::Timestamp;

/// All dates: a reference or an id is selective enough, and the gateway reads by index.
const ALWAYS: [(&str, &str); 2] = [("start_date", "2000-01-01"), ("end_date", "9999-12-31")];

/// The type of a transaction. Any other value makes the report unreadable, because its meaning is unknown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub(super) enum Type {
    Sale,
    Authorize,
    Capture,
    Refund,
    Void,
    Credit,
}

/// Whether the transaction succeeded. Any other value makes the report unreadable too.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub(super) enum Status {
    Success,
    Fail,
}

/// The state of a transaction. All except `Pending` are final.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum State {
    Done,
    Pending,
    Declined(Decline),
    NotProcessed,
}

/// A transaction, with the fields that we use.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Record {
    #[serde(deserialize_with = "wire::id")]
    pub(super) transaction_id: String,
    pub(super) parent_transaction_id: String,
    pub(super) transaction_type: Type,
    pub(super) transaction_status: Status,
    pub(super) decline_reason: String,
    pub(super) time_zone: String,
    pub(super) gmt_time: String,
    pub(super) card_type: String,
    pub(super) credit_card_number: String,
    pub(super) card_expiry_date: String,
    pub(super) currency: String,
    pub(super) amount: String,
    /// Including a fee of the gateway, if there is one.
    #[serde(default)]
    pub(super) total_amount: String,
    pub(super) reference_id: String,
    /// A child's own reference, empty if it has none; `None` in older releases of the gateway, which do not report it.
    #[serde(default)]
    pub(super) child_reference_id: Option<String>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Page {
    /// On all pages.
    #[serde(deserialize_with = "number")]
    pub(super) no_of_transactions: u64,
    pub(super) total_pages: u32,
    pub(super) current_page: String,
    pub(super) transactions: Vec<Record>,
}

/// A number in a string.
fn number<'de, D: Deserializer<'de>>(from: D) -> Result<u64, D::Error> {
    String::deserialize(from)?.parse().map_err(D::Error::custom)
}

impl Record {
    pub(super) fn is_charge(&self) -> bool {
        self.parent_transaction_id.is_empty() && matches!(self.transaction_type, Type::Sale | Type::Authorize)
    }

    ///
    /// # Errors
    /// [`ProviderError::Unknown`] unless it has one of the contract's values: a failure for an unknown reason may not
    /// be final.
    pub(super) fn state(&self) -> Result<State, ProviderError> {
        match (self.transaction_status, self.decline_reason.as_str()) {
            (Status::Success, "") => Ok(State::Done),
            (Status::Fail, "in progress" | "pending cardholder authentication") => Ok(State::Pending),
            (Status::Fail, "not processed") => Ok(State::NotProcessed),
            (Status::Fail, reason) => {
                decline::of_reason(reason).map(State::Declined).ok_or_else(|| self.unknown("unknown decline reason"))
            }
            (Status::Success, _) => Err(self.unknown("a success with a decline reason")),
        }
    }

    pub(super) fn unknown(&self, why: &str) -> ProviderError {
        ProviderError::Unknown(format!("{} in the report: {why}", self.transaction_id))
    }

    pub(super) fn card(&self) -> Option<Card> {
        let (month, year) = self.card_expiry_date.split_once('/')?;
        card(&self.card_type, &self.credit_card_number, month, year)
    }

    /// When it was created.
    ///
    /// # Errors
    /// [`ProviderError::Unknown`] if the time is invalid.
    pub(super) fn at(&self) -> Result<Timestamp, ProviderError> {
        let at = Timestamp::parse(&format!("{}Z", self.gmt_time.replacen(' ', "T", 1)));
        at.ok_or_else(|| self.unknown("invalid time"))
    }

    /// The requested amount, in minor units; a convenience fee is added to it.
    ///
    /// # Errors
    /// [`ProviderError::Unknown`] if the amount is invalid.
    pub(super) fn money(&self) -> Result<Money, ProviderError> {
        let money = self.currency.parse().ok().and_then(|currency| Money::from_decimal(&self.amount, currency));
        money.ok_or_else(|| self.unknown("invalid amount"))
    }

    /// The charged amount, in minor units, including a convenience fee. Some reports have no total.
    ///
    /// # Errors
    /// [`ProviderError::Unknown`] if the amount is invalid.
    pub(super) fn total(&self) -> Result<Money, ProviderError> {
        let money = self.money()?;
        match self.total_amount.as_str() {
            "" => Ok(money),
            total => Money::from_decimal(total, money.currency).ok_or_else(|| self.unknown("invalid total")),
        }
    }

    /// The outcome of a charge.
    ///
    /// # Errors
    /// [`ProviderError::Unknown`] for an invalid record.
    pub(super) fn found(&self) -> Result<Found, ProviderError> {
        Ok(Found::Response(match self.state()? {
            State::Done => {
                // Without a total, the amount is the total.
                let total = Some(self.total_amount.as_str()).filter(|total| !total.is_empty());
                approved(self.transaction_id.clone(), self.money()?, total, self.card())?
            }
            State::Pending => return Ok(Found::Pending),
            State::Declined(decline) => ProviderResponse::Declined { decline, card: self.card() },
            State::NotProcessed => ProviderResponse::never_processed(self.decline_reason.clone()),
        }))
    }
}

/// Returns all transactions under a reference: a charge and its follow-ups, newest first.
///
/// # Errors
/// [`ProviderError::Unknown`] if the report is incomplete.
pub(super) async fn by_reference(
    wire: &Wire,
    account: &Credentials,
    reference: &str,
) -> Result<Vec<Record>, ProviderError> {
    let filter = [ALWAYS[0], ALWAYS[1], ("reference_id", reference)];
    let (mut records, mut number, mut pages) = (Vec::<Record>::new(), 0, 1);
    while number < pages {
        number += 1;
        let page = page(wire, account, &filter, number).await?;
        pages = pages.max(page.total_pages);
        // New transactions shift others to the next page, where they are read again.
        let known: HashSet<_> = records.iter().map(|record| record.transaction_id.clone()).collect();
        records.extend(page.transactions.into_iter().filter(|record| !known.contains(&record.transaction_id)));
    }
    match records.iter().find(|record| record.reference_id != reference) {
        Some(other) => Err(other.unknown("it has another reference")),
        None => Ok(records),
    }
}

/// Returns the transaction with this id, if the account has one.
pub(super) async fn by_id(wire: &Wire, account: &Credentials, id: &str) -> Result<Option<Record>, ProviderError> {
    let filter = [ALWAYS[0], ALWAYS[1], ("transaction_id", id)];
    let read = page(wire, account, &filter, 1).await?.transactions;
    Ok(read.into_iter().find(|record| record.transaction_id == id))
}

/// Returns a page, numbered from 1.
///
/// # Errors
/// [`ProviderError::Unknown`] for any failure, also if the response is another page, or is an announced page without
/// transactions.
pub(super) async fn page(
    wire: &Wire,
    account: &Credentials,
    filter: &[(&str, &str)],
    number: u32,
) -> Result<Page, ProviderError> {
    let requested = number.to_string();
    let fields = [filter, &[("page_no", requested.as_str())]].concat();
    let unknown = |why: &str| Err(ProviderError::Unknown(format!("the report: {why}")));
    match wire.post::<Page>("report", account, &fields).await {
        Ok(Reply::Success(page)) if page.current_page != requested => unknown("a different page than requested"),
        Ok(Reply::Success(page)) if page.transactions.is_empty() && number <= page.total_pages => {
            unknown("an announced page is empty")
        }
        Ok(Reply::Success(page)) => Ok(page),
        Ok(Reply::Refusal(refusal)) => unknown(&refusal.reason()),
        Err(fault) => unknown(&fault.to_string()),
    }
}
