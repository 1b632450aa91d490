//! The actions that only the portal has.

use ::texts::Language;
use domain::users::Area;
use providers::capabilities::Permission;

use super::{Action, Field, Kind, PortalChange, Request, Right, action, optional, required};

/// The roles, as they are chosen.
pub(crate) const ROLES: &[&str] = &["viewer", "support", "developer", "owner"];

/// The languages of e-mails.
const LANGUAGES: [&str; Language::NAMED.len()] = {
    let mut names = [""; Language::NAMED.len()];
    let mut i = 0;
    while i < names.len() {
        names[i] = Language::NAMED[i].0;
        i += 1;
    }
    names
};

/// The e-mails that an account can send.
pub(crate) const MAILS: [&str; 3] = ["invoices", "receipts", "failed collections"];

fn mails() -> Vec<&'static str> {
    MAILS.to_vec()
}

fn operations() -> Vec<&'static str> {
    Permission::ALL.iter().map(|operation| operation.name()).collect()
}

const fn change(page: &'static str, name: &'static str, label: &'static str, area: Area, kind: PortalChange) -> Action {
    action(page, name, label, Right::Area(area), Request::Portal(kind))
}

/// A change of the object in the address.
const fn object_change(
    page: &'static str,
    name: &'static str,
    label: &'static str,
    area: Area,
    kind: PortalChange,
) -> Action {
    Action { has_object: true, ..change(page, name, label, area, kind) }
}

const KEY_NAME: Field = optional("name", "Name", Kind::Short);

pub(super) const ACTIONS: [Action; 21] = [
    Action {
        fields: &[
            KEY_NAME,
            required("kind", "Kind", Kind::Choice(&["secret", "publishable"])),
            optional("rights", "Rights", Kind::Choice(&["everything", "read only", "selected"])),
            optional("entitlements", "Selected rights (if any is ticked, only these)", Kind::Many(operations)),
        ],
        ..change("keys", "new", "Create API key", Area::Keys, PortalChange::CreateKey)
    },
    Action {
        applies: |key| key["status"] != "revoked",
        fields: &[KEY_NAME],
        ..object_change("keys", "rename", "Rename", Area::Keys, PortalChange::RenameKey)
    },
    Action {
        applies: |key| key["status"] == "active",
        fields: &[KEY_NAME],
        consequence: Some("A new key is shown once. The present one is refused after 24 hours."),
        ..object_change("keys", "rotate", "Rotate", Area::Keys, PortalChange::RotateKey)
    },
    Action {
        applies: |key| key["status"] != "revoked",
        consequence: Some("Requests with this key are refused from now on."),
        ..object_change("keys", "revoke", "Revoke", Area::Keys, PortalChange::RevokeKey)
    },
    Action {
        fields: &[optional("origins", "Allowed origins, one per line", Kind::Lines)],
        ..change("keys", "origins", "Save", Area::Keys, PortalChange::SetOrigins)
    },
    Action {
        fields: &[
            required("name", "Name", Kind::Text),
            optional("supportContact", "Support contact", Kind::Text),
            optional("address", "Address, one line each", Kind::Lines),
            optional("taxNumber", "Tax number", Kind::Text),
            optional("color", "Colour, such as #0b57c4", Kind::Text),
            required("timezone", "Time zone of invoices", Kind::Text),
            optional("tax", "Tax", Kind::Modifier),
            optional("surcharge", "Surcharge", Kind::Modifier),
            optional("tip", "Tip", Kind::Modifier),
        ],
        ..change("settings", "save", "Save", Area::Settings, PortalChange::SaveSettings)
    },
    Action {
        fields: &[required("logo", "Logo", Kind::Image)],
        ..change("settings", "logo", "Save logo", Area::Settings, PortalChange::SaveLogo)
    },
    Action {
        applies: |settings| settings["hasLogo"] == true,
        ..change("settings", "remove-logo", "Remove logo", Area::Settings, PortalChange::RemoveLogo)
    },
    Action {
        fields: &[
            optional("mails", "Send to customers", Kind::Many(mails)),
            required("language", "Language", Kind::Choice(&LANGUAGES)),
            optional("testRecipients", "Recipients in test mode, one per line", Kind::Lines),
        ],
        ..change("settings", "mail", "Save e-mails", Area::Settings, PortalChange::SaveMail)
    },
    Action {
        fields: &[required("email", "E-mail", Kind::Email), required("role", "Role", Kind::Choice(ROLES))],
        ..change("team", "new", "Create invitation", Area::Settings, PortalChange::Invite)
    },
    Action {
        applies: |row| row["object"] == "invitation",
        ..object_change("team", "revoke", "Revoke", Area::Settings, PortalChange::RevokeInvitation)
    },
    Action {
        applies: |row| row["object"] == "user",
        fields: &[required("role", "Role", Kind::Choice(ROLES))],
        ..object_change("team", "save", "Save", Area::Settings, PortalChange::SetRole)
    },
    Action {
        applies: |row| row["object"] == "user",
        consequence: Some("The user is signed out and can no longer sign in."),
        ..object_change("team", "remove", "Remove", Area::Settings, PortalChange::RemoveMember)
    },
    Action {
        fields: &[
            required("current", "Current password", Kind::Password),
            required("password", "New password", Kind::Password),
        ],
        ..change("security", "password", "Save password", Area::Profile, PortalChange::ChangePassword)
    },
    Action {
        applies: |user| user["hasFactor"] == false,
        fields: &[
            required("code", "Code", Kind::Code),
            required("current", "Current password", Kind::Password),
            required("secret", "Secret", Kind::Hidden),
        ],
        ..change("security", "factor", "Turn on", Area::Profile, PortalChange::AddFactor)
    },
    Action {
        applies: |user| user["hasFactor"] == true,
        fields: &[required("current", "Current password", Kind::Password)],
        ..change(
            "security",
            "recovery-codes",
            "Create recovery codes",
            Area::Profile,
            PortalChange::ReplaceRecoveryCodes,
        )
    },
    Action {
        applies: |user| user["hasFactor"] == true,
        fields: &[required("current", "Current password", Kind::Password)],
        ..change("security", "remove-factor", "Turn off", Area::Profile, PortalChange::RemoveFactor)
    },
    Action {
        fields: &[
            required("name", "Name", Kind::Short),
            required("current", "Current password", Kind::Password),
            required("credential", "Passkey", Kind::Passkey),
        ],
        ..change("security", "add-passkey", "Add passkey", Area::Profile, PortalChange::AddPasskey)
    },
    Action {
        fields: &[required("current", "Current password", Kind::Password)],
        ..object_change("security", "remove-passkey", "Remove", Area::Profile, PortalChange::RemovePasskey)
    },
    Action {
        applies: |session| session["isCurrent"] == false,
        ..object_change("security", "end", "End session", Area::Profile, PortalChange::EndSession)
    },
    Action {
        fields: &[optional("language", "Language", Kind::Language)],
        ..change("security", "language", "Save language", Area::Profile, PortalChange::SetLanguage)
    },
];
