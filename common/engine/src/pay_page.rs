//! Payment pages: what an unauthenticated visitor who has the URL of an invoice or link may see of it, and how it is
//! paid.

use std::time::Duration;

use sqlx::{PgConnection, PgPool};
use tokio::time::sleep;
use uuid::Uuid;

use crate::ambiguous_commit::AmbiguousCommit;
use crate::charge::renewal_card;
use domain::accounts::{self, Mode, Payee};
use domain::charges::{self, CardToSave, FirstStep, Intent};
use domain::checkout;
use domain::customers;
use domain::invoices::{self, Invoice};
use domain::modifiers::{AppliedModifiers, Modifiers, NotChargeable, Parts};
use domain::operations::Origin;
use domain::payment_links::{self, PaymentLink};
use domain::payments::{self, Live, NewPayment, Payment};
use domain::subscriptions;
use foundation::crypto::KeyRing;
use foundation::db;
use foundation::error::{Error, Result};
use foundation::failpoint;
use foundation::id::{AccountId, CustomerId, OperationId, PaymentId, PaymentMethodId, ProviderAccountId};
use foundation::merchant_data::MerchantData;
use foundation::money::Money;
use foundation::time::Timestamp;
use providers::capabilities::Permission;

/// Delay before an invoice or link found locked is tried again, and the maximum number of such waits.
const WAIT: Duration = Duration::from_millis(50);
const MAX_WAITS: u32 = 100;
/// Unsuccessful card attempts allowed on one page within an hour: a payer needs few, and many indicate card testing.
const MAX_UNSUCCESSFUL_ATTEMPTS: i64 = 10;

/// What a page is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PageKind {
    Invoice,
    Link,
}

/// The address of a page. Anyone who knows it may pay.
#[derive(Clone, Copy, Debug)]
pub struct PageAddress<'a> {
    pub kind: PageKind,
    /// The token at the end of its URL.
    pub token: &'a str,
}

#[derive(Clone, Debug)]
pub enum Payable {
    /// An issued invoice.
    Invoice(Box<Invoice>),
    Link(Box<PaymentLink>),
}

/// State of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PageState {
    /// Can be paid.
    Open,
    /// A payment is in progress, or a partial charge is being returned: no other payment may begin.
    UnderWay,
    /// A charge that belongs to no payment has not been returned: no other payment may begin.
    Returning,
    /// Too many cards were declined within the hour, so none is accepted for now.
    TooManyDeclined,
    Paid,
    Voided,
    Cancelled,
    /// The link has expired.
    Expired,
}

impl Payable {
    pub fn account_id(&self) -> AccountId {
        match self {
            Self::Invoice(invoice) => invoice.account_id,
            Self::Link(link) => link.account_id,
        }
    }

    /// The amount due, without the amounts added on the page.
    pub fn money(&self) -> Money {
        match self {
            Self::Invoice(invoice) => invoice.money(),
            Self::Link(link) => link.money(),
        }
    }

    /// The invoice's number; a link has none.
    pub fn number(&self) -> Option<invoices::Number> {
        match self {
            Self::Invoice(invoice) => invoice.number,
            Self::Link(_) => None,
        }
    }

    pub fn description(&self) -> Option<&str> {
        match self {
            Self::Invoice(invoice) => invoice.description.as_deref(),
            Self::Link(link) => link.description.as_deref(),
        }
    }

    pub fn paid_at(&self) -> Option<Timestamp> {
        match self {
            Self::Invoice(invoice) => invoice.paid_at,
            Self::Link(link) => link.paid_at,
        }
    }

    /// Whether it states its tax amount itself; zero counts as stated.
    fn is_taxed(&self) -> bool {
        match self {
            Self::Invoice(invoice) => invoice.amount_tax.is_some(),
            Self::Link(_) => false,
        }
    }

    fn customer_id(&self) -> Option<CustomerId> {
        match self {
            Self::Invoice(invoice) => Some(invoice.customer_id),
            Self::Link(_) => None,
        }
    }

    fn payment_id(&self) -> Option<PaymentId> {
        match self {
            Self::Invoice(invoice) => invoice.payment_id,
            Self::Link(link) => link.payment_id,
        }
    }

    fn uuid(&self) -> Uuid {
        match self {
            Self::Invoice(invoice) => invoice.id.uuid(),
            Self::Link(link) => link.id.uuid(),
        }
    }

    fn is_paid_by(&self, payment: &Payment) -> bool {
        match self {
            Self::Invoice(invoice) => payment.invoice_id == Some(invoice.id),
            Self::Link(link) => payment.payment_link_id == Some(link.id),
        }
    }

