//! The changes that only the portal makes: each is one transaction with its record.

use std::time::Duration;

use ::texts::Language;
use axum::body::Bytes;
use domain::accounts::{self, AccountSettings, KeyKind, Picture};
use domain::mails;
use domain::users::{self, Begun, Change, Confirmed, NewPassword, Outcome, Role};
use foundation::crypto::{Secret, hex, sha256};
use foundation::error::{Error, Result};
use foundation::id::{AccountId, InvitationId, KeyId, PasskeyId, UserId};
use foundation::web_url::WebOrigin;
use providers::capabilities::Permission;
use serde_json::{Map, Value, json};

use crate::actions::{Action, MAILS, PortalChange};
use crate::app::App;
use crate::failure::Failure;
use crate::picture;
use crate::session::AccountSession;
use crate::texts::{language, text};

/// How long a key that is rotated stays valid.
const GRACE: Duration = Duration::from_secs(86_400);

/// The result of an action.
pub(crate) struct Done {
    pub(crate) outcome: Outcome,
    /// The value of the session's cookie, if it has a new one.
    pub(crate) cookie: Option<Secret<String>>,
}

impl From<Outcome> for Done {
    fn from(outcome: Outcome) -> Self {
        Self { outcome, cookie: None }
    }
}

/// The result of a change: the object, what is shown once, and the value of the session's cookie if it has a new one.
#[derive(Default)]
struct ActionResult {
    object: Option<String>,
    secret: Option<Secret<String>>,
    cookie: Option<Secret<String>>,
}

impl ActionResult {
    fn object(id: impl ToString) -> Self {
        Self { object: Some(id.to_string()), ..Self::default() }
    }

    fn secret(self, shown: &Value) -> Self {
        Self { secret: Some(Secret::new(shown.to_string())), ..self }
    }
}

/// The body as it goes into the hash of the record: of what is secret, only a keyed hash, which no dump opens.
pub(crate) fn hashed(app: &App, action: &Action, nonce: &str, body: &Value) -> Value {
    let mut hashed = body.clone();
    for field in action.fields.iter().filter(|field| field.kind.is_secret()) {
        let text = format!("portal form {nonce} {}", string(body, field.name));
        hashed[field.name] = hex(&app.api.peppers().current().hash(&text)).into();
    }
    hashed
}

/// What was checked and computed before the transaction, because it takes some time of a processor.
#[derive(Default)]
struct Prepared {
    confirmed: Option<Confirmed>,
    password: Option<NewPassword>,
    logo: Option<Picture>,
}

async fn prepare(
    app: &App,
    session: &AccountSession,
    (kind, id): (PortalChange, Option<&str>),
    body: &Value,
    file: Option<Bytes>,
) -> Result<Prepared> {
    if kind == PortalChange::SaveLogo {
        // The file of this field and of no other one.
        let file = file.filter(|file| hex(&sha256(file)) == string(body, "logo")).unwrap_or_default();
        let logo = picture::read(file, session.caller.account_id).await?;
        return Ok(Prepared { logo: Some(logo), ..Prepared::default() });
    }
    if !matches!(
        kind,
        PortalChange::ChangePassword
            | PortalChange::AddFactor
            | PortalChange::ReplaceRecoveryCodes
            | PortalChange::RemoveFactor
            | PortalChange::AddPasskey
            | PortalChange::RemovePasskey
    ) {
        return Ok(Prepared::default());
    }
    if kind == PortalChange::RemovePasskey {
        // A passkey of another user is unknown, whatever is entered.
        let id = PasskeyId::from_request(id.unwrap_or_default())?;
        let own = users::passkeys(app.api.pool(), session.user.id).await?;
        own.iter().find(|passkey| passkey.id == id).ok_or_else(|| Error::no_such("passkey", id))?;
    }
    if !app.may_confirm(session.user.id).await {
        return Err(Error::invalid("current", text("There were too many attempts. Please try again in some minutes.")));
    }
    let secret = |name: &str| Secret::new(string(body, name).to_owned());
    let confirmed = users::confirm(app.api.pool(), session.user.id, secret("current")).await;
    if !matches!(confirmed, Err(Error::Invalid { .. })) {
        app.restore_confirmation(session.user.id).await;
    }
    let confirmed = confirmed?;
    let password = match kind == PortalChange::ChangePassword {
        true => Some(NewPassword::hash(secret("password")).await?),
        false => None,
    };
    Ok(Prepared { confirmed: Some(confirmed), password, logo: None })
}

