//! The user's own password, second factor, passkeys, language and sessions.

use axum::Json;
use axum::extract::State;
use axum::response::Html;
use domain::users::{MAX_PASSKEYS, begin_passkey, new_factor, passkeys, sessions};
use maud::{Markup, html};
use serde_json::{Value, json};

use super::{action_form, table};
use crate::app::App;
use crate::failure::Failure;
use crate::fields::time;
use crate::layout::page;
use crate::notice::Notice;
use crate::qr::qr;
use crate::session::{AccountSession, User};
use crate::texts::{filled, marked, text};

pub(super) async fn show(app: &App, session: &AccountSession, notice: &Notice) -> Result<Html<String>, Failure> {
    let (db, user) = (app.api.pool(), &session.user);
    let sessions = sessions(db, user.id, session.cookie.expose()).await.map_err(Failure::internal)?;
    let rows = html! {
        @for row in &sessions {
            tr {
                td { (row.user_agent.as_deref().unwrap_or_default()) }
                td { (time(&row.created_at.to_string().into())) }
                td { (time(&row.last_used_at.to_string().into())) }
                td {
                    @if row.is_current { (text("This one")) }
                    (action_form(session, ("security", "end"), Some(&row.id), &json!({"isCurrent": row.is_current}), notice))
                }
            }
        }
    };
    let content = html! {
        h1 { (text("Security")) }
        (notice.markup())
        section.panel {
            h2 { (text("Password")) }
            (action_form(session, ("security", "password"), None, &json!({}), notice))
        }
        section.panel {
            h2 { (text("Second factor")) }
            (factor(app, session, notice)?)
        }
        section.panel {
            h2 { (text("Language")) }
            (action_form(session, ("security", "language"), None, &json!({"language": user.language}), notice))
        }
        section {
            h2 { (text("Passkeys")) }
            (own_passkeys(app, session, notice).await?)
        }
        section {
            h2 { (text("Sessions")) }
            (table("Sessions", &["Browser", "Signed in", "Last active", "Actions"], &rows))
        }
    };
    Ok(page(session, "security", text("Security"), &content))
}

fn factor(app: &App, session: &AccountSession, notice: &Notice) -> Result<Markup, Failure> {
    let user = json!({"hasFactor": session.user.has_factor});
    if session.user.has_factor {
        return Ok(html! {
            p { (text("A code of your app is asked for at each sign-in.")) }
            (action_form(session, ("security", "recovery-codes"), None, &user, notice))
            (action_form(session, ("security", "remove-factor"), None, &user, notice))
        });
    }
    let new = new_factor(&session.user.email, &app.host, notice.refused_value("secret")).map_err(Failure::internal)?;
    let user = json!({"hasFactor": false, "secret": new.secret.expose()});
    Ok(html! {
        p { (text("Scan this with an authenticator app, or enter the secret there. Then enter the code that the app shows.")) }
        (qr(new.url.expose())?)
        p { (marked("{name}: {value}", &[("name", html! { (text("Secret")) }), ("value", html! { code { (new.secret.expose()) } })])) }
        (action_form(session, ("security", "factor"), None, &user, notice))
    })
}

async fn own_passkeys(app: &App, session: &AccountSession, notice: &Notice) -> Result<Markup, Failure> {
    let own = passkeys(app.api.pool(), session.user.id).await.map_err(Failure::internal)?;
    let rows = html! {
        @for passkey in &own {
            tr {
                td { (passkey.name) }
                td { (time(&passkey.created_at.to_string().into())) }
                td { @if let Some(used) = passkey.last_used_at { (time(&used.to_string().into())) } }
                td { (action_form(session, ("security", "remove-passkey"), Some(&passkey.id.to_string()), &json!({}), notice)) }
            }
        }
    };
    Ok(html! {
        p { (text("With a passkey, on a device or a security key, you sign in without password and code.")) }
        @if !own.is_empty() { (table("Passkeys", &["Name", "Created", "Last used", "Actions"], &rows)) }
        @if app.passkeys.is_none() {
            p { (filled("Passkeys need a host name: the address of this portal, {host}, has none.", &[("host", &app.host)])) }
        } @else if own.len() >= MAX_PASSKEYS {
            p { (filled("There are {count} passkeys. Remove one to add another.", &[("count", &own.len())])) }
        } @else {
            div.panel {
                p.hint data-unsupported { (text("Passkeys cannot be added here: the browser does not support them, or scripts are off.")) }
                (action_form(session, ("security", "add-passkey"), None, &json!({}), notice))
            }
        }
    })
}

/// What the browser needs to make a passkey for the user.
pub(crate) async fn passkey_options(State(app): State<App>, user: User) -> Result<Json<Value>, Failure> {
    let site = app.passkeys.as_deref().ok_or(Failure::NotFound)?;
    let begun = begin_passkey(app.api.pool(), site, &user.signed_in, user.cookie.expose()).await;
    begun.map(Json).map_err(Failure::internal)
}
