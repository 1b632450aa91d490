//! The whole rotation of both keys, step by step, under load: signed live requests, payments by saved cards at the card gateway,
//! webhooks whose signatures are checked, and secrets that are made at every moment of it. No request fails.

use std::sync::Mutex;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use reqwest::Method;
use serde_json::{Value, json};
use testkit::{Cluster, Kind};
use tokio::time::sleep;

use super::{ENCRYPTION, PEPPER, REENCRYPTED, REHASHED, Settings, doctor_says, figures, key, with_keys};
use crate::deliveries::signature;
use crate::rolling::{APIS, Balancer};
use crate::signing::{Signed, live};
use crate::support::{Browser, Merchant, Receiver, Reply, Request, Shop, created, eventually, ok, refused};

const ENDPOINTS: &str = "/v1/webhook_endpoints";
const CARD: &str = "4242424242424242";
const PATH: &str = "/in";

/// Merchants who ask all the time.
struct Load<'a> {
    live: &'a Merchant,
    at_live: Balancer,
    shop: &'a Shop,
    at_shop: Balancer,
    card: (String, String),
    endpoint: String,
    /// Every secret that the endpoint ever had.
    secrets: Mutex<Vec<String>>,
}

impl Load<'_> {
    fn balancers(&self) -> [&Balancer; 2] {
        [&self.at_live, &self.at_shop]
    }

    /// Signed requests that write and read.
    async fn sign(&self) -> Result<usize> {
        let mut done = 0;
        while !self.at_live.is_over() {
            let body = Some(r#"{"email":"ada@example.com"}"#);
            let made = Signed::new(self.live, Method::POST, "/v1/customers", body)?.sign();
            let answer = made.send(self.at_live.next()?).await.context("a signed request")?;
            ensure!(answer.status == 201, "a signed request: {}", answer.body);
            let read = Signed::new(self.live, Method::GET, "/v1/customers?limit=1", None)?.sign();
            let answer = read.send(self.at_live.next()?).await.context("a signed read")?;
            ensure!(answer.status == 200, "a signed read: {}", answer.body);
            done += 1;
        }
        Ok(done)
    }

    /// Payments by a saved card, for which the provider's credentials are needed.
    async fn pay(&self) -> Result<usize> {
        let (_, card) = &self.card;
        let mut done = 0;
        while !self.at_shop.is_over() {
            let body = json!({"amount": 1000 + done % 1000, "currency": "USD", "paymentMethodId": card});
            let answer = self.at_shop.next()?.post("/v1/payments", body).await.context("a payment")?;
            ensure!(answer.status == 201 && answer.body["status"] == "pending_settlement", "{}", answer.body);
            done += 1;
        }
        Ok(done)
    }

    /// A new secret again and again, sealed by whichever process is asked.
    async fn rotate(&self) -> Result<usize> {
        let path = format!("{ENDPOINTS}/{}/rotate_secret", self.endpoint);
        let mut done = 0;
        while !self.at_shop.is_over() {
            let answer = self.at_shop.next()?.send(Method::POST, &path, None).await.context("a new secret")?;
            ensure!(answer.status == 200, "a new secret: {}", answer.body);
            self.secrets.lock().expect("nobody panicked").push(secret(&answer.body)?);
            done += 1;
            sleep(Duration::from_millis(200)).await;
        }
        Ok(done)
    }

    /// Each process is replaced by one in this environment; each is ready before the next one goes.
    async fn roll(&self, cluster: &mut Cluster, settings: &Settings<'_>) -> Result<()> {
        // The gateway has keys of its own.
        for process in cluster.processes().iter_mut().filter(|process| process.kind() != Kind::Gateway) {
            settings.iter().for_each(|(name, value)| process.set_env(name, value));
            let status = process.terminate().await?;
            ensure!(status.code() == Some(0), "{} ends well", process.kind().name());
            process.restart().await?;
            let ready = async || Ok(self.balancers().iter().all(|one| one.all_ready()).then_some(()));
            eventually("the balancers to see that it is back", ready).await?;
        }
        settings.iter().for_each(|(name, value)| cluster.set_env(name, value));
        Ok(())
    }

    /// Whether one of the secrets has signed it.
    fn has_signed(&self, request: &Request) -> Result<bool> {
        let secrets = self.secrets.lock().expect("nobody panicked").clone();
        let sign = |secret: &String| {
            signature(secret, request.header("webhook-id"), request.header("webhook-timestamp"), &request.body)
        };
        let right = secrets.iter().map(sign).collect::<Result<Vec<_>>>()?;
        Ok(request.header("webhook-signature").split(' ').all(|one| right.iter().any(|right| right == one)))
    }
}

