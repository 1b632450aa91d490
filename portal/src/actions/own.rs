//! The actions that only the portal has.

use ::texts::Language;
use domain::users::Area;
use providers::capabilities::Permission;

use super::{Action, Field, Kind, Own, Request, Right, action, optional, required};

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

const fn own(page: &'static str, name: &'static str, label: &'static str, area: Area, change: Own) -> Action {
    action(page, name, label, Right::Area(area), Request::Own(change))
}

const KEY_NAME: Field = optional("name", "Name", Kind::Short);

pub(super) const ACTIONS: [Action; 19] = [
    Action {
        fields: &[
            KEY_NAME,
            required("kind", "Kind", Kind::Choice(&["secret", "publishable"])),
            optional("rights", "Rights", Kind::Choice(&["everything", "read only", "selected"])),
            optional("entitlements", "Selected rights (if any is ticked, only these)", Kind::Many(operations)),
        ],
        ..own("keys", "new", "Create API key", Area::Keys, Own::CreateKey)
    },
    Action {
        applies: |key| key["status"] != "revoked",
        fields: &[KEY_NAME],
        ..own("keys", "rename", "Rename", Area::Keys, Own::RenameKey)
    },
    Action {
        applies: |key| key["status"] == "active",
        fields: &[KEY_NAME],
        consequence: Some("A new key is shown once. The present one is refused after 24 hours."),
        ..own("keys", "rotate", "Rotate", Area::Keys, Own::RotateKey)
    },
    Action {
        applies: |key| key["status"] != "revoked",
        consequence: Some("Requests with this key are refused from now on."),
        ..own("keys", "revoke", "Revoke", Area::Keys, Own::RevokeKey)
    },
    Action {
        fields: &[optional("origins", "Allowed origins, one per line", Kind::Lines)],
        ..own("keys", "origins", "Save", Area::Keys, Own::SetOrigins)
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
        ..own("settings", "save", "Save", Area::Settings, Own::SaveSettings)
    },
    Action {
        fields: &[required("logo", "Logo", Kind::Image)],
        ..own("settings", "logo", "Save logo", Area::Settings, Own::SaveLogo)
    },
    Action {
        applies: |settings| settings["hasLogo"] == true,
        ..own("settings", "remove-logo", "Remove logo", Area::Settings, Own::RemoveLogo)
    },
    Action {
        fields: &[
            optional("mails", "Send to customers", Kind::Many(mails)),
            required("language", "Language", Kind::Choice(&LANGUAGES)),
            optional("testRecipients", "Recipients in test mode, one per line", Kind::Lines),
        ],
        ..own("settings", "mail", "Save e-mails", Area::Settings, Own::SaveMail)
    },
    Action {
        fields: &[required("email", "E-mail", Kind::Email), required("role", "Role", Kind::Choice(ROLES))],
        ..own("team", "new", "Create invitation", Area::Settings, Own::Invite)
    },
    Action {
        applies: |row| row["object"] == "invitation",
        ..own("team", "revoke", "Revoke", Area::Settings, Own::RevokeInvitation)
    },
    Action {
        applies: |row| row["object"] == "user",
        fields: &[required("role", "Role", Kind::Choice(ROLES))],
        ..own("team", "save", "Save", Area::Settings, Own::SetRole)
    },
    Action {
        applies: |row| row["object"] == "user",
        consequence: Some("The user is signed out and can no longer sign in."),
        ..own("team", "remove", "Remove", Area::Settings, Own::RemoveMember)
    },
    Action {
        fields: &[
            required("current", "Current password", Kind::Password),
            required("password", "New password", Kind::Password),
        ],
        ..own("security", "password", "Save password", Area::Own, Own::ChangePassword)
    },
    Action {
        applies: |user| user["hasFactor"] == false,
        fields: &[
            required("code", "Code", Kind::Code),
            required("current", "Current password", Kind::Password),
            required("secret", "Secret", Kind::Hidden),
        ],
        ..own("security", "factor", "Turn on", Area::Own, Own::AddFactor)
    },
    Action {
        applies: |user| user["hasFactor"] == true,
        fields: &[required("current", "Current password", Kind::Password)],
        ..own("security", "recovery-codes", "Create recovery codes", Area::Own, Own::ReplaceRecoveryCodes)
    },
    Action {
        applies: |user| user["hasFactor"] == true,
        fields: &[required("current", "Current password", Kind::Password)],
        ..own("security", "remove-factor", "Turn off", Area::Own, Own::RemoveFactor)
    },
    Action {
        applies: |session| session["isCurrent"] == false,
        ..own("security", "end", "End session", Area::Own, Own::EndSession)
    },
    Action {
        fields: &[optional("language", "Language", Kind::Language)],
        ..own("security", "language", "Save language", Area::Own, Own::SetLanguage)
    },
];
