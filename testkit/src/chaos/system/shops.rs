//! Creates the merchants with their accounts and webhook endpoints.

use anyhow::{Result, ensure};
use serde_json::json;
use sqlx::PgPool;
use uuid::Uuid;

use crate::{
    Client, Cluster,
    chaos::{
        endpoints::Endpoints,
        shop::{ORIGIN, Shop, ShopKind, gateway_id_and_app_key},
        system_config::SystemConfig,
    },
    stripe::Stripe,
};

/// Options of gateway accounts, so that no amount of a run reaches a limit.
const NO_LIMITS: [&str; 4] = ["--hourly-per-address", "1000000", "--sale-limit", "999999999.99"];
/// The fee on each sale of a `Fee` shop. It makes totals odd, while requested amounts are even.
const FEE: [&str; 2] = ["--convenience-fee-fixed", "0.51"];

pub(super) async fn create_all(
    cluster: &Cluster,
    db: &PgPool,
    endpoints: &Endpoints,
    config: SystemConfig,
    stripe: &Stripe,
) -> Result<Vec<Shop>> {
    let mut shops = Vec::new();
    for kind in config.shops {
        let shop = create(cluster, db, *kind, config.latency, stripe).await?;
        let api = Client::new(&cluster.api_url(0))?.bearer(&shop.account.secret_key)?;
        for endpoint in 0..2 {
            let url = endpoints.url(shops.len() * 2 + endpoint);
            let response = api.post("/v1/webhook_endpoints", json!({"url": url})).await?;
            ensure!(response.status == 201, "cannot create an endpoint: {}", response.body);
            shop.add_secrets(response.body["secret"].as_str().map(str::to_owned));
        }
        shops.push(shop);
    }
    Ok(shops)
}

async fn create(cluster: &Cluster, db: &PgPool, kind: ShopKind, latency: &str, stripe: &Stripe) -> Result<Shop> {
    let mut shop = match kind {
        ShopKind::Gateway | ShopKind::Moved | ShopKind::Fee => {
            let (account, gateway_account) = cluster.account_at_gateway(&NO_LIMITS).await?;
            if kind == ShopKind::Fee {
                // Set after connecting, because an account with a fee might be rejected.
                let set = [&["account", "set", "--username", &gateway_account.username][..], &FEE].concat();
                cluster.run_gateway(&set).await?;
            }
            let mut shop = Shop::new(kind, account);
            let (id, app_key) = gateway_id_and_app_key(db, &gateway_account.username).await?;
            shop.gateway_account_id = Some(id);
            shop.set_app_key(app_key);
            shop.add_secrets([gateway_account.api_key.clone(), gateway_account.secret_key.clone()]);
            shop.set_gateway_account(gateway_account);
            shop
        }
        ShopKind::Stripe => {
            let no_limit = ["--rate-limit", "1000000", "--burst", "1000000"];
            let options = [&["--mode", "test", "--provider", "stripe"][..], &no_limit].concat();
            let (account, keys) = (cluster.account_with(&options).await?, stripe.account());
            cluster.connect_stripe(&account, &keys).await?;
            let mut shop = Shop::new(kind, account);
            shop.add_secrets([keys.secret_key.clone(), keys.webhook_secret.clone()]);
            shop.stripe = Some(keys);
            shop
        }
        ShopKind::Mock(class) | ShopKind::Clock(class) => {
            let mut shop = Shop::new(kind, cluster.account().await?);
            let latency = if matches!(kind, ShopKind::Mock(_)) { latency } else { "60" };
            let class = class.to_string();
            cluster.ctl(&["mock", "set", &shop.account.id, "--class", &class, "--latency-ms", latency]).await?;
            shop.mock_account_id = Some(newest_provider_account(db).await?);
            shop
        }
    };
    let account = &shop.account.id;
    if kind == ShopKind::Moved {
        cluster.ctl(&["accounts", "set", account, "--provider", "mock"]).await?;
        shop.mock_account_id = Some(newest_provider_account(db).await?);
        cluster.ctl(&["accounts", "set", account, "--provider", "card_gateway"]).await?;
    }
    cluster.ctl(&["accounts", "set", account, "--origin", ORIGIN]).await?;
    if let Some(modifiers) = kind.modifiers() {
        cluster.ctl(&["accounts", "set", account, "--modifiers", &modifiers.json().to_string()]).await?;
    }
    Ok(shop)
}

async fn newest_provider_account(db: &PgPool) -> Result<Uuid> {
    Ok(sqlx::query_scalar("SELECT id FROM provider_accounts ORDER BY created_at DESC LIMIT 1").fetch_one(db).await?)
}
