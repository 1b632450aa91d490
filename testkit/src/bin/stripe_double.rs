//! `stripe_double`: the double of Stripe on this machine, to try out payments at Stripe without an account there. It
//! forgets everything when it stops. With an argument, it delivers events to that URL.

use std::env;
use std::time::Duration;

use anyhow::{Context, Result};
use testkit::stripe::Stripe;
use tokio::net::TcpListener;
use tokio::time::sleep;

const PORT: u16 = 12_111;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let listener = TcpListener::bind(("127.0.0.1", PORT)).await.with_context(|| format!("port {PORT}"))?;
    let url = format!("http://127.0.0.1:{PORT}");
    let stripe = Stripe::unserved(url.clone());
    let keys = stripe.account();
    println!(
        "export STRIPE_URL={url} STRIPE_SECRET_KEY={} STRIPE_PUBLISHABLE_KEY={} STRIPE_WEBHOOK_SECRET={}",
        keys.secret_key, keys.publishable_key, keys.webhook_secret
    );
    let deliver = async {
        loop {
            sleep(Duration::from_secs(1)).await;
            let events = stripe.take_events(&keys);
            let Some(endpoint) = env::args().nth(1).filter(|_| !events.is_empty()) else { continue };
            match stripe.deliver(&keys, &endpoint, &events).await {
                Ok(statuses) => println!("events to {endpoint}: {statuses:?}"),
                Err(error) => println!("events to {endpoint} are lost: {error:#}"),
            }
        }
    };
    tokio::select! {
        served = stripe.serve(listener) => Ok(served?),
        () = deliver => Ok(()),
    }
}