    /// Its state, given its live payment.
    fn state(&self, live: Option<Live>) -> PageState {
        let state = match self {
            Self::Invoice(invoice) => match invoice.status {
                invoices::Status::Open | invoices::Status::Scheduled => PageState::Open,
                invoices::Status::Paid => PageState::Paid,
                invoices::Status::Draft | invoices::Status::Voided => PageState::Voided,
            },
            Self::Link(link) => match link.status {
                payment_links::Status::Open => PageState::Open,
                payment_links::Status::Paid => PageState::Paid,
                payment_links::Status::Cancelled => PageState::Cancelled,
                payment_links::Status::Expired => PageState::Expired,
            },
        };
        if state == PageState::Open && live.is_some() { PageState::UnderWay } else { state }
    }
}

/// The current content of a page.
#[derive(Debug)]
pub struct PayPage {
    pub payee: Payee,
    pub payable: Payable,
    pub state: PageState,
    /// The requested payment, if it is one for this page.
    pub payment: Option<Payment>,
    /// The payment that paid it.
    pub paid_by: Option<Payment>,
    /// The name of the invoice's customer.
    pub billed_to: Option<String>,
    /// Whether it is a customer's invoice of a subscription that continues.
    is_renewed: bool,
    /// The amounts that the account adds: surcharge, tax, tip.
    modifiers: Modifiers,
    /// The account's time when it was read.
    pub now: Timestamp,
}

impl PayPage {
    /// Whether the payer's card can be saved, to be charged for the renewals of the invoice's subscription.
    pub const fn offers_renewals(&self) -> bool {
        self.is_renewed && self.payee.saves_cards
    }

    /// Returns the amounts to charge, with or without a tip.
    ///
    /// # Errors
    /// [`NotChargeable`] if the total exceeds the largest amount, or the account's provider does not charge exactly it.
    pub fn parts(&self, tips: bool) -> Result<Parts, NotChargeable> {
        let due = self.payable.money();
        let step = self.payee.provider.step(due.currency);
        self.modifiers.apply(due.minor, AppliedModifiers { taxed: self.payable.is_taxed(), tips, step })
    }

    /// Whether it is unpaid after its due date.
    pub fn is_overdue(&self) -> bool {
        let Payable::Invoice(invoice) = &self.payable else { return false };
        let day = |at| self.payee.timezone.date_at(at);
        let is_owed = matches!(
            self.state,
            PageState::Open | PageState::UnderWay | PageState::Returning | PageState::TooManyDeclined
        );
        is_owed && invoice.due_at.is_some_and(|due| day(due) < day(self.now))
    }
}

/// Reads a page in one snapshot, with a payment that its visitor may have made. `at` is system time.
///
/// # Errors
/// [`Error::NotFound`] for an unknown address.
pub async fn open_page(
    db: &PgPool,
    address: PageAddress<'_>,
    payment: Option<PaymentId>,
    at: Timestamp,
) -> Result<PayPage> {
    let mut snapshot = db::snapshot(db).await?;
    let payable = find(&mut snapshot, address, at).await?;
    let account = payable.account_id();
    let now = accounts::now(&mut *snapshot, account, at).await?;
    let state = state(&mut snapshot, &payable, now).await?;
    let payee = accounts::payee(&mut snapshot, account).await?;
    let customer = match payable.customer_id() {
        Some(customer) => customers::find(&mut *snapshot, account, customer).await?,
        None => None,
    };
    let is_renewed = customer.is_some() && is_renewed(&mut snapshot, &payable).await?;
    let billed_to = customer.map(|customer| customer.name);
    let payment = match payment {
        Some(id) => payments::find(&mut *snapshot, account, id).await?,
        None => None,
    };
    let paid_by = match payable.payment_id() {
        Some(id) => payments::find(&mut *snapshot, account, id).await?,
        None => None,
    };
    snapshot.rollback().await?;
    let payment = payment.filter(|payment| payable.is_paid_by(payment));
    let modifiers = Modifiers::parse(&payee.modifiers)
        .map_err(|error| Error::internal(format!("the modifiers of {account}: {error}")))?;
    Ok(PayPage { state, payee, payable, payment, paid_by, billed_to, is_renewed, modifiers, now })
}

async fn find(db: &mut PgConnection, address: PageAddress<'_>, at: Timestamp) -> Result<Payable> {
    Ok(match address.kind {
        PageKind::Invoice => Payable::Invoice(Box::new(invoices::retrieve_by_page_token(db, address.token).await?)),
        PageKind::Link => Payable::Link(Box::new(payment_links::retrieve_by_page_token(db, address.token, at).await?)),
    })
}

/// Whether it is of a subscription that continues.
async fn is_renewed(db: &mut PgConnection, payable: &Payable) -> Result<bool> {
    let Payable::Invoice(invoice) = payable else { return Ok(false) };
    let Some(subscription) = invoice.subscription_id else { return Ok(false) };
    let subscription = subscriptions::retrieve(db, invoice.account_id, subscription).await?;
    Ok(subscription.status != subscriptions::Status::Cancelled)
}

