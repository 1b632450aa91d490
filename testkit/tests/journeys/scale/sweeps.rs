//! Expired rows are deleted in large batches; other rows are kept.

use anyhow::Result;
use testkit::Cluster;

use crate::signing::live;
use crate::support::eventually;

/// More than one batch.
const MANY: i64 = 12_000;
const FEW: i64 = 10;

#[tokio::test]
async fn expired_rows_are_deleted_in_batches_and_others_kept() -> Result<()> {
    let mut cluster = Cluster::builder().api(1).worker(1).start().await?;
    let merchant = live(&cluster).await?;
    let account = merchant.books.account;
    for (table, rows) in [
        (
            "request_nonces",
            "INSERT INTO request_nonces SELECT account_id, id, $4 || n, clock_timestamp() + $3::text::interval
             FROM api_keys, generate_series(1, $2) n WHERE account_id = $1 AND kind = 'secret'",
        ),
        (
            "checkout_sessions",
            "INSERT INTO checkout_sessions (id_hash, account_id, provider_account_id, intent, origin, created_at, expires_at)
             SELECT sha256(($4 || n)::bytea), id, provider_account_id, 'one_time', 'https://shop.example', now(),
                 clock_timestamp() + $3::text::interval FROM accounts, generate_series(1, $2) n WHERE id = $1",
        ),
        (
            "payment_tokens",
            "INSERT INTO payment_tokens (token_hash, account_id, provider_account_id, upstream_token, created_at, expires_at)
             SELECT sha256(($4 || n)::bytea), id, provider_account_id, 'tok_ok', now(), clock_timestamp() + $3::text::interval
             FROM accounts, generate_series(1, $2) n WHERE id = $1",
        ),
        (
            "user_passkey_challenges",
            "INSERT INTO user_passkey_challenges (cookie_hash, state, created_at)
             SELECT sha256(($4 || n)::bytea), '{}', clock_timestamp() + $3::text::interval
             FROM accounts, generate_series(1, $2) n WHERE id = $1",
        ),
    ] {
        // Sessions and tokens are kept for a day after expiry, so that late replays get an accurate error.
        let recently = match table {
            "request_nonces" => "1 hour",
            "user_passkey_challenges" => "-1 minute",
            _ => "-23 hours",
        };
        for (count, expires_in, name) in [(MANY, "-25 hours", "old"), (FEW, recently, "just now"), (FEW, "1 hour", "new")] {
            let rows = sqlx::query(rows).bind(account).bind(count).bind(expires_in).bind(name);
            assert_eq!(i64::try_from(rows.execute(&merchant.books.db).await?.rows_affected())?, count, "{table}");
        }
    }
    let left = async || -> Result<Vec<i64>> {
        let counts = "SELECT ARRAY[(SELECT count(*) FROM request_nonces), (SELECT count(*) FROM checkout_sessions),
                          (SELECT count(*) FROM payment_tokens), (SELECT count(*) FROM user_passkey_challenges)]";
        Ok(sqlx::query_scalar(counts).fetch_one(&merchant.books.db).await?)
    };
    assert_eq!(left().await?, [MANY + 2 * FEW; 4]);
    cluster.add(testkit::ProcessKind::Scheduler).await?;
    eventually("expired rows to be deleted", async || {
        let left = left().await?;
        assert!(left.iter().all(|left| *left >= 2 * FEW), "rows that must be kept were deleted: {left:?}");
        Ok((left == [2 * FEW; 4]).then_some(()))
    })
    .await
}
