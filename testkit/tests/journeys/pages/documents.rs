//! Invoices and receipts as PDF, read by poppler.

use std::time::Instant;

use anyhow::{Context, Result, ensure};
use serde_json::json;
use testkit::{Cluster, limits::refilled, pdf as reader};

use super::{INVOICES, link};
use crate::support::{Merchant, Payer, cluster, concurrently, created, id, merchant, redirect_payment_id};

/// A name in scripts that no single font has.
const NAME: &str = "Łukasz Ωμέγα Ада 山田 ひろし 김민수 가나다 नमस्ते ไทย";
/// Written from right to left.
const TURNED: [&str; 2] = ["מאיר", "مقعد"];

/// A document of the page.
async fn pdf(payer: &Payer, document: &str) -> Result<Vec<u8>> {
    let (path, query) = payer.path().split_once('?').unwrap_or((payer.path(), ""));
    let response = payer.at(&format!("{path}/{document}?{query}")).response().await?;
    ensure!(response.status == 200, "{}: {}", response.status, String::from_utf8_lossy(&response.bytes));
    assert_eq!(response.header("content-type"), Some("application/pdf"));
    assert_eq!(response.header("cache-control"), Some("no-store"));
    Ok(response.bytes)
}

fn assert_has(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "no {part:?} in {text}");
    }
}

#[tokio::test]
async fn an_invoice_is_a_document_with_all_its_texts_in_any_script() -> Result<()> {
    let merchant = merchant().await?;
    let address = "UPDATE accounts SET address = E'12 Long Street\nLondon', tax_number = 'GB 123' WHERE id = $1";
    sqlx::query(address).bind(merchant.books.account).execute(&merchant.books.db).await?;
    let body = json!({"name": NAME, "email": "a@shop.example"});
    let customer = id(created(&merchant.api.post("/v1/customers", body).await?))?;
    let mut items: Vec<_> = (1..=97)
        .map(|n| json!({"description": format!("Tin {n} of office tea"), "quantity": 2, "unitAmount": 500}))
        .collect();
    items.extend(TURNED.map(|text| json!({"description": text, "quantity": 1, "unitAmount": 1})));
    items.push(json!({"description": "x".repeat(255), "quantity": 1, "unitAmount": 1}));
    let body = json!({
        "customerId": customer, "currency": "USD", "items": items, "amountDiscount": 100, "amountTax": 7, "dueAt": "2030-01-02T00:00:00Z",
    });
    let invoice = created(&merchant.api.post(INVOICES, body).await?).clone();
    let payer = Payer::for_object(&invoice, &cluster().await?.api_url(0))?;
    payer.open().await?.assert_shows(200, &["/invoice.pdf"]);
    let document = pdf(&payer, "invoice.pdf").await?;
    let text = reader::read("pdftotext", &[], &document)?;
    assert_has(
        &text,
        &["Invoice", "INV-000001", "Tin 1 of office tea", "Tin 97 of office tea", "2 × $5.00", "Test mode"],
    );
    assert_has(&text, &["Subtotal", "$970.03", "−$1.00", "$0.07", "$969.10", "2 January 2030"]);
    assert_has(&text, &["12 Long Street", "London", "Tax ID GB 123"]);
    assert_has(&text, &TURNED);
    assert_has(&text, &NAME.split(' ').collect::<Vec<_>>());
    let fonts = reader::read("pdffonts", &[], &document)?;
    let fonts: Vec<_> = fonts.lines().skip(2).collect();
    assert!(fonts.len() >= 6, "{fonts:?}");
    for font in fonts {
        // Embedded, a subset, with the characters of its glyphs.
        assert!(font.contains("yes yes yes"), "{font}");
    }
    let pages = reader::pages(&document)?;
    assert!((5..=8).contains(&pages), "{pages} pages");
    assert_has(&text, &[&format!("1/{pages}"), &format!("{pages}/{pages}")]);
    // Otherwise a character has no glyph.
    assert!(document.windows(13).any(|bytes| bytes == b"pdfuaid:part>"), "it does not claim to be accessible");
    assert_eq!(pdf(&payer, "invoice.pdf").await?, document, "equal content gives equal bytes");
    let german = pdf(&payer.at(&format!("{}?lang=de", payer.path())), "invoice.pdf").await?;
    assert_has(&reader::read("pdftotext", &[], &german)?, &["Rechnung", "969,10", "2. Januar 2030"]);
    assert_eq!(payer.at(&format!("{}/receipt.pdf", payer.path())).response().await?.status, 404, "it is not paid");
    Ok(())
}

