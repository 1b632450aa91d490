//! SQL for plans.

use sqlx::{PgConnection, PgPool};
use uuid::Uuid;

use super::{Interval, Plan};
use foundation::error::Result;
use foundation::id::{AccountId, PlanId};

/// Selects every column of a plan; all queries share this list.
macro_rules! select_plans {
    ($rest:literal, $($arg:expr),* $(,)?) => {
        sqlx::query_as!(
            Plan,
            r#"SELECT id, name, amount, currency, "interval", interval_count, created_at FROM plans "# + $rest,
            $($arg),*
        )
    };
}

/// Returns whether the plan was inserted; `false` if a plan with the same price exists.
pub(super) async fn insert(db: &mut PgConnection, account: AccountId, new: &Plan) -> Result<bool> {
    let result = sqlx::query!(
        r#"INSERT INTO plans (id, account_id, name, amount, currency, "interval", interval_count, created_at)
           VALUES ($1, $2, $3, $4, $5, $6, $7, $8) ON CONFLICT ON CONSTRAINT plans_price DO NOTHING"#,
        new.id.uuid(),
        account.uuid(),
        new.name,
        new.amount,
        new.currency.code(),
        new.interval as Interval,
        new.interval_count,
        new.created_at,
    )
    .execute(db)
    .await?;
    Ok(result.rows_affected() == 1)
}

/// Returns the plan with the same amount, currency and interval.
pub(super) async fn find_by_price(db: &mut PgConnection, account: AccountId, plan: &Plan) -> Result<Option<Plan>> {
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

pub(super) async fn find(db: &PgPool, account: AccountId, id: PlanId) -> Result<Option<Plan>> {
    let query = select_plans!("WHERE account_id = $1 AND id = $2", account.uuid(), id.uuid());
    Ok(query.fetch_optional(db).await?)
}

pub(super) async fn list(db: &PgPool, account: AccountId, after: Option<PlanId>, limit: i64) -> Result<Vec<Plan>> {
    let query = select_plans!(
        "WHERE (account_id, id) < ($1, $2) AND account_id >= $1 ORDER BY account_id DESC, id DESC LIMIT $3",
        account.uuid(),
        after.map_or(Uuid::max(), PlanId::uuid),
        limit,
    );
    Ok(query.fetch_all(db).await?)
}
