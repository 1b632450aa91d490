//! Rendering of pages: formatted amounts and dates, escaped merchant text, and security headers.

use anyhow::{Context, Result};
use reqwest::Method;
use serde_json::{Value, json};
use testkit::Client;

use super::{INVOICES, LINKS, invoice, link};
use crate::support::{Merchant, Payer, cluster, created, id, merchant, ok, uuid};

async fn page_of(merchant: &Merchant, path: &str, body: Value) -> Result<Payer> {
    let response = merchant.api.post(path, body).await?;
    Payer::for_object(created(&response), &cluster().await?.api_url(0))
}

#[tokio::test]
async fn invoice_pages_show_items_and_totals() -> Result<()> {
    let merchant = merchant().await?;
    cluster().await?.ctl(&["accounts", "set", &merchant.account.id, "--timezone", "America/New_York"]).await?;
    let customer = merchant.customer().await?;
    let payer = page_of(
        &merchant,
        INVOICES,
        json!({
            "customerId": customer, "currency": "USD", "description": "November",
            "items": [
                {"description": "Hours", "quantity": 4, "unitAmount": 250_050},
                {"description": "Tea", "quantity": 1, "unitAmount": 0},
            ],
            "amountTax": 825, "amountDiscount": 25, "dueAt": "2031-07-01T02:30:00Z",
        }),
    )
    .await?;
    let page = payer.open().await?;
    page.assert_shows(
        200,
        &[
            "<bdi>Test</bdi>",
            "$10,010.00",
            "INV-000001",
            "November",
            "Hours",
            "4 × <span class=\"amount\">$2,500.50",
            "$10,002.00",
            "$0.00",
            "Tax",
            "$8.25",
            "Discount",
            "\u{2212}$0.25",
            "Total",
            "30 June 2031",
            "Test mode",
            ">Pay $10,010.00</button>",
            "4242 4242 4242 4242",
        ],
    );
    assert!(!page.html.contains("Surcharge") && !page.html.contains("name=\"tip\""), "no modifiers");
    Ok(())
}

#[tokio::test]
async fn amounts_have_the_decimals_of_their_currency() -> Result<()> {
    let merchant = merchant().await?;
    for (amount, currency, formatted) in
        [(1234, "USD", "$12.34"), (5, "EUR", "€0.05"), (1234, "JPY", "¥1,234"), (1234, "BHD", "BHD\u{a0}1.234")]
    {
        let body = json!({"amount": amount, "currency": currency, "expiresAt": "2031-07-01T02:30:00Z"});
        let page = page_of(&merchant, LINKS, body).await?.open().await?;
        // Not twice, where the amount has no symbol.
        let code = if formatted.contains(currency) { String::new() } else { format!(" <small>{currency}</small>") };
        let sum = format!(">{formatted}</span>{code}</h1>");
        page.assert_shows(200, &[&sum, &format!(">Pay {formatted}</button>"), "1 July 2031, 02:30 UTC"]);
    }
    Ok(())
}

#[tokio::test]
async fn merchant_text_is_escaped() -> Result<()> {
    let merchant = merchant().await?;
    let hostile = "</title></bdi><script>alert(1)</script><img src=x onerror='a'>\"&\u{202e}";
    sqlx::query("UPDATE accounts SET name = $2 WHERE id = $1")
        .bind(merchant.books.account)
        .bind(hostile)
        .execute(&merchant.books.db)
        .await?;
    let customer = merchant.customer().await?;
    let link = page_of(&merchant, LINKS, json!({"amount": 1, "currency": "USD", "description": hostile})).await?;
    let invoice = page_of(
        &merchant,
        INVOICES,
        json!({
            "customerId": customer, "currency": "USD", "description": hostile,
            "items": [{"description": hostile, "quantity": 1, "unitAmount": 1}],
        }),
    )
    .await?;
    let escaped = "&lt;/title&gt;&lt;/bdi&gt;&lt;script&gt;alert(1)&lt;/script&gt;&lt;img src=x onerror='a'&gt;&quot;&amp;\u{202e}";
    for (payer, times) in [(link, 4), (invoice, 5)] {
        let page = payer.open().await?;
        page.assert_shows(200, &[escaped]);
        assert_eq!(page.html.matches(escaped).count(), times, "{}", page.html);
        // <bdi> confines bidirectional overrides to the merchant's text; the title is plain text.
        assert_eq!(page.html.matches(&format!("<bdi>{escaped}</bdi>")).count(), times - 1);
        for tag in ["<script>", "<img"] {
            assert!(!page.html.contains(tag), "{tag} in {}", page.html);
        }
    }
    Ok(())
}

