//! API keys, and the origins that may use the publishable ones.

use axum::response::Html;
use domain::accounts::{self, KeyKind, KeyRow};
use domain::users::Area;
use foundation::time::Timestamp;
use maud::{Markup, html};
use serde_json::json;

use super::{action_form, table};
use crate::app::App;
use crate::failure::Failure;
use crate::fields::{status, time};
use crate::layout::page;
use crate::notice::{Notice, copy};
use crate::session::AccountSession;
use crate::texts::{text, words_of};

/// Keys on the page.
const KEYS: i64 = 200;

pub(super) async fn show(app: &App, session: &AccountSession, notice: &Notice) -> Result<Html<String>, Failure> {
    let (db, account, now) = (app.api.pool(), session.caller.account_id, app.clock.now());
    let keys = accounts::newest_keys(db, account, KEYS).await.map_err(Failure::internal)?;
    let origins = accounts::retrieve(db, account).await.map_err(Failure::internal)?.allowed_origins;
    let rows = html! { @for key in &keys { (row(session, key, now, notice)) } };
    let origins = json!({"origins": origins});
    let content = html! {
        h1 { (text("API keys")) }
        (notice.markup())
        @if session.user.role.may(Area::Keys) {
            section.panel {
                h2 { (text("New key")) }
                (action_form(session, ("keys", "new"), None, &json!({}), notice))
            }
        }
        (table("API keys", &["Name", "Kind", "Status", "Key", "Actions", "Last used", "Entitlements", "Created", "ID"], &rows))
        section.panel {
            h2 { (text("Origins")) }
            p { (text("Web sites that may use the publishable keys, such as https://shop.example.")) }
            ul { @for origin in origins["origins"].as_array().into_iter().flatten() { li { (origin.as_str().unwrap_or_default()) } } }
            (action_form(session, ("keys", "origins"), None, &origins, notice))
        }
    };
    Ok(page(session, "keys", text("API keys"), &content))
}

fn row(session: &AccountSession, key: &KeyRow, now: Timestamp, notice: &Notice) -> Markup {
    let state = match (key.revoked_at, key.expires_at) {
        (Some(_), _) => "revoked",
        (None, Some(expiry)) if expiry <= now => "expired",
        (None, Some(_)) => "expiring",
        (None, None) => "active",
    };
    let (id, object) = (key.id.to_string(), json!({"status": state, "name": key.name}));
    html! {
        tr {
            td { (key.name.as_deref().unwrap_or_default()) }
            td { @match key.kind { KeyKind::Secret => (words_of("kind", "secret")), KeyKind::Publishable => (words_of("kind", "publishable")) } }
            td {
                (status("api_key", &object["status"]))
                @if let (None, Some(expiry)) = (key.revoked_at, key.expires_at) { " " (time(&expiry.to_string().into())) }
            }
            td.full { @if let Some(key) = &key.key_text { code { (key) } " " (copy(key)) } @else { (text("Shown once, when it was created")) } }
            td {
                (action_form(session, ("keys", "rotate"), Some(&id), &object, notice))
                @if state != "expired" { (action_form(session, ("keys", "revoke"), Some(&id), &object, notice)) }
                (action_form(session, ("keys", "rename"), Some(&id), &object, notice))
            }
            td { @if let Some(used) = key.last_used_at { (time(&used.to_string().into())) } @else { (text("Never")) } }
            td {
                @match &key.entitlements {
                    None => (text("All")),
                    Some(list) => details { summary { (list.len()) } ul { @for name in list { li { (name) } } } },
                }
            }
            td { (time(&key.created_at.to_string().into())) }
            td { (id) }
        }
    }
}
