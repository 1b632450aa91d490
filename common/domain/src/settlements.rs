//! Daily settlements: what settled and what was returned on one day of the account's time zone, by the account's clock.

use serde::Serialize;
use sqlx::PgPool;
use utoipa::ToSchema;

use foundation::calendar::{Date, TimeZone};
use foundation::error::Result;
use foundation::id::AccountId;
use foundation::money::{Currency, Sum};
use foundation::schema;

/// The public JSON of a day (docs/payments.md, Settlements).
#[derive(Serialize, ToSchema)]
#[schema(as = Settlement, description = "The money that moved on one day of the account's time zone.")]
pub struct SettlementView {
    #[schema(schema_with = schema::settlement)]
    object: &'static str,
    /// The day, in the account's time zone.
    day: Date,
    /// One entry for each currency in which money moved, in the order of the codes.
    data: Vec<CurrencyView>,
}

#[derive(Serialize, ToSchema)]
#[schema(as = SettlementCurrency, description = "The money that moved on one day in one currency.")]
struct CurrencyView {
    currency: Currency,
    /// The captured amounts that settled.
    payments: TotalView,
    /// The amounts that were refunded.
    refunds: TotalView,
    /// The amounts that were withdrawn because of disputes, minus those that were given back as they were won.
    disputes: TotalView,
    /// Payments minus refunds and disputes, in the currency's minor unit; it may be negative.
    net: Sum,
}

#[derive(Serialize, ToSchema)]
#[schema(as = SettlementTotal, description = "How many there were, and the sum of their amounts.")]
struct TotalView {
    /// How many there were.
    count: i64,
    /// The sum of their amounts, in the currency's minor unit.
    amount: Sum,
}

/// Returns what settled and what was returned on a day of this time zone, from one snapshot. A day in the future has
/// nothing.
///
/// # Errors
/// Database errors only.
pub async fn retrieve(db: &PgPool, account: AccountId, zone: &TimeZone, day: Date) -> Result<SettlementView> {
    let rows = sqlx::query!(
        r#"SELECT m.currency AS "currency!: Currency",
                  count(*) FILTER (WHERE m.kind = 'payment') AS "payments!",
                  coalesce(sum(m.amount) FILTER (WHERE m.kind = 'payment'), 0)::text AS "paid!: Sum",
                  count(*) FILTER (WHERE m.kind = 'refund') AS "refunds!",
                  coalesce(sum(m.amount) FILTER (WHERE m.kind = 'refund'), 0)::text AS "refunded!: Sum",
                  count(*) FILTER (WHERE m.kind = 'dispute') AS "disputes!",
                  coalesce(sum(m.amount) FILTER (WHERE m.kind = 'dispute'), 0)::text AS "disputed!: Sum",
                  sum(CASE m.kind WHEN 'payment' THEN m.amount ELSE -m.amount END)::text AS "net!: Sum"
           FROM (SELECT 'payment' AS kind, p.currency, p.amount_captured AS amount FROM payments p
                 WHERE p.account_id = $1 AND p.settled_at >= $2 AND p.settled_at < $3
                 UNION ALL
                 SELECT 'refund', p.currency, r.amount
                 FROM refunds r JOIN payments p ON p.account_id = r.account_id AND p.id = r.payment_id
                 WHERE r.account_id = $1 AND r.status = 'succeeded' AND r.finished_at >= $2 AND r.finished_at < $3
                 UNION ALL
                 SELECT 'dispute', d.currency, d.amount FROM disputes d
                 WHERE d.account_id = $1 AND d.created_at >= $2 AND d.created_at < $3
                 UNION ALL
                 SELECT 'dispute', d.currency, -d.amount FROM disputes d
                 WHERE d.account_id = $1 AND d.status = 'won' AND d.closed_at >= $2 AND d.closed_at < $3) m
           GROUP BY m.currency ORDER BY m.currency"#,
        account.uuid(),
        zone.beginning_of(day),
        zone.end_of(day),
    );
    let data = rows.fetch_all(db).await?.into_iter().map(|row| CurrencyView {
        currency: row.currency,
        payments: TotalView { count: row.payments, amount: row.paid },
        refunds: TotalView { count: row.refunds, amount: row.refunded },
        disputes: TotalView { count: row.disputes, amount: row.disputed },
        net: row.net,
    });
    Ok(SettlementView { object: "settlement", day, data: data.collect() })
}
