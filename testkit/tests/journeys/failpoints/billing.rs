//! Scenarios of invoices, payment links, recurring invoices and subscriptions.

use anyhow::{Context, Result};
use serde_json::{Value, json};
use testkit::Response;

use super::case::{Case, LONG_AGO};
use super::table::Bill;
use crate::recurring_invoices::{backdate_start, cadence, day, recurring};
use crate::subscriptions::{plan, set_first_date, subscription_body};
use crate::support::{Payer, api_id, created, eventually, id, ids, ok, with};

const INVOICES: &str = "/v1/invoices";
const LINKS: &str = "/v1/payment_links";
const SUBSCRIPTIONS: &str = "/v1/subscriptions";
const RECURRING: &str = "/v1/recurring_invoices";
/// A date too far ahead to be reached by a test.
const FAR_FUTURE: &str = "2199-01-01";

/// The list that contains the scenario's object.
const fn list_of(bill: Bill) -> &'static str {
    match bill {
        Bill::NewLink | Bill::Link | Bill::PartialApproval | Bill::PartialApprovalVoidRefused => LINKS,
        Bill::NewRecurring | Bill::Recurring => RECURRING,
        Bill::Subscription | Bill::Cycle => SUBSCRIPTIONS,
        Bill::Page | Bill::Renewals | Bill::Collection | Bill::NoCard | Bill::VoidInvoice | Bill::NewInvoice => {
            INVOICES
        }
    }
}

impl Case {
    /// Creates the object that is paid or falls due.
    pub(super) async fn make_bill(&self, bill: Bill) -> Result<Value> {
        let api = &self.merchant.api;
        let customer = self.merchant.customer().await?;
        if matches!(bill, Bill::Collection | Bill::Subscription | Bill::Cycle) {
            created(&self.merchant.save_card(&customer, "tok_ok").await?);
        }
        let body = json!({"customerId": customer, "currency": "USD", "amount": 1500});
        match bill {
            Bill::Link | Bill::PartialApproval | Bill::PartialApprovalVoidRefused => {
                let link = api.post(LINKS, json!({"amount": 1500, "currency": "USD"})).await?;
                let link = created(&link).clone();
                if bill == Bill::PartialApprovalVoidRefused {
                    self.authorize_part(&link).await?;
                }
                Ok(link)
            }
            Bill::Subscription => {
                let plan = plan(&self.merchant, "month").await?;
                Ok(json!({"id": plan, "body": subscription_body(&customer, &plan)}))
            }
            Bill::Cycle => {
                let plan = plan(&self.merchant, "month").await?;
                let body = with(subscription_body(&customer, &plan), "startAt", FAR_FUTURE);
                Ok(created(&api.post(SUBSCRIPTIONS, body).await?).clone())
            }
            Bill::Recurring => {
                let body = with(recurring(&customer, cadence("monthly", 1)), "startDate", "2090-01-15");
                Ok(created(&api.post(RECURRING, body).await?).clone())
            }
            Bill::NewInvoice => Ok(json!({"id": customer, "body": body})),
            Bill::NewLink => Ok(json!({"id": customer, "body": {"amount": 1500, "currency": "USD"}})),
            Bill::NewRecurring => {
                let body = with(recurring(&customer, cadence("monthly", 1)), "startDate", "2090-01-15");
                Ok(json!({"id": customer, "body": body}))
            }
            Bill::Collection | Bill::NoCard => {
                let invoice = created(&api.post(INVOICES, body).await?).clone();
                let schedule = format!("{INVOICES}/{}/schedule", id(&invoice)?);
                ok(&api.post(&schedule, json!({"collectAt": LONG_AGO})).await?);
                Ok(invoice)
            }
            Bill::Renewals => {
                let subscribed = subscription_body(&customer, &plan(&self.merchant, "month").await?);
                let subscription = created(&api.post(SUBSCRIPTIONS, subscribed).await?).clone();
                let invoice = subscription["latestInvoiceId"].as_str().context("an invoice")?;
                Ok(ok(&api.get(&format!("{INVOICES}/{invoice}")).await?).clone())
            }
            Bill::Page | Bill::VoidInvoice => Ok(created(&api.post(INVOICES, body).await?).clone()),
        }
    }

