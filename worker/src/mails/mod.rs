//! E-mails to customers, and invitations to the portal. Their rows are written with the events or the invitations, so no
//! request waits for a mail server and no crash loses an e-mail. A crash between sending and recording sends a second copy
//! with the same `Message-ID`, and so does a server that takes a message without a reply, once.

mod email_content;
mod invitation;

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use domain::accounts::Mode;
use domain::mails::{self, Attempted, Content, Due, Kind, Queue, Subject};
use domain::users;
use engine::{PageAddress, PageKind, open_page, payment_receipt};
use foundation::clock::Clock;
use foundation::crypto::KeyRing;
use foundation::error::Result;
use foundation::id::{AccountId, EventId, InvitationId};
use futures_util::{FutureExt as _, StreamExt as _, stream};
use mail::{Email, Mailer, one_line};
use queue::acquire_free;
use sqlx::PgPool;
use texts::Language;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use email_content::EmailTopic;

/// How often a queue in which nothing was due is read.
const INTERVAL: Duration = Duration::from_secs(1);
/// E-mails of a queue that a worker sends at the same time.
const SLOTS: usize = 8;
/// How often recording a result is tried again. It ends before the claim of the e-mail does.
const RECORDINGS: usize = 20;
/// Maximum length of a name or a description in characters.
const MAX_LINE: usize = 255;
const MINUTE: u64 = 60;
const HOUR: u64 = 60 * MINUTE;
/// Seconds after each failed attempt until the next, a little over a day in total.
const RETRY_DELAYS: [u64; 7] = [MINUTE, 5 * MINUTE, 15 * MINUTE, HOUR, 4 * HOUR, 8 * HOUR, 12 * HOUR];
/// At least after a server took a message without a reply: it may be overloaded, and no third copy follows.
const UNCONFIRMED_DELAY: Duration = Duration::from_secs(HOUR);

/// Sends e-mails.
pub(crate) struct Sender {
    pub(crate) db: PgPool,
    pub(crate) encryption: KeyRing,
    pub(crate) clock: Clock,
    pub(crate) mailer: Mailer,
}

impl Sender {
    /// Sends until `stop`, then finishes what it has claimed. The queues do not wait for each other.
    pub(crate) async fn run(self, stop: &CancellationToken) {
        tokio::join!(
            Claims::new(&self, Queue::Transactional, stop).send_all(),
            Claims::new(&self, Queue::Receipts, stop).send_all(),
        );
    }