/// For programs that speak it: the title, and which texts are the titles of rows and columns, in the order of reading.
#[tokio::test]
async fn a_document_says_what_its_texts_are() -> Result<()> {
    let merchant = merchant().await?;
    let (_, payer) = super::invoice(&merchant, 500).await?;
    let document = pdf(&payer, "invoice.pdf").await?;
    let about = reader::read("pdfinfo", &[], &document)?;
    let tagged = about.lines().find(|line| line.starts_with("Tagged:")).context("whether it is tagged")?;
    assert!(tagged.ends_with("yes"), "{about}");
    let structure = reader::read("pdfinfo", &["-struct-text"], &document)?;
    let parts = ["H1", "INV-000001", "Table", "TR", "TH", "Total", "TD", "$5.00"];
    let mut rest = structure.as_str();
    for part in parts {
        rest = rest.split_once(part).with_context(|| format!("no {part} there in {structure}"))?.1;
    }
    assert!(document.windows(13).any(|bytes| bytes == b"pdfuaid:part>"), "it does not claim to be accessible");
    Ok(())
}

#[tokio::test]
async fn documents_have_the_logo_with_the_name_as_its_text() -> Result<()> {
    let merchant = merchant().await?;
    let (_, payer) = super::invoice(&merchant, 500).await?;
    let pictures = |document: &[u8]| reader::read("pdfimages", &["-list"], document);
    let plain = pdf(&payer, "invoice.pdf").await?;
    assert_eq!(pictures(&plain)?.lines().count(), 2, "only the titles of the columns");
    merchant.set_logo().await?;
    payer.pay("tok_ok").await?;
    for document in ["invoice.pdf", "receipt.pdf"] {
        let written = pdf(&payer, document).await?;
        let list = pictures(&written)?;
        let picture: Vec<_> = list.lines().nth(2).with_context(|| list.clone())?.split_whitespace().collect();
        assert_eq!(picture[2..5], ["image", "40", "20"], "{list}");
        assert_eq!(pdf(&payer, document).await?, written, "equal content gives equal bytes");
        let structure = reader::read("pdfinfo", &["-struct"], &written)?;
        assert!(structure.contains("Figure"), "{structure}");
        // PDF/UA requires the text of a picture.
        assert!(written.windows(13).any(|bytes| bytes == b"pdfuaid:part>"), "it does not claim to be accessible");
        assert!(written.windows(4).any(|bytes| bytes == b"/Alt"), "the logo has no text");
    }
    sqlx::query("DELETE FROM logos WHERE account_id = $1")
        .bind(merchant.books.account)
        .execute(&merchant.books.db)
        .await?;
    assert_eq!(pictures(&pdf(&payer, "invoice.pdf").await?)?.lines().count(), 2);
    Ok(())
}

/// The colors of the texts of a document.
fn colors(document: &[u8]) -> Result<Vec<String>> {
    let texts = reader::read("pdftohtml", &["-xml", "-stdout", "-i"], document)?;
    Ok(texts.split("color=\"").skip(1).filter_map(|rest| rest.get(..7)).map(str::to_owned).collect())
}

/// In the nearest shade that can be read on white.
#[tokio::test]
async fn documents_have_the_color_of_the_merchant() -> Result<()> {
    let merchant = merchant().await?;
    let (_, payer) = super::invoice(&merchant, 500).await?;
    let mut seen = Vec::new();
    for color in [None, Some("#0b57c4"), Some("#ffd400")] {
        let set = "UPDATE accounts SET color = $2 WHERE id = $1";
        sqlx::query(set).bind(merchant.books.account).bind(color).execute(&merchant.books.db).await?;
        let colors = colors(&pdf(&payer, "invoice.pdf").await?)?;
        seen.push(colors.into_iter().find(|color| !["#000000", "#5a5a5a"].contains(&color.as_str())));
    }
    assert_eq!(seen[..2], [None, Some("#0b57c4".to_owned())]);
    let shade = seen[2].as_deref().context("no color")?;
    assert!(shade != "#ffd400" && shade.ends_with("00"), "{shade} is not a dark yellow");
    Ok(())
}

