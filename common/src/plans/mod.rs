//! Plans: what is charged, and how often. A price has one plan: whoever asks for it again gets the plan that is there.

mod store;
mod view;

use sqlx::{PgConnection, PgPool};

pub use view::PlanView;

use crate::calendar::{Cycles, Date, Unit};
use crate::error::{Error, Result};
use crate::id::{AccountId, PlanId};
use crate::money::{Currency, Money};
use crate::page::{Page, PageRequest, unknown_cursor};
use crate::time::Timestamp;

/// The unit in which the time between two charges is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, sqlx::Type)]
#[sqlx(type_name = "plan_interval", rename_all = "snake_case")]
pub enum Interval {
    /// Days.
    Day,
    /// Weeks. One is another interval than seven days.
    Week,
    /// Months.
    Month,
    /// Years.
    Year,
}

impl Interval {
    /// Every one, from the shortest to the longest.
    pub const ALL: [Self; 4] = [Self::Day, Self::Week, Self::Month, Self::Year];

    /// As the API reads and prints it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Day => "day",
            Self::Week => "week",
            Self::Month => "month",
            Self::Year => "year",
        }
    }

    /// The unit of the calendar that it is.
    const fn unit(self) -> Unit {
        match self {
            Self::Day => Unit::Day,
            Self::Week => Unit::Week,
            Self::Month => Unit::Month,
            Self::Year => Unit::Year,
        }
    }

    /// How many of them may lie between two charges: three years of each.
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
    /// Its id.
    pub id: PlanId,
    /// Name, as first given.
    pub name: String,
    /// Minor units of each charge.
    pub amount: i64,
    /// What they are units of.
    pub currency: Currency,
    /// The unit of time.
    pub interval: Interval,
    /// How many of them lie between two charges.
    pub interval_count: i32,
    /// When it was made.
    pub created_at: Timestamp,
}

impl Plan {
    /// The dates on which it is charged, counted from this day.
    ///
    /// # Errors
    /// [`Error::Internal`] for a plan without an interval, which the schema refuses.
    pub fn cycles(&self, anchor: Date) -> Result<Cycles> {
        let cycles = Cycles::new(anchor, self.interval.unit(), self.interval_count);
        cycles.ok_or_else(|| Error::internal(format!("{} has no interval", self.id)))
    }
}

/// A plan to be made, unless it is there.
#[derive(Debug)]
pub struct NewPlan {
    /// Name.
    pub name: String,
    /// Each charge.
    pub price: Money,
    /// The unit of time.
    pub interval: Interval,
    /// How many of them lie between two charges; 1 or more.
    pub interval_count: i32,
}

/// What came of asking for a plan.
#[derive(Debug)]
pub enum Creation {
    /// It was made.
    New(Plan),
    /// The price had a plan before, perhaps by another name.
    Existing(Plan),
}

impl NewPlan {
    /// The plan that it makes, under an id of its own; nothing is written yet.
    ///
    /// # Errors
    /// 422 `intervalCount` for more than three years.
    pub fn into_plan(self, now: Timestamp) -> Result<Plan> {
        let plan = Plan {
            id: PlanId::new(now),
            name: self.name,
            amount: self.price.minor,
            currency: self.price.currency,
            interval: self.interval,
            interval_count: self.interval_count,
            created_at: now,
        };
        check_count(&plan)?;
        Ok(plan)
    }
}

/// Writes a plan, or finds the one that has its price. Of many that ask at once one makes it.
///
/// # Errors
/// Only the database's.
pub async fn insert(tx: &mut PgConnection, account: AccountId, plan: Plan) -> Result<Creation> {
    if store::insert(tx, account, &plan).await? {
        return Ok(Creation::New(plan));
    }
    // The insert has waited for whoever was first, so their plan is committed, and a plan is never deleted.
    let existing = store::find_by_price(tx, account, &plan).await?;
    existing.map(Creation::Existing).ok_or_else(|| Error::internal("the plan that a price has cannot be found"))
}

fn check_count(plan: &Plan) -> Result<()> {
    let (interval, max) = (plan.interval.name(), plan.interval.max_count());
    if plan.interval_count > max {
        let message = format!("intervalCount must be a whole number from 1 to {max} where interval is {interval}");
        return Err(Error::invalid("intervalCount", message));
    }
    Ok(())
}

/// One plan.
///
/// # Errors
/// [`Error::NotFound`], for another account's too.
pub async fn retrieve(db: &PgPool, account: AccountId, id: PlanId) -> Result<Plan> {
    store::find(db, account, id).await?.ok_or_else(|| Error::no_such("plan", id))
}

/// A page of plans, newest first.
///
/// # Errors
/// 422 for a cursor that names no plan of the account.
pub async fn list(db: &PgPool, account: AccountId, page: PageRequest<PlanId>) -> Result<Page<Plan>> {
    if let Some(cursor) = page.starting_after
        && store::find(db, account, cursor).await?.is_none()
    {
        return Err(unknown_cursor());
    }
    Ok(page.page(store::list(db, account, page.starting_after, page.fetch()).await?))
}
