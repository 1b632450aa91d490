//! One operation of each kind, so that every panel has data: payments, a decline, a refund, an invoice collected
//! automatically, a delivered and a failed webhook, and a sale at the card gateway with its receipt.

use anyhow::{Context, Result, bail};
use reqwest::Method;
use serde_json::{Value, json};
use testkit::{
    Client, Cluster, eventually, form,
    receiver::{Receiver, Reply},
};

pub(crate) async fn drive(cluster: &mut Cluster) -> Result<()> {
    let account = cluster.account().await?;
    let worker = cluster.worker(0);
    worker.terminate().await?;
    worker.set_env("METRICS_ACCOUNTS", &account.id);
    worker.restart().await?;
    let api = cluster.client(&account)?;
    // One endpoint receives all events, and nothing listens at the other.
    let receiver = Receiver::start(|_| Reply::ok()).await?;
    for url in [receiver.url("/"), "http://127.0.0.1:9/".to_owned()] {
        create(&api, "/v1/webhook_endpoints", json!({"url": url})).await?;
    }
    for token in ["tok_ok", "tok_ok", "tok_declined"] {
        create(&api, "/v1/payments", json!({"amount": 1_250, "currency": "USD", "paymentToken": token})).await?;
    }
    eventually("a webhook", async || Ok((receiver.connections() > 0).then_some(()))).await?;
    let payment =
        create(&api, "/v1/payments", json!({"amount": 500, "currency": "USD", "paymentToken": "tok_ok"})).await?;
    create(&api, &format!("/v1/payments/{}/refund", id(&payment)?), json!({"amount": 500})).await?;
    collect_an_invoice(&api).await?;
    sell_at_the_gateway(cluster).await
}

async fn create(api: &Client, path: &str, body: Value) -> Result<Value> {
    let response = api.post(path, body).await?;
    if ![201, 202].contains(&response.status) {
        bail!("{path}: {} {}", response.status, response.body);
    }
    Ok(response.body)
}

fn id(body: &Value) -> Result<&str> {
    body["id"].as_str().context("no id")
}

async fn collect_an_invoice(api: &Client) -> Result<()> {
    let customer = create(api, "/v1/customers", json!({"email": "ada@example.com"})).await?;
    let card = json!({"customerId": id(&customer)?, "paymentToken": "tok_ok"});
    create(api, "/v1/payment_methods", card).await?;
    let body = json!({"customerId": id(&customer)?, "currency": "USD", "amount": 700});
    let invoice = create(api, "/v1/invoices", body).await?;
    let path = format!("/v1/invoices/{}", id(&invoice)?);
    let scheduled = api.post(&format!("{path}/schedule"), json!({"collectAt": "2020-01-01T00:00:00Z"})).await?;
    assert_eq!(scheduled.status, 200, "{}", scheduled.body);
    eventually("the collection", async || Ok((api.get(&path).await?.body["status"] == "paid").then_some(()))).await
}

async fn sell_at_the_gateway(cluster: &Cluster) -> Result<()> {
    let account = cluster.gateway_account("shop", &[]).await?;
    let sale = [
        &[("username", account.username.as_str()), ("api_key", &account.api_key)][..],
        &[("amount", "12.50"), ("currency", "USD"), ("creditcard_number", "4242424242424242")],
        &[("expire_month", "12"), ("expire_year", "2034"), ("email_receipt", "Y")],
        &[("first_name", "Ada"), ("last_name", "Lovelace"), ("country_code", "US"), ("zip_code", "10001")],
        &[("email", "ada@example.com"), ("ship_address_as_bill_address", "Y")],
    ];
    let gateway = Client::new(&cluster.gateway_url(0))?.header("content-type", "application/x-www-form-urlencoded")?;
    let response = gateway.send(Method::POST, "/apis/sale.php", Some(form(sale.concat()).into_bytes())).await?.body;
    assert_eq!(response["response"]["code"], "00", "{response}");
    eventually("the receipt", async || Ok((!cluster.sent_mail().is_empty()).then_some(()))).await
}
