//! Payment pages: what a stranger who has the address of an invoice or a link may see of it, and how it is paid there.

use std::time::Duration;

use sqlx::{PgConnection, PgPool};
use tokio::time::sleep;
use uuid::Uuid;

use super::doubt::Doubt;
use super::straight;
use crate::accounts::{self, Payee};
use crate::capabilities::Operation;
use crate::checkout::{self, Spent};
use crate::crypto::KeyRing;
use crate::customers;
use crate::db;
use crate::error::{Error, Result};
use crate::id::{AccountId, CustomerId, OperationId, PaymentId};
use crate::invoices::{self, Invoice};
use crate::modifiers::{Modifiers, Occasion, Parts, TooMuch};
use crate::money::Money;
use crate::operations::{Kind, NewOperation, Origin, Subject};
use crate::payment_links::{self, PaymentLink};
use crate::payments::{self, NewPayment, Payment, Status};
use crate::proof::failpoint;
use crate::time::Timestamp;

/// How long whoever finds an invoice or link locked waits before looking again, and how often at most.
const WAIT: Duration = Duration::from_millis(50);
const MOST_WAITS: u32 = 100;
/// Cards that may be tried in vain within an hour on one page: a payer has few, and who has many is looking for good ones.
const MOST_TRIED: i64 = 10;

/// What a page is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PageKind {
    /// An invoice.
    Invoice,
    /// A payment link.
    Link,
}

/// Where a page is: whoever knows it may pay.
#[derive(Clone, Copy, Debug)]
pub struct PageAddress<'a> {
    /// What it is about.
    pub kind: PageKind,
    /// What the address ends with.
    pub token: &'a str,
}

/// What is paid on a page.
#[derive(Clone, Debug)]
pub enum Payable {
    /// An invoice that was issued.
    Invoice(Box<Invoice>),
    /// A payment link.
    Link(Box<PaymentLink>),
}

/// Where a page stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PageState {
    /// It may be paid.
    Open,
    /// A payment is under way, or a part that was authorized is being given back: nobody else may pay meanwhile.
    UnderWay,
    /// So many cards were declined within the hour that none is taken for now.
    TooManyDeclined,
    /// It was paid.
    Paid,
    /// The invoice was voided.
    Voided,
    /// The link was cancelled.
    Cancelled,
    /// The link's time was up.
    Expired,
}

impl Payable {
    /// Whose it is.
    pub fn account_id(&self) -> AccountId {
        match self {
            Self::Invoice(invoice) => invoice.account_id,
            Self::Link(link) => link.account_id,
        }
    }

    /// What is owed, without what is added here.
    pub fn money(&self) -> Money {
        match self {
            Self::Invoice(invoice) => Money { minor: invoice.amount, currency: invoice.currency },
            Self::Link(link) => link.money(),
        }
    }

    /// Whether it says itself what of it is tax, none being a saying too.
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

