//! The statements of a payment, which docs/performance.md lists.

use anyhow::{Result, ensure};
use serde_json::json;
use testkit::{Cluster, Process};

use crate::support::{Merchant, created, eventually, id, with};

/// The number of statements that a process has sent and that name one of `tables`, without those that read an API key,
/// which is cached for a second, or claim e-mails every second.
fn statements(process: &Process, tables: &[&str]) -> usize {
    let log = process.log();
    let statements = log.lines().filter(|line| line.contains("rows_returned"));
    let statements = statements.filter(|line| !line.contains("key_hash") && !line.contains("FROM mails"));
    statements.filter(|line| tables.iter().any(|table| line.contains(table))).count()
}

#[tokio::test]
async fn a_payment_takes_two_statements_in_the_api_three_by_saved_card_and_two_in_the_worker() -> Result<()> {
    const TABLES: [&str; 6] =
        [" payments", " operations", " accounts", " idempotency_keys", " provider_accounts", " payment_methods"];
    const PAYMENTS: usize = 5;
    const GROUPS: usize = 10;
    let cluster =
        Cluster::builder().api(1).worker(1).env("RUST_LOG", "warn,sqlx::query=debug").env("KEY_CACHE_MS", "1000");
    let mut cluster = cluster.start().await?;
    let merchant = Merchant::new(&cluster).await?;
    let card = id(created(&merchant.save_card(&merchant.customer().await?, "tok_ok").await?))?;
    let count = |cluster: &mut Cluster| {
        let (api, worker) = (statements(cluster.api(0), &TABLES), statements(cluster.worker(0), &TABLES));
        [api, worker, statements(cluster.worker(0), &["mock.transactions"])]
    };
    for (source, in_api) in [(json!({"paymentToken": "tok_ok"}), 2), (json!({"paymentMethodId": card}), 3)] {
        let body = with(with(source, "amount", 1500), "currency", "USD");
        // Connections are opened, and types looked up, by the first.
        created(&merchant.api.post("/v1/payments", body.clone()).await?);
        let expected = [in_api * PAYMENTS, 2 * PAYMENTS, PAYMENTS];
        let mut counted = [0; 3];
        // On a busy machine sweeps and repeated look-ups add statements to some groups of payments.
        for _ in 0..GROUPS {
            let before = count(&mut cluster);
            for _ in 0..PAYMENTS {
                created(&merchant.api.post("/v1/payments", body.clone()).await?);
            }
            // The last lines may not have been written yet.
            counted = eventually("the statements of api, worker and mock", async || {
                let after = count(&mut cluster);
                let counted = [0, 1, 2].map(|part| after[part] - before[part]);
                Ok((0..3).all(|part| counted[part] >= expected[part]).then_some(counted))
            })
            .await?;
            if counted == expected {
                break;
            }
        }
        ensure!(counted == expected, "{counted:?} instead of {expected:?} for {body}");
    }
    Ok(())
}