/// Returns the current state. Before a payment begins, the caller must hold the lock.
async fn state(db: &mut PgConnection, payable: &Payable, now: Timestamp) -> Result<PageState> {
    let state = payable.state(live(db, payable).await?);
    if state != PageState::Open {
        return Ok(state);
    }
    let (account, paid_for) = (payable.account_id(), payable.uuid());
    if payments::has_unreturned_charge(db, account, paid_for).await? {
        return Ok(PageState::Returning);
    }
    let unsuccessful =
        payments::unsuccessful_attempts_on_page(db, account, paid_for, now, MAX_UNSUCCESSFUL_ATTEMPTS).await?;
    Ok(if unsuccessful < MAX_UNSUCCESSFUL_ATTEMPTS { PageState::Open } else { PageState::TooManyDeclined })
}

async fn live(db: &mut PgConnection, payable: &Payable) -> Result<Option<Live>> {
    match payable {
        Payable::Invoice(invoice) => payments::live_for_invoice(db, invoice.account_id, invoice.id).await,
        Payable::Link(link) => payments::live_for_link(db, link.account_id, link.id).await,
    }
}

/// What a payer submits.
#[derive(Clone, Copy, Debug)]
pub struct PaySubmission<'a> {
    /// The card token.
    pub token: &'a str,
    /// Whether the payer accepts the suggested tip.
    pub tips: bool,
    /// Whether the payer wants the card to be charged for renewals. Has no effect on a page that does not offer it.
    pub renewals: bool,
    /// The total displayed to the payer, if sent: no other amount is charged.
    pub total: Option<i64>,
    /// The code of the language that the payer chose, if one was chosen.
    pub language: Option<&'a str>,
}

/// The result of a submission.
#[derive(Debug)]
pub enum PayOutcome {
    /// The payment has begun. Its operation must be pushed.
    Begun(Box<Payment>, OperationId),
    /// It cannot be paid in this state.
    Refused(PageState),
    /// The total differs from the one displayed to the payer.
    TotalChanged,
    /// The added amounts make the total exceed the largest amount, or the provider does not charge exactly the total.
    NotChargeable,
}

/// Writes the intent of a payment on a page: the payment, the operation that charges it, the spent token, and on a link
/// that it is being paid. If the payer wants the card to be charged for renewals, the operation saves it, and the charge
/// follows. The amounts that the account adds are charged too. Of concurrent calls only one begins a payment. `at` is
/// system time.
///
/// # Errors
/// [`Error::NotFound`] for an unknown address; [`Error::NotSupported`] if the account's provider takes no payments; 422
/// for an unknown or expired token; [`Error::Conflict`] for a spent one. None of these errors spends a token.
pub async fn pay_page(
    db: &PgPool,
    address: PageAddress<'_>,
    submission: PaySubmission<'_>,
    origin: &Origin,
    encryption: &KeyRing,
    at: Timestamp,
) -> Result<PayOutcome> {
    let mut page = open_page(db, address, None, at).await?;
    let account = page.payable.account_id();
    let ids = (PaymentId::new(page.now), OperationId::new(page.now));
    let (mut commit, mut waits) = (AmbiguousCommit::default(), 0);
    loop {
        let written = write(db, &page, submission, origin, ids, encryption, &mut commit).await;
        let lookup = async {
            let found = payments::retrieve(db, account, ids.0).await?;
            Ok(Some(PayOutcome::Begun(Box::new(found), ids.1)))
        };
        // A refusal may be caused by an earlier attempt of this call.
        match commit.resolve(written, |written| matches!(written, Some(PayOutcome::Begun(..))), lookup).await? {
            Some(Some(outcome)) => return Ok(outcome),
            Some(None) if waits == MAX_WAITS => return Ok(PayOutcome::Refused(PageState::UnderWay)),
            Some(None) => waits += 1,
            None => {}
        }
        sleep(WAIT).await;
        match open_page(db, address, None, at).await {
            Ok(read) => page = read,
            Err(error) => commit.retry_or_fail(error).await?,
        }
    }
}

