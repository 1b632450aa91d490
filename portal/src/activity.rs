//! What users did.

use axum::extract::{Path, State};
use axum::response::Html;
use domain::users::latest_actions;
use maud::html;

use crate::address::of_object;
use crate::app::App;
use crate::failure::Failure;
use crate::fields::time;
use crate::layout::page;
use crate::session::{User, Work};
use crate::texts::{text, words};

pub(crate) async fn activity(
    State(app): State<App>,
    User(user): User,
    Path(mode): Path<String>,
) -> Result<Html<String>, Failure> {
    let work = Work::begin(&app, user, &mode).await?;
    let entries = latest_actions(app.api.pool(), work.caller.account_id).await.map_err(Failure::internal)?;
    let content = html! {
        h1 { (text("Activity")) }
        @if entries.is_empty() { p.empty { (text("Nothing was changed in the portal yet.")) } }
        div.scroll role="region" aria-label=(text("Activity")) tabindex="0" {
            table {
                thead { tr {
                    @for heading in ["Time", "User", "Action", "Object", "Result"] { th scope="col" { (text(heading)) } }
                } }
                tbody {
                    @for entry in &entries {
                        @let object = entry.object.as_deref().unwrap_or_default();
                        tr {
                            td { (time(&entry.began_at.to_string().into())) }
                            td { (entry.email) }
                            td { (words(&entry.action)) }
                            td { a href=[of_object(work.mode, object)] { (object) } }
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
                }
            }
        }
    };
    Ok(page(&work, "activity", text("Activity"), &content))
}
