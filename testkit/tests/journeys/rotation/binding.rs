//! Secrets open only in the column, account and row for which they were sealed.

use anyhow::{Result, ensure};
use reqwest::Method;
use serde_json::json;

use super::{REENCRYPTED, assert_doctor, counts, restart_with, with_keys};
use crate::signing::{Signed, live};
use crate::support::{Merchant, created, id, ok};

/// Two signing secrets, and both secrets of an endpoint.
const SECRETS: i64 = 4;

/// An installation of the former version, whose secrets are sealed for their row only.
#[tokio::test]
async fn former_secrets_are_bound_by_reencryption() -> Result<()> {
    let mut cluster = with_keys("a", "c").api(1).worker(1).scheduler(1).start().await?;
    let merchant = Merchant::new(&cluster).await?;
    sqlx::query("UPDATE sealing SET bound = false").execute(&merchant.books.db).await?;
    restart_with(&mut cluster, &[]).await?;
    let (live, other) = (live(&cluster).await?, live(&cluster).await?);
    let body = json!({"url": "https://shop.example/hook", "enabledEvents": ["customer.created"]});
    let endpoint = id(created(&merchant.api.post("/v1/webhook_endpoints", body).await?))?;
    let rotate = format!("/v1/webhook_endpoints/{endpoint}/rotate_secret");
    ok(&merchant.api.send(Method::POST, &rotate, None).await?);

    let dry_run = ["reencrypt", "--dry-run"];
    assert_eq!(counts(&cluster.ctl(&dry_run).await?, REENCRYPTED), [0, SECRETS, 0]);
    assert_doctor(&cluster, "encryption key", "ok", "ctl reencrypt will bind them").await?;
    assert_eq!(counts(&cluster.ctl(&["reencrypt"]).await?, REENCRYPTED), [SECRETS, 0, 0]);
    assert_doctor(&cluster, "encryption key", "ok", "sealed under it").await?;
    let list = |merchant| Signed::new(merchant, Method::GET, "/v1/customers", None);
    ok(&list(&live)?.sign().send(&live.api).await?);

    // Each of these opened before.
    let copied = sqlx::query("UPDATE webhook_endpoints SET secret = previous_secret").execute(&merchant.books.db);
    ensure!(copied.await?.rows_affected() == 1);
    let unused = "UPDATE api_keys SET account_id = $1 WHERE account_id = $2 AND signing_secret IS NOT NULL";
    let moved = sqlx::query(unused).bind(live.books.account).bind(other.books.account).execute(&merchant.books.db);
    ensure!(moved.await?.rows_affected() == 1);
    assert_eq!(counts(&cluster.ctl(&dry_run).await?, REENCRYPTED), [0, 2, 2]);
    let refused = list(&other)?.sign().send(&other.api).await?;
    ensure!(refused.status == 500, "{} {}", refused.status, refused.body);

    // What is created after a restart is bound at once.
    restart_with(&mut cluster, &[]).await?;
    ok(&merchant.api.send(Method::POST, &rotate, None).await?);
    // The moved key is left: the rotation has put the copied secret into its own column again.
    assert_eq!(counts(&cluster.ctl(&dry_run).await?, REENCRYPTED), [0, 1, 1]);
    Ok(())
}