    /// Where it stands, if this is where its live payment does.
    fn state(&self, live: Option<Status>) -> PageState {
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

/// A page as it stands.
#[derive(Debug)]
pub struct PayPage {
    /// Who is paid.
    pub payee: Payee,
    /// What for.
    pub payable: Payable,
    /// Where it stands.
    pub state: PageState,
    /// The payment that was asked about, if it is one for this.
    pub payment: Option<Payment>,
    /// The name of the customer who is billed, on an invoice.
    pub billed_to: Option<String>,
    /// What the account adds to an amount.
    modifiers: Modifiers,
    /// When it was read, by the account's clock.
    now: Timestamp,
}

impl PayPage {
    /// What is charged for it here, with a tip or without.
    ///
    /// # Errors
    /// [`TooMuch`] if it cannot be charged at all.
    pub fn parts(&self, tips: bool) -> Result<Parts, TooMuch> {
        self.modifiers.apply(self.payable.money().minor, Occasion { taxed: self.payable.is_taxed(), tips })
    }

    /// Whether it is still owed after the day on which it was due.
    pub fn is_overdue(&self) -> bool {
        let Payable::Invoice(invoice) = &self.payable else { return false };
        let day = |at| self.payee.timezone.date_at(at);
        let is_owed = matches!(self.state, PageState::Open | PageState::UnderWay | PageState::TooManyDeclined);
        is_owed && invoice.due_at.is_some_and(|due| day(due) < day(self.now))
    }
}

/// Reads a page as it stands at one moment, with a payment that its reader may have made. `at` is everyone's time.
///
/// # Errors
/// [`Error::NotFound`] for an address that is none.
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
    let billed_to = match payable.customer_id() {
        Some(customer) => customers::find(&mut snapshot, account, customer).await?.map(|customer| customer.name),
        None => None,
    };
    let payment = match payment {
        Some(id) => payments::find(&mut snapshot, account, id).await?,
        None => None,
    };
    snapshot.commit().await?;
    let payment = payment.filter(|payment| payable.is_paid_by(payment));
    let modifiers = Modifiers::parse(&payee.modifiers)
        .map_err(|error| Error::internal(format!("the modifiers of {account}: {error}")))?;
    Ok(PayPage { state, payee, payable, payment, billed_to, modifiers, now })
}

async fn find(db: &mut PgConnection, address: PageAddress<'_>, at: Timestamp) -> Result<Payable> {
    Ok(match address.kind {
        PageKind::Invoice => Payable::Invoice(Box::new(invoices::of_page(db, address.token).await?)),
        PageKind::Link => Payable::Link(Box::new(payment_links::of_page(db, address.token, at).await?)),
    })
}

/// Where it stands at this moment. To begin a payment it is locked before.
async fn state(db: &mut PgConnection, payable: &Payable, now: Timestamp) -> Result<PageState> {
    let state = payable.state(live(db, payable).await?);
    if state != PageState::Open {
        return Ok(state);
    }
    let tried = payments::tried_on_page(db, payable.account_id(), payable.uuid(), now, MOST_TRIED).await?;
    Ok(if tried < MOST_TRIED { PageState::Open } else { PageState::TooManyDeclined })
}

async fn live(db: &mut PgConnection, payable: &Payable) -> Result<Option<Status>> {
    match payable {
        Payable::Invoice(invoice) => payments::live_for_invoice(db, invoice.account_id, invoice.id).await,
        Payable::Link(link) => payments::live_for_link(db, link.account_id, link.id).await,
    }
}

/// What a payer has sent.
#[derive(Clone, Copy, Debug)]
pub struct Offer<'a> {
    /// What pays.
    pub token: &'a str,
    /// Whether the payer gives the tip that the account suggests.
    pub tips: bool,
    /// What the payer was shown as the sum, if that was said: nothing else is charged.
    pub total: Option<i64>,
}

/// What became of whoever wanted to pay.
#[derive(Debug)]
pub enum Paying {
    /// The payment is on its way: push the operation.
    Begun(Box<Payment>, OperationId),
    /// It cannot be paid, or not now.
    Refused(PageState),
    /// The sum is not the one that the payer was shown.
    OtherTotal,
    /// What the account adds makes it more than the largest amount.
    TooMuch,
}

/// Writes the intent of a payment on a page: the payment, the operation that charges it, the token spent, and on a link that it
/// is being paid. What the account adds to an amount is charged with it. Of any number who want to at once, one does. `at` is
/// everyone's time.
///
/// # Errors
/// [`Error::NotFound`] for an address that is none; [`Error::NotSupported`] for an account whose provider takes no payments;
/// 422 for a token that is unknown or expired; [`Error::Conflict`] for a spent one. None of them spends a token.
pub async fn pay_page(
    db: &PgPool,
    address: PageAddress<'_>,
    offer: Offer<'_>,
    origin: &Origin,
    encryption: &KeyRing,
    at: Timestamp,
) -> Result<Paying> {
    let mut page = open_page(db, address, None, at).await?;
    let account = page.payable.account_id();
    let ids = (PaymentId::new(page.now), OperationId::new(page.now));
    let (mut doubt, mut waits) = (Doubt::default(), 0);
    loop {
        let written = write(db, &page, offer, origin, ids, encryption, &mut doubt).await;
        if let Ok(Some(begun @ Paying::Begun(..))) = written {
            return Ok(begun);
        }
        // What stands in the way may be the doing of an earlier try of ours.
        match (doubt.found(payments::retrieve(db, account, ids.0)).await, written) {
            (Ok(Some(found)), _) => return Ok(Paying::Begun(Box::new(found), ids.1)),
            (Ok(None), Ok(Some(paying))) => return Ok(paying),
            (Ok(None), Ok(None)) if waits == MOST_WAITS => return Ok(Paying::Refused(PageState::UnderWay)),
            (Ok(None), Ok(None)) => waits += 1,
            (Ok(None), Err(error)) => doubt.again(error).await?,
            (Err(unread), _) => doubt.again_unread(unread).await?,
        }
        sleep(WAIT).await;
        match open_page(db, address, None, at).await {
            Ok(read) => page = read,
            Err(error) => doubt.again(error).await?,
        }
    }
}

