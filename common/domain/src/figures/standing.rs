//! What an account has at present. Triggers write each change of a figure as a row of its own; the scheduler adds these up, so
//! that reading a figure costs the same whatever the number of objects.

use sqlx::PgPool;

use foundation::calendar::Date;
use foundation::error::Result;
use foundation::id::AccountId;
use foundation::money::{Currency, Sum};

/// What is counted and summed at present.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StandingKind {
    /// Open or scheduled invoices.
    InvoicesDue,
    /// Those of them that were due before today.
    InvoicesOverdue,
    /// Active subscriptions, with what they bring per month.
    Subscriptions,
    /// Disputes that need a response.
    Disputes,
}

impl StandingKind {
    pub const ALL: [Self; 4] = [Self::InvoicesDue, Self::InvoicesOverdue, Self::Subscriptions, Self::Disputes];
}

/// A figure of the present, in one currency.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Standing {
    pub kind: StandingKind,
    pub currency: Currency,
    pub count: i64,
    /// In minor units.
    pub amount: Sum,
}

/// What the account has at present, without what it has none of. `today` is the account's date in UTC, in which lists are
/// filtered by days.
///
/// # Errors
/// Database errors only.
pub async fn standing(db: &PgPool, account: AccountId, today: Date) -> Result<Vec<Standing>> {
    let rows = sqlx::query!(
        r#"SELECT kind AS "kind!", currency AS "currency!: Currency", sum(count)::bigint AS "count!",
               sum(amount)::text AS "amount!: Sum", coalesce(sum(count) FILTER (WHERE day < $2), 0)::bigint AS "count_before!",
               coalesce(sum(amount) FILTER (WHERE day < $2), 0)::text AS "amount_before!: Sum"
           FROM (SELECT kind, currency, day, count, amount FROM standing_figures WHERE account_id = $1
               UNION ALL SELECT kind, currency, day, count, amount FROM standing_figure_changes WHERE account_id = $1) figures
           GROUP BY kind, currency ORDER BY kind, currency"#,
        account.uuid(),
        today,
    );
    let mut standing = Vec::new();
    for row in rows.fetch_all(db).await? {
        let kind = match row.kind.as_str() {
            "invoices" => StandingKind::InvoicesDue,
            "subscriptions" => StandingKind::Subscriptions,
            "disputes" => StandingKind::Disputes,
            _ => continue,
        };
        let currency = row.currency;
        standing.push(Standing { kind, currency, count: row.count, amount: row.amount });
        if kind == StandingKind::InvoicesDue {
            let (count, amount) = (row.count_before, row.amount_before);
            standing.push(Standing { kind: StandingKind::InvoicesOverdue, currency, count, amount });
        }
    }
    standing.retain(|figure| figure.count != 0);
    Ok(standing)
}

/// Adds up to `limit` changes to their figures, and deletes up to `limit` figures that count nothing. Returns how many changes
/// it has added.
///
/// # Errors
/// Database errors only.
pub async fn add_standing_changes(db: &PgPool, limit: i64) -> Result<u64> {
    let added = sqlx::query_scalar!(
        r#"WITH added AS (
               DELETE FROM standing_figure_changes WHERE id = ANY (ARRAY(
                   SELECT id FROM standing_figure_changes ORDER BY id LIMIT $1 FOR UPDATE SKIP LOCKED))
               RETURNING account_id, kind, currency, day, count, amount),
           summed AS (
               INSERT INTO standing_figures AS f (account_id, kind, currency, day, count, amount)
               SELECT account_id, kind, currency, day, sum(count)::bigint, sum(amount) FROM added
               GROUP BY account_id, kind, currency, day ORDER BY account_id, kind, currency, day
               ON CONFLICT (account_id, kind, currency, day)
               DO UPDATE SET count = f.count + excluded.count, amount = f.amount + excluded.amount)
           SELECT count(*) AS "added!" FROM added"#,
        limit,
    );
    let added = added.fetch_one(db).await?;
    sqlx::query!(
        "DELETE FROM standing_figures WHERE id = ANY (ARRAY(
             SELECT id FROM standing_figures WHERE count = 0 AND amount = 0 ORDER BY id LIMIT $1 FOR UPDATE SKIP LOCKED))",
        limit,
    )
    .execute(db)
    .await?;
    Ok(u64::try_from(added).unwrap_or_default())
}