#[tokio::test]
async fn a_paid_link_shows_the_merchant_and_the_amount_once() -> Result<()> {
    let merchant = merchant().await?;
    sqlx::query("UPDATE accounts SET name = 'Tea Shop', address = 'Ring 1', tax_number = 'ATU1' WHERE id = $1")
        .bind(merchant.books.account)
        .execute(&merchant.books.db)
        .await?;
    let body = json!({"amount": 4321, "currency": "USD", "description": "Green tea"});
    let page = page_of(&merchant, LINKS, body).await?.pay("tok_ok").await?;
    page.assert_shows(200, &["id=\"receipt\"", "<bdi>Tea Shop</bdi>", "Green tea", "$43.21", "Ring 1", "ATU1"]);
    let (_, body) = page.html.split_once("<body>").context("a body")?;
    for text in ["Tea Shop", "Green tea", "$43.21", "Ring 1", "ATU1", "<h1"] {
        assert_eq!(body.matches(text).count(), 1, "{text} in {body}");
    }
    Ok(())
}

#[tokio::test]
async fn every_page_response_has_security_headers_and_no_store() -> Result<()> {
    let merchant = merchant().await?;
    let (_, payer) = link(&merchant, 500).await?;
    let (_, invoice_payer) = invoice(&merchant, 500).await?;
    let unknown = payer.at("/pay/l/0000000000000000000000000000000000000000");
    let browser = Client::new(&cluster().await?.api_url(0))?;
    let mut responses = vec![
        invoice_payer.open().await?.response,
        unknown.open().await?.response,
        browser.send(Method::HEAD, payer.path(), None).await?,
        browser.send(Method::PUT, payer.path(), None).await?,
        payer.send("").await?,
        payer.submit("tok_nonsense").await?,
        payer.submit("tok_ok").await?,
    ];
    responses.push(payer.open().await?.response);
    assert_eq!(
        responses.iter().map(|response| response.status).collect::<Vec<_>>(),
        [200, 404, 200, 405, 422, 422, 303, 200]
    );
    // Only pages with a card form load a script.
    for (response, has_form) in responses.iter().zip([true, false, true, false, true, true, false, false]) {
        let policy = response.header("content-security-policy").context("no policy")?;
        let (first, rest) = policy.split_once("; ").context("one directive")?;
        assert_eq!(first, "default-src 'none'");
        let mut rest: Vec<_> = rest.split("; ").collect();
        assert!(rest.remove(0).starts_with("style-src 'sha256-"), "{policy}");
        if has_form {
            assert_eq!(rest.drain(..2).collect::<Vec<_>>(), ["script-src 'self'", "connect-src 'self'"]);
        }
        assert_eq!(rest, ["form-action 'self'", "base-uri 'none'", "frame-ancestors 'none'"]);
        for (name, value) in [
            ("x-frame-options", "DENY"),
            ("x-content-type-options", "nosniff"),
            ("referrer-policy", "no-referrer"),
            ("cache-control", "no-store"),
            ("x-robots-tag", "noindex, nofollow"),
        ] {
            assert_eq!(response.header(name), Some(value), "{name}");
        }
        assert!(response.header("set-cookie").is_none() && response.header("request-id").is_some());
        let html = String::from_utf8_lossy(&response.bytes);
        for resource in ["<script>", "<link", "<img", "@import", "url(", "style=\"", " onclick", "javascript:"] {
            assert!(!html.contains(resource), "{resource} in {html}");
        }
        let scripts: Vec<_> = html.match_indices("src=\"").map(|(at, _)| &html[at + 5..at + 29]).collect();
        let script = "../../elements/pay.js?v=";
        assert_eq!(scripts, if has_form && !html.is_empty() { vec![script] } else { vec![] });
    }
    assert_eq!(responses[3].header("allow"), Some("GET,HEAD,POST"));
    Ok(())
}