/// `None`: somebody else is at it at this moment. A page is open to strangers, however many, so nobody holds a connection to
/// wait for a lock.
///
/// Locks: the invoice or link, the token.
async fn write(
    db: &PgPool,
    page: &PayPage,
    offer: Offer<'_>,
    origin: &Origin,
    ids: (PaymentId, OperationId),
    encryption: &KeyRing,
    doubt: &mut Doubt,
) -> Result<Option<Paying>> {
    let PayPage { payee, now, .. } = page;
    if page.state != PageState::Open {
        return Ok(Some(Paying::Refused(page.state)));
    }
    if !payee.takes_payments {
        return Err(Error::NotSupported(Operation::PaymentsCreate.name()));
    }
    let Ok(parts) = page.parts(offer.tips) else { return Ok(Some(Paying::TooMuch)) };
    if offer.total.is_some_and(|total| total != parts.total) {
        return Ok(Some(Paying::OtherTotal));
    }
    let mut tx = db::begin(db).await?;
    let Some(mut payable) = try_lock(&mut tx, &page.payable, *now).await? else { return Ok(None) };
    let state = state(&mut tx, &payable, *now).await?;
    if state != PageState::Open {
        return Ok(Some(Paying::Refused(state)));
    }
    let spent = checkout::spend(&mut tx, payee, offer.token, encryption).await?;
    let settlement = accounts::settlement(&mut *tx, spent.provider_account_id).await?;
    settlement.require(payable.money().currency)?;
    let action_token = settlement.provider.may_challenge().then(checkout::action_token);
    let (payment, order) = intent(&payable, parts, &spent, action_token.as_deref(), origin, ids);
    match straight::insert_intent(&mut tx, &payment, &order, *now).await {
        Err(Error::Database(error)) if is_taken(&error) => return Ok(Some(Paying::Refused(PageState::UnderWay))),
        inserted => inserted?,
    }
    if let Payable::Link(link) = &mut payable {
        payment_links::payment_begins(&mut tx, link).await?;
    }
    failpoint("pay_page.written").await?;
    doubt.send(tx.commit()).await?;
    failpoint("pay_page.committed").await?;
    Ok(Some(Paying::Begun(Box::new(Payment::processing(&payment, payee.mode, *now)), ids.1)))
}

async fn try_lock(tx: &mut PgConnection, payable: &Payable, now: Timestamp) -> Result<Option<Payable>> {
    Ok(match payable {
        Payable::Invoice(seen) => {
            let locked = invoices::try_lock(tx, seen.account_id, seen.id).await?;
            locked.map(|invoice| Payable::Invoice(Box::new(invoice)))
        }
        Payable::Link(seen) => {
            let locked = payment_links::try_lock(tx, seen.account_id, seen.id, now).await?;
            locked.map(|link| Payable::Link(Box::new(link)))
        }
    })
}

/// The last line of defence: another payment for the same is live.
fn is_taken(error: &sqlx::Error) -> bool {
    matches!(db::violated(error), Some("payments_one_live_per_invoice" | "payments_one_live_per_link"))
}

/// The payment and the operation that charges it.
fn intent<'a>(
    payable: &Payable,
    parts: Parts,
    spent: &'a Spent,
    action_token: Option<&'a str>,
    origin: &'a Origin,
    (payment, operation): (PaymentId, OperationId),
) -> (NewPayment<'a>, NewOperation<'a>) {
    let (invoice_id, payment_link_id) = match payable {
        Payable::Invoice(invoice) => (Some(invoice.id), None),
        Payable::Link(link) => (None, Some(link.id)),
    };
    let money = Money { minor: parts.total, currency: payable.money().currency };
    let new = NewPayment {
        id: payment,
        account_id: payable.account_id(),
        provider_account_id: spent.provider_account_id,
        money,
        capture: true,
        customer_id: payable.customer_id(),
        payment_method: None,
        invoice_id,
        payment_link_id,
        return_url: None,
        parts: Some(parts).filter(Parts::is_composed),
    };
    let order = NewOperation {
        id: operation,
        account_id: payable.account_id(),
        provider_account_id: spent.provider_account_id,
        subject: Subject::Payment(payment),
        refund_id: None,
        kind: Kind::Sale,
        money: Some(money),
        source: Some(&spent.source),
        target_ref: None,
        action_token,
        by_system: false,
        origin,
    };
    (new, order)
}
