//! What users can do: each action is a request of /v1 or a change that only the portal makes, with the form for its fields.

mod portal_changes;
mod v1;

use domain::users::Area;
use foundation::money::Money;
use providers::capabilities::{Permission, State};
use serde_json::Value;

use crate::session::AccountSession;

pub(crate) use portal_changes::MAILS;

/// What is done to an object, or creates one.
pub(crate) struct Action {
    /// In the address.
    pub(crate) name: &'static str,
    /// On the button.
    pub(crate) label: &'static str,
    /// The path of the page: for an object, of its list.
    pub(crate) page: &'static str,
    pub(crate) right: Right,
    /// Whether it changes the object in the address.
    pub(crate) has_object: bool,
    /// Whether it makes sense for an object in this state. Whether it is done is decided elsewhere.
    pub(crate) applies: fn(&Value) -> bool,
    pub(crate) request: Request,
    pub(crate) fields: &'static [Field],
    /// What follows from an action that cannot be undone. It is confirmed on a page of its own, which has its fields.
    pub(crate) consequence: Option<&'static str>,
    /// The most that can be entered as its amount.
    pub(crate) most: fn(&Value) -> Option<Money>,
    /// The path of the page that follows, if it is not that of the object.
    pub(crate) next: Option<&'static str>,
}

/// What the role must include.
#[derive(Clone, Copy)]
pub(crate) enum Right {
    Operation(Permission),
    Area(Area),
}

/// What is requested.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Request {
    V1(V1Request),
    /// A change that only the portal makes, in one transaction with its record.
    Portal(PortalChange),
}

impl Request {
    /// Whether it can be sent again for a nonce whose outcome is not known.
    pub(crate) fn is_idempotent(self) -> bool {
        match self {
            Self::V1(request) => request.is_idempotent(),
            Self::Portal(_) => false,
        }
    }
}

/// A request of /v1.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum V1Request {
    /// `POST /v1/{resource}`, with an idempotency key.
    Create,
    /// `POST /v1/{resource}/{id}`
    Update,
    /// `POST /v1/{resource}/{id}/{name}`
    Post,
    /// As [`Self::Post`], with an `externalId` that makes it idempotent.
    PostOnce,
    /// `DELETE /v1/{resource}/{id}`
    Delete,
    /// `POST /v1/test_clock/advance`
    Advance,
}

impl V1Request {
    /// Whether /v1 does it once for a nonce, however often it is sent, and returns the same result.
    pub(crate) fn is_idempotent(self) -> bool {
        match self {
            Self::Create | Self::PostOnce | Self::Delete => true,
            Self::Update | Self::Post | Self::Advance => false,
        }
    }
}

/// A change that only the portal makes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum PortalChange {
    CreateKey,
    RenameKey,
    RotateKey,
    RevokeKey,
    SetOrigins,
    SaveSettings,
    SaveLogo,
    RemoveLogo,
    SaveMail,
    Invite,
    RevokeInvitation,
    SetRole,
    RemoveMember,
    ChangePassword,
    AddFactor,
    ReplaceRecoveryCodes,
    RemoveFactor,
    AddPasskey,
    RemovePasskey,
    EndSession,
    SetLanguage,
}

/// A field of a form.
pub(crate) struct Field {
    /// In /v1, or in `metadata` for a reason. A path with dots is that of a nested field.
    pub(crate) name: &'static str,
    pub(crate) label: &'static str,
    pub(crate) kind: Kind,
    pub(crate) required: bool,
}

/// What is entered.
#[derive(Clone, Copy)]
pub(crate) enum Kind {
    /// In major units of the object's currency, or of the one entered.
    Amount,
    Currency,
    /// The id of an object of this resource, of which the latest are suggested, and which an address may fill in. A customer
    /// is found by name or e-mail address as well.
    Suggested(&'static str),
    Whole,
    Text,
    /// A text of at most 64 characters.
    Short,
    Email,
    Url,
    /// A date and a time in UTC.
    Time,
    Date,
    /// One of these.
    Choice(&'static [&'static str]),
    /// Any of these.
    Many(fn() -> Vec<&'static str>),
    /// One value per line.
    Lines,
    /// A surcharge, a tax or a tip: a percentage such as 8.25%, or a fixed amount in minor units.
    Modifier,
    /// Stored as `reason` in the metadata.
    Reason,
    /// A text that can be removed.
    Cleared,
    /// Metadata, one pair per line.
    Pairs,
    /// The version of the object that the form shows: the form is refused once the object has another one. Not sent to /v1.
    Version,
    /// A picture file; its hash once it is entered.
    Image,
    Password,
    /// The code of a language, or nothing.
    Language,
    /// The code of a second factor.
    Code,
    /// Not requested.
    Always(i64),
    /// Not shown, and not in the record of the action.
    Hidden,
    /// What the browser says about a new passkey. Its form needs a script.
    Passkey,
}

impl Kind {
    /// Whether what is entered is stored nowhere, not even as a hash.
    pub(crate) fn is_secret(self) -> bool {
        matches!(self, Self::Password | Self::Code | Self::Hidden | Self::Passkey)
    }
}

const fn required(name: &'static str, label: &'static str, kind: Kind) -> Field {
    Field { name, label, kind, required: true }
}

const fn optional(name: &'static str, label: &'static str, kind: Kind) -> Field {
    Field { name, label, kind, required: false }
}

/// An action on no particular object that makes sense in every state, can be undone and has no fields.
const fn action(page: &'static str, name: &'static str, label: &'static str, right: Right, request: Request) -> Action {
    Action {
        name,
        label,
        page,
        right,
        has_object: false,
        applies: |_| true,
        request,
        fields: &[],
        consequence: None,
        most: |_| None,
        next: None,
    }
}

impl Action {
    /// All actions.
    pub(crate) fn all() -> impl Iterator<Item = &'static Self> {
        v1::ACTIONS.iter().chain(&portal_changes::ACTIONS)
    }

    pub(crate) fn find(page: &str, name: &str) -> Option<&'static Self> {
        Self::all().find(|action| action.page == page && action.name == name)
    }

    pub(crate) fn has_amount(&self) -> bool {
        self.fields.iter().any(|field| matches!(field.kind, Kind::Amount))
    }

    /// Whether a file is sent with it.
    pub(crate) fn has_file(&self) -> bool {
        self.fields.iter().any(|field| matches!(field.kind, Kind::Image))
    }

    /// Whether a script fills in its form.
    pub(crate) fn has_passkey(&self) -> bool {
        self.fields.iter().any(|field| matches!(field.kind, Kind::Passkey))
    }

    /// Whether it is refused if the object was changed after the form was shown.
    pub(crate) fn has_version(&self) -> bool {
        self.fields.iter().any(|field| matches!(field.kind, Kind::Version))
    }

    /// Whether the role includes it.
    pub(crate) fn is_allowed(&self, session: &AccountSession) -> bool {
        match self.right {
            Right::Operation(permission) => session.caller.require(permission).is_ok(),
            Right::Area(area) => session.user.role.may(area),
        }
    }

    /// Whether it is offered: the role includes it, and the account has it.
    pub(crate) fn is_offered(&self, session: &AccountSession) -> bool {
        match self.right {
            Right::Operation(permission) => session.caller.grants.state(permission) == State::Active,
            Right::Area(area) => session.user.role.may(area),
        }
    }

    /// In the log.
    pub(crate) fn record_name(&self) -> String {
        match self.right {
            Right::Operation(permission) => permission.name().to_owned(),
            Right::Area(_) => format!("{}.{}", self.page, self.name),
        }
    }
}
