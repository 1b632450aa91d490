//! An invoice, and the input for a new one.

use super::items::{Bill, Items};
use super::numbering::Number;
use super::status::Status;
use crate::accounts::Mode;
use foundation::calendar::{PaymentTerms, Period};
use foundation::crypto::random_hex;
use foundation::id::{
    AccountId, CustomerId, InvoiceId, PaymentId, PaymentMethodId, RecurringInvoiceId, SubscriptionId,
};
use foundation::merchant_data::{ExternalId, MerchantData, Metadata};
use foundation::money::{Currency, Money};
use foundation::time::Timestamp;

/// Random bytes of the token in the URL of a payment page.
const PAGE_TOKEN_BYTES: usize = 20;

/// An invoice as stored. Amounts are in minor units of its currency.
#[derive(Clone, Debug)]
pub struct Invoice {
    pub id: InvoiceId,
    pub account_id: AccountId,
    pub mode: Mode,
    pub customer_id: CustomerId,
    pub status: Status,
    /// Assigned when the invoice is issued.
    pub number: Option<Number>,
    /// The currency of all amounts.
    pub currency: Currency,
    /// The total owed.
    pub amount: i64,
    /// Tax included in `amount`, if the invoice has items.
    pub amount_tax: Option<i64>,
    /// Discount subtracted from `amount`, if the invoice has items.
    pub amount_discount: Option<i64>,
    pub amount_paid: i64,
    /// What was refunded of its payment.
    pub amount_refunded: i64,
    pub description: Option<String>,
    /// In the order sent.
    pub items: Items,
    /// The terms from which the due date is computed; `None` if the merchant set the date.
    pub payment_terms: Option<PaymentTerms>,
    /// A draft has a due date only if the merchant set it.
    pub due_at: Option<Timestamp>,
    pub issued_at: Option<Timestamp>,
    /// When to start collecting the invoice.
    pub collect_at: Option<Timestamp>,
    /// The card to charge; by default the customer's default card.
    pub collect_payment_method_id: Option<PaymentMethodId>,
    /// When the next collection attempt is due.
    pub next_attempt_at: Option<Timestamp>,
    /// Collection attempts so far.
    pub attempt_count: i32,
    /// The first attempt of the current series, from which retry days are counted.
    pub series_started_at: Option<Timestamp>,
    /// Failed attempts in the current series.
    pub series_failures: i32,
    /// Whether the last retry failed.
    pub collection_exhausted: bool,
    pub paid_at: Option<Timestamp>,
    /// The payment that paid the invoice.
    pub payment_id: Option<PaymentId>,
    pub voided_at: Option<Timestamp>,
    /// The recurring invoice that created this invoice.
    pub recurring_invoice_id: Option<RecurringInvoiceId>,
    /// The subscription that created this invoice.
    pub subscription_id: Option<SubscriptionId>,
    /// The cycle that the invoice bills.
    pub billing_period: Option<String>,
    /// The token in the URL of the payment page. Anyone who has it may pay.
    pub page_token: String,
    pub metadata: Option<Metadata>,
    pub external_id: Option<ExternalId>,
    /// Rises with each change that the API shows.
    pub version: i64,
    pub created_at: Timestamp,
}

impl Invoice {
    /// The total owed.
    pub fn money(&self) -> Money {
        Money { minor: self.amount, currency: self.currency }
    }

    /// The terms from which the due date of a draft is computed when it is issued, if the merchant has not set the date.
    pub(super) fn due_by_terms(&self) -> Option<PaymentTerms> {
        self.payment_terms.filter(|_| self.due_at.is_none())
    }

    /// Issues a draft that has its due date, with the next number of its account.
    pub(super) fn issue(&mut self, number: Option<Number>, now: Timestamp) {
        self.status = Status::Open;
        self.issued_at = Some(now);
        self.number = number;
    }

    /// Schedules the collection of an open invoice.
    pub(super) fn schedule(&mut self, collect_at: Timestamp, card: Option<PaymentMethodId>) {
        self.status = Status::Scheduled;
        self.collect_at = Some(collect_at);
        self.collect_payment_method_id = card;
        self.next_attempt_at = Some(collect_at);
        self.begin_series();
        self.collection_exhausted = false;
    }

    /// Counts retries from the next attempt.
    pub(super) fn begin_series(&mut self) {
        self.series_started_at = None;
        self.series_failures = 0;
    }

    pub(super) fn leave_collection(&mut self) {
        self.collect_at = None;
        self.collect_payment_method_id = None;
        self.next_attempt_at = None;
        self.begin_series();
    }
}

/// How the due date is determined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Due {
    /// The merchant set the date.
    At(Timestamp),
    /// Computed from the time of issue.
    Terms(PaymentTerms),
}

/// The validated input for a new invoice.
#[derive(Debug)]
pub struct NewInvoice {
    pub customer_id: CustomerId,
    /// The currency of all amounts.
    pub currency: Currency,
    pub description: Option<String>,
    pub bill: Bill,
    pub due: Due,
    /// The producer and the cycle to bill; `None` if an API request creates the invoice.
    pub cycle: Option<(Producer, Period)>,
    pub merchant_data: MerchantData,
}

/// An object that creates invoices on a schedule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Producer {
    RecurringInvoice(RecurringInvoiceId),
    Subscription(SubscriptionId),
}

impl NewInvoice {
    /// Builds the draft with a new id, without storing it.
    pub fn into_draft(self, account_id: AccountId, mode: Mode, now: Timestamp) -> Invoice {
        let (payment_terms, due_at) = match self.due {
            Due::At(at) => (None, Some(at)),
            Due::Terms(terms) => (Some(terms), None),
        };
        let (recurring_invoice_id, subscription_id) = match self.cycle {
            None => (None, None),
            Some((Producer::RecurringInvoice(id), _)) => (Some(id), None),
            Some((Producer::Subscription(id), _)) => (None, Some(id)),
        };
        Invoice {
            id: InvoiceId::new(now),
            account_id,
            mode,
            customer_id: self.customer_id,
            status: Status::Draft,
            number: None,
            currency: self.currency,
            amount: self.bill.amount(),
            amount_tax: self.bill.tax(),
            amount_discount: self.bill.discount(),
            amount_paid: 0,
            amount_refunded: 0,
            description: self.description,
            items: self.bill.items().clone(),
            payment_terms,
            due_at,
            issued_at: None,
            collect_at: None,
            collect_payment_method_id: None,
            next_attempt_at: None,
            attempt_count: 0,
            series_started_at: None,
            series_failures: 0,
            collection_exhausted: false,
            paid_at: None,
            payment_id: None,
            voided_at: None,
            recurring_invoice_id,
            subscription_id,
            billing_period: self.cycle.map(|(_, period)| period.to_string()),
            page_token: random_hex(PAGE_TOKEN_BYTES),
            metadata: self.merchant_data.metadata,
            external_id: self.merchant_data.external_id,
            version: 1,
            created_at: now,
        }
    }
}
