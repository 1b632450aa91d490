//! Creates a plan, or finds the existing plan with the same price.

use crate::ambiguous_commit::AmbiguousCommit;
use domain::accounts::Caller;
use domain::idempotency::{self, Created, CreationKey, CreationResult};
use domain::plans::{self, Creation, NewPlan, Plan, PlanView};
use foundation::db::Db;
use foundation::error::Result;
use foundation::failpoint;
use foundation::time::Timestamp;

/// Creates a plan, unless one with the same price exists.
///
/// # Errors
/// 422 `amount` if the provider charges no such amount; 422 `intervalCount` for more than three years; 422 for an
/// idempotency key used with another body.
pub async fn create_plan(
    db: &Db,
    caller: &Caller,
    new: NewPlan,
    key: Option<&CreationKey>,
    now: Timestamp,
) -> Result<CreationResult<Creation>> {
    caller.provider.require_step("amount", new.price)?;
    let plan = new.into_plan(now)?;
    let mut commit = AmbiguousCommit::default();
    loop {
        let result = write(db, caller, &plan, key, now, &mut commit).await;
        let lookup = async {
            plans::retrieve(&**db, caller.account_id, plan.id)
                .await
                .map(|plan| CreationResult::New(Creation::New(plan)))
        };
        if let Some(created) = commit.resolve(result, lookup).await? {
            return Ok(created);
        }
    }
}

async fn write(
    db: &Db,
    caller: &Caller,
    plan: &Plan,
    key: Option<&CreationKey>,
    now: Timestamp,
    commit: &mut AmbiguousCommit,
) -> Result<CreationResult<Creation>> {
    let mut tx = db.begin().await?;
    if let Some(earlier) = idempotency::claim(&mut tx, key, now).await? {
        return Ok(CreationResult::Earlier(earlier));
    }
    let creation = match plans::insert(&mut tx, caller.account_id, plan.clone()).await? {
        // Written by an earlier attempt of this request whose COMMIT got no response.
        Creation::Existing(existing) if existing.id == plan.id => Creation::New(existing),
        Creation::Existing(existing) => Creation::Existing(existing),
        Creation::New(plan) => Creation::New(plan),
    };
    if let Some(key) = key {
        let (status, plan) = match &creation {
            Creation::New(plan) => (201, plan),
            Creation::Existing(plan) => (200, plan),
        };
        key.store_response(&mut tx, Created::Plan(plan.id), status, &PlanView::new(plan, caller.livemode())).await?;
    }
    commit.send(tx.commit()).await?;
    failpoint!("create_plan.committed");
    Ok(CreationResult::New(creation))
}
