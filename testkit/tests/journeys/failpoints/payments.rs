//! How a story must end: each thing done once, told once, and answered the same.

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use super::case::{Case, World};
use super::table::{By, Story};
use crate::support::{conflict, created, eventually, id, ids, ok};

/// Tries of a client who was told nothing.
const TRIES: usize = 8;

impl Case {
    /// The client asks once more: under its key, or after a look that showed nothing.
    pub(super) async fn repeat(&self, world: &World) -> Result<()> {
        if self.has_a_key() {
            let answer = self.again().await?;
            *self.repeated.lock().expect("nobody panics here") = Some(answer);
        } else if self.row.by == By::Api {
            self.ask_until_it_is_there(world).await?;
        }
        Ok(())
    }

    /// Whether it is a payment under the key `k`.
    fn has_a_key(&self) -> bool {
        let story = self.row.story;
        matches!(story, Story::Sale(_) | Story::InDoubt(_) | Story::Charged(_) | Story::Refused | Story::Late)
    }

    /// The same request under the same key, until there is an answer.
    async fn again(&self) -> Result<testkit::Answer> {
        eventually("an answer", async || {
            let answer = self.merchant.pay_once("k", crate::support::sale(1500)).await?;
            Ok((answer.status < 500).then_some(answer))
        })
        .await
    }

    async fn ask_until_it_is_there(&self, world: &World) -> Result<()> {
        for _ in 0..TRIES {
            if self.is_there().await? {
                return Ok(());
            }
            // It may be refused meanwhile.
            self.drive(world, &self.url).await?;
        }
        ensure!(self.is_there().await?, "asked {TRIES} times in vain");
        Ok(())
    }

    /// Whether what was asked for has begun, as its merchant sees it.
    async fn is_there(&self) -> Result<bool> {
        let merchant = &self.merchant;
        Ok(match self.row.story {
            Story::Capture | Story::Void => {
                let payment = merchant.payment(&self.subject).await?;
                payment["status"] != "authorized" || payment.get("pendingOperation").is_some()
            }
            Story::Refund(_) | Story::RefundAway(_) => merchant.payment(&self.subject).await?["refunds"] != json!([]),
            Story::SaleWithoutKey => !ids(&merchant.api.get("/v1/payments").await?).is_empty(),
            Story::Card => !ids(&self.cards().await?).is_empty(),
            Story::Bill(bill) => self.bill_is_there(bill).await?,
            // They have a key, or are nothing that a client asks for.
            Story::Sale(_)
            | Story::InDoubt(_)
            | Story::Charged(_)
            | Story::Refused
            | Story::Late
            | Story::Reversal
            | Story::Challenge
            | Story::RefundInDoubt(_)
            | Story::Settlement
            | Story::Clock
            | Story::Create(_)
            | Story::Webhook => true,
        })
    }

    async fn cards(&self) -> Result<testkit::Answer> {
        self.merchant.api.get(&format!("/v1/payment_methods?customerId={}", self.subject)).await
    }

    /// It has ended as the table says.
    pub(super) async fn check(&self) -> Result<()> {
        let (merchant, subject) = (&self.merchant, &self.subject);
        match self.row.story {
            Story::Sale(_) | Story::InDoubt(_) | Story::Charged(_) | Story::Refused | Story::SaleWithoutKey
                if !self.ends_with_a_person() =>
            {
                self.is_paid_once().await
            }
            Story::Sale(_) | Story::InDoubt(_) | Story::Charged(_) | Story::Refused | Story::SaleWithoutKey => {
                self.waits_for_a_person("processing").await
            }
            Story::Capture => {
                merchant.becomes(subject, "pending_settlement").await?;
                let events = ["payment.authorized", "payment.captured"];
                merchant.all_agree(subject, "authorize 1500, capture 1500", &events).await?;
                conflict(&merchant.capture(subject, None).await?);
                Ok(())
            }
            Story::Void => {
                merchant.becomes(subject, "cancelled").await?;
                let events = ["payment.authorized", "payment.cancelled"];
                merchant.all_agree(subject, "authorize 1500 voided, void 1500", &events).await?;
                conflict(&merchant.void(subject).await?);
                Ok(())
            }
            Story::RefundInDoubt(_) if self.ends_with_a_person() => {
                let payment = merchant.payment(subject).await?;
                assert_eq!(payment["refunds"][0]["status"], "pending", "{payment}");
                assert_eq!(merchant.books.ledger(subject).await?, "sale 1500");
                self.waits_for_a_person("pending_settlement").await
            }
            Story::Refund(_) | Story::RefundInDoubt(_) | Story::RefundAway(_) => {
                let payment = merchant.becomes(subject, "partially_refunded").await?;
                assert_eq!(payment["refunds"].as_array().map(Vec::len), Some(1), "{payment}");
                assert_eq!(
                    (&payment["refunds"][0]["status"], &payment["amountRefunded"]),
                    (&json!("succeeded"), &json!(500))
                );
                let events = ["payment.captured", "payment.refunded"];
                merchant.all_agree(subject, "sale 1500, refund 500", &events).await.map(drop)
            }
            Story::Late | Story::Reversal => self.is_reversed_once().await,
            Story::Challenge => self.nobody_was_asked().await,
            Story::Card => {
                let cards = ok(&self.cards().await?)["data"].clone();
                assert_eq!(
                    (cards.as_array().map(Vec::len), &cards[0]["status"]),
                    (Some(1), &json!("active")),
                    "{cards}"
                );
                assert_eq!(self.told(&id(&cards[0])?, "payment_method.created").await?, 1);
                let kept = "SELECT count(*) FROM mock.cards c JOIN provider_accounts p ON p.id = c.account WHERE p.account_id = $1";
                assert_eq!(self.count(kept).await?, 1, "cards at the provider");
                Ok(())
            }
            Story::Settlement | Story::Clock => {
                let settled = merchant.becomes(subject, "settled").await?;
                assert_eq!(settled["amountCaptured"], 1500);
                let events = ["payment.captured", "payment.settled"];
                merchant.all_agree(subject, "sale 1500 settled", &events).await.map(drop)
            }
            Story::Webhook => self.is_heard().await,
            Story::Create(create) => self.is_created_once(create).await,
            Story::Bill(bill) => self.check_bill(bill).await,
        }
    }

