//! What is typed wrong is said at its field: when the field is left, and before anything is sent.

use anyhow::{Result, ensure};
use testkit::browser::{Browser, Frame};

use super::{BUTTON, is_paid, open};
use crate::support::{Card, Provider, Shop, at_each_provider, card};

at_each_provider! { what_is_wrong_is_marked_and_nothing_is_sent }

/// What somebody types wrong of a good card.
type Mistake = fn(Card) -> Card;

const WRONG: [(Mistake, &str, &str); 5] = [
    (|good| Card { number: "4242424242424241", ..good }, "#card-number", "card number"),
    (|good| Card { number: "4242", ..good }, "#card-number", "card number"),
    (|good| Card { expiry: "0120", ..good }, "#card-expiry", "expired"),
    (|good| Card { expiry: "1339", ..good }, "#card-expiry", "expiry date"),
    (|good| Card { code: "73", ..good }, "#card-cvc", "security code"),
];

async fn what_is_wrong_is_marked_and_nothing_is_sent(provider: Provider) -> Result<()> {
    let shop = Shop::new(provider).await?;
    let link = shop.link(1900).await?;
    shop.visit(async |browser| {
        let tab = open(browser, &link).await?;
        let page = tab.top();
        page.click(BUTTON).await?;
        is_marked(&page, "#card-number", "card number").await?;
        ensure!(page.focused().await? == "#card-number", "{} has the keys", page.focused().await?);
        ensure!(page.count("[aria-invalid=true]").await? == 5, "each field that is empty is marked");
        tab.picture("empty").await?;
        let good = card("4242424242424242");
        for (wrong, input, says) in WRONG {
            let (before, wrong) = (sent(browser), wrong(good));
            wrong.enter(browser, &page).await?;
            // The field was left since, and nothing was pressed.
            is_marked(&page, input, says).await?;
            ensure!(page.count("[aria-invalid=true]").await? == 1, "one field is marked");
            page.click(BUTTON).await?;
            page.wait(&format!("document.activeElement.matches('{input}')")).await?;
            if input == "#card-expiry" {
                tab.picture("fault").await?;
            }
            ensure!(sent(browser) == before, "{wrong:?} was sent somewhere");
        }
        good.enter(browser, &page).await?;
        ensure!(page.count("[aria-invalid=true]").await? == 0, "what was put right is still marked");
        page.click(BUTTON).await?;
        is_paid(&tab, "$19.00").await
    })
    .await?;
    assert_eq!(shop.payments().await?.len(), 1);
    Ok(())
}

/// Every request but for the icon that browsers ask for by themselves.
fn sent(browser: &Browser) -> usize {
    browser.requests().iter().filter(|request| request.path() != "/favicon.ico").count()
}

/// The message is at the field, for eyes and for screen readers.
async fn is_marked(page: &Frame<'_>, input: &str, says: &str) -> Result<()> {
    let message = format!("{input}-error");
    page.shows(&message, says).await?;
    ensure!(page.attribute(input, "aria-invalid").await?.as_deref() == Some("true"));
    let spoken = page.spoken(input).await?;
    ensure!(spoken.invalid && spoken.description.contains(&page.text(&message).await?), "{spoken:?}");
    let described = page.attribute(input, "aria-describedby").await?.unwrap_or_default();
    ensure!(described.split(' ').any(|id| format!("#{id}") == message), "{input} is described by {described}");
    Ok(())
}
