//! The settings of the account.

use axum::response::Html;
use domain::accounts;
use domain::users::Area;
use maud::html;
use serde_json::json;

use super::own_form;
use crate::app::App;
use crate::failure::Failure;
use crate::layout::page;
use crate::notice::Notice;
use crate::session::Work;
use crate::texts::text;

pub(super) async fn show(app: &App, work: &Work, notice: &Notice) -> Result<Html<String>, Failure> {
    let account = accounts::retrieve(app.api.pool(), work.caller.account_id).await.map_err(Failure::internal)?;
    let modifiers = &account.modifiers;
    let settings = json!({
        "name": account.name,
        "supportContact": account.support_contact,
        "timezone": account.timezone,
        "tax": modifiers["tax"],
        "surcharge": modifiers["surcharge"],
        "tip": modifiers["tip"],
    });
    let contact = account.support_contact.as_deref().unwrap_or_default();
    let content = html! {
        h1 { (text("Settings")) }
        (notice.markup())
        dl {
            dt { (text("Account")) } dd { (account.id) }
            dt { (text("Merchant")) } dd { (account.merchant_id) }
            dt { (text("Provider")) } dd { (account.provider.name()) }
            dt { (text("Name")) } dd { (account.name) }
            dt { (text("Support contact")) } dd { (contact) }
            dt { (text("Time zone of invoices")) } dd { (account.timezone) }
        }
        @if work.user.role.may(Area::Settings) { section.panel {
            h2 { (text("Change")) }
            p { (text("Cardholders see the name and the support contact on payment pages and receipts. Tax, surcharge and tip are added there: a percentage such as 8.25%, or a fixed amount in minor units.")) }
            (own_form(work, ("settings", "save"), None, &settings, notice))
        } }
    };
    Ok(page(work, "settings", text("Settings"), &content))
}