    /// How often an event of this kind was written about an object.
    pub(super) async fn told(&self, object: &str, kind: &str) -> Result<usize> {
        let events = self.merchant.books.events(object).await?;
        Ok(events.iter().filter(|(told, _)| told == kind).count())
    }

    /// One payment, one charge, one event, and one answer.
    async fn is_paid_once(&self) -> Result<()> {
        let merchant = &self.merchant;
        let payment = merchant.only_payment().await?;
        let payment_id = id(&payment)?;
        if self.row.story == Story::Refused && payment["status"] == "failed" {
            assert_eq!(merchant.books.charges().await?, 0, "{payment}");
        } else {
            assert_eq!(payment["status"], "pending_settlement", "{payment}");
            merchant.all_agree(&payment_id, "sale 1500", &["payment.captured"]).await?;
            assert_eq!(merchant.books.charges().await?, 1, "charges");
            merchant.books.audit().await?;
        }
        if self.row.story != Story::SaleWithoutKey {
            assert_eq!(id(created(&self.answered()?))?, payment_id, "the key's payment");
            assert_eq!(created(&self.again().await?), &payment, "the key's answer");
        }
        Ok(())
    }

    /// What was answered when the request was repeated.
    fn answered(&self) -> Result<testkit::Answer> {
        self.repeated.lock().expect("nobody panics here").clone().context("it was not answered")
    }

    /// Unknown, not called failed, and nothing was sent on a guess.
    async fn waits_for_a_person(&self, status: &str) -> Result<()> {
        let waits =
            "SELECT count(*) FROM operations WHERE account_id = $1 AND state = 'unknown' AND next_push_at IS NULL";
        assert_eq!(self.count(waits).await?, 1, "operations for a person");
        let page = self.merchant.api.get("/v1/payments").await?;
        let payments = ids(&page);
        assert_eq!((payments.len(), &page.body["data"][0]["status"]), (1, &json!(status)), "{}", page.body);
        assert!(self.merchant.books.charges().await? <= 1, "charges");
        if let Ok(answer) = self.answered() {
            assert_eq!((&id(created(&answer))?, &answer.body["status"]), (&payments[0], &json!(status)));
        }
        Ok(())
    }

    /// The charge of a payment that failed was voided once, and the payment stays what its merchant was told.
    async fn is_reversed_once(&self) -> Result<()> {
        let voided = "SELECT count(*) FROM mock.transactions t JOIN provider_accounts p ON p.id = t.account
                      WHERE p.account_id = $1 AND t.voided_at IS NOT NULL";
        eventually("the reversal", async || Ok((self.count(voided).await? == 1).then_some(()))).await?;
        let voids = "SELECT count(*) FROM mock.transactions t JOIN provider_accounts p ON p.id = t.account
                     WHERE p.account_id = $1 AND t.kind = 'void'";
        assert_eq!(self.count(voids).await?, 1, "voids");
        let anomalies = "SELECT count(*) FROM charge_anomalies WHERE account_id = $1";
        assert_eq!(self.count(anomalies).await?, 1, "anomalies");
        let reversals =
            "SELECT count(*) FROM operations WHERE account_id = $1 AND kind = 'reverse' AND state = 'succeeded'";
        eventually("its end", async || Ok((self.count(reversals).await? == 1).then_some(()))).await?;
        assert_eq!(self.merchant.payment(&self.subject).await?["status"], "failed");
        Ok(())
    }

    /// Nobody knew whom to ask, or nobody answered, so the card was not charged, and that is told once.
    async fn nobody_was_asked(&self) -> Result<()> {
        let shop = self.shop.as_ref().context("a shop")?;
        let payment = self.merchant.only_payment().await?;
        let payment = self.merchant.becomes(&id(&payment)?, "declined").await?;
        assert_eq!(shop.records().await?, "sale 800 declined");
        assert_eq!(self.told(&id(&payment)?, "payment.declined").await?, 1);
        let answer = self.ask_cardholder(&self.url).await?;
        assert_eq!(id(created(&answer))?, id(&payment)?, "the key's payment");
        Ok(())
    }

    /// The endpoint was told, perhaps twice, of the same in the same bytes; here it was done once.
    async fn is_heard(&self) -> Result<()> {
        let heard = self.receiver.as_ref().context("a receiver")?.heard("/in");
        let first = heard.first().context("nothing was heard")?;
        for request in &heard {
            assert_eq!((&request.body, request.header("webhook-id")), (&first.body, first.header("webhook-id")));
        }
        let page = self.merchant.api.get("/v1/webhook_deliveries").await?;
        let statuses: Vec<&Value> =
            ok(&page)["data"].as_array().context("a list")?.iter().map(|row| &row["status"]).collect();
        assert_eq!(statuses, [&json!("succeeded")], "{}", page.body);
        let payment = self.merchant.only_payment().await?;
        self.merchant.all_agree(&id(&payment)?, "sale 1500", &["payment.captured"]).await.map(drop)
    }
}
