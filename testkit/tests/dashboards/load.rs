//! A little of everything, so that what is shown has something to show: payments, a decline, an invoice that collects
//! itself, a webhook that arrives and one that does not, and a sale at the card gateway with its receipt.

use std::{future::Future, time::Duration};

use anyhow::{Context, Result, bail};
use reqwest::Method;
use serde_json::{Value, json};
use testkit::{Client, Cluster, form};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
    time::{sleep, timeout},
};

const PATIENCE: Duration = Duration::from_secs(60);

/// Waits until `look` finds it.
pub(crate) async fn eventually<T, F: Future<Output = Result<Option<T>>>>(
    what: &str,
    look: impl Fn() -> F,
) -> Result<T> {
    let looking = async {
        loop {
            if let Some(found) = look().await? {
                return Ok(found);
            }
            sleep(Duration::from_millis(100)).await;
        }
    };
    timeout(PATIENCE, looking).await.unwrap_or_else(|_| bail!("{what} did not come"))
}

/// Does all of it once.
pub(crate) async fn drive(cluster: &mut Cluster) -> Result<()> {
    let account = cluster.account().await?;
    let worker = cluster.worker(0);
    worker.terminate().await?;
    worker.set_env("METRICS_ACCOUNTS", &account.id);
    worker.restart().await?;
    let api = cluster.client(&account)?;
    // One endpoint hears of all, and nothing listens on the other.
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    for url in [format!("http://{}/", listener.local_addr()?), "http://127.0.0.1:9/".to_owned()] {
        created(&api, "/v1/webhook_endpoints", json!({"url": url})).await?;
    }
    for token in ["tok_ok", "tok_ok", "tok_declined"] {
        created(&api, "/v1/payments", json!({"amount": 1_250, "currency": "USD", "paymentToken": token})).await?;
    }
    timeout(PATIENCE, hear(&listener)).await.context("no webhook came")??;
    let payment =
        created(&api, "/v1/payments", json!({"amount": 500, "currency": "USD", "paymentToken": "tok_ok"})).await?;
    created(&api, &format!("/v1/payments/{}/refund", id(&payment)?), json!({"amount": 500})).await?;
    invoice(&api).await?;
    at_the_gateway(cluster).await
}

/// Takes one webhook.
async fn hear(listener: &TcpListener) -> Result<()> {
    let (mut stream, _) = listener.accept().await?;
    let mut request = [0; 1024];
    let _ = stream.read(&mut request).await?;
    stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n").await?;
    Ok(())
}

async fn created(api: &Client, path: &str, body: Value) -> Result<Value> {
    let answer = api.post(path, body).await?;
    if ![201, 202].contains(&answer.status) {
        bail!("{path}: {} {}", answer.status, answer.body);
    }
    Ok(answer.body)
}

fn id(body: &Value) -> Result<&str> {
    body["id"].as_str().context("no id")
}

async fn invoice(api: &Client) -> Result<()> {
    let customer = created(api, "/v1/customers", json!({"email": "ada@example.com"})).await?;
    let card = json!({"customerId": id(&customer)?, "paymentToken": "tok_ok"});
    created(api, "/v1/payment_methods", card).await?;
    let body = json!({"customerId": id(&customer)?, "currency": "USD", "amount": 700});
    let invoice = created(api, "/v1/invoices", body).await?;
    let path = format!("/v1/invoices/{}", id(&invoice)?);
    let scheduled = api.post(&format!("{path}/schedule"), json!({"collectAt": "2020-01-01T00:00:00Z"})).await?;
    assert_eq!(scheduled.status, 200, "{}", scheduled.body);
    eventually("the collection", async || Ok((api.get(&path).await?.body["status"] == "paid").then_some(()))).await
}

async fn at_the_gateway(cluster: &Cluster) -> Result<()> {
    let known = cluster.gateway_account("shop", &[]).await?;
    let sale = [
        &[("username", known.username.as_str()), ("api_key", &known.api_key)][..],
        &[("amount", "12.50"), ("currency", "USD"), ("creditcard_number", "4242424242424242")],
        &[("expire_month", "12"), ("expire_year", "2034"), ("email_receipt", "Y")],
        &[("first_name", "Ada"), ("last_name", "Lovelace"), ("country_code", "US"), ("zip_code", "10001")],
        &[("email", "ada@example.com"), ("ship_address_as_bill_address", "Y")],
    ];
    let gateway = Client::new(&cluster.gateway_url(0))?.header("content-type", "application/x-www-form-urlencoded")?;
    let said = gateway.send(Method::POST, "/apis/sale.php", Some(form(sale.concat()).into_bytes())).await?.body;
    assert_eq!(said["response"]["code"], "00", "{said}");
    eventually("the receipt", async || Ok((!cluster.letters().is_empty()).then_some(()))).await
}
