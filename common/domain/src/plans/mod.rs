//! Plans: an amount and how often it is charged. Creating a plan with the amount, currency and interval of an existing
//! one returns the existing plan.

mod list;
mod view;

use std::collections::HashMap;

use sqlx::{PgConnection, PgExecutor, PgPool};

pub use list::{Filter, list};
pub use view::PlanView;

use crate::merchant_data::change_merchant_data;
use foundation::calendar::{Cycles, Date, Unit};
use foundation::db::{self, column};
use foundation::error::{Error, Result};
use foundation::id::{AccountId, PlanId};
use foundation::merchant_data::{ExternalId, MerchantData, MerchantDataChange, Metadata};
use foundation::money::{Currency, Money};
use foundation::time::Timestamp;

/// The unit of a billing interval.
#[derive(Clone, Copy, Debug, PartialEq, Eq, sqlx::Type)]
#[sqlx(type_name = "plan_interval", rename_all = "snake_case")]
pub enum Interval {
    Day,
    /// One week and seven days are different intervals, so they belong to different plans.
    Week,
    Month,
    Year,
}

impl Interval {
    /// All values, shortest first.
    pub const ALL: [Self; 4] = [Self::Day, Self::Week, Self::Month, Self::Year];

    /// The name in the API.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Day => "day",
            Self::Week => "week",
            Self::Month => "month",
            Self::Year => "year",
        }
    }

    const fn unit(self) -> Unit {
        match self {
            Self::Day => Unit::Day,
            Self::Week => Unit::Week,
            Self::Month => Unit::Month,
            Self::Year => Unit::Year,
        }
    }

    /// The largest allowed interval count: three years in each unit.
    pub const fn max_count(self) -> i32 {
        match self {
            Self::Day => 1095,
            Self::Week => 156,
            Self::Month => 36,
            Self::Year => 3,
        }
    }
}

/// A plan as stored.
#[derive(Clone, Debug)]
pub struct Plan {
    pub id: PlanId,
    /// As sent when the plan was created.
    pub name: String,
    /// The amount of each charge, in minor units.
    pub amount: i64,
    pub currency: Currency,
    pub interval: Interval,
    /// The number of intervals between two charges.
    pub interval_count: i32,
    pub metadata: Option<Metadata>,
    pub external_id: Option<ExternalId>,
    /// Rises with each change that the API shows.
    pub version: i64,
    pub created_at: Timestamp,
}

impl Plan {
    /// The amount of each charge.
    pub fn price(&self) -> Money {
        Money { minor: self.amount, currency: self.currency }
    }

    /// Returns the billing dates, counted from `anchor`.
    ///
    /// # Errors
    /// [`Error::Internal`] if the interval count is not positive, which a table constraint prevents.
    pub fn cycles(&self, anchor: Date) -> Result<Cycles> {
        let cycles = Cycles::new(anchor, self.interval.unit(), self.interval_count);
        cycles.ok_or_else(|| Error::internal(format!("{} has no interval", self.id)))
    }
}

/// The input for a new plan.
#[derive(Debug)]
pub struct NewPlan {
    pub name: String,
    /// The amount of each charge.
    pub price: Money,
    pub interval: Interval,
    /// The number of intervals between two charges; 1 or more.
    pub interval_count: i32,
    pub merchant_data: MerchantData,
}

/// The result of creating a plan.
#[derive(Debug)]
pub enum Creation {
    New(Plan),
    /// A plan with this price already exists; its name and own data may differ.
    Existing(Plan),
}

impl NewPlan {
    /// Builds the plan with a new id, without storing it.
    ///
    /// # Errors
    /// 422 `intervalCount` if the interval exceeds three years.
    pub fn into_plan(self, now: Timestamp) -> Result<Plan> {
        let plan = Plan {
            id: PlanId::new(now),
            name: self.name,
            amount: self.price.minor,
            currency: self.price.currency,
            interval: self.interval,
            interval_count: self.interval_count,
            metadata: self.merchant_data.metadata,
            external_id: self.merchant_data.external_id,
            version: 1,
            created_at: now,
        };
        check_interval_count(&plan)?;
        Ok(plan)
    }
}