/// Makes the change, unless another request with this nonce has, or the user may no longer make it.
pub(crate) async fn once(
    app: &App,
    session: &AccountSession,
    (action, kind): (&Action, PortalChange),
    id: Option<&str>,
    (body, file): (&Value, Option<Bytes>),
    record: users::Action,
) -> Result<Done, Failure> {
    let (object, db) = (record.object.clone(), app.api.pool());
    let prepared = match users::find_action(db, record.user, &record.nonce).await.map_err(Failure::internal)? {
        Begun::First(()) => prepare(app, session, (kind, id), body, file).await,
        // Nothing is computed for a form that was sent before.
        Begun::Again(_) | Begun::Other => Ok(Prepared::default()),
    };
    // Also if that has failed: the first request with this nonce may have replaced the password that was to be confirmed.
    let mut change = match record.begin_change(db).await.map_err(Failure::internal)? {
        Begun::First(change) => change,
        Begun::Again(Some(outcome)) => return Ok(outcome.into()),
        Begun::Again(None) => return Err(Failure::internal("an action without an outcome")),
        Begun::Other => {
            return Ok(Outcome::refused(object, text("This form was sent before. Please use the new one.")).into());
        }
    };
    let user =
        users::lock_user(&mut change, &session.user, session.cookie.expose()).await.map_err(Failure::internal)?;
    let session = &AccountSession { user: user.ok_or(Failure::SignedOut)?, ..session.clone() };
    if !action.is_allowed(session) {
        return Err(Failure::Forbidden);
    }
    let made = match prepared {
        Ok(prepared) => make(app, session, kind, (id.unwrap_or_default(), body, prepared), &mut change).await,
        Err(error) => Err(error),
    };
    match made {
        Ok(ActionResult { object, secret, cookie }) => {
            let outcome = change.commit(app.api.encryption(), object, secret).await.map_err(Failure::unknown)?;
            Ok(Done { outcome, cookie })
        }
        Err(error) => {
            change.rollback().await.map_err(Failure::internal)?;
            refused(object, error).map(Done::from)
        }
    }
}

fn refused(object: Option<String>, error: Error) -> Result<Outcome, Failure> {
    if let Error::NotFound(_) = error {
        Err(Failure::NotFound)
    } else if let Error::Invalid { .. } | Error::Conflict(_) = error {
        Ok(Outcome::refused(object, &error.to_string()))
    } else {
        Err(Failure::of_limited(error))
    }
}

async fn make(
    app: &App,
    session: &AccountSession,
    kind: PortalChange,
    (id, body, prepared): (&str, &Value, Prepared),
    tx: &mut Change,
) -> Result<ActionResult> {
    let (now, merchant, account) = (app.clock.now(), session.user.merchant_id, session.caller.account_id);
    let confirmed = || prepared.confirmed.as_ref().ok_or_else(|| Error::internal("no password was confirmed"));
    match kind {
        PortalChange::CreateKey => create_key(app, account, body, tx).await,
        PortalChange::RenameKey => {
            accounts::rename(&mut **tx, Some(account), KeyId::from_request(id)?, string(body, "name")).await?;
            Ok(ActionResult::default())
        }
        PortalChange::RotateKey => rotate_key(app, (account, id), body, tx).await,
        PortalChange::RevokeKey => {
            accounts::revoke(&mut **tx, Some(account), KeyId::from_request(id)?, now).await?;
            Ok(ActionResult::default())
        }
        PortalChange::SetOrigins => {
            accounts::set(tx, now, account, &origins(body)?).await?;
            Ok(ActionResult::object(account))
        }
        PortalChange::SaveSettings => {
            accounts::set(tx, now, account, &settings(body)).await?;
            Ok(ActionResult::object(account))
        }
        PortalChange::SaveLogo => {
            let logo = prepared.logo.ok_or_else(|| Error::internal("no logo was read"))?;
            accounts::set_logo(tx, now, account, &logo).await?;
            Ok(ActionResult::object(account))
        }
        PortalChange::RemoveLogo => {
            accounts::remove_logo(tx, account).await?;
            Ok(ActionResult::object(account))
        }
        PortalChange::SaveMail => save_mail(app, account, body, tx).await,
        PortalChange::Invite => invite(app, session, body, tx).await,
        PortalChange::RevokeInvitation => {
            users::revoke_invitation(tx, merchant, InvitationId::from_request(id)?).await?;
            Ok(ActionResult::default())
        }
        PortalChange::SetRole => {
            users::set_role(tx, merchant, UserId::from_request(id)?, role(body)?).await?;
            Ok(ActionResult::default())
        }
        PortalChange::RemoveMember => {
            users::remove(tx, now, Some(merchant), UserId::from_request(id)?).await?;
            Ok(ActionResult::default())
        }
        PortalChange::ChangePassword => change_password(session, confirmed()?, prepared.password, tx).await,
        PortalChange::AddFactor => add_factor(app, session, confirmed()?, body, tx).await,
        PortalChange::ReplaceRecoveryCodes => {
            Ok(recovery(session, &users::replace_recovery_codes(tx, confirmed()?).await?))
        }
        PortalChange::RemoveFactor => {
            users::remove_factor(tx, confirmed()?).await?;
            Ok(ActionResult::object(session.user.id))
        }
        PortalChange::AddPasskey => add_passkey(app, session, confirmed()?, body, tx).await,
        PortalChange::RemovePasskey => {
            users::remove_passkey(tx, confirmed()?, PasskeyId::from_request(id)?).await?;
            Ok(ActionResult::default())
        }
        PortalChange::SetLanguage => set_language(session, body, tx).await,
        PortalChange::EndSession => {
            users::end_session(tx, session.user.id, id).await?;
            Ok(ActionResult::default())
        }
    }
}

