//! `ctl reencrypt` reencrypts each stored secret once, despite kills and concurrent rotations.

use anyhow::{Context, Result};
use reqwest::Method;
use serde_json::{Value, json};
use testkit::{Cluster, ProcessKind};

use super::{ENCRYPTION, REENCRYPTED, assert_doctor, counts, key, restart_with, secret, with_keys};
use crate::deliveries::signature;
use crate::signing::{Signed, live};
use crate::support::{Merchant, Receiver, Reply, concurrently, created, eventually, ok, uuid};

const ENDPOINTS: &str = "/v1/webhook_endpoints";
const ENDPOINT_COUNT: usize = 20;
/// The endpoints' secrets and the live merchant's signing secret.
const SECRETS: i64 = ENDPOINT_COUNT as i64 + 1;

/// A merchant with many endpoints and one with a signing secret, in a cluster whose key just changed from `a` to `b`.
struct Fixtures {
    cluster: Cluster,
    live: Merchant,
    merchant: Merchant,
    receiver: Receiver,
    /// Ids of the endpoints with their current secrets.
    endpoints: Vec<(String, String)>,
}

impl Fixtures {
    async fn new() -> Result<Self> {
        let mut cluster = with_keys("a", "c").api(1).worker(1).scheduler(1).start().await?;
        let (live, merchant) = (live(&cluster).await?, Merchant::new(&cluster).await?);
        let receiver = Receiver::start(|_| Reply::ok()).await?;
        let made = concurrently(ENDPOINT_COUNT, async |n| {
            let body = json!({"url": receiver.url(&format!("/{n}")), "enabledEvents": ["customer.created"]});
            let response = merchant.api.post(ENDPOINTS, body).await?;
            Ok((crate::support::id(created(&response))?, secret(&response.body)?))
        });
        let endpoints = made.await?;
        restart_with(&mut cluster, &[(ENCRYPTION[0], &key("b")), (ENCRYPTION[1], &key("a"))]).await?;
        Ok(Self { cluster, live, merchant, receiver, endpoints })
    }

    async fn rotate(&self, endpoint: &str) -> Result<String> {
        let path = format!("{ENDPOINTS}/{endpoint}/rotate_secret");
        secret(ok(&self.merchant.api.send(Method::POST, &path, None).await?))
    }

    async fn records(&self) -> Result<Vec<Value>> {
        let listed = self.cluster.ctl(&["audit", "list", "--limit", "500"]).await?;
        let rows = listed["audit"].as_array().context("records")?;
        Ok(rows.iter().filter(|row| row["action"] == "secrets.reencrypt").cloned().collect())
    }

    /// With only the new key, signed requests work and each endpoint gets webhooks signed with its secret.
    async fn assert_new_key_suffices(&mut self) -> Result<()> {
        restart_with(&mut self.cluster, &[(ENCRYPTION[0], &key("b")), (ENCRYPTION[1], "")]).await?;
        let request = Signed::new(&self.live, Method::GET, "/v1/customers", None)?.sign();
        ok(&request.send(&self.live.api).await?);
        self.merchant.customer().await?;
        for (n, (_, secret)) in self.endpoints.iter().enumerate() {
            let request = self.receiver.wait_for_requests(&format!("/{n}"), 1).await?.remove(0);
            let (id, at) = (request.header("webhook-id"), request.header("webhook-timestamp"));
            let expected = signature(secret, id, at, &request.body)?;
            let signatures = request.header("webhook-signature");
            assert_eq!(signatures.split(' ').next(), Some(expected.as_str()), "endpoint {n}");
        }
        assert_doctor(&self.cluster, "encryption key", "ok", "sealed under it").await
    }
}

#[tokio::test]
async fn reencryption_writes_each_secret_once() -> Result<()> {
    let mut fixtures = Fixtures::new().await?;
    let dry_run = fixtures.cluster.ctl(&["reencrypt", "--dry-run"]).await?;
    assert_eq!(counts(&dry_run, REENCRYPTED), [0, SECRETS, 0]);
    assert!(fixtures.records().await?.is_empty(), "dry runs are not recorded");
    assert_eq!(counts(&fixtures.cluster.ctl(&["reencrypt"]).await?, REENCRYPTED), [SECRETS, 0, 0]);
    assert_eq!(counts(&fixtures.cluster.ctl(&["reencrypt"]).await?, REENCRYPTED), [0, 0, 0]);
    let records = fixtures.records().await?;
    let reencrypted: i64 = records.iter().filter_map(|record| record["detail"]["reencrypted"].as_i64()).sum();
    assert_eq!((records.len(), reencrypted), (2, SECRETS), "one record per column with secrets: {records:?}");
    assert!(records.iter().any(|record| record["object"] == "webhook_endpoints.secret"));
    assert!(!json!(records).to_string().contains(&key("b")[..16]));
    fixtures.assert_new_key_suffices().await
}

