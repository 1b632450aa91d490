//! The actions that only the portal has.

use domain::users::Area;
use providers::capabilities::Permission;

use super::Right::Area as In;
use super::{Action, Kind, Own, Request, optional, required};

/// The roles, as they are chosen.
pub(crate) const ROLES: &[&str] = &["viewer", "support", "developer", "owner"];

fn operations() -> Vec<&'static str> {
    Permission::ALL.iter().map(|operation| operation.name()).collect()
}

pub(super) const ACTIONS: [Action; 14] = [
    Action {
        name: "new",
        label: "Create API key",
        page: "keys",
        right: In(Area::Keys),
        applies: |_| true,
        request: Request::Own(Own::CreateKey),
        fields: &[
            required("kind", "Kind", Kind::Choice(&["secret", "publishable"])),
            optional("rights", "Rights", Kind::Choice(&["everything", "read only", "selected"])),
            optional("entitlements", "Selected rights (if any is ticked, only these)", Kind::Many(operations)),
        ],
    },
    Action {
        name: "rotate",
        label: "Rotate",
        page: "keys",
        right: In(Area::Keys),
        applies: |key| key["status"] == "active",
        request: Request::Own(Own::RotateKey),
        fields: &[],
    },
    Action {
        name: "revoke",
        label: "Revoke",
        page: "keys",
        right: In(Area::Keys),
        applies: |key| key["status"] != "revoked",
        request: Request::Own(Own::RevokeKey),
        fields: &[],
    },
    Action {
        name: "origins",
        label: "Save",
        page: "keys",
        right: In(Area::Keys),
        applies: |_| true,
        request: Request::Own(Own::SetOrigins),
        fields: &[optional("origins", "Allowed origins, one per line", Kind::Lines)],
    },
    Action {
        name: "save",
        label: "Save",
        page: "settings",
        right: In(Area::Settings),
        applies: |_| true,
        request: Request::Own(Own::SaveSettings),
        fields: &[
            required("name", "Name", Kind::Text),
            optional("supportContact", "Support contact", Kind::Text),
            required("timezone", "Time zone of invoices", Kind::Text),
            optional("tax", "Tax", Kind::Modifier),
            optional("surcharge", "Surcharge", Kind::Modifier),
            optional("tip", "Tip", Kind::Modifier),
        ],
    },
    Action {
        name: "new",
        label: "Create invitation",
        page: "team",
        right: In(Area::Settings),
        applies: |_| true,
        request: Request::Own(Own::Invite),
        fields: &[required("email", "E-mail", Kind::Email), required("role", "Role", Kind::Choice(ROLES))],
    },
    Action {
        name: "revoke",
        label: "Revoke",
        page: "team",
        right: In(Area::Settings),
        applies: |row| row["object"] == "invitation",
        request: Request::Own(Own::RevokeInvitation),
        fields: &[],
    },
    Action {
        name: "save",
        label: "Save",
        page: "team",
        right: In(Area::Settings),
        applies: |row| row["object"] == "user",
        request: Request::Own(Own::SetRole),
        fields: &[required("role", "Role", Kind::Choice(ROLES))],
    },
    Action {
        name: "remove",
        label: "Remove",
        page: "team",
        right: In(Area::Settings),
        applies: |row| row["object"] == "user",
        request: Request::Own(Own::RemoveMember),
        fields: &[],
    },
    Action {
        name: "password",
        label: "Save password",
        page: "security",
        right: In(Area::Own),
        applies: |_| true,
        request: Request::Own(Own::ChangePassword),
        fields: &[
            required("current", "Current password", Kind::Password),
            required("password", "New password", Kind::Password),
        ],
    },
    Action {
        name: "factor",
        label: "Turn on",
        page: "security",
        right: In(Area::Own),
        applies: |user| user["hasFactor"] == false,
        request: Request::Own(Own::AddFactor),
        fields: &[required("code", "Code", Kind::Code), required("secret", "Secret", Kind::Hidden)],
    },
    Action {
        name: "recovery-codes",
        label: "Create recovery codes",
        page: "security",
        right: In(Area::Own),
        applies: |user| user["hasFactor"] == true,
        request: Request::Own(Own::ReplaceRecoveryCodes),
        fields: &[required("current", "Current password", Kind::Password)],
    },
    Action {
        name: "remove-factor",
        label: "Turn off",
        page: "security",
        right: In(Area::Own),
        applies: |user| user["hasFactor"] == true,
        request: Request::Own(Own::RemoveFactor),
        fields: &[required("current", "Current password", Kind::Password)],
    },
    Action {
        name: "end",
        label: "End session",
        page: "security",
        right: In(Area::Own),
        applies: |session| session["isCurrent"] == false,
        request: Request::Own(Own::EndSession),
        fields: &[],
    },
];