/// Selects every column of a plan; all queries share this list.
macro_rules! select_plans {
    ($rest:literal, $($arg:expr),* $(,)?) => {
        sqlx::query_as!(
            Plan,
            r#"SELECT id, name, amount, currency, "interval", interval_count, metadata, external_id, version, created_at
               FROM plans "# + $rest,
            $($arg),*
        )
    };
}

use select_plans;

/// Inserts a plan, or returns the existing one with the same price. Safe under concurrency: one of several concurrent
/// callers inserts the plan.
///
/// # Errors
/// Database errors only.
pub async fn insert(tx: &mut PgConnection, account: AccountId, plan: Plan) -> Result<Creation> {
    if insert_new(tx, account, &plan).await? {
        return Ok(Creation::New(plan));
    }
    // The conflicting insert waited for the other transaction to commit, and plans are never deleted.
    let existing = find_by_price(tx, account, &plan).await?;
    existing.map(Creation::Existing).ok_or_else(|| Error::internal("the existing plan with this price was not found"))
}

/// Returns whether the plan was inserted; `false` if a plan with the same price exists.
async fn insert_new(db: &mut PgConnection, account: AccountId, new: &Plan) -> Result<bool> {
    let result = sqlx::query!(
        r#"INSERT INTO plans (id, account_id, name, amount, currency, "interval", interval_count, created_at,
                              metadata, external_id)
           VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10) ON CONFLICT ON CONSTRAINT plans_price DO NOTHING"#,
        new.id.uuid(),
        account.uuid(),
        new.name,
        new.amount,
        new.currency.code(),
        new.interval as Interval,
        new.interval_count,
        new.created_at,
        new.metadata.as_ref() as Option<&Metadata>,
        new.external_id.as_deref(),
    )
    .execute(db)
    .await?;
    Ok(result.rows_affected() == 1)
}

/// Returns the plan with the same amount, currency and interval.
async fn find_by_price(db: &mut PgConnection, account: AccountId, plan: &Plan) -> Result<Option<Plan>> {
    let query = select_plans!(
        r#"WHERE account_id = $1 AND amount = $2 AND currency = $3 AND "interval" = $4 AND interval_count = $5"#,
        account.uuid(),
        plan.amount,
        plan.currency.code(),
        plan.interval as Interval,
        plan.interval_count,
    );
    Ok(query.fetch_optional(db).await?)
}

fn check_interval_count(plan: &Plan) -> Result<()> {
    let (interval, max) = (plan.interval.name(), plan.interval.max_count());
    if plan.interval_count > max {
        let message = format!("intervalCount must be a whole number from 1 to {max} if interval is {interval}");
        return Err(Error::invalid("intervalCount", message));
    }
    Ok(())
}

/// Returns a plan.
///
/// # Errors
/// [`Error::NotFound`], also if it belongs to another account.
pub async fn retrieve(db: impl PgExecutor<'_>, account: AccountId, id: PlanId) -> Result<Plan> {
    find(db, account, id).await?.ok_or_else(|| Error::no_such("plan", id))
}

async fn find(db: impl PgExecutor<'_>, account: AccountId, id: PlanId) -> Result<Option<Plan>> {
    let query = select_plans!("WHERE account_id = $1 AND id = $2", account.uuid(), id.uuid());
    Ok(query.fetch_optional(db).await?)
}

/// Returns those of the plans that exist, of any account.
///
/// # Errors
/// Database errors only.
pub async fn find_all(db: impl PgExecutor<'_>, ids: &[PlanId]) -> Result<HashMap<PlanId, Plan>> {
    let query = select_plans!("WHERE id = ANY ($1)", &column(ids, |id| id.uuid()));
    Ok(query.fetch_all(db).await?.into_iter().map(|plan| (plan.id, plan)).collect())
}

/// Changes the merchant's own data. This has no event.
///
/// # Errors
/// [`Error::NotFound`]; 422 `metadata` if it becomes too large; [`Error::Conflict`] if another version was expected.
pub async fn update(db: &PgPool, account: AccountId, id: PlanId, change: MerchantDataChange) -> Result<Plan> {
    let mut tx = db::begin(db).await?;
    change_merchant_data!(tx, "plans", "plan", account, id, change);
    let updated = retrieve(&mut *tx, account, id).await?;
    tx.commit().await?;
    Ok(updated)
}
