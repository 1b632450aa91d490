//! `ctl reencrypt`: all that is sealed, once, whatever else happens meanwhile.

use anyhow::{Context, Result};
use reqwest::Method;
use serde_json::{Value, json};
use testkit::{Cluster, Kind};

use super::{ENCRYPTION, REENCRYPTED, doctor_says, figures, key, restart_with, with_keys};
use crate::deliveries::signature;
use crate::signing::{Signed, live};
use crate::support::{Merchant, Receiver, Reply, created, eventually, ok, together, uuid};

const ENDPOINTS: &str = "/v1/webhook_endpoints";
const WANTED: usize = 20;
/// Beside these the live merchant has a signing secret.
const SECRETS: i64 = WANTED as i64 + 1;

/// Merchants with many endpoints and one with a signing secret, in a cluster whose key was just changed from `a` to `b`.
struct World {
    cluster: Cluster,
    live: Merchant,
    merchant: Merchant,
    receiver: Receiver,
    /// Endpoints with their last secrets; each has its id for its path.
    endpoints: Vec<(String, String)>,
}

fn secret(endpoint: &Value) -> Result<String> {
    endpoint["secret"].as_str().map(str::to_owned).context("a secret")
}

impl World {
    async fn new() -> Result<Self> {
        let mut cluster = with_keys("a", "c").api(1).worker(1).scheduler(1).start().await?;
        let (live, merchant) = (live(&cluster).await?, Merchant::new(&cluster).await?);
        let receiver = Receiver::start(|_| Reply::ok()).await?;
        let made = together(WANTED, async |n| {
            let body = json!({"url": receiver.url(&format!("/{n}")), "enabledEvents": ["customer.created"]});
            let answer = merchant.api.post(ENDPOINTS, body).await?;
            Ok((crate::support::id(created(&answer))?, secret(&answer.body)?))
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

    /// With the new key alone: live requests are let in, and each endpoint hears, signed with its secret.
    async fn is_whole(&mut self) -> Result<()> {
        restart_with(&mut self.cluster, &[(ENCRYPTION[0], &key("b")), (ENCRYPTION[1], "")]).await?;
        let request = Signed::new(&self.live, Method::GET, "/v1/customers", None)?.sign();
        ok(&request.send(&self.live.api).await?);
        self.merchant.customer().await?;
        for (n, (_, secret)) in self.endpoints.iter().enumerate() {
            let request = self.receiver.hears(&format!("/{n}"), 1).await?.remove(0);
            let (id, at) = (request.header("webhook-id"), request.header("webhook-timestamp"));
            let right = signature(secret, id, at, &request.body)?;
            let signatures = request.header("webhook-signature");
            assert_eq!(signatures.split(' ').next(), Some(right.as_str()), "endpoint {n}");
        }
        doctor_says(&self.cluster, "encryption key", "ok", "sealed under it").await
    }
}

#[tokio::test]
async fn it_counts_first_and_then_writes_each_secret_once() -> Result<()> {
    let mut world = World::new().await?;
    let tried = world.cluster.ctl(&["reencrypt", "--dry-run"]).await?;
    assert_eq!(figures(&tried, REENCRYPTED), [0, SECRETS, 0]);
    assert!(world.records().await?.is_empty(), "what is only tried is not recorded");
    assert_eq!(figures(&world.cluster.ctl(&["reencrypt"]).await?, REENCRYPTED), [SECRETS, 0, 0]);
    assert_eq!(figures(&world.cluster.ctl(&["reencrypt"]).await?, REENCRYPTED), [0, 0, 0]);
    let records = world.records().await?;
    let told: i64 = records.iter().filter_map(|record| record["detail"]["reencrypted"].as_i64()).sum();
    assert_eq!((records.len(), told), (2, SECRETS), "one for each column that had any: {records:?}");
    assert!(records.iter().any(|record| record["object"] == "webhook_endpoints.secret"));
    assert!(!json!(records).to_string().contains(&key("b")[..16]));
    world.is_whole().await
}

#[tokio::test]
async fn killed_in_the_middle_it_is_run_again() -> Result<()> {
    let mut world = World::new().await?;
    let middle = &world.endpoints[WANTED / 2].0;
    let mut held = world.merchant.books.db.begin().await?;
    sqlx::query("SELECT id FROM webhook_endpoints WHERE id = $1 FOR UPDATE")
        .bind(uuid(middle)?)
        .execute(&mut *held)
        .await?;
    let mut run = world.cluster.ctl_begun(&["reencrypt", "--batch", "1"])?;
    eventually("ctl to wait for the row that is held", async || {
        let waits =
            "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE application_name = 'ctl' AND wait_event_type = 'Lock')";
        let waits: bool = sqlx::query_scalar(waits).fetch_one(&world.merchant.books.db).await?;
        Ok(waits.then_some(()))
    })
    .await?;
    run.kill().await?;
    held.rollback().await?;

    let [_, remaining, unreadable] = figures(&world.cluster.ctl(&["reencrypt", "--dry-run"]).await?, REENCRYPTED);
    assert!(0 < remaining && remaining < SECRETS, "{remaining} of {SECRETS} are left: it was in the middle");
    assert_eq!(unreadable, 0);
    doctor_says(&world.cluster, "encryption key", "warn", "which must stay").await?;
    assert_eq!(figures(&world.cluster.ctl(&["reencrypt"]).await?, REENCRYPTED), [remaining, 0, 0]);
    let told: i64 = world.records().await?.iter().filter_map(|record| record["detail"]["reencrypted"].as_i64()).sum();
    assert_eq!(told, SECRETS, "each has its record, whoever died");
    world.is_whole().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_secret_that_is_rotated_meanwhile_stays_as_its_merchant_has_it() -> Result<()> {
    let mut world = World::new().await?;
    // A process of the step before seals under the former key, as while a new one is rolled out.
    let (new, old) = (key("b"), key("a"));
    world.cluster.set_env(ENCRYPTION[0], &old);
    world.cluster.set_env(ENCRYPTION[1], &new);
    world.cluster.add(Kind::Api).await?;
    world.cluster.set_env(ENCRYPTION[0], &new);
    world.cluster.set_env(ENCRYPTION[1], &old);
    let former = testkit::Client::new(&world.cluster.api_url(1))?.bearer(&world.merchant.account.secret_key)?;

    let (world_ref, former) = (&world, &former);
    let rotating = together(WANTED, async |n| {
        let endpoint = &world_ref.endpoints[n].0;
        let path = format!("{ENDPOINTS}/{endpoint}/rotate_secret");
        let mut last = None;
        for _ in 0..6 {
            secret(ok(&former.send(Method::POST, &path, None).await?))?;
            last = Some(world_ref.rotate(endpoint).await?);
        }
        last.context("a secret")
    });
    let runs = together(2, async |_| world_ref.cluster.ctl_to_its_end(&["reencrypt", "--batch", "1", "--json"]).await);
    let (secrets, ended) = tokio::try_join!(rotating, runs)?;
    assert!(ended.iter().all(|ended| ended.complaint.is_empty()), "{ended:?}");
    for (endpoint, secret) in world.endpoints.iter_mut().zip(secrets) {
        endpoint.1 = secret;
    }
    world.cluster.api(1).terminate().await?;
    let last = world.cluster.ctl(&["reencrypt"]).await?;
    assert_eq!(figures(&last, REENCRYPTED)[1..], [0, 0]);
    world.is_whole().await
}

#[tokio::test]
async fn what_no_key_opens_is_named_and_left_alone() -> Result<()> {
    let mut world = World::new().await?;
    let lost = world.endpoints[3].0.clone();
    let stored = "SELECT secret FROM webhook_endpoints WHERE id = $1";
    let query = sqlx::query("UPDATE webhook_endpoints SET secret = decode(repeat('ab', 80), 'hex') WHERE id = $1");
    query.bind(uuid(&lost)?).execute(&world.merchant.books.db).await?;
    let ended = world.cluster.ctl_to_its_end(&["reencrypt", "--json"]).await?;
    assert_eq!((ended.code, figures(&ended.json(), REENCRYPTED)), (1, [SECRETS - 1, 1, 1]));
    let kept: Vec<u8> = sqlx::query_scalar(stored).bind(uuid(&lost)?).fetch_one(&world.merchant.books.db).await?;
    assert_eq!(kept, [0xab; 80]);
    doctor_says(&world.cluster, "encryption key", "bad", &lost).await?;
    // A new secret mends it. The former one cannot sign beside it, but a day later nobody asks.
    world.endpoints[3].1 = world.rotate(&lost).await?;
    let ended = "UPDATE webhook_endpoints SET previous_secret_until = now() - interval '1 second' WHERE id = $1";
    sqlx::query(ended).bind(uuid(&lost)?).execute(&world.merchant.books.db).await?;
    assert_eq!(figures(&world.cluster.ctl(&["reencrypt"]).await?, REENCRYPTED), [0, 0, 0]);
    world.is_whole().await
}