fn secret(endpoint: &Value) -> Result<String> {
    endpoint["secret"].as_str().map(str::to_owned).context("a secret")
}

/// An account that asks for nothing until all is over.
async fn idle(cluster: &Cluster) -> Result<Merchant> {
    Merchant::new(cluster).await
}

async fn steps(cluster: &mut Cluster, load: &Load<'_>, idle: &Merchant) -> Result<()> {
    let (old_key, new_key, old_pepper, new_pepper) = (key("a"), key("b"), key("c"), key("d"));
    load.roll(cluster, &[(ENCRYPTION[1], &new_key), (PEPPER[1], &new_pepper)]).await?;
    load.roll(
        cluster,
        &[(ENCRYPTION[0], &new_key), (ENCRYPTION[1], &old_key), (PEPPER[0], &new_pepper), (PEPPER[1], &old_pepper)],
    )
    .await?;

    doctor_says(cluster, "encryption key", "warn", "sealed under an old one").await?;
    let [done, remaining, unreadable] = figures(&cluster.ctl(&["reencrypt"]).await?, REENCRYPTED);
    ensure!(done >= 2 && (remaining, unreadable) == (0, 0), "{done}, {remaining}, {unreadable}");
    doctor_says(cluster, "encryption key", "ok", "nothing stored needs OLD_ENCRYPTION_KEYS").await?;

    doctor_says(cluster, "key pepper", "warn", "publishable").await?;
    let [moved, publishable, _] = figures(&cluster.ctl(&["keys", "rehash"]).await?, REHASHED);
    ensure!(moved == 3 && publishable == 0, "{moved} publishable keys were moved, {publishable} were not");
    eventually("keys that are used to move by themselves", async || {
        let listed = cluster.ctl(&["keys", "list", "--not-moved"]).await?;
        let left = listed["keys"].as_array().context("a list")?;
        Ok((left.len() == 1 && left[0]["id"] == idle.account.secret_key_id.as_str()).then_some(()))
    })
    .await?;
    doctor_says(cluster, "key pepper", "ok", "1 secret keys were not used since").await?;

    load.roll(cluster, &[(ENCRYPTION[1], ""), (PEPPER[1], "")]).await?;
    sleep(Duration::from_secs(1)).await;
    load.balancers().iter().for_each(|balancer| balancer.end());
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn no_request_fails_while_both_keys_are_rotated() -> Result<()> {
    let builder = with_keys("a", "c").env("DRAIN_MS", "2500").env("KEY_CACHE_MS", "1000");
    let mut cluster = builder.api(APIS).worker(2).scheduler(1).gateway(1).start().await?;
    let receiver = Receiver::start(|_| Reply::ok()).await?;
    let (live, idle) = (live(&cluster).await?, idle(&cluster).await?);
    let shop = Shop::new(&cluster, &[]).await?;
    let card = shop.saved(CARD).await?;
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
    let asking = async { tokio::try_join!(load.sign(), load.pay(), load.pay(), load.rotate()) };
    let looking = async { tokio::try_join!(load.at_live.look_after(), load.at_shop.look_after()) };
    let (done, _, ()) = tokio::try_join!(asking, looking, steps(&mut cluster, &load, &idle))?;
    let (signed, paid, paid_too, rotated) = done;
    assert!(signed.min(paid + paid_too).min(rotated) > 20, "{done:?}: it was no load");

    // Each payment told of itself, and somebody who knows the secret of that moment has signed it.
    let told = receiver.hears(PATH, paid + paid_too).await?;
    for request in &told {
        assert!(load.has_signed(request)?, "{:?}", request.headers);
    }
    assert_eq!(shop.most_sales_of_a_reference().await?, 1, "each was charged once");
    assert_eq!(shop.records().await?.matches("sale").count(), paid + paid_too);

    // Without the former keys: all that was made under them is as it was, but for a key that nobody has used.
    ok(&load.shop.merchant.api.get("/v1/payments").await?);
    refused(&idle.api.get("/v1/payments").await?, 401, "authentication_failed");
    Browser::of(&cluster, &idle.account)?.session().await?;
    doctor_says(&cluster, "encryption key", "ok", "sealed under it").await?;
    doctor_says(&cluster, "key pepper", "bad", "1 keys are refused").await
}
