//! What users did.

use axum::response::Html;
use domain::accounts::key_names;
use domain::users::latest_actions;
use foundation::id::KeyId;
use maud::html;

use super::table;
use crate::address::of_object;
use crate::app::App;
use crate::failure::Failure;
use crate::fields::time;
use crate::layout::page;
use crate::session::AccountSession;
use crate::texts::{text, words_of};

pub(super) async fn show(app: &App, session: &AccountSession) -> Result<Html<String>, Failure> {
    let (db, merchant) = (app.api.pool(), session.user.merchant_id);
    let entries = latest_actions(db, merchant).await.map_err(Failure::internal)?;
    let key = |object: &str| object.parse::<KeyId>().ok();
    let keys: Vec<_> = entries.iter().filter_map(|entry| key(entry.object.as_deref()?)).collect();
    let names = key_names(db, merchant, &keys).await.map_err(Failure::internal)?;
    let name =
        |object: &str| names.iter().find(|(named, _)| Some(*named) == key(object)).map(|(_, name)| name.as_str());
    let rows = html! {
        @for entry in &entries {
            @let object = entry.object.as_deref().unwrap_or_default();
            tr {
                td { (time(&entry.began_at.to_string().into())) }
                td { (entry.email) }
                td { (words_of("activity", &entry.action)) }
                td {
                    a href=[of_object(entry.mode, object)] { (object) }
                    @if let Some(name) = name(object) { " " (name) }
                }
                td { (words_of("mode", entry.mode.name())) }
                td {
                    @match entry.status {
                        Some(202) => (text("Requested")),
                        Some(..300) => (text("Done")),
                        Some(_) => (text("Refused")),
                        None => (text("Not known")),
                    }
                }
            }
        }
    };
    let content = html! {
        h1 { (text("Activity")) }
        @if entries.is_empty() { p.empty { (text("Nothing was changed in the portal yet.")) } }
        (table("Activity", &["Time", "User", "Action", "Object", "Data", "Result"], &rows))
    };
    Ok(page(session, "activity", text("Activity"), &content))
}