#[tokio::test]
async fn documents_say_what_was_paid_and_refunded() -> Result<()> {
    let merchant = merchant().await?;
    let (_, payer) = super::invoice(&merchant, 500).await?;
    let unpaid = reader::read("pdftotext", &[], &pdf(&payer, "invoice.pdf").await?)?;
    assert!(!unpaid.contains("Total paid"), "{unpaid}");
    let response = payer.submit("tok_ok").await?;
    let payment = redirect_payment_id(&response).context("a payment")?;
    for (document, is_refunded) in
        [("invoice.pdf", false), ("receipt.pdf", false), ("invoice.pdf", true), ("receipt.pdf", true)]
    {
        if (document, is_refunded) == ("invoice.pdf", true) {
            assert_eq!(merchant.void(&payment).await?.status, 200);
        }
        let text = reader::read("pdftotext", &[], &pdf(&payer, document).await?)?;
        assert_has(&text, &["Total paid", "$5.00"]);
        assert_eq!(text.contains("Refunded since"), is_refunded, "{document}: {text}");
    }
    Ok(())
}

#[tokio::test]
async fn a_receipt_shows_the_card_to_its_payer_only() -> Result<()> {
    let merchant = merchant().await?;
    let (_, payer) = link(&merchant, 500).await?;
    let response = payer.submit("tok_ok").await?;
    let payment = redirect_payment_id(&response).context("a payment")?;
    let of_payer = payer.at(&format!("{}?payment={payment}", payer.path()));
    let text = reader::read("pdftotext", &[], &pdf(&of_payer, "receipt.pdf").await?)?;
    assert_has(&text, &["Receipt", "Visa ending in 4242", "Total paid", "$5.00"]);
    let of_others = reader::read("pdftotext", &[], &pdf(&payer, "receipt.pdf").await?)?;
    assert_has(&of_others, &["Receipt", "$5.00"]);
    assert!(!of_others.contains("4242"), "{of_others}");
    assert_eq!(payer.at(&format!("{}/invoice.pdf", payer.path())).response().await?.status, 404, "it is no invoice");
    Ok(())
}

/// Documents take their turn, so that many at once are written one after the other.
#[tokio::test]
async fn many_documents_at_once_are_all_written() -> Result<()> {
    let merchant = merchant().await?;
    let pages = concurrently(2, async |_| super::invoice(&merchant, 500).await).await?;
    let written = concurrently(8, async |nth| pdf(&pages[nth % 2].1, "invoice.pdf").await).await?;
    assert!(written.iter().enumerate().all(|(nth, document)| *document == written[nth % 2]));
    Ok(())
}

/// Otherwise a visitor who requests the invoice again and again would make all others wait.
#[tokio::test]
async fn the_documents_of_one_page_are_limited() -> Result<()> {
    let merchant = merchant().await?;
    let ((_, payer), (_, other)) = (super::invoice(&merchant, 500).await?, super::invoice(&merchant, 500).await?);
    // Not paid yet: there is no such document, which costs nothing to find.
    let (document, began) = (payer.at(&format!("{}/receipt.pdf", payer.path())), Instant::now());
    let responses = concurrently(30, async |_| document.response().await).await?;
    let looked_up = responses.iter().filter(|response| response.status == 404).count();
    assert!((10..=10 + refilled(began.elapsed())).contains(&looked_up), "{looked_up} of 30");
    for refused in responses.iter().filter(|response| response.status != 404) {
        assert_eq!(refused.status, 429);
        assert!(refused.header("retry-after").is_some(), "{:?}", refused.headers);
        let policy = refused.header("ratelimit-policy").unwrap_or_default();
        assert!(policy.starts_with("\"page\";"), "{policy}");
    }
    payer.open().await?.assert_shows(200, &["/invoice.pdf"]);
    pdf(&other, "invoice.pdf").await?;
    Ok(())
}

/// An api without fonts: a document that fails costs as much as one that is written.
#[tokio::test]
async fn documents_that_always_fail_count_for_their_page() -> Result<()> {
    let cluster = Cluster::builder().env("FONTS_DIRS", "/nonexistent").api(1).worker(1).start().await?;
    let merchant = Merchant::for_account(&cluster, cluster.account().await?)?;
    let body = json!({"customerId": merchant.customer().await?, "amount": 800, "currency": "USD"});
    let payer = Payer::for_object(created(&merchant.api.post(INVOICES, body).await?), &cluster.api_url(0))?;
    let document = payer.at(&format!("{}/invoice.pdf", payer.path()));
    let began = Instant::now();
    let statuses = concurrently(30, async |_| Ok(document.response().await?.status)).await?;
    let failed = statuses.iter().filter(|status| **status == 500).count();
    assert!((10..=10 + refilled(began.elapsed())).contains(&failed), "{failed} of 30");
    assert!(statuses.iter().all(|status| [429, 500].contains(status)), "{statuses:?}");
    Ok(())
}
