//! Subscriptions over years: which cycles are billed, under concurrency and failures, and when they are past due.

mod cancellation;
mod cycles;
mod past_due;
mod running;

use sqlx::AssertSqlSafe;

use super::{Shop, at};
use crate::cancel_subscription;
use crate::create_plan;
use crate::create_subscription;
use crate::run_due_subscriptions;
use domain::accounts::Scope;
use domain::idempotency::CreationResult;
use domain::plans::{Creation, Interval, NewPlan, Plan};
use domain::subscriptions::{self, NewSubscription, Subscription};
use foundation::error::Result;
use foundation::id::SubscriptionId;
use foundation::merchant_data::MerchantData;
use foundation::money::Money;

/// Large enough for batching, small enough to be exceeded.
const BATCH: i64 = 3;

impl Shop {
    async fn plan(&self, interval: Interval, interval_count: i32) -> Plan {
        let price = Money { minor: 2900, currency: "USD".parse().expect("a currency") };
        let new =
            NewPlan { name: "Gold".into(), price, interval, interval_count, merchant_data: MerchantData::default() };
        match create_plan(&self.db, &self.caller, new, None, at("2020-01-01T00:00:00Z"))
            .await
            .expect("a plan")
            .into_new()
        {
            Creation::New(plan) | Creation::Existing(plan) => plan,
        }
    }

    async fn subscribe(&self, plan: &Plan, start_at: Option<&str>, zone: &str, now: &str) -> Result<Subscription> {
        let new = NewSubscription {
            customer_id: self.customer,
            plan_id: plan.id,
            payment_method_id: None,
            start_at: start_at.map(|day| day.parse().expect("a day")),
            timezone: zone.parse().expect("a zone"),
            description: None,
            merchant_data: MerchantData::default(),
        };
        create_subscription(&self.db, &self.caller, &new, None, at(now)).await.map(CreationResult::into_new)
    }

    /// Creates a subscription of a plan with this interval, in UTC.
    pub(super) async fn subscribed(&self, interval: Interval, start_at: &str, now: &str) -> Subscription {
        let plan = self.plan(interval, 1).await;
        self.subscribe(&plan, Some(start_at), "UTC", now).await.expect("a subscription")
    }

    async fn cancel(&self, subscription: &Subscription, now: &str) -> Subscription {
        cancel_subscription(&self.db, &self.caller, subscription.id, at(now)).await.expect("cancelled")
    }

    /// Bills all due cycles and returns how many.
    pub(super) async fn run(&self, now: &str) -> usize {
        let mut billed = 0;
        loop {
            match run_due_subscriptions(&self.db, Scope::AllAccounts(at(now)), BATCH).await.expect("a run") {
                0 => return billed,
                more => billed += more,
            }
        }
    }

    async fn stored(&self, id: SubscriptionId) -> Subscription {
        subscriptions::retrieve(&*self.db, self.caller.account_id, id).await.expect("the subscription")
    }

    /// A column of a subscription's invoices, in the order of their numbers.
    async fn invoice_column(&self, id: SubscriptionId, column: &str) -> Vec<String> {
        let query =
            format!("SELECT coalesce(({column})::text, '') FROM invoices WHERE subscription_id = $1 ORDER BY number");
        sqlx::query_scalar(AssertSqlSafe(query)).bind(id.uuid()).fetch_all(&*self.db).await.expect("invoices")
    }

    async fn periods(&self, id: SubscriptionId) -> Vec<String> {
        self.invoice_column(id, "billing_period").await
    }

    /// The event types of a subscription, in order.
    async fn events(&self, id: SubscriptionId) -> Vec<String> {
        let query = "SELECT type FROM events WHERE payload::json -> 'data' -> 'object' ->> 'id' = $1
                     ORDER BY created_at, id";
        sqlx::query_scalar(query).bind(id.to_string()).fetch_all(&*self.db).await.expect("events")
    }
}
