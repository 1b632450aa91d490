//! Invoices as PDF in pdf.js, <https://github.com/mozilla/pdf.js>, the reader of Firefox, which only the tests install.

use std::fs;

use anyhow::{Context, Result, ensure};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::{Value, json};
use testkit::{browser::Site, integration_examples::package_file, pdf};

use crate::support::{Provider, Shop, address};

const VERSION: &str = "4.10.38";
const INTEGRITY: &str =
    "sha512-/Y3fcFrXEAsMjJXeL9J8+ZG9U01LbuWaYypvDW2ycW1jL269L3js3DVBjDJ0Up9Np1uqDXsDrRihHANhZOlwdQ==";
/// Without a worker: its code runs in the page.
const PAGE: &str = r#"<!doctype html><html lang="en"><title>Document</title><script type="module">
    import * as reader from "/pdf.js";
    import "/pdf.worker.js";
    globalThis.reader = reader;
</script></html>"#;
/// The number of pages, the text, and whether each font is embedded, by its name. The first page is shown.
const READ: &str = r#"(async text => {
    const document = await reader.getDocument({data: Uint8Array.from(atob(text), c => c.charCodeAt(0))}).promise;
    const read = {pages: document.numPages, text: "", fonts: {}};
    for (let number = 1; number <= document.numPages; number += 1) {
        const page = await document.getPage(number);
        const {items} = await page.getTextContent();
        read.text += items.map(item => item.str + (item.hasEOL ? "\n" : "")).join("") + "\n";
        await page.getOperatorList();
        for (const {fontName} of items.filter(item => item.str.trim())) {
            const font = page.commonObjs.get(fontName);
            read.fonts[font.name] = !font.missingFile;
        }
        if (number > 1) continue;
        const canvas = globalThis.document.createElement("canvas");
        const viewport = page.getViewport({scale: 1});
        [canvas.width, canvas.height] = [viewport.width, viewport.height];
        globalThis.document.body.append(canvas);
        await page.render({canvasContext: canvas.getContext("2d"), viewport, intent: "print"}).promise;
    }
    return read;
})"#;
/// In scripts of which each character is one glyph.
const WORDS: [&str; 6] = ["Łukasz", "Ωμέγα", "Иван", "山田", "ひろし", "김민수"];

/// A site with the reader; `None` if this machine has no npm.
async fn site() -> Result<Option<Site>> {
    let site = Site::start()?.page("/", PAGE);
    for name in ["pdf", "pdf.worker"] {
        let file = package_file("pdfjs-dist", VERSION, INTEGRITY, &format!("build/{name}.min.mjs")).await?;
        let Some(file) = file else { return Ok(None) };
        site.put(&format!("/{name}.js"), &fs::read_to_string(file)?);
    }
    Ok(Some(site))
}

#[tokio::test]
async fn two_readers_find_the_same_in_a_document() -> Result<()> {
    let Some(site) = site().await? else { return Ok(()) };
    let shop = Shop::new(Provider::Mock).await?;
    shop.set(&["--color", "#8a1c7c", "--address", "12 Long Street\nLondon", "--tax-number", "GB 123"]).await?;
    let items: Vec<_> =
        (1..=60).map(|n| json!({"description": format!("Tin {n} of tea"), "quantity": 2, "unitAmount": 500})).collect();
    let invoice = shop.invoice(json!({"description": WORDS.join(" "), "items": items, "amountTax": 7})).await?;
    let document = reqwest::get(format!("{}/invoice.pdf", address(&invoice)?)).await?.bytes().await?;
    let mut read = Value::Null;
    shop.visit(async |browser| {
        let tab = browser.tab().await?;
        tab.open(&site.origin()).await?;
        tab.top().wait("typeof reader === 'object'").await?;
        read = tab.top().value(&format!("{READ}({})", json!(STANDARD.encode(&document)))).await?;
        tab.screenshot_at_current_size("invoice").await
    })
    .await?;
    let (pages, text) = (pdf::pages(&document)?, pdf::read("pdftotext", &[], &document)?);
    ensure!(pages > 1 && read["pages"] == pages, "{pages} pages, or {}", read["pages"]);
    let other = read["text"].as_str().context("no text")?;
    let numbers = (1..=pages).map(|page| format!("{page}/{pages}"));
    let parts = WORDS.map(str::to_owned).into_iter().chain(numbers);
    for part in parts.chain(["12 Long Street", "GB 123", "Tin 60 of tea", "2 × $5.00", "$600.07"].map(str::to_owned)) {
        ensure!(text.contains(&part) && other.contains(&part), "no {part:?} in\n{text}\nor\n{other}");
    }
    let fonts = read["fonts"].as_object().context("no fonts")?;
    ensure!(fonts.len() >= 3 && fonts.values().all(|is_embedded| is_embedded == true), "{fonts:?}");
    Ok(())
}