async fn change_password(
    session: &AccountSession,
    confirmed: &Confirmed,
    new: Option<NewPassword>,
    tx: &mut Change,
) -> Result<ActionResult> {
    let new = new.ok_or_else(|| Error::internal("no password was hashed"))?;
    let cookie = users::change_password(tx, confirmed, session.cookie.expose(), new).await?;
    Ok(ActionResult { cookie: Some(cookie), ..ActionResult::object(session.user.id) })
}

async fn add_factor(
    app: &App,
    session: &AccountSession,
    confirmed: &Confirmed,
    body: &Value,
    tx: &mut Change,
) -> Result<ActionResult> {
    let (secret, code) = (Secret::new(string(body, "secret").to_owned()), string(body, "code"));
    let by = (confirmed, session.cookie.expose().as_str());
    let (codes, cookie) = users::add_factor(tx, app.api.encryption(), by, secret, code).await?;
    Ok(ActionResult { cookie: Some(cookie), ..recovery(session, &codes) })
}

async fn add_passkey(
    app: &App,
    session: &AccountSession,
    user: &Confirmed,
    body: &Value,
    tx: &mut Change,
) -> Result<ActionResult> {
    // No page has the form then.
    let site = app.passkeys.as_deref().ok_or_else(|| Error::no_such("page", ""))?;
    let (user, name) = ((user, session.cookie.expose().as_str()), string(body, "name"));
    let id = users::add_passkey(tx, site, app.clock.now(), user, name, string(body, "credential")).await?;
    Ok(ActionResult::object(id))
}

async fn set_language(session: &AccountSession, body: &Value, tx: &mut Change) -> Result<ActionResult> {
    let chosen = string(body, "language");
    let language = Language::of_tag(chosen);
    if language.is_none() && !chosen.is_empty() {
        return Err(Error::invalid("language", "choose one"));
    }
    users::set_language(tx, session.user.id, language.map(Language::code)).await?;
    Ok(ActionResult::object(session.user.id))
}

async fn save_mail(app: &App, account: AccountId, body: &Value, tx: &mut Change) -> Result<ActionResult> {
    if !app.sends_mail {
        return Err(Error::conflict("this service sends no e-mails"));
    }
    mails::save_settings(tx, account, &mail_settings(body)?).await?;
    Ok(ActionResult::object(account))
}

async fn invite(app: &App, session: &AccountSession, body: &Value, tx: &mut Change) -> Result<ActionResult> {
    let (email, role) = (string(body, "email"), role(body)?);
    let (id, token) = users::invite(tx, app.clock.now(), &session.user, (email, language().code()), role).await?;
    let link = Secret::new(format!("{}/invitations/{}", app.origin, token.expose()));
    if app.sends_mail {
        mails::write_invitation(tx, app.api.encryption(), session.caller.account_id, id, &link).await?;
    }
    Ok(ActionResult::object(id).secret(&json!({"link": link.expose()})))
}