    /// Causes a partial approval whose void the provider refuses.
    async fn authorize_part(&self, link: &Value) -> Result<()> {
        for statement in [
            "CREATE FUNCTION reject_from_now() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
                 INSERT INTO mock.accounts (id, reject) VALUES (NEW.account, true); RETURN NULL; END $$"
                .to_owned(),
            format!(
                "CREATE TRIGGER reject_from_now AFTER INSERT ON mock.transactions FOR EACH ROW
                 WHEN (NEW.account = '{}' AND NEW.kind = 'sale') EXECUTE FUNCTION reject_from_now()",
                self.provider_account().await?
            ),
        ] {
            sqlx::query(sqlx::AssertSqlSafe(statement)).execute(&self.merchant.books.db).await?;
        }
        self.submit(&self.url, link, "tok_partial").await?;
        let refused = "SELECT count(*) FROM operations WHERE account_id = $1 AND kind = 'void' AND state = 'failed'";
        eventually("a void that failed", async || Ok((self.count(refused).await? == 1).then_some(()))).await?;
        self.set_mock("reject", "false").await
    }

    async fn submit(&self, url: &str, object: &Value, token: &str) -> Result<Response> {
        Payer::for_object(object, url)?.submit(token).await
    }

    pub(super) async fn drive_bill(&self, bill: Bill, url: &str) -> Result<()> {
        let (client, subject) = (self.at(url)?, &self.subject);
        let post = reqwest::Method::POST;
        match bill {
            Bill::Page | Bill::Link => self.submit(url, &self.object, "tok_ok").await.map(drop),
            Bill::Renewals => self.submit(url, &self.object, "tok_ok&renewals=1").await.map(drop),
            // Driven by an inquiry, not by a request.
            Bill::PartialApprovalVoidRefused => Ok(()),
            Bill::PartialApproval => self.submit(url, &self.object, "tok_partial").await.map(drop),
            Bill::VoidInvoice => client.api.send(post, &format!("{INVOICES}/{subject}/void"), None).await.map(drop),
            Bill::NewInvoice | Bill::NewLink | Bill::NewRecurring | Bill::Subscription => {
                client.api.post(list_of(bill), self.object["body"].clone()).await.map(drop)
            }
            Bill::Cycle => set_first_date(&self.merchant, subject, "current_date - 1").await,
            Bill::Recurring => backdate_start(&self.merchant, subject, &day(&self.merchant, 0).await?).await,
            Bill::Collection | Bill::NoCard => {
                client.api.send(post, &format!("{INVOICES}/scheduler/run"), None).await.map(drop)
            }
        }
    }

    /// The current invoice or link.
    async fn bill(&self) -> Result<Value> {
        let kind = if self.object["object"] == "invoice" { INVOICES } else { LINKS };
        Ok(ok(&self.merchant.api.get(&format!("{kind}/{}", self.subject)).await?).clone())
    }

    async fn wait_for_bill(&self, status: &str) -> Result<Value> {
        eventually(status, async || {
            let bill = self.bill().await?;
            Ok((bill["status"] == status).then_some(bill))
        })
        .await
    }

    /// Whether the requested action has begun.
    pub(super) async fn bill_has_begun(&self, bill: Bill) -> Result<bool> {
        Ok(match bill {
            Bill::Page | Bill::Renewals | Bill::Link => {
                self.count("SELECT count(*) FROM payments WHERE account_id = $1").await? > 0
            }
            Bill::NewInvoice | Bill::NewLink | Bill::NewRecurring | Bill::Subscription => {
                !ids(&self.merchant.api.get(list_of(bill)).await?).is_empty()
            }
            Bill::VoidInvoice => self.bill().await?["status"] == "voided",
            Bill::Collection
            | Bill::NoCard
            | Bill::PartialApproval
            | Bill::PartialApprovalVoidRefused
            | Bill::Cycle
            | Bill::Recurring => true,
        })
    }

