//! E-mails to customers, and invitations to the portal. Their rows are written with the events or the invitations, so no
//! request waits for a mail server and no crash loses an e-mail. A crash between sending and recording sends a second copy
//! with the same `Message-ID`.

mod invitation;
mod letter;

use std::time::Duration;

use domain::accounts::Mode;
use domain::mails::{self, Attempted, Content, Due, Kind};
use domain::users;
use engine::{PageAddress, PageKind, open_page, payment_receipt};
use foundation::clock::Clock;
use foundation::crypto::KeyRing;
use foundation::error::Result;
use foundation::id::InvitationId;
use futures_util::future::join_all;
use mail::{Email, Mailer};
use sqlx::PgPool;
use texts::Language;
use tokio_util::sync::CancellationToken;

use letter::About;

const INTERVAL: Duration = Duration::from_secs(1);
/// E-mails that a worker sends at the same time.
const BATCH: i64 = 8;
const MINUTE: u64 = 60;
const HOUR: u64 = 60 * MINUTE;
/// Seconds after each failed attempt until the next, a little over a day in total.
const RETRY_DELAYS: [u64; 7] = [MINUTE, 5 * MINUTE, 15 * MINUTE, HOUR, 4 * HOUR, 8 * HOUR, 12 * HOUR];

/// Sends e-mails.
pub(crate) struct Sender {
    pub(crate) db: PgPool,
    pub(crate) encryption: KeyRing,
    pub(crate) clock: Clock,
    pub(crate) mailer: Mailer,
}

impl Sender {
    /// Runs until `stop`. An error is logged, and the next round retries.
    pub(crate) async fn run(self, stop: &CancellationToken) {
        while !stop.is_cancelled() {
            match self.send_due().await {
                Ok(is_full) if is_full => {}
                Ok(_) => drop(stop.run_until_cancelled(tokio::time::sleep(INTERVAL)).await),
                Err(error) => {
                    tracing::error!(%error, "a round of e-mails failed; the next one retries");
                    stop.run_until_cancelled(tokio::time::sleep(INTERVAL)).await;
                }
            }
        }
    }

