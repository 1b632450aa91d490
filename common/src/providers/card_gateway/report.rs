//! The report: what became of a transaction, and of what followed it.

use serde::Deserialize;

use super::wire::{self, Reply, Wire};
use super::{Credentials, card, decline, sale};
use crate::money::Money;
use crate::providers::{Answer, Card, Decline, Fault, Found};
use crate::time::Timestamp;

/// All days that there are: a reference or an id narrows enough, and the gateway reads along its index.
const ALWAYS: [(&str, &str); 2] = [("start_date", "2000-01-01"), ("end_date", "9999-12-31")];

/// What a transaction does. Another word makes the report unreadable: what it means is not known.
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

/// Whether it is a success. So does another word here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub(super) enum Status {
    Success,
    Fail,
}

/// How far a transaction is. All but one are ends.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum State {
    Done,
    Pending,
    Declined(Decline),
    NotProcessed,
}

/// A transaction, as far as we look at it.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Record {
    #[serde(deserialize_with = "wire::name")]
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
    /// With a fee of the gateway's, if there is one.
    #[serde(default)]
    pub(super) total_amount: String,
    pub(super) reference_id: String,
    /// Of a child its own; a release of the gateway from before it had any leaves it out.
    #[serde(default)]
    pub(super) child_reference_id: String,
}

/// A page of the report.
#[derive(Debug, Deserialize)]
pub(super) struct Page {
    pub(super) total_pages: u32,
    pub(super) current_page: String,
    pub(super) transactions: Vec<Record>,
}

impl Record {
    pub(super) fn is_charge(&self) -> bool {
        self.parent_transaction_id.is_empty() && matches!(self.transaction_type, Type::Sale | Type::Authorize)
    }

    /// How far it is.
    ///
    /// # Errors
    /// [`Fault::Unknown`] unless it says so in words of the contract: a failure for a reason that is none may not be an end.
    pub(super) fn state(&self) -> Result<State, Fault> {
        match (self.transaction_status, self.decline_reason.as_str()) {
            (Status::Success, "") => Ok(State::Done),
            (Status::Fail, "in progress" | "pending cardholder authentication") => Ok(State::Pending),
            (Status::Fail, "not processed") => Ok(State::NotProcessed),
            (Status::Fail, reason) => {
                decline::of_reason(reason).map(State::Declined).ok_or_else(|| self.unknown("a reason that is none"))
            }
            (Status::Success, _) => Err(self.unknown("a success with a reason to decline")),
        }
    }

    pub(super) fn unknown(&self, why: &str) -> Fault {
        Fault::Unknown(format!("the report's {}: {why}", self.transaction_id))
    }

    pub(super) fn card(&self) -> Option<Card> {
        let (month, year) = self.card_expiry_date.split_once('/')?;
        card(&self.card_type, &self.credit_card_number, month, year)
    }

    /// When it was entered.
    ///
    /// # Errors
    /// [`Fault::Unknown`] if that is no time.
    pub(super) fn at(&self) -> Result<Timestamp, Fault> {
        let at = Timestamp::parse(&format!("{}Z", self.gmt_time.replacen(' ', "T", 1)));
        at.ok_or_else(|| self.unknown("a time that is none"))
    }

    /// What was asked, in minor units; a convenience fee comes on top of it.
    ///
    /// # Errors
    /// [`Fault::Unknown`] if that is no money.
    pub(super) fn money(&self) -> Result<Money, Fault> {
        let money = self.currency.parse().ok().and_then(|currency| Money::from_decimal(&self.amount, currency));
        money.ok_or_else(|| self.unknown("an amount that is none"))
    }

    /// What moved, in minor units: with a convenience fee, if there is one. Some reports have no total.
    ///
    /// # Errors
    /// [`Fault::Unknown`] if that is no money.
    pub(super) fn total(&self) -> Result<Money, Fault> {
        let money = self.money()?;
        match self.total_amount.as_str() {
            "" => Ok(money),
            total => Money::from_decimal(total, money.currency).ok_or_else(|| self.unknown("a total that is none")),
        }
    }

    /// What became of a charge.
    ///
    /// # Errors
    /// [`Fault::Unknown`] for a record that makes no sense.
    pub(super) fn found(&self) -> Result<Found, Fault> {
        Ok(Found::Answer(match self.state()? {
            State::Done => {
                // Some reports have no total: then there is nothing beside the amount.
                let total = Some(self.total_amount.as_str()).filter(|total| !total.is_empty());
                sale::approved(self.transaction_id.clone(), self.money()?, total, self.card())?
            }
            State::Pending => return Ok(Found::Pending),
            State::Declined(decline) => Answer::Declined { decline, card: self.card() },
            State::NotProcessed => Answer::never_processed(self.decline_reason.clone()),
        }))
    }
}

/// A transaction and what followed it, newest first: all that there is under the reference, and nothing else.
///
/// # Errors
/// [`Fault::Unknown`]: of what was not told nothing is known.
pub(super) async fn by_reference(wire: &Wire, account: &Credentials, reference: &str) -> Result<Vec<Record>, Fault> {
    let narrow = [ALWAYS[0], ALWAYS[1], ("reference_id", reference)];
    let (mut records, mut number, mut pages) = (Vec::new(), 0, 1);
    while number < pages {
        number += 1;
        let page = page(wire, account, &narrow, number).await?;
        pages = pages.max(page.total_pages);
        records.extend(page.transactions);
    }
    match records.iter().find(|record| record.reference_id != reference) {
        Some(other) => Err(other.unknown("it is under another reference")),
        None => Ok(records),
    }
}

/// The one transaction; none if the account has none of this id.
pub(super) async fn by_id(wire: &Wire, account: &Credentials, id: &str) -> Result<Option<Record>, Fault> {
    let narrow = [ALWAYS[0], ALWAYS[1], ("transaction_id", id)];
    let read = page(wire, account, &narrow, 1).await?.transactions;
    Ok(read.into_iter().find(|record| record.transaction_id == id))
}

/// A page, counted from 1.
///
/// # Errors
/// [`Fault::Unknown`]: nothing is known, of whatever was asked for. So it is if the page is another one, or is announced and empty.
pub(super) async fn page(
    wire: &Wire,
    account: &Credentials,
    narrow: &[(&str, &str)],
    number: u32,
) -> Result<Page, Fault> {
    let asked = number.to_string();
    let fields = [narrow, &[("page_no", asked.as_str())]].concat();
    let unknown = |why: &str| Err(Fault::Unknown(format!("the report: {why}")));
    match wire.post::<Page>("report", account, &fields).await {
        Ok(Reply::Success(page)) if page.current_page != asked => unknown("another page than was asked for"),
        Ok(Reply::Success(page)) if page.transactions.is_empty() && number <= page.total_pages => {
            unknown("a page that is announced and empty")
        }
        Ok(Reply::Success(page)) => Ok(page),
        Ok(Reply::Refusal(refusal)) => unknown(&refusal.reason()),
        Err(fault) => unknown(&fault.to_string()),
    }
}
