//! What the tests share: one cluster, and a new shop for each test.

mod axe;
mod card;
mod example;
mod shop;

use std::sync::OnceLock;

use anyhow::Result;
use testkit::Cluster;
use testkit::stripe::Stripe;
use tokio::sync::OnceCell;

pub(crate) use axe::assert_accessible;
pub(crate) use card::{Card, card};
pub(crate) use example::Example;
pub(crate) use shop::{Provider, Shop, address};

/// The cluster of all tests. It stops with the test process.
pub(crate) async fn cluster() -> Result<&'static Cluster> {
    static SHARED: OnceCell<Cluster> = OnceCell::const_new();
    let start = async || {
        let builder = Cluster::builder().gateway(1).api(1).worker(1).scheduler(1).portal(1);
        builder.env("STRIPE_URL", stripe()?.url()).start().await
    };
    SHARED.get_or_try_init(start).await
}

/// The double of Stripe that the cluster uses.
pub(crate) fn stripe() -> Result<&'static Stripe> {
    static SHARED: OnceLock<Stripe> = OnceLock::new();
    match SHARED.get() {
        Some(stripe) => Ok(stripe),
        None => {
            let started = Stripe::start()?;
            Ok(SHARED.get_or_init(|| started))
        }
    }
}

/// Runs a test with each provider: the mock on a desktop and the card gateway on a phone.
macro_rules! at_each_provider {
    ($($(#[$meta:meta])* $name:ident)+) => {
        $($(#[$meta])* mod $name {
            use crate::support::Provider;

            #[tokio::test]
            async fn mock() -> anyhow::Result<()> {
                super::$name(Provider::Mock).await
            }

            #[tokio::test]
            async fn gateway() -> anyhow::Result<()> {
                super::$name(Provider::Gateway).await
            }
        })+
    };
}
pub(crate) use at_each_provider;
