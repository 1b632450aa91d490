//! The user's own password, second factor and sessions.

use axum::response::Html;
use domain::users::{new_factor, sessions};
use maud::{Markup, html};
use serde_json::json;

use super::{own_form, table};
use crate::app::App;
use crate::failure::Failure;
use crate::fields::time;
use crate::layout::page;
use crate::notice::Notice;
use crate::qr::qr;
use crate::session::Work;
use crate::texts::{marked, text};

pub(super) async fn show(app: &App, work: &Work, notice: &Notice) -> Result<Html<String>, Failure> {
    let (db, user) = (app.api.pool(), &work.user);
    let sessions = sessions(db, user.id, work.cookie.expose()).await.map_err(Failure::internal)?;
    let rows = html! {
        @for session in &sessions {
            tr {
                td { (session.user_agent.as_deref().unwrap_or_default()) }
                td { (time(&session.created_at.to_string().into())) }
                td { (time(&session.last_used_at.to_string().into())) }
                td {
                    @if session.is_current { (text("This one")) }
                    (own_form(work, ("security", "end"), Some(&session.id), &json!({"isCurrent": session.is_current}), notice))
                }
            }
        }
    };
    let content = html! {
        h1 { (text("Security")) }
        (notice.markup())
        section.panel {
            h2 { (text("Password")) }
            (own_form(work, ("security", "password"), None, &json!({}), notice))
        }
        section.panel {
            h2 { (text("Second factor")) }
            (factor(app, work, notice)?)
        }
        section.panel {
            h2 { (text("Language")) }
            (own_form(work, ("security", "language"), None, &json!({"language": user.language}), notice))
        }
        section {
            h2 { (text("Sessions")) }
            (table("Sessions", &["Browser", "Signed in", "Last active", "Actions"], &rows))
        }
    };
    Ok(page(work, "security", text("Security"), &content))
}

fn factor(app: &App, work: &Work, notice: &Notice) -> Result<Markup, Failure> {
    let user = json!({"hasFactor": work.user.has_factor});
    if work.user.has_factor {
        return Ok(html! {
            p { (text("A code of your app is asked for at each sign-in.")) }
            (own_form(work, ("security", "recovery-codes"), None, &user, notice))
            (own_form(work, ("security", "remove-factor"), None, &user, notice))
        });
    }
    let new = new_factor(&work.user.email, &app.host, notice.refused_value("secret")).map_err(Failure::internal)?;
    let user = json!({"hasFactor": false, "secret": new.secret.expose()});
    Ok(html! {
        p { (text("Scan this with an authenticator app, or enter the secret there. Then enter the code that the app shows.")) }
        (qr(new.url.expose())?)
        p { (marked("{name}: {value}", &[("name", html! { (text("Secret")) }), ("value", html! { code { (new.secret.expose()) } })])) }
        (own_form(work, ("security", "factor"), None, &user, notice))
    })
}