async fn create_key(app: &App, account: AccountId, body: &Value, tx: &mut Change) -> Result<ActionResult> {
    let selected = strings(body, "entitlements").into_iter().map(entitlement).collect::<Result<Vec<_>>>()?;
    let is_read = |operation: &Permission| Role::Viewer.allows(*operation);
    let only = match string(body, "rights") {
        "read only" if !selected.is_empty() => {
            return Err(Error::invalid("rights", "choose selected for the rights that are ticked"));
        }
        _ if !selected.is_empty() => Some(selected),
        "read only" => Some(Permission::ALL.iter().copied().filter(is_read).collect()),
        "selected" => return Err(Error::invalid("entitlements", "select at least one right")),
        _ => None,
    };
    let chosen = (Some(string(body, "name")), only.as_deref());
    let (now, peppers) = (app.clock.now(), app.api.peppers());
    let kind = match string(body, "kind") {
        "secret" => KeyKind::Secret,
        "publishable" => KeyKind::Publishable,
        _ => return Err(Error::invalid("kind", "choose one")),
    };
    let key = match kind {
        KeyKind::Secret => accounts::issue_secret(tx, peppers, app.api.encryption(), now, account, chosen).await?,
        KeyKind::Publishable => accounts::issue_publishable(tx, peppers, now, account, chosen).await?,
    };
    Ok(issued(&key))
}

async fn rotate_key(
    app: &App,
    (account, id): (AccountId, &str),
    body: &Value,
    tx: &mut Change,
) -> Result<ActionResult> {
    let (key, name) = ((Some(account), KeyId::from_request(id)?), Some(string(body, "name")));
    let (now, peppers, encryption) = (app.clock.now(), app.api.peppers(), app.api.encryption());
    let (_, key, _) = accounts::rotate(tx, peppers, encryption, now, key, name, GRACE).await?;
    Ok(issued(&key))
}

fn issued(key: &accounts::IssuedKey) -> ActionResult {
    let mut shown = json!({"key": key.key.expose()});
    if let Some(secret) = &key.signing_secret {
        shown["signingSecret"] = secret.expose().as_str().into();
    }
    ActionResult::object(key.id).secret(&shown)
}

fn recovery(session: &AccountSession, codes: &[String]) -> ActionResult {
    ActionResult::object(session.user.id).secret(&json!({"recoveryCodes": codes.join("\n")}))
}

fn origins(body: &Value) -> Result<AccountSettings> {
    let origins = strings(body, "origins").into_iter().map(origin).collect::<Result<Vec<_>>>()?;
    Ok(AccountSettings { allowed_origins: Some(origins), ..AccountSettings::default() })
}

fn settings(body: &Value) -> AccountSettings {
    let modifiers: Map<String, Value> = ["tax", "surcharge", "tip"]
        .into_iter()
        .filter_map(|name| body.get(name).map(|modifier| (name.to_owned(), modifier.clone())))
        .collect();
    AccountSettings {
        name: Some(string(body, "name").to_owned()),
        timezone: Some(string(body, "timezone").to_owned()),
        support_contact: Some(string(body, "supportContact").to_owned()),
        address: Some(strings(body, "address").join("\n")),
        tax_number: Some(string(body, "taxNumber").to_owned()),
        color: Some(string(body, "color").to_owned()),
        modifiers: Some(Value::Object(modifiers)),
        ..AccountSettings::default()
    }
}

fn mail_settings(body: &Value) -> Result<mails::Settings> {
    let chosen = strings(body, "mails");
    let [invoices, receipts, collections] = MAILS.map(|name| chosen.contains(&name));
    let language = Language::NAMED.into_iter().find(|(name, _)| *name == string(body, "language"));
    let (_, language) = language.ok_or_else(|| Error::invalid("language", "choose one"))?;
    let test_recipients = strings(body, "testRecipients").into_iter().map(str::to_owned).collect();
    Ok(mails::Settings { invoices, receipts, collections, language: language.code().to_owned(), test_recipients })
}

fn string<'a>(body: &'a Value, name: &str) -> &'a str {
    body[name].as_str().unwrap_or_default()
}

fn strings<'a>(body: &'a Value, name: &str) -> Vec<&'a str> {
    body[name].as_array().into_iter().flatten().filter_map(Value::as_str).collect()
}

fn entitlement(text: &str) -> Result<Permission> {
    text.parse().map_err(|_| Error::invalid("entitlements", "choose one"))
}

fn origin(text: &str) -> Result<WebOrigin> {
    text.parse().map_err(|error| Error::invalid("origins", format!("{text}: {error}")))
}

fn role(body: &Value) -> Result<Role> {
    let named = Role::ALL.into_iter().find(|role| role.name() == string(body, "role"));
    named.ok_or_else(|| Error::invalid("role", "choose one"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The same form may be sent twice, and one of the two may have been in time.
    #[test]
    fn what_was_not_tried_in_time_is_not_refused() {
        assert!(matches!(refused(None, Error::Busy("too much at once")), Err(Failure::Unavailable)));
        assert!(matches!(refused(None, Error::conflict("the state")), Ok(Outcome { status: 422, .. })));
    }
}
