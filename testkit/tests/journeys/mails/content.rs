//! Whom e-mails go to, in which language, and what they say.

use anyhow::{Context, Result};
use mail_parser::{Message, MessageParser};
use serde_json::{Value, json};
use texts::Language;

use super::{ADA, BOB, customer, ended, event, invoice, outcomes, turn_on};
use crate::support::{Merchant, Payer, cluster, created, eventually, id, merchant, ok};

/// The e-mail about an event.
async fn sent(event: &str) -> Result<String> {
    let name = format!("{event}.eml");
    eventually("the e-mail", async || Ok(cluster().await?.sent_mail().remove(&name))).await
}

fn parse(mail: &str) -> Result<Message<'_>> {
    MessageParser::default().parse(mail).context("a message")
}

/// Both forms of the text, which must contain each of these.
fn assert_says(message: &Message<'_>, texts: &[&str]) {
    let plain = message.body_text(0).expect("plain text").replace('\u{a0}', " ");
    let html = message.body_html(0).expect("a page").replace('\u{a0}', " ");
    for text in texts {
        let escaped = text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
        assert!(plain.contains(text) && html.contains(&escaped), "no {text:?} in {plain}\n{html}");
    }
}

async fn named(merchant: &Merchant) -> Result<()> {
    let named = "UPDATE accounts SET name = 'Café & Söhne', support_contact = 'help@cafe.example', address = 'Ring 1',
                 tax_number = 'ATU1', color = '#ffd400' WHERE id = $1";
    sqlx::query(named).bind(merchant.books.account).execute(&merchant.books.db).await?;
    Ok(())
}

async fn lives_in(merchant: &Merchant, customer: &str, country: &str) -> Result<()> {
    let body = json!({"customerId": customer, "line1": "1 Road", "country": country});
    let address = id(created(&merchant.api.post("/v1/addresses", body).await?))?;
    ok(&merchant.api.post(&format!("/v1/addresses/{address}/default"), json!({"type": "billing"})).await?);
    Ok(())
}

fn text<'a>(object: &'a Value, field: &str) -> &'a str {
    object[field].as_str().unwrap_or_default()
}

#[tokio::test]
async fn an_invoice_and_its_receipt_are_sent_in_the_customers_language() -> Result<()> {
    let merchant = merchant().await?;
    named(&merchant).await?;
    turn_on(&merchant, "fr").await?;
    let ada = customer(&merchant, ADA).await?;
    lives_in(&merchant, &ada, "DE").await?;
    let issued = invoice(&merchant, &ada).await?;
    let issued_event = event(&merchant, "invoice.issued", text(&issued, "id")).await?;
    let mail = sent(&issued_event).await?;
    let message = parse(&mail)?;
    let from = message.from().and_then(|from| from.first()).context("a sender")?;
    assert_eq!((from.name(), from.address()), (Some("Café & Söhne"), Some("invoices@test.example")));
    assert_eq!(message.to().and_then(|to| to.first()?.address()), Some(ADA));
    assert_eq!(message.reply_to().and_then(|to| to.first()?.address()), Some("help@cafe.example"));
    assert_eq!(message.message_id(), Some(format!("{issued_event}@test.example").as_str()));
    let number = text(&issued, "number");
    assert_eq!(message.subject(), Some(format!("Rechnung {number} von Café & Söhne").as_str()));
    let url = text(&issued, "url");
    let page = format!("{url}?lang=de");
    let pdf = format!("{url}/invoice.pdf?lang=de");
    assert_says(&message, &["1.234,56 €", "Roof <repair>", number, &page, &pdf, "help@cafe.example", "Testmodus"]);
    assert_says(&message, &["Ring 1", "Steuernr. ATU1"]);

    let payer = Payer::for_object(&issued, &cluster().await?.api_url(0))?;
    payer.pay("tok_ok").await?;
    let mail = sent(&event(&merchant, "invoice.paid", text(&issued, "id")).await?).await?;
    let message = parse(&mail)?;
    assert_eq!(
        message.subject().map(|subject| subject.replace('\u{a0}', " ")).as_deref(),
        Some("Zahlungsbeleg über 1.234,56 € von Café & Söhne")
    );
    assert_says(&message, &["Vielen Dank", &page, &format!("{url}/receipt.pdf?lang=de")]);
    for (outcome, kind) in ended(&merchant, 2).await?.iter().zip(["invoice", "receipt"]) {
        assert_eq!((outcome.kind.as_str(), outcome.outcome.as_deref(), outcome.attempts), (kind, Some("sent"), 1));
    }
    // The links work without a session.
    for url in [page, pdf, format!("{url}/receipt.pdf")] {
        assert_eq!(reqwest::get(&url).await?.status(), 200, "{url}");
    }
    Ok(())
}