#[tokio::test]
async fn pages_need_no_key_and_open_only_by_their_exact_url() -> Result<()> {
    let merchant = merchant().await?;
    let (made, payer) = link(&merchant, 500).await?;
    payer.open().await?.assert_shows(200, &["$5.00"]);
    // Ids, partial tokens and tokens of another kind of page are not found.
    let token = payer.token();
    for path in [
        format!("/pay/l/{}", id(&made)?),
        format!("/pay/l/{}", &token[..token.len() - 1]),
        format!("/pay/l/{}", token.to_uppercase()),
        format!("/pay/l/{token}%00"),
        format!("/pay/l/{token}%20"),
        "/pay/l/%ff".to_owned(),
        "/pay/l/%27%20OR%201=1".to_owned(),
        format!("/pay/i/{token}"),
    ] {
        let response = payer.at(&path).open().await?;
        response.assert_shows(404, &["Nothing to pay here"]);
        assert!(!response.html.contains(token), "{path}");
    }
    Ok(())
}

#[tokio::test]
async fn drafts_have_no_page() -> Result<()> {
    let merchant = merchant().await?;
    let customer = merchant.customer().await?;
    let token: String = sqlx::query_scalar(
        "INSERT INTO invoices (id, account_id, customer_id, currency, amount, payment_terms, page_token, created_at)
         VALUES (new_ulid(clock_timestamp()), $1, $2, 'USD', 500, 'net_7', gen_random_uuid()::text, clock_timestamp())
         RETURNING page_token",
    )
    .bind(merchant.books.account)
    .bind(uuid(&customer)?)
    .fetch_one(&merchant.books.db)
    .await?;
    let (_, payer) = invoice(&merchant, 500).await?;
    let draft = payer.at(&format!("/pay/i/{token}"));
    draft.open().await?.assert_shows(404, &[]);
    assert_eq!(draft.submit("tok_ok").await?.status, 404);
    assert_eq!(merchant.books.operations().await?, 0);
    Ok(())
}

#[tokio::test]
async fn pages_of_unconnected_accounts_take_no_card() -> Result<()> {
    let cluster = cluster().await?;
    let merchant = merchant().await?;
    let (made, payer) = link(&merchant, 500).await?;
    // Switched to a provider to which the account is not connected.
    cluster.ctl(&["accounts", "set", &merchant.account.id, "--provider", "card_gateway"]).await?;
    let page = payer.open().await?;
    page.assert_shows(200, &["$5.00", "cannot take a card yet", "contact <bdi>Test</bdi>"]);
    assert!(!page.has_pay_button());
    for token in ["tok_ok", "anything"] {
        assert_eq!(payer.submit(token).await?.status, 422);
    }
    assert_eq!(merchant.books.operations().await?, 0);
    assert_eq!(super::current(&merchant, &made).await?["status"], "open");
    ok(&merchant.api.get("/v1/capabilities").await?);
    Ok(())
}

/// RFC 9110 §12.5.4; the URL's `lang` has precedence.
#[tokio::test]
async fn the_page_has_the_language_of_its_reader() -> Result<()> {
    let merchant = merchant().await?;
    let (_, payer) = link(&merchant, 123_456).await?;
    for (accepted, lang, expected) in [
        (None, None, "en"),
        (Some("de-CH, en;q=0.5"), None, "de"),
        (Some("pt, fr;q=0.3, ja;q=0.7"), None, "ja"),
        (Some("pt-BR, *;q=0.1"), None, "en"),
        (Some("de"), Some("es"), "es"),
        (None, Some("FR-ch"), "fr"),
        (Some("de"), Some("xx"), "de"),
        (Some("\"><script>"), Some("%22%3E"), "en"),
    ] {
        let reader =
            accepted.map_or_else(|| Ok(payer.clone()), |accepted| payer.with_header("accept-language", accepted))?;
        let path = format!("{}?lang={}", payer.path(), lang.unwrap_or_default());
        let page = reader.at(&path).open().await?;
        page.assert_shows(200, &[&format!("<html lang=\"{expected}\">")]);
    }
    let german = payer.with_header("accept-language", "de")?;
    german.open().await?.assert_shows(200, &["1.234,56\u{a0}$", "Mit Karte bezahlen"]);
    german.at("/pay/l/unknown").open().await?.assert_shows(404, &["<html lang=\"de\">"]);
    let refused = german.script()?.send("amount=123456").await?;
    assert!(refused.body["lines"][0].as_str().is_some_and(|line| line.contains("Karte")), "{}", refused.body);
    Ok(())
}
