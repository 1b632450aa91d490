//! How a scenario must end: each action is done once, has one event, and repeated requests get the same response.

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use super::case::{Case, World};
use super::faulty::Action;
use super::table::{By, Scenario};
use crate::support::{conflict, created, eventually, id, ids, ok};

/// Attempts of a client without a response.
const ATTEMPTS: usize = 8;

impl Case {
    /// The client repeats its request with its key, or without one after finding no result.
    pub(super) async fn repeat(&self, world: &World) -> Result<()> {
        if self.has_a_key() {
            let response = self.repeat_with_key().await?;
            *self.repeated.lock().expect("the lock is not poisoned") = Some(response);
        } else if self.row.by == By::Api {
            self.repeat_until_begun(world).await?;
        }
        Ok(())
    }

    /// Whether the scenario is a payment with the key `k`.
    fn has_a_key(&self) -> bool {
        let scenario = self.row.scenario;
        matches!(
            scenario,
            Scenario::Sale(_) | Scenario::Unsent(_) | Scenario::Charged(_) | Scenario::Refused | Scenario::LateCharge
        )
    }

    /// Sends the same request with the same key until the response is not a 5xx.
    async fn repeat_with_key(&self) -> Result<testkit::Response> {
        eventually("a response", async || {
            let response = self.merchant.pay_with_key("k", crate::support::sale(1500)).await?;
            Ok((response.status < 500).then_some(response))
        })
        .await
    }

    async fn repeat_until_begun(&self, world: &World) -> Result<()> {
        for _ in 0..ATTEMPTS {
            if self.has_begun().await? {
                return Ok(());
            }
            // The request may be rejected during recovery.
            self.drive(world, &self.url).await?;
        }
        ensure!(self.has_begun().await?, "{ATTEMPTS} requests had no effect");
        Ok(())
    }

    /// Whether the requested action has begun, as the API shows it.
    async fn has_begun(&self) -> Result<bool> {
        let merchant = &self.merchant;
        Ok(match self.row.scenario {
            Scenario::Capture | Scenario::Void => {
                let payment = merchant.payment(&self.subject).await?;
                payment["status"] != "authorized" || payment.get("pendingOperation").is_some()
            }
            Scenario::Refund(_) | Scenario::RefundNotProcessed(_) => {
                merchant.payment(&self.subject).await?["refunds"] != json!([])
            }
            Scenario::SaleWithoutKey | Scenario::Challenge => !ids(&merchant.api.get("/v1/payments").await?).is_empty(),
            Scenario::Card => !ids(&self.cards().await?).is_empty(),
            Scenario::Bill(bill) => self.bill_has_begun(bill).await?,
            // They have a key, or no client requests them.
            Scenario::Sale(_)
            | Scenario::Unsent(_)
            | Scenario::Charged(_)
            | Scenario::Refused
            | Scenario::LateCharge
            | Scenario::Reversal
            | Scenario::RefundUnsent(_)
            | Scenario::Settlement
            | Scenario::Clock
            | Scenario::Create(_)
            | Scenario::Webhook => true,
        })
    }

    async fn cards(&self) -> Result<testkit::Response> {
        self.merchant.api.get(&format!("/v1/payment_methods?customerId={}", self.subject)).await
    }

    /// Asserts that the case has ended as the table says.
    pub(super) async fn check(&self) -> Result<()> {
        let (merchant, subject) = (&self.merchant, &self.subject);
        match self.row.scenario {
            Scenario::Sale(_)
            | Scenario::Unsent(_)
            | Scenario::Charged(_)
            | Scenario::Refused
            | Scenario::SaleWithoutKey
                if !self.ends_in_manual_review() =>
            {
                self.is_paid_once().await
            }
            Scenario::Sale(_)
            | Scenario::Unsent(_)
            | Scenario::Charged(_)
            | Scenario::Refused
            | Scenario::SaleWithoutKey => self.needs_manual_review("processing").await,
            Scenario::Capture => {
                merchant.wait_for_status(subject, "pending_settlement").await?;
                let events = ["payment.authorized", "payment.captured"];
                merchant.assert_consistent(subject, "authorize 1500, capture 1500", &events).await?;
                conflict(&merchant.capture(subject, None).await?);
                Ok(())
            }
            Scenario::Void => {
                merchant.wait_for_status(subject, "cancelled").await?;
                let events = ["payment.authorized", "payment.cancelled"];
                merchant.assert_consistent(subject, "authorize 1500 voided, void 1500", &events).await?;
                conflict(&merchant.void(subject).await?);
                Ok(())
            }
            Scenario::RefundUnsent(_) if self.ends_in_manual_review() => {
                let payment = merchant.payment(subject).await?;
                assert_eq!(payment["refunds"][0]["status"], "pending", "{payment}");
                assert_eq!(merchant.books.ledger(subject).await?, "sale 1500");
                self.needs_manual_review("pending_settlement").await
            }
            Scenario::Refund(_) | Scenario::RefundUnsent(_) | Scenario::RefundNotProcessed(_) => {
                let payment = merchant.wait_for_status(subject, "partially_refunded").await?;
                assert_eq!(payment["refunds"].as_array().map(Vec::len), Some(1), "{payment}");
                assert_eq!(
                    (&payment["refunds"][0]["status"], &payment["amountRefunded"]),
                    (&json!("succeeded"), &json!(500))
                );
                let events = ["payment.captured", "payment.refunded"];
                merchant.assert_consistent(subject, "sale 1500, refund 500", &events).await.map(drop)
            }
            Scenario::LateCharge | Scenario::Reversal => self.is_reversed_once().await,
            Scenario::Challenge => self.is_declined_without_charge().await,
            Scenario::Card => {
                let cards = ok(&self.cards().await?)["data"].clone();
                assert_eq!(
                    (cards.as_array().map(Vec::len), &cards[0]["status"]),
                    (Some(1), &json!("active")),
                    "{cards}"
                );
                assert_eq!(self.count_events(&id(&cards[0])?, "payment_method.created").await?, 1);
                let stored = "SELECT count(*) FROM mock.cards c JOIN provider_accounts p ON p.id = c.account WHERE p.account_id = $1";
                assert_eq!(self.count(stored).await?, 1, "cards at the provider");
                Ok(())
            }
            Scenario::Settlement | Scenario::Clock => {
                let settled = merchant.wait_for_status(subject, "settled").await?;
                assert_eq!(settled["amountCaptured"], 1500);
                let events = ["payment.captured", "payment.settled"];
                merchant.assert_consistent(subject, "sale 1500 settled", &events).await.map(drop)
            }
            Scenario::Webhook => self.is_delivered().await,
            Scenario::Create(create) => self.is_created_once(create).await,
            Scenario::Bill(bill) => self.check_bill(bill).await,
        }
    }

