//! Creates a plan, or finds the existing plan with the same price.

use super::create_once;
use domain::accounts::Caller;
use domain::idempotency::{Created, CreationKey, CreationResult};
use domain::plans::{self, Creation, NewPlan, PlanView};
use foundation::db::Db;
use foundation::error::Result;
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
    let new = &new.into_plan(now)?;
    let find = || async move { plans::retrieve(&**db, caller.account_id, new.id).await.map(Creation::New) };
    create_once(db, key, now, find, |mut tx| async move {
        let creation = match plans::insert(&mut tx, caller.account_id, new.clone()).await? {
            // Written by an earlier attempt of this request whose COMMIT got no response.
            Creation::Existing(existing) if existing.id == new.id => Creation::New(existing),
            Creation::Existing(existing) => Creation::Existing(existing),
            Creation::New(plan) => Creation::New(plan),
        };
        if let Some(key) = key {
            let (status, plan) = match &creation {
                Creation::New(plan) => (201, plan),
                Creation::Existing(plan) => (200, plan),
            };
            let view = PlanView::new(plan, caller.livemode());
            key.store_response(&mut tx, Created::Plan(plan.id), status, &view).await?;
        }
        Ok((tx, creation))
    })
    .await
}
