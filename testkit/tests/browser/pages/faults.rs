//! What is typed wrong is said at the field, before anything is sent.

use anyhow::{Result, ensure};
use testkit::browser::{Browser, Frame};

use super::{BUTTON, is_paid, open};
use crate::support::{Card, Provider, Shop, at_each_provider, card};

at_each_provider! { what_is_wrong_is_marked_and_nothing_is_sent }

async fn what_is_wrong_is_marked_and_nothing_is_sent(provider: Provider) -> Result<()> {
    let shop = Shop::new(provider).await?;
    let link = shop.link(1900).await?;
    shop.visit(async |browser| {
        let tab = open(browser, &link).await?;
        let page = tab.top();
        page.click(BUTTON).await?;
        is_marked(&page, "#card-number", "card number").await?;
        let good = card("4242424242424242");
        for (wrong, input, says) in [
            (Card { number: "4242424242424241", ..good }, "#card-number", "card number"),
            (Card { number: "4242", ..good }, "#card-number", "card number"),
            (Card { expiry: "0120", ..good }, "#card-expiry", "expired"),
            (Card { expiry: "1339", ..good }, "#card-expiry", "expiry date"),
            (Card { code: "73", ..good }, "#card-cvc", "security code"),
        ] {
            let before = sent(browser);
            wrong.enter(browser, &page).await?;
            page.click(BUTTON).await?;
            is_marked(&page, input, says).await?;
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

/// The field is the one to put right: eyes, keys and screen readers are led there.
async fn is_marked(page: &Frame<'_>, input: &str, says: &str) -> Result<()> {
    page.shows("#card-error", says).await?;
    ensure!(page.attribute("#card-error", "role").await?.as_deref() == Some("alert"));
    ensure!(page.focused().await? == input, "{} has the keys", page.focused().await?);
    ensure!(page.count("[aria-invalid=true]").await? == 1, "one field is marked");
    let spoken = page.spoken(input).await?;
    ensure!(spoken.invalid && spoken.description.contains(&page.text("#card-error").await?), "{spoken:?}");
    Ok(())
}