    /// Returns whether there may be more.
    async fn send_due(&self) -> Result<bool> {
        let due = mails::claim(&self.db, BATCH).await?;
        let is_full = i64::try_from(due.len()).is_ok_and(|claimed| claimed == BATCH);
        for recorded in join_all(due.iter().map(|due| self.deliver(due))).await {
            recorded?;
        }
        Ok(is_full)
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
            Attempted::Failed(reason, Some(_)) => {
                tracing::warn!(about = due.about(), reason, attempts, "an e-mail was not sent and will be retried");
                "retried"
            }
            Attempted::Failed(reason, None) => {
                tracing::error!(about = due.about(), reason, attempts, "an e-mail could not be sent");
                "failed"
            }
        };
        mails::record(&self.db, due, &attempted).await?;
        metrics::counter!("mails_total", "kind" => due.kind.name(), "outcome" => outcome).increment(1);
        Ok(())
    }

    /// Makes an attempt; after a failure the next one follows after `retry`, if there is one.
    async fn attempt(&self, due: &Due, retry: Option<Duration>) -> Attempted {
        let email = match due.kind {
            Kind::Invitation => self.invitation(due).await,
            Kind::Invoice | Kind::Receipt | Kind::CollectionFailed => self.email(due).await,
        };
        let email = match email {
            Ok(Ok(email)) => email,
            Ok(Err(Unsent::OutOfDate(reason))) => return Attempted::NotSent(reason),
            Ok(Err(Unsent::NotYet(reason))) => {
                return retry.map_or(Attempted::NotSent(reason), |wait| Attempted::NotYet(reason, wait));
            }
            Err(error) => {
                tracing::error!(%error, about = due.about(), "the content of an e-mail could not be read");
                return Attempted::Failed("its content could not be read".to_owned(), retry);
            }
        };
        match self.mailer.send(&email).await {
            Ok(()) => Attempted::Sent,
            Err(error) => Attempted::Failed(error.to_string(), retry.filter(|_| !error.permanent)),
        }
    }

    /// The e-mail of an invitation, unless that has ended.
    async fn invitation(&self, due: &Due) -> Result<Result<Email, Unsent>> {
        let Some(invitation) = users::open_invitation(&self.db, InvitationId::from_uuid(due.id)).await? else {
            return Ok(Err(Unsent::OutOfDate("the invitation has ended")));
        };
        let link = due.link(&self.encryption)?;
        Ok(Ok(invitation::write(invitation, &link, due.about(), self.clock.now())))
    }

    /// The e-mail to a customer, or why there is none.
    async fn email(&self, due: &Due) -> Result<Result<Email, Unsent>> {
        let Some(content) = mails::content(&self.db, due).await? else {
            return Ok(Err(Unsent::OutOfDate("the customer or the event was deleted")));
        };
        let Some(about) = self.about(due, &content).await? else {
            return Ok(Err(Unsent::OutOfDate("it is about no invoice and no payment")));
        };
        let payee = about.payee();
        if payee.mode == Mode::Test && !is_test_recipient(&content) {
            return Ok(Err(Unsent::OutOfDate("in test mode, and the customer is no test recipient")));
        }
        if payee.mode == Mode::Test && content.is_test_limit_reached {
            return Ok(Err(Unsent::OutOfDate("in test mode, and too many were sent in a day")));
        }
        if due.kind == Kind::Receipt && content.refuses_receipts {
            return Ok(Err(Unsent::OutOfDate("the customer wants no receipts")));
        }
        let language = language(&content);
        Ok(letter::write(due.kind, language, &about, &content).map(|letter| Email {
            id: due.about(),
            text: letter.text(language),
            html: Some(letter.html(language)),
            unsubscribe: letter.unsubscribe.map(|(_, url)| url),
            subject: letter.subject,
            to: content.email,
            from_name: Some(payee.name.clone()),
            reply_to: payee.support_contact.clone(),
            date: self.clock.now(),
        }))
    }

    /// What an e-mail is about.
    async fn about(&self, due: &Due, content: &Content) -> Result<Option<About>> {
        Ok(match (&content.page_token, content.payment_id) {
            (Some(token), _) => {
                let address = PageAddress { kind: PageKind::Invoice, token };
                let page = open_page(&self.db, address, None, self.clock.now()).await?;
                Some(About::Invoice(Box::new(page)))
            }
            (None, Some(payment)) => {
                let receipt = payment_receipt(&self.db, due.account_id, payment, content.customer_id).await?;
                Some(About::Payment(Box::new(receipt)))
            }
            (None, None) => None,
        })
    }
}

/// Why there is no e-mail.
#[derive(Clone, Copy, Debug)]
enum Unsent {
    /// And will be none.
    OutOfDate(&'static str),
    /// What it says is not known yet.
    NotYet(&'static str),
}

fn is_test_recipient(content: &Content) -> bool {
    content.test_recipients.iter().any(|allowed| allowed.to_lowercase() == content.email.to_lowercase())
}

/// That of the customer's country, otherwise the account's.
fn language(content: &Content) -> Language {
    let of_country = content.country.and_then(Language::of_country);
    of_country.or_else(|| Language::of_tag(&content.language)).unwrap_or(Language::En)
}

/// Registers the counters at zero, so that the first failure is visible as an increase.
pub(crate) fn register_metrics() {
    for kind in Kind::ALL {
        for outcome in ["sent", "not_sent", "not_yet", "retried", "failed"] {
            metrics::counter!("mails_total", "kind" => kind.name(), "outcome" => outcome).increment(0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_languages_of_settings_are_those_of_the_texts() {
        let mut codes: Vec<_> = Language::iter().map(|language| language.code()).collect();
        codes.sort_unstable();
        assert_eq!(codes, mails::LANGUAGES);
    }
}
