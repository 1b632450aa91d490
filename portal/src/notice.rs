//! What a page says about the form that led to it.

use domain::users::{Begun, find_action, take_secret};
use foundation::crypto::is_hex;
use maud::{Markup, html};
use serde_json::{Map, Value};

use crate::actions::Action;
use crate::app::App;
use crate::failure::{Failure, NOT_KNOWN};
use crate::form::Entered;
use crate::session::AccountSession;
use crate::texts::{button, label, labelled, text};

/// A form that was refused, of an action on an object if it has one.
struct Refused {
    action: &'static Action,
    id: Option<String>,
    entered: Entered,
}

/// At the beginning of a page.
#[derive(Default)]
pub(crate) struct Notice {
    shown: Markup,
    /// Whether the action was requested, and its outcome followed.
    is_requested: bool,
    /// What was entered in the form that was refused.
    refused: Option<Refused>,
}

impl Notice {
    /// The notice that a form was refused, for this reason.
    pub(crate) fn refused(action: &'static Action, id: Option<String>, entered: Entered, problem: &str) -> Self {
        let shown = html! { p.problem role="alert" { (labelled(button(action.label), problem)) } };
        Self { shown, refused: Some(Refused { action, id, entered }), ..Self::default() }
    }

    /// The notice that a form has begun something whose outcome is not known. `again` requests it.
    pub(crate) fn unknown(action: &Action, again: &Markup) -> Self {
        let shown = html! {
            p.problem role="alert" { (labelled(button(action.label), text(NOT_KNOWN))) }
            (again)
        };
        Self { shown, ..Self::default() }
    }

    /// Nothing has happened yet, but something is known of what will be entered.
    pub(crate) fn known(action: &'static Action, entered: Entered) -> Self {
        Self { refused: Some(Refused { action, id: None, entered }), ..Self::default() }
    }

    /// The notice of the action whose nonce is in the query, if it was one on this object.
    ///
    /// # Errors
    /// Only if the database fails.
    pub(crate) async fn of_query(
        app: &App,
        session: &AccountSession,
        query: &str,
        object: Option<&str>,
    ) -> Result<Self, Failure> {
        let Some(nonce) = query.strip_prefix("did=").filter(|nonce| is_hex(nonce, 16)) else {
            return Ok(Self::default());
        };
        let (db, user) = (app.api.pool(), session.user.id);
        let found = find_action(db, user, nonce).await.map_err(Failure::internal)?;
        let Begun::Again(Some(outcome)) = found else { return Ok(Self::default()) };
        if object.is_some() && outcome.object.as_deref() != object {
            return Ok(Self::default());
        }
        let secret = take_secret(db, app.api.encryption(), user, nonce).await.map_err(Failure::internal)?;
        let secrets = secret.and_then(|secret| serde_json::from_str::<Map<String, Value>>(secret.expose()).ok());
        let is_requested = outcome.status == 202;
        let shown = html! {
            @if !is_requested { p.done role="status" { (text("Done.")) } }
            @if let Some(secrets) = secrets { (once(&secrets)) }
        };
        Ok(Self { shown, is_requested, refused: None })
    }

    /// Whether the outcome of an action on this object is not known yet.
    pub(crate) fn is_awaited(&self, object: &Value) -> bool {
        let refunds = object["refunds"].as_array().into_iter().flatten();
        let is_pending = object["pendingOperation"].is_string() || object["pending"] == true;
        self.is_requested && (is_pending || refunds.into_iter().any(|refund| refund["status"] == "pending"))
    }

    /// The result of an action on this object.
    pub(crate) fn outcome(&self, object: &Value) -> Markup {
        html! {
            @if self.is_awaited(object) { p.done role="status" { (text("Requested. The outcome follows.")) } }
            @else if self.is_requested { p.done role="status" { (text("Done.")) } }
            (self.shown)
        }
    }

    pub(crate) fn markup(&self) -> &Markup {
        &self.shown
    }

    /// What the form of an action on this object shows: what was entered, or the object's values.
    pub(crate) fn entered(&self, action: &Action, id: Option<&str>, object: &Value) -> Entered {
        match &self.refused {
            Some(refused) if std::ptr::eq(refused.action, action) && refused.id.as_deref() == id => {
                refused.entered.clone()
            }
            Some(_) | None => Entered::of(action, object),
        }
    }

    /// What was entered in this field of a form that was refused.
    pub(crate) fn refused_value(&self, field: &str) -> Option<&str> {
        self.refused.as_ref().map(|refused| refused.entered.get(field)).filter(|value| !value.is_empty())
    }
}

/// What is shown only once.
fn once(secrets: &Map<String, Value>) -> Markup {
    html! {
        section.once {
            p { (text("Please store this now. It is not shown again.")) }
            dl {
                @for (name, value) in secrets {
                    @let value = value.as_str().unwrap_or_default();
                    dt { (label(name)) }
                    dd { code { (value) } " " (copy(value)) }
                }
            }
        }
    }
}

/// The button that copies a text.
pub(crate) fn copy(value: &str) -> Markup {
    html! {
        button.plain type="button" data-copy=(value) data-copied=(text("Copied")) hidden { (text("Copy")) }
    }
}
