//! Invalid input is reported at its field when the field loses the focus, before anything is sent.

use anyhow::{Result, ensure};
use testkit::browser::{Browser, Frame};

use super::{BUTTON, assert_receipt, open};
use crate::support::{Card, Provider, Shop, at_each_provider, card};

at_each_provider! { invalid_input_is_marked_and_not_sent }

/// Makes a valid card invalid.
type Mistake = fn(Card) -> Card;

/// Mistakes, each with the input that is marked and its message.
const MISTAKES: [(Mistake, &str, &str); 5] = [
    (|valid| Card { number: "4242424242424241", ..valid }, "#card-number", "card number"),
    (|valid| Card { number: "4242 4242 42", ..valid }, "#card-number", "card number"),
    (|valid| Card { expiry: "0120", ..valid }, "#card-expiry", "expired"),
    (|valid| Card { expiry: "1339", ..valid }, "#card-expiry", "expiry date"),
    (|valid| Card { code: "73", ..valid }, "#card-cvc", "security code"),
];

async fn invalid_input_is_marked_and_not_sent(provider: Provider) -> Result<()> {
    let shop = Shop::new(provider).await?;
    let link = shop.link(1900).await?;
    shop.visit(async |browser| {
        let tab = open(browser, &link).await?;
        let page = tab.top();
        page.click(BUTTON).await?;
        assert_marked(&page, "#card-number", "card number").await?;
        ensure!(page.focused().await? == "#card-number", "{} has the focus", page.focused().await?);
        ensure!(page.count("[aria-invalid=true]").await? == 5, "not every empty field is marked");
        tab.screenshot("empty").await?;
        let valid = card("4242424242424242");
        for (mistake, input, message) in MISTAKES {
            let (before, invalid) = (request_count(browser), mistake(valid));
            invalid.enter(browser, &page).await?;
            // The field has lost the focus, but the button was not clicked.
            assert_marked(&page, input, message).await?;
            ensure!(page.count("[aria-invalid=true]").await? == 1, "other fields are marked");
            page.click(BUTTON).await?;
            page.wait(&format!("document.activeElement.matches('{input}')")).await?;
            if input == "#card-expiry" {
                tab.screenshot("invalid").await?;
            }
            ensure!(request_count(browser) == before, "{invalid:?} was sent");
        }
        valid.enter(browser, &page).await?;
        ensure!(page.count("[aria-invalid=true]").await? == 0, "a corrected field is still marked");
        page.click(BUTTON).await?;
        assert_receipt(&tab, "$19.00").await
    })
    .await?;
    assert_eq!(shop.payments().await?.len(), 1);
    Ok(())
}

/// The number of requests, without the icon that browsers request on their own.
fn request_count(browser: &Browser) -> usize {
    browser.requests().iter().filter(|request| request.path() != "/favicon.ico").count()
}

/// Fails unless the message is visible at the field and announced by screen readers.
async fn assert_marked(page: &Frame<'_>, input: &str, text: &str) -> Result<()> {
    let message = format!("{input}-error");
    page.shows(&message, text).await?;
    ensure!(page.attribute(input, "aria-invalid").await?.as_deref() == Some("true"));
    let element = page.accessibility(input).await?;
    ensure!(element.invalid && element.description.contains(&page.text(&message).await?), "{element:?}");
    let described = page.attribute(input, "aria-describedby").await?.unwrap_or_default();
    ensure!(described.split(' ').any(|id| format!("#{id}") == message), "{input} is described by {described}");
    Ok(())
}