    /// The number of events of this type about an object.
    pub(super) async fn count_events(&self, object: &str, kind: &str) -> Result<usize> {
        let events = self.merchant.books.events(object).await?;
        Ok(events.iter().filter(|(event, _)| event == kind).count())
    }

    /// Asserts one payment with one charge, one event and one response.
    async fn is_paid_once(&self) -> Result<()> {
        let merchant = &self.merchant;
        let payment = merchant.only_payment().await?;
        let payment_id = id(&payment)?;
        if self.row.scenario == Scenario::Refused && payment["status"] == "failed" {
            assert_eq!(merchant.books.charges().await?, 0, "{payment}");
        } else {
            assert_eq!(payment["status"], "pending_settlement", "{payment}");
            merchant.assert_consistent(&payment_id, "sale 1500", &["payment.captured"]).await?;
            assert_eq!(merchant.books.charges().await?, 1, "charges");
            merchant.books.audit().await?;
        }
        if self.row.scenario != Scenario::SaleWithoutKey {
            assert_eq!(id(created(&self.repeated_response()?))?, payment_id, "the key's payment");
            assert_eq!(created(&self.repeat_with_key().await?), &payment, "the key's response");
        }
        Ok(())
    }

    /// The response to the repeated request.
    fn repeated_response(&self) -> Result<testkit::Response> {
        self.repeated.lock().expect("the lock is not poisoned").clone().context("the request was not repeated")
    }

    /// Asserts that the outcome is unknown and not reported as failed, and that nothing was sent blindly.
    async fn needs_manual_review(&self, status: &str) -> Result<()> {
        let waiting =
            "SELECT count(*) FROM operations WHERE account_id = $1 AND state = 'unknown' AND next_push_at IS NULL";
        assert_eq!(self.count(waiting).await?, 1, "operations in manual review");
        let page = self.merchant.api.get("/v1/payments").await?;
        let payments = ids(&page);
        assert_eq!((payments.len(), &page.body["data"][0]["status"]), (1, &json!(status)), "{}", page.body);
        assert!(self.merchant.books.charges().await? <= 1, "charges");
        if let Ok(response) = self.repeated_response() {
            assert_eq!((&id(created(&response))?, &response.body["status"]), (&payments[0], &json!(status)));
        }
        Ok(())
    }

    /// Asserts that the charge of a failed payment was voided once, and that the payment stays failed.
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
        eventually("the reversal's end", async || Ok((self.count(reversals).await? == 1).then_some(()))).await?;
        assert_eq!(self.merchant.payment(&self.subject).await?["status"], "failed");
        Ok(())
    }

    /// The challenge was lost or not answered: asserts that the card was not charged and that there is one event.
    async fn is_declined_without_charge(&self) -> Result<()> {
        let shop = self.shop.as_ref().context("a shop")?;
        let payment = self.merchant.only_payment().await?;
        let payment = self.merchant.wait_for_status(&id(&payment)?, "declined").await?;
        assert_eq!(shop.records().await?, "sale 800 declined");
        assert_eq!(self.count_events(&id(&payment)?, "payment.declined").await?, 1);
        let response = self.pay_with_challenge(&self.url).await?;
        assert_eq!(id(created(&response))?, id(&payment)?, "the key's payment");
        Ok(())
    }

    /// Asserts that the endpoint received one event, perhaps twice but in the same bytes, and that one delivery is
    /// recorded. A worker that resumes after its lease records its attempt too.
    async fn is_delivered(&self) -> Result<()> {
        let requests = self.receiver.as_ref().context("a receiver")?.received("/in");
        let first = requests.first().context("no request was received")?;
        for request in &requests {
            assert_eq!((&request.body, request.header("webhook-id")), (&first.body, first.header("webhook-id")));
        }
        let page = self.merchant.api.get("/v1/webhook_deliveries").await?;
        let statuses: Vec<&Value> =
            ok(&page)["data"].as_array().context("a list")?.iter().map(|row| &row["status"]).collect();
        let recorded = if self.action == Action::Pause { requests.len() } else { 1 };
        assert_eq!(statuses, vec![&json!("succeeded"); recorded], "{}", page.body);
        let payment = self.merchant.only_payment().await?;
        self.merchant.assert_consistent(&id(&payment)?, "sale 1500", &["payment.captured"]).await.map(drop)
    }
}