/// Makes one attempt. `None` if another transaction holds the lock, or the customer was deleted since the page was read: a
/// page is open to any number of visitors, so none may hold a connection while waiting for a lock.
///
/// Lock order: the invoice or link, the token.
async fn write(
    db: &PgPool,
    page: &PayPage,
    submission: PaySubmission<'_>,
    origin: &Origin,
    ids: (PaymentId, OperationId),
    encryption: &KeyRing,
    commit: &mut AmbiguousCommit,
) -> Result<Option<PayOutcome>> {
    let PayPage { payee, now, .. } = page;
    if page.state != PageState::Open {
        return Ok(Some(PayOutcome::Refused(page.state)));
    }
    if !payee.accepts_payments {
        return Err(Error::NotSupported(Permission::PaymentsCreate.name()));
    }
    let Ok(parts) = page.parts(submission.tips) else { return Ok(Some(PayOutcome::NotChargeable)) };
    if submission.total.is_some_and(|total| total != parts.total) {
        return Ok(Some(PayOutcome::TotalChanged));
    }
    let mut tx = db::begin(db).await?;
    let Some(mut payable) = try_lock(&mut tx, &page.payable, *now).await? else { return Ok(None) };
    let state = state(&mut tx, &payable, *now).await?;
    if state != PageState::Open {
        return Ok(Some(PayOutcome::Refused(state)));
    }
    let spent = checkout::spend(&mut tx, payee, submission.token, encryption).await?;
    let settlement = accounts::settlement(&mut *tx, spent.provider_account_id).await?;
    let total = Money { minor: parts.total, currency: payable.money().currency };
    // The account has moved to another provider since the payer got the token.
    if !settlement.provider.charges(total) {
        return Ok(Some(PayOutcome::NotChargeable));
    }
    settlement.require(total)?;
    let action_token = settlement.provider.may_challenge().then(checkout::action_token);
    // Where the token is of, which may no longer be where the account's new payments go.
    let saves = submission.renewals && page.is_renewed && settlement.permits(Permission::PaymentMethodsCreate);
    let first_step = match payable.customer_id().filter(|_| saves) {
        Some(customer) => {
            FirstStep::SaveCard(CardToSave { id: PaymentMethodId::new(*now), customer, token: spent.source })
        }
        None => FirstStep::Charge(spent.source),
    };
    let payment = payment(&payable, parts, spent.provider_account_id, ids.0, payee.mode, *now);
    let intent = Intent {
        payment,
        return_url: None,
        payer_language: submission.language.map(str::to_owned),
        operation: ids.1,
        first_step,
        action_token,
        origin: origin.clone(),
        key: None,
    };
    match charges::insert_intents(&mut tx, std::slice::from_ref(&intent)).await {
        Err(error) if is_taken(&error) => return Ok(Some(PayOutcome::Refused(PageState::UnderWay))),
        inserted => drop(inserted?),
    }
    if let FirstStep::SaveCard(card) = &intent.first_step {
        match renewal_card::begin_saving(&mut tx, &intent, card).await {
            Err(Error::Database(error)) if db::violated_constraint(&error) == Some("payment_methods_customer") => {
                return Ok(None);
            }
            begun => begun?,
        }
    }
    if let Payable::Link(link) = &mut payable {
        payment_links::begin_payment(&mut tx, link).await?;
    }
    failpoint!("pay_page.written");
    commit.send(tx.commit()).await?;
    failpoint!("pay_page.committed");
    Ok(Some(PayOutcome::Begun(Box::new(intent.payment), ids.1)))
}

async fn try_lock(tx: &mut PgConnection, payable: &Payable, now: Timestamp) -> Result<Option<Payable>> {
    Ok(match payable {
        Payable::Invoice(invoice) => {
            let locked = invoices::try_lock(tx, invoice.account_id, invoice.id).await?;
            locked.map(|invoice| Payable::Invoice(Box::new(invoice)))
        }
        Payable::Link(link) => {
            let locked = payment_links::try_lock(tx, link.account_id, link.id, now).await?;
            locked.map(|link| Payable::Link(Box::new(link)))
        }
    })
}

/// Whether a constraint reports another live payment for the same invoice or link.
fn is_taken(error: &sqlx::Error) -> bool {
    matches!(db::violated_constraint(error), Some("payments_one_live_per_invoice" | "payments_one_live_per_link"))
}

/// The payment of an invoice or link.
fn payment(
    payable: &Payable,
    parts: Parts,
    provider_account_id: ProviderAccountId,
    id: PaymentId,
    mode: Mode,
    now: Timestamp,
) -> Payment {
    let (invoice_id, payment_link_id) = match payable {
        Payable::Invoice(invoice) => (Some(invoice.id), None),
        Payable::Link(link) => (None, Some(link.id)),
    };
    let metadata = match payable {
        Payable::Invoice(invoice) => invoice.metadata.clone(),
        Payable::Link(link) => link.metadata.clone(),
    };
    let payment = NewPayment {
        id,
        account_id: payable.account_id(),
        provider_account_id,
        money: Money { minor: parts.total, currency: payable.money().currency },
        capture: true,
        customer_id: payable.customer_id(),
        payment_method: None,
        invoice_id,
        payment_link_id,
        parts: Some(parts).filter(Parts::has_additions),
        description: None,
        merchant_data: MerchantData { metadata, external_id: None },
    };
    Payment::processing(payment, mode, now)
}