/// By a URL that is the same for all recipients, and the name stands for a picture that is not loaded.
#[tokio::test]
async fn e_mails_have_the_logo_and_the_name() -> Result<()> {
    let merchant = merchant().await?;
    named(&merchant).await?;
    merchant.set_logo().await?;
    turn_on(&merchant, "en").await?;
    let ada = customer(&merchant, ADA).await?;
    let issued = invoice(&merchant, &ada).await?;
    let mail = sent(&event(&merchant, "invoice.issued", text(&issued, "id")).await?).await?;
    let html = parse(&mail)?.body_html(0).context("a page")?.into_owned();
    let picture = html.split_once("<img src=\"").with_context(|| html.clone())?.1;
    let (url, rest) = picture.split_once('"').context("a URL")?;
    assert!(rest.starts_with(" width=\"40\" height=\"20\" alt=\"Café &amp; Söhne\""), "{rest}");
    let logo = reqwest::get(url).await?;
    assert_eq!(logo.status(), 200, "{url}");
    assert!(logo.bytes().await?.starts_with(b"\x89PNG"));
    assert_says(&parse(&mail)?, &["Café & Söhne"]);
    Ok(())
}

/// The portal offers the languages of the texts.
#[tokio::test]
async fn the_database_accepts_the_languages_of_the_texts_only() -> Result<()> {
    let check = "SELECT pg_get_constraintdef(oid) FROM pg_constraint WHERE conname = 'mail_settings_language_check'";
    let check: String = sqlx::query_scalar(check).fetch_one(&merchant().await?.books.db).await?;
    let mut accepted: Vec<_> = check.split('\'').skip(1).step_by(2).collect();
    accepted.sort_unstable();
    let mut languages: Vec<_> = Language::iter().map(|language| language.code()).collect();
    languages.sort_unstable();
    assert_eq!(accepted, languages, "{check}");
    Ok(())
}

#[tokio::test]
async fn failed_collections_say_what_follows() -> Result<()> {
    let merchant = merchant().await?;
    turn_on(&merchant, "es").await?;
    for (token, expected) in [
        ("tok_insufficient", "Se volverá a intentar el cargo el"),
        ("tok_stolen", "No está previsto ningún otro intento."),
        ("tok_authentication", "Su banco le pide que confirme usted este pago."),
    ] {
        let ada = customer(&merchant, ADA).await?;
        created(&merchant.save_card(&ada, token).await?);
        let issued = invoice(&merchant, &ada).await?;
        let path = format!("/v1/invoices/{}/schedule", text(&issued, "id"));
        ok(&merchant.api.post(&path, json!({"collectAt": "2020-01-01T00:00:00Z"})).await?);
        let failed = eventually("a failed collection", async || {
            event(&merchant, "invoice.payment_failed", text(&issued, "id")).await.map(Some)
        });
        let mail = sent(&failed.await?).await?;
        assert_says(&parse(&mail)?, &["no ha podido cargar 1234,56 €", expected, "/invoice.pdf?lang=es"]);
    }
    Ok(())
}