    pub(super) async fn check_bill(&self, bill: Bill) -> Result<()> {
        let subject = &self.subject;
        match bill {
            Bill::Page | Bill::Collection => {
                self.wait_for_bill("paid").await?;
                assert_eq!(self.count_events(subject, "invoice.paid").await?, 1);
                self.assert_ledgers(&["sale 1500"], "payment.captured").await
            }
            Bill::Renewals => {
                self.wait_for_bill("paid").await?;
                assert_eq!(self.count_events(subject, "invoice.paid").await?, 1);
                let saved = "SELECT count(*) FROM payment_methods WHERE account_id = $1 AND status = 'active'";
                assert_eq!(self.count(saved).await?, 1);
                self.assert_ledgers(&["sale 2900"], "payment.captured").await
            }
            Bill::Link => {
                self.wait_for_bill("paid").await?;
                assert_eq!(self.count_events(subject, "payment_link.paid").await?, 1);
                self.assert_ledgers(&["sale 1500"], "payment.captured").await
            }
            Bill::PartialApproval | Bill::PartialApprovalVoidRefused => {
                self.wait_for_bill("open").await?;
                let cancelled = "SELECT count(*) FROM payments WHERE account_id = $1 AND status = 'cancelled'";
                eventually("the void", async || Ok((self.count(cancelled).await? == 1).then_some(()))).await?;
                self.assert_ledgers(&["sale 750 voided, void 750"], "payment.cancelled").await
            }
            Bill::NoCard => {
                let attempts = self.merchant.api.get(&format!("{INVOICES}/{subject}/attempts")).await?;
                assert_eq!(ids(&attempts).len(), 1, "{}", attempts.body);
                assert_eq!(attempts.body["data"][0]["declineCode"], "no_payment_method");
                assert_eq!(self.count_events(subject, "invoice.payment_failed").await?, 1);
                self.assert_ledgers(&[], "").await
            }
            Bill::VoidInvoice => {
                self.wait_for_bill("voided").await?;
                assert_eq!(self.count_events(subject, "invoice.voided").await?, 1);
                self.assert_ledgers(&[], "").await
            }
            Bill::NewInvoice | Bill::NewLink | Bill::NewRecurring => {
                let objects = ids(&self.merchant.api.get(list_of(bill)).await?);
                assert_eq!(objects.len(), 1, "{objects:?}");
                let issued = usize::from(bill == Bill::NewInvoice);
                assert_eq!(self.count_events(&objects[0], "invoice.issued").await?, issued);
                self.assert_ledgers(&[], "").await
            }
            Bill::Subscription | Bill::Cycle => {
                let subscriptions = ids(&self.merchant.api.get(SUBSCRIPTIONS).await?);
                assert_eq!(subscriptions.len(), 1, "{subscriptions:?}");
                assert_eq!(self.count_events(&subscriptions[0], "subscription.created").await?, 1);
                let invoice = self.only_invoice("paid").await?;
                assert_eq!(invoice["subscriptionId"], subscriptions[0], "{invoice}");
                assert_eq!(self.count_events(&id(&invoice)?, "invoice.issued").await?, 1);
                assert_eq!(self.count_events(&id(&invoice)?, "invoice.paid").await?, 1);
                self.assert_ledgers(&["sale 2900"], "payment.captured").await
            }
            Bill::Recurring => {
                let invoice = self.only_invoice("open").await?;
                assert_eq!(invoice["recurringInvoiceId"].as_str(), Some(subject.as_str()), "{invoice}");
                assert_eq!(self.count_events(&id(&invoice)?, "invoice.issued").await?, 1);
                Ok(())
            }
        }
    }

    /// The only invoice of the account, once it is in this status.
    async fn only_invoice(&self, status: &str) -> Result<Value> {
        eventually(status, async || {
            let page = self.merchant.api.get(INVOICES).await?;
            let invoices = ok(&page)["data"].as_array().context("a list")?;
            assert!(invoices.len() <= 1, "{}", page.body);
            Ok(invoices.iter().find(|invoice| invoice["status"] == status).cloned())
        })
        .await
    }

    /// Asserts the provider's ledger of each payment of this merchant, and one event of this type for each.
    async fn assert_ledgers(&self, expected: &[&str], event: &str) -> Result<()> {
        let books = &self.merchant.books;
        let query = "SELECT id FROM payments WHERE account_id = $1 ORDER BY id";
        let payments: Vec<uuid::Uuid> = sqlx::query_scalar(query).bind(books.account).fetch_all(&books.db).await?;
        let mut ledgers = Vec::new();
        for payment in payments {
            let payment = api_id("pay_", payment);
            ledgers.push(books.ledger(&payment).await?);
            assert_eq!(self.count_events(&payment, event).await?, 1, "{event} of {payment}");
        }
        assert_eq!(ledgers, expected);
        books.audit().await
    }
}
