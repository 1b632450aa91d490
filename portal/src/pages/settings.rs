//! The settings of the account.

use std::net::SocketAddr;

use ::texts::Language;
use axum::extract::{ConnectInfo, Path, State};
use axum::http::header::CONTENT_TYPE;
use axum::response::{Html, IntoResponse as _, Response};
use domain::accounts::{self, Logo};
use domain::mails::{self, Settings};
use domain::users::Area;
use maud::{Markup, html};
use serde_json::json;

use super::action_form;
use crate::actions::MAILS;
use crate::app::App;
use crate::failure::Failure;
use crate::layout::page;
use crate::notice::Notice;
use crate::session::{AccountSession, User};
use crate::texts::{listed, text};

pub(super) async fn show(app: &App, session: &AccountSession, notice: &Notice) -> Result<Html<String>, Failure> {
    let account = accounts::retrieve(app.api.pool(), session.caller.account_id).await.map_err(Failure::internal)?;
    let logo = present_logo(app, session).await?;
    let modifiers = &account.modifiers;
    let settings = json!({
        "name": account.name,
        "supportContact": account.support_contact,
        "address": account.address.as_deref().map(|address| address.lines().collect::<Vec<_>>()),
        "taxNumber": account.tax_number,
        "color": account.color,
        "hasLogo": logo.is_some(),
        "timezone": account.timezone,
        "tax": modifiers["tax"],
        "surcharge": modifiers["surcharge"],
        "tip": modifiers["tip"],
    });
    let contact = account.support_contact.as_deref().unwrap_or_default();
    let mail = if app.sends_mail {
        mail(app, session, notice).await?
    } else {
        html! {}
    };
    let content = html! {
        h1 { (text("Settings")) }
        (notice.markup())
        dl {
            dt { (text("Account")) } dd { (account.id) }
            dt { (text("Merchant")) } dd { (account.merchant_id) }
            dt { (text("Provider")) } dd { (account.provider.name()) }
            dt { (text("Name")) } dd { (account.name) }
            dt { (text("Support contact")) } dd { (contact) }
            dt { (text("Address")) } dd { @for line in account.address.iter().flat_map(|address| address.lines()) { (line) br; } }
            dt { (text("Tax number")) } dd { (account.tax_number.as_deref().unwrap_or_default()) }
            dt { (text("Colour")) } dd { (account.color.as_deref().unwrap_or_default()) }
            @if let Some(Logo { width, height, .. }) = logo {
                dt { (text("Logo")) }
                dd { img.logo src={ "/" (session.mode.name()) "/settings/logo.png" } width=(width) height=(height) alt=(account.name); }
            }
            dt { (text("Time zone of invoices")) } dd { (account.timezone) }
        }
        @if session.user.role.may(Area::Settings) { section.panel {
            h2 { (text("Change")) }
            p { (text("Customers see the name, the address, the tax number and the support contact on payment pages, documents and e-mails. Buttons and links there have the colour, darker or lighter where it would be hard to read. Tax, surcharge and tip are added there: a percentage such as 8.25%, or a fixed amount in minor units.")) }
            (action_form(session, ("settings", "save"), None, &settings, notice))
        }
        section.panel {
            h2 { (text("Logo")) }
            p { (text("Customers see it on payment pages, documents and e-mails, on a white background. A PNG or a JPEG of at most 256 KiB and 2,000 pixels in width and height; it is scaled down to at most 600 × 200 pixels.")) }
            (action_form(session, ("settings", "logo"), None, &settings, notice))
            (action_form(session, ("settings", "remove-logo"), None, &settings, notice))
        } }
        (mail)
    };
    Ok(page(session, "settings", text("Settings"), &content))
}

async fn present_logo(app: &App, session: &AccountSession) -> Result<Option<Logo>, Failure> {
    let mut db = app.api.pool().acquire().await.map_err(Failure::internal)?;
    Ok(accounts::payee(&mut db, session.caller.account_id).await.map_err(Failure::internal)?.logo)
}

/// The logo, from the portal's own origin.
pub(crate) async fn logo(
    State(app): State<App>,
    user: User,
    ConnectInfo(client): ConnectInfo<SocketAddr>,
    Path(mode): Path<String>,
) -> Result<Response, Failure> {
    let session = AccountSession::begin(&app, user, &mode).await?;
    let logo = present_logo(&app, &session).await?.ok_or(Failure::NotFound)?;
    let png = app.api.logo(logo.id, session.caller.account_id, client.ip()).await.map_err(Failure::of_limited)?;
    Ok(([(CONTENT_TYPE, "image/png")], png.ok_or(Failure::NotFound)?).into_response())
}

async fn mail(app: &App, session: &AccountSession, notice: &Notice) -> Result<Markup, Failure> {
    let saved = mails::settings(app.api.pool(), session.caller.account_id).await.map_err(Failure::internal)?;
    let Settings { invoices, receipts, collections, language, test_recipients } = &saved;
    let on = [invoices, receipts, collections].into_iter().zip(MAILS).filter(|(is_on, _)| **is_on);
    let on: Vec<_> = on.map(|(_, name)| name).collect();
    let shown: Vec<_> = on.iter().map(|name| text(name).to_owned()).collect();
    let named = Language::NAMED.into_iter().find(|(_, named)| named.code() == language.as_str());
    let language = named.map_or("", |(name, _)| name);
    let settings = json!({"mails": on, "language": language, "testRecipients": test_recipients});
    Ok(html! {
        section.panel {
            h2 { (text("E-mails to customers")) }
            dl {
                dt { (text("Sent")) } dd { @if on.is_empty() { (text("None")) } @else { (listed(&shown)) } }
                dt { (text("Language")) } dd { (text(language)) }
                dt { (text("Recipients in test mode")) } dd { (test_recipients.join(", ")) }
            }
            @if session.user.role.may(Area::Settings) {
                p { (text("A customer with a billing address in a country of another of these languages gets e-mails in that one. In test mode only the recipients named here get e-mails.")) }
                (action_form(session, ("settings", "mail"), None, &settings, notice))
            }
        }
    })
}
