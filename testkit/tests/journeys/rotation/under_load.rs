//! The complete rotation of both keys under load: signed live requests, payments by saved cards at the card gateway,
//! webhooks with verified signatures, and endpoint secrets rotated throughout. No request fails.

use std::sync::Mutex;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use reqwest::Method;
use serde_json::json;
use testkit::{Cluster, ProcessKind};
use tokio::time::sleep;

use super::{ENCRYPTION, PEPPER, REENCRYPTED, REHASHED, Settings, assert_doctor, counts, key, secret, with_keys};
use crate::deliveries::signature;
use crate::rolling::{APIS, Balancer, DRAIN_MS, PAUSE};
use crate::signing::{Signed, live};
use crate::support::{Browser, Merchant, Receiver, Reply, Request, Shop, created, eventually, ok, refused};

const ENDPOINTS: &str = "/v1/webhook_endpoints";
const CARD: &str = "4242424242424242";
const PATH: &str = "/in";

/// Merchants that send requests continuously.
struct Load<'a> {
    live: &'a Merchant,
    at_live: Balancer,
    shop: &'a Shop,
    at_shop: Balancer,
    card: (String, String),
    endpoint: String,
    /// All secrets that the endpoint has had.
    secrets: Mutex<Vec<String>>,
}

impl Load<'_> {
    fn balancers(&self) -> [&Balancer; 2] {
        [&self.at_live, &self.at_shop]
    }

    /// Sends signed writes and reads.
    async fn sign(&self) -> Result<usize> {
        let mut done = 0;
        while !self.at_live.is_stopped() {
            let body = Some(r#"{"email":"ada@example.com"}"#);
            let made = Signed::new(self.live, Method::POST, "/v1/customers", body)?.sign();
            let response = made.send(self.at_live.next().await?).await.context("a signed request")?;
            ensure!(response.status == 201, "a signed request: {}", response.body);
            let read = Signed::new(self.live, Method::GET, "/v1/customers?limit=1", None)?.sign();
            let response = read.send(self.at_live.next().await?).await.context("a signed read")?;
            ensure!(response.status == 200, "a signed read: {}", response.body);
            done += 1;
            sleep(PAUSE).await;
        }
        Ok(done)
    }

    /// Creates payments with a saved card, which need the encrypted provider credentials.
    async fn pay(&self) -> Result<usize> {
        let (_, card) = &self.card;
        let mut done = 0;
        while !self.at_shop.is_stopped() {
            let body = json!({"amount": 1000 + done % 1000, "currency": "USD", "paymentMethodId": card});
            let response = self.at_shop.next().await?.post("/v1/payments", body).await.context("a payment")?;
            ensure!(response.status == 201, "{}", response.body);
            // On a busy machine the outcome may come after the response.
            let path = format!("/v1/payments/{}", crate::support::id(&response.body)?);
            let outcome = eventually("an outcome", async || {
                let payment = self.at_shop.next().await?.get(&path).await.context("a payment")?.body;
                Ok((payment["status"] != "processing").then_some(payment))
            });
            let payment = if response.body["status"] == "processing" { outcome.await? } else { response.body };
            ensure!(payment["status"] == "pending_settlement", "{payment}");
            done += 1;
            sleep(PAUSE).await;
        }
        Ok(done)
    }

    /// Rotates the endpoint's secret repeatedly, encrypted by any of the api processes.
    async fn rotate(&self) -> Result<usize> {
        let path = format!("{ENDPOINTS}/{}/rotate_secret", self.endpoint);
        let mut done = 0;
        while !self.at_shop.is_stopped() {
            let response = self.at_shop.next().await?.send(Method::POST, &path, None).await.context("a new secret")?;
            ensure!(response.status == 200, "a new secret: {}", response.body);
            self.secrets.lock().expect("an unpoisoned mutex").push(secret(&response.body)?);
            done += 1;
            sleep(Duration::from_millis(200)).await;
        }
        Ok(done)
    }

    /// Restarts the processes with these variables, each after the previous one is ready.
    async fn roll(&self, cluster: &mut Cluster, settings: &Settings<'_>) -> Result<()> {
        // The gateway has its own keys.
        for process in cluster.processes().iter_mut().filter(|process| process.kind() != ProcessKind::Gateway) {
            settings.iter().for_each(|(name, value)| process.set_env(name, value));
            let status = process.terminate().await?;
            ensure!(status.code() == Some(0), "{} exits with 0", process.kind().name());
            process.restart().await?;
            let ready = async || Ok(self.balancers().iter().all(|balancer| balancer.all_ready()).then_some(()));
            eventually("the load balancers to see all backends ready", ready).await?;
        }
        settings.iter().for_each(|(name, value)| cluster.set_env(name, value));
        Ok(())
    }

    /// Whether all its signatures are made with one of the secrets.
    fn is_signed(&self, request: &Request) -> Result<bool> {
        let secrets = self.secrets.lock().expect("an unpoisoned mutex").clone();
        let sign = |secret: &String| {
            signature(secret, request.header("webhook-id"), request.header("webhook-timestamp"), &request.body)
        };
        let expected = secrets.iter().map(sign).collect::<Result<Vec<_>>>()?;
        Ok(request
            .header("webhook-signature")
            .split(' ')
            .all(|signature| expected.iter().any(|expected| expected == signature)))
    }
}