#[tokio::test]
async fn killed_reencryptions_can_be_run_again() -> Result<()> {
    let mut fixtures = Fixtures::new().await?;
    let middle = &fixtures.endpoints[ENDPOINT_COUNT / 2].0;
    let mut transaction = fixtures.merchant.books.db.begin().await?;
    sqlx::query("SELECT id FROM webhook_endpoints WHERE id = $1 FOR UPDATE")
        .bind(uuid(middle)?)
        .execute(&mut *transaction)
        .await?;
    let mut run = fixtures.cluster.spawn_ctl(&["reencrypt", "--batch", "1"])?;
    eventually("ctl to wait for the locked row", async || {
        let waits =
            "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'ctl'
             AND wait_event_type = 'Lock')";
        let waits: bool = sqlx::query_scalar(waits).fetch_one(&fixtures.merchant.books.db).await?;
        Ok(waits.then_some(()))
    })
    .await?;
    run.kill().await?;
    transaction.rollback().await?;

    let [_, remaining, unreadable] = counts(&fixtures.cluster.ctl(&["reencrypt", "--dry-run"]).await?, REENCRYPTED);
    assert!(0 < remaining && remaining < SECRETS, "{remaining} of {SECRETS} are left: ctl was killed in the middle");
    assert_eq!(unreadable, 0);
    assert_doctor(&fixtures.cluster, "encryption key", "warn", "which must be kept").await?;
    assert_eq!(counts(&fixtures.cluster.ctl(&["reencrypt"]).await?, REENCRYPTED), [remaining, 0, 0]);
    let recorded: i64 =
        fixtures.records().await?.iter().filter_map(|record| record["detail"]["reencrypted"].as_i64()).sum();
    assert_eq!(recorded, SECRETS, "every secret is recorded despite the kill");
    fixtures.assert_new_key_suffices().await
}

#[tokio::test(flavor = "multi_thread")]
async fn secrets_rotated_during_reencryption_stay_valid() -> Result<()> {
    let mut fixtures = Fixtures::new().await?;
    // A process of the previous rotation step still encrypts with the old key, as during a rollout.
    let (new, old) = (key("b"), key("a"));
    fixtures.cluster.set_env(ENCRYPTION[0], &old);
    fixtures.cluster.set_env(ENCRYPTION[1], &new);
    fixtures.cluster.add(ProcessKind::Api).await?;
    fixtures.cluster.set_env(ENCRYPTION[0], &new);
    fixtures.cluster.set_env(ENCRYPTION[1], &old);
    let former = testkit::Client::new(&fixtures.cluster.api_url(1))?.bearer(&fixtures.merchant.account.secret_key)?;

    let (shared, former) = (&fixtures, &former);
    let rotating = concurrently(ENDPOINT_COUNT, async |n| {
        let endpoint = &shared.endpoints[n].0;
        let path = format!("{ENDPOINTS}/{endpoint}/rotate_secret");
        let mut last = None;
        for _ in 0..6 {
            secret(ok(&former.send(Method::POST, &path, None).await?))?;
            last = Some(shared.rotate(endpoint).await?);
        }
        last.context("a secret")
    });
    let runs = concurrently(2, async |_| shared.cluster.ctl_output(&["reencrypt", "--batch", "1", "--json"]).await);
    let (secrets, outputs) = tokio::try_join!(rotating, runs)?;
    assert!(outputs.iter().all(|output| output.stderr.is_empty()), "{outputs:?}");
    for (endpoint, secret) in fixtures.endpoints.iter_mut().zip(secrets) {
        endpoint.1 = secret;
    }
    fixtures.cluster.api(1).terminate().await?;
    let last = fixtures.cluster.ctl(&["reencrypt"]).await?;
    assert_eq!(counts(&last, REENCRYPTED)[1..], [0, 0]);
    fixtures.assert_new_key_suffices().await
}

#[tokio::test]
async fn undecryptable_secrets_are_named_and_unchanged() -> Result<()> {
    let mut fixtures = Fixtures::new().await?;
    let lost = fixtures.endpoints[3].0.clone();
    let stored = "SELECT secret FROM webhook_endpoints WHERE id = $1";
    let query = sqlx::query("UPDATE webhook_endpoints SET secret = decode(repeat('ab', 80), 'hex') WHERE id = $1");
    query.bind(uuid(&lost)?).execute(&fixtures.merchant.books.db).await?;
    let output = fixtures.cluster.ctl_output(&["reencrypt", "--json"]).await?;
    assert_eq!((output.code, counts(&output.json(), REENCRYPTED)), (1, [SECRETS - 1, 1, 1]));
    let unchanged: Vec<u8> =
        sqlx::query_scalar(stored).bind(uuid(&lost)?).fetch_one(&fixtures.merchant.books.db).await?;
    assert_eq!(unchanged, [0xab; 80]);
    assert_doctor(&fixtures.cluster, "encryption key", "bad", &lost).await?;
    // A rotation repairs the endpoint once the lost previous secret has expired.
    fixtures.endpoints[3].1 = fixtures.rotate(&lost).await?;
    let expire = "UPDATE webhook_endpoints SET previous_secret_until = now() - interval '1 second' WHERE id = $1";
    sqlx::query(expire).bind(uuid(&lost)?).execute(&fixtures.merchant.books.db).await?;
    assert_eq!(counts(&fixtures.cluster.ctl(&["reencrypt"]).await?, REENCRYPTED), [0, 0, 0]);
    fixtures.assert_new_key_suffices().await
}
