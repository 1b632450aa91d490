//! Making a plan, or finding the one that its price has.

use super::doubt::Doubt;
use crate::accounts::Caller;
use crate::db::Db;
use crate::error::Result;
use crate::idempotency::{self, Created, CreationKey, Made};
use crate::plans::{self, Creation, NewPlan, Plan, PlanView};
use crate::proof::failpoint;
use crate::time::Timestamp;

/// Makes a plan, unless its price has one.
///
/// # Errors
/// 422 `intervalCount` for more than three years; 422 for a key used with another body.
pub async fn create_plan(
    db: &Db,
    caller: &Caller,
    new: NewPlan,
    key: Option<&CreationKey>,
    now: Timestamp,
) -> Result<Made<Creation>> {
    let plan = new.into_plan(now)?;
    let mut doubt = Doubt::default();
    loop {
        let tried = write(db, caller, &plan, key, now, &mut doubt).await;
        let find =
            async { plans::retrieve(db, caller.account_id, plan.id).await.map(|plan| Made::New(Creation::New(plan))) };
        if let Some(made) = doubt.end(tried, find).await? {
            return Ok(made);
        }
    }
}

async fn write(
    db: &Db,
    caller: &Caller,
    plan: &Plan,
    key: Option<&CreationKey>,
    now: Timestamp,
    doubt: &mut Doubt,
) -> Result<Made<Creation>> {
    let mut tx = db.begin().await?;
    if let Some(earlier) = idempotency::claim(&mut tx, key, now).await? {
        return Ok(Made::Earlier(earlier));
    }
    let creation = match plans::insert(&mut tx, caller.account_id, plan.clone()).await? {
        // An earlier try of ours, whose COMMIT was not answered.
        Creation::Existing(existing) if existing.id == plan.id => Creation::New(existing),
        Creation::Existing(existing) => Creation::Existing(existing),
        Creation::New(plan) => Creation::New(plan),
    };
    if let Some(key) = key {
        let (status, plan) = match &creation {
            Creation::New(plan) => (201, plan),
            Creation::Existing(plan) => (200, plan),
        };
        key.keep(&mut tx, Created::Plan(plan.id), status, &PlanView::new(plan, caller.livemode())).await?;
    }
    doubt.send(tx.commit()).await?;
    failpoint("create_plan.committed").await?;
    Ok(Made::New(creation))
}