    async fn send(&self, due: &Due) {
        let about = due.subject.id();
        match AssertUnwindSafe(self.deliver(due)).catch_unwind().await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => {
                tracing::error!(%error, about, "the result of an e-mail was not recorded; another attempt follows");
            }
            Err(_) => tracing::error!(about, "an attempt to send an e-mail panicked; another one follows"),
        }
    }

    async fn deliver(&self, due: &Due) -> Result<()> {
        let attempts = usize::try_from(due.attempts).unwrap_or(usize::MAX);
        let retry = attempts.checked_sub(1).and_then(|made| RETRY_DELAYS.get(made)).copied().map(Duration::from_secs);
        let attempted = match attempts > RETRY_DELAYS.len() + 1 {
            // The last attempt ended with the process that made it.
            true => Attempted::Failed("all attempts were used".to_owned(), None),
            false => self.attempt(due, retry).await,
        };
        let outcome = match &attempted {
            Attempted::Sent => "sent",
            Attempted::NotSent(_) => "not_sent",
            Attempted::NotYet(..) => "not_yet",
            Attempted::Failed(reason, Some(_)) | Attempted::Unconfirmed(reason, Some(_)) => {
                tracing::warn!(
                    about = due.subject.id(),
                    reason,
                    attempts,
                    "an e-mail was not sent and will be retried"
                );
                "retried"
            }
            Attempted::Failed(reason, None) | Attempted::Unconfirmed(reason, None) => {
                tracing::error!(about = due.subject.id(), reason, attempts, "an e-mail could not be sent");
                "failed"
            }
        };
        self.record(due, &attempted).await?;
        metrics::counter!("mails_total", "kind" => due.subject.kind(), "outcome" => outcome).increment(1);
        Ok(())
    }

    /// Records the result. While the database fails over, it is tried again, because another attempt would send a second copy.
    async fn record(&self, due: &Due, attempted: &Attempted) -> Result<()> {
        let mut recorded = mails::record(&self.db, due, attempted).await;
        for _ in 0..RECORDINGS {
            if recorded.is_ok() {
                break;
            }
            sleep(INTERVAL).await;
            recorded = mails::record(&self.db, due, attempted).await;
        }
        recorded
    }

    /// Makes an attempt; after a failure the next one follows after `retry`, if there is one.
    async fn attempt(&self, due: &Due, retry: Option<Duration>) -> Attempted {
        let email = match &due.subject {
            Subject::Event(kind, event) => self.email(due.account_id, *kind, *event).await,
            Subject::Invitation(id, link) => self.invitation(due.account_id, *id, link).await,
        };
        let email = match email {
            Ok(Ok(email)) => email,
            Ok(Err(Unsent::OutOfDate(reason))) => return Attempted::NotSent(reason),
            Ok(Err(Unsent::NotYet(reason))) => {
                return retry.map_or(Attempted::NotSent(reason), |wait| Attempted::NotYet(reason, wait));
            }
            Err(error) => {
                tracing::error!(%error, about = due.subject.id(), "the content of an e-mail could not be read");
                return Attempted::Failed("its content could not be read".to_owned(), retry);
            }
        };
        match self.mailer.send(&email).await {
            Ok(()) => Attempted::Sent,
            // A second copy is better than none, and a third one is not.
            Err(error) if error.unconfirmed => {
                let again = retry.filter(|_| !due.unconfirmed).map(|wait| wait.max(UNCONFIRMED_DELAY));
                Attempted::Unconfirmed(error.to_string(), again)
            }
            Err(error) => Attempted::Failed(error.to_string(), retry.filter(|_| !error.permanent)),
        }
    }

    /// The e-mail of an invitation, unless that has ended.
    async fn invitation(&self, account: AccountId, id: InvitationId, link: &[u8]) -> Result<Result<Email, Unsent>> {
        let Some(invitation) = users::open_invitation(&self.db, id).await? else {
            return Ok(Err(Unsent::OutOfDate("the invitation has ended")));
        };
        let link = mails::open_link(&self.encryption, account, id, link)?;
        Ok(Ok(invitation::write(invitation, &link, id.to_string(), self.clock.now())))
    }

    /// The e-mail to a customer, or why there is none.
    async fn email(&self, account: AccountId, kind: Kind, event: EventId) -> Result<Result<Email, Unsent>> {
        let Some(content) = mails::content(&self.db, account, event).await? else {
            return Ok(Err(Unsent::OutOfDate("the customer or the event was deleted")));
        };
        let Some(topic) = self.topic(account, &content).await? else {
            return Ok(Err(Unsent::OutOfDate("it is about no invoice and no payment")));
        };
        let payee = topic.payee();
        if payee.mode == Mode::Test && !is_test_recipient(&content) {
            return Ok(Err(Unsent::OutOfDate("in test mode, and the customer is no test recipient")));
        }
        if payee.mode == Mode::Test && content.is_test_limit_reached {
            return Ok(Err(Unsent::OutOfDate("in test mode, and too many were sent in a day")));
        }
        if kind == Kind::Receipt && content.refuses_receipts {
            return Ok(Err(Unsent::OutOfDate("the customer wants no receipts")));
        }
        let language = language(&content);
        Ok(email_content::write(kind, language, &topic, &content).map(|written| Email {
            id: event.to_string(),
            text: written.text(language),
            html: Some(written.html(language)),
            unsubscribe: written.unsubscribe.map(|(_, url)| url),
            subject: written.subject,
            to: content.email,
            from_name: Some(payee.name.clone()),
            reply_to: payee.support_contact.clone(),
            date: self.clock.now(),
        }))
    }

    /// What an e-mail is about.
    async fn topic(&self, account: AccountId, content: &Content) -> Result<Option<EmailTopic>> {
        Ok(match (&content.page_token, content.payment_id) {
            (Some(token), _) => {
                let address = PageAddress { kind: PageKind::Invoice, token };
                let page = open_page(&self.db, address, None, self.clock.now()).await?;
                Some(EmailTopic::Invoice(Box::new(page)))
            }
            (None, Some(payment)) => {
                let receipt = payment_receipt(&self.db, account, payment, content.customer_id).await?;
                Some(EmailTopic::Payment(Box::new(receipt)))
            }
            (None, None) => None,
        })
    }
}