#[tokio::test]
async fn a_renewal_that_the_bank_wants_confirmed_is_mailed_with_a_link() -> Result<()> {
    let merchant = merchant().await?;
    turn_on(&merchant, "en").await?;
    let ada = customer(&merchant, ADA).await?;
    let plan = json!({"name": "Basic", "amount": 900, "currency": "EUR", "interval": "month"});
    let plan = id(created(&merchant.api.post("/v1/plans", plan).await?))?;
    created(&merchant.save_card(&ada, "tok_authentication").await?);
    let subscription = json!({"customerId": ada, "planId": plan});
    let subscription = created(&merchant.api.post("/v1/subscriptions", subscription).await?).clone();
    let renewal = text(&subscription, "latestInvoiceId");
    let failed =
        eventually("a failed collection", async || event(&merchant, "invoice.payment_failed", renewal).await.map(Some));
    let mail = sent(&failed.await?).await?;
    let page = ok(&merchant.api.get(&format!("/v1/invoices/{renewal}")).await?)["url"].clone();
    let page = format!("{}?lang=en", page.as_str().context("a URL")?);
    assert_says(&parse(&mail)?, &["Your bank asks you to confirm this payment yourself.", "€9.00", &page]);
    Ok(())
}

#[tokio::test]
async fn nothing_is_sent_to_others_in_test_mode_or_about_what_is_out_of_date() -> Result<()> {
    let merchant = merchant().await?;
    // Before e-mails are turned on, and of kinds that are off.
    let ada = customer(&merchant, ADA).await?;
    invoice(&merchant, &ada).await?;
    turn_on(&merchant, "ja").await?;
    let bob = customer(&merchant, BOB).await?;
    invoice(&merchant, &bob).await?;
    let plan = json!({"name": "Basic", "amount": 900, "currency": "EUR", "interval": "month"});
    let plan = id(created(&merchant.api.post("/v1/plans", plan).await?))?;
    let card = id(created(&merchant.save_card(&ada, "tok_ok").await?))?;
    let subscription = json!({"customerId": ada, "planId": plan, "paymentMethodId": card});
    created(&merchant.api.post("/v1/subscriptions", subscription).await?);
    let mails = ended(&merchant, 3).await?;
    let expected = [
        ("invoice", "not_sent", "in test mode, and the customer is no test recipient"),
        ("invoice", "not_sent", "the invoice of a subscription is charged to its card"),
        ("receipt", "sent", ""),
    ];
    assert_eq!(outcomes(&mails), expected.map(|(a, b, c)| (a.to_owned(), b.to_owned(), c.to_owned())));
    Ok(())
}

/// The URL at which a mail program stops e-mails.
fn unsubscribe_url<'a>(message: &'a Message<'a>) -> Result<&'a str> {
    let url = message.header_raw("List-Unsubscribe").context("a header")?.trim();
    url.strip_prefix('<').and_then(|url| url.strip_suffix('>')).context("a URL")
}

/// The payment of an invoice has the receipt of the invoice only: see the tests above.
#[tokio::test]
async fn a_customers_payment_of_no_invoice_has_a_receipt() -> Result<()> {
    let merchant = merchant().await?;
    named(&merchant).await?;
    turn_on(&merchant, "fr").await?;
    let ada = customer(&merchant, ADA).await?;
    let pay = async |extra: Value| -> Result<Value> {
        let mut body =
            json!({"amount": 1250, "currency": "EUR", "paymentToken": "tok_ok", "description": "Tea <green>"});
        body.as_object_mut().expect("an object").extend(extra.as_object().expect("an object").clone());
        Ok(created(&merchant.api.post("/v1/payments", body).await?).clone())
    };
    // There is nobody to send it to, or nothing is paid.
    pay(json!({})).await?;
    let held = pay(json!({"customerId": ada, "capture": false})).await?;
    pay(json!({"customerId": ada, "paymentToken": "tok_declined"})).await?;
    let paid = pay(json!({"customerId": ada})).await?;
    let mail = sent(&event(&merchant, "payment.captured", text(&paid, "id")).await?).await?;
    let message = parse(&mail)?;
    assert_eq!(
        message.subject().map(|subject| subject.replace('\u{a0}', " ")).as_deref(),
        Some("Reçu de Café & Söhne pour 12,50 €")
    );
    assert_says(&message, &["Vous avez payé 12,50 €", "Tea <green>", text(&paid, "id"), "4242", "Mode test"]);
    assert_says(&message, &["Ring 1", "ATU1", "help@cafe.example"]);
    ended(&merchant, 1).await?;
    ok(&merchant.capture(text(&held, "id"), None).await?);
    sent(&event(&merchant, "payment.captured", text(&held, "id")).await?).await?;

    let url = unsubscribe_url(&message)?;
    assert!(url.contains("/pay/c/") && url.ends_with("/unsubscribe?lang=fr"), "{url}");
    let client = reqwest::Client::new();
    let stopped = client.post(url).body("List-Unsubscribe=One-Click").send().await?.text().await?;
    assert!(stopped.contains("Vous ne recevez plus de reçus de"), "{stopped}");
    pay(json!({"customerId": ada})).await?;
    let mails = outcomes(&ended(&merchant, 3).await?);
    let outcomes: Vec<_> = mails.iter().map(|mail| (mail.0.as_str(), mail.1.as_str(), mail.2.as_str())).collect();
    let refused = ("receipt", "not_sent", "the customer wants no receipts");
    assert_eq!(outcomes, [("receipt", "sent", ""), ("receipt", "sent", ""), refused]);
    assert_eq!(client.get(url.replace("/pay/c/", "/pay/c/0")).send().await?.status(), 404);
    Ok(())
}