async fn steps(cluster: &mut Cluster, load: &Load<'_>, idle: &Merchant) -> Result<()> {
    let (old_key, new_key, old_pepper, new_pepper) = (key("a"), key("b"), key("c"), key("d"));
    load.roll(cluster, &[(ENCRYPTION[1], &new_key), (PEPPER[1], &new_pepper)]).await?;
    load.roll(
        cluster,
        &[(ENCRYPTION[0], &new_key), (ENCRYPTION[1], &old_key), (PEPPER[0], &new_pepper), (PEPPER[1], &old_pepper)],
    )
    .await?;

    assert_doctor(cluster, "encryption key", "warn", "sealed under an old key").await?;
    let [done, remaining, unreadable] = counts(&cluster.ctl(&["reencrypt"]).await?, REENCRYPTED);
    ensure!(done >= 2 && (remaining, unreadable) == (0, 0), "{done}, {remaining}, {unreadable}");
    assert_doctor(cluster, "encryption key", "ok", "nothing stored needs OLD_ENCRYPTION_KEYS").await?;

    assert_doctor(cluster, "key pepper", "warn", "publishable").await?;
    let [moved, publishable, _] = counts(&cluster.ctl(&["keys", "rehash"]).await?, REHASHED);
    ensure!(moved == 3 && publishable == 0, "{moved} publishable keys were rehashed, {publishable} were not");
    eventually("used keys to be rehashed", async || {
        let listed = cluster.ctl(&["keys", "list", "--not-moved"]).await?;
        let left = listed["keys"].as_array().context("a list")?;
        Ok((left.len() == 1 && left[0]["id"] == idle.account.secret_key_id.as_str()).then_some(()))
    })
    .await?;
    assert_doctor(cluster, "key pepper", "ok", "1 secret keys were not used since").await?;

    load.roll(cluster, &[(ENCRYPTION[1], ""), (PEPPER[1], "")]).await?;
    sleep(Duration::from_secs(1)).await;
    load.balancers().iter().for_each(|balancer| balancer.stop());
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn no_request_fails_during_the_rotation_of_both_keys() -> Result<()> {
    let builder = with_keys("a", "c").env("DRAIN_MS", DRAIN_MS).env("KEY_CACHE_MS", "1000");
    let mut cluster = builder.api(APIS).worker(2).scheduler(1).gateway(1).start().await?;
    let receiver = Receiver::start(|_| Reply::ok()).await?;
    // One account sends no request until the rotation is complete.
    let (live, idle) = (live(&cluster).await?, Merchant::new(&cluster).await?);
    let shop = Shop::new(&cluster, &[]).await?;
    let card = shop.saved_card(CARD).await?;
    let endpoint = shop.merchant.api.post(ENDPOINTS, json!({"url": receiver.url(PATH)})).await?;
    let load = Load {
        at_live: Balancer::new(&cluster, &live.account.secret_key)?,
        at_shop: Balancer::new(&cluster, &shop.merchant.account.secret_key)?,
        live: &live,
        shop: &shop,
        card,
        endpoint: crate::support::id(created(&endpoint))?,
        secrets: Mutex::new(vec![secret(&endpoint.body)?]),
    };
    let loads = async { tokio::try_join!(load.sign(), load.pay(), load.pay(), load.rotate()) };
    let polling = async { tokio::try_join!(load.at_live.poll_readiness(), load.at_shop.poll_readiness()) };
    let (done, _, ()) = tokio::try_join!(loads, polling, steps(&mut cluster, &load, &idle))?;
    let (signed, paid, paid_too, rotated) = done;
    assert!(signed.min(paid + paid_too).min(rotated) > 20, "{done:?}: too little load");

    // Every payment sent a webhook, signed with a secret of the endpoint.
    let webhooks = receiver.wait_for_requests(PATH, paid + paid_too).await?;
    for request in &webhooks {
        assert!(load.is_signed(request)?, "{:?}", request.headers);
    }
    assert_eq!(shop.max_sales_per_reference().await?, 1, "each payment was charged once");
    assert_eq!(shop.records().await?.matches("sale").count(), paid + paid_too);

    // Without the old keys everything still works, except the secret key that was never used.
    ok(&load.shop.merchant.api.get("/v1/payments").await?);
    refused(&idle.api.get("/v1/payments").await?, 401, "authentication_failed");
    Browser::for_account(&cluster, &idle.account)?.session().await?;
    assert_doctor(&cluster, "encryption key", "ok", "sealed under it").await?;
    assert_doctor(&cluster, "key pepper", "bad", "1 keys are refused").await
}
