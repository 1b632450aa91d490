//! Queries of the mock's ledger: the statement, a charge with its follow-ups, and a single entry.

use sqlx::PgPool;

use super::{CardBehavior, disputes, ledger};
use crate::{Entry, ParentCharge, ProviderError, StatementLine};
use foundation::id::ProviderAccountId;
use foundation::money::{Currency, Money};
use foundation::time::Timestamp;

/// A ledger entry and the charge that it follows.
struct Row {
    id: String,
    kind: String,
    amount: i64,
    currency: Currency,
    nature: String,
    reference: String,
    parent: Option<String>,
    parent_reference: Option<String>,
    created_at: Timestamp,
}

/// The columns are shared by all queries.
macro_rules! entries {
    ($rest:literal, $($arg:expr),* $(,)?) => {
        sqlx::query_as!(
            Row,
            r#"SELECT t.id, t.kind, t.amount, t.currency AS "currency: Currency", t.nature, t.reference, t.parent,
                      (SELECT p.reference FROM mock.transactions p WHERE p.id = t.parent) AS parent_reference, t.created_at
               FROM mock.transactions t "# + $rest,
            $($arg),*
        )
    };
}

impl Row {
    fn line(self) -> Result<StatementLine, ProviderError> {
        let entry = match self.kind.as_str() {
            "sale" | "authorize" => Entry::Charge,
            "capture" => Entry::Capture,
            "void" => Entry::Void,
            "refund" => Entry::Refund,
            other => return Err(ProviderError::Unknown(format!("the mock's ledger contains a {other}"))),
        };
        let behavior = CardBehavior::of_token(&self.nature).unwrap_or(CardBehavior::Approves);
        Ok(StatementLine {
            entry,
            response: ledger::response(self.id.clone(), &self.kind, true, self.amount, behavior),
            reference: self.reference,
            provider_ref: self.id,
            money: Money { minor: self.amount, currency: self.currency },
            follows: self.parent.map(|provider_ref| ParentCharge {
                provider_ref,
                reference: self.parent_reference.unwrap_or_default(),
            }),
            occurred_at: self.created_at,
        })
    }
}

/// Returns the entries approved, and the disputed money moved, at `since` or later, by the database's clock.
pub(super) async fn read(
    db: &PgPool,
    account: ProviderAccountId,
    since: Timestamp,
    limit: i64,
) -> Result<Vec<StatementLine>, ProviderError> {
    let rows = entries!(
        "WHERE t.account = $1 AND t.approved AND t.unique_reference IS NOT NULL AND t.created_at >= $2
         ORDER BY t.created_at LIMIT $3",
        account.uuid(),
        since,
        limit,
    );
    let mut lines: Vec<_> = rows.fetch_all(db).await?.into_iter().map(Row::line).collect::<Result<_, _>>()?;
    lines.extend(disputes::statement(db, account, since, limit).await?);
    lines.sort_by_key(|line| line.occurred_at);
    lines.truncate(usize::try_from(limit).unwrap_or(0));
    Ok(lines)
}

/// Returns a charge and its follow-ups.
pub(super) async fn of_charge(
    db: &PgPool,
    account: ProviderAccountId,
    charge: &str,
) -> Result<Vec<StatementLine>, ProviderError> {
    let rows = entries!(
        "WHERE t.account = $1 AND t.approved
           AND t.id = ANY (ARRAY (SELECT $2::text UNION ALL SELECT id FROM mock.transactions WHERE parent = $2))",
        account.uuid(),
        charge,
    );
    rows.fetch_all(db).await?.into_iter().map(Row::line).collect()
}

/// Returns the entry with this id.
pub(super) async fn booked(
    db: &PgPool,
    account: ProviderAccountId,
    id: &str,
) -> Result<Option<StatementLine>, ProviderError> {
    let row = entries!("WHERE t.account = $1 AND t.approved AND t.id = $2", account.uuid(), id);
    match row.fetch_optional(db).await? {
        Some(row) => row.line().map(Some),
        None => disputes::line(db, account, id).await,
    }
}
