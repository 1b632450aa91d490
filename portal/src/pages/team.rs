//! The merchant's people.

use axum::response::Html;
use domain::users::{Area, INVITATION_LIFETIME, Role, invitations, members};
use maud::html;
use serde_json::json;

use super::{action_form, table};
use crate::app::App;
use crate::failure::Failure;
use crate::fields::time;
use crate::layout::page;
use crate::notice::Notice;
use crate::session::AccountSession;
use crate::texts::{filled, text, words_of};

/// What each role may do.
const ROLES: [(Role, &str); 4] = [
    (Role::Viewer, "Reads everything, except secrets."),
    (
        Role::Support,
        "Also payments, refunds, customers, invoices, links, subscriptions and plans, and erasing customers.",
    ),
    (Role::Developer, "As support, without erasing customers; also API keys, webhooks and the test clock."),
    (Role::Owner, "Everything, with settings and team."),
];

/// How an invitation reaches the person.
const BY_EMAIL: &str =
    "The person gets an e-mail with a link that works once; you see the link too. It lasts {days} days.";
const BY_HAND: &str =
    "An invitation is a link that works once; send it to the person, no e-mail is sent. It lasts {days} days.";

pub(super) async fn show(app: &App, session: &AccountSession, notice: &Notice) -> Result<Html<String>, Failure> {
    let (db, merchant) = (app.api.pool(), session.user.merchant_id);
    let members = members(db, merchant).await.map_err(Failure::internal)?;
    let open = invitations(db, merchant).await.map_err(Failure::internal)?;
    let users = html! {
        @for member in &members {
            @let (id, object) = (member.id.to_string(), json!({"object": "user", "role": member.role.name()}));
            tr {
                td { (member.email) }
                td { (words_of("role", member.role.name())) }
                td { @if member.has_factor { (text("On")) } @else { (text("Off")) } }
                td { @if let Some(used) = member.last_used_at { (time(&used.to_string().into())) } }
                td {
                    (action_form(session, ("team", "save"), Some(&id), &object, notice))
                    (action_form(session, ("team", "remove"), Some(&id), &object, notice))
                }
            }
        }
    };
    let invited = html! {
        @for invitation in &open {
            @let (id, object) = (invitation.id.to_string(), json!({"object": "invitation"}));
            tr {
                td { (invitation.email) }
                td { (words_of("role", invitation.role.name())) }
                td { (time(&invitation.created_at.to_string().into())) }
                td { (action_form(session, ("team", "revoke"), Some(&id), &object, notice)) }
            }
        }
    };
    let content = html! {
        h1 { (text("Team")) }
        (notice.markup())
        (table("Team", &["E-mail", "Role", "Second factor", "Last active", "Actions"], &users))
        section {
            h2 { (text("Invitations")) }
            @if open.is_empty() { p.empty { (text("None.")) } }
            @else { (table("Invitations", &["E-mail", "Role", "Created", "Actions"], &invited)) }
            @if session.user.role.may(Area::Settings) {
                p {
                    (filled(if app.sends_mail { BY_EMAIL } else { BY_HAND }, &[("days", &(INVITATION_LIFETIME.as_secs() / 86_400))]))
                }
                dl {
                    @for (role, rights) in ROLES { dt { (words_of("role", role.name())) } dd { (text(rights)) } }
                }
                div.panel { (action_form(session, ("team", "new"), None, &json!({}), notice)) }
            }
        }
    };
    Ok(page(session, "team", text("Team"), &content))
}
