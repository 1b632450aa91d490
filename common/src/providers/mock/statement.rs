//! What the mock's books show of themselves: their statement, one charge with what followed it, and one entry.

use sqlx::PgPool;

use super::{Nature, ledger};
use crate::id::ProviderAccountId;
use crate::money::{Currency, Money};
use crate::providers::{Entry, Fault, Followed, StatementLine};
use crate::time::Timestamp;

/// An entry, with the charge that it follows.
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

/// Every reader reads the same of an entry, so the columns stand once.
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
    fn line(self) -> Result<StatementLine, Fault> {
        let entry = match self.kind.as_str() {
            "sale" | "authorize" => Entry::Charge,
            "capture" => Entry::Capture,
            "void" => Entry::Void,
            "refund" => Entry::Refund,
            other => return Err(Fault::Unknown(format!("the mock's books hold a {other}"))),
        };
        let nature = Nature::of_token(&self.nature).unwrap_or(Nature::Approves);
        Ok(StatementLine {
            entry,
            answer: ledger::answer(self.id.clone(), &self.kind, true, self.amount, nature),
            reference: self.reference,
            provider_ref: self.id,
            money: Money { minor: self.amount, currency: self.currency },
            follows: self
                .parent
                .map(|provider_ref| Followed { provider_ref, reference: self.parent_reference.unwrap_or_default() }),
            occurred_at: self.created_at,
        })
    }
}

/// What was approved at `since` or later, by the books' own clock.
pub(super) async fn read(
    db: &PgPool,
    account: ProviderAccountId,
    since: Timestamp,
    limit: i64,
) -> Result<Vec<StatementLine>, Fault> {
    let rows = entries!(
        "WHERE t.account = $1 AND t.approved AND t.unique_reference IS NOT NULL AND t.created_at >= $2
         ORDER BY t.created_at LIMIT $3",
        account.uuid(),
        since,
        limit,
    );
    rows.fetch_all(db).await?.into_iter().map(Row::line).collect()
}

/// A charge and what followed it.
pub(super) async fn of_charge(
    db: &PgPool,
    account: ProviderAccountId,
    charge: &str,
) -> Result<Vec<StatementLine>, Fault> {
    let rows = entries!(
        "WHERE t.account = $1 AND t.approved
           AND t.id = ANY (ARRAY (SELECT $2::text UNION ALL SELECT id FROM mock.transactions WHERE parent = $2))",
        account.uuid(),
        charge,
    );
    rows.fetch_all(db).await?.into_iter().map(Row::line).collect()
}

/// The entry of this name.
pub(super) async fn booked(db: &PgPool, account: ProviderAccountId, id: &str) -> Result<Option<StatementLine>, Fault> {
    let row = entries!("WHERE t.account = $1 AND t.approved AND t.id = $2", account.uuid(), id);
    row.fetch_optional(db).await?.map(Row::line).transpose()
}