/// Claims the e-mails of one queue, as many as there are free slots, and sends them.
struct Claims<'a> {
    sender: &'a Sender,
    queue: Queue,
    stop: &'a CancellationToken,
    slots: Arc<Semaphore>,
    /// The account served last.
    last: Option<AccountId>,
    /// Whether more may be due.
    more: bool,
}

impl<'a> Claims<'a> {
    fn new(sender: &'a Sender, queue: Queue, stop: &'a CancellationToken) -> Self {
        Self { sender, queue, stop, slots: Arc::new(Semaphore::new(SLOTS)), last: None, more: true }
    }

    async fn send_all(self) {
        let sender = self.sender;
        let claimed = stream::unfold(self, async |mut claims| Some((claims.take().await?, claims)));
        claimed.flat_map(stream::iter).for_each_concurrent(None, async |(due, _slot)| sender.send(&due).await).await;
    }

    /// Claims e-mails for the free slots, once there is one. `None` when the process stops.
    async fn take(&mut self) -> Option<Vec<(Due, OwnedSemaphorePermit)>> {
        if !self.more {
            self.stop.run_until_cancelled(sleep(INTERVAL)).await?;
        }
        let mut slots = self.stop.run_until_cancelled(acquire_free(&self.slots)).await?;
        let from_first = self.last.is_none();
        let due = mails::claim(&self.sender.db, self.queue, slots.num_permits(), &mut self.last).await;
        self.more = due.as_ref().is_ok_and(|due| !due.is_empty() || !from_first);
        let due = due.unwrap_or_else(|error| {
            tracing::error!(%error, "could not claim e-mails; trying again");
            Vec::new()
        });
        Some(due.into_iter().map(|due| (due, slots.split(1).expect("no more e-mails than slots"))).collect())
    }
}

/// Why there is no e-mail.
#[derive(Clone, Copy, Debug)]
enum Unsent {
    /// There will be none.
    OutOfDate(&'static str),
    /// What it says is not known yet.
    NotYet(&'static str),
}

fn is_test_recipient(content: &Content) -> bool {
    content.test_recipients.iter().any(|allowed| allowed.to_lowercase() == content.email.to_lowercase())
}

/// A name or a description, on one line.
fn line(text: &str) -> String {
    one_line(text, MAX_LINE)
}

/// The language of the customer's country, otherwise the account's.
fn language(content: &Content) -> Language {
    let of_country = content.country.and_then(Language::of_country);
    of_country.or_else(|| Language::of_tag(&content.language)).unwrap_or(Language::En)
}

/// Registers the counters at zero, so that the first failure is visible as an increase.
pub(crate) fn register_metrics() {
    for kind in Kind::ALL.map(Kind::name).into_iter().chain([Subject::INVITATION]) {
        for outcome in ["sent", "not_sent", "not_yet", "retried", "failed"] {
            metrics::counter!("mails_total", "kind" => kind, "outcome" => outcome).increment(0);
        }
    }
}
