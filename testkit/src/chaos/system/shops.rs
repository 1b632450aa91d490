//! Creates the merchants with their accounts and webhook endpoints.

use anyhow::Result;
use sqlx::PgPool;

use crate::{
    Cluster,
    chaos::{
        endpoints::Endpoints,
        shop::{NO_LIMITS, ORIGIN, Shop, ShopKind, newest_provider_account},
        system_config::SystemConfig,
    },
    stripe::Stripe,
};

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
        endpoints.register(shops.len(), &shop, &cluster.api_url(0)).await?;
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
            Shop::at_gateway(kind, account, gateway_account, db).await?
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