/// As a mail program does, with either encoding (RFC 8058 §3.2).
#[tokio::test]
async fn a_customer_stops_receipts_and_has_them_sent_again() -> Result<()> {
    let merchant = merchant().await?;
    named(&merchant).await?;
    turn_on(&merchant, "fr").await?;
    let ada = customer(&merchant, ADA).await?;
    let pay = async || -> Result<String> {
        let issued = invoice(&merchant, &ada).await?;
        sent(&event(&merchant, "invoice.issued", text(&issued, "id")).await?).await?;
        Payer::for_object(&issued, &cluster().await?.api_url(0))?.pay("tok_ok").await?;
        event(&merchant, "invoice.paid", text(&issued, "id")).await
    };
    let mail = sent(&pay().await?).await?;
    let message = parse(&mail)?;
    assert_eq!(message.header_raw("List-Unsubscribe-Post").map(str::trim), Some("List-Unsubscribe=One-Click"));
    let url = unsubscribe_url(&message)?;
    assert!(url.ends_with("/unsubscribe?lang=fr"), "{url}");
    assert_says(&message, &[url, "Ne plus recevoir de reçus"]);

    let client = reqwest::Client::new();
    let shown = async |response: reqwest::Response| -> Result<String> {
        assert_eq!(response.status(), 200);
        Ok(response.text().await?)
    };
    for _ in 0..2 {
        let page = shown(client.get(url).send().await?).await?;
        assert!(page.contains("Vous recevez un reçu par e-mail") && page.contains("help@cafe.example"), "{page}");
    }
    let one_click = "List-Unsubscribe=One-Click";
    let multipart = "--b\r\nContent-Disposition: form-data; name=\"List-Unsubscribe\"\r\n\r\nOne-Click\r\n--b--\r\n";
    let encodings = [("application/x-www-form-urlencoded", one_click), ("multipart/form-data; boundary=b", multipart)];
    let mut count = 2;
    for (encoding, body) in encodings {
        let stopped = shown(client.post(url).header("Content-Type", encoding).body(body).send().await?).await?;
        assert!(
            stopped.contains("Vous ne recevez plus de reçus de") && stopped.contains("Café &amp; Söhne"),
            "{stopped}"
        );
        pay().await?;
        count += 2;
        ended(&merchant, count).await?;
        let resumed = shown(client.post(url.replace("unsubscribe", "subscribe")).send().await?).await?;
        assert!(resumed.contains("Vous recevez un reçu par e-mail"), "{resumed}");
    }
    pay().await?;
    let mails = outcomes(&ended(&merchant, 8).await?);
    let receipts = mails.iter().filter(|mail| mail.0 == "receipt").map(|mail| (mail.1.as_str(), mail.2.as_str()));
    let refused = ("not_sent", "the customer wants no receipts");
    assert_eq!(receipts.collect::<Vec<_>>(), [("sent", ""), refused, refused, ("sent", "")]);
    assert_eq!(client.delete(url).send().await?.status(), 405);
    let unknown = url.replace("/pay/i/", "/pay/i/0");
    assert_eq!(client.post(unknown).send().await?.status(), 404);
    Ok(())
}
